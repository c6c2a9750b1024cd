//! The driver's record of one allocation.

use crate::engine::Target;
use crate::memory::Memory;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The size of an allocation and the location of its bytes.
#[derive(Debug)]
pub(crate) struct Allocation {
    driver_handle: usize,
    size: u64,
    /// Without GPU memory: the bytes, owned by the driver.
    own_memory: Option<Arc<Memory>>,
    /// With GPU memory: the GPU address, while the allocation is resident.
    address: Mutex<Option<u64>>,
    /// The allocation was resident at least once.
    was_resident: AtomicBool,
}

impl Allocation {
    /// An allocation whose bytes the driver owns.
    pub(crate) fn with_memory(driver_handle: usize, size: u64) -> Self {
        Self {
            own_memory: Some(Arc::new(Memory::new(size))),
            ..Self::without_memory(driver_handle, size)
        }
    }

    /// An allocation that is not resident yet.
    pub(crate) fn without_memory(driver_handle: usize, size: u64) -> Self {
        Self {
            driver_handle,
            size,
            own_memory: None,
            address: Mutex::default(),
            was_resident: AtomicBool::new(false),
        }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes, if the driver owns them.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        self.own_memory.as_ref()
    }

    /// The current GPU address, if resident.
    pub(crate) fn address(&self) -> Option<u64> {
        *self.address.lock()
    }

    /// Whether the allocation was ever resident.
    pub(crate) fn was_resident(&self) -> bool {
        self.was_resident.load(SeqCst)
    }

    /// Sets the address at which the allocation became resident.
    pub(crate) fn set_resident(&self, address: u64) {
        self.was_resident.store(true, SeqCst);
        *self.address.lock() = Some(address);
    }

    /// Clears the address if it is `address`; a different address stays.
    pub(crate) fn set_evicted(&self, address: u64) {
        let mut place = self.address.lock();
        if *place == Some(address) {
            *place = None;
        }
    }

    /// The allocation as a memory operand of a command.
    pub(crate) fn target(&self) -> Target {
        Target { driver_handle: Some(self.driver_handle), address: self.address(), size: self.size }
    }
}
