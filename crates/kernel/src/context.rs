//! Contexts: streams of work of a device, each for one node.

use crate::ddi::For;
use crate::device::Device;
use crate::device::{Inside, Loss};
use crate::gate::Class;
use crate::handle::ObjectId;
use crate::handle::{Handle, Reserved};
use crate::kernel::Kernel;
use crate::listed::BufferSizes;
use crate::lists::{Buffers, EntrySizes, Lists};
use crate::miniport::{ContextOrder, DriverContext, Refusal};
use crate::mmu::Root;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::saved::Saved;
use crate::space::Space;
use crate::store::Id;
use crate::world::World;
use flight::{Kind, Log, Passive, What, Who};
use smallvec::smallvec;
use std::sync::Arc;

/// A stream of work (`hContext`).
pub struct Context {
    pub(crate) device: Id<Device>,
    /// Who made it, and is to blame for its work.
    pub(crate) by: Who,
    /// Its place among the adapter's nodes.
    pub(crate) node: usize,
    pub(crate) handle: Handle,
    pub(crate) word: Option<Arc<DriverContext>>,
    /// How many of its packets are not done.
    pub(crate) flying: u32,
    /// Client calls that are using it now.
    pub(crate) inside: u32,
    /// The kernel's own name for it.
    pub(crate) name: Handle,
    /// What its driver made for it to save into.
    pub(crate) saved: Vec<Id<Saved>>,
    /// What is held where it is, since the context may run.
    pub(crate) holding: Vec<Id<Saved>>,
    /// The root of its addresses, as its driver was last told it.
    pub(crate) root: Option<Root>,
    /// Its root changes: nothing of it is sent meanwhile.
    pub(crate) rooting: bool,
    pub(crate) line: crate::dispatch::Waiting,
    /// The buffers that its client writes packets with lists into, if it has such.
    pub(crate) lists: Option<Lists>,
    /// How many bytes of private data a packet has at most, if it has no lists.
    pub(crate) private: u32,
}

impl Context {
    fn new(device: Id<Device>, node: usize, handle: Handle, name: Handle) -> Self {
        Self {
            device,
            by: flight::caller(),
            node,
            handle,
            word: None,
            flying: 0,
            inside: 0,
            name,
            saved: Vec::new(),
            holding: Vec::new(),
            root: None,
            rooting: false,
            line: crate::dispatch::Waiting::default(),
            lists: None,
            private: 0,
        }
    }
}

/// The space whose root a new context was given, and that root.
type Rooted = Option<(Id<Space>, Root)>;

