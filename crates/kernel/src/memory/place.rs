//! Placement: the locations of extents, and which extents are evicted for them.

use crate::base::id_list::Id;
use crate::base::id_list::Slab;
use crate::ddi::operation::PAGE;
use crate::kernel::Kernel;
use crate::memory::Owner;
use crate::memory::pressure::Pressure;
use crate::memory::{
    EvictionRank, Extent, LOCATION_HAS_SEGMENT, Location, Memory, PagingOperation, PagingStep,
    Segment, SegmentLocation, segment_index, segment_number,
};
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use flight::invariant;
use flight::{EventKind, Text};
use std::collections::BTreeSet;

/// Why an extent leaves an aperture before it is destroyed, offered or not.
pub(crate) const ENDS: &str = "it ends";

/// An extent of at most this size may have scattered pages.
const MAX_SCATTERED: u64 = 32 * PAGE;

/// The decisions of one call that become paging work together.
#[derive(Default)]
pub(crate) struct PagingPlan {
    /// Steps that evict. They come first, since others may get the locations.
    pub(crate) page_out: Vec<PagingStep>,
    /// Steps that page in.
    pub(crate) page_in: Vec<PagingStep>,
    /// Work that must complete before anything is evicted.
    pub(crate) waits: Vec<QueuePoint>,
    /// The extents that the plan placed, and whether it is their first location.
    pub(crate) placed: Vec<(Id<Extent>, bool)>,
    /// The CPU is about to lock the extent: only CPU-visible locations are used.
    pub(crate) cpu_visible: bool,
}

/// There is no location: `missing` bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoSpace {
    pub(crate) missing: u64,
}

impl Kernel {
    /// Logs a driver's memory requirements for a new extent.
    pub(crate) fn log_requirements(&self, state: &KernelState, extent: Id<Extent>) {
        let it = &state.memory.extents[extent];
        let mappable =
            state.adapter_memory(it.adapter).is_some_and(|memory| memory.is_aperture_mappable(it));
        let flags = it.requirements.flags;
        self.log.emit(it.owner.subject(), || EventKind::MemoryRequirements {
            cpu_visible: flags.cpu_visible,
            cached: flags.cached,
            pinned: flags.pinned,
            notified: it.is_notified(),
            mappable,
        });
    }

    /// Plans to place an extent in one of its segments. Returns whether paging work is needed.
    pub(crate) fn plan_page_in(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        plan: &mut PagingPlan,
    ) -> Result<bool, NoSpace> {
        let it = &state.memory.extents[extent];
        if it.segment().is_some() {
            return Ok(false);
        }
        let (adapter, bytes) = (it.adapter, it.bytes);
        let candidates = state
            .adapter_memory(adapter)
            .map(|memory| memory.candidates(&state.memory.extents, extent, plan.cpu_visible));
        let candidates = candidates.unwrap_or_default();
        let free =
            candidates.iter().find_map(|index| Some((*index, state.try_allocate(extent, *index)?)));
        let found = free.or_else(|| {
            candidates
                .iter()
                .find_map(|index| Some((*index, self.make_room(state, extent, *index, plan)?)))
        });
        let Some((segment, offset)) = found else {
            let free = candidates.iter().filter_map(|index| {
                Some(state.adapter_memory(adapter)?.segments.get(*index)?.ranges.free_bytes())
            });
            let limit = free.max().unwrap_or(0);
            return Err(NoSpace { missing: bytes.saturating_sub(limit).max(1) });
        };
        if !self.plan_page_in_at(state, extent, SegmentLocation { segment, offset }, plan) {
            let has_content =
                state.memory.extents.get(extent).is_some_and(|extent| extent.has_content);
            state.release_location(
                extent,
                if has_content { Location::System } else { Location::Unbacked },
            );
            return Err(NoSpace { missing: bytes });
        }
        Ok(true)
    }

    /// Evicts extents of a segment, in the order of eviction, until there is room.
    fn make_room(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        segment: usize,
        plan: &mut PagingPlan,
    ) -> Option<u64> {
        let (adapter, bytes) =
            state.memory.extents.get(extent).map(|extent| (extent.adapter, extent.bytes))?;
        // Nothing is evicted if that would not make room.
        let there = state.adapter_memory(adapter)?.segments.get(segment)?;
        let free = there.ranges.free_bytes().min(there.limit.saturating_sub(there.committed));
        let used = state.extents_behind_wait(there);
        let used_bytes: u64 = used.iter().map(|extent| state.memory.extents[*extent].bytes).sum();
        if free.saturating_add(there.evictable_bytes - used_bytes) < bytes {
            return None;
        }
        loop {
            let there = state.adapter_memory(adapter)?.segments.get(segment)?;
            // Excludes the extents that this call has placed.
            let mine = |eviction_rank: &&EvictionRank| {
                plan.placed.iter().any(|placed| placed.0 == eviction_rank.extent)
                    || used.contains(&eviction_rank.extent)
            };
            let first = there.evictable.iter().find(|eviction_rank| !mine(eviction_rank))?.extent;
            if !self.plan_page_out(state, first, "room for another", plan) {
                return None;
            }
            if let Some(offset) = state.try_allocate(extent, segment) {
                return Some(offset);
            }
        }
    }

