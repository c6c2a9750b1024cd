//! TDR: engines that hang, are slow, report wrong results and fail, and the effect on clients.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::{
    D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET,
    D3DKMT_DEVICEEXECUTION_STATE,
};
use abi::status::STATUS_DEVICE_REMOVED;
use flight::{Event, EventKind, Log, Passive, RuleId, WaitToken};
use harness::{
    HookPoint, KernelTestbed, PausableGpu, RecordingDriver, flown, good_scenarios, run, softgpu,
    verified,
};
use kernel::{DriverSetup, Handle};
use softgpu::format::{self, Command};
use softgpu::{MemoryPlan, SoftGpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use thunk::Client;
use windtunnel::{HostKind, Outcome, TestClient};

/// A second, in the host's time.
const SECOND: u64 = 10_000_000;

fn test_client(testbed: &KernelTestbed, at: &mut Passive) -> TestClient {
    TestClient::open(Client::new(&testbed.kernel), at).unwrap()
}

/// Lets this many seconds pass.
fn pass(testbed: &KernelTestbed, at: &mut Passive, seconds: u64) {
    let deadline = testbed.host.now() + seconds * SECOND;
    testbed.host.park(at, &WaitToken::new("some time"), Some(deadline));
    testbed.host.run_until_idle(at);
}

fn state(test_client: &TestClient, at: &mut Passive) -> D3DKMT_DEVICEEXECUTION_STATE {
    test_client.client.device_state(at, test_client.device).unwrap()
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.kind.name() == name).count()
}

fn called(events: &[Event], ddi: &str) -> usize {
    let called =
        |event: &&Event| matches!(&event.kind, EventKind::DdiCall { name, .. } if name == ddi);
    events.iter().filter(called).count()
}

fn quiet(events: &[Event]) {
    let verifier = verified(events);
    windtunnel::keep_tally(verifier.rule_counts());
    assert_eq!(verifier.findings(), [], "there are no findings");
}

fn fill(target: u32, offset: u64, value: u8) -> Command {
    Command::Fill { target: Handle(target), offset, length: 4, value }
}

/// The built-in driver, and the driver whose bytes can be read.
fn with_sight() -> (Arc<SoftGpu>, impl FnOnce(&Arc<Log>) -> DriverSetup) {
    let (miniport, machine) = SoftGpu::new();
    let driver = miniport.clone();
    let make = move |log: &Arc<Log>| DriverSetup {
        miniport,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    };
    (driver, make)
}

#[test]
fn a_stuck_engine_is_reset_and_others_keep_their_bytes() {
    for on in (0..20).map(HostKind::deterministic).chain([HostKind::Threaded, HostKind::Threaded]) {
        let (driver, make) = with_sight();
        let events = run(on, make, |testbed, at| {
            let (bad, good) = (test_client(testbed, at), test_client(testbed, at));
            let (hangs, works) =
                (bad.create_context(at).unwrap(), good.create_context(at).unwrap());
            let made = good.create(at, 1).unwrap().allocations[0];
            bad.submit(at, hangs, &[Command::Hang]).unwrap();
            bad.submit(at, hangs, &[]).unwrap();
            for turn in 0..8_u8 {
                let it = fill(made, u64::from(turn) * 4, turn + 1);
                good.submit(at, works, &[it]).unwrap();
            }
            pass(testbed, at, 30);
            assert_eq!(state(&bad, at), D3DKMT_DEVICEEXECUTION_HUNG);
            assert_eq!(state(&good, at), D3DKMT_DEVICEEXECUTION_ACTIVE);
            let right: Vec<u8> = (1..=8).flat_map(|byte| [byte; 4]).collect();
            assert_eq!(driver.read(Handle(made), 0..32), Some(right));
            let later = bad.client.submit(at, hangs, &format::encode(&[]));
            assert_eq!(later, Err(STATUS_DEVICE_REMOVED));
            let again =
                bad.client.create(at, &thunk::CreateAllocation::new(bad.device, vec![vec![]]));
            assert_eq!(again.err(), Some(STATUS_DEVICE_REMOVED));
            good.destroy_list(at, &[made]).unwrap();
            good.close(at, &[works]).unwrap();
            bad.close(at, &[hangs]).unwrap();
        });
        quiet(&events);
        assert_eq!(called(&events, "DxgkDdiResetEngine"), 1);
        assert_eq!(called(&events, "DxgkDdiResetFromTimeout"), 0);
    }
}

