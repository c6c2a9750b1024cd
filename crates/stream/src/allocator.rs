//! Allocators: how one is chosen, initialised, used for frames, and deleted.
//!
//! # Invariants
//!
//! 1. A pin has at most one allocator, for as long as it is connected.
//! 2. A driver's allocator is initialised once, before anything is allocated. It is deleted once if
//!    and only if the initialisation succeeded, when it has no frame left. Nothing uses it
//!    afterwards.

use crate::driver_calls::{Driver, Entry};
use crate::error::StreamError;
use crate::frame::{Frame, FrameLocation};
use crate::framing::{Framing, FramingRequest};
use crate::memory::{FrameMemory, MemoryKind};
use crate::pin::Connection;
use crate::stream::Stream;
use crate::types::{AllocatorId, DeviceId, FrameId, PinId};
use flight::{EventKind, Kind, Passive, RuleId, Subject, invariant, next_random};
use std::sync::Arc;

/// An allocator: the source of a pin's frames.
pub struct Allocator {
    pub(crate) pin: PinId,
    pub(crate) owner: AllocatorOwner,
    pub(crate) framing: Framing,
    /// It allocates half of the agreed bytes.
    pub(crate) half_size: bool,
    /// The driver handle.
    pub(crate) driver_handle: usize,
}

/// The owner of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocatorOwner {
    /// The minidriver.
    Driver,
    /// The class driver: the default allocator.
    Default,
    /// The other side of the connection, which need not fulfil the pin's framing.
    Client,
}

impl AllocatorOwner {
    /// WINDOWS: a kernel-mode allocator is not used for a user-mode filter, and one that is not
    /// chosen is never called (documented).
    pub(crate) fn choose(has_own: bool, request: &FramingRequest) -> Self {
        match (request.user_mode || request.client_frames, has_own) {
            (true, _) => AllocatorOwner::Client,
            (false, true) => AllocatorOwner::Driver,
            (false, false) => AllocatorOwner::Default,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            AllocatorOwner::Driver => "driver",
            AllocatorOwner::Default => "default",
            AllocatorOwner::Client => "client",
        }
    }
}

/// What calls to an allocator need.
struct AllocatorInfo {
    allocator: AllocatorId,
    device: DeviceId,
    owner: AllocatorOwner,
    framing: Framing,
    half_size: bool,
    driver_handle: usize,
    driver: Arc<Driver>,
    memory: Arc<dyn FrameMemory>,
}

impl AllocatorInfo {
    /// The size of a frame that does not come from the driver's allocator.
    fn frame_size(&self) -> u32 {
        let halves = self.owner == AllocatorOwner::Client && self.half_size;
        if halves { self.framing.bytes / 2 } else { self.framing.bytes }
    }
}

impl Stream {
    /// Creates the allocator of a connection.
    pub(crate) fn create_allocator(
        &self,
        at: &mut Passive,
        pin: PinId,
        connection: Connection,
    ) -> Result<(), StreamError> {
        let Connection { framing, allocator_owner: by, half_size: short, user_mode } = connection;
        let allocator = self.state.lock().allocators.reserve();
        let subject = allocator.subject();
        let chosen = EventKind::AllocatorChosen {
            pin: pin.subject(),
            by: by.name().into(),
            user: user_mode,
        };
        self.log.emit(subject, chosen);
        let word = match by {
            AllocatorOwner::Driver => {
                self.initialize(at, allocator, pin, &framing).inspect_err(|_| {
                    self.state.lock().allocators.cancel(allocator);
                })?
            }
            AllocatorOwner::Default => {
                let broken = (!framing.system_memory).then(|| {
                    format!(
                        "{} uses the default allocator, but its framing does not request system \
                         memory",
                        pin.subject()
                    )
                });
                self.judge(RuleId::KS_ALLOC_025, pin.subject(), "KsCreateDefaultAllocator", broken);
                0
            }
            AllocatorOwner::Client => 0,
        };
        let mut state = self.state.lock();
        let device = |pin: PinId| state.pins[pin].device;
        let of = device(pin);
        let shared = state.allocators.iter().find(|(_, it)| {
            it.owner == AllocatorOwner::Driver
                && by == AllocatorOwner::Driver
                && it.driver_handle == word
                && device(it.pin) == of
        });
        let shared = shared.map(|(other, _)| other.serial());
        if by == AllocatorOwner::Driver {
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
        state.allocators.fill(
            allocator,
            Allocator { pin, owner: by, framing, half_size: short, driver_handle: word },
        );
        state.pins[pin].allocator = Some(allocator);
        let word = self.acquire_pointer(word);
        let Framing { frames, bytes, alignment, .. } = framing;
        let (pin, by) = (pin.subject(), by.name().into());
        self.log.emit(
            subject,
            EventKind::AllocatorReady { pin, driver_handle: word, frames, bytes, alignment, by },
        );
        Ok(())
    }

    fn initialize(
        &self,
        at: &mut Passive,
        allocator: AllocatorId,
        pin: PinId,
        framing: &Framing,
    ) -> Result<usize, StreamError> {
        let call = self.state.lock().pin_call(pin, Entry::InitializeAllocator);
        let (driver, view, _) = call;
        let answer = driver.initialize_allocator(at, allocator, &view, framing);
        let (subject, place) = (allocator.subject(), Entry::InitializeAllocator.name());
        match answer {
            Ok(driver_handle) => Ok(driver_handle.value()),
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
                self.log.emit(subject, EventKind::AllocatorFailed { why: why.name() });
                Err(why.into())
            }
        }
    }

