//! Cancellation: frames leave the queue before they are done.
//!
//! A frame with a locked pointer is not cancelled: that waits for the unlock. A clone whose frame
//! goes is told to its driver, at dispatch level under the queue's lock, and is deleted there.

use crate::frame::Place;
use crate::funnel::Driver;
use crate::pointer::PointerKind;
use crate::refused::Refused;
use crate::stream::Stream;
use crate::words::{FrameId, PinId, PointerId};
use crate::world::World;
use flight::{Passive, RuleId, What};
use std::sync::Arc;

/// The first pointer that keeps a frame from being cancelled, edges before clones.
pub(crate) fn locked_by(world: &World, frame: FrameId) -> Option<PointerId> {
    let pin = &world.pins[world.frames[frame].pin];
    let mut all = [pin.leading].into_iter().chain(pin.trailing).chain(pin.clones.iter().copied());
    let locks = |pointer: &PointerId| {
        let it = &world.pointers[*pointer];
        it.locked && it.frame == Some(frame)
    };
    all.find(locks)
}

impl Stream {
    /// Cancels every frame in the queue of a pin, holding no mutex. Answers how many there were.
    pub fn cancel_frames(&self, at: &mut Passive, pin: PinId) -> Result<usize, Refused> {
        let frames: Vec<FrameId> = {
            let world = self.world.hold();
            world.pin(pin)?;
            let all = world.frames_of(pin);
            let mine = all.filter(|(_, it)| matches!(it.place, Place::Queued | Place::Passed));
            mine.map(|(number, _)| number).collect()
        };
        for frame in &frames {
            self.cancel(at, *frame);
        }
        Ok(frames.len())
    }

    /// Queues the frames of a pin again that were cancelled.
    pub fn refill(&self, at: &mut Passive, pin: PinId) -> Result<(), Refused> {
        let _control = self.control(at, self.filter_of(pin)?)?;
        let mut world = self.world.hold();
        // The pin may have been closed while this thread waited for the mutex.
        if world.pins.contains(pin) {
            self.feed(&mut world, pin);
        }
        Ok(())
    }

    /// Cancels a frame, now or when its last lock goes.
    pub(crate) fn cancel(&self, at: &mut Passive, frame: FrameId) {
        let told = {
            let mut world = self.world.hold();
            self.uproot(&mut world, frame)
        };
        let Some((pin, driver, told)) = told else { return };
        for clone in told {
            driver.pointer_cancelled(at, pin, clone);
            let mut world = self.world.hold();
            // The driver deletes the clone in the callback, as it must, or another thread did.
            let there = world.pointers.contains(clone);
            let subject = clone.subject();
            let broken = there.then(|| format!("{subject} was not deleted in its cancel callback"));
            self.judge(RuleId::KS_PTR_007, subject, "AVStrMiniCancelCallback", broken);
            if there {
                self.remove_clone(&mut world, clone, true);
            }
        }
        let mut world = self.world.hold();
        // The pin may have stopped during the callbacks, and its frames were freed.
        if world.frames.contains(frame) {
            self.settle(&mut world, frame);
        }
    }

    /// Takes a frame out of the queue. Answers which clones are to be told; none, if the frame was
    /// freed since it was chosen, or is not in flight.
    fn uproot(
        &self,
        world: &mut World,
        frame: FrameId,
    ) -> Option<(PinId, Arc<Driver>, Vec<PointerId>)> {
        let it = world.frames.get_mut(frame)?;
        if !matches!(it.place, Place::Queued | Place::Passed) {
            return None;
        }
        it.cancel = true;
        let pin = it.pin;
        let of = &world.pins[pin];
        let place = of.queue.iter().position(|it| *it == frame);
        let next = place.and_then(|it| of.queue.get(it + 1)).copied();
        let edges = [Some(of.leading), of.trailing];
        let clones = of.clones.clone();
        let driver = world.devices[of.device].driver.clone();
        let locked = locked_by(world, frame);
        // A clone that is locked keeps the frame, but not its place: an edge does.
        if locked.is_none_or(|it| clones.contains(&it)) {
            for edge in edges.into_iter().flatten() {
                if world.pointers[edge].frame == Some(frame) {
                    self.point(world, edge, next);
                }
            }
            world.pins[pin].forget(frame);
            world.frames[frame].place = Place::Passed;
        }
        if let Some(by) = locked {
            let by = by.subject();
            self.log.emit(frame.subject(), What::FrameHeld { by });
            return None;
        }
        let mut told = Vec::new();
        for clone in clones {
            let it = &mut world.pointers[clone];
            if it.frame != Some(frame) || it.kind != PointerKind::Clone {
                continue;
            }
            if it.told {
                told.push(clone);
            } else {
                // It stays with its driver, and points to nothing.
                it.frame = None;
                let moved = What::PointerMoved { frame: None };
                self.log.emit(clone.subject(), moved);
                world.frames[frame].clones -= 1;
            }
        }
        Some((pin, driver, told))
    }
}
