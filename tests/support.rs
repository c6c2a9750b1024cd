//! The support tables are true: the page is what the code says, and calls are answered as the
//! tables say. What a page quotes of a trace is in it. `cargo xtask docs` rewrites both pages.

use abi::NTSTATUS;
use flight::What;
use kernel::ddi::TABLE;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use stories::flown;
use windtunnel::{SCENARIOS, support_page};

#[test]
fn the_page_is_what_the_code_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/support.md");
    let now = support_page();
    if std::env::var_os("WINDTUNNEL_BLESS").is_some() {
        fs::write(&path, now).unwrap();
        return;
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    let stale = page.lines().zip(now.lines()).find(|(page, now)| page != now);
    let short = page.lines().count() != now.lines().count();
    assert!(
        stale.is_none() && !short,
        "docs/support.md is stale, {stale:?}; 'cargo xtask docs' rewrites it"
    );
}

/// An event without its number, which changes when something else happens before.
fn unnumbered(line: &str) -> &str {
    line.split_once(' ').map_or(line, |it| it.1)
}

#[test]
fn quoted_traces_are_real() {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = tests.join("../docs/how-an-allocation-dies.md");
    let golden = fs::read_to_string(tests.join("golden/destroy-deferred.trace")).unwrap();
    let page = fs::read_to_string(&path).unwrap();
    let (mut events, mut quoting, mut quoted) = (golden.lines(), false, 0);
    let mut now = String::new();
    for line in page.lines() {
        quoting = line == "```trace" || (quoting && line != "```");
        let is_event = quoting && line != "```trace";
        let same = |it: &&str| unnumbered(it) == unnumbered(line);
        let real = if is_event { events.find(same) } else { Some(line) };
        let real = real.unwrap_or_else(|| panic!("not in the trace, or not in its order: {line}"));
        quoted += usize::from(is_event);
        now.push_str(real);
        now.push('\n');
    }
    assert!(quoted > 20, "{quoted} lines");
    if std::env::var_os("WINDTUNNEL_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    assert!(page == now, "the events have other numbers now; 'cargo xtask docs' rewrites them");
}

/// Whether the table of an entry has the answer: its own, or one that a DDI may give.
fn says(entry: &thunk::Line, status: NTSTATUS) -> bool {
    let Err(why) = port::answer(status) else { return true };
    let asked = TABLE.iter().filter(|it| entry.passes_on.contains(&it.name));
    entry.answers.contains(&status) || asked.map(|it| it.legal).any(|it| it.allows(why))
}

#[test]
fn every_answer_of_every_scenario_is_in_the_table() {
    let mut seen = BTreeSet::new();
    for scenario in SCENARIOS.iter().copied().flatten() {
        for driver in ["softgpu", "table", "softgpu-memory"] {
            for event in flown(driver, scenario.name, 1).events {
                let What::Leave { call, status } = &event.what else { continue };
                let line = thunk::ENTRIES.iter().find(|it| it.name == *call);
                let line = line.unwrap_or_else(|| panic!("{call} has no line"));
                let status = status.0.cast_signed();
                assert!(says(line, status), "{}: {call} answered {status:#x}", scenario.name);
                seen.insert(line.name);
            }
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}
