//! The text of findings and of flights.

use crate::fly::FlightResult;
use crate::scenario_report::ReportedFinding;
use flight::{Callers, Event, EventKind};
use std::collections::BTreeMap;
use std::fmt::Write;
use verify::{Finding, Severity, StackFrame, name_statuses, plural, sentence};

/// Whether reports are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With the colour sequences of terminals.
    On,
    /// As plain text.
    Off,
}

impl Colour {
    /// The text in the colour of a severity.
    pub fn severity(self, severity: Severity, text: &str) -> String {
        match severity {
            Severity::Error => self.paint("1;31", text),
            Severity::Warning => self.paint("1;33", text),
            Severity::Note => self.paint("1;36", text),
        }
    }

    /// The text in the colour of success or failure.
    pub fn passed(self, passed: bool, text: &str) -> String {
        self.paint(if passed { "1;32" } else { "1;31" }, text)
    }

    /// The name of a line of a finding.
    fn label(self, text: &str) -> String {
        self.paint("2", &format!("{text:<8}"))
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Colour::On => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::Off => text.to_owned(),
        }
    }
}

impl ReportedFinding {
    /// A finding of a flight, with the events that led to it.
    pub(crate) fn new(
        finding: Finding,
        seed: Option<u64>,
        (events, callers): (&[Event], &BTreeMap<u64, Callers>),
    ) -> Self {
        let led = |event: &&Event| finding.events.contains(&event.seq);
        let mut trail: Vec<Event> = events.iter().filter(led).cloned().collect();
        for event in &mut trail {
            if let Some(callers) = callers.get(&event.seq) {
                event.kind.set_callers(callers.clone());
            }
        }
        Self { finding, seed, trail }
    }

    /// The text of the finding: one sentence, then the component and the place, the rule with its
    /// page, what Windows does, the events that led to it, and what to change. `times` follows the
    /// sentence; `more` has further lines, each with a name.
    pub fn text(&self, times: &str, more: &[(&str, String)], colour: Colour) -> String {
        let finding = &self.finding;
        let entry = verify::find(finding.rule.name());
        let line = |name: &str, value: &str| format!("    {} {value}", colour.label(name));
        let (source, origin) = match entry.map(|entry| (entry.link(), entry.origin())) {
            Some((Some(link), _)) => ("page", link),
            Some((None, Some(origin))) => ("source", origin),
            _ => ("source", finding.source.to_owned()),
        };
        let severity = colour.severity(finding.severity, finding.severity.name());
        let mut lines = vec![
            format!("  {severity}: {}{times}", sentence(&finding.message)),
            line("where", &format!("{}, in {}", finding.component.name(), finding.argument)),
        ];
        let mut add_stack = |name: &str, stack: &[StackFrame]| {
            let groups = stack.chunk_by(|one, next| one.to_string() == next.to_string());
            for (number, group) in groups.enumerate() {
                let name = if number == 0 { name } else { "" };
                let times = if let [_] = group { "" } else { &format!(", {} times", group.len()) };
                lines.push(line(name, &format!("{}{times}", group[0])));
            }
        };
        // One frame is the place that the sentence names.
        if finding.stack.len() > 1 {
            add_stack("stack", &finding.stack);
        }
        for thread in &finding.threads {
            add_stack(&format!("stack t{}", thread.thread), &thread.stack);
        }
        lines.extend([
            line("rule", &rule(finding)),
            line(source, &origin),
            line("Windows", &finding.windows),
            line("events", "").trim_end().to_owned(),
        ]);
        lines.extend(self.trail.iter().map(|event| format!("      {}", event_line(event))));
        if let (Some(fault), false) = (lines.last_mut(), self.trail.is_empty()) {
            fault.push_str("  <- here");
        }
        let help = entry.and_then(|entry| entry.help.as_deref()).map(|help| line("help", help));
        lines.extend(help);
        lines.extend(more.iter().map(|(name, value)| line(name, value)));
        lines.push(String::new());
        lines.join("\n")
    }

    /// How often the finding occurred, or nothing if once.
    pub fn times(&self) -> String {
        let count = self.finding.count;
        if count > 1 { format!(" ({count} times)") } else { String::new() }
    }
}

impl FlightResult {
    /// The report as text: findings as the command prints them, what the scenario needs and did
    /// not get, and live objects.
    pub fn report(&self) -> String {
        let events = plural(self.events.len(), "event");
        let mut text = format!("{}: {}, {events}\n", self.scenario, self.outcome.name());
        for need in &self.needs {
            let stopped = if self.events.is_empty() { "not flown" } else { "ended early" };
            let _ = writeln!(text, "{stopped}: needs {need}"); // Writing to a String cannot fail.
        }
        for finding in &self.findings {
            let found =
                ReportedFinding::new(finding.clone(), self.seed, (&self.events, &self.callers));
            let then = |finding: &Finding| ("then", finding.line());
            let more: Vec<_> = finding.consequences.iter().map(then).collect();
            let found = found.text(&found.times(), &more, Colour::Off);
            let _ = write!(text, "\n{found}"); // As above.
        }
        if self.live.count() > 0 {
            let _ = writeln!(text, "\nleft alive at the end:\n{}", self.live); // As above.
        }
        text
    }
}

/// An event as in a trace. Of a broken rule only the id: its sentence is in its own finding.
fn event_line(event: &Event) -> String {
    let line = event.to_string();
    let shown = match event.kind {
        EventKind::RuleBroken { .. } | EventKind::RuleRepeated { .. } => {
            line.split(" component=").next().unwrap_or(&line)
        }
        _ => &line,
    };
    name_statuses(shown)
}

/// The id, the basis and the text of the rule.
fn rule(finding: &Finding) -> String {
    let id = finding.rule.name();
    let says = verify::find(id).map_or("not in the catalogue", |entry| entry.rule.as_str());
    format!("{id} ({}): {says}", finding.basis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_it_is_on() {
        let painted = Colour::On.severity(Severity::Error, "error");
        assert_eq!(painted, "\x1b[1;31merror\x1b[0m");
        assert_eq!(Colour::Off.severity(Severity::Error, "error"), "error");
        assert_eq!(Colour::Off.passed(true, "PASS"), "PASS");
    }
}
