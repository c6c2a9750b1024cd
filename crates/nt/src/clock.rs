//! The clocks that a driver reads: one time source for all of them.

use crate::processor::current;

/// The build number of the Windows version that drivers see.
pub(crate) const BUILD_NUMBER: u32 = 22_631;

/// The system time at which every flight begins: 2024-01-01, in units of 100 ns since 1601.
const BOOT_TIME: u64 = 133_485_408_000_000_000;

/// The time between two clock interrupts, in units of 100 ns: 15.625 ms.
const TICK: u64 = 156_250;

/// The clocks at one moment, in units of 100 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Since the start of the machine.
    pub(crate) interrupt_time: u64,
    /// Since 1601.
    pub(crate) system_time: u64,
    /// Clock interrupts since the start of the machine.
    pub(crate) ticks: u64,
}

/// Reads the clocks.
pub(crate) fn read() -> Clock {
    let now = current("a clock").map_or(0, |(host, _)| host.now());
    Clock { interrupt_time: now, system_time: BOOT_TIME + now, ticks: now / TICK }
}