    /// Plans the steps of a placed extent. Returns whether there was memory for them.
    pub(crate) fn plan_page_in_at(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        at: SegmentLocation,
        plan: &mut PagingPlan,
    ) -> bool {
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        let segment = invariant(memory.segments.get(at.segment), LOCATION_HAS_SEGMENT);
        let aperture = segment.info.flags.aperture;
        if (aperture || it.has_content) && !it.commit_backing(&*memory.ram, &mut memory.pressure) {
            return false;
        }
        self.log.emit(it.owner.subject(), || EventKind::MemoryPlaced {
            segment: segment.subject,
            address: segment.info.base + at.offset,
            bytes: it.bytes,
        });
        let first_placement = !std::mem::replace(&mut it.has_content, true);
        plan.placed.push((extent, first_placement));
        let table = it.owner.is_table();
        let step = |what| PagingStep::new(extent, what, at);
        if aperture {
            plan.page_in.push(step(PagingOperation::Map));
        }
        match (first_placement, aperture, matches!(it.owner, Owner::ContextAllocation(_))) {
            (true, _, true) => plan.page_in.push(step(PagingOperation::Init)),
            // The initial content of a table is written by its own step.
            (true, false, false) if table => (),
            (true, false, false) => plan.page_in.push(step(PagingOperation::Fill)),
            (false, false, _) => {
                let step = step(PagingOperation::PageIn);
                plan.page_in.extend(step.in_transfer_parts(it.bytes, &mut memory.pressure));
            }
            // WINDOWS: system pages are zeroed when they are allocated (our reading).
            (_, true, _) => (),
        }
        if it.is_notified() {
            plan.page_in.push(step(PagingOperation::NotifyResident));
        }
        (it.not_written, it.written, it.copied) = (false, false, !first_placement);
        plan.page_in.extend(state.page_in_entries(extent));
        true
    }

    /// Plans to evict an extent from its segment. Returns whether that is possible.
    pub(crate) fn plan_page_out(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        why: &'static str,
        plan: &mut PagingPlan,
    ) -> bool {
        let entries = state.page_out_entries(extent);
        let sent = state.schedule.packets_sent;
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        // An extent in system memory, or without memory, is in no segment.
        let Location::Segment { segment, range } = &it.location else { return false };
        let at = SegmentLocation { segment: *segment, offset: range.start() };
        let segment = invariant(memory.segments.get(at.segment), LOCATION_HAS_SEGMENT);
        let aperture = segment.info.flags.aperture;
        if it.pending == 0 {
            it.left = sent;
        }
        // Pending steps need its pages.
        let idle = it.lock.is_none() && it.pending == 0;
        // A client's own memory is not discarded.
        let idle = idle && it.existing.is_none();
        let thrown = it.offer.is_some_and(|offer| offer.ready) && idle;
        // System memory still has the content of an extent that was not written.
        let same = it.not_written && !it.written && it.copied;
        if !thrown && !same && !it.commit_backing(&*memory.ram, &mut memory.pressure) {
            return false;
        }
        let (discard, is_eviction) = (thrown || same, why != ENDS);
        let why: Text = if thrown && why != ENDS { "it was offered".into() } else { why.into() };
        self.log.emit(it.owner.subject(), || EventKind::MemoryEvicted {
            segment: segment.subject,
            discard,
            why,
        });
        if is_eviction {
            let segment = memory.segments.get_mut(at.segment);
            invariant(segment, LOCATION_HAS_SEGMENT).evicted += it.bytes;
        }
        plan.page_out.extend(entries);
        let step = |what| PagingStep { idle: true, ..PagingStep::new(extent, what, at) };
        if it.is_notified() {
            plan.page_out.push(step(PagingOperation::NotifyEvicted));
        }
        match (aperture, discard) {
            (true, _) => plan.page_out.push(step(PagingOperation::Unmap)),
            (false, true) => {
                plan.page_out.push(step(PagingOperation::Discard { not_written: !thrown }));
            }
            (false, false) => {
                let step = step(PagingOperation::PageOut);
                plan.page_out.extend(step.in_transfer_parts(it.bytes, &mut memory.pressure));
            }
        }
        if thrown {
            it.has_content = false;
            // A reclaim gets zeroed pages; these pages are freed.
            it.discarded_pages.append(&mut it.backing);
            if let Some(offer) = &mut it.offer {
                offer.discarded = true;
            }
        }
        plan.waits.append(&mut it.uses);
        state.release_location(extent, if thrown { Location::Unbacked } else { Location::System });
        true
    }
}

