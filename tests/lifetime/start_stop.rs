//! Starts that fail at every step, and adapters that stop, sleep and are removed: afterwards no
//! object is alive, no forbidden call was made, and no driver memory is leaked.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{Component, Event, EventKind, Kind, Log, Passive, RuleId};
use harness::{KernelTestbed, flown, run, verified};
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverResult, Features, Miniport};
use kernel::power::PowerAction;
use kernel::{DriverSetup, Handle, Kernel};
use softgpu::format::{Command, describe_in, only_in};
use softgpu::{LOCAL, MemoryPlan, SoftGpu};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use thunk::{Client, CreateAllocation, PagingStatus};
use windtunnel::{HostKind, TestClient};

const GOOD: [&str; 4] = ["softgpu", "table", "softgpu-memory", "table-memory"];

const ADD: &str = "DxgkDdiAddDevice";
const START: &str = "DxgkDdiStartDevice";
const QUERY: &str = "DxgkDdiQueryAdapterInfo";
const RELEASE: &str = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership";
const STOP: &str = "DxgkDdiStopDevice";
const REMOVE: &str = "DxgkDdiRemoveDevice";
const UNLOAD: &str = "DxgkDdiUnload";
const POWER: &str = "DxgkDdiSetPowerState";

/// How a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    RefusesBefore,
    RefusesAfter,
    PanicsBefore,
    PanicsAfter,
}

const WAYS: [Way; 4] = [Way::RefusesBefore, Way::RefusesAfter, Way::PanicsBefore, Way::PanicsAfter];

/// A good driver; one step of its start fails, at the `nth` call.
struct Failing {
    good: Arc<dyn Miniport>,
    step: &'static str,
    way: Way,
    nth: u32,
    calls: AtomicU32,
}

impl Failing {
    fn step<T>(
        &self,
        step: &'static str,
        body: impl FnOnce(&dyn Miniport) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let now = step == self.step && self.calls.fetch_add(1, SeqCst) + 1 == self.nth;
        let way = now.then_some(self.way);
        let answer = match way {
            Some(Way::RefusesBefore) => return Err(DriverError::NoMemory),
            Some(Way::PanicsBefore) => resume_unwind(Box::new("on purpose")),
            _ => body(&*self.good),
        };
        match way {
            Some(Way::RefusesAfter) => Err(DriverError::NoMemory),
            Some(Way::PanicsAfter) => resume_unwind(Box::new("on purpose")),
            _ => answer,
        }
    }
}

impl Miniport for Failing {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.step(ADD, |entry| entry.add_device(at, services))
    }

    fn start_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.step(START, |entry| entry.start_device(at))
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        self.step(QUERY, |entry| entry.query_adapter_info(at))
    }
}

fn set_up(log: &Arc<Log>, driver: &str, step: &'static str, way: Way, nth: u32) -> DriverSetup {
    let good = (drivers::find(driver).unwrap().make)(log);
    let calls = AtomicU32::new(0);
    let miniport = Arc::new(Failing { good: good.miniport, step, way, nth, calls });
    DriverSetup { miniport, ..good }
}

/// The DDIs that were called, in order.
fn calls(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::DdiCall { name, .. } => Some(&**name),
            _ => None,
        })
        .collect()
}

/// Findings blame the driver; a driver that fails before it did anything breaks no rule, except
/// that its start failed: the kernel does not know that this test injects the failure.
fn judge(events: &[Event], way: Way, which: &str) {
    let verifier = verified(events);
    windtunnel::keep_tally(verifier.rule_counts());
    for finding in verifier.findings() {
        assert_eq!(finding.component, Component::Driver, "{which}: {}", finding.message);
        let start = finding.rule == RuleId::WT_START_001 && which.contains(START);
        assert!(start || way != Way::RefusesBefore, "{which}: {}", finding.message);
    }
    let failed = verifier.findings().iter().any(|finding| finding.rule == RuleId::WT_START_001);
    let refuses = matches!(way, Way::RefusesBefore | Way::RefusesAfter);
    assert_eq!(failed, which.contains(START) && refuses, "{which}");
    let left = events.iter().any(|event| matches!(event.kind, EventKind::PoolLeaked { .. }));
    // Memory that a driver allocated and forgot is not freed by any other component.
    let lost = matches!(way, Way::RefusesAfter | Way::PanicsAfter);
    assert!(!left || lost, "{which}: its pool is not empty");
}

