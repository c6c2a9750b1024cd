//! The command: fly drivers, list what there is, explain rules.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::run()
}