#[test]
fn a_slow_engine_is_queried_and_preempted_but_not_reset() {
    for seed in 0..10 {
        let (miniport, gpu) = SoftGpu::new();
        let (driver, slow) = (miniport.clone(), PausableGpu::new(gpu));
        let machine = slow.clone();
        let make = |log: &Arc<Log>| DriverSetup {
            miniport,
            hardware: machine,
            pool: nt::Pool::new(log.clone()),
        };
        let events = run(seed, make, |testbed, at| {
            let test_client = test_client(testbed, at);
            let context = test_client.create_context(at).unwrap();
            let made = test_client.create(at, 1).unwrap().allocations[0];
            slow.pause();
            for turn in 0..4_u8 {
                test_client
                    .submit(at, context, &[fill(made, u64::from(turn) * 4, turn + 1)])
                    .unwrap();
            }
            // Longer than the timeout of a node, and less than twice as long.
            pass(testbed, at, 3);
            slow.resume();
            testbed.host.wake(&testbed.kernel.hardware_work_available(testbed.adapter).unwrap());
            pass(testbed, at, 10);
            assert_eq!(state(&test_client, at), D3DKMT_DEVICEEXECUTION_ACTIVE);
            let right: Vec<u8> = (1..=4).flat_map(|byte| [byte; 4]).collect();
            assert_eq!(driver.read(Handle(made), 0..16), Some(right));
            test_client.destroy_list(at, &[made]).unwrap();
            test_client.close(at, &[context]).unwrap();
        });
        quiet(&events);
        assert_eq!(called(&events, "DxgkDdiPreemptCommand"), 1);
        assert_eq!(called(&events, "DxgkDdiResetEngine"), 0);
        assert_eq!(count(&events, "packet.returned"), 3, "all but the one under way");
        assert_eq!(count(&events, "packet.done"), 4, "each once");
    }
}

/// Drivers that report wrong results, and the rule of each.
#[test]
fn a_driver_with_wrong_reports_is_found_and_every_call_returns() {
    for (driver, rule) in [
        ("kmd-keeps-work-after-reset", RuleId::KMD_TDR_006),
        ("kmd-reports-unsubmitted-aborted-fence", RuleId::KMD_TDR_007),
        ("kmd-skips-reset-from-timeout", RuleId::KMD_TDR_001),
        ("kmd-reports-preemption-unsubmitted-fence", RuleId::KMD_PREEMPT_003),
        ("kmd-keeps-fence-after-reset", RuleId::KMD_TDR_010),
        ("kmd-reports-unsubmitted-fence", RuleId::KMD_ISR_008),
    ] {
        for seed in 0..5 {
            let flown = flown(driver, "tdr-hang", seed);
            let first = flown.findings.first().map(|finding| finding.rule);
            assert_eq!(first, Some(rule), "{driver}, seed {seed}: {:?}", flown.findings);
            assert_eq!(flown.live.count(), 0, "{driver}, seed {seed}:\n{}", flown.live);
        }
    }
}

/// The packets that a preemption gave back are not completed: `DxgkDdiQueryCurrentFence` says so.
#[test]
fn a_preemption_that_reports_the_last_submitted_fence_is_found() {
    for seed in 0..5 {
        let bad = flown("kmd-reports-last-submitted", "tdr-preemption-priority", seed);
        let rules: Vec<_> = bad.findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules.first(), Some(&RuleId::KMD_PREEMPT_003), "seed {seed}: {rules:?}");
        assert_eq!(bad.live.count(), 0, "seed {seed}:\n{}", bad.live);
    }
}

/// A node that has completed packets needs a scenario of its own: the fence of the first packet of
/// an adapter is preceded by zero.
#[test]
fn an_aborted_fence_of_zero_is_found_after_completed_work() {
    for seed in 0..5 {
        let bad = flown("kmd-reports-zero-aborted-fence", "tdr-hang-after-work", seed);
        let rules: Vec<_> = bad.findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules.first(), Some(&RuleId::KMD_TDR_007), "seed {seed}: {rules:?}");
        let good = flown("table", "tdr-hang-after-work", seed);
        assert!(good.findings.is_empty(), "seed {seed}: {:?}", good.findings);
    }
}

