//! Objects by id, lists of such ids, and how events call each kind.

use crate::allocation::Allocation;
use crate::context::Context;
use crate::device::Device;
use crate::keyed::Keyed;
use crate::memory::Paging;
use crate::memory::queue::Queue;
use crate::process::Process;
use crate::renamed::InstanceRecord;
use crate::resource::{Resource, ResourceView};
use crate::retire::Retirement;
use crate::saved::Saved;
use crate::space::Space;
use crate::start::Adapter;
use crate::sync::Sync;
use crate::sync::event::Event;
use crate::sync::marks::Await;
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
    Queue: Queue,
    Saved: Saved,
    Space: Space,
    Keyed: Keyed,
    Sync: Sync,
    Event: Event,
    Await: Await,
}

/// The ids of objects that a test only compares.
#[cfg(test)]
pub(crate) fn ids<T, const N: usize>() -> [Id<T>; N] {
    let mut slab = Slab::default();
    std::array::from_fn(|_| slab.reserve())
}
