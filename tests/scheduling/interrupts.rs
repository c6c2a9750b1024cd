//! Interrupts: the rules that good flights judge, the findings of bad drivers, and the results of
//! callbacks.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{Component, DeviceLevel, EventKind, Fence, Log, Passive, RuleCounts, RuleId};
use harness::{KernelTestbed, flown, good_scenarios, run, verified};
use kernel::DriverSetup;
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverResult, Interrupt, Miniport};
use softgpu::{Gpu, MemoryPlan, NODES, SoftGpu};
use std::sync::{Arc, Mutex, OnceLock};
use thunk::Client;
use windtunnel::{HostKind, Outcome, TestClient};

/// The interrupt routine of a [`Reporter`].
type Routine = fn(&Reporter, &mut DeviceLevel, &KernelCallbacks) -> bool;

/// The built-in driver with another interrupt routine.
struct Reporter {
    driver: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
    services: OnceLock<Arc<KernelCallbacks>>,
    routine: Routine,
    answers: Mutex<Vec<bool>>,
}

impl Reporter {
    fn new(routine: Routine) -> Arc<Self> {
        let ram = nt::Ram::new(256 << 20).unwrap();
        let (driver, gpu) = SoftGpu::with_memory(ram, MemoryPlan::default());
        let (services, answers) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { driver, gpu, services, routine, answers })
    }

    fn set_up(self: &Arc<Self>, log: &Arc<Log>) -> DriverSetup {
        let (miniport, machine) = (self.clone(), self.gpu.clone());
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }
}

impl Miniport for Reporter {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.services.get_or_init(|| services.clone());
        self.driver.add_device(at, services)
    }

    fn interrupt_routine(&self, at: &mut DeviceLevel) -> DriverResult<bool> {
        Ok((self.routine)(self, at, self.services.get().unwrap()))
    }
}

/// A device fills an allocation.
fn fill(testbed: &KernelTestbed, at: &mut Passive) {
    let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
    let context = test_client.create_context(at).unwrap();
    let one = test_client.create(at, 1).unwrap().allocations[0];
    test_client.fill(at, context, one).unwrap();
    testbed.host.run_until_idle(at);
    test_client.close(at, &[context]).unwrap();
}

#[test]
fn good_flights_judge_every_rule_on_interrupts() {
    let judged = |driver: &str| {
        let mut tally = RuleCounts::default();
        for scenario in good_scenarios(driver) {
            let flown = flown(driver, scenario.name, 1);
            assert_eq!(flown.outcome, Outcome::Clean, "{driver}, {}", scenario.name);
            tally.add(&flown.rule_counts);
        }
        let live = RuleId::LIVE.iter().filter(|rule_id| rule_id.name().starts_with("KMD-ISR"));
        live.filter(|rule_id| tally.count_of(**rule_id) == 0)
            .map(|rule_id| rule_id.name())
            .collect::<Vec<_>>()
    };
    // Without memory there are no faults.
    assert_eq!(judged("table"), ["KMD-ISR-010"]);
    // The types enforce these rules for a driver in Rust.
    let typed = ["001", "003", "005", "010", "011", "013"];
    assert_eq!(judged("softgpu"), typed.map(|text| format!("KMD-ISR-{text}")));
}

#[test]
fn a_page_fault_is_reported_by_a_driver_with_a_table() {
    let flown = flown("table-memory", "residency-use-never-resident", 1);
    let found: Vec<_> =
        flown.findings.iter().map(|finding| (finding.rule, finding.component)).collect();
    assert_eq!(found, [(RuleId::RESID_MAKE_005, Component::Client)]);
    assert_ne!(flown.rule_counts.count_of(RuleId::KMD_ISR_010), 0);
}

