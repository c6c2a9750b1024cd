//! Real threads: a good driver flies clean and leaks nothing, whatever the thread order.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{Event, EventKind, Log, RuleId, Subject, ThreadedHost};
use harness::{VariantDriver, flown, good_scenarios, repeats, run, softgpu, verified};
use kernel::Kernel;
use kernel::miniport::Generation;
use std::collections::BTreeMap;
use std::sync::Arc;
use thunk::Client;
use windtunnel::{HostKind, Outcome, SCENARIOS, TestClient};

/// Flies every good scenario repeatedly. Returns how often each rule was judged.
fn many(driver: &str, runs: u64, rule: RuleId) -> u64 {
    let good = good_scenarios(driver);
    let mut judged = 0;
    for run in 0..runs {
        for scenario in &good {
            let flown = flown(driver, scenario.name, HostKind::Threaded);
            let label = || format!("{driver}, {}, run {run}", scenario.name);
            assert_eq!(flown.outcome, Outcome::Clean, "{}: {:?}", label(), flown.findings);
            assert!(flown.findings.is_empty(), "{}: {:?}", label(), flown.findings);
            assert_eq!(flown.live.count(), 0, "{}:\n{}", label(), flown.live);
            judged += flown.rule_counts.count_of(rule);
        }
    }
    judged
}

#[test]
fn the_built_in_driver_flies_clean_many_times() {
    assert!(many("softgpu", repeats(20, 100), RuleId::KMD_LEVEL_003) > 0);
}

#[test]
fn the_built_in_driver_with_memory_flies_clean_many_times() {
    assert!(many("softgpu-memory", repeats(20, 100), RuleId::KMD_PAGING_025) > 0);
}

#[test]
fn a_table_driver_flies_clean_many_times() {
    assert!(many("table", repeats(20, 100), RuleId::KMD_LEVEL_004) > 0);
}

#[test]
fn a_driver_that_moves_resources_flies_clean_many_times() {
    assert!(many("table-resource-handle-changes", repeats(10, 50), RuleId::KMD_ALLOC_010) > 0);
}

/// The observed calls of two threads of one process, on one device.
struct Seen {
    /// How often a call of that name began while another was inside.
    inside: usize,
    /// How often a thread had to wait for its permit.
    parked: usize,
    /// How often each rule was judged.
    judged: BTreeMap<&'static str, u64>,
}

/// Flies two threads that create and submit, each to its node, as fast as possible, until `seen` is
/// satisfied.
fn rush(generation: Generation, call: &str, seen: impl Fn(&Seen) -> bool) -> Seen {
    let mut all = Seen { inside: 0, parked: 0, judged: BTreeMap::new() };
    // How often they overlap depends on the machine; never overlapping in all runs would be a bug.
    for _ in 0..500 {
        let driver = VariantDriver::of(generation);
        let events = run(
            HostKind::Threaded,
            |log| driver.set_up(log),
            |testbed, at| {
                driver.yield_in_calls(&testbed.host);
                let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
                let rush = |test_client: TestClient, node| {
                    move |at: &mut flight::Passive| {
                        let context = test_client.create_context_on(at, node).unwrap();
                        for _ in 0..10 {
                            test_client.submit(at, context, &[]).unwrap();
                            let made = test_client.create_resource(at, 1).unwrap();
                            test_client.destroy_resource(at, made.resource).unwrap();
                        }
                        test_client.client.destroy_context(at, context).unwrap();
                    }
                };
                let ends = [("one", 0), ("two", 1)]
                    .map(|(name, node)| testbed.host.spawn(name, rush(test_client.clone(), node)));
                for end in &ends {
                    testbed.host.park(at, end, None);
                }
                test_client.close(at, &[]).unwrap();
            },
        );
        let verifier = verified(&events);
        assert!(verifier.findings().is_empty(), "{:?}", verifier.findings());
        windtunnel::keep_tally(verifier.rule_counts());
        for rule in [RuleId::KMD_LEVEL_003, RuleId::KMD_LEVEL_004, RuleId::KMD_LEVEL_006] {
            *all.judged.entry(rule.name()).or_default() += verifier.rule_counts().count_of(rule);
        }
        all.inside += overlaps(&events, call);
        let parked = |event: &&Event| match &event.kind {
            EventKind::WaitParked { why } => why.starts_with("a permit"),
            _ => false,
        };
        all.parked += events.iter().filter(parked).count();
        if seen(&all) {
            break;
        }
    }
    all
}

