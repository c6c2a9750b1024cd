//! Progress notifications: the only calls from a lower folder of the kernel to a higher one.
//!
//! Every folder may call these functions, and they may call every folder. They act immediately;
//! deferring them would change the order of events.

use crate::adapter::start::Adapter;
use crate::adapter::tdr::RecoveryAction;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::{Device, DeviceLoss};
use crate::memory::address::update::CheckedUpdate;
use crate::state::KernelState;

impl Kernel {
    /// A device is lost: everything that waited for its work continues. Returns whether the device
    /// was not lost before.
    pub(crate) fn device_lost(
        &self,
        state: &mut KernelState,
        device: Id<Device>,
        why: DeviceLoss,
    ) -> bool {
        self.mark_lost(state, device, why)
    }

    /// A call that the end of a device could not wait for has left it: the device object ends if that
    /// was the last one.
    pub(crate) fn zombie_device_left(&self, state: &mut KernelState, device: Id<Device>) {
        self.remove_device_object(state, device);
    }

    /// A driver call in which handle data was acquired has returned.
    pub(crate) fn driver_call_returned(&self, call: u32) {
        self.state.lock().lifetime.call_returned(call);
    }

    /// Work of a device is done: retirements that waited for it start.
    pub(crate) fn device_work_passed(&self, state: &mut KernelState, device: Id<Device>) {
        // Mostly nothing waits for it.
        if state.devices.get(device).is_none_or(|device| device.retirements.is_empty()) {
            return;
        }
        let ready = state.retire_ready(device);
        self.start_retirements(state, ready);
    }

    /// Paging work is done for which no fence is reported: the fences of its adapter may pass.
    pub(crate) fn paging_passed(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        self.complete_fences(state, adapter);
    }

    /// A preemption report completed packets: the driver is asked for the fence of the node.
    pub(crate) fn preemption_needs_check(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        node: usize,
    ) {
        self.request_recovery(state, RecoveryAction::CheckPreemption(adapter, node));
    }

    /// The wait of a context may be satisfied: the context continues, if it can.
    pub(crate) fn context_may_advance(&self, state: &mut KernelState, context: Id<Context>) {
        self.advance(state, context);
    }

    /// The wait of an address update is satisfied: the update is applied.
    pub(crate) fn update_is_due(&self, state: &mut KernelState, update: Id<CheckedUpdate>) {
        self.apply_due_update(state, update);
    }

    /// The wait of an address update is cancelled: the update is dropped.
    pub(crate) fn update_is_cancelled(&self, state: &mut KernelState, update: Id<CheckedUpdate>) {
        self.drop_update(state, update);
    }
}
