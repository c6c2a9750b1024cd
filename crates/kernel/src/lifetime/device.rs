//! Devices: a process's connection to an adapter.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::miniport::DriverDevice;
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::lifetime::retire::RetireTarget;
use crate::lifetime::retire::Retirement;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::queue::PagingQueue;
use crate::objects::device_access::SpareReferences;
use crate::objects::handle_table::{Handle, ReservedHandle};
use crate::objects::resource::ResourceView;
use crate::objects::view::View;
use crate::objects::view::ViewStage;
use crate::state::KernelState;
use flight::{EventKind, Log, Passive, Ram, Run, Subject, invariant};
use std::collections::{BTreeSet, VecDeque};
use std::slice;
use std::sync::Arc;

/// A process's connection to an adapter (`hDevice`).
pub struct Device {
    /// The owning process; `None` for the system's own device.
    pub(crate) process: Option<Id<Process>>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) handle: Handle,
    pub(crate) driver_handle: Option<Arc<DriverDevice>>,
    pub(crate) spare_references: Option<SpareReferences>,
    pub(crate) contexts: BTreeSet<Id<Context>>,
    /// The contexts with packets that are not done, in order.
    pub(crate) busy: Vec<Id<Context>>,
    /// Published views of resources, in no order. Each knows its index.
    pub(crate) resource_views: Vec<Id<ResourceView>>,
    /// Views of standalone allocations, in no order. Each knows its index.
    pub(crate) standalone_views: Vec<Id<View>>,
    /// Number of unfinished retirements of its views.
    pub(crate) retiring: u32,
    /// One of its views of allocations was closed.
    pub(crate) has_closed_views: bool,
    /// Retirements that wait for its work, in request order.
    pub(crate) retirements: VecDeque<Id<Retirement>>,
    /// Why the device is lost. The queued packets of a lost device count as done.
    pub(crate) lost: Option<DeviceLoss>,
    /// The device is ending or has ended: no call can enter it.
    pub(crate) ending: bool,
    /// The driver has destroyed the device, but the client's handle is still open (zombie device).
    pub(crate) zombie: bool,
    /// Number of client calls that are using it.
    pub(crate) active_calls: u32,
    /// The handle that the kernel passes to the driver.
    pub(crate) kernel_handle: Handle,
    /// The context allocations that the driver created for all contexts of the device.
    pub(crate) context_allocations: Vec<Id<ContextAllocation>>,
    pub(crate) queues: BTreeSet<Id<PagingQueue>>,
    /// Mappings of allocations that ended with the adapter. The client can still access them.
    pub(crate) user_mappings: Vec<UserMapping>,
}

/// Memory mapped into a client, with its address. Dropping this unmaps it.
pub(crate) struct UserMapping {
    pub(crate) ram: Arc<dyn Ram>,
    pub(crate) run: Run,
    pub(crate) view: usize,
}

impl Drop for UserMapping {
    fn drop(&mut self) {
        self.ram.unmap(self.view);
        self.ram.free(self.run);
    }
}

/// Why a device is lost. A lost device never works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceLoss {
    /// Its work did not complete in time.
    TimedOut,
    /// Its GPU was reset, and another device caused the reset.
    Reset,
    /// The driver failed to accept its packet.
    SubmitFailed,
    /// Memory for a required allocation could not be found.
    OutOfMemory,
    /// Its packet accessed memory that was not resident.
    PageFault,
    /// Its adapter was removed.
    AdapterRemoved,
    /// Its client said that it is broken.
    Marked,
    /// Its client said that its driver broke it.
    MarkedForDriver,
}

impl DeviceLoss {
    /// The reason as text, for events.
    pub fn name(self) -> &'static str {
        match self {
            DeviceLoss::TimedOut => "its work does not end",
            DeviceLoss::Reset => "its GPU was reset",
            DeviceLoss::SubmitFailed => "its packet could not be submitted",
            DeviceLoss::OutOfMemory => "no memory for a required allocation",
            DeviceLoss::PageFault => "its packet accessed memory that was not resident",
            DeviceLoss::AdapterRemoved => "its adapter was removed",
            DeviceLoss::Marked => "its client marked it as broken",
            DeviceLoss::MarkedForDriver => "its client marked it as broken by its driver",
        }
    }
}

