//! The examples of the rules that `windtunnel explain` shows: every live rule has one flight that
//! breaks it and one that keeps it, and both do what the list says.
//!
//! `WINDTUNNEL_BLESS=1 cargo test -p windtunnel-tests --test rules examples` rewrites the list:
//! it keeps examples that are still right, and searches for the others.

use crate::kernel::{AT_THE_DOOR, Case, FROM_A_FILE, cases, driver_and_scenario, recorded};
use flight::RuleId;
use harness::pages::root;
use harness::verified;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;
use windtunnel::{
    Driver, ExampleFlight, HostKind, SCENARIOS, Scenario, example, find_scenario, fly_driver,
};

/// The rules that a flight judged, and those that it broke.
#[derive(Default)]
struct Judged {
    judged: BTreeSet<RuleId>,
    broken: BTreeSet<RuleId>,
}

impl Judged {
    fn keeps(&self, rule: RuleId) -> bool {
        self.judged.contains(&rule) && !self.broken.contains(&rule)
    }
}

/// A driver, a scenario, and whether under pressure.
type Key = (&'static str, &'static str, bool);

/// Flights that were flown already.
#[derive(Default)]
struct Flights(RefCell<BTreeMap<Key, Rc<Judged>>>);

impl Flights {
    /// Flies as the command does, with seed 1.
    fn fly(&self, driver: Driver, scenario: &'static Scenario, pressure: bool) -> Rc<Judged> {
        let key = (driver.name(), scenario.name, pressure);
        if let Some(known) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let host = HostKind::Deterministic { seed: 1, pressure };
        let flown = match fly_driver(driver, scenario, host) {
            Ok(flown) => Judged {
                judged: rules(|rule| flown.rule_counts.count_of(rule) > 0),
                broken: flown.findings.iter().map(|finding| finding.rule).collect(),
            },
            Err(_) => Judged::default(), // It did not come to its end.
        };
        let flown = Rc::new(flown);
        self.0.borrow_mut().insert(key, flown.clone());
        flown
    }

    /// Flies an example of the command; `None` for other examples and for unknown names.
    fn example(&self, shown: &ExampleFlight) -> Option<Rc<Judged>> {
        let ExampleFlight::Flight { driver, scenario, pressure, .. } = shown else { return None };
        Some(self.fly(Driver::find(driver)?, find_scenario(scenario)?, *pressure))
    }
}

fn rules(is: impl Fn(RuleId) -> bool) -> BTreeSet<RuleId> {
    RuleId::LIVE.iter().copied().filter(|rule| is(*rule)).collect()
}

fn good_drivers(streams: bool) -> impl Iterator<Item = Driver> {
    let first =
        ["softgpu-gpummu", "softgpu-memory", "softgpu", "table", "capture", "table-capture"];
    let first = first.into_iter().filter_map(Driver::find);
    first
        .chain(Driver::all().filter(|driver| driver.breaks().is_empty()))
        .filter(move |driver| driver.streams() == streams)
}

fn good_scenarios(streams: bool) -> impl Iterator<Item = &'static Scenario> {
    let all = SCENARIOS.iter().copied().flatten();
    all.filter(move |scenario| scenario.breaks.is_empty() && scenario.streams() == streams)
}

fn flight(driver: Driver, scenario: &Scenario, pressure: bool) -> ExampleFlight {
    let (driver, scenario) = (driver.name().to_owned(), scenario.name.to_owned());
    ExampleFlight::Flight { driver, scenario, pressure, silent: false }
}

/// A good driver in the scenario of the broken example, or in a good scenario of its family, for a
/// rule that no good flight evaluates.
fn find_silent(broken: &ExampleFlight, flights: &Flights) -> Option<ExampleFlight> {
    let ExampleFlight::Flight { scenario, .. } = broken else { return None };
    let own = find_scenario(scenario)?;
    let family = own.name.split('-').next();
    let relatives = good_scenarios(own.streams());
    let relatives = relatives.filter(|relative| relative.name.split('-').next() == family);
    let scenarios = [own].into_iter().filter(|own| own.breaks.is_empty()).chain(relatives);
    for scenario in scenarios {
        let keeps = |driver: &Driver| {
            let flown = flights.fly(*driver, scenario, false);
            flown.broken.is_empty() && !flown.judged.is_empty()
        };
        if let Some(driver) = good_drivers(own.streams()).find(keeps) {
            let (driver, scenario) = (driver.name().to_owned(), scenario.name.to_owned());
            return Some(ExampleFlight::Flight { driver, scenario, pressure: false, silent: true });
        }
    }
    None
}

