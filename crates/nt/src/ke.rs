//! Levels, spin locks, events and waits under their Windows names.
//!
//! They act for the driver that is running on this thread; elsewhere they do nothing. A spin
//! lock and an event are known by their addresses: their memory is neither read nor written.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::processor::{acquire_spin_lock, level, release_spin_lock, set_level};
use crate::waits::{self, WaitEnd};
use abi::status::{STATUS_SUCCESS, STATUS_TIMEOUT, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, NTSTATUS, PVOID};
use flight::Irql;

/// An interrupt request level as Windows counts it.
pub type KIRQL = u8;

/// `PASSIVE_LEVEL`.
pub const PASSIVE_LEVEL: KIRQL = 0;
/// `DISPATCH_LEVEL`.
pub const DISPATCH_LEVEL: KIRQL = 2;
/// The level of devices here. WINDOWS: every line has its own, from 3 on (documented).
pub const DEVICE_LEVEL: KIRQL = 5;

/// `SynchronizationEvent`: a wait uses it up.
const SYNCHRONIZATION: i32 = 1;

fn irql_number(level: Irql) -> KIRQL {
    match level {
        Irql::Passive => PASSIVE_LEVEL,
        Irql::Dispatch => DISPATCH_LEVEL,
        Irql::Device => DEVICE_LEVEL,
    }
}

/// The level of a number. `APC_LEVEL` counts as passive: there are no APCs here.
fn irql_from_number(number: KIRQL) -> Irql {
    match number {
        0 | 1 => Irql::Passive,
        DISPATCH_LEVEL => Irql::Dispatch,
        _ => Irql::Device,
    }
}

/// The level the driver is at.
pub extern "win64-unwind" fn KeGetCurrentIrql() -> KIRQL {
    irql_number(level("KeGetCurrentIrql"))
}

/// Raises the level; answers the one before.
pub extern "win64-unwind" fn KfRaiseIrql(new: KIRQL) -> KIRQL {
    irql_number(set_level("KfRaiseIrql", irql_from_number(new)))
}

/// Raises the level to `DISPATCH_LEVEL`; answers the one before.
pub extern "win64-unwind" fn KeRaiseIrqlToDpcLevel() -> KIRQL {
    irql_number(set_level("KeRaiseIrqlToDpcLevel", Irql::Dispatch))
}

/// Lowers the level.
pub extern "win64-unwind" fn KeLowerIrql(new: KIRQL) {
    set_level("KeLowerIrql", irql_from_number(new));
}

/// A spin lock that nobody has.
pub extern "win64-unwind" fn KeInitializeSpinLock(_lock: *mut usize) {}

/// Raises the level to `DISPATCH_LEVEL` and takes a spin lock; answers the level before.
pub extern "win64-unwind" fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> KIRQL {
    const NAME: &str = "KeAcquireSpinLockRaiseToDpc";
    let before = set_level(NAME, Irql::Dispatch);
    acquire_spin_lock(NAME, lock.addr());
    irql_number(before)
}

/// Lets a spin lock go and lowers the level.
pub extern "win64-unwind" fn KeReleaseSpinLock(lock: *mut usize, new: KIRQL) {
    const NAME: &str = "KeReleaseSpinLock";
    release_spin_lock(NAME, lock.addr());
    set_level(NAME, irql_from_number(new));
}

/// An event, set or not. `kind` is 0 if it stays set, 1 if a wait uses it up.
pub extern "win64-unwind" fn KeInitializeEvent(event: PVOID, kind: i32, state: BOOLEAN) {
    waits::initialize(event.addr(), kind == SYNCHRONIZATION, state != 0);
}

/// Sets an event; answers whether it was set.
pub extern "win64-unwind" fn KeSetEvent(event: PVOID, _boost: i32, _wait: BOOLEAN) -> i32 {
    i32::from(waits::set(event.addr()))
}

/// Waits for an event.
///
/// # Safety
///
/// `timeout` is NULL or points to a number.
pub unsafe extern "win64-unwind" fn KeWaitForSingleObject(
    object: PVOID,
    _reason: i32,
    _mode: i8,
    _alertable: BOOLEAN,
    timeout: *const i64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let deadline = (!timeout.is_null()).then(|| unsafe { timeout.read() }.unsigned_abs());
    match waits::wait(object.addr(), deadline) {
        WaitEnd::Set => STATUS_SUCCESS,
        WaitEnd::TimedOut => STATUS_TIMEOUT,
        WaitEnd::Failed => STATUS_UNSUCCESSFUL,
    }
}

/// Lets time pass.
///
/// # Safety
///
/// `interval` points to a number.
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
        let flight_result = DeterministicHost::fly(0, &log, |host, _| {
            let host: Arc<dyn Host> = host.clone();
            let lock: *mut usize = ptr::without_provenance_mut(0x100);
            let ((), left) = run_driver(&host, &log, || {
                assert_eq!((KeRaiseIrqlToDpcLevel(), KeGetCurrentIrql()), (0, 2));
                assert_eq!((KfRaiseIrql(DEVICE_LEVEL), KeGetCurrentIrql()), (2, 5));
                KeLowerIrql(PASSIVE_LEVEL);
                KeInitializeSpinLock(lock);
                let before = KeAcquireSpinLockRaiseToDpc(lock);
                assert_eq!((before, KeGetCurrentIrql()), (0, 2));
                KeReleaseSpinLock(lock, before);
            });
            assert_eq!((left.level, left.locks), (Irql::Passive, 0));
        });
        flight_result.unwrap();
    }

    #[test]
    fn outside_a_driver_there_is_nothing_to_wait_for() {
        let event: PVOID = ptr::without_provenance_mut(0x200);
        // SAFETY: NULL is no timeout, and the event is not followed.
        let status = unsafe { KeWaitForSingleObject(event, 0, 0, 0, ptr::null()) };
        assert_eq!(status, STATUS_UNSUCCESSFUL);
    }
}
