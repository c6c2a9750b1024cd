//! The command that repeats a check, or the flight of one finding.

use super::Deny;
use super::check::Arguments;
use std::collections::BTreeMap;
use std::path::PathBuf;
use windtunnel::{HostKind, Scenario};

/// What to type again. Options that only write or print more are left out.
pub(crate) struct Repeat {
    /// The command up to the driver, with the user-mode driver.
    base: String,
    /// The host, without a seed.
    host: &'static str,
    /// The options of the whole check.
    rest: String,
    seed: Option<u64>,
    /// What names each scenario: the path of a file of steps, or its name.
    scenarios: BTreeMap<&'static str, String>,
}

impl Repeat {
    pub(crate) fn new(
        arguments: &Arguments,
        scenarios: &[&'static Scenario],
        host: HostKind,
    ) -> Self {
        let option = |name: &str, value: &str| format!(" --{name} {}", quoted(value));
        let path = |name: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| option(name, &path.to_string_lossy()))
        };
        let driver = format!("windtunnel check {}", quoted(&arguments.driver));
        let data = arguments.options.private_data.map(|data| option("private-data", data.name()));
        let guard = arguments.options.guard.map(|guard| option("guard", guard.name()));
        let limits = Some(arguments.limits.changed());
        let base = [Some(driver), path("umd", &arguments.umd), data, guard, limits];
        let seed = host.seed();
        let flights = arguments.seeds;
        let of_check = [
            seed.map(|seed| option("seed", &seed.to_string())),
            (flights > 1).then(|| option("seeds", &flights.to_string())),
            path("allow", &arguments.allow),
            arguments.deny.map(|Deny::Warnings| option("deny", "warnings")),
            (arguments.require_flown > 0)
                .then(|| option("require-flown", &arguments.require_flown.to_string())),
        ];
        let named = arguments.scenarios.iter().map(|name| option("scenario", name));
        let rest = named.chain(of_check.into_iter().flatten()).collect();
        let base = base.into_iter().flatten().collect();
        let host = match host {
            HostKind::Deterministic { pressure: false, .. } => "",
            HostKind::Deterministic { pressure: true, .. } => " --pressure",
            HostKind::Threaded => " --host threads",
        };
        let source = |scenario: &&Scenario| (scenario.name, quoted(&scenario.source()));
        let scenarios = scenarios.iter().map(source).collect();
        Self { base, host, rest, seed, scenarios }
    }

    /// The command that repeats the whole check.
    pub(crate) fn check(&self) -> String {
        format!("{}{}{}", self.base, self.host, self.rest)
    }

    /// The command that repeats one flight. Threads of the machine need not repeat it.
    pub(crate) fn flight(&self, scenario: &'static str, seed: Option<u64>) -> String {
        let scenario = self.scenarios.get(scenario).map_or(scenario, String::as_str);
        let seed = seed.or(self.seed).map(|seed| format!(" --seed {seed}"));
        let (base, host) = (&self.base, self.host);
        format!("{base}{host} --scenario {scenario}{}", seed.unwrap_or_default())
    }
}

/// The argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=+,@%".contains(letter);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_one_argument() {
        assert_eq!(quoted("traces/a-1.steps"), "traces/a-1.steps");
        assert_eq!(quoted("my driver.so"), "'my driver.so'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
