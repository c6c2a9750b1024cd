//! The allocated and the free pages.
//!
//! # Invariants
//!
//! 1. `free` and `by_size` have the same runs; no two of them are adjacent.
//! 2. A page is in a run of `free`, in a run of `allocated`, or between `end` and `free`.

use super::PAGE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// The runs, by offset. The same calls in the same order return the same results.
#[derive(Debug)]
pub(super) struct PageRuns {
    free: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    allocated: BTreeMap<u64, u64>,
}

impl PageRuns {
    pub(super) fn new(bytes: u64) -> Self {
        let (free, by_size, taken) = Default::default();
        let mut pages = Self { free, by_size, allocated: taken };
        pages.add(0, bytes);
        pages
    }

    /// Number of allocated bytes.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated.values().sum()
    }

    /// Allocates a run from the smallest free run that is large enough, and the first of those.
    pub(super) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let (size, offset) = *self.by_size.range((bytes, 0)..).next()?;
        self.remove(offset, size);
        self.add(offset + bytes, size - bytes);
        self.allocated.insert(offset, bytes);
        Some(offset)
    }

    /// Ends an allocated run without making it free. Returns false if there is no run with exactly
    /// this offset and size.
    pub(super) fn end(&mut self, offset: u64, bytes: u64) -> bool {
        let known = self.allocated.get(&offset) == Some(&bytes);
        if known {
            self.allocated.remove(&offset);
        }
        known
    }

    /// Makes an ended run free, and merges it with adjacent free runs.
    pub(super) fn free(&mut self, mut offset: u64, mut bytes: u64) {
        if let Some((&before, &size)) = self.free.range(..offset).next_back()
            && before + size == offset
        {
            self.remove(before, size);
            (offset, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.free.get(&(offset + bytes)) {
            self.remove(offset + bytes, size);
            bytes += size;
        }
        self.add(offset, bytes);
    }

    fn add(&mut self, offset: u64, bytes: u64) {
        if bytes != 0 {
            self.free.insert(offset, bytes);
            self.by_size.insert((bytes, offset));
        }
    }

    fn remove(&mut self, offset: u64, bytes: u64) {
        self.free.remove(&offset);
        self.by_size.remove(&(bytes, offset));
    }
}

/// One bit for each page, for example whether the page may be accessed. Read without a lock.
#[derive(Debug)]
pub(super) struct PageBits(Box<[AtomicU64]>);

impl PageBits {
    pub(super) fn new(bytes: u64) -> Self {
        let words = (bytes / PAGE).div_ceil(64);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether the bits of all pages of these bytes are set.
    pub(super) fn covers(&self, offset: u64, bytes: u64) -> bool {
        bytes == 0 || words(offset, bytes).all(|(word, mask)| self.word(word) & mask == mask)
    }

    /// Whether the bit of one of these pages is set.
    pub(super) fn intersects(&self, offset: u64, bytes: u64) -> bool {
        bytes != 0 && words(offset, bytes).any(|(word, mask)| self.word(word) & mask != 0)
    }

    /// Whether no bit is set.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::SeqCst) == 0)
    }

    /// Sets or clears the bits of these pages.
    pub(super) fn set(&self, offset: u64, bytes: u64, value: bool) {
        for (word, mask) in words(offset, bytes) {
            let Some(word) = self.0.get(word) else { continue };
            if value {
                word.fetch_or(mask, Ordering::SeqCst);
            } else {
                word.fetch_and(!mask, Ordering::SeqCst);
            }
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |atomic_u64| atomic_u64.load(Ordering::SeqCst))
    }
}

/// The indices and bit masks for the pages of these bytes, which are at least one.
fn words(offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    let first = offset / PAGE;
    let end = offset.saturating_add(bytes).div_ceil(PAGE);
    (first / 64..end.div_ceil(64)).map(move |word| {
        let low = first.saturating_sub(word * 64).min(63);
        let count = (end - word * 64).min(64) - low;
        let mask = u64::MAX >> (64 - count) << low;
        (usize::try_from(word).unwrap_or(usize::MAX), mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_from_the_tightest_place_and_join_again() {
        let mut pages = PageRuns::new(10 * PAGE);
        let all: Vec<_> = [2, 3, 1, 4].map(|value| pages.allocate(value * PAGE).unwrap()).into();
        assert_eq!(all, [0, 2 * PAGE, 5 * PAGE, 6 * PAGE]);
        assert_eq!(pages.allocate(PAGE), None);
        for (offset, bytes) in [(0, 2), (5 * PAGE, 1)] {
            assert!(pages.end(offset, bytes * PAGE));
            pages.free(offset, bytes * PAGE);
        }
        assert_eq!(pages.allocate(PAGE), Some(5 * PAGE), "not the larger one before it");
        assert!(!pages.end(2 * PAGE, PAGE), "not as it was taken");
        for (offset, bytes) in [(2 * PAGE, 3), (5 * PAGE, 1), (6 * PAGE, 4)] {
            assert!(pages.end(offset, bytes * PAGE));
            pages.free(offset, bytes * PAGE);
        }
        assert_eq!(pages.free, BTreeMap::from([(0, 10 * PAGE)]));
        assert_eq!(pages.allocate(10 * PAGE), Some(0));
    }

    #[test]
    fn live_pages_are_known_one_by_one() {
        let live = PageBits::new(200 * PAGE);
        live.set(3 * PAGE, 130 * PAGE, true);
        assert!(live.covers(3 * PAGE, 130 * PAGE) && live.covers(64 * PAGE - 1, 2));
        assert!(!live.covers(3 * PAGE - 1, 2) && !live.covers(132 * PAGE, PAGE + 1));
        live.set(64 * PAGE, PAGE, false);
        assert!(!live.covers(3 * PAGE, 130 * PAGE) && live.covers(65 * PAGE, 68 * PAGE));
        assert!(!live.covers(199 * PAGE, 5 * PAGE) && !live.covers(u64::MAX - 1, 1));
    }
}
