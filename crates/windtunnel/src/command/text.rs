//! The text report of `windtunnel check`: what was flown, what was not judged, the findings, the
//! summary, and a last line that says PASS or FAIL.

use super::repeat::Repeat;
use nt::image::{DriverImage, StopSignal, SymbolError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use verify::Severity;
use windtunnel::{
    AllowList, BUILT_IN, CheckReport, Colour, DeepestStack, Driver, DriverFile, FindingGroup,
    HostKind, NativeUmd, Outcome, PrivateData, ScenarioReport, family, plural, sentence,
};

/// Points to the explanation of the terms in reports.
pub(crate) const GLOSSARY_NOTE: &str = "terms: docs/GLOSSARY.md";

/// The number of names in a list that is cut.
const NAMES: usize = 3;

/// The number of findings of one rule in one place that are printed in full.
const IN_FULL: usize = 2;

/// What decides how a check ends besides what was found.
#[derive(Clone, Copy)]
pub(crate) struct Ending<'a> {
    /// Whether warnings fail the check.
    pub(crate) deny_warnings: bool,
    /// Why a file of the check could not be written.
    pub(crate) unwritten: Option<&'a str>,
}

impl Ending<'_> {
    /// The exit code: 2 if a file is missing, whatever was found, unless a signal stopped the check.
    pub(crate) fn exit_code(self, report: &CheckReport) -> u8 {
        match self.unwritten {
            Some(_) if report.stopped_by.is_none() => 2,
            _ => report.exit_code(self.deny_warnings),
        }
    }
}

/// How the report is printed.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Whether it is coloured.
    pub(crate) colour: Colour,
    /// Whether every scenario, and what was not judged, is listed.
    pub(crate) verbose: bool,
    /// Whether live objects are printed.
    pub(crate) live: bool,
}

pub(crate) fn print_header(driver: Driver, umd: Option<&NativeUmd>, on: HostKind, seeds: u64) {
    let message = match (on.seed(), seeds) {
        (None, 1) => String::new(),
        (None, times) => format!(", {times} times"),
        (Some(seed), 1) => format!(", seed {seed}"),
        (Some(seed), _) => format!(", seeds {seed} to {}", seed.wrapping_add(seeds - 1)),
    };
    let umd = umd
        .map(|native_umd| format!(" with the user-mode driver {}", native_umd.path()))
        .unwrap_or_default();
    let (name, about) = (driver.name(), driver.about());
    println!("Flying {name} ({about}){umd} on host {}{message}.", on.name());
    if let Driver::File(file) = driver {
        print_file(file);
    }
    println!();
}

/// Prints the facts of a driver file.
fn print_file(file: &DriverFile) {
    let hash: [u8; 8] = std::array::from_fn(|index| file.hash()[index]);
    let hash = u64::from_be_bytes(hash);
    let linked = match file.image() {
        DriverImage::Image(image) => image.link_time.map_or_else(
            || "built reproducibly, without a link date, ".to_owned(),
            |seconds| format!("linked {}, ", utc(seconds)),
        ),
        DriverImage::SharedObject(_) => String::new(),
    };
    let imports = plural(file.image().import_names().len(), "import");
    println!("  file       SHA-256 {hash:016x}..., {linked}{imports}");
    match file.symbols() {
        Ok(symbols) => println!("  symbols    {} matches", symbols.path().display()),
        Err(SymbolError(why)) => println!("  symbols    none: {why}"),
    }
    if !file.streams() {
        match file.private_data() {
            PrivateData::BuiltIn => println!("  data       private data of the built-in GPU"),
            PrivateData::None => println!("  data       no private data (see --private-data)"),
        }
    }
    let identity = nt::DeviceIdentity::default();
    if let Some(id) = identity.hardware_ids.first() {
        println!("  device     {id} (the default identity)");
    }
    if !file.absent_imports().is_empty() {
        let names = file.absent_imports().join(", ");
        println!("  absent     {names}: a flight ends where the driver uses one");
    }
}

