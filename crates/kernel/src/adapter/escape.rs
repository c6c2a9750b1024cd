//! Escapes: private data that a client and its driver exchange through the kernel.
//!
//! # Invariants
//!
//! 1. The objects passed to the driver stay alive during the call: rundown guards hold the device
//!    and the context, and the permit keeps the adapter from stopping.
//! 2. At level two the permit is exclusive for the adapter, and was acquired while no packet was
//!    queued there. A submitting thread needs a permit of the adapter, too, so no packet is queued
//!    meanwhile.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::miniport::{DriverContext, EscapeArgs, Generation};
use crate::ddi::permit::{DdiPermit, ThreadingLevel, WaitStuck};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::lifetime::process::ProcessId;
use crate::objects::device_access::RundownGuard;
use crate::objects::handle_table::Handle;
use crate::schedule::report::InFlightPacket;
use crate::state::KernelState;
use flight::{EventKind, Passive};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The objects an escape is for, and how it is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EscapeRequest {
    /// The adapter.
    pub adapter: Handle,
    /// A device of the adapter.
    pub device: Option<Handle>,
    /// A context of that device, or of any device if none is given.
    pub context: Option<Handle>,
    /// Whether the driver gets exclusive access to the idle adapter (level two).
    pub hardware: bool,
    /// The client's flags, which the kernel passes on unchanged.
    pub flags: u32,
}

/// The ids of the objects that a request's handles refer to.
struct EscapeTarget {
    adapter: Id<Adapter>,
    /// The given device, or the context's device.
    device: Option<Id<Device>>,
    context: Option<Id<Context>>,
}

/// Keeps the objects of an escape alive during the call.
struct EscapeGuard<'k> {
    adapter: Id<Adapter>,
    device_guard: Option<RundownGuard<'k>>,
    context: Option<(Id<Context>, Arc<DriverContext>)>,
}

impl Kernel {
    /// Passes a client's private data to the driver, which replaces it with its reply
    /// (`D3DKMTEscape`).
    ///
    /// WINDOWS: without hardware access it comes at level zero, beside other calls (our decision).
    /// A device that is lost takes none (our decision).
    pub fn escape(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &EscapeRequest,
        private: &mut Vec<u8>,
    ) -> Result<(), KernelError> {
        let target = self.acquire_escape_target(process, request)?;
        let result = self.call_escape(at, process, request, &target, private);
        self.release_escape_target(target);
        result
    }

    /// Checks the handles of an escape that is not passed to a driver.
    pub fn check_escape(
        &self,
        process: ProcessId,
        request: &EscapeRequest,
    ) -> Result<(), KernelError> {
        self.resolve_escape_target(&self.state.lock(), process, request).map(|_| ())
    }

    fn resolve_escape_target(
        &self,
        state: &KernelState,
        process: ProcessId,
        request: &EscapeRequest,
    ) -> Result<EscapeTarget, KernelError> {
        let named = state.find_escape_target(process, request);
        let (hardware, resolved) = (request.hardware, named.is_ok());
        self.log.emit(process.subject(), || EventKind::EscapeRequested { hardware, resolved });
        named
    }

