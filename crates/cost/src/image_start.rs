//! What comes before the first call of an image: loading it, and starting the command.

use crate::clock::{Span, timed};
use crate::images::{DriverFolder, read};
use crate::memory::nanoseconds_each;
use crate::{BenchSize, MeasureError};
use nt::image::{Channel, Module};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The first event of the first DDI.
const FIRST_CALL: &str = " ddi.call name=DxgkDdiAddDevice ";

/// Room for the events before it.
const FIRST_EVENTS: usize = 64 << 10;

/// The time after which a command has failed.
const TOO_LONG: Duration = Duration::from_secs(10);

/// The time between two looks at the events of a flight.
const INTERVAL: Duration = Duration::from_micros(20);

/// Nanoseconds to read an image from the bytes of its file, map, relocate, bind and protect it, and
/// to unmap it again.
pub(crate) fn load(extent: &BenchSize, folder: &DriverFolder) -> Result<f64, MeasureError> {
    /// Loads in a turn.
    const LOADS: usize = 10;
    let path = folder.compute();
    let file = read(&path)?;
    let mut turns = Vec::new();
    for _ in 0..extent.turns {
        let turn = timed(|| {
            for _ in 0..LOADS {
                Module::load(&path, &file, port::resolve_import)
                    .map_err(|why| MeasureError(format!("{}, which {why}", path.display())))?;
            }
            Ok(())
        });
        turns.push(turn.map(Span::duration)?);
    }
    Ok(nanoseconds_each(turns, LOADS))
}

/// Nanoseconds from the start of `windtunnel check compute.sys` to the first DDI.
pub(crate) fn command_to_first_ddi(
    extent: &BenchSize,
    folder: &DriverFolder,
) -> Result<f64, MeasureError> {
    let program = program()?;
    let mut turns = Vec::new();
    for _ in 0..extent.turns {
        let start = Instant::now();
        let mut command = Command::new(&program);
        command.arg("check").arg(folder.compute()).args(["--scenario", "create-standalone"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn();
        let mut child = child.map_err(|why| MeasureError(format!("a command: {why}")))?;
        let called = wait_for_first_ddi(&mut child, start);
        let status = child.wait().map_err(|why| MeasureError(format!("a command: {why}")))?;
        turns.push(called?);
        if !status.success() {
            return Err(MeasureError(format!("a check that passes; it ended with {status}")));
        }
    }
    Ok(nanoseconds_each(turns, 1))
}

/// The command, in the folder of this program or above it: this program may be `cargo bench`.
pub(crate) fn program() -> Result<PathBuf, MeasureError> {
    let this = std::env::current_exe().map_err(|why| MeasureError(why.to_string()))?;
    let programs = this.ancestors().skip(1).map(|folder| folder.join("windtunnel"));
    let program = programs.into_iter().find(|program| program.is_file());
    program.ok_or(MeasureError("the command 'windtunnel' beside this program".to_owned()))
}

/// Looks at the events of the command's flight until the first DDI is called. Returns the time since
/// the start.
fn wait_for_first_ddi(command: &mut Child, start: Instant) -> Result<Duration, MeasureError> {
    let mut channel = None;
    while start.elapsed() < TOO_LONG {
        let ended = matches!(command.try_wait(), Ok(Some(_)));
        if let Some(channel) = &channel {
            if is_called(channel) {
                return Ok(start.elapsed());
            }
        } else {
            channel = flight_channel(command);
        }
        if ended {
            return Err(MeasureError("a command that calls a DDI; it ended before".to_owned()));
        }
        std::thread::sleep(INTERVAL);
    }
    Err(MeasureError(format!("a first DDI within {TOO_LONG:?}")))
}

/// Whether the events of a flight have the first call.
fn is_called(channel: &File) -> bool {
    let mut start = vec![0; FIRST_EVENTS];
    let read = channel.read_at(&mut start, Channel::TEXT_START).unwrap_or(0);
    start[..read].windows(FIRST_CALL.len()).any(|window| window == FIRST_CALL.as_bytes())
}

/// The shared memory of the command's flight, through the descriptor of its process. `None` before
/// it exists.
fn flight_channel(command: &Child) -> Option<File> {
    let folder = format!("/proc/{}/fd", command.id());
    let is_channel = |path: &PathBuf| {
        let target = std::fs::read_link(path).unwrap_or_default();
        target.starts_with(Path::new("/memfd:windtunnel-flight (deleted)"))
    };
    let descriptors = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let path = descriptors.into_iter().find(is_channel)?;
    let file = File::open(path).ok()?;
    // The memory has its size a moment after its name.
    (file.metadata().ok()?.len() > 0).then_some(file)
}
