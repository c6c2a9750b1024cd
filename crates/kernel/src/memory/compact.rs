//! Compaction on request: unused extents move down in their segment, so that the free ranges become
//! contiguous.
//!
//! # Invariants
//!
//! 1. Only extents move that could also be evicted, are not offered and not used by work behind a
//!    wait. Paging work moves their bytes, as usual.
//! 2. A segment is not changed unless its longest free range grows.
//! 3. Extents move in the order of their addresses: an extent that moves to another's old range
//!    moves after the other.

use crate::adapter::start::Adapter;
use crate::adapter::start::AdapterId;
use crate::base::id_list::Id;
use crate::base::id_list::Slab;
use crate::kernel::Kernel;
use crate::memory::Owner;
use crate::memory::parts::halves;
use crate::memory::place::PagingPlan;
use crate::memory::{
    Extent, LOCATION_HAS_SEGMENT, Location, PagingOperation, PagingStep, Segment, SegmentLocation,
    segment_number,
};
use crate::state::KernelState;
use flight::{EventKind, Passive, internal_error, invariant};
use std::collections::BTreeMap;

/// The free memory of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSpace {
    /// The driver's number of the segment.
    pub segment: u32,
    /// Number of free bytes.
    pub free: u64,
    /// Size of the longest free range.
    pub largest: u64,
}

/// An extent and its new location in its segment.
struct Relocation {
    extent: Id<Extent>,
    to: u64,
}

impl Kernel {
    /// Returns the free memory of each segment of an adapter.
    pub fn segment_space(&self, adapter: AdapterId) -> Vec<SegmentSpace> {
        let state = self.state.lock();
        let segments = state.adapter_memory(adapter.0).map(|memory| memory.segments.as_slice());
        let numbered = segments.unwrap_or_default().iter().enumerate();
        let capacity = |(location, it): (usize, &Segment)| SegmentSpace {
            segment: segment_number(location),
            free: it.ranges.free_bytes(),
            largest: it.ranges.largest(),
        };
        numbered.map(capacity).collect()
    }

    /// Moves an unused allocation between the call that wrote a packet's commands and the call that
    /// patches them, because a driver must not rely on the old address.
    pub(crate) fn relocate_for_test(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        plan: &mut PagingPlan,
    ) {
        // A listed allocation may have ended before the packet.
        let Some(it) = state.memory.extents.get(extent) else { return };
        let (bytes, alignment, segment) = (it.bytes, it.alignment, it.segment());
        if !self.plan_page_out(state, extent, "a packet is to find it elsewhere", plan) {
            return;
        }
        // While another extent occupies the old location, the page-in chooses a new one.
        let (_, memory) = state.memory_mut_of(extent);
        let in_the_way = segment.and_then(|segment| {
            let ranges = &mut memory.segments[segment].ranges;
            Some((segment, ranges.allocate(bytes, alignment)?))
        });
        let _ = self.plan_page_in(state, extent, plan); // If no other location is free, it gets any.
        if let Some((segment, range)) = in_the_way {
            let (_, memory) = state.memory_mut_of(extent);
            memory.segments[segment].ranges.free(range);
        }
    }

    /// Moves the unused extents of each segment together if that makes the longest free range
    /// longer, and waits until the moves are done. Returns the number of bytes moved.
    ///
    /// WINDOWS: when memory is compacted is not documented, so a test triggers it here.
    pub fn compact(&self, at: &mut Passive, adapter: AdapterId) -> u64 {
        let (paging, moved) = {
            let state = &mut *self.state.lock();
            let (mut plan, mut moved) = (PagingPlan::default(), 0);
            let count = state.adapter_memory(adapter.0).map_or(0, |memory| memory.segments.len());
            for segment in 0..count {
                for slide in state.relocations(adapter.0, segment) {
                    moved += self.plan_relocation(state, &slide, &mut plan);
                }
            }
            (self.start_paging(state, adapter.0, plan, None), moved)
        };
        // Nothing has to move.
        let Some(paging) = paging else { return 0 };
        let about = paging.subject();
        let over = |state: &KernelState| state.memory.pagings.get(paging).is_none();
        self.wait_until(at, about, |_| format!("{about}, to compact memory"), over);
        moved
    }

    /// Gives an extent its new location and plans the paging work. Returns the number of bytes
    /// moved.
    fn plan_relocation(
        &self,
        state: &mut KernelState,
        slide: &Relocation,
        plan: &mut PagingPlan,
    ) -> u64 {
        let &Relocation { extent, to } = slide;
        state.remove_rank(extent);
        let moved = self.plan_relocation_unranked(state, extent, to, plan);
        state.rank(extent);
        moved.unwrap_or(0)
    }

