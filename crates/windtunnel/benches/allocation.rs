//! `cargo bench` prints what `windtunnel bench` prints. `cargo bench -- --full` also measures with
//! a million live allocations.
#![forbid(unsafe_code)]

use cost::{BenchSize, MeasureError};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cost::CountingAllocator = cost::CountingAllocator;

fn main() -> ExitCode {
    let has_flag = |flag: &str| std::env::args().any(|text| text == flag);
    let extent = match (has_flag("--quick"), has_flag("--full")) {
        (true, _) => BenchSize::quick(),
        (_, true) => BenchSize::full(),
        _ => BenchSize::default_size(),
    };
    match cost::bench(&extent, &mut |text| print!("{text}")) {
        Ok(_) => ExitCode::SUCCESS,
        Err(MeasureError(reason)) => {
            eprintln!("needs {reason}");
            ExitCode::FAILURE
        }
    }
}
