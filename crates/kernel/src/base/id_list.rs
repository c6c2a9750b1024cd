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

/// Ids of objects of one type. Lists are nearly always short, so a few ids need no heap.
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
    NtObject: NtObject,
    NtHandle: NtObject,
}

/// Ids of objects that a test only compares.
#[cfg(test)]
pub(crate) fn ids<T, const N: usize>() -> [Id<T>; N] {
    let mut slab = Slab::default();
    std::array::from_fn(|_| slab.reserve())
}
