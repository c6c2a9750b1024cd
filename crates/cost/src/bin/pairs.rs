//! `pairs [OPERATION-]off|verifier|trace COUNT`: runs COUNT operations and nothing else, so that the
//! test command can count their instructions. The operation is a pair if none is named; else it is
//! `packet`, `callback` (a user-mode driver's pair), `frame` or `library` (a pair through the C
//! library, whose events have no observer).
#![forbid(unsafe_code)]

use cost::{CountedOperation, Watch};
use std::process::ExitCode;

/// The allocator that the C library has.
#[global_allocator]
static ALLOCATOR: d3dkmt::ReserveAllocator = d3dkmt::ReserveAllocator;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next();
    let what = what.as_deref().and_then(|name| {
        let (operation, watch) = name.rsplit_once('-').unwrap_or(("pair", name));
        let operation = match operation {
            "pair" => CountedOperation::Pair,
            "packet" => CountedOperation::Packet,
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
    });
    let count = arguments.next().and_then(|text| text.parse().ok());
    let (Some((what, watch)), Some(count)) = (what, count) else {
        eprintln!("pairs [packet-|callback-|frame-|library-]off|verifier|trace COUNT");
        return ExitCode::from(2);
    };
    match cost::count(what, watch, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cost::MeasureError(reason)) => {
            eprintln!("needs {reason}");
            ExitCode::FAILURE
        }
    }
}
