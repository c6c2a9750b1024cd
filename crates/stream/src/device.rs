//! Devices: added, started, stopped, surprise-removed, removed.

use crate::descriptor::{DescriptorError, DeviceDescriptor, FilterDescriptor};
use crate::driver_calls::{Driver, Entry};
use crate::error::StreamError;
use crate::memory::FrameMemory;
use crate::minidriver::Minidriver;
use crate::mutex::KsMutex;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DeviceId, DriverDevice, DriverError, DriverResult, FilterId};
use flight::{EventKind, Passive, RuleId, Subject, current_thread};
use std::sync::Arc;

/// A minidriver and the memory its frames are in.
#[derive(Clone)]
pub struct DriverSetup {
    /// The driver.
    pub minidriver: Arc<dyn Minidriver>,
    /// The memory.
    pub memory: Arc<dyn FrameMemory>,
}

/// A streaming device.
pub struct Device {
    pub(crate) driver: Arc<Driver>,
    pub(crate) memory: Arc<dyn FrameMemory>,
    pub(crate) set_phase: DevicePhase,
    pub(crate) dispatch: Vec<Entry>,
    pub(crate) factories: Vec<Arc<FilterDescriptor>>,
    /// The driver handle.
    pub(crate) driver_handle: usize,
    /// It has a DMA adapter.
    pub(crate) has_dma_adapter: bool,
    /// Its hardware was removed.
    pub(crate) surprise_removed: bool,
}

/// The lifecycle stage of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DevicePhase {
    Starting,
    Started,
    /// The driver was queried for stop or removal: the device still streams.
    Querying,
    EndReason,
    Stopped,
}

/// How a device ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    Stop,
    Remove,
    SurpriseRemoval,
}

impl StreamState {
    pub(crate) fn device(&self, device: DeviceId) -> Result<&Device, StreamError> {
        self.devices.get(device).ok_or_else(|| StreamError::NotFound(device.subject()))
    }

    /// A device that is started.
    pub(crate) fn started_device(&self, device: DeviceId) -> Result<&Device, StreamError> {
        let it = self.device(device)?;
        let started = matches!(it.set_phase, DevicePhase::Started | DevicePhase::Querying)
            && !it.surprise_removed;
        if started { Ok(it) } else { Err(StreamError::NotStarted(device.subject())) }
    }
}

impl Stream {
    /// The memory of a device's frames. Returns `None` if the device was removed: its driver may
    /// still have its services.
    pub(crate) fn memory_of(&self, device: DeviceId) -> Option<Arc<dyn FrameMemory>> {
        Some(self.state.lock().devices.get(device)?.memory.clone())
    }

    /// Adds a device and starts it: its filters can be opened. Fails before the driver is called if
    /// the driver's description is inconsistent.
    pub fn add_device(
        self: &Arc<Self>,
        at: &mut Passive,
        setup: DriverSetup,
    ) -> Result<DeviceId, StreamError> {
        let device = self.state.lock().devices.reserve();
        let driver = self.new_driver(device, &setup);
        let descriptor = driver.describe();
        for filter in &descriptor.filters {
            self.check_descriptor(device.subject(), filter).inspect_err(|_| {
                self.state.lock().devices.cancel(device);
            })?;
        }
        let DeviceDescriptor { dispatch, filters } = descriptor;
        let factories: Vec<_> = filters.into_iter().map(Arc::new).collect();
        let count = u32::try_from(factories.len()).unwrap_or(u32::MAX);
        let it = Device {
            driver: driver.clone(),
            memory: setup.memory,
            set_phase: DevicePhase::Starting,
            dispatch,
            factories,
            driver_handle: 0,
            has_dma_adapter: false,
            surprise_removed: false,
        };
        {
            let mut state = self.state.lock();
            state.devices.fill(device, it);
            self.log.emit(device.subject(), || EventKind::KsAdded { factories: count });
        }
        driver.attach();
        if let Err(reason) = self.call_add_device(at, device, &driver) {
            self.remove_device_object(at, device);
            return Err(reason);
        }
        if let Err(reason) = self.call_start_device(at, device) {
            // It has no filters yet.
            let _ = self.end_device(at, device, &driver, EndReason::Remove);
            return Err(reason);
        }
        Ok(device)
    }

