//! The kernel state: all objects, under one lock.
//!
//! # Invariants (checked by [`KernelState::validate`])
//!
//! 1. A live handle refers to a live object, and a `Live` view or published resource view has one
//!    handle.
//! 2. The adapter owns allocations and resources; a device owns views; a process owns handles.
//! 3. An allocation is listed at its resource, a view at its allocation and its device.
//! 4. A view that has a retirement is not `Live`, and a retirement's views exist.

use crate::adapter::start::Adapter;
use crate::base::id_list::{Id, IdList, Slab};
use crate::ddi::permit::PermitTable;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::handle_data::HandleDataReference;
use crate::lifetime::process::Process;
use crate::lifetime::retire::Retirement;
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
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::HandleTable;
use crate::objects::handle_table::ObjectId;
use crate::objects::resource::{Resource, ResourceView};
use crate::objects::view::{View, ViewStage};
use crate::schedule::render::RenderPacket;
use crate::sync::SyncState;
use crate::sync::keyed_mutex::KeyedMutex;
use flight::WaitQueue;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All objects of the kernel.
pub(crate) struct KernelState {
    pub(crate) processes: Slab<Process>,
    pub(crate) adapters: Slab<Adapter>,
    pub(crate) devices: Slab<Device>,
    pub(crate) contexts: Slab<Context>,
    pub(crate) resources: Slab<Resource>,
    pub(crate) resource_views: Slab<ResourceView>,
    pub(crate) allocations: Slab<Allocation>,
    pub(crate) views: Slab<View>,
    /// Instances of allocations.
    pub(crate) instances: Slab<InstanceRecord>,
    pub(crate) retirements: Slab<Retirement>,
    /// The global handles of shared resources and keyed mutexes.
    pub(crate) global_handles: HandleTable,
    /// The kernel's own handles, which drivers use in callbacks.
    pub(crate) kernel_handles: HandleTable,
    pub(crate) extents: Slab<Extent>,
    pub(crate) pagings: Slab<Paging>,
    pub(crate) paging_queues: Slab<PagingQueue>,
    pub(crate) context_allocations: Slab<ContextAllocation>,
    /// Packets with lists that are not done.
    pub(crate) render_packets: Slab<RenderPacket>,
    pub(crate) spaces: Slab<AddressSpace>,
    /// The address space of a process on an adapter.
    pub(crate) spaces_of: BTreeMap<(Id<Process>, Id<Adapter>), IdList<AddressSpace>>,
    /// The devices of a process.
    pub(crate) devices_of: BTreeMap<Id<Process>, IdList<Device>>,
    pub(crate) keyed_mutexes: Slab<KeyedMutex>,
    /// Address updates that wait for a fence.
    pub(crate) updates: Slab<CheckedUpdate>,
    /// Updates whose entries are being written.
    pub(crate) updating: Vec<PendingUpdate>,
    /// Context allocations that were freed and still have memory.
    pub(crate) freed_context_allocations: Vec<Id<ContextAllocation>>,
    /// Offers that wait for earlier work.
    pub(crate) offers: Vec<PendingOffer>,
    /// The artificial pressure on drivers, if any.
    pub(crate) pressure: Option<Pressure>,
    pub(crate) trim_registrations: Slab<TrimRegistration>,
    /// The trim registrations to notify.
    pub(crate) pending_trims: Vec<Id<TrimRegistration>>,
    /// The trim registration that is being notified, and the thread that does it.
    pub(crate) trim_in_progress: Option<(Id<TrimRegistration>, u32)>,
    pub(crate) sync: SyncState,
    pub(crate) permits: PermitTable,
    /// The threads that wait for an object of a device, a context or an adapter to end or to leave.
    /// All of them check again after each change.
    pub(crate) waiters: WaitQueue,
    /// Idle retirements that wait for their permit.
    pub(crate) jobs: VecDeque<Id<Retirement>>,
    /// Contexts with a packet at the front of their queue.
    pub(crate) runnable: Vec<Id<Context>>,
    /// Packets that will never be submitted, which drivers are to be notified of.
    pub(crate) cancelled: VecDeque<(Id<Context>, crate::schedule::dispatch::PacketPayload)>,
    /// Nodes that timed out, and the next recovery step of each.
    pub(crate) recoveries: VecDeque<crate::adapter::tdr::RecoveryAction>,
    /// A preemption waits for its permit.
    pub(crate) held_back: bool,
    /// Contexts that are being advanced, one after the other.
    pub(crate) advancing: Vec<Id<Context>>,
    /// The running driver calls in which handle data was acquired.
    pub(crate) calls: BTreeSet<u32>,
    /// The handle data that drivers have acquired and not released.
    pub(crate) handle_data: BTreeMap<u32, HandleDataReference>,
    pub(crate) last_handle_data: u32,
    pub(crate) last_node: u32,
    pub(crate) last_segment: u32,
    pub(crate) last_table: u32,
    /// A deliberate bug, in builds for shuttle (`planted.rs`).
    #[cfg(shuttle)]
    pub(crate) planted_reversal: bool,
}

