//! Devices: added, started, stopped, pulled out, removed.

use crate::describe::{BadDescriptor, DeviceDescriptor, FilterDescriptor};
use crate::funnel::{Driver, Entry};
use crate::memory::FrameMemory;
use crate::minidriver::Minidriver;
use crate::mutex::Mutex;
use crate::refused::Refused;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, DeviceId, FilterId, Refusal};
use crate::world::World;
use flight::{Passive, RuleId, Subject, What, current_thread};
use std::sync::Arc;

/// A minidriver and the memory its frames are in.
#[derive(Clone)]
pub struct Plugged {
    /// The driver.
    pub minidriver: Arc<dyn Minidriver>,
    /// The memory.
    pub memory: Arc<dyn FrameMemory>,
}

/// A streaming device.
pub struct Device {
    pub(crate) driver: Arc<Driver>,
    pub(crate) memory: Arc<dyn FrameMemory>,
    pub(crate) phase: Phase,
    pub(crate) dispatch: Vec<Entry>,
    pub(crate) factories: Vec<Arc<FilterDescriptor>>,
    /// The driver's word for it.
    pub(crate) word: usize,
    /// It has a DMA adapter.
    pub(crate) dma: bool,
    /// Its hardware is gone.
    pub(crate) pulled: bool,
}

/// How far a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Started,
    /// Its driver is asked whether it may end: it streams on.
    Asked,
    Ending,
    Stopped,
}

/// How a device ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Stops,
    Goes,
    Pulled,
}

impl World {
    pub(crate) fn device(&self, device: DeviceId) -> Result<&Device, Refused> {
        self.devices.get(device).ok_or_else(|| Refused::NotThere(device.subject()))
    }

    /// A device that is started.
    pub(crate) fn started(&self, device: DeviceId) -> Result<&Device, Refused> {
        let it = self.device(device)?;
        let started = matches!(it.phase, Phase::Started | Phase::Asked) && !it.pulled;
        if started { Ok(it) } else { Err(Refused::NotStarted(device.subject())) }
    }
}

impl Stream {
    /// The memory of a device's frames; none, if the device was removed: its driver may still
    /// have its services.
    pub(crate) fn memory_of(&self, device: DeviceId) -> Option<Arc<dyn FrameMemory>> {
        Some(self.world.hold().devices.get(device)?.memory.clone())
    }

    /// Adds a device and starts it: its filters can be opened. A driver that describes something
    /// impossible is refused before it is called.
    pub fn add_device(
        self: &Arc<Self>,
        at: &mut Passive,
        plugged: Plugged,
    ) -> Result<DeviceId, Refused> {
        let device = self.world.hold().devices.reserve();
        let driver = self.new_driver(device, &plugged);
        let descriptor = driver.describe();
        for filter in &descriptor.filters {
            self.check(device.subject(), filter).inspect_err(|_| {
                self.world.hold().devices.cancel(device);
            })?;
        }
        let DeviceDescriptor { dispatch, filters } = descriptor;
        let factories: Vec<_> = filters.into_iter().map(Arc::new).collect();
        let count = u32::try_from(factories.len()).unwrap_or(u32::MAX);
        let it = Device {
            driver: driver.clone(),
            memory: plugged.memory,
            phase: Phase::Starting,
            dispatch,
            factories,
            word: 0,
            dma: false,
            pulled: false,
        };
        {
            let mut world = self.world.hold();
            world.devices.fill(device, it);
            self.log.emit(device.subject(), What::KsAdded { factories: count });
        }
        driver.attach();
        if let Err(why) = self.meet(at, device, &driver) {
            self.forget(at, device);
            return Err(why);
        }
        if let Err(why) = self.start(at, device) {
            // It has no filters yet.
            let _ = self.end_device(at, device, &driver, Ending::Goes);
            return Err(why);
        }
        Ok(device)
    }

