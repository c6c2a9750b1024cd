//! The IRQL, spin-lock, event and wait functions under their Windows names.
//!
//! They act for the driver that is running on this thread. Without a running driver they do
//! nothing. The state of a spin lock and of an event is in the driver's memory (`dispatcher.rs`).
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::{EventMemory, write_spin_lock};
use crate::import_table::import_rows;
use crate::processor::{acquire_spin_lock, level, release_spin_lock, set_level};
use crate::waits::{self, WaitEnd};
use abi::status::{STATUS_SUCCESS, STATUS_TIMEOUT, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, NTSTATUS, PVOID};
use flight::Irql;

import_rows! {
    KeAcquireSpinLockRaiseToDpc;
    KeClearEvent;
    KeDelayExecutionThread lacks "time is virtual: it passes when no thread can run";
    KeGetCurrentIrql;
    KeInitializeEvent;
    KeInitializeSpinLock;
    KeLowerIrql lacks "not below the IRQL at which the driver was entered";
    KeRaiseIrqlToDpcLevel;
    KeReadStateEvent;
    KeReleaseSpinLock;
    KeResetEvent;
    KeSetEvent lacks "no priority boost; does not wait";
    KeWaitForSingleObject lacks "events only; no alerts";
    KfRaiseIrql;
}

/// An interrupt request level (IRQL) as a Windows number.
pub type KIRQL = u8;

/// `PASSIVE_LEVEL`.
pub const PASSIVE_LEVEL: KIRQL = 0;
/// `DISPATCH_LEVEL`.
pub const DISPATCH_LEVEL: KIRQL = 2;
/// The IRQL of all device interrupts here. WINDOWS: every interrupt line has its own, from 3 up
/// (documented).
pub const DEVICE_LEVEL: KIRQL = 5;

/// `SynchronizationEvent`: a satisfied wait resets it.
const SYNCHRONIZATION: i32 = 1;

pub(crate) fn irql_number(level: Irql) -> KIRQL {
    match level {
        Irql::Passive => PASSIVE_LEVEL,
        Irql::Dispatch => DISPATCH_LEVEL,
        Irql::Device => DEVICE_LEVEL,
    }
}

/// Converts a Windows IRQL number. `APC_LEVEL` counts as passive because there are no APCs.
fn irql_from_number(number: KIRQL) -> Irql {
    match number {
        0 | 1 => Irql::Passive,
        DISPATCH_LEVEL => Irql::Dispatch,
        _ => Irql::Device,
    }
}

/// The driver's IRQL.
pub extern "win64-unwind" fn KeGetCurrentIrql() -> KIRQL {
    irql_number(level("KeGetCurrentIrql"))
}

/// Raises the IRQL; returns the previous one.
pub extern "win64-unwind" fn KfRaiseIrql(new: KIRQL) -> KIRQL {
    irql_number(set_level("KfRaiseIrql", irql_from_number(new)))
}

/// Changes the IRQL, in either direction, as a move to CR8 does.
pub(crate) fn set_irql(new: KIRQL) {
    set_level("CR8", irql_from_number(new));
}

/// Raises the IRQL to `DISPATCH_LEVEL`; returns the previous one.
pub extern "win64-unwind" fn KeRaiseIrqlToDpcLevel() -> KIRQL {
    irql_number(set_level("KeRaiseIrqlToDpcLevel", Irql::Dispatch))
}

/// Lowers the IRQL.
pub extern "win64-unwind" fn KeLowerIrql(new: KIRQL) {
    set_level("KeLowerIrql", irql_from_number(new));
}

/// Initialises a spin lock as free.
///
/// # Safety
///
/// `lock` is NULL or points to a `KSPIN_LOCK`.
pub unsafe extern "win64-unwind" fn KeInitializeSpinLock(lock: *mut usize) {
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
    let before = set_level(NAME, Irql::Dispatch);
    acquire_spin_lock(NAME, lock.addr());
    // SAFETY: The caller's contract.
    unsafe { write_spin_lock(lock, true) };
    irql_number(before)
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
    set_level(NAME, irql_from_number(new));
}

/// Initialises an event, set or not. `kind` is 0 (`NotificationEvent`) if it stays set, 1
/// (`SynchronizationEvent`) if a satisfied wait resets it.
///
/// # Safety
///
/// `event` is NULL or points to a `KEVENT`, which stays there while it is used.
pub unsafe extern "win64-unwind" fn KeInitializeEvent(event: PVOID, kind: i32, state: BOOLEAN) {
    // SAFETY: The caller's contract.
    if let Some(event) = unsafe { EventMemory::at(event) } {
        waits::initialize(event, kind == SYNCHRONIZATION, state != 0);
    }
}

