//! `windtunnel explain`.

use super::{Unknown, json, unknown};
use flight::RuleId;
use serde_json::json;
use std::process::ExitCode;
use windtunnel::SCENARIOS;

pub(crate) fn run(id: &str, machine: bool) -> Result<ExitCode, Unknown> {
    let wanted = id.to_uppercase();
    let known = || verify::catalogue().iter().map(|it| it.id.as_str());
    let entry = verify::find(&wanted).ok_or_else(|| unknown("rule", &wanted, known()))?;
    let live = RuleId::find(&entry.id);
    let shown = live.map(shown_by).unwrap_or_default();
    if machine {
        json::print(&json!({
            "id": entry.id,
            "live": live.is_some(),
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
            "shown_by": shown,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}: {}\n", entry.id, entry.rule);
    let line = |name: &str, value: &str| println!("  {name:<10} {value}");
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
    let needs = entry.needs.as_ref().map(|it| format!("no: it needs {it}"));
    let not_live = needs.unwrap_or_else(|| "no: nothing judges it yet".into());
    line("live", if live.is_some() { "yes" } else { &not_live });
    for example in shown {
        line("see it", &example);
    }
    Ok(ExitCode::SUCCESS)
}

/// Commands that show a rule broken.
fn shown_by(rule: RuleId) -> Vec<String> {
    let drivers = drivers::ALL.iter().filter(|it| it.breaks.contains(&rule));
    let drivers = drivers.map(|it| format!("windtunnel check {}", it.name));
    let scenarios = SCENARIOS.iter().copied().flatten().filter(|it| it.breaks.contains(&rule));
    let scenarios = scenarios.map(|it| format!("windtunnel check --scenario {}", it.name));
    drivers.chain(scenarios).collect()
}
