//! Synchronization objects, events, waits and keyed mutexes.

use crate::base::id_list::{Id, Slab};
use crate::lifetime::context::Context;
use crate::memory::address::update::CheckedUpdate;
use crate::sync::SyncObject;
use crate::sync::event::Event;
use crate::sync::keyed_mutex::KeyedMutex;
use crate::sync::waits::{Broadcast, GpuWait};
use std::collections::{BTreeSet, VecDeque};

/// The state of synchronization.
#[derive(Default)]
pub(crate) struct SyncState {
    pub(crate) keyed_mutexes: Slab<KeyedMutex>,
    pub(crate) objects: Slab<SyncObject>,
    /// The objects that are mutexes. A context that is destroyed may hold one of them.
    pub(crate) mutexes: BTreeSet<Id<SyncObject>>,
    pub(crate) events: Slab<Event>,
    pub(crate) gpu_waits: Slab<GpuWait>,
    pub(crate) broadcasts: Slab<Broadcast>,
    /// Contexts that may continue, and whether a thread is continuing them.
    pub(crate) satisfied: VecDeque<Id<Context>>,
    pub(crate) waking: bool,
    /// Address updates whose fence has reached its value.
    pub(crate) due: VecDeque<Id<CheckedUpdate>>,
}