#[test]
fn a_start_that_fails_at_any_step_is_undone() {
    let after = [
        (ADD, vec![ADD, UNLOAD]),
        (START, vec![ADD, START, REMOVE, UNLOAD]),
        (QUERY, vec![ADD, START, QUERY, STOP, REMOVE, UNLOAD]),
    ];
    for driver in GOOD {
        for (step, expected) in &after {
            for way in WAYS {
                let which = format!("{driver}, {step} {way:?}");
                let log = Arc::new(Log::new());
                let setup = set_up(&log, driver, step, way, 1);
                let fly = HostKind::deterministic(1).fly(&log, |host, at| {
                    let kernel = Kernel::new(host.clone(), log.clone());
                    let refused = kernel.add_adapter(at, setup).unwrap_err();
                    assert_eq!(refused.entry, *step, "{which}");
                    assert_eq!(kernel.live_objects().count(), 0, "{which}");
                    assert!(kernel.adapters().is_empty(), "{which}");
                });
                fly.unwrap_or_else(|why| panic!("{which}: {}", why.0));
                let events = log.take();
                assert_eq!(calls(&events), *expected, "{which}");
                judge(&events, way, &which);
            }
        }
    }
}

#[test]
fn an_adapter_that_does_not_start_again_is_removed() {
    for driver in GOOD {
        for step in [START, QUERY] {
            for way in WAYS {
                let which = format!("{driver}, {step} {way:?} again");
                let events = run(
                    1,
                    |log| set_up(log, driver, step, way, 2),
                    |testbed, at| {
                        let client = Client::new(&testbed.kernel);
                        let adapter = client.adapters(at).unwrap()[0];
                        testbed.kernel.stop_adapter(at, testbed.adapter);
                        let refused =
                            testbed.kernel.start_adapter(at, testbed.adapter).unwrap_err();
                        assert_eq!(refused.entry, step, "{which}");
                        let again = testbed.kernel.start_adapter(at, testbed.adapter);
                        assert_eq!(again.unwrap_err().why, DriverError::Busy, "{which}");
                        client.close_adapter(at, adapter).unwrap();
                        client.end(at);
                    },
                );
                let called = calls(&events);
                assert_eq!(called.iter().filter(|text| **text == ADD).count(), 1, "{which}");
                assert_eq!(called.iter().filter(|text| **text == START).count(), 2, "{which}");
                assert_eq!(called[called.len() - 2..], [REMOVE, UNLOAD], "{which}");
                judge(&events, way, &which);
            }
        }
    }
}

#[test]
fn an_adapter_is_added_once_and_started_repeatedly() {
    for driver in GOOD {
        let called = flown(driver, "pnp-restart", 1);
        let called = calls(&called.events);
        let count = |name| called.iter().filter(|text| **text == name).count();
        assert_eq!(
            (count(ADD), count(START), count(STOP), count(REMOVE)),
            (1, 3, 3, 1),
            "{driver}"
        );
    }
}

/// A driver that queues its DPC while it stops and while it starts, as a late thread of its own
/// may.
struct LateDpc {
    good: Arc<dyn Miniport>,
    callbacks: std::sync::OnceLock<Arc<KernelCallbacks>>,
}

impl Miniport for LateDpc {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        let _ = self.callbacks.set(services.clone());
        self.good.add_device(at, services)
    }

    fn start_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.callbacks.get().unwrap().queue_dpc();
        self.good.start_device(at)
    }

    fn stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.callbacks.get().unwrap().queue_dpc();
        self.good.stop_device(at)
    }
}