    /// Starts a device that was stopped.
    pub fn start_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), StreamError> {
        {
            let mut state = self.state.lock();
            let it = state.devices.get_mut(device);
            let it = it.ok_or(StreamError::NotFound(device.subject()))?;
            if it.set_phase != DevicePhase::Stopped {
                return Err(StreamError::Driver(DriverError::Busy));
            }
            it.set_phase = DevicePhase::Starting;
        }
        let answer = self.call_start_device(at, device);
        if answer.is_err() {
            self.set_phase(device, DevicePhase::Stopped);
        }
        answer
    }

    /// Stops a device: everything that clients have open on it is closed.
    pub fn stop_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), StreamError> {
        let (driver, from) = self.begin_end(at, device, DevicePhase::Querying)?;
        if from == DevicePhase::Stopped {
            self.set_phase(device, from);
            return Err(StreamError::NotStarted(device.subject()));
        }
        self.query_end(at, device, &driver, (Entry::DeviceQueryStop, from))?;
        self.end_device(at, device, &driver, EndReason::Stop)
    }

    /// Removes a device: everything that clients have open on it is closed.
    pub fn remove_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), StreamError> {
        let (driver, from) = self.begin_end(at, device, DevicePhase::Querying)?;
        self.query_end(at, device, &driver, (Entry::DeviceQueryRemove, from))?;
        self.end_device(at, device, &driver, EndReason::Remove)
    }

    /// Surprise-removes a device: calls its driver first, then closes everything open on it.
    pub fn surprise_remove_device(
        &self,
        at: &mut Passive,
        device: DeviceId,
    ) -> Result<(), StreamError> {
        let (driver, _) = self.begin_end(at, device, DevicePhase::EndReason)?;
        self.end_device(at, device, &driver, EndReason::SurpriseRemoval)
    }

    /// The device, as its services see it.
    pub fn services(&self, device: DeviceId) -> Option<Arc<Services>> {
        Some(self.state.lock().devices.get(device)?.driver.services.clone())
    }

    fn new_driver(self: &Arc<Self>, device: DeviceId, setup: &DriverSetup) -> Arc<Driver> {
        let (stream, host, log) = (self.clone(), self.host.clone(), self.log.clone());
        let memory = setup.memory.clone();
        let services = Services { stream: stream.clone(), device, memory, host, log };
        Arc::new(Driver {
            minidriver: setup.minidriver.clone(),
            services: Arc::new(services),
            stream,
            host: self.host.clone(),
            log: self.log.clone(),
            device,
        })
    }

    /// Whether a driver's description of a filter is consistent.
    pub(crate) fn check_descriptor(
        &self,
        about: Subject,
        filter: &FilterDescriptor,
    ) -> Result<(), StreamError> {
        let mut first = None;
        for (request_rule, broken) in filter.judge() {
            first = first.or_else(|| broken.clone());
            self.judge(request_rule, about, "KSPIN_DESCRIPTOR_EX", broken);
        }
        let error = first.map(DescriptorError).or_else(|| filter.descriptor_error());
        error.map_or(Ok(()), |reason| Err(reason.into()))
    }

    fn call_add_device(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
    ) -> Result<(), StreamError> {
        let _held = self.acquire_guard(at, KsMutex::Device(device.subject()))?;
        if !self.has_entry(device, Entry::DeviceAdd) {
            return Ok(());
        }
        let answer = driver.add(at);
        self.judge_pending(device, Entry::DeviceAdd, answer.as_ref().err().copied());
        let word = answer?.map_or(0, DriverDevice::into_raw);
        self.state.lock().devices[device].driver_handle = word;
        Ok(())
    }

    fn call_start_device(&self, at: &mut Passive, device: DeviceId) -> Result<(), StreamError> {
        let driver = self.state.lock().devices[device].driver.clone();
        {
            let _held = self.acquire_guard(at, KsMutex::Device(device.subject()))?;
            self.device_call_locked(at, device, &driver, Entry::DeviceStart)?;
        }
        if let Err(reason) = self.device_call_locked(at, device, &driver, Entry::DevicePostStart) {
            let _held = self.acquire_guard(at, KsMutex::Device(device.subject()))?;
            // The result is ignored: the device has stopped.
            let _ = self.device_call_locked(at, device, &driver, Entry::DeviceStop);
            return Err(reason.into());
        }
        let mut state = self.state.lock();
        state.devices[device].set_phase = DevicePhase::Started;
        self.log.emit(device.subject(), || EventKind::KsStarted {});
        self.wake_all(&mut state);
        Ok(())
    }

    fn has_entry(&self, device: DeviceId, entry: Entry) -> bool {
        self.state.lock().devices[device].dispatch.contains(&entry)
    }

    fn device_call(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        entry: Entry,
    ) -> DriverResult<()> {
        let held = self.acquire_guard(at, KsMutex::Device(device.subject()));
        let _held = held.map_err(|_| DriverError::Deadlock)?;
        self.device_call_locked(at, device, driver, entry)
    }

    fn device_call_locked(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        entry: Entry,
    ) -> DriverResult<()> {
        if !self.has_entry(device, entry) {
            return Ok(());
        }
        let answer = driver.device(at, entry);
        self.judge_pending(device, entry, answer.err());
        answer
    }

    fn judge_pending(&self, device: DeviceId, entry: Entry, reason: Option<DriverError>) {
        let broken = (reason == Some(DriverError::Pending))
            .then(|| format!("{} returned pending, which is not allowed", entry.name()));
        self.judge(RuleId::KS_DEV_001, device.subject(), entry.name(), broken);
    }

    fn set_phase(&self, device: DeviceId, set_phase: DevicePhase) {
        let mut state = self.state.lock();
        state.devices[device].set_phase = set_phase;
        self.wake_all(&mut state);
    }

    /// Queries the driver for stop or removal. If it refuses, the device stays as it was.
    fn query_end(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        (entry, from): (Entry, DevicePhase),
    ) -> Result<(), StreamError> {
        if let Err(reason) = self.device_call(at, device, driver, entry) {
            self.set_phase(device, from);
            return Err(reason.into());
        }
        self.set_phase(device, DevicePhase::EndReason);
        Ok(())
    }

    /// Claims the end of a device: a second thread waits for the first, and finds the device
    /// removed. Also returns the stage it had. A stopped device does not stream during the query.
    fn begin_end(
        &self,
        at: &mut Passive,
        device: DeviceId,
        to: DevicePhase,
    ) -> Result<(Arc<Driver>, DevicePhase), StreamError> {
        let what = |_: &StreamState| format!("the start or the end of {}", device.subject());
        self.wait_until(at, device.subject(), None, what, |state| {
            // Another thread may have removed the device meanwhile.
            let Some(it) = state.devices.get_mut(device) else {
                return Some(Err(StreamError::NotFound(device.subject())));
            };
            match it.set_phase {
                DevicePhase::Starting | DevicePhase::Querying | DevicePhase::EndReason => None,
                from @ (DevicePhase::Started | DevicePhase::Stopped) => {
                    it.set_phase =
                        if from == DevicePhase::Started { to } else { DevicePhase::EndReason };
                    Some(Ok((it.driver.clone(), from)))
                }
            }
        })?
    }

    /// Ends a device that this thread has claimed, or that has not started. A device whose filters
    /// cannot be ended stays, and the end can be tried again.
    fn end_device(
        &self,
        at: &mut Passive,
        device: DeviceId,
        driver: &Driver,
        ending: EndReason,
    ) -> Result<(), StreamError> {
        let subject = device.subject();
        if ending == EndReason::SurpriseRemoval {
            let mut state = self.state.lock();
            state.devices[device].surprise_removed = true;
            self.log.emit(subject, || EventKind::KsSurpriseRemoved {});
            self.wake_all(&mut state);
        }
        // A driver that refuses to end cannot be helped: the device ends anyway.
        if ending == EndReason::SurpriseRemoval {
            let _ = self.device_call(at, device, driver, Entry::DeviceSurpriseRemoval);
        } else {
            // A thread that passed the earlier check has created its filter when this mutex is
            // free.
            drop(self.acquire_guard(at, KsMutex::Device(subject)));
        }
        self.end_filters(at, device)?;
        if ending == EndReason::Stop {
            let _ = self.device_call(at, device, driver, Entry::DeviceStop);
            self.log.emit(subject, || EventKind::KsStopped {});
            self.set_phase(device, DevicePhase::Stopped);
            return Ok(());
        }
        let _ = self.device_call(at, device, driver, Entry::DeviceRemove);
        self.judge_leaks(at, device);
        self.remove_device_object(at, device);
        Ok(())
    }

    fn end_filters(&self, at: &mut Passive, device: DeviceId) -> Result<(), StreamError> {
        loop {
            let next = {
                let state = self.state.lock();
                state.filters.iter().find(|(_, it)| it.device == device).map(|(it, _)| it)
            };
            // All filters are closed.
            let Some(filter) = next else { return Ok(()) };
            let held = self.acquire_guard(at, KsMutex::Device(device.subject())).and_then(|of| {
                Ok((self.acquire_guard(at, KsMutex::Control(filter.subject()))?, of))
            });
            let Ok(_held) = held else {
                self.set_phase(device, DevicePhase::Started);
                return Err(StreamError::Stuck);
            };
            // A client may have closed it while this thread waited for the mutexes.
            if self.state.lock().filters.contains(filter) {
                self.destroy_filter(at, filter);
            }
        }
    }

    /// Judges what the driver left after its remove entry was called: nothing may be left.
    fn judge_leaks(&self, at: &mut Passive, device: DeviceId) {
        let (blocks, bags) = {
            let state = self.state.lock();
            let mine = state.blocks_of(device).filter(|(_, it)| !it.allocator_deleted);
            // Items in its bag are freed with the bag.
            let blocks = mine.filter(|(word, _)| !state.bags.holds(device, *word));
            (blocks.count(), state.bags.allocated_by(device))
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
            self.empty_bag(at, device, crate::bag::BagOwner::Allocated(bag));
        }
    }

    /// Removes the device, with everything that its driver left.
    fn remove_device_object(&self, at: &mut Passive, device: DeviceId) {
        self.empty_bag(at, device, crate::bag::BagOwner::Device(device));
        let (memory, left, driver) = {
            let mut state = self.state.lock();
            let it = state.devices.remove(device);
            let left = state.blocks_where(device, |_| true);
            for word in &left {
                state.blocks.remove(&(device, *word));
            }
            state.freed_frames.retain(|(of, _)| *of != device);
            self.log.emit(device.subject(), || EventKind::KsRemoved {});
            self.wake_all(&mut state);
            (it.memory, left, it.driver)
        };
        for word in left {
            memory.free(word);
        }
        driver.object_removed(device.into());
    }
}

