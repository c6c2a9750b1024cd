//! What the test command counts.
//!
//! `pairs [OPERATION-]off|verifier|trace COUNT` runs COUNT operations and nothing else, so that the
//! test command can count their instructions. The operation is a pair if none is named; else it is
//! `shared` (a pair that a second process opens, too), `slowed` (a pair with a planted slow-down),
//! `packet`, `packet64` (64 packets at a time), `callback` (a user-mode driver's pair), `frame` or
//! `library` (a pair through the C library, whose events have no observer).
//!
//! `pairs check RUNS` prints the page faults and the waits of a whole `windtunnel check`.
#![forbid(unsafe_code)]

use cost::{CountedOperation, MeasureError, Watch};
use std::process::ExitCode;

/// The allocator that the C library has.
#[global_allocator]
static ALLOCATOR: d3dkmt::ReserveAllocator = d3dkmt::ReserveAllocator;

const USAGE: &str = "\
pairs [shared-|slowed-|packet-|packet64-|callback-|frame-|library-]off|verifier|trace COUNT
pairs check RUNS";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (what, count) = (arguments.next(), arguments.next());
    let count = count.and_then(|text| text.parse().ok());
    let done = match (what.as_deref(), count) {
        (Some("check"), Some(runs)) => check(runs),
        (Some(name), Some(count)) => match operation(name) {
            Some((operation, watch)) => cost::count(operation, watch, count),
            None => return usage(),
        },
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(MeasureError(reason)) => {
            eprintln!("needs {reason}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// The operation and the observer of a name like `packet-off`.
fn operation(name: &str) -> Option<(CountedOperation, Watch)> {
    let (operation, watch) = name.rsplit_once('-').unwrap_or(("pair", name));
    let operation = match operation {
        "pair" => CountedOperation::Pair,
        "shared" => CountedOperation::SharedPair,
        "slowed" => CountedOperation::SlowedPair,
        "packet" => CountedOperation::Packet,
        "packet64" => CountedOperation::PacketOf64,
        "callback" => CountedOperation::Callback,
        "frame" => CountedOperation::Frame,
        "library" if watch == "off" => CountedOperation::LibraryPair,
        _ => return None,
    };
    let watch = match watch {
        "off" => Watch::Off,
        "verifier" => Watch::Verifier,
        "trace" => Watch::Trace,
        _ => return None,
    };
    Some((operation, watch))
}

fn check(runs: usize) -> Result<(), MeasureError> {
    let used = cost::check_usage(runs)?;
    println!("check-page-faults {}\ncheck-waits {}", used.page_faults, used.waits);
    Ok(())
}
