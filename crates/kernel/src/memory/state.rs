//! The state of this folder: extents, paging work, address spaces, trim notifications.
//!
//! # Invariants
//!
//! 1. An extent has one owner: an allocation, an instance, a context allocation or a page table.
//! 2. `spaces_of` lists exactly the address spaces that belong to a process.
//! 3. A context allocation in `freed_context_allocations` is freed by its driver and still has
//!    memory.
//! 4. An address update is in `updates` while it waits for its fence or for a change of its root
//!    table, and in `updating` while paging work writes its entries; never in both.
//! 5. An id in `pending_trims` may be of a registration that has ended, and one in `evictions` of an
//!    extent that has ended.

use crate::adapter::start::Adapter;
use crate::base::id_list::{Id, IdList, Slab};
use crate::lifetime::process::Process;
use crate::memory::address::queued_update::PendingUpdate;
use crate::memory::address::ranges::Backing;
use crate::memory::address::update::CheckedUpdate;
use crate::memory::address::{AddressSpace, SpaceStage};
use crate::memory::budget::TrimRegistration;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::instances::InstanceRecord;
use crate::memory::offer::PendingOffer;
use crate::memory::pressure::Pressure;
use crate::memory::queue::PagingQueue;
use crate::memory::{Extent, Paging};
use crate::objects::handle_table::ObjectId;
use crate::objects::view::View;
use crate::schedule::report::QueuePoint;
use flight::LiveObject;
use std::collections::BTreeMap;
use std::ops::Range;

/// Video memory and GPU virtual addresses, of all adapters.
#[derive(Default)]
pub(crate) struct MemoryState {
    pub(super) extents: Slab<Extent>,
    pub(super) pagings: Slab<Paging>,
    pub(super) paging_queues: Slab<PagingQueue>,
    pub(super) context_allocations: Slab<ContextAllocation>,
    /// Context allocations that were freed and still have memory.
    pub(super) freed_context_allocations: Vec<Id<ContextAllocation>>,
    /// Instances of allocations.
    pub(super) instances: Slab<InstanceRecord>,
    pub(super) spaces: Slab<AddressSpace>,
    /// The address space of a process on an adapter.
    pub(super) spaces_of: BTreeMap<(Id<Process>, Id<Adapter>), IdList<AddressSpace>>,
    /// Address updates that wait for a fence.
    pub(super) updates: Slab<CheckedUpdate>,
    /// Updates whose entries are being written.
    pub(super) updating: Vec<PendingUpdate>,
    /// Offers that wait for earlier work.
    pub(super) offers: Vec<PendingOffer>,
    /// Extents that their clients evicted while queued work behind a wait may use them.
    pub(super) evictions: Vec<Id<Extent>>,
    /// The artificial pressure on drivers, if any.
    pub(super) pressure: Option<Pressure>,
    pub(super) trim_registrations: Slab<TrimRegistration>,
    /// The trim registrations to notify.
    pub(super) pending_trims: Vec<Id<TrimRegistration>>,
    /// The trim registration that is being notified, and the thread that does it.
    pub(super) trim_in_progress: Option<(Id<TrimRegistration>, u32)>,
    /// The last number of a segment.
    pub(super) last_segment: u32,
    /// The last number of a page table.
    pub(super) last_table: u32,
}

/// Extents and paging work.
impl MemoryState {
    /// An extent, unless it has ended.
    pub(crate) fn extent(&self, extent: Id<Extent>) -> Option<&Extent> {
        self.extents.get(extent)
    }

    /// The extents in the memory of an adapter.
    pub(crate) fn extents_of(
        &self,
        adapter: Id<Adapter>,
    ) -> impl Iterator<Item = (Id<Extent>, &Extent)> {
        self.extents.iter().filter(move |(_, extent)| extent.adapter == adapter)
    }

    /// Whether there are extents, on any adapter.
    pub(crate) fn has_extents(&self) -> bool {
        !self.extents.is_empty()
    }

    /// Adds the extent of a new allocation.
    pub(crate) fn add_extent(&mut self, extent: Extent) -> Id<Extent> {
        self.extents.insert(extent)
    }

