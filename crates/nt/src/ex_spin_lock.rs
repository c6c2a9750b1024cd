//! Reader-writer spin locks (`EX_SPIN_LOCK`) under their Windows names.
//!
//! A lock is a 32-bit integer in the driver's memory. Readers do not share it here: one thread holds
//! it at a time, which a driver cannot tell apart from a bad moment.
#![expect(non_snake_case, reason = "Windows's names")]

use crate::entry::judge_irql;
use crate::import_table::import_rows;
use crate::ke_irql::{DISPATCH_LEVEL, KIRQL};
use crate::processor::{acquire_spin_lock, release_spin_lock, set_number, try_acquire_spin_lock};
use abi::BOOLEAN;

import_rows! {
    ExAcquireSpinLockExclusive lacks "the lock's integer does not change";
    ExAcquireSpinLockExclusiveAtDpcLevel lacks "the lock's integer does not change";
    ExAcquireSpinLockShared lacks "readers do not share";
    ExAcquireSpinLockSharedAtDpcLevel lacks "readers do not share";
    ExReleaseSpinLockExclusive;
    ExReleaseSpinLockExclusiveFromDpcLevel;
    ExReleaseSpinLockShared;
    ExReleaseSpinLockSharedFromDpcLevel;
    ExTryAcquireSpinLockExclusiveAtDpcLevel;
    ExTryConvertSharedSpinLockExclusive;
}

/// Raises the IRQL to `DISPATCH_LEVEL` and acquires a lock; returns the previous IRQL.
fn raise_and_acquire(import: &'static str, lock: *mut i32, shared: bool) -> KIRQL {
    judge_irql(import);
    let before = set_number(import, DISPATCH_LEVEL);
    acquire_spin_lock(import, lock.addr(), shared);
    before
}

/// Acquires a lock at `DISPATCH_LEVEL`.
fn acquire(import: &'static str, lock: *mut i32, shared: bool) {
    judge_irql(import);
    acquire_spin_lock(import, lock.addr(), shared);
}

/// Raises the IRQL and acquires a lock as a writer; returns the previous IRQL.
pub extern "win64-unwind" fn ExAcquireSpinLockExclusive(lock: *mut i32) -> KIRQL {
    raise_and_acquire("ExAcquireSpinLockExclusive", lock, false)
}

/// Raises the IRQL and acquires a lock as a reader; returns the previous IRQL.
pub extern "win64-unwind" fn ExAcquireSpinLockShared(lock: *mut i32) -> KIRQL {
    raise_and_acquire("ExAcquireSpinLockShared", lock, true)
}

/// Acquires a lock as a writer; the caller is at `DISPATCH_LEVEL`.
pub extern "win64-unwind" fn ExAcquireSpinLockExclusiveAtDpcLevel(lock: *mut i32) {
    acquire("ExAcquireSpinLockExclusiveAtDpcLevel", lock, false);
}

/// Acquires a lock as a reader; the caller is at `DISPATCH_LEVEL`.
pub extern "win64-unwind" fn ExAcquireSpinLockSharedAtDpcLevel(lock: *mut i32) {
    acquire("ExAcquireSpinLockSharedAtDpcLevel", lock, true);
}

/// Acquires a lock as a writer if it is free; returns whether it did.
pub extern "win64-unwind" fn ExTryAcquireSpinLockExclusiveAtDpcLevel(lock: *mut i32) -> BOOLEAN {
    BOOLEAN::from(try_acquire_spin_lock("ExTryAcquireSpinLockExclusiveAtDpcLevel", lock.addr()))
}

/// Makes a reader a writer. It always is the only reader.
pub extern "win64-unwind" fn ExTryConvertSharedSpinLockExclusive(_lock: *mut i32) -> BOOLEAN {
    1
}

/// Releases a writer's lock and lowers the IRQL.
pub extern "win64-unwind" fn ExReleaseSpinLockExclusive(lock: *mut i32, new: KIRQL) {
    release_spin_lock("ExReleaseSpinLockExclusive", lock.addr());
    set_number("ExReleaseSpinLockExclusive", new);
}

/// Releases a reader's lock and lowers the IRQL.
pub extern "win64-unwind" fn ExReleaseSpinLockShared(lock: *mut i32, new: KIRQL) {
    release_spin_lock("ExReleaseSpinLockShared", lock.addr());
    set_number("ExReleaseSpinLockShared", new);
}

/// Releases a writer's lock and stays at `DISPATCH_LEVEL`.
pub extern "win64-unwind" fn ExReleaseSpinLockExclusiveFromDpcLevel(lock: *mut i32) {
    release_spin_lock("ExReleaseSpinLockExclusiveFromDpcLevel", lock.addr());
}

/// Releases a reader's lock and stays at `DISPATCH_LEVEL`.
pub extern "win64-unwind" fn ExReleaseSpinLockSharedFromDpcLevel(lock: *mut i32) {
    release_spin_lock("ExReleaseSpinLockSharedFromDpcLevel", lock.addr());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_irql::KeGetCurrentIrql;
    use crate::testing::fly_driver;

    #[test]
    fn a_lock_raises_the_irql_and_is_held_once() {
        let mut word = 0_i32;
        let lock = &raw mut word;
        let left = fly_driver(|_| {
            let before = ExAcquireSpinLockShared(lock);
            assert_eq!((before, KeGetCurrentIrql()), (0, 2));
            assert_eq!(ExTryConvertSharedSpinLockExclusive(lock), 1);
            assert_eq!(ExTryAcquireSpinLockExclusiveAtDpcLevel(lock), 0);
            ExReleaseSpinLockSharedFromDpcLevel(lock);
            assert_eq!(KeGetCurrentIrql(), 2);
            assert_eq!(ExTryAcquireSpinLockExclusiveAtDpcLevel(lock), 1);
            ExReleaseSpinLockExclusive(lock, before);
            assert_eq!(KeGetCurrentIrql(), 0);
        });
        assert_eq!(left.locks, 0);
    }
}
