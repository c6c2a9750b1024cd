//! Frames: where each is, from its allocator through a pin's queue to the client and back.
//!
//! # Invariants
//!
//! 1. A frame is in one place. It leaves the queue when the edges have passed it, and is done
//!    when no clone points to it any more.

use crate::describe::{Flow, PinFlag};
use crate::pointer::PointerKind;
use crate::refused::Refused;
use crate::stream::Stream;
use crate::words::{AllocatorId, DeviceId, FrameId, Header, PinId, PointerId, State};
use crate::world::World;
use flight::{Passive, RuleId, What, Woken};

/// A frame.
#[derive(Debug)]
pub struct Frame {
    pub(crate) pin: PinId,
    pub(crate) allocator: Option<AllocatorId>,
    /// Where its memory is.
    pub(crate) word: usize,
    /// How many bytes it has.
    pub(crate) bytes: u32,
    pub(crate) header: Header,
    /// Its driver has written to it.
    pub(crate) written: bool,
    pub(crate) place: Place,
    /// How many clones point to it.
    pub(crate) clones: u32,
    /// It is to be cancelled.
    pub(crate) cancel: bool,
    /// Its driver injected it, with that word.
    pub(crate) injected: Option<usize>,
}

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Free: not queued, and not at the client.
    Home,
    /// In its pin's queue.
    Queued,
    /// The edges have passed it, clones point to it.
    Passed,
    /// It is done, for the client.
    Done,
    /// The client has it.
    Taken,
}

impl Frame {
    pub(crate) fn new(pin: PinId, allocator: Option<AllocatorId>, word: usize, bytes: u32) -> Self {
        Self {
            pin,
            allocator,
            word,
            bytes,
            header: Header::default(),
            written: false,
            place: Place::Home,
            clones: 0,
            cancel: false,
            injected: None,
        }
    }
}

/// A frame that a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// It.
    pub frame: FrameId,
    /// What is said with it.
    pub header: Header,
}

impl World {
    /// Adds a frame of a live pin, and returns its id.
    pub(crate) fn add_frame(&mut self, frame: Frame) -> FrameId {
        let (pin, word) = (frame.pin, frame.word);
        let frame = self.frames.insert(frame);
        let pin = &mut self.pins[pin];
        pin.frames.push(frame);
        self.places.insert((pin.device, word, frame));
        frame
    }

    /// Removes a frame that is not queued.
    pub(crate) fn remove_frame(&mut self, frame: FrameId) {
        let it = self.frames.remove(frame);
        let pin = &mut self.pins[it.pin];
        pin.frames.retain(|other| *other != frame);
        pin.done.retain(|other| *other != frame);
        self.places.remove(&(pin.device, it.word, frame));
    }

    /// The first frame of a device that is there.
    pub(crate) fn frame_at(&self, device: DeviceId, word: usize) -> Option<FrameId> {
        let next = self.places.range((device, word, FrameId::NULL)..).next();
        let there = next.filter(|(of, at, _)| (*of, *at) == (device, word));
        there.map(|(_, _, frame)| *frame)
    }

    /// The frames of a pin, by number.
    pub(crate) fn frames_of(&self, pin: PinId) -> impl Iterator<Item = (FrameId, &Frame)> {
        self.pins[pin].frames.iter().map(|frame| (*frame, &self.frames[*frame]))
    }
}

impl Stream {
    /// A frame arrives in its pin's queue.
    pub(crate) fn arrive(&self, world: &mut World, frame: FrameId) {
        let it = &mut world.frames[frame];
        it.place = Place::Queued;
        it.cancel = false;
        it.written = false;
        let (pin, fresh) = (it.pin, it.header);
        let at = &mut world.pins[pin];
        if at.descriptor.flow == Flow::Out {
            it.header = Header::default();
        } else {
            it.header = fresh;
        }
        at.queue.push_back(frame);
        let (leading, trailing) = (at.leading, at.trailing);
        let every = at.descriptor.is(PinFlag::InitiateProcessingOnEveryArrival);
        let initiates = !at.descriptor.is(PinFlag::DoNotInitiateProcessing);
        self.note(frame.subject(), || What::FrameQueued { pin: pin.subject() });
        let mut fell = false;
        for edge in [Some(leading), trailing].into_iter().flatten() {
            if world.pointers[edge].frame.is_none() {
                fell |= edge == leading;
                self.point(world, edge, Some(frame));
            }
        }
        if initiates && (fell || every) {
            Self::want(world, pin);
        }
    }

