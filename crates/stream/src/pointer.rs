//! Stream pointers: a driver's positions in a pin's queue.
//!
//! The leading edge is where data is processed next, the trailing edge (if the pin has one) keeps
//! processed frames in the queue, and clones keep single frames from being completed.

use crate::cancel::first_locked_pointer;
use crate::descriptor::PinFlag;
use crate::device::Device;
use crate::frame::Frame;
use crate::jobs::Job;
use crate::pin::Pin;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DeviceId, DriverError, DriverResult, FrameId, Header, PinId, PointerId};
use flight::{EventKind, RuleId, Slab};

/// A position in a queue.
#[derive(Debug)]
pub struct StreamPointer {
    pub(crate) pin: PinId,
    pub(crate) kind: PointerKind,
    pub(crate) frame: Option<FrameId>,
    pub(crate) locked: bool,
    /// The driver's offset in the frame, and how much is left.
    pub(crate) offset: u32,
    pub(crate) remaining: u32,
    /// A clone's driver is called if its frame is cancelled.
    pub(crate) has_cancel_callback: bool,
    /// The last attempt to lock it failed.
    pub(crate) lock_failed: bool,
    /// When its timeout expires, if the driver set one.
    pub(crate) timeout: Option<u64>,
}

/// What kind of pointer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerKind {
    /// The leading edge: where data is processed next.
    Leading,
    /// The trailing edge: up to where frames may leave.
    Trailing,
    /// A clone, created by the driver.
    Clone,
}

impl StreamPointer {
    pub(crate) fn new_edge(pin: PinId, kind: PointerKind) -> Self {
        let (offset, remaining, has_cancel_callback, lock_failed) = (0, 0, false, false);
        Self {
            pin,
            kind,
            frame: None,
            locked: false,
            offset,
            remaining,
            has_cancel_callback,
            lock_failed,
            timeout: None,
        }
    }
}

/// A pointer, as its driver sees it (`KSSTREAM_POINTER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerView {
    /// Its pin.
    pub pin: PinId,
    /// What kind it is.
    pub kind: PointerKind,
    /// The frame it points to.
    pub frame: Option<FrameId>,
    /// It is locked: the frame is not cancelled.
    pub locked: bool,
    /// The address of the frame's memory, while it is locked (`StreamHeader->Data`).
    pub data: usize,
    /// The size of the frame (`FrameExtent`).
    pub bytes: u32,
    /// The driver's offset (`Offset`).
    pub offset: u32,
    /// How many bytes are left (`Remaining`).
    pub remaining: u32,
    /// The frame's stream header.
    pub header: Header,
}

impl Services {
    /// Runs a service on a live pointer, if the current context allows it.
    fn with_pointer<T>(
        &self,
        pointer: PointerId,
        place: &'static str,
        move_count: bool,
        body: impl FnOnce(&Stream, &mut StreamState) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let (stream, mut state) = self.lock_state()?;
        let device = self.device;
        stream.with_pointer(&mut state, device, (pointer, place, move_count), |state| {
            body(stream, state)
        })
    }

    /// The leading edge (`KsPinGetLeadingEdgeStreamPointer`). Returns `None` if there is no frame
    /// or it cannot be locked.
    pub fn leading_edge(&self, pin: PinId, lock: bool) -> Option<PointerId> {
        let (stream, mut state) = self.lock_state().ok()?;
        let place = "KsPinGetLeadingEdgeStreamPointer";
        let edge = self.find_pin(&state.pins, pin, place).ok()?.leading;
        stream.edge_pointer(&mut state, pin, edge, lock)
    }

    /// The trailing edge (`KsPinGetTrailingEdgeStreamPointer`), of a pin that has one.
    pub fn trailing_edge(&self, pin: PinId, lock: bool) -> Option<PointerId> {
        let place = "KsPinGetTrailingEdgeStreamPointer";
        let (stream, mut state) = self.lock_state().ok()?;
        let edge = self.find_pin(&state.pins, pin, place).ok()?.trailing;
        let broken = edge.is_none().then(|| {
            format!("a driver requested the trailing edge of {}, which has none", pin.subject())
        });
        stream.judge(RuleId::KS_PTR_010, pin.subject(), place, broken);
        stream.edge_pointer(&mut state, pin, edge?, lock)
    }

