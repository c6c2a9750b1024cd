//! A source whose allocator gives other contexts or other frames than it should.

use super::capture::Capture;
use super::inner::lock;
use flight::Passive;
use std::sync::Mutex;
use stream::{
    AllocatorId, Answer, Blank, DriverAllocator, DriverFrame, FrameId, Framing, Minidriver, PinView,
};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bend {
    /// It has no context.
    NoContext,
    /// All have the same.
    SharedContext,
    /// A byte is missing.
    Short,
    /// It is always the same.
    Twice,
}

/// The source, and the frame that it gives again and again.
pub(crate) struct Crooked {
    under: Capture,
    bend: Bend,
    again: Mutex<Option<usize>>,
    /// How many bytes and which alignment were agreed on last, and which memory.
    agreed: Mutex<Option<Framing>>,
}

impl Crooked {
    pub(crate) fn new(bend: Bend) -> Self {
        Self { under: Capture::new(), bend, again: Mutex::default(), agreed: Mutex::default() }
    }

    fn frame(&self) -> Option<usize> {
        let services = self.under.services().ok()?;
        let Framing { bytes, alignment, kind, .. } = (*lock(&self.agreed))?;
        let make = |bytes| services.make_memory(bytes, alignment, kind);
        match self.bend {
            Bend::NoContext | Bend::SharedContext => make(bytes),
            Bend::Short => make(bytes - 1),
            Bend::Twice => {
                let mut again = lock(&self.again);
                *again = again.or_else(|| make(bytes));
                *again
            }
        }
    }
}

impl Minidriver for Crooked {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.under)
    }

    fn initialize_allocator(
        &self,
        at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        word: Blank<'_, AllocatorId>,
    ) -> Answer<DriverAllocator> {
        *lock(&self.agreed) = Some(*framing);
        match self.bend {
            Bend::NoContext => Ok(word.fill(0)),
            Bend::SharedContext => Ok(word.fill(0x77)),
            _ => self.under.initialize_allocator(at, pin, framing, word),
        }
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        word: Blank<'_, FrameId>,
    ) -> Option<DriverFrame> {
        self.frame().map(|it| word.fill(it))
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        let word = frame.word();
        let mut again = lock(&self.again);
        *again = again.filter(|it| *it != word);
        if let Ok(services) = self.under.services() {
            let _ = services.free_memory(word); // It is its own.
        }
    }
}
