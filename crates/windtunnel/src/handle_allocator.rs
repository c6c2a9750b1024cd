//! Words for a miniport in Rust: each is the address of a block of pool memory, as in most
//! drivers in C, so the pool sees what is forgotten and what is ended twice.

use flight::Pool;
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverResult};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

/// How large a block is, and its tag.
const SIZE: usize = 32;
const TAG: u32 = u32::from_le_bytes(*b"Word");

/// The words of a driver for what it makes. They come out of its adapter's pool, so there are
/// none before [`attach`](Words::meet) and after [`part`](Words::part).
#[derive(Default)]
pub struct HandleAllocator {
    services: Mutex<Option<Arc<KernelCallbacks>>>,
}

impl HandleAllocator {
    /// The adapter is there (`add_device`).
    pub fn attach(&self, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.set_services(Some(services.clone()));
        Ok(())
    }

    /// The adapter goes (`remove_device`).
    pub fn detach(&self) -> DriverResult<()> {
        self.set_services(None);
        Ok(())
    }

    /// The services that came with the adapter.
    pub fn services(&self) -> DriverResult<Arc<KernelCallbacks>> {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.clone().ok_or(DriverError::Invalid)
    }

    /// A new word.
    pub fn allocate_one(&self) -> DriverResult<usize> {
        self.allocate(1)?.next().ok_or(DriverError::NoMemory)
    }

    /// So many new words, or none at all.
    pub fn allocate(&self, count: usize) -> DriverResult<IntoIter<usize>> {
        let services = self.services()?;
        allocate_blocks(&**services.pool(), count)
    }

    /// Ends words.
    pub fn free(&self, words: impl IntoIterator<Item = usize>) -> DriverResult<()> {
        let services = self.services()?;
        words.into_iter().for_each(|index| services.pool().free(index, TAG));
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

    /// A pool of a few blocks, and what was freed.
    struct Few(usize, Mutex<(usize, Vec<usize>)>);

    impl Pool for Few {
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

        fn inspect(&self) {}

        fn close(&self) {}
    }

    #[test]
    fn all_are_taken_or_none() {
        let pool = Few(3, Mutex::default());
        assert_eq!(allocate_blocks(&pool, 2).unwrap().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(allocate_blocks(&pool, 2).err(), Some(DriverError::NoMemory));
        assert_eq!(pool.1.lock().unwrap().1, [3], "what the failed call took");
    }

    #[test]
    fn without_an_adapter_there_are_none() {
        let words = HandleAllocator::default();
        assert_eq!(words.allocate_one(), Err(DriverError::Invalid));
        assert_eq!(words.free([1]), Err(DriverError::Invalid));
    }
}
