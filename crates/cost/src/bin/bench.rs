//! `cargo xtask bench`: measures what an allocation, a packet, a frame and a check cost, and prints
//! tables. It is no part of the `windtunnel` command, because it has the floors inside.
#![forbid(unsafe_code)]

use clap::Parser;
use cost::{BenchSize, MeasureError};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cost::CountingAllocator = cost::CountingAllocator;

/// Measure what an allocation costs: create, open, close, destroy with other allocations live;
/// compared with two floors, with checks on and off, on two threads, through the C library. Also
/// packets, GPU addresses, video memory, frames, user-mode drivers, images, and a whole check
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Smoke test: few allocations, one turn
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also measure with a million live allocations: takes minutes and gigabytes of memory
    #[arg(long)]
    full: bool,
    /// Only the rows whose name contains this text, for example 'C library'
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match cost::run_client_role() {
        Ok(false) => (),
        Ok(true) => return ExitCode::SUCCESS,
        Err(MeasureError(reason)) => {
            eprintln!("bench: a client needs {reason}");
            return ExitCode::from(2);
        }
    }
    let Arguments { quick, full, only, json } = Arguments::parse();
    let extent = match (quick, full) {
        (true, _) => BenchSize::quick(),
        (_, true) => BenchSize::full(),
        _ => BenchSize::default_size(),
    };
    let extent = BenchSize { only, ..extent };
    let mut say = |text: &str| {
        if !json {
            print!("{text}");
        }
    };
    match cost::bench(&extent, &mut say) {
        Ok(report) if json => println!("{}", cost::bench_json(&extent, &report)),
        Ok(_) => {}
        Err(MeasureError(reason)) => {
            eprintln!("bench: needs {reason}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