/// The test that flies the clients of `harness`.
const BAD_CLIENTS: &str = "rules a_bad_memory_client_breaks_only_its_rule";
/// The test that changes traces.
const CHANGED_TRACES: &str = "rules one_wrong_event_is_one_rule_of_the_kernel_broken";

fn test_example(file: &str, test: &str, about: &str) -> ExampleFlight {
    let (file, test, about) = (file.to_owned(), test.to_owned(), about.to_owned());
    ExampleFlight::Test { file, test, about }
}

/// The changed trace that breaks a rule.
fn changed_trace(case: &Case) -> ExampleFlight {
    let (change, edit) = (case.about.to_owned(), case.change.text());
    if let Some((driver, scenario)) = driver_and_scenario(case.flight) {
        let (driver, scenario) = (driver.to_owned(), scenario.to_owned());
        return ExampleFlight::ChangedTrace { driver, scenario, change, edit };
    }
    let about = format!("a changed trace of a client of the tests: {change} ({edit})");
    test_example("tests/rules/kernel.rs", CHANGED_TRACES, &about)
}

fn case_of(rule: RuleId) -> Option<&'static Case> {
    cases().find(|case| case.rule == rule)
}

/// Clients of the tests that break a rule.
fn client_of(rule: RuleId) -> Option<ExampleFlight> {
    let clients = harness::memory_client::BAD_CLIENTS.iter().map(|pair| pair.0);
    let flights = harness::memory_client::BAD_FLIGHTS.iter().map(|pair| pair.0);
    if clients.chain(flights).any(|breaks| breaks == rule) {
        return Some(test_example("tests/src/memory_client.rs", BAD_CLIENTS, "a client"));
    }
    harness::sync::BAD_FLIGHTS
        .iter()
        .any(|pair| pair.0 == rule)
        .then(|| test_example("tests/src/sync.rs", BAD_CLIENTS, "a client"))
}

/// The driver from a file that breaks a rule.
fn file_of(rule: RuleId) -> Option<ExampleFlight> {
    let (_, driver) = FROM_A_FILE.iter().find(|pair| pair.0 == rule)?;
    let about = format!("the driver {driver}");
    let test = "command every_deliberate_fault_is_contained_and_named";
    Some(test_example("drivers/c/flaws.toml", test, &about))
}

/// The correct driver from a file that keeps a rule.
fn correct_file_of(rule: RuleId) -> Option<ExampleFlight> {
    FROM_A_FILE.iter().find(|pair| pair.0 == rule)?;
    let test = "command correct_drivers_pass_in_both_forms_with_equal_traces";
    let name = if rule == RuleId::WT_LEAK_003 { "capture" } else { "compute" };
    Some(test_example(&format!("drivers/c/{name}/driver.c"), test, &format!("the driver {name}")))
}

/// Finds a flight that breaks a rule.
fn find_broken(rule: RuleId, flights: &Flights) -> Option<ExampleFlight> {
    if let Some(case) = case_of(rule) {
        return Some(changed_trace(case));
    }
    if let Some(shown) = file_of(rule) {
        return Some(shown);
    }
    for driver in Driver::all().filter(|driver| driver.breaks().contains(&rule)) {
        let mut scenarios = good_scenarios(driver.streams());
        let shows =
            |body: &&'static Scenario| flights.fly(driver, body, false).broken.contains(&rule);
        if let Some(scenario) = scenarios.find(shows) {
            return Some(flight(driver, scenario, false));
        }
    }
    let clients = SCENARIOS.iter().copied().flatten();
    for client in clients.filter(|scenario| scenario.breaks.contains(&rule)) {
        let shows = |driver: &Driver| flights.fly(*driver, client, false).broken.contains(&rule);
        if let Some(driver) = good_drivers(client.streams()).find(shows) {
            return Some(flight(driver, client, false));
        }
    }
    let at_the_door = AT_THE_DOOR.iter().any(|pair| pair.0 == rule);
    client_of(rule).or_else(|| {
        at_the_door.then(|| {
            let file = "tests/lifetime/windows_observations.rs";
            test_example(file, "lifetime windows_observations", "a client")
        })
    })
}

