//! Chores. `cargo xtask test` is the test command, `cargo xtask fuzz` and `cargo xtask sanitize`
//! are the long parts of it; `cargo xtask bless` rewrites golden traces and the count of
//! instructions, `cargo xtask docs` the pages that are made from code or quote a trace,
//! `cargo xtask bench-page` the tables of the benchmarks, which `cargo xtask bench` prints,
//! `cargo xtask headers` the C headers;
//! `cargo xtask drivers` builds the C drivers and the programs that tests run, `cargo xtask faults`
//! flies deliberate faults of all kinds of drivers, `cargo xtask damage` reads damaged files,
//! `cargo xtask soak` flies thousands of random drivers; `cargo xtask churn` creates and destroys
//! allocations while a million are alive, `cargo xtask hostile` makes millions of random calls;
//! `cargo xtask install` puts the command
//! and the C library somewhere; `cargo xtask mutants` counts which changes of our own code the tests notice;
//! `cargo xtask measure` counts what the project wants less of.
#![forbid(unsafe_code)]

mod bench_page;
mod churn;
mod count;
mod drivers;
mod headers;
mod install;
mod judged;
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

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

const HELP: &str = "\
cargo xtask test    checks formatting and lints, runs every test, prints a total and the time of
                    each step; with --long it also runs the next two commands, and longer
                    proofs
cargo xtask fuzz    runs each fuzzer for two minutes
cargo xtask sanitize
                    runs the tests of the C library with sanitizers
cargo xtask bless   rewrites the golden traces, the instruction counts and how often rules are
                    judged; read the diff before you commit it
cargo xtask count   counts instructions, page faults and waits, and compares
cargo xtask judged  compares how often a whole check judges each rule with what is recorded
cargo xtask docs    rewrites docs/support.md and quoted output in other pages from the code
cargo xtask bench [--quick|--full] [--only TEXT] [--json]
                    measures what an allocation, a packet, a frame and a check cost
cargo xtask bench-page [--quick]
                    measures for some minutes and rewrites the tables of docs/benchmarks.md;
                    with --quick it measures for seconds and prints them
cargo xtask headers rewrites the C headers
cargo xtask drivers builds the C drivers, as images for Windows and as shared objects, in
                    target/drivers, and the programs that tests run
cargo xtask faults  flies deliberate faults of images, shared objects, user-mode drivers, tables and
                    Rust drivers, and prints how many are contained and named; a part of test
cargo xtask damage [--files N]
                    reads damaged drivers, symbol files, steps and allow files, 10000 or N, in
                    processes with little memory, and gives a part of them to the whole command;
                    a part of test --long, and for some hundred files of test
cargo xtask soak [--flights N]
                    flies random bad drivers from one process, 10000 or N times, and compares its
                    memory at the start and at the end; a part of test --long
cargo xtask churn [--alive N] [--threads N] [--seconds N] [--pairs N]
                    creates and destroys allocations through the C library while a million are
                    alive, on eight threads, for a minute with checks off and for one with the
                    verifier on; fails if its memory grows or an object is left alive
cargo xtask hostile [--calls N]
                    makes random calls of every exported function of the C library, 50000000 or N:
                    in a process with threads, signals, cancellations and forks, and through a
                    server beside a client that checks its bytes; fails if a call crashes, does
                    not return or is an internal error, or if memory grows; a part of test --long
cargo xtask install --prefix DIR
                    builds and installs the command, and the C library with headers and a
                    pkg-config file";

/// The commands, each with the flags that it knows.
const FLAGS: &[(&str, &[&str])] = &[
    ("test", &["--long"]),
    ("fuzz", &[]),
    ("sanitize", &[]),
    ("bless", &[]),
    ("count", &[]),
    ("judged", &[]),
    ("docs", &[]),
    ("bench", &["--quick", "--full", "--only", "--json"]),
    ("bench-page", &["--quick"]),
    ("headers", &[]),
    ("drivers", &[]),
    ("faults", &[]),
    ("damage", &["--files"]),
    ("soak", &["--flights"]),
    ("churn", &["--alive", "--threads", "--seconds", "--pairs"]),
    ("hostile", &["--calls"]),
    ("install", &["--prefix"]),
    ("measure", &["--json"]),
];

/// The flags that a number follows.
const NUMBERS: &[&str] =
    &["--files", "--flights", "--alive", "--threads", "--seconds", "--pairs", "--calls"];

/// The exit status for arguments that are not understood.
const USAGE_STATUS: u8 = 2;