    /// Sets the work that may use an extent.
    pub(crate) fn set_uses(&mut self, extent: Id<Extent>, uses: Vec<QueuePoint>) {
        self.extents[extent].uses = uses;
    }

    /// Whether any paging work is not done.
    pub(crate) fn has_paging_work(&self) -> bool {
        !self.pagings.is_empty()
    }

    /// Whether paging work of an adapter is not done.
    pub(crate) fn has_paging_work_of(&self, adapter: Id<Adapter>) -> bool {
        self.pagings.iter().any(|(_, paging)| paging.adapter == adapter)
    }

    /// Whether entries of an address update are being written.
    pub(crate) fn is_updating(&self) -> bool {
        !self.updating.is_empty()
    }

    /// A paging queue, unless it is destroyed.
    pub(crate) fn paging_queue(&self, queue: Id<PagingQueue>) -> Option<&PagingQueue> {
        self.paging_queues.get(queue)
    }

    /// A context allocation, which must exist.
    pub(crate) fn context_allocation(&self, id: Id<ContextAllocation>) -> &ContextAllocation {
        &self.context_allocations[id]
    }

    /// The artificial pressure on drivers, if any. Each draw changes it.
    pub(crate) fn pressure_mut(&mut self) -> Option<&mut Pressure> {
        self.pressure.as_mut()
    }
}

/// Address spaces.
impl MemoryState {
    /// The views that a range of addresses maps.
    pub(crate) fn mapped_views(
        &self,
        space: Id<AddressSpace>,
        range: &Range<u64>,
    ) -> Vec<Id<View>> {
        let space = &self.spaces[space];
        let view = |backing: Backing| match backing {
            Backing::Mapped { view, .. } => Some(view),
            Backing::Reserved | Backing::Driver | Backing::NoAccess | Backing::Zero => None,
        };
        space.addresses.parts(range).into_iter().filter_map(|part| view(part.1.backing)).collect()
    }

    /// The tables of the system's address space are written: the space can be used.
    pub(crate) fn set_system_space_live(&mut self, space: Id<AddressSpace>) {
        let space = &mut self.spaces[space];
        (space.stage, space.users) = (SpaceStage::Live, 0);
    }
}

/// Objects that clients have handles of, and live objects.
impl MemoryState {
    /// Whether an object of this folder that a client can have a handle of is alive.
    pub(crate) fn contains(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::Instance(id) => self.instances.contains(id),
            ObjectId::PagingQueue(id) | ObjectId::QueueFence(id) => self.paging_queues.contains(id),
            _ => false,
        }
    }

    /// Lists context allocations among the live objects.
    pub(crate) fn list_context_allocations(&self, all: &mut Vec<LiveObject>) {
        for (number, allocation) in self.context_allocations.iter() {
            let freed = if allocation.freed {
                "freed, but an engine may save into it"
            } else {
                "not freed"
            };
            all.push(LiveObject {
                subject: number.subject(),
                owner: Some(allocation.adapter.subject()),
                reasons: vec![format!("of {}, {freed}", allocation.device)],
            });
        }
    }

    /// Lists instances of allocations among the live objects.
    pub(crate) fn list_instances(&self, all: &mut Vec<LiveObject>) {
        for (number, instance) in self.instances.iter() {
            all.push(LiveObject {
                subject: number.subject(),
                owner: Some(instance.allocation.subject()),
                reasons: vec![format!("an instance of {}", instance.allocation)],
            });
        }
    }

    /// Lists paging queues among the live objects.
    pub(crate) fn list_paging_queues(&self, all: &mut Vec<LiveObject>) {
        for (number, queue) in self.paging_queues.iter() {
            let (done, assigned) = (queue.last_signalled, queue.last_assigned);
            all.push(LiveObject {
                subject: number.subject(),
                owner: Some(queue.device.subject()),
                reasons: vec![format!("handle {:#x}, {done} of {assigned} done", queue.handle.0)],
            });
        }
    }
}
