//! `pairs [packet-|callback-|frame-]off|verifier COUNT`, `pairs library-off COUNT`: runs COUNT pairs,
//! packets, user-mode driver's pairs, frames or pairs of the C library, and nothing else. The test command counts its instructions.
#![forbid(unsafe_code)]

use cost::CountedOperation;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = match arguments.next().as_deref() {
        Some("off") => Some((CountedOperation::Pair, false)),
        Some("verifier") => Some((CountedOperation::Pair, true)),
        Some("library-off") => Some((CountedOperation::LibraryPair, false)),
        Some("packet-off") => Some((CountedOperation::Packet, false)),
        Some("packet-verifier") => Some((CountedOperation::Packet, true)),
        Some("callback-off") => Some((CountedOperation::Callback, false)),
        Some("callback-verifier") => Some((CountedOperation::Callback, true)),
        Some("frame-off") => Some((CountedOperation::Frame, false)),
        Some("frame-verifier") => Some((CountedOperation::Frame, true)),
        _ => None,
    };
    let count = arguments.next().and_then(|text| text.parse().ok());
    let (Some((what, verifier)), Some(count)) = (what, count) else {
        eprintln!("pairs [packet-|callback-|frame-]off|verifier COUNT, pairs library-off COUNT");
        return ExitCode::from(2);
    };
    match cost::count(what, verifier, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cost::MeasureError(reason)) => {
            eprintln!("needs {reason}");
            ExitCode::FAILURE
        }
    }
}
