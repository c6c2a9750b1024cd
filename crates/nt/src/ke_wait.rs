//! The wait functions under their Windows names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::ObjectMemory;
use crate::import_table::import_rows;
use crate::waits::{self, WaitEnd};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_TIMEOUT, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, NTSTATUS, PVOID};

import_rows! {
    KeDelayExecutionThread lacks "no alerts; time is virtual: it passes when no thread can run";
    KeWaitForMultipleObjects lacks "no alerts; too many objects are an error, not a bug check";
    KeWaitForMutexObject lacks "no alerts";
    KeWaitForSingleObject lacks "no alerts; not for processes and queues";
}

/// The greatest number of objects of a wait without wait blocks.
const THREAD_WAIT_OBJECTS: u32 = 3;
/// The greatest number of objects of a wait.
const MAXIMUM_WAIT_OBJECTS: u32 = 64;
/// `WaitAll` of `WAIT_TYPE`; the other value is `WaitAny`.
const WAIT_ALL: i32 = 0;

/// The status of a wait. Does not return on a thread whose run is over.
fn status(end: WaitEnd) -> NTSTATUS {
    match end {
        WaitEnd::Satisfied(index) => i32::try_from(index).unwrap_or(STATUS_SUCCESS),
        WaitEnd::TimedOut => STATUS_TIMEOUT,
        WaitEnd::Failed => STATUS_UNSUCCESSFUL,
        WaitEnd::HostEnded => {
            waits::leave_if_over(end);
            STATUS_UNSUCCESSFUL
        }
    }
}

/// Waits for an event, a mutex, a semaphore, a timer or a thread.
///
/// # Safety
///
/// `object` is NULL or points to a dispatcher object, which stays there while it is used;
/// `timeout` is NULL or points to a valid `i64`.
pub unsafe extern "win64-unwind" fn KeWaitForSingleObject(
    object: PVOID,
    _reason: i32,
    _mode: i8,
    _alertable: BOOLEAN,
    timeout: *const i64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let timeout = (!timeout.is_null()).then(|| unsafe { timeout.read_unaligned() });
    // SAFETY: The caller's contract.
    let Some(object) = (unsafe { ObjectMemory::at(object) }) else { return STATUS_UNSUCCESSFUL };
    status(waits::wait("KeWaitForSingleObject", &[object], false, timeout))
}

/// Waits for a mutex: another name of [`KeWaitForSingleObject`].
///
/// # Safety
///
/// As for [`KeWaitForSingleObject`].
pub unsafe extern "win64-unwind" fn KeWaitForMutexObject(
    mutex: PVOID,
    reason: i32,
    mode: i8,
    alertable: BOOLEAN,
    timeout: *const i64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { KeWaitForSingleObject(mutex, reason, mode, alertable, timeout) }
}