#[test]
fn an_adapter_is_reset_for_all_its_clients() {
    for on in (0..10).map(HostKind::deterministic).chain([HostKind::Threaded]) {
        let make = |log: &Arc<Log>| (drivers::find("table-no-engine-reset").unwrap().make)(log);
        let events = run(on, make, |testbed, at| {
            let (bad, good) = (test_client(testbed, at), test_client(testbed, at));
            let context = bad.create_context(at).unwrap();
            bad.submit(at, context, &[Command::Hang]).unwrap();
            pass(testbed, at, 30);
            assert_eq!(state(&bad, at), D3DKMT_DEVICEEXECUTION_HUNG);
            assert_eq!(state(&good, at), D3DKMT_DEVICEEXECUTION_RESET);
            let after = test_client(testbed, at);
            assert_eq!(state(&after, at), D3DKMT_DEVICEEXECUTION_ACTIVE);
            for test_client in [after, good] {
                test_client.close(at, &[]).unwrap();
            }
            bad.close(at, &[context]).unwrap();
        });
        quiet(&events);
        assert_eq!(called(&events, "DxgkDdiResetFromTimeout"), 1);
        assert_eq!(called(&events, "DxgkDdiRestartFromTimeout"), 1);
    }
}

#[test]
fn the_sixth_reset_within_a_minute_stops_the_adapter() {
    for (gap, fatal) in [(1, true), (13, false)] {
        let events = run(1, softgpu, |testbed, at| {
            for turn in 1..=6 {
                testbed.kernel.force_reset(testbed.adapter);
                pass(testbed, at, gap);
                let client = Client::new(&testbed.kernel);
                let adapter = client.adapters(at).unwrap()[0];
                match client.create_device(at, adapter) {
                    Ok(device) => client.destroy_device(at, device).unwrap(),
                    Err(_) => assert!(fatal && turn == 6, "reset {turn}"),
                }
                client.close_adapter(at, adapter).unwrap();
                client.end(at);
            }
        });
        quiet(&events);
        assert_eq!(count(&events, "adapter.fatal"), usize::from(fatal));
        let done = if fatal { 5 } else { 6 };
        assert_eq!(called(&events, "DxgkDdiResetFromTimeout"), done);
    }
}

#[test]
fn an_adapter_whose_reset_fails_blocks_no_thread() {
    for driver in [
        "kmd-fails-reset-from-timeout",
        "kmd-fails-restart-from-timeout",
        "kmd-omits-restart-from-timeout",
    ] {
        for seed in 0..5 {
            let make = |log: &Arc<Log>| (drivers::find(driver).unwrap().make)(log);
            let events = run(seed, make, |testbed, at| {
                let (bad, good) = (test_client(testbed, at), test_client(testbed, at));
                let (hangs, works) =
                    (bad.create_context(at).unwrap(), good.create_context_on(at, 1).unwrap());
                let made = good.create(at, 1).unwrap();
                bad.submit(at, hangs, &[Command::Hang]).unwrap();
                pass(testbed, at, 30);
                assert_ne!(state(&good, at), D3DKMT_DEVICEEXECUTION_ACTIVE);
                let later = good.client.submit(at, works, &format::encode(&[]));
                assert_eq!(later, Err(STATUS_DEVICE_REMOVED));
                let device = good.client.create_device(at, good.adapter);
                assert_eq!(device, Err(STATUS_DEVICE_REMOVED));
                good.destroy_list(at, &made.allocations).unwrap();
                good.close(at, &[works]).unwrap();
                bad.close(at, &[hangs]).unwrap();
            });
            assert_eq!(count(&events, "adapter.fatal"), 1, "{driver}");
        }
    }
}

#[test]
fn a_context_with_a_higher_priority_overtakes_and_nothing_is_done_twice() {
    let overtaken = AtomicU64::new(0);
    for seed in 0..40 {
        let (driver, make) = with_sight();
        let events = run(seed, make, |testbed, at| {
            let test_client = test_client(testbed, at);
            let (low, high) =
                (test_client.create_context(at).unwrap(), test_client.create_context(at).unwrap());
            test_client.client.set_context_priority(at, high, 3).unwrap();
            assert_eq!(test_client.client.context_priority(at, high), Ok(3));
            assert_eq!(test_client.client.context_priority(at, low), Ok(0));
            let made = test_client.create(at, 1).unwrap().allocations[0];
            // Each packet overwrites the previous one: the last one stays.
            for turn in 0..10_u8 {
                test_client.submit(at, low, &[fill(made, 0, turn + 1), fill(made, 8, 1)]).unwrap();
            }
            for turn in 0..3_u8 {
                test_client.submit(at, high, &[fill(made, 4, turn + 1)]).unwrap();
            }
            testbed.host.run_until_idle(at);
            assert_eq!(
                driver.read(Handle(made), 0..12),
                Some(vec![10, 10, 10, 10, 3, 3, 3, 3, 1, 1, 1, 1])
            );
            test_client.destroy_list(at, &[made]).unwrap();
            test_client.close(at, &[low, high]).unwrap();
        });
        quiet(&events);
        assert_eq!(count(&events, "packet.done"), 13, "seed {seed}: each once");
        for context in 1..=2 {
            let mine = |event: &Event| match event.kind {
                EventKind::PacketDone { packet, .. } if event.subject.number == context => {
                    Some(packet)
                }
                _ => None,
            };
            let done: Vec<u64> = events.iter().filter_map(mine).collect();
            assert!(done.is_sorted(), "seed {seed}, context {context}: {done:?}");
        }
        overtaken.fetch_add(count(&events, "packet.returned") as u64, SeqCst);
    }
    assert!(overtaken.into_inner() > 0, "some gave way");
}

