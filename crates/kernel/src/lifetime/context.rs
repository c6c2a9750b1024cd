//! Contexts: a device's queues of GPU work, each for one node.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::CallDetails;
use crate::ddi::miniport::{CreateContextArgs, DriverContext, DriverError};
use crate::ddi::mmu::Root;
use crate::ddi::permit::ThreadingLevel;
use crate::ddi::render_args::BufferSizes;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::memory::address::AddressSpace;
use crate::memory::context_allocation::ContextAllocation;
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, ReservedHandle};
use crate::schedule::lists::{EntrySizes, RenderBuffers, RenderLists};
use crate::state::KernelState;
use flight::{Component, EventKind, Kind, Log, Passive};
use std::sync::Arc;

/// A queue of GPU work (`hContext`).
#[expect(clippy::struct_field_names, reason = "a context allocation is one term")]
pub struct Context {
    pub(crate) device: Id<Device>,
    /// The component that created it, which findings about its work blame.
    pub(crate) component: Component,
    /// Index of its node among the adapter's nodes.
    pub(crate) node: usize,
    pub(crate) handle: Handle,
    pub(crate) driver_handle: Option<Arc<DriverContext>>,
    /// Number of its packets that are not done.
    pub(crate) in_flight: u32,
    /// Number of client calls that are using it.
    pub(crate) active_calls: u32,
    /// The handle that the kernel passes to the driver.
    pub(crate) kernel_handle: Handle,
    /// The context allocations that the driver created for it.
    pub(crate) context_allocations: Vec<Id<ContextAllocation>>,
    /// Context allocations that are held resident because the context may run.
    pub(crate) held_extents: Vec<Id<ContextAllocation>>,
    /// The page table root that the driver was last notified of.
    pub(crate) root: Option<Root>,
    /// The root is changing: no packet of the context is submitted meanwhile.
    pub(crate) changing_root: bool,
    pub(crate) queue: crate::schedule::dispatch::ContextQueue,
    /// The buffers into which the client writes packets with lists, if the context uses lists.
    pub(crate) lists: Option<RenderLists>,
    /// Maximum size in bytes of a packet's private data, if the context uses no lists.
    pub(crate) private_size: u32,
}

impl Context {
    fn new(device: Id<Device>, node: usize, handle: Handle, name: Handle) -> Self {
        Self {
            device,
            component: flight::caller(),
            node,
            handle,
            driver_handle: None,
            in_flight: 0,
            active_calls: 0,
            kernel_handle: name,
            context_allocations: Vec::new(),
            held_extents: Vec::new(),
            root: None,
            changing_root: false,
            queue: crate::schedule::dispatch::ContextQueue::default(),
            lists: None,
            private_size: 0,
        }
    }
}

/// The address space of a new context, and the page table root that the context got.
type Rooted = Option<(Id<AddressSpace>, Root)>;

