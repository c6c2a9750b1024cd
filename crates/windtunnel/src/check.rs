//! Many flights of one driver, and their combined result.

use crate::allow::AllowList;
use crate::child_flight;
use crate::driver::Driver;
use crate::driver_file::{FlightOptions, fly_file};
use crate::flight_jobs::{FlightAttempt, with_flights};
use crate::fly::{DeepestStack, FlightResult, HostKind, Outcome, fly_builtin_stream, fly_with_umd};
use crate::native_umd::NativeUmd;
use crate::scenario::{ALL as SCENARIOS, Scenario};
use crate::scenario_report::{ReportedFinding, ScenarioReport};
use flight::{Component, HostError, NoResources, RuleCounts, RuleId};
use nt::image::StopSignal;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use verify::{Finding, Severity};

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
    /// How a built-in display driver is flown in processes of its own; `None` for this process.
    pub own_process: Option<FlightOptions>,
    /// The number of flights at a time, where flights cannot affect each other. The result is the
    /// same with any number.
    pub jobs: usize,
    /// The number of scenarios that must be flown to their end; the check fails with fewer.
    pub require_flown: usize,
}

/// The scenarios of a check that names none: every good scenario for this kind of driver, or, with
/// `umd`, every good scenario that needs a user-mode driver.
pub fn default_scenarios(streams: bool, umd: bool) -> Vec<&'static Scenario> {
    let good = SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.is_empty());
    let of_kind = good.filter(|scenario| scenario.streams() == streams);
    of_kind.filter(|scenario| !umd || scenario.needs_umd()).collect()
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
    /// The number of scenarios that must be flown to their end.
    pub require_flown: usize,
    /// The reports of the scenarios, in order.
    pub scenarios: Vec<ScenarioReport>,
    /// Why the check stopped before all scenarios were flown: a fault of Windtunnel, or a machine
    /// without resources.
    pub internal_error: Option<HostError>,
    /// The signal that stopped the check before all scenarios were flown.
    pub stopped_by: Option<StopSignal>,
}

/// A finding of all scenarios in which it occurred: rule, component, place and cause agree.
pub struct FindingGroup<'a> {
    /// The first finding, with the flight that shows it.
    pub first: &'a ReportedFinding,
    /// The scenarios, in order; the first finding is from the first of them.
    pub scenarios: Vec<&'static str>,
    /// How often it occurred in all of them.
    pub count: u64,
    /// Why it is allowed, if it is.
    pub reason: Option<&'a str>,
    /// Findings that follow from it in its flights, each once.
    pub consequences: Vec<&'a Finding>,
}

impl<'a> FindingGroup<'a> {
    /// Groups findings, in the order of their first occurrence.
    fn of(
        findings: impl Iterator<Item = (&'static str, &'a ReportedFinding, Option<&'a str>)>,
    ) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (scenario, found, reason) in findings {
            let same = |group: &Self| {
                group.reason == reason && group.first.finding.is_same_as(&found.finding)
            };
            let index = groups.iter().position(same).unwrap_or_else(|| {
                let (scenarios, consequences) = (Vec::new(), Vec::new());
                groups.push(Self { first: found, scenarios, count: 0, reason, consequences });
                groups.len() - 1
            });
            let group = &mut groups[index];
            group.count += found.finding.count;
            if group.scenarios.last() != Some(&scenario) {
                group.scenarios.push(scenario);
            }
            for consequence in &found.finding.consequences {
                if !group.consequences.iter().any(|known| known.is_same_as(consequence)) {
                    group.consequences.push(consequence);
                }
            }
        }
        groups
    }
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

/// Flies a driver through scenarios. Calls `after` for each finished flight and each scenario. A
/// fault of Windtunnel ends the check; the report then has what was flown before.
pub fn check(plan: &CheckPlan<'_>, mut after: impl FnMut(CheckStep<'_>)) -> CheckReport {
    let mut report = CheckReport {
        driver: plan.driver.name(),
        streams: plan.driver.streams(),
        umd: plan.umd_name(),
        host: plan.host,
        seeds: plan.seeds,
        require_flown: plan.require_flown,
        scenarios: Vec::new(),
        internal_error: None,
        stopped_by: None,
    };
    let fly = |index: u64| {
        let scenario = usize::try_from(index / plan.seeds).ok();
        match scenario.and_then(|scenario| plan.scenarios.get(scenario)) {
            Some(scenario) => {
                fly_once(plan, scenario, plan.host.with_seed_offset(index % plan.seeds))
            }
            None => Err(HostError(format!("flight {index} has no scenario"))),
        }
    };
    with_flights(plan.usable_jobs(), plan.flight_count(), &fly, |flights| {
        fly_scenarios(plan, &mut report, flights, &mut after);
    });
    report
}

