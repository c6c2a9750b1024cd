//! Clocks, processors and busy waiting under their Windows names. The clocks are in `clock.rs`.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]

use crate::clock::{
    PERFORMANCE_FREQUENCY, TIME_INCREMENT, interrupt_time, read, system_time, tick_count,
};
use crate::import_table::import_rows;
use crate::processor::{current, pass_time};
use crate::raised_time::judge_stall;
use crate::waits::yield_at_passive;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, NTSTATUS};

import_rows! {
    ExQueryTimerResolution lacks "time is virtual, and deadlines are exact";
    ExSetTimerResolution lacks "time is virtual, and deadlines are exact";
    KeGetCurrentNodeNumber lacks "there is one node";
    KeGetCurrentProcessorNumber lacks "there is one processor";
    KeGetCurrentProcessorNumberEx lacks "there is one processor";
    KeGetProcessorIndexFromNumber lacks "there is one processor";
    KeGetProcessorNumberFromIndex lacks "there is one processor";
    static KeNumberProcessors = KeNumberProcessors;
    KeQueryActiveGroupCount lacks "there is one group";
    KeQueryActiveProcessorCount lacks "there is one processor";
    KeQueryActiveProcessorCountEx lacks "there is one processor";
    KeQueryActiveProcessors lacks "there is one processor";
    KeQueryGroupAffinity lacks "there is one processor";
    KeQueryHighestNodeNumber lacks "there is one node";
    KeQueryInterruptTime;
    KeQueryInterruptTimePrecise;
    KeQueryMaximumGroupCount lacks "there is one group";
    KeQueryMaximumProcessorCount lacks "there is one processor";
    KeQueryMaximumProcessorCountEx lacks "there is one processor";
    KeQueryPerformanceCounter;
    KeQuerySystemTime;
    KeQuerySystemTimePrecise;
    KeQueryTickCount;
    KeQueryTimeIncrement;
    KeQueryUnbiasedInterruptTime lacks "the machine never sleeps";
    KeQueryUnbiasedInterruptTimePrecise lacks "the machine never sleeps";
    KeStallExecutionProcessor lacks "virtual time passes; at passive level other threads may run";
}

/// Number of processors.
pub static KeNumberProcessors: i8 = 1;

/// Units of 100 ns per microsecond.
const MICROSECOND: u64 = 10;
/// `ALL_PROCESSOR_GROUPS`.
const ALL_GROUPS: u16 = 0xFFFF;

/// Writes a value, unless the place is NULL.
///
/// # Safety
///
/// `place` is NULL or valid for a write.
unsafe fn write<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: The caller's contract.
        unsafe { place.write_unaligned(value) };
    }
}

/// The system time, in units of 100 ns since 1601.
///
/// # Safety
///
/// `time` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeQuerySystemTime(time: *mut u64) {
    let now = read("KeQuerySystemTime", system_time).unwrap_or(0);
    // SAFETY: The caller's contract.
    unsafe { write(time, now) };
}

/// The system time: as exact as [`KeQuerySystemTime`].
///
/// # Safety
///
/// As for [`KeQuerySystemTime`].
pub unsafe extern "win64-unwind" fn KeQuerySystemTimePrecise(time: *mut u64) {
    // SAFETY: The caller's contract.
    unsafe { KeQuerySystemTime(time) };
}

/// The interrupt time, in units of 100 ns since the machine started.
pub extern "win64-unwind" fn KeQueryInterruptTime() -> u64 {
    read("KeQueryInterruptTime", interrupt_time).unwrap_or(0)
}

/// The interrupt time, and the performance counter at the same moment.
///
/// # Safety
///
/// `counter` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeQueryInterruptTimePrecise(counter: *mut u64) -> u64 {
    let now = KeQueryInterruptTime();
    // SAFETY: The caller's contract.
    unsafe { write(counter, now) };
    now
}

/// The interrupt time without the time that the machine slept.
pub extern "win64-unwind" fn KeQueryUnbiasedInterruptTime() -> u64 {
    KeQueryInterruptTime()
}

/// The interrupt time without the time that the machine slept, and the performance counter.
///
/// # Safety
///
/// As for [`KeQueryInterruptTimePrecise`].
pub unsafe extern "win64-unwind" fn KeQueryUnbiasedInterruptTimePrecise(counter: *mut u64) -> u64 {
    // SAFETY: The caller's contract.
    unsafe { KeQueryInterruptTimePrecise(counter) }
}