    /// Has a pointer point to a frame, from its beginning on.
    pub(crate) fn point(&self, world: &mut World, pointer: PointerId, frame: Option<FrameId>) {
        let it = &mut world.pointers[pointer];
        let pin = &mut world.pins[it.pin];
        pin.moves += 1;
        let out = pin.descriptor.flow == Flow::Out;
        let of = frame.map(|frame| &world.frames[frame]);
        let room = of.map_or(0, |it| if out { it.bytes } else { it.header.used });
        it.frame = frame;
        it.offset = 0;
        it.remaining = room;
        if frame.is_none() {
            it.locked = false;
        }
        let frame = frame.map(FrameId::subject);
        self.note(pointer.subject(), || What::PointerMoved { frame });
    }

    /// An edge has left a frame: if it was the last that had to, the frame leaves the queue.
    pub(crate) fn pass(&self, world: &mut World, frame: FrameId, edge: PointerKind) {
        let it = &mut world.frames[frame];
        let pin = &mut world.pins[it.pin];
        let name = if edge == PointerKind::Leading { "leading" } else { "trailing" };
        self.note(frame.subject(), || What::FramePassed { edge: name.into() });
        if edge == PointerKind::Leading && pin.trailing.is_some() {
            return;
        }
        pin.forget(frame);
        it.place = Place::Passed;
        self.settle(world, frame);
    }

    /// A frame that nothing refers to is done.
    pub(crate) fn settle(&self, world: &mut World, frame: FrameId) {
        let it = &mut world.frames[frame];
        if it.place != Place::Passed || it.clones > 0 {
            return;
        }
        let subject = frame.subject();
        let of = &mut world.pins[it.pin];
        let client = of.client;
        let stops = client == State::Stop;
        // What is given up on the way to stop carries nothing.
        if it.cancel || stops {
            it.place = Place::Home;
            self.log.emit(subject, What::FrameCancelled {});
            self.wake(world);
            return;
        }
        it.place = Place::Done;
        let (header, bytes, written) = (it.header, it.bytes, it.written);
        if of.descriptor.flow == Flow::Out {
            let maps = of.descriptor.is(PinFlag::GenerateMappings);
            let broken = if header.used > bytes {
                Some(format!("{subject} says that {} of its {bytes} bytes are used", header.used))
            } else if header.used == 0 && written && !maps && client >= State::Pause {
                Some(format!("{subject} was written, and says that no byte of it is used"))
            } else {
                None
            };
            self.judge(RuleId::KS_PTR_014, subject, "KSSTREAM_HEADER.DataUsed", broken);
        }
        of.done.push_back(frame);
        let Header { time, duration, used, end, discontinuity } = header;
        self.note(subject, || {
            let now = self.host.now();
            What::FrameDone { used, time, duration, end, discontinuity, now }
        });
        self.wake(world);
    }

    /// Queues the frames of a pin that are home: there is work again. Those of a pin that data goes
    /// into are free, and so are not queued; those that were injected are their driver's.
    pub(crate) fn feed(&self, world: &mut World, pin: PinId) {
        let out = world.pins[pin].descriptor.flow == Flow::Out;
        let empty = |it: &Frame| it.place == Place::Home && it.injected.is_none();
        let home = world.frames_of(pin).filter(|(_, it)| out && empty(it));
        let home: Vec<FrameId> = home.map(|(frame, _)| frame).collect();
        for frame in home {
            self.arrive(world, frame);
        }
        self.wake(world);
    }

