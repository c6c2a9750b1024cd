//! Context allocations: memory that a driver creates for its contexts, where engines save their
//! state.
//!
//! # Invariants
//!
//! 1. A context allocation is resident whenever a packet of its context is submitted to the
//!    hardware. It stays resident while that context is current on a node: until a packet of
//!    another context, or a switch, has passed.
//! 2. A driver may free a context allocation at any time. Its handle is closed at once; its memory
//!    is freed when no node can save into it and no paging work is pending.

mod check;
mod run;

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{DriverError, DriverResult};
use crate::ddi::operation::{CreateContextAllocationArgs, PAGE};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::{EventKind, Passive};

const DESTROY: &str = "DxgkCbDestroyContextAllocation";

/// An allocation of a driver for a context, or for a whole device.
pub(crate) struct ContextAllocation {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) device: Id<Device>,
    /// `None`: it is for all contexts of the device.
    pub(crate) context: Option<Id<Context>>,
    pub(crate) extent: Id<Extent>,
    pub(crate) driver_handle: usize,
    /// The kernel's handle.
    pub(crate) kernel_handle: Handle,
    /// The driver has freed it, or its owner is destroyed.
    pub(crate) freed: bool,
}

impl Kernel {
    pub(crate) fn create_context_allocation(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        args: &CreateContextAllocationArgs,
    ) -> DriverResult<usize> {
        let state = &mut *self.state.lock();
        state.adapter_memory(adapter).ok_or(DriverError::Unsupported)?;
        let (device, context) = self.judge_context_allocation_owner(state, adapter, args)?;
        self.judge_context_allocation_args(state, adapter, args)?;
        let name = state.kernel_handles.reserve().map_err(|_| DriverError::NoMemory)?;
        let handle = name.handle();
        let number = state.memory.context_allocations.reserve();
        let subject = number.subject();
        let extent = state.memory.extents.insert(Extent::new(
            adapter,
            Owner::ContextAllocation(number),
            args.driver_handle,
            args.size,
            args.alignment,
            args.requirements,
        ));
        let context_allocation = ContextAllocation {
            adapter,
            device,
            context,
            extent,
            driver_handle: args.driver_handle,
            kernel_handle: handle,
            freed: false,
        };
        state.memory.context_allocations.fill(number, context_allocation);
        match context.and_then(|it| state.contexts.get_mut(it)) {
            Some(it) => it.context_allocations.push(number),
            None => state
                .devices
                .get_mut(device)
                .into_iter()
                .for_each(|device| device.context_allocations.push(number)),
        }
        state.kernel_handles.publish(name, number.into());
        let (of, bytes) = (device.subject(), args.size.next_multiple_of(PAGE));
        let for_context = context.map(Id::subject);
        let (driver_handle, context) = (self.pointer_subject(args.driver_handle), for_context);
        self.log.emit(subject, || EventKind::ContextAllocationCreated {
            adapter: adapter.subject(),
            device: of,
            context,
            bytes,
            driver_handle,
        });
        self.log_requirements(state, extent);
        Ok(handle.0 as usize)
    }

    pub(crate) fn destroy_context_allocation(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        name: usize,
    ) -> DriverResult<()> {
        let state = &mut *self.state.lock();
        let number = self.judge_kernel_handle(state, adapter, name, DESTROY)?;
        self.free_context_allocation(state, number, false);
        Ok(())
    }

    /// Closes the handle. The memory is freed when no node can save into it.
    pub(crate) fn free_context_allocation(
        &self,
        state: &mut KernelState,
        number: Id<ContextAllocation>,
        forgotten: bool,
    ) {
        self.close_context_allocation(state, number, forgotten);
        self.complete_context_allocations(state);
    }

    fn close_context_allocation(
        &self,
        state: &mut KernelState,
        number: Id<ContextAllocation>,
        forgotten: bool,
    ) {
        let it = &mut state.memory.context_allocations[number];
        if std::mem::replace(&mut it.freed, true) {
            return;
        }
        let (name, context, device) = (it.kernel_handle, it.context, it.device);
        // The owner may have ended before: its driver was not called for its end.
        if let Some(it) = context.and_then(|it| state.contexts.get_mut(it)) {
            it.context_allocations.retain(|context_allocation| *context_allocation != number);
        } else if let Some(it) = state.devices.get_mut(device) {
            it.context_allocations.retain(|context_allocation| *context_allocation != number);
        }
        let _ = state.kernel_handles.close(name); // The allocation owned this live handle.
        self.log.emit(number.subject(), || EventKind::ContextAllocationFreed {
            owner_ended: forgotten,
        });
        state.memory.freed_context_allocations.push(number);
    }

    /// Releases the memory of freed context allocations that no node can save into any more.
    /// Requests a switch where the context is current and idle.
    #[inline]
    pub(crate) fn complete_context_allocations(&self, state: &mut KernelState) {
        if !state.memory.freed_context_allocations.is_empty() {
            self.complete_freed_allocations(state);
        }
    }

    fn complete_freed_allocations(&self, state: &mut KernelState) {
        let mut waiting = Vec::new();
        for number in std::mem::take(&mut state.memory.freed_context_allocations) {
            match state.context_allocation_use(number) {
                ContextAllocationUse::None => {
                    let extent = state
                        .memory
                        .context_allocations
                        .get(number)
                        .map(|context_allocation| context_allocation.extent);
                    if let Some(extent) = extent {
                        self.release_extent(state, extent);
                    }
                }
                ContextAllocationUse::Queued => waiting.push(number),
                ContextAllocationUse::Current { adapter, node } => {
                    waiting.push(number);
                    let argument = state
                        .adapters
                        .get_mut(adapter)
                        .and_then(|adapter| adapter.nodes.get_mut(node));
                    if argument.is_some_and(|it| !std::mem::replace(&mut it.switching, true)) {
                        self.start_switch(state, adapter, node);
                    }
                }
            }
        }
        state.memory.freed_context_allocations.append(&mut waiting);
    }