impl Kernel {
    /// Creates a context (`D3DKMTCreateContextVirtual`).
    ///
    /// Fails if a handle or the node is invalid, the device does not work, or the driver fails.
    pub fn create_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        args: &CreateContextArgs,
    ) -> Result<Handle, KernelError> {
        self.new_context(at, process, device, args, None).map(|pair| pair.0)
    }

    /// Creates a context whose packets have lists (`D3DKMTCreateContext`), with buffers for the
    /// first packet.
    pub fn create_context_with_lists(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        args: &CreateContextArgs,
        entries: EntrySizes,
    ) -> Result<(Handle, RenderBuffers), KernelError> {
        self.new_context(at, process, device, args, Some(entries))
    }

    fn new_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        args: &CreateContextArgs,
        entries: Option<EntrySizes>,
    ) -> Result<(Handle, RenderBuffers), KernelError> {
        let guard = self.enter_device(process, device)?;
        // A WDDM 1.x driver supports only contexts with lists; most other drivers support only the
        // other kind.
        let needs = if entries.is_some() { "DxgkDdiRender" } else { "DxgkDdiSubmitCommandVirtual" };
        if !guard.driver.implements(needs) {
            return Err(KernelError::Driver(DriverError::Unsupported));
        }
        let node = args.node as usize;
        {
            let state = self.state.lock();
            let nodes = state.adapters.get(guard.adapter).map_or(0, |adapter| adapter.nodes.len());
            if node >= nodes || args.engine != 1 {
                let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
                return Err(KernelError::NoEngine { node: args.node, engine: args.engine, nodes });
            }
        }
        let (name, own, number) = self.reserve_context(process, &guard, node)?;
        let subject = number.subject();
        let made = self.call_create_context(at, process, (number, &guard), args, &own, entries);
        let mut state = self.state.lock();
        match made {
            Ok((driver_handle, rooted)) => {
                let handle = name.handle();
                let given = driver_handle.as_raw();
                state.kernel_handles.publish(own, number.into());
                // No other thread knows the context before its handle is published.
                let it = &mut state.contexts[number];
                (it.driver_handle, it.root) =
                    (Some(Arc::new(driver_handle)), rooted.map(|pair| pair.1));
                state.devices[guard.device].contexts.insert(number);
                let on =
                    state.adapters.get(guard.adapter).and_then(|adapter| adapter.nodes.get(node));
                let on = on.map_or(0, |node| node.number);
                let device = guard.device.subject();
                self.log.emit(subject, || EventKind::ContextCreated {
                    device,
                    node: Kind::Node.subject(on),
                });
                let lists = state.contexts.get(number).and_then(|context| context.lists.as_ref());
                if let Some(sizes) = lists.map(|render_lists| render_lists.sizes) {
                    let BufferSizes { commands, allocation_list: list, patches, .. } = sizes;
                    self.log.emit(subject, || EventKind::ContextLists { commands, list, patches });
                }
                self.set_driver_handle(given, subject);
                self.publish_handle(&mut state, process.0, name, number.into());
                let lists = state.contexts.get(number).and_then(|context| context.lists.as_ref());
                let buffers = lists.map(RenderLists::user_buffers).unwrap_or_default();
                drop(state);
                self.release_space(rooted.map(|pair| pair.0));
                Ok((handle, buffers))
            }
            Err(why) => {
                self.cancel_handle(&mut state, process.0, name);
                // The driver leaked these context allocations: it created them for a context that
                // it then failed to create.
                self.end_owner_context_allocations(&mut state, number, "DxgkDdiCreateContext");
                state.contexts.remove(number);
                state.kernel_handles.cancel(own);
                Err(why)
            }
        }
    }

    /// Adds a context before the driver creates it, because the driver may use its kernel handle
    /// during the call.
    fn reserve_context(
        &self,
        process: ProcessId,
        guard: &EnteredDevice,
        node: usize,
    ) -> Result<(ReservedHandle, ReservedHandle, Id<Context>), KernelError> {
        let state = &mut *self.state.lock();
        let own = state.kernel_handles.reserve()?;
        let name = match self.reserve_handle(state, process.0) {
            Ok(name) => name,
            Err(why) => {
                state.kernel_handles.cancel(own);
                return Err(why);
            }
        };
        let context = Context::new(guard.device, node, name.handle(), own.handle());
        let number = state.contexts.insert(context);
        state.kernel_handles.bind(&own, number.into());
        Ok((name, own, number))
    }

    fn call_create_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        (number, guard): (Id<Context>, &EnteredDevice),
        args: &CreateContextArgs,
        own: &ReservedHandle,
        entries: Option<EntrySizes>,
    ) -> Result<(DriverContext, Rooted), KernelError> {
        let driver = &guard.driver;
        let name = (Some(process.0), own.handle());
        let permit = self.acquire_permit(
            at,
            ThreadingLevel::Zero.keys(guard.adapter, driver.generation, process.0),
        )?;
        self.recheck_device(guard)?;
        let Some(entries) = entries else {
            let made = driver.create_context(at, &permit, name, guard.driver_handle()?, args);
            let (driver_handle, private) = made?;
            self.state.lock().contexts[number].private_size = private;
            let scope = (process.0, number);
            let rooted = self
                .check_not_zombie(guard)
                .and_then(|()| self.set_first_root(at, &permit, driver, scope, &driver_handle));
            return match rooted {
                Ok(root) => Ok((driver_handle, root)),
                Err(why) => {
                    // WINDOWS: that the driver sees this call is our decision.
                    let details = CallDetails { process: Some(process.0), log_arguments: &|_| () };
                    let _ = driver.destroy_context(at, &permit, details, driver_handle);
                    Err(why)
                }
            };
        };
        let memory = |state: &KernelState| {
            state.adapter_memory(guard.adapter).map(|memory| memory.ram.clone())
        };
        let ram = memory(&self.state.lock()).ok_or(KernelError::NoVideoMemory)?;
        let made =
            driver.create_context_with_lists(at, &permit, name, guard.driver_handle()?, args);
        let (driver_handle, sizes) = made?;
        let lists = self.check_not_zombie(guard).and_then(|()| {
            RenderLists::new(&*ram, sizes, entries).ok_or(KernelError::NoMemory { trim: 0 })
        });
        let lists = match lists {
            Ok(lists) => lists,
            Err(why) => {
                let details = CallDetails { process: Some(process.0), log_arguments: &|_| () };
                let _ = driver.destroy_context(at, &permit, details, driver_handle);
                return Err(why);
            }
        };
        self.state.lock().contexts[number].lists = Some(lists);
        Ok((driver_handle, None))
    }

    /// Fails if the device was destroyed in the driver during a driver call that its end could not
    /// wait for.
    fn check_not_zombie(&self, guard: &EnteredDevice) -> Result<(), KernelError> {
        let removed = KernelError::Removed(guard.subject());
        if self.state.lock().is_zombie(guard.device) { Err(removed) } else { Ok(()) }
    }

    /// Adds the system's own context, which has no client handle.
    pub(crate) fn reserve_system_context(
        &self,
        device: Id<Device>,
        node: usize,
    ) -> Result<(Id<Context>, ReservedHandle), KernelError> {
        let state = &mut *self.state.lock();
        let own = state.kernel_handles.reserve()?;
        let number = state.contexts.insert(Context::new(device, node, Handle(0), own.handle()));
        state.kernel_handles.bind(&own, number.into());
        Ok((number, own))
    }

    /// Destroys a context after its work is done (`D3DKMTDestroyContext`).
    pub fn destroy_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let (number, guard) = {
            let mut state = self.state.lock();
            let number = state.resolve_handle::<Context>(process, Argument::Context, handle)?;
            let device = state.contexts[number].device;
            if state.is_zombie(device) {
                self.close_handle(&mut state, process.0, handle);
                state.remove_context(number);
                return Ok(());
            }
            let guard = self.acquire_rundown(&mut state, device)?;
            self.close_handle(&mut state, process.0, handle);
            (number, guard)
        };
        self.end_context(at, process.0, number);
        drop(guard); // Only now: the guard keeps the device alive.
        Ok(())
    }

    /// Drains a context and destroys it in the driver. If its client handle is closed, the context
    /// is removed; otherwise it stays as a zombie until the client destroys it.
    pub(crate) fn end_context(&self, at: &mut Passive, process: Id<Process>, number: Id<Context>) {
        // Another thread may have destroyed it meanwhile.
        let Some(device) = self.state.lock().contexts.get(number).map(|context| context.device)
        else {
            return;
        };
        self.drain_context(at, number, device);
        let driver_handle = self
            .state
            .lock()
            .contexts
            .get_mut(number)
            .and_then(|context| context.driver_handle.take());
        let told = driver_handle.and_then(|driver_handle| {
            let (driver, given) = (self.driver_of(device)?, driver_handle.as_raw());
            let driver_handle = Arc::into_inner(driver_handle)?;
            let keys = ThreadingLevel::Zero.keys(driver.adapter, driver.generation, process);
            let permit = self.acquire_permit(at, keys).ok()?;
            // WINDOWS: if the driver returns a failure, the context is destroyed all the same (our
            // decision).
            let log_arguments = |log: &Log| log.emit(number.subject(), || EventKind::DdiEnds {});
            let details = CallDetails { process: Some(process), log_arguments: &log_arguments };
            let _ = driver.destroy_context(at, &permit, details, driver_handle);
            Some(given)
        });
        let mut state = self.state.lock();
        let subject = number.subject();
        if let Some(given) = told {
            // Both are removed already if the end of the device could not wait for this call.
            let adapter = state.devices.get(device).map(|device| device.adapter);
            if let Some(adapter) = adapter.filter(|_| state.contexts.contains(number)) {
                state.close_kernel_handle(number);
                self.end_owner_context_allocations(&mut state, number, "DxgkDdiDestroyContext");
                state.release_context(adapter, number);
            }
            self.log.emit(subject, || EventKind::ContextDestroyed {});
            self.end_driver_handle(given, subject, false);
        }
        state.end_lists(number);
        self.abandon_mutexes(&mut state, number);
        state.remove_context(number);
        self.wake_all(&mut state);
    }

    /// Drops the work of a context that [is abandoned](KernelState::is_abandoned): the wait at the
    /// front of its queue, and everything behind it.
    fn drop_abandoned(&self, number: Id<Context>, device: Id<Device>) {
        let state = &mut *self.state.lock();
        if state.is_abandoned(number, device) {
            self.clear_queue(state, number);
            if let Some(adapter) = state.devices.get(device).map(|device| device.adapter) {
                self.complete_offers(state, adapter);
                self.complete_evictions(state, adapter);
            }
            self.device_work_passed(state, device);
            self.wake_all(state);
        }
    }

    /// Waits until no packet of the context is queued and no call uses the context. If no thread
    /// can complete the work, the device is lost and its queued packets count as done.
    fn drain_context(&self, at: &mut Passive, number: Id<Context>, device: Id<Device>) {
        let about = number.subject();
        let in_flight =
            |state: &KernelState| state.contexts.get(number).map_or(0, |context| context.in_flight);
        let what = |state: &KernelState| {
            format!(
                "{about}, which has {} packets{}",
                in_flight(state),
                state.describe_queue(number)
            )
        };
        let empty = |state: &KernelState| {
            let done = |context: &Context| {
                context.in_flight == 0 && context.active_calls == 0 && context.queue.is_empty()
            };
            state.contexts.get(number).is_none_or(done)
        };
        loop {
            let over = |state: &KernelState| empty(state) || state.is_abandoned(number, device);
            if !self.wait_for_work(at, about, device, what, over)
                && !self.lose_device(device, DeviceLoss::TimedOut)
            {
                return; // The device was lost already, which did not end the wait.
            }
            if empty(&self.state.lock()) {
                return;
            }
            self.drop_abandoned(number, device);
        }
    }
}

