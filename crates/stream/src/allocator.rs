//! Allocators: chosen, initialised, asked for frames, deleted.
//!
//! # Invariants
//!
//! 1. A pin has one allocator at most, from its connection to the end of that.
//! 2. An allocator of a driver's is initialised once, before anything is allocated; it is deleted
//!    once if and only if that was answered with success, when it has no frame left. Nothing uses
//!    it afterwards.

use crate::frame::{Frame, Place};
use crate::framing::{Framing, Wish};
use crate::funnel::{Driver, Entry};
use crate::memory::{FrameMemory, MemoryKind};
use crate::pin::Connection;
use crate::refused::Refused;
use crate::stream::Stream;
use crate::words::{AllocatorId, DeviceId, FrameId, PinId};
use flight::{Kind, Passive, RuleId, Subject, What, draw, invariant};
use std::sync::Arc;

/// Where frames come from.
pub struct Allocator {
    pub(crate) pin: PinId,
    pub(crate) by: By,
    pub(crate) framing: Framing,
    /// It gives half the bytes.
    pub(crate) short: bool,
    /// The driver's word for it.
    pub(crate) word: usize,
}

/// Whose allocator it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The minidriver's.
    Driver,
    /// The default one.
    Default,
    /// The other side's: what the pin asks for it may have or not.
    Client,
}

impl By {
    /// WINDOWS: a kernel-mode allocator serves no user-mode filter, and one that is not chosen is
    /// never called (documented).
    pub(crate) fn choose(has_own: bool, wish: &Wish) -> Self {
        match (wish.user || wish.foreign, has_own) {
            (true, _) => By::Client,
            (false, true) => By::Driver,
            (false, false) => By::Default,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            By::Driver => "driver",
            By::Default => "default",
            By::Client => "client",
        }
    }
}

/// What an allocator's calls need.
struct Source {
    allocator: AllocatorId,
    device: DeviceId,
    by: By,
    framing: Framing,
    short: bool,
    word: usize,
    driver: Arc<Driver>,
    memory: Arc<dyn FrameMemory>,
}

impl Source {
    /// How many bytes a frame has that is not the driver's.
    fn bytes(&self) -> u32 {
        let halves = self.by == By::Client && self.short;
        if halves { self.framing.bytes / 2 } else { self.framing.bytes }
    }
}

impl Stream {
    /// Makes the allocator of a connection.
    pub(crate) fn make_allocator(
        &self,
        at: &mut Passive,
        pin: PinId,
        connection: Connection,
    ) -> Result<(), Refused> {
        let Connection { framing, by, short, user } = connection;
        let allocator = self.world.hold().allocators.reserve();
        let subject = allocator.subject();
        let chosen = What::AllocatorChosen { pin: pin.subject(), by: by.name().into(), user };
        self.log.emit(subject, chosen);
        let word = match by {
            By::Driver => self.initialize(at, allocator, pin, &framing).inspect_err(|_| {
                self.world.hold().allocators.cancel(allocator);
            })?,
            By::Default => {
                let broken = (!framing.system).then(|| {
                    format!(
                        "{} uses the default allocator, and its framing does not ask for system \
                         memory",
                        pin.subject()
                    )
                });
                self.judge(RuleId::KS_ALLOC_025, pin.subject(), "KsCreateDefaultAllocator", broken);
                0
            }
            By::Client => 0,
        };
        let mut world = self.world.hold();
        let device = |pin: PinId| world.pins[pin].device;
        let of = device(pin);
        let shared = world.allocators.iter().find(|(_, it)| {
            it.by == By::Driver && by == By::Driver && it.word == word && device(it.pin) == of
        });
        let shared = shared.map(|(other, _)| other.serial());
        if by == By::Driver {
            let broken = match shared {
                _ if word == 0 => Some(format!("{subject} was initialised without a context")),
                Some(other) => Some(format!(
                    "{subject} was initialised with the context of allocator {other}, which lives"
                )),
                None => None,
            };
            let place = Entry::InitializeAllocator.name();
            self.judge(RuleId::KS_ALLOC_003, subject, place, broken);
        }
        world.allocators.fill(allocator, Allocator { pin, by, framing, short, word });
        world.pins[pin].allocator = Some(allocator);
        let word = self.hold_word(word);
        let Framing { frames, bytes, alignment, .. } = framing;
        let (pin, by) = (pin.subject(), by.name().into());
        self.log.emit(subject, What::AllocatorReady { pin, word, frames, bytes, alignment, by });
        Ok(())
    }