impl Services {
    /// Creates another filter factory (`KsCreateFilterFactory`), with the device mutex held.
    /// Returns its number.
    pub fn create_factory(&self, descriptor: FilterDescriptor) -> DriverResult<u32> {
        let subject = self.device.subject();
        let (stream, state) = self.lock_state()?;
        let held = state.holds_mutex(current_thread(), KsMutex::Device(subject));
        drop(state);
        let broken = (!held)
            .then(|| format!("a filter factory of {subject} was made without the device mutex"));
        stream.judge(RuleId::KS_DEV_003, subject, "KsCreateFilterFactory", broken);
        if !held || stream.check_descriptor(subject, &descriptor).is_err() {
            return Err(DriverError::Invalid);
        }
        let (_, mut state) = self.lock_state()?;
        let device = state.devices.get_mut(self.device).ok_or(DriverError::Invalid)?;
        device.factories.push(Arc::new(descriptor));
        u32::try_from(device.factories.len() - 1).map_err(|_| DriverError::NoMemory)
    }

    /// The filters of the device (`KsGetFirstChild`), with the device mutex held.
    pub fn filters(&self) -> DriverResult<Vec<FilterId>> {
        let (stream, state) = self.lock_state()?;
        stream.judge_enumeration(&state, KsMutex::Device(self.device.subject()))?;
        let mine = state.filters.iter().filter(|(_, it)| it.device == self.device);
        Ok(mine.map(|(number, _)| number).collect())
    }
}

impl Stream {
    /// Entry rule: the object hierarchy is walked with its mutex held.
    pub(crate) fn judge_enumeration(
        &self,
        state: &StreamState,
        mutex: KsMutex,
    ) -> DriverResult<()> {
        let held = state.holds_mutex(current_thread(), mutex);
        let broken = (!held).then(|| {
            format!(
                "the children of {} were enumerated without the {} mutex",
                mutex.owner(),
                mutex.name()
            )
        });
        self.judge(RuleId::KS_MUTEX_004, mutex.owner(), "KsGetFirstChild", broken);
        held.then_some(()).ok_or(DriverError::Invalid)
    }
}