/// Prints what a driver file registered as.
pub(crate) fn print_registration(file: &DriverFile) {
    match file.registration() {
        Some(text) => println!("  driver     {text}\n"),
        None => println!("  driver     registered nothing\n"),
    }
}

/// A time in seconds since 1970 as text.
pub(crate) fn utc(seconds: u32) -> String {
    let (days, rest) = (i64::from(seconds / 86_400), seconds % 86_400);
    // The proleptic Gregorian calendar, in years that begin in March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let year = year + era * 400;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Prints what must be printed when a scenario has ended: its line with `--verbose`, and its live
/// objects with `--live`.
pub(crate) fn print_scenario(report: &ScenarioReport, style: Style) {
    let looks = style.live && !report.live_snapshots.is_empty();
    if style.verbose || looks {
        println!("{}", scenario_line(outcome(report), report.scenario, 1, report.events));
    }
    if style.verbose {
        for need in &report.needs {
            println!("             {}", stopped(report, need));
        }
    }
    if looks {
        for (when, live_objects) in &report.live_snapshots {
            println!("             live objects, {when}:");
            print!("{}", indented(&sentence(&live_objects.to_string()), 15));
        }
    }
}

/// Prints the report after the last flight.
pub(crate) fn print(
    report: &CheckReport,
    allow: Option<(&Path, &AllowList)>,
    repeat: &Repeat,
    ending: Ending<'_>,
    style: Style,
) {
    if !style.verbose {
        print_folded(report);
    }
    if style.verbose {
        print_not_judged(report);
    } else {
        print_not_judged_line(report);
    }
    print_stack(report, style.verbose);
    if let Some((path, allow)) = allow {
        print_allowed(report, path, allow);
    }
    let groups = report.finding_groups();
    print_findings(&groups, report, repeat, style);
    for scenario in report.scenarios.iter().filter(|scenario| scenario.live.count() > 0) {
        let live = indented(&sentence(&scenario.live.to_string()), 4);
        println!("\n  left alive at the end of {}:\n{live}", scenario.scenario);
    }
    print_summary(report);
    println!("{}", verdict(report, &groups, repeat, ending, style.colour));
}

/// The outcome of a scenario, in one word.
fn outcome(report: &ScenarioReport) -> &'static str {
    match report.outcome() {
        Outcome::NotFlown if report.ended_early > 0 => "ended",
        outcome => outcome.name(),
    }
}

/// Why a scenario was not flown to its end.
fn stopped(report: &ScenarioReport, need: &str) -> String {
    match (report.ended_early, report.flights) {
        (0, _) => format!("not flown: needs {need}"),
        (_, 1) => format!("ended early, after {}: needs {need}", plural(report.events, "event")),
        (some, all) => format!("ended early in {some} of {all} flights: needs {need}"),
    }
}

fn scenario_line(outcome: &str, name: &str, scenarios: usize, events: usize) -> String {
    let events = plural(events, "event");
    let counts = match scenarios {
        1 => events,
        some => format!("{some} scenarios, {events}"),
    };
    format!("  {outcome:<10} {name:<24} {counts}")
}

