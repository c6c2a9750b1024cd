//! Runs the `windtunnel` command.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The folder of the command and of the programs that measure, built once. (Cargo builds binaries
/// of its own package only for its own tests.)
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut build = cargo();
    build.args(["build", "--package", "windtunnel", "--package", "windtunnel-cost"]);
    let output = build.args(["--message-format", "json", "--quiet"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut binaries = messages.filter_map(|value| value["executable"].as_str().map(PathBuf::from));
    binaries.next_back().unwrap().parent().unwrap().to_owned()
});

/// A cargo command. The test command sets a variable for the times of the tests, with which cargo
/// would build in another way.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.env_remove("RUSTC_BOOTSTRAP");
    cargo
}

/// A program of the package that measures, before it runs.
pub fn cost_program(name: &str) -> Command {
    Command::new(PROGRAMS.join(name))
}

/// The command, before it runs.
pub fn windtunnel_command() -> Command {
    Command::new(PROGRAMS.join("windtunnel"))
}

/// Runs the command.
pub fn windtunnel(arguments: &[&str]) -> Output {
    windtunnel_command().args(arguments).output().unwrap()
}

/// Its exit code and its output for people.
pub fn text(arguments: &[&str]) -> (i32, String) {
    let output = windtunnel(arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Its exit code and its output for machines.
pub fn json(arguments: &[&str]) -> (i32, Value) {
    let (code, text) = text(&[arguments, &["--json"]].concat());
    (code, serde_json::from_str(&text).unwrap())
}
