//! Many flights of one driver, and what they come to.

use crate::allow::AllowList;
use crate::driver::Driver;
use crate::fly::{FlightResult, HostKind, Outcome, fly_builtin_stream, fly_with_umd};
use crate::scenario::Scenario;
use crate::scenario_report::ScenarioReport;
use flight::{HostError, RuleCounts, RuleId};
use runtime::Umd;
use std::collections::BTreeSet;
use verify::Severity;

/// What to fly.
pub struct CheckPlan<'a> {
    /// The driver.
    pub driver: Driver,
    /// A user-mode driver to fly with it, in place of its own.
    pub umd: Option<NativeUmd>,
    /// The scenarios, in order.
    pub scenarios: &'a [&'static Scenario],
    /// Who runs the flights; the first seed, if it has one.
    pub host: HostKind,
    /// How many times, each with the next seed.
    pub seeds: u64,
    /// What is allowed.
    pub allow: Option<&'a AllowList>,
}

/// A user-mode driver that comes as a file.
#[derive(Clone, Debug)]
pub struct NativeUmd {
    /// The file, as it was named.
    pub path: String,
    /// What is in it.
    pub umd: Umd,
}

/// What a check came to.
pub struct CheckReport {
    /// The driver.
    pub driver: &'static str,
    /// Whether it streams.
    pub streams: bool,
    /// Its user-mode driver, if it has one: a file, or [`BUILT_IN`].
    pub umd: Option<String>,
    /// Who ran the flights; the first seed, if it has one.
    pub host: HostKind,
    /// How many times.
    pub seeds: u64,
    /// The scenarios, in order, each over all its seeds.
    pub scenarios: Vec<ScenarioReport>,
}

/// How reports name a user-mode driver that is no file.
pub const BUILT_IN: &str = "built-in";

/// What a check has just done.
pub enum CheckStep<'a> {
    /// It flew once.
    Flown(&'a FlightResult),
    /// It is done with a scenario.
    ScenarioDone(&'a ScenarioReport),
}

/// Flies a driver through scenarios; `after` sees each flight, and each scenario, as it lands.
pub fn check(
    plan: &CheckPlan<'_>,
    mut after: impl FnMut(CheckStep<'_>),
) -> Result<CheckReport, HostError> {
    let mut flights = Vec::new();
    for scenario in plan.scenarios {
        let mut report = ScenarioReport::new(scenario.name);
        for turn in 0..plan.seeds {
            let on = plan.host.with_seed_offset(turn);
            let flown = match plan.driver {
                Driver::Display(it) => fly_with_umd(it.make, plan.flight_umd(), scenario, on),
                Driver::Streaming(it) => fly_builtin_stream(it, scenario, on),
            };
            let flown = flown.map_err(|HostError(reason)| {
                HostError(format!("{}, {}: {reason}", scenario.name, on.name()))
            })?;
            after(CheckStep::Flown(&flown));
            report.add(flown);
        }
        if let Some(allow) = plan.allow {
            report.apply_allow_list(plan.driver.name(), allow);
        }
        after(CheckStep::ScenarioDone(&report));
        flights.push(report);
    }
    let (driver, streams, umd) = (plan.driver.name(), plan.driver.streams(), plan.umd_name());
    Ok(CheckReport { driver, streams, umd, host: plan.host, seeds: plan.seeds, scenarios: flights })
}

impl CheckPlan<'_> {
    /// The user-mode driver of one flight.
    fn flight_umd(&self) -> Option<Umd> {
        match &self.umd {
            Some(native) => Some(native.umd.clone()),
            None => self.driver.umd().map(|make| make()),
        }
    }

    /// Its name in reports.
    fn umd_name(&self) -> Option<String> {
        match &self.umd {
            Some(native) => Some(native.path.clone()),
            None => self.driver.umd().map(|_| BUILT_IN.to_owned()),
        }
    }
}

impl CheckReport {
    /// How many findings of a severity are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.count(severity)).sum()
    }

    /// How many things were alive at the ends.
    pub fn live_count(&self) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.live.count()).sum()
    }

    /// How many findings are allowed.
    pub fn allowed_count(&self) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.allowed.len()).sum()
    }

    /// How many scenarios were told to their end, or found something.
    pub fn flown_count(&self) -> usize {
        let flown =
            |scenario_report: &&ScenarioReport| scenario_report.outcome() != Outcome::NotFlown;
        self.scenarios.iter().filter(flown).count()
    }

    /// How many events there were.
    pub fn event_count(&self) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.events).sum()
    }

    /// How often each rule was judged.
    pub fn rule_counts(&self) -> RuleCounts {
        let mut tally = RuleCounts::default();
        for flown in &self.scenarios {
            tally.add(&flown.rule_counts);
        }
        tally
    }

    /// The live rules that judged something.
    pub fn judged(&self) -> Vec<RuleId> {
        let tally = self.rule_counts();
        RuleId::LIVE.iter().copied().filter(|rule_id| tally.count_of(*rule_id) > 0).collect()
    }

    /// The live rules for such drivers that judged nothing.
    pub fn not_judged(&self) -> Vec<RuleId> {
        let judged = self.judged();
        let streams = |rule_id: RuleId| rule_id.name().starts_with("KS-");
        let ours =
            |rule_id: &RuleId| streams(*rule_id) == self.streams && !judged.contains(rule_id);
        RuleId::LIVE.iter().copied().filter(ours).collect()
    }

    /// The entries the driver offers, each with whether it was called.
    pub fn entries(&self) -> Vec<(&'static str, bool)> {
        let called: BTreeSet<&str> = self
            .scenarios
            .iter()
            .flat_map(|scenario_report| &scenario_report.called)
            .map(String::as_str)
            .collect();
        let offered = self
            .scenarios
            .first()
            .map(|scenario_report| scenario_report.implemented.clone())
            .unwrap_or_default();
        offered.into_iter().map(|text| (text, called.contains(text))).collect()
    }

    /// What was used and is not there.
    pub fn missing(&self) -> BTreeSet<&str> {
        self.scenarios
            .iter()
            .flat_map(|scenario_report| scenario_report.missing.keys())
            .map(String::as_str)
            .collect()
    }

    /// The exit code: 0 nothing wrong and something flown, 1 something wrong, 2 nothing flown.
    pub fn exit_code(&self, deny_warnings: bool) -> u8 {
        let errors = self.count(Severity::Error);
        let warnings = if deny_warnings { self.count(Severity::Warning) } else { 0 };
        match (errors + warnings + self.live_count(), self.flown_count()) {
            (0, 0) => 2,
            (0, _) => 0,
            _ => 1,
        }
    }
}
