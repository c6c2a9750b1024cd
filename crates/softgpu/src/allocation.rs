//! An allocation as the driver knows it.

use crate::engine::Target;
use crate::memory::Memory;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Its size, and where its bytes are.
#[derive(Debug)]
pub(crate) struct Allocation {
    driver_handle: usize,
    size: u64,
    /// On an adapter without memory: the driver's own.
    own_memory: Option<Arc<Memory>>,
    /// On one with memory: where it is in the GPU's addresses, while it is there.
    address: Mutex<Option<u64>>,
    /// It was there at some time.
    was_resident: AtomicBool,
}

impl Allocation {
    /// One with memory of the driver's own.
    pub(crate) fn with_memory(driver_handle: usize, size: u64) -> Self {
        Self {
            own_memory: Some(Arc::new(Memory::new(size))),
            ..Self::without_memory(driver_handle, size)
        }
    }

    /// One that is nowhere yet.
    pub(crate) fn without_memory(driver_handle: usize, size: u64) -> Self {
        Self {
            driver_handle: driver_handle,
            size,
            own_memory: None,
            address: Mutex::default(),
            was_resident: AtomicBool::new(false),
        }
    }

    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The driver's own memory of it.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        self.own_memory.as_ref()
    }

    /// Where it is.
    pub(crate) fn address(&self) -> Option<u64> {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was there at any time.
    pub(crate) fn was_resident(&self) -> bool {
        self.was_resident.load(SeqCst)
    }

    /// It has come to this address.
    pub(crate) fn set_resident(&self, address: u64) {
        self.was_resident.store(true, SeqCst);
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// It leaves this address; if it is elsewhere, it stays there.
    pub(crate) fn set_evicted(&self, address: u64) {
        let mut place = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        if *place == Some(address) {
            *place = None;
        }
    }

    /// It, for a command.
    pub(crate) fn target(&self) -> Target {
        Target { driver_handle: Some(self.driver_handle), address: self.address(), size: self.size }
    }
}
