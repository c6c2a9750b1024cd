//! Remove locks (`IoAcquireRemoveLockEx`, …), under their Windows names.
//!
//! A lock is in the driver's memory: whether it is removed (offset 0), the number of its holders
//! and of its driver (offset 4), and an event that the last holder sets (offset 8).
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::judge_irql;
use crate::import_table::import_rows;
use crate::status::{STATUS_DELETE_PENDING, STATUS_SUCCESS};
use abi::{NTSTATUS, PVOID};
use std::sync::{Mutex, PoisonError};

import_rows! {
    IoAcquireRemoveLockEx lacks "tags are not checked";
    IoInitializeRemoveLockEx lacks "tags are not checked";
    IoReleaseRemoveLockAndWaitEx lacks "tags are not checked";
    IoReleaseRemoveLockEx lacks "tags are not checked";
}

const REMOVED: usize = 0;
const COUNT: usize = 4;
const EVENT: usize = 8;

/// Guards the counts of all remove locks.
static LOCKS: Mutex<()> = Mutex::new(());

/// Changes the number of holders; returns the new number.
fn add(lock: DriverMemory, change: i32) -> i32 {
    let _guard = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = lock.read::<i32>(COUNT).wrapping_add(change);
    lock.write(COUNT, count);
    count
}

/// The lock's event.
fn event(lock: DriverMemory) -> PVOID {
    lock.part(EVENT).pointer()
}

/// Initialises a lock.
pub unsafe extern "win64-unwind" fn IoInitializeRemoveLockEx(
    lock: PVOID,
    _tag: u32,
    _max_minutes: u32,
    _high_water: u32,
    _size: u32,
) {
    judge_irql("IoInitializeRemoveLockEx");
    // SAFETY: The caller's contract.
    let lock = unsafe { DriverMemory::at(lock) };
    lock.write(REMOVED, 0_u32);
    lock.write(COUNT, 1_i32);
    // SAFETY: The event is part of the lock.
    unsafe { crate::KeInitializeEvent(event(lock), 1, 0) };
}

/// Acquires a lock. Fails with `STATUS_DELETE_PENDING` after the driver has begun to remove its
/// device.
pub unsafe extern "win64-unwind" fn IoAcquireRemoveLockEx(
    lock: PVOID,
    _tag: PVOID,
    _file: PVOID,
    _line: u32,
    _size: u32,
) -> NTSTATUS {
    judge_irql("IoAcquireRemoveLockEx");
    // SAFETY: The caller's contract.
    let memory = unsafe { DriverMemory::at(lock) };
    add(memory, 1);
    if memory.read::<u8>(REMOVED) == 0 {
        return STATUS_SUCCESS;
    }
    release(memory);
    STATUS_DELETE_PENDING
}

fn release(lock: DriverMemory) {
    if add(lock, -1) == 0 {
        // SAFETY: The event is part of the lock.
        unsafe { crate::KeSetEvent(event(lock), 0, 0) };
    }
}

/// Releases a lock.
pub unsafe extern "win64-unwind" fn IoReleaseRemoveLockEx(lock: PVOID, _tag: PVOID, _size: u32) {
    judge_irql("IoReleaseRemoveLockEx");
    // SAFETY: The caller's contract.
    release(unsafe { DriverMemory::at(lock) });
}

/// Releases a lock, lets no one acquire it any more, and waits for its other holders.
pub unsafe extern "win64-unwind" fn IoReleaseRemoveLockAndWaitEx(
    lock: PVOID,
    _tag: PVOID,
    _size: u32,
) {
    judge_irql("IoReleaseRemoveLockAndWaitEx");
    // SAFETY: The caller's contract.
    let lock = unsafe { DriverMemory::at(lock) };
    lock.write(REMOVED, 1_u8);
    // One for the caller, and one for the driver, which `IoInitializeRemoveLockEx` counted.
    if add(lock, -2) > 0 {
        // SAFETY: The event is part of the lock; NULL means no timeout.
        unsafe { crate::KeWaitForSingleObject(event(lock), 0, 0, 0, std::ptr::null()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, fly};
    use std::ptr::null_mut;

    #[test]
    fn a_removed_lock_cannot_be_acquired() {
        let mut memory = [u64::MAX; 5];
        let lock: PVOID = memory.as_mut_ptr().cast();
        fly(|| {
            call!(IoInitializeRemoveLockEx, lock, 0, 0, 0, 32);
            let acquire = || call!(IoAcquireRemoveLockEx, lock, null_mut(), null_mut(), 0, 32);
            assert_eq!((acquire(), acquire()), (0, 0));
            call!(IoReleaseRemoveLockEx, lock, null_mut(), 32);
            call!(IoReleaseRemoveLockAndWaitEx, lock, null_mut(), 32);
            assert_eq!(acquire(), STATUS_DELETE_PENDING);
        });
        assert_eq!((memory[0], memory[4]), (1, u64::MAX), "removed, no holders, 32 bytes");
    }

    #[test]
    fn the_last_holder_sets_the_event() {
        let mut memory = [0_u64; 5];
        let lock: PVOID = memory.as_mut_ptr().cast();
        fly(|| {
            call!(IoInitializeRemoveLockEx, lock, 0, 0, 0, 32);
            let fields = call!(DriverMemory::at::<std::ffi::c_void>, lock);
            fields.write(COUNT, 2_i32); // A holder, and the driver has begun to remove.
            fields.write(REMOVED, 1_u8);
            call!(IoReleaseRemoveLockEx, lock, null_mut(), 32);
            assert_eq!(call!(crate::KeReadStateEvent, event(fields)), 0);
            call!(IoReleaseRemoveLockEx, lock, null_mut(), 32);
            assert_eq!(call!(crate::KeReadStateEvent, event(fields)), 1);
        });
    }
}