    /// Starts a device that was stopped.
    pub fn start_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        {
            let mut world = self.world.hold();
            let it = world.devices.get_mut(device);
            let it = it.ok_or(Refused::NotThere(device.subject()))?;
            if it.phase != Phase::Stopped {
                return Err(Refused::Driver(Refusal::Busy));
            }
            it.phase = Phase::Starting;
        }
        let answer = self.start(at, device);
        if answer.is_err() {
            self.phase(device, Phase::Stopped);
        }
        answer
    }

    /// Stops a device: what clients have open of it is closed.
    pub fn stop_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        let (driver, from) = self.claim_end(at, device, Phase::Asked)?;
        if from == Phase::Stopped {
            self.phase(device, from);
            return Err(Refused::NotStarted(device.subject()));
        }
        self.ask_end(at, device, &driver, (Entry::DeviceQueryStop, from))?;
        self.end_device(at, device, &driver, Ending::Stops)
    }

    /// Removes a device: what clients have open of it is closed.
    pub fn remove_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        let (driver, from) = self.claim_end(at, device, Phase::Asked)?;
        self.ask_end(at, device, &driver, (Entry::DeviceQueryRemove, from))?;
        self.end_device(at, device, &driver, Ending::Goes)
    }

    /// Pulls a device out: its driver hears of it first, then all that is open of it is closed.
    pub fn pull_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        let (driver, _) = self.claim_end(at, device, Phase::Ending)?;
        self.end_device(at, device, &driver, Ending::Pulled)
    }

    /// The device, as its services see it.
    pub fn services(&self, device: DeviceId) -> Option<Arc<Services>> {
        Some(self.world.hold().devices.get(device)?.driver.services.clone())
    }

    fn new_driver(self: &Arc<Self>, device: DeviceId, plugged: &Plugged) -> Arc<Driver> {
        let (stream, host, log) = (Arc::downgrade(self), self.host.clone(), self.log.clone());
        let memory = plugged.memory.clone();
        let services = Services { stream: stream.clone(), device, memory, host, log };
        Arc::new(Driver {
            minidriver: plugged.minidriver.clone(),
            services: Arc::new(services),
            stream,
            host: self.host.clone(),
            log: self.log.clone(),
            device,
        })
    }

    /// Whether what a driver says of a filter can be.
    pub(crate) fn check(&self, about: Subject, filter: &FilterDescriptor) -> Result<(), Refused> {
        let mut first = None;
        for (rule, broken) in filter.judge() {
            first = first.or_else(|| broken.clone());
            self.judge(rule, about, "KSPIN_DESCRIPTOR_EX", broken);
        }
        let bad = first.map(BadDescriptor).or_else(|| filter.impossible());
        bad.map_or(Ok(()), |why| Err(why.into()))
    }

    fn meet(&self, at: &mut Passive, device: DeviceId, driver: &Driver) -> Result<(), Refused> {
        let _held = self.take(at, Mutex::Device(device.subject()))?;
        if !self.has_entry(device, Entry::DeviceAdd) {
            return Ok(());
        }
        let answer = driver.add(at);
        self.judge_pending(device, Entry::DeviceAdd, answer.as_ref().err().copied());
        let word = answer?.map_or(0, |it| it.word());
        self.world.hold().devices[device].word = word;
        Ok(())
    }

    fn start(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        let driver = self.world.hold().devices[device].driver.clone();
        {
            let _held = self.take(at, Mutex::Device(device.subject()))?;
            self.device_call_held(at, device, &driver, Entry::DeviceStart)?;
        }
        if let Err(why) = self.device_call_held(at, device, &driver, Entry::DevicePostStart) {
            let _held = self.take(at, Mutex::Device(device.subject()))?;
            // What it answers changes nothing: it has stopped.
            let _ = self.device_call_held(at, device, &driver, Entry::DeviceStop);
            return Err(why.into());
        }
        let mut world = self.world.hold();
        world.devices[device].phase = Phase::Started;
        self.log.emit(device.subject(), What::KsStarted {});
        self.wake(&mut world);
        Ok(())
    }

    fn has_entry(&self, device: DeviceId, entry: Entry) -> bool {
        self.world.hold().devices[device].dispatch.contains(&entry)
    }

    fn device_call(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        entry: Entry,
    ) -> Answer<()> {
        let held = self.take(at, Mutex::Device(device.subject()));
        let _held = held.map_err(|_| Refusal::Deadlock)?;
        self.device_call_held(at, device, driver, entry)
    }

    fn device_call_held(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        entry: Entry,
    ) -> Answer<()> {
        if !self.has_entry(device, entry) {
            return Ok(());
        }
        let answer = driver.device(at, entry);
        self.judge_pending(device, entry, answer.err());
        answer
    }

    fn judge_pending(&self, device: DeviceId, entry: Entry, why: Option<Refusal>) {
        let broken = (why == Some(Refusal::Pending))
            .then(|| format!("{} answered that it is pending, which it may not", entry.name()));
        self.judge(RuleId::KS_DEV_001, device.subject(), entry.name(), broken);
    }

    fn phase(&self, device: DeviceId, phase: Phase) {
        let mut world = self.world.hold();
        world.devices[device].phase = phase;
        self.wake(&mut world);
    }

    /// Asks a driver whether its device may end. If it refuses, the device is as it was.
    fn ask_end(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        (entry, from): (Entry, Phase),
    ) -> Result<(), Refused> {
        if let Err(why) = self.device_call(at, device, driver, entry) {
            self.phase(device, from);
            return Err(why.into());
        }
        self.phase(device, Phase::Ending);
        Ok(())
    }

    /// Claims the end of a device: a second thread waits for the first, and finds the device gone.
    /// Answers also how far it was. One that was stopped does not stream while it is asked.
    fn claim_end(
        &self,
        at: &mut Passive,
        device: DeviceId,
        to: Phase,
    ) -> Result<(Arc<Driver>, Phase), Refused> {
        let what = |_: &World| format!("the start or the end of {}", device.subject());
        self.act_when(at, device.subject(), None, what, |world| {
            let Some(it) = world.devices.get_mut(device) else {
                return Some(Err(Refused::NotThere(device.subject())));
            };
            match it.phase {
                Phase::Starting | Phase::Asked | Phase::Ending => None,
                from @ (Phase::Started | Phase::Stopped) => {
                    it.phase = if from == Phase::Started { to } else { Phase::Ending };
                    Some(Ok((it.driver.clone(), from)))
                }
            }
        })?
    }

    /// Ends a device that this thread has claimed, or that has not started. One whose filters
    /// cannot be ended stays, and its end can be tried again.
    fn end_device(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        ending: Ending,
    ) -> Result<(), Refused> {
        let subject = device.subject();
        if ending == Ending::Pulled {
            let mut world = self.world.hold();
            world.devices[device].pulled = true;
            self.log.emit(subject, What::KsPulled {});
            self.wake(&mut world);
        }
        // Nothing helps a device whose driver refuses to end: it ends all the same.
        if ending == Ending::Pulled {
            let _ = self.device_call(at, device, driver, Entry::DeviceSurpriseRemoval);
        } else {
            // A thread that passed the check before has created its filter when this is free.
            drop(self.take(at, Mutex::Device(subject)));
        }
        self.end_filters(at, device)?;
        if ending == Ending::Stops {
            let _ = self.device_call(at, device, driver, Entry::DeviceStop);
            self.log.emit(subject, What::KsStopped {});
            self.phase(device, Phase::Stopped);
            return Ok(());
        }
        let _ = self.device_call(at, device, driver, Entry::DeviceRemove);
        self.judge_left(at, device);
        self.forget(at, device);
        Ok(())
    }

    fn end_filters(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        loop {
            let next = {
                let world = self.world.hold();
                world.filters.iter().find(|(_, it)| it.device == device).map(|(it, _)| it)
            };
            let Some(filter) = next else { return Ok(()) };
            let held = self
                .take(at, Mutex::Device(device.subject()))
                .and_then(|of| Ok((self.take(at, Mutex::Control(filter.subject()))?, of)));
            let Ok(_held) = held else {
                self.phase(device, Phase::Started);
                return Err(Refused::Stuck);
            };
            // A client may have closed it while this thread waited for the mutexes.
            if self.world.hold().filters.contains(filter) {
                self.shut_filter(at, filter);
            }
        }
    }

    /// Its driver was told to forget it: nothing of it may be left.
    fn judge_left(&self, at: &mut Passive, device: DeviceId) {
        let (blocks, bags) = {
            let world = self.world.hold();
            let mine = world.blocks_of(device).filter(|(_, it)| !it.orphan);
            // What is in its bag goes with that.
            let blocks = mine.filter(|(word, _)| !world.bags.holds(device, *word));
            (blocks.count(), world.bags.own_of(device))
        };
        let broken = (blocks > 0).then(|| {
            format!("{blocks} pieces of memory of the driver are left when its device is removed")
        });
        self.judge(RuleId::KS_DEV_006, device.subject(), "AVStrMiniDeviceRemove", broken);
        let broken = (!bags.is_empty()).then(|| {
            format!("{} bags that the driver made are left when its device is removed", bags.len())
        });
        self.judge(RuleId::KS_BAG_006, device.subject(), "KsAllocateObjectBag", broken);
        for bag in bags {
            self.empty_bag(at, device, crate::bag::BagOf::Own(bag));
        }
    }

    /// The device is gone, with all that its driver left.
    fn forget(&self, at: &mut Passive, device: DeviceId) {
        self.empty_bag(at, device, crate::bag::BagOf::Device(device));
        let (memory, left, driver) = {
            let mut world = self.world.hold();
            let it = world.devices.remove(device);
            let left = world.blocks_that(device, |_| true);
            for word in &left {
                world.blocks.remove(&(device, *word));
            }
            world.freed.retain(|(of, _)| *of != device);
            self.log.emit(device.subject(), What::KsRemoved {});
            self.wake(&mut world);
            (it.memory, left, it.driver)
        };
        for word in left {
            memory.free(word);
        }
        driver.gone(device.into());
    }
}