/// Finds a flight that judges a rule and keeps it: in the scenario of the broken one if possible.
fn find_kept(rule: RuleId, broken: &ExampleFlight, flights: &Flights) -> Option<ExampleFlight> {
    if let Some((driver, scenario)) = case_of(rule).and_then(|it| driver_and_scenario(it.flight)) {
        let (driver, scenario) = (Driver::find(driver)?, find_scenario(scenario)?);
        if flights.fly(driver, scenario, false).keeps(rule) {
            return Some(flight(driver, scenario, false));
        }
    }
    if let Some(shown) = correct_file_of(rule) {
        return Some(shown);
    }
    // A client that breaks the rule with one driver does not show how it is kept with another.
    if let ExampleFlight::Flight { scenario, .. } = broken
        && let Some(scenario) = find_scenario(scenario).filter(|it| !it.breaks.contains(&rule))
    {
        let mut drivers = good_drivers(scenario.streams());
        if let Some(driver) = drivers.find(|it| flights.fly(*it, scenario, false).keeps(rule)) {
            return Some(flight(driver, scenario, false));
        }
    }
    for (streams, pressure) in [(false, false), (true, false), (false, true), (true, true)] {
        for driver in good_drivers(streams) {
            let mut scenarios = good_scenarios(streams);
            let keeps = |it: &&'static Scenario| flights.fly(driver, it, pressure).keeps(rule);
            if let Some(scenario) = scenarios.find(keeps) {
                return Some(flight(driver, scenario, pressure));
            }
        }
    }
    // Bad clients that keep this rule.
    for client in SCENARIOS.iter().copied().flatten().filter(|client| !client.breaks.is_empty()) {
        let mut drivers = good_drivers(client.streams());
        if let Some(driver) = drivers.find(|it| flights.fly(*it, client, false).keeps(rule)) {
            return Some(flight(driver, client, false));
        }
    }
    // Clients of the tests that break no rule.
    let mut known = cases().filter(|case| driver_and_scenario(case.flight).is_none());
    let judges = |case: &&Case| verified(&recorded(case.flight)).rule_counts().count_of(rule) > 0;
    let client = known.find(judges).map(|case| {
        let about = format!("the flight '{}' of a client of the tests", case.flight);
        test_example("tests/rules/kernel.rs", CHANGED_TRACES, &about)
    });
    client.or_else(|| find_silent(broken, flights))
}

/// Whether an example of a broken rule is right.
fn is_broken(rule: RuleId, shown: &ExampleFlight, flights: &Flights) -> bool {
    match shown {
        ExampleFlight::Flight { .. } => {
            flights.example(shown).is_some_and(|flown| flown.broken.contains(&rule))
        }
        // Another test flies these.
        ExampleFlight::ChangedTrace { .. } | ExampleFlight::Test { .. } => {
            let expected = case_of(rule).map(changed_trace).or_else(|| client_of(rule));
            let expected = expected.or_else(|| file_of(rule));
            let at_the_door = AT_THE_DOOR.iter().any(|pair| pair.0 == rule);
            expected.map_or(at_the_door, |expected| expected == *shown)
        }
    }
}