impl Kernel {
    /// Creates a device (`D3DKMTCreateDevice`).
    ///
    /// Fails if the process has ended, the adapter is not running, the handle table is full, or the
    /// driver fails.
    pub fn create_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: Handle,
    ) -> Result<Handle, KernelError> {
        let (driver, name) = {
            let mut state = self.state.lock();
            let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
            let driver = state.adapters.get(number).and_then(Adapter::running_driver);
            let driver = driver.ok_or(KernelError::Removed(number.subject()))?;
            let name = self.reserve_handle(&mut state, process.0)?;
            state.processes[process.0].creating += 1;
            (driver, name)
        };
        let mut name = Some(name);
        let made = self.call_create_device(at, process, &driver, &mut name);
        let mut state = self.state.lock();
        // Release the handle if it was not published.
        self.cancel_handles(&mut state, process.0, name.into_iter().collect());
        state.processes[process.0].creating -= 1;
        self.wake_all(&mut state);
        drop(state);
        self.end_unused_space(at, process.0, driver.adapter);
        made
    }

    /// Acquires the permit and the process's address space, then creates the device in the driver.
    fn call_create_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        driver: &Driver,
        name: &mut Option<ReservedHandle>,
    ) -> Result<Handle, KernelError> {
        let keys = ThreadingLevel::Zero.keys(driver.adapter, driver.generation, process.0);
        let permit = self.acquire_permit(at, keys)?;
        // Check again after the wait: the adapter may have stopped, or the process may have ended.
        self.state.lock().check_accepts_devices(process, driver.adapter)?;
        let space = self.acquire_space(at, &permit, driver, process.0)?;
        let made = self.call_create_device_with_permit(at, &permit, process, driver, name);
        self.release_space(space);
        made
    }

    /// Creates the device in the driver, and publishes it if the process and the adapter still
    /// accept it.
    fn call_create_device_with_permit(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        process: ProcessId,
        driver: &Driver,
        name: &mut Option<ReservedHandle>,
    ) -> Result<Handle, KernelError> {
        let handle = name.as_ref().map(ReservedHandle::handle).unwrap_or_default();
        let adapter = driver.adapter;
        let (device, own) = self.reserve_device(Some(process), adapter, handle)?;
        let subject = device.subject();
        let made = driver.create_device(at, permit, (Some(process.0), own.handle()));
        let mut state = self.state.lock();
        let driver_handle = match made {
            Ok(driver_handle) => driver_handle,
            Err(why) => {
                // The driver leaked these context allocations: it created them for a device that it
                // then failed to create.
                self.end_owner_context_allocations(&mut state, device, "DxgkDdiCreateDevice");
                state.take_device(device);
                state.kernel_handles.cancel(own);
                self.wake_all(&mut state);
                return Err(why.into());
            }
        };
        state.kernel_handles.publish(own, device.into());
        let given = driver_handle.as_raw();
        let welcome = state.check_accepts_devices(process, adapter);
        self.log.emit(subject, || EventKind::DeviceCreated {
            process: process.subject(),
            adapter: adapter.subject(),
        });
        self.set_driver_handle(given, subject);
        if let Err(why) = welcome {
            drop(state);
            // WINDOWS: that the driver sees this call is our decision.
            let log_arguments = |log: &Log| log.emit(subject, || EventKind::DdiEnds {});
            let details = CallDetails { process: Some(process.0), log_arguments: &log_arguments };
            let _ = driver.destroy_device(at, permit, details, driver_handle);
            let mut state = self.state.lock();
            self.log.emit(subject, || EventKind::DeviceDestroyed {});
            self.end_driver_handle(given, subject, false);
            self.end_owner_context_allocations(&mut state, device, "DxgkDdiDestroyDevice");
            state.remove_device(device);
            self.wake_all(&mut state);
            return Err(why);
        }
        // A device that is being created is not removed by another thread.
        let it = &mut state.devices[device];
        (it.driver_handle, it.ending) = (Some(Arc::new(driver_handle)), false);
        if let Some(name) = name.take() {
            self.publish_handle(&mut state, process.0, name, device.into());
        }
        Ok(handle)
    }

    /// Adds a device before the driver creates it, because the driver may use its kernel handle
    /// during the call. No call can enter the device until it is created.
    pub(crate) fn reserve_device(
        &self,
        process: Option<ProcessId>,
        adapter: Id<Adapter>,
        handle: Handle,
    ) -> Result<(Id<Device>, ReservedHandle), KernelError> {
        let state = &mut *self.state.lock();
        let own = state.kernel_handles.reserve()?;
        let number = state.add_device(Device {
            process: process.map(|process_id| process_id.0),
            adapter,
            handle,
            driver_handle: None,
            spare_references: None,
            contexts: BTreeSet::new(),
            busy: Vec::new(),
            resource_views: Vec::new(),
            standalone_views: Vec::new(),
            retiring: 0,
            has_closed_views: false,
            retirements: VecDeque::new(),
            lost: None,
            ending: true,
            zombie: false,
            active_calls: 0,
            kernel_handle: own.handle(),
            context_allocations: Vec::new(),
            queues: BTreeSet::new(),
            user_mappings: Vec::new(),
        });
        state.kernel_handles.bind(&own, number.into());
        Ok((number, own))
    }

    /// Destroys a device with all its objects (`D3DKMTDestroyDevice`).
    pub fn destroy_device(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let number = {
            let mut state = self.state.lock();
            let number = state.resolve_handle::<Device>(process, Argument::Device, handle)?;
            self.close_handle(&mut state, process.0, handle);
            number
        };
        self.end_device(at, number);
        Ok(())
    }

    /// Ends every device that matches, and waits for those that other threads are ending. A device
    /// whose client handle is still open becomes a zombie.
    pub(crate) fn end_devices(
        &self,
        at: &mut Passive,
        about: Subject,
        process: Option<Id<Process>>,
        cause: impl Fn(&Device) -> bool,
    ) {
        let is = |device: &Device| !device.zombie && cause(device);
        let alive = |state: &KernelState| -> Vec<Id<Device>> {
            match process {
                Some(process) => {
                    state.devices_of(process).filter(|device| is(&state.devices[*device])).collect()
                }
                None => state.devices.select(is),
            }
        };
        let numbers = alive(&self.state.lock());
        for number in numbers {
            self.end_device(at, number);
        }
        self.wait_until(
            at,
            about,
            |_| format!("the devices of {about}"),
            |state| alive(state).is_empty(),
        );
    }

    /// Ends a device. In order: waits for the calls inside the device, drains its contexts, closes
    /// its views, destroys the allocations they were the last views of, and destroys the device in
    /// the driver. If another thread is ending the device, waits for that thread.
    pub(crate) fn end_device(&self, at: &mut Passive, number: Id<Device>) {
        let first = {
            let mut state = self.state.lock();
            // Another thread may have ended it meanwhile.
            let Some(it) = state.devices.get_mut(number) else { return };
            let first = !std::mem::replace(&mut it.ending, true);
            // Threads that wait inside the device check again.
            self.wake_retirement_waits(&state, number);
            self.wake_all(&mut state);
            first
        };
        if first {
            self.finish_device(at, number);
        } else {
            let about = number.subject();
            let over = |state: &KernelState| {
                state.devices.get(number).is_none() || state.is_zombie(number)
            };
            self.wait_until(at, about, |_| format!("the end of {about}"), over);
        }
        let mut state = self.state.lock();
        let owner = state.devices.get(number).map(|device| (device.owner(), device.adapter));
        self.remove_device_object(&mut state, number);
        self.wake_all(&mut state);
        drop(state);
        if let Some((process, adapter)) = owner {
            self.end_unused_space(at, process, adapter);
        }
    }

    fn finish_device(&self, at: &mut Passive, number: Id<Device>) {
        self.wait_device(at, number, "the calls inside it", |device| device.active_calls == 0);
        let (process, contexts) = {
            let state = self.state.lock();
            let it = &state.devices[number];
            (it.owner(), it.contexts.clone())
        };
        for context in contexts {
            self.end_context(at, process, context);
        }
        for retirement in self.retire_device_views(number) {
            drop(self.run_retirement(at, self.state.lock(), retirement, process));
        }
        self.end_syncs(number);
        let queues = self.state.lock().devices.get(number).map(|device| device.queues.clone());
        for queue in queues.unwrap_or_default() {
            self.end_paging_queue(at, queue);
        }
        self.end_trims(number);
        self.end_source_ownership(number);
        self.end_all_handle_data(|reference| reference.device == number);
        self.wait_device(at, number, "the ends of its views", |device| device.retiring == 0);
        let driver_handle =
            self.state.lock().devices.get_mut(number).and_then(Device::take_driver_handle);
        let told = driver_handle.and_then(|driver_handle| {
            let (driver, given) = (self.driver_of(number)?, driver_handle.as_raw());
            let driver_handle = Arc::into_inner(driver_handle)?;
            let keys = ThreadingLevel::Zero.keys(driver.adapter, driver.generation, process);
            let permit = self.acquire_permit(at, keys).ok()?;
            // WINDOWS: if the driver returns a failure, the device is destroyed all the same (our
            // decision).
            let log_arguments = |log: &Log| log.emit(number.subject(), || EventKind::DdiEnds {});
            let details = CallDetails { process: Some(process), log_arguments: &log_arguments };
            let _ = driver.destroy_device(at, &permit, details, driver_handle);
            Some(given)
        });
        let mut state = self.state.lock();
        if let Some(given) = told {
            let subject = number.subject();
            state.close_kernel_handle(number);
            self.end_owner_context_allocations(&mut state, number, "DxgkDdiDestroyDevice");
            self.log.emit(subject, || EventKind::DeviceDestroyed {});
            self.end_driver_handle(given, subject, false);
        }
        state.devices[number].zombie = true;
    }

    /// Removes a device that is destroyed in the driver, and its contexts' handles, if its client
    /// handle is closed. A call that is inside, for which the end of the device could not wait,
    /// removes it when it leaves.
    pub(crate) fn remove_device_object(&self, state: &mut KernelState, number: Id<Device>) {
        // Another thread may have removed it meanwhile.
        let Some(it) = state.devices.get(number) else { return };
        let (process, handle) = (it.owner(), it.handle);
        let named = state.processes[process].handles.lookup(handle) == Ok(number.into());
        if named || !it.zombie || it.active_calls > 0 {
            return;
        }
        for context in it.contexts.clone() {
            let handle = state.contexts[context].handle;
            self.close_handle(state, process, handle);
            state.remove_context(context);
        }
        state.remove_device(number);
        self.remove_process(state, process);
    }

    /// Waits until `done` is true of the device. If no thread can end the wait, the device is lost
    /// and its queued packets count as done.
    fn wait_device(
        &self,
        at: &mut Passive,
        number: Id<Device>,
        what: &str,
        done: impl Fn(&Device) -> bool,
    ) {
        let about = number.subject();
        let over = |state: &KernelState| state.devices.get(number).is_none_or(&done);
        while !self.wait_until(at, about, |_| format!("{about}: {what}"), over) {
            let adapter = self.state.lock().devices[number].adapter;
            if !self.lose_device(number, DeviceLoss::TimedOut) && !self.fail_paging(adapter) {
                return; // The device was lost already, which did not end the wait.
            }
        }
    }

    /// Marks a device as lost. Its queued packets count as done, so all waits for them end. Returns
    /// whether the device was not lost before.
    ///
    /// WINDOWS: a device in error ends its destroy calls with success, as if its fences had
    /// completed (our decision; the reset that makes the GPU quiet is not modelled yet).
    pub(crate) fn lose_device(&self, number: Id<Device>, why: DeviceLoss) -> bool {
        self.mark_lost(&mut self.state.lock(), number, why)
    }

    pub(crate) fn mark_lost(
        &self,
        state: &mut KernelState,
        number: Id<Device>,
        why: DeviceLoss,
    ) -> bool {
        // Another thread may have ended it meanwhile.
        let Some(it) = state.devices.get_mut(number) else { return false };
        if it.lost.is_some() {
            return false;
        }
        it.lost = Some(why);
        self.log.emit(number.subject(), || EventKind::DeviceLost { why: why.name().into() });
        let adapter = it.adapter;
        self.forget_packets(state, adapter, number);
        if matches!(why, DeviceLoss::TimedOut | DeviceLoss::Reset | DeviceLoss::PageFault) {
            self.reset_fences(state, number);
        }
        let idle = state.retire_ready(number);
        self.start_retirements(state, idle);
        // Offers, evictions and paging work may have waited for what counts as done now.
        self.complete_offers(state, adapter);
        self.complete_evictions(state, adapter);
        if state.has_unbuilt_paging(adapter) {
            self.wake_one(&self.work_available);
        }
        self.wake_all(state);
        true
    }

    /// Logs the state of a device and returns why it is lost, if it is (`D3DKMTGetDeviceState`).
    pub fn device_state(
        &self,
        process: ProcessId,
        device: Handle,
    ) -> Result<Option<DeviceLoss>, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Device>(process, Argument::Device, device)?;
        let it = state.devices.get(number);
        let loss =
            it.and_then(
                |device| if device.zombie { Some(DeviceLoss::AdapterRemoved) } else { device.lost },
            );
        let state = loss.map_or("active", DeviceLoss::name).into();
        self.log.emit(number.subject(), || EventKind::DeviceStateQueried { state });
        Ok(loss)
    }

    /// Marks a client's device as broken (`D3DKMTMarkDeviceAsError`). The loss of a device that is
    /// lost already keeps its reason.
    pub fn mark_device_as_error(
        &self,
        process: ProcessId,
        device: Handle,
        why: DeviceLoss,
    ) -> Result<(), KernelError> {
        let number = self.state.lock().device_of(process, device)?;
        self.lose_device(number, why);
        Ok(())
    }

    /// Retires all live views of a device. Retirements that cannot start now are left to the jobs.
    fn retire_device_views(&self, number: Id<Device>) -> Vec<Id<Retirement>> {
        let mut state = self.state.lock();
        let it = &state.devices[number];
        // Views that the client destroyed earlier are in their own retirements.
        let live = |view: &&Id<View>| {
            state.views.get(**view).is_some_and(|view| view.stage == ViewStage::Live)
        };
        let named = |view: &&Id<ResourceView>| {
            state.resource_views.get(**view).is_some_and(|resource_view| resource_view.published)
        };
        let mut resources: Vec<Id<ResourceView>> =
            it.resource_views.iter().filter(named).copied().collect();
        resources.sort_unstable();
        let resources = resources.into_iter().map(RetireTarget::Resource);
        let mut standalone_views: Vec<Id<View>> =
            it.standalone_views.iter().filter(live).copied().collect();
        standalone_views.sort_unstable();
        let standalone_views =
            standalone_views.iter().map(|view| RetireTarget::Views(slice::from_ref(view), None));
        let endings: Vec<RetireTarget<'_>> = resources.chain(standalone_views).collect();
        let how = |ending| self.retire(&mut state, number, ending, false, false);
        endings
            .into_iter()
            .map(how)
            .filter(|started_retirement| started_retirement.ready)
            .map(|started_retirement| started_retirement.number)
            .collect()
    }
}

