//! Client calls that enter a device, and whether a device works.

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
use std::sync::Arc;

/// While it lives, a client call is using a device, and the device cannot go. Dropping it holds
/// the world.
pub(crate) struct RundownGuard<'k> {
    /// None when it has left.
    kernel: Option<&'k Kernel>,
    pub(crate) device: Id<Device>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) driver: Arc<Driver>,
    /// Dropped before the device may end: ending it needs the only reference.
    driver_handle: Option<Arc<DriverDevice>>,
}

impl Kernel {
    /// Enters a device that works.
    pub(crate) fn enter_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<RundownGuard<'_>, KernelError> {
        let mut world = self.state.lock();
        let number = world.working_device(process, handle)?;
        self.acquire_rundown(&mut world, number)
    }

    /// Enters a device. Fails for a device that is ending.
    pub(crate) fn acquire_rundown(
        &self,
        world: &mut KernelState,
        number: Id<Device>,
    ) -> Result<RundownGuard<'_>, KernelError> {
        let zombie = KernelError::Removed(number.subject());
        let it =
            world.devices.get_mut(number).filter(|device| !device.ending).ok_or(zombie.clone())?;
        let driver =
            world.adapters.get(it.adapter).map(|adapter| adapter.driver.clone()).ok_or(zombie)?;
        it.active_calls += 1;
        Ok(RundownGuard {
            kernel: Some(self),
            device: number,
            adapter: it.adapter,
            driver,
            driver_handle: it.driver_handle.clone(),
        })
    }

    /// Checks after a wait that the device still works.
    pub(crate) fn recheck_device(&self, guard: &RundownGuard<'_>) -> Result<(), KernelError> {
        self.state.lock().check_working(guard.device)
    }

    /// The driver a device belongs to.
    pub(crate) fn driver_of(&self, device: Id<Device>) -> Option<Arc<Driver>> {
        let world = self.state.lock();
        let adapter = world.devices.get(device)?.adapter;
        world.adapters.get(adapter).map(|adapter| adapter.driver.clone())
    }
}

impl KernelState {
    /// The devices of a process, in the order they were made.
    pub(crate) fn devices_of(&self, process: Id<Process>) -> impl Iterator<Item = Id<Device>> {
        self.devices_of.get(&process).into_iter().flatten().copied()
    }

    /// Whether a device is nothing but a name: its driver has ended it, its client has not.
    pub(crate) fn is_zombie(&self, device: Id<Device>) -> bool {
        self.devices.get(device).is_some_and(|device| device.zombie)
    }

    /// Whether a device works.
    pub(crate) fn check_working(&self, device: Id<Device>) -> Result<(), KernelError> {
        let works = self.devices.get(device).is_some_and(|device| {
            let runs = self.adapters.get(device.adapter).is_some_and(Adapter::is_running);
            device.lost.is_none() && !device.ending && runs
        });
        if works { Ok(()) } else { Err(KernelError::Removed(device.subject())) }
    }

    /// The device that a client's handle names, if it works.
    pub(crate) fn working_device(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Id<Device>, KernelError> {
        let number = self.resolve_handle::<Device>(process, Argument::Device, handle)?;
        self.check_working(number).map(|()| number)
    }

    /// A client sees this no more. One that has its device still, which ends because the adapter
    /// does, sees it until it lets go of that: it cannot know.
    pub(crate) fn unmap_from_user(&mut self, device: Id<Device>, shown: UserMapping) {
        let it = &mut self.devices[device];
        let handles = it.process.map(|process| &self.processes[process].handles);
        let name = Ok(ObjectId::Device(device));
        if it.ending && handles.is_some_and(|handles| handles.lookup(it.handle) == name) {
            it.user_mappings.push(shown);
        }
    }

    /// Whether what packets of a device list is brought: so it was before WDDM 2.
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
    /// How many bytes of a group its devices list.
    pub(crate) fn usage_of(&self, adapter: Id<Adapter>, group: SegmentGroup) -> u64 {
        let mine =
            |entry: &&(Id<Adapter>, SegmentGroup, u64)| (entry.0, entry.1) == (adapter, group);
        self.usage.iter().find(mine).map_or(0, |entry| entry.2)
    }
}

impl RundownGuard<'_> {
    /// The driver handle of the device. The device has one while a call uses it.
    pub(crate) fn driver_handle(&self) -> Result<&DriverDevice, KernelError> {
        self.driver_handle.as_deref().ok_or(KernelError::Removed(self.subject()))
    }

    pub(crate) fn subject(&self) -> Subject {
        self.device.subject()
    }
}

impl RundownGuard<'_> {
    /// Leaves in a world that is held already.
    pub(crate) fn release(mut self, world: &mut KernelState) {
        self.release_in(world);
    }

    fn release_in(&mut self, world: &mut KernelState) {
        self.driver_handle = None;
        world.devices[self.device].active_calls -= 1;
        if let Some(kernel) = self.kernel.take() {
            kernel.wake_all(world);
        }
    }
}

impl Drop for RundownGuard<'_> {
    fn drop(&mut self) {
        if let Some(kernel) = self.kernel {
            self.release_in(&mut kernel.state.lock());
        }
    }
}