    /// What a pointer points to.
    pub fn pointer_view(&self, pointer: PointerId) -> DriverResult<PointerView> {
        let (stream, state) = self.lock_state()?;
        let (it, _) = stream.judge_pointer(&state, self.device, pointer, "KSSTREAM_POINTER")?;
        let frame = it.frame.map(|frame| &state.frames[frame]);
        Ok(PointerView {
            pin: it.pin,
            kind: it.kind,
            frame: it.frame,
            locked: it.locked,
            data: frame.filter(|_| it.locked).map_or(0, |frame| frame.address),
            bytes: frame.map_or(0, |frame| frame.bytes),
            offset: it.offset,
            remaining: it.remaining,
            header: frame.map(|frame| frame.header).unwrap_or_default(),
        })
    }

    /// Locks a pointer (`KsStreamPointerLock`): its frame stays. Fails if the frame was cancelled.
    pub fn lock(&self, pointer: PointerId) -> DriverResult<()> {
        let (stream, mut state) = self.lock_state()?;
        stream.lock(&mut state, self.device, pointer)
    }

    /// Unlocks it (`KsStreamPointerUnlock`), and moves on if it ejects the frame.
    pub fn unlock(&self, pointer: PointerId, eject: bool) -> DriverResult<()> {
        self.with_pointer(pointer, "KsStreamPointerUnlock", true, |stream, state| {
            let it = &state.pointers[pointer];
            let frame = it.locked.then_some(it.frame).ok_or(DriverError::Invalid)?;
            if eject {
                // Whether it left the end of the queue shows at the next lock.
                let _ = stream.advance(state, pointer);
            }
            stream.unlock(state, pointer, frame);
            Ok(())
        })
    }

    /// Moves a pointer to the next frame (`KsStreamPointerAdvance`). Fails with
    /// [`DriverError::NotReady`] if there is none yet.
    pub fn advance(&self, pointer: PointerId) -> DriverResult<()> {
        self.with_pointer(pointer, "KsStreamPointerAdvance", true, |stream, state| {
            stream.advance(state, pointer)
        })
    }

    /// Moves a pointer within its frame (`KsStreamPointerAdvanceOffsets`), and on to the next if
    /// nothing is left or the frame is ejected.
    pub fn advance_offsets(&self, pointer: PointerId, used: u32, eject: bool) -> DriverResult<()> {
        let place = "KsStreamPointerAdvanceOffsets";
        self.with_pointer(pointer, place, true, |stream, state| {
            let it = &state.pointers[pointer];
            // WINDOWS: D-21. Advancing by all remaining bytes is legal: then it moves to the next
            // frame.
            if !it.locked || used > it.remaining {
                stream.judge_advance(pointer, it, used, place);
                return Err(DriverError::NotReady);
            }
            stream.count_kept([RuleId::KS_PTR_008]);
            stream.consume_bytes(state, pointer, used, eject);
            Ok(())
        })
    }

    /// Creates a pointer to the same frame (`KsStreamPointerClone`). The frame is not completed
    /// while the clone exists. `has_cancel_callback` is whether the driver is called if the frame
    /// is cancelled.
    pub fn clone_pointer(
        &self,
        pointer: PointerId,
        has_cancel_callback: bool,
    ) -> DriverResult<PointerId> {
        self.with_pointer(pointer, "KsStreamPointerClone", false, |stream, state| {
            let it = &state.pointers[pointer];
            let (pin, frame) = (it.pin, it.frame.ok_or(DriverError::NotReady)?);
            // WINDOWS: our reading. A clone is locked if its original is.
            let clone = StreamPointer {
                pin,
                kind: PointerKind::Clone,
                frame: Some(frame),
                locked: it.locked,
                offset: it.offset,
                remaining: it.remaining,
                has_cancel_callback,
                lock_failed: false,
                timeout: None,
            };
            let locked = it.locked;
            state.frames[frame].clones += 1;
            let clone = state.pointers.insert(clone);
            let of = &mut state.pins[pin];
            of.clones.push(clone);
            of.move_count += 1;
            let (pin, frame) = (pin.subject(), frame.subject());
            stream.log_event(clone.subject(), move || EventKind::PointerCloned {
                pin,
                frame,
                locked,
            });
            Ok(clone)
        })
    }

