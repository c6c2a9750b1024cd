//! Devices: a process's link to an adapter.

use crate::ddi::{Driver, For};
use crate::gate::Class;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::miniport::DriverDevice;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::retire::Ending;
use crate::start::Adapter;
use crate::view::Stage;
use crate::world::World;
use flight::{Fence, Kind, Log, Passive, Subject, Ticket, What, Woken};
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
    pub(crate) drained: Option<Ticket>,
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
            let driver = world.adapters.get(number).and_then(Adapter::running);
            let driver = driver.ok_or(Refused::Removed(Kind::Adapter.nr(number)))?;
            let name = self.reserve(&mut world, process.0)?;
            (number, driver, name)
        };
        let made = self.make_device(at, process, number, &driver);
        let mut world = self.world.hold();
        let word = match made {
            Ok(word) => word,
            Err(why) => {
                self.take_back(&mut world, process.0, vec![name]);
                return Err(why);
            }
        };
        let (handle, given) = (name.handle(), word.word());
        let device = world.devices.add(Device {
            process: process.0,
            adapter: number,
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
            drained: None,
        });
        let subject = Kind::Device.nr(device);
        let adapter = Kind::Adapter.nr(number);
        self.log.emit(subject, What::DeviceCreated { process: process.subject(), adapter });
        self.give_word(given, subject);
        self.publish(&mut world, process.0, name, subject);
        Ok(handle)
    }

    fn make_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: u32,
        driver: &Driver,
    ) -> Result<DriverDevice, Refused> {
        let pass = self.enter(at, Class::Zero.keys(adapter, driver.generation, process.0))?;
        // Who parked looks again: the adapter may have stopped.
        let running =
            self.world.hold().adapters.get(adapter).is_some_and(|it| it.running().is_some());
        if !running {
            return Err(Refused::Removed(Kind::Adapter.nr(adapter)));
        }
        Ok(driver.create_device(at, &pass, process.0)?)
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
        self.end_holds(|it| it.device == number);
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
            let carries = |log: &Log| log.emit(Kind::Device.nr(number), What::DdiEnds {});
            let whom = For { process: Some(process), carries: &carries };
            let _ = driver.destroy_device(at, &pass, whom, word);
        }
        let mut world = self.world.hold();
        world.devices.remove(number);
        let subject = Kind::Device.nr(number);
        self.log.emit(subject, What::DeviceDestroyed {});
        self.end_word(given, subject, false);
        if let Some(it) = world.adapters.get_mut(driver.adapter.number)
            && let Some(ticket) = it.drained.take()
        {
            self.ring(&ticket);
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
        loop {
            let ticket = {
                let mut world = self.world.hold();
                let Some(it) = world.devices.get_mut(number) else { return };
                if done(it) {
                    return;
                }
                let ticket = Ticket::new(format!("device {number}: {what}"));
                it.drained = Some(ticket.clone());
                ticket
            };
            if let Woken::Stuck(_) = self.park(at, Kind::Device.nr(number), &ticket)
                && !self.lose_device(number, "its work does not end")
            {
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
            if let Some(ticket) = it.drained.take() {
                self.kernel.ring(&ticket);
            }
        }
    }
}
