//! Stream pointers: a driver's places in a pin's queue.
//!
//! The leading edge is where data is processed next, the trailing edge (if the pin has one) keeps
//! what was processed in the queue, and clones keep single frames from being done.

use crate::allocator::By;
use crate::cancel::locked_by;
use crate::describe::{Flow, PinFlag};
use crate::funnel::Entry;
use crate::process::Job;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, DeviceId, FrameId, Header, PinId, PointerId, Refusal};
use crate::world::World;
use flight::{RuleId, What, current_thread};

/// A place in a queue.
#[derive(Debug)]
pub struct Pointer {
    pub(crate) pin: PinId,
    pub(crate) kind: PointerKind,
    pub(crate) frame: Option<FrameId>,
    pub(crate) locked: bool,
    /// How far its driver is in the frame, and how much is left.
    pub(crate) offset: u32,
    pub(crate) remaining: u32,
    /// A clone's driver wants to hear if its frame is cancelled.
    pub(crate) told: bool,
    /// The last attempt to lock it failed.
    pub(crate) failed: bool,
    /// When its time is over, if its driver wants to hear that.
    pub(crate) due: Option<u64>,
}

/// What kind of pointer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerKind {
    /// Where data is processed next.
    Leading,
    /// Up to where frames may leave.
    Trailing,
    /// One that its driver made.
    Clone,
}

impl Pointer {
    pub(crate) fn edge(pin: PinId, kind: PointerKind) -> Self {
        let (offset, remaining, told, failed) = (0, 0, false, false);
        Self { pin, kind, frame: None, locked: false, offset, remaining, told, failed, due: None }
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
    /// It is locked: the frame stays.
    pub locked: bool,
    /// Where the frame's memory is, while it is locked (`StreamHeader->Data`).
    pub data: usize,
    /// How many bytes the frame has (`FrameExtent`).
    pub bytes: u32,
    /// How far the driver is (`Offset`).
    pub offset: u32,
    /// How many bytes are left (`Remaining`).
    pub remaining: u32,
    /// What is said with the frame.
    pub header: Header,
}

impl Services {
    /// Runs a service on a pointer that is there, from where that may be done.
    fn on_pointer<T>(
        &self,
        pointer: PointerId,
        place: &'static str,
        moves: bool,
        body: impl FnOnce(&Stream, &mut World) -> Answer<T>,
    ) -> Answer<T> {
        let stream = self.stream()?;
        let mut world = stream.world.hold();
        let device = self.device;
        stream.on_pointer(&mut world, device, (pointer, place, moves), |world| body(&stream, world))
    }

    /// The leading edge (`KsPinGetLeadingEdgeStreamPointer`); none, if no frame is there or it
    /// cannot be locked.
    pub fn leading_edge(&self, pin: PinId, lock: bool) -> Option<PointerId> {
        let stream = self.stream().ok()?;
        let mut world = stream.world.hold();
        let edge = self.find_pin(&world, pin, "KsPinGetLeadingEdgeStreamPointer").ok()?.leading;
        stream.edge(&mut world, self.device, edge, lock)
    }

    /// The trailing edge (`KsPinGetTrailingEdgeStreamPointer`), of a pin that has one.
    pub fn trailing_edge(&self, pin: PinId, lock: bool) -> Option<PointerId> {
        let (stream, place) = (self.stream().ok()?, "KsPinGetTrailingEdgeStreamPointer");
        let mut world = stream.world.hold();
        let edge = self.find_pin(&world, pin, place).ok()?.trailing;
        let broken = edge.is_none().then(|| {
            format!("a driver asked {} for a trailing edge, which it has not", pin.subject())
        });
        stream.judge(RuleId::KS_PTR_010, pin.subject(), place, broken);
        stream.edge(&mut world, self.device, edge?, lock)
    }

    /// What a pointer points to.
    pub fn look(&self, pointer: PointerId) -> Answer<PointerView> {
        let stream = self.stream()?;
        let world = stream.world.hold();
        let it = stream.judge_pointer(&world, self.device, pointer, "KSSTREAM_POINTER")?;
        let frame = it.frame.map(|frame| &world.frames[frame]);
        Ok(PointerView {
            pin: it.pin,
            kind: it.kind,
            frame: it.frame,
            locked: it.locked,
            data: frame.filter(|_| it.locked).map_or(0, |it| it.word),
            bytes: frame.map_or(0, |it| it.bytes),
            offset: it.offset,
            remaining: it.remaining,
            header: frame.map(|it| it.header).unwrap_or_default(),
        })
    }