    /// Deletes a clone (`KsStreamPointerDelete`).
    pub fn delete_pointer(&self, pointer: PointerId) -> DriverResult<()> {
        let place = "KsStreamPointerDelete";
        let (stream, mut state) = self.lock_state()?;
        let (it, _) = stream.judge_pointer(&state, self.device, pointer, place)?;
        let edge = it.kind != PointerKind::Clone;
        let broken =
            edge.then(|| format!("a driver deleted {}, which is an edge", pointer.subject()));
        stream.judge(RuleId::KS_PTR_003, pointer.subject(), place, broken);
        if edge {
            return Err(DriverError::Invalid);
        }
        stream.remove_clone(&mut state, pointer, false);
        stream.wake_all(&mut state);
        Ok(())
    }

    /// Sets a frame's header (`KSSTREAM_HEADER`), through a locked pointer.
    pub fn set_header(&self, pointer: PointerId, header: Header) -> DriverResult<()> {
        let (stream, mut state) = self.lock_state()?;
        let found = stream.locked_frame(&mut state, self.device, pointer, "KSSTREAM_HEADER");
        found?.header = header;
        Ok(())
    }

    /// Writes to a frame through a locked pointer.
    pub fn write(&self, pointer: PointerId, offset: u32, bytes: &[u8]) -> DriverResult<()> {
        let word = {
            let (stream, mut state) = self.lock_state()?;
            let place = "KSSTREAM_HEADER.Data";
            let it = stream.locked_frame(&mut state, self.device, pointer, place)?;
            it.written = true;
            let (room, word) = (it.bytes, it.address);
            let allocator = it.allocator;
            stream.judge_write(&state, pointer, (allocator, room), (offset, bytes.len()))?;
            word
        };
        self.memory.write(word, offset, bytes).then_some(()).ok_or(DriverError::Invalid)
    }

    /// Reads from a frame through a locked pointer.
    pub fn read(&self, pointer: PointerId, offset: u32, into: &mut [u8]) -> DriverResult<()> {
        let word = {
            let (stream, mut state) = self.lock_state()?;
            let place = "KSSTREAM_HEADER.Data";
            stream.locked_frame(&mut state, self.device, pointer, place)?.address
        };
        self.memory.read(word, offset, into).then_some(()).ok_or(DriverError::Invalid)
    }

    /// The address of a frame's memory, for the hardware (`KsStreamPointerGetMdl`). Returns `None`
    /// if the pointer is not locked.
    pub fn pointer_memory(&self, pointer: PointerId) -> Option<usize> {
        let place = "KsStreamPointerGetMdl";
        let (stream, state) = self.lock_state().ok()?;
        let (it, _) = stream.judge_pointer(&state, self.device, pointer, place).ok()?;
        let broken = (!it.locked).then(|| {
            format!("a driver requested the memory of {}, which is not locked", pointer.subject())
        });
        stream.judge(RuleId::KS_PTR_009, pointer.subject(), place, broken);
        let frame = it.frame.filter(|_| it.locked)?;
        Some(state.frames[frame].address)
    }

    /// Schedules a callback after a time (`KsStreamPointerScheduleTimeout`), which replaces an
    /// earlier one.
    ///
    /// WINDOWS: while a pin pauses a timeout may not fire (documented). Here it does.
    pub fn schedule_timeout(&self, pointer: PointerId, interval: u64) -> DriverResult<()> {
        let due = self.host.now().saturating_add(interval);
        let place = "KsStreamPointerScheduleTimeout";
        self.with_pointer(pointer, place, false, |stream, state| {
            // WINDOWS: an earlier timeout is replaced (documented).
            state.unschedule(pointer);
            state.pointers[pointer].timeout = Some(due);
            state.timers.insert((due, pointer));
            stream.work_hint.note_work();
            stream.host.wake(&stream.work_available);
            Ok(())
        })
    }

