//! Devices: a process's link to an adapter.

use crate::ddi::Driver;
use crate::gate::Class;
use crate::handle::{Handle, Reserved};
use crate::kernel::Kernel;
use crate::miniport::DriverDevice;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::retire::Ending;
use crate::start::Adapter;
use crate::view::Stage;
use crate::wait::Waiters;
use crate::world::World;
use flight::{Fence, Kind, Passive, Subject, What};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A process's link to an adapter (`hDevice`).
pub struct Device {
    pub(crate) process: u32,
    pub(crate) adapter: u32,
    pub(crate) handle: Handle,
    pub(crate) word: Option<Arc<DriverDevice>>,
    pub(crate) contexts: BTreeSet<u32>,
    pub(crate) resource_views: BTreeSet<u32>,
    /// Views of allocations that belong to no resource.
    pub(crate) loose: BTreeSet<u32>,
    /// Retirements of its views that are not done.
    pub(crate) retiring: u32,
    /// For each node it used: the last packet it queued there.
    pub(crate) queued: Vec<(usize, Fence)>,
    /// Retirements that wait for its work, in the order they were asked for.
    pub(crate) retirements: VecDeque<u32>,
    /// It cannot work any more; what it had queued counts as done.
    pub(crate) lost: bool,
    /// Its name is closed.
    pub(crate) ending: bool,
    /// Client calls that are using it now.
    pub(crate) inside: u32,
    /// Rung when something of it has ended or left.
    pub(crate) drained: Waiters,
}

/// While it lives, a client call is using a device, and the device cannot go.
pub(crate) struct Inside<'k> {
    kernel: &'k Kernel,
    pub(crate) device: u32,
    pub(crate) adapter: u32,
    pub(crate) driver: Arc<Driver>,
    /// Given up before the device may go: whoever ends it needs the only one.
    word: Option<Arc<DriverDevice>>,
}