    /// Locks a pointer (`KsStreamPointerLock`): its frame stays. That fails if the frame was
    /// cancelled.
    pub fn lock(&self, pointer: PointerId) -> Answer<()> {
        let stream = self.stream()?;
        let mut world = stream.world.hold();
        stream.lock(&mut world, self.device, pointer)
    }

    /// Unlocks it (`KsStreamPointerUnlock`), and moves on if it ejects the frame.
    pub fn unlock(&self, pointer: PointerId, eject: bool) -> Answer<()> {
        self.on_pointer(pointer, "KsStreamPointerUnlock", true, |stream, world| {
            let it = &world.pointers[pointer];
            let frame = it.locked.then_some(it.frame).ok_or(Refusal::Invalid)?;
            if eject {
                // Whether it fell off the end is seen when it is locked next.
                let _ = stream.advance(world, pointer);
            }
            stream.unlock(world, pointer, frame);
            Ok(())
        })
    }

    /// Moves a pointer to the next frame (`KsStreamPointerAdvance`); answers
    /// [`Refusal::NotReady`] if that is not there yet.
    pub fn advance(&self, pointer: PointerId) -> Answer<()> {
        self.on_pointer(pointer, "KsStreamPointerAdvance", true, |stream, world| {
            stream.advance(world, pointer)
        })
    }

    /// Moves a pointer within its frame (`KsStreamPointerAdvanceOffsets`), and on to the next if
    /// nothing is left or the frame is ejected.
    pub fn advance_offsets(&self, pointer: PointerId, used: u32, eject: bool) -> Answer<()> {
        let place = "KsStreamPointerAdvanceOffsets";
        self.on_pointer(pointer, place, true, |stream, world| {
            let it = &world.pointers[pointer];
            // WINDOWS: D-21. As many bytes as are left are legal: then it goes on to the next.
            let broken = if !it.locked {
                Some(format!("{} was advanced by {used} bytes, not locked", pointer.subject()))
            } else if used > it.remaining {
                let left = it.remaining;
                let subject = pointer.subject();
                Some(format!("{subject} was advanced by {used} bytes, and {left} are left"))
            } else {
                None
            };
            let refused = broken.is_some();
            stream.judge(RuleId::KS_PTR_008, pointer.subject(), place, broken);
            if refused {
                return Err(Refusal::NotReady);
            }
            stream.use_bytes(world, pointer, used, eject);
            Ok(())
        })
    }

    /// Makes a pointer to the same frame (`KsStreamPointerClone`). The frame is not done while it
    /// is there. `told` is whether the driver hears if the frame is cancelled.
    pub fn clone_pointer(&self, pointer: PointerId, told: bool) -> Answer<PointerId> {
        self.on_pointer(pointer, "KsStreamPointerClone", false, |stream, world| {
            let it = &world.pointers[pointer];
            let (pin, frame) = (it.pin, it.frame.ok_or(Refusal::NotReady)?);
            // WINDOWS: our reading. A clone is locked if what it is a clone of is.
            let clone = Pointer {
                pin,
                kind: PointerKind::Clone,
                frame: Some(frame),
                locked: it.locked,
                offset: it.offset,
                remaining: it.remaining,
                told,
                failed: false,
                due: None,
            };
            let locked = it.locked;
            world.frames[frame].clones += 1;
            let clone = world.pointers.insert(clone);
            let of = &mut world.pins[pin];
            of.clones.push(clone);
            of.moves += 1;
            let (pin, frame) = (pin.subject(), frame.subject());
            stream.note(clone.subject(), || What::PointerCloned { pin, frame, locked });
            Ok(clone)
        })
    }

    /// Deletes a clone (`KsStreamPointerDelete`).
    pub fn delete_pointer(&self, pointer: PointerId) -> Answer<()> {
        let (stream, place) = (self.stream()?, "KsStreamPointerDelete");
        let mut world = stream.world.hold();
        let it = stream.judge_pointer(&world, self.device, pointer, place)?;
        let edge = it.kind != PointerKind::Clone;
        let broken =
            edge.then(|| format!("a driver deleted {}, which is an edge", pointer.subject()));
        stream.judge(RuleId::KS_PTR_003, pointer.subject(), place, broken);
        if edge {
            return Err(Refusal::Invalid);
        }
        stream.remove_clone(&mut world, pointer, false);
        stream.wake(&mut world);
        Ok(())
    }

