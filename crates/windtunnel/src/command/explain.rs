//! `windtunnel explain`.

use super::{CommandError, json};
use flight::RuleId;
use serde_json::{Value, json};
use std::process::ExitCode;
use verify::Entry;
use verify::bugcheck::{BugCheck, BugCheckCause};
use windtunnel::{
    Driver, EntryPoint, Explanation, SCENARIOS, Status, UnknownText, UserResult, bug_check_rules,
    explain,
};

pub(crate) fn run(text: &str, as_json: bool) -> Result<ExitCode, CommandError> {
    let explained = explain(text).map_err(|UnknownText { kind, nearest }| {
        let more = match kind {
            "rule" => ". See 'windtunnel list rules'",
            "entry point" => ". See 'windtunnel support'",
            _ => "",
        };
        let nearest = nearest.join(", ");
        CommandError(format!("there is no {kind} '{text}'; the nearest are: {nearest}{more}"))
    })?;
    match explained {
        Explanation::Rule(entry) if as_json => json::print(&rule_json(entry)),
        Explanation::Rule(entry) => rule(entry),
        Explanation::Alias(name, rules) if as_json => json::print(&alias_json(name, &rules)),
        Explanation::Alias(name, rules) => alias(name, &rules),
        Explanation::Status(it) if as_json => json::print(&status_json(&it)),
        Explanation::Status(it) => status(&it),
        Explanation::EntryPoint(it) if as_json => json::print(&point_json(&it)),
        Explanation::EntryPoint(it) => point(&it),
        Explanation::Result(it) if as_json => json::print(&result_json(&it)),
        Explanation::Result(it) => result(&it),
        Explanation::BugCheck(it, parameter) if as_json => json::print(&stop_json(it, parameter)),
        Explanation::BugCheck(it, parameter) => stop(it, parameter),
    }
    Ok(ExitCode::SUCCESS)
}

fn line(name: &str, value: &str) {
    println!("  {name:<18} {value}");
}

/// Prints a line, unless `values` is empty.
fn list(name: &str, values: &[&str]) {
    if !values.is_empty() {
        line(name, &values.join(", "));
    }
}

fn live(entry: &Entry) -> bool {
    RuleId::find(&entry.id).is_some()
}

fn rule(entry: &Entry) {
    println!("{}: {}\n", entry.id, entry.rule);
    line(
        "binds",
        &format!("the {}, in {} (since {})", entry.obligation, entry.function, entry.since),
    );
    line("checked", &entry.check);
    line("Windows", &entry.windows());
    line("severity", entry.severity().name());
    line("basis", &format!("{}: {}", entry.basis, entry.source));
    for (name, value) in
        [("observed", &entry.observed), ("profile", &entry.profile), ("seen by", &entry.confidence)]
    {
        if let Some(value) = value {
            line(name, value);
        }
    }
    let needs = entry.needs.as_ref().map(|text| format!("no: needs {text}"));
    let not_live = needs.unwrap_or_else(|| "no: not implemented yet".into());
    line("live", if live(entry) { "yes" } else { &not_live });
    list("also", &verify::aliases(&entry.id));
    for example in shown_by(entry) {
        line("see it", &example);
    }
}

fn rule_json(entry: &Entry) -> Value {
    json!({
        "id": entry.id,
        "live": live(entry),
        "needs": entry.needs,
        "basis": entry.basis,
        "severity": entry.severity().name(),
        "source": entry.source,
        "rule": entry.rule,
        "check": entry.check,
        "obligation": entry.obligation,
        "function": entry.function,
        "since": entry.since,
        "windows": entry.windows(),
        "observed": entry.observed,
        "profile": entry.profile,
        "confidence": entry.confidence,
        "shown_by": shown_by(entry),
        "aliases": verify::aliases(&entry.id),
    })
}

/// A rule name of Driver Verifier, with the rules of this catalogue that match it.
fn alias(name: &str, rules: &[&Entry]) {
    println!("{name}: a rule of Driver Verifier for streaming minidrivers\n");
    line("rules", &format!("{} correspond to it", rules.len()));
    for entry in rules {
        rule_line(entry, &entry.rule);
    }
}

fn alias_json(name: &str, rules: &[&Entry]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|entry| rule_json(entry)).collect();
    json!({ "kind": "alias", "name": name, "rules": rules })
}

/// Commands that show a rule broken.
fn shown_by(entry: &Entry) -> Vec<String> {
    let Some(rule) = RuleId::find(&entry.id) else { return Vec::new() };
    let drivers = Driver::all().filter(|driver| driver.breaks().contains(&rule));
    let drivers = drivers.map(|driver| format!("windtunnel check {}", driver.name()));
    let scenarios =
        SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.contains(&rule));
    let scenarios = scenarios.map(|scenario| {
        let driver = if scenario.streams() { "capture " } else { "" };
        format!("windtunnel check {driver}--scenario {}", scenario.name)
    });
    drivers.chain(scenarios).collect()
}

fn status(it: &Status) {
    println!("{} (0x{:08X}): {}\n", it.name, it.code, it.severity());
    list("returned", &it.returned_by());
    let forwarded: Vec<String> =
        it.forwarded_by().iter().map(|(entry, ddi)| format!("{entry} from {ddi}")).collect();
    if !forwarded.is_empty() {
        line("forwarded", &forwarded.join(", "));
    }
    list("legal for", &it.legal_for());
    if !it.open_for().is_empty() {
        line("not judged", &format!("any failure is legal for {}", it.open_for().join(", ")));
    }
    breaches(it.rules());
}

