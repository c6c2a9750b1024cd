//! The entries of ranges: written when the memory behind them arrives, moves or leaves.

use crate::base::id_list::Id;
use crate::ddi::mmu::{MmuFeatures, PageTableEntry};
use crate::ddi::operation::{PAGE, Pages};
use crate::memory::Owner;
use crate::memory::address::AddressSpace;
use crate::memory::address::pages;
use crate::memory::address::ranges::{Access, Backing};
use crate::memory::address::step::TableWrite;
use crate::memory::{Extent, Location, Memory, PagingStep, segment_number};
use crate::state::KernelState;
use std::ops::Range as Span;

impl KernelState {
    /// The spaces and spans in which an extent is mapped.
    pub(crate) fn mapped_spans(&self, extent: Id<Extent>) -> Vec<(Id<AddressSpace>, Span<u64>)> {
        let adapter = self.memory.extents[extent].adapter;
        if self.mmu(adapter).is_none() {
            return Vec::new();
        }
        // Only views of allocations are mapped: no table, and no context allocation.
        let owner = self.memory.extents.get(extent).map(|extent| extent.owner);
        let of = owner.and_then(|owner| match owner {
            Owner::Allocation(allocation) => self.allocations.get(allocation),
            _ => None,
        });
        let views = of.into_iter().flat_map(|allocation| allocation.views.iter().copied());
        let mut spans: Vec<(Id<AddressSpace>, Span<u64>)> =
            views.flat_map(|view| self.spans_of(adapter, view)).collect();
        spans.sort_unstable_by_key(|pair| (pair.0, pair.1.start));
        spans
    }

    /// The steps that map an extent at all its addresses after it has arrived.
    pub(crate) fn page_in_entries(&self, extent: Id<Extent>) -> Vec<PagingStep> {
        self.all_entries(extent, None)
    }

    /// The steps that unmap and flush an extent at all its addresses.
    pub(crate) fn page_out_entries(&self, extent: Id<Extent>) -> Vec<PagingStep> {
        self.all_entries(extent, Some(extent))
    }

    fn all_entries(&self, extent: Id<Extent>, leaving: Option<Id<Extent>>) -> Vec<PagingStep> {
        let mut steps = Vec::new();
        for (space, span) in self.mapped_spans(extent) {
            steps.extend(self.entry_steps(space, &span, leaving));
            steps.extend(self.flush_step(space, &span, Some(extent)));
        }
        steps
    }

    /// The steps that write the entries of a span to match its ranges, except that the extent
    /// `leaving` is treated as absent.
    ///
    /// One operation is about one range in one table: its pages are consecutive in the allocation.
    pub(crate) fn entry_steps(
        &self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        leaving: Option<Id<Extent>>,
    ) -> Vec<PagingStep> {
        let it = &self.memory.spaces[space];
        // A stopped adapter has no memory.
        let Some(memory) = self.adapter_memory(it.adapter) else { return Vec::new() };
        let Some(mmu) = memory.mmu.as_ref() else { return Vec::new() };
        let mut steps = Vec::new();
        for row in mmu.geometry.rows(span) {
            // Without a table there are no entries to write.
            let Some(table) = it.tables.get(&(0, row.table)).copied() else { continue };
            let mut write = |part: Span<u64>, backing: Backing| {
                if part.start >= part.end {
                    return;
                }
                let mut write = TableWrite {
                    first: mmu.geometry.index(0, part.start),
                    count: pages(part.end - part.start),
                    ..TableWrite::invalidation(space, 0, table, part.start)
                };
                self.fill_entries(&mut write, backing, (memory, &mmu.features), leaving);
                steps.extend(self.table_step(write));
            };
            let mut at = row.span.start;
            for (part, range) in it.addresses.parts(&row.span) {
                write(at..part.start, Backing::NoAccess);
                at = part.end;
                write(part, range.backing);
            }
            write(at..row.span.end, Backing::NoAccess);
        }
        steps
    }

    /// The entries of a part of a range.
    fn fill_entries(
        &self,
        write: &mut TableWrite,
        backing: Backing,
        (memory, mmu): (&Memory, &MmuFeatures),
        leaving: Option<Id<Extent>>,
    ) {
        match backing {
            Backing::Reserved | Backing::Driver | Backing::NoAccess => (),
            Backing::Zero => write.entries = vec![memory.zero_entry(mmu)],
            Backing::Mapped { view, offset, access } => {
                let number = self.extent_of(view);
                // The allocation may be decommitted: its entries become invalid.
                let Some(extent) = number.and_then(|extent| self.memory.extents.get(extent)) else {
                    return;
                };
                (write.of, write.offset, write.protection) = (number, offset, access.driver);
                if leaving == number {
                    write.evicts = true;
                    return;
                }
                if let Some(entries) = memory.entries(mmu, extent, offset, write.count, access) {
                    (write.entries, write.repeat) = (entries, false);
                }
            }
        }
    }
}

impl Memory {
    /// An entry whose reads return zero.
    ///
    /// WINDOWS: a GPU without zero entries gets a zeroed system page instead (our reading: the
    /// substitute is not documented).
    fn zero_entry(&self, mmu: &MmuFeatures) -> PageTableEntry {
        let page = self.dummy.map_or(0, |run| run.start / PAGE);
        if mmu.zero {
            PageTableEntry { valid: true, zero: true, ..PageTableEntry::default() }
        } else {
            PageTableEntry {
                valid: true,
                read_only: mmu.read_only,
                page,
                ..PageTableEntry::default()
            }
        }
    }

    /// The entries of an extent's pages at its planned location; `None` if it will be in no
    /// segment.
    fn entries(
        &self,
        mmu: &MmuFeatures,
        extent: &Extent,
        offset: u64,
        count: u32,
        access: Access,
    ) -> Option<Vec<PageTableEntry>> {
        // An extent in system memory, or without memory, has no address.
        let Location::Segment { segment, range } = &extent.location else { return None };
        let info = &self.segments.get(*segment)?.info;
        let one = PageTableEntry {
            valid: true,
            read_only: mmu.read_only && !access.write,
            no_execute: mmu.no_execute && !access.execute,
            ..PageTableEntry::default()
        };
        if info.flags.aperture {
            // WINDOWS: entries point to system pages directly, not through the aperture
            // (documented: segment zero of an entry is system memory).
            let coherent = info.flags.coherent && extent.requirements.flags.cached;
            let runs = &extent.backing;
            let pages = Pages { runs, first: offset / PAGE, count: u64::from(count) };
            let entry = |at: u64| PageTableEntry { coherent, page: at / PAGE, ..one };
            return Some(pages.addresses().map(entry).collect());
        }
        let first = (range.start() + offset) / PAGE;
        let entry = |number: u32| PageTableEntry {
            segment: segment_number(*segment),
            page: first + u64::from(number),
            ..one
        };
        Some((0..count).map(entry).collect())
    }
}
