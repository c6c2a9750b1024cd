//! Rundown protection for client calls on a device, and queries whether a device works.
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::miniport::{DriverDevice, Generation};
use crate::kernel::Kernel;
use crate::lifetime::device::{Device, UserMapping};
use crate::lifetime::process::{Process, ProcessId};
use crate::memory::budget::SegmentGroup;
use crate::objects::handle_table::{Handle, ObjectId};
use crate::state::KernelState;
use flight::{Subject, invariant};
use std::ops::Deref;
use std::sync::Arc;

/// Keeps a device alive during a client call. Dropping the guard locks the kernel state.
pub(crate) struct RundownGuard<'k> {
    kernel: &'k Kernel,
    /// `None` after the guard was released.
    entered: Option<EnteredDevice>,
}

/// A device that a call is inside of.
pub(crate) struct EnteredDevice {
    pub(crate) device: Id<Device>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) driver: Arc<Driver>,
    driver_handle: Option<Arc<DriverDevice>>,
}

/// The references of a call that has left its device, for the next call: to count them anew takes
/// four atomic operations.
pub(crate) struct SpareReferences {
    driver: Arc<Driver>,
    driver_handle: Arc<DriverDevice>,
}

impl Kernel {
    /// Enters the device of a client's handle.
    ///
    /// # Errors
    /// The error of the handle, or [`KernelError::Removed`] if the device does not work.
    pub(crate) fn enter_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<RundownGuard<'_>, KernelError> {
        self.enter_working_device(&mut self.state.lock(), process, handle)
    }

    /// The same, with the state locked.
    #[inline(always)]
    pub(crate) fn enter_working_device(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        handle: Handle,
    ) -> Result<RundownGuard<'_>, KernelError> {
        let number = state.resolve_handle::<Device>(process, Argument::Device, handle)?;
        self.acquire_rundown_if(state, number, |device, adapter| {
            device.lost.is_none() && adapter.is_running()
        })
    }

    /// Enters a device by id.
    ///
    /// # Errors
    /// [`KernelError::Removed`] if the device is being destroyed.
    #[inline(always)]
    pub(crate) fn acquire_rundown(
        &self,
        state: &mut KernelState,
        number: Id<Device>,
    ) -> Result<RundownGuard<'_>, KernelError> {
        self.acquire_rundown_if(state, number, |_, _| true)
    }

    #[inline(always)]
    fn acquire_rundown_if(
        &self,
        state: &mut KernelState,
        number: Id<Device>,
        may_enter: impl FnOnce(&Device, &Adapter) -> bool,
    ) -> Result<RundownGuard<'_>, KernelError> {
        if let Some(it) = state.devices.get_mut(number)
            && !it.ending
            && let Some(adapter) = state.adapters.get(it.adapter)
            && may_enter(it, adapter)
        {
            it.active_calls += 1;
            let (driver, driver_handle) = match it.spare_references.take() {
                Some(spare) => (spare.driver, Some(spare.driver_handle)),
                None => (adapter.driver.clone(), it.driver_handle.clone()),
            };
            let entered =
                EnteredDevice { device: number, adapter: it.adapter, driver, driver_handle };
            return Ok(RundownGuard { kernel: self, entered: Some(entered) });
        }
        Err(KernelError::Removed(number.subject()))
    }

    /// Checks again whether the device works, after a wait.
    pub(crate) fn recheck_device(&self, guard: &EnteredDevice) -> Result<(), KernelError> {
        self.state.lock().check_working(guard.device)
    }

    /// The driver a device belongs to.
    pub(crate) fn driver_of(&self, device: Id<Device>) -> Option<Arc<Driver>> {
        let state = self.state.lock();
        let adapter = state.devices.get(device)?.adapter;
        state.adapters.get(adapter).map(|adapter| adapter.driver.clone())
    }
}

impl KernelState {
    /// The devices of a process, in the order of their creation.
    pub(crate) fn devices_of(&self, process: Id<Process>) -> impl Iterator<Item = Id<Device>> {
        self.devices_of.get(&process).into_iter().flatten().copied()
    }

    /// Whether the device is a zombie: destroyed in the driver, its handle still open.
    pub(crate) fn is_zombie(&self, device: Id<Device>) -> bool {
        self.devices.get(device).is_some_and(|device| device.zombie)
    }