impl Kernel {
    /// Undoes the placements of a plan because the call failed. The evictions stay.
    pub(crate) fn undo_plan(&self, state: &mut KernelState, plan: &mut PagingPlan) {
        for (extent, first_placement) in plan.placed.drain(..) {
            let (extents, memory) = state.memory_mut_of(extent);
            let it = &mut extents[extent];
            let location = it.segment().and_then(|index| memory.segments.get(index));
            if let Some(segment) = location.map(|segment| segment.subject) {
                let why = "the call failed".into();
                self.log.emit(it.owner.subject(), || EventKind::MemoryEvicted {
                    segment,
                    discard: true,
                    why,
                });
            }
            it.has_content &= !first_placement;
            state.release_location(
                extent,
                if first_placement { Location::Unbacked } else { Location::System },
            );
        }
        plan.page_in.clear();
    }
}

impl PagingStep {
    pub(crate) fn new(extent: Id<Extent>, what: PagingOperation, at: SegmentLocation) -> Self {
        Self {
            extent,
            operation: what,
            location: at,
            multipass: 0,
            passes: 0,
            idle: false,
            part: None,
        }
    }
}

impl Extent {
    /// Allocates system pages for the extent, if it has none.
    ///
    /// WINDOWS: the pages need not be contiguous, and those of large allocations mostly are. Here
    /// every other small extent gets scattered pages, so that no driver relies on contiguous pages.
    pub(crate) fn commit_backing(
        &mut self,
        ram: &dyn flight::Ram,
        pressure: &mut Option<Pressure>,
    ) -> bool {
        if !self.backing.is_empty() {
            return true;
        }
        let mut remaining = self.bytes;
        let scattered =
            self.owner.subject().number.is_multiple_of(2) && self.bytes <= MAX_SCATTERED;
        while remaining > 0 {
            let piece = match pressure {
                Some(it) => it.contiguous_bytes(remaining),
                None if scattered => PAGE,
                None => remaining,
            };
            let Some(run) = ram.allocate(piece) else {
                self.backing.drain(..).for_each(|run| ram.free(run));
                return false;
            };
            self.backing.push(run);
            remaining -= piece;
        }
        // Neighbors in the allocation are not neighbors in physical memory.
        self.backing.reverse();
        if scattered {
            self.backing.rotate_right(1); // An access past a page stays within the extent.
        }
        true
    }

    /// Whether its driver is notified of residency changes.
    ///
    /// WINDOWS: only allocations with both flags (documented).
    pub(crate) fn is_notified(&self) -> bool {
        self.requirements.flags.physical && self.requirements.flags.notify
    }

    /// Whether it may be evicted now, from an aperture or from memory.
    ///
    /// A locked extent can leave only an aperture, where its bytes stay in place: CPU writes during
    /// a copy would be lost.
    fn may_be_evicted(&self, aperture: bool) -> bool {
        let free = self.holds == 0 || self.offer.is_some_and(|offer| offer.ready);
        let seen = self.lock.is_some() && !aperture;
        free && !seen && !self.requirements.flags.pinned && !self.ending
    }
}

impl Memory {
    /// Whether an extent can be in an aperture.
    pub(crate) fn is_aperture_mappable(&self, it: &Extent) -> bool {
        let aperture = |(number, segment): (u32, &Segment)| {
            segment.info.flags.aperture && it.requirements.segments.has(number)
        };
        (1..).zip(&self.segments).any(aperture)
    }

    /// The segments that an extent may go to, best first.
    fn candidates(&self, extents: &Slab<Extent>, extent: Id<Extent>, seen: bool) -> Vec<usize> {
        let it = &extents[extent];
        let preferred = it
            .requirements
            .preferred
            .iter()
            .flatten()
            .map(|segment_preference| segment_preference.segment);
        let mut request: Vec<u32> = Vec::new();
        for number in preferred.chain(it.requirements.segments.iter()) {
            if it.requirements.segments.has(number) && !request.contains(&number) {
                request.push(number);
            }
        }
        let request = request.into_iter().filter_map(segment_index);
        // WINDOWS: an allocation that is locked outside of memory and has no aperture stays where
        // it is until it is unlocked (documented).
        let stuck = it.lock.is_some() && !self.is_aperture_mappable(it);
        let takes =
            |location: &usize| self.segments.get(*location).is_some_and(|to| to.accepts(it, seen));
        request.filter(|location| !stuck && takes(location)).collect()
    }
}