    /// Establishes invariant 1, except for the adapter.
    fn acquire_escape_target(
        &self,
        process: ProcessId,
        request: &EscapeRequest,
    ) -> Result<EscapeGuard<'_>, KernelError> {
        let mut state = self.state.lock();
        let EscapeTarget { adapter, device, context } =
            self.resolve_escape_target(&state, process, request)?;
        if let Some(device) = device {
            state.check_working(device)?;
        }
        let driver_handle = context.map(|number| {
            let driver_handle =
                state.contexts.get(number).and_then(|context| context.driver_handle.clone());
            driver_handle
                .map(|driver_handle| (number, driver_handle))
                .ok_or(KernelError::Removed(number.subject()))
        });
        let context = driver_handle.transpose()?;
        let guard = device.map(|device| self.acquire_rundown(&mut state, device)).transpose()?;
        if let Some((context, _)) = &context {
            state.contexts[*context].active_calls += 1;
        }
        Ok(EscapeGuard { adapter, device_guard: guard, context })
    }

    fn release_escape_target(&self, target: EscapeGuard<'_>) {
        if let Some((number, driver_handle)) = target.context {
            // Dropped before the context guard: destroying the context needs the only reference.
            drop(driver_handle);
            let mut state = self.state.lock();
            // The context is removed already if the wait of its end for this call could not end.
            if let Some(it) = state.contexts.get_mut(number) {
                it.active_calls -= 1;
            }
            self.wake_all(&mut state);
        }
        drop(target.device_guard);
    }

    fn call_escape(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &EscapeRequest,
        target: &EscapeGuard<'_>,
        private: &mut Vec<u8>,
    ) -> Result<(), KernelError> {
        let removed = KernelError::Removed(target.adapter.subject());
        let running = |state: &KernelState| {
            state.adapters.get(target.adapter).and_then(Adapter::running_driver)
        };
        let driver = running(&self.state.lock()).ok_or(removed.clone())?;
        let permit = if request.hardware {
            self.acquire_idle_permit(at, target.adapter, driver.generation)?
        } else {
            self.acquire_permit(
                at,
                ThreadingLevel::Zero.keys(target.adapter, driver.generation, process.0),
            )?
        };
        // Check again after the wait.
        running(&self.state.lock()).ok_or(removed)?;
        if let Some(guard) = &target.device_guard {
            self.recheck_device(guard)?;
        }
        let escape = EscapeArgs {
            device: target.device_guard.as_ref().map(|guard| guard.driver_handle()).transpose()?,
            context: target.context.as_ref().map(|(_, driver_handle)| &**driver_handle),
            hardware: request.hardware,
            flags: request.flags,
            private,
        };
        Ok(driver.escape(at, &permit, process.0, escape)?)
    }

    /// Waits for a level two permit (invariant 2). A thread must not wait while it holds an
    /// exclusive permit, so this waits for the work first, and again if more work was queued.
    pub(crate) fn acquire_idle_permit(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        generation: Generation,
    ) -> Result<DdiPermit<'_>, WaitStuck> {
        loop {
            self.flush(at, adapter)?;
            let keys = ThreadingLevel::Two.keys(adapter, generation, None);
            let (permit, mut state) = self.acquire_permit_locked(at, self.state.lock(), keys)?;
            if state.has_empty_nodes(adapter) {
                drop(state);
                return Ok(permit);
            }
            permit.release(&mut state);
        }
    }

    /// Waits until no packet is queued on an adapter. If no thread can complete the work, its
    /// devices are lost and their queued packets count as done.
    fn flush(&self, at: &mut Passive, adapter: Id<Adapter>) -> Result<(), WaitStuck> {
        let about = adapter.subject();
        let idle = |state: &KernelState| state.has_empty_nodes(adapter);
        while !self.wait_until(at, about, |_| format!("the work on {about}"), idle) {
            let busy = self.state.lock().busy_devices(adapter);
            let lost =
                busy.into_iter().filter(|device| self.lose_device(*device, DeviceLoss::TimedOut));
            if lost.count() == 0 {
                return Err(WaitStuck);
            }
        }
        Ok(())
    }
}

impl KernelState {
    /// Resolves the handles of a request. Fails unless the context is of the device, and the device
    /// is on the adapter.
    fn find_escape_target(
        &self,
        process: ProcessId,
        request: &EscapeRequest,
    ) -> Result<EscapeTarget, KernelError> {
        let adapter =
            self.resolve_handle::<Adapter>(process, Argument::Adapter, request.adapter)?;
        let device =
            request.device.map(|handle| self.resolve_handle(process, Argument::Device, handle));
        let device: Option<Id<Device>> = device.transpose()?;
        let context =
            request.context.map(|handle| self.resolve_handle(process, Argument::Context, handle));
        let context: Option<Id<Context>> = context.transpose()?;
        let owner = context.map(|context| self.contexts[context].device);
        if let (Some(device), Some(owner), Some(handle)) = (device, owner, request.context)
            && device != owner
        {
            let (argument, owner) = (Argument::Context, owner.subject());
            return Err(KernelError::OtherDevice { argument, handle, owner });
        }
        let device = device.or(owner);
        let on = device.and_then(|device| self.devices.get(device)).map(|device| device.adapter);
        match (device, on) {
            (Some(device), Some(on)) if on != adapter => {
                Err(KernelError::OtherAdapter(device.subject()))
            }
            _ => Ok(EscapeTarget { adapter, device, context }),
        }
    }

    /// Whether no packet is submitted to a node of the adapter, of clients or of paging.
    fn has_empty_nodes(&self, adapter: Id<Adapter>) -> bool {
        let mut nodes = self.adapters.get(adapter).into_iter().flat_map(|adapter| &adapter.nodes);
        nodes.all(|node| node.queue.is_empty())
    }

    /// The devices with packets queued on an adapter.
    fn busy_devices(&self, adapter: Id<Adapter>) -> BTreeSet<Id<Device>> {
        let nodes = self.adapters.get(adapter).into_iter().flat_map(|adapter| &adapter.nodes);
        nodes.flat_map(|node| &node.queue).filter_map(InFlightPacket::device).collect()
    }
}