    /// Returns [`KernelError::Removed`] unless the device works.
    #[inline(always)]
    pub(crate) fn check_working(&self, device: Id<Device>) -> Result<(), KernelError> {
        let works = self.devices.get(device).is_some_and(|device| {
            let runs = self.adapters.get(device.adapter).is_some_and(Adapter::is_running);
            device.lost.is_none() && !device.ending && runs
        });
        if works { Ok(()) } else { Err(KernelError::Removed(device.subject())) }
    }

    /// The device of a client's handle, if it works.
    #[inline(always)]
    pub(crate) fn working_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Id<Device>, KernelError> {
        let number = self.resolve_handle::<Device>(process, Argument::Device, handle)?;
        self.check_working(number).map(|()| number)
    }

    /// Removes a mapping from the client's address space. If the device ends because its adapter
    /// ends, the client does not know that, so the mapping stays until the client closes the
    /// device's handle.
    pub(crate) fn unmap_from_user(&mut self, device: Id<Device>, shown: UserMapping) {
        // A shared fence can outlive its device.
        let Some(it) = self.devices.get_mut(device) else { return };
        let handles = it.process.map(|process| &self.processes[process].handles);
        let name = Ok(ObjectId::Device(device));
        if it.ending && handles.is_some_and(|handles| handles.lookup(it.handle) == name) {
            it.user_mappings.push(shown);
        }
    }

    /// Whether the allocations in the lists of a device's packets are paged in (WDDM 1.x).
    pub(crate) fn pages_in_listed(&self, device: Id<Device>) -> bool {
        let on = self.devices.get(device).and_then(|device| self.adapters.get(device.adapter));
        on.is_some_and(|adapter| adapter.driver.generation == Generation::One)
    }
}

impl Device {
    /// The process of a client's device.
    pub(crate) fn owner(&self) -> Id<Process> {
        invariant(self.process, "the system's device ends with its adapter, not as a client's")
    }
}

impl Process {
    /// The number of bytes of a segment group that the residency lists of its devices use.
    pub(crate) fn usage_of(&self, adapter: Id<Adapter>, group: SegmentGroup) -> u64 {
        let mine =
            |entry: &&(Id<Adapter>, SegmentGroup, u64)| (entry.0, entry.1) == (adapter, group);
        self.usage.iter().find(mine).map_or(0, |entry| entry.2)
    }
}

impl Device {
    /// Takes the driver's handle of the device, to destroy it. No call is inside the device.
    pub(crate) fn take_driver_handle(&mut self) -> Option<Arc<DriverDevice>> {
        self.spare_references = None; // The taken reference is the only one.
        self.driver_handle.take()
    }
}

impl EnteredDevice {
    /// The driver's handle of the device. It exists while a call is inside the device.
    pub(crate) fn driver_handle(&self) -> Result<&DriverDevice, KernelError> {
        self.driver_handle.as_deref().ok_or(KernelError::Removed(self.subject()))
    }

    pub(crate) fn subject(&self) -> Subject {
        self.device.subject()
    }
}

impl Deref for RundownGuard<'_> {
    type Target = EnteredDevice;

    #[inline(always)]
    fn deref(&self) -> &EnteredDevice {
        invariant(self.entered.as_ref(), "a released guard is not used")
    }
}

impl RundownGuard<'_> {
    /// Releases the guard while the caller holds the state lock.
    #[inline(always)]
    pub(crate) fn release(mut self, state: &mut KernelState) {
        self.release_in(state);
    }

    #[inline(always)]
    fn release_in(&mut self, state: &mut KernelState) {
        let Some(left) = self.entered.take() else { return };
        let (number, it) = (left.device, &mut state.devices[left.device]);
        it.active_calls -= 1;
        // A device that is destroyed in the driver keeps no reference.
        if it.driver_handle.is_some() {
            let EnteredDevice { driver, driver_handle, .. } = left;
            it.spare_references =
                driver_handle.map(|driver_handle| SpareReferences { driver, driver_handle });
        } else if it.zombie {
            self.kernel.zombie_device_left(state, number);
        }
        self.kernel.wake_all(state);
    }
}

impl Drop for RundownGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.entered.is_some() {
            self.release_in(&mut self.kernel.state.lock());
        }
    }
}
