//! Mutexes and semaphores under their Windows names. Their state is in the driver's memory.
//!
//! A `KMUTEX` is a header, a list entry, the address of the owning thread's object and two flags.
//! Its state is 1 while it is free, and sinks by one with each acquisition by its owner. A
//! `KSEMAPHORE` is a header and its limit.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::held_locks::forget_locks;
use crate::import_table::import_rows;
use crate::processor::lock_released;
use crate::ps::current_thread;
use crate::waits::{self, log_misuse};
use abi::{BOOLEAN, PVOID};
use std::cell::Cell;

import_rows! {
    KeInitializeMutex lacks "the level is ignored";
    KeInitializeSemaphore;
    KeReadStateMutex;
    KeReadStateSemaphore;
    KeReleaseMutex lacks "does not wait; another thread's mutex is logged, not a bug check";
    KeReleaseSemaphore lacks "no priority boost, does not wait; above its limit it is logged";
}

const LIST_OFFSET: usize = 0x18;
const OWNER_OFFSET: usize = 0x28;
const APC_DISABLE_OFFSET: usize = 0x31;
const LIMIT_OFFSET: usize = 0x18;

/// The address of the thread that owns a mutex, or zero.
pub(crate) fn owner(mutex: ObjectMemory) -> usize {
    // SAFETY: A mutex has its owner there.
    unsafe { mutex.read(OWNER_OFFSET) }
}

thread_local! {
    /// Number of mutexes that this thread owns.
    static OWNED: Cell<u32> = const { Cell::new(0) };
}

/// Number of mutexes that this thread owns.
pub(crate) fn owned_by_this_thread() -> u32 {
    OWNED.get()
}

/// Acquires a mutex that is free or that this thread owns.
pub(crate) fn acquire(mutex: ObjectMemory, thread: usize) {
    if mutex.signal_state() > 0 {
        OWNED.set(OWNED.get() + 1);
    }
    mutex.set_signal_state(mutex.signal_state().saturating_sub(1));
    // SAFETY: A mutex has its owner there.
    unsafe { mutex.write(OWNER_OFFSET, thread) };
}

/// Initialises a mutex as free.
///
/// # Safety
///
/// `mutex` is NULL or points to a `KMUTEX`, which stays there while it is used.
pub unsafe extern "win64-unwind" fn KeInitializeMutex(mutex: PVOID, _level: u32) {
    // SAFETY: The caller's contract.
    let Some(mutex) = (unsafe { ObjectMemory::at(mutex) }) else { return };
    forget_locks(&(mutex.address()..mutex.address() + 1));
    waits::initialize(mutex, ObjectKind::Mutex, 1);
    // SAFETY: A mutex has a list entry there.
    unsafe { mutex.write(LIST_OFFSET, [0_usize; 2]) };
    // SAFETY: A mutex has its owner there.
    unsafe { mutex.write(OWNER_OFFSET, 0_usize) };
    // SAFETY: A mutex has its flags here: not abandoned, and normal kernel APCs are disabled.
    unsafe { mutex.write(APC_DISABLE_OFFSET - 1, [0_u8, 1]) };
}

/// Releases a mutex; returns its previous state: zero if it is free now.
///
/// # Safety
///
/// As for [`KeInitializeMutex`].
pub unsafe extern "win64-unwind" fn KeReleaseMutex(mutex: PVOID, _wait: BOOLEAN) -> i32 {
    const NAME: &str = "KeReleaseMutex";
    // SAFETY: The caller's contract.
    let Some(mutex) = (unsafe { ObjectMemory::at(mutex) }) else { return 0 };
    let released = waits::change(NAME, mutex, |kind| {
        let state = mutex.signal_state();
        if kind != ObjectKind::Mutex || state > 0 || owner(mutex) != current_thread() {
            return None;
        }
        if state == 0 {
            OWNED.set(OWNED.get().saturating_sub(1));
            // SAFETY: A mutex has its owner there.
            unsafe { mutex.write(OWNER_OFFSET, 0_usize) };
        }
        Some(mutex.set_signal_state(state + 1))
    });
    if released.flatten() == Some(0) {
        lock_released(NAME, mutex.address());
    }
    released.flatten().unwrap_or_else(|| {
        log_misuse(NAME, "on a thread that does not own the mutex");
        0
    })
}

/// The state of a mutex: 1 if it is free.
///
/// # Safety
///
/// As for [`KeInitializeMutex`].
pub unsafe extern "win64-unwind" fn KeReadStateMutex(mutex: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { ObjectMemory::at(mutex) }.map_or(0, waits::read_state)
}

/// Initialises a semaphore.
///
/// # Safety
///
/// `semaphore` is NULL or points to a `KSEMAPHORE`, which stays there while it is used.
pub unsafe extern "win64-unwind" fn KeInitializeSemaphore(
    semaphore: PVOID,
    count: i32,
    limit: i32,
) {
    // SAFETY: The caller's contract.
    let Some(semaphore) = (unsafe { ObjectMemory::at(semaphore) }) else { return };
    waits::initialize(semaphore, ObjectKind::Semaphore, count);
    // SAFETY: A semaphore has its limit there.
    unsafe { semaphore.write(LIMIT_OFFSET, limit) };
}

