//! Waits and signals of synchronization objects that are queued to contexts.

use crate::base::error::KernelError;
use crate::kernel::Kernel;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::sync::cpu::{SignalRequest, SyncUse};
use crate::sync::waits::SyncPoint;
use flight::Passive;

impl Kernel {
    /// Queues a signal of synchronization objects to contexts
    /// (`D3DKMTSignalSynchronizationObjectFromGpu2`).
    pub fn signal_from_gpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &SignalRequest<'_>,
    ) -> Result<(), KernelError> {
        let points = {
            let state = &mut *self.state.lock();
            let devices = state.devices_named(process, request.contexts)?;
            let (how, event) = (SyncUse::Signal { rewinds: true }, request.event);
            // Without a context, nothing is signalled.
            let Some(first) = devices.first().copied() else { return Ok(()) };
            for device in devices.iter().skip(1) {
                self.resolve_sync_points(state, process, *device, request.list, how, false)?;
            }
            let mut points =
                self.resolve_sync_points(state, process, first, request.list, how, false)?;
            if let Some(event) = event {
                let event = state.event(process.0, event)?;
                points.list.push((SyncPoint::Object(state.create_notification(first, event)), 0));
            }
            if devices.len() > 1 {
                let many = u32::try_from(devices.len()).unwrap_or(u32::MAX);
                points.broadcast = Some(state.begin_broadcast(many));
            }
            for _ in &devices {
                state.retain_points(&points);
            }
            points
        };
        for (place, context) in request.contexts.iter().enumerate() {
            if let Err(why) = self.queue_signal(at, process, *context, points.clone()) {
                // The signals of this context and of the following ones were not queued.
                let state = &mut *self.state.lock();
                for _ in place..request.contexts.len() {
                    self.cancel_points(state, None, &points);
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// Queues a wait for synchronization objects to a context: its later work starts after the
    /// wait (`D3DKMTWaitForSynchronizationObjectFromGpu`).
    pub fn wait_from_gpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        list: &[(Handle, u64)],
    ) -> Result<(), KernelError> {
        let points = {
            let state = &mut *self.state.lock();
            let device = state.devices_named(process, &[context])?[0];
            let points =
                self.resolve_sync_points(state, process, device, list, SyncUse::Wait, false)?;
            state.retain_points(&points);
            points
        };
        self.queue_wait(at, process, context, points.clone()).inspect_err(|_| {
            self.cancel_points(&mut self.state.lock(), None, &points);
        })
    }
}
