//! The memory of all adapters: extents, paging work, address spaces.

use crate::adapter::start::Adapter;
use crate::base::id_list::{Id, IdList, Slab};
use crate::lifetime::process::Process;
use crate::memory::address::AddressSpace;
use crate::memory::address::queued_update::PendingUpdate;
use crate::memory::address::update::CheckedUpdate;
use crate::memory::budget::TrimRegistration;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::instances::InstanceRecord;
use crate::memory::offer::PendingOffer;
use crate::memory::pressure::Pressure;
use crate::memory::queue::PagingQueue;
use crate::memory::{Extent, Paging};
use std::collections::BTreeMap;

/// The state of this folder.
#[derive(Default)]
pub(crate) struct MemoryState {
    pub(crate) extents: Slab<Extent>,
    pub(crate) pagings: Slab<Paging>,
    pub(crate) paging_queues: Slab<PagingQueue>,
    pub(crate) context_allocations: Slab<ContextAllocation>,
    /// Context allocations that were freed and still have memory.
    pub(crate) freed_context_allocations: Vec<Id<ContextAllocation>>,
    /// Instances of allocations.
    pub(crate) instances: Slab<InstanceRecord>,
    pub(crate) spaces: Slab<AddressSpace>,
    /// The address space of a process on an adapter.
    pub(crate) spaces_of: BTreeMap<(Id<Process>, Id<Adapter>), IdList<AddressSpace>>,
    /// Address updates that wait for a fence.
    pub(crate) updates: Slab<CheckedUpdate>,
    /// Updates whose entries are being written.
    pub(crate) updating: Vec<PendingUpdate>,
    /// Offers that wait for earlier work.
    pub(crate) offers: Vec<PendingOffer>,
    /// The artificial pressure on drivers, if any.
    pub(crate) pressure: Option<Pressure>,
    pub(crate) trim_registrations: Slab<TrimRegistration>,
    /// The trim registrations to notify.
    pub(crate) pending_trims: Vec<Id<TrimRegistration>>,
    /// The trim registration that is being notified, and the thread that does it.
    pub(crate) trim_in_progress: Option<(Id<TrimRegistration>, u32)>,
    pub(crate) last_segment: u32,
    pub(crate) last_table: u32,
}
