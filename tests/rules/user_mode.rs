//! User-mode drivers: each bad driver breaks its rule, and good drivers keep all rules.

use drivers::UmdFlaw;
use flight::{Component, RuleId};
use harness::flown;
use std::collections::BTreeSet;
use verify::Severity;
use windtunnel::{FlightResult, HostKind, Outcome, SCENARIOS, Scenario, fly_with_umd};

/// Every scenario with a user-mode driver in it.
fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.needs.has_entry("OpenAdapter"))
}

fn good_scenarios() -> impl Iterator<Item = &'static Scenario> {
    scenarios().filter(|scenario| scenario.breaks.is_empty())
}

/// Good drivers that have a user-mode driver.
fn good_drivers() -> Vec<&'static str> {
    let good =
        drivers::ALL.iter().filter(|listed| listed.breaks.is_empty() && listed.umd.is_some());
    good.map(|listed| listed.name).collect()
}

/// The live rules of user-mode drivers.
fn rules() -> impl Iterator<Item = RuleId> {
    let of_umd = |rule_id: &RuleId| rule_id.name().starts_with("UMD-");
    RuleId::LIVE.iter().copied().filter(of_umd)
}

fn assert_clean(flown: &FlightResult, label: &str) {
    assert_eq!(flown.outcome, Outcome::Clean, "{label}: {:?}", flown.findings);
    assert!(flown.findings.is_empty(), "{label}: {:?}", flown.findings);
    assert_eq!(flown.live.count(), 0, "{label}:\n{}", flown.live);
}

#[test]
fn every_bad_user_mode_driver_is_reported_by_its_rule_first() {
    let mut broken = BTreeSet::new();
    for driver in drivers::ALL.iter().filter(|listed| listed.name.starts_with("umd-")) {
        let rule = driver.breaks[0];
        let flights: Vec<FlightResult> =
            good_scenarios().map(|scenario| flown(driver.name, scenario.name, 1)).collect();
        let findings: Vec<_> =
            flights.iter().flat_map(|flight_result| &flight_result.findings).collect();
        let first = findings.iter().find(|finding| finding.severity > Severity::Note);
        let first = first.or(findings.first()).unwrap_or_else(|| panic!("{}", driver.name));
        assert_eq!(
            (first.rule, first.component),
            (rule, Component::Umd),
            "{}: {}",
            driver.name,
            first.message
        );
        broken.insert(rule);
    }
    for scenario in scenarios() {
        broken.extend(scenario.breaks);
    }
    let unbroken: Vec<_> = rules().filter(|rule_id| !broken.contains(rule_id)).collect();
    assert!(unbroken.is_empty(), "no driver and no application breaks {unbroken:?}");
}

#[test]
fn good_user_mode_drivers_keep_every_rule() {
    let mut judged = BTreeSet::new();
    for driver in good_drivers() {
        for scenario in good_scenarios() {
            for seed in 1..=4 {
                for on in [HostKind::deterministic(seed), HostKind::under_pressure(seed)] {
                    let flown = flown(driver, scenario.name, on);
                    assert_clean(&flown, &format!("{driver}, {}, {on:?}", scenario.name));
                    judged
                        .extend(rules().filter(|rule_id| flown.rule_counts.count_of(*rule_id) > 0));
                }
            }
        }
    }
    let idle: Vec<_> = rules().filter(|rule_id| !judged.contains(rule_id)).collect();
    assert!(idle.is_empty(), "no good flight evaluates {idle:?}");
}

#[test]
fn a_driver_that_defers_and_reverses_its_releases_has_no_finding() {
    for driver in good_drivers() {
        for scenario in good_scenarios() {
            let make = drivers::find(driver).map(|listed| listed.make);
            let make = make.unwrap_or_else(|| panic!("{driver}"));
            let umd = Some(drivers::umd_with(UmdFlaw::ReleasesInReverse));
            let flown = fly_with_umd(make, umd, scenario, 1);
            let flown = flown.unwrap_or_else(|reason| panic!("{}", reason.0));
            assert_clean(&flown, &format!("{driver}, {}", scenario.name));
        }
    }
}

#[test]
fn a_driver_that_draws_nothing_is_blamed_alone() {
    let flown = flown("umd-draws-nothing", "umd-texture", 1);
    let found: Vec<_> =
        flown.findings.iter().map(|finding| (finding.rule, finding.component)).collect();
    assert_eq!(found, [(RuleId::WT_DRAW_001, Component::Umd)], "{}", flown.report());
    assert_eq!(flown.outcome, Outcome::Findings);
}

#[test]
fn good_user_mode_drivers_fly_clean_side_by_side() {
    for driver in good_drivers() {
        for scenario in good_scenarios() {
            for run in 0..3 {
                let flown = flown(driver, scenario.name, HostKind::Threaded);
                assert_clean(&flown, &format!("{driver}, {}, run {run}", scenario.name));
            }
        }
    }
}

#[test]
fn bad_applications_are_reported_on_every_driver() {
    for driver in good_drivers() {
        for scenario in scenarios().filter(|scenario| !scenario.breaks.is_empty()) {
            let flown = flown(driver, scenario.name, 1);
            let first = flown.findings.first().map(|finding| (finding.rule, finding.component));
            let expected = (scenario.breaks[0], Component::Client);
            assert_eq!(first, Some(expected), "{driver}, {}", scenario.name);
        }
    }
}
