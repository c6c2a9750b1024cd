//! `windtunnel explain`.

use super::{CommandError, json};
use flight::RuleId;
use serde_json::{Value, json};
use std::process::ExitCode;
use verify::Entry;
use verify::bugcheck::{BugCheck, BugCheckCause};
use windtunnel::{
    Decision, Driver, EntryPoint, ExampleFlight, Explanation, Failure, SCENARIOS, Scenario, Status,
    UnknownText, UserResult, bug_check_rules, citing_rules, code_43_rules, example, explain,
    plural,
};

/// How many lines a list of names and a list of rules may have, and how long a rule's line is.
struct Limits {
    names: usize,
    rules: usize,
    width: usize,
}

/// A screenful, for answers that can be long.
const SCREENFUL: Limits = Limits { names: 4, rules: 10, width: 120 };
/// Everything (`--all`).
const ALL: Limits = Limits { names: usize::MAX, rules: usize::MAX, width: usize::MAX };

pub(crate) fn run(text: &str, all: bool, as_json: bool) -> Result<ExitCode, CommandError> {
    let explained = explain(text).map_err(|UnknownText { kind, nearest }| {
        let more = match kind {
            "rule" => ". See 'windtunnel list rules'",
            "entry point" => ". See 'windtunnel support'",
            _ => "",
        };
        let nearest = nearest.join(", ");
        CommandError(format!("there is no {kind} '{text}'; the nearest are: {nearest}{more}"))
    })?;
    if as_json {
        json::print(&as_value(&explained));
    } else {
        print(explained, if all { &ALL } else { &SCREENFUL });
    }
    Ok(ExitCode::SUCCESS)
}

fn as_value(explained: &Explanation) -> Value {
    match explained {
        Explanation::Rule(entry) => rule_json(entry),
        Explanation::Alias(name, rules) => alias_json(name, rules),
        Explanation::Status(it) => status_json(it),
        Explanation::EntryPoint(it) => point_json(it),
        Explanation::Result(it) => result_json(it),
        Explanation::BugCheck(it, parameter) => stop_json(it, *parameter),
        Explanation::Family(name, rules) => {
            json!({ "kind": "family", "name": name, "rules": rules_json(rules) })
        }
        Explanation::Driver(it) => driver_json(*it),
        Explanation::Scenario(it) => scenario_json(it),
        Explanation::Decision(it) => json!({
            "kind": "decision",
            "name": it.id,
            "title": it.title,
            "text": it.text,
            "rules": rules_json(&citing_rules(&it.id)),
        }),
        Explanation::Failure(it) => json!({
            "kind": "failure",
            "name": it.id,
            "project": it.project,
            "basis": it.basis,
            "happened": it.happened,
            "contract": it.contract,
            "check": it.check,
            "rules": rules_json(&citing_rules(&it.id)),
        }),
        Explanation::Code43 => {
            let rules = rules_json(&code_43_rules());
            json!({ "kind": "device problem", "name": "code 43", "about": CODE_43, "rules": rules })
        }
    }
}

fn print(explained: Explanation, limits: &Limits) {
    match explained {
        Explanation::Rule(entry) => rule(entry),
        Explanation::Alias(name, rules) => alias(name, rules, limits),
        Explanation::Status(it) => status(&it, limits),
        Explanation::EntryPoint(it) => point(&it, limits),
        Explanation::Result(it) => result(&it, limits),
        Explanation::BugCheck(it, parameter) => stop(it, parameter, limits),
        Explanation::Family(name, rules) => family(&name, rules, limits),
        Explanation::Driver(it) => driver(it),
        Explanation::Scenario(it) => scenario(it),
        Explanation::Decision(it) => decision(it, limits),
        Explanation::Failure(it) => failure(it, limits),
        Explanation::Code43 => code_43(limits),
    }
}

fn line(name: &str, value: &str) {
    println!("  {name:<18} {value}");
}

/// How wide the values of a list are.
const LIST_WIDTH: usize = 78;