/// Adds to the count of a semaphore; returns the previous count.
///
/// WINDOWS: documented. A count above the limit raises `STATUS_SEMAPHORE_LIMIT_EXCEEDED`; here the
/// count stays and the call is logged.
///
/// # Safety
///
/// As for [`KeInitializeSemaphore`].
pub unsafe extern "win64-unwind" fn KeReleaseSemaphore(
    semaphore: PVOID,
    _increment: i32,
    adjustment: i32,
    _wait: BOOLEAN,
) -> i32 {
    const NAME: &str = "KeReleaseSemaphore";
    // SAFETY: The caller's contract.
    let Some(semaphore) = (unsafe { ObjectMemory::at(semaphore) }) else { return 0 };
    let mut above = false;
    let before = waits::change(NAME, semaphore, |kind| {
        if kind != ObjectKind::Semaphore {
            return 0;
        }
        // SAFETY: A semaphore has its limit there.
        let limit: i32 = unsafe { semaphore.read(LIMIT_OFFSET) };
        let before = semaphore.signal_state();
        let count = before.checked_add(adjustment).filter(|count| (before..=limit).contains(count));
        above = count.is_none();
        count.map_or(before, |count| semaphore.set_signal_state(count))
    });
    if above {
        log_misuse(NAME, "above the limit of the semaphore");
    }
    before.unwrap_or(0)
}

/// The count of a semaphore.
///
/// # Safety
///
/// As for [`KeInitializeSemaphore`].
pub unsafe extern "win64-unwind" fn KeReadStateSemaphore(semaphore: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { ObjectMemory::at(semaphore) }.map_or(0, waits::read_state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_wait::KeWaitForSingleObject;
    use crate::ps::current_thread;
    use crate::testing::{fly_driver, fly_with};
    use abi::status::{STATUS_SUCCESS, STATUS_TIMEOUT};
    use flight::{Host, Log};
    use std::sync::Arc;

    fn poll(object: PVOID) -> abi::NTSTATUS {
        // SAFETY: The tests wait for objects that live; the timeout is an `i64`.
        unsafe { KeWaitForSingleObject(object, 0, 0, 0, &0) }
    }

    fn state(mutex: PVOID) -> i32 {
        // SAFETY: The tests read objects that live.
        unsafe { KeReadStateMutex(mutex) }
    }

    fn release(mutex: PVOID) -> i32 {
        // SAFETY: The tests release objects that live.
        unsafe { KeReleaseMutex(mutex, 0) }
    }

    #[test]
    fn a_mutex_is_its_owners_as_often_as_it_was_acquired() {
        fly_driver(|_| {
            let mut memory = [0xEE_u8; 0x39];
            let mutex: PVOID = memory.as_mut_ptr().cast();
            // SAFETY: `memory` has 0x38 bytes for the mutex.
            unsafe { KeInitializeMutex(mutex, 0) };
            assert_eq!((state(mutex), poll(mutex), state(mutex)), (1, STATUS_SUCCESS, 0));
            assert_eq!((poll(mutex), state(mutex)), (STATUS_SUCCESS, -1));
            assert_eq!((release(mutex), release(mutex), state(mutex)), (-1, 0, 1));
            poll(mutex);
            assert_eq!(memory[0x28..0x30], current_thread().to_ne_bytes(), "OwnerThread");
            assert_eq!((memory[0], memory[2], memory[0x38]), (2, 14, 0xEE));
        });
    }

    #[test]
    fn another_threads_mutex_is_neither_acquired_nor_released() {
        fly_with(1, |host, log, at| {
            let memory: &'static mut [u64; 7] = Box::leak(Box::new([0; 7]));
            let address = memory.as_mut_ptr().expose_provenance();
            let at_address = move || -> PVOID { std::ptr::with_exposed_provenance_mut(address) };
            // SAFETY: The memory is never freed.
            unsafe { KeInitializeMutex(at_address(), 0) };
            let driver = |host: &Arc<dyn Host>, log: &Arc<Log>, body: &dyn Fn()| {
                crate::processor::run_driver(host, log, body);
            };
            driver(host, log, &|| assert_eq!(poll(at_address()), STATUS_SUCCESS));
            let (there, logged) = (host.clone(), log.clone());
            let end = host.clone().spawner().spawn("second", move |_| {
                driver(&there, &logged, &|| {
                    assert_eq!(poll(at_address()), STATUS_TIMEOUT);
                    assert_eq!((release(at_address()), state(at_address())), (0, 0));
                });
            });
            host.park(at, &end, None);
            assert_eq!(crate::testing::misuses(log).len(), 1);
        });
    }

    #[test]
    fn a_semaphore_counts_to_its_limit() {
        fly_with(1, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                let mut memory = [0_u64; 4];
                let semaphore: PVOID = memory.as_mut_ptr().cast();
                // SAFETY: The semaphore is `memory`.
                unsafe { KeInitializeSemaphore(semaphore, 1, 3) };
                assert_eq!((poll(semaphore), poll(semaphore)), (STATUS_SUCCESS, STATUS_TIMEOUT));
                // SAFETY: As above.
                assert_eq!(unsafe { KeReleaseSemaphore(semaphore, 0, 2, 0) }, 0);
                // SAFETY: As above.
                assert_eq!(unsafe { KeReleaseSemaphore(semaphore, 0, 2, 0) }, 2, "stays");
                // SAFETY: As above.
                assert_eq!(unsafe { KeReadStateSemaphore(semaphore) }, 2);
                assert_eq!((poll(semaphore), poll(semaphore)), (STATUS_SUCCESS, STATUS_SUCCESS));
                assert_eq!(poll(semaphore), STATUS_TIMEOUT);
                assert_eq!(memory[3], 3, "Limit");
            });
            assert_eq!(crate::testing::misuses(log).len(), 1);
        });
    }
}