    fn initialize(
        &self,
        at: &mut Passive,
        allocator: AllocatorId,
        pin: PinId,
        framing: &Framing,
    ) -> Result<usize, Refused> {
        let call = self.world.hold().pin_call(pin, Entry::InitializeAllocator);
        let (driver, view, _) = call;
        let answer = driver.initialize_allocator(at, allocator, &view, framing);
        let (subject, place) = (allocator.subject(), Entry::InitializeAllocator.name());
        match answer {
            Ok(token) => Ok(token.word()),
            Err(why) => {
                let left = self.blocks_of(pin, allocator);
                let broken = (!left.is_empty()).then(|| {
                    format!(
                        "{} pieces of memory are left of an allocator whose initialisation failed",
                        left.len()
                    )
                });
                self.judge(RuleId::KS_ALLOC_004, subject, place, broken);
                self.free_blocks(pin, &left);
                self.log.emit(subject, What::AllocatorRefused { why: why.name() });
                Err(why.into())
            }
        }
    }

    fn blocks_of(&self, pin: PinId, allocator: AllocatorId) -> Vec<usize> {
        let world = self.world.hold();
        let device = world.pins[pin].device;
        world.blocks_that(device, |block| block.allocator == Some(allocator))
    }

    fn free_blocks(&self, pin: PinId, words: &[usize]) {
        let memory = {
            let mut world = self.world.hold();
            let device = world.pins[pin].device;
            for word in words {
                world.blocks.remove(&(device, *word));
            }
            world.devices[device].memory.clone()
        };
        for word in words {
            memory.free(*word);
        }
    }

    /// The allocator of a connected pin.
    fn source(&self, pin: PinId) -> Source {
        let world = self.world.hold();
        let it = &world.pins[pin];
        let allocator = invariant(it.allocator, "a connected pin has an allocator");
        let device = &world.devices[it.device];
        let Allocator { by, framing, short, word, .. } = world.allocators[allocator];
        Source {
            allocator,
            device: it.device,
            by,
            framing,
            short,
            word,
            driver: device.driver.clone(),
            memory: device.memory.clone(),
        }
    }

    /// Gets a pin its frames: as many as were agreed on, or as many as there are.
    pub(crate) fn fill(&self, at: &mut Passive, pin: PinId) -> Result<(), Refused> {
        let source = self.source(pin);
        let mut had = 0;
        for _ in 0..source.framing.frames {
            let Some(word) = self.one_frame(at, &source) else { break };
            let Some(bytes) = self.admit(&source, word) else { continue };
            had += 1;
            let mut world = self.world.hold();
            let allocator = Some(source.allocator);
            let frame = world.add_frame(Frame::new(pin, allocator, word, bytes));
            world.freed.remove(&(source.device, word));
            let (word, allocator) = (self.hold_word(word), source.allocator.subject());
            let pin = pin.subject();
            let made = What::FrameMade { allocator: Some(allocator), pin, word, bytes };
            self.log.emit(frame.subject(), made);
        }
        if had == 0 {
            let allocator = source.allocator.subject();
            self.log.emit(pin.subject(), What::FrameNone { allocator });
            return Err(Refused::NoFrames);
        }
        Ok(())
    }

    fn one_frame(&self, at: &mut Passive, source: &Source) -> Option<usize> {
        let Framing { bytes, alignment, kind, .. } = source.framing;
        match source.by {
            By::Driver => {
                let subject = source.allocator.subject();
                let allocator = (source.allocator, source.word);
                let before = self.host.now();
                let word = source.driver.allocate(at, allocator, self.raises(source));
                let now = self.host.now();
                let broken = (now != before).then(|| {
                    format!("{subject} blocked for {} ns to allocate a frame", (now - before) * 100)
                });
                self.judge(RuleId::KS_ALLOC_007, subject, Entry::Allocate.name(), broken);
                word.map(|it| it.word())
            }
            By::Default => source.memory.make(bytes, alignment, kind),
            // WINDOWS: framing is a request (documented): a user's buffers need not be aligned.
            By::Client => source.memory.make(source.bytes(), 0, MemoryKind::User),
        }
    }

    /// Whether a frame is allocated or freed at dispatch level this time.
    ///
    /// WINDOWS: a page says that allocators with function tables work there; at which level they
    /// are called no page says. Our decision (D-18): at passive level, and under pressure at both,
    /// if the framing asks for memory that is there at both.
    fn raises(&self, source: &Source) -> bool {
        let mut world = self.world.hold();
        let pressure =
            world.pressure.as_mut().filter(|_| source.framing.kind == MemoryKind::NonPaged);
        pressure.is_some_and(|it| draw(it, 2) == 0)
    }

