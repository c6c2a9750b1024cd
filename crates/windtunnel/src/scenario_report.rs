//! What a scenario came to, over all the seeds it was flown with.

use crate::allow::AllowList;
use crate::fly::{FlightResult, Outcome};
use flight::{Event, RuleCounts};
use kernel::LiveObjects;
use std::collections::{BTreeMap, BTreeSet};
use verify::{Finding, Severity};

/// A finding, with the flight it was first seen in.
pub struct ReportedFinding {
    /// What was found; it counts all flights.
    pub finding: Finding,
    /// The seed of the first flight that shows it, where there is one.
    pub seed: Option<u64>,
    /// The events that led there, of that flight.
    pub trail: Vec<Event>,
}

/// A finding that is allowed, and why.
pub struct AllowedFinding {
    /// The finding.
    pub found: ReportedFinding,
    /// The reason somebody gave.
    pub reason: String,
}

/// All flights of a driver through one scenario.
#[derive(Default)]
pub struct ScenarioReport {
    /// The scenario.
    pub scenario: &'static str,
    /// How many flights there were: one for each seed.
    pub flights: u64,
    /// What was found and is not allowed, in the order of first times.
    pub findings: Vec<ReportedFinding>,
    /// What was found and is allowed.
    pub allowed: Vec<AllowedFinding>,
    /// What the story needs where it could not be told to its end.
    pub needs: Vec<String>,
    /// Who was still alive at the end of the first flight that left somebody.
    pub live: LiveObjects,
    /// Who was alive at the moments the story took a look, in the first flight.
    pub live_snapshots: Vec<(&'static str, LiveObjects)>,
    /// How many events there were.
    pub events: usize,
    /// How often each rule was judged.
    pub rule_counts: RuleCounts,
    /// The entries that were called.
    pub called: BTreeSet<String>,
    /// The entries the driver offers.
    pub implemented: Vec<&'static str>,
    /// What was used and is not there, with how often.
    pub missing: BTreeMap<String, u64>,
}

impl ScenarioReport {
    /// A scenario that is about to be flown.
    pub(crate) fn new(scenario: &'static str) -> Self {
        Self { scenario, ..Self::default() }
    }

    /// Adds a flight.
    pub(crate) fn add(&mut self, flight_result: FlightResult) {
        for finding in flight_result.findings {
            let same = |it: &&mut ReportedFinding| {
                let it = &it.finding;
                (it.rule, it.component, &it.argument)
                    == (finding.rule, finding.component, &finding.argument)
            };
            if let Some(first) = self.findings.iter_mut().find(same) {
                first.finding.count += finding.count;
                continue;
            }
            self.findings.push(ReportedFinding::new(
                finding,
                flight_result.seed,
                &flight_result.events,
            ));
        }
        for need in flight_result.needs {
            if !self.needs.contains(&need) {
                self.needs.push(need);
            }
        }
        if self.flights == 0 {
            self.live_snapshots = flight_result.live_snapshots;
            self.implemented = flight_result.implemented;
        }
        if self.live.count() == 0 {
            self.live = flight_result.live;
        }
        self.flights += 1;
        self.events += flight_result.events.len();
        self.rule_counts.add(&flight_result.rule_counts);
        self.called.extend(flight_result.called);
        for (name, times) in flight_result.missing {
            *self.missing.entry(name).or_default() += times;
        }
    }

    /// Sets apart what is allowed.
    pub(crate) fn apply_allow_list(&mut self, driver: &str, allow: &AllowList) {
        for found in std::mem::take(&mut self.findings) {
            let reason = allow.reason(driver, self.scenario, &found.finding);
            match reason.map(str::to_owned) {
                Some(reason) => self.allowed.push(AllowedFinding { found, reason }),
                None => self.findings.push(found),
            }
        }
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        let weighs =
            |reported_finding: &ReportedFinding| reported_finding.finding.severity > Severity::Note;
        if self.findings.iter().any(weighs) {
            Outcome::Findings
        } else if !self.needs.is_empty() {
            Outcome::NotFlown
        } else if self.allowed.iter().any(|allowed_finding| weighs(&allowed_finding.found)) {
            Outcome::Allowed
        } else {
            Outcome::Clean
        }
    }

    /// How many findings of a severity are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|reported_finding| reported_finding.finding.severity == severity)
            .count()
    }
}
