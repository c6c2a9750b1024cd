//! Rundown protection, time zones and other small functions of the executive (`Ex`), under their
//! Windows names.
//!
//! An `EX_RUNDOWN_REF` is a 64-bit number in the driver's memory: twice the number of holders, plus
//! one after the rundown has begun.
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
use crate::status::STATUS_SUCCESS;
use abi::{BOOLEAN, GUID, NTSTATUS};
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};

import_rows! {
    ExAcquireRundownProtection;
    ExAcquireRundownProtectionEx;
    ExGetPreviousMode lacks "always KernelMode";
    ExInitializeRundownProtection;
    ExIsProcessorFeaturePresent lacks "the features of every x64 processor";
    ExLocalTimeToSystemTime lacks "the time zone is UTC";
    ExReInitializeRundownProtection;
    ExReleaseRundownProtection;
    ExReleaseRundownProtectionEx;
    ExRundownCompleted;
    ExSystemTimeToLocalTime lacks "the time zone is UTC";
    ExUuidCreate lacks "a fixed sequence";
    ExWaitForRundownProtectionRelease;
}

/// The bit of a reference after its rundown has begun.
const ACTIVE: u64 = 1;
const HOLDER: u64 = 2;

/// How long a wait for the last holder sleeps, in units of 100 nanoseconds, relative to now.
static POLL: i64 = -10_000;

/// The number in a reference.
///
/// # Safety
///
/// `reference` points to an aligned `EX_RUNDOWN_REF` that stays valid.
unsafe fn counter<'a>(reference: *mut u64) -> &'a AtomicU64 {
    let reference = with_exposed_provenance_mut(reference.expose_provenance());
    // SAFETY: The caller's contract. The driver changes the number only by these functions.
    unsafe { AtomicU64::from_ptr(reference) }
}

/// Initialises a reference: the object can be used.
pub unsafe extern "win64-unwind" fn ExInitializeRundownProtection(reference: *mut u64) {
    // SAFETY: The caller's contract.
    unsafe { counter(reference) }.store(0, Ordering::SeqCst);
}

/// Initialises a reference again after its rundown.
pub unsafe extern "win64-unwind" fn ExReInitializeRundownProtection(reference: *mut u64) {
    // SAFETY: The caller's contract.
    unsafe { counter(reference) }.store(0, Ordering::SeqCst);
}

/// Acquires protection. Returns FALSE if the rundown has begun.
pub unsafe extern "win64-unwind" fn ExAcquireRundownProtection(reference: *mut u64) -> BOOLEAN {
    // SAFETY: The caller's contract.
    unsafe { ExAcquireRundownProtectionEx(reference, 1) }
}

/// Acquires protection several times. Returns FALSE if the rundown has begun.
pub unsafe extern "win64-unwind" fn ExAcquireRundownProtectionEx(
    reference: *mut u64,
    count: u32,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    let counter = unsafe { counter(reference) };
    let add = |value: u64| (value & ACTIVE == 0).then_some(value + HOLDER * u64::from(count));
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok().into()
}

/// Releases protection.
pub unsafe extern "win64-unwind" fn ExReleaseRundownProtection(reference: *mut u64) {
    // SAFETY: The caller's contract.
    unsafe { ExReleaseRundownProtectionEx(reference, 1) };
}

/// Releases protection several times.
pub unsafe extern "win64-unwind" fn ExReleaseRundownProtectionEx(reference: *mut u64, count: u32) {
    // SAFETY: The caller's contract.
    unsafe { counter(reference) }.fetch_sub(HOLDER * u64::from(count), Ordering::SeqCst);
}

/// Begins the rundown and waits for the last holder.
pub unsafe extern "win64-unwind" fn ExWaitForRundownProtectionRelease(reference: *mut u64) {
    judge_irql("ExWaitForRundownProtectionRelease");
    // SAFETY: The caller's contract.
    let counter = unsafe { counter(reference) };
    counter.fetch_or(ACTIVE, Ordering::SeqCst);
    while counter.load(Ordering::SeqCst) != ACTIVE {
        // SAFETY: The interval is valid.
        if unsafe { crate::KeDelayExecutionThread(0, 0, &raw const POLL) } != STATUS_SUCCESS {
            return; // Waiting is not possible here, which was reported.
        }
    }
}

