//! The state of this folder: synchronization objects, events, waits and keyed mutexes.
//!
//! # Invariants
//!
//! 1. `mutexes` has the ids of exactly the objects that are mutexes.
//! 2. `waking` is set while `satisfied` and `due` are being emptied. A context that continues may
//!    satisfy further waits, which are then only added to these queues.
//! 3. An id in `satisfied` or `due` may be of a context or an update that has ended meanwhile.

use crate::base::id_list::{Id, Slab};
use crate::lifetime::context::Context;
use crate::memory::address::update::CheckedUpdate;
use crate::objects::handle_table::ObjectId;
use crate::sync::SyncObject;
use crate::sync::SyncValue;
use crate::sync::event::Event;
use crate::sync::keyed_mutex::KeyedMutex;
use crate::sync::waits::{Broadcast, GpuWait, SyncPoint, SyncPoints, Waiter};
use flight::Subject;
use std::collections::{BTreeSet, VecDeque};

/// Synchronization, of all devices.
#[derive(Default)]
pub(crate) struct SyncState {
    pub(super) objects: Slab<SyncObject>,
    /// The objects that are mutexes. A context that is destroyed may hold one of them.
    pub(super) mutexes: BTreeSet<Id<SyncObject>>,
    pub(super) keyed_mutexes: Slab<KeyedMutex>,
    pub(super) events: Slab<Event>,
    pub(super) gpu_waits: Slab<GpuWait>,
    pub(super) broadcasts: Slab<Broadcast>,
    /// Contexts that may continue.
    pub(super) satisfied: VecDeque<Id<Context>>,
    /// The contexts in `satisfied` continue and the updates in `due` are applied at this moment.
    pub(super) waking: bool,
    /// Address updates whose fence has reached its value.
    pub(super) due: VecDeque<Id<CheckedUpdate>>,
}

impl SyncState {
    /// Whether an object of this folder that a client can have a handle of is alive.
    pub(crate) fn contains(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::SyncObject(id) => self.objects.contains(id),
            ObjectId::KeyedMutex(id) => self.keyed_mutexes.contains(id),
            _ => false,
        }
    }

    /// Remembers that a queued signal of these objects was dropped with its device.
    pub(crate) fn mark_signal_dropped(&mut self, points: &SyncPoints) {
        for (point, _) in &points.list {
            if let SyncPoint::Object(number) = point {
                self.objects[*number].signal_dropped = true;
            }
        }
    }

    /// Whether a queued signal of the object was dropped with its device.
    pub(crate) fn is_signal_dropped(&self, point: SyncPoint) -> bool {
        match point {
            SyncPoint::Object(number) => {
                self.objects.get(number).is_some_and(|object| object.signal_dropped)
            }
            SyncPoint::Queue(_) => false,
        }
    }

    /// The pending waits of a client's thread for `about`, a synchronization object, a paging queue
    /// or an event, each with whether one object is enough; and the notification objects that set
    /// the event.
    pub(crate) fn cpu_waits_for(
        &self,
        about: Subject,
    ) -> (Vec<(SyncPoints, bool)>, Vec<SyncPoint>) {
        let waits = |wait: &GpuWait| {
            let relevant = match wait.waiter {
                Waiter::Thread => wait.points.list.iter().any(|pair| pair.0.subject() == about),
                Waiter::Event(event) => event.subject() == about,
                Waiter::Context(_) | Waiter::Update { .. } => false,
            };
            relevant && wait.result.is_none()
        };
        let notifies = |object: &SyncObject| matches!(object.state, SyncValue::Notification { event } if event.subject() == about);
        let pending = self.gpu_waits.iter().filter(|pair| waits(pair.1));
        let objects = self.objects.iter().filter(|pair| notifies(pair.1));
        (
            pending.map(|(_, wait)| (wait.points.clone(), wait.any)).collect(),
            objects.map(|(id, _)| SyncPoint::Object(id)).collect(),
        )
    }
}
