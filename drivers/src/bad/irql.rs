//! Bad drivers: IRQLs, spin locks and waits. One driver uses them correctly.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{create_allocation, destroy_allocation};
use crate::table::GOOD;
use crate::view::open_allocation;
use abi::display::{DXGKARG_CREATEALLOCATION, DXGKARG_DESTROYALLOCATION, DXGKARG_OPENALLOCATION};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};
use nt::{
    KeAcquireSpinLockRaiseToDpc, KeDelayExecutionThread, KeLowerIrql, KeRaiseIrqlToDpcLevel,
    KeReleaseSpinLock, PASSIVE_LEVEL,
};
use std::sync::atomic::AtomicUsize;

pub(crate) const RETURNS_AT_DISPATCH_LEVEL: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(returns_at_dispatch_level), ..GOOD };
pub(crate) const RETURNS_WITH_SPIN_LOCK: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(returns_with_spin_lock), ..GOOD };
pub(crate) const RELEASES_FREE_SPIN_LOCK: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(releases_free_spin_lock), ..GOOD };
pub(crate) const POLLS_GPU_IN_DESTROY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyAllocation: Some(polls_gpu_in_destroy), ..GOOD };
/// A good driver: it destroys while it holds a spin lock, and waits before it creates.
pub(crate) const SPIN_LOCK_DESTROY: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateAllocation: Some(create_slowly),
    DxgkDdiDestroyAllocation: Some(destroy_under_spin_lock),
    ..GOOD
};

/// A `KSPIN_LOCK`.
static LOCK: AtomicUsize = AtomicUsize::new(0);

/// A `KSPIN_LOCK` that no thread acquires.
static FREE_LOCK: AtomicUsize = AtomicUsize::new(0);

/// One millisecond as a relative time.
static DELAY: i64 = -10_000;

/// Opens and returns at `DISPATCH_LEVEL`.
unsafe extern "win64-unwind" fn returns_at_dispatch_level(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { open_allocation(device, args) };
    KeRaiseIrqlToDpcLevel();
    status
}

/// Acquires a spin lock, lowers the IRQL, and never releases the lock.
unsafe extern "win64-unwind" fn returns_with_spin_lock(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_allocation(adapter, args) };
    // SAFETY: The lock is a static.
    unsafe { KeAcquireSpinLockRaiseToDpc(LOCK.as_ptr()) };
    KeLowerIrql(PASSIVE_LEVEL);
    status
}

/// Opens, and releases a spin lock that it did not acquire.
unsafe extern "win64-unwind" fn releases_free_spin_lock(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let before = KeRaiseIrqlToDpcLevel();
    // SAFETY: The lock is a static.
    unsafe { KeReleaseSpinLock(FREE_LOCK.as_ptr(), before) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Waits a millisecond before it destroys.
unsafe extern "win64-unwind" fn polls_gpu_in_destroy(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The pointer to the number is valid.
    unsafe { KeDelayExecutionThread(0, 0, &raw const DELAY) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_allocation(adapter, args) }
}

/// Waits before it creates, which is allowed.
unsafe extern "win64-unwind" fn create_slowly(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The pointer to the number is valid.
    unsafe { KeDelayExecutionThread(0, 0, &raw const DELAY) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_allocation(adapter, args) }
}

/// Destroys while it holds a spin lock, then releases the lock.
unsafe extern "win64-unwind" fn destroy_under_spin_lock(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The lock is a static.
    let before = unsafe { KeAcquireSpinLockRaiseToDpc(LOCK.as_ptr()) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { destroy_allocation(adapter, args) };
    // SAFETY: As above.
    unsafe { KeReleaseSpinLock(LOCK.as_ptr(), before) };
    status
}
