//! The `windtunnel` command: flies drivers, lists drivers, scenarios and rules, explains rules.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: nt::ExitWithoutMemory = nt::ExitWithoutMemory;

fn main() -> ExitCode {
    nt::end_unless_threads_can_begin();
    command::run()
}
