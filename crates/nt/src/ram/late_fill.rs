//! Fills that wait for the first access to a page: memory with arbitrary initial contents costs
//! only the pages that a flight uses.

use super::PAGE;
use super::backing_store::BackingStore;
use super::page_runs::PageBits;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pages that are not filled yet, and the pattern of all of them.
#[derive(Debug)]
pub(super) struct LateFill {
    waiting: PageBits,
    pattern: Mutex<u32>,
}

impl LateFill {
    pub(super) fn new(bytes: u64) -> Self {
        Self { waiting: PageBits::new(bytes), pattern: Mutex::default() }
    }

    /// Lets these pages wait. Returns false if others wait for another pattern.
    pub(super) fn defer(&self, offset: u64, bytes: u64, pattern: u32) -> bool {
        let mut current = self.pattern();
        if *current != pattern && !self.waiting.is_empty() {
            return false;
        }
        *current = pattern;
        self.waiting.set(offset, bytes, true);
        true
    }

    /// Fills those of these pages that wait.
    pub(super) fn finish(&self, store: &BackingStore, offset: u64, bytes: u64) {
        if !self.waits(offset, bytes) {
            return;
        }
        let pattern = self.pattern();
        let (first, end) = (offset / PAGE, offset.saturating_add(bytes).div_ceil(PAGE));
        for page in (first..end).map(|index| index * PAGE) {
            if self.waits(page, PAGE)
                && let Some(span) = store.span(page, PAGE)
            {
                store.fill(span, *pattern);
                self.waiting.set(page, PAGE, false);
            }
        }
    }

    /// Whether one of these pages is not filled yet.
    pub(super) fn waits(&self, offset: u64, bytes: u64) -> bool {
        self.waiting.intersects(offset, bytes)
    }

    /// The pages are freed.
    pub(super) fn forget(&self, offset: u64, bytes: u64) {
        let _pattern = self.pattern();
        self.waiting.set(offset, bytes, false);
    }

    fn pattern(&self) -> MutexGuard<'_, u32> {
        self.pattern.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
