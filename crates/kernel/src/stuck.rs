//! Which component has left a wait without an end, and which contexts only a client can release.
//!
//! A context is held by its clients if nothing of it is submitted, its queue starts with a wait
//! that is not satisfied, and no queued work can satisfy that wait: no context has queued a signal
//! of the object, or each one that has is held itself. Two contexts that wait for each other are
//! held.

use crate::base::id_list::Id;
use crate::lifetime::context::Context;
use crate::state::KernelState;
use crate::sync::SyncPoints;
use crate::sync::waits::SyncPoint;
use flight::{Component, Kind, Subject};
use std::collections::BTreeSet;

/// Contexts that have been visited.
type Visited = BTreeSet<Id<Context>>;

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
                let mut seen = Visited::new();
                let waiting =
                    waits.iter().all(|(wait, any)| self.is_unsignalled(wait, *any, &mut seen));
                let notified = events.into_iter().any(|object| self.has_signal(object, &mut seen));
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
        self.is_held(context, &mut Visited::new())
    }

    fn is_held(&self, context: Id<Context>, seen: &mut Visited) -> bool {
        if !seen.insert(context) {
            return true;
        }
        let wait = self.contexts.get(context).and_then(|context| context.queue.blocking_wait());
        wait.is_some_and(|points| self.is_unsignalled(points, false, seen))
    }

    /// Whether a wait is not satisfied and no queued work can satisfy it.
    fn is_unsignalled(&self, points: &SyncPoints, any: bool, seen: &mut Visited) -> bool {
        let mut unmet = self.unmet_points(points).into_iter();
        let mut lost = |point| match point {
            SyncPoint::Queue(queue) => {
                let device = self.memory.paging_queue(queue).map(|queue| queue.device);
                let adapter =
                    device.and_then(|device| self.devices.get(device)).map(|device| device.adapter);
                adapter.is_none_or(|adapter| self.is_paging_idle(adapter))
            }
            SyncPoint::Object(_) => !self.has_signal(point, seen),
        };
        if any {
            self.unmet_points(points).len() == points.count() as usize && unmet.all(lost)
        } else {
            unmet.any(&mut lost)
        }
    }

    /// Whether queued work signals an object.
    pub(crate) fn has_queued_signal(&self, point: SyncPoint) -> bool {
        let queued = |context: &Context| context.queue.has_signal(point);
        self.memory.is_updating() || self.contexts.iter().any(|pair| queued(pair.1))
    }

    /// Whether a context that is not held has queued a signal of an object, or an address update
    /// that signals it is being applied.
    fn has_signal(&self, point: SyncPoint, seen: &mut Visited) -> bool {
        let signals: Vec<Id<Context>> = self
            .contexts
            .iter()
            .filter(|(_, context)| context.queue.has_signal(point))
            .map(|pair| pair.0)
            .collect();
        self.memory.is_updating() || signals.into_iter().any(|context| !self.is_held(context, seen))
    }
}
