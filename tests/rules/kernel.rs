//! Rules that bind our own kernel, each broken by one changed event.
//!
//! The kernel keeps these rules, so no driver and no client can show that they judge. A recorded
//! trace can: it has no findings as recorded, and has findings with one event missing, moved or
//! changed. The first finding is the rule, and it blames the kernel.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

mod address;
mod interrupt;
mod keyed_mutex;
mod memory;
mod nt_share;
mod pnp;
mod render;
mod sources;
mod stream;
mod sync;
mod tdr;

use flight::{Component, Event, EventKind, Passive, RuleId, Subject};
use harness::{KernelTestbed, VariantDriver, flown, run, softgpu, verified};
use kernel::miniport::Generation;
use softgpu::format;
use std::collections::{BTreeMap, BTreeSet};
use thunk::{Client, CreateAllocation, DestroyAllocation};
use verify::{Severity, rule};

/// One changed event of a trace. An event is identified by parts of its line: the first line that
/// has all of them.
pub(crate) enum Change {
    /// The event is removed.
    Missing(&'static str),
    /// The event is moved before another.
    Early(&'static str, &'static str),
    /// The event is moved after the next event of another kind.
    Late(&'static str, &'static str),
    /// A value of the event (or its `subject`) is replaced.
    Set(&'static str, &'static str, &'static str),
}

use Change::{Early, Late, Missing, Set};

/// A rule, and the change that breaks it.
pub(crate) struct Case {
    pub(crate) rule: RuleId,
    /// Rules that every change for this rule also breaks.
    along: &'static [RuleId],
    pub(crate) flight: &'static str,
    pub(crate) about: &'static str,
    pub(crate) change: Change,
}

const fn case(rule: RuleId, flight: &'static str, about: &'static str, change: Change) -> Case {
    Case { rule, along: &[], flight, about, change }
}

const CASES: &[Case] = &[
    case(
        RuleId::HANDLE_FORM_001,
        "create-resource",
        "a local handle that ends in one",
        Set("handle.published of=device:1", "handle", "0x40000041"),
    ),
    case(
        RuleId::HANDLE_FORM_002,
        "create-shared",
        "a global handle that looks like a local handle",
        Set("handle.shared", "handle", "0x40000040"),
    ),
    case(
        RuleId::HANDLE_FORM_003,
        "create-resource",
        "a handle number is skipped",
        Set("handle.reserved handle=0x40000040", "handle", "0x40000080"),
    ),
    case(
        RuleId::HANDLE_FORM_004,
        MANY_NAMES,
        "a handle is reused right after it was closed",
        Set("handle.reserved handle=0x4000e080", "handle", "0x40000080"),
    ),
    case(
        RuleId::HANDLE_FORM_005,
        "create-driver-failure",
        "a failed create keeps a handle",
        Missing("handle.cancelled"),
    ),
    case(
        RuleId::ALLOC_CREATE_007,
        "create-resource",
        "a resource gets a handle of another device",
        Set("resource-view.retiring", "by", "device:9"),
    ),
    case(
        RuleId::ALLOC_CREATE_008,
        "create-shared",
        "a resource shared for NT handles has a global handle",
        Set("resource.created", "sharing", "nt"),
    ),
    case(
        RuleId::ALLOC_CREATE_020,
        "submit-device-lost",
        "an allocation is created on a lost device",
        Early("device.lost", "allocation.created"),
    ),
    case(
        RuleId::ALLOC_CREATE_021,
        "create-resource",
        "the driver gets other private data",
        Set("allocation.created", "driver_data", "0x00000000"),
    ),
    case(
        RuleId::ALLOC_DESTROY_002,
        "create-resource",
        "a resource is destroyed before its members",
        Early("resource.destroyed", "ddi.call name=DxgkDdiDestroyAllocation"),
    ),
    case(
        RuleId::ALLOC_DESTROY_006,
        "destroy-deferred",
        "a view is idle while earlier work is in flight",
        Early("view.idle", "packet.done"),
    ),
    case(
        RuleId::ALLOC_DESTROY_007,
        "destroy-assume-not-in-use",
        "a view with AssumeNotInUse waits for work",
        Early("packet.done", "view.idle"),
    ),
    case(
        RuleId::ALLOC_DESTROY_009,
        "destroy-synchronous",
        "a synchronous call returns before the destruction",
        Early("retire.returned", "view.closed"),
    ),
    case(
        RuleId::ALLOC_DESTROY_010,
        "create-resource",
        "one handle is closed twice, another never",
        Set("view:2 view.retiring", "subject", "view:1"),
    ),
    case(
        RuleId::ALLOC_DESTROY_011,
        "destroy-synchronous",
        "a call that was not synchronous waits",
        Set("retire.requested", "synchronous", "false"),
    ),
    case(
        RuleId::ALLOC_DESTROY_013,
        "destroy-v1",
        "a call without flags is treated as a call with a flag",
        Set("retire.requested", "assume_not_in_use", "true"),
    ),
    case(
        RuleId::ALLOC_DESTROY_015,
        "create-resource",
        "an allocation is destroyed before its view is closed",
        Late("view.closed", "ddi.destroys"),
    ),
    case(
        RuleId::ALLOC_DESTROY_016,
        "destroy-deferred",
        "memory is freed before the view is idle",
        Early("allocation.decommitted", "view.idle"),
    ),
    case(
        RuleId::ALLOC_DESTROY_017,
        "create-resource",
        "a resource is destroyed while its device has it open",
        Late("resource-view.closed", "ddi.resource"),
    ),
    case(
        RuleId::ALLOC_DESTROY_019,
        "create-resource",
        "an allocation is destroyed while its driver holds its data",
        Missing("handle-data.released"),
    ),
    case(
        RuleId::CB_HANDLE_003,
        "create-resource",
        "the handle data is another object's",
        Set("handle-data.acquired", "driver_handle", "driver-pointer:99"),
    ),
    case(
        RuleId::ALLOC_DESTROY_025,
        "destroy-empty-resource",
        "a resource is destroyed with its last member while its handle is open",
        Early("resource.destroyed", "resource-view.retiring"),
    ),
    case(
        RuleId::WT_GONE_001,
        "create-resource",
        "a resource is never destroyed",
        Missing("resource.destroyed"),
    ),
    case(
        RuleId::ALLOC_SHARE_004,
        "share-creator-ends-first",
        "an opener gets only some of the members",
        Set("ddi.opens create=false", "batch", "1"),
    ),
    case(
        RuleId::ALLOC_SHARE_001,
        "share-creator-ends-first",
        "a query copies the runtime's data",
        Set("share.queried", "copied", "14"),
    ),
    case(
        RuleId::ALLOC_SHARE_002,
        "share-creator-ends-first",
        "a sum above 32 bits is returned",
        Set("share.recorded", "total", "4294967328"),
    ),
    case(
        RuleId::ALLOC_SHARE_005,
        "share-creator-ends-first",
        "an opener gets another number of bytes",
        Set("share.opened", "written", "16"),
    ),
    case(
        RuleId::DEV_LIFE_007,
        "submit-device-lost",
        "a device is reported as lost before it is lost",
        Set("device.state-queried state=active", "state", "hung"),
    ),
    Case {
        rule: RuleId::DEV_LIFE_008,
        along: &[RuleId::HANDLE_FORM_005],
        flight: "submit-fill-and-copy",
        about: "a device is refused for a quota",
        change: Set("leave call=D3DKMTCreateDevice", "status", "0xc0000044"),
    },
    case(
        RuleId::WT_STOP_001,
        "create-standalone",
        "a stopped driver is called again",
        Set("ddi.call name=DxgkDdiRemoveDevice", "name", "DxgkDdiStopDevice"),
    ),
    case(
        RuleId::KMD_LEVEL_001,
        "destroy-deferred",
        "a driver is stopped while a call is inside it",
        Early("ddi.call name=DxgkDdiStopDevice", "ddi.return name=DxgkDdiCloseAllocation"),
    ),
    case(
        RuleId::DEV_LIFE_002,
        "submit-fill-and-copy",
        "a device is destroyed before its context",
        Missing("context.destroyed"),
    ),
    case(
        RuleId::DEV_LIFE_004,
        "submit-fill-and-copy",
        "a context is destroyed before its work is complete",
        Early("context.destroyed", "packet.done"),
    ),
    case(
        RuleId::KMD_PNP_001,
        "create-resource",
        "an adapter is started although its driver declined it",
        Set("ddi.return name=DxgkDdiAddDevice", "result", "declined"),
    ),
    case(
        RuleId::KMD_CTX_007,
        "submit-fill-and-copy",
        "the driver is called to destroy a context that has work",
        Early("context:1 ddi.ends", "packet.done"),
    ),
    case(
        RuleId::KMD_ALLOC_010,
        "destroy-members-by-list",
        "a call carries a driver handle that is not the resource's",
        Set("ddi.resource destroy=true", "driver_handle", "driver-pointer:99"),
    ),
    case(
        RuleId::KMD_DESTROY_001,
        "create-resource",
        "one allocation is destroyed twice, another never",
        Set("allocation:2 ddi.destroys", "subject", "allocation:1"),
    ),
    case(
        RuleId::KMD_DESTROY_006,
        "destroy-member-in-flight",
        "a resource is destroyed while a member is alive",
        Set("ddi.resource destroy=false", "destroy", "true"),
    ),
    Case {
        along: &[RuleId::KMD_LEVEL_007],
        ..case(
            RuleId::KMD_DESTROY_010,
            "create-resource",
            "the driver is called to destroy at DISPATCH_LEVEL",
            Set("ddi.call name=DxgkDdiDestroyAllocation", "level", "dispatch"),
        )
    },
    case(
        RuleId::KMD_DESTROY_011,
        "create-resource",
        "an allocation is destroyed by another adapter",
        Set("ddi.destroys", "adapter", "adapter:9"),
    ),
    Case {
        along: &[RuleId::KMD_LEVEL_004],
        ..case(
            RuleId::KMD_LEVEL_003,
            "process-two-threads",
            "two threads are inside a class of level one",
            Late(SUBMITTED, SUBMITS),
        )
    },
    Case {
        // The scheduler's class is the only class of level one so far.
        along: &[RuleId::KMD_LEVEL_003],
        ..case(
            RuleId::KMD_LEVEL_004,
            "process-two-processes",
            "two threads are inside the scheduler's class",
            Late(SUBMITTED, SUBMITS),
        )
    },
    case(
        RuleId::KMD_LEVEL_006,
        FIRST_GENERATION,
        "two threads of a process are inside a driver of the first generation",
        Late("t3 ddi.return", "t4 ddi.call process=process:1"),
    ),
    case(
        RuleId::DEV_LIFE_010,
        "escape-hardware-access",
        "an escape without HardwareAccess gets a permit of level two",
        Set("ddi.escapes hardware=true", "hardware", "false"),
    ),
    case(
        RuleId::DEV_LIFE_014,
        "escape-hardware-access",
        "an escape with an invalid handle reaches the driver",
        Set("escape.requested", "resolved", "false"),
    ),
    case(
        RuleId::KMD_LEVEL_002,
        "escape-hardware-access",
        "a packet is in flight when the driver is called at level two",
        Late("packet.done fence=3", "ddi.escapes hardware=true"),
    ),
    case(
        RuleId::KMD_LEVEL_007,
        "submit-fill-and-copy",
        "a packet is submitted at passive level",
        Set(SUBMITS, "level", "passive"),
    ),
    case(
        RuleId::KMD_OPEN_008,
        "create-resource",
        "views of a resource are closed one by one",
        Set("ddi.closes", "batch", "1"),
    ),
    case(
        RuleId::KMD_OPEN_009,
        "create-resource",
        "one view is closed twice, another never",
        Set("view:2 ddi.closes", "subject", "view:1"),
    ),
];

/// All cases.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    CASES
        .iter()
        .chain(memory::CASES)
        .chain(keyed_mutex::CASES)
        .chain(nt_share::CASES)
        .chain(sources::CASES)
        .chain(pnp::CASES)
        .chain(interrupt::CASES)
        .chain(sync::CASES)
        .chain(render::CASES)
        .chain(address::CASES)
        .chain(tdr::CASES)
        .chain(stream::CASES)
}

const SUBMITS: &str = "ddi.call name=DxgkDdiSubmitCommandVirtual";
const SUBMITTED: &str = "ddi.return name=DxgkDdiSubmitCommandVirtual";

/// Rules that bind the kernel and are not in the table: the thunks judge them on a client's
/// arguments, so a client shows them (`windows.rs`, and the scenario of that name).
pub(crate) const AT_THE_DOOR: &[(RuleId, &str)] = &[
    (RuleId::ADAPTER_ENUM_002, "adapter-enum-short-array"),
    (RuleId::ADAPTER_OPEN_001, "adapter-open-without-name"),
    (RuleId::ADAPTER_OPEN_003, "adapter-open-wrong-class"),
    (RuleId::ALLOC_CREATE_006, "windows_observations.rs"),
    (RuleId::ALLOC_CREATE_011, "windows_observations.rs"),
    (RuleId::ALLOC_DESTROY_003, "windows_observations.rs"),
    (RuleId::ALLOC_DESTROY_004, "windows_observations.rs"),
    (RuleId::ALLOC_DESTROY_018, "destroy-shared-member"),
    (RuleId::ALLOC_DESTROY_024, "destroy-count-without-list"),
];

/// Rules that only a driver from a file can break, with a bad driver of `drivers/c/flaws.toml`. The
/// command's tests fly them all.
pub(crate) const FROM_A_FILE: &[(RuleId, &str)] = &[
    (RuleId::WT_FAULT_001, "patches-nothing"),
    (RuleId::WT_LEAK_001, "leaks-key-handle"),
    (RuleId::WT_LEAK_002, "leaks-lookaside-list"),
    (RuleId::WT_LEAK_003, "capture-leaves-thread"),
    (RuleId::WT_PAGED_001, "pageable-code-in-dpc"),
    (RuleId::WT_REGISTER_001, "changes-mxcsr"),
    (RuleId::WT_STACK_001, "large-frame-in-ddi"),
];

/// More handles than a table issues before it reuses a closed handle.
const MANY_NAMES: &str = "many names";
/// Two threads of a process, and a driver that allows one call at a time.
const FIRST_GENERATION: &str = "first generation";

#[test]
fn one_wrong_event_is_one_rule_of_the_kernel_broken() {
    let mut flights = BTreeMap::new();
    for case in cases().chain(address::FREED_EARLY) {
        let events = flights.entry(case.flight).or_insert_with(|| recorded(case.flight));
        check(case, events);
    }
}

/// Checks that the trace has no findings, that the rule judged, and that the change breaks it.
fn check(case: &Case, events: &[Event]) {
    let what = format!("{}, {}: {}", case.rule.name(), case.flight, case.about);
    let verifier = verified(events);
    let loud = |finding: &&verify::Finding| finding.severity > Severity::Note;
    assert_eq!(verifier.findings().iter().find(loud), None, "{what}");
    assert_ne!(verifier.rule_counts().count_of(case.rule), 0, "{what}: not judged");

    let changed = case.change.apply(events);
    assert!(changed != events, "{what}: nothing changed");
    let verifier = verified(&changed);
    let mut findings = verifier.findings().iter().filter(loud);
    let first = findings.clone().next().unwrap_or_else(|| panic!("{what}: nothing found"));
    let together: BTreeSet<RuleId> = findings
        .by_ref()
        .take_while(|finding| finding.events.last() == first.events.last())
        .inspect(|finding| {
            assert_eq!(finding.component, Component::Kernel, "{what}: {}", finding.message);
        })
        .map(|finding| finding.rule)
        .collect();
    let expected = case.along.iter().copied().chain([case.rule]).collect();
    assert_eq!(together, expected, "{what}: {}", first.message);
}

impl Change {
    /// The change as text: what to do with which event.
    pub(crate) fn text(&self) -> String {
        match self {
            Missing(event) => format!("remove the first event with '{event}'"),
            Early(event, other) => {
                format!("move the first event with '{event}' before that with '{other}'")
            }
            Late(event, other) => {
                format!("move the first event with '{event}' behind the next with '{other}'")
            }
            Set(event, name, value) => {
                format!("in the first event with '{event}', set {name} to {value}")
            }
        }
    }