/// The number of ticks since the machine started.
///
/// # Safety
///
/// `count` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeQueryTickCount(count: *mut u64) {
    let ticks = read("KeQueryTickCount", tick_count).unwrap_or(0);
    // SAFETY: The caller's contract.
    unsafe { write(count, ticks) };
}

/// The time between two ticks, in units of 100 ns.
pub extern "win64-unwind" fn KeQueryTimeIncrement() -> u32 {
    TIME_INCREMENT
}

/// The performance counter, and its frequency.
///
/// # Safety
///
/// `frequency` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeQueryPerformanceCounter(frequency: *mut u64) -> u64 {
    // SAFETY: The caller's contract.
    unsafe { write(frequency, PERFORMANCE_FREQUENCY) };
    read("KeQueryPerformanceCounter", interrupt_time).unwrap_or(0)
}

/// Lets microseconds pass without a wait, at any IRQL. At passive level another thread may run then.
pub extern "win64-unwind" fn KeStallExecutionProcessor(microseconds: u32) {
    const NAME: &str = "KeStallExecutionProcessor";
    let Some((host, log)) = current(NAME) else { return };
    judge_stall(&log, microseconds);
    pass_time(NAME, u64::from(microseconds) * MICROSECOND);
    yield_at_passive(&*host, &log, NAME);
}

/// Asks for a timer resolution; returns the one there is.
pub extern "win64-unwind" fn ExSetTimerResolution(desired: u32, set: BOOLEAN) -> u32 {
    // WINDOWS: documented. The resolution is between 1 ms and the time increment.
    if set == 0 { TIME_INCREMENT } else { desired.clamp(10_000, TIME_INCREMENT) }
}

/// The greatest and the smallest time between two ticks, and the present one.
///
/// # Safety
///
/// Each pointer is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn ExQueryTimerResolution(
    maximum: *mut u32,
    minimum: *mut u32,
    present: *mut u32,
) {
    for (place, value) in [(maximum, TIME_INCREMENT), (minimum, 10_000), (present, TIME_INCREMENT)]
    {
        // SAFETY: The caller's contract.
        unsafe { write(place, value) };
    }
}

/// Number of processors, and the mask of them.
///
/// # Safety
///
/// `active` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeQueryActiveProcessorCount(active: *mut usize) -> u32 {
    // SAFETY: The caller's contract.
    unsafe { write(active, 1) };
    1
}

/// Number of processors of a group.
pub extern "win64-unwind" fn KeQueryActiveProcessorCountEx(group: u16) -> u32 {
    u32::from(group == 0 || group == ALL_GROUPS)
}

/// The mask of the processors.
pub extern "win64-unwind" fn KeQueryActiveProcessors() -> usize {
    1
}

/// The mask of the processors of a group.
pub extern "win64-unwind" fn KeQueryGroupAffinity(group: u16) -> usize {
    usize::from(group == 0)
}

/// Number of processors that the machine can have.
pub extern "win64-unwind" fn KeQueryMaximumProcessorCount() -> u32 {
    1
}

/// Number of processors that a group can have.
pub extern "win64-unwind" fn KeQueryMaximumProcessorCountEx(group: u16) -> u32 {
    KeQueryActiveProcessorCountEx(group)
}

/// Number of processor groups.
pub extern "win64-unwind" fn KeQueryActiveGroupCount() -> u16 {
    1
}

/// Number of processor groups that the machine can have.
pub extern "win64-unwind" fn KeQueryMaximumGroupCount() -> u16 {
    1
}

/// The number of the current processor.
pub extern "win64-unwind" fn KeGetCurrentProcessorNumber() -> u32 {
    0
}

/// The number of the current processor, and its `PROCESSOR_NUMBER`.
///
/// # Safety
///
/// `number` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeGetCurrentProcessorNumberEx(number: *mut u32) -> u32 {
    // SAFETY: The caller's contract. Group, number and reserved byte are zero.
    unsafe { write(number, 0) };
    0
}

