//! Chores. `cargo xtask test` is the test command; `cargo xtask bless` rewrites golden traces and
//! generated pages.
#![forbid(unsafe_code)]

mod tally;
mod test;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test    checks formatting and lints, runs every test, prints a total
cargo xtask bless   rewrites golden traces and generated pages; read the diff before you commit it";

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("test") => test::run(),
        Some("bless") => bless(),
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn bless() -> Result<(), String> {
    let tests = ["--test", "golden", "--test", "house"];
    let mut cargo = cargo(&[&["test", "--package", "windtunnel-tests"], &tests[..]].concat());
    run(cargo.env("WINDTUNNEL_BLESS", "1"))
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let mut here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.pop();
    here
}

/// A cargo command in the workspace.
fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command to its end, which must be a good one.
fn run(command: &mut Command) -> Result<(), String> {
    let said = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{said} ended with {status}")),
        Err(why) => Err(format!("{said} did not start: {why}")),
    }
}