impl Kernel {
    /// Makes a device (`D3DKMTCreateDevice`).
    pub fn create_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: Handle,
    ) -> Result<Handle, Refused> {
        let (number, driver, name) = {
            let mut world = self.world.hold();
            let number = world.resolve(process, Argument::Adapter, adapter, Kind::Adapter)?;
            let driver = world.running(number)?;
            let name = self.reserve(&mut world, process.0)?;
            if let Some(it) = world.processes.get_mut(process.0) {
                it.making += 1;
            }
            (number, driver, name)
        };
        let made = self.make_device(at, process, number, &driver, name);
        if let Some(it) = self.world.hold().processes.get_mut(process.0) {
            it.making -= 1;
            it.drained.ring(self);
        }
        made
    }

    /// The part that calls the driver. The pass is held until the device is there, or is undone:
    /// whoever stops the adapter meanwhile finds the one or the other.
    fn make_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: u32,
        driver: &Driver,
        name: Reserved,
    ) -> Result<Handle, Refused> {
        let keys = Class::Zero.keys(adapter, driver.generation, process.0);
        let made = self.enter(at, keys).map_err(Refused::from).and_then(|pass| {
            // Who parked looks again.
            self.world.hold().welcomes(process, adapter)?;
            let word = driver.create_device(at, &pass, process.0)?;
            Ok((pass, word))
        });
        let (why, undo) = match made {
            Ok((pass, word)) => {
                let mut world = self.world.hold();
                match world.welcomes(process, adapter) {
                    Ok(()) => return Ok(self.add_device(&mut world, process, adapter, word, name)),
                    Err(why) => (why, Some((pass, word))),
                }
            }
            Err(why) => (why, None),
        };
        if let Some((pass, word)) = undo {
            // WINDOWS: that the driver sees this call is our decision.
            let _ = driver.destroy_device(at, &pass, process.0, word);
        }
        self.take_back(&mut self.world.hold(), process.0, vec![name]);
        Err(why)
    }

    /// Enters a device that the driver has made, and publishes its name.
    fn add_device(
        &self,
        world: &mut World,
        process: ProcessId,
        adapter: u32,
        word: DriverDevice,
        name: Reserved,
    ) -> Handle {
        let (handle, given) = (name.handle(), word.word());
        let device = world.devices.add(Device {
            process: process.0,
            adapter,
            handle,
            word: Some(Arc::new(word)),
            contexts: BTreeSet::new(),
            resource_views: BTreeSet::new(),
            loose: BTreeSet::new(),
            retiring: 0,
            queued: Vec::new(),
            retirements: VecDeque::new(),
            lost: false,
            ending: false,
            inside: 0,
            drained: Waiters::default(),
        });
        let subject = Kind::Device.nr(device);
        let adapter = Kind::Adapter.nr(adapter);
        self.log.emit(subject, What::DeviceCreated { process: process.subject(), adapter });
        self.give_word(given, subject);
        self.publish(world, process.0, name, subject);
        handle
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
            let number = world.resolve(process, Argument::Device, handle, Kind::Device)?;
            self.unname(&mut world, process.0, handle);
            if let Some(it) = world.devices.get_mut(number) {
                it.ending = true;
            }
            number
        };
        self.end_device(at, number);
        Ok(())
    }

    /// Ends a device whose name is closed: calls inside it leave, contexts drain, views and
    /// what they were the last views of go, then the driver's device.
    pub(crate) fn end_device(&self, at: &mut Passive, number: u32) {
        self.wait_device(at, number, "the calls inside it", |it| it.inside == 0);
        let (process, contexts) = {
            let mut world = self.world.hold();
            let Some(it) = world.devices.get(number) else { return };
            let (process, contexts) = (it.process, it.contexts.clone());
            for context in &contexts {
                let handle = world.contexts.get(*context).map(|it| it.handle);
                if let Some(handle) = handle {
                    self.unname(&mut world, process, handle);
                }
            }
            (process, contexts)
        };
        for context in contexts {
            self.end_context(at, process, context);
        }
        for retirement in self.retire_all(number) {
            self.run_retirement(at, retirement, process);
        }
        self.wait_device(at, number, "the ends of its views", |it| it.retiring == 0);
        let (word, driver) = {
            let mut world = self.world.hold();
            let Some(it) = world.devices.get_mut(number) else { return };
            let (word, adapter) = (it.word.take(), it.adapter);
            (word, world.adapters.get(adapter).map(|it| it.driver.clone()))
        };
        let (Some(word), Some(driver)) = (word, driver) else { return };
        let given = word.word();
        let keys = Class::Zero.keys(driver.adapter.number, driver.generation, process);
        if let (Ok(pass), Some(word)) = (self.enter(at, keys), Arc::into_inner(word)) {
            // WINDOWS: after a refusal it is gone all the same (our decision).
            let _ = driver.destroy_device(at, &pass, process, word);
        }
        let mut world = self.world.hold();
        world.devices.remove(number);
        let subject = Kind::Device.nr(number);
        self.log.emit(subject, What::DeviceDestroyed {});
        self.end_word(given, subject, false);
        if let Some(it) = world.adapters.get_mut(driver.adapter.number) {
            it.drained.ring(self);
        }
        if let Some(it) = world.processes.get_mut(process) {
            it.drained.ring(self);
        }
    }

    /// Waits until `done` is true of the device. A wait that nothing could end is given up:
    /// the device is lost, and what it had queued counts as done.
    fn wait_device(
        &self,
        at: &mut Passive,
        number: u32,
        what: &str,
        done: impl Fn(&Device) -> bool,
    ) {
        let look = |world: &mut World| match world.devices.get_mut(number) {
            Some(it) if !done(it) => Err(it.drained.ticket(format!("device {number}: {what}"))),
            _ => Ok(()),
        };
        // If it was lost before, and that did not help, nothing more can.
        let give_up = || self.lose_device(number, "its work does not end");
        self.wait(at, Kind::Device.nr(number), look, give_up);
    }

    /// Enters a device that works.
    pub(crate) fn enter_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Inside<'_>, Refused> {
        let inside = self.enter_device_to_end(process, handle)?;
        self.look_again(&inside)?;
        Ok(inside)
    }

    /// Enters a device, also a lost one: what ends things always works.
    pub(crate) fn enter_device_to_end(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Inside<'_>, Refused> {
        let mut world = self.world.hold();
        let number = world.resolve(process, Argument::Device, handle, Kind::Device)?;
        self.inside(&mut world, number)
    }

    /// Enters a device by number. One that is ending lets nobody in.
    pub(crate) fn inside(&self, world: &mut World, number: u32) -> Result<Inside<'_>, Refused> {
        let gone = Refused::Removed(Kind::Device.nr(number));
        let it = world.devices.get_mut(number).filter(|it| !it.ending).ok_or(gone.clone())?;
        let driver = world.adapters.get(it.adapter).map(|it| it.driver.clone()).ok_or(gone)?;
        it.inside += 1;
        Ok(Inside {
            kernel: self,
            device: number,
            adapter: it.adapter,
            driver,
            word: it.word.clone(),
        })
    }

    /// Who parked looks again: whether the device still works.
    pub(crate) fn look_again(&self, inside: &Inside<'_>) -> Result<(), Refused> {
        self.world.hold().works(inside)
    }

    /// A device cannot work any more. What it had queued counts as done, so everything that
    /// waited for it goes on. Answers whether it was not lost before.
    ///
    /// WINDOWS: a device in error ends its destroy calls with success, as if its fences had
    /// completed (our decision; the reset that makes the GPU quiet is not modelled yet).
    pub(crate) fn lose_device(&self, number: u32, why: &'static str) -> bool {
        let mut world = self.world.hold();
        let Some(it) = world.devices.get_mut(number) else { return false };
        if std::mem::replace(&mut it.lost, true) {
            return false;
        }
        self.log.emit(Kind::Device.nr(number), What::DeviceLost { why: why.into() });
        let adapter = it.adapter;
        self.forget_packets(&mut world, adapter, number);
        let idle = world.retire_ready(number);
        self.start_ending(&mut world, idle);
        true
    }

    /// Devices that are so cannot work any more. Answers whether one of them still could.
    pub(crate) fn lose_devices(&self, are: impl Fn(&Device) -> bool) -> bool {
        let all: Vec<u32> = {
            let world = self.world.hold();
            world.devices.iter().filter(|(_, it)| are(it)).map(|(number, _)| number).collect()
        };
        let lost = all.into_iter().filter(|it| self.lose_device(*it, "its work does not end"));
        lost.count() > 0
    }

    /// The driver a device belongs to.
    pub(crate) fn driver_of(&self, device: u32) -> Option<Arc<Driver>> {
        let world = self.world.hold();
        let adapter = world.devices.get(device)?.adapter;
        world.adapters.get(adapter).map(|it| it.driver.clone())
    }

    /// Retires everything a device still has. What cannot start now is left to the jobs.
    fn retire_all(&self, number: u32) -> Vec<u32> {
        let mut world = self.world.hold();
        let Some(it) = world.devices.get(number) else { return Vec::new() };
        // What a client destroyed before is in retirements of its own.
        let live = |view: &&u32| world.views.get(**view).is_some_and(|it| it.stage == Stage::Live);
        let named = |it: &&u32| world.resource_views.get(**it).is_some_and(|it| it.named);
        let resources = it.resource_views.iter().filter(named).map(|it| Ending::Resource(*it));
        let loose = it.loose.iter().filter(live).map(|it| Ending::Views(vec![*it]));
        let endings: Vec<Ending> = resources.chain(loose).collect();
        let how = |ending| self.retire(&mut world, number, ending, false, false);
        endings.into_iter().filter_map(how).filter(|it| it.ready).map(|it| it.number).collect()
    }
}