impl AsMut<WaitQueue> for KernelState {
    fn as_mut(&mut self) -> &mut WaitQueue {
        &mut self.waiters
    }
}

impl KernelState {
    pub(crate) fn new() -> Self {
        Self {
            processes: Slab::default(),
            adapters: Slab::default(),
            devices: Slab::default(),
            contexts: Slab::default(),
            resources: Slab::default(),
            resource_views: Slab::default(),
            allocations: Slab::default(),
            views: Slab::default(),
            instances: Slab::default(),
            retirements: Slab::default(),
            global_handles: HandleTable::global(),
            kernel_handles: HandleTable::kernel(),
            extents: Slab::default(),
            pagings: Slab::default(),
            paging_queues: Slab::default(),
            context_allocations: Slab::default(),
            render_packets: Slab::default(),
            spaces: Slab::default(),
            spaces_of: BTreeMap::new(),
            devices_of: BTreeMap::new(),
            keyed_mutexes: Slab::default(),
            freed_context_allocations: Vec::new(),
            offers: Vec::new(),
            pressure: None,
            trim_registrations: Slab::default(),
            pending_trims: Vec::new(),
            trim_in_progress: None,
            sync: SyncState::default(),
            permits: PermitTable::default(),
            waiters: WaitQueue::default(),
            jobs: VecDeque::new(),
            runnable: Vec::new(),
            advancing: Vec::new(),
            held_back: false,
            updates: Slab::default(),
            updating: Vec::new(),
            cancelled: VecDeque::new(),
            recoveries: VecDeque::new(),
            calls: BTreeSet::new(),
            handle_data: BTreeMap::new(),
            last_handle_data: 0,
            last_node: 0,
            last_segment: 0,
            last_table: 0,
            #[cfg(shuttle)]
            planted_reversal: false,
        }
    }

    /// Checks every invariant. Returns the first that does not hold.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (number, process) in self.processes.iter() {
            for (handle, object) in process.handles.iter() {
                if !self.is_alive(object) {
                    return Err(format!(
                        "{number} has a handle of {} ({handle:?}), which is destroyed",
                        object.subject()
                    ));
                }
            }
        }
        for (number, view) in self.views.iter() {
            self.validate_view(number, view)?;
        }
        for (number, allocation) in self.allocations.iter() {
            let resource = allocation.resource.map(|resource| self.resources.get(resource));
            let member = |it: Option<&Resource>| {
                it.is_some_and(|resource| resource.members.contains(&number))
            };
            if resource.is_some_and(|resource| !member(resource)) {
                return Err(format!("{number} is not listed at its resource"));
            }
            self.validate_instances(number, allocation)?;
            if allocation.views.is_empty() && !allocation.in_transition {
                return Err(format!("{number} lives without a view"));
            }
        }
        self.validate_keyed_mutexes()?;
        for (number, retirement) in self.retirements.iter() {
            if retirement.views.iter().any(|view| self.views.get(*view).is_none()) {
                return Err(format!("{number} ends a view that is destroyed"));
            }
        }
        self.validate_spaces()
    }

    fn validate_view(&self, number: Id<View>, view: &View) -> Result<(), String> {
        let listed = self
            .allocations
            .get(view.allocation)
            .is_some_and(|allocation| allocation.views.contains(&number));
        let device = self.devices.get(view.device);
        if !listed || device.is_none() {
            return Err(format!("{number} is not listed where it belongs"));
        }
        if (view.stage == ViewStage::Live) == view.retirement.is_some()
            && view.stage != ViewStage::Unpublished
        {
            return Err(format!("{number} is {:?} with {:?}", view.stage, view.retirement));
        }
        let handles = device
            .and_then(|device| self.processes.get(device.process?))
            .map(|process| &process.handles);
        let named = handles
            .is_some_and(|handle_table| handle_table.lookup(view.handle) == Ok(number.into()));
        if (view.stage == ViewStage::Live) != named {
            return Err(format!("{number} is {:?}, named: {named}", view.stage));
        }
        Ok(())
    }

    fn is_alive(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::Adapter(id) => self.adapters.contains(id),
            ObjectId::Device(id) => self.devices.contains(id),
            ObjectId::Context(id) => self.contexts.contains(id),
            ObjectId::ResourceView(id) => self.resource_views.contains(id),
            ObjectId::View(id) => self.views.contains(id),
            ObjectId::Instance(id) => self.instances.contains(id),
            ObjectId::PagingQueue(id) | ObjectId::QueueFence(id) => self.paging_queues.contains(id),
            ObjectId::SyncObject(id) => self.sync.objects.contains(id),
            ObjectId::KeyedMutex(id) => self.keyed_mutexes.contains(id),
            // No process has handles of these.
            ObjectId::Resource(_) | ObjectId::ContextAllocation(_) | ObjectId::AddressSpace(_) => {
                false
            }
        }
    }
}
