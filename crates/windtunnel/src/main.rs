//! The command: fly drivers, list what there is, explain rules.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

/// `bench` shows bytes; for anything else it only forwards.
#[global_allocator]
static ALLOCATOR: cost::CountingAllocator = cost::CountingAllocator;

fn main() -> ExitCode {
    command::run()
}
