//! Implements the class driver's trait for a minidriver that registered a `KSDEVICE_DESCRIPTOR`.
//!
//! This module creates or loads it; `minidriver` has the trait's methods, and `calls` the calls of
//! the driver's functions.
#![expect(unsafe_code, reason = "the functions of a driver's table are trusted")]

mod calls;
mod minidriver;

use crate::ks::descriptor::{AllocatorTable, DeviceTable};
use crate::ks::device_calls;
use crate::ks::door::Door;
use crate::ks::driver_memory::DriverMemory;
use crate::ks::memory::PoolMemory;
use crate::ks::status::result_from_status;
use abi::ks::KSDEVICE_DESCRIPTOR;
use abi::{NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};
use nt::{Pool, PoolObserver};
use std::collections::BTreeMap;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::{AllocatorId, DescriptorError, DriverError, DriverResult, DriverSetup, Services};

/// A minidriver that registered a `KSDEVICE_DESCRIPTOR`.
///
/// # Invariants
///
/// 1. The creator of the descriptor vouches for it: its pointers point to values of their types,
///    its functions behave as documented, and both stay valid while this value exists.
pub struct KsDriver {
    tables: DeviceTable,
    pool: Arc<Pool>,
    door: Mutex<Option<Arc<Door>>>,
    /// The functions of the live allocators, and the size of their frames. Two allocators may have
    /// the same context, so the key is the allocator's id.
    allocators: Mutex<BTreeMap<AllocatorId, (AllocatorTable, u32)>>,
}

/// `DriverEntry`.
pub(crate) type DriverEntry =
    unsafe extern "win64-unwind" fn(PDRIVER_OBJECT, *mut UNICODE_STRING) -> NTSTATUS;

/// Forwards the driver's pool calls to the class driver, which accounts for them.
struct PoolAccounting(Arc<Services>);

impl PoolObserver for PoolAccounting {
    fn allocated(&self, block: usize) {
        self.0.add_memory(block);
    }

    fn freeing(&self, block: usize) -> bool {
        // The pool reports a block that is not the driver's; a block in a bag is freed by the bag.
        self.0.remove_memory(block) != Err(DriverError::Busy)
    }
}

impl KsDriver {
    /// Creates a driver for one device: `pool` is the pool that it allocates from.
    ///
    /// # Safety
    ///
    /// Invariant 1 holds for the descriptor.
    pub unsafe fn new(
        descriptor: *const KSDEVICE_DESCRIPTOR,
        pool: Arc<Pool>,
    ) -> Result<Arc<Self>, DescriptorError> {
        // SAFETY: The caller guarantees the same.
        let tables = unsafe { DeviceTable::read(descriptor) }?;
        let (door, allocators) = Default::default();
        Ok(Arc::new(Self { tables, pool, door, allocators }))
    }

    /// Loads a driver: its `DriverEntry` calls `KsInitializeDriver`.
    ///
    /// # Safety
    ///
    /// `entry` behaves as documented, and invariant 1 holds for the descriptor that it registers.
    pub unsafe fn load(entry: DriverEntry, pool: Arc<Pool>) -> Result<Arc<Self>, DescriptorError> {
        let object = DriverMemory::new(512);
        let path = UNICODE_STRING::ZERO;
        let run = || {
            pool.run_driver(|| {
                // SAFETY: The caller guarantees the same.
                unsafe { entry(object.pointer(), ptr::from_ref(&path).cast_mut()) }
            })
        };
        let (status, given) = device_calls::run_driver_entry(object.address(), run);
        if let Err(why) = result_from_status(status) {
            return Err(DescriptorError(format!("DriverEntry failed: {}", why.name())));
        }
        let Some(descriptor) = given else {
            let why = "DriverEntry did not call KsInitializeDriver with a descriptor";
            return Err(DescriptorError(why.to_owned()));
        };
        // SAFETY: The caller guarantees the same.
        unsafe { Self::new(ptr::with_exposed_provenance(descriptor), pool) }
    }

    /// The driver with frames in its pool, ready for a class driver.
    pub fn set_up(self: &Arc<Self>) -> DriverSetup {
        DriverSetup { minidriver: self.clone(), memory: PoolMemory::new(self.pool.clone()) }
    }

    /// Its pool. The owner of the flight closes it at the end.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How many clock interfaces the driver has not released.
    pub fn clock_interfaces(&self) -> usize {
        self.door().map_or(0, |door| door.inner().clocks.len())
    }

    /// How many frames, and how many requests, the driver currently sees.
    pub fn shown_counts(&self) -> (usize, usize) {
        self.door().map_or((0, 0), |door| {
            let inner = door.inner();
            (inner.frames.len(), inner.requests.len())
        })
    }

    fn door(&self) -> DriverResult<Arc<Door>> {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).clone();
        door.ok_or(DriverError::Invalid)
    }

    fn allocators(&self) -> MutexGuard<'_, BTreeMap<AllocatorId, (AllocatorTable, u32)>> {
        self.allocators.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KsDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters = self.tables.filters.len();
        f.debug_struct("KsDriver").field("filters", &filters).finish_non_exhaustive()
    }
}