/// Flies a driver through all scenarios. `flights` returns the result of each flight.
fn fly_scenarios(
    plan: &CheckPlan<'_>,
    report: &mut CheckReport,
    flights: &mut dyn FnMut(u64) -> FlightAttempt,
    after: &mut impl FnMut(CheckStep<'_>),
) {
    let mut blamed = None;
    for (index, scenario) in (0_u64..).zip(plan.scenarios) {
        let mut next = |turn: u64| flights(index.saturating_mul(plan.seeds).saturating_add(turn));
        let (flown, error) = fly_scenario(plan, scenario, &mut next, &mut blamed, after);
        if flown.flights > 0 {
            after(CheckStep::ScenarioDone(&flown));
            report.scenarios.push(flown);
        }
        if error.is_some() {
            report.internal_error = error;
            break;
        }
        report.stopped_by = StopSignal::received();
        if report.stopped_by.is_some() {
            break;
        }
        if plan.driver.registers_nothing() {
            break; // No scenario can be flown.
        }
    }
    if let Some(blamed) = blamed {
        report.clear_client(plan, blamed);
    }
}

/// Flies a driver through one scenario with all seeds.
fn fly_scenario(
    plan: &CheckPlan<'_>,
    scenario: &'static Scenario,
    flights: &mut dyn FnMut(u64) -> FlightAttempt,
    blamed: &mut Option<BlamedClient>,
    after: &mut impl FnMut(CheckStep<'_>),
) -> (ScenarioReport, Option<HostError>) {
    let mut report = ScenarioReport::new(scenario.name);
    let mut error = None;
    for turn in 0..plan.seeds {
        if StopSignal::received().is_some() {
            break;
        }
        match flights(turn) {
            // There is no driver to report on. What its DriverEntry did wrong is reported.
            Ok(flown) if plan.driver.registers_nothing() && flown.findings.is_empty() => break,
            Ok(mut flown) => {
                after(CheckStep::FlightDone(&flown));
                if let Some(finding) = clear_client(scenario, &mut flown.findings) {
                    blamed.get_or_insert(BlamedClient { scenario, finding });
                }
                report.add(flown);
            }
            // The process of the flight was ended by us: what it says is not complete.
            Err(_) if StopSignal::received().is_some() => break,
            Err(HostError(reason)) => {
                let host = plan.host.name();
                error = Some(HostError(format!("{}, {host}: {reason}", scenario.name)));
                break;
            }
        }
    }
    if let Some(allow) = plan.allow {
        report.apply_allow_list(plan.driver.name(), allow);
    }
    (report, error)
}

/// Takes the findings against the client out of those of a flight, if the client breaks no rule.
/// A finding after an error or a warning of a driver is its consequence; a note explains nothing.
/// Returns the first other one: it blames the wrong component.
fn clear_client(scenario: &Scenario, findings: &mut Vec<Finding>) -> Option<Finding> {
    if !scenario.client_is_right() {
        return None;
    }
    let mut blamed = None;
    let mut cleared: Vec<Finding> = Vec::new();
    for finding in std::mem::take(findings) {
        let is_cause = |it: &&mut Finding| {
            it.severity != Severity::Note
                && matches!(it.component, Component::Driver | Component::Umd)
        };
        match (finding.component, cleared.iter_mut().find(is_cause)) {
            (Component::Client, Some(first)) => first.consequences.push(finding),
            (Component::Client, None) => blamed = blamed.or(Some(finding)),
            _ => cleared.push(finding),
        }
    }
    *findings = cleared;
    blamed
}

/// A finding against a client that breaks no rule, in a flight without one against a driver.
struct BlamedClient {
    scenario: &'static Scenario,
    finding: Finding,
}

impl CheckReport {
    /// Lists the finding below the first error of a driver in another flight, whose consequence it
    /// is. Without one it blames the wrong component, which is an error of the check.
    fn clear_client(&mut self, plan: &CheckPlan<'_>, blamed: BlamedClient) {
        let is_cause = |it: &&mut Finding| {
            it.severity == Severity::Error
                && matches!(it.component, Component::Driver | Component::Umd)
        };
        let mut all = self.scenarios.iter_mut().flat_map(|report| {
            let allowed = report.allowed.iter_mut().map(|allowed| &mut allowed.found.finding);
            report.findings.iter_mut().map(|found| &mut found.finding).chain(allowed)
        });
        if let Some(cause) = all.find(is_cause) {
            cause.consequences.push(blamed.finding);
        } else if self.internal_error.is_none() {
            let (scenario, host) = (blamed.scenario.name, plan.host.name());
            self.internal_error = Some(HostError(format!(
                "{scenario}, {host}: the client of this scenario breaks no rule, but a finding \
                 blames it: {}; either Windtunnel is wrong, or a driver is, and Windtunnel does not \
                 name it. Please report this, with the trace (--trace DIR)",
                blamed.finding.line()
            )));
        }
    }
}

/// Makes one flight.
fn fly_once(plan: &CheckPlan<'_>, scenario: &'static Scenario, on: HostKind) -> FlightAttempt {
    // With several flights at a time, what their drivers print is kept apart.
    let capture = plan.usable_jobs() > 1;
    let fly = || match (plan.driver, &plan.umd) {
        (Driver::Streaming(listed), _) => fly_builtin_stream(listed, scenario, on),
        (Driver::File(file), umd) => fly_file(file, umd.as_ref(), scenario, (on, capture)),
        (Driver::Display(listed), None) => {
            if let Some(options) = &plan.own_process {
                child_flight::fly(plan.driver, None, options, scenario, (on, capture))
            } else {
                let umd = listed.umd.map(|make| make());
                fly_with_umd(listed.make, umd, scenario, on)
            }
        }
        (Driver::Display(listed), Some(umd)) => match umd.loaded() {
            Some(loaded) => fly_with_umd(listed.make, Some(loaded), scenario, on),
            None => {
                child_flight::fly(plan.driver, Some(umd), umd.options(), scenario, (on, capture))
            }
        },
    };
    with_resources(fly)
}

/// Runs a flight. A machine without resources is an error; any other panic goes on.
pub(crate) fn with_resources<R>(
    fly: impl FnOnce() -> Result<R, HostError>,
) -> Result<R, HostError> {
    catch_unwind(AssertUnwindSafe(fly)).unwrap_or_else(|panic| {
        match panic.downcast::<NoResources>() {
            Ok(error) => Err(HostError(error.0)),
            Err(panic) => resume_unwind(panic),
        }
    })
}

impl CheckPlan<'_> {
    /// The number of flights.
    pub fn flight_count(&self) -> u64 {
        self.seeds.saturating_mul(self.scenarios.len() as u64)
    }

    /// The number of flights at a time. Flights of C code in this process share its variables, and so
    /// do those of some bad drivers, whose purpose is to break rules; threads of the machine already
    /// use all processors.
    fn usable_jobs(&self) -> usize {
        let shares_process = match (self.driver, &self.umd) {
            (Driver::File(file), _) => file.is_in_process(),
            (Driver::Display(_), Some(umd)) => umd.loaded().is_some(),
            (Driver::Display(_), None) if self.own_process.is_some() => false,
            (Driver::Display(_) | Driver::Streaming(_), _) => !self.driver.breaks().is_empty(),
        };
        if shares_process || self.host == HostKind::Threaded { 1 } else { self.jobs }
    }

    /// Its name in reports.
    fn umd_name(&self) -> Option<String> {
        match &self.umd {
            Some(native) => Some(native.path().to_owned()),
            None => self.driver.umd().map(|_| BUILT_IN.to_owned()),
        }
    }
}

impl CheckReport {
    /// The number of findings of a severity that are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.scenarios.iter().map(|scenario_report| scenario_report.count(severity)).sum()
    }

    /// The findings that are not allowed, each once over all scenarios: errors, then warnings,
    /// then notes, each in the order of their first occurrence.
    pub fn finding_groups(&self) -> Vec<FindingGroup<'_>> {
        let mut groups =
            FindingGroup::of(self.scenarios.iter().flat_map(|report| {
                report.findings.iter().map(|found| (report.scenario, found, None))
            }));
        groups.sort_by_key(|group| std::cmp::Reverse(group.first.finding.severity));
        groups
    }

    /// The findings that are allowed, each once over all scenarios.
    pub fn allowed_groups(&self) -> Vec<FindingGroup<'_>> {
        FindingGroup::of(self.scenarios.iter().flat_map(|report| {
            let scenario = report.scenario;
            let allowed = report.allowed.iter();
            allowed.map(move |allowed| (scenario, &allowed.found, Some(allowed.reason.as_str())))
        }))
    }

    /// The number of scenarios that reached their end in every flight.
    pub fn completed_count(&self) -> usize {
        self.scenarios.iter().filter(|report| report.needs.is_empty()).count()
    }

    /// The number of scenarios that began and did not reach their end in every flight.
    pub fn ended_early_count(&self) -> usize {
        self.scenarios.iter().filter(|report| report.ended_early > 0).count()
    }

    /// The number of scenarios with a step that failed, although neither an error finding nor a
    /// refusal of the driver says why.
    pub fn incomplete_count(&self) -> usize {
        self.scenarios.iter().filter(|report| report.incomplete > 0).count()
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

    /// The number of flights.
    pub fn flight_count(&self) -> u64 {
        self.scenarios.iter().map(|scenario_report| scenario_report.flights).sum()
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

    /// Why system calls by instructions of the driver's own were not judged, if they were not.
    pub fn unfiltered(&self) -> Option<&str> {
        self.scenarios.iter().find_map(|scenario_report| scenario_report.unfiltered.as_deref())
    }

    /// The segments whose bytes were not looked at, each with the reason.
    pub fn unseen_bytes(&self) -> BTreeSet<&str> {
        let all = self.scenarios.iter().flat_map(|scenario_report| &scenario_report.unseen_bytes);
        all.map(String::as_str).collect()
    }

    /// Pool blocks that were to be guarded, but there was no room.
    pub fn unguarded(&self) -> u64 {
        self.scenarios.iter().map(|scenario_report| scenario_report.unguarded).sum()
    }

    /// The scenario with the deepest use of the kernel stack.
    pub fn deepest_stack(&self) -> Option<(&'static str, &DeepestStack)> {
        let stacks = self
            .scenarios
            .iter()
            .filter_map(|report| report.stack.as_ref().map(|stack| (report.scenario, stack)));
        // The first of equal ones.
        stacks.rev().max_by_key(|(_, stack)| stack.bytes)
    }

    /// Acquisitions of a lock under another one whose order was not remembered.
    pub fn lock_orders_left_out(&self) -> u64 {
        let left_out = self.scenarios.iter().map(|report| report.lock_orders_left_out);
        left_out.sum()
    }

    /// The exit code: 0 without findings, 1 with findings, too few scenarios flown or a step that
    /// failed, 2 if no scenario was flown or the check stopped with an internal error; 128 and its
    /// number if a signal stopped the check.
    pub fn exit_code(&self, deny_warnings: bool) -> u8 {
        match self.stopped_by {
            Some(signal) => signal.exit_status(),
            None => self.exit_code_of_findings(deny_warnings),
        }
    }

    /// The exit code of what was flown, if no signal had stopped the check.
    pub fn exit_code_of_findings(&self, deny_warnings: bool) -> u8 {
        if self.internal_error.is_some() {
            return 2;
        }
        let errors = self.count(Severity::Error);
        let warnings = if deny_warnings { self.count(Severity::Warning) } else { 0 };
        match (errors + warnings + self.live_count(), self.flown_count()) {
            (0, _) if self.incomplete_count() > 0 => 1,
            (0, 0) => 2,
            (0, _) if self.completed_count() >= self.require_flown => 0,
            _ => 1,
        }
    }
}
