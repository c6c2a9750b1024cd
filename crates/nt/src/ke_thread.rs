//! Priorities, affinities, critical regions and saved states of threads under their Windows names.
//! Priorities and affinities are stored; they change no order.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::import_table::import_rows;
use crate::ke_irql::APC_LEVEL;
use crate::processor::number;
use crate::waits::log_misuse;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, NTSTATUS, PVOID};
use std::cell::Cell;

import_rows! {
    KeAreAllApcsDisabled;
    KeAreApcsDisabled;
    KeEnterCriticalRegion lacks "there are no APCs";
    KeEnterGuardedRegion lacks "there are no APCs";
    KeExpandKernelStackAndCallout lacks "the stack is long enough";
    KeExpandKernelStackAndCalloutEx lacks "the stack is long enough";
    KeLeaveCriticalRegion lacks "there are no APCs";
    KeLeaveGuardedRegion lacks "there are no APCs";
    KeQueryPriorityThread lacks "priorities have no effect";
    KeRestoreExtendedProcessorState;
    KeRestoreFloatingPointState;
    KeRevertToUserAffinityThread lacks "there is one processor";
    KeRevertToUserAffinityThreadEx lacks "there is one processor";
    KeRevertToUserGroupAffinityThread lacks "there is one processor";
    KeSaveExtendedProcessorState lacks "a thread switch keeps all registers";
    KeSaveFloatingPointState lacks "a thread switch keeps all registers";
    KeSetBasePriorityThread lacks "priorities have no effect";
    KeSetPriorityThread lacks "priorities have no effect";
    KeSetSystemAffinityThread lacks "there is one processor";
    KeSetSystemAffinityThreadEx lacks "there is one processor";
    KeSetSystemGroupAffinityThread lacks "there is one processor";
}

/// The offset of the priority in a thread object. WINDOWS: undocumented; no driver reads it.
pub(crate) const PRIORITY_OFFSET: usize = 0x408;
/// The offset of the increment of the base priority.
const INCREMENT_OFFSET: usize = 0x40C;
/// The priority of a new thread.
pub(crate) const DEFAULT_PRIORITY: i32 = 8;

thread_local! {
    /// How often this thread has entered a critical region and not left it.
    static CRITICAL_REGIONS: Cell<u32> = const { Cell::new(0) };
    /// How often this thread has entered a guarded region and not left it.
    static GUARDED_REGIONS: Cell<u32> = const { Cell::new(0) };
}

/// Changes a number of a thread; returns the previous one.
///
/// # Safety
///
/// `thread` is NULL or points to a thread object.
unsafe fn replace(thread: PVOID, offset: usize, new: Option<i32>) -> i32 {
    // SAFETY: The caller's contract.
    let memory = unsafe { ObjectMemory::at(thread) };
    let Some(memory) = memory.filter(|memory| memory.kind() == Some(ObjectKind::Thread)) else {
        return 0;
    };
    // SAFETY: A thread object has an `i32` there.
    let before = unsafe { memory.read(offset) };
    if let Some(new) = new {
        // SAFETY: As above.
        unsafe { memory.write(offset, new) };
    }
    before
}

/// Sets the priority of a thread; returns the previous one.
///
/// # Safety
///
/// `thread` is NULL or points to a thread object.
pub unsafe extern "win64-unwind" fn KeSetPriorityThread(thread: PVOID, priority: i32) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { replace(thread, PRIORITY_OFFSET, Some(priority)) }
}

/// The priority of a thread.
///
/// # Safety
///
/// As for [`KeSetPriorityThread`].
pub unsafe extern "win64-unwind" fn KeQueryPriorityThread(thread: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { replace(thread, PRIORITY_OFFSET, None) }
}

/// Sets the base priority of a thread relative to that of its process; returns the previous
/// increment.
///
/// # Safety
///
/// As for [`KeSetPriorityThread`].
pub unsafe extern "win64-unwind" fn KeSetBasePriorityThread(thread: PVOID, increment: i32) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { replace(thread, INCREMENT_OFFSET, Some(increment)) }
}

/// Lets the current thread run on some processors only: there is one.
pub extern "win64-unwind" fn KeSetSystemAffinityThread(_affinity: usize) {}

/// As [`KeSetSystemAffinityThread`]; returns the previous affinity: there was none.
pub extern "win64-unwind" fn KeSetSystemAffinityThreadEx(_affinity: usize) -> usize {
    0
}

/// Ends the effect of [`KeSetSystemAffinityThread`].
pub extern "win64-unwind" fn KeRevertToUserAffinityThread() {}

/// Ends the effect of [`KeSetSystemAffinityThreadEx`].
pub extern "win64-unwind" fn KeRevertToUserAffinityThreadEx(_affinity: usize) {}

/// As [`KeSetSystemAffinityThread`], with a `GROUP_AFFINITY`; the previous one is empty.
///
/// # Safety
///
/// `previous` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeSetSystemGroupAffinityThread(
    _affinity: *const [u64; 2],
    previous: *mut [u64; 2],
) {
    if !previous.is_null() {
        // SAFETY: The caller's contract.
        unsafe { previous.write_unaligned([0; 2]) };
    }
}

/// Ends the effect of [`KeSetSystemGroupAffinityThread`].
pub extern "win64-unwind" fn KeRevertToUserGroupAffinityThread(_affinity: *const [u64; 2]) {}

