//! Contexts: streams of work of a device, each for one node.

use crate::ddi::CallDetails;
use crate::device::Device;
use crate::device::{RundownGuard, DeviceLoss};
use crate::gate::ThreadingLevel;
use crate::handle::ObjectId;
use crate::handle::{Handle, ReservedHandle};
use crate::kernel::Kernel;
use crate::listed::BufferSizes;
use crate::lists::{RenderBuffers, EntrySizes, RenderLists};
use crate::miniport::{CreateContextArgs, DriverContext, DriverError};
use crate::mmu::Root;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, KernelError};
use crate::saved::ContextAllocation;
use crate::space::AddressSpace;
use crate::store::Id;
use crate::world::KernelState;
use flight::{Kind, Log, Passive, EventKind, Component};
use smallvec::smallvec;
use std::sync::Arc;

/// A stream of work (`hContext`).
pub struct Context {
    pub(crate) device: Id<Device>,
    /// Who made it, and is to blame for its work.
    pub(crate) component: Component,
    /// Its place among the adapter's nodes.
    pub(crate) node: usize,
    pub(crate) handle: Handle,
    pub(crate) driver_handle: Option<Arc<DriverContext>>,
    /// How many of its packets are not done.
    pub(crate) in_flight: u32,
    /// Client calls that are using it now.
    pub(crate) active_calls: u32,
    /// The kernel's own name for it.
    pub(crate) kernel_handle: Handle,
    /// What its driver made for it to save into.
    pub(crate) context_allocations: Vec<Id<ContextAllocation>>,
    /// What is held where it is, since the context may run.
    pub(crate) held_extents: Vec<Id<ContextAllocation>>,
    /// The root of its addresses, as its driver was last told it.
    pub(crate) root: Option<Root>,
    /// Its root changes: nothing of it is sent meanwhile.
    pub(crate) changing_root: bool,
    pub(crate) queue: crate::dispatch::ContextQueue,
    /// The buffers that its client writes packets with lists into, if it has such.
    pub(crate) lists: Option<RenderLists>,
    /// How many bytes of private data a packet has at most, if it has no lists.
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
            queue: crate::dispatch::ContextQueue::default(),
            lists: None,
            private_size: 0,
        }
    }
}

/// The space whose root a new context was given, and that root.
type Rooted = Option<(Id<AddressSpace>, Root)>;