#[test]
fn a_dpc_queued_around_a_stop_does_not_block_later_ones() {
    let set_up = |log: &Arc<Log>| {
        let (good, hardware) = SoftGpu::new();
        let miniport = Arc::new(LateDpc { good, callbacks: <_>::default() });
        DriverSetup { miniport, hardware, pool: nt::Pool::new(log.clone()) }
    };
    let events = run(1, set_up, |testbed, at| {
        for _ in 0..3 {
            let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
            let context = test_client.create_context(at).unwrap();
            test_client.submit(at, context, &[]).unwrap();
            testbed.host.run_until_idle(at);
            test_client.close(at, &[context]).unwrap();
            testbed.kernel.stop_adapter(at, testbed.adapter);
            testbed.kernel.start_adapter(at, testbed.adapter).unwrap();
        }
    });
    let done = events.iter().filter(|event| event.kind.name() == "packet.done").count();
    assert_eq!(done, 3, "every start completes its packet");
    let queued = |it: bool| {
        let same = |event: &&Event| matches!(event.kind, EventKind::DpcQueued { inserted } if inserted == it);
        events.iter().filter(same).count()
    };
    assert!(queued(false) >= 3, "the DPC of a stopping driver is refused");
    assert!(queued(true) >= 6);
    assert!(!events.iter().any(|event| event.kind.name() == "wait.stuck"));
}

#[test]
fn stop_and_release_display_comes_before_plain_stop() {
    let good = flown("table", "create-standalone", 1);
    let called = calls(&good.events);
    assert_eq!(called[called.len() - 4..], [RELEASE, STOP, REMOVE, UNLOAD]);
    let bad = flown("kmd-releases-missing-post-display", "create-standalone", 1);
    let called = calls(&bad.events);
    assert_eq!(called[called.len() - 3..], [RELEASE, REMOVE, UNLOAD]);
    assert_eq!(bad.findings.first().map(|finding| finding.rule), Some(RuleId::KMD_PNP_007));
}

fn with_memory() -> (Arc<SoftGpu>, impl FnOnce(&Arc<Log>) -> DriverSetup) {
    let ram = nt::Ram::new(256 << 20).unwrap();
    let (driver, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
    let miniport = driver.clone();
    (driver, |log: &Arc<Log>| DriverSetup {
        miniport,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    })
}

/// A client with a filled allocation in memory that loses its contents without power.
fn filled(testbed: &KernelTestbed, at: &mut Passive) -> (TestClient, u32, u32) {
    let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
    let context = test_client.create_context(at).unwrap();
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let create = CreateAllocation::new(test_client.device, vec![describe_in(8192, 4096, &wants)]);
    let it = test_client.create_with(at, &create).unwrap().allocations[0];
    let fill = Command::Fill { target: Handle(it), offset: 0, length: 8192, value: 0x5a };
    test_client.submit(at, context, &[fill]).unwrap();
    testbed.host.run_until_idle(at);
    (test_client, context, it)
}

#[test]
fn bytes_and_addresses_are_the_same_after_sleep() {
    let (driver, set_up) = with_memory();
    let events = run(1, set_up, |testbed, at| {
        let (test_client, context, it) = filled(testbed, at);
        let where_it_is = |test_client: &TestClient| {
            let session = test_client.client.session();
            testbed.kernel.address_of(session.process(), Handle(it))
        };
        let before = where_it_is(&test_client).unwrap();
        assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep));
        assert!(!testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep), "it sleeps");
        assert_eq!(where_it_is(&test_client), None, "it is in no segment");
        assert!(testbed.kernel.power_up(at, testbed.adapter));
        assert!(!testbed.kernel.power_up(at, testbed.adapter), "it does not sleep");
        assert_eq!(where_it_is(&test_client), Some(before));
        assert_eq!(driver.read(Handle(it), 0..8192).unwrap(), vec![0x5a; 8192]);
        test_client.close(at, &[context]).unwrap();
    });
    assert_eq!(verified(&events).findings(), []);
}