    /// Cancels it (`KsStreamPointerCancelTimeout`).
    pub fn cancel_timeout(&self, pointer: PointerId) -> DriverResult<()> {
        let place = "KsStreamPointerCancelTimeout";
        self.with_pointer(pointer, place, false, |_, state| {
            state.unschedule(pointer);
            Ok(())
        })
    }
}

impl Stream {
    /// Changes a live pointer, if the current context allows it.
    #[inline]
    fn with_pointer<T>(
        &self,
        state: &mut StreamState,
        device: DeviceId,
        (pointer, place, move_count): (PointerId, &'static str, bool),
        body: impl FnOnce(&mut StreamState) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let (it, pin) = self.judge_pointer(state, device, pointer, place)?;
        self.judge_queue(state, (pointer, it, pin), place, move_count)?;
        let answer = body(state);
        self.wake_all(state);
        answer
    }

    /// An edge of a pin that the driver may use, locked if requested. Returns `None` if there is no
    /// frame or it cannot be locked.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    fn edge_pointer(
        &self,
        state: &mut StreamState,
        pin: PinId,
        edge: PointerId,
        lock: bool,
    ) -> Option<PointerId> {
        self.judge_cancel_callback(state, edge, "KsPinGetLeadingEdgeStreamPointer").ok()?;
        let StreamState { pointers, pins, frames, devices, .. } = &mut *state;
        let it = &mut pointers[edge];
        it.frame?;
        if lock {
            // The edges of a live pin are live, and of its device.
            self.count_kept([RuleId::KS_PTR_004]);
            let locked = self.lock_found((edge, it), &pins[pin], frames, devices);
            self.wake_all(state);
            locked.ok()?;
        }
        Some(edge)
    }

    fn lock(
        &self,
        state: &mut StreamState,
        device: DeviceId,
        pointer: PointerId,
    ) -> DriverResult<()> {
        self.with_pointer(state, device, (pointer, "KsStreamPointerLock", false), |state| {
            self.lock_judged(state, pointer)
        })
    }

    /// Locks a pointer that may be used.
    fn lock_judged(&self, state: &mut StreamState, pointer: PointerId) -> DriverResult<()> {
        let it = &mut state.pointers[pointer];
        let pin = &state.pins[it.pin];
        self.lock_found((pointer, it), pin, &state.frames, &state.devices)
    }

    /// The same, of a pointer and its pin that are found.
    #[inline]
    fn lock_found(
        &self,
        (pointer, it): (PointerId, &mut StreamPointer),
        pin: &Pin,
        frames: &Slab<Frame>,
        devices: &Slab<Device>,
    ) -> DriverResult<()> {
        if pin.has_flag(PinFlag::GenerateMappings) {
            self.judge_mappings(it.pin, &devices[pin.device]);
        }
        // A locked pointer's frame is not cancelled yet: it stays locked.
        let stays = |frame: &FrameId| it.locked || !frames[*frame].cancel_requested;
        let frame = it.frame.filter(stays);
        it.lock_failed = frame.is_none();
        let frame = frame.ok_or(DriverError::NotReady)?;
        if !it.locked {
            it.locked = true;
            let frame = frame.subject();
            self.log_event(pointer.subject(), move || EventKind::PointerLocked { frame });
        }
        Ok(())
    }

    /// Entry rule: a pin with mappings for the hardware has a DMA adapter.
    #[cold]
    fn judge_mappings(&self, pin: PinId, device: &Device) {
        let about = pin.subject();
        let broken = (!device.has_dma_adapter)
            .then(|| format!("{about} generates mappings, and no DMA adapter was registered"));
        self.judge(RuleId::KS_DEV_007, about, "KsDeviceRegisterAdapterObject", broken);
    }