    /// Says something with a frame (`KSSTREAM_HEADER`), through a locked pointer.
    pub fn set_header(&self, pointer: PointerId, header: Header) -> Answer<()> {
        let stream = self.stream()?;
        let mut world = stream.world.hold();
        let frame = stream.reach(&world, self.device, pointer, "KSSTREAM_HEADER")?.0;
        world.frames[frame].header = header;
        Ok(())
    }

    /// Writes to a frame through a locked pointer.
    pub fn write(&self, pointer: PointerId, offset: u32, bytes: &[u8]) -> Answer<()> {
        let stream = self.stream()?;
        let word = {
            let mut world = stream.world.hold();
            let (frame, word) =
                stream.reach(&world, self.device, pointer, "KSSTREAM_HEADER.Data")?;
            stream.judge_write(&mut world, pointer, frame, offset, bytes.len())?;
            word
        };
        self.memory.write(word, offset, bytes).then_some(()).ok_or(Refusal::Invalid)
    }

    /// Reads from a frame through a locked pointer.
    pub fn read(&self, pointer: PointerId, offset: u32, into: &mut [u8]) -> Answer<()> {
        let (_, word) = {
            let stream = self.stream()?;
            let world = stream.world.hold();
            stream.reach(&world, self.device, pointer, "KSSTREAM_HEADER.Data")?
        };
        self.memory.read(word, offset, into).then_some(()).ok_or(Refusal::Invalid)
    }

    /// Where a frame's memory is, for the hardware (`KsStreamPointerGetMdl`); none, if the pointer
    /// is not locked.
    pub fn memory_of(&self, pointer: PointerId) -> Option<usize> {
        let (stream, place) = (self.stream().ok()?, "KsStreamPointerGetMdl");
        let world = stream.world.hold();
        let it = stream.judge_pointer(&world, self.device, pointer, place).ok()?;
        let broken = (!it.locked)
            .then(|| format!("a driver asked {} for its memory, not locked", pointer.subject()));
        stream.judge(RuleId::KS_PTR_009, pointer.subject(), place, broken);
        let frame = it.frame.filter(|_| it.locked)?;
        Some(world.frames[frame].word)
    }

    /// Has the driver told when so much time is over (`KsStreamPointerScheduleTimeout`), in place
    /// of what it asked for before.
    ///
    /// WINDOWS: while a pin pauses a timeout may not fire (documented). Here it does.
    pub fn schedule(&self, pointer: PointerId, interval: u64) -> Answer<()> {
        let due = self.host.now().saturating_add(interval);
        let place = "KsStreamPointerScheduleTimeout";
        self.on_pointer(pointer, place, false, |stream, world| {
            // WINDOWS: the timeout that was there is replaced (documented).
            world.unschedule(pointer);
            world.pointers[pointer].due = Some(due);
            world.timers.insert((due, pointer));
            stream.host.ring(&stream.bell);
            Ok(())
        })
    }

