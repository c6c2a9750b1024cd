//! Reports as JSON.

use super::repeat::Repeat;
use super::text::{Ending, utc};
use kernel::LiveObjects;
use nt::image::DriverImage;
use serde_json::{Value, json};
use std::path::Path;
use verify::{Finding, Severity, StackFrame, ThreadStack};
use windtunnel::{
    AllowEntry, AllowList, AllowedFinding, CheckReport, DeepestStack, Driver, DriverFile,
    ReportedFinding, ScenarioReport, sentence,
};

/// The version of the JSON schema: `docs/report.schema.json` describes the report of a check.
const SCHEMA: u32 = 1;

/// Prints the report of a check.
pub(crate) fn report(
    check_report: &CheckReport,
    driver: Driver,
    allow: Option<(&Path, &AllowList)>,
    repeat: &Repeat,
    (looks, ending): (bool, Ending<'_>),
) {
    // Of a check that was stopped: what was found so far, else that it could not run to its end.
    let code = match check_report.exit_code_of_findings(ending.deny_warnings) {
        0 if check_report.stopped_by.is_some() => 2,
        _ if ending.unwritten.is_some() => 2,
        code => code,
    };
    let entries = check_report.entries();
    let called = entries.iter().filter(|pair| pair.1).count();
    let findings = check_report.count(Severity::Error) + check_report.count(Severity::Warning);
    let scenarios: Vec<Value> = check_report
        .scenarios
        .iter()
        .map(|scenario_report| scenario(scenario_report, repeat, looks))
        .collect();
    let mut report = json!({
        "schema": SCHEMA,
        "windtunnel": env!("CARGO_PKG_VERSION"),
        "driver": check_report.driver,
        "umd": check_report.umd,
        "host": check_report.host.name(),
        "seed": check_report.host.seed(),
        "scenarios": scenarios,
        "findings": findings,
        "distinct": distinct(check_report),
        "result": result(code),
        "repeat": repeat.check(),
        "flown": [check_report.completed_count(), check_report.scenarios.len()],
        "judged": {
            "entries": [called, entries.len()],
            "rules": [check_report.judged().len(), flight::RuleId::LIVE.len()],
        },
        "calls_without_context": flight::ExecutionContext::calls_without_context(),
    });
    if let Driver::File(driver_file) = driver {
        report["file"] = file(driver_file);
    }
    if check_report.require_flown > 0 {
        report["require_flown"] = check_report.require_flown.into();
    }
    if check_report.seeds > 1 {
        report["seeds"] = check_report.seeds.into();
    }
    if let Some((path, allow)) = allow {
        let idle = |allowed_entry: &AllowEntry| json!({ "rule": allowed_entry.rule, "where": allowed_entry.place, "reason": allowed_entry.reason, "line": allowed_entry.line });
        report["allow"] = json!({
            "file": path.display().to_string(),
            "allowed": check_report.allowed_count(),
            "did_not_occur": allow.unused(check_report).map(idle).collect::<Vec<_>>(),
        });
    }
    if check_report.flown_count() == 0 && check_report.incomplete_count() == 0 {
        report["error"] = "no scenario could be flown; each one lists what it needs".into();
    }
    if let Some(error) = &check_report.internal_error {
        let bug = if error.is_no_resources() { "" } else { "; this is a bug in windtunnel" };
        report["error"] = format!("could not run{bug}: {}", error.0).into();
    }
    if let Some(why) = ending.unwritten {
        report["error"] = why.into();
    }
    if let Some(signal) = check_report.stopped_by {
        report["stopped"] = signal.name().into();
    }
    print(&report);
}

/// The facts of a driver file.
fn file(file: &DriverFile) -> Value {
    let hash = file.hash().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let linked = match file.image() {
        DriverImage::Image(image) => image.link_time.map(utc),
        DriverImage::SharedObject(_) => None,
    };
    json!({
        "path": file.path().display().to_string(),
        "sha256": hash,
        "linked": linked,
        "symbols": file.symbols().ok().map(|symbols| symbols.path().display().to_string()),
        "imports": file.image().import_names().len(),
        "absent_imports": file.absent_imports(),
        "private_data": (!file.streams()).then(|| file.private_data().name()),
        "registered": file.registration(),
    })
}

/// The result of a check by its exit code.
fn result(code: u8) -> &'static str {
    match code {
        0 => "pass",
        1 => "fail",
        _ => "could-not-run",
    }
}