impl KernelState {
    /// Adds a device.
    fn add_device(&mut self, it: Device) -> Id<Device> {
        let process = it.process;
        let number = self.devices.insert(it);
        if let Some(process) = process {
            self.devices_of.entry(process).or_default().push(number);
        }
        number
    }

    /// Removes and returns a device.
    pub(crate) fn take_device(&mut self, number: Id<Device>) -> Option<Device> {
        let it = self.devices.take(number)?;
        if let Some(process) = it.process {
            let all = invariant(self.devices_of.get_mut(&process), "a process lists its devices");
            all.retain(|device| *device != number);
            if all.is_empty() {
                self.devices_of.remove(&process);
            }
        }
        Some(it)
    }

    fn remove_device(&mut self, number: Id<Device>) {
        if let Some(it) = self.take_device(number) {
            // It is closed already if the driver ended it.
            let _ = self.kernel_handles.close(it.kernel_handle);
        }
    }

    /// Fails unless the process may create a device on the adapter now.
    fn check_accepts_devices(
        &self,
        process: ProcessId,
        adapter: Id<Adapter>,
    ) -> Result<(), KernelError> {
        let running = self
            .adapters
            .get(adapter)
            .is_some_and(|adapter| adapter.is_running() && !adapter.fatal);
        let alive = self.processes.get(process.0).is_some_and(|process| !process.ended);
        if running && alive { Ok(()) } else { Err(KernelError::Removed(adapter.subject())) }
    }
}