    /// Takes the next frame that is done, and waits for it until a time at most.
    ///
    /// Of a pin that data goes into, it is a buffer that the driver has read.
    pub fn take_frame(
        &self,
        at: &mut Passive,
        pin: PinId,
        deadline: Option<u64>,
    ) -> Result<Taken, Refused> {
        let what = |_: &World| format!("a frame of {}", pin.subject());
        let done = self.wait_for(at, deadline, what, |world| {
            let Some(it) = world.pins.get_mut(pin) else {
                return Some(Err(Refused::NotThere(pin.subject())));
            };
            let (client, device) = (it.client, it.device);
            let Some(frame) = it.done.pop_front() else {
                let over = client == State::Stop || world.started(device).is_err();
                return over.then_some(Err(Refused::Stopped));
            };
            let it = &mut world.frames[frame];
            it.place = Place::Taken;
            self.note(frame.subject(), || What::FrameTaken {});
            Some(Ok(Taken { frame, header: it.header }))
        });
        match done {
            Ok(answer) => answer,
            Err(Woken::TimedOut) => Err(Refused::TimedOut),
            Err(Woken::Stuck(graph)) => {
                if !self.judge_stalled(pin) {
                    self.log.emit(pin.subject(), What::WaitStuck { graph });
                }
                Err(Refused::Stuck)
            }
            Err(Woken::Rung) => Err(Refused::Stuck),
            Err(Woken::Over) => Err(Refused::Over),
        }
    }

    /// Reads from a frame that the client has.
    pub fn read_frame(&self, frame: FrameId, offset: u32, into: &mut [u8]) -> Result<(), Refused> {
        let (word, memory) = {
            let world = self.world.hold();
            let it = world.frames.get(frame).filter(|it| it.place == Place::Taken);
            let it = it.ok_or_else(|| Refused::NotThere(frame.subject()))?;
            (it.word, world.devices[world.pins[it.pin].device].memory.clone())
        };
        let read = memory.read(word, offset, into);
        if read { Ok(()) } else { Err(Refused::NotThere(frame.subject())) }
    }

    /// Gives a frame back: it is filled again, while its pin has frames to fill.
    pub fn give_back(&self, at: &mut Passive, frame: FrameId) -> Result<(), Refused> {
        let injected = {
            let mut world = self.world.hold();
            let it = world.frames.get_mut(frame).filter(|it| it.place == Place::Taken);
            let it = it.ok_or_else(|| Refused::NotThere(frame.subject()))?;
            it.place = Place::Home;
            self.note(frame.subject(), || What::FrameHome {});
            let (pin, injected) = (it.pin, it.injected.is_some());
            let of = &world.pins[pin];
            let flows = of.client >= State::Pause && of.state >= State::Pause;
            if flows && of.descriptor.flow == Flow::Out && !injected {
                self.arrive(&mut world, frame);
            }
            self.wake(&mut world);
            injected.then_some(pin)
        };
        if let Some(pin) = injected {
            self.return_injected(at, pin, frame);
        }
        Ok(())
    }

    /// Sends data into a pin, in a frame that is home; waits for one.
    pub fn send_frame(
        &self,
        at: &mut Passive,
        pin: PinId,
        bytes: &[u8],
        header: Header,
    ) -> Result<FrameId, Refused> {
        let what = |_: &World| format!("a free frame of {}", pin.subject());
        let found = self.act_when(at, pin.subject(), None, what, |world| {
            let Some(it) = world.pins.get(pin) else {
                return Some(Err(Refused::NotThere(pin.subject())));
            };
            if it.descriptor.flow == Flow::Out {
                return Some(Err(Refused::OtherWay));
            }
            if it.client < State::Acquire || world.started(it.device).is_err() {
                return Some(Err(Refused::Stopped));
            }
            let device = it.device;
            let home = |(_, it): &(FrameId, &Frame)| it.place == Place::Home;
            let found = world.frames_of(pin).find(home).map(|(frame, _)| frame);
            // A buffer that the driver has read is free, too.
            let frame = found.or_else(|| it.done.front().copied())?;
            world.pins[pin].done.retain(|done| *done != frame);
            let it = &mut world.frames[frame];
            it.place = Place::Taken;
            Some(Ok((frame, it.word, device)))
        })?;
        let (frame, word, device) = found?;
        let memory = self.memory_of(device).ok_or(Refused::Stopped)?;
        let written = memory.write(word, 0, bytes);
        let mut world = self.world.hold();
        let it = world.frames.get_mut(frame).filter(|it| it.place == Place::Taken);
        let it = it.ok_or(Refused::Stopped)?; // The pin stopped meanwhile.
        if !written {
            it.place = Place::Home;
            self.wake(&mut world); // Another thread may wait for it.
            return Err(Refused::NoFrames);
        }
        let used = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        it.header = Header { used, ..header };
        self.arrive(&mut world, frame);
        self.wake(&mut world);
        Ok(frame)
    }
}