    fn blocks_of(&self, pin: PinId, allocator: AllocatorId) -> Vec<usize> {
        let state = self.state.lock();
        let device = state.pins[pin].device;
        state.blocks_where(device, |block| block.allocator == Some(allocator))
    }

    fn free_blocks(&self, pin: PinId, words: &[usize]) {
        let memory = {
            let mut state = self.state.lock();
            let device = state.pins[pin].device;
            for word in words {
                state.blocks.remove(&(device, *word));
            }
            state.devices[device].memory.clone()
        };
        for word in words {
            memory.free(*word);
        }
    }

    /// The allocator of a connected pin.
    fn allocator_info(&self, pin: PinId) -> AllocatorInfo {
        let state = self.state.lock();
        let it = &state.pins[pin];
        let allocator = invariant(it.allocator, "a connected pin has an allocator");
        let device = &state.devices[it.device];
        let Allocator { owner: by, framing, half_size: short, driver_handle: word, .. } =
            state.allocators[allocator];
        AllocatorInfo {
            allocator,
            device: it.device,
            owner: by,
            framing,
            half_size: short,
            driver_handle: word,
            driver: device.driver.clone(),
            memory: device.memory.clone(),
        }
    }

    /// Allocates the frames of a pin: the agreed number, or as many as can be allocated.
    pub(crate) fn allocate_frames(&self, at: &mut Passive, pin: PinId) -> Result<(), StreamError> {
        let source = self.allocator_info(pin);
        let mut had = 0;
        for _ in 0..source.framing.frames {
            let Some(word) = self.allocate_one_frame(at, &source) else { break };
            let Some(bytes) = self.validate_frame(&source, word) else { continue };
            had += 1;
            let mut state = self.state.lock();
            let allocator = Some(source.allocator);
            let frame = state.add_frame(Frame::new(pin, allocator, word, bytes));
            state.freed_frames.remove(&(source.device, word));
            let (word, allocator) = (self.acquire_pointer(word), source.allocator.subject());
            let pin = pin.subject();
            let blocks_allocated =
                EventKind::FrameCreated { allocator: Some(allocator), pin, pointer: word, bytes };
            self.log.emit(frame.subject(), blocks_allocated);
        }
        if had == 0 {
            let allocator = source.allocator.subject();
            self.log.emit(pin.subject(), EventKind::FrameUnavailable { allocator });
            return Err(StreamError::NoFrames);
        }
        Ok(())
    }

    fn allocate_one_frame(&self, at: &mut Passive, source: &AllocatorInfo) -> Option<usize> {
        let Framing { bytes, alignment, kind, .. } = source.framing;
        match source.owner {
            AllocatorOwner::Driver => {
                let subject = source.allocator.subject();
                let allocator = (source.allocator, source.driver_handle);
                let before = self.host.now();
                let word = source.driver.allocate(at, allocator, self.uses_dispatch_level(source));
                let now = self.host.now();
                let broken = (now != before).then(|| {
                    format!("{subject} blocked for {} ns to allocate a frame", (now - before) * 100)
                });
                self.judge(RuleId::KS_ALLOC_007, subject, Entry::Allocate.name(), broken);
                word.map(|driver_handle| driver_handle.value())
            }
            AllocatorOwner::Default => source.memory.allocate(bytes, alignment, kind),
            // WINDOWS: framing is a request (documented): a user's buffers need not be aligned.
            AllocatorOwner::Client => {
                source.memory.allocate(source.frame_size(), 0, MemoryKind::User)
            }
        }
    }

    /// Whether this frame is allocated or freed at dispatch level.
    ///
    /// WINDOWS: a page states that allocators with function tables work at dispatch level; no page
    /// states at which level they are called. Our decision (D-18): at passive level, and under
    /// pressure at both levels, if the framing requests nonpaged memory.
    fn uses_dispatch_level(&self, source: &AllocatorInfo) -> bool {
        let mut state = self.state.lock();
        let pressure =
            state.pressure.as_mut().filter(|_| source.framing.kind == MemoryKind::NonPaged);
        pressure.is_some_and(|value| next_random(value, 2) == 0)
    }