/// Prints names on lines of limited width, unless there are none.
fn list(name: &str, values: &[&str], limits: &Limits) {
    let mut lines: Vec<String> = Vec::new();
    let mut shown = 0;
    for value in values {
        let full = lines.len() == limits.names;
        match lines.last_mut() {
            Some(last) if last.len() + value.len() + 2 <= LIST_WIDTH => {
                last.push_str(", ");
                last.push_str(value);
            }
            _ if full => break,
            _ => lines.push((*value).to_owned()),
        }
        shown += 1;
    }
    let left = values.len() - shown;
    let count = lines.len();
    for (number, mut text) in lines.into_iter().enumerate() {
        match (number + 1 == count, left) {
            (true, 0) => (),
            (true, _) => text = format!("{text} and {left} more (--all)"),
            (false, _) => text.push(','),
        }
        line(if number == 0 { name } else { "" }, &text);
    }
}

/// Prints rules, the live ones first, each with a text.
fn rule_lines<'a>(rules: impl IntoIterator<Item = (&'a Entry, String)>, limits: &Limits) {
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(entry, _)| !live(entry));
    let left = rules.len().saturating_sub(limits.rules);
    for (entry, text) in rules.iter().take(limits.rules) {
        let state = if live(entry) { "live" } else { "not live" };
        let whole = format!("    {:<18} {state:<9} {}: {text}", entry.id, entry.function);
        match whole.char_indices().nth(limits.width) {
            Some((end, _)) => println!("{}…", &whole[..end]),
            None => println!("{whole}"),
        }
    }
    if left > 0 {
        println!("    … and {left} more: --all lists them");
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
    let (page, origin) = (entry.link(), entry.origin());
    for (name, value) in [
        ("page", &page),
        ("from", &origin),
        ("observed", &entry.observed),
        ("profile", &entry.profile),
        ("seen by", &entry.confidence),
        ("help", &entry.help),
    ] {
        if let Some(value) = value {
            line(name, value);
        }
    }
    let needs = entry.needs.as_ref().map(|text| format!("no: needs {text}"));
    let not_live = needs.unwrap_or_else(|| "no: not implemented yet".into());
    line("live", if live(entry) { "yes" } else { &not_live });
    list("also", &verify::aliases(&entry.id), &ALL);
    let examples = RuleId::find(&entry.id).and_then(example);
    if let Some(examples) = examples {
        println!();
        for (name, shown) in [("broken", &examples.broken), ("kept", &examples.kept)] {
            line(name, &shown.about());
            line("", &shown.command());
        }
    }
    let first = examples.and_then(|examples| examples.broken.driver());
    for other in breaking_commands(entry, first) {
        line("see also", &other);
    }
}

fn flight_json(shown: &ExampleFlight) -> Value {
    let changed = matches!(shown, ExampleFlight::ChangedTrace { .. });
    json!({ "about": shown.about(), "command": shown.command(), "changed_trace": changed })
}

fn rules_json(rules: &[&Entry]) -> Value {
    rules.iter().map(|entry| rule_json(entry)).collect()
}

fn rule_json(entry: &Entry) -> Value {
    let examples = RuleId::find(&entry.id).and_then(example);
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
        "help": entry.help,
        "link": entry.link(),
        "broken": examples.map(|examples| flight_json(&examples.broken)),
        "kept": examples.map(|examples| flight_json(&examples.kept)),
        "shown_by": breaking_commands(entry, None),
        "aliases": verify::aliases(&entry.id),
    })
}

/// A rule name of Driver Verifier, with the rules of this catalogue that match it.
fn alias(name: &str, rules: Vec<&'static Entry>, limits: &Limits) {
    println!("{name}: a rule of Driver Verifier for streaming minidrivers\n");
    line("rules", &format!("{} correspond to it", rules.len()));
    rule_lines(texts(rules), limits);
}

/// Rules with their texts.
fn texts(rules: Vec<&Entry>) -> impl Iterator<Item = (&Entry, String)> {
    rules.into_iter().map(|entry| (entry, entry.rule.clone()))
}

fn alias_json(name: &str, rules: &[&Entry]) -> Value {
    json!({ "kind": "alias", "name": name, "rules": rules_json(rules) })
}