/// The `PROCESSOR_NUMBER` of a processor.
///
/// # Safety
///
/// `number` is NULL or valid for a write.
pub unsafe extern "win64-unwind" fn KeGetProcessorNumberFromIndex(
    index: u32,
    number: *mut u32,
) -> NTSTATUS {
    if index != 0 {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: The caller's contract.
    unsafe { write(number, 0) };
    STATUS_SUCCESS
}

/// The index of a processor, or -1.
///
/// # Safety
///
/// `number` points to a `PROCESSOR_NUMBER`.
pub unsafe extern "win64-unwind" fn KeGetProcessorIndexFromNumber(number: *const u32) -> u32 {
    // SAFETY: The caller's contract.
    if unsafe { number.read_unaligned() } == 0 { 0 } else { u32::MAX }
}

/// The number of the current node.
pub extern "win64-unwind" fn KeGetCurrentNodeNumber() -> u16 {
    0
}

/// The highest number of a node.
pub extern "win64-unwind" fn KeQueryHighestNodeNumber() -> u16 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SYSTEM_TIME_AT_START, UPTIME_AT_START};
    use crate::ke_wait::KeDelayExecutionThread;
    use crate::testing::{fly_driver, fly_with};
    use flight::{WaitResult, WaitToken};
    use std::sync::Arc;

    #[test]
    fn all_clocks_are_one() {
        fly_driver(|host| {
            // SAFETY: The interval is an `i64`: one second.
            unsafe { KeDelayExecutionThread(0, 0, &-10_000_000) };
            let (mut system, mut ticks, mut counter, mut frequency) = (0, 0, 0, 0);
            // SAFETY: The place is a local variable.
            unsafe { KeQuerySystemTimePrecise(&raw mut system) };
            assert_eq!(system, SYSTEM_TIME_AT_START + host.now());
            // SAFETY: As above.
            let precise = unsafe { KeQueryInterruptTimePrecise(&raw mut counter) };
            assert_eq!((precise, counter), (UPTIME_AT_START + host.now(), precise));
            // SAFETY: As above.
            let counted = unsafe { KeQueryPerformanceCounter(&raw mut frequency) };
            assert_eq!((counted, frequency), (UPTIME_AT_START + host.now(), 10_000_000));
            // SAFETY: As above.
            unsafe { KeQueryTickCount(&raw mut ticks) };
            assert_eq!(ticks * u64::from(KeQueryTimeIncrement()), 610_000_000 / 156_250 * 156_250);
            assert_eq!(tick_count(&**host), ticks);
        });
    }

    #[test]
    fn a_driver_that_polls_a_clock_reaches_any_time() {
        fly_driver(|_| {
            let end = KeQueryInterruptTime() + 1000;
            let readings = (0..10_000).take_while(|_| KeQueryInterruptTime() < end).count();
            assert_eq!(readings, 999);
        });
    }

    #[test]
    fn a_stall_takes_time_at_any_irql_and_ends_the_waits_of_others() {
        for raised in [false, true] {
            fly_with(2, |host, log, at| {
                let (other, start) = (host.clone(), host.now());
                let end = host.clone().spawner().spawn("other", move |at| {
                    let result = other.park(at, &WaitToken::new("time"), Some(50));
                    assert_eq!(result, WaitResult::TimedOut);
                    assert_eq!(other.now(), if raised { 200 } else { 100 });
                });
                host.yield_point(at);
                let host: &Arc<dyn flight::Host> = host;
                crate::processor::run_driver(host, log, || {
                    let irql = if raised { crate::KeRaiseIrqlToDpcLevel() } else { 0 };
                    KeStallExecutionProcessor(10);
                    assert_eq!(host.now() - start, 100);
                    if raised {
                        KeStallExecutionProcessor(10);
                        crate::KeLowerIrql(irql);
                    }
                });
                host.park(at, &end, None);
            });
        }
    }

    #[test]
    fn there_is_one_processor() {
        let (mut mask, mut number) = (0, 7);
        // SAFETY: The place is a local variable.
        assert_eq!((unsafe { KeQueryActiveProcessorCount(&raw mut mask) }, mask), (1, 1));
        // SAFETY: As above.
        assert_eq!((unsafe { KeGetCurrentProcessorNumberEx(&raw mut number) }, number), (0, 0));
        assert_eq!((KeQueryActiveProcessorCountEx(ALL_GROUPS), KeQueryGroupAffinity(1)), (1, 0));
        // SAFETY: As above.
        let status = unsafe { KeGetProcessorNumberFromIndex(1, &raw mut number) };
        assert_eq!(status, STATUS_INVALID_PARAMETER);
        assert_eq!((ExSetTimerResolution(5_000, 1), ExSetTimerResolution(0, 0)), (10_000, 156_250));
    }
}
