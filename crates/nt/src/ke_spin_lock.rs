//! The spin-lock functions under their Windows names. The state of a lock is in the driver's memory
//! (`dispatcher.rs`); which thread holds it is in `processor.rs`.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::write_spin_lock;
use crate::entry::judge_irql;
use crate::held_locks::forget_locks;
use crate::import_table::import_rows;
use crate::ke_irql::{DISPATCH_LEVEL, KIRQL};
use crate::processor::{
    acquire_spin_lock, is_spin_lock_held, number, release_spin_lock, set_number,
    try_acquire_spin_lock,
};
use abi::BOOLEAN;

import_rows! {
    KeAcquireInStackQueuedSpinLock lacks "not in the order of the requests";
    KeAcquireInStackQueuedSpinLockAtDpcLevel lacks "not in the order of the requests";
    KeAcquireInStackQueuedSpinLockForDpc lacks "not in the order of the requests";
    KeAcquireSpinLockAtDpcLevel;
    KeAcquireSpinLockForDpc;
    KeAcquireSpinLockRaiseToDpc;
    KeInitializeSpinLock;
    KeReleaseInStackQueuedSpinLock;
    KeReleaseInStackQueuedSpinLockForDpc;
    KeReleaseInStackQueuedSpinLockFromDpcLevel;
    KeReleaseSpinLock;
    KeReleaseSpinLockForDpc;
    KeReleaseSpinLockFromDpcLevel;
    KeTestSpinLock;
    KeTryToAcquireSpinLockAtDpcLevel;
}

/// `KLOCK_QUEUE_HANDLE`: the caller's place in the queue of a lock.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct LockQueueHandle {
    next: usize,
    lock: usize,
    old_irql: KIRQL,
}

/// Initialises a spin lock as free.
///
/// # Safety
///
/// `lock` is NULL or points to a `KSPIN_LOCK`.
pub unsafe extern "win64-unwind" fn KeInitializeSpinLock(lock: *mut usize) {
    forget_locks(&(lock.addr()..lock.addr() + 1));
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, false) };
}

/// Raises the IRQL to `DISPATCH_LEVEL` and acquires a spin lock; returns the previous IRQL.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> KIRQL {
    const NAME: &str = "KeAcquireSpinLockRaiseToDpc";
    judge_irql(NAME);
    let before = set_number(NAME, DISPATCH_LEVEL);
    acquire_spin_lock(NAME, lock.addr(), false);
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, true) };
    before
}

/// Releases a spin lock and lowers the IRQL.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeReleaseSpinLock(lock: *mut usize, new: KIRQL) {
    const NAME: &str = "KeReleaseSpinLock";
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, false) };
    release_spin_lock(NAME, lock.addr());
    set_number(NAME, new);
}

/// Acquires a spin lock at the current IRQL.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
unsafe fn acquire(import: &'static str, lock: *mut usize) {
    judge_irql(import);
    acquire_spin_lock(import, lock.addr(), false);
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, true) };
}

/// Releases a spin lock at the current IRQL.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
unsafe fn release(import: &'static str, lock: *mut usize) {
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, false) };
    release_spin_lock(import, lock.addr());
}

/// Acquires a spin lock; the caller is at `DISPATCH_LEVEL`.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeAcquireSpinLockAtDpcLevel(lock: *mut usize) {
    // SAFETY: The caller's contract.
    unsafe { acquire("KeAcquireSpinLockAtDpcLevel", lock) };
}

/// Releases a spin lock and stays at `DISPATCH_LEVEL`.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeReleaseSpinLockFromDpcLevel(lock: *mut usize) {
    // SAFETY: The caller's contract.
    unsafe { release("KeReleaseSpinLockFromDpcLevel", lock) };
}

/// Acquires a spin lock if it is free; returns whether it did. The caller is at `DISPATCH_LEVEL`.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeTryToAcquireSpinLockAtDpcLevel(lock: *mut usize) -> BOOLEAN {
    let got = try_acquire_spin_lock("KeTryToAcquireSpinLockAtDpcLevel", lock.addr());
    if got {
        // SAFETY: The caller's contract.
        unsafe { write_spin_lock(lock, true) };
    }
    BOOLEAN::from(got)
}

/// Whether a spin lock is free.
pub extern "win64-unwind" fn KeTestSpinLock(lock: *const usize) -> BOOLEAN {
    BOOLEAN::from(!is_spin_lock_held(lock.addr()))
}

