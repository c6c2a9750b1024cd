//! Updates of addresses that a fence holds back, and that signal it.
//!
//! # Invariants
//!
//! 1. An update is applied when its fence has its value, and not before. One that waits holds up
//!    no other.
//! 2. Its fence has the next value when all its entries are written.
//! 3. So many wait at most ([`MOST`]); whoever brings one more waits until one of them is applied.

use crate::device::Device;
use crate::device::Loss;
use crate::handle::Handle;
use crate::kernel::{Kernel, Waited};
use crate::memory::Paging;
use crate::process::ProcessId;
use crate::refused::Refused;
use crate::space::Space;
use crate::space::subject;
use crate::space::update::{Judged, UpdateOrder};
use crate::store::Id;
use crate::sync::Sync;
use crate::world::World;
use flight::{Passive, What};

/// How many updates of a space wait at most.
///
/// WINDOWS: the page speaks of operations; a call counts as one here (our reading).
const MOST: usize = 128;

/// The fence of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fenced {
    pub(crate) object: Id<Sync>,
    /// The value it waits for; the next one says that it is done.
    pub(crate) value: u64,
}

/// An update whose entries are being written.
pub(crate) struct Finishing {
    /// The paging work that writes them.
    pub(crate) paging: Id<Paging>,
    pub(crate) space: Id<Space>,
    pub(crate) update: u32,
    pub(crate) fence: Fenced,
}

impl Kernel {
    /// Changes what is at reserved addresses when a fence has a value. There is room for its
    /// root already.
    pub(crate) fn update_behind(
        &self,
        at: &mut Passive,
        process: ProcessId,
        (device, space): (Id<Device>, Id<Space>),
        order: &UpdateOrder,
        fence: (Handle, u64),
    ) -> Result<(), Refused> {
        let about = subject(space);
        let what = |_: &World| format!("an update of {about}: {MOST} wait, or its root changes");
        let act = |world: &mut World| {
            if let Err(why) = world.works(device) {
                return Some(Err(why));
            }
            // What is written into a root that goes is lost.
            if world.spaces.get(space).is_some_and(|it| it.growing) {
                return None;
            }
            let judged = world.judge_update(process, device, space, &order.operations);
            let mut judged = match judged {
                Ok(judged) => judged,
                Err(why) => return Some(Err(why)),
            };
            let object = match self.updating_fence(world, process, device, fence) {
                Ok(object) => object,
                Err(why) => return Some(Err(why)),
            };
            let fence = Fenced { object, value: fence.1 };
            let met = world.is_fence_met(fence);
            let waiting = world.updates.iter().filter(|(_, it)| it.space == space).count();
            if !met && waiting >= MOST {
                return None;
            }
            judged.fence = Some(fence);
            judged.update = world.number_update(space);
            world.use_fence(fence);
            if met {
                return Some(self.apply_update(world, &judged));
            }
            let (update, of) = (judged.update, object.subject());
            let number = world.updates.insert(judged);
            self.log.emit(about, What::UpdateQueued { update, of, wanted: fence.value });
            self.await_update(world, (number, space), (process.0, device), fence);
            Some(Ok(()))
        };
        match self.act_within(at, about, None, what, act) {
            Waited::Done(answer) => answer,
            Waited::TimedOut | Waited::Stuck => Err(Refused::Stuck),
        }
    }

    /// The fence of an update has its value.
    pub(crate) fn apply_due(&self, world: &mut World, number: Id<Judged>) {
        // It may have been dropped with its device.
        let Some(it) = world.updates.get_mut(number) else { return };
        it.due = world.spaces.get(it.space).is_some_and(|it| it.growing);
        if it.due {
            return; // Whoever changes the root applies it then.
        }
        let judged = world.updates.remove(number);
        if self.apply_update(world, &judged).is_err() {
            // There is nobody to tell, as for a packet.
            self.lose(world, judged.device, Loss::OutOfMemory);
        }
        self.wake(world);
    }

    /// The root of a space has changed, or does not: what waited for that alone is applied.
    pub(crate) fn apply_held_back(&self, world: &mut World, space: Id<Space>) {
        let due = world.updates.iter().filter(|(_, it)| it.space == space && it.due);
        let due: Vec<Id<Judged>> = due.map(|it| it.0).collect();
        for number in due {
            self.apply_due(world, number);
        }
    }

    /// Its device ends: it is never applied.
    pub(crate) fn drop_update(&self, world: &mut World, number: Id<Judged>) {
        // It may have been applied already.
        let Some(judged) = world.updates.take(number) else { return };
        let update = judged.update;
        self.log.emit(subject(judged.space), What::UpdateDropped { update });
        if let Some(fence) = judged.fence {
            self.disuse_fence(world, fence);
        }
        self.wake(world);
    }

    /// An update was applied: its fence is signalled when that work is done, or now if there is
    /// none.
    pub(crate) fn finish_behind(&self, world: &mut World, it: &Judged, paging: Option<Id<Paging>>) {
        let Some(fence) = it.fence else { return };
        let (space, update) = (it.space, it.update);
        match paging {
            Some(paging) => world.updating.push(Finishing { paging, space, update, fence }),
            None => self.finish_update(world, space, update, fence),
        }
    }

    /// Paging work is over: the updates that it was for are done.
    pub(crate) fn finish_updates(&self, world: &mut World, paging: Id<Paging>) {
        while let Some(place) = world.updating.iter().position(|it| it.paging == paging) {
            let Finishing { space, update, fence, .. } = world.updating.remove(place);
            self.finish_update(world, space, update, fence);
        }
    }

    fn finish_update(&self, world: &mut World, space: Id<Space>, update: u32, fence: Fenced) {
        self.signal_update(world, fence);
        let of = fence.object.subject();
        self.log.emit(subject(space), What::UpdateDone { update, of, wanted: fence.value });
        self.disuse_fence(world, fence);
        self.let_go_on(world);
    }
}