impl World {
    /// The driver of an adapter that takes work.
    fn running(&self, adapter: u32) -> Result<Arc<Driver>, Refused> {
        let driver = self.adapters.get(adapter).and_then(Adapter::running);
        driver.ok_or(Refused::Removed(Kind::Adapter.nr(adapter)))
    }

    /// Whether a process may have a new device on an adapter.
    fn welcomes(&self, process: ProcessId, adapter: u32) -> Result<(), Refused> {
        self.running(adapter)?;
        let lives = self.processes.get(process.0).is_some_and(|it| !it.ended);
        if lives { Ok(()) } else { Err(Refused::Removed(process.subject())) }
    }

    /// Whether a device works.
    pub(crate) fn works(&self, inside: &Inside<'_>) -> Result<(), Refused> {
        let works = self.devices.get(inside.device).is_some_and(|it| !it.lost && !it.ending)
            && self.adapters.get(inside.adapter).is_some_and(|it| it.running().is_some());
        if works { Ok(()) } else { Err(Refused::Removed(inside.subject())) }
    }
}

impl Inside<'_> {
    /// The driver's word for the device. It has one while anybody is inside.
    pub(crate) fn word(&self) -> Result<&DriverDevice, Refused> {
        self.word.as_deref().ok_or(Refused::Removed(self.subject()))
    }

    pub(crate) fn subject(&self) -> Subject {
        Kind::Device.nr(self.device)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.word = None;
        let mut world = self.kernel.world.hold();
        if let Some(it) = world.devices.get_mut(self.device) {
            it.inside -= 1;
            it.drained.ring(self.kernel);
        }
    }
}
