//! The functions that a kernel-mode driver imports: pool, IRQL, spin locks, events and waits. Also
//! contains the system memory.
//!
//! Pool memory is real memory that is watched: which call allocated it, whether it was freed, and
//! whether it was written to afterwards. A fault is an event, never a crash. Driver code runs
//! inside [`Pool::run_driver`], and the exported functions act on that pool; inside
//! [`processor::run_driver`] it has an IRQL, locks and waits.

pub mod crt;
pub mod crt_format;
pub mod dbg;
mod dispatcher;
mod driver_memory;
mod entry;
pub mod etw;
mod ex;
pub mod ex_list;
pub mod ex_lookaside;
pub mod ex_misc;
mod executive;
mod format;
mod handles;
mod import_table;
pub mod io;
pub mod io_irp;
mod io_layout;
pub mod io_property;
pub mod io_remove_lock;
pub mod kd;
mod ke;
mod memory;
pub mod mm;
pub mod mm_mdl;
pub mod po;
mod pool;
pub mod processor;
mod ram;
mod registry;
pub mod rtl;
pub mod rtl_bitmap;
mod status;
mod waits;
pub mod zw;
pub mod zw_file;
pub mod zw_key;

pub use ex::{
    ExAllocatePool, ExAllocatePool2, ExAllocatePool3, ExAllocatePoolWithQuotaTag,
    ExAllocatePoolWithTag, ExAllocatePoolWithTagPriority, ExAllocatePoolZero, ExFreePool,
    ExFreePoolWithTag, POOL_FLAG_CACHE_ALIGNED, POOL_FLAG_NON_PAGED, POOL_FLAG_NON_PAGED_EXECUTE,
    POOL_FLAG_PAGED, POOL_FLAG_RAISE_ON_FAILURE, POOL_FLAG_UNINITIALIZED, POOL_FLAG_USE_QUOTA,
};
pub use executive::{DeviceControl, DeviceIdentity, Executive, RequestHandler};
pub use import_table::{Import, find_import, imports};
pub use io::DriverObject;
pub use ke::{
    DEVICE_LEVEL, DISPATCH_LEVEL, KIRQL, KeAcquireSpinLockRaiseToDpc, KeClearEvent,
    KeDelayExecutionThread, KeGetCurrentIrql, KeInitializeEvent, KeInitializeSpinLock, KeLowerIrql,
    KeRaiseIrqlToDpcLevel, KeReadStateEvent, KeReleaseSpinLock, KeResetEvent, KeSetEvent,
    KeWaitForSingleObject, KfRaiseIrql, PASSIVE_LEVEL,
};
pub use mm::IoSpace;
pub use pool::{Pool, PoolObserver};
pub use ram::Ram;
pub use registry::RegistryValue;

/// The functions that a driver called on a thread where no driver runs, each once. They found no
/// pool, host or adapter, and did nothing.
pub fn calls_without_context() -> Vec<&'static str> {
    flight::ExecutionContext::calls_without_context()
}
