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
use crate::types::{AllocatorId, DeviceId, DriverAllocator, DriverFrame, FrameId, PinId};
use flight::{EventKind, Kind, Passive, RuleId, Subject, invariant, next_random};
use std::sync::Arc;

/// An allocator: the source of a pin's frames.
pub struct Allocator {
    pub(crate) pin: PinId,
    pub(crate) owner: AllocatorOwner,
    pub(crate) framing: Framing,
    /// It allocates half of the agreed bytes.
    pub(crate) half_size: bool,
    /// The driver handle, if it is the driver's.
    pub(crate) driver_handle: Option<Arc<DriverAllocator>>,
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
    driver_handle: Option<Arc<DriverAllocator>>,
    driver: Arc<Driver>,
    memory: Arc<dyn FrameMemory>,
}

impl AllocatorInfo {
    /// The allocator, for calls of its driver.
    fn lent(&self) -> (AllocatorId, &DriverAllocator) {
        let handle = self.driver_handle.as_deref();
        (self.allocator, invariant(handle, "a driver's allocator has a driver handle"))
    }

    /// The size of a frame that does not come from the driver's allocator.
    fn frame_size(&self) -> u32 {
        let halves = self.owner == AllocatorOwner::Client && self.half_size;
        if halves { self.framing.bytes / 2 } else { self.framing.bytes }
    }
}