/// Sets an event; returns the previous state.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeSetEvent(event: PVOID, _boost: i32, _wait: BOOLEAN) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { EventMemory::at(event) }.map_or(0, waits::set)
}

/// Clears an event.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeClearEvent(event: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { EventMemory::at(event) }.map(waits::clear);
}

/// Clears an event; returns the previous state.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeResetEvent(event: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { EventMemory::at(event) }.map_or(0, waits::clear)
}

/// The state of an event: not zero if it is set.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeReadStateEvent(event: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { EventMemory::at(event) }.map_or(0, waits::read_state)
}

/// Waits for an event.
///
/// # Safety
///
/// `object` as for [`KeInitializeEvent`]; `timeout` is NULL or points to a valid `i64`.
pub unsafe extern "win64-unwind" fn KeWaitForSingleObject(
    object: PVOID,
    _reason: i32,
    _mode: i8,
    _alertable: BOOLEAN,
    timeout: *const i64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let deadline = (!timeout.is_null()).then(|| unsafe { timeout.read() }.unsigned_abs());
    // SAFETY: The caller's contract.
    let Some(event) = (unsafe { EventMemory::at(object) }) else { return STATUS_UNSUCCESSFUL };
    match waits::wait(event, deadline) {
        WaitEnd::Set => STATUS_SUCCESS,
        WaitEnd::TimedOut => STATUS_TIMEOUT,
        WaitEnd::Failed => STATUS_UNSUCCESSFUL,
    }
}

/// Waits until `interval` has passed.
///
/// # Safety
///
/// `interval` points to a valid `i64`.
pub unsafe extern "win64-unwind" fn KeDelayExecutionThread(
    _mode: i8,
    _alertable: BOOLEAN,
    interval: *const i64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let until = unsafe { interval.read() }.unsigned_abs();
    match waits::delay(until) {
        WaitEnd::Set | WaitEnd::TimedOut => STATUS_SUCCESS,
        WaitEnd::Failed => STATUS_UNSUCCESSFUL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::run_driver;
    use flight::{DeterministicHost, Host, Log};
    use std::ptr;
    use std::sync::Arc;

    #[test]
    fn levels_have_windowss_numbers() {
        let log = Arc::new(Log::silent());
        let flown = DeterministicHost::fly(0, &log, |host, _| {
            let host: Arc<dyn Host> = host.clone();
            let mut word = 7_usize;
            let lock = &raw mut word;
            let ((), left) = run_driver(&host, &log, || {
                assert_eq!((KeRaiseIrqlToDpcLevel(), KeGetCurrentIrql()), (0, 2));
                assert_eq!((KfRaiseIrql(DEVICE_LEVEL), KeGetCurrentIrql()), (2, 5));
                KeLowerIrql(PASSIVE_LEVEL);
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
            assert_eq!((left.level, left.locks), (Irql::Passive, 0));
        });
        flown.unwrap();
    }

    #[test]
    fn outside_a_driver_there_is_nothing_to_wait_for() {
        let event: PVOID = ptr::without_provenance_mut(0x200);
        // SAFETY: NULL means no timeout, and without a driver the event is not dereferenced.
        let status = unsafe { KeWaitForSingleObject(event, 0, 0, 0, ptr::null()) };
        assert_eq!(status, STATUS_UNSUCCESSFUL);
    }

    #[test]
    fn an_event_is_read_and_cleared_where_the_driver_has_it() {
        let log = Arc::new(Log::silent());
        let flown = DeterministicHost::fly(0, &log, |host, _| {
            let host: Arc<dyn Host> = host.clone();
            let mut memory = [0_u64; 3];
            let event: PVOID = memory.as_mut_ptr().cast();
            let state = |function: unsafe extern "win64-unwind" fn(PVOID) -> i32| {
                // SAFETY: The event is `memory`.
                unsafe { function(event) }
            };
            run_driver(&host, &log, || {
                // SAFETY: As above.
                unsafe { KeInitializeEvent(event, 0, 1) };
                assert_eq!((state(KeReadStateEvent), state(KeResetEvent)), (1, 1));
                assert_eq!((state(KeReadStateEvent), state(KeResetEvent)), (0, 0));
                // SAFETY: As above.
                assert_eq!(unsafe { KeSetEvent(event, 0, 0) }, 0);
                // SAFETY: As above.
                unsafe { KeClearEvent(event) };
                assert_eq!(state(KeReadStateEvent), 0);
            });
            assert_eq!(memory[0] >> 32, 0, "SignalState");
        });
        assert_eq!(flown, Ok(()));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { KeReadStateEvent(ptr::null_mut()) }, 0);
    }
}