/// How often a call of that name began while another was inside.
fn overlaps(events: &[Event], call: &str) -> usize {
    let mut inside: Vec<Subject> = Vec::new();
    let mut overlaps = 0;
    for event in events {
        match &event.kind {
            EventKind::DdiCall { name, .. } if name == call => {
                overlaps += usize::from(!inside.is_empty());
                inside.push(event.subject);
            }
            EventKind::DdiReturn { .. } => inside.retain(|subject| *subject != event.subject),
            _ => (),
        }
    }
    overlaps
}

#[test]
fn two_threads_that_submit_at_once_are_inside_one_after_the_other() {
    let seen = rush(Generation::Two, "DxgkDdiSubmitCommandVirtual", |seen| seen.parked > 0);
    assert!(seen.parked > 0, "one had to wait for the other");
    assert_eq!(seen.inside, 0);
    assert!(seen.judged["KMD-LEVEL-003"] > 0 && seen.judged["KMD-LEVEL-004"] > 0);
}

#[test]
fn two_threads_of_a_process_are_inside_a_driver_of_the_second_generation_at_once() {
    let seen = rush(Generation::Two, "DxgkDdiCreateAllocation", |seen| seen.inside > 0);
    assert!(seen.inside > 0, "they really run side by side");
}

#[test]
fn two_threads_of_a_process_are_never_inside_a_driver_of_the_first_generation_at_once() {
    let seen = rush(Generation::One, "DxgkDdiCreateAllocation", |seen| seen.parked > 0);
    assert!(seen.parked > 0, "one had to wait for the other");
    assert_eq!(seen.inside, 0);
    assert!(seen.judged["KMD-LEVEL-006"] > 0);
}

#[test]
fn every_bad_driver_is_reported_when_threads_run_side_by_side() {
    let good = || SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.is_empty());
    for driver in drivers::ALL.iter().filter(|listed| !listed.breaks.is_empty()) {
        let names = |scenario: &windtunnel::Scenario| {
            let flown = flown(driver.name, scenario.name, HostKind::Threaded);
            flown.findings.iter().any(|finding| driver.breaks.contains(&finding.rule))
        };
        // Some drivers are wrong only while two threads are inside, which is up to the system.
        let rounds = 1..=20;
        assert!(rounds.into_iter().any(|_| good().any(names)), "{} is not named", driver.name);
    }
}

/// As in a program in C: its threads call at any time, and the host exists all the time.
#[test]
fn threads_of_a_program_call_a_global_kernel() {
    let log = Arc::new(Log::new());
    let host = ThreadedHost::new(&log);
    let kernel = Kernel::new(host.clone(), log.clone());
    let worker = kernel.clone();
    host.spawn_worker("system", kernel.work_available(), move |at| worker.run_pending_work(at));
    let adapter = host.adopt("starts", |at| kernel.add_adapter(at, softgpu(&log)).unwrap());
    let spawner: Arc<dyn flight::Spawner> = host.clone();
    kernel.start_workers(&spawner, adapter);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Adopted anew for each call.
                let open = |at: &mut _| TestClient::open(Client::new(&kernel), at).unwrap();
                let test_client = host.adopt("program", open);
                let context =
                    host.adopt("program", |at| test_client.create_context_on(at, 1).unwrap());
                for _ in 0..10 {
                    let made =
                        host.adopt("program", |at| test_client.create_resource(at, 2).unwrap());
                    let target = made.allocations[0];
                    host.adopt("program", |at| test_client.fill(at, context, target).unwrap());
                    host.adopt("program", |at| {
                        test_client.destroy_resource(at, made.resource).unwrap();
                    });
                }
                host.adopt("program", |at| test_client.close(at, &[context]).unwrap());
            });
        }
    });
    host.adopt("stops", |at| {
        host.run_until_idle(at);
        kernel.remove_adapter(at, adapter);
    });
    host.end().unwrap();
    let left = kernel.live_objects();
    assert_eq!(left.count(), 0, "{left}");
    let events = log.take();
    assert!(verified(&events).findings().is_empty());
    assert!(events.iter().all(|event| event.thread <= 6), "numbers stay small");
}
