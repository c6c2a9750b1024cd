//! `windtunnel list`.

use super::json;
use clap::ValueEnum;
use flight::RuleId;
use serde_json::{Value, json};
use std::process::ExitCode;
use windtunnel::{Driver, SCENARIOS};

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum What {
    /// Built-in drivers, good and bad: display drivers, then streaming minidrivers
    Drivers,
    /// Stories a driver is flown through, and bad clients
    Scenarios,
    /// The rule catalogue, and which of it is live
    Rules,
}

pub(crate) fn run(what: What, machine: bool) -> ExitCode {
    match what {
        What::Drivers => {
            named(Driver::all().map(|it| (it.name(), it.about(), it.breaks())), machine);
        }
        What::Scenarios => {
            let all = SCENARIOS.iter().copied().flatten();
            named(all.map(|it| (it.name, it.about, it.breaks)), machine);
        }
        What::Rules => rules(machine),
    }
    ExitCode::SUCCESS
}

fn named<'a>(lines: impl Iterator<Item = (&'a str, &'a str, &'a [RuleId])>, machine: bool) {
    let ids = |breaks: &[RuleId]| breaks.iter().map(|it| it.name()).collect::<Vec<_>>();
    if machine {
        let line = |(name, about, breaks): (&str, &str, &[RuleId])| json!({ "name": name, "about": about, "breaks": ids(breaks) });
        json::print(&lines.map(line).collect::<Value>());
        return;
    }
    for (name, about, breaks) in lines {
        let breaks = match breaks {
            [] => String::new(),
            some => format!(" [breaks {}]", ids(some).join(", ")),
        };
        println!("{name:<24} {about}{breaks}");
    }
}

fn rules(machine: bool) {
    let live = |id: &str| RuleId::find(id).is_some();
    if machine {
        let rule = |it: &verify::Entry| {
            json!({
                "id": it.id,
                "live": live(&it.id),
                "basis": it.basis,
                "severity": it.severity().name(),
                "source": it.source,
            })
        };
        json::print(&verify::catalogue().iter().map(rule).collect::<Value>());
        return;
    }
    for it in verify::catalogue() {
        let state = if live(&it.id) { "live" } else { "not live" };
        println!(
            "{:<20} {state:<9} {:<8} {:<11} {}",
            it.id,
            it.severity().name(),
            it.basis,
            it.function
        );
    }
    println!("\n{} of {} rules are live.", RuleId::LIVE.len(), verify::catalogue().len());
}
