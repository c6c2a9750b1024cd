//! Following paging: segments, the memory of allocations, and the work that moves it.

use crate::follow::decrement;
use crate::shadow::Shadows;
use crate::shadow::memory::{
    Memory, MemoryRequirements, Offer, Paging, PartialOperation, ResidencyNotice, Segment,
    SegmentAddress,
};
use crate::shadow::{Adapter, Key, Node, Serial};
use flight::{Event, EventKind, Fence, Subject};
use std::collections::BTreeMap;

impl Shadows {
    pub(crate) fn follow_segment(&mut self, event: &Event) {
        if let EventKind::SegmentFound { adapter, base, size, aperture, target, .. } = event.kind {
            let (held, mappings) = (BTreeMap::new(), Vec::new());
            let segment = Segment { base, size, aperture, contents: held, mappings };
            self.start(event.subject, segment);
            self.first::<Adapter>(adapter);
            self.with_adapter(adapter, |it| {
                it.segments.push(event.subject.into());
                let [targets, all] = &mut it.bytes[usize::from(!aperture)];
                *targets = targets.saturating_add(if target { size } else { 0 });
                *all = all.saturating_add(size);
            });
        }
    }

    pub(crate) fn with_memory(
        &mut self,
        object: impl Into<Subject>,
        change: impl FnOnce(&mut Memory),
    ) {
        if let Some(it) = self.memory_mut(object) {
            change(it);
        }
    }

    /// Follows an event about the memory of an allocation. Returns whether it was one.
    pub(crate) fn follow_memory(&mut self, event: &Event) -> bool {
        let subject = event.subject;
        match &event.kind {
            &EventKind::MemoryRequirements {
                cpu_visible: seen,
                cached,
                pinned,
                notified,
                mappable,
            } => {
                let wanted =
                    MemoryRequirements { cpu_visible: seen, cached, pinned, notified, mappable };
                self.with_memory(subject, |memory| memory.requirements = wanted);
            }
            &EventKind::MemoryPlaced { segment, address, bytes } => {
                let aperture = self.segment(segment).is_some_and(|segment| segment.aperture);
                self.with_memory(subject, |memory| {
                    memory.location = Some(SegmentAddress { segment: segment.into(), address });
                    (memory.not_written, memory.written, memory.bytes) = (false, false, bytes);
                    memory.backed |= aperture;
                });
            }
            // It was never resident, so nothing of it changed.
            EventKind::MemoryEvicted { why, .. } if why == "the call failed" => {
                self.with_memory(subject, |memory| memory.location = None);
            }
            EventKind::MemoryEvicted { discard, .. } => self.with_memory(subject, |memory| {
                (memory.location, memory.reclaimed) = (None, false);
                let offered = memory.offer.as_mut().filter(|offer| offer.ready && *discard);
                memory.backed = offered.is_none();
                if let Some(Offer { discarded, .. }) = offered {
                    *discarded = true;
                }
            }),
            EventKind::LockRemapped { location: place } => {
                self.with_memory(subject, |memory| memory.cpu_view_current = place == "memory");
            }
            EventKind::MemoryFreed {} => {
                let place = self.memory(subject).and_then(|memory| memory.location);
                if let Some(SegmentAddress { segment, address }) = place {
                    self.remove_from_segment(segment, address, subject);
                }
                self.with_memory(subject, |memory| memory.location = None);
            }
            _ => return false,
        }
        true
    }

    fn remove_from_segment(&mut self, segment: impl Key<Segment>, address: u64, of: Subject) {
        if let Some(it) = self.segment_mut(segment)
            && it.contents.get(&address).is_some_and(|pair| pair.1 == of)
        {
            it.contents.remove(&address);
        }
    }

    pub(crate) fn follow_paging(&mut self, event: &Event) {
        match &event.kind {
            EventKind::PagingPlanned { adapter, .. } => {
                let paging = Paging { adapter: (*adapter).into(), open: None, waits: 0 };
                self.start(event.subject, paging);
            }
            EventKind::PagingBuilt { .. } => self.follow_paging_built(event),
            EventKind::PagingDone { operation, of, segment, page_in: come } => {
                self.note_moved(*of, operation, (*segment).into(), *come);
            }
            EventKind::PagingEnded { lost } => {
                let adapter = self.paging(event.subject).map(|paging| paging.adapter);
                if let Some(adapter) = adapter.filter(|_| *lost) {
                    self.end_waits(adapter);
                }
                self.end(event.subject);
            }
            _ => (),
        }
    }

