//! Cancellation: frames leave the queue before they are completed.
//!
//! A frame with a locked pointer is cancelled when it is unlocked. A clone whose frame is cancelled
//! is reported to its driver, at dispatch level under the queue's lock, and is deleted there.

use crate::driver_calls::Driver;
use crate::error::StreamError;
use crate::frame::FrameLocation;
use crate::pointer::PointerKind;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{FrameId, PinId, PointerId};
use flight::{EventKind, Passive, RuleId};
use std::sync::Arc;

/// The first pointer that prevents a frame from being cancelled, edges before clones.
pub(crate) fn first_locked_pointer(state: &StreamState, frame: FrameId) -> Option<PointerId> {
    let pin = &state.pins[state.frames[frame].pin];
    let mut all = [pin.leading].into_iter().chain(pin.trailing).chain(pin.clones.iter().copied());
    let locks = |pointer: &PointerId| {
        let it = &state.pointers[*pointer];
        it.locked && it.frame == Some(frame)
    };
    all.find(locks)
}

impl Stream {
    /// Cancels every frame in the queue of a pin, holding no mutex. Returns how many there were.
    pub fn cancel_frames(&self, at: &mut Passive, pin: PinId) -> Result<usize, StreamError> {
        let frames: Vec<FrameId> = {
            let state = self.state.lock();
            state.pin(pin)?;
            let all = state.frames_of(pin);
            let mine = all.filter(|(_, it)| {
                matches!(it.location, FrameLocation::Queued | FrameLocation::Cloned)
            });
            mine.map(|(number, _)| number).collect()
        };
        for frame in &frames {
            self.cancel_frame(at, *frame);
        }
        Ok(frames.len())
    }

    /// Queues the cancelled frames of a pin again.
    pub fn requeue_cancelled_frames(
        &self,
        at: &mut Passive,
        pin: PinId,
    ) -> Result<(), StreamError> {
        let _control = self.acquire_control(at, self.filter_of(pin)?)?;
        let mut state = self.state.lock();
        // The pin may have been closed while this thread waited for the mutex.
        if state.pins.contains(pin) {
            self.queue_idle_frames(&mut state, pin);
        }
        Ok(())
    }

    /// Cancels a frame, now or when its last lock is released.
    pub(crate) fn cancel_frame(&self, at: &mut Passive, frame: FrameId) {
        let has_cancel_callback = {
            let mut state = self.state.lock();
            self.dequeue_frame(&mut state, frame)
        };
        // The frame was freed since it was chosen, or is not in flight.
        let Some((pin, driver, has_cancel_callback)) = has_cancel_callback else { return };
        for clone in has_cancel_callback {
            driver.pointer_cancelled(at, pin, clone);
            let mut state = self.state.lock();
            // The driver deletes the clone in the callback, as it must, or another thread did.
            let there = state.pointers.contains(clone);
            let subject = clone.subject();
            let broken = there.then(|| format!("{subject} was not deleted in its cancel callback"));
            self.judge(RuleId::KS_PTR_007, subject, "AVStrMiniCancelCallback", broken);
            if there {
                self.remove_clone(&mut state, clone, true);
            }
        }
        let mut state = self.state.lock();
        // The pin may have stopped during the callbacks, which frees its frames.
        if state.frames.contains(frame) {
            self.complete_if_unreferenced(&mut state, frame);
        }
    }

    /// Takes a frame out of the queue. Returns the clones whose callbacks are to be called; none,
    /// if the frame was freed since it was chosen, or is not in flight.
    fn dequeue_frame(
        &self,
        state: &mut StreamState,
        frame: FrameId,
    ) -> Option<(PinId, Arc<Driver>, Vec<PointerId>)> {
        let it = state.frames.get_mut(frame)?;
        if !matches!(it.location, FrameLocation::Queued | FrameLocation::Cloned) {
            return None;
        }
        it.cancel_requested = true;
        let pin = it.pin;
        let of = &state.pins[pin];
        let place = of.queue.iter().position(|it| *it == frame);
        let next = place.and_then(|index| of.queue.get(index + 1)).copied();
        let edges = [Some(of.leading), of.trailing];
        let clones = of.clones.clone();
        let driver = state.devices[of.device].driver.clone();
        let locked = first_locked_pointer(state, frame);
        // A locked clone keeps the frame, but not its position in the queue: an edge does.
        if locked.is_none_or(|stream_pointer| clones.contains(&stream_pointer)) {
            for edge in edges.into_iter().flatten() {
                if state.pointers[edge].frame == Some(frame) {
                    self.set_pointer_frame(state, edge, next);
                }
            }
            state.pins[pin].dequeue(frame);
            state.frames[frame].location = FrameLocation::Cloned;
        }
        if let Some(by) = locked {
            let by = by.subject();
            self.log.emit(frame.subject(), || EventKind::FrameHeld { by });
            return None;
        }
        let mut has_cancel_callback = Vec::new();
        for clone in clones {
            let it = &mut state.pointers[clone];
            if it.frame != Some(frame) || it.kind != PointerKind::Clone {
                continue;
            }
            if it.has_cancel_callback {
                has_cancel_callback.push(clone);
            } else {
                // The clone stays with its driver, and points to nothing.
                it.frame = None;
                self.log.emit(clone.subject(), || EventKind::PointerMoved { frame: None });
                state.frames[frame].clones -= 1;
            }
        }
        Some((pin, driver, has_cancel_callback))
    }
}