    /// Not any more (`KsStreamPointerCancelTimeout`).
    pub fn cancel_schedule(&self, pointer: PointerId) -> Answer<()> {
        let place = "KsStreamPointerCancelTimeout";
        self.on_pointer(pointer, place, false, |_, world| {
            world.unschedule(pointer);
            Ok(())
        })
    }
}

impl Stream {
    /// Does something with a pointer that is there, from where that may be done.
    fn on_pointer<T>(
        &self,
        world: &mut World,
        device: DeviceId,
        (pointer, place, moves): (PointerId, &'static str, bool),
        body: impl FnOnce(&mut World) -> Answer<T>,
    ) -> Answer<T> {
        self.judge_pointer(world, device, pointer, place)?;
        self.judge_queue(world, pointer, place, moves)?;
        let answer = body(world);
        self.wake(world);
        answer
    }

    fn edge(
        &self,
        world: &mut World,
        device: DeviceId,
        edge: PointerId,
        lock: bool,
    ) -> Option<PointerId> {
        self.judge_queue(world, edge, "KsPinGetLeadingEdgeStreamPointer", false).ok()?;
        world.pointers[edge].frame?;
        if lock {
            self.lock(world, device, edge).ok()?;
        }
        Some(edge)
    }

    fn lock(&self, world: &mut World, device: DeviceId, pointer: PointerId) -> Answer<()> {
        self.on_pointer(world, device, (pointer, "KsStreamPointerLock", false), |world| {
            let it = &world.pointers[pointer];
            let pin = &world.pins[it.pin];
            if pin.descriptor.is(PinFlag::GenerateMappings) {
                let dma = world.devices[pin.device].dma;
                let broken = (!dma).then(|| {
                    format!(
                        "{} generates mappings, and no DMA adapter was registered",
                        it.pin.subject()
                    )
                });
                let (rule, about) = (RuleId::KS_DEV_007, it.pin.subject());
                self.judge(rule, about, "KsDeviceRegisterAdapterObject", broken);
            }
            // What is locked is not cancelled yet: it stays locked.
            let held = it.locked;
            let stays = |frame: &FrameId| held || !world.frames[*frame].cancel;
            let frame = it.frame.filter(stays);
            let it = &mut world.pointers[pointer];
            it.failed = frame.is_none();
            let frame = frame.ok_or(Refusal::NotReady)?;
            if !it.locked {
                it.locked = true;
                let frame = frame.subject();
                self.note(pointer.subject(), || What::PointerLocked { frame });
            }
            Ok(())
        })
    }

    /// Entry rule: a pointer that was deleted, or is not the device's, is not used.
    fn judge_pointer<'a>(
        &self,
        world: &'a World,
        device: DeviceId,
        pointer: PointerId,
        place: &'static str,
    ) -> Answer<&'a Pointer> {
        let (live, subject) = (world.pointers.get(pointer), pointer.subject());
        let mine = |it: &&Pointer| world.pins[it.pin].device == device;
        let found = live.filter(mine);
        if live.is_some() || world.pointers.has_issued(pointer.serial()) {
            let broken = match (live, found) {
                (_, Some(_)) => None,
                (Some(_), None) => {
                    Some(format!("{subject} was used, and points into a pin of another device"))
                }
                (None, None) => Some(format!("{subject} was used after its end")),
            };
            self.judge(RuleId::KS_PTR_004, subject, place, broken);
        }
        found.ok_or(Refusal::Invalid)
    }

    /// Entry rules: a cancel callback leaves the queue alone, and a filter that processes leaves
    /// its edges.
    fn judge_queue(
        &self,
        world: &World,
        pointer: PointerId,
        place: &'static str,
        moves: bool,
    ) -> Answer<()> {
        let entry = world.inside(current_thread()).map(|it| it.entry);
        if entry == Some(Entry::PointerCancelled) {
            let broken = format!("a cancel callback called {place} for {}", pointer.subject());
            self.judge(RuleId::KS_PTR_007, pointer.subject(), place, Some(broken));
            return Err(Refusal::Deadlock);
        }
        // A clone is the driver's own.
        let it = &world.pointers[pointer];
        let edge = it.kind != PointerKind::Clone;
        if moves && edge && world.pins[it.pin].centric {
            let inside = entry == Some(Entry::FilterProcess);
            let broken = inside.then(|| {
                format!("a filter's process routine moved {} with {place}", pointer.subject())
            });
            self.judge(RuleId::KS_PTR_013, pointer.subject(), place, broken);
            if inside {
                return Err(Refusal::Invalid);
            }
        }
        Ok(())
    }

    /// The frame behind a locked pointer, and where its memory is.
    fn reach(
        &self,
        world: &World,
        device: DeviceId,
        pointer: PointerId,
        place: &'static str,
    ) -> Answer<(FrameId, usize)> {
        let it = self.judge_pointer(world, device, pointer, place)?;
        let subject = pointer.subject();
        let unchecked = (!it.locked && it.failed)
            .then(|| format!("data was used through {subject}, whose lock had failed"));
        let unlocked = (!it.locked && !it.failed)
            .then(|| format!("data was used through {subject}, which is not locked"));
        self.judge(RuleId::KS_PTR_002, subject, "KsStreamPointerLock", unchecked);
        self.judge(RuleId::KS_PTR_001, subject, place, unlocked);
        let frame = it.frame.filter(|_| it.locked).ok_or(Refusal::NotReady)?;
        Ok((frame, world.frames[frame].word))
    }

