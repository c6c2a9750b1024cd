//! Many flights of one driver, and what they come to.

use crate::fly::{Flown, On, Outcome, fly};
use crate::scenario::Scenario;
use drivers::Listed;
use flight::{CouldNotRun, RuleId, Tally};
use std::collections::BTreeSet;
use verify::Severity;

/// What a check came to.
pub struct Checked {
    /// The driver.
    pub driver: &'static str,
    /// Who ran the flights.
    pub on: On,
    /// The flights, in order.
    pub flights: Vec<Flown>,
}

/// Flies a driver through scenarios; `after` sees each flight as it lands.
pub fn check(
    driver: &'static Listed,
    scenarios: &[&'static Scenario],
    on: impl Into<On>,
    mut after: impl FnMut(&Flown),
) -> Result<Checked, CouldNotRun> {
    let (on, mut flights) = (on.into(), Vec::new());
    for scenario in scenarios {
        let flown = fly(driver, scenario, on)
            .map_err(|CouldNotRun(why)| CouldNotRun(format!("{}: {why}", scenario.name)))?;
        after(&flown);
        flights.push(flown);
    }
    Ok(Checked { driver: driver.name, on, flights })
}

impl Checked {
    /// How many findings there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.flights.iter().map(|it| it.count(severity)).sum()
    }

    /// How many things were alive at the ends.
    pub fn live(&self) -> usize {
        self.flights.iter().map(|it| it.live.count()).sum()
    }

    /// How many flights were told to their end, or found something.
    pub fn flown(&self) -> usize {
        let flown = |it: &&Flown| it.outcome != Outcome::NotFlown;
        self.flights.iter().filter(flown).count()
    }

    /// How many events there were.
    pub fn events(&self) -> usize {
        self.flights.iter().map(|it| it.events.len()).sum()
    }

    /// How often each rule was judged.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for flown in &self.flights {
            tally.add(&flown.tally);
        }
        tally
    }

    /// The live rules that judged something.
    pub fn judged(&self) -> Vec<RuleId> {
        let tally = self.tally();
        RuleId::LIVE.iter().copied().filter(|it| tally.of(*it) > 0).collect()
    }

    /// The live rules that judged nothing.
    pub fn not_judged(&self) -> Vec<RuleId> {
        let judged = self.judged();
        RuleId::LIVE.iter().copied().filter(|it| !judged.contains(it)).collect()
    }

    /// The entries the driver offers, each with whether it was called.
    pub fn entries(&self) -> Vec<(&'static str, bool)> {
        let called: BTreeSet<&str> =
            self.flights.iter().flat_map(|it| &it.called).map(String::as_str).collect();
        let offered = self.flights.first().map(|it| it.offered.clone()).unwrap_or_default();
        offered.into_iter().map(|it| (it, called.contains(it))).collect()
    }

    /// What was used and is not there.
    pub fn absent(&self) -> BTreeSet<&str> {
        self.flights.iter().flat_map(|it| it.absent.keys()).map(String::as_str).collect()
    }

    /// The exit code: 0 nothing wrong and something flown, 1 something wrong, 2 nothing flown.
    pub fn exit_code(&self, deny_warnings: bool) -> u8 {
        let errors = self.count(Severity::Error);
        let warnings = if deny_warnings { self.count(Severity::Warning) } else { 0 };
        match (errors + warnings + self.live(), self.flown()) {
            (0, 0) => 2,
            (0, _) => 0,
            _ => 1,
        }
    }
}