/// Whether an example of a kept rule is right.
fn is_kept(rule: RuleId, shown: &ExampleFlight, flights: &Flights) -> bool {
    match shown {
        ExampleFlight::Flight { silent: true, .. } => flights
            .example(shown)
            .is_some_and(|flown| flown.broken.is_empty() && !flown.judged.is_empty()),
        ExampleFlight::Flight { scenario, silent: false, .. } => {
            let is_right = find_scenario(scenario).is_some_and(|it| !it.breaks.contains(&rule));
            is_right && flights.example(shown).is_some_and(|flown| flown.keeps(rule))
        }
        ExampleFlight::ChangedTrace { .. } => false,
        ExampleFlight::Test { .. } if correct_file_of(rule).is_some() => {
            correct_file_of(rule).as_ref() == Some(shown)
        }
        ExampleFlight::Test { about, .. } => {
            let mut known = cases().filter(|case| driver_and_scenario(case.flight).is_none());
            let named = known.find(|case| about.contains(&format!("'{}'", case.flight)));
            named.is_some_and(|case| {
                let verifier = verified(&recorded(case.flight));
                verifier.rule_counts().count_of(rule) > 0
                    && verifier.findings().iter().all(|finding| finding.rule != rule)
            })
        }
    }
}

/// An example as TOML.
fn toml(shown: &ExampleFlight) -> String {
    match shown {
        ExampleFlight::ChangedTrace { driver, scenario, change, edit } => {
            format!(
                "{{ driver = {driver:?}, scenario = {scenario:?}, change = {change:?}, edit = {edit:?} }}"
            )
        }
        ExampleFlight::Flight { driver, scenario, pressure, silent } => {
            let pressure = if *pressure { ", pressure = true" } else { "" };
            let silent = if *silent { ", silent = true" } else { "" };
            format!("{{ driver = {driver:?}, scenario = {scenario:?}{pressure}{silent} }}")
        }
        ExampleFlight::Test { file, test, about } => {
            format!("{{ file = {file:?}, test = {test:?}, about = {about:?} }}")
        }
    }
}

const HEAD: &str = "\
# For each live rule a flight that breaks it and one that keeps it. Generated, and flown by a test:
# WINDTUNNEL_BLESS=1 cargo test -p windtunnel-tests --test rules examples
";

fn rewrite(flights: &Flights) {
    let mut text = String::from(HEAD);
    let mut missing = Vec::new();
    for rule in RuleId::LIVE.iter().copied() {
        let known = example(rule);
        let broken = known.map(|both| &both.broken).filter(|it| is_broken(rule, it, flights));
        let Some(broken) = broken.cloned().or_else(|| find_broken(rule, flights)) else {
            missing.push(format!("{}: broken", rule.name()));
            continue;
        };
        let kept = known.map(|both| &both.kept).filter(|it| is_kept(rule, it, flights));
        let kept = kept.cloned().or_else(|| find_kept(rule, &broken, flights));
        let Some(kept) = kept else {
            missing.push(format!("{}: kept", rule.name()));
            continue;
        };
        let (name, broken, kept) = (rule.name(), toml(&broken), toml(&kept));
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[[example]]\nrule = {name:?}\nbroken = {broken}\nkept = {kept}\n");
    }
    let path = root().join("crates/windtunnel/examples.toml");
    std::fs::write(&path, text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    assert!(missing.is_empty(), "no flight was found for {missing:#?}");
}

#[test]
fn every_live_rule_has_help_a_page_or_origin_and_an_example_of_each() {
    let flights = Flights::default();
    if std::env::var_os("WINDTUNNEL_BLESS").is_some() {
        rewrite(&flights);
        return;
    }
    let mut wrong = Vec::new();
    for rule in RuleId::LIVE.iter().copied() {
        let entry = verify::find(rule.name());
        let entry = entry.unwrap_or_else(|| panic!("{} is in the catalogue", rule.name()));
        let help = entry.help.is_some() && (entry.link().is_some() || entry.origin().is_some());
        let both = example(rule);
        let broken = both.is_some_and(|both| is_broken(rule, &both.broken, &flights));
        let kept = both.is_some_and(|both| is_kept(rule, &both.kept, &flights));
        if !(help && broken && kept) {
            wrong.push(format!("{}: help {help}, broken {broken}, kept {kept}", rule.name()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), RuleId::LIVE.len());
}
