//! The functions that a kernel-mode driver imports: pool, IRQL, spin locks, events and waits. Also
//! contains the system memory.
//!
//! Pool memory is real memory that is watched: which call allocated it, whether it was freed, and
//! whether it was written to afterwards. A fault is an event, never a crash. Driver code runs
//! inside [`Pool::run_driver`], and the exported functions act on that pool; inside
//! [`processor::run_driver`] it has an IRQL, locks and waits.

mod abandon;
pub mod clock;
mod control_state;
pub mod crt;
pub mod crt_format;
mod crt_memory;
pub mod dbg;
mod device_request;
mod dispatcher;
mod dpc_queue;
mod driver_memory;
mod ended_locks;
mod entry;
pub mod etw;
mod ex;
pub mod ex_list;
pub mod ex_lookaside;
pub mod ex_misc;
pub mod ex_mutex;
pub mod ex_resource;
pub mod ex_spin_lock;
mod executive;
mod format;
mod guard;
mod handles;
mod held_locks;
pub mod image;
mod import_irql;
mod import_table;
pub mod io;
pub mod io_irp;
mod io_layout;
pub mod io_property;
pub mod io_remove_lock;
pub mod kd;
mod ke_bugcheck;
pub mod ke_callback;
pub mod ke_dpc;
pub mod ke_event;
pub mod ke_irql;
pub mod ke_mutex;
pub mod ke_spin_lock;
pub mod ke_thread;
pub mod ke_time;
pub mod ke_timer;
pub mod ke_wait;
mod lock_order;
mod machine;
mod memory;
pub mod mm;
pub mod mm_mdl;
mod no_memory;
pub mod ob;
mod owned;
mod paged;
pub mod po;
mod pool;
pub mod processor;
pub mod ps;
mod raised_time;
mod ram;
mod registry;
pub mod rtl;
pub mod rtl_bitmap;
pub mod rtl_registry;
pub mod rtl_security;
pub mod rtl_string;
mod shown_memory;
mod status;
#[cfg(test)]
mod testing;
mod waits;
pub mod work_items;
mod work_queue;
pub mod zw;
pub mod zw_file;
pub mod zw_key;

pub use control_state::{ControlChange, keep_control_state};
pub use device_request::DeviceRequest;
pub use ex::{
    ExAllocatePool, ExAllocatePool2, ExAllocatePool3, ExAllocatePoolWithQuotaTag,
    ExAllocatePoolWithTag, ExAllocatePoolWithTagPriority, ExAllocatePoolZero, ExFreePool,
    ExFreePoolWithTag, POOL_FLAG_CACHE_ALIGNED, POOL_FLAG_NON_PAGED, POOL_FLAG_NON_PAGED_EXECUTE,
    POOL_FLAG_PAGED, POOL_FLAG_RAISE_ON_FAILURE, POOL_FLAG_UNINITIALIZED, POOL_FLAG_USE_QUOTA,
};
pub use executive::{DeviceControl, DeviceIdentity, Executive, RequestHandler};
pub use guard::{BlockKind, Guard, MissedBlock};
pub use import_irql::{ImportIrql, irql_of};
pub use import_table::{Import, find_import, imports};
pub use io::DriverObject;
pub use ke_event::{KeClearEvent, KeInitializeEvent, KeReadStateEvent, KeResetEvent, KeSetEvent};
pub use ke_irql::{
    APC_LEVEL, DEVICE_LEVEL, DISPATCH_LEVEL, KIRQL, KeGetCurrentIrql, KeLowerIrql,
    KeRaiseIrqlToDpcLevel, KfRaiseIrql, PASSIVE_LEVEL,
};
pub use ke_spin_lock::{KeAcquireSpinLockRaiseToDpc, KeInitializeSpinLock, KeReleaseSpinLock};
pub use ke_wait::{KeDelayExecutionThread, KeWaitForMultipleObjects, KeWaitForSingleObject};
pub use machine::{DriverThread, driver_threads, left_things};
pub use mm::IoSpace;
pub use no_memory::{
    ExitWithoutMemory, FLIGHT_WITHOUT_MEMORY, end_unless_threads_can_begin, set_flight_exit_status,
};
pub use owned::{Origin, OwnedKind, Scope};
pub use paged::protect_paged_memory;
pub use pool::{Pool, PoolObserver};
pub use raised_time::judge_dpc;
pub use ram::{FilePiece, Ram, SharedWindow, find_window, observe_windows, open_to_read};
pub use registry::RegistryValue;
pub use shown_memory::{ShownMemory, guard_memory, memory_seed};

/// The functions that a driver called on a thread where no driver runs, each once. They found no
/// pool, host or adapter, and did nothing.
pub fn calls_without_context() -> Vec<&'static str> {
    flight::ExecutionContext::calls_without_context()
}
