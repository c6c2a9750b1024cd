//! Scripts for tests: events as lines of a trace, without the fields that have defaults.

use crate::Verifier;
use flight::{Event, RuleId};

/// Parses a script. A line is `[t<thread>] [c<call>] <subject> <event>`; the defaults are thread 1
/// and no call.
pub(crate) fn read(script: &str) -> Vec<Event> {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.zip(1_u64..).map(|(line, seq)| event(seq, line)).collect()
}

fn event(seq: u64, line: &str) -> Event {
    let marked = |driver_handle: &str, mark| {
        driver_handle.strip_prefix(mark).is_some_and(|rest: &str| rest.parse::<u32>().is_ok())
    };
    let (mut rest, mut thread, mut call) = (line, "t1", "-");
    loop {
        let (driver_handle, more) = rest.split_once(' ').unwrap();
        match driver_handle {
            _ if marked(driver_handle, 't') => thread = driver_handle,
            _ if marked(driver_handle, 'c') => call = driver_handle,
            _ => break,
        }
        rest = more;
    }
    let line = format!("{seq} {thread} {call} {rest}");
    line.parse().unwrap_or_else(|()| panic!("not an event: {line}"))
}

/// Runs all rules over a script.
pub(crate) fn fly(script: &str) -> Verifier {
    let mut verifier = Verifier::new();
    for event in read(script) {
        verifier.observe(&event);
    }
    verifier
}

/// The findings of one rule on a script; a repeated finding is repeated.
pub(crate) fn messages(rule: RuleId, script: &str) -> Vec<String> {
    let verifier = fly(script);
    let all = verifier.findings().iter().flat_map(|finding| {
        std::iter::once(finding).chain(&finding.consequences) // A script may break two rules.
    });
    let of_rule = all.filter(|finding| finding.rule == rule);
    of_rule.flat_map(|finding| (0..finding.count).map(|_| finding.message.clone())).collect()
}

/// How often one rule judged in a script.
pub(crate) fn judge_count(rule: RuleId, script: &str) -> u64 {
    fly(script).rule_counts().count_of(rule)
}
