//! Devices: a process's link to an adapter.

use crate::context::Context;
use crate::ddi::{Driver, For};
use crate::gate::{Class, Pass};
use crate::handle::ObjectId;
use crate::handle::{Handle, Reserved};
use crate::kernel::Kernel;
use crate::memory::queue::Queue;
use crate::miniport::DriverDevice;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::resource::ResourceView;
use crate::retire::Ending;
use crate::retire::Retirement;
use crate::saved::Saved;
use crate::start::Adapter;
use crate::store::Id;
use crate::view::Stage;
use crate::view::View;
use crate::world::World;
use flight::invariant;
use flight::{Log, Passive, Ram, Run, Subject, What};
use smallvec::smallvec;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A process's link to an adapter (`hDevice`).
pub struct Device {
    /// None: it is the system's own.
    pub(crate) process: Option<Id<Process>>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) handle: Handle,
    pub(crate) word: Option<Arc<DriverDevice>>,
    pub(crate) contexts: BTreeSet<Id<Context>>,
    /// Those of them that have packets which are not over, in order.
    pub(crate) busy: Vec<Id<Context>>,
    pub(crate) resource_views: BTreeSet<Id<ResourceView>>,
    /// Views of allocations that belong to no resource.
    pub(crate) loose: BTreeSet<Id<View>>,
    /// Retirements of its views that are not done.
    pub(crate) retiring: u32,
    /// Retirements that wait for its work, in the order they were asked for.
    pub(crate) retirements: VecDeque<Id<Retirement>>,
    /// Why it cannot work any more; what it had queued counts as done.
    pub(crate) lost: Option<Loss>,
    /// Its end is under way, or over: it lets nobody in.
    pub(crate) ending: bool,
    /// Its driver has ended it: while its client has not, it is a husk, nothing but a name.
    pub(crate) gone: bool,
    /// Client calls that are using it now.
    pub(crate) inside: u32,
    /// The kernel's own name for it.
    pub(crate) name: Handle,
    /// What its driver made for all its contexts to save into.
    pub(crate) saved: Vec<Id<Saved>>,
    pub(crate) queues: BTreeSet<Id<Queue>>,
    /// What its client sees still of what ended with the adapter.
    shown: Vec<Shown>,
}

/// Memory that a client sees, and where it does. It does so until this is dropped.
pub(crate) struct Shown {
    pub(crate) ram: Arc<dyn Ram>,
    pub(crate) run: Run,
    pub(crate) view: usize,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.ram.end_view(self.view);
        self.ram.give_back(self.run);
    }
}

/// Why a device cannot work any more. It never works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its work does not end.
    Hung,
    /// Its GPU was reset, and it was not its fault.
    Reset,
    /// The driver refused its packet.
    Refused,
    /// What it cannot do without found no memory.
    OutOfMemory,
    /// Its packet touched memory that was not there.
    PageFault,
    /// Its adapter was removed.
    Stopped,
}

impl Loss {
    /// In words, for events.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Hung => "its work does not end",
            Loss::Reset => "its GPU was reset",
            Loss::Refused => "its packet was refused",
            Loss::OutOfMemory => "what it must have found no memory",
            Loss::PageFault => "its packet touched memory that was not there",
            Loss::Stopped => "its adapter was removed",
        }
    }
}

/// While it lives, a client call is using a device, and the device cannot go. Dropping it holds
/// the world.
pub(crate) struct Inside<'k> {
    /// None when it has left.
    kernel: Option<&'k Kernel>,
    pub(crate) device: Id<Device>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) driver: Arc<Driver>,
    /// Given up before the device may go: whoever ends it needs the only one.
    word: Option<Arc<DriverDevice>>,
}

impl Device {
    /// The process of a client's device.
    pub(crate) fn owner(&self) -> Id<Process> {
        invariant(self.process, "the system's device ends with its adapter, not as a client's")
    }
}

