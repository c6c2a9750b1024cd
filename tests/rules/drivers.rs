//! Every driver of the registry, flown by the real kernel: good drivers have no findings, and the
//! first finding of each bad driver is its rule.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(unsafe_code, reason = "plugs in a table")]

mod client;

use abi::miniport::DRIVER_INITIALIZATION_DATA;
use client::{FlightResult, fly, fly_with};
use drivers::{ALL, GOOD, Listed, find, set_up};
use flight::{EventKind, Log, RuleId};
use kernel::CreateAllocationRequest;
use softgpu::format::Command;
use std::collections::BTreeSet;
use std::sync::Arc;

const SEEDS: u64 = 16;

fn messages(flown: &FlightResult) -> Vec<String> {
    flown
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.rule.name(), finding.message))
        .collect()
}

/// Flies with several seeds: every seed has the same first finding.
fn check(driver: &Listed) -> Result<(), String> {
    for seed in 0..SEEDS {
        let flown = fly(driver, seed);
        let first: Vec<RuleId> =
            flown.findings.iter().take(1).map(|finding| finding.rule).collect();
        if first != driver.breaks || !flown.live_objects.is_empty() {
            let (name, messages, live_objects) =
                (driver.name, messages(&flown), flown.live_objects);
            return Err(format!("{name}, seed {seed}: {messages:#?}\n{live_objects}"));
        }
    }
    Ok(())
}

fn check_all(good: bool) {
    let some = ALL.iter().filter(|listed| listed.breaks.is_empty() == good);
    // Bad user-mode drivers are flown by applications.
    let some = some.filter(|listed| good || listed.umd.is_none());
    let wrong: Vec<String> = some.filter_map(|listed| check(listed).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn good_drivers_have_no_findings() {
    check_all(true);
}

#[test]
fn bad_drivers_are_reported() {
    check_all(false);
}

#[test]
fn driver_names_are_unique_and_good_drivers_come_first() {
    let names: BTreeSet<&str> = ALL.iter().map(|listed| listed.name).collect();
    assert_eq!(names.len(), ALL.len());
    assert_eq!(
        ALL.iter().map(|listed| listed.name).take(2).collect::<Vec<_>>(),
        ["softgpu", "table"]
    );
    assert!(ALL.is_sorted_by_key(|listed| !listed.breaks.is_empty()));
    assert_eq!(find("kmd-crashes-in-destroy").unwrap().breaks, [RuleId::WT_CRASH_001]);
    assert!(find("no-such").is_none());
}

#[test]
fn a_flight_repeats() {
    for driver in ALL {
        let lines =
            || -> Vec<String> { fly(driver, 3).events.iter().map(ToString::to_string).collect() };
        assert_eq!(lines(), lines(), "{}", driver.name);
    }
}

#[test]
fn acquired_data_delays_the_destruction() {
    let flown = fly(find("kmd-leaks-handle-data").unwrap(), 1);
    let rules: BTreeSet<RuleId> = flown.findings.iter().map(|finding| finding.rule).collect();
    // The kernel waits, and ends the acquisition when the device is destroyed.
    assert!(rules.contains(&RuleId::CB_HANDLE_005) && !rules.contains(&RuleId::ALLOC_DESTROY_019));
    let first =
        |name: &str| flown.events.iter().position(|event| event.kind.name() == name).unwrap();
    let held = |event: &&flight::Event| {
        matches!(event.kind, EventKind::HandleDataAcquired { reference: 1, .. })
    };
    let subject = flown.events.iter().find(held).unwrap().subject;
    let of = |name: &str| {
        let it = |event: &flight::Event| event.subject == subject && event.kind.name() == name;
        flown.events.iter().rposition(it).unwrap()
    };
    assert!(first("retire.idle") < of("handle-data.released"), "the destroy was asked for before");
    assert!(of("handle-data.released") < of("ddi.destroys"));
}

#[test]
fn the_table_writes_real_bytes_and_leaves_nothing_on_its_board() {
    let log = Arc::new(Log::new());
    // SAFETY: The table is the good driver's.
    let (setup, state) = unsafe { set_up(&GOOD, &log) };
    let seen = state.clone();
    let flown = fly_with(&log, &setup, 1, |client, at| {
        let made = client.create(at, client.create_request(&[4096, 4096])).unwrap();
        let [from, to] = made.allocations[..] else { panic!("{made:?}") };
        let commands = [
            Command::Fill { target: from, offset: 0, length: 4, value: 9 },
            Command::Copy { from, from_offset: 2, to, to_offset: 1, length: 4 },
        ];
        client.submit(at, &commands);
        client.quiet(at);
        assert_eq!(seen.read(to, 0..6), Some(vec![0, 9, 9, 0, 0, 0]));
        assert!(!seen.is_empty());
    });
    assert_eq!((messages(&flown), flown.live_objects), (Vec::new(), String::new()));
    assert!(state.is_empty());
    assert_eq!(state.faults(), 0);
}

#[test]
fn a_driver_without_describe_allocation_is_reported_for_primaries_only() {
    let log = Arc::new(Log::new());
    let table = DRIVER_INITIALIZATION_DATA { DxgkDdiDescribeAllocation: None, ..GOOD };
    // SAFETY: The table is the good driver's without one entry.
    let (setup, _board) = unsafe { set_up(&table, &log) };
    let flown = fly_with(&log, &setup, 1, |client, at| {
        client.create(at, client.create_request(&[4096])).unwrap();
        let made = client.create(
            at,
            CreateAllocationRequest { primaries: vec![1], ..client.create_request(&[1, 1]) },
        );
        assert_eq!(
            made.map(|response| response.allocations.len()),
            Some(2),
            "it is made all the same"
        );
    });
    let found: Vec<_> =
        flown.findings.iter().map(|finding| (finding.rule, finding.count)).collect();
    assert_eq!(found, [(RuleId::KMD_STD_001, 1)], "{:?}", messages(&flown));
    assert!(flown.findings[0].message.contains("absent"), "{:?}", messages(&flown));
}
