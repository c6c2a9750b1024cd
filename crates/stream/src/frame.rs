//! Frames: the location of each, from its allocator through a pin's queue to the client and back.
//!
//! # Invariants
//!
//! 1. A frame is in one location. It leaves the queue when the edges have passed it, and is
//!    completed when no clone points to it any more.

use crate::descriptor::PinFlag;
use crate::error::StreamError;
use crate::pin::Pin;
use crate::pointer::{PointerKind, StreamPointer};
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{
    AllocatorId, DeviceId, DriverFrame, FrameId, Header, PinId, PinState, PointerId,
};
use flight::{Component, EventKind, Passive, RuleId, Slab, Subject, WaitResult};

/// A frame.
pub struct Frame {
    pub(crate) pin: PinId,
    pub(crate) allocator: Option<AllocatorId>,
    /// Where its memory is.
    pub(crate) address: usize,
    /// The driver handle, if the driver's allocator allocated it: the same address.
    pub(crate) driver_handle: Option<DriverFrame>,
    /// The size in bytes.
    pub(crate) bytes: u32,
    pub(crate) header: Header,
    /// Its driver has written to it.
    pub(crate) written: bool,
    pub(crate) location: FrameLocation,
    /// How many clones point to it.
    pub(crate) clones: u32,
    /// The frame is to be cancelled.
    pub(crate) cancel_requested: bool,
    /// Its driver injected it, with this context value.
    pub(crate) injected: Option<usize>,
}

/// The location of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameLocation {
    /// Free: neither queued nor at the client.
    Idle,
    /// In its pin's queue.
    Queued,
    /// The edges have passed it, but clones point to it.
    Cloned,
    /// Completed, for the client.
    Completed,
    /// The client has it.
    Delivered,
}

impl Frame {
    pub(crate) fn new(pin: PinId, allocator: Option<AllocatorId>, word: usize, bytes: u32) -> Self {
        Self {
            pin,
            allocator,
            address: word,
            driver_handle: None,
            bytes,
            header: Header::default(),
            written: false,
            location: FrameLocation::Idle,
            clones: 0,
            cancel_requested: false,
            injected: None,
        }
    }
}

/// Up to so many bytes are copied with the state locked, which takes less time than to count a
/// reference to the memory.
const SHORT_COPY: usize = 4096;

/// A frame that a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFrame {
    /// The frame.
    pub frame: FrameId,
    /// Its stream header.
    pub header: Header,
}

impl StreamState {
    /// Adds a frame of a live pin, and returns its id.
    pub(crate) fn add_frame(&mut self, frame: Frame) -> FrameId {
        let (pin, word) = (frame.pin, frame.address);
        let frame = self.frames.insert(frame);
        let pin = &mut self.pins[pin];
        pin.frames.push(frame);
        self.frames_by_address.insert((pin.device, word, frame));
        frame
    }

    /// Removes a frame that is not queued.
    pub(crate) fn remove_frame(&mut self, frame: FrameId) {
        let it = self.frames.remove(frame);
        let pin = &mut self.pins[it.pin];
        pin.frames.retain(|other| *other != frame);
        pin.completed.retain(|other| *other != frame);
        self.frames_by_address.remove(&(pin.device, it.address, frame));
    }

    /// The first live frame of a device.
    pub(crate) fn frame_at(&self, device: DeviceId, word: usize) -> Option<FrameId> {
        let next = self.frames_by_address.range((device, word, FrameId::NULL)..).next();
        let there = next.filter(|(of, at, _)| (*of, *at) == (device, word));
        there.map(|(_, _, frame)| *frame)
    }

    /// The frames of a pin, by number.
    pub(crate) fn frames_of(&self, pin: PinId) -> impl Iterator<Item = (FrameId, &Frame)> {
        self.pins[pin].frames.iter().map(|frame| (*frame, &self.frames[*frame]))
    }
}

impl Stream {
    /// Puts a frame into its pin's queue.
    pub(crate) fn enqueue_frame(&self, stream_state: &mut StreamState, frame: FrameId) {
        let StreamState { frames, pins, pointers, .. } = stream_state;
        let it = &mut frames[frame];
        let pin = it.pin;
        if self.enqueue_found_frame((frame, it), &mut pins[pin], pointers) {
            self.request_processing(stream_state, pin);
        }
    }

