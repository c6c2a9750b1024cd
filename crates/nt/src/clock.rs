//! The clocks that a driver reads. All come from one source, the host's virtual time, which starts
//! at zero with the flight.
//!
//! The machine was started [`UPTIME_AT_START`] before the flight, so that no clock reads zero; the
//! flight starts at [`SYSTEM_TIME_AT_START`], 1 January 2024 00:00:00 UTC. Interrupt time, the
//! performance counter (10 MHz) and the tick count count from the machine's start. A timer tick is
//! [`TIME_INCREMENT`], but deadlines are exact: they are not rounded up to the next tick.
//!
//! Time also passes a little with each reading ([`read`]), so that a driver that polls until a time
//! has come reaches that time.

use crate::processor::{current, pass_time};
use crate::waits::yield_at_passive;
use flight::Host;

/// The system time, in units of 100 ns since 1601, at which a flight starts.
pub const SYSTEM_TIME_AT_START: u64 = 133_485_408_000_000_000;
/// The interrupt time, in units of 100 ns, at which a flight starts: one minute.
pub const UPTIME_AT_START: u64 = 600_000_000;
/// The time between two ticks, in units of 100 ns: 15.625 ms.
pub const TIME_INCREMENT: u32 = 156_250;
/// Counts of the performance counter per second.
pub const PERFORMANCE_FREQUENCY: u64 = 10_000_000;

/// The system time, in units of 100 ns since 1601 (`KUSER_SHARED_DATA.SystemTime`).
pub fn system_time(host: &dyn Host) -> u64 {
    SYSTEM_TIME_AT_START.saturating_add(host.now())
}

/// The interrupt time, in units of 100 ns (`KUSER_SHARED_DATA.InterruptTime`).
pub fn interrupt_time(host: &dyn Host) -> u64 {
    UPTIME_AT_START.saturating_add(host.now())
}

/// The number of ticks since the machine started (`KUSER_SHARED_DATA.TickCount`).
pub fn tick_count(host: &dyn Host) -> u64 {
    interrupt_time(host) / u64::from(TIME_INCREMENT)
}

/// Reads a clock for the driver on this thread. Each reading takes one unit of time, and at passive
/// level another thread may run first. `None` if no driver runs on this thread.
pub fn read(import: &'static str, clock: fn(&dyn Host) -> u64) -> Option<u64> {
    let (host, log) = current(import)?;
    yield_at_passive(&*host, &log, import);
    pass_time(import, 1);
    Some(clock(&*host))
}

/// The host's time of a due time as Windows writes it: a negative one is relative to now, any other
/// is a system time. It is never before now.
pub(crate) fn due_time(value: i64, now: u64) -> u64 {
    if value < 0 {
        return now.saturating_add(value.unsigned_abs());
    }
    value.unsigned_abs().saturating_sub(SYSTEM_TIME_AT_START).max(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_due_time_is_relative_or_a_system_time() {
        assert_eq!(due_time(-10, 5), 15);
        assert_eq!(due_time(i64::MIN, 5), (1 << 63) + 5);
        let later = i64::try_from(SYSTEM_TIME_AT_START).unwrap() + 100;
        assert_eq!((due_time(later, 5), due_time(later, 200)), (100, 200));
        assert_eq!(due_time(1, 5), 5, "long ago");
    }
}
