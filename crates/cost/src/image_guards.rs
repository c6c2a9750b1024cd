//! What guarded memory costs: whole checks of an image with `--guard full`, `sampled` and `off`.

use crate::clock::{Span, timed};
use crate::image_start::program;
use crate::images::DriverFolder;
use crate::memory::nanoseconds_each;
use crate::{BenchSize, MeasureError};
use std::process::{Command, Stdio};

/// The kinds of guard, as the command calls them.
const GUARDS: [&str; 3] = ["full", "sampled", "off"];

/// A check takes much longer than a call: there are fewer turns, by this factor.
const FEWER: usize = 10;

/// Nanoseconds of `windtunnel check compute.sys` with every block guarded, with one of eight, and
/// with none. The three take turns, so that a busy machine delays all of them.
pub(crate) fn checks(extent: &BenchSize, folder: &DriverFolder) -> Result<[f64; 3], MeasureError> {
    let program = program()?;
    let mut turns = [const { Vec::new() }; 3];
    for _ in 0..extent.turns.div_ceil(FEWER) {
        for (guard, turns) in GUARDS.iter().zip(&mut turns) {
            let mut command = Command::new(&program);
            command.arg("check").arg(folder.compute()).args(["--guard", guard]);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let turn = timed(|| {
                let status = command.status();
                let status = status.map_err(|why| MeasureError(format!("a command: {why}")))?;
                if status.success() {
                    return Ok(());
                }
                Err(MeasureError(format!("a check that passes; it ended with {status}")))
            });
            turns.push(turn.map(Span::duration)?);
        }
    }
    Ok(turns.map(|turns| nanoseconds_each(turns, 1)))
}
