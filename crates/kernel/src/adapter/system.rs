//! The system's device and context on an adapter with GPU virtual addresses.

use crate::base::error::KernelError;
use crate::ddi::miniport::{CreateContextArgs, DriverError};
use crate::ddi::permit::DdiPermit;
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::objects::handle_table::Handle;
use flight::{EventKind, Kind, Passive, invariant};
use std::sync::Arc;

impl Kernel {
    /// Creates the system's address space, device and context. If a driver call fails, all of them
    /// are destroyed again.
    ///
    /// WINDOWS: the process comes first, then the device and its context, then the tables, then
    /// the root (observed).
    pub(crate) fn start_system(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
    ) -> Result<(), (&'static str, DriverError)> {
        let adapter = driver.adapter;
        if self.state.lock().mmu(adapter).is_none() {
            return Ok(());
        }
        let error = |entry| {
            move |why: KernelError| match why {
                KernelError::Driver(why) => (entry, why),
                _ => (entry, DriverError::NoMemory),
            }
        };
        let space =
            self.create_space(at, permit, driver, None).map_err(error("DxgkDdiCreateProcess"))?;
        let mmu_exists = "the MMU of a starting adapter stays";
        invariant(self.state.lock().mmu_mut(adapter), mmu_exists).system = Some(space);
        let rooted = self
            .start_system_context(at, permit, driver)
            .map_err(error("DxgkDdiCreateContext"))
            .and_then(|()| {
                self.write_system(at, permit, driver, space)
                    .map_err(error("DxgkDdiSetRootPageTable"))
            });
        if let Err(why) = rooted {
            self.end_system(at, permit, driver);
            return Err(why);
        }
        let mut state = self.state.lock();
        state.memory.set_system_space_live(space);
        Ok(())
    }

    /// Creates the system's device and its context, on the paging node.
    pub(crate) fn start_system_context(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
    ) -> Result<(), KernelError> {
        let adapter = driver.adapter;
        let (device, own) = self.reserve_device(None, adapter, Handle(0))?;
        let made = driver.create_device(at, permit, (None, own.handle()));
        let driver_handle = {
            let mut state = self.state.lock();
            let subject = device.subject();
            let driver_handle = match made {
                Ok(driver_handle) => Arc::new(driver_handle),
                Err(why) => {
                    self.end_owner_context_allocations(&mut state, device, "DxgkDdiCreateDevice");
                    state.take_device(device);
                    state.kernel_handles.cancel(own);
                    return Err(why.into());
                }
            };
            state.kernel_handles.publish(own, device.into());
            let process = Kind::Process.subject(0);
            self.log
                .emit(subject, || EventKind::DeviceCreated { process, adapter: adapter.subject() });
            self.set_driver_handle(driver_handle.as_raw(), subject);
            let it = &mut state.devices[device];
            (it.driver_handle, it.ending) = (Some(driver_handle.clone()), false);
            let mmu = state.mmu_mut(adapter);
            invariant(mmu, "an adapter with a system space has an MMU").device = Some(device);
            driver_handle
        };
        let node = self.state.lock().adapter_memory(adapter).map_or(0, |memory| memory.paging.node);
        let request = CreateContextArgs { node, engine: 1, system: true, private: Vec::new() };
        let (context, own) = self.reserve_system_context(device, node as usize)?;
        let made =
            driver.create_context(at, permit, (None, own.handle()), &driver_handle, &request);
        drop(driver_handle);
        let mut state = self.state.lock();
        let subject = context.subject();
        match made {
            Ok((driver_handle, _)) => {
                state.kernel_handles.publish(own, context.into());
                let given = driver_handle.as_raw();
                state.contexts[context].driver_handle = Some(Arc::new(driver_handle));
                state.devices[device].contexts.insert(context);
                let mmu = state.mmu_mut(adapter);
                invariant(mmu, "an adapter with a system space has an MMU").context = Some(context);
                let nodes = state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
                let on =
                    nodes.and_then(|nodes| nodes.get(node as usize)).map_or(0, |node| node.number);
                let (device, node) = (device.subject(), Kind::Node.subject(on));
                self.log.emit(subject, || EventKind::ContextCreated { device, node });
                self.set_driver_handle(given, subject);
                Ok(())
            }
            Err(why) => {
                self.end_owner_context_allocations(&mut state, context, "DxgkDdiCreateContext");
                state.contexts.take(context);
                state.kernel_handles.cancel(own);
                Err(why.into())
            }
        }
    }

    /// Destroys the system's objects on an adapter, after all others.
    pub(crate) fn end_system(&self, at: &mut Passive, permit: &DdiPermit<'_>, driver: &Driver) {
        let adapter = driver.adapter;
        // Only an adapter with an MMU has objects of the system.
        let system =
            self.state.lock().mmu(adapter).map(|mmu| (mmu.system, mmu.device, mmu.context));
        let Some((Some(space), device, context)) = system else { return };
        let last = self.state.lock().last_writes(space);
        for step in &last {
            let _ = self.write_now(at, permit, driver, step); // A failure has no consequence here.
        }
        // Taken before the `if let`, whose condition would hold the lock during the driver call.
        let taken = context.and_then(|id| self.state.lock().contexts[id].driver_handle.take());
        if let (Some(context), Some(driver_handle)) = (context, taken.and_then(Arc::into_inner)) {
            let (subject, given) = (context.subject(), driver_handle.as_raw());
            let log_arguments = |log: &flight::Log| log.emit(subject, || EventKind::DdiEnds {});
            let _ = driver.destroy_context(
                at,
                permit,
                CallDetails { process: None, log_arguments: &log_arguments },
                driver_handle,
            );
            let mut state = self.state.lock();
            state.close_kernel_handle(context);
            self.end_owner_context_allocations(&mut state, context, "DxgkDdiDestroyContext");
            state.release_context(adapter, context);
            self.log.emit(subject, || EventKind::ContextDestroyed {});
            self.end_driver_handle(given, subject, false);
            state.remove_context(context);
        }
        // Taken before the `if let`, whose condition would hold the lock during the driver call.
        let taken = device.and_then(|id| self.state.lock().devices[id].take_driver_handle());
        if let (Some(device), Some(driver_handle)) = (device, taken.and_then(Arc::into_inner)) {
            let (subject, given) = (device.subject(), driver_handle.as_raw());
            let log_arguments = |log: &flight::Log| log.emit(subject, || EventKind::DdiEnds {});
            let _ = driver.destroy_device(
                at,
                permit,
                CallDetails { process: None, log_arguments: &log_arguments },
                driver_handle,
            );
            let mut state = self.state.lock();
            state.close_kernel_handle(device);
            self.end_owner_context_allocations(&mut state, device, "DxgkDdiDestroyDevice");
            self.log.emit(subject, || EventKind::DeviceDestroyed {});
            self.end_driver_handle(given, subject, false);
            state.take_device(device);
        }
        self.call_destroy_process(at, permit, driver, space);
    }
}
