//! The support tables are correct: the page is generated from the code, and calls return the
//! statuses of the tables. Quoted trace lines exist. `cargo xtask docs` rewrites both pages.

use abi::NTSTATUS;
use flight::EventKind;
use harness::flown;
use harness::pages::{compare, read, unnumbered};
use kernel::ddi::TABLE;
use std::collections::BTreeSet;
use windtunnel::{SCENARIOS, support_page};

#[test]
fn the_page_is_what_the_code_says() {
    compare("docs/support.md", &support_page());
}

#[test]
fn quoted_traces_are_real() {
    let name = "docs/how-an-allocation-dies.md";
    let (golden, page) = (read("tests/golden/destroy-deferred.trace"), read(name));
    let (mut events, mut quoting, mut quoted) = (golden.lines(), false, 0);
    let mut now = String::new();
    for line in page.lines() {
        quoting = line == "```trace" || (quoting && line != "```");
        let is_event = quoting && line != "```trace";
        let same = |text: &&str| unnumbered(text) == unnumbered(line);
        let real = if is_event { events.find(same) } else { Some(line) };
        let real = real.unwrap_or_else(|| panic!("not in the trace, or not in its order: {line}"));
        quoted += usize::from(is_event);
        now.push_str(real);
        now.push('\n');
    }
    assert!(quoted > 20, "{quoted} lines");
    compare(name, &now);
}

/// Whether the row of an entry has the status: its own, or one that a DDI may return.
fn says(entry: &thunk::EntryRow, status: NTSTATUS) -> bool {
    let Err(why) = port::result_from_status(status) else { return true };
    let forwarded = TABLE.iter().filter(|line| entry.forwards_errors_of.contains(&line.name));
    entry.statuses.contains(&status)
        || forwarded.map(|line| line.legal).any(|legal| legal.allows(why))
}

#[test]
fn every_answer_of_every_scenario_is_in_the_table() {
    let mut seen = BTreeSet::new();
    for scenario in SCENARIOS.iter().copied().flatten() {
        for driver in ["softgpu", "table", "softgpu-memory"] {
            for event in flown(driver, scenario.name, 1).events {
                let EventKind::Leave { call, status } = &event.kind else { continue };
                let line = thunk::ENTRIES.iter().find(|entry_row| entry_row.name == *call);
                let line = line.unwrap_or_else(|| panic!("{call} has no line"));
                let status = status.0.cast_signed();
                assert!(says(line, status), "{}: {call} answered {status:#x}", scenario.name);
                seen.insert(line.name);
            }
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}

/// The verifier repeats the levels from the documentation: an error in one of the two is found.
#[test]
fn the_verifier_knows_the_level_of_every_ddi() {
    for line in TABLE {
        let documented = verify::documented_level(line.name);
        // The documentation allows it at any level.
        let expected = (line.name != "DxgkDdiResetDevice").then_some(line.level);
        assert_eq!(documented, expected, "{}", line.name);
    }
}