/// Acquires a spin lock in a DPC, which may be a threaded one; returns the previous IRQL.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeAcquireSpinLockForDpc(lock: *mut usize) -> KIRQL {
    // SAFETY: The caller's contract.
    unsafe { KeAcquireSpinLockRaiseToDpc(lock) }
}

/// Releases a spin lock in a DPC.
///
/// # Safety
///
/// As for [`KeInitializeSpinLock`].
pub unsafe extern "win64-unwind" fn KeReleaseSpinLockForDpc(lock: *mut usize, new: KIRQL) {
    // SAFETY: The caller's contract.
    unsafe { KeReleaseSpinLock(lock, new) };
}

/// Raises the IRQL to `DISPATCH_LEVEL` and acquires a queued spin lock.
///
/// # Safety
///
/// `lock` as for [`KeInitializeSpinLock`]; `handle` is valid for a write.
pub unsafe extern "win64-unwind" fn KeAcquireInStackQueuedSpinLock(
    lock: *mut usize,
    handle: *mut LockQueueHandle,
) {
    const NAME: &str = "KeAcquireInStackQueuedSpinLock";
    judge_irql(NAME);
    let old_irql = set_number(NAME, DISPATCH_LEVEL);
    acquire_spin_lock(NAME, lock.addr(), false);
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, true) };
    let queued = LockQueueHandle { next: 0, lock: lock.expose_provenance(), old_irql };
    // SAFETY: The caller's contract.
    unsafe { handle.write_unaligned(queued) };
}

/// Acquires a queued spin lock; the caller is at `DISPATCH_LEVEL`.
///
/// # Safety
///
/// As for [`KeAcquireInStackQueuedSpinLock`].
pub unsafe extern "win64-unwind" fn KeAcquireInStackQueuedSpinLockAtDpcLevel(
    lock: *mut usize,
    handle: *mut LockQueueHandle,
) {
    const NAME: &str = "KeAcquireInStackQueuedSpinLockAtDpcLevel";
    // SAFETY: The caller's contract.
    unsafe { acquire(NAME, lock) };
    let queued =
        LockQueueHandle { next: 0, lock: lock.expose_provenance(), old_irql: number(NAME) };
    // SAFETY: The caller's contract.
    unsafe { handle.write_unaligned(queued) };
}

/// Acquires a queued spin lock in a DPC, which may be a threaded one.
///
/// # Safety
///
/// As for [`KeAcquireInStackQueuedSpinLock`].
pub unsafe extern "win64-unwind" fn KeAcquireInStackQueuedSpinLockForDpc(
    lock: *mut usize,
    handle: *mut LockQueueHandle,
) {
    // SAFETY: The caller's contract.
    unsafe { KeAcquireInStackQueuedSpinLock(lock, handle) };
}

/// Releases a queued spin lock and restores the IRQL.
///
/// # Safety
///
/// `handle` is the one with which the lock was acquired.
pub unsafe extern "win64-unwind" fn KeReleaseInStackQueuedSpinLock(handle: *mut LockQueueHandle) {
    const NAME: &str = "KeReleaseInStackQueuedSpinLock";
    // SAFETY: The caller's contract.
    let queued = unsafe { handle.read_unaligned() };
    // SAFETY: The handle has the address of its lock.
    unsafe { release(NAME, std::ptr::with_exposed_provenance_mut(queued.lock)) };
    set_number(NAME, queued.old_irql);
}

/// Releases a queued spin lock and stays at `DISPATCH_LEVEL`.
///
/// # Safety
///
/// As for [`KeReleaseInStackQueuedSpinLock`].
pub unsafe extern "win64-unwind" fn KeReleaseInStackQueuedSpinLockFromDpcLevel(
    handle: *mut LockQueueHandle,
) {
    // SAFETY: The caller's contract.
    let queued = unsafe { handle.read_unaligned() };
    let lock = std::ptr::with_exposed_provenance_mut(queued.lock);
    // SAFETY: The handle has the address of its lock.
    unsafe { release("KeReleaseInStackQueuedSpinLockFromDpcLevel", lock) };
}

