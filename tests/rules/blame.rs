//! One fault, one culprit: every bad driver of the registry, flown as `check NAME --deny warnings`
//! flies it. The first finding is the rule that the driver breaks, and no finding blames another
//! component.

use flight::Component;
use std::fmt::Write as _;
use verify::Severity;
use windtunnel::{
    CheckPlan, CheckReport, Driver, HostKind, ReportedFinding, check, default_scenarios,
};

/// Checks a driver as the command does without options.
fn checked(driver: Driver) -> CheckReport {
    let scenarios = default_scenarios(driver.streams(), false);
    let (host, seeds) = (HostKind::deterministic(1), 1);
    let plan = CheckPlan {
        driver,
        umd: None,
        scenarios: &scenarios,
        host,
        seeds,
        allow: None,
        own_process: None,
        require_flown: 0,
        jobs: 1,
    };
    check(&plan, |_| ())
}

/// The component that a bad driver is.
fn component(driver: Driver) -> Component {
    if driver.name().starts_with("umd-") { Component::Umd } else { Component::Driver }
}

/// What is wrong with the report on a bad driver, or nothing. Its first finding is the first in the
/// order of scenarios and events, unless that is a note.
fn wrong(driver: Driver) -> Option<String> {
    let report = checked(driver);
    let groups = report.finding_groups();
    let culprit = component(driver);
    let findings = || report.scenarios.iter().flat_map(|scenario| &scenario.findings);
    let weighs = |found: &&ReportedFinding| found.finding.severity > Severity::Note;
    let first = findings().find(weighs).or(findings().next()).map(|found| &found.finding);
    let others = groups.iter().filter(|group| group.first.finding.component != culprit).count();
    let fails = first.is_some_and(|finding| finding.severity > Severity::Note);
    let expected_exit = u8::from(fails);
    if first.is_some_and(|finding| finding.rule == driver.breaks()[0])
        && others == 0
        && report.exit_code(true) == expected_exit
    {
        return None;
    }
    let mut text = format!(
        "{} (breaks {}), exit status {}:",
        driver.name(),
        driver.breaks()[0].name(),
        report.exit_code(true)
    );
    for group in &groups {
        let (finding, scenarios) = (&group.first.finding, &group.scenarios);
        let _ = write!(
            text,
            "\n  {} {} {}, {}: {} [{} of {}]",
            finding.severity.name(),
            finding.rule.name(),
            finding.component.name(),
            finding.argument,
            finding.message,
            scenarios[0],
            scenarios.len()
        );
    }
    if let Some(error) = &report.internal_error {
        let _ = write!(text, "\n  internal error: {}", error.0);
    }
    Some(text)
}

/// Checks all bad drivers of one kind, on two threads.
fn check_blame(of: impl Fn(Driver) -> bool) {
    let bad: Vec<Driver> =
        Driver::all().filter(|driver| !driver.breaks().is_empty() && of(*driver)).collect();
    let (first, second) = bad.split_at(bad.len() / 2);
    let failures = |drivers: &[Driver]| -> Vec<String> {
        drivers.iter().filter_map(|driver| wrong(*driver)).collect()
    };
    let failed = std::thread::scope(|scope| {
        let other = scope.spawn(|| failures(second));
        let mut failed = failures(first);
        failed.extend(other.join().expect("no flight panics"));
        failed
    });
    assert!(failed.is_empty(), "{} drivers:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn every_bad_miniport_is_blamed_alone_and_for_its_rule_first() {
    check_blame(|driver| !driver.streams() && component(driver) == Component::Driver);
}

#[test]
fn every_bad_user_mode_driver_is_blamed_alone_and_for_its_rule_first() {
    check_blame(|driver| component(driver) == Component::Umd);
}

#[test]
fn every_bad_minidriver_is_blamed_alone_and_for_its_rule_first() {
    check_blame(Driver::streams);
}
