//! The text of findings and of flights.

use crate::fly::FlightResult;
use crate::scenario_report::ReportedFinding;
use flight::Event;
use std::fmt::Write;
use verify::Finding;

impl ReportedFinding {
    /// A finding of a flight, with the events that led to it.
    pub(crate) fn new(finding: Finding, seed: Option<u64>, events: &[Event]) -> Self {
        let led = |event: &&Event| finding.events.contains(&event.seq);
        let trail = events.iter().filter(led).cloned().collect();
        Self { finding, seed, trail }
    }

    /// The text of the finding; with `seeds`, includes the first seed that shows it.
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
            lines.push(format!("    seed     {seed} is the first seed that shows it"));
        }
        lines.push("    events".to_owned());
        lines.extend(self.trail.iter().map(|event| format!("      {event}")));
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
        let mut text =
            format!("{}: {}, {} events\n", self.scenario, self.outcome.name(), self.events.len());
        for need in &self.needs {
            let _ = writeln!(text, "not flown: needs {need}"); // Writing to a String cannot fail.
        }
        for finding in &self.findings {
            let found = ReportedFinding::new(finding.clone(), self.seed, &self.events);
            let _ = write!(text, "\n{}", found.text(false)); // As above.
        }
        if self.live.count() > 0 {
            let _ = writeln!(text, "\nleft alive at the end:\n{}", self.live); // As above.
        }
        text
    }
}

/// The basis of the rule, with its source.
fn basis(finding: &Finding) -> String {
    match finding.basis {
        "ours" => "ours: a rule of Windtunnel without a Microsoft page".to_owned(),
        basis => format!("{basis}: {}", finding.source),
    }
}