    fn follow_paging_built(&mut self, event: &Event) {
        let EventKind::PagingBuilt {
            operation,
            of,
            driver_handle,
            segment,
            address,
            size,
            page_in: come,
            pass,
            result,
            complete: whole,
            ..
        } = &event.kind
        else {
            return;
        };
        if let Some(it) = self.instance_mut(*of) {
            it.built = Some((*driver_handle).into());
        }
        let busy = result == "busy" && !*whole;
        let open = || PartialOperation { operation: operation.clone(), of: *of, pass: *pass, busy };
        let Some(it) = self.paging_mut(event.subject) else { return };
        it.open = (!*whole).then(open);
        let adapter = it.adapter;
        let goes_on = !*whole && operation == "transfer";
        self.with_adapter(adapter, |adapter| {
            adapter.retried = goes_on.then_some(adapter.blocks_taken);
        });
        if busy {
            self.start_wait(event.subject.into(), adapter);
        }
        if !*whole || !moves(operation) {
            return;
        }
        if !*come {
            self.remove_from_segment(*segment, *address, *of);
        } else if let Some(it) = self.segment_mut(*segment) {
            // An allocation that moves within its segment leaves its old address.
            if operation == "transfer" {
                it.contents.retain(|_, it| it.1 != *of);
            }
            it.contents.insert(*address, (address.saturating_add(*size), *of));
        }
    }

    /// Paging work waits for everything submitted to the nodes of its adapter.
    fn start_wait(&mut self, paging: Serial<Paging>, adapter: Serial<Adapter>) {
        let nodes = self.adapter(adapter).map(|adapter| adapter.nodes.clone()).unwrap_or_default();
        let mut waits = 0;
        for node in nodes {
            let Some(it) = self.node_mut(node) else { continue };
            if let Some(last) = it.fences.submitted.back().copied() {
                it.paging_waits.push((last, paging));
                waits += 1;
            }
        }
        if let Some(it) = self.paging_mut(paging) {
            it.waits = waits;
        }
    }

    /// The work of an adapter counts as done.
    fn end_waits(&mut self, adapter: Serial<Adapter>) {
        let nodes = self.adapter(adapter).map(|adapter| adapter.nodes.clone()).unwrap_or_default();
        for node in nodes {
            self.pass_fences(node, |_| true);
        }
    }

    pub(crate) fn node_passed(&mut self, node: impl Key<Node>, fence: Fence) {
        self.pass_fences(node, |it| fence.covers(it));
    }

    pub(crate) fn packet_passed(&mut self, node: impl Key<Node>, fence: Fence) {
        self.pass_fences(node, |it| it == fence);
    }

    /// Work of a node has completed, or counts as completed: paging work stops waiting for it.
    fn pass_fences(&mut self, node: impl Key<Node>, passed: impl Fn(Fence) -> bool) {
        let Some(it) = self.node_mut(node) else { return };
        let (over, left) =
            std::mem::take(&mut it.paging_waits).into_iter().partition(|pair| passed(pair.0));
        it.paging_waits = left;
        let over: Vec<(Fence, Serial<Paging>)> = over;
        for (_, paging) in over {
            if let Some(it) = self.paging_mut(paging) {
                decrement(&mut it.waits);
            }
        }
    }

    /// An operation on an allocation is done.
    pub(crate) fn note_moved(
        &mut self,
        of: Subject,
        operation: &str,
        segment: Serial<Segment>,
        come: bool,
    ) {
        let place = self.memory(of).and_then(|memory| memory.location);
        let local = self.segment(segment).is_some_and(|segment| !segment.aperture);
        if let Some(context_allocation) = self.context_allocation_mut(of) {
            context_allocation.initialised |= operation == "init-context";
            if operation == "update-context" {
                context_allocation.updating = None;
            }
        }
        self.with_memory(of, |memory| match operation {
            "notify-residency" => {
                memory.notice =
                    if come { ResidencyNotice::Resident } else { ResidencyNotice::Evicted }
            }
            "update-context" => (),
            _ => {
                (memory.segment, memory.reclaimed) = (come.then_some(segment), false);
                memory.notice = ResidencyNotice::None;
                memory.local = come && local;
                if operation.ends_with("aperture") {
                    memory.mapped = come;
                }
            }
        });
        // An operation that was never built leaves that address anyway.
        let stale = place.is_none_or(|segment_address| segment_address.segment != segment);
        let held = self.segment(segment).filter(|_| !come && stale && moves(operation));
        let left = held.and_then(|segment| {
            segment.contents.iter().find(|pair| pair.1.1 == of).map(|pair| *pair.0)
        });
        if let Some(address) = left {
            self.remove_from_segment(segment, address, of);
        }
        self.update_readiness(of);
    }
}

/// Whether an operation brings an allocation to an address, or takes it away.
fn moves(operation: &str) -> bool {
    !matches!(
        operation,
        "notify-residency"
            | "update-context"
            | "update-page-table"
            | "flush-tlb"
            | "copy-page-table-entries"
    )
}
