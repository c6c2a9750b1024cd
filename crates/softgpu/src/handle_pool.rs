//! Driver handles while no one watches the pool: numbers instead of blocks.
//!
//! A pool block of this driver is only a unique address. If no log records blocks, a small number
//! does. Allocations, views and resources are numbered by the table that holds them ([`HandleMap`]),
//! and the number is the index of their slot; all other objects by the pool ([`HandlePool`]). Numbers
//! are odd, and addresses of blocks are even, so both kinds can be in one table.
//!
//! # Invariants
//!
//! 1. A number is used by one object at a time, of all tables and the pool. The slot that was freed
//!    last is used next.
//! 2. `HandleMap` holds what has a number of its own in a vector, and all else in an ordered map.

use flight::Pool;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pool or table that numbers an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberedBy {
    Pool = 0,
    Allocations = 1,
    Views = 2,
    Resources = 3,
}

impl NumberedBy {
    /// The driver handle of a slot.
    fn handle(self, slot: usize) -> usize {
        slot << 3 | (self as usize) << 1 | 1
    }

    /// The slot of a driver handle, unless it is the address of a block or another's number.
    fn slot(self, driver_handle: usize) -> Option<usize> {
        (driver_handle & 7 == self.handle(0)).then_some(driver_handle >> 3)
    }
}

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

impl Pool for HandlePool {
    fn allocate_pool(&self, _bytes: usize, _tag: u32) -> Option<usize> {
        let mut slots = self.0.lock();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.count += 1;
            slots.count - 1
        });
        Some(NumberedBy::Pool.handle(slot))
    }

    fn free(&self, block: usize, _tag: u32) {
        let mut slots = self.0.lock();
        if let Some(slot) = NumberedBy::Pool.slot(block) {
            slots.free.push(slot);
        }
    }

    fn has_blocks(&self) -> bool {
        false
    }

    fn refers_to(&self, _block: usize, _driver_handle: usize) -> bool {
        false
    }

    fn inspect(&self, _call: &'static str) {}

    fn close(&self) {}
}

/// Objects by driver handle.
#[derive(Debug)]
pub(crate) struct HandleMap<T> {
    numbered_by: NumberedBy,
    by_slot: Vec<Option<T>>,
    free: Vec<usize>,
    by_address: BTreeMap<usize, T>,
}

impl<T> HandleMap<T> {
    pub(crate) fn new(numbered_by: NumberedBy) -> Self {
        Self { numbered_by, by_slot: Vec::new(), free: Vec::new(), by_address: BTreeMap::new() }
    }

    /// Adds the object that `make` makes of its driver handle: the address of the block, or else a
    /// new number. Returns the handle.
    pub(crate) fn insert(&mut self, block: Option<usize>, make: impl FnOnce(usize) -> T) -> usize {
        if let Some(block) = block {
            self.by_address.insert(block, make(block));
            return block;
        }
        let slot = self.free.pop().unwrap_or(self.by_slot.len());
        let driver_handle = self.numbered_by.handle(slot);
        let object = Some(make(driver_handle));
        match self.by_slot.get_mut(slot) {
            Some(free) => *free = object,
            None => self.by_slot.push(object),
        }
        driver_handle
    }

    pub(crate) fn get(&self, driver_handle: usize) -> Option<&T> {
        match self.numbered_by.slot(driver_handle) {
            Some(slot) => self.by_slot.get(slot)?.as_ref(),
            None => self.by_address.get(&driver_handle),
        }
    }

    /// Removes an object, and its number.
    pub(crate) fn remove(&mut self, driver_handle: usize) -> Option<T> {
        let Some(slot) = self.numbered_by.slot(driver_handle) else {
            return self.by_address.remove(&driver_handle);
        };
        let removed = self.by_slot.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(removed)
    }

    /// Whether the object with this handle has a block.
    pub(crate) fn has_block(&self, driver_handle: usize) -> bool {
        self.numbered_by.slot(driver_handle).is_none()
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
    fn numbers_and_addresses_are_found_in_one_map() {
        let mut map = HandleMap::new(NumberedBy::Views);
        let (first, second) = (map.insert(None, |it| it), map.insert(None, |it| it));
        let of_pool = NumberedBy::Pool.handle(3);
        assert_eq!(map.insert(Some(0x1000), |it| it), 0x1000);
        assert_eq!(map.insert(Some(of_pool), |it| it), of_pool);
        for handle in [first, second, 0x1000, of_pool] {
            assert_eq!(map.get(handle), Some(&handle));
            assert_eq!(map.has_block(handle), ![first, second].contains(&handle));
        }
        let others = [NumberedBy::Allocations.handle(0), NumberedBy::Views.handle(2), 6];
        for handle in others {
            assert_eq!(map.get(handle), None);
            assert_eq!(map.remove(handle), None);
        }
        for handle in [first, 0x1000, of_pool] {
            assert_eq!((map.remove(handle), map.remove(handle)), (Some(handle), None));
        }
        assert_eq!(map.insert(None, |it| it), first, "the slot is used again");
        assert_eq!(map.get(second), Some(&second));
    }

    #[test]
    fn no_two_objects_have_the_same_number() {
        let pool = HandlePool::new();
        let mut allocations = HandleMap::new(NumberedBy::Allocations);
        let mut views = HandleMap::new(NumberedBy::Views);
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..100 {
            assert!(all.insert(pool.allocate_pool(64, 1).unwrap()));
            assert!(all.insert(allocations.insert(None, |_| ())));
            assert!(all.insert(views.insert(None, |_| ())));
        }
        assert!(all.iter().all(|number| number % 2 == 1), "addresses are even");
    }
}