/// Commands that show a rule broken, without those of one driver.
fn breaking_commands(entry: &Entry, without: Option<&str>) -> Vec<String> {
    let Some(rule) = RuleId::find(&entry.id) else { return Vec::new() };
    let drivers = Driver::all().filter(|driver| driver.breaks().contains(&rule));
    let drivers = drivers.map(Driver::name).filter(|name| Some(*name) != without);
    let drivers = drivers.map(|name| format!("windtunnel check {name}"));
    let scenarios =
        SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.contains(&rule));
    let scenarios = scenarios.map(|scenario| {
        let driver = if scenario.streams() { "capture " } else { "" };
        format!("windtunnel check {driver}--scenario {}", scenario.name)
    });
    // The scenario of a client that breaks the rule is the example itself.
    let scenarios = scenarios.filter(|_| without.is_none());
    drivers.chain(scenarios).collect()
}

/// Rules whose ids begin alike.
fn family(name: &str, rules: Vec<&'static Entry>, limits: &Limits) {
    let on = rules.iter().filter(|entry| live(entry)).count();
    println!("{name}: a family of {}, {on} of them live\n", plural(rules.len(), "rule"));
    rule_lines(texts(rules), &Limits { rules: limits.rules.saturating_mul(3), ..*limits });
    println!("\n  'windtunnel explain ID' shows one of them");
}

fn driver(it: Driver) {
    let kind = if it.streams() { "streaming minidriver" } else { "display driver" };
    println!("{}: a built-in {kind}: {}\n", it.name(), it.about());
    match it.breaks() {
        [] => line("breaks", "no rule: it flies clean"),
        some => {
            for rule in some {
                let text = verify::find(rule.name()).map_or("", |entry| entry.rule.as_str());
                line("breaks", &format!("{}: {text}", rule.name()));
            }
        }
    }
    line("fly it", &driver_command(it));
}

/// The command that flies a driver: a bad one in the scenario that shows its rule.
fn driver_command(it: Driver) -> String {
    let shown = it.breaks().iter().filter_map(|rule| example(*rule)).map(|both| &both.broken);
    let mut own = shown.filter(|shown| shown.driver() == Some(it.name()));
    own.next().map_or_else(|| format!("windtunnel check {}", it.name()), ExampleFlight::command)
}

fn driver_json(it: Driver) -> Value {
    json!({
        "kind": "driver",
        "name": it.name(),
        "about": it.about(),
        "streams": it.streams(),
        "breaks": it.breaks().iter().map(|rule| rule.name()).collect::<Vec<_>>(),
        "command": driver_command(it),
    })
}

fn scenario(it: &Scenario) {
    println!("{}: a scenario: {}\n", it.name, it.about);
    for rule in it.breaks {
        let text = verify::find(rule.name()).map_or("", |entry| entry.rule.as_str());
        line("its client breaks", &format!("{}: {text}", rule.name()));
    }
    let needs = it.needs.names();
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    list("needs", &needs, &ALL);
    line("fly it", &scenario_command(it));
}

/// The command that flies a scenario: on the driver of a rule's example, or on a built-in one.
fn scenario_command(it: &Scenario) -> String {
    let shown = it.breaks.iter().filter_map(|rule| example(*rule)).map(|both| &both.broken);
    let mut own = shown.filter(
        |shown| matches!(shown, ExampleFlight::Flight { scenario, .. } if scenario == it.name),
    );
    let driver = if it.streams() { "capture " } else { "" };
    own.next().map_or_else(
        || format!("windtunnel check {driver}--scenario {}", it.name),
        ExampleFlight::command,
    )
}

fn scenario_json(it: &Scenario) -> Value {
    json!({
        "kind": "scenario",
        "name": it.name,
        "about": it.about,
        "breaks": it.breaks.iter().map(|rule| rule.name()).collect::<Vec<_>>(),
        "needs": it.needs.names(),
        "command": scenario_command(it),
    })
}

fn decision(it: &Decision, limits: &Limits) {
    println!("{}: a decision: {}\n", it.id, it.title);
    for text in it.text.lines().flat_map(wrapped) {
        println!("  {text}");
    }
    println!();
    cited(&it.id, limits);
    line("all decisions", "docs/facts/decisions.md");
}

