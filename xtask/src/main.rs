//! Chores. `cargo xtask test` is the test command, `cargo xtask fuzz` and `cargo xtask sanitize`
//! are the long parts of it; `cargo xtask bless` rewrites golden traces and the count of
//! instructions, `cargo xtask docs` the pages that are made from code or quote a trace,
//! `cargo xtask bench-page` the tables of the benchmarks, `cargo xtask headers` the C header;
//! `cargo xtask install` puts the C library somewhere; `cargo xtask mutants` counts which changes of
//! our own code the tests notice; `cargo xtask measure` counts what the project wants less of.
#![forbid(unsafe_code)]

mod bench_page;
mod count;
mod headers;
mod install;
mod long;
mod measure;
mod mutants;
#[cfg(test)]
mod retired_words;
#[cfg(test)]
mod rooms;
mod sources;
mod tally;
mod test;
mod times;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test    checks formatting and lints, runs every test, prints a total and the time of
                    each step; with --long it also runs the next two commands, and longer
                    proofs
cargo xtask fuzz    runs each fuzzer for two minutes
cargo xtask sanitize
                    runs the tests of the C library with sanitizers
cargo xtask bless   rewrites the golden traces and the instruction counts; read the diff before
                    you commit it
cargo xtask count   counts the instructions and compares
cargo xtask docs    rewrites docs/support.md and quoted output in other pages from the code
cargo xtask bench-page
                    measures for some minutes and rewrites the tables of docs/benchmarks.md
cargo xtask headers rewrites the C header of the library
cargo xtask install --prefix DIR
                    builds and installs the C library, with headers and a pkg-config file";

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("test") => test::run(),
        Some("fuzz") => long::fuzz(),
        Some("sanitize") => long::sanitize(),
        Some("bless") => rewrite(&["golden"]).and_then(|()| count::bless()),
        Some("count") => count::check(),
        Some("docs") => rewrite(&["support", "house", "tutorial", "umd", "streams"]),
        Some("bench-page") => bench_page::run(),
        Some("headers") => headers::run(),
        Some("install") => install::run(),
        Some("measure") => measure::run(),
        Some("mutants") => mutants::run(),
        _ => Err(format!("{HELP}\n{}\n{}", mutants::HELP, measure::HELP)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Runs modules of the test program `command` with `WINDTUNNEL_BLESS`: they write the files that
/// they would otherwise compare.
fn rewrite(modules: &[&str]) -> Result<(), String> {
    let mut cargo = cargo(&["test", "--package", "windtunnel-tests", "--test", "command", "--"]);
    cargo.args(modules.iter().map(|module| format!("{module}::")));
    run(cargo.env("WINDTUNNEL_BLESS", "1"))
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let mut here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.pop();
    here
}

/// The target folder: this program is in its profile folder.
fn target() -> PathBuf {
    let here = std::env::current_exe().ok();
    let target = here.as_deref().and_then(Path::parent).and_then(Path::parent);
    target.map_or_else(|| root().join("target"), Path::to_owned)
}

/// A cargo command in the workspace.
fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command. Fails if it does not succeed.
fn run(command: &mut Command) -> Result<(), String> {
    let text = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{text} ended with {status}")),
        Err(reason) => Err(format!("{text} did not start: {reason}")),
    }
}
