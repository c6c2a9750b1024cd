//! Words for a miniport in Rust: each is the address of a block of pool memory, as in most
//! drivers in C, so the pool sees what is forgotten and what is ended twice.

use flight::Pool;
use kernel::miniport::{Answer, Refusal};
use kernel::services::Services;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

/// How large a block is, and its tag.
const SIZE: usize = 32;
const TAG: u32 = u32::from_le_bytes(*b"Word");

/// The words of a driver for what it makes. They come out of its adapter's pool, so there are
/// none before [`meet`](Words::meet) and after [`part`](Words::part).
#[derive(Default)]
pub struct Words {
    services: Mutex<Option<Arc<Services>>>,
}

impl Words {
    /// The adapter is there (`add_device`).
    pub fn meet(&self, services: &Arc<Services>) -> Answer<()> {
        self.set(Some(services.clone()));
        Ok(())
    }

    /// The adapter goes (`remove_device`).
    pub fn part(&self) -> Answer<()> {
        self.set(None);
        Ok(())
    }

    /// The services that came with the adapter.
    pub fn services(&self) -> Answer<Arc<Services>> {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.clone().ok_or(Refusal::Invalid)
    }

    /// A new word.
    pub fn one(&self) -> Answer<usize> {
        self.take(1)?.next().ok_or(Refusal::NoMemory)
    }

    /// So many new words, or none at all.
    pub fn take(&self, count: usize) -> Answer<IntoIter<usize>> {
        let services = self.services()?;
        take(&**services.pool(), count)
    }

    /// Ends words.
    pub fn free(&self, words: impl IntoIterator<Item = usize>) -> Answer<()> {
        let services = self.services()?;
        words.into_iter().for_each(|it| services.pool().free(it, TAG));
        Ok(())
    }

    fn set(&self, services: Option<Arc<Services>>) {
        *self.services.lock().unwrap_or_else(PoisonError::into_inner) = services;
    }
}

fn take(pool: &dyn Pool, count: usize) -> Answer<IntoIter<usize>> {
    let blocks: Vec<usize> = (0..count).map_while(|_| pool.take(SIZE, TAG)).collect();
    if blocks.len() < count {
        blocks.into_iter().rev().for_each(|it| pool.free(it, TAG));
        return Err(Refusal::NoMemory);
    }
    Ok(blocks.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of a few blocks, and what was freed.
    struct Few(usize, Mutex<(usize, Vec<usize>)>);

    impl Pool for Few {
        fn take(&self, _bytes: usize, _tag: u32) -> Option<usize> {
            let taken = &mut self.1.lock().unwrap().0;
            *taken += 1;
            (*taken <= self.0).then_some(*taken)
        }

        fn free(&self, block: usize, _tag: u32) {
            self.1.lock().unwrap().1.push(block);
        }

        fn refers(&self, _block: usize, _word: usize) -> bool {
            false
        }

        fn inspect(&self) {}

        fn close(&self) {}
    }

    #[test]
    fn all_are_taken_or_none() {
        let pool = Few(3, Mutex::default());
        assert_eq!(take(&pool, 2).unwrap().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(take(&pool, 2).err(), Some(Refusal::NoMemory));
        assert_eq!(pool.1.lock().unwrap().1, [3], "what the failed call took");
    }

    #[test]
    fn without_an_adapter_there_are_none() {
        let words = Words::default();
        assert_eq!(words.one(), Err(Refusal::Invalid));
        assert_eq!(words.free([1]), Err(Refusal::Invalid));
    }
}
