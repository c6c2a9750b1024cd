//! Following paging: segments, the memory of allocations, the work that moves it, and what
//! drivers keep for their contexts.

use crate::follow::{Shadows, less};
use crate::shadow::memory::{
    Memory, Offer, Open, Paging, Placed, Saved, Saves, Segment, Told, Wanted,
};
use crate::shadow::{Adapter, Context, Device, Known, Shadow};
use flight::{Event, Fence, Subject, What};
use smallvec::SmallVec;
use std::collections::BTreeMap;

impl Shadows {
    pub(crate) fn segment(&mut self, event: &Event) {
        if let What::SegmentFound { adapter, base, size, aperture, target, .. } = event.what {
            let segment = Segment { base, size, aperture, held: BTreeMap::new() };
            self.start(event.subject, Known::Segment(segment));
            let first = self.first(adapter, || Known::Adapter(Adapter::default()));
            let Some(it) = first.adapter_mut() else { return };
            it.segments.push(event.subject);
            let sizes = &mut it.sizes[usize::from(aperture)];
            sizes.all += size;
            sizes.targets += if target { size } else { 0 };
        }
    }

    pub(crate) fn with_memory(&mut self, subject: Subject, change: impl FnOnce(&mut Memory)) {
        if let Some(it) = self.get(subject).and_then(Shadow::memory_mut) {
            change(it);
        }
    }