impl Services {
    /// Makes another filter factory (`KsCreateFilterFactory`), with the device mutex held.
    /// Answers its number.
    pub fn create_factory(&self, descriptor: FilterDescriptor) -> Answer<u32> {
        let stream = self.stream()?;
        let subject = self.device.subject();
        let held = {
            let world = stream.world.hold();
            world.has(current_thread(), Mutex::Device(subject))
        };
        let broken = (!held)
            .then(|| format!("a filter factory of {subject} was made without the device mutex"));
        stream.judge(RuleId::KS_DEV_003, subject, "KsCreateFilterFactory", broken);
        if !held || stream.check(subject, &descriptor).is_err() {
            return Err(Refusal::Invalid);
        }
        let mut world = stream.world.hold();
        let device = world.devices.get_mut(self.device).ok_or(Refusal::Invalid)?;
        device.factories.push(Arc::new(descriptor));
        u32::try_from(device.factories.len() - 1).map_err(|_| Refusal::NoMemory)
    }

    /// The filters of the device (`KsGetFirstChild`), with the device mutex held.
    pub fn filters(&self) -> Answer<Vec<FilterId>> {
        let stream = self.stream()?;
        let world = stream.world.hold();
        stream.judge_walk(&world, Mutex::Device(self.device.subject()))?;
        let mine = world.filters.iter().filter(|(_, it)| it.device == self.device);
        Ok(mine.map(|(number, _)| number).collect())
    }
}

impl Stream {
    /// Entry rule: the hierarchy is walked with its mutex.
    pub(crate) fn judge_walk(&self, world: &World, mutex: Mutex) -> Answer<()> {
        let held = world.has(current_thread(), mutex);
        let broken = (!held).then(|| {
            format!("what is below {} was walked without the {} mutex", mutex.of(), mutex.name())
        });
        self.judge(RuleId::KS_MUTEX_004, mutex.of(), "KsGetFirstChild", broken);
        held.then_some(()).ok_or(Refusal::Invalid)
    }
}