    /// The same, of a frame and its pin that are found. Returns whether that starts processing.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    fn enqueue_found_frame(
        &self,
        (frame, it): (FrameId, &mut Frame),
        at: &mut Pin,
        pointers: &mut Slab<StreamPointer>,
    ) -> bool {
        it.location = FrameLocation::Queued;
        it.cancel_requested = false;
        it.written = false;
        let pin = it.pin;
        if at.flows_out {
            it.header = Header::default();
        }
        at.queue.push_back(frame);
        self.log_event(frame.subject(), move || EventKind::FrameQueued { pin: pin.subject() });
        let (leading, trailing) = (at.leading, at.trailing);
        let mut set_free_edge = |edge: PointerId| {
            let pointer = &mut pointers[edge];
            let free = pointer.frame.is_none();
            if free {
                self.set_frame_of((edge, pointer), at, Some((frame, it)));
            }
            free
        };
        let fell = set_free_edge(leading);
        if let Some(trailing) = trailing {
            set_free_edge(trailing);
        }
        let initiates = !at.has_flag(PinFlag::DoNotInitiateProcessing);
        initiates && (fell || at.has_flag(PinFlag::InitiateProcessingOnEveryArrival))
    }

    /// Sets a pointer to the beginning of a frame.
    pub(crate) fn set_pointer_frame(
        &self,
        stream_state: &mut StreamState,
        pointer: PointerId,
        frame: Option<FrameId>,
    ) {
        let it = &mut stream_state.pointers[pointer];
        let pin = &mut stream_state.pins[it.pin];
        let frame = frame.map(|frame| (frame, &stream_state.frames[frame]));
        self.set_frame_of((pointer, it), pin, frame);
    }

    /// The same, of a pointer, its pin and its frame that are found.
    #[inline]
    pub(crate) fn set_frame_of(
        &self,
        (pointer, it): (PointerId, &mut StreamPointer),
        pin: &mut Pin,
        frame: Option<(FrameId, &Frame)>,
    ) {
        pin.move_count += 1;
        let out = pin.flows_out;
        let room = |(_, it): (FrameId, &Frame)| if out { it.bytes } else { it.header.data_used };
        it.frame = frame.map(|(frame, _)| frame);
        it.offset = 0;
        it.remaining = frame.map_or(0, room);
        if frame.is_none() {
            it.locked = false;
        }
        let frame = frame.map(|(frame, _)| frame.subject());
        self.log_event(pointer.subject(), move || EventKind::PointerMoved { frame });
    }

    /// An edge has passed a frame: if no other edge has to, the frame leaves the queue. Returns
    /// whether the frame was completed.
    #[inline]
    pub(crate) fn leave_frame(
        &self,
        (frame, it): (FrameId, &mut Frame),
        pin: &mut Pin,
        edge: PointerKind,
    ) -> bool {
        let name = if edge == PointerKind::Leading { "leading" } else { "trailing" };
        self.log_event(frame.subject(), move || EventKind::FramePassed { edge: name.into() });
        if edge == PointerKind::Leading && pin.trailing.is_some() {
            return false;
        }
        pin.dequeue(frame);
        it.location = FrameLocation::Cloned;
        self.try_complete(frame, it, pin)
    }

    /// Completes a frame that no pointer refers to.
    pub(crate) fn complete_if_unreferenced(&self, stream_state: &mut StreamState, frame: FrameId) {
        let it = &mut stream_state.frames[frame];
        let pin = &mut stream_state.pins[it.pin];
        if self.try_complete(frame, it, pin) {
            self.wake_all(stream_state);
        }
    }

    /// Completes a frame of a pin, if no pointer refers to it. Returns whether it did.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn try_complete(&self, frame: FrameId, it: &mut Frame, of: &mut Pin) -> bool {
        if it.location != FrameLocation::Cloned || it.clones > 0 {
            return false;
        }
        let subject = frame.subject();
        let client = of.client_state;
        let stops = client == PinState::Stop;
        // A frame given up on the way to stop carries no data.
        if it.cancel_requested || stops {
            it.location = FrameLocation::Idle;
            self.log_event(subject, move || EventKind::FrameCancelled {});
            return true;
        }
        it.location = FrameLocation::Completed;
        let (header, bytes, written) = (it.header, it.bytes, it.written);
        if of.flows_out {
            let maps = of.has_flag(PinFlag::GenerateMappings);
            let empty = header.data_used == 0 && written && !maps && client >= PinState::Pause;
            if header.data_used > bytes || empty {
                self.report_used(subject, header.data_used, bytes);
            } else {
                self.count_kept([RuleId::KS_PTR_014]);
            }
        }
        of.completed.push_back(frame);
        let Header { time, duration, data_used: used, end_of_stream: end, discontinuity } = header;
        self.log_event(subject, move || {
            let now = self.host.now();
            EventKind::FrameDone { used, time, duration, end, discontinuity, now }
        });
        true
    }

    /// Reports the number of used bytes in a frame's header: too many, or none although the frame
    /// was written.
    #[cold]
    fn report_used(&self, subject: Subject, used: u32, bytes: u32) {
        let broken = if used > bytes {
            format!("the header of {subject} reports {used} used bytes of {bytes}")
        } else {
            format!("{subject} was written, but its header reports no used bytes")
        };
        self.judge(RuleId::KS_PTR_014, subject, "KSSTREAM_HEADER.DataUsed", Some(broken));
    }

    /// Queues the free frames of a pin, which makes work available. Frames of a pin with inward
    /// data flow stay free; injected frames belong to their driver.
    pub(crate) fn queue_idle_frames(&self, stream_state: &mut StreamState, pin: PinId) {
        let out = stream_state.pins[pin].flows_out;
        let empty =
            |frame: &Frame| frame.location == FrameLocation::Idle && frame.injected.is_none();
        let home = stream_state.frames_of(pin).filter(|(_, it)| out && empty(it));
        let home: Vec<FrameId> = home.map(|(frame, _)| frame).collect();
        for frame in home {
            self.enqueue_frame(stream_state, frame);
        }
        self.wake_all(stream_state);
    }

    /// Takes the next completed frame, and waits for one until a timeout.
    ///
    /// On a pin with inward data flow, it is a buffer that the driver has read.
    pub fn take_frame(
        &self,
        at: &mut Passive,
        pin: PinId,
        deadline: Option<u64>,
    ) -> Result<ClientFrame, StreamError> {
        let what = |_: &StreamState| format!("a frame of {}", pin.subject());
        let done = self.wait_for(at, deadline, what, |stream_state| {
            // A client may close the pin while it waits.
            let Some(it) = stream_state.pins.get_mut(pin) else {
                return Some(Err(StreamError::NotFound(pin.subject())));
            };
            let (client, device) = (it.client_state, it.device);
            let Some(frame) = it.completed.pop_front() else {
                let over = client == PinState::Stop || stream_state.started_device(device).is_err();
                return over.then_some(Err(StreamError::Stopped));
            };
            let it = &mut stream_state.frames[frame];
            it.location = FrameLocation::Delivered;
            self.log_event(frame.subject(), move || EventKind::FrameTaken {});
            Some(Ok(ClientFrame { frame, header: it.header }))
        });
        match done {
            Ok(answer) => answer,
            Err(WaitResult::TimedOut) => Err(StreamError::TimedOut),
            Err(WaitResult::Stuck(graph)) => {
                if !self.judge_stalled(pin) {
                    self.log.emit(pin.subject(), || EventKind::WaitStuck {
                        component: Component::Driver,
                        graph,
                    });
                }
                Err(StreamError::Stuck)
            }
            Err(WaitResult::Woken) => Err(StreamError::Stuck),
            Err(WaitResult::HostEnded) => Err(StreamError::HostEnded),
        }
    }

    /// Reads from a frame that the client has.
    pub fn read_frame(
        &self,
        frame: FrameId,
        offset: u32,
        into: &mut [u8],
    ) -> Result<(), StreamError> {
        let stream_state = self.state.lock();
        let it = stream_state.frames.get(frame);
        let it = it.filter(|frame| frame.location == FrameLocation::Delivered);
        let it = it.ok_or_else(|| StreamError::NotFound(frame.subject()))?;
        let (word, device) = (it.address, stream_state.pins[it.pin].device);
        let memory = &stream_state.devices[device].memory;
        let read = if into.len() <= SHORT_COPY {
            memory.read(word, offset, into)
        } else {
            let memory = memory.clone();
            drop(stream_state);
            memory.read(word, offset, into)
        };
        if read { Ok(()) } else { Err(StreamError::NotFound(frame.subject())) }
    }

    /// Gives a frame back: it is filled again, as long as the pin has frames to fill.
    pub fn return_frame(&self, at: &mut Passive, frame: FrameId) -> Result<(), StreamError> {
        let injected = {
            let stream_state = &mut *self.state.lock();
            let StreamState { frames, pins, pointers, jobs, .. } = &mut *stream_state;
            let it =
                frames.get_mut(frame).filter(|frame| frame.location == FrameLocation::Delivered);
            let it = it.ok_or_else(|| StreamError::NotFound(frame.subject()))?;
            it.location = FrameLocation::Idle;
            self.log_event(frame.subject(), move || EventKind::FrameReturned {});
            let (pin, injected) = (it.pin, it.injected.is_some());
            let of = &mut pins[pin];
            let flows = of.client_state >= PinState::Pause && of.device_state >= PinState::Pause;
            if flows
                && of.flows_out
                && !injected
                && self.enqueue_found_frame((frame, it), of, pointers)
            {
                self.request_of((pin, of), jobs);
            }
            self.wake_all(stream_state);
            injected.then_some(pin)
        };
        if let Some(pin) = injected {
            self.return_injected_frame(at, pin, frame);
        }
        Ok(())
    }

    /// Sends data into a pin, in a free frame; waits for one.
    pub fn send_frame(
        &self,
        at: &mut Passive,
        pin: PinId,
        bytes: &[u8],
        header: Header,
    ) -> Result<FrameId, StreamError> {
        let what = |_: &StreamState| format!("a free frame of {}", pin.subject());
        let found = self.wait_until(at, pin.subject(), None, what, |stream_state| {
            // A client may close the pin while it waits.
            let Some(it) = stream_state.pins.get(pin) else {
                return Some(Err(StreamError::NotFound(pin.subject())));
            };
            if it.flows_out {
                return Some(Err(StreamError::WrongDirection));
            }
            if it.client_state < PinState::Acquire
                || stream_state.started_device(it.device).is_err()
            {
                return Some(Err(StreamError::Stopped));
            }
            let device = it.device;
            let home = |(_, it): &(FrameId, &Frame)| it.location == FrameLocation::Idle;
            let found = stream_state.frames_of(pin).find(home).map(|(frame, _)| frame);
            // A buffer that the driver has read is free, too.
            let frame = found.or_else(|| it.completed.front().copied())?;
            stream_state.pins[pin].completed.retain(|done| *done != frame);
            let it = &mut stream_state.frames[frame];
            it.location = FrameLocation::Delivered;
            Some(Ok((frame, it.address, device)))
        })?;
        let (frame, word, device) = found?;
        let memory = self.memory_of(device).ok_or(StreamError::Stopped)?;
        let written = memory.write(word, 0, bytes);
        let mut stream_state = self.state.lock();
        let it = stream_state
            .frames
            .get_mut(frame)
            .filter(|frame| frame.location == FrameLocation::Delivered);
        let it = it.ok_or(StreamError::Stopped)?; // The pin stopped meanwhile.
        if !written {
            it.location = FrameLocation::Idle;
            self.wake_all(&mut stream_state); // Another thread may wait for it.
            return Err(StreamError::NoFrames);
        }
        let used = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        it.header = Header { data_used: used, ..header };
        self.enqueue_frame(&mut stream_state, frame);
        self.wake_all(&mut stream_state);
        Ok(frame)
    }
}
