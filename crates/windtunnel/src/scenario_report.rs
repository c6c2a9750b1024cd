//! The result of one scenario over all its seeds.

use crate::allow::AllowList;
use crate::fly::{DeepestStack, FlightResult, Outcome};
use flight::{Event, EventKind, RuleCounts};
use kernel::LiveObjects;
use std::collections::{BTreeMap, BTreeSet};
use verify::{Finding, Severity};

/// A finding, with the flight that first shows it.
pub struct ReportedFinding {
    /// The finding; its count covers all flights.
    pub finding: Finding,
    /// The seed of the first flight that shows the finding, if the host has a seed.
    pub seed: Option<u64>,
    /// The events of that flight that led to the finding.
    pub trail: Vec<Event>,
}

/// A finding that the allow file covers.
pub struct AllowedFinding {
    /// The finding.
    pub found: ReportedFinding,
    /// The reason from the allow file.
    pub reason: String,
}

/// All flights of a driver through one scenario.
#[derive(Default)]
pub struct ScenarioReport {
    /// The scenario.
    pub scenario: &'static str,
    /// The number of flights: one for each seed.
    pub flights: u64,
    /// The number of flights that began and did not reach the end of the scenario.
    pub ended_early: u64,
    /// The number of these in which a step failed, and neither an error finding nor a refusal of the
    /// driver says why.
    pub incomplete: u64,
    /// Findings that are not allowed, in the order of first occurrence.
    pub findings: Vec<ReportedFinding>,
    /// Findings that are allowed.
    pub allowed: Vec<AllowedFinding>,
    /// What the scenario needs and did not get; empty if it was flown to its end.
    pub needs: Vec<String>,
    /// Objects left alive at the end of the first flight that left any.
    pub live: LiveObjects,
    /// Live objects at the moments the scenario selects, in the first flight.
    pub live_snapshots: Vec<(&'static str, LiveObjects)>,
    /// The number of events.
    pub events: usize,
    /// How often each rule was evaluated.
    pub rule_counts: RuleCounts,
    /// The entry points of the driver that were called.
    pub called: BTreeSet<String>,
    /// The entry points that the driver implements.
    pub implemented: Vec<&'static str>,
    /// Functions that were used and are not implemented, with how often.
    pub missing: BTreeMap<String, u64>,
    /// Pool blocks that were to be guarded, but there was no room for their inaccessible pages.
    pub unguarded: u64,
    /// Acquisitions of a lock under another one whose order was not remembered.
    pub lock_orders_left_out: u64,
    /// The deepest use of the kernel stack by a driver from a file, in all flights.
    pub stack: Option<DeepestStack>,
    /// Why system calls by instructions of the driver's own were not judged, if they were not.
    pub unfiltered: Option<String>,
    /// The segments whose bytes were not looked at, each with the reason.
    pub unseen_bytes: BTreeSet<String>,
}

impl ScenarioReport {
    /// The report of a scenario before its first flight.
    pub(crate) fn new(scenario: &'static str) -> Self {
        Self { scenario, ..Self::default() }
    }

    /// Adds the result of a flight.
    pub(crate) fn add(&mut self, flight_result: FlightResult) {
        for finding in flight_result.findings {
            let same = |known: &&mut ReportedFinding| known.finding.is_same_as(&finding);
            if let Some(first) = self.findings.iter_mut().find(same) {
                first.finding.merge(finding);
                continue;
            }
            self.findings.push(ReportedFinding::new(
                finding,
                flight_result.seed,
                (&flight_result.events, &flight_result.callers),
            ));
        }
        if !flight_result.needs.is_empty() && !flight_result.events.is_empty() {
            self.ended_early += 1;
        }
        self.incomplete += u64::from(flight_result.incomplete);
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
        let bytes = |stack: &Option<DeepestStack>| stack.as_ref().map_or(0, |stack| stack.bytes);
        if bytes(&flight_result.stack) > bytes(&self.stack) {
            self.stack = flight_result.stack;
        }
        self.flights += 1;
        self.events += flight_result.events.len();
        for event in &flight_result.events {
            match &event.kind {
                EventKind::PoolUnguarded { blocks } => self.unguarded += blocks,
                EventKind::LockOrderLeftOut { acquisitions } => {
                    self.lock_orders_left_out += acquisitions;
                }
                EventKind::SystemCallsUnfiltered { why } => {
                    self.unfiltered = Some(format!(
                        "system calls by instructions of the driver's own, because the operating \
                         system refuses a seccomp filter ({why}): they need a Linux kernel with \
                         CONFIG_SECCOMP_FILTER, and no policy against the system call seccomp"
                    ));
                }
                EventKind::BytesNotSeen { number, why } => {
                    self.unseen_bytes.insert(format!("bytes of segment {number} ({why})"));
                }
                _ => (),
            }
        }
        self.rule_counts.add(&flight_result.rule_counts);
        self.called.extend(flight_result.called);
        for (name, times) in flight_result.missing {
            *self.missing.entry(name).or_default() += times;
        }
    }

    /// What the flights did not judge: system calls, and bytes of segments.
    pub fn not_judged(&self) -> impl Iterator<Item = &String> {
        self.unfiltered.iter().chain(&self.unseen_bytes)
    }

    /// Moves findings that the allow file covers to `allowed`.
    pub(crate) fn apply_allow_list(&mut self, driver: &str, allow: &AllowList) {
        for found in std::mem::take(&mut self.findings) {
            let reason = allow.reason(driver, self.scenario, &found.finding);
            match reason.map(str::to_owned) {
                Some(reason) => self.allowed.push(AllowedFinding { found, reason }),
                None => self.findings.push(found),
            }
        }
    }

    /// The outcome over all flights.
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

    /// The number of findings of a severity that are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|reported_finding| reported_finding.finding.severity == severity)
            .count()
    }
}
