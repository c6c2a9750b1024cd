//! The `windtunnel` command: flies drivers, lists drivers, scenarios and rules, explains rules.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

/// Counts bytes for `bench`; otherwise forwards to the system allocator.
#[global_allocator]
static ALLOCATOR: cost::CountingAllocator = cost::CountingAllocator;

fn main() -> ExitCode {
    command::run()
}
