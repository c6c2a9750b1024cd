//! The engines' cache of translations, valid until it is invalidated.
//!
//! # Invariants
//!
//! 1. Only `forget`, `reset` and eviction remove a translation: a change of a table does not.
//! 2. Only successful translations are cached; a fault is looked up again.

use flight::TableEntry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// How many translations are cached at most.
pub(crate) const CAPACITY: usize = 512;

/// The segment and the offset of a root: identifies the address space.
pub(crate) type RootKey = (u32, u64);

/// Translations, by root and page.
#[derive(Debug, Default)]
pub(crate) struct Tlb {
    known: BTreeMap<(RootKey, u64), TableEntry>,
    /// The same, oldest first.
    insertion_order: VecDeque<(RootKey, u64)>,
}

impl Tlb {
    /// The cached translation of a page.
    pub(crate) fn find(&self, whose: RootKey, page: u64) -> Option<TableEntry> {
        self.known.get(&(whose, page)).copied()
    }

    /// Caches a translation; evicts the oldest if the cache is full.
    pub(crate) fn remember(&mut self, whose: RootKey, page: u64, entry: TableEntry) {
        if self.known.insert((whose, page), entry).is_none() {
            self.insertion_order.push_back((whose, page));
        }
        while self.insertion_order.len() > CAPACITY {
            let oldest = self.insertion_order.pop_front();
            oldest.map(|pair| self.known.remove(&pair));
        }
    }

    /// Invalidates pages of a root.
    pub(crate) fn forget(&mut self, whose: RootKey, pages: &Range<u64>) {
        let goes = |pair: &(RootKey, u64)| pair.0 == whose && pages.contains(&pair.1);
        self.insertion_order.retain(|pair| !goes(pair));
        self.known.retain(|it, _| !goes(it));
    }

    /// Invalidates everything, as a power-on does.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RootKey = (3, 0x1000);
    const OTHER: RootKey = (3, 0x2000);

    fn entry(page: u64) -> TableEntry {
        TableEntry { valid: true, page, ..TableEntry::default() }
    }

    #[test]
    fn roots_have_translations_of_their_own() {
        let mut tlb = Tlb::default();
        tlb.remember(ONE, 7, entry(1));
        tlb.remember(OTHER, 7, entry(2));
        assert_eq!((tlb.find(ONE, 7), tlb.find(OTHER, 7)), (Some(entry(1)), Some(entry(2))));
        assert_eq!(tlb.find(ONE, 8), None);
        tlb.forget(ONE, &(0..u64::MAX));
        assert_eq!((tlb.find(ONE, 7), tlb.find(OTHER, 7)), (None, Some(entry(2))));
        tlb.reset();
        assert_eq!(tlb.find(OTHER, 7), None);
    }

    #[test]
    fn a_range_ends_before_its_end() {
        let mut tlb = Tlb::default();
        for page in 0..4 {
            tlb.remember(ONE, page, entry(page));
        }
        tlb.forget(ONE, &(1..3));
        let left: Vec<u64> = (0..4).filter(|value| tlb.find(ONE, *value).is_some()).collect();
        assert_eq!(left, [0, 3]);
        tlb.forget(ONE, &(0..0));
        assert!(tlb.find(ONE, 0).is_some(), "no pages are no pages");
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut tlb = Tlb::default();
        for page in 0..=CAPACITY as u64 {
            tlb.remember(ONE, page, entry(page));
            tlb.remember(ONE, page, entry(page));
        }
        assert_eq!((tlb.find(ONE, 0), tlb.find(ONE, 1)), (None, Some(entry(1))));
    }
}