/// Rules that name a code, the live ones first.
fn breaches(mut rules: Vec<&Entry>) {
    rules.sort_by_key(|entry| !live(entry));
    if rules.is_empty() {
        line("rules", "none name it");
        return;
    }
    line("rules", &format!("{} name it as what Windows returns when they are broken", rules.len()));
    for entry in rules {
        rule_line(entry, &entry.windows());
    }
}

fn result(it: &UserResult) {
    let kind = if it.succeeds() { "success" } else { "failure" };
    println!("{} (0x{:08X}): a user-mode {kind}\n", it.name, it.code);
    list("made from", &it.source_statuses());
    breaches(it.rules());
}

fn result_json(it: &UserResult) -> Value {
    json!({
        "kind": "result",
        "name": it.name,
        "value": format!("0x{:08X}", it.code),
        "success": it.succeeds(),
        "source_statuses": it.source_statuses(),
        "rules": it.rules().iter().map(|entry| code_rule(entry)).collect::<Vec<_>>(),
    })
}

fn point(it: &EntryPoint) {
    println!("{}: {}\n", it.row.name, it.table);
    let why = it.row.state.missing();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    line("state", &format!("{}{why}", it.row.state.name()));
    let cells = it.columns.iter().zip(&it.row.cells).filter(|pair| *pair.0 != "rules");
    for (column, cell) in cells {
        list(&column.replace('_', " "), &cell.values());
    }
    let mut rules = it.rules();
    rules.sort_by_key(|entry| !live(entry));
    if !rules.is_empty() {
        line("rules", &format!("{} apply to it", rules.len()));
    }
    for entry in rules {
        rule_line(entry, &entry.rule);
    }
}

fn point_json(it: &EntryPoint) -> Value {
    let rule = |entry: &&Entry| json!({ "id": entry.id, "live": live(entry), "function": entry.function, "rule": entry.rule });
    let mut message = json!({
        "kind": "entry point",
        "name": it.row.name,
        "table": it.table,
        "state": it.row.state.name(),
        "missing": it.row.state.missing(),
        "rules": it.rules().iter().map(rule).collect::<Vec<_>>(),
    });
    for (column, cell) in it.columns.iter().zip(&it.row.cells).filter(|pair| *pair.0 != "rules") {
        message[*column] = cell.values().into();
    }
    message
}

fn rule_line(entry: &Entry, more: &str) {
    let state = if live(entry) { "live" } else { "not live" };
    println!("    {:<18} {state:<9} {}: {more}", entry.id, entry.function);
}

fn status_json(it: &Status) -> Value {
    let forwarded = |(entry, ddi): &(&str, &str)| json!({ "entry": entry, "ddi": ddi });
    json!({
        "kind": "status",
        "name": it.name,
        "value": format!("0x{:08X}", it.code),
        "success": it.succeeds(),
        "severity": it.severity(),
        "returned_by": it.returned_by(),
        "forwarded_by": it.forwarded_by().iter().map(forwarded).collect::<Vec<_>>(),
        "legal_for": it.legal_for(),
        "open_for": it.open_for(),
        "rules": it.rules().iter().map(|entry| code_rule(entry)).collect::<Vec<_>>(),
    })
}

/// A rule that names a code.
fn code_rule(entry: &Entry) -> Value {
    json!({
        "id": entry.id,
        "live": live(entry),
        "function": entry.function,
        "windows": entry.windows(),
    })
}

fn stop(it: &BugCheck, parameter: Option<u32>) {
    let number = parameter.map_or(String::new(), |number| format!(" ({number:#X})"));
    println!("bug check 0x{:X}{number}, {}: {}\n", it.code, it.name, it.about);
    let (ways, known) = bug_check_rules(it, parameter);
    let known: Vec<String> = known.iter().map(|number| format!("0x{number:X}")).collect();
    match (ways.is_empty(), known.is_empty()) {
        (true, true) => line("rules", "none known to lead there"),
        (true, false) => {
            let known = known.join(", ");
            line("rules", &format!("none known to lead there; known parameters are {known}"));
        }
        (false, _) => line("rules", &format!("{} lead there when broken", ways.len())),
    }
    for way in ways {
        let parameter = way.parameter.map(|number| format!("parameter {number:#X}, "));
        let message = way.condition.as_deref().unwrap_or(&way.rule.rule);
        rule_line(way.rule, &format!("{}{message}", parameter.unwrap_or_default()));
    }
}

fn stop_json(it: &BugCheck, parameter: Option<u32>) -> Value {
    let (ways, known) = bug_check_rules(it, parameter);
    let rule = |way: &BugCheckCause| {
        json!({
            "id": way.rule.id,
            "live": live(way.rule),
            "function": way.rule.function,
            "parameter": way.parameter.map(|number| format!("0x{number:X}")),
            "when": way.condition,
            "rule": way.rule.rule,
        })
    };
    json!({
        "kind": "bug check",
        "name": it.name,
        "value": format!("0x{:X}", it.code),
        "parameter": parameter.map(|number| format!("0x{number:X}")),
        "about": it.about,
        "known_parameters": known.iter().map(|number| format!("0x{number:X}")).collect::<Vec<_>>(),
        "rules": ways.iter().map(rule).collect::<Vec<_>>(),
    })
}