#[test]
fn a_further_request_for_the_dpc_is_answered_false_and_does_nothing() {
    for on in [HostKind::deterministic(1), HostKind::Threaded] {
        let driver = Reporter::new(|it, at, services| {
            let ours = it.driver.interrupt_routine(at).unwrap();
            if ours {
                it.answers.lock().unwrap().push(services.queue_dpc());
            }
            ours
        });
        let events = run(on, |log| driver.set_up(log), fill);
        assert!(verified(&events).findings().is_empty());
        let answers = driver.answers.lock().unwrap();
        assert!(!answers.is_empty() && answers.iter().all(|fresh| !fresh), "{answers:?}");
        let called = |name: &str| {
            let is = |kind: &EventKind| matches!(kind, EventKind::DdiCall { name: kind, .. } if *kind == *name);
            events.iter().filter(|event| is(&event.kind)).count()
        };
        assert_eq!(called("DxgkDdiDpcRoutine"), called("DxgkDdiInterruptRoutine"));
        assert_eq!(called("DxgkDdiDpcRoutine"), answers.len());
    }
}

/// Reports completed packets as faults of packets that the driver does not know.
fn unknown_faults(it: &Reporter, at: &mut DeviceLevel, services: &KernelCallbacks) -> bool {
    let mut ours = false;
    for node in 0..NODES {
        for _ in it.gpu.take_completions(node) {
            services.notify_unknown_fault(at, node);
            ours = true;
        }
    }
    if ours {
        services.queue_dpc();
    }
    ours
}

#[test]
fn a_fault_of_an_unknown_packet_loses_one_device() {
    let driver = Reporter::new(unknown_faults);
    let events = run(1, |log| driver.set_up(log), fill);
    let fences: Vec<Fence> = events
        .iter()
        .filter_map(|event| {
            if let EventKind::FenceReported { fence } = event.kind { Some(fence) } else { None }
        })
        .collect();
    assert!(fences.len() > 1, "paging and a packet");
    let lost = events.iter().filter(|event| event.kind.name() == "device.lost");
    assert_eq!(lost.count(), 1, "of the packet, not of paging");
    let kept = |rule| verified(&events).findings().iter().all(|finding| finding.rule != rule);
    assert!(kept(RuleId::KMD_ISR_008) && kept(RuleId::KMD_ISR_009));
}

#[test]
fn vsyncs_arrive_when_enabled() {
    for driver in ["softgpu", "table", "softgpu-memory"] {
        let flown = flown(driver, "interrupt-vsync-control", 1);
        let names: Vec<&str> = flown.events.iter().map(|event| event.kind.name()).collect();
        let last = |name: &str| names.iter().rposition(|it| *it == name).unwrap();
        assert!(last("vsync.reported") < last("vsync.switched"), "{driver}");
    }
}

#[test]
fn only_vsync_interrupts_are_switched() {
    let driver = Reporter::new(|it, at, _| it.driver.interrupt_routine(at).unwrap());
    run(
        1,
        |log| driver.set_up(log),
        |testbed, at| {
            let switch = |at: &mut Passive, of| {
                testbed.kernel.control_interrupt(at, testbed.adapter, of, true)
            };
            assert_eq!(switch(at, Interrupt::Completed), Err(DriverError::Unimplemented));
            assert_eq!(switch(at, Interrupt::Vsync), Ok(()));
            testbed.host.run_until_idle(at);
        },
    );
}

#[test]
fn the_message_of_a_bad_driver_names_its_fault() {
    for (driver, scenario, message) in [
        (
            "kmd-claims-every-interrupt",
            "interrupt-shared-line",
            "the driver returned TRUE for an interrupt that its hardware did not raise",
        ),
        (
            "kmd-leaves-interrupt-asserted",
            "interrupt-vsync-control",
            "the driver returned TRUE for an interrupt and left its interrupt source asserted",
        ),
        (
            "kmd-indicates-child-in-isr",
            "submit-fill-and-copy",
            "DxgkCbIndicateChildStatus was called from the interrupt routine",
        ),
        (
            "kmd-reports-missing-node",
            "submit-fill-and-copy",
            "node 8 reported, but adapter 1 has 2 nodes",
        ),
        (
            "kmd-synchronizes-wrong-message",
            "submit-fill-and-copy",
            "MessageNumber is 1, but a line interrupt has 0",
        ),
        (
            "kmd-ignores-vsync-enable",
            "interrupt-vsync-control",
            "vsync interrupts are enabled, but the driver has reported none, and the hardware is \
             idle",
        ),
    ] {
        let flown = flown(driver, scenario, 1);
        assert_eq!(flown.findings[0].message, message, "{driver}");
        assert_eq!(flown.findings[0].component, Component::Driver, "{driver}");
    }
}
