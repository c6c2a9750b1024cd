//! Objects by id, lists of such ids, and how events call each kind.

use crate::address::AddressSpace;
use crate::allocation::Allocation;
use crate::context::Context;
use crate::context_allocation::ContextAllocation;
use crate::device::Device;
use crate::instances::InstanceRecord;
use crate::keyed_mutex::KeyedMutex;
use crate::memory::Paging;
use crate::memory::queue::PagingQueue;
use crate::process::Process;
use crate::resource::{Resource, ResourceView};
use crate::retire::Retirement;
use crate::start::Adapter;
use crate::sync::SyncObject;
use crate::sync::event::Event;
use crate::sync::waits::GpuWait;
use crate::view::View;
pub(crate) use flight::{Id, Slab};
use flight::{Kind, Object};
use smallvec::SmallVec;

/// Ids of objects of one kind. Lists are nearly always short, so a few ids need no heap.
pub(crate) type IdList<T> = SmallVec<[Id<T>; 4]>;

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
}

/// The ids of objects that a test only compares.
#[cfg(test)]
pub(crate) fn ids<T, const N: usize>() -> [Id<T>; N] {
    let mut slab = Slab::default();
    std::array::from_fn(|_| slab.reserve())
}