/// Releases a queued spin lock in a DPC and restores the IRQL.
///
/// # Safety
///
/// As for [`KeReleaseInStackQueuedSpinLock`].
pub unsafe extern "win64-unwind" fn KeReleaseInStackQueuedSpinLockForDpc(
    handle: *mut LockQueueHandle,
) {
    // SAFETY: The caller's contract.
    unsafe { KeReleaseInStackQueuedSpinLock(handle) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_irql::KeGetCurrentIrql;
    use crate::testing::fly_driver;

    #[test]
    fn a_lock_raises_the_irql_and_shows_in_the_drivers_memory() {
        let mut word = 7_usize;
        let lock = &raw mut word;
        let left = fly_driver(|_| {
            // SAFETY: The lock is `word`.
            unsafe { KeInitializeSpinLock(lock) };
            // SAFETY: As above.
            assert_eq!(unsafe { lock.read() }, 0);
            // SAFETY: As above.
            let before = unsafe { KeAcquireSpinLockRaiseToDpc(lock) };
            assert_eq!((before, KeGetCurrentIrql()), (0, 2));
            // SAFETY: As above.
            assert_ne!(unsafe { lock.read() }, 0, "it is owned");
            // SAFETY: As above.
            unsafe { KeReleaseSpinLock(lock, before) };
            // SAFETY: As above.
            assert_eq!(unsafe { lock.read() }, 0);
        });
        assert_eq!(left.locks, 0);
    }

    #[test]
    fn a_queued_lock_keeps_the_irql_in_its_handle() {
        let mut word = 0_usize;
        let lock = &raw mut word;
        let left = fly_driver(|_| {
            let mut handle = LockQueueHandle::default();
            // SAFETY: The lock and the handle are local variables.
            unsafe { KeAcquireInStackQueuedSpinLock(lock, &raw mut handle) };
            assert_eq!((handle.old_irql, KeGetCurrentIrql(), KeTestSpinLock(lock)), (0, 2, 0));
            // SAFETY: As above.
            assert_eq!(unsafe { KeTryToAcquireSpinLockAtDpcLevel(lock) }, 0);
            // SAFETY: As above.
            unsafe { KeReleaseInStackQueuedSpinLock(&raw mut handle) };
            assert_eq!((KeGetCurrentIrql(), KeTestSpinLock(lock)), (0, 1));
            crate::ke_irql::KeRaiseIrqlToDpcLevel();
            // SAFETY: As above.
            assert_eq!(unsafe { KeTryToAcquireSpinLockAtDpcLevel(lock) }, 1);
            // SAFETY: As above.
            unsafe { KeReleaseSpinLockFromDpcLevel(lock) };
            // SAFETY: As above.
            unsafe { KeAcquireInStackQueuedSpinLockAtDpcLevel(lock, &raw mut handle) };
            // SAFETY: As above.
            unsafe { KeReleaseInStackQueuedSpinLockFromDpcLevel(&raw mut handle) };
            // SAFETY: As above.
            unsafe { KeAcquireSpinLockAtDpcLevel(lock) };
            assert_eq!(KeGetCurrentIrql(), 2);
            // SAFETY: As above.
            unsafe { KeReleaseSpinLockFromDpcLevel(lock) };
            crate::ke_irql::KeLowerIrql(0);
        });
        assert_eq!(left.locks, 0);
        assert_eq!(size_of::<LockQueueHandle>(), 24);
    }

    #[test]
    fn the_level_of_a_lock_is_judged() {
        let mut word = 0_usize;
        let lock = &raw mut word;
        crate::testing::fly_with(0, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                // SAFETY: The lock is `word`.
                unsafe { KeAcquireSpinLockAtDpcLevel(lock) };
                // SAFETY: As above.
                unsafe { KeReleaseSpinLockFromDpcLevel(lock) };
                crate::ke_irql::KfRaiseIrql(5);
                // SAFETY: As above.
                let before = unsafe { KeAcquireSpinLockRaiseToDpc(lock) };
                // SAFETY: As above.
                unsafe { KeReleaseSpinLock(lock, before) };
                crate::ke_irql::KeLowerIrql(0);
            });
            assert_eq!(crate::testing::broken_rules(log).len(), 2);
        });
    }

    #[test]
    fn a_lock_that_is_held_or_free_is_a_misuse() {
        let mut word = 0_usize;
        let lock = &raw mut word;
        crate::testing::fly_with(0, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                // SAFETY: The lock is `word`.
                let before = unsafe { KeAcquireSpinLockRaiseToDpc(lock) };
                // SAFETY: As above.
                unsafe { KeAcquireSpinLockAtDpcLevel(lock) };
                // SAFETY: As above.
                unsafe { KeReleaseSpinLockFromDpcLevel(lock) };
                // SAFETY: As above.
                unsafe { KeReleaseSpinLock(lock, before) };
                // SAFETY: As above.
                unsafe { KeReleaseSpinLock(lock, before) };
            });
            let events = log.take();
            let named = |name| events.iter().filter(|event| event.kind.name() == name).count();
            assert_eq!((named("rule.broken"), named("driver.misuse")), (1, 1));
        });
    }
}