/// A paragraph as lines of at most a hundred characters.
fn wrapped(paragraph: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.len() + word.len() < 98 => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn failure(it: &Failure, limits: &Limits) {
    println!("{}: a failure of a public project, {} ({})\n", it.id, it.project, it.basis);
    line("happened", &it.happened);
    line("Windows requires", &it.contract);
    line("found by", &it.check);
    cited(&it.id, limits);
    line("all failures", "docs/facts/failures.toml");
}

/// The rules that cite a decision or a failure.
fn cited(id: &str, limits: &Limits) {
    let rules = citing_rules(id);
    if rules.is_empty() {
        line("rules", "none cite it");
        return;
    }
    line("rules", &format!("{} it", plural_cites(rules.len())));
    rule_lines(texts(rules), limits);
}

fn lead_there(count: usize) -> String {
    if count == 1 {
        "1 leads there when broken".to_owned()
    } else {
        format!("{count} lead there when broken")
    }
}

fn plural_cites(count: usize) -> String {
    format!("{} {}", plural(count, "rule"), if count == 1 { "cites" } else { "cite" })
}

/// What code 43 means.
const CODE_43: &str = "the Device Manager's message that Windows has stopped a device because it \
                       reported problems; for a display driver: the graphics kernel did not \
                       accept what the driver returned while it started";

fn code_43(limits: &Limits) {
    println!("code 43: {CODE_43}\n");
    line("to find it", "fly the driver: a rule below that it breaks is a finding");
    let rules = code_43_rules();
    line("rules", &lead_there(rules.len()));
    rule_lines(rules.into_iter().map(|entry| (entry, entry.windows())), limits);
}

fn status(it: &Status, limits: &Limits) {
    println!("{} (0x{:08X}): {}\n", it.name, it.code, it.severity());
    list("returned", &it.returned_by(), limits);
    let forwarded: Vec<String> =
        it.forwarded_by().iter().map(|(entry, ddi)| format!("{entry} from {ddi}")).collect();
    let forwarded: Vec<&str> = forwarded.iter().map(String::as_str).collect();
    list("forwarded", &forwarded, limits);
    list("legal for", &it.legal_for(), limits);
    list("not judged for", &it.open_for(), limits);
    breaches(it.rules(), limits);
}

/// Rules that name a code, the live ones first.
fn breaches(rules: Vec<&'static Entry>, limits: &Limits) {
    if rules.is_empty() {
        line("rules", "none name it");
        return;
    }
    line("rules", &format!("{} name it as what Windows returns when they are broken", rules.len()));
    rule_lines(texts(rules), limits);
}

fn result(it: &UserResult, limits: &Limits) {
    let kind = if it.succeeds() { "success" } else { "failure" };
    println!("{} (0x{:08X}): a user-mode {kind}\n", it.name, it.code);
    list("made from", &it.source_statuses(), limits);
    breaches(it.rules(), limits);
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

fn point(it: &EntryPoint, limits: &Limits) {
    println!("{}: {}\n", it.row.name, it.table);
    let why = it.row.state.missing();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    line("state", &format!("{}{why}", it.row.state.name()));
    let cells = it.columns.iter().zip(&it.row.cells).filter(|pair| *pair.0 != "rules");
    for (column, cell) in cells {
        list(&column.replace('_', " "), &cell.values(), limits);
    }
    let rules = it.rules();
    if !rules.is_empty() {
        line("rules", &format!("{} apply to it", rules.len()));
    }
    rule_lines(texts(rules), limits);
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

fn stop(it: &BugCheck, parameter: Option<u32>, limits: &Limits) {
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
        (false, _) => line("rules", &lead_there(ways.len())),
    }
    let ways = ways.into_iter().map(|way| {
        let parameter = way.parameter.map(|number| format!("parameter {number:#X}, "));
        let message = way.condition.as_deref().unwrap_or(&way.rule.rule);
        (way.rule, format!("{}{message}", parameter.unwrap_or_default()))
    });
    rule_lines(ways, limits);
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
