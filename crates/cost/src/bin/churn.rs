//! `cargo xtask churn`: keeps allocations alive through the C library while threads create and
//! destroy them, and prints the resident memory.
#![forbid(unsafe_code)]

use clap::Parser;
use cost::{ChurnEnd, ChurnSize, MeasureError};
use std::process::ExitCode;
use std::time::Duration;

/// Create and destroy allocations through the C library while many are alive. `WINDTUNNEL_REPORT`
/// turns the verifier on
#[derive(Parser)]
#[command(name = "churn")]
struct Arguments {
    /// The allocations that are alive, of all threads
    #[arg(long, default_value_t = 1_000_000)]
    alive: usize,
    /// The number of threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    threads: u8,
    /// How long the threads create and destroy
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The pairs of each thread, instead of a time
    #[arg(long)]
    pairs: Option<usize>,
}

fn main() -> ExitCode {
    let Arguments { alive, threads, seconds, pairs } = Arguments::parse();
    let until = pairs.map_or(ChurnEnd::Time(Duration::from_secs(seconds)), ChurnEnd::Pairs);
    let size = ChurnSize { alive, threads: usize::from(threads), until };
    match cost::churn(size, &mut |line| print!("{line}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(MeasureError(reason)) => {
            eprintln!("churn: needs {reason}");
            ExitCode::FAILURE
        }
    }
}
