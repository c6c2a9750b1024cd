//! Bad drivers: IRQLs, spin locks and waits. One driver uses them correctly.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{create_allocation, destroy_allocation};
use crate::table::GOOD;
use crate::view::open_allocation;
use abi::display::{DXGKARG_CREATEALLOCATION, DXGKARG_DESTROYALLOCATION, DXGKARG_OPENALLOCATION};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};
use nt::ke_time::KeStallExecutionProcessor;
use nt::rtl::RtlAssert;
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
/// A good driver: it destroys while it holds a spin lock and stalls, and waits before it creates.
pub(crate) const SPIN_LOCK_DESTROY: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateAllocation: Some(create_slowly),
    DxgkDdiDestroyAllocation: Some(destroy_under_spin_lock),
    ..GOOD
};

pub(crate) const STALLS_TOO_LONG: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(stalls_too_long), ..GOOD };
pub(crate) const FAILS_ASSERTION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(fails_assertion), ..GOOD };
pub(crate) const ACQUIRES_SPIN_LOCK_TWICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(acquires_spin_lock_twice), ..GOOD };
pub(crate) const INVERTS_LOCK_ORDER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(inverts_lock_order), ..GOOD };
pub(crate) const WAITS_WITH_SPIN_LOCK: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(waits_with_spin_lock), ..GOOD };

/// A `KSPIN_LOCK`.
static LOCK: AtomicUsize = AtomicUsize::new(0);

/// A `KSPIN_LOCK` that no thread acquires.
static FREE_LOCK: AtomicUsize = AtomicUsize::new(0);

/// A `KSPIN_LOCK` that is acquired inside of [`LOCK`].
static INNER_LOCK: AtomicUsize = AtomicUsize::new(0);

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

/// Opens, and stalls for longer than one call may.
unsafe extern "win64-unwind" fn stalls_too_long(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    KeStallExecutionProcessor(60);
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Opens after a failed assertion (`ASSERT`).
unsafe extern "win64-unwind" fn fails_assertion(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let (condition, file) = (c"Adapter != NULL", c"irql.c");
    let text = |text: &'static std::ffi::CStr| text.as_ptr().cast();
    // SAFETY: The texts are C strings.
    unsafe { RtlAssert(text(condition), text(file), 12, std::ptr::null()) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Opens while it holds a spin lock, and acquires the lock once more.
unsafe extern "win64-unwind" fn acquires_spin_lock_twice(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let lock = || {
        // SAFETY: The lock is a static.
        unsafe { KeAcquireSpinLockRaiseToDpc(LOCK.as_ptr()) }
    };
    let release = |before| {
        // SAFETY: The lock is a static.
        unsafe { KeReleaseSpinLock(LOCK.as_ptr(), before) };
    };
    let (before, again) = (lock(), lock());
    release(again);
    release(before);
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Acquires two locks, one inside of the other, and releases them.
fn acquire_both(outer: &AtomicUsize, inner: &AtomicUsize) {
    // SAFETY: The lock is a static.
    let before = unsafe { KeAcquireSpinLockRaiseToDpc(outer.as_ptr()) };
    // SAFETY: The lock is a static.
    let raised = unsafe { KeAcquireSpinLockRaiseToDpc(inner.as_ptr()) };
    // SAFETY: The lock is a static.
    unsafe { KeReleaseSpinLock(inner.as_ptr(), raised) };
    // SAFETY: The lock is a static.
    unsafe { KeReleaseSpinLock(outer.as_ptr(), before) };
}

/// Opens after it has acquired two spin locks in both orders.
unsafe extern "win64-unwind" fn inverts_lock_order(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    acquire_both(&LOCK, &INNER_LOCK);
    acquire_both(&INNER_LOCK, &LOCK);
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Opens after a wait with a spin lock held.
unsafe extern "win64-unwind" fn waits_with_spin_lock(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The lock is a static.
    let before = unsafe { KeAcquireSpinLockRaiseToDpc(LOCK.as_ptr()) };
    // SAFETY: The pointer to the number is valid.
    unsafe { KeDelayExecutionThread(0, 0, &raw const DELAY) };
    // SAFETY: The lock is a static.
    unsafe { KeReleaseSpinLock(LOCK.as_ptr(), before) };
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
    acquire_both(&LOCK, &INNER_LOCK);
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
    KeStallExecutionProcessor(10);
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { destroy_allocation(adapter, args) };
    // SAFETY: As above.
    unsafe { KeReleaseSpinLock(LOCK.as_ptr(), before) };
    status
}