#[test]
fn a_reused_location_does_not_change_bytes() {
    let (driver, set_up) = with_memory();
    let events = run(1, set_up, |testbed, at| {
        let (test_client, context, it) = filled(testbed, at);
        let mut wants = only_in(&[LOCAL]);
        wants.flags.cpu_visible = false;
        let create =
            CreateAllocation::new(test_client.device, vec![describe_in(8192, 4096, &wants)]);
        let other = test_client.create_with(at, &create).unwrap().allocations[0];
        let queue = test_client.paging_queue(at).unwrap();
        assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep));
        // It gets the location of the other allocation.
        let made = test_client.client.make_resident(at, queue.queue, &[other], 0).unwrap();
        testbed.host.run_until_idle(at);
        assert!(testbed.kernel.power_up(at, testbed.adapter));
        let PagingStatus::Pending(value) = made else { panic!("{made:?}") };
        test_client.client.wait(at, test_client.device, queue.fence, value).unwrap();
        assert_eq!(driver.read(Handle(it), 0..8192).unwrap(), vec![0x5a; 8192]);
        assert_eq!(driver.read(Handle(other), 0..8192).unwrap(), vec![0; 8192]);
        test_client.close(at, &[context]).unwrap();
    });
    assert_eq!(verified(&events).findings(), []);
}

#[test]
fn no_call_is_inside_a_sleeping_driver() {
    for driver in GOOD {
        let mut gpu_wait = 0;
        for seed in 0..20 {
            let events = flown(driver, "power-cycle-two-clients", seed).events;
            let mut sleeps = false;
            for event in &events {
                match &event.kind {
                    EventKind::AdapterPowered { state } => sleeps = state == "d3",
                    EventKind::DdiCall { name, .. } if sleeps => {
                        assert_eq!(name, POWER, "seed {seed}");
                    }
                    EventKind::WaitParked { .. } if sleeps => gpu_wait += 1,
                    _ => (),
                }
            }
        }
        assert!(gpu_wait > 0, "{driver}: a thread waited");
    }
}

#[test]
fn a_sleeping_adapter_can_be_removed_stopped_and_surprise_removed() {
    type End = fn(&Kernel, &mut Passive, kernel::AdapterId);
    let ends: [(End, bool); 4] = [
        (Kernel::remove_adapter, true),
        (Kernel::stop_adapter, true),
        (Kernel::reset_adapter, true),
        (Kernel::surprise_remove_adapter, false),
    ];
    for (end, wakes) in ends {
        let (_, set_up) = with_memory();
        let events = run(1, set_up, |testbed, at| {
            let (test_client, context, _) = filled(testbed, at);
            assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::None));
            end(&testbed.kernel, at, testbed.adapter);
            test_client.close(at, &[context]).unwrap();
        });
        let woken = events
            .iter()
            .any(|event| event.kind == EventKind::AdapterPowered { state: "d0".into() });
        assert_eq!(woken, wakes);
        assert_eq!(verified(&events).findings(), []);
    }
}

#[test]
fn surprise_removed_hardware_has_no_work() {
    const TOUCH: [&str; 5] = [
        "DxgkDdiSubmitCommandVirtual",
        "DxgkDdiSubmitCommand",
        "DxgkDdiBuildPagingBuffer",
        "DxgkDdiInterruptRoutine",
        RELEASE,
    ];
    for driver in GOOD {
        for seed in 0..20 {
            let flown = flown(driver, "pnp-surprise-removal", seed);
            assert!(flown.rule_counts.count_of(RuleId::KMD_PNP_010) > 0);
            let pulled = |event: &Event| event.kind == EventKind::AdapterSurpriseRemoved {};
            let at = flown.events.iter().position(pulled).unwrap();
            let after = calls(&flown.events[at..]);
            assert!(after.iter().all(|text| !TOUCH.contains(text)), "{driver}, {seed}: {after:?}");
            assert_eq!(after[after.len() - 3..], [STOP, REMOVE, UNLOAD], "{driver}, seed {seed}");
            let about = |event: &&Event| event.subject.kind == Kind::Device;
            let lost =
                flown.events.iter().filter(about).any(|event| event.kind.name() == "device.lost");
            assert!(lost, "{driver}, seed {seed}: its work was in flight");
        }
    }
}

