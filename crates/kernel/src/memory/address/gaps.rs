//! Free address spans. The lowest one that is large enough is found without visiting each.
//!
//! # Invariants
//!
//! 1. Gaps are not adjacent: between two of them addresses are in use.
//! 2. Each gap is also listed by its size, rounded down to a power of two.

use flight::invariant;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range as Span;

/// The free spans.
#[derive(Debug)]
pub(crate) struct AddressGaps {
    /// The end of each gap, by its start.
    ends: BTreeMap<u64, u64>,
    /// The starts of the gaps of a size, by the logarithm of the size.
    sizes: BTreeMap<u32, BTreeSet<u64>>,
}

impl AddressGaps {
    /// A set in which the whole span is free.
    pub(crate) fn new(all: Span<u64>) -> Self {
        let mut it = Self { ends: BTreeMap::new(), sizes: BTreeMap::new() };
        it.add(all);
        it
    }

    /// The lowest multiple of `step` at or above `from` that starts `size` free addresses.
    pub(crate) fn find(&self, size: u64, step: u64, from: u64) -> Option<u64> {
        if size == 0 {
            return None;
        }
        let fits = |start: u64, end: u64| {
            let at = start.max(from).checked_next_multiple_of(step)?;
            (at.checked_add(size)? <= end).then_some(at)
        };
        // The gap that contains `from` may begin before it.
        let around = self.ends.range(..from).next_back().and_then(|pair| fits(*pair.0, *pair.1));
        let waits = |starts: &BTreeSet<u64>| {
            starts.range(from..).find_map(|start| fits(*start, *self.ends.get(start)?))
        };
        around.or_else(|| self.sizes.range(size.ilog2()..).filter_map(|pair| waits(pair.1)).min())
    }

    /// Removes a span from the gap that contains it.
    pub(crate) fn take(&mut self, span: &Span<u64>) {
        // Addresses below the first gap are never free.
        let Some((start, end)) = self.ends.range(..=span.start).next_back() else { return };
        let gap = *start..*end;
        self.remove(&gap);
        self.add(gap.start..span.start);
        self.add(span.end..gap.end);
    }

    /// Adds a span and merges it with adjacent gaps.
    pub(crate) fn insert(&mut self, span: Span<u64>) {
        let mut gap = span;
        let before = self.ends.range(..gap.start).next_back().map(|pair| *pair.0..*pair.1);
        if let Some(before) = before.filter(|range| range.end == gap.start) {
            self.remove(&before);
            gap.start = before.start;
        }
        if let Some(end) = self.ends.get(&gap.end).copied() {
            self.remove(&(gap.end..end));
            gap.end = end;
        }
        self.add(gap);
    }

    /// Whether exactly this span is a gap.
    pub(crate) fn has(&self, gap: &Span<u64>) -> bool {
        self.ends.get(&gap.start) == Some(&gap.end)
    }

    fn add(&mut self, gap: Span<u64>) {
        if gap.start < gap.end {
            self.sizes.entry((gap.end - gap.start).ilog2()).or_default().insert(gap.start);
            self.ends.insert(gap.start, gap.end);
        }
    }

    fn remove(&mut self, gap: &Span<u64>) {
        self.ends.remove(&gap.start);
        let size = (gap.end - gap.start).ilog2();
        let starts = invariant(self.sizes.get_mut(&size), "a gap is listed by its size");
        starts.remove(&gap.start);
        if starts.is_empty() {
            self.sizes.remove(&size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_gap_that_fits_is_found() {
        let mut gaps = AddressGaps::new(0x1_0000..0x10_0000);
        gaps.take(&(0x1_1000..0x1_2000));
        gaps.take(&(0x1_5000..0x2_0000));
        assert_eq!(gaps.find(0x1000, 0x1000, 0), Some(0x1_0000));
        assert_eq!(gaps.find(0x3000, 0x1000, 0), Some(0x1_2000), "the lowest, not the closest");
        assert_eq!(gaps.find(0x4000, 0x1000, 0), Some(0x2_0000));
        assert_eq!(gaps.find(0x1000, 0x1_0000, 0x1_1000), Some(0x2_0000));
        assert_eq!(gaps.find(0x1000, 0x1000, 0x1_3000), Some(0x1_3000), "inside of a gap");
        assert_eq!((gaps.find(0, 1, 0), gaps.find(0x10_0000, 1, 0)), (None, None));
        gaps.insert(0x1_1000..0x1_2000);
        assert!(gaps.has(&(0x1_0000..0x1_5000)));
        gaps.insert(0x1_5000..0x2_0000);
        assert!(gaps.has(&(0x1_0000..0x10_0000)), "{gaps:?}");
    }
}
