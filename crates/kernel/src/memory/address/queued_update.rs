//! Address updates that wait for a fence and signal it.
//!
//! # Invariants
//!
//! 1. An update is applied when its fence has its value, and not before. A waiting update does not
//!    block another one.
//! 2. Its fence gets the next value when all its entries are written.
//! 3. At most [`MAX_QUEUED`] updates wait. The caller of one more waits until one of them is
//!    applied.

use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::kernel::{Kernel, WaitOutcome};
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::lifetime::process::ProcessId;
use crate::memory::Paging;
use crate::memory::address::AddressSpace;
use crate::memory::address::subject;
use crate::memory::address::update::{CheckedUpdate, UpdateAddressRequest};
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use crate::sync::SyncObject;
use flight::{EventKind, Passive};

/// Maximum number of waiting updates of a space.
///
/// WINDOWS: the page counts operations; here a call counts as one (our reading).
const MAX_QUEUED: usize = 128;

/// The fence of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FenceValue {
    pub(crate) object: Id<SyncObject>,
    /// The value it waits for; the next value signals completion.
    pub(crate) value: u64,
}

/// An update whose entries are being written.
pub(crate) struct PendingUpdate {
    /// The paging work that writes its entries.
    pub(crate) paging: Id<Paging>,
    pub(crate) space: Id<AddressSpace>,
    pub(crate) update: u32,
    pub(crate) fence: FenceValue,
}

impl Kernel {
    /// Updates reserved addresses when a fence has a value. The root already covers the addresses.
    pub(crate) fn queue_update(
        &self,
        at: &mut Passive,
        process: ProcessId,
        (device, space): (Id<Device>, Id<AddressSpace>),
        request: &UpdateAddressRequest,
        fence: (Handle, u64),
    ) -> Result<(), KernelError> {
        let about = subject(space);
        let what = |_: &KernelState| {
            format!("an update of {about}: {MAX_QUEUED} wait, or its root changes")
        };
        let act = |state: &mut KernelState| {
            if let Err(why) = state.check_working(device) {
                return Some(Err(why));
            }
            // An entry written into an old root would be lost.
            if state
                .memory
                .spaces
                .get(space)
                .is_some_and(|address_space| address_space.growing_root)
            {
                return None;
            }
            let judged = state.check_update(process, device, space, &request.operations);
            let mut judged = match judged {
                Ok(judged) => judged,
                Err(why) => return Some(Err(why)),
            };
            let object = match self.find_update_fence(state, process, device, fence) {
                Ok(object) => object,
                Err(why) => return Some(Err(why)),
            };
            let fence = FenceValue { object, value: fence.1 };
            let met = state.is_fence_reached(fence);
            let waiting = state.memory.updates.iter().filter(|(_, it)| it.space == space).count();
            if !met && waiting >= MAX_QUEUED {
                return None;
            }
            judged.fence = Some(fence);
            judged.update = state.number_update(space);
            state.retain_fence(fence);
            if met {
                return Some(self.apply_update(state, &judged));
            }
            let (update, of) = (judged.update, object.subject());
            let number = state.memory.updates.insert(judged);
            self.log.emit(about, || EventKind::UpdateQueued {
                update,
                of,
                fence_value: fence.value,
            });
            self.begin_update_wait(state, (number, space), (process.0, device), fence);
            Some(Ok(()))
        };
        match self.try_until(at, about, None, what, act) {
            WaitOutcome::Done(result) => result,
            WaitOutcome::TimedOut | WaitOutcome::Stuck => Err(KernelError::Stuck),
        }
    }

    /// Applies an update whose fence has its value.
    pub(crate) fn apply_due_update(&self, state: &mut KernelState, number: Id<CheckedUpdate>) {
        // It may have been dropped with its device.
        let Some(it) = state.memory.updates.get_mut(number) else { return };
        it.due = state
            .memory
            .spaces
            .get(it.space)
            .is_some_and(|address_space| address_space.growing_root);
        if it.due {
            return; // The thread that changes the root applies it.
        }
        let judged = state.memory.updates.remove(number);
        if self.apply_update(state, &judged).is_err() {
            // No caller can receive the error, as for a packet.
            self.device_lost(state, judged.device, DeviceLoss::OutOfMemory);
        }
        self.wake_all(state);
    }

    /// Applies the updates that waited only for a root change.
    pub(crate) fn apply_deferred_updates(&self, state: &mut KernelState, space: Id<AddressSpace>) {
        let due = state.memory.updates.iter().filter(|(_, it)| it.space == space && it.due);
        let due: Vec<Id<CheckedUpdate>> = due.map(|pair| pair.0).collect();
        for number in due {
            self.apply_due_update(state, number);
        }
    }

    /// Drops an update because its device is destroyed. It is never applied.
    pub(crate) fn drop_update(&self, state: &mut KernelState, number: Id<CheckedUpdate>) {
        // It may have been applied already.
        let Some(judged) = state.memory.updates.take(number) else { return };
        let update = judged.update;
        self.log.emit(subject(judged.space), || EventKind::UpdateCancelled { update });
        if let Some(fence) = judged.fence {
            self.release_fence(state, fence);
        }
        self.wake_all(state);
    }

    /// Signals the fence of an applied update when its paging work is done, or now if there is
    /// none.
    pub(crate) fn finish_queued_update(
        &self,
        state: &mut KernelState,
        it: &CheckedUpdate,
        paging: Option<Id<Paging>>,
    ) {
        // An update that is applied at once signals no fence.
        let Some(fence) = it.fence else { return };
        let (space, update) = (it.space, it.update);
        match paging {
            Some(paging) => {
                state.memory.updating.push(PendingUpdate { paging, space, update, fence });
            }
            None => self.finish_update(state, space, update, fence),
        }
    }

    /// Completes the updates of finished paging work.
    pub(crate) fn finish_updates(&self, state: &mut KernelState, paging: Id<Paging>) {
        while let Some(place) =
            state.memory.updating.iter().position(|pending_update| pending_update.paging == paging)
        {
            let PendingUpdate { space, update, fence, .. } = state.memory.updating.remove(place);
            self.finish_update(state, space, update, fence);
        }
    }

    fn finish_update(
        &self,
        state: &mut KernelState,
        space: Id<AddressSpace>,
        update: u32,
        fence: FenceValue,
    ) {
        self.signal_update(state, fence);
        let of = fence.object.subject();
        self.log.emit(subject(space), || EventKind::UpdateDone {
            update,
            of,
            fence_value: fence.value,
        });
        self.release_fence(state, fence);
        self.resume_satisfied(state);
    }
}