impl Kernel {
    /// Makes a device (`D3DKMTCreateDevice`).
    pub fn create_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: Handle,
    ) -> Result<Handle, Refused> {
        let (driver, name) = {
            let mut world = self.world.hold();
            let number = world.resolve::<Adapter>(process, Argument::Adapter, adapter)?;
            let driver = world.adapters.get(number).and_then(Adapter::running);
            let driver = driver.ok_or(Refused::Removed(number.subject()))?;
            let name = self.reserve(&mut world, process.0)?;
            world.processes[process.0].making += 1;
            (driver, name)
        };
        let mut name = Some(name);
        let made = self.make_device(at, process, &driver, &mut name);
        let mut world = self.world.hold();
        // A name that was not published goes back.
        self.take_back(&mut world, process.0, name.into_iter().collect());
        world.processes[process.0].making -= 1;
        self.wake(&mut world);
        drop(world);
        self.settle_space(at, process.0, driver.adapter);
        made
    }

    /// Has the driver make a device, in the space of its process.
    fn make_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        driver: &Driver,
        name: &mut Option<Reserved>,
    ) -> Result<Handle, Refused> {
        let keys = Class::Zero.keys(driver.adapter, driver.generation, process.0);
        let pass = self.enter(at, keys)?;
        // Who parked looks again: the adapter may have stopped, the process may have ended.
        self.world.hold().takes_devices(process, driver.adapter)?;
        let space = self.ready_space(at, &pass, driver, process.0)?;
        let made = self.make_device_inside(at, &pass, process, driver, name);
        self.leave_space(space);
        made
    }

    /// Has the driver make a device, and publishes it if there is still something to have it.
    fn make_device_inside(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        process: ProcessId,
        driver: &Driver,
        name: &mut Option<Reserved>,
    ) -> Result<Handle, Refused> {
        let handle = name.as_ref().map(Reserved::handle).unwrap_or_default();
        let adapter = driver.adapter;
        let (device, own) = self.begin_device(Some(process), adapter, handle)?;
        let subject = device.subject();
        let made = driver.create_device(at, pass, (Some(process.0), own.handle()));
        let mut world = self.world.hold();
        let word = match made {
            Ok(word) => word,
            Err(why) => {
                // What the driver made for a device it then refused, it left behind.
                self.forget_saved(&mut world, device, "DxgkDdiCreateDevice");
                world.take_device(device);
                world.kernel_names.take_back(own);
                self.wake(&mut world);
                return Err(why.into());
            }
        };
        world.kernel_names.publish(own, device.into());
        let given = word.word();
        let welcome = world.takes_devices(process, adapter);
        self.log.emit(
            subject,
            What::DeviceCreated { process: process.subject(), adapter: adapter.subject() },
        );
        self.give_word(given, subject);
        if let Err(why) = welcome {
            drop(world);
            // WINDOWS: that the driver sees this call is our decision.
            let carries = |log: &Log| log.emit(subject, What::DdiEnds {});
            let whom = For { process: Some(process.0), carries: &carries };
            let _ = driver.destroy_device(at, pass, whom, word);
            let mut world = self.world.hold();
            self.log.emit(subject, What::DeviceDestroyed {});
            self.end_word(given, subject, false);
            self.forget_saved(&mut world, device, "DxgkDdiDestroyDevice");
            world.remove_device(device);
            self.wake(&mut world);
            return Err(why);
        }
        if let Some(it) = world.devices.get_mut(device) {
            (it.word, it.ending) = (Some(Arc::new(word)), false);
        }
        if let Some(name) = name.take() {
            self.publish(&mut world, process.0, name, device.into());
        }
        Ok(handle)
    }

    /// Enters a device that its driver is about to make: it may use the kernel's name for it.
    /// Until it is made, it lets nobody in.
    pub(crate) fn begin_device(
        &self,
        process: Option<ProcessId>,
        adapter: Id<Adapter>,
        handle: Handle,
    ) -> Result<(Id<Device>, Reserved), Refused> {
        let world = &mut *self.world.hold();
        let own = world.kernel_names.reserve()?;
        let number = world.add_device(Device {
            process: process.map(|it| it.0),
            adapter,
            handle,
            word: None,
            contexts: BTreeSet::new(),
            busy: Vec::new(),
            resource_views: BTreeSet::new(),
            loose: BTreeSet::new(),
            retiring: 0,
            retirements: VecDeque::new(),
            lost: None,
            ending: true,
            gone: false,
            inside: 0,
            name: own.handle(),
            saved: Vec::new(),
            queues: BTreeSet::new(),
            shown: Vec::new(),
        });
        world.kernel_names.promise(&own, number.into());
        Ok((number, own))
    }

    /// Ends a device with everything it has (`D3DKMTDestroyDevice`).
    pub fn destroy_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), Refused> {
        let number = {
            let mut world = self.world.hold();
            let number = world.resolve::<Device>(process, Argument::Device, handle)?;
            self.unname(&mut world, process.0, handle);
            number
        };
        self.end_device(at, number);
        Ok(())
    }

    /// Ends every device that is so, and waits for those that others end. What has its name
    /// still is a husk then.
    pub(crate) fn end_devices(
        &self,
        at: &mut Passive,
        about: Subject,
        process: Option<Id<Process>>,
        which: impl Fn(&Device) -> bool,
    ) {
        let is = |it: &Device| !it.gone && which(it);
        let alive = |world: &World| -> Vec<Id<Device>> {
            match process {
                Some(process) => {
                    world.devices_of(process).filter(|device| is(&world.devices[*device])).collect()
                }
                None => world.devices.select(is),
            }
        };
        let numbers = alive(&self.world.hold());
        for number in numbers {
            self.end_device(at, number);
        }
        self.wait_until(
            at,
            about,
            |_| format!("the devices of {about}"),
            |it| alive(it).is_empty(),
        );
    }

    /// Ends a device: calls inside it leave, contexts drain, views and what they were the last
    /// views of go, then the driver's device. Whoever comes second waits for the first.
    pub(crate) fn end_device(&self, at: &mut Passive, number: Id<Device>) {
        let first = {
            let mut world = self.world.hold();
            // Another thread may have ended it meanwhile.
            let Some(it) = world.devices.get_mut(number) else { return };
            let first = !std::mem::replace(&mut it.ending, true);
            // Who waits inside it looks again.
            self.wake(&mut world);
            first
        };
        if first {
            self.end_of_device(at, number);
        } else {
            let about = number.subject();
            let over = |it: &World| it.devices.get(number).is_none() || it.is_husk(number);
            self.wait_until(at, about, |_| format!("the end of {about}"), over);
        }
        let mut world = self.world.hold();
        let owner = world.devices.get(number).map(|it| (it.owner(), it.adapter));
        self.forget_device(&mut world, number);
        self.wake(&mut world);
        drop(world);
        if let Some((process, adapter)) = owner {
            self.settle_space(at, process, adapter);
        }
    }

    fn end_of_device(&self, at: &mut Passive, number: Id<Device>) {
        self.wait_device(at, number, "the calls inside it", |it| it.inside == 0);
        let (process, contexts) = {
            let world = self.world.hold();
            let it = &world.devices[number];
            (it.owner(), it.contexts.clone())
        };
        for context in contexts {
            self.end_context(at, process, context);
        }
        for retirement in self.retire_all(number) {
            drop(self.run_retirement(at, self.world.hold(), retirement, process));
        }
        self.end_syncs(number);
        let queues = self.world.hold().devices.get(number).map(|it| it.queues.clone());
        for queue in queues.unwrap_or_default() {
            self.end_queue(at, queue);
        }
        self.end_trims(number);
        self.end_holds(|it| it.device == number);
        self.wait_device(at, number, "the ends of its views", |it| it.retiring == 0);
        let word = self.world.hold().devices.get_mut(number).and_then(|it| it.word.take());
        let told = word.and_then(|word| {
            let (driver, given) = (self.driver_of(number)?, word.word());
            let word = Arc::into_inner(word)?;
            let keys = Class::Zero.keys(driver.adapter, driver.generation, process);
            let pass = self.enter(at, keys).ok()?;
            // WINDOWS: after a refusal it is gone all the same (our decision).
            let carries = |log: &Log| log.emit(number.subject(), What::DdiEnds {});
            let whom = For { process: Some(process), carries: &carries };
            let _ = driver.destroy_device(at, &pass, whom, word);
            Some(given)
        });
        let mut world = self.world.hold();
        if let Some(given) = told {
            let subject = number.subject();
            world.end_kernel_name(number);
            self.forget_saved(&mut world, number, "DxgkDdiDestroyDevice");
            self.log.emit(subject, What::DeviceDestroyed {});
            self.end_word(given, subject, false);
        }
        world.devices[number].gone = true;
    }

    /// Forgets a device that its driver has ended, if it has no name; its contexts' names, too.
    pub(crate) fn forget_device(&self, world: &mut World, number: Id<Device>) {
        // Another thread may have ended it meanwhile.
        let Some(it) = world.devices.get(number) else { return };
        let (process, handle) = (it.owner(), it.handle);
        let named = world.processes[process].names.find(handle) == Ok(number.into());
        if named || !world.is_husk(number) {
            return;
        }
        for context in it.contexts.clone() {
            if let Some(handle) = world.contexts.get(context).map(|it| it.handle) {
                self.unname(world, process, handle);
            }
            world.forget_context(context);
        }
        world.remove_device(number);
    }

    /// Waits until `done` is true of the device. A wait that nothing could end is given up:
    /// the device is lost, and what it had queued counts as done.
    fn wait_device(
        &self,
        at: &mut Passive,
        number: Id<Device>,
        what: &str,
        done: impl Fn(&Device) -> bool,
    ) {
        let about = number.subject();
        let over = |it: &World| it.devices.get(number).is_none_or(&done);
        while !self.wait_until(at, about, |_| format!("{about}: {what}"), over) {
            let adapter = self.world.hold().devices[number].adapter;
            if !self.lose_device(number, Loss::Hung) && !self.lose_paging(adapter) {
                return; // It was lost before, and that did not help: nothing more can.
            }
        }
    }

    /// Enters a device that works.
    pub(crate) fn enter_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Inside<'_>, Refused> {
        let mut world = self.world.hold();
        let number = world.working_device(process, handle)?;
        self.inside(&mut world, number)
    }

    /// Enters a device by number. One that is ending lets nobody in.
    pub(crate) fn inside(
        &self,
        world: &mut World,
        number: Id<Device>,
    ) -> Result<Inside<'_>, Refused> {
        let gone = Refused::Removed(number.subject());
        let it = world.devices.get_mut(number).filter(|it| !it.ending).ok_or(gone.clone())?;
        let driver = world.adapters.get(it.adapter).map(|it| it.driver.clone()).ok_or(gone)?;
        it.inside += 1;
        Ok(Inside {
            kernel: Some(self),
            device: number,
            adapter: it.adapter,
            driver,
            word: it.word.clone(),
        })
    }

    /// Who parked looks again: whether the device still works.
    pub(crate) fn look_again(&self, inside: &Inside<'_>) -> Result<(), Refused> {
        self.world.hold().works(inside.device)
    }

    /// A device cannot work any more. What it had queued counts as done, so everything that
    /// waited for it goes on. Answers whether it was not lost before.
    ///
    /// WINDOWS: a device in error ends its destroy calls with success, as if its fences had
    /// completed (our decision; the reset that makes the GPU quiet is not modelled yet).
    pub(crate) fn lose_device(&self, number: Id<Device>, why: Loss) -> bool {
        self.lose(&mut self.world.hold(), number, why)
    }

    pub(crate) fn lose(&self, world: &mut World, number: Id<Device>, why: Loss) -> bool {
        // Another thread may have ended it meanwhile.
        let Some(it) = world.devices.get_mut(number) else { return false };
        if it.lost.is_some() {
            return false;
        }
        it.lost = Some(why);
        self.log.emit(number.subject(), What::DeviceLost { why: why.name().into() });
        let adapter = it.adapter;
        self.forget_packets(world, adapter, number);
        if matches!(why, Loss::Hung | Loss::Reset) {
            self.reset_fences(world, number);
        }
        let idle = world.retire_ready(number);
        self.start_ending(world, idle);
        // Offers and paging work may have waited for what counts as done now.
        self.settle_offers(world, adapter);
        if world.pages(adapter) {
            self.ring(&self.bell);
        }
        self.wake(world);
        true
    }

    /// Whether a device works, or why not (`D3DKMTGetDeviceState`).
    pub fn device_state(
        &self,
        process: ProcessId,
        device: Handle,
    ) -> Result<Option<Loss>, Refused> {
        let world = self.world.hold();
        let number = world.resolve::<Device>(process, Argument::Device, device)?;
        let it = world.devices.get(number);
        let loss = it.and_then(|it| if it.gone { Some(Loss::Stopped) } else { it.lost });
        let state = loss.map_or("active", Loss::name).into();
        self.log.emit(number.subject(), What::DeviceTold { state });
        Ok(loss)
    }

    /// The driver a device belongs to.
    pub(crate) fn driver_of(&self, device: Id<Device>) -> Option<Arc<Driver>> {
        let world = self.world.hold();
        let adapter = world.devices.get(device)?.adapter;
        world.adapters.get(adapter).map(|it| it.driver.clone())
    }

    /// Retires everything a device still has. What cannot start now is left to the jobs.
    fn retire_all(&self, number: Id<Device>) -> Vec<Id<Retirement>> {
        let mut world = self.world.hold();
        let it = &world.devices[number];
        // What a client destroyed before is in retirements of its own.
        let live =
            |view: &&Id<View>| world.views.get(**view).is_some_and(|it| it.stage == Stage::Live);
        let named =
            |it: &&Id<ResourceView>| world.resource_views.get(**it).is_some_and(|it| it.named);
        let resources = it.resource_views.iter().filter(named).map(|it| Ending::Resource(*it));
        let loose = it.loose.iter().filter(live).map(|it| Ending::Views(smallvec![*it]));
        let endings: Vec<Ending> = resources.chain(loose).collect();
        let how = |ending| self.retire(&mut world, number, ending, false, false);
        endings.into_iter().filter_map(how).filter(|it| it.ready).map(|it| it.number).collect()
    }
}

