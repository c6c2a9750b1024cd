//! `pairs [packet-|callback-|frame-]off|verifier COUNT`: does so many pairs, packets, pairs of a
//! user-mode driver, or frames, and nothing else. The test command counts its instructions.
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
        Some("callback-off") => Some((Counted::Callback, false)),
        Some("callback-verifier") => Some((Counted::Callback, true)),
        Some("frame-off") => Some((Counted::Frame, false)),
        Some("frame-verifier") => Some((Counted::Frame, true)),
        _ => None,
    };
    let count = arguments.next().and_then(|it| it.parse().ok());
    let (Some((what, verifier)), Some(count)) = (what, count) else {
        eprintln!("pairs [packet-|callback-|frame-]off|verifier COUNT");
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
