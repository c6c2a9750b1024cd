//! Rules on what a driver does with stream pointers: which one it uses, where, and how.

use crate::allocator::AllocatorOwner;
use crate::driver_calls::Entry;
use crate::pin::Pin;
use crate::pointer::{PointerKind, StreamPointer};
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DeviceId, DriverError, DriverResult, FrameId, PointerId};
use flight::RuleId;

/// How data was used through a pointer that is not locked: its lock had failed, or it was not
/// locked at all.
#[cold]
fn describe_unlocked(pointer: PointerId, it: &StreamPointer) -> (Option<String>, Option<String>) {
    let subject = pointer.subject();
    if it.lock_failed {
        (Some(format!("data was used through {subject}, whose lock had failed")), None)
    } else {
        (None, Some(format!("data was used through {subject}, which is not locked")))
    }
}

/// How a pointer was advanced by too many bytes, or not locked.
#[cold]
pub(crate) fn describe_advance(pointer: PointerId, it: &StreamPointer, used: u32) -> String {
    let (subject, left) = (pointer.subject(), it.remaining);
    if it.locked {
        format!("{subject} was advanced by {used} bytes, and {left} are left")
    } else {
        format!("{subject} was advanced by {used} bytes, not locked")
    }
}

impl Stream {
    /// Entry rule: a pointer that was deleted, or is of another device, is not used. Returns the
    /// pointer and its pin.
    #[inline]
    pub(crate) fn judge_pointer<'a>(
        &self,
        state: &'a StreamState,
        device: DeviceId,
        pointer: PointerId,
        place: &'static str,
    ) -> DriverResult<(&'a StreamPointer, &'a Pin)> {
        if let Some(live) = state.pointers.get(pointer) {
            let pin = &state.pins[live.pin];
            if pin.device == device {
                self.judge(RuleId::KS_PTR_004, pointer.subject(), place, None);
                return Ok((live, pin));
            }
        }
        self.judge_unusable_pointer(state, pointer, place);
        Err(DriverError::Invalid)
    }

    #[cold]
    fn judge_unusable_pointer(&self, state: &StreamState, pointer: PointerId, place: &'static str) {
        let (live, subject) = (state.pointers.contains(pointer), pointer.subject());
        if live || state.pointers.has_issued(pointer.serial()) {
            let broken = if live {
                format!("{subject} was used, and points into a pin of another device")
            } else {
                format!("{subject} was used after its end")
            };
            self.judge(RuleId::KS_PTR_004, subject, place, Some(broken));
        }
    }

    /// Entry rule: a cancel callback does not change the queue. Returns the entry that the thread
    /// is in.
    #[inline]
    pub(crate) fn judge_cancel_callback(
        &self,
        state: &StreamState,
        pointer: PointerId,
        place: &'static str,
    ) -> DriverResult<Option<Entry>> {
        let entry = state.current_entry();
        if entry == Some(Entry::PointerCancelled) {
            self.report_cancel_callback(pointer, place);
            return Err(DriverError::Deadlock);
        }
        Ok(entry)
    }

    #[cold]
    fn report_cancel_callback(&self, pointer: PointerId, place: &'static str) {
        let broken = format!("a cancel callback called {place} for {}", pointer.subject());
        self.judge(RuleId::KS_PTR_007, pointer.subject(), place, Some(broken));
    }

    /// Entry rules: a cancel callback does not change the queue, and a filter that processes does
    /// not move its edges.
    #[inline]
    pub(crate) fn judge_queue(
        &self,
        state: &StreamState,
        (pointer, it, pin): (PointerId, &StreamPointer, &Pin),
        place: &'static str,
        move_count: bool,
    ) -> DriverResult<()> {
        let entry = self.judge_cancel_callback(state, pointer, place)?;
        // A clone belongs to the driver.
        let edge = it.kind != PointerKind::Clone;
        if move_count && edge && pin.filter_centric {
            let inside = entry == Some(Entry::FilterProcess);
            let broken = inside.then(|| {
                format!("a filter's process routine moved {} with {place}", pointer.subject())
            });
            self.judge(RuleId::KS_PTR_013, pointer.subject(), place, broken);
            if inside {
                return Err(DriverError::Invalid);
            }
        }
        Ok(())
    }

    /// The frame behind a locked pointer, and the address of its memory.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn locked_frame(
        &self,
        state: &StreamState,
        device: DeviceId,
        pointer: PointerId,
        place: &'static str,
    ) -> DriverResult<(FrameId, usize)> {
        let (it, _) = self.judge_pointer(state, device, pointer, place)?;
        let (unchecked, unlocked) =
            if it.locked { (None, None) } else { describe_unlocked(pointer, it) };
        let subject = pointer.subject();
        self.judge(RuleId::KS_PTR_002, subject, "KsStreamPointerLock", unchecked);
        self.judge(RuleId::KS_PTR_001, subject, place, unlocked);
        let frame = it.frame.filter(|_| it.locked).ok_or(DriverError::NotReady)?;
        Ok((frame, state.frames[frame].address))
    }

    /// Entry rule: frames of another allocator may be smaller than requested.
    pub(crate) fn judge_write(
        &self,
        state: &mut StreamState,
        pointer: PointerId,
        frame: FrameId,
        offset: u32,
        bytes: usize,
    ) -> DriverResult<()> {
        let it = &mut state.frames[frame];
        it.written = true;
        let (allocator, room) = (it.allocator, it.bytes as usize);
        let beyond = offset as usize + bytes > room;
        let by = allocator.map(|allocator| state.allocators[allocator].owner);
        if by == Some(AllocatorOwner::Client) {
            let broken = beyond.then(|| {
                format!("{bytes} bytes were written from {offset} on to a frame of {room}")
            });
            self.judge(RuleId::KS_FRAMING_007, pointer.subject(), "KSSTREAM_HEADER.Data", broken);
        }
        if beyond { Err(DriverError::Invalid) } else { Ok(()) }
    }
}