/// Waits for one of several objects (then the status is its index) or for all of them.
///
/// WINDOWS: documented. More objects than `THREAD_WAIT_OBJECTS` without wait blocks, or more than
/// `MAXIMUM_WAIT_OBJECTS`, are a bug check; here the status is `STATUS_INVALID_PARAMETER`.
///
/// # Safety
///
/// `objects` points to `count` pointers, each as for [`KeWaitForSingleObject`]; `timeout` as there.
pub unsafe extern "win64-unwind" fn KeWaitForMultipleObjects(
    count: u32,
    objects: *const PVOID,
    wait_type: i32,
    _reason: i32,
    _mode: i8,
    _alertable: BOOLEAN,
    timeout: *const i64,
    wait_blocks: PVOID,
) -> NTSTATUS {
    let limit = if wait_blocks.is_null() { THREAD_WAIT_OBJECTS } else { MAXIMUM_WAIT_OBJECTS };
    if count == 0 || count > limit || objects.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: The caller's contract.
    let timeout = (!timeout.is_null()).then(|| unsafe { timeout.read_unaligned() });
    let mut list = Vec::new();
    for index in 0..count as usize {
        // SAFETY: The caller's contract: there are `count` pointers.
        let place = unsafe { objects.add(index) };
        // SAFETY: As above.
        let object = unsafe { place.read_unaligned() };
        // SAFETY: As above.
        match unsafe { ObjectMemory::at(object) } {
            Some(object) => list.push(object),
            None => return STATUS_INVALID_PARAMETER,
        }
    }
    let end = waits::wait("KeWaitForMultipleObjects", &list, wait_type == WAIT_ALL, timeout);
    drop(list);
    status(end)
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
    status(waits::delay(unsafe { interval.read_unaligned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_event::{KeInitializeEvent, KeSetEvent};
    use crate::testing::fly_driver;
    use std::ptr;

    #[test]
    fn outside_a_driver_there_is_nothing_to_wait_for() {
        let event: PVOID = ptr::without_provenance_mut(0x200);
        // SAFETY: NULL means no timeout, and without a driver the event is not dereferenced.
        let status = unsafe { KeWaitForSingleObject(event, 0, 0, 0, ptr::null()) };
        assert_eq!(status, STATUS_UNSUCCESSFUL);
    }

    #[test]
    fn a_timeout_is_relative_to_now() {
        fly_driver(|host| {
            let mut memory = [0_u64; 3];
            let event: PVOID = memory.as_mut_ptr().cast();
            // SAFETY: The event is `memory`.
            unsafe { KeInitializeEvent(event, 0, 0) };
            for turn in 1..=3 {
                // SAFETY: The interval is an `i64`.
                assert_eq!(unsafe { KeDelayExecutionThread(0, 0, &-100) }, STATUS_SUCCESS);
                // SAFETY: As above.
                let status = unsafe { KeWaitForSingleObject(event, 0, 0, 0, &-50) };
                assert_eq!((status, host.now()), (STATUS_TIMEOUT, 150 * turn));
            }
            let later = i64::try_from(crate::clock::SYSTEM_TIME_AT_START).unwrap() + 1000;
            // SAFETY: As above.
            assert_eq!(unsafe { KeDelayExecutionThread(0, 0, &raw const later) }, STATUS_SUCCESS);
            assert_eq!(host.now(), 1000, "a system time");
            // SAFETY: As above.
            assert_eq!(unsafe { KeWaitForSingleObject(event, 0, 0, 0, &0) }, STATUS_TIMEOUT);
            assert_eq!(host.now(), 1000, "it only looks");
        });
    }

    #[test]
    fn any_of_several_or_all() {
        fly_driver(|host| {
            let mut memory = [[0_u64; 3]; 4];
            let events: Vec<PVOID> =
                memory.iter_mut().map(|event| event.as_mut_ptr().cast()).collect();
            for event in &events {
                // SAFETY: The events are in `memory`.
                unsafe { KeInitializeEvent(*event, 1, 0) };
            }
            let list = events.as_ptr();
            let wait = |count, all: i32, blocks: PVOID| {
                // SAFETY: As above; the timeout is an `i64`.
                unsafe { KeWaitForMultipleObjects(count, list, all, 0, 0, 0, &-10, blocks) }
            };
            // SAFETY: As above.
            unsafe { KeSetEvent(events[2], 0, 0) };
            assert_eq!(wait(3, 0, ptr::null_mut()), STATUS_TIMEOUT, "not all");
            assert_eq!(wait(3, 1, ptr::null_mut()), 2, "STATUS_WAIT_2");
            assert_eq!(wait(3, 1, ptr::null_mut()), STATUS_TIMEOUT, "its signal is used up");
            for event in &events {
                // SAFETY: As above.
                unsafe { KeSetEvent(*event, 0, 0) };
            }
            assert_eq!(wait(4, 0, ptr::null_mut()), STATUS_INVALID_PARAMETER, "no wait blocks");
            let blocks: PVOID = ptr::without_provenance_mut(8);
            assert_eq!(wait(4, 0, blocks), STATUS_SUCCESS);
            assert_eq!(wait(4, 1, blocks), STATUS_TIMEOUT, "all signals are used up");
            assert_eq!(host.now(), 30);
        });
    }
}
