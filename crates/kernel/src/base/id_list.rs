//! Slabs and ids of kernel objects, lists of ids, and the event subject of each type.

use crate::adapter::start::Adapter;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::nt_object::{NtHandle, NtObject};
use crate::lifetime::process::Process;
use crate::lifetime::retire::Retirement;
use crate::memory::Paging;
use crate::memory::address::AddressSpace;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::instances::InstanceRecord;
use crate::memory::queue::PagingQueue;
use crate::objects::allocation::Allocation;
use crate::objects::resource::{Resource, ResourceView};
use crate::objects::view::View;
use crate::sync::SyncObject;
use crate::sync::event::Event;
use crate::sync::keyed_mutex::KeyedMutex;
use crate::sync::waits::GpuWait;
pub(crate) use flight::{Id, Slab};
use flight::{Kind, Object};
use smallvec::SmallVec;
use std::ops::Deref;

/// Ids of objects of one type. Lists are nearly always short, so a few ids need no heap.
pub(crate) type IdList<T> = SmallVec<[Id<T>; 4]>;

/// Ids of objects of one type, each once, in order. A set that has one or two ids needs no heap.
#[derive(Clone, Debug)]
pub(crate) struct IdSet<T>(SmallVec<[Id<T>; 2]>);

impl<T> IdSet<T> {
    pub(crate) fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Adds an id, which is mostly the newest.
    #[inline]
    pub(crate) fn insert(&mut self, id: Id<T>) {
        if self.0.last().is_none_or(|last| *last < id) {
            self.0.push(id);
        } else if let Err(place) = self.0.binary_search(&id) {
            self.0.insert(place, id);
        }
    }

    /// Removes an id, if it is there.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id<T>) {
        if let Ok(place) = self.0.binary_search(&id) {
            self.0.remove(place);
        }
    }
}

impl<T> Deref for IdSet<T> {
    type Target = [Id<T>];

    #[inline]
    fn deref(&self) -> &[Id<T>] {
        &self.0
    }
}

impl<'a, T> IntoIterator for &'a IdSet<T> {
    type Item = &'a Id<T>;
    type IntoIter = std::slice::Iter<'a, Id<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

macro_rules! objects {
    ($($object:ident: $kind:ident,)+) => {
        $(impl Object for $object { const KIND: Kind = Kind::$kind; })+
    };
}

objects! {
    Process: Process,
    Adapter: Adapter,
    Device: Device,
    Context: Context,
    Resource: Resource,
    ResourceView: ResourceView,
    Allocation: Allocation,
    View: View,
    InstanceRecord: Instance,
    Retirement: Retirement,
    Paging: Paging,
    PagingQueue: PagingQueue,
    ContextAllocation: ContextAllocation,
    AddressSpace: AddressSpace,
    KeyedMutex: KeyedMutex,
    SyncObject: Sync,
    Event: Event,
    GpuWait: GpuWait,
    NtObject: NtObject,
    NtHandle: NtObject,
}

/// Ids of objects that a test only compares.
#[cfg(test)]
pub(crate) fn ids<T, const N: usize>() -> [Id<T>; N] {
    let mut slab = Slab::default();
    std::array::from_fn(|_| slab.reserve())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_id_once_and_in_order() {
        let [a, b, c, d]: [Id<Allocation>; 4] = ids();
        let mut set = IdSet::new();
        for id in [b, d, a, d, c, b] {
            set.insert(id);
        }
        assert_eq!(set[..], [a, b, c, d]);
        set.remove(b);
        set.remove(b);
        set.remove(d);
        assert_eq!(set[..], [a, c]);
    }
}
