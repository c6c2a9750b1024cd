//! Reports for people: the text of what was found.

use crate::fly::FlightResult;
use crate::scenario_report::ReportedFinding;
use flight::Event;
use std::fmt::Write;
use verify::Finding;

impl ReportedFinding {
    /// A finding of a flight, with those of its events that led there.
    pub(crate) fn new(finding: Finding, seed: Option<u64>, events: &[Event]) -> Self {
        let led = |event: &&Event| finding.events.contains(&event.seq);
        let trail = events.iter().filter(led).cloned().collect();
        Self { finding, seed, trail }
    }

    /// Its lines in a report; with `seeds`, the first that shows it is one of them.
    pub fn text(&self, seeds: bool) -> String {
        let finding = &self.finding;
        let rule = finding.rule.name();
        let says = verify::find(rule).map_or("not in the catalogue", |entry| entry.rule.as_str());
        let mut lines = vec![
            format!("  {}: {}{}", finding.severity.name(), finding.message, self.times()),
            format!("    who      {}, in {}", finding.component.name(), finding.argument),
            format!("    rule     {rule}: {says}"),
            format!("    basis    {}", basis(finding)),
            format!("    Windows  {}", finding.windows),
        ];
        if seeds {
            let seed = self.seed.map_or_else(|| "none".to_owned(), |value| value.to_string());
            lines.push(format!("    seed     {seed} is the first that shows it"));
        }
        lines.push("    events".to_owned());
        lines.extend(self.trail.iter().map(|event| format!("      {event}")));
        lines.push(String::new());
        lines.join("\n")
    }

    /// How often it happened, if that is worth a word.
    pub fn times(&self) -> String {
        let count = self.finding.count;
        if count > 1 { format!(" ({count} times)") } else { String::new() }
    }
}

impl FlightResult {
    /// What came of it, for people: findings as the command prints them, what the story needed
    /// and did not get, and who is still alive.
    pub fn report(&self) -> String {
        let mut text =
            format!("{}: {}, {} events\n", self.scenario, self.outcome.name(), self.events.len());
        for need in &self.needs {
            let _ = writeln!(text, "not told to its end: it needs {need}"); // A String takes all.
        }
        for finding in &self.findings {
            let found = ReportedFinding::new(finding.clone(), self.seed, &self.events);
            let _ = write!(text, "\n{}", found.text(false)); // As above.
        }
        if self.live.count() > 0 {
            let _ = writeln!(text, "\nstill alive at the end:\n{}", self.live); // As above.
        }
        text
    }
}

/// On what grounds the rule stands.
fn basis(finding: &Finding) -> String {
    match finding.basis {
        "ours" => "ours: a rule of Windtunnel, with no page behind it".to_owned(),
        basis => format!("{basis}: {}", finding.source),
    }
}