    fn plan_relocation_unranked(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        to: u64,
        plan: &mut PagingPlan,
    ) -> Option<u64> {
        let entries = state.page_out_entries(extent);
        let virtual_ = state.is_linear(extent);
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        // Only an extent in a segment moves.
        let Location::Segment { segment, range } = &it.location else { return None };
        let (segment, from, size) = (*segment, range.start(), range.size());
        // An overlapping copy would need a direction, so the bytes take a detour through system
        // memory.
        let round = to + size > from;
        if round && !it.commit_backing(&*memory.ram, &mut memory.pressure) {
            return None;
        }
        let there = invariant(memory.segments.get_mut(segment), LOCATION_HAS_SEGMENT);
        let Location::Segment { range, .. } = std::mem::replace(&mut it.location, Location::System)
        else {
            internal_error("the location was just read")
        };
        there.ranges.free(range);
        let found = there.ranges.allocate_at(to, size);
        let went = found.is_some();
        let range = found.or_else(|| there.ranges.allocate_at(from, size));
        let range = invariant(range, "the old range was just freed");
        it.location = Location::Segment { segment, range };
        if !went {
            return None;
        }
        let (subject, bytes) = (there.subject, it.bytes);
        let why = "memory is compacted".into();
        self.log.emit(it.owner.subject(), || EventKind::MemoryEvicted {
            segment: subject,
            discard: false,
            why,
        });
        let address = there.info.base + to;
        self.log.emit(it.owner.subject(), || EventKind::MemoryPlaced {
            segment: subject,
            address,
            bytes,
        });
        plan.waits.append(&mut it.uses);
        plan.page_in.extend(entries);
        let location = |offset| SegmentLocation { segment, offset };
        let step = |what, at| PagingStep { idle: true, ..PagingStep::new(extent, what, at) };
        if it.is_notified() {
            plan.page_in.push(step(PagingOperation::NotifyEvicted, location(from)));
        }
        if round {
            for (what, at) in [(PagingOperation::PageOut, from), (PagingOperation::PageIn, to)] {
                let step = step(what, location(at));
                plan.page_in.extend(step.in_transfer_parts(bytes, &mut memory.pressure));
            }
        } else {
            let relocation = step(PagingOperation::Relocate { from }, location(to));
            for part in if virtual_ { halves(bytes) } else { vec![None] } {
                plan.page_in.push(PagingStep { part, ..relocation.clone() });
            }
        }
        if it.is_notified() {
            plan.page_in.push(step(PagingOperation::NotifyResident, location(to)));
        }
        plan.page_in.extend(state.page_in_entries(extent));
        Some(bytes)
    }
}

impl KernelState {
    /// Whether the memory of an extent's segment is mapped in the system's address space.
    fn is_linear(&self, extent: Id<Extent>) -> bool {
        let it = &self.memory.extents[extent];
        // Only memory in a segment is mapped there.
        let Location::Segment { segment, .. } = &it.location else { return false };
        self.system_address(it.adapter, (segment_number(*segment), 0)).is_some()
    }

    /// The moves in a segment, lowest address first. Empty unless they help.
    fn relocations(&self, adapter: Id<Adapter>, location: usize) -> Vec<Relocation> {
        let memory = invariant(self.adapter_memory(adapter), "its segments were just counted");
        let segment = invariant(memory.segments.get(location), "the segments were just counted");
        if segment.info.flags.aperture {
            return Vec::new(); // The bytes of an aperture are in system memory.
        }
        let mut movers = segment.movable_extents(&self.memory.extents);
        movers.retain(|_, (extent, ..)| !self.is_used_behind_wait(*extent));
        let pieces = segment.ranges.pieces().filter(|range_piece| range_piece.placed.is_some());
        let mut taken: BTreeMap<u64, u64> =
            pieces.map(|range_piece| (range_piece.start, range_piece.size)).collect();
        let mut slides = Vec::new();
        for (from, (extent, size, alignment)) in movers {
            taken.remove(&from);
            let to = lowest_free(&taken, size, alignment).min(from);
            taken.insert(to, size);
            slides.extend((to < from).then_some(Relocation { extent, to }));
        }
        let end = segment
            .ranges
            .pieces()
            .last()
            .map_or(0, |range_piece| range_piece.start + range_piece.size);
        let helps = longest_free(&taken, end) > segment.ranges.largest();
        if helps { slides } else { Vec::new() }
    }
}

impl Segment {
    /// The movable extents by address, with their id, size and alignment.
    fn movable_extents(&self, extents: &Slab<Extent>) -> BTreeMap<u64, (Id<Extent>, u64, u64)> {
        let mover = |number: Id<Extent>| {
            let it = &extents[number];
            // Only an extent in a segment moves.
            let Location::Segment { range, .. } = &it.location else { return None };
            let free = it.pending == 0 && it.lock.is_none() && it.offer.is_none();
            let mine = matches!(it.owner, Owner::Allocation(_) | Owner::Instance(_)) && free;
            mine.then(|| (range.start(), (number, range.size(), it.alignment)))
        };
        self.evictable.iter().filter_map(|eviction_rank| mover(eviction_rank.extent)).collect()
    }
}

/// The lowest gap of at least this size between the taken ranges, at a multiple of `alignment`.
fn lowest_free(taken: &BTreeMap<u64, u64>, size: u64, alignment: u64) -> u64 {
    let mut at = 0_u64;
    for (start, length) in taken {
        if at + size <= *start {
            return at;
        }
        at = at.max((start + length).next_multiple_of(alignment));
    }
    at
}

/// The longest gap between the taken ranges.
fn longest_free(taken: &BTreeMap<u64, u64>, end: u64) -> u64 {
    let (mut at, mut limit) = (0, 0);
    for (start, length) in taken {
        limit = limit.max(start - at);
        at = start + length;
    }
    limit.max(end - at)
}