impl KernelState {
    /// Whether a context waits for a client although its device is ending.
    ///
    /// WINDOWS: a killed process always ends (observed); for `D3DKMTDestroyDevice` the pages are
    /// silent, and it does the same (our decision).
    fn is_abandoned(&self, number: Id<Context>, device: Id<Device>) -> bool {
        let ending = self.devices.get(device).is_some_and(|device| device.ending);
        ending && self.is_held_by_client(number)
    }

    /// Adds the packets of a context that ends to those of its node and of its process.
    fn keep_packet_counts(&mut self, number: Id<Context>) {
        let it = &self.contexts[number];
        let (device, index, counts) = (&self.devices[it.device], it.node, it.queue.counts());
        let (adapter, process) = (device.adapter, device.process);
        let node = self.adapters.get_mut(adapter).and_then(|it| it.nodes.get_mut(index));
        // A stopped adapter has no nodes.
        if let Some(node) = node {
            node.ended_packets.add(counts);
        }
        let Some(process) = process.and_then(|process| self.processes.get_mut(process)) else {
            return;
        };
        let ended = &mut process.ended_packets;
        match ended.iter_mut().find(|entry| (entry.0, entry.1) == (adapter, index)) {
            Some(entry) => entry.2.add(counts),
            None => ended.push((adapter, index, counts)),
        }
    }

    /// Removes a context that is destroyed in the driver, if its client handle is closed.
    pub(crate) fn remove_context(&mut self, number: Id<Context>) {
        // Another thread may have destroyed it meanwhile.
        let Some(it) = self.contexts.get(number) else { return };
        let owner = self.devices[it.device].process.map(|process| &self.processes[process]);
        let name = ObjectId::Context(number);
        if it.driver_handle.is_some()
            || owner.is_some_and(|owner| owner.handles.lookup(it.handle) == Ok(name))
        {
            return;
        }
        let (device, own) = (it.device, it.kernel_handle);
        self.keep_packet_counts(number);
        self.contexts.remove(number);
        let _ = self.kernel_handles.close(own); // It is closed already if the driver ended it.
        self.devices[device].contexts.remove(&number);
    }
}
