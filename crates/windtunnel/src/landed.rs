//! What a scenario came to, over all the seeds it was flown with.

use crate::allow::Allow;
use crate::fly::{Flown, Outcome};
use flight::{Event, Tally};
use kernel::Census;
use std::collections::{BTreeMap, BTreeSet};
use verify::{Finding, Severity};

/// A finding, with the flight it was first seen in.
pub struct Found {
    /// What was found; it counts all flights.
    pub finding: Finding,
    /// The seed of the first flight that shows it, where there is one.
    pub seed: Option<u64>,
    /// The events that led there, of that flight.
    pub trail: Vec<Event>,
}

/// A finding that is allowed, and why.
pub struct Allowed {
    /// The finding.
    pub found: Found,
    /// The reason somebody gave.
    pub reason: String,
}

/// All flights of a driver through one scenario.
#[derive(Default)]
pub struct Landed {
    /// The scenario.
    pub scenario: &'static str,
    /// How many flights there were: one for each seed.
    pub flights: u64,
    /// What was found and is not allowed, in the order of first times.
    pub findings: Vec<Found>,
    /// What was found and is allowed.
    pub allowed: Vec<Allowed>,
    /// What the story needs where it could not be told to its end.
    pub needs: Vec<String>,
    /// Who was still alive at the end of the first flight that left somebody.
    pub live: Census,
    /// Who was alive at the moments the story took a look, in the first flight.
    pub looks: Vec<(&'static str, Census)>,
    /// How many events there were.
    pub events: usize,
    /// How often each rule was judged.
    pub tally: Tally,
    /// The entries that were called.
    pub called: BTreeSet<String>,
    /// The entries the driver offers.
    pub offered: Vec<&'static str>,
    /// What was used and is not there, with how often.
    pub absent: BTreeMap<String, u64>,
}

impl Landed {
    /// A scenario that is about to be flown.
    pub(crate) fn new(scenario: &'static str) -> Self {
        Self { scenario, ..Self::default() }
    }

    /// Adds a flight.
    pub(crate) fn add(&mut self, flown: Flown) {
        for finding in flown.findings {
            let same = |it: &&mut Found| {
                let it = &it.finding;
                (it.rule, it.who, &it.place) == (finding.rule, finding.who, &finding.place)
            };
            if let Some(first) = self.findings.iter_mut().find(same) {
                first.finding.count += finding.count;
                continue;
            }
            self.findings.push(Found::new(finding, flown.seed, &flown.events));
        }
        for need in flown.needs {
            if !self.needs.contains(&need) {
                self.needs.push(need);
            }
        }
        if self.flights == 0 {
            self.looks = flown.looks;
            self.offered = flown.offered;
        }
        if self.live.count() == 0 {
            self.live = flown.live;
        }
        self.flights += 1;
        self.events += flown.events.len();
        self.tally.add(&flown.tally);
        self.called.extend(flown.called);
        for (name, times) in flown.absent {
            *self.absent.entry(name).or_default() += times;
        }
    }

    /// Sets apart what is allowed.
    pub(crate) fn allow(&mut self, driver: &str, allow: &Allow) {
        for found in std::mem::take(&mut self.findings) {
            let reason = allow.reason(driver, self.scenario, &found.finding);
            match reason.map(str::to_owned) {
                Some(reason) => self.allowed.push(Allowed { found, reason }),
                None => self.findings.push(found),
            }
        }
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        let weighs = |it: &Found| it.finding.severity > Severity::Note;
        if self.findings.iter().any(weighs) {
            Outcome::Findings
        } else if !self.needs.is_empty() {
            Outcome::NotFlown
        } else if self.allowed.iter().any(|it| weighs(&it.found)) {
            Outcome::Allowed
        } else {
            Outcome::Clean
        }
    }

    /// How many findings of a severity are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|it| it.finding.severity == severity).count()
    }
}
