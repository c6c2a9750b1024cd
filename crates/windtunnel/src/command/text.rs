//! Reports for people.

use drivers::Listed;
use flight::Event;
use verify::{Finding, Severity};
use windtunnel::{Checked, Flown, On};

pub(crate) fn begin(driver: &Listed, on: On) {
    let seed = on.seed().map(|it| format!(", seed {it}")).unwrap_or_default();
    println!("Flying {} ({}) on host {}{seed}.\n", driver.name, driver.about, on.name());
}

/// A flight as it lands: its line, then what was found.
pub(crate) fn flight(flown: &Flown, live: bool) {
    println!(
        "  {:<10} {:<18} {:>5} events",
        flown.outcome.name(),
        flown.scenario,
        flown.events.len()
    );
    for need in &flown.needs {
        println!("             not told to its end: it needs {need}");
    }
    if live {
        for (when, census) in &flown.looks {
            println!("             alive, {when}:");
            print!("{}", indented(&census.to_string(), 15));
        }
    }
    for finding in &flown.findings {
        print_finding(finding, &flown.events);
    }
    if flown.live.count() > 0 {
        println!("\n  still alive at the end:\n{}", indented(&flown.live.to_string(), 4));
    }
}

fn print_finding(finding: &Finding, events: &[Event]) {
    let times =
        if finding.count > 1 { format!(" ({} times)", finding.count) } else { String::new() };
    let (severity, rule) = (finding.severity.name(), finding.rule.name());
    println!("\n  {severity}: {}{times}", finding.message);
    println!("    who      {}, in {}", finding.who.name(), finding.place);
    println!("    rule     {rule}: {}", text_of(rule));
    println!("    basis    {}", basis(finding));
    println!("    Windows  {}", finding.windows);
    println!("    events");
    for seq in &finding.events {
        let place = events.binary_search_by_key(seq, |it| it.seq);
        if let Ok(place) = place {
            println!("      {}", events[place]);
        }
    }
    println!();
}

/// The end: what was watched, what was not judged, and what it comes to.
pub(crate) fn end(checked: &Checked) {
    let entries = checked.entries();
    let never: Vec<&str> = entries.iter().filter(|it| !it.1).map(|it| it.0).collect();
    let unjudged: Vec<&str> = checked.not_judged().iter().map(|it| it.name()).collect();
    let absent: Vec<&str> = checked.absent().into_iter().collect();
    println!("\nNot judged:");
    print_list("entries never called", &never);
    print_list("live rules never evaluated", &unjudged);
    print_list("used, but not there yet", &absent);
    let (live, judged) = (flight::RuleId::LIVE.len(), checked.judged().len());
    let catalogue = verify::catalogue().len();
    println!(
        "  rules not live: {} of {catalogue} ('windtunnel list rules' has them)\n",
        catalogue - live
    );
    if checked.flown() == 0 {
        println!("Nothing could be flown; each scenario says what it needs.");
    }
    let count = |severity| checked.count(severity);
    println!(
        "{} of {} scenarios flown, {} events; {live} rules watched, {judged} evaluated; {} errors, \
         {} warnings, {} notes; {} live objects.",
        checked.flown(),
        checked.flights.len(),
        checked.events(),
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note),
        checked.live(),
    );
}

fn print_list(what: &str, list: &[&str]) {
    if list.is_empty() {
        println!("  {what}: none");
    } else {
        println!("  {what}: {}", list.join(", "));
    }
}

/// On what grounds the rule stands.
fn basis(finding: &Finding) -> String {
    match finding.basis {
        "ours" => "ours: a rule of Windtunnel, with no page behind it".to_owned(),
        basis => format!("{basis}: {}", finding.source),
    }
}

fn text_of(rule: &str) -> &'static str {
    verify::find(rule).map_or("not in the catalogue", |it| it.rule.as_str())
}

fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().flat_map(|it| [&indent, it, "\n"]).collect()
}