impl World {
    /// Forgets a device and the kernel's name for it.
    /// Enters a device.
    fn add_device(&mut self, it: Device) -> Id<Device> {
        let process = it.process;
        let number = self.devices.insert(it);
        if let Some(process) = process {
            self.devices_of.entry(process).or_default().push(number);
        }
        number
    }

    /// Takes a device out.
    pub(crate) fn take_device(&mut self, number: Id<Device>) -> Option<Device> {
        let it = self.devices.take(number)?;
        if let Some(process) = it.process
            && let Some(all) = self.devices_of.get_mut(&process)
        {
            all.retain(|device| *device != number);
            if all.is_empty() {
                self.devices_of.remove(&process);
            }
        }
        Some(it)
    }

    /// The devices of a process, in the order they were made.
    pub(crate) fn devices_of(&self, process: Id<Process>) -> impl Iterator<Item = Id<Device>> {
        self.devices_of.get(&process).into_iter().flatten().copied()
    }

    /// A client sees this no more. One that has its device still, which ends because the adapter
    /// does, sees it until it lets go of that: it cannot know.
    pub(crate) fn hide(&mut self, device: Id<Device>, shown: Shown) {
        let it = &mut self.devices[device];
        let names = it.process.map(|process| &self.processes[process].names);
        let name = Ok(ObjectId::Device(device));
        if it.ending && names.is_some_and(|names| names.find(it.handle) == name) {
            it.shown.push(shown);
        }
    }

