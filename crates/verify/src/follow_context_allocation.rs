//! Following context allocations: their owners, whether an engine can save into them, and on
//! which nodes their contexts are current.

use crate::follow::decrement;
use crate::shadow::Shadows;
use crate::shadow::memory::{ContextAllocation, ContextAllocationList, Memory};
use crate::shadow::{Adapter, Context, Device, Key, Node, Serial};
use flight::{Event, EventKind, Kind, Subject};
use smallvec::SmallVec;

impl Shadows {
    pub(crate) fn follow_saved(&mut self, event: &Event) {
        let subject = event.subject;
        match event.kind {
            EventKind::ContextAllocationCreated {
                adapter, device, context, driver_handle, ..
            } => {
                let (device, context) = (device.into(), context.map(Serial::from));
                let on = self.nodes_with(adapter.into(), device, context);
                for node in &on {
                    if let Some(it) = self.node_mut(*node) {
                        it.saves.push(subject.into());
                    }
                }
                let context_allocation = ContextAllocation {
                    device,
                    context,
                    driver_handle: driver_handle.into(),
                    memory: Memory::default(),
                    initialised: false,
                    ready: false,
                    updating: None,
                    counts: true,
                    on,
                };
                self.start(subject, context_allocation);
                self.with_context_allocations(device, context, |list| {
                    list.all.push(subject.into());
                    (list.unready, list.uninitialised) = (list.unready + 1, list.uninitialised + 1);
                });
            }
            EventKind::ContextAllocationFreed { .. } => {
                let Some(it) = self.context_allocation_mut(subject) else { return };
                it.counts = false;
                let (device, context) = (it.device, it.context);
                let (ready, initialised) = (it.ready, it.initialised);
                self.with_context_allocations(device, context, |list| {
                    list.all.retain(|serial| *serial != subject);
                    list.unready = list.unready.saturating_sub(u32::from(!ready));
                    list.uninitialised = list.uninitialised.saturating_sub(u32::from(!initialised));
                });
            }
            EventKind::ContextAllocationUpdating { data: given } => {
                if let Some(it) = self.context_allocation_mut(subject) {
                    it.updating = Some(given);
                }
            }
            EventKind::ContextAllocationDestroyed {} => self.end(subject),
            _ => {
                self.follow_memory(event);
                self.update_readiness(subject);
            }
        }
    }

    /// Counts a context allocation again, for its owner.
    pub(crate) fn update_readiness(&mut self, subject: impl Key<ContextAllocation>) {
        let Some(it) = self.context_allocation_mut(subject) else { return };
        let place = it.memory.location.map(|segment_address| segment_address.segment);
        let ready = it.initialised && place.is_some() && place == it.memory.segment;
        let before = std::mem::replace(&mut it.ready, ready);
        let (device, context) = (it.device, it.context);
        if !it.counts {
            return;
        }
        let all = self.context_allocations(owner(device, context)).map(|list| list.all.as_slice());
        let is_blank = |serial: &&Serial<ContextAllocation>| {
            self.context_allocation(**serial)
                .is_some_and(|context_allocation| !context_allocation.initialised)
        };
        let uninitialised = all.unwrap_or_default().iter().filter(is_blank).count();
        self.with_context_allocations(device, context, |it| {
            it.uninitialised = u32::try_from(uninitialised).unwrap_or(u32::MAX);
            match (before, ready) {
                (false, true) => decrement(&mut it.unready),
                (true, false) => it.unready += 1,
                _ => (),
            }
        });
    }

    fn with_context_allocations(
        &mut self,
        device: Serial<Device>,
        context: Option<Serial<Context>>,
        change: impl FnOnce(&mut ContextAllocationList),
    ) {
        let owner = owner(device, context);
        let known = match owner.kind {
            Kind::Context => self.context_mut(owner).map(|context| &mut context.saves),
            _ => self.device_mut(owner).map(|device| &mut device.saves),
        };
        if let Some(saves) = known {
            return change(saves);
        }
        let saves = self.early_saves.entry(owner).or_default();
        change(saves);
        if saves.all.is_empty() {
            self.early_saves.remove(&owner);
        }
    }

    /// The context allocations of an owner whose creation is logged only now.
    pub(crate) fn take_early_saves(&mut self, owner: Subject) -> ContextAllocationList {
        self.early_saves.remove(&owner).unwrap_or_default()
    }

    /// The context allocations of an owner.
    fn context_allocations(&self, owner: Subject) -> Option<&ContextAllocationList> {
        let known = match owner.kind {
            Kind::Context => self.context(owner).map(|context| &context.saves),
            _ => self.device(owner).map(|device| &device.saves),
        };
        known.or_else(|| self.early_saves.get(&owner))
    }

    /// The nodes of an adapter on which a context is current: that one, or any of the device.
    fn nodes_with(
        &self,
        adapter: Serial<Adapter>,
        device: Serial<Device>,
        context: Option<Serial<Context>>,
    ) -> SmallVec<[Serial<Node>; 2]> {
        let nodes =
            self.adapter(adapter).map(|adapter| adapter.nodes.as_slice()).unwrap_or_default();
        let saves = |it: &&Serial<Node>| {
            let current = self.node(**it).and_then(|node| node.current);
            let of = |serial: Serial<Context>| self.context(serial).map(|context| context.device);
            match context {
                Some(_) => current == context,
                None => current.and_then(of) == Some(device),
            }
        };
        nodes.iter().filter(saves).copied().collect()
    }

    /// Another context is current on a node: its context allocation is in use there.
    pub(crate) fn switch_node(&mut self, node: Serial<Node>, to: Option<Serial<Context>>) {
        let Some(it) = self.node_mut(node) else { return };
        it.current = to;
        let left = std::mem::take(&mut it.saves);
        for context_allocation in left {
            if let Some(it) = self.context_allocation_mut(context_allocation) {
                it.on.retain(|serial| *serial != node);
            }
        }
        let context = self.context(to);
        let Some(Context { device, saves, .. }) = context else { return };
        let shared = self.device(*device).map(|Device { saves, .. }| &saves.all);
        let all: Vec<Serial<ContextAllocation>> =
            saves.all.iter().chain(shared.into_iter().flatten()).copied().collect();
        for context_allocation in &all {
            if let Some(it) = self.context_allocation_mut(*context_allocation) {
                it.on.push(node);
            }
        }
        if let Some(it) = self.node_mut(node) {
            it.saves = all;
        }
    }
}

/// The context that a context allocation is for, or the device if it is for all its contexts.
pub(crate) fn owner(device: Serial<Device>, context: Option<Serial<Context>>) -> Subject {
    context.map_or(device.into(), Subject::from)
}
