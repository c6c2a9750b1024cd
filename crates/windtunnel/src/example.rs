//! For each live rule: the driver, the client or the trace that breaks it, one that keeps it, and
//! the command that flies each.
//!
//! The list, `examples.toml`, is generated from what the tests know
//! (`WINDTUNNEL_BLESS=1 cargo test -p windtunnel-tests --test rules examples`); a test flies every
//! example.

use crate::driver::Driver;
use crate::scenario;
use flight::RuleId;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The examples of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The rule.
    pub rule: String,
    /// A flight that breaks it.
    pub broken: ExampleFlight,
    /// A flight that judges it and keeps it.
    pub kept: ExampleFlight,
}

/// A flight that shows a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ExampleFlight {
    /// The recorded trace of a good flight, with one event changed.
    ChangedTrace {
        /// The driver of the good flight.
        driver: String,
        /// The scenario of the good flight.
        scenario: String,
        /// What the changed trace shows.
        change: String,
        /// The change.
        edit: String,
    },
    /// A built-in driver in a scenario, with seed 1.
    Flight {
        /// The driver.
        driver: String,
        /// The scenario.
        scenario: String,
        /// Whether memory is scarce and the hardware late (`--pressure`).
        #[serde(default)]
        pressure: bool,
        /// Whether the flight does not evaluate the rule, because no good built-in flight does.
        #[serde(default)]
        silent: bool,
    },
    /// A client of the tests, which no scenario can be.
    Test {
        /// The file with the client.
        file: String,
        /// The test that flies it: the test program, and the name.
        test: String,
        /// What it does.
        about: String,
    },
}

#[derive(Deserialize)]
struct File {
    example: Vec<Example>,
}

static EXAMPLES: LazyLock<BTreeMap<String, Example>> = LazyLock::new(|| {
    // The text is part of the program, and a test parses it.
    let file: File =
        toml::from_str(include_str!("../examples.toml")).expect("examples.toml is TOML");
    file.example.into_iter().map(|example| (example.rule.clone(), example)).collect()
});

/// The examples of a live rule.
pub fn example(rule: RuleId) -> Option<&'static Example> {
    EXAMPLES.get(rule.name())
}

impl ExampleFlight {
    /// What flies, as a sentence without a full stop.
    pub fn about(&self) -> String {
        match self {
            Self::ChangedTrace { change, edit, .. } => {
                format!("only by a changed trace of this flight: {change} ({edit})")
            }
            Self::Flight { driver, scenario, silent, .. } => {
                let client = scenario::find(scenario).filter(|body| !body.breaks.is_empty());
                let bad = Driver::find(driver).filter(|driver| !driver.breaks().is_empty());
                match (bad, client) {
                    (Some(driver), _) => format!("driver {}: {}", driver.name(), driver.about()),
                    (None, Some(client)) => format!("client {}: {}", client.name, client.about),
                    (None, None) if *silent => format!(
                        "driver {driver} in {scenario} (no good built-in flight evaluates the rule)"
                    ),
                    (None, None) => format!("driver {driver} in {scenario}"),
                }
            }
            Self::Test { file, about, .. } => format!("{about}, in {file}"),
        }
    }

    /// The command that flies it.
    pub fn command(&self) -> String {
        match self {
            Self::ChangedTrace { driver, scenario, .. } => {
                format!("windtunnel check {driver} --scenario {scenario} --seed 1 --trace DIR")
            }
            Self::Flight { driver, scenario, pressure, .. } => {
                let pressure = if *pressure { " --pressure" } else { "" };
                format!("windtunnel check {driver} --scenario {scenario}{pressure}")
            }
            Self::Test { test, .. } => {
                format!("cargo test -p windtunnel-tests --test {test}")
            }
        }
    }

    /// The driver, unless a test flies its own.
    pub fn driver(&self) -> Option<&str> {
        match self {
            Self::ChangedTrace { driver, .. } | Self::Flight { driver, .. } => Some(driver),
            Self::Test { .. } => None,
        }
    }
}
