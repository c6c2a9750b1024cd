//! Capture sources whose allocator returns wrong contexts or wrong frames.

use super::capture::Capture;
use super::capture_state::lock;
use flight::Passive;
use std::sync::Mutex;
use stream::{
    AllocatorId, DriverAllocator, DriverFrame, DriverResult, FrameId, Framing, HandleSlot,
    Minidriver, PinView,
};

/// What the allocator does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocatorFlaw {
    /// The allocator has no context.
    NoContext,
    /// All allocators have the same context.
    SharedContext,
    /// A frame is one byte too small.
    Short,
    /// The allocator always returns the same frame.
    Twice,
}

/// The capture source, and the frame that it returns again.
pub(crate) struct AllocatorFlawDriver {
    under: Capture,
    flaw: AllocatorFlaw,
    repeated_frame: Mutex<Option<usize>>,
    /// The bytes, alignment and memory of the last agreed framing.
    agreed: Mutex<Option<Framing>>,
}

impl AllocatorFlawDriver {
    pub(crate) fn new(flaw: AllocatorFlaw) -> Self {
        Self {
            under: Capture::new(),
            flaw,
            repeated_frame: Mutex::default(),
            agreed: Mutex::default(),
        }
    }

    fn frame(&self) -> Option<usize> {
        let services = self.under.services().ok()?;
        let Framing { bytes, alignment, kind, .. } = (*lock(&self.agreed))?;
        let make = |bytes| services.allocate_memory(bytes, alignment, kind);
        match self.flaw {
            AllocatorFlaw::NoContext | AllocatorFlaw::SharedContext => make(bytes),
            AllocatorFlaw::Short => make(bytes - 1),
            AllocatorFlaw::Twice => {
                let mut repeated_frame = lock(&self.repeated_frame);
                *repeated_frame = repeated_frame.or_else(|| make(bytes));
                *repeated_frame
            }
        }
    }
}

impl Minidriver for AllocatorFlawDriver {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.under)
    }

    fn initialize_allocator(
        &self,
        at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        slot: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        *lock(&self.agreed) = Some(*framing);
        match self.flaw {
            AllocatorFlaw::NoContext => Ok(slot.fill(0)),
            AllocatorFlaw::SharedContext => Ok(slot.fill(0x77)),
            _ => self.under.initialize_allocator(at, pin, framing, slot),
        }
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        slot: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        self.frame().map(|index| slot.fill(index))
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        let block = frame.as_raw();
        let mut repeated_frame = lock(&self.repeated_frame);
        *repeated_frame = repeated_frame.filter(|index| *index != block);
        if let Ok(services) = self.under.services() {
            let _ = services.free_memory(block); // The block is its own.
        }
    }
}