/// Leaves a region of this thread. One that was not entered is logged.
fn leave(import: &'static str, regions: &'static std::thread::LocalKey<Cell<u32>>) {
    match regions.get().checked_sub(1) {
        Some(left) => regions.set(left),
        None => log_misuse(import, "outside a region that the thread entered"),
    }
}

/// Disables normal kernel APCs.
pub extern "win64-unwind" fn KeEnterCriticalRegion() {
    CRITICAL_REGIONS.set(CRITICAL_REGIONS.get() + 1);
}

/// Enables normal kernel APCs again.
pub extern "win64-unwind" fn KeLeaveCriticalRegion() {
    leave("KeLeaveCriticalRegion", &CRITICAL_REGIONS);
}

/// Disables all APCs.
pub extern "win64-unwind" fn KeEnterGuardedRegion() {
    GUARDED_REGIONS.set(GUARDED_REGIONS.get() + 1);
}

/// Enables all APCs again.
pub extern "win64-unwind" fn KeLeaveGuardedRegion() {
    leave("KeLeaveGuardedRegion", &GUARDED_REGIONS);
}

/// Whether normal kernel APCs are disabled.
pub extern "win64-unwind" fn KeAreApcsDisabled() -> BOOLEAN {
    BOOLEAN::from(CRITICAL_REGIONS.get() > 0 || GUARDED_REGIONS.get() > 0)
}

/// Whether all APCs are disabled.
pub extern "win64-unwind" fn KeAreAllApcsDisabled() -> BOOLEAN {
    let raised = number("KeAreAllApcsDisabled") >= APC_LEVEL;
    BOOLEAN::from(raised || GUARDED_REGIONS.get() > 0)
}

/// Calls a routine with enough stack.
///
/// # Safety
///
/// `routine` may be called with `parameter`.
pub unsafe extern "win64-unwind" fn KeExpandKernelStackAndCallout(
    routine: Option<unsafe extern "win64-unwind" fn(PVOID)>,
    parameter: PVOID,
    _size: usize,
) -> NTSTATUS {
    let Some(routine) = routine else { return STATUS_INVALID_PARAMETER };
    // SAFETY: The caller's contract.
    unsafe { routine(parameter) };
    STATUS_SUCCESS
}

/// As [`KeExpandKernelStackAndCallout`].
///
/// # Safety
///
/// As for [`KeExpandKernelStackAndCallout`].
pub unsafe extern "win64-unwind" fn KeExpandKernelStackAndCalloutEx(
    routine: Option<unsafe extern "win64-unwind" fn(PVOID)>,
    parameter: PVOID,
    size: usize,
    _wait: BOOLEAN,
    _context: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { KeExpandKernelStackAndCallout(routine, parameter, size) }
}

/// Saves the floating-point state. A thread switch keeps it here.
pub extern "win64-unwind" fn KeSaveFloatingPointState(_state: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Restores the floating-point state.
pub extern "win64-unwind" fn KeRestoreFloatingPointState(_state: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Saves the extended processor state. A thread switch keeps it here.
pub extern "win64-unwind" fn KeSaveExtendedProcessorState(_mask: u64, _state: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Restores the extended processor state.
pub extern "win64-unwind" fn KeRestoreExtendedProcessorState(_state: PVOID) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ps::KeGetCurrentThread;
    use crate::testing::fly_with;

    #[test]
    fn a_priority_is_read_back() {
        let thread = KeGetCurrentThread();
        // SAFETY: It is the current thread's object.
        assert_eq!(unsafe { KeSetPriorityThread(thread, 16) }, DEFAULT_PRIORITY);
        // SAFETY: As above.
        assert_eq!(unsafe { KeQueryPriorityThread(thread) }, 16);
        // SAFETY: As above.
        assert_eq!(unsafe { KeSetBasePriorityThread(thread, 2) }, 0);
        // SAFETY: As above.
        assert_eq!(unsafe { KeSetBasePriorityThread(thread, 0) }, 2);
    }

    unsafe extern "win64-unwind" fn count(counter: PVOID) {
        // SAFETY: The test passes a counter.
        unsafe { *counter.cast::<u32>() += 1 };
    }

    #[test]
    fn a_callout_is_called_once() {
        let mut counter = 0_u32;
        // SAFETY: The routine accepts a counter.
        let status = unsafe {
            KeExpandKernelStackAndCallout(Some(count), (&raw mut counter).cast(), 0x2000)
        };
        assert_eq!((status, counter), (STATUS_SUCCESS, 1));
    }

    #[test]
    fn regions_nest() {
        fly_with(0, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                assert_eq!((KeAreApcsDisabled(), KeAreAllApcsDisabled()), (0, 0));
                KeEnterCriticalRegion();
                KeEnterCriticalRegion();
                KeLeaveCriticalRegion();
                assert_eq!((KeAreApcsDisabled(), KeAreAllApcsDisabled()), (1, 0));
                KeLeaveCriticalRegion();
                KeEnterGuardedRegion();
                assert_eq!((KeAreApcsDisabled(), KeAreAllApcsDisabled()), (1, 1));
                KeLeaveGuardedRegion();
                crate::KfRaiseIrql(APC_LEVEL);
                assert_eq!((KeAreApcsDisabled(), KeAreAllApcsDisabled()), (0, 1));
                crate::KeLowerIrql(0);
                KeLeaveCriticalRegion();
            });
            assert_eq!(crate::testing::misuses(log).len(), 1);
        });
    }
}
