//! The fences of a device that was reset: they pass to their maximum, so that no thread waits for ever for a
//! signal that does not come.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::{Device, DeviceLoss};
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use crate::sync::{SyncObject, SyncValue};
use flight::EventKind;

impl Kernel {
    /// After a reset of a device, sets every fence that the device could have signaled to its
    /// maximum, so that no thread waits for it forever. A GPU page fault resets the engine.
    ///
    /// WINDOWS: documented (`NoSignalMaxValueOnTdr`; `ID3D12Device5::RemoveDevice` says the same of a
    /// removed device). That a device can signal exactly the fences that were created for it is our
    /// reading.
    pub(crate) fn reset_fences(&self, state: &mut KernelState, device: Id<Device>) {
        let could = |sync_object: &SyncObject| {
            let fence = matches!(sync_object.state, SyncValue::Monitored { .. });
            fence
                && sync_object.device == device
                && !sync_object.no_signal
                && !sync_object.no_tdr_signal
        };
        let all = state.sync.objects.iter().filter(|(_, it)| could(it));
        let all: Vec<(Id<SyncObject>, u64)> =
            all.map(|(number, it)| (number, it.maximum())).collect();
        for (number, value) in all {
            if let Some(it) = state.sync.objects.get_mut(number) {
                it.state = SyncValue::Monitored { value };
            }
            self.sync_changed(state, number, "reset");
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