#[test]
fn good_drivers_recover_clean_in_many_orders() {
    const NAMES: [&str; 8] = [
        "tdr-hang",
        "tdr-hang-shared-node",
        "tdr-preemption-priority",
        "tdr-preemption-idle-node",
        "tdr-cancel-queued",
        "tdr-adapter-reset",
        "tdr-preempt-paging",
        "tdr-paging-hang",
    ];
    for driver in
        ["softgpu", "table", "softgpu-memory", "table-memory", "softgpu-whole-engine-reset"]
    {
        let good = good_scenarios(driver);
        for scenario in good.iter().filter(|scenario| NAMES.contains(&scenario.name)) {
            for on in
                (0..8).map(HostKind::deterministic).chain([HostKind::Threaded, HostKind::Threaded])
            {
                let flown = flown(driver, scenario.name, on);
                let label = format!("{driver}, {}: {:?}", scenario.name, flown.findings);
                assert_eq!(flown.outcome, Outcome::Clean, "{label}");
                assert_eq!(flown.live.count(), 0, "{label}");
            }
        }
    }
}

#[test]
fn a_driver_that_blocks_its_own_recovery_is_reported_as_stuck() {
    let recorder = RecordingDriver::new(MemoryPlan::default());
    let events = run(
        1,
        |log| recorder.set_up(log),
        |testbed, at| {
            let test_client = test_client(testbed, at);
            let context = test_client.create_context(at).unwrap();
            test_client.submit(at, context, &[]).unwrap();
            testbed.host.run_until_idle(at);
            let made = test_client.create(at, 1).unwrap().allocations[0];
            test_client.submit(at, context, &[Command::Hang]).unwrap();
            let held = WaitToken::new("something outside");
            let (on, ticket) = (testbed.host.clone(), held.clone());
            let first = AtomicBool::new(true);
            recorder.on(HookPoint::Pages, move |_, at| {
                if first.swap(false, SeqCst) {
                    on.park(at, &ticket, None);
                }
                Ok(())
            });
            // No thread can query the node, and endless time would not help.
            assert!(test_client.make_resident(at, &[made]).is_err());
            testbed.host.wake(&held);
            pass(testbed, at, 30);
            assert_eq!(state(&test_client, at), D3DKMT_DEVICEEXECUTION_HUNG);
            test_client.close(at, &[context]).unwrap();
        },
    );
    let stuck =
        verified(&events).findings().iter().any(|finding| finding.rule == RuleId::WT_STUCK_001);
    assert!(stuck, "the wait is reported");
    assert_eq!(called(&events, "DxgkDdiResetEngine"), 1);
}

/// The kernel submits a packet that the driver rejects, between packets that are in flight and
/// packets that wait behind it. Only its device is lost, and nothing is left alive.
#[test]
fn a_rejected_packet_between_others_loses_its_device_only() {
    let refused = |event: &&Event| {
        matches!(&event.kind, EventKind::DdiReturn { name, result, .. }
            if name == "DxgkDdiSubmitCommandVirtual" && result == "invalid")
    };
    for driver in ["softgpu", "softgpu-memory", "table", "table-gpummu"] {
        for host in (0..5)
            .flat_map(|seed| [HostKind::deterministic(seed), HostKind::under_pressure(seed)])
            .chain([HostKind::Threaded])
        {
            let flown = flown(driver, "submit-refused-between-packets", host);
            let context = format!("{driver}, {host:?}: {:?}, {:?}", flown.needs, flown.findings);
            assert_eq!(flown.outcome, Outcome::Clean, "{context}");
            assert_eq!(flown.live.count(), 0, "{context}\n{}", flown.live);
            assert_eq!(flown.events.iter().filter(refused).count(), 1, "{context}");
        }
    }
}
