//! Driver handles while no one watches the pool: numbers instead of blocks.
//!
//! A pool block of this driver is only a unique address. If no log records blocks, a small number
//! does: it is the index of a slot in the driver's tables ([`HandleMap`]). Handles of slots are odd,
//! and addresses of blocks are even, so both kinds can be in one table.
//!
//! # Invariants
//!
//! 1. A slot is used by one object at a time. The slot that was freed last is used next.
//! 2. `HandleMap` holds odd handles in a vector and even ones in an ordered map.

use flight::Pool;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A pool without memory, for the built-in driver: each block is the number of a slot.
#[derive(Debug, Default)]
pub struct HandlePool(Mutex<Slots>);

#[derive(Debug, Default)]
struct Slots {
    free: Vec<usize>,
    count: usize,
}

impl HandlePool {
    /// A pool of which no slot is used.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }
}

/// The driver handle of a slot.
fn handle_of(slot: usize) -> usize {
    slot << 1 | 1
}

/// The slot of a driver handle, unless it is the address of a block.
fn slot_of(driver_handle: usize) -> Option<usize> {
    (driver_handle & 1 == 1).then_some(driver_handle >> 1)
}

impl Pool for HandlePool {
    fn allocate_pool(&self, _bytes: usize, _tag: u32) -> Option<usize> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.count += 1;
            slots.count - 1
        });
        Some(handle_of(slot))
    }

    fn free(&self, block: usize, _tag: u32) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slot_of(block) {
            slots.free.push(slot);
        }
    }

    fn refers_to(&self, _block: usize, _driver_handle: usize) -> bool {
        false
    }

    fn inspect(&self) {}

    fn close(&self) {}
}

/// Objects by driver handle.
#[derive(Debug)]
pub(crate) struct HandleMap<T> {
    by_slot: Vec<Option<T>>,
    by_address: BTreeMap<usize, T>,
}

impl<T> Default for HandleMap<T> {
    fn default() -> Self {
        Self { by_slot: Vec::new(), by_address: BTreeMap::new() }
    }
}

impl<T> HandleMap<T> {
    pub(crate) fn insert(&mut self, driver_handle: usize, object: T) {
        let Some(slot) = slot_of(driver_handle) else {
            self.by_address.insert(driver_handle, object);
            return;
        };
        if slot >= self.by_slot.len() {
            self.by_slot.resize_with(slot + 1, || None);
        }
        self.by_slot[slot] = Some(object);
    }

    pub(crate) fn get(&self, driver_handle: usize) -> Option<&T> {
        match slot_of(driver_handle) {
            Some(slot) => self.by_slot.get(slot)?.as_ref(),
            None => self.by_address.get(&driver_handle),
        }
    }

    pub(crate) fn remove(&mut self, driver_handle: usize) -> Option<T> {
        match slot_of(driver_handle) {
            Some(slot) => self.by_slot.get_mut(slot)?.take(),
            None => self.by_address.remove(&driver_handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_by_one_object_at_a_time() {
        let pool = HandlePool::new();
        let allocate = || pool.allocate_pool(64, 1).unwrap();
        let (first, second) = (allocate(), allocate());
        assert_ne!(first, second);
        pool.free(first, 1);
        assert_eq!(allocate(), first);
        assert!(![first, second].contains(&allocate()));
    }

    #[test]
    fn slots_and_addresses_are_found_in_one_map() {
        let mut map = HandleMap::default();
        for handle in [handle_of(0), handle_of(5), 0x1000] {
            map.insert(handle, handle);
        }
        assert_eq!((map.get(handle_of(5)), map.get(0x1000)), (Some(&handle_of(5)), Some(&0x1000)));
        assert_eq!((map.get(handle_of(3)), map.get(handle_of(6)), map.get(6)), (None, None, None));
        assert_eq!(
            (map.remove(handle_of(5)), map.remove(0x1000)),
            (Some(handle_of(5)), Some(0x1000))
        );
        assert_eq!((map.remove(handle_of(5)), map.remove(0x1000)), (None, None));
        assert_eq!(map.get(handle_of(0)), Some(&handle_of(0)));
    }
}