impl Segment {
    /// Whether an extent may be placed here in its current state, and is CPU-visible here if
    /// required.
    ///
    /// WINDOWS: an allocation that the CPU has locked in system memory is mapped into an aperture
    /// and not moved (documented for allocations without an aperture; our decision for the rest).
    fn accepts(&self, it: &Extent, seen: bool) -> bool {
        let flags = self.info.flags;
        let visible = flags.cpu_visible && !it.requirements.flags.cached;
        let locked = it.lock.is_some() || (seen && !visible);
        flags.aperture || !(locked || it.requirements.flags.permanent_system)
    }
}

impl KernelState {
    /// The extents, and the memory of one extent's adapter.
    pub(super) fn memory_mut_of(&mut self, extent: Id<Extent>) -> (&mut Slab<Extent>, &mut Memory) {
        let adapter = self.memory.extents[extent].adapter;
        let memory = self.adapters[adapter].memory.as_mut();
        (&mut self.memory.extents, invariant(memory, "an adapter whose extents live has memory"))
    }

    /// The evictable extents of a segment that work behind a wait may use.
    fn extents_behind_wait(&self, segment: &Segment) -> BTreeSet<Id<Extent>> {
        let all = segment.evictable.iter().map(|rank| rank.extent);
        all.filter(|extent| self.is_used_behind_wait(*extent)).collect()
    }

    /// Allocates a location in a segment for an extent. Returns the range, or `None` if there is no
    /// room.
    fn try_allocate(&mut self, extent: Id<Extent>, segment: usize) -> Option<u64> {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = extents.get_mut(extent)?;
        memory.use_clock += 1;
        let use_clock = memory.use_clock;
        let to = memory.segments.get_mut(segment)?;
        if to.committed.saturating_add(it.bytes) > to.limit {
            return None;
        }
        let range = to.ranges.allocate(it.bytes, it.alignment)?;
        let offset = range.start();
        to.committed += it.bytes;
        (it.location, it.last_used) = (Location::Segment { segment, range }, use_clock);
        self.rank(extent);
        Some(offset)
    }

    /// Gives an extent its previous location, if it is free.
    pub(crate) fn allocate_at(&mut self, extent: Id<Extent>, at: SegmentLocation) -> bool {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if it.location != Location::System {
            return false;
        }
        let to = invariant(memory.segments.get_mut(at.segment), LOCATION_HAS_SEGMENT);
        // Another extent may be there by now.
        let Some(range) = to.ranges.allocate_at(at.offset, it.bytes) else { return false };
        to.committed += it.bytes;
        it.location = Location::Segment { segment: at.segment, range };
        self.rank(extent);
        true
    }

    /// Releases an extent's location.
    pub(crate) fn release_location(&mut self, extent: Id<Extent>, to: Location) {
        self.remove_rank(extent);
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let Location::Segment { segment, range } = std::mem::replace(&mut it.location, to) {
            let from = invariant(memory.segments.get_mut(segment), LOCATION_HAS_SEGMENT);
            from.committed -= it.bytes;
            from.ranges.free(range);
        }
    }

    /// Updates an extent's entry among the evictable extents.
    pub(crate) fn rank(&mut self, extent: Id<Extent>) {
        self.remove_rank(extent);
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        let aperture =
            |index: &usize| memory.segments.get(*index).map(|segment| segment.info.flags.aperture);
        let may = |segment: &usize| aperture(segment).is_some_and(|it_is| it.may_be_evicted(it_is));
        // Only what may be evicted has a rank.
        let Some(segment) = it.segment().filter(may) else { return };
        let offered = it.offer.filter(|offer| offer.ready);
        let rank = EvictionRank {
            not_offered: offered.is_none(),
            priority: offered.map_or(it.priority, |offer| offer.priority),
            used: it.last_used,
            extent,
        };
        it.rank = Some(rank);
        let segment = invariant(memory.segments.get_mut(segment), LOCATION_HAS_SEGMENT);
        segment.evictable.insert(rank);
        segment.evictable_bytes += it.bytes;
    }

    pub(crate) fn remove_rank(&mut self, extent: Id<Extent>) {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let (Some(rank), Some(segment)) = (it.rank.take(), it.segment())
            && let Some(segment) = memory.segments.get_mut(segment)
        {
            segment.evictable.remove(&rank);
            segment.evictable_bytes -= it.bytes;
        }
    }
}

/// The driver's number of a step's segment.
pub(crate) fn step_segment_number(step: &PagingStep) -> u32 {
    segment_number(step.location.segment)
}