/// Marks a reference as run down, after a wait.
pub unsafe extern "win64-unwind" fn ExRundownCompleted(reference: *mut u64) {
    // SAFETY: The caller's contract.
    unsafe { counter(reference) }.store(ACTIVE, Ordering::SeqCst);
}

/// The mode that the thread's caller came from: drivers are called by the kernel.
pub extern "win64-unwind" fn ExGetPreviousMode() -> i8 {
    0
}

/// Converts a system time to local time: they are equal.
pub unsafe extern "win64-unwind" fn ExSystemTimeToLocalTime(system: *const i64, local: *mut i64) {
    // SAFETY: The caller's contract.
    let time: i64 = unsafe { DriverMemory::at(system) }.read(0);
    // SAFETY: The caller's contract.
    unsafe { DriverMemory::at(local) }.write(0, time);
}

/// Converts a local time to system time: they are equal.
pub unsafe extern "win64-unwind" fn ExLocalTimeToSystemTime(local: *const i64, system: *mut i64) {
    // SAFETY: The caller's contract.
    unsafe { ExSystemTimeToLocalTime(local, system) };
}

/// Creates a UUID of version 4. They repeat from process to process, so that a flight can be
/// repeated.
pub unsafe extern "win64-unwind" fn ExUuidCreate(uuid: *mut GUID) -> NTSTATUS {
    judge_irql("ExUuidCreate");
    // SAFETY: The caller's contract.
    create_uuid(unsafe { DriverMemory::at(uuid) });
    STATUS_SUCCESS
}

/// Writes the next UUID.
pub(crate) fn create_uuid(memory: DriverMemory) {
    static CREATED: AtomicU64 = AtomicU64::new(0);
    let number = CREATED.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let spread = u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let mut bytes = spread.to_le_bytes();
    bytes[7] = bytes[7] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    memory.write(0, bytes);
}

/// Whether the processor has a feature: those that every x64 processor of Windows 10 has.
pub extern "win64-unwind" fn ExIsProcessorFeaturePresent(feature: u32) -> BOOLEAN {
    /// Compare and exchange of 8 and 16 bytes, MMX, SSE to SSE3, RDTSC, PAE, no execution, and
    /// floating point.
    const PRESENT: [u32; 9] = [2, 3, 6, 8, 9, 10, 12, 13, 14];
    PRESENT.contains(&feature).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, fly};

    #[test]
    fn after_a_rundown_no_protection_is_given() {
        let mut word = 7;
        let reference = &raw mut word;
        fly(|| {
            call!(ExInitializeRundownProtection, reference);
            assert_eq!(call!(ExAcquireRundownProtection, reference), 1);
            assert_eq!(call!(ExAcquireRundownProtectionEx, reference, 2), 1);
            call!(ExReleaseRundownProtectionEx, reference, 2);
            call!(ExReleaseRundownProtection, reference);
            call!(ExWaitForRundownProtectionRelease, reference);
            assert_eq!(call!(ExAcquireRundownProtection, reference), 0);
            call!(ExRundownCompleted, reference);
            assert_eq!(call!(ExAcquireRundownProtection, reference), 0);
            call!(ExReInitializeRundownProtection, reference);
            assert_eq!(call!(ExAcquireRundownProtection, reference), 1);
        });
        assert_eq!(word, 2);
    }

    #[test]
    fn local_time_is_system_time() {
        let (time, mut local, mut system) = (5, 0, 0);
        call!(ExSystemTimeToLocalTime, &raw const time, &raw mut local);
        call!(ExLocalTimeToSystemTime, &raw const local, &raw mut system);
        assert_eq!((local, system, ExGetPreviousMode()), (5, 5, 0));
    }

    #[test]
    fn identifiers_differ_and_have_a_version() {
        let create = || {
            let mut guid = GUID { Data1: 0, Data2: 0, Data3: 0, Data4: [0; 8] };
            assert_eq!(call!(ExUuidCreate, &raw mut guid), 0);
            guid
        };
        let (one, other) = (create(), create());
        assert_ne!(one, other);
        assert_eq!((one.Data3 >> 12, one.Data4[0] >> 6), (4, 2));
        assert_eq!((ExIsProcessorFeaturePresent(10), ExIsProcessorFeaturePresent(99)), (1, 0));
    }
}
