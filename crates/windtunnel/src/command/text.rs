//! The text report of `windtunnel check`.

use std::path::Path;
use verify::Severity;
use windtunnel::{AllowList, BUILT_IN, CheckReport, Driver, HostKind, NativeUmd, ScenarioReport};

/// Points to the explanation of the terms in reports.
pub(crate) const GLOSSARY_NOTE: &str = "terms: docs/GLOSSARY.md";

pub(crate) fn print_header(driver: Driver, umd: Option<&NativeUmd>, on: HostKind, seeds: u64) {
    let message = match (on.seed(), seeds) {
        (None, 1) => String::new(),
        (None, times) => format!(", {times} times"),
        (Some(seed), 1) => format!(", seed {seed}"),
        (Some(seed), _) => format!(", seeds {seed} to {}", seed.wrapping_add(seeds - 1)),
    };
    let umd = umd
        .map(|native_umd| format!(" with the user-mode driver {}", native_umd.path))
        .unwrap_or_default();
    let (name, about) = (driver.name(), driver.about());
    println!("Flying {name} ({about}){umd} on host {}{message}.\n", on.name());
}

/// Prints a finished scenario: its line, then its findings.
pub(crate) fn print_scenario(report: &ScenarioReport, live: bool) {
    let (outcome, name) = (report.outcome(), report.scenario);
    println!("  {:<10} {name:<24} {:>5} events", outcome.name(), report.events);
    for need in &report.needs {
        println!("             not flown: needs {need}");
    }
    if live {
        for (when, live_objects) in &report.live_snapshots {
            println!("             live objects, {when}:");
            print!("{}", indented(&live_objects.to_string(), 15));
        }
    }
    for it in &report.allowed {
        let finding = &it.found.finding;
        let (rule, place) = (finding.rule.name(), &finding.argument);
        println!("             allowed: {rule} in {place}{}: {}", it.found.times(), it.reason);
    }
    for found in &report.findings {
        println!("\n{}", found.text(report.flights > 1));
    }
    if report.live.count() > 0 {
        println!("\n  left alive at the end:\n{}", indented(&report.live.to_string(), 4));
    }
}

/// Prints the summary: what was not judged, what was allowed, and the totals.
pub(crate) fn print_summary(report: &CheckReport, allow: Option<(&Path, &AllowList)>) {
    let absent: Vec<&str> = report.missing().into_iter().collect();
    println!("\nNot judged:");
    print_not_judged(report);
    print_list("used, but not implemented yet", &absent);
    let outside = flight::ExecutionContext::calls_without_context();
    if !outside.is_empty() {
        print_list("called on a thread that runs no driver", &outside);
    }
    let (live, judged) = (flight::RuleId::LIVE.len(), report.judged().len());
    let catalogue = verify::catalogue().len();
    println!(
        "  rules not live: {} of {catalogue} ('windtunnel list rules' lists them)\n",
        catalogue - live
    );
    if let Some((path, allow)) = allow {
        print_allowed(report, path, allow);
    }
    if report.flown_count() == 0 {
        println!("No scenario could be flown; each one prints what it needs.");
    }
    let count = |severity| report.count(severity);
    println!(
        "{} of {} scenarios flown, {} events; {live} rules watched, {judged} evaluated; {} errors, \
         {} warnings, {} notes; {} live objects.",
        report.flown_count(),
        report.scenarios.len(),
        report.event_count(),
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note),
        report.live_count(),
    );
    println!("{GLOSSARY_NOTE}");
}

/// Prints which entries and rules were not exercised. When a user-mode driver is under test, the
/// miniport below it is not, so entries of the miniport are left out.
fn print_not_judged(report: &CheckReport) {
    let unjudged: Vec<&str> = report.not_judged().iter().map(|rule_id| rule_id.name()).collect();
    if report.umd.as_deref().is_some_and(|text| text != BUILT_IN) {
        let (own, others): (Vec<&str>, Vec<&str>) =
            unjudged.into_iter().partition(|text| text.starts_with("UMD-"));
        print_rules("live rules of user-mode drivers never evaluated", &own);
        println!("  other live rules never evaluated: {}", others.len());
        return;
    }
    let entries = report.entries();
    let never: Vec<&str> = entries.iter().filter(|pair| !pair.1).map(|pair| pair.0).collect();
    print_list("entries never called", &never);
    print_rules("live rules never evaluated", &unjudged);
}

/// Prints rules by family, one family per line: the list can be long.
fn print_rules(what: &str, rules: &[&str]) {
    if rules.is_empty() {
        return print_list(what, rules);
    }
    println!("  {what}: {}", rules.len());
    let family = |text: &str| text.rsplit_once('-').map_or("", |pair| pair.0).to_owned();
    for of in rules.chunk_by(|one, next| family(one) == family(next)) {
        let numbers = of.iter().map(|text| text.rsplit_once('-').map_or(*text, |pair| pair.1));
        println!("    {:<14} {}", family(of[0]), numbers.collect::<Vec<_>>().join(" "));
    }
}

/// Prints how many findings the allow file covered, and its entries that did not occur.
fn print_allowed(report: &CheckReport, path: &Path, allow: &AllowList) {
    println!("Allowed by {}: {} findings", path.display(), report.allowed_count());
    for it in allow.unused(report) {
        let (rule, place) = (&it.rule, &it.place);
        println!("  allowed, but did not occur: {rule} in {place} (line {})", it.line);
    }
    println!();
}

fn print_list(what: &str, list: &[&str]) {
    if list.is_empty() {
        println!("  {what}: none");
    } else {
        println!("  {what}: {}", list.join(", "));
    }
}

fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().flat_map(|text| [&indent, text, "\n"]).collect()
}
