//! Many flights of one driver, and what they come to.

use crate::allow::Allow;
use crate::driver::Driver;
use crate::fly::{Flown, On, Outcome, fly_listed, fly_with};
use crate::landed::Landed;
use crate::scenario::Scenario;
use flight::{CouldNotRun, RuleId, Tally};
use runtime::Umd;
use std::collections::BTreeSet;
use verify::Severity;

/// What to fly.
pub struct Plan<'a> {
    /// The driver.
    pub driver: Driver,
    /// A user-mode driver to fly with it, in place of its own.
    pub umd: Option<Native>,
    /// The scenarios, in order.
    pub scenarios: &'a [&'static Scenario],
    /// Who runs the flights; the first seed, if it has one.
    pub on: On,
    /// How many times, each with the next seed.
    pub seeds: u64,
    /// What is allowed.
    pub allow: Option<&'a Allow>,
}

/// A user-mode driver that comes as a file.
#[derive(Clone, Debug)]
pub struct Native {
    /// The file, as it was named.
    pub path: String,
    /// What is in it.
    pub umd: Umd,
}

/// What a check came to.
pub struct Checked {
    /// The driver.
    pub driver: &'static str,
    /// Whether it streams.
    pub streams: bool,
    /// Its user-mode driver, if it has one: a file, or [`BUILT_IN`].
    pub umd: Option<String>,
    /// Who ran the flights; the first seed, if it has one.
    pub on: On,
    /// How many times.
    pub seeds: u64,
    /// The scenarios, in order, each over all its seeds.
    pub flights: Vec<Landed>,
}

/// How reports name a user-mode driver that is no file.
pub const BUILT_IN: &str = "built-in";

/// What a check has just done.
pub enum Step<'a> {
    /// It flew once.
    Flown(&'a Flown),
    /// It is done with a scenario.
    Landed(&'a Landed),
}

/// Flies a driver through scenarios; `after` sees each flight, and each scenario, as it lands.
pub fn check(plan: &Plan<'_>, mut after: impl FnMut(Step<'_>)) -> Result<Checked, CouldNotRun> {
    let mut flights = Vec::new();
    for scenario in plan.scenarios {
        let mut landed = Landed::new(scenario.name);
        for turn in 0..plan.seeds {
            let on = plan.on.after(turn);
            let flown = match plan.driver {
                Driver::Display(it) => fly_with(it.make, plan.flown(), scenario, on),
                Driver::Streaming(it) => fly_listed(it, scenario, on),
            };
            let flown = flown.map_err(|CouldNotRun(why)| {
                CouldNotRun(format!("{}, {}: {why}", scenario.name, on.name()))
            })?;
            after(Step::Flown(&flown));
            landed.add(flown);
        }
        if let Some(allow) = plan.allow {
            landed.allow(plan.driver.name(), allow);
        }
        after(Step::Landed(&landed));
        flights.push(landed);
    }
    let (driver, streams, umd) = (plan.driver.name(), plan.driver.streams(), plan.named());
    Ok(Checked { driver, streams, umd, on: plan.on, seeds: plan.seeds, flights })
}

impl Plan<'_> {
    /// The user-mode driver of one flight.
    fn flown(&self) -> Option<Umd> {
        match &self.umd {
            Some(native) => Some(native.umd.clone()),
            None => self.driver.umd().map(|make| make()),
        }
    }

    /// Its name in reports.
    fn named(&self) -> Option<String> {
        match &self.umd {
            Some(native) => Some(native.path.clone()),
            None => self.driver.umd().map(|_| BUILT_IN.to_owned()),
        }
    }
}

impl Checked {
    /// How many findings of a severity are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        self.flights.iter().map(|it| it.count(severity)).sum()
    }

    /// How many things were alive at the ends.
    pub fn live(&self) -> usize {
        self.flights.iter().map(|it| it.live.count()).sum()
    }

    /// How many findings are allowed.
    pub fn allowed(&self) -> usize {
        self.flights.iter().map(|it| it.allowed.len()).sum()
    }

    /// How many scenarios were told to their end, or found something.
    pub fn flown(&self) -> usize {
        let flown = |it: &&Landed| it.outcome() != Outcome::NotFlown;
        self.flights.iter().filter(flown).count()
    }

    /// How many events there were.
    pub fn events(&self) -> usize {
        self.flights.iter().map(|it| it.events).sum()
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

    /// The live rules for such drivers that judged nothing.
    pub fn not_judged(&self) -> Vec<RuleId> {
        let judged = self.judged();
        let streams = |it: RuleId| it.name().starts_with("KS-");
        let ours = |it: &RuleId| streams(*it) == self.streams && !judged.contains(it);
        RuleId::LIVE.iter().copied().filter(ours).collect()
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