    fn remove_device(&mut self, number: Id<Device>) {
        if let Some(it) = self.take_device(number) {
            let _ = self.kernel_names.close(it.name); // It is closed if the driver ended it.
        }
    }

    /// Whether a process may have a device on an adapter now.
    fn takes_devices(&self, process: ProcessId, adapter: Id<Adapter>) -> Result<(), Refused> {
        let running = self.adapters.get(adapter).is_some_and(|it| it.runs() && !it.fatal);
        let alive = self.processes.get(process.0).is_some_and(|it| !it.ended);
        if running && alive { Ok(()) } else { Err(Refused::Removed(adapter.subject())) }
    }

    /// Whether a device is nothing but a name: its driver has ended it, its client has not.
    pub(crate) fn is_husk(&self, device: Id<Device>) -> bool {
        self.devices.get(device).is_some_and(|it| it.gone)
    }

    /// Whether a device works.
    pub(crate) fn works(&self, device: Id<Device>) -> Result<(), Refused> {
        let works = self.devices.get(device).is_some_and(|it| {
            let runs = self.adapters.get(it.adapter).is_some_and(Adapter::runs);
            it.lost.is_none() && !it.ending && runs
        });
        if works { Ok(()) } else { Err(Refused::Removed(device.subject())) }
    }

    /// The device that a client's handle names, if it works.
    pub(crate) fn working_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Id<Device>, Refused> {
        let number = self.resolve::<Device>(process, Argument::Device, handle)?;
        self.works(number).map(|()| number)
    }
}

impl Inside<'_> {
    /// The driver's word for the device. It has one while anybody is inside.
    pub(crate) fn word(&self) -> Result<&DriverDevice, Refused> {
        self.word.as_deref().ok_or(Refused::Removed(self.subject()))
    }

    pub(crate) fn subject(&self) -> Subject {
        self.device.subject()
    }
}

impl Inside<'_> {
    /// Leaves in a world that is held already.
    pub(crate) fn leave(mut self, world: &mut World) {
        self.go(world);
    }

    fn go(&mut self, world: &mut World) {
        self.word = None;
        world.devices[self.device].inside -= 1;
        if let Some(kernel) = self.kernel.take() {
            kernel.wake(world);
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(kernel) = self.kernel {
            self.go(&mut kernel.world.hold());
        }
    }
}
