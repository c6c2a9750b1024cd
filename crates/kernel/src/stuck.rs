//! Which component has left a wait without an end, which contexts only a client can release, and
//! which work is behind a wait.
//!
//! A context is held by its clients if nothing of it is submitted, its queue starts with a wait
//! that is not satisfied, and no queued work can satisfy that wait: no context has queued a signal
//! of the object, or each one that has is held itself. Two contexts that wait for each other are
//! held.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::lifetime::context::Context;
use crate::lifetime::device::{Device, DeviceLoss};
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use crate::sync::SyncPoints;
use crate::sync::waits::SyncPoint;
use flight::{Component, Kind, Subject};
use std::collections::BTreeSet;

type ContextSet = BTreeSet<Id<Context>>;

impl KernelState {
    /// The component that has left a wait for `about` without an end.
    ///
    /// WINDOWS: a wait that is never satisfied blocks for ever (documented for
    /// `D3DKMTWaitForSynchronizationObjectFromCpu` and `pfnDestroyContextCb`); that the client is
    /// at fault when only a client could satisfy it is our reading.
    pub(crate) fn stuck_component(&self, about: Subject) -> Component {
        let held = |context: &Id<Context>| self.is_held_by_client(*context);
        let contexts: Vec<Id<Context>> = match about.kind {
            // A wait for a permit is a wait for the kernel.
            Kind::Run => return Component::Kernel,
            // Only clients release a keyed mutex.
            Kind::KeyedMutex => return Component::Client,
            Kind::Sync | Kind::PagingQueue | Kind::Event => {
                let (waits, events) = self.sync.cpu_waits_for(about);
                let held = self.held_contexts();
                let waiting =
                    waits.iter().all(|(wait, any)| self.is_unsignalled(wait, *any, &held));
                let notified = events.into_iter().any(|object| self.has_signal(object, &held));
                let client = waiting && !notified;
                return if client { Component::Client } else { Component::Driver };
            }
            Kind::Context => {
                self.contexts.iter().map(|pair| pair.0).filter(|id| id.subject() == about).collect()
            }
            Kind::Device => self.contexts_of_device(about),
            Kind::Retirement => self
                .lifetime
                .device_of(about)
                .map(|device| self.contexts_of_device(device.subject()))
                .unwrap_or_default(),
            _ => self.contexts.iter().map(|pair| pair.0).collect(),
        };
        if contexts.iter().any(held) { Component::Client } else { Component::Driver }
    }

    fn contexts_of_device(&self, device: Subject) -> Vec<Id<Context>> {
        let own = self.contexts.iter().filter(|(_, context)| context.device.subject() == device);
        own.map(|pair| pair.0).collect()
    }

    /// Whether only a client can let this context continue.
    pub(crate) fn is_held_by_client(&self, context: Id<Context>) -> bool {
        let waits = self.contexts.get(context).is_some_and(|it| it.queue.blocking_wait().is_some());
        waits && self.held_contexts().contains(&context)
    }

    /// Whether only a client can let a context of this device continue. A device that ends does not
    /// wait for its client.
    pub(crate) fn is_held_device(&self, device: Id<Device>) -> bool {
        let device = self.devices.get(device).filter(|it| !it.ending && it.lost.is_none());
        device.is_some_and(|it| it.contexts.iter().any(|id| self.is_held_by_client(*id)))
    }

    /// Whether a device ends, or has ended, although only a client can let a context of it continue.
    pub(crate) fn is_abandoned_device(&self, device: Id<Device>) -> bool {
        let held = |device: &Device| device.contexts.iter().any(|id| self.is_held_by_client(*id));
        self.devices.get(device).is_none_or(|device| device.ending && held(device))
    }

    /// The contexts that only clients can let continue: all that wait, less those that another
    /// context can release, until none is left to take away.
    fn held_contexts(&self) -> ContextSet {
        let waits = |context: &Context| context.queue.blocking_wait().is_some();
        let waiting = self.contexts.iter().filter(|pair| waits(pair.1));
        let mut held: ContextSet = waiting.map(|pair| pair.0).collect();
        loop {
            let stays = |context: &Id<Context>| {
                let wait = self.contexts[*context].queue.blocking_wait();
                wait.is_some_and(|points| self.is_unsignalled(points, false, &held))
            };
            let remaining: ContextSet = held.iter().copied().filter(stays).collect();
            if remaining.len() == held.len() {
                return held;
            }
            held = remaining;
        }
    }

    /// Whether a wait is not satisfied and no queued work can satisfy it. `held` are the contexts
    /// that do not continue.
    fn is_unsignalled(&self, points: &SyncPoints, any: bool, held: &ContextSet) -> bool {
        let unmet = self.unmet_points(points);
        let lost = |point: &SyncPoint| match point {
            SyncPoint::Queue(queue) => {
                let device = self.memory.paging_queue(*queue).map(|queue| queue.device);
                let device = device.and_then(|device| self.devices.get(device));
                device.is_none_or(|device| self.is_paging_idle(device.adapter))
            }
            SyncPoint::Object(_) => !self.has_signal(*point, held),
        };
        if any {
            unmet.len() == points.list.len() && unmet.iter().all(lost)
        } else {
            unmet.iter().any(lost)
        }
    }

    /// Whether work is queued behind a wait that a client may leave without an end: all but a wait
    /// for paging work of the same adapter that is queued already. Paging work never waits for such
    /// work, or the other clients of the adapter would wait for it as well.
    pub(crate) fn is_behind_wait(&self, adapter: Id<Adapter>, work: QueuePoint) -> bool {
        let QueuePoint::Context(context, packet) = work else { return false };
        let Some(context) = self.contexts.get(context) else { return false };
        let is_queued = |(point, value): &(SyncPoint, u64)| match point {
            SyncPoint::Queue(queue) => self
                .memory
                .paging_queue(*queue)
                .is_none_or(|queue| queue.adapter == adapter && queue.last_assigned >= *value),
            SyncPoint::Object(_) => false,
        };
        context.queue.waits_before(packet).any(|points| !points.list.iter().all(is_queued))
    }

    /// Remembers that a queued signal never happens because its device is lost through no fault of
    /// the client: a wait for it is not the client's fault then.
    pub(crate) fn note_dropped_signal(&mut self, context: Id<Context>, points: &SyncPoints) {
        let device = self.contexts.get(context).and_then(|it| self.devices.get(it.device));
        let client = |why: DeviceLoss| why == DeviceLoss::PageFault;
        if device.and_then(|device| device.lost).is_some_and(|why| !client(why)) {
            self.sync.mark_signal_dropped(points);
        }
    }

    /// Whether queued work signals an object.
    pub(crate) fn has_queued_signal(&self, point: SyncPoint) -> bool {
        let queued = |context: &Context| context.queue.has_signal(point);
        self.memory.is_updating() || self.contexts.iter().any(|pair| queued(pair.1))
    }

    /// Whether a context that is not held has queued a signal of an object, has lost it with its
    /// device, or an address update that signals it is being applied.
    fn has_signal(&self, point: SyncPoint, held: &ContextSet) -> bool {
        let signals = |(id, context): (Id<Context>, &Context)| {
            context.queue.has_signal(point) && !held.contains(&id)
        };
        self.sync.is_signal_dropped(point)
            || self.memory.is_updating()
            || self.contexts.iter().any(signals)
    }
}