impl Kernel {
    /// Makes a context (`D3DKMTCreateContextVirtual`).
    pub fn create_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        order: &ContextOrder,
    ) -> Result<Handle, Refused> {
        self.new_context(at, process, device, order, None).map(|it| it.0)
    }

    /// Makes a context whose packets have lists (`D3DKMTCreateContext`), with the buffers for
    /// the first.
    pub fn create_listed_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        order: &ContextOrder,
        entries: EntrySizes,
    ) -> Result<(Handle, Buffers), Refused> {
        self.new_context(at, process, device, order, Some(entries))
    }

    fn new_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        order: &ContextOrder,
        entries: Option<EntrySizes>,
    ) -> Result<(Handle, Buffers), Refused> {
        let inside = self.enter_device(process, device)?;
        // A driver of WDDM 1.x has contexts of the one kind only, most others of the other.
        let needs = if entries.is_some() { "DxgkDdiRender" } else { "DxgkDdiSubmitCommandVirtual" };
        if !inside.driver.offers(needs) {
            return Err(Refused::Driver(Refusal::Unsupported));
        }
        let node = order.node as usize;
        {
            let world = self.world.hold();
            let nodes = world.adapters.get(inside.adapter).map_or(0, |it| it.nodes.len());
            if node >= nodes || order.engine != 1 {
                let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
                return Err(Refused::NoEngine { node: order.node, engine: order.engine, nodes });
            }
        }
        let (name, own, number) = self.begin_context(process, &inside, node)?;
        let subject = number.subject();
        let made = self.make_context(at, process, (number, &inside), order, &own, entries);
        let mut world = self.world.hold();
        match made {
            Ok((word, rooted)) => {
                let handle = name.handle();
                let given = word.word();
                world.kernel_names.publish(own, number.into());
                if let Some(it) = world.contexts.get_mut(number) {
                    (it.word, it.root) = (Some(Arc::new(word)), rooted.map(|it| it.1));
                }
                world.devices[inside.device].contexts.insert(number);
                let on = world.adapters.get(inside.adapter).and_then(|it| it.nodes.get(node));
                let on = on.map_or(0, |it| it.number);
                let device = inside.device.subject();
                let created = What::ContextCreated { device, node: Kind::Node.nr(on) };
                self.log.emit(subject, created);
                let lists = world.contexts.get(number).and_then(|it| it.lists.as_ref());
                if let Some(sizes) = lists.map(|it| it.sizes) {
                    let BufferSizes { commands, list, patches, .. } = sizes;
                    self.log.emit(subject, What::ContextLists { commands, list, patches });
                }
                self.give_word(given, subject);
                self.publish(&mut world, process.0, name, number.into());
                let lists = world.contexts.get(number).and_then(|it| it.lists.as_ref());
                let buffers = lists.map(Lists::granted).unwrap_or_default();
                drop(world);
                self.leave_space(rooted.map(|it| it.0));
                Ok((handle, buffers))
            }
            Err(why) => {
                self.take_back(&mut world, process.0, smallvec![name]);
                // What the driver made for a context it then refused, it left behind.
                self.forget_saved(&mut world, number, "DxgkDdiCreateContext");
                world.contexts.take(number);
                world.kernel_names.take_back(own);
                Err(why)
            }
        }
    }

    /// Enters a context that its driver is about to make: it may use the kernel's name for it.
    fn begin_context(
        &self,
        process: ProcessId,
        inside: &Inside<'_>,
        node: usize,
    ) -> Result<(Reserved, Reserved, Id<Context>), Refused> {
        let world = &mut *self.world.hold();
        let own = world.kernel_names.reserve()?;
        let name = match self.reserve(world, process.0) {
            Ok(name) => name,
            Err(why) => {
                world.kernel_names.take_back(own);
                return Err(why);
            }
        };
        let context = Context::new(inside.device, node, name.handle(), own.handle());
        let number = world.contexts.insert(context);
        world.kernel_names.promise(&own, number.into());
        Ok((name, own, number))
    }

    fn make_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        (number, inside): (Id<Context>, &Inside<'_>),
        order: &ContextOrder,
        own: &Reserved,
        entries: Option<EntrySizes>,
    ) -> Result<(DriverContext, Rooted), Refused> {
        let driver = &inside.driver;
        let name = (Some(process.0), own.handle());
        let pass =
            self.enter(at, Class::Zero.keys(inside.adapter, driver.generation, process.0))?;
        self.look_again(inside)?;
        let Some(entries) = entries else {
            let made = driver.create_context(at, &pass, name, inside.word()?, order);
            let (word, private) = made?;
            if let Some(it) = self.world.hold().contexts.get_mut(number) {
                it.private = private;
            }
            return match self.set_first_root(at, &pass, driver, (process.0, number), &word) {
                Ok(root) => Ok((word, root)),
                Err(why) => {
                    // WINDOWS: that the driver sees this call is our decision.
                    let whom = For { process: Some(process.0), carries: &|_| () };
                    let _ = driver.destroy_context(at, &pass, whom, word);
                    Err(why)
                }
            };
        };
        let memory = |it: &World| it.memory(inside.adapter).map(|it| it.1.ram.clone());
        let ram = memory(&self.world.hold()).ok_or(Refused::NoVideoMemory)?;
        let made = driver.create_listed_context(at, &pass, name, inside.word()?, order);
        let (word, sizes) = made?;
        let Some(lists) = Lists::new(&*ram, sizes, entries) else {
            let whom = For { process: Some(process.0), carries: &|_| () };
            let _ = driver.destroy_context(at, &pass, whom, word);
            return Err(Refused::NoRoom { trim: 0 });
        };
        if let Some(it) = self.world.hold().contexts.get_mut(number) {
            it.lists = Some(lists);
        }
        Ok((word, None))
    }

    /// Enters the system's own context, which no client names.
    pub(crate) fn begin_system_context(
        &self,
        device: Id<Device>,
        node: usize,
    ) -> Result<(Id<Context>, Reserved), Refused> {
        let world = &mut *self.world.hold();
        let own = world.kernel_names.reserve()?;
        let number = world.contexts.insert(Context::new(device, node, Handle(0), own.handle()));
        world.kernel_names.promise(&own, number.into());
        Ok((number, own))
    }

    /// Ends a context once its work is done (`D3DKMTDestroyContext`).
    pub fn destroy_context(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), Refused> {
        let (number, inside) = {
            let mut world = self.world.hold();
            let number = world.resolve::<Context>(process, Argument::Context, handle)?;
            let device = world.contexts[number].device;
            if world.is_husk(device) {
                self.unname(&mut world, process.0, handle);
                world.forget_context(number);
                return Ok(());
            }
            let inside = self.inside(&mut world, device)?;
            self.unname(&mut world, process.0, handle);
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
        let Some(device) = self.world.hold().contexts.get(number).map(|it| it.device) else {
            return;
        };
        self.drain_context(at, number, device);
        let word = self.world.hold().contexts.get_mut(number).and_then(|it| it.word.take());
        let told = word.and_then(|word| {
            let (driver, given) = (self.driver_of(device)?, word.word());
            let word = Arc::into_inner(word)?;
            let keys = Class::Zero.keys(driver.adapter, driver.generation, process);
            let pass = self.enter(at, keys).ok()?;
            // WINDOWS: after a refusal it is gone all the same (our decision).
            let carries = |log: &Log| log.emit(number.subject(), What::DdiEnds {});
            let whom = For { process: Some(process), carries: &carries };
            let _ = driver.destroy_context(at, &pass, whom, word);
            Some(given)
        });
        let mut world = self.world.hold();
        let subject = number.subject();
        if let Some(given) = told {
            world.end_kernel_name(number);
            self.forget_saved(&mut world, number, "DxgkDdiDestroyContext");
            let adapter = world.devices[device].adapter;
            world.leave_context(adapter, number);
            self.log.emit(subject, What::ContextDestroyed {});
            self.end_word(given, subject, false);
        }
        world.end_lists(number);
        self.abandon(&mut world, number);
        world.forget_context(number);
        self.wake(&mut world);
    }

    /// Waits until nothing of the context is queued and nobody is using it. Work that nothing
    /// could end is given up: its device is lost, and what it had queued counts as done.
    fn drain_context(&self, at: &mut Passive, number: Id<Context>, device: Id<Device>) {
        let about = number.subject();
        let flying = |world: &World| world.contexts.get(number).map_or(0, |it| it.flying);
        let what = |world: &World| {
            format!("{about}, which has {} packets{}", flying(world), world.line_waits(number))
        };
        let empty = |world: &World| {
            let done = |it: &Context| it.flying == 0 && it.inside == 0 && it.line.is_empty();
            world.contexts.get(number).is_none_or(done)
        };
        while !self.wait_until(at, about, what, empty) {
            if !self.lose_device(device, Loss::Hung) {
                return; // It was lost before, and that did not help: nothing more can.
            }
        }
    }
}

impl World {
    /// Forgets a context that its driver has, if it has no name.
    pub(crate) fn forget_context(&mut self, number: Id<Context>) {
        // Another thread may have ended it meanwhile.
        let Some(it) = self.contexts.get(number) else { return };
        let owner = self.devices[it.device].process.map(|process| &self.processes[process]);
        let name = ObjectId::Context(number);
        if it.word.is_some() || owner.is_some_and(|owner| owner.names.find(it.handle) == Ok(name)) {
            return;
        }
        let (device, own) = (it.device, it.name);
        self.contexts.take(number);
        let _ = self.kernel_names.close(own); // It is closed already if its driver ended it.
        self.devices[device].contexts.remove(&number);
    }
}
