//! `pairs off|verifier COUNT`: does so many pairs and nothing else. The test command counts its
//! instructions.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let verifier = match arguments.next().as_deref() {
        Some("off") => Some(false),
        Some("verifier") => Some(true),
        _ => None,
    };
    let count = arguments.next().and_then(|it| it.parse().ok());
    let (Some(verifier), Some(count)) = (verifier, count) else {
        eprintln!("pairs off|verifier COUNT");
        return ExitCode::from(2);
    };
    match cost::pairs(verifier, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cost::NotMeasured(why)) => {
            eprintln!("it needs {why}");
            ExitCode::FAILURE
        }
    }
}