    /// Entry rule: frames that are not the driver's may be smaller than it asked for.
    fn judge_write(
        &self,
        world: &mut World,
        pointer: PointerId,
        frame: FrameId,
        offset: u32,
        bytes: usize,
    ) -> Answer<()> {
        let it = &mut world.frames[frame];
        it.written = true;
        let (allocator, room) = (it.allocator, it.bytes as usize);
        let beyond = offset as usize + bytes > room;
        let by = allocator.map(|allocator| world.allocators[allocator].by);
        if by == Some(By::Client) {
            let broken = beyond.then(|| {
                format!("{bytes} bytes were written from {offset} on to a frame of {room}")
            });
            self.judge(RuleId::KS_FRAMING_007, pointer.subject(), "KSSTREAM_HEADER.Data", broken);
        }
        if beyond { Err(Refusal::Invalid) } else { Ok(()) }
    }

    /// A pointer is not locked any more: a frame that was to be cancelled is now.
    pub(crate) fn unlock(&self, world: &mut World, pointer: PointerId, frame: Option<FrameId>) {
        let it = &mut world.pointers[pointer];
        if it.locked {
            it.locked = false;
            self.note(pointer.subject(), || What::PointerUnlocked {});
        }
        self.cancel_later(world, frame);
    }

    /// A frame may have lost its last lock: if it is to be cancelled, that is work.
    pub(crate) fn cancel_later(&self, world: &mut World, frame: Option<FrameId>) {
        let Some(frame) = frame else { return };
        if world.frames[frame].cancel && locked_by(world, frame).is_none() {
            let job = Job::Cancel(frame);
            if !world.jobs.contains(&job) {
                world.jobs.push_back(job);
            }
            self.wake(world);
        }
    }

    /// So many bytes of a pointer's frame are used.
    pub(crate) fn use_bytes(&self, world: &mut World, pointer: PointerId, used: u32, eject: bool) {
        let it = &mut world.pointers[pointer];
        it.offset += used;
        it.remaining -= used;
        let (offset, over) = (it.offset, it.remaining == 0 || eject);
        let (frame, pin) = (it.frame, &mut world.pins[it.pin]);
        pin.moves += u64::from(used > 0);
        // Where hardware writes, how much it wrote is for its driver to say.
        let maps = pin.descriptor.is(PinFlag::GenerateMappings);
        if let Some(frame) = frame.filter(|_| pin.descriptor.flow == Flow::Out && !maps) {
            let header = &mut world.frames[frame].header;
            header.used = header.used.max(offset);
        }
        if over {
            // Whether it fell off the end is seen when it is locked next.
            let _ = self.advance(world, pointer);
        }
    }

    /// Moves a pointer to the next frame. It stays locked, if there is one.
    pub(crate) fn advance(&self, world: &mut World, pointer: PointerId) -> Answer<()> {
        let it = &world.pointers[pointer];
        let (pin, kind) = (it.pin, it.kind);
        let frame = it.frame.ok_or(Refusal::NotReady)?;
        let queue = &world.pins[pin].queue;
        let place = queue.iter().position(|it| *it == frame);
        let next = place.and_then(|it| queue.get(it + 1)).copied();
        if kind == PointerKind::Trailing {
            let leading = world.pins[pin].leading;
            if world.pointers[leading].frame == Some(frame) {
                return Err(Refusal::NotReady); // It does not pass the leading edge.
            }
        }
        self.point(world, pointer, next);
        match kind {
            PointerKind::Leading | PointerKind::Trailing => self.pass(world, frame, kind),
            PointerKind::Clone => {
                world.frames[frame].clones -= 1;
                if let Some(next) = next {
                    world.frames[next].clones += 1;
                }
                self.settle(world, frame);
            }
        }
        self.cancel_later(world, Some(frame));
        next.map(|_| ()).ok_or(Refusal::NotReady)
    }

    /// A clone is gone.
    pub(crate) fn remove_clone(&self, world: &mut World, pointer: PointerId, forced: bool) {
        world.unschedule(pointer);
        let it = world.pointers.remove(pointer);
        let pin = &mut world.pins[it.pin];
        pin.clones.retain(|clone| *clone != pointer);
        pin.moves += 1;
        self.note(pointer.subject(), || What::PointerDeleted { forced });
        if let Some(frame) = it.frame {
            world.frames[frame].clones -= 1;
            self.settle(world, frame);
            self.cancel_later(world, Some(frame));
        }
    }
}
