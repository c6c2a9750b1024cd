//! Shadows of address spaces: their ranges, their tables, and where these lead.

use super::{Adapter, Context, Process, Serial};
use flight::{Subject, Text};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// The address space of a process on an adapter.
#[derive(Debug)]
pub struct AddressSpace {
    /// The adapter.
    pub adapter: Serial<Adapter>,
    /// The process; none is the system.
    pub process: Option<Serial<Process>>,
    /// The end of the address space.
    pub end: u64,
    /// The allocated ranges, by first address.
    pub ranges: BTreeMap<u64, AddressRange>,
    /// The last operation of the update that is being applied.
    pub order: Option<u32>,
    /// Whether tables are made invalid before they are freed.
    pub invalidates_tables: bool,
    /// The contexts that have a root in it.
    pub contexts: BTreeSet<Serial<Context>>,
    /// The last table created of a level, at its first address.
    pub tables: BTreeMap<(u32, u64), Serial<PageTable>>,
    /// The table that an entry leads to, by the level and the first address of that, and whose
    /// entry it is.
    pub parents: BTreeMap<(u32, u64), (Serial<PageTable>, Serial<PageTable>)>,
    /// First addresses of tables that no entry leads to any more, but that engines may have cached.
    pub remembered: BTreeMap<Serial<PageTable>, u64>,
    /// The updates that wait for a fence.
    pub waiting: BTreeSet<u32>,
    /// The last mappings that ended: their addresses, their allocation, and the event.
    pub unmapped: VecDeque<(Range<u64>, Subject, u64)>,
}

/// How many ended mappings are remembered.
const UNMAPPED: usize = 64;

/// An allocated range.
#[derive(Clone, Debug)]
pub struct AddressRange {
    /// Its end.
    pub end: u64,
    /// The allocation that is mapped there.
    pub of: Option<Subject>,
    /// The offset in the allocation.
    pub offset: u64,
}

/// Of a page table.
#[derive(Debug)]
pub struct PageTable {
    /// Its space.
    pub space: Serial<AddressSpace>,
    /// How many entries it has.
    pub entries: u32,
    /// What was written to it, first and last: as text, and how many entries.
    pub first: Option<(Text, u32)>,
    /// See `first`.
    pub last: Option<(Text, u32)>,
    /// The contexts whose root it is.
    pub roots: BTreeSet<Serial<Context>>,
}

/// Entries that lead to memory of a segment.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The address space of the entries.
    pub space: Serial<AddressSpace>,
    /// The addresses they translate.
    pub span: Range<u64>,
    /// The segment address to which the first of them leads.
    pub to: u64,
    /// The allocation at that address.
    pub of: Option<Subject>,
    /// They were overwritten, but may be cached.
    pub stale: bool,
}

impl AddressSpace {
    /// The allocated parts of a range, by first address.
    pub fn ranges_in(&self, span: &Range<u64>) -> impl Iterator<Item = (u64, &AddressRange)> {
        let (start, end) = (span.start, span.end);
        let all = self.ranges.range(..end).filter(move |pair| pair.1.end > start);
        all.map(|(start, it)| (*start, it))
    }

    /// Frees a range, or assigns it.
    pub(crate) fn set_range(&mut self, span: &Range<u64>, of: Option<AddressRange>, seq: u64) {
        let met: Vec<(u64, AddressRange)> =
            self.ranges_in(span).map(|(start, it)| (start, it.clone())).collect();
        for (start, it) in met {
            self.ranges.remove(&start);
            if let Some(allocation) = it.of {
                self.unmapped.push_back((start..it.end, allocation, seq));
            }
            if start < span.start {
                self.ranges.insert(start, AddressRange { end: span.start, ..it.clone() });
            }
            if span.end < it.end {
                let offset = it.offset + (span.end - start);
                self.ranges.insert(span.end, AddressRange { offset, ..it });
            }
        }
        if let Some(it) = of {
            self.ranges.insert(span.start, it);
        }
        self.unmapped.drain(..self.unmapped.len().saturating_sub(UNMAPPED));
    }
}

impl Mapping {
    /// Splits at a range: the part outside, and the part inside, which is not current any more.
    pub(crate) fn split(self, space: Serial<AddressSpace>, span: &Range<u64>) -> Vec<Mapping> {
        let (start, end) = (self.span.start.max(span.start), self.span.end.min(span.end));
        if self.space != space || start >= end {
            return vec![self];
        }
        let part = |span: Range<u64>, stale| Mapping {
            to: self.to + (span.start - self.span.start),
            span,
            stale,
            ..self.clone()
        };
        let all = [
            part(self.span.start..start, self.stale),
            part(start..end, true),
            part(end..self.span.end, self.stale),
        ];
        all.into_iter().filter(|mapping| mapping.span.start < mapping.span.end).collect()
    }

    /// Whether it leads into this range.
    pub fn reaches(&self, address: u64, bytes: u64) -> bool {
        let end = self.to + (self.span.end - self.span.start);
        self.to < address.saturating_add(bytes) && address < end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::Kind;

    #[test]
    fn a_mapping_is_split_into_what_is_current_and_what_is_not() {
        let space = Kind::AddressSpace.subject(1);
        let of = Some(Kind::Allocation.subject(1));
        let mapping =
            |span: Range<u64>, to, stale| Mapping { space: space.into(), span, to, of, stale };
        let parts = |span: Range<u64>| -> Vec<(Range<u64>, u64, bool)> {
            let parts = mapping(100..200, 1000, false).split(space.into(), &span);
            parts.into_iter().map(|part| (part.span, part.to, part.stale)).collect()
        };
        assert_eq!(parts(0..100), [(100..200, 1000, false)], "it ends before");
        assert_eq!(
            parts(120..150),
            [(100..120, 1000, false), (120..150, 1020, true), (150..200, 1050, false)]
        );
        assert_eq!(parts(0..120), [(100..120, 1000, true), (120..200, 1020, false)]);
        assert_eq!(parts(0..500), [(100..200, 1000, true)]);
    }
}
