//! `pairs [packet-|frame-]off|[packet-|frame-]verifier COUNT`: does so many pairs, or packets, or
//! frames, and nothing else. The test command counts its instructions.
#![forbid(unsafe_code)]

use cost::Counted;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = match arguments.next().as_deref() {
        Some("off") => Some((Counted::Pair, false)),
        Some("verifier") => Some((Counted::Pair, true)),
        Some("packet-off") => Some((Counted::Packet, false)),
        Some("packet-verifier") => Some((Counted::Packet, true)),
        Some("frame-off") => Some((Counted::Frame, false)),
        Some("frame-verifier") => Some((Counted::Frame, true)),
        _ => None,
    };
    let count = arguments.next().and_then(|it| it.parse().ok());
    let (Some((what, verifier)), Some(count)) = (what, count) else {
        eprintln!("pairs [packet-|frame-]off|[packet-|frame-]verifier COUNT");
        return ExitCode::from(2);
    };
    match cost::count(what, verifier, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cost::NotMeasured(why)) => {
            eprintln!("it needs {why}");
            ExitCode::FAILURE
        }
    }
}
