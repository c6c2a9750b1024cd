//! Many flights of one driver, and their combined result.

use crate::allow::AllowList;
use crate::driver::Driver;
use crate::fly::{FlightResult, HostKind, Outcome, fly_builtin_stream, fly_with_umd};
use crate::scenario::Scenario;
use crate::scenario_report::ScenarioReport;
use flight::{HostError, RuleCounts, RuleId};
use runtime::Umd;
use std::collections::BTreeSet;
use verify::Severity;

/// The flights to make.
pub struct CheckPlan<'a> {
    /// The driver.
    pub driver: Driver,
    /// A user-mode driver to fly in place of the driver's own.
    pub umd: Option<NativeUmd>,
    /// The scenarios, in order.
    pub scenarios: &'a [&'static Scenario],
    /// The host of the flights, with the first seed.
    pub host: HostKind,
    /// The number of flights per scenario, each with the next seed.
    pub seeds: u64,
    /// The allow file.
    pub allow: Option<&'a AllowList>,
}

/// A user-mode driver loaded from a file.
#[derive(Clone, Debug)]
pub struct NativeUmd {
    /// The path of the file, as given.
    pub path: String,
    /// The loaded driver.
    pub umd: Umd,
}

/// The result of a check.
pub struct CheckReport {
    /// The driver.
    pub driver: &'static str,
    /// Whether it is a streaming minidriver.
    pub streams: bool,
    /// Its user-mode driver, if it has one: a file, or [`BUILT_IN`].
    pub umd: Option<String>,
    /// The host of the flights, with the first seed.
    pub host: HostKind,
    /// The number of flights per scenario.
    pub seeds: u64,
    /// The reports of the scenarios, in order.
    pub scenarios: Vec<ScenarioReport>,
}

/// The name of a built-in user-mode driver in reports.
pub const BUILT_IN: &str = "built-in";

/// Progress of a check.
pub enum CheckStep<'a> {
    /// A flight ended.
    FlightDone(&'a FlightResult),
    /// All flights of a scenario ended.
    ScenarioDone(&'a ScenarioReport),
}

/// Flies a driver through scenarios. Calls `after` for each finished flight and each scenario.
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
            after(CheckStep::FlightDone(&flown));
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
    /// Creates the user-mode driver of one flight.
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
    /// The number of findings of a severity that are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.count(severity)).sum()
    }

    /// The number of objects left alive.
    pub fn live_count(&self) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.live.count()).sum()
    }

    /// The number of allowed findings.
    pub fn allowed_count(&self) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.allowed.len()).sum()
    }

    /// The number of scenarios that were flown to their end or have findings.
    pub fn flown_count(&self) -> usize {
        let flown =
            |scenario_report: &&ScenarioReport| scenario_report.outcome() != Outcome::NotFlown;
        self.scenarios.iter().filter(flown).count()
    }

    /// The number of events.
    pub fn event_count(&self) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.events).sum()
    }

    /// How often each rule was evaluated.
    pub fn rule_counts(&self) -> RuleCounts {
        let mut tally = RuleCounts::default();
        for flown in &self.scenarios {
            tally.add(&flown.rule_counts);
        }
        tally
    }

    /// The live rules that were evaluated.
    pub fn judged(&self) -> Vec<RuleId> {
        let tally = self.rule_counts();
        RuleId::LIVE.iter().copied().filter(|rule_id| tally.count_of(*rule_id) > 0).collect()
    }

    /// The live rules for this kind of driver that were not evaluated.
    pub fn not_judged(&self) -> Vec<RuleId> {
        let judged = self.judged();
        let streams = |rule_id: RuleId| rule_id.name().starts_with("KS-");
        let ours =
            |rule_id: &RuleId| streams(*rule_id) == self.streams && !judged.contains(rule_id);
        RuleId::LIVE.iter().copied().filter(ours).collect()
    }

    /// The entry points that the driver implements, each with whether it was called.
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

    /// Functions that were used and are not implemented.
    pub fn missing(&self) -> BTreeSet<&str> {
        self.scenarios
            .iter()
            .flat_map(|scenario_report| scenario_report.missing.keys())
            .map(String::as_str)
            .collect()
    }

    /// The exit code: 0 without findings, 1 with findings, 2 if no scenario was flown.
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
