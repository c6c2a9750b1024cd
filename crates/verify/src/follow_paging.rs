//! Following paging: segments, the memory of allocations, and the work that moves it.

use crate::follow::less;
use crate::shadow::Shadows;
use crate::shadow::memory::{Memory, Offer, Open, Paging, Placed, Segment, Told, Wanted};
use crate::shadow::{Adapter, Key, Node, Serial};
use flight::{Event, Fence, Subject, What};
use std::collections::BTreeMap;

impl Shadows {
    pub(crate) fn follow_segment(&mut self, event: &Event) {
        if let What::SegmentFound { adapter, base, size, aperture, target, .. } = event.what {
            let (held, leads) = (BTreeMap::new(), Vec::new());
            let segment = Segment { base, size, aperture, held, leads };
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

    /// What happens to the memory of an allocation. Answers whether it was that.
    pub(crate) fn follow_memory(&mut self, event: &Event) -> bool {
        let subject = event.subject;
        match &event.what {
            &What::MemoryWanted { seen, cached, pinned, told, mappable } => {
                let wanted = Wanted { seen, cached, pinned, told, mappable };
                self.with_memory(subject, |it| it.wanted = wanted);
            }
            &What::MemoryPlaced { segment, address, bytes } => {
                let aperture = self.segment(segment).is_some_and(|it| it.aperture);
                self.with_memory(subject, |it| {
                    it.placed = Some(Placed { segment: segment.into(), address });
                    (it.clean, it.written, it.bytes) = (false, false, bytes);
                    it.backed |= aperture;
                });
            }
            // It never was there, so nothing of it changed.
            What::MemoryEvicted { why, .. } if why == "the call failed" => {
                self.with_memory(subject, |it| it.placed = None);
            }
            What::MemoryEvicted { discard, .. } => self.with_memory(subject, |it| {
                (it.placed, it.reclaimed) = (None, false);
                let offered = it.offer.as_mut().filter(|it| it.ready && *discard);
                it.backed = offered.is_none();
                if let Some(Offer { discarded, .. }) = offered {
                    *discarded = true;
                }
            }),
            What::LockAimed { place } => {
                self.with_memory(subject, |it| it.aimed = place == "memory");
            }
            What::MemoryFreed {} => {
                let place = self.memory(subject).and_then(|it| it.placed);
                if let Some(Placed { segment, address }) = place {
                    self.vacate(segment, address, subject);
                }
                self.with_memory(subject, |it| it.placed = None);
            }
            _ => return false,
        }
        true
    }

    fn vacate(&mut self, segment: impl Key<Segment>, address: u64, of: Subject) {
        if let Some(it) = self.segment_mut(segment)
            && it.held.get(&address).is_some_and(|it| it.1 == of)
        {
            it.held.remove(&address);
        }
    }

    pub(crate) fn follow_paging(&mut self, event: &Event) {
        match &event.what {
            What::PagingPlanned { adapter, .. } => {
                let paging = Paging { adapter: (*adapter).into(), open: None, waits: 0 };
                self.start(event.subject, paging);
            }
            What::PagingBuilt { .. } => self.built(event),
            What::PagingDone { operation, of, segment, come } => {
                self.moved(*of, operation, (*segment).into(), *come);
            }
            What::PagingEnded { lost } => {
                let adapter = self.paging(event.subject).map(|it| it.adapter);
                if let Some(adapter) = adapter.filter(|_| *lost) {
                    self.waits_end(adapter);
                }
                self.end(event.subject);
            }
            _ => (),
        }
    }

    fn built(&mut self, event: &Event) {
        let What::PagingBuilt {
            operation,
            of,
            word,
            segment,
            address,
            size,
            come,
            pass,
            answer,
            whole,
            ..
        } = &event.what
        else {
            return;
        };
        if let Some(it) = self.instance_mut(*of) {
            it.built = Some((*word).into());
        }
        let busy = answer == "busy" && !*whole;
        let open = || Open { operation: operation.clone(), of: *of, pass: *pass, busy };
        let Some(it) = self.paging_mut(event.subject) else { return };
        it.open = (!*whole).then(open);
        let adapter = it.adapter;
        let goes_on = !*whole && operation == "transfer";
        self.with_adapter(adapter, |it| it.retried = goes_on.then_some(it.kept));
        if busy {
            self.wait_for(event.subject.into(), adapter);
        }
        if !*whole || !moves(operation) {
            return;
        }
        if !*come {
            self.vacate(*segment, *address, *of);
        } else if let Some(it) = self.segment_mut(*segment) {
            // One that moves within its segment is not where it was.
            if operation == "transfer" {
                it.held.retain(|_, it| it.1 != *of);
            }
            it.held.insert(*address, (address.saturating_add(*size), *of));
        }
    }

    /// Paging work waits for all that the nodes of its adapter were given.
    fn wait_for(&mut self, paging: Serial<Paging>, adapter: Serial<Adapter>) {
        let nodes = self.adapter(adapter).map(|it| it.nodes.clone()).unwrap_or_default();
        let mut waits = 0;
        for node in nodes {
            let Some(it) = self.node_mut(node) else { continue };
            if let Some(last) = it.due.given.back().copied() {
                it.awaited.push((last, paging));
                waits += 1;
            }
        }
        if let Some(it) = self.paging_mut(paging) {
            it.waits = waits;
        }
    }

    /// What an adapter had to do counts as done.
    fn waits_end(&mut self, adapter: Serial<Adapter>) {
        let nodes = self.adapter(adapter).map(|it| it.nodes.clone()).unwrap_or_default();
        for node in nodes {
            self.pass(node, |_| true);
        }
    }

    pub(crate) fn node_passed(&mut self, node: impl Key<Node>, fence: Fence) {
        self.pass(node, |it| fence.covers(it));
    }

    pub(crate) fn packet_passed(&mut self, node: impl Key<Node>, fence: Fence) {
        self.pass(node, |it| it == fence);
    }

    /// Work of a node has passed, or counts as passed: whoever waited for it does not any more.
    fn pass(&mut self, node: impl Key<Node>, passed: impl Fn(Fence) -> bool) {
        let Some(it) = self.node_mut(node) else { return };
        let (over, left) = std::mem::take(&mut it.awaited).into_iter().partition(|it| passed(it.0));
        it.awaited = left;
        let over: Vec<(Fence, Serial<Paging>)> = over;
        for (_, paging) in over {
            if let Some(it) = self.paging_mut(paging) {
                less(&mut it.waits);
            }
        }
    }

    /// An operation on an allocation is done.
    pub(crate) fn moved(
        &mut self,
        of: Subject,
        operation: &str,
        segment: Serial<Segment>,
        come: bool,
    ) {
        let place = self.memory(of).and_then(|it| it.placed);
        let local = self.segment(segment).is_some_and(|it| !it.aperture);
        if let Some(saved) = self.saved_mut(of) {
            saved.initialised |= operation == "init-context";
            if operation == "update-context" {
                saved.updating = None;
            }
        }
        self.with_memory(of, |it| match operation {
            "notify-residency" => it.told = if come { Told::Come } else { Told::Leaves },
            "update-context" => (),
            _ => {
                (it.there, it.reclaimed) = (come.then_some(segment), false);
                it.told = Told::Nothing;
                it.local = come && local;
                if operation.ends_with("aperture") {
                    it.mapped = come;
                }
            }
        });
        // One that was never built is gone from there all the same.
        let stale = place.is_none_or(|it| it.segment != segment);
        let held = self.segment(segment).filter(|_| !come && stale && moves(operation));
        let left = held.and_then(|it| it.held.iter().find(|it| it.1.1 == of).map(|it| *it.0));
        if let Some(address) = left {
            self.vacate(segment, address, of);
        }
        self.weigh(of);
    }
}

/// Whether an operation brings an allocation to a place, or takes it away.
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
