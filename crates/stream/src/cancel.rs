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
pub(crate) fn locked_by(world: &World, frame: u32) -> Option<u32> {
    let pin = world.pins.get(world.frames.get(frame)?.pin)?;
    let mut all = [pin.leading].into_iter().chain(pin.trailing).chain(pin.clones.iter().copied());
    all.find(|it| world.pointers.get(*it).is_some_and(|it| it.locked && it.frame == Some(frame)))
}

impl Stream {
    /// Cancels every frame in the queue of a pin, holding no mutex. Answers how many there were.
    pub fn cancel_frames(&self, at: &mut Passive, pin: PinId) -> Result<usize, Refused> {
        let frames: Vec<u32> = {
            let world = self.world.hold();
            world.pin(pin)?;
            let all = world.frames_of(pin.0);
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
        self.feed(&mut self.world.hold(), pin.0);
        Ok(())
    }

    /// Cancels a frame, now or when its last lock goes.
    pub(crate) fn cancel(&self, at: &mut Passive, frame: u32) {
        let told = {
            let mut world = self.world.hold();
            self.uproot(&mut world, frame)
        };
        let Some((pin, driver, told)) = told else { return };
        for clone in told {
            driver.pointer_cancelled(at, PinId(pin), PointerId(clone));
            let mut world = self.world.hold();
            let there = world.pointers.get(clone).is_some();
            let subject = PointerId(clone).subject();
            let broken = there.then(|| format!("{subject} was not deleted in its cancel callback"));
            self.judge(RuleId::KS_PTR_007, subject, "AVStrMiniCancelCallback", broken);
            if there {
                self.remove_clone(&mut world, clone, true);
            }
        }
        let mut world = self.world.hold();
        self.settle(&mut world, frame);
    }

    /// Takes a frame out of the queue. Answers which clones are to be told.
    fn uproot(&self, world: &mut World, frame: u32) -> Option<(u32, Arc<Driver>, Vec<u32>)> {
        let it = world.frames.get_mut(frame)?;
        if !matches!(it.place, Place::Queued | Place::Passed) {
            return None;
        }
        it.cancel = true;
        let pin = it.pin;
        let of = world.pins.get(pin)?;
        let place = of.queue.iter().position(|it| *it == frame);
        let next = place.and_then(|it| of.queue.get(it + 1)).copied();
        let edges = [Some(of.leading), of.trailing];
        let clones = of.clones.clone();
        let driver = world.devices.get(of.device)?.driver.clone();
        let locked = locked_by(world, frame);
        // A clone that is locked keeps the frame, but not its place: an edge does.
        if locked.is_none_or(|it| clones.contains(&it)) {
            for edge in edges.into_iter().flatten() {
                if world.pointers.get(edge).is_some_and(|it| it.frame == Some(frame)) {
                    self.point(world, edge, next);
                }
            }
            world.pins.get_mut(pin)?.forget(frame);
            world.frames.get_mut(frame)?.place = Place::Passed;
        }
        if let Some(by) = locked {
            let by = PointerId(by).subject();
            self.log.emit(FrameId(frame).subject(), What::FrameHeld { by });
            return None;
        }
        let mut told = Vec::new();
        for clone in clones {
            let Some(it) = world.pointers.get_mut(clone) else { continue };
            if it.frame != Some(frame) || it.kind != PointerKind::Clone {
                continue;
            }
            if it.told {
                told.push(clone);
            } else {
                // It stays with its driver, and points to nothing.
                it.frame = None;
                let moved = What::PointerMoved { frame: None };
                self.log.emit(PointerId(clone).subject(), moved);
                if let Some(it) = world.frames.get_mut(frame) {
                    it.clones -= 1;
                }
            }
        }
        Some((pin, driver, told))
    }
}