/// Why arguments are refused: a command with a flag or a word that it does not know.
fn refusal(arguments: &[String]) -> Option<String> {
    let (command, rest) = arguments.split_first()?;
    let (name, flags) = FLAGS.iter().find(|row| row.0 == command)?;
    let mut rest = rest.iter();
    let mut prefix = false;
    while let Some(word) = rest.next() {
        if !flags.contains(&word.as_str()) {
            return Some(format!("cargo xtask {name} does not know '{word}'"));
        }
        let needs_number = NUMBERS.contains(&word.as_str());
        if needs_number && rest.next().is_none_or(|count| count.parse::<u64>().is_err()) {
            return Some(format!("cargo xtask {name}: {word} needs a number"));
        }
        if word == "--only" && rest.next().is_none() {
            return Some(format!("cargo xtask {name}: --only needs a text"));
        }
        if word == "--prefix" {
            prefix = true;
            if rest.next().is_none() {
                return Some(format!("cargo xtask {name}: --prefix needs a directory"));
            }
        }
    }
    let needs_prefix = flags.contains(&"--prefix") && !prefix;
    needs_prefix.then(|| format!("cargo xtask {name} needs --prefix DIR"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(reason) = refusal(&arguments) {
        eprintln!("{reason}\n\n{HELP}\n{}", measure::HELP);
        return ExitCode::from(USAGE_STATUS);
    }
    let done = match arguments.first().map(String::as_str) {
        Some("test") => test::run(),
        Some("fuzz") => long::fuzz(),
        Some("sanitize") => long::sanitize(),
        Some("bless") => {
            rewrite(&["golden"]).and_then(|()| count::bless()).and_then(|()| judged::bless())
        }
        Some("count") => count::check(),
        Some("judged") => build_release(&[]).and_then(|()| judged::check()),
        Some("docs") => rewrite(&["support", "house", "tutorial", "umd", "streams", "samples"]),
        Some("bench") => bench_page::bench(&arguments[1..]),
        Some("bench-page") => bench_page::run(arguments.len() > 1),
        Some("headers") => headers::run(),
        Some("drivers") => build_for_tests(drivers::run),
        Some("faults") => build_for_tests(drivers::run).and_then(|()| test::faults()),
        Some("damage") => {
            let count = arguments.get(2).and_then(|count| count.parse().ok());
            build_for_tests(drivers::run)
                .and_then(|()| long::damage(count.unwrap_or(long::DAMAGED_FILES)))
        }
        Some("soak") => {
            let count = arguments.get(2).and_then(|count| count.parse().ok());
            long::soak(count.unwrap_or(long::FLIGHTS))
        }
        Some("churn") => churn::run(&arguments[1..]),
        Some("hostile") => {
            let calls = arguments.get(2).and_then(|calls| calls.parse().ok());
            long::hostile(calls.unwrap_or(long::CALLS))
        }
        Some("install") => install::run(),
        Some("measure") => measure::run(),
        Some("mutants") => mutants::run(),
        other => {
            let known = matches!(other, Some("help" | "--help" | "-h"));
            if let Some(word) = other.filter(|_| !known) {
                eprintln!("there is no command '{word}'\n");
            }
            eprintln!("{HELP}\n{}\n{}", mutants::HELP, measure::HELP);
            return if known { ExitCode::SUCCESS } else { ExitCode::from(USAGE_STATUS) };
        }
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
    build_for_tests(drivers::run)?;
    let mut cargo = cargo(&["test", "--workspace", "--test", "command", "--"]);
    cargo.args(modules.iter().map(|module| format!("{module}::")));
    run(cargo.env("WINDTUNNEL_BLESS", "1"))
}

/// Builds what tests run and do not build, as `tests/src/built.rs` expects it: the C drivers, the
/// command and the programs that measure. The features of the packages are those of
/// `cargo test --workspace`, so that nothing is built twice.
fn build_for_tests(drivers: fn() -> Result<(), String>) -> Result<(), String> {
    let (stamp, started) = (target().join("built-for-tests"), SystemTime::now());
    drivers()?;
    let programs = ["windtunnel", "bench", "churn"].iter().flat_map(|name| ["--bin", name]);
    run(cargo(&["build", "--workspace"]).args(programs))?;
    let written = File::create(&stamp).and_then(|file| file.set_modified(started));
    written.map_err(|reason| format!("{}: {reason}", stamp.display()))
}

/// Builds the command and the C library for release, and these programs that measure. One command:
/// cargo links several programs at a time.
fn build_release(programs: &[&str]) -> Result<(), String> {
    let packages = ["windtunnel", "windtunnel-library", "windtunnel-cost"];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let programs = ["windtunnel"].iter().chain(programs).flat_map(|name| ["--bin", name]);
    run(cargo(&["build", "--release", "--lib"]).args(packages).args(programs))
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

/// Runs a command, and says so before: it may build, or wait for another cargo that builds. Fails
/// if the command does not succeed.
fn run(command: &mut Command) -> Result<(), String> {
    let text = format!("{command:?}");
    announce(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{text} ended with {status}")),
        Err(reason) => Err(format!("{text} did not start: {reason}")),
    }
}

/// Prints the command that is about to run.
fn announce(command: &Command) {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = command.get_args().map(|word| word.to_string_lossy());
    let words: Vec<_> = std::iter::once(program.to_string_lossy()).chain(words).collect();
    eprintln!("xtask: {}", words.join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> Option<String> {
        refusal(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_that_a_command_does_not_know_are_refused() {
        for words in [&["test"][..], &["test", "--long"], &["measure", "--json"], &["docs"]] {
            assert_eq!(refused(words), None, "{words:?}");
        }
        assert_eq!(refused(&["install", "--prefix", "/tmp/there"]), None);
        assert_eq!(refused(&["soak", "--flights", "100"]), None);
        for (words, reason) in [
            (&["test", "--lnog"][..], "cargo xtask test does not know '--lnog'"),
            (&["docs", "all"], "cargo xtask docs does not know 'all'"),
            (&["soak", "--flights", "many"], "cargo xtask soak: --flights needs a number"),
            (&["install"], "cargo xtask install needs --prefix DIR"),
            (&["install", "--prefix"], "cargo xtask install: --prefix needs a directory"),
        ] {
            assert_eq!(refused(words).as_deref(), Some(reason), "{words:?}");
        }
    }

    #[test]
    fn every_command_with_flags_is_in_the_help() {
        for (name, flags) in FLAGS {
            let help = format!("{HELP}\n{}", measure::HELP);
            assert!(help.contains(&format!("cargo xtask {name}")), "{name}");
            assert!(flags.iter().all(|flag| help.contains(flag)), "{name}: {flags:?}");
        }
    }
}
