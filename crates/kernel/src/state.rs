//! The kernel state: all objects, under one lock.
//!
//! [`KernelState`] is the sum of the folders' states. The fields of a folder's state are private to
//! the folder; other folders use its methods. The tables of objects are fields of `KernelState`
//! itself, because every folder reads them.
//!
//! # Invariants (checked by [`KernelState::validate`])
//!
//! 1. A live handle refers to a live object, and a `Live` view or published resource view has one
//!    handle.
//! 2. The adapter owns allocations and resources; a device owns views; a process owns handles.
//! 3. An allocation is listed at its resource, a view at its allocation and its device.
//! 4. A view that has a retirement is not `Live`.
//!
//! Each folder's `state.rs` has the invariants of its own state.

use crate::adapter::start::Adapter;
use crate::adapter::state::NodeState;
use crate::base::id_list::{Id, IdList, Slab};
use crate::ddi::permit::PermitTable;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lifetime::state::LifetimeState;
use crate::memory::Extent;
use crate::memory::queue::PagingQueue;
use crate::memory::state::MemoryState;
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::HandleTable;
use crate::objects::handle_table::ObjectId;
use crate::objects::resource::{Resource, ResourceView};
use crate::objects::view::{View, ViewStage};
use crate::schedule::state::ScheduleState;
use crate::sync::state::SyncState;
use flight::{Fence, WaitQueue, invariant};
use std::collections::BTreeMap;

/// The object tables, and the state of each folder.
pub(crate) struct KernelState {
    pub(crate) processes: Slab<Process>,
    pub(crate) adapters: Slab<Adapter>,
    pub(crate) devices: Slab<Device>,
    pub(crate) contexts: Slab<Context>,
    pub(crate) resources: Slab<Resource>,
    pub(crate) resource_views: Slab<ResourceView>,
    pub(crate) allocations: Slab<Allocation>,
    pub(crate) views: Slab<View>,
    /// The global handles of shared resources and keyed mutexes.
    pub(crate) global_handles: HandleTable,
    /// The kernel's own handles, which drivers use in callbacks.
    pub(crate) kernel_handles: HandleTable,
    /// The devices of a process.
    pub(crate) devices_of: BTreeMap<Id<Process>, IdList<Device>>,
    /// The state of `adapter`.
    pub(crate) nodes: NodeState,
    pub(crate) lifetime: LifetimeState,
    pub(crate) schedule: ScheduleState,
    pub(crate) memory: MemoryState,
    pub(crate) sync: SyncState,
    /// The state of `ddi`.
    pub(crate) permits: PermitTable,
    /// The threads that wait for an object of a device, a context or an adapter to end or to leave.
    /// All of them check again after each change.
    pub(crate) waiters: WaitQueue,
    /// A deliberate bug, in builds for shuttle (`planted.rs`).
    #[cfg(shuttle)]
    pub(crate) planted_reversal: bool,
    /// Another one.
    #[cfg(shuttle)]
    pub(crate) planted_stale_extent: bool,
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
            global_handles: HandleTable::global(),
            kernel_handles: HandleTable::kernel(),
            devices_of: BTreeMap::new(),
            nodes: NodeState::default(),
            lifetime: LifetimeState::default(),
            schedule: ScheduleState::default(),
            memory: MemoryState::default(),
            sync: SyncState::default(),
            permits: PermitTable::default(),
            waiters: WaitQueue::default(),
            #[cfg(shuttle)]
            planted_reversal: false,
            #[cfg(shuttle)]
            planted_stale_extent: false,
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
            let held = allocation.in_transition || self.is_nt_held(number);
            if allocation.views.is_empty() && !held {
                return Err(format!("{number} lives without a view"));
            }
        }
        self.validate_keyed_mutexes()?;
        self.validate_nt_objects()?;
        self.lifetime.validate(&self.views)?;
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
            ObjectId::Instance(_) | ObjectId::PagingQueue(_) | ObjectId::QueueFence(_) => {
                self.memory.contains(object)
            }
            ObjectId::SyncObject(_) | ObjectId::KeyedMutex(_) => self.sync.contains(object),
            // No process has handles of these.
            ObjectId::Resource(_) | ObjectId::ContextAllocation(_) | ObjectId::AddressSpace(_) => {
                false
            }
        }
    }
}

/// What lower folders ask about the state of higher ones.
impl KernelState {
    /// Whether a job may be there to be done.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.lifetime.has_jobs()
            || self.memory.has_paging_work()
            || self.schedule.has_work()
            || self.nodes.has_recoveries()
    }

    /// Whether an adapter is about to be reset.
    pub(crate) fn is_reset_pending(&self, adapter: Id<Adapter>) -> bool {
        self.nodes.is_reset_queued(adapter)
    }

    /// The allocation list of a submitted packet, by its node and fence: whether it was patched, and
    /// the memory of its allocations.
    pub(crate) fn list_of_submission(
        &self,
        adapter: Id<Adapter>,
        submission: (usize, Fence),
    ) -> Option<(bool, Vec<Id<Extent>>)> {
        self.schedule.submitted_list(adapter, submission)
    }

    /// The device of a paging queue, which must exist.
    pub(crate) fn device_of_queue(&self, queue: Id<PagingQueue>) -> Id<Device> {
        invariant(self.memory.paging_queue(queue), "a queue with an open handle exists").device
    }

    /// The last value that a paging queue has signalled; `None` if the queue is destroyed.
    pub(crate) fn signalled_value(&self, queue: Id<PagingQueue>) -> Option<u64> {
        Some(self.memory.paging_queue(queue)?.last_signalled)
    }
}