impl Kernel {
    /// Makes a context (`D3DKMTCreateContextVirtual`).
    pub fn create_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        order: &CreateContextArgs,
    ) -> Result<Handle, KernelError> {
        self.new_context(at, process, device, order, None).map(|it| it.0)
    }

    /// Makes a context whose packets have lists (`D3DKMTCreateContext`), with the buffers for
    /// the first.
    pub fn create_context_with_lists(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        order: &CreateContextArgs,
        entries: EntrySizes,
    ) -> Result<(Handle, RenderBuffers), KernelError> {
        self.new_context(at, process, device, order, Some(entries))
    }

    fn new_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        order: &CreateContextArgs,
        entries: Option<EntrySizes>,
    ) -> Result<(Handle, RenderBuffers), KernelError> {
        let inside = self.enter_device(process, device)?;
        // A driver of WDDM 1.x has contexts of the one kind only, most others of the other.
        let needs = if entries.is_some() { "DxgkDdiRender" } else { "DxgkDdiSubmitCommandVirtual" };
        if !inside.driver.implements(needs) {
            return Err(KernelError::Driver(DriverError::Unsupported));
        }
        let node = order.node as usize;
        {
            let world = self.state.lock();
            let nodes = world.adapters.get(inside.adapter).map_or(0, |it| it.nodes.len());
            if node >= nodes || order.engine != 1 {
                let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
                return Err(KernelError::NoEngine { node: order.node, engine: order.engine, nodes });
            }
        }
        let (name, own, number) = self.reserve_context(process, &inside, node)?;
        let subject = number.subject();
        let made = self.call_create_context(at, process, (number, &inside), order, &own, entries);
        let mut world = self.state.lock();
        match made {
            Ok((word, rooted)) => {
                let handle = name.handle();
                let given = word.word();
                world.kernel_handles.publish(own, number.into());
                if let Some(it) = world.contexts.get_mut(number) {
                    (it.driver_handle, it.root) = (Some(Arc::new(word)), rooted.map(|it| it.1));
                }
                world.devices[inside.device].contexts.insert(number);
                let on = world.adapters.get(inside.adapter).and_then(|it| it.nodes.get(node));
                let on = on.map_or(0, |it| it.number);
                let device = inside.device.subject();
                let created = EventKind::ContextCreated { device, node: Kind::Node.subject(on) };
                self.log.emit(subject, created);
                let lists = world.contexts.get(number).and_then(|it| it.lists.as_ref());
                if let Some(sizes) = lists.map(|it| it.sizes) {
                    let BufferSizes { commands, allocation_list: list, patches, .. } = sizes;
                    self.log.emit(subject, EventKind::ContextLists { commands, list, patches });
                }
                self.set_driver_handle(given, subject);
                self.publish_handle(&mut world, process.0, name, number.into());
                let lists = world.contexts.get(number).and_then(|it| it.lists.as_ref());
                let buffers = lists.map(RenderLists::user_buffers).unwrap_or_default();
                drop(world);
                self.release_space(rooted.map(|it| it.0));
                Ok((handle, buffers))
            }
            Err(why) => {
                self.cancel_handles(&mut world, process.0, smallvec![name]);
                // What the driver made for a context it then refused, it left behind.
                self.end_owner_context_allocations(&mut world, number, "DxgkDdiCreateContext");
                world.contexts.take(number);
                world.kernel_handles.cancel(own);
                Err(why)
            }
        }
    }

    /// Enters a context that its driver is about to make: it may use the kernel's name for it.
    fn reserve_context(
        &self,
        process: ProcessId,
        inside: &RundownGuard<'_>,
        node: usize,
    ) -> Result<(ReservedHandle, ReservedHandle, Id<Context>), KernelError> {
        let world = &mut *self.state.lock();
        let own = world.kernel_handles.reserve()?;
        let name = match self.reserve_handle(world, process.0) {
            Ok(name) => name,
            Err(why) => {
                world.kernel_handles.cancel(own);
                return Err(why);
            }
        };
        let context = Context::new(inside.device, node, name.handle(), own.handle());
        let number = world.contexts.insert(context);
        world.kernel_handles.bind(&own, number.into());
        Ok((name, own, number))
    }

    fn call_create_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        (number, inside): (Id<Context>, &RundownGuard<'_>),
        order: &CreateContextArgs,
        own: &ReservedHandle,
        entries: Option<EntrySizes>,
    ) -> Result<(DriverContext, Rooted), KernelError> {
        let driver = &inside.driver;
        let name = (Some(process.0), own.handle());
        let permit =
            self.acquire_permit(at, ThreadingLevel::Zero.keys(inside.adapter, driver.generation, process.0))?;
        self.recheck_device(inside)?;
        let Some(entries) = entries else {
            let made = driver.create_context(at, &permit, name, inside.driver_handle()?, order);
            let (word, private) = made?;
            if let Some(it) = self.state.lock().contexts.get_mut(number) {
                it.private_size = private;
            }
            return match self.set_first_root(at, &permit, driver, (process.0, number), &word) {
                Ok(root) => Ok((word, root)),
                Err(why) => {
                    // WINDOWS: that the driver sees this call is our decision.
                    let whom = CallDetails { process: Some(process.0), log_arguments: &|_| () };
                    let _ = driver.destroy_context(at, &permit, whom, word);
                    Err(why)
                }
            };
        };
        let memory = |it: &KernelState| it.memory(inside.adapter).map(|it| it.1.ram.clone());
        let ram = memory(&self.state.lock()).ok_or(KernelError::NoVideoMemory)?;
        let made = driver.create_context_with_lists(at, &permit, name, inside.driver_handle()?, order);
        let (word, sizes) = made?;
        let Some(lists) = RenderLists::new(&*ram, sizes, entries) else {
            let whom = CallDetails { process: Some(process.0), log_arguments: &|_| () };
            let _ = driver.destroy_context(at, &permit, whom, word);
            return Err(KernelError::NoMemory { trim: 0 });
        };
        if let Some(it) = self.state.lock().contexts.get_mut(number) {
            it.lists = Some(lists);
        }
        Ok((word, None))
    }

    /// Enters the system's own context, which no client names.
    pub(crate) fn reserve_system_context(
        &self,
        device: Id<Device>,
        node: usize,
    ) -> Result<(Id<Context>, ReservedHandle), KernelError> {
        let world = &mut *self.state.lock();
        let own = world.kernel_handles.reserve()?;
        let number = world.contexts.insert(Context::new(device, node, Handle(0), own.handle()));
        world.kernel_handles.bind(&own, number.into());
        Ok((number, own))
    }

    /// Ends a context once its work is done (`D3DKMTDestroyContext`).
    pub fn destroy_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let (number, inside) = {
            let mut world = self.state.lock();
            let number = world.resolve_handle::<Context>(process, Argument::Context, handle)?;
            let device = world.contexts[number].device;
            if world.is_zombie(device) {
                self.close_handle(&mut world, process.0, handle);
                world.remove_context(number);
                return Ok(());
            }
            let inside = self.acquire_rundown(&mut world, device)?;
            self.close_handle(&mut world, process.0, handle);
            (number, inside)
        };
        self.end_context(at, process.0, number);
        drop(inside); // Only now: the device cannot go while this thread is inside it.
        Ok(())
    }

    /// Drains a context and ends it for its driver. With its name goes the rest of it; one that
    /// keeps its name is a husk, until its client destroys it.
    pub(crate) fn end_context(&self, at: &mut Passive, process: Id<Process>, number: Id<Context>) {
        // Another thread may have ended it meanwhile.
        let Some(device) = self.state.lock().contexts.get(number).map(|it| it.device) else {
            return;
        };
        self.drain_context(at, number, device);
        let word = self.state.lock().contexts.get_mut(number).and_then(|it| it.driver_handle.take());
        let told = word.and_then(|word| {
            let (driver, given) = (self.driver_of(device)?, word.word());
            let word = Arc::into_inner(word)?;
            let keys = ThreadingLevel::Zero.keys(driver.adapter, driver.generation, process);
            let permit = self.acquire_permit(at, keys).ok()?;
            // WINDOWS: after a refusal it is gone all the same (our decision).
            let log_arguments = |log: &Log| log.emit(number.subject(), EventKind::DdiEnds {});
            let whom = CallDetails { process: Some(process), log_arguments: &log_arguments };
            let _ = driver.destroy_context(at, &permit, whom, word);
            Some(given)
        });
        let mut world = self.state.lock();
        let subject = number.subject();
        if let Some(given) = told {
            world.close_kernel_handle(number);
            self.end_owner_context_allocations(&mut world, number, "DxgkDdiDestroyContext");
            let adapter = world.devices[device].adapter;
            world.release_context(adapter, number);
            self.log.emit(subject, EventKind::ContextDestroyed {});
            self.end_driver_handle(given, subject, false);
        }
        world.end_lists(number);
        self.abandon_mutexes(&mut world, number);
        world.remove_context(number);
        self.wake_all(&mut world);
    }

    /// Waits until nothing of the context is queued and nobody is using it. Work that nothing
    /// could end is given up: its device is lost, and what it had queued counts as done.
    fn drain_context(&self, at: &mut Passive, number: Id<Context>, device: Id<Device>) {
        let about = number.subject();
        let in_flight = |world: &KernelState| world.contexts.get(number).map_or(0, |it| it.in_flight);
        let what = |world: &KernelState| {
            format!("{about}, which has {} packets{}", in_flight(world), world.describe_queue(number))
        };
        let empty = |world: &KernelState| {
            let done = |it: &Context| it.in_flight == 0 && it.active_calls == 0 && it.queue.is_empty();
            world.contexts.get(number).is_none_or(done)
        };
        while !self.wait_until(at, about, what, empty) {
            if !self.lose_device(device, DeviceLoss::TimedOut) {
                return; // It was lost before, and that did not help: nothing more can.
            }
        }
    }
}

impl KernelState {
    /// Forgets a context that its driver has, if it has no name.
    pub(crate) fn remove_context(&mut self, number: Id<Context>) {
        // Another thread may have ended it meanwhile.
        let Some(it) = self.contexts.get(number) else { return };
        let owner = self.devices[it.device].process.map(|process| &self.processes[process]);
        let name = ObjectId::Context(number);
        if it.driver_handle.is_some() || owner.is_some_and(|owner| owner.handles.lookup(it.handle) == Ok(name)) {
            return;
        }
        let (device, own) = (it.device, it.kernel_handle);
        self.contexts.take(number);
        let _ = self.kernel_handles.close(own); // It is closed already if its driver ended it.
        self.devices[device].contexts.remove(&number);
    }
}