/// Prints the scenarios: a line for each family and outcome, then those that were not flown by
/// what they need, then those that ended early with the step at which they did.
fn print_folded(report: &CheckReport) {
    for kind in ["clean", "allowed", "findings"] {
        let of_kind = report.scenarios.iter().filter(|scenario| outcome(scenario) == kind);
        for (family, members) in grouped(of_kind, |scenario| family(scenario.scenario).to_owned()) {
            let name = if let [only] = members.as_slice() { only.scenario } else { &family };
            let events = members.iter().map(|scenario| scenario.events).sum();
            println!("{}", scenario_line(kind, name, members.len(), events));
        }
    }
    let not_flown = report
        .scenarios
        .iter()
        .filter(|scenario| scenario.ended_early == 0 && !scenario.needs.is_empty());
    for (needs, members) in grouped(not_flown, |scenario| all_needs(&scenario.needs)) {
        let names: Vec<&str> = members.iter().map(|scenario| scenario.scenario).collect();
        let verb = if names.len() == 1 { "needs" } else { "need" };
        let count = plural(names.len(), "scenario");
        println!("  not-flown  {count} {verb} {needs}: {}", some_of(&names));
    }
    let early = report.scenarios.iter().filter(|scenario| scenario.ended_early > 0);
    for (needs, members) in grouped(early, |scenario| all_needs(&scenario.needs)) {
        if let [only] = members.as_slice() {
            println!("  {:<10} {}, which {}", "ended", only.scenario, stopped(only, &needs));
            continue;
        }
        let names: Vec<&str> = members.iter().map(|scenario| scenario.scenario).collect();
        let count = plural(names.len(), "scenario");
        println!("  ended      {count} ended early: each needs {needs}: {}", some_of(&names));
    }
}

/// What a scenario needs, in one phrase.
fn all_needs(needs: &[String]) -> String {
    let entry = "a driver that implements ";
    let entries: Option<Vec<&str>> = needs.iter().map(|need| need.strip_prefix(entry)).collect();
    match entries {
        Some(entries) if entries.len() > 1 => format!("{entry}{}", entries.join(", ")),
        _ => needs.join(" and "),
    }
}

/// Groups scenarios by a key, in the order of first occurrence.
fn grouped<'a>(
    scenarios: impl Iterator<Item = &'a ScenarioReport>,
    key: impl Fn(&ScenarioReport) -> String,
) -> Vec<(String, Vec<&'a ScenarioReport>)> {
    let mut groups: Vec<(String, Vec<&ScenarioReport>)> = Vec::new();
    for scenario in scenarios {
        let key = key(scenario);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(scenario),
            None => groups.push((key, vec![scenario])),
        }
    }
    groups
}

/// The first names of a list, and how many more there are.
fn some_of(names: &[&str]) -> String {
    match names.len().checked_sub(NAMES + 1) {
        None => names.join(", "),
        Some(more) => format!("{} and {} more", names[..NAMES].join(", "), more + 1),
    }
}

/// Prints the findings. One mistake can corrupt memory in many ways: of the findings of one rule in
/// one place, the first are printed in full, and the others as one sentence each.
fn print_findings(
    groups: &[FindingGroup<'_>],
    report: &CheckReport,
    repeat: &Repeat,
    style: Style,
) {
    let place = |group: &FindingGroup<'_>| {
        let finding = &group.first.finding;
        (finding.rule, finding.component, finding.argument.clone())
    };
    let mut printed = BTreeSet::new();
    for group in groups {
        if !printed.insert(place(group)) {
            continue;
        }
        let same: Vec<_> = groups.iter().filter(|other| place(other) == place(group)).collect();
        let (in_full, others) = same.split_at(same.len().min(IN_FULL));
        for (number, finding) in in_full.iter().enumerate() {
            let last = number + 1 == in_full.len();
            print_finding(finding, if last { others } else { &[] }, report, repeat, style);
        }
    }
}

/// How often a finding occurred, and in how many scenarios; nothing if once.
fn times(group: &FindingGroup<'_>) -> String {
    match (group.count, group.scenarios.len()) {
        (1, _) => String::new(),
        (count, 1) => format!(" ({count} times)"),
        (count, scenarios) => format!(" ({count} times in {scenarios} scenarios)"),
    }
}

