//! Runs the `windtunnel` command.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use crate::built::program;
use serde_json::Value;
use std::process::{Command, Output};

/// A program of the package that measures, before it runs.
pub fn cost_program(name: &str) -> Command {
    Command::new(program(name))
}

/// The command, before it runs.
pub fn windtunnel_command() -> Command {
    Command::new(program("windtunnel"))
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
