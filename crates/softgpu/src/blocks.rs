//! Pool blocks: one for each thing the driver makes, and its address is the thing's word.

use flight::Pool;
use kernel::miniport::{Answer, Refusal};

const SIZE: usize = 64;
const TAG: u32 = u32::from_le_bytes(*b"Wtsg");

/// The blocks that a call under way has taken.
pub(crate) struct Blocks<'a> {
    pool: &'a dyn Pool,
    taken: Vec<usize>,
}

/// Builds something. If `body` refuses, the blocks it took go back, the last first.
pub(crate) fn build<T>(
    pool: &dyn Pool,
    body: impl FnOnce(&mut Blocks<'_>) -> Answer<T>,
) -> Answer<T> {
    let mut blocks = Blocks { pool, taken: Vec::new() };
    let built = body(&mut blocks);
    if built.is_err() {
        blocks.taken.reverse();
        free(pool, &blocks.taken);
    }
    built
}

/// Gives back blocks whose things have ended, in this order.
pub(crate) fn free(pool: &dyn Pool, blocks: &[usize]) {
    for &block in blocks {
        pool.free(block, TAG);
    }
}

impl Blocks<'_> {
    /// Takes a block and answers the new word.
    pub(crate) fn take(&mut self) -> Answer<usize> {
        let block = self.pool.take(SIZE, TAG).ok_or(Refusal::NoMemory)?;
        self.taken.push(block);
        Ok(block)
    }

    /// Gives back one of them, which nothing was made of after all.
    pub(crate) fn give_back(&mut self, block: usize) {
        if let Some(at) = self.taken.iter().position(|it| *it == block) {
            self.taken.remove(at);
            free(self.pool, &[block]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A pool of a few blocks, and what was asked of it: `+` takes, `-` frees.
    struct Few(usize, Mutex<Vec<String>>);

    impl Pool for Few {
        fn take(&self, bytes: usize, tag: u32) -> Option<usize> {
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

        fn refers(&self, _block: usize, _word: usize) -> bool {
            false
        }

        fn inspect(&self) {}

        fn close(&self) {}
    }

    fn check(size: usize, body: impl FnOnce(&mut Blocks<'_>) -> Answer<()>, said: &str) {
        let pool = Few(size, Mutex::default());
        let _ = build(&pool, body);
        assert_eq!(pool.1.into_inner().unwrap().join(" "), said);
    }

    fn three(blocks: &mut Blocks<'_>) -> Answer<()> {
        (0..3).try_for_each(|_| blocks.take().map(drop))
    }

    #[test]
    fn what_was_built_keeps_its_blocks() {
        check(3, three, "+1 +2 +3");
    }

    #[test]
    fn a_block_given_back_goes_once() {
        let body = |blocks: &mut Blocks<'_>| {
            three(blocks)?;
            blocks.give_back(2);
            blocks.give_back(2);
            Err(Refusal::Invalid)
        };
        check(3, body, "+1 +2 +3 -2 -3 -1");
    }

    #[test]
    fn what_was_refused_gives_them_back_the_last_first() {
        check(3, |blocks| three(blocks).and(Err(Refusal::Invalid)), "+1 +2 +3 -3 -2 -1");
        check(2, three, "+1 +2 +3 -2 -1");
        check(0, three, "+1");
    }
}