    /// Judges a frame that a driver allocated. Returns its size in bytes, if it can be used.
    fn validate_frame(&self, source: &AllocatorInfo, word: usize) -> Option<u32> {
        let Framing { bytes, alignment, kind, .. } = source.framing;
        if source.owner != AllocatorOwner::Driver {
            return Some(source.frame_size());
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
            Some((_, of)) if !of.satisfies(kind) => Some(format!(
                "a frame of {subject} is in {} memory, and {} is needed",
                of.name(),
                kind.name()
            )),
            _ => None,
        };
        self.judge(RuleId::KS_ALLOC_006, subject, place, broken);
        let state = self.state.lock();
        let broken = state
            .frame_at(source.device, word)
            .map(FrameId::serial)
            .map(|frame| format!("{subject} handed out frame {frame} again, which is outstanding"));
        let twice = broken.is_some();
        self.judge(RuleId::KS_ALLOC_008, subject, place, broken);
        let usable = extent.map_or(bytes, |(there, _)| there.min(bytes));
        (!twice).then_some(usable)
    }

    /// Frees all frames of a pin. All of them have been returned to the pin.
    pub(crate) fn free_frames(&self, at: &mut Passive, pin: PinId) {
        let source = self.allocator_info(pin);
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.pins[pin].frames.first().copied();
                next.map(|frame| {
                    let it = &mut state.frames[frame];
                    it.location = FrameLocation::Idle;
                    (frame, it.address, it.injected)
                })
            };
            let Some((frame, word, injected)) = next else { return };
            if let Some(context) = injected {
                source.driver.frame_returned(at, pin, word, context);
            } else {
                let allocator = (source.allocator, source.driver_handle);
                match source.owner {
                    AllocatorOwner::Driver => {
                        let raises = self.uses_dispatch_level(&source);
                        source.driver.free_frame(at, allocator, (frame, word), raises);
                    }
                    AllocatorOwner::Default | AllocatorOwner::Client => {
                        source.memory.free(word);
                    }
                }
            }
            let mut state = self.state.lock();
            state.remove_frame(frame);
            if injected.is_none() {
                state.freed_frames.insert((source.device, word));
            }
            self.log.emit(frame.subject(), EventKind::FrameFreed {});
            self.release_pointer(word);
            drop(state);
            source.driver.object_removed(frame.into());
        }
    }

    /// Deletes the allocator of a pin, whose frames are freed.
    pub(crate) fn delete_allocator(&self, at: &mut Passive, pin: PinId) {
        let source = self.allocator_info(pin);
        let subject = source.allocator.subject();
        {
            let mut state = self.state.lock();
            state.allocators.remove(source.allocator);
            state.pins[pin].allocator = None;
            let mut frames = state.frames_of(pin);
            let home = !frames.any(|(_, it)| it.allocator == Some(source.allocator));
            drop(frames);
            self.log.emit(subject, EventKind::AllocatorEnding { frames_returned: home });
        }
        if source.owner == AllocatorOwner::Driver {
            source.driver.delete_allocator(at, source.allocator, source.driver_handle);
            let left = self.blocks_of(pin, source.allocator);
            let broken = (!left.is_empty()).then(|| {
                format!("{subject} was deleted, and {} pieces of its memory are left", left.len())
            });
            let place = Entry::DeleteAllocator.name();
            self.judge(RuleId::KS_ALLOC_014, subject, place, broken);
            let mut state = self.state.lock();
            for word in left {
                // The driver may have freed it on another thread meanwhile.
                if let Some(it) = state.blocks.get_mut(&(source.device, word)) {
                    it.allocator_deleted = true;
                }
            }
        }
        self.log.emit(
            subject,
            EventKind::AllocatorDeleted {
                driver_handle: self.pointer_subject(source.driver_handle),
            },
        );
        self.release_pointer(source.driver_handle);
    }

    /// A NULL driver handle has no number of its own: it identifies nothing.
    pub(crate) fn acquire_pointer(&self, word: usize) -> Subject {
        if word == 0 { Kind::DriverPointer.subject(0) } else { self.log.acquire_pointer(word) }
    }

    fn pointer_subject(&self, word: usize) -> Subject {
        if word == 0 { Kind::DriverPointer.subject(0) } else { self.log.pointer_subject(word) }
    }

    pub(crate) fn release_pointer(&self, word: usize) {
        if word != 0 {
            self.log.release_pointer(word);
        }
    }
}
