//! Runs the `windtunnel` command.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The command, built once. (Cargo builds binaries of its own package only for its own tests.)
static WINDTUNNEL: LazyLock<PathBuf> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--package", "windtunnel", "--message-format", "json", "--quiet"]);
    let output = build.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut binaries = messages.filter_map(|value| value["executable"].as_str().map(PathBuf::from));
    binaries.next_back().unwrap()
});

/// The command, before it runs.
pub fn windtunnel_command() -> Command {
    Command::new(&*WINDTUNNEL)
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
