//! Reports for machines.

use kernel::Census;
use serde_json::{Value, json};
use verify::Severity;
use windtunnel::{Checked, Flown};

/// The version of the shape below.
const SCHEMA: u32 = 1;

pub(crate) fn report(checked: &Checked, looks: bool) {
    let entries = checked.entries();
    let called = entries.iter().filter(|it| it.1).count();
    let findings = checked.count(Severity::Error) + checked.count(Severity::Warning);
    let scenarios: Vec<Value> = checked.flights.iter().map(|it| scenario(it, looks)).collect();
    let mut report = json!({
        "schema": SCHEMA,
        "windtunnel": env!("CARGO_PKG_VERSION"),
        "driver": checked.driver,
        "host": checked.on.name(),
        "seed": checked.on.seed(),
        "scenarios": scenarios,
        "findings": findings,
        "judged": {
            "entries": [called, entries.len()],
            "rules": [checked.judged().len(), flight::RuleId::LIVE.len()],
        },
    });
    if checked.flown() == 0 {
        report["error"] = "nothing could be flown; each scenario says what it needs".into();
    }
    print(&report);
}

fn scenario(flown: &Flown, looks: bool) -> Value {
    let finding = |it: &verify::Finding| {
        json!({
            "rule": it.rule.name(),
            "severity": it.severity.name(),
            "basis": it.basis,
            "source": it.source,
            "who": it.who.name(),
            "where": it.place,
            "message": it.message,
            "windows": it.windows,
            "events": it.events,
            "count": it.count,
        })
    };
    let findings: Vec<Value> = flown.findings.iter().map(finding).collect();
    let mut scenario = json!({
        "name": flown.scenario,
        "result": flown.outcome.name(),
        "needs": flown.needs,
        "findings": findings,
        "live": flown.live.count(),
    });
    if looks {
        let look = |(when, it): &(&str, Census)| json!({ "when": when, "live": census(it) });
        scenario["looks"] = flown.looks.iter().map(look).collect();
        scenario["left"] = census(&flown.live);
    }
    scenario
}

/// The live objects, each under its owner.
fn census(census: &Census) -> Value {
    let live = |it: &kernel::Live| {
        json!({
            "object": it.subject.to_string(),
            "owner": it.owner.map(|it| it.to_string()),
            "why": it.why,
        })
    };
    census.live.iter().map(live).collect()
}

/// It could not run.
pub(crate) fn error(why: &str) {
    print(&json!({ "schema": SCHEMA, "windtunnel": env!("CARGO_PKG_VERSION"), "error": why }));
}

pub(crate) fn print(value: &Value) {
    println!("{value:#}");
}