/// The findings of each severity, each once over all scenarios, as the text report counts them.
fn distinct(check_report: &CheckReport) -> Value {
    let groups = check_report.finding_groups();
    let count =
        |severity| groups.iter().filter(|group| group.first.finding.severity == severity).count();
    json!({
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "notes": count(Severity::Note),
    })
}

fn scenario(scenario_report: &ScenarioReport, repeat: &Repeat, looks: bool) -> Value {
    let finding = |found: &ReportedFinding| {
        finding(found, &repeat.flight(scenario_report.scenario, found.seed))
    };
    let allowed = |allowed_finding: &AllowedFinding| {
        let mut found = finding(&allowed_finding.found);
        found["reason"] = allowed_finding.reason.as_str().into();
        found
    };
    let mut scenario = json!({
        "name": scenario_report.scenario,
        "result": scenario_report.outcome().name(),
        "needs": scenario_report.needs,
        "ended_early": scenario_report.ended_early,
        "incomplete": scenario_report.incomplete,
        "findings": scenario_report.findings.iter().map(finding).collect::<Vec<_>>(),
        "allowed": scenario_report.allowed.iter().map(allowed).collect::<Vec<_>>(),
        "live": scenario_report.live.count(),
        "unguarded_blocks": scenario_report.unguarded,
        "lock_orders_left_out": scenario_report.lock_orders_left_out,
        "deepest_stack": scenario_report.stack.as_ref().map(deepest_stack),
        "not_judged": scenario_report.not_judged().collect::<Vec<_>>(),
    });
    if looks {
        let look =
            |(when, it): &(&str, LiveObjects)| json!({ "when": when, "live": live_objects(it) });
        scenario["looks"] = scenario_report.live_snapshots.iter().map(look).collect();
        scenario["left"] = live_objects(&scenario_report.live);
    }
    scenario
}

fn finding(found: &ReportedFinding, repeat: &str) -> Value {
    let it = &found.finding;
    let entry = verify::find(it.rule.name());
    json!({
        "rule": it.rule.name(),
        "severity": it.severity.name(),
        "basis": it.basis,
        "source": it.source,
        "who": it.component.name(),
        "where": it.argument,
        "message": sentence(&it.message),
        "windows": it.windows,
        "events": it.events,
        "count": it.count,
        "seed": found.seed,
        "rule_text": entry.map(|entry| &entry.rule),
        "help": entry.and_then(|entry| entry.help.as_ref()),
        "link": entry.and_then(verify::Entry::link),
        "repeat": repeat,
        "stack": it.stack.iter().map(frame).collect::<Vec<_>>(),
        "threads": it.threads.iter().map(thread).collect::<Vec<_>>(),
        "consequences": it.consequences.iter().map(consequence).collect::<Vec<_>>(),
    })
}

/// The deepest use of the kernel stack.
fn deepest_stack(stack: &DeepestStack) -> Value {
    json!({ "bytes": stack.bytes, "function": stack.function, "import": stack.import })
}

/// The call stack of another thread.
fn thread(thread: &ThreadStack) -> Value {
    json!({
        "thread": thread.thread,
        "stack": thread.stack.iter().map(frame).collect::<Vec<_>>(),
    })
}

/// A frame of the driver's call stack.
fn frame(frame: &StackFrame) -> Value {
    let (file, line) = frame.line.clone().unzip();
    json!({
        "module": frame.module,
        "offset": frame.offset,
        "function": frame.function,
        "file": file,
        "line": line,
    })
}

/// A finding against another component that came later in the same flight.
fn consequence(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule.name(),
        "who": finding.component.name(),
        "where": finding.argument,
        "message": sentence(&finding.message),
        "count": finding.count,
    })
}

/// The live objects, each under its owner.
fn live_objects(live: &LiveObjects) -> Value {
    let object = |live_object: &kernel::LiveObject| {
        json!({
            "object": live_object.subject.to_string(),
            "owner": live_object.owner.map(|subject| subject.to_string()),
            "why": live_object.reasons.iter().map(|why| sentence(why)).collect::<Vec<_>>(),
        })
    };
    live.objects.iter().map(object).collect()
}

/// The fields that every report has.
pub(crate) fn header() -> Value {
    json!({ "schema": SCHEMA, "windtunnel": env!("CARGO_PKG_VERSION") })
}

/// Prints why the command could not run.
pub(crate) fn error(why: &str) {
    let mut report = header();
    report["error"] = why.into();
    report["result"] = result(2).into();
    print(&report);
}

pub(crate) fn print(value: &Value) {
    println!("{value:#}");
}
