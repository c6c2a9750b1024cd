//! The tally file: how often each live rule was evaluated in all flights of the tests.
//!
//! The test command requests this file and fails when a live rule is missing from it, because
//! then no test covers the rule.

use flight::{RuleCounts, RuleId};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The environment variable that names the file.
const VARIABLE: &str = "WINDTUNNEL_TALLY";

/// Adds a flight's counts to the file, if the variable is set. [`fly`](crate::fly) calls this.
pub fn add_to_file(tally: &RuleCounts) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let mut lines = String::new();
    for rule in RuleId::LIVE.iter().filter(|rule_id| tally.count_of(**rule_id) > 0) {
        let _ = writeln!(lines, "{} {}", rule.name(), tally.count_of(*rule)); // To a String.
    }
    // One write for the whole text, because flights of several tests append concurrently.
    let file = OpenOptions::new().create(true).append(true).open(path);
    if let Err(reason) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
        let text = format!("windtunnel: the tally file cannot be written: {reason}\n");
        _ = std::io::stderr().write_all(text.as_bytes()); // No one else can be told.
    }
}
