//! What a whole check of the built-in driver uses, as the operating system counts it.
#![expect(unsafe_code, reason = "asks the operating system what a process has used")]

use crate::image_start::program;
use crate::{BenchSize, MeasureError};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The name of the row.
const WHAT: &str = "windtunnel check --jobs 1";

/// A check takes much longer than a call: there are fewer turns, by this factor.
const FEWER: usize = 10;

/// What `windtunnel check --jobs 1` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckUsage {
    /// Processor time, in the program and in the system.
    pub processor: Duration,
    /// Page faults, with and without input.
    pub page_faults: u64,
    /// How often a thread of it waited. Switches that the system decides on depend on other
    /// processes, and are not counted.
    pub waits: u64,
}

impl CheckUsage {
    /// The name of the row.
    pub fn what(&self) -> &'static str {
        WHAT
    }
}

/// Measures the row, if it is selected.
pub(crate) fn measure(extent: &BenchSize) -> Result<Option<CheckUsage>, MeasureError> {
    let runs = extent.turns.div_ceil(FEWER);
    extent.asks(WHAT).then(|| check_usage(runs)).transpose()
}

/// The least of each number in this many runs: other processes on the machine only add to them.
pub fn check_usage(runs: usize) -> Result<CheckUsage, MeasureError> {
    let least = |one: CheckUsage, two: CheckUsage| CheckUsage {
        processor: one.processor.min(two.processor),
        page_faults: one.page_faults.min(two.page_faults),
        waits: one.waits.min(two.waits),
    };
    let all = (0..runs.max(1)).map(|_| one_check()).collect::<Result<Vec<_>, _>>()?;
    all.into_iter().reduce(least).ok_or(MeasureError("a run".to_owned()))
}

fn one_check() -> Result<CheckUsage, MeasureError> {
    let mut command = Command::new(program()?);
    command.args(["check", "--jobs", "1"]).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().map_err(|why| MeasureError(format!("a command: {why}")))?;
    let process = libc::pid_t::try_from(child.id()).unwrap_or(0);
    let mut status = 0;
    // SAFETY: The structure has numbers only, for which zeros are values.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: Both results outlive the call. The process is a child that is not waited for elsewhere.
    let ended = unsafe { libc::wait4(process, &raw mut status, 0, &raw mut used) };
    if ended != process || status != 0 {
        return Err(MeasureError(format!("a check that passes; it ended with {status:#x}")));
    }
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec.unsigned_abs())
            + Duration::from_micros(value.tv_usec.unsigned_abs())
    };
    Ok(CheckUsage {
        processor: time(used.ru_utime) + time(used.ru_stime),
        page_faults: used.ru_minflt.unsigned_abs() + used.ru_majflt.unsigned_abs(),
        waits: used.ru_nvcsw.unsigned_abs(),
    })
}