/// The value of an allocator's driver handle: NULL if it is not the driver's.
fn raw(driver_handle: Option<&DriverAllocator>) -> usize {
    driver_handle.map_or(0, DriverAllocator::as_raw)
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
        self.log.emit(subject, || EventKind::AllocatorChosen {
            pin: pin.subject(),
            by: by.name().into(),
            user: user_mode,
        });
        let own = match by {
            AllocatorOwner::Driver => {
                let own = self.initialize(at, allocator, pin, &framing).inspect_err(|_| {
                    self.state.lock().allocators.cancel(allocator);
                })?;
                Some(Arc::new(own))
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
                None
            }
            AllocatorOwner::Client => None,
        };
        let word = raw(own.as_deref());
        let mut state = self.state.lock();
        let device = |pin: PinId| state.pins[pin].device;
        let of = device(pin);
        let shared = state.allocators.iter().find(|(_, it)| {
            it.owner == AllocatorOwner::Driver
                && by == AllocatorOwner::Driver
                && raw(it.driver_handle.as_deref()) == word
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
            Allocator { pin, owner: by, framing, half_size: short, driver_handle: own },
        );
        state.pins[pin].allocator = Some(allocator);
        let word = self.acquire_pointer(word);
        let Framing { frames, bytes, alignment, .. } = framing;
        let (pin, by) = (pin.subject(), by.name().into());
        self.log.emit(subject, || EventKind::AllocatorReady {
            pin,
            driver_handle: word,
            frames,
            bytes,
            alignment,
            by,
        });
        Ok(())
    }

    fn initialize(
        &self,
        at: &mut Passive,
        allocator: AllocatorId,
        pin: PinId,
        framing: &Framing,
    ) -> Result<DriverAllocator, StreamError> {
        let call = self.state.lock().pin_call(pin, Entry::InitializeAllocator);
        let (driver, view, _) = call;
        let answer = driver.initialize_allocator(at, allocator, &view, framing);
        let (subject, place) = (allocator.subject(), Entry::InitializeAllocator.name());
        answer.map_err(|why| {
            let left = self.blocks_of(pin, allocator);
            let broken = (!left.is_empty()).then(|| {
                format!(
                    "{} pieces of memory are left of an allocator whose initialisation failed",
                    left.len()
                )
            });
            self.judge(RuleId::KS_ALLOC_004, subject, place, broken);
            self.free_blocks(pin, &left);
            self.log.emit(subject, || EventKind::AllocatorFailed { why: why.name() });
            why.into()
        })
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
        let Allocator { owner, framing, half_size, driver_handle, .. } =
            &state.allocators[allocator];
        AllocatorInfo {
            allocator,
            device: it.device,
            owner: *owner,
            framing: *framing,
            half_size: *half_size,
            driver_handle: driver_handle.clone(),
            driver: device.driver.clone(),
            memory: device.memory.clone(),
        }
    }

    /// Allocates the frames of a pin: the agreed number, or as many as can be allocated.
    pub(crate) fn allocate_frames(&self, at: &mut Passive, pin: PinId) -> Result<(), StreamError> {
        let source = self.allocator_info(pin);
        let mut had = 0;
        for _ in 0..source.framing.frames {
            let Some((word, own)) = self.allocate_one_frame(at, &source) else { break };
            // A driver may return the memory of another frame: that is judged, and not used.
            let Some(bytes) = self.validate_frame(&source, word) else { continue };
            had += 1;
            let mut state = self.state.lock();
            let allocator = Some(source.allocator);
            let mut frame = Frame::new(pin, allocator, word, bytes);
            frame.driver_handle = own;
            let frame = state.add_frame(frame);
            state.freed_frames.remove(&(source.device, word));
            let (word, allocator) = (self.acquire_pointer(word), source.allocator.subject());
            let pin = pin.subject();
            self.log.emit(frame.subject(), || EventKind::FrameCreated {
                allocator: Some(allocator),
                pin,
                pointer: word,
                bytes,
            });
        }
        if had == 0 {
            let allocator = source.allocator.subject();
            self.log.emit(pin.subject(), || EventKind::FrameUnavailable { allocator });
            return Err(StreamError::NoFrames);
        }
        Ok(())
    }

    /// Allocates a frame. Returns its address, and the driver handle if its driver allocated it.
    fn allocate_one_frame(
        &self,
        at: &mut Passive,
        source: &AllocatorInfo,
    ) -> Option<(usize, Option<DriverFrame>)> {
        let Framing { bytes, alignment, kind, .. } = source.framing;
        match source.owner {
            AllocatorOwner::Driver => {
                let subject = source.allocator.subject();
                let before = self.host.now();
                let raises = self.uses_dispatch_level(source);
                let frame = source.driver.allocate(at, source.lent(), raises);
                let now = self.host.now();
                let broken = (now != before).then(|| {
                    format!("{subject} blocked for {} ns to allocate a frame", (now - before) * 100)
                });
                self.judge(RuleId::KS_ALLOC_007, subject, Entry::Allocate.name(), broken);
                frame.map(|handle| (handle.as_raw(), Some(handle)))
            }
            AllocatorOwner::Default => {
                source.memory.allocate(bytes, alignment, kind).map(|address| (address, None))
            }
            // WINDOWS: framing is a request (documented): a user's buffers need not be aligned.
            AllocatorOwner::Client => {
                let address = source.memory.allocate(source.frame_size(), 0, MemoryKind::User);
                address.map(|address| (address, None))
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
                    (frame, it.address, it.injected, it.driver_handle.take())
                })
            };
            // All frames are freed.
            let Some((frame, word, injected, own)) = next else { return };
            if let Some(context) = injected {
                source.driver.frame_returned(at, pin, word, context);
            } else {
                match source.owner {
                    AllocatorOwner::Driver => {
                        let raises = self.uses_dispatch_level(&source);
                        let own = invariant(own, "a driver's frame has a driver handle");
                        source.driver.free_frame(at, source.lent(), (frame, own), raises);
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
            self.log.emit(frame.subject(), || EventKind::FrameFreed {});
            self.release_pointer(word);
            drop(state);
            source.driver.object_removed(frame.into());
        }
    }

    /// Deletes the allocator of a pin, whose frames are freed.
    pub(crate) fn delete_allocator(&self, at: &mut Passive, pin: PinId) {
        let source = self.allocator_info(pin);
        let subject = source.allocator.subject();
        let word = raw(source.driver_handle.as_deref());
        {
            let mut state = self.state.lock();
            state.allocators.remove(source.allocator);
            state.pins[pin].allocator = None;
            let mut frames = state.frames_of(pin);
            let home = !frames.any(|(_, it)| it.allocator == Some(source.allocator));
            drop(frames);
            self.log.emit(subject, || EventKind::AllocatorEnding { frames_returned: home });
        }
        if source.owner == AllocatorOwner::Driver {
            // Every use of the allocator holds the control mutex, as this thread does.
            let own = source.driver_handle.and_then(Arc::into_inner);
            let own = invariant(own, "an allocator that is deleted is not in use");
            source.driver.delete_allocator(at, source.allocator, own);
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
        self.log.emit(subject, || EventKind::AllocatorDeleted {
            driver_handle: self.pointer_subject(word),
        });
        self.release_pointer(word);
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