    /// The trace with this one change; its events are renumbered.
    fn apply(&self, events: &[Event]) -> Vec<Event> {
        let mut events = events.to_vec();
        match *self {
            Missing(event) => drop(events.remove(find(&events, event))),
            Early(event, other) => {
                let moved = events.remove(find(&events, event));
                events.insert(find(&events, other), moved);
            }
            Late(event, other) => {
                let at = find(&events, event);
                let moved = events.remove(at);
                let next = at + find(&events[at..], other);
                events.insert(next + 1, moved);
            }
            Set(event, name, value) => {
                let at = find(&events, event);
                events[at] = with(&events[at], name, value);
            }
        }
        for (event, seq) in events.iter_mut().zip(1..) {
            event.seq = seq;
        }
        events
    }
}

/// The first event whose line has all these parts.
fn find(events: &[Event], words: &str) -> usize {
    let has = |event: &Event| {
        let line = event.to_string();
        let line: Vec<&str> = line.split(' ').collect();
        words.split(' ').all(|word| line.contains(&word))
    };
    events.iter().position(has).unwrap_or_else(|| panic!("no event has {words}"))
}

/// The same event with another value.
fn with(event: &Event, name: &str, value: &str) -> Event {
    const SUBJECT: usize = 3;
    let line = event.to_string();
    let other = |(place, word): (usize, &str)| match word.split_once('=') {
        Some((it, _)) if it == name => format!("{name}={value}"),
        None if place == SUBJECT && name == "subject" => value.to_owned(),
        _ => word.to_owned(),
    };
    let line: Vec<String> = line.split(' ').enumerate().map(other).collect();
    line.join(" ").parse().unwrap()
}

/// The driver and the scenario of a recorded flight; `None` if a test flies it without a scenario.
pub(crate) fn driver_and_scenario(flight: &'static str) -> Option<(&'static str, &'static str)> {
    match flight {
        MANY_NAMES
        | FIRST_GENERATION
        | memory::PAGED
        | memory::LOCKED
        | memory::QUERIED
        | memory::RECLAIMED => None,
        pnp::TABLE => Some(("table", "pnp-restart")),
        sync::SEEN => Some(("softgpu-memory", "sync-cpu-signal-and-wait")),
        other => {
            let named = address::DRIVERS.iter().find_map(|(before, driver)| {
                other.strip_prefix(before).map(|scenario| (*driver, scenario))
            });
            let named = named.or_else(|| render::flight(other));
            let named = named.or_else(|| other.split_once(' '));
            Some(named.unwrap_or(("softgpu", other)))
        }
    }
}

/// The trace of a good flight.
pub(crate) fn recorded(flight: &'static str) -> Vec<Event> {
    if let Some((driver, scenario)) = driver_and_scenario(flight) {
        return flown(driver, scenario, 1).events;
    }
    let events = match flight {
        MANY_NAMES => run(1, softgpu, many_names),
        FIRST_GENERATION => side_by_side(Generation::One),
        memory::PAGED => harness::memory_client::fly_paging(4096),
        memory::LOCKED => harness::memory_client::locked(),
        memory::QUERIED => harness::memory_client::queried(),
        memory::RECLAIMED => harness::memory_client::reclaimed(),
        other => panic!("no flight {other}"),
    };
    windtunnel::keep_tally(verified(&events).rule_counts());
    events
}

fn many_names(testbed: &KernelTestbed, at: &mut Passive) {
    let client = Client::new(&testbed.kernel);
    let adapter = client.adapters(at).unwrap()[0];
    let device = client.create_device(at, adapter).unwrap();
    let many = CreateAllocation::new(device, vec![format::describe(1); 896]);
    let mut list = client.create(at, &many).unwrap().allocations;
    let first = list.remove(0);
    let destroy = |list| DestroyAllocation { device, list, ..DestroyAllocation::default() };
    client.destroy(at, &destroy(vec![first])).unwrap();
    let one = CreateAllocation::new(device, vec![format::describe(1)]);
    list.extend(client.create(at, &one).unwrap().allocations);
    client.destroy(at, &destroy(list)).unwrap();
    client.destroy_device(at, device).unwrap();
    client.close_adapter(at, adapter).unwrap();
    client.end(at);
}

/// Two threads of one process on one device, in a slow driver.
fn side_by_side(generation: Generation) -> Vec<Event> {
    let driver = VariantDriver::of(generation);
    let body = |testbed: &KernelTestbed, at: &mut Passive| {
        driver.yield_in_calls(&testbed.host);
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let threads = ["client 1", "client 2"].map(|name| {
            let client = client.clone();
            testbed.host.spawn(name, move |at| live(&client, at, device))
        });
        for end in threads {
            testbed.host.park(at, &end, None);
        }
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    };
    run(1, |log| driver.set_up(log), body)
}

fn live(client: &Client, at: &mut Passive, device: u32) {
    for _ in 0..3 {
        let create = CreateAllocation::new(device, vec![format::describe(4096); 2]).with_resource();
        let resource = client.create(at, &create).unwrap().resource;
        client
            .destroy(at, &DestroyAllocation { device, resource, ..DestroyAllocation::default() })
            .unwrap();
    }
}

/// How often a thread called the driver while another thread of its process was inside.
fn overlaps(events: &[Event]) -> usize {
    let mut inside: BTreeMap<Subject, Subject> = BTreeMap::new();
    let mut overlaps = 0;
    for event in events {
        match event.kind {
            EventKind::DdiCall { process: Some(process), .. } => {
                overlaps += usize::from(inside.values().any(|subject| *subject == process));
                inside.insert(event.subject, process);
            }
            EventKind::DdiReturn { .. } => drop(inside.remove(&event.subject)),
            _ => (),
        }
    }
    overlaps
}

#[test]
fn a_driver_of_the_first_generation_has_one_thread_of_a_process_inside() {
    assert_eq!(overlaps(&side_by_side(Generation::One)), 0);
    let second = overlaps(&side_by_side(Generation::Two));
    assert_ne!(second, 0, "nothing excludes them in a driver of the second");
}

#[test]
fn every_live_rule_is_broken_by_a_driver_a_client_or_a_changed_trace() {
    let shown: BTreeSet<RuleId> = cases().map(|case| case.rule).collect();
    assert_eq!(shown.len(), cases().count(), "each once");
    let history: BTreeSet<RuleId> =
        rule::ALL.iter().copied().flatten().map(|rule| rule.id).collect();
    let flaws = harness::pages::read("drivers/c/flaws.toml");
    let from_a_file = |rule: RuleId| {
        FROM_A_FILE.iter().any(|(it, driver)| {
            let named = flaws.split("[[driver]]").find(|row| row.contains(&format!("{driver:?}")));
            *it == rule && named.is_some_and(|row| row.contains(rule.name()))
        })
    };
    let excused = |rule: RuleId| {
        if from_a_file(rule) {
            return Some(());
        }
        let (_, scenario) = AT_THE_DOOR.iter().find(|(it, _)| *it == rule)?;
        let flown = windtunnel::find_scenario(scenario)
            .is_some_and(|scenario| scenario.breaks.contains(&rule));
        (!history.contains(&rule) && (flown || *scenario == "windows_observations.rs"))
            .then_some(())
    };
    let listed = windtunnel::Driver::all().flat_map(windtunnel::Driver::breaks);
    let clients =
        windtunnel::SCENARIOS.iter().copied().flatten().flat_map(|scenario| scenario.breaks);
    let below = harness::memory_client::BAD_CLIENTS.iter().map(|pair| &pair.0);
    let alone = harness::memory_client::BAD_FLIGHTS.iter().chain(harness::sync::BAD_FLIGHTS);
    let alone = alone.map(|pair| &pair.0);
    let named = listed.chain(clients).chain(below).chain(alone);
    let named: BTreeSet<RuleId> = named.copied().collect();
    for rule in RuleId::LIVE.iter().copied() {
        let by_us = verify::find(rule.name()).is_some_and(|entry| entry.obligation == "kernel");
        let known = if by_us { shown.contains(&rule) } else { named.contains(&rule) };
        assert!(known || excused(rule).is_some(), "nothing here breaks {}", rule.name());
    }
}

#[test]
fn a_bad_memory_client_breaks_only_its_rule() {
    let below = harness::memory_client::BAD_CLIENTS.iter();
    let below = below.map(|(rule, client)| (rule, harness::memory_client::fly_client(*client)));
    let alone = harness::memory_client::BAD_FLIGHTS.iter().chain(harness::sync::BAD_FLIGHTS);
    let alone = alone.map(|(rule, fly)| (rule, fly()));
    for (rule, events) in below.chain(alone) {
        let verifier = verified(&events);
        windtunnel::keep_tally(verifier.rule_counts());
        let found: Vec<_> =
            verifier.findings().iter().map(|finding| (finding.rule, finding.component)).collect();
        assert_eq!(found, [(*rule, Component::Client)], "{:?}", verifier.findings());
    }
}