    /// What happens to the memory of an allocation. Answers whether it was that.
    pub(crate) fn memory(&mut self, event: &Event) -> bool {
        let subject = event.subject;
        match &event.what {
            &What::MemoryWanted { seen, cached, pinned, told, mappable } => {
                let wanted = Wanted { seen, cached, pinned, told, mappable };
                self.with_memory(subject, |it| it.wanted = wanted);
            }
            &What::MemoryPlaced { segment, address, bytes } => {
                let aperture = self.of(segment).segment().is_some_and(|it| it.aperture);
                self.with_memory(subject, |it| {
                    it.placed = Some(Placed { segment, address });
                    (it.clean, it.bytes) = (false, bytes);
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
            What::MemoryFreed {} => {
                let place = self.of(subject).memory().and_then(|it| it.placed);
                if let Some(Placed { segment, address }) = place {
                    self.vacate(segment, address, subject);
                }
                self.with_memory(subject, |it| it.placed = None);
            }
            What::LockAimed { segment, .. } => {
                self.with_memory(subject, |it| it.shown = *segment);
            }
            _ => return false,
        }
        true
    }

    fn vacate(&mut self, segment: Subject, address: u64, of: Subject) {
        if let Some(it) = self.get(segment).and_then(Shadow::segment_mut)
            && it.held.get(&address).is_some_and(|it| it.1 == of)
        {
            it.held.remove(&address);
        }
    }

    pub(crate) fn paging(&mut self, event: &Event) {
        match &event.what {
            What::PagingPlanned { adapter, .. } => {
                let paging = Paging { adapter: *adapter, open: None, waits: 0 };
                self.start(event.subject, Known::Paging(paging));
            }
            What::PagingBuilt { .. } => self.built(event),
            What::PagingPrivate { buffer, after, .. } => {
                let adapter = self.of(event.subject).paging().map(|it| it.adapter);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| {
                        it.privates.insert(*buffer, *after);
                    });
                }
            }
            What::PagingDone { operation, of, segment, come } => {
                self.moved(*of, operation, *segment, *come);
            }
            What::PagingEnded { lost } => {
                let adapter = self.of(event.subject).paging().map(|it| it.adapter);
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
        let busy = answer == "busy" && !*whole;
        let open = || Open { operation: operation.clone(), of: *of, pass: *pass, busy };
        let Some(it) = self.get(event.subject).and_then(Shadow::paging_mut) else { return };
        it.open = (!*whole).then(open);
        let adapter = it.adapter;
        let goes_on = !*whole && operation == "transfer";
        self.with_adapter(adapter, |it| it.retried = goes_on.then_some(it.kept));
        if busy {
            self.wait_for(event.subject, adapter);
        }
        if !*whole || !moves(operation) {
            return;
        }
        if !*come {
            self.vacate(*segment, *address, *of);
        } else if let Some(it) = self.get(*segment).and_then(Shadow::segment_mut) {
            it.held.insert(*address, (address.saturating_add(*size), *of));
        }
    }

    /// Paging work waits for all that the nodes of its adapter were given.
    fn wait_for(&mut self, paging: Subject, adapter: Subject) {
        let nodes = self.of(adapter).adapter().map(|it| it.nodes.clone()).unwrap_or_default();
        let mut waits = 0;
        for node in nodes {
            let Some(it) = self.get(node).and_then(Shadow::node_mut) else { continue };
            let owes = |it: &crate::shadow::Due| it.done != it.last;
            if let Some(due) = it.due.filter(owes) {
                it.awaited.push((due.last, paging));
                waits += 1;
            }
        }
        if let Some(it) = self.get(paging).and_then(Shadow::paging_mut) {
            it.waits = waits;
        }
    }

    /// What an adapter had to do counts as done.
    fn waits_end(&mut self, adapter: Subject) {
        let nodes = self.of(adapter).adapter().map(|it| it.nodes.clone()).unwrap_or_default();
        for node in nodes {
            self.pass(node, |_| true);
        }
    }

    pub(crate) fn node_passed(&mut self, node: Subject, fence: Fence) {
        self.pass(node, |it| fence.covers(it));
    }

    pub(crate) fn packet_passed(&mut self, node: Subject, fence: Fence) {
        self.pass(node, |it| it == fence);
    }

    /// Work of a node has passed, or counts as passed: whoever waited for it does not any more.
    fn pass(&mut self, node: Subject, passed: impl Fn(Fence) -> bool) {
        let Some(it) = self.get(node).and_then(Shadow::node_mut) else { return };
        let (over, left) = std::mem::take(&mut it.awaited).into_iter().partition(|it| passed(it.0));
        it.awaited = left;
        let over: Vec<(Fence, Subject)> = over;
        for (_, paging) in over {
            if let Some(it) = self.get(paging).and_then(Shadow::paging_mut) {
                less(&mut it.waits);
            }
        }
    }

    /// An operation on an allocation is done.
    fn moved(&mut self, of: Subject, operation: &str, segment: Subject, come: bool) {
        let place = self.of(of).memory().and_then(|it| it.placed);
        if let Some(saved) = self.get(of).and_then(Shadow::saved_mut) {
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
                if operation.ends_with("aperture") {
                    it.mapped = come;
                }
            }
        });
        // One that was never built is gone from there all the same.
        let stale = place.is_none_or(|it| it.segment != segment);
        let held = self.of(segment).segment().filter(|_| !come && stale && moves(operation));
        let left = held.and_then(|it| it.held.iter().find(|it| it.1.1 == of).map(|it| *it.0));
        if let Some(address) = left {
            self.vacate(segment, address, of);
        }
        self.weigh(of);
    }

    pub(crate) fn saved(&mut self, event: &Event) {
        let subject = event.subject;
        match event.what {
            What::SavedCreated { adapter, device, context, word, .. } => {
                let on = self.nodes_with(adapter, device, context);
                for node in &on {
                    if let Some(it) = self.get(*node).and_then(Shadow::node_mut) {
                        it.saves.push(subject);
                    }
                }
                let saved = Saved {
                    device,
                    context,
                    word,
                    memory: Memory::default(),
                    initialised: false,
                    ready: false,
                    updating: None,
                    counts: true,
                    on,
                };
                self.start(subject, Known::Saved(saved));
                self.with_saves(device, context, |it| {
                    it.all.push(subject);
                    (it.unready, it.blank) = (it.unready + 1, it.blank + 1);
                });
            }
            What::SavedFreed { .. } => {
                let Some(it) = self.get(subject).and_then(Shadow::saved_mut) else { return };
                it.counts = false;
                let (device, context) = (it.device, it.context);
                let (ready, initialised) = (it.ready, it.initialised);
                self.with_saves(device, context, |it| {
                    it.all.retain(|it| *it != subject);
                    it.unready = it.unready.saturating_sub(u32::from(!ready));
                    it.blank = it.blank.saturating_sub(u32::from(!initialised));
                });
            }
            What::SavedUpdating { given } => {
                if let Some(it) = self.get(subject).and_then(Shadow::saved_mut) {
                    it.updating = Some(given);
                }
            }
            What::SavedGone {} => self.end(subject),
            _ => {
                self.memory(event);
                self.weigh(subject);
            }
        }
    }

    /// Counts an allocation of a context anew, for its owner.
    fn weigh(&mut self, subject: Subject) {
        let Some(it) = self.get(subject).and_then(Shadow::saved_mut) else { return };
        let place = it.memory.placed.map(|it| it.segment);
        let ready = it.initialised && place.is_some() && place == it.memory.there;
        let before = std::mem::replace(&mut it.ready, ready);
        let (device, context) = (it.device, it.context);
        if !it.counts {
            return;
        }
        let all = self.saves(context.unwrap_or(device)).map(|it| it.all.as_slice());
        let is_blank = |it: &&Subject| self.of(**it).saved().is_some_and(|it| !it.initialised);
        let blank = all.unwrap_or_default().iter().filter(is_blank).count();
        self.with_saves(device, context, |it| {
            it.blank = u32::try_from(blank).unwrap_or(u32::MAX);
            match (before, ready) {
                (false, true) => less(&mut it.unready),
                (true, false) => it.unready += 1,
                _ => (),
            }
        });
    }

    fn with_saves(
        &mut self,
        device: Subject,
        context: Option<Subject>,
        change: impl FnOnce(&mut Saves),
    ) {
        let owner = context.unwrap_or(device);
        let shadow = self.first(owner, || Known::Early(Saves::default()));
        let saves = match &mut shadow.known {
            Known::Context(it) => &mut it.saves,
            Known::Device(it) => &mut it.saves,
            Known::Early(it) => it,
            _ => return,
        };
        change(saves);
        if matches!(&shadow.known, Known::Early(it) if it.all.is_empty()) {
            self.end(owner);
        }
    }

    /// What a driver keeps for an owner that is said to exist only now.
    pub(crate) fn early_saves(&mut self, owner: Subject) -> Saves {
        match self.get(owner).map(|it| &mut it.known) {
            Some(Known::Early(it)) => std::mem::take(it),
            _ => Saves::default(),
        }
    }

    /// The allocations a driver keeps for an owner.
    fn saves(&self, owner: Subject) -> Option<&Saves> {
        match &self.of(owner).known {
            Known::Context(it) => Some(&it.saves),
            Known::Device(it) => Some(&it.saves),
            Known::Early(it) => Some(it),
            _ => None,
        }
    }

    /// The nodes of an adapter on which a context is current: that one, or any of the device.
    fn nodes_with(
        &self,
        adapter: Subject,
        device: Subject,
        context: Option<Subject>,
    ) -> SmallVec<[Subject; 2]> {
        let nodes = self.of(adapter).adapter().map(|it| it.nodes.as_slice()).unwrap_or_default();
        let saves = |it: &&Subject| {
            let current = self.of(**it).node().and_then(|it| it.current);
            let of = |it: Subject| self.of(it).context().map(|it| it.device);
            match context {
                Some(_) => current == context,
                None => current.and_then(of) == Some(device),
            }
        };
        nodes.iter().filter(saves).copied().collect()
    }

    /// A node has another context current: what that one saves into is in use there.
    pub(crate) fn node_switched(&mut self, node: Subject, to: Option<Subject>) {
        let Some(it) = self.get(node).and_then(Shadow::node_mut) else { return };
        it.current = to;
        let left = std::mem::take(&mut it.saves);
        for saved in left {
            if let Some(it) = self.get(saved).and_then(Shadow::saved_mut) {
                it.on.retain(|it| *it != node);
            }
        }
        let context = to.and_then(|it| self.of(it).context());
        let Some(Context { device, saves, .. }) = context else { return };
        let shared = self.of(*device).device().map(|Device { saves, .. }| &saves.all);
        let all: Vec<Subject> =
            saves.all.iter().chain(shared.into_iter().flatten()).copied().collect();
        for saved in &all {
            if let Some(it) = self.get(*saved).and_then(Shadow::saved_mut) {
                it.on.push(node);
            }
        }
        if let Some(it) = self.get(node).and_then(Shadow::node_mut) {
            it.saves = all;
        }
    }
}

/// Whether an operation brings an allocation to a place, or takes it away.
fn moves(operation: &str) -> bool {
    !matches!(operation, "notify-residency" | "update-context")
}
