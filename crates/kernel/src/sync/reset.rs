//! The fences of a lost device: they pass to their maximum, so that no thread waits for ever for a
//! signal that does not come.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::{Device, DeviceLoss};
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use crate::sync::waits::SyncPoint;
use crate::sync::{SyncObject, SyncValue};
use flight::EventKind;

impl Kernel {
    /// After the loss of a device, sets the fences that it could have signaled to their maximum, so
    /// that no thread waits for them forever.
    ///
    /// WINDOWS: documented for a reset (`NoSignalMaxValueOnTdr`) and for a removed device of
    /// Direct3D 12 (`ID3D12Device5::RemoveDevice`); that every loss of a device does it is our reading.
    pub(crate) fn reset_fences(
        &self,
        state: &mut KernelState,
        device: Id<Device>,
        fences: &[Id<SyncObject>],
    ) {
        for number in fences {
            if let Some(it) = state.sync.objects.get_mut(*number) {
                it.state = SyncValue::Monitored { value: it.maximum() };
                self.sync_changed(state, *number, "reset");
            }
        }
        self.log.emit(device.subject(), || EventKind::FencesReset {});
        self.resume_satisfied(state);
    }

    /// Simulates a reset of a device: the device is lost, and its fences get their maximum value.
    /// Tests use this to observe the client's reaction.
    pub fn simulate_reset(&self, process: ProcessId, device: Handle) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<Device>(process, Argument::Device, device)?;
        self.device_lost(state, number, DeviceLoss::TimedOut);
        Ok(())
    }
}

impl KernelState {
    /// The monitored fences that a device could signal, whose value a loss of the device changes:
    /// those created or opened for it, and those that its queued work signals.
    ///
    /// WINDOWS: that these are the fences which a device could signal is our reading.
    pub(crate) fn fences_signalled_by(&self, device: Id<Device>) -> Vec<Id<SyncObject>> {
        let Some(contexts) = self.devices.get(device).map(|it| &it.contexts) else {
            return Vec::new();
        };
        let queued = |number| {
            let point = SyncPoint::Object(number);
            contexts.iter().any(|id| self.contexts[*id].queue.has_signal(point))
        };
        let could = |(number, it): &(Id<SyncObject>, &SyncObject)| {
            matches!(it.state, SyncValue::Monitored { .. })
                && !it.no_tdr_signal
                && ((it.device == device && !it.no_signal)
                    || it.opened.iter().any(|open| open.device == device && !open.no_signal)
                    || queued(*number))
        };
        self.sync.objects.iter().filter(could).map(|(number, _)| number).collect()
    }
}