    /// A pointer was unlocked: a frame that was to be cancelled is cancelled now.
    pub(crate) fn unlock(
        &self,
        state: &mut StreamState,
        pointer: PointerId,
        frame: Option<FrameId>,
    ) {
        let it = &mut state.pointers[pointer];
        if it.locked {
            it.locked = false;
            self.log_event(pointer.subject(), move || EventKind::PointerUnlocked {});
        }
        self.queue_cancel_if_unlocked(state, frame);
    }

    /// A frame may have lost its last lock: if it is to be cancelled, a job is queued.
    #[inline]
    pub(crate) fn queue_cancel_if_unlocked(&self, state: &mut StreamState, frame: Option<FrameId>) {
        // The pointer may have pointed to no frame.
        if let Some(frame) = frame.filter(|frame| state.frames[*frame].cancel_requested) {
            self.queue_requested_cancel(state, frame);
        }
    }

    fn queue_requested_cancel(&self, state: &mut StreamState, frame: FrameId) {
        if first_locked_pointer(state, frame).is_none() {
            self.queue_job(&mut state.jobs, || Job::Cancel(frame));
            self.wake_all(state);
        }
    }

    /// Marks bytes of a pointer's frame as used.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn consume_bytes(
        &self,
        state: &mut StreamState,
        pointer: PointerId,
        used: u32,
        eject: bool,
    ) {
        let StreamState { pointers, pins, frames, .. } = &mut *state;
        let it = &mut pointers[pointer];
        let pin = &mut pins[it.pin];
        it.offset += used;
        it.remaining -= used;
        let (offset, over) = (it.offset, it.remaining == 0 || eject);
        pin.move_count += u64::from(used > 0);
        // Where hardware writes, only its driver knows how much it wrote.
        let maps = pin.has_flag(PinFlag::GenerateMappings);
        if let Some(frame) = it.frame.filter(|_| pin.flows_out && !maps) {
            let header = &mut frames[frame].header;
            header.data_used = header.data_used.max(offset);
        }
        if over {
            // Whether it left the end of the queue shows at the next lock.
            let _ = self.advance(state, pointer);
        }
    }

    /// Moves a pointer to the next frame. It stays locked, if there is one.
    #[inline]
    pub(crate) fn advance(&self, state: &mut StreamState, pointer: PointerId) -> DriverResult<()> {
        let StreamState { pointers, pins, frames, .. } = &mut *state;
        let it = &mut pointers[pointer];
        let kind = it.kind;
        let frame = it.frame.ok_or(DriverError::NotReady)?;
        let pin = &mut pins[it.pin];
        let next = pin.queued_after(frame);
        if kind == PointerKind::Trailing && pointers[pin.leading].frame == Some(frame) {
            return Err(DriverError::NotReady); // It does not pass the leading edge.
        }
        let to = next.map(|next| (next, &frames[next]));
        self.set_frame_of((pointer, &mut pointers[pointer]), pin, to);
        let left = &mut frames[frame];
        let completed = match kind {
            PointerKind::Leading | PointerKind::Trailing => {
                self.leave_frame((frame, left), pin, kind)
            }
            PointerKind::Clone => {
                left.clones -= 1;
                if let Some(next) = next {
                    frames[next].clones += 1;
                }
                self.try_complete(frame, &mut frames[frame], pin)
            }
        };
        let cancels = frames[frame].cancel_requested;
        if completed {
            self.wake_all(state);
        }
        if cancels {
            self.queue_requested_cancel(state, frame);
        }
        next.map(|_| ()).ok_or(DriverError::NotReady)
    }

    /// Removes a clone.
    pub(crate) fn remove_clone(&self, state: &mut StreamState, pointer: PointerId, forced: bool) {
        state.unschedule(pointer);
        let it = state.pointers.remove(pointer);
        let pin = &mut state.pins[it.pin];
        pin.clones.retain(|clone| *clone != pointer);
        pin.move_count += 1;
        self.log_event(pointer.subject(), move || EventKind::PointerDeleted { forced });
        if let Some(frame) = it.frame {
            state.frames[frame].clones -= 1;
            self.complete_if_unreferenced(state, frame);
            self.queue_cancel_if_unlocked(state, Some(frame));
        }
    }
}
