//! Escapes: private data that a client and its driver exchange through the kernel.
//!
//! # Invariants
//!
//! 1. A driver is called for things that cannot go meanwhile: the caller is inside its device
//!    and its context, and its pass keeps the adapter from stopping.
//! 2. At level two the pass is the adapter's alone, and was taken while no packet was queued
//!    there. Whoever submits needs the adapter, too, so none comes meanwhile.

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

/// Whom an escape is for, and how it is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EscapeRequest {
    /// The adapter.
    pub adapter: Handle,
    /// A device of it.
    pub device: Option<Handle>,
    /// A context of that device, or of any.
    pub context: Option<Handle>,
    /// Whether the driver is to have the adapter to itself, idle (level two).
    pub hardware: bool,
    /// The client's flags: a number the kernel only passes on.
    pub flags: u32,
}

/// What an order names, by number.
struct EscapeTarget {
    adapter: Id<Adapter>,
    /// The device, or the context's.
    device: Option<Id<Device>>,
    context: Option<Id<Context>>,
}

/// What an escape keeps from going while it is delivered.
struct EscapeGuard<'k> {
    adapter: Id<Adapter>,
    device_guard: Option<RundownGuard<'k>>,
    context: Option<(Id<Context>, Arc<DriverContext>)>,
}

impl Kernel {
    /// Has a driver answer a client's private data, in its place (`D3DKMTEscape`).
    ///
    /// WINDOWS: without hardware access it comes at level zero, beside other calls (our
    /// decision). A device that is lost takes none (our decision).
    pub fn escape(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &EscapeRequest,
        private: &mut Vec<u8>,
    ) -> Result<(), KernelError> {
        let not_offered = self.acquire_escape_target(process, request)?;
        let result = self.call_escape(at, process, request, &not_offered, private);
        self.release_escape_target(not_offered);
        result
    }

    /// Looks at an escape that is for nobody here: whether what it names is there.
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
        self.log.emit(process.subject(), EventKind::EscapeRequested { hardware, resolved });
        named
    }

    /// Invariant 1, but for the adapter.
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
        if let Some(it) = context.as_ref().and_then(|(it, _)| state.contexts.get_mut(*it)) {
            it.active_calls += 1;
        }
        Ok(EscapeGuard { adapter, device_guard: guard, context })
    }

    fn release_escape_target(&self, not_offered: EscapeGuard<'_>) {
        if let Some((number, driver_handle)) = not_offered.context {
            drop(driver_handle); // Before the context may go: whoever ends it needs the only one.
            let mut state = self.state.lock();
            state.contexts[number].active_calls -= 1;
            self.wake_all(&mut state);
        }
        drop(not_offered.device_guard);
    }

    fn call_escape(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &EscapeRequest,
        not_offered: &EscapeGuard<'_>,
        private: &mut Vec<u8>,
    ) -> Result<(), KernelError> {
        let zombie = KernelError::Removed(not_offered.adapter.subject());
        let running = |state: &KernelState| {
            state.adapters.get(not_offered.adapter).and_then(Adapter::running_driver)
        };
        let driver = running(&self.state.lock()).ok_or(zombie.clone())?;
        let permit = if request.hardware {
            self.acquire_idle_permit(at, not_offered.adapter, driver.generation)?
        } else {
            self.acquire_permit(
                at,
                ThreadingLevel::Zero.keys(not_offered.adapter, driver.generation, process.0),
            )?
        };
        // Who parked looks again.
        running(&self.state.lock()).ok_or(zombie)?;
        if let Some(guard) = &not_offered.device_guard {
            self.recheck_device(guard)?;
        }
        let escape = EscapeArgs {
            device: not_offered
                .device_guard
                .as_ref()
                .map(RundownGuard::driver_handle)
                .transpose()?,
            context: not_offered.context.as_ref().map(|(_, driver_handle)| &**driver_handle),
            hardware: request.hardware,
            flags: request.flags,
            private,
        };
        Ok(driver.escape(at, &permit, process.0, escape)?)
    }

    /// Waits for a pass of level two: invariant 2. Nobody parks with an adapter to itself, so
    /// the work is waited for first, and again if more has come.
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
            if state.busy_devices(adapter).is_empty() {
                drop(state);
                return Ok(permit);
            }
            permit.release(&mut state);
        }
    }

    /// Waits until no packet is queued on an adapter. Work that nothing could end is given up:
    /// its devices are lost, and what they had queued counts as done.
    fn flush(&self, at: &mut Passive, adapter: Id<Adapter>) -> Result<(), WaitStuck> {
        let about = adapter.subject();
        let idle = |state: &KernelState| state.busy_devices(adapter).is_empty();
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
    /// What an order names: a context of its device, on its adapter.
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

    /// The devices that have packets queued on an adapter.
    fn busy_devices(&self, adapter: Id<Adapter>) -> BTreeSet<Id<Device>> {
        let nodes = self.adapters.get(adapter).into_iter().flat_map(|adapter| &adapter.nodes);
        nodes.flat_map(|node| &node.queue).filter_map(InFlightPacket::device).collect()
    }
}