#[test]
fn the_second_removal_of_an_adapter_waits_for_the_first() {
    for seed in 0..20 {
        let (_, set_up) = with_memory();
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, _) = filled(testbed, at);
            let adapter = testbed.adapter;
            let spawn = |name, end: fn(&Kernel, &mut Passive, kernel::AdapterId)| {
                let kernel = testbed.kernel.clone();
                testbed.host.spawn(name, move |at| end(&kernel, at, adapter))
            };
            let ends = [
                spawn("stops", Kernel::stop_adapter),
                spawn("removes", Kernel::remove_adapter),
                spawn("pulls", Kernel::surprise_remove_adapter),
            ];
            for end in &ends {
                testbed.host.park(at, end, None);
            }
            test_client.close(at, &[context]).unwrap();
        });
        let called = calls(&events);
        let count = |name| called.iter().filter(|text| **text == name).count();
        assert_eq!((count(STOP), count(REMOVE), count(UNLOAD)), (1, 1, 1), "seed {seed}");
        assert_eq!(verified(&events).findings(), [], "seed {seed}");
    }
}

#[test]
fn every_pnp_rule_is_evaluated() {
    let drivers = ["table", "table-memory", "softgpu-memory"];
    let scenarios =
        ["pnp-restart", "pnp-surprise-removal", "power-cycle-with-work", "pnp-reset-device"];
    let pnp = RuleId::LIVE.iter().filter(|rule_id| rule_id.name().starts_with("KMD-PNP-"));
    let mut tally = flight::RuleCounts::default();
    for driver in drivers {
        for scenario in scenarios {
            tally.add(&flown(driver, scenario, 1).rule_counts);
        }
    }
    let pnp: Vec<&RuleId> = pnp.collect();
    assert_eq!(pnp.len(), 11);
    for rule in pnp {
        assert!(tally.count_of(*rule) > 0, "{} judged nothing", rule.name());
    }
}

/// A driver without nodes.
struct NoNodes(Arc<dyn Miniport>);

impl Miniport for NoNodes {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.0)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        Ok(Features { nodes: 0, ..self.0.query_adapter_info(at)? })
    }
}

#[test]
fn a_driver_that_reports_zero_nodes_is_told_so() {
    let (miniport, hardware) = SoftGpu::new();
    let flown = windtunnel::Flight::new(Arc::new(NoNodes(miniport)), hardware).fly(|_| Ok(()));
    let expected = "a driver that starts: DxgkDdiQueryAdapterInfo succeeded and reported zero \
                    nodes; an adapter has 1 to 64";
    assert_eq!(flown.needs, [expected]);
}

#[test]
fn a_start_that_fails_is_a_finding_only_on_modelled_hardware() {
    let fly = |modelled: bool| {
        let make = move |log: &Arc<Log>| {
            let setup = set_up(log, "softgpu", START, Way::RefusesBefore, 1);
            let bare: Arc<dyn flight::HardwareModel> = Arc::new(windtunnel::NoHardware);
            DriverSetup { hardware: if modelled { setup.hardware.clone() } else { bare }, ..setup }
        };
        let flown = windtunnel::Flight::with_setup(make).fly(|_| Ok(()));
        flown.findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(fly(true), [RuleId::WT_START_001]);
    assert_eq!(fly(false), []);
}
