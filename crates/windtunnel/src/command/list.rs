//! `windtunnel list`.

use super::json;
use clap::ValueEnum;
use drivers::{Listed, ListedStream};
use flight::RuleId;
use serde_json::{Value, json};
use std::process::ExitCode;
use windtunnel::{SCENARIOS, Scenario};

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ListKind {
    /// Built-in drivers, good and bad: display drivers, then streaming minidrivers
    Drivers,
    /// Scenarios that a driver is flown through, and bad clients
    Scenarios,
    /// The rule catalogue, and which rules are live
    Rules,
}

pub(crate) fn run(what: ListKind, as_json: bool) -> ExitCode {
    match what {
        ListKind::Drivers => drivers(as_json),
        ListKind::Scenarios => scenarios(as_json),
        ListKind::Rules => rules(as_json),
    }
    ExitCode::SUCCESS
}

fn rule_ids(breaks: &[RuleId]) -> Vec<&'static str> {
    breaks.iter().map(|rule_id| rule_id.name()).collect()
}

/// Prints a line of text output. Empty brackets are left out.
fn line(name: &str, about: &str, breaks: &[RuleId], more: &str) {
    let breaks = match breaks {
        [] => String::new(),
        some => format!(" [breaks {}]", rule_ids(some).join(", ")),
    };
    println!("{name:<31} {about}{breaks}{more}");
}

/// A title, and the filter for the drivers listed below it.
type ListGroup = (&'static str, fn(&Listed) -> bool);

/// Lists drivers. Bad user-mode drivers form their own group: each is on a good kernel-mode driver.
fn drivers(as_json: bool) {
    let all = || drivers::ALL.iter();
    let streams = || drivers::STREAMS.iter().copied().flatten();
    if as_json {
        let driver = |listed: &Listed| json!({ "name": listed.name, "about": listed.about, "breaks": rule_ids(listed.breaks), "umd": listed.umd.is_some() });
        let stream = |listed_stream: &ListedStream| json!({ "name": listed_stream.name, "about": listed_stream.about, "breaks": rule_ids(listed_stream.breaks), "streams": true, "table": listed_stream.is_table() });
        json::print(&all().map(driver).chain(streams().map(stream)).collect::<Value>());
        return;
    }
    let groups: [ListGroup; 3] = [
        ("Good drivers:", |listed| listed.breaks.is_empty()),
        ("Bad drivers, with the rule that each breaks first:", |listed| {
            !listed.breaks.is_empty() && listed.umd.is_none()
        }),
        ("Bad user-mode drivers, each on a good driver:", |listed| {
            !listed.breaks.is_empty() && listed.umd.is_some()
        }),
    ];
    for (number, (title, is)) in groups.iter().enumerate() {
        println!("{}{title}\n", if number == 0 { "" } else { "\n" });
        for it in all().filter(|listed| is(listed)) {
            let good = it.umd.is_some() && it.breaks.is_empty();
            line(it.name, it.about, it.breaks, if good { " [has a user-mode driver]" } else { "" });
        }
    }
    for (title, good) in [
        ("Good streaming minidrivers:", true),
        ("Bad streaming minidrivers, with the rule that each breaks first:", false),
    ] {
        println!("\n{title}\n");
        for it in streams().filter(|listed_stream| listed_stream.breaks.is_empty() == good) {
            line(it.name, it.about, it.breaks, if it.is_table() { " [a table]" } else { "" });
        }
    }
    println!("\nA user-mode driver of your own: windtunnel check --umd FILE.so [DRIVER]");
}

fn scenarios(as_json: bool) {
    let all = SCENARIOS.iter().copied().flatten();
    if as_json {
        let scenario = |scenario: &Scenario| json!({ "name": scenario.name, "about": scenario.about, "breaks": rule_ids(scenario.breaks), "needs": scenario.needs.names() });
        json::print(&all.map(scenario).collect::<Value>());
        return;
    }
    for it in all {
        let more = match (it.needs_umd(), it.streams()) {
            (true, _) => " [needs a user-mode driver]",
            (_, true) => " [streaming minidriver]",
            _ => "",
        };
        line(it.name, it.about, it.breaks, more);
    }
}

fn rules(as_json: bool) {
    let live = |id: &str| RuleId::find(id).is_some();
    if as_json {
        let rule = |entry: &verify::Entry| {
            json!({
                "id": entry.id,
                "live": live(&entry.id),
                "basis": entry.basis,
                "severity": entry.severity().name(),
                "source": entry.source,
                "obligation": entry.obligation,
                "function": entry.function,
                "rule": entry.rule,
                "windows": entry.windows(),
            })
        };
        json::print(&verify::catalogue().iter().map(rule).collect::<Value>());
        return;
    }
    let mut unknown = 0;
    for it in verify::catalogue() {
        let state = if live(&it.id) { "live" } else { "not live" };
        unknown += usize::from(live(&it.id) && it.windows_is_unknown());
        println!(
            "{:<20} {state:<8} {:<7} {:<6} {}: {}",
            it.id,
            it.severity().name(),
            it.obligation,
            it.function,
            it.rule
        );
    }
    println!("\n{} of {} rules are live.", RuleId::LIVE.len(), verify::catalogue().len());
    println!("For {unknown} live rules it is not known what Windows does when they are broken.");
}