    /// Reports and reclaims the context allocations that the driver did not free for a destroyed
    /// owner.
    ///
    /// WINDOWS: nothing is documented about context allocations that a driver does not free; they
    /// are reported with their owner, then reclaimed (our decision).
    pub(crate) fn end_owner_context_allocations(
        &self,
        state: &mut KernelState,
        owner: impl Into<SavedOwner>,
        argument: &'static str,
    ) {
        let (owner, remaining) = match owner.into() {
            SavedOwner::Context(id) => {
                (id.subject(), state.contexts[id].context_allocations.clone())
            }
            SavedOwner::Device(id) => (id.subject(), state.devices[id].context_allocations.clone()),
        };
        self.judge_leaked_context_allocations(owner, argument, &remaining);
        for number in remaining {
            self.free_context_allocation(state, number, true);
        }
    }

    /// Reports and reclaims the context allocations that the driver did not free before its
    /// adapter, and with it the engines, stopped.
    pub(crate) fn end_adapter_context_allocations(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
    ) {
        let mine = |context_allocation: &ContextAllocation| context_allocation.adapter == adapter;
        let all: Vec<(Id<ContextAllocation>, bool)> = state
            .memory
            .context_allocations
            .iter()
            .filter(|pair| mine(pair.1))
            .map(|pair| (pair.0, pair.1.freed))
            .collect();
        let remaining: Vec<Id<ContextAllocation>> =
            all.iter().filter(|pair| !pair.1).map(|pair| pair.0).collect();
        self.judge_leaked_context_allocations(adapter.subject(), "DxgkDdiStopDevice", &remaining);
        for number in remaining {
            self.close_context_allocation(state, number, true);
        }
        for (number, _) in all {
            state
                .memory
                .freed_context_allocations
                .retain(|context_allocation| *context_allocation != number);
            let extent = state
                .memory
                .context_allocations
                .get(number)
                .map(|context_allocation| context_allocation.extent);
            if let Some(extent) = extent {
                self.drop_extent(state, extent);
            }
        }
    }
}

/// The objects of context allocations that a driver names by the kernel's handles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SavedOwner {
    Context(Id<Context>),
    Device(Id<Device>),
}

impl From<Id<Context>> for SavedOwner {
    fn from(id: Id<Context>) -> Self {
        Self::Context(id)
    }
}

impl From<Id<Device>> for SavedOwner {
    fn from(id: Id<Device>) -> Self {
        Self::Device(id)
    }
}

/// Whether a node can save into a context allocation.
enum ContextAllocationUse {
    /// No node can.
    None,
    /// A node has packets of its context.
    Queued,
    /// A node has its context current, but no packet of it.
    Current { adapter: Id<Adapter>, node: usize },
}
impl KernelState {
    /// Closes the kernel's handle of a device or context that the driver has destroyed.
    pub(crate) fn close_kernel_handle(&mut self, owner: impl Into<SavedOwner>) {
        let name = match owner.into() {
            SavedOwner::Context(id) => self.contexts[id].kernel_handle,
            SavedOwner::Device(id) => self.devices[id].kernel_handle,
        };
        let _ = self.kernel_handles.close(name); // The object owned this live handle.
    }

    /// Whether it is a context allocation that its driver has freed.
    pub(crate) fn is_context_allocation_freed(&self, owner: Owner) -> bool {
        matches!(owner, Owner::ContextAllocation(context_allocation) if self.memory.context_allocations[context_allocation].freed)
    }

    fn context_allocation_use(&self, number: Id<ContextAllocation>) -> ContextAllocationUse {
        let it = &self.memory.context_allocations[number];
        let mine = |context: Id<Context>, device: Id<Device>| match it.context {
            Some(own) => own == context,
            None => device == it.device,
        };
        let nodes = self
            .adapters
            .get(it.adapter)
            .map(|adapter| adapter.nodes.as_slice())
            .unwrap_or_default();
        if nodes
            .iter()
            .flat_map(|node| &node.queue)
            .filter_map(|in_flight_packet| in_flight_packet.of)
            .any(|(context, device)| mine(context, device))
        {
            return ContextAllocationUse::Queued;
        }
        let current = nodes.iter().position(|node| node.may_save(mine));
        current.map_or(ContextAllocationUse::None, |node| ContextAllocationUse::Current {
            adapter: it.adapter,
            node,
        })
    }
}

impl KernelCallbacks {
    /// Creates an allocation for a context or a device (`DxgkCbCreateContextAllocation`). Returns
    /// the kernel's handle for it.
    pub fn create_context_allocation(
        &self,
        at: &mut Passive,
        args: &CreateContextAllocationArgs,
    ) -> DriverResult<usize> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.create_context_allocation(at, self.adapter, args)
    }

    /// Destroys a context allocation (`DxgkCbDestroyContextAllocation`). Its handle is closed when
    /// this returns; its memory is freed when no engine can save into it any more.
    pub fn destroy_context_allocation(&self, at: &mut Passive, name: usize) -> DriverResult<()> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.destroy_context_allocation(at, self.adapter, name)
    }
}
