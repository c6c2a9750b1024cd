//! Driver handles for a miniport in Rust. Each handle is the address of a pool block, as in most
//! drivers in C, so the pool detects leaks and double frees.

use flight::Pool;
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverResult};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

/// Size and tag of a block.
const SIZE: usize = 32;
const TAG: u32 = u32::from_le_bytes(*b"Word");

/// Allocates driver handles from the adapter's pool. Calls fail before [`attach`](Self::attach)
/// and after [`detach`](Self::detach).
#[derive(Default)]
pub struct HandleAllocator {
    services: Mutex<Option<Arc<KernelCallbacks>>>,
}

impl HandleAllocator {
    /// Stores the adapter's callbacks; call it from `add_device`.
    pub fn attach(&self, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.set_services(Some(services.clone()));
        Ok(())
    }

    /// Drops the adapter's callbacks; call it from `remove_device`.
    pub fn detach(&self) -> DriverResult<()> {
        self.set_services(None);
        Ok(())
    }

    /// The adapter's callbacks.
    pub fn services(&self) -> DriverResult<Arc<KernelCallbacks>> {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.clone().ok_or(DriverError::Invalid)
    }

    /// Allocates a handle. Fails with [`DriverError::NoMemory`].
    pub fn allocate_one(&self) -> DriverResult<usize> {
        self.allocate(1)?.next().ok_or(DriverError::NoMemory)
    }

    /// Allocates `count` handles, or none if the pool has no memory.
    pub fn allocate(&self, count: usize) -> DriverResult<IntoIter<usize>> {
        let services = self.services()?;
        allocate_blocks(&**services.pool(), count)
    }

    /// Frees handles.
    pub fn free(&self, handles: impl IntoIterator<Item = usize>) -> DriverResult<()> {
        let services = self.services()?;
        handles.into_iter().for_each(|handle| services.pool().free(handle, TAG));
        Ok(())
    }

    fn set_services(&self, services: Option<Arc<KernelCallbacks>>) {
        *self.services.lock().unwrap_or_else(PoisonError::into_inner) = services;
    }
}

fn allocate_blocks(pool: &dyn Pool, count: usize) -> DriverResult<IntoIter<usize>> {
    let blocks: Vec<usize> = (0..count).map_while(|_| pool.allocate_pool(SIZE, TAG)).collect();
    if blocks.len() < count {
        blocks.into_iter().rev().for_each(|index| pool.free(index, TAG));
        return Err(DriverError::NoMemory);
    }
    Ok(blocks.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool with a few blocks that records what was freed.
    struct LimitedPool(usize, Mutex<(usize, Vec<usize>)>);

    impl Pool for LimitedPool {
        fn allocate_pool(&self, _bytes: usize, _tag: u32) -> Option<usize> {
            let taken = &mut self.1.lock().unwrap().0;
            *taken += 1;
            (*taken <= self.0).then_some(*taken)
        }

        fn free(&self, block: usize, _tag: u32) {
            self.1.lock().unwrap().1.push(block);
        }

        fn refers_to(&self, _block: usize, _word: usize) -> bool {
            false
        }

        fn inspect(&self, _call: &'static str) {}

        fn close(&self) {}
    }

    #[test]
    fn all_are_taken_or_none() {
        let pool = LimitedPool(3, Mutex::default());
        assert_eq!(allocate_blocks(&pool, 2).unwrap().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(allocate_blocks(&pool, 2).err(), Some(DriverError::NoMemory));
        assert_eq!(pool.1.lock().unwrap().1, [3], "the block that the failed call took");
    }

    #[test]
    fn without_an_adapter_there_are_none() {
        let allocator = HandleAllocator::default();
        assert_eq!(allocator.allocate_one(), Err(DriverError::Invalid));
        assert_eq!(allocator.free([1]), Err(DriverError::Invalid));
    }
}
