//! Pool blocks: one for each object of the driver. The block's address is the driver handle.

use flight::Pool;
use kernel::miniport::{DriverError, DriverResult};
use smallvec::SmallVec;

const SIZE: usize = 64;
const TAG: u32 = u32::from_le_bytes(*b"Wtsg");

/// The blocks that the current call has allocated.
pub(crate) struct Blocks<'a> {
    pool: &'a dyn Pool,
    allocated: SmallVec<[usize; 2]>,
}

/// Builds an object. If `body` fails, the blocks it allocated are freed, last first.
pub(crate) fn build<T>(
    pool: &dyn Pool,
    body: impl FnOnce(&mut Blocks<'_>) -> DriverResult<T>,
) -> DriverResult<T> {
    let mut blocks = Blocks { pool, allocated: SmallVec::new() };
    let built = body(&mut blocks);
    if built.is_err() {
        blocks.allocated.reverse();
        free(pool, &blocks.allocated);
    }
    built
}

/// Frees the blocks of objects that have ended, in this order.
pub(crate) fn free(pool: &dyn Pool, blocks: &[usize]) {
    for &block in blocks {
        pool.free(block, TAG);
    }
}

impl Blocks<'_> {
    /// Allocates a block and returns the new driver handle.
    pub(crate) fn allocate(&mut self) -> DriverResult<usize> {
        let block = self.pool.allocate_pool(SIZE, TAG).ok_or(DriverError::NoMemory)?;
        self.allocated.push(block);
        Ok(block)
    }

    /// Frees a block for which no object was created.
    pub(crate) fn free(&mut self, block: usize) {
        if let Some(at) = self.allocated.iter().position(|index| *index == block) {
            self.allocated.remove(at);
            free(self.pool, &[block]);
        }
    }
}

/// The blocks of objects that their tables number, if the pool has no blocks.
pub(crate) struct ObjectBlocks<'a, 'b>(pub(crate) Option<&'a mut Blocks<'b>>);

impl ObjectBlocks<'_, '_> {
    /// Allocates a block, unless objects are numbered.
    pub(crate) fn allocate(&mut self) -> DriverResult<Option<usize>> {
        self.0.as_mut().map(|blocks| blocks.allocate()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A pool of a few blocks that records requests: `+` allocates, `-` frees.
    struct LimitedPool(usize, Mutex<Vec<String>>);

    impl Pool for LimitedPool {
        fn allocate_pool(&self, bytes: usize, tag: u32) -> Option<usize> {
            assert_eq!((bytes, tag.to_le_bytes()), (64, *b"Wtsg"));
            let mut said = self.1.lock().unwrap();
            let block = said.len() + 1;
            said.push(format!("+{block}"));
            (block <= self.0).then_some(block)
        }

        fn free(&self, block: usize, tag: u32) {
            assert_eq!(tag.to_le_bytes(), *b"Wtsg");
            self.1.lock().unwrap().push(format!("-{block}"));
        }

        fn refers_to(&self, _block: usize, _word: usize) -> bool {
            false
        }

        fn inspect(&self, _call: &'static str) {}

        fn close(&self) {}
    }

    fn check(size: usize, body: impl FnOnce(&mut Blocks<'_>) -> DriverResult<()>, said: &str) {
        let pool = LimitedPool(size, Mutex::default());
        let _ = build(&pool, body);
        assert_eq!(pool.1.into_inner().unwrap().join(" "), said);
    }

    fn three(blocks: &mut Blocks<'_>) -> DriverResult<()> {
        (0..3).try_for_each(|_| blocks.allocate().map(drop))
    }

    #[test]
    fn what_was_built_keeps_its_blocks() {
        check(3, three, "+1 +2 +3");
    }

    #[test]
    fn a_block_given_back_goes_once() {
        let body = |blocks: &mut Blocks<'_>| {
            three(blocks)?;
            blocks.free(2);
            blocks.free(2);
            Err(DriverError::Invalid)
        };
        check(3, body, "+1 +2 +3 -2 -3 -1");
    }

    #[test]
    fn what_was_refused_gives_them_back_the_last_first() {
        check(3, |blocks| three(blocks).and(Err(DriverError::Invalid)), "+1 +2 +3 -3 -2 -1");
        check(2, three, "+1 +2 +3 -2 -1");
        check(0, three, "+1");
    }
}