/// Prints a finding with the scenarios in which it occurred, the command that repeats it, and the
/// sentences of others in the same place.
fn print_finding(
    group: &FindingGroup<'_>,
    others: &[&FindingGroup<'_>],
    report: &CheckReport,
    repeat: &Repeat,
    style: Style,
) {
    let (first, scenarios) = (group.first, &group.scenarios);
    let mut more = Vec::new();
    if let (Some(seed), true) = (first.seed, report.seeds > 1) {
        more.push(("seed", format!("{seed} is the first seed that shows it")));
    }
    if report.scenarios.len() > 1 {
        more.push(("found in", some_of(scenarios)));
    }
    more.push(("repeat", repeat.flight(scenarios[0], first.seed)));
    for other in others {
        let message = sentence(&other.first.finding.message);
        let place = some_of(&other.scenarios);
        more.push(("also", format!("{message}{}, in {place}", times(other))));
    }
    more.extend(group.consequences.iter().map(|finding| ("then", finding.line())));
    print!("\n{}", first.text(&times(group), &more, style.colour));
}

/// Prints the totals.
fn print_summary(report: &CheckReport) {
    let (live, judged) = (flight::RuleId::LIVE.len(), report.judged().len());
    let (all, done) = (report.scenarios.len(), report.completed_count());
    let early = report.ended_early_count();
    let not_flown = all - done - early;
    let flown: String = [
        Some(format!("{done} of {} flown to the end", plural(all, "scenario"))),
        (early > 0).then(|| format!(", {early} ended early")),
        (not_flown > 0).then(|| format!(", {not_flown} not flown")),
    ]
    .into_iter()
    .flatten()
    .collect();
    println!(
        "\n{flown}; {}; {live} rules watched, {judged} evaluated; {}; {GLOSSARY_NOTE}",
        plural(report.event_count(), "event"),
        plural(report.live_count(), "live object"),
    );
}

/// The last line: PASS or FAIL, the counts, and the command that repeats the check.
fn verdict(
    report: &CheckReport,
    groups: &[FindingGroup<'_>],
    repeat: &Repeat,
    ending: Ending<'_>,
    colour: Colour,
) -> String {
    let count = |severity: Severity| {
        let of = groups.iter().filter(|group| group.first.finding.severity == severity);
        plural(of.count(), severity.name())
    };
    let mut counts = [Severity::Error, Severity::Warning, Severity::Note].map(count).join(", ");
    if report.live_count() > 0 {
        counts = format!("{counts}, {} left alive", plural(report.live_count(), "object"));
    }
    let incomplete = report.incomplete_count();
    if report.flown_count() == 0 && incomplete == 0 {
        "no scenario could be flown".clone_into(&mut counts);
    } else {
        counts = format!("{counts}; {}", flown_of_all(report));
    }
    if incomplete > 0 {
        counts = format!("{counts}, {incomplete} ended early without an error");
    }
    if let Some(error) = &report.internal_error {
        let bug = if error.is_no_resources() { "" } else { ", which is a bug in windtunnel" };
        counts = format!("{counts}; the check stopped{bug}: {}", error.0);
    }
    if let Some(signal) = report.stopped_by {
        let flown = plural(usize::try_from(report.flight_count()).unwrap_or(usize::MAX), "flight");
        counts = format!("{counts}; {} stopped the check after {flown}", signal.name());
    }
    if let Some(why) = ending.unwritten {
        counts = format!("{counts}; {why}");
    }
    let code = ending.exit_code(report);
    let word = match code {
        0 => "PASS",
        1 if incomplete > 0 && report.count(Severity::Error) == 0 => "FAIL (incomplete)",
        1 => "FAIL",
        _ if report.stopped_by.is_some() => "FAIL (stopped)",
        _ if ending.unwritten.is_some() => "FAIL (incomplete)",
        _ => "FAIL (could not run)",
    };
    format!("{}: {counts}; repeat with: {}", colour.passed(code == 0, word), repeat.check())
}

/// How many of the scenarios were flown to their end, and how many must be.
fn flown_of_all(report: &CheckReport) -> String {
    let (all, done) = (report.scenarios.len(), report.completed_count());
    let flown = format!("{done} of {} flown", plural(all, "scenario"));
    if done < report.require_flown {
        format!("{flown}, but --require-flown is {}", report.require_flown)
    } else {
        flown
    }
}

/// That a signal stopped a check of `total` flights.
pub(crate) fn stopped_by(signal: StopSignal, report: &CheckReport, total: u64) -> String {
    let flown = report.flight_count();
    format!("{} stopped the check after {flown} of {total} flights", signal.name())
}

/// Prints the deepest use of the kernel stack: if it is more than half, or if all is listed.
fn print_stack(report: &CheckReport, verbose: bool) {
    const KERNEL_STACK: u64 = nt::image::KERNEL_STACK as u64;
    let Some((scenario, stack)) = report.deepest_stack() else { return };
    if verbose || stack.bytes > KERNEL_STACK / 2 {
        let DeepestStack { bytes, function, import } = stack;
        let import = import.as_ref().map_or(String::new(), |name| format!(" at a call of {name}"));
        println!(
            "\nKernel stack: {bytes} of {KERNEL_STACK} bytes used in {function}{import} ({scenario})"
        );
    }
}

/// What the run did not judge, in one line.
fn print_not_judged_line(report: &CheckReport) {
    let entries = never_called(report).len();
    let outside = flight::ExecutionContext::calls_without_context().len();
    let catalogue = verify::catalogue().len();
    let mut parts = Vec::new();
    if entries > 0 {
        let entry = if entries == 1 { "entry" } else { "entries" };
        parts.push(format!("{entries} {entry} never called"));
    }
    let mut rules = report.not_judged();
    let mut whose = "";
    if tests_umd(report) {
        rules.retain(|rule| rule.name().starts_with("UMD-"));
        whose = " of user-mode drivers";
    }
    parts.push(format!("{}{whose} never evaluated", plural(rules.len(), "live rule")));
    if !report.missing().is_empty() {
        let functions = plural(report.missing().len(), "function");
        parts.push(format!("{functions} used but not implemented yet"));
    }
    if outside > 0 {
        let functions = plural(outside, "function");
        parts.push(format!("{functions} called on a thread that runs no driver"));
    }
    let unguarded = report.unguarded();
    if unguarded > 0 {
        parts.push(unguarded_blocks(unguarded));
    }
    parts.extend(lock_orders(report));
    parts.extend(report.unfiltered().map(str::to_owned));
    parts.extend(report.unseen_bytes().into_iter().map(str::to_owned));
    let waiting = catalogue - flight::RuleId::LIVE.len();
    parts.push(format!("{waiting} of {catalogue} rules not live"));
    println!("\nNot judged: {} (--verbose lists them)", parts.join(", "));
}

/// The blocks of memory for which there was no room between inaccessible pages.
fn unguarded_blocks(count: u64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    format!("{} without inaccessible pages", plural(count, "memory block"))
}

/// The lock acquisitions whose order was not judged.
fn lock_orders(report: &CheckReport) -> Option<String> {
    let left_out = usize::try_from(report.lock_orders_left_out()).unwrap_or(usize::MAX);
    let what = plural(left_out, "acquisition");
    let needs = "needs room for more than 4096 pairs of locks, or for more than 8 ways to hold one";
    (left_out > 0).then(|| format!("the order of {what} of a lock under another one ({needs})"))
}

/// Prints what the run did not judge, as lists.
fn print_not_judged(report: &CheckReport) {
    let absent: Vec<&str> = report.missing().into_iter().collect();
    println!("\nNot judged:");
    print_not_exercised(report);
    print_list("used, but not implemented yet", &absent);
    let outside = flight::ExecutionContext::calls_without_context();
    if !outside.is_empty() {
        print_list("called on a thread that runs no driver", &outside);
    }
    if report.unguarded() > 0 {
        println!("  {}", unguarded_blocks(report.unguarded()));
    }
    if let Some(orders) = lock_orders(report) {
        println!("  {orders}");
    }
    if let Some(unfiltered) = report.unfiltered() {
        println!("  {unfiltered}");
    }
    for unseen in report.unseen_bytes() {
        println!("  {unseen}");
    }
    let catalogue = verify::catalogue().len();
    println!(
        "  rules not live: {} of {catalogue} ('windtunnel list rules' lists them)",
        catalogue - flight::RuleId::LIVE.len()
    );
}

/// Whether a user-mode driver is under test: the miniport below it is not.
fn tests_umd(report: &CheckReport) -> bool {
    report.umd.as_deref().is_some_and(|text| text != BUILT_IN)
}

/// The entries of the driver under test that were never called.
fn never_called(report: &CheckReport) -> Vec<&'static str> {
    if tests_umd(report) {
        return Vec::new();
    }
    report.entries().iter().filter(|pair| !pair.1).map(|pair| pair.0).collect()
}

/// Prints which entries and rules were not exercised.
fn print_not_exercised(report: &CheckReport) {
    let unjudged: Vec<&str> = report.not_judged().iter().map(|rule_id| rule_id.name()).collect();
    if tests_umd(report) {
        let (own, others): (Vec<&str>, Vec<&str>) =
            unjudged.into_iter().partition(|text| text.starts_with("UMD-"));
        print_rules("live rules of user-mode drivers never evaluated", &own);
        println!("  other live rules never evaluated: {}", others.len());
        return;
    }
    print_list("entries never called", &never_called(report));
    print_rules("live rules never evaluated", &unjudged);
}

/// Prints rules by family, one family per line: the list can be long.
fn print_rules(what: &str, rules: &[&str]) {
    if rules.is_empty() {
        return print_list(what, rules);
    }
    println!("  {what}: {}", rules.len());
    let family = |text: &str| text.rsplit_once('-').map_or("", |pair| pair.0).to_owned();
    for of in rules.chunk_by(|one, next| family(one) == family(next)) {
        let numbers = of.iter().map(|text| text.rsplit_once('-').map_or(*text, |pair| pair.1));
        println!("    {:<14} {}", family(of[0]), numbers.collect::<Vec<_>>().join(" "));
    }
}

/// Prints the findings that the allow file covered, and its entries that did not occur. An entry
/// covers a rule in a place, whatever the cause: one line for each.
fn print_allowed(report: &CheckReport, path: &Path, allow: &AllowList) {
    println!("\nAllowed by {}: {}", path.display(), plural(report.allowed_count(), "finding"));
    let mut lines: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for group in report.allowed_groups() {
        let finding = &group.first.finding;
        let key = (finding.rule.name(), &*finding.argument, group.reason.unwrap_or_default());
        *lines.entry(key).or_default() += group.count;
    }
    for ((rule, place, reason), count) in lines {
        let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
        println!("  allowed: {rule} in {place}{times}: {reason}");
    }
    for entry in allow.unused(report) {
        let (rule, place) = (&entry.rule, &entry.place);
        println!("  allowed, but did not occur: {rule} in {place} (line {})", entry.line);
    }
}

fn print_list(what: &str, list: &[&str]) {
    if list.is_empty() {
        println!("  {what}: none");
    } else {
        println!("  {what}: {}", list.join(", "));
    }
}

fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().flat_map(|text| [&indent, text, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_counted() {
        assert_eq!(some_of(&["a"]), "a");
        assert_eq!(some_of(&["a", "b", "c"]), "a, b, c");
        assert_eq!(some_of(&["a", "b", "c", "d"]), "a, b, c and 1 more");
        assert_eq!(some_of(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }

    #[test]
    fn a_family_is_the_area() {
        assert_eq!(family("destroy-two-nodes"), "destroy");
        assert_eq!(family("keyed-mutex-alternate"), "keyed-mutex");
        assert_eq!(family("mine"), "mine");
    }
}
