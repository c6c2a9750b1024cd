//! An allocation as the driver knows it.

use crate::engine::Target;
use crate::memory::Memory;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Its size, and where its bytes are.
#[derive(Debug)]
pub(crate) struct Allocation {
    word: usize,
    size: u64,
    /// On an adapter without memory: the driver's own.
    own: Option<Arc<Memory>>,
    /// On one with memory: where it is in the GPU's addresses, while it is there.
    place: Mutex<Option<u64>>,
    /// It was there at some time.
    seen: AtomicBool,
}

impl Allocation {
    /// One with memory of the driver's own.
    pub(crate) fn own(word: usize, size: u64) -> Self {
        Self { own: Some(Arc::new(Memory::new(size))), ..Self::absent(word, size) }
    }

    /// One that is nowhere yet.
    pub(crate) fn absent(word: usize, size: u64) -> Self {
        Self { word, size, own: None, place: Mutex::default(), seen: AtomicBool::new(false) }
    }

    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The driver's own memory of it.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        self.own.as_ref()
    }

    /// Where it is.
    pub(crate) fn place(&self) -> Option<u64> {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was there at any time.
    pub(crate) fn was_there(&self) -> bool {
        self.seen.load(SeqCst)
    }

    /// It has come to this address.
    pub(crate) fn comes(&self, address: u64) {
        self.seen.store(true, SeqCst);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// It leaves this address; if it is elsewhere, it stays there.
    pub(crate) fn leaves(&self, address: u64) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if *place == Some(address) {
            *place = None;
        }
    }

    /// It, for a command.
    pub(crate) fn target(&self) -> Target {
        Target { word: Some(self.word), address: self.place(), size: self.size }
    }
}
