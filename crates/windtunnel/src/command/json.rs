//! Reports for machines.

use kernel::LiveObjects;
use serde_json::{Value, json};
use std::path::Path;
use verify::Severity;
use windtunnel::{AllowList, AllowEntry, AllowedFinding, CheckReport, ReportedFinding, ScenarioReport};

/// The version of the shape below.
const SCHEMA: u32 = 1;

pub(crate) fn report(checked: &CheckReport, allow: Option<(&Path, &AllowList)>, looks: bool) {
    let entries = checked.entries();
    let called = entries.iter().filter(|it| it.1).count();
    let findings = checked.count(Severity::Error) + checked.count(Severity::Warning);
    let scenarios: Vec<Value> = checked.scenarios.iter().map(|it| scenario(it, looks)).collect();
    let mut report = json!({
        "schema": SCHEMA,
        "windtunnel": env!("CARGO_PKG_VERSION"),
        "driver": checked.driver,
        "umd": checked.umd,
        "host": checked.host.name(),
        "seed": checked.host.seed(),
        "scenarios": scenarios,
        "findings": findings,
        "judged": {
            "entries": [called, entries.len()],
            "rules": [checked.judged().len(), flight::RuleId::LIVE.len()],
        },
    });
    if checked.seeds > 1 {
        report["seeds"] = checked.seeds.into();
    }
    if let Some((path, allow)) = allow {
        let idle = |it: &AllowEntry| json!({ "rule": it.rule, "where": it.place, "reason": it.reason, "line": it.line });
        report["allow"] = json!({
            "file": path.display().to_string(),
            "allowed": checked.allowed_count(),
            "did_not_occur": allow.unused(checked).map(idle).collect::<Vec<_>>(),
        });
    }
    if checked.flown_count() == 0 {
        report["error"] = "nothing could be flown; each scenario says what it needs".into();
    }
    print(&report);
}

fn scenario(landed: &ScenarioReport, looks: bool) -> Value {
    let allowed = |it: &AllowedFinding| {
        let mut found = finding(&it.found);
        found["reason"] = it.reason.as_str().into();
        found
    };
    let mut scenario = json!({
        "name": landed.scenario,
        "result": landed.outcome().name(),
        "needs": landed.needs,
        "findings": landed.findings.iter().map(finding).collect::<Vec<_>>(),
        "allowed": landed.allowed.iter().map(allowed).collect::<Vec<_>>(),
        "live": landed.live.count(),
    });
    if looks {
        let look = |(when, it): &(&str, LiveObjects)| json!({ "when": when, "live": live_objects(it) });
        scenario["looks"] = landed.live_snapshots.iter().map(look).collect();
        scenario["left"] = live_objects(&landed.live);
    }
    scenario
}

fn finding(found: &ReportedFinding) -> Value {
    let it = &found.finding;
    json!({
        "rule": it.rule.name(),
        "severity": it.severity.name(),
        "basis": it.basis,
        "source": it.source,
        "who": it.component.name(),
        "where": it.argument,
        "message": it.message,
        "windows": it.windows,
        "events": it.events,
        "count": it.count,
        "seed": found.seed,
    })
}

/// The live objects, each under its owner.
fn live_objects(census: &LiveObjects) -> Value {
    let live = |it: &kernel::LiveObject| {
        json!({
            "object": it.subject.to_string(),
            "owner": it.owner.map(|it| it.to_string()),
            "why": it.reasons,
        })
    };
    census.objects.iter().map(live).collect()
}

/// What every report has.
pub(crate) fn header() -> Value {
    json!({ "schema": SCHEMA, "windtunnel": env!("CARGO_PKG_VERSION") })
}

/// It could not run.
pub(crate) fn error(why: &str) {
    let mut report = header();
    report["error"] = why.into();
    print(&report);
}

pub(crate) fn print(value: &Value) {
    println!("{value:#}");
}
