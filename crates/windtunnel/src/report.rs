//! The text of findings and of flights.

use crate::fly::FlightResult;
use crate::scenario_report::ReportedFinding;
use flight::{Event, EventKind};
use std::fmt::Write;
use verify::{Finding, Severity};

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
    pub(crate) fn new(finding: Finding, seed: Option<u64>, events: &[Event]) -> Self {
        let led = |event: &&Event| finding.events.contains(&event.seq);
        let trail = events.iter().filter(led).cloned().collect();
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
            line("rule", &rule(finding)),
            line(source, &origin),
            line("Windows", &finding.windows),
            line("events", "").trim_end().to_owned(),
        ];
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
            let found = ReportedFinding::new(finding.clone(), self.seed, &self.events);
            let more: Vec<_> = finding.consequences.iter().map(consequence_line).collect();
            let found = found.text(&found.times(), &more, Colour::Off);
            let _ = write!(text, "\n{found}"); // As above.
        }
        if self.live.count() > 0 {
            let _ = writeln!(text, "\nleft alive at the end:\n{}", self.live); // As above.
        }
        text
    }
}

/// The line of a finding against another component that came later, under the finding before it.
pub fn consequence_line(finding: &Finding) -> (&'static str, String) {
    let (rule, component) = (finding.rule.name(), finding.component.name());
    let message = sentence(&finding.message);
    ("then", format!("{component}, in {}: {message} ({rule})", finding.argument))
}

/// An event as in a trace. Of a broken rule only the id: its sentence is in its own finding.
fn event_line(event: &Event) -> String {
    let line = event.to_string();
    let shown = match event.kind {
        EventKind::RuleBroken { .. } => line.split(" component=").next().unwrap_or(&line),
        _ => &line,
    };
    name_statuses(shown)
}

/// A count with its noun, in the singular or plural.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The sentence of a finding, for people: with the names of statuses, and with the noun and the verb
/// after `1` in the singular (judges print counts, and one is the rare case).
pub fn sentence(message: &str) -> String {
    const NOUNS: [(&str, &str); 12] = [
        ("allocations", "allocation"),
        ("blocks", "block"),
        ("bytes", "byte"),
        ("clones", "clone"),
        ("contexts", "context"),
        ("entries", "entry"),
        ("frames", "frame"),
        ("handles", "handle"),
        ("objects", "object"),
        ("packets", "packet"),
        ("pieces", "piece"),
        ("views", "view"),
    ];
    let mut words: Vec<&str> = Vec::new();
    let (mut noun, mut verb) = (false, false);
    let message = name_statuses(message);
    for word in message.split(' ') {
        let singular = NOUNS.iter().find(|(plural, _)| *plural == word).filter(|_| noun);
        let shown = match (singular, word) {
            (Some((_, singular)), _) => singular,
            (None, "are") if verb => "is",
            (None, "were") if verb => "was",
            _ => word,
        };
        // The verb of the noun is the next one in its clause.
        let clause_ends = shown != word || word.ends_with([',', ';', ':']);
        verb = singular.is_some() || verb && !clause_ends;
        noun = word == "1" || noun && ["more", "pool"].contains(&word);
        words.push(shown);
    }
    words.join(" ")
}

/// The id, the basis and the text of the rule.
fn rule(finding: &Finding) -> String {
    let id = finding.rule.name();
    let says = verify::find(id).map_or("not in the catalogue", |entry| entry.rule.as_str());
    format!("{id} ({}): {says}", finding.basis)
}

/// The text with each status as its name: the numbers after `status=`, `result=` and `returned `.
fn name_statuses(text: &str) -> String {
    let mut named = text.to_owned();
    for before in ["status=0x", "result=0x", "returned 0x", "returns 0x", "with 0x"] {
        let mut from = 0;
        while let Some(found) = named[from..].find(before) {
            let start = from + found + before.len() - 2;
            from = start + 2;
            let Some(digits) = named.get(from..from + 8) else { continue };
            let whole = !named[from + 8..].starts_with(|next: char| next.is_ascii_alphanumeric());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| whole);
            if let Some(name) = code.and_then(|code| abi::status::name(code.cast_signed())) {
                named.replace_range(start..from + 8, name);
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_names() {
        assert_eq!(name_statuses("a status=0x00000103 b"), "a status=STATUS_PENDING b");
        assert_eq!(
            name_statuses("it returned 0xC000000D."),
            "it returned STATUS_INVALID_PARAMETER."
        );
        for text in
            ["handle=0x00000103", "returned 0xC000000D0", "status=0xC00", "status=0xCFFFFFFE"]
        {
            assert_eq!(name_statuses(text), text);
        }
    }

    #[test]
    fn one_thing_is_singular() {
        for (message, shown) in [
            ("1 pieces of its memory are left", "1 piece of its memory is left"),
            ("2 pieces of its memory are left", "2 pieces of its memory are left"),
            ("up to 1 bytes behind it were written", "up to 1 byte behind it was written"),
            (
                "takes 1 more pool blocks for it, and 2 are",
                "takes 1 more pool block for it, and 2 are",
            ),
            ("allocation 1 uses 64 bytes", "allocation 1 uses 64 bytes"),
            ("view 1, and 3 views are", "view 1, and 3 views are"),
        ] {
            assert_eq!(sentence(message), shown);
        }
    }

    #[test]
    fn a_count_has_the_right_noun() {
        assert_eq!(
            [0, 1, 2].map(|count| plural(count, "error")),
            ["0 errors", "1 error", "2 errors"]
        );
    }

    #[test]
    fn colour_only_where_it_is_on() {
        let painted = Colour::On.severity(Severity::Error, "error");
        assert_eq!(painted, "\x1b[1;31merror\x1b[0m");
        assert_eq!(Colour::Off.severity(Severity::Error, "error"), "error");
        assert_eq!(Colour::Off.passed(true, "PASS"), "PASS");
    }
}
