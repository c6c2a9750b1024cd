//! Updates of addresses that a fence holds back, and that signal it.
//!
//! # Invariants
//!
//! 1. An update is applied when its fence has its value, and not before. One that waits holds up
//!    no other.
//! 2. Its fence has the next value when all its entries are written.
//! 3. So many wait at most ([`MOST`]); whoever brings one more waits until one of them is applied.

use crate::device::Device;
use crate::device::DeviceLoss;
use crate::handle::Handle;
use crate::kernel::{Kernel, WaitOutcome};
use crate::memory::Paging;
use crate::process::ProcessId;
use crate::refused::KernelError;
use crate::space::AddressSpace;
use crate::space::subject;
use crate::space::update::{CheckedUpdate, UpdateAddressRequest};
use crate::store::Id;
use crate::sync::SyncObject;
use crate::world::KernelState;
use flight::{Passive, EventKind};

/// How many updates of a space wait at most.
///
/// WINDOWS: the page speaks of operations; a call counts as one here (our reading).
const MAX_QUEUED: usize = 128;

/// The fence of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FenceValue {
    pub(crate) object: Id<SyncObject>,
    /// The value it waits for; the next one says that it is done.
    pub(crate) value: u64,
}

/// An update whose entries are being written.
pub(crate) struct PendingUpdate {
    /// The paging work that writes them.
    pub(crate) paging: Id<Paging>,
    pub(crate) space: Id<AddressSpace>,
    pub(crate) update: u32,
    pub(crate) fence: FenceValue,
}

impl Kernel {
    /// Changes what is at reserved addresses when a fence has a value. There is room for its
    /// root already.
    pub(crate) fn queue_update(
        &self,
        at: &mut Passive,
        process: ProcessId,
        (device, space): (Id<Device>, Id<AddressSpace>),
        order: &UpdateAddressRequest,
        fence: (Handle, u64),
    ) -> Result<(), KernelError> {
        let about = subject(space);
        let what = |_: &KernelState| format!("an update of {about}: {MAX_QUEUED} wait, or its root changes");
        let act = |world: &mut KernelState| {
            if let Err(why) = world.check_working(device) {
                return Some(Err(why));
            }
            // What is written into a root that goes is lost.
            if world.spaces.get(space).is_some_and(|it| it.growing_root) {
                return None;
            }
            let judged = world.check_update(process, device, space, &order.operations);
            let mut judged = match judged {
                Ok(judged) => judged,
                Err(why) => return Some(Err(why)),
            };
            let object = match self.find_update_fence(world, process, device, fence) {
                Ok(object) => object,
                Err(why) => return Some(Err(why)),
            };
            let fence = FenceValue { object, value: fence.1 };
            let met = world.is_fence_reached(fence);
            let waiting = world.updates.iter().filter(|(_, it)| it.space == space).count();
            if !met && waiting >= MAX_QUEUED {
                return None;
            }
            judged.fence = Some(fence);
            judged.update = world.number_update(space);
            world.retain_fence(fence);
            if met {
                return Some(self.apply_update(world, &judged));
            }
            let (update, of) = (judged.update, object.subject());
            let number = world.updates.insert(judged);
            self.log.emit(about, EventKind::UpdateQueued { update, of, fence_value: fence.value });
            self.begin_update_wait(world, (number, space), (process.0, device), fence);
            Some(Ok(()))
        };
        match self.try_until(at, about, None, what, act) {
            WaitOutcome::Done(answer) => answer,
            WaitOutcome::TimedOut | WaitOutcome::Stuck => Err(KernelError::Stuck),
        }
    }

    /// The fence of an update has its value.
    pub(crate) fn apply_due_update(&self, world: &mut KernelState, number: Id<CheckedUpdate>) {
        // It may have been dropped with its device.
        let Some(it) = world.updates.get_mut(number) else { return };
        it.due = world.spaces.get(it.space).is_some_and(|it| it.growing_root);
        if it.due {
            return; // Whoever changes the root applies it then.
        }
        let judged = world.updates.remove(number);
        if self.apply_update(world, &judged).is_err() {
            // There is nobody to tell, as for a packet.
            self.mark_lost(world, judged.device, DeviceLoss::OutOfMemory);
        }
        self.wake_all(world);
    }

    /// The root of a space has changed, or does not: what waited for that alone is applied.
    pub(crate) fn apply_deferred_updates(&self, world: &mut KernelState, space: Id<AddressSpace>) {
        let due = world.updates.iter().filter(|(_, it)| it.space == space && it.due);
        let due: Vec<Id<CheckedUpdate>> = due.map(|it| it.0).collect();
        for number in due {
            self.apply_due_update(world, number);
        }
    }

    /// Its device ends: it is never applied.
    pub(crate) fn drop_update(&self, world: &mut KernelState, number: Id<CheckedUpdate>) {
        // It may have been applied already.
        let Some(judged) = world.updates.take(number) else { return };
        let update = judged.update;
        self.log.emit(subject(judged.space), EventKind::UpdateCancelled { update });
        if let Some(fence) = judged.fence {
            self.release_fence(world, fence);
        }
        self.wake_all(world);
    }

    /// An update was applied: its fence is signalled when that work is done, or now if there is
    /// none.
    pub(crate) fn finish_queued_update(&self, world: &mut KernelState, it: &CheckedUpdate, paging: Option<Id<Paging>>) {
        let Some(fence) = it.fence else { return };
        let (space, update) = (it.space, it.update);
        match paging {
            Some(paging) => world.updating.push(PendingUpdate { paging, space, update, fence }),
            None => self.finish_update(world, space, update, fence),
        }
    }

    /// Paging work is over: the updates that it was for are done.
    pub(crate) fn finish_updates(&self, world: &mut KernelState, paging: Id<Paging>) {
        while let Some(place) = world.updating.iter().position(|it| it.paging == paging) {
            let PendingUpdate { space, update, fence, .. } = world.updating.remove(place);
            self.finish_update(world, space, update, fence);
        }
    }

    fn finish_update(&self, world: &mut KernelState, space: Id<AddressSpace>, update: u32, fence: FenceValue) {
        self.signal_update(world, fence);
        let of = fence.object.subject();
        self.log.emit(subject(space), EventKind::UpdateDone { update, of, fence_value: fence.value });
        self.release_fence(world, fence);
        self.resume_satisfied(world);
    }
}
