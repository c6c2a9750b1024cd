//! A minidriver that filled in a `KSDEVICE_DESCRIPTOR`, as the class driver's trait.
//!
//! Here it is made or loaded; what it is called for is in `minidriver`, and how in `calls`.
#![expect(unsafe_code, reason = "a table of functions is a promise, not a claim")]

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

/// A minidriver that filled in a `KSDEVICE_DESCRIPTOR`.
///
/// # Invariants
///
/// 1. Whoever filled in the descriptor vouches for it: its pointers lead to what their types say,
///    its functions take what their pages say, and both stay while this value lives.
pub struct KsDriver {
    tables: DeviceTable,
    pool: Arc<Pool>,
    door: Mutex<Option<Arc<Door>>>,
    /// The functions of the allocators that are there, and how many bytes their frames have. Two
    /// may have one context, which is named: each has its own line all the same.
    allocators: Mutex<BTreeMap<AllocatorId, (AllocatorTable, u32)>>,
}

/// `DriverEntry`.
pub(crate) type DriverEntry =
    unsafe extern "win64-unwind" fn(PDRIVER_OBJECT, *mut UNICODE_STRING) -> NTSTATUS;

/// What the driver takes and frees is said to the class driver as well, which knows for whom.
struct PoolAccounting(Arc<Services>);

impl PoolObserver for PoolAccounting {
    fn allocated(&self, block: usize) {
        self.0.add_memory(block);
    }

    fn freeing(&self, block: usize) -> bool {
        // What is no block of its own the pool names, and what is in a bag the bag frees.
        self.0.remove_memory(block) != Err(DriverError::Busy)
    }
}

impl KsDriver {
    /// A driver for one device: `pool` is the memory it takes and frees.
    ///
    /// # Safety
    ///
    /// Invariant 1 holds of the descriptor.
    pub unsafe fn new(
        descriptor: *const KSDEVICE_DESCRIPTOR,
        pool: Arc<Pool>,
    ) -> Result<Arc<Self>, DescriptorError> {
        // SAFETY: The caller promises the same.
        let tables = unsafe { DeviceTable::read(descriptor) }?;
        let (door, allocators) = Default::default();
        Ok(Arc::new(Self { tables, pool, door, allocators }))
    }

    /// The same, of a driver that is loaded: its `DriverEntry` calls `KsInitializeDriver`.
    ///
    /// # Safety
    ///
    /// `entry` takes what its page says, and invariant 1 holds of the descriptor it gives.
    pub unsafe fn load(entry: DriverEntry, pool: Arc<Pool>) -> Result<Arc<Self>, DescriptorError> {
        let object = DriverMemory::new(512);
        let path = UNICODE_STRING::ZERO;
        let run = || {
            pool.run_driver(|| {
                // SAFETY: The caller promises the same.
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
        // SAFETY: The caller promises the same.
        unsafe { Self::new(ptr::with_exposed_provenance(descriptor), pool) }
    }

    /// The driver with frames in its pool, ready for a class driver.
    pub fn set_up(self: &Arc<Self>) -> DriverSetup {
        DriverSetup { minidriver: self.clone(), memory: PoolMemory::new(self.pool.clone()) }
    }

    /// Its pool. Whoever flies it closes that at the end.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How many interfaces the driver has and has not released.
    pub fn clock_interfaces(&self) -> usize {
        self.door().map_or(0, |door| door.inner().clocks.len())
    }

    /// How many frames, and requests of frames and others, the driver is shown.
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
