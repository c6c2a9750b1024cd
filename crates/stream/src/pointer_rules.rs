//! Rules on what a driver does with stream pointers: which one it uses, where, and how.

use crate::allocator::AllocatorOwner;
use crate::driver_calls::Entry;
use crate::frame::Frame;
use crate::pin::Pin;
use crate::pointer::{PointerKind, StreamPointer};
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{AllocatorId, DeviceId, DriverError, DriverResult, PointerId};
use flight::RuleId;

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
                self.count_kept([RuleId::KS_PTR_004]);
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
            if entry == Some(Entry::FilterProcess) {
                self.report_moved_edge(pointer, place);
                return Err(DriverError::Invalid);
            }
            self.count_kept([RuleId::KS_PTR_013]);
        }
        Ok(())
    }

    #[cold]
    fn report_moved_edge(&self, pointer: PointerId, place: &'static str) {
        let subject = pointer.subject();
        let broken = format!("a filter's process routine moved {subject} with {place}");
        self.judge(RuleId::KS_PTR_013, subject, place, Some(broken));
    }

    /// The frame behind a locked pointer.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn locked_frame<'a>(
        &self,
        state: &'a mut StreamState,
        device: DeviceId,
        pointer: PointerId,
        place: &'static str,
    ) -> DriverResult<&'a mut Frame> {
        let (it, _) = self.judge_pointer(state, device, pointer, place)?;
        if !it.locked {
            self.judge_unlocked(pointer, it, place);
            return Err(DriverError::NotReady);
        }
        self.count_kept([RuleId::KS_PTR_002, RuleId::KS_PTR_001]);
        let frame = it.frame.ok_or(DriverError::NotReady)?;
        Ok(&mut state.frames[frame])
    }

    /// Entry rules: data is used through a locked pointer. This one is not: its lock had failed, or
    /// it was not locked at all.
    #[cold]
    fn judge_unlocked(&self, pointer: PointerId, it: &StreamPointer, place: &'static str) {
        let subject = pointer.subject();
        let failed = || format!("data was used through {subject}, whose lock had failed");
        let unlocked = || format!("data was used through {subject}, which is not locked");
        let unchecked = it.lock_failed.then(failed);
        self.judge(RuleId::KS_PTR_002, subject, "KsStreamPointerLock", unchecked);
        self.judge(RuleId::KS_PTR_001, subject, place, (!it.lock_failed).then(unlocked));
    }

    /// Entry rule: a pointer is advanced while it is locked, and not by more than is left. This one
    /// was not.
    #[cold]
    pub(crate) fn judge_advance(
        &self,
        pointer: PointerId,
        it: &StreamPointer,
        used: u32,
        place: &'static str,
    ) {
        let (subject, left) = (pointer.subject(), it.remaining);
        let broken = if it.locked {
            format!("{subject} was advanced by {used} bytes, and {left} are left")
        } else {
            format!("{subject} was advanced by {used} bytes, not locked")
        };
        self.judge(RuleId::KS_PTR_008, subject, place, Some(broken));
    }

    /// Entry rule: frames of another allocator may be smaller than requested.
    #[inline]
    pub(crate) fn judge_write(
        &self,
        state: &StreamState,
        pointer: PointerId,
        (allocator, room): (Option<AllocatorId>, u32),
        (offset, bytes): (u32, usize),
    ) -> DriverResult<()> {
        let beyond = offset as usize + bytes > room as usize;
        let client_owns = |of: AllocatorId| state.allocators[of].owner == AllocatorOwner::Client;
        if self.log.is_enabled() && allocator.is_some_and(client_owns) {
            self.judge_room(pointer, room, (offset, bytes), beyond);
        }
        if beyond { Err(DriverError::Invalid) } else { Ok(()) }
    }

    #[cold]
    fn judge_room(
        &self,
        pointer: PointerId,
        room: u32,
        (offset, bytes): (u32, usize),
        beyond: bool,
    ) {
        let broken = beyond
            .then(|| format!("{bytes} bytes were written from {offset} on to a frame of {room}"));
        self.judge(RuleId::KS_FRAMING_007, pointer.subject(), "KSSTREAM_HEADER.Data", broken);
    }
}