    /// Judges a frame that a driver gave. Answers how many bytes it has, if it can be used.
    fn admit(&self, source: &Source, word: usize) -> Option<u32> {
        let Framing { bytes, alignment, kind, .. } = source.framing;
        if source.by != By::Driver {
            return Some(source.bytes());
        }
        let subject = source.allocator.subject();
        let (place, extent) = (Entry::Allocate.name(), source.memory.extent(word));
        let broken = match extent {
            _ if word & alignment as usize != 0 => {
                Some(format!("a frame of {subject} is not aligned to {alignment:#x}"))
            }
            Some((there, _)) if there < bytes => {
                Some(format!("a frame of {subject} has {there} bytes, and {bytes} are needed"))
            }
            Some((_, of)) if !of.serves(kind) => Some(format!(
                "a frame of {subject} is in {} memory, and {} is needed",
                of.name(),
                kind.name()
            )),
            _ => None,
        };
        self.judge(RuleId::KS_ALLOC_006, subject, place, broken);
        let world = self.world.hold();
        let broken = world
            .frame_at(source.device, word)
            .map(FrameId::serial)
            .map(|frame| format!("{subject} handed out frame {frame} again, which is outstanding"));
        let twice = broken.is_some();
        self.judge(RuleId::KS_ALLOC_008, subject, place, broken);
        let usable = extent.map_or(bytes, |(there, _)| there.min(bytes));
        (!twice).then_some(usable)
    }

    /// Frees all frames of a pin: they are home.
    pub(crate) fn free_frames(&self, at: &mut Passive, pin: PinId) {
        let source = self.source(pin);
        loop {
            let next = {
                let mut world = self.world.hold();
                let next = world.pins[pin].frames.first().copied();
                next.map(|frame| {
                    let it = &mut world.frames[frame];
                    it.place = Place::Home;
                    (frame, it.word, it.injected)
                })
            };
            let Some((frame, word, injected)) = next else { return };
            if let Some(context) = injected {
                source.driver.frame_returned(at, pin, word, context);
            } else {
                let allocator = (source.allocator, source.word);
                match source.by {
                    By::Driver => {
                        let raises = self.raises(&source);
                        source.driver.free_frame(at, allocator, (frame, word), raises);
                    }
                    By::Default | By::Client => {
                        source.memory.free(word);
                    }
                }
            }
            let mut world = self.world.hold();
            world.remove_frame(frame);
            if injected.is_none() {
                world.freed.insert((source.device, word));
            }
            self.log.emit(frame.subject(), What::FrameFreed {});
            self.release_word(word);
            drop(world);
            source.driver.gone(frame.into());
        }
    }

    /// Deletes the allocator of a pin, whose frames are freed.
    pub(crate) fn delete_allocator(&self, at: &mut Passive, pin: PinId) {
        let source = self.source(pin);
        let subject = source.allocator.subject();
        {
            let mut world = self.world.hold();
            world.allocators.remove(source.allocator);
            world.pins[pin].allocator = None;
            let mut frames = world.frames_of(pin);
            let home = !frames.any(|(_, it)| it.allocator == Some(source.allocator));
            drop(frames);
            self.log.emit(subject, What::AllocatorEnding { home });
        }
        if source.by == By::Driver {
            source.driver.delete_allocator(at, source.allocator, source.word);
            let left = self.blocks_of(pin, source.allocator);
            let broken = (!left.is_empty()).then(|| {
                format!("{subject} was deleted, and {} pieces of its memory are left", left.len())
            });
            let place = Entry::DeleteAllocator.name();
            self.judge(RuleId::KS_ALLOC_014, subject, place, broken);
            let mut world = self.world.hold();
            for word in left {
                // The driver may have freed it on another thread meanwhile.
                if let Some(it) = world.blocks.get_mut(&(source.device, word)) {
                    it.orphan = true;
                }
            }
        }
        self.log.emit(subject, What::AllocatorDeleted { word: self.word(source.word) });
        self.release_word(source.word);
    }

    /// A NULL word has no number of its own: it names nothing.
    pub(crate) fn hold_word(&self, word: usize) -> Subject {
        if word == 0 { Kind::Word.nr(0) } else { self.log.hold_word(word) }
    }

    fn word(&self, word: usize) -> Subject {
        if word == 0 { Kind::Word.nr(0) } else { self.log.word(word) }
    }

    pub(crate) fn release_word(&self, word: usize) {
        if word != 0 {
            self.log.release_word(word);
        }
    }
}
