//! Context allocations that engines save contexts into: created inside `DxgkDdiCreateContext`,
//! used, moved, freed at any moment, and kept as long as an engine can reach them.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{Event, EventKind, Kind, Passive, RuleId, Subject};
use harness::memory_client::pages_of_each;
use harness::{HookPoint, KernelTestbed, RecordingDriver, flown, good_scenarios, run, verified};
use kernel::miniport::DriverError;
use kernel::{Handle, MakeResidentRequest, Residency};
use softgpu::format::{self, Command};
use softgpu::{MemoryPlan, Registers, SAVED_AT};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use thunk::{Client, CreateAllocation};
use windtunnel::{HostKind, Outcome};

const PAGE: u64 = 4096;
/// The driver handle of allocations that the tests create beside the driver.
const DRIVER_HANDLE: usize = 0x5a5a_0000;

/// Little memory: some areas and an allocation fill it.
const SMALL: MemoryPlan = pages_of_each(2);

struct Fixture {
    client: Client,
    adapter: u32,
    device: u32,
    recorder: Arc<RecordingDriver>,
}

impl Fixture {
    fn open(testbed: &KernelTestbed, at: &mut Passive, recorder: &Arc<RecordingDriver>) -> Self {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        Self { client, adapter, device, recorder: recorder.clone() }
    }

    fn context(&self, at: &mut Passive, node: u32) -> u32 {
        self.client.create_context(at, self.device, node).unwrap()
    }

    /// A packet without commands.
    fn packet(&self, at: &mut Passive, context: u32) {
        self.client.submit(at, context, &format::encode(&[])).unwrap();
    }

    /// Makes new allocations resident until no page is free.
    fn press(&self, testbed: &KernelTestbed, at: &mut Passive, pages: usize) {
        let process = self.client.session().process();
        let queue = testbed.kernel.create_paging_queue(process, Handle(self.device), 0).unwrap();
        for _ in 0..pages {
            let create = CreateAllocation::new(self.device, vec![format::describe(PAGE)]);
            let list = self.client.create(at, &create).unwrap().allocations;
            let list = list.iter().map(|number| Handle(*number)).collect();
            let request =
                MakeResidentRequest { queue: queue.queue, list, ..MakeResidentRequest::default() };
            if let Ok(Residency::Pending(value)) = testbed.kernel.make_resident(process, &request) {
                testbed.kernel.wait_queue(at, process, queue.fence, value).unwrap();
            }
        }
    }

    fn close(&self, at: &mut Passive, contexts: &[u32]) {
        for context in contexts {
            self.client.destroy_context(at, *context).unwrap();
        }
        self.client.destroy_device(at, self.device).unwrap();
        self.client.close_adapter(at, self.adapter).unwrap();
        self.client.end(at);
    }

    /// The number of packets that the engines saved for each context with an area.
    fn packets(&self) -> Vec<Option<u64>> {
        self.recorder
            .driver
            .saved()
            .into_iter()
            .map(|it| it.map(|registers| registers.packets))
            .collect()
    }
}

/// Flies a recorder through a test. The hardware never faults.
fn run_recorded(
    seed: u64,
    plan: MemoryPlan,
    body: impl FnOnce(&KernelTestbed, &mut Passive, &Arc<RecordingDriver>),
) -> Vec<Event> {
    let recorder = RecordingDriver::new(plan);
    let events = run(seed, |log| recorder.set_up(log), |testbed, at| body(testbed, at, &recorder));
    assert_eq!(recorder.hardware.faults(), 0);
    events
}

/// As above, and no rule is broken.
fn run_clean(
    seed: u64,
    plan: MemoryPlan,
    body: impl FnOnce(&KernelTestbed, &mut Passive, &Arc<RecordingDriver>),
) -> Vec<Event> {
    let events = run_recorded(seed, plan, body);
    let findings = verified(&events);
    assert!(findings.findings().is_empty(), "{:?}", findings.findings());
    assert_eq!(broken(&events), []);
    events
}

/// The broken rules, with the component that broke each.
fn broken(events: &[Event]) -> Vec<(RuleId, Subject)> {
    let broken = |event: &Event| match event.kind {
        EventKind::RuleBroken { rule, .. } => Some((rule, event.subject)),
        _ => None,
    };
    events.iter().filter_map(broken).collect()
}

fn place(events: &[Event], what: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(what).expect("it is among the events")
}

fn is(number: u32, name: &'static str) -> impl Fn(&Event) -> bool {
    move |event| {
        event.subject == Kind::ContextAllocation.subject(number) && event.kind.name() == name
    }
}

fn built(operation: &'static str, number: u32) -> impl Fn(&Event) -> bool {
    move |event| {
        let of = Kind::ContextAllocation.subject(number);
        matches!(&event.kind, EventKind::PagingBuilt { operation: o, of: f, .. } if *o == operation && *f == of)
    }
}

#[test]
fn an_area_is_initialised_before_the_first_packet_and_saved_into_at_a_switch() {
    let events = run_clean(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let (a, b) = (fixture.context(at, 0), fixture.context(at, 0));
        assert_eq!(fixture.packets(), [None, None], "nothing is there yet");
        fixture.packet(at, a);
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        assert_eq!(fixture.packets(), [Some(0), None], "initialised, and still in the engine");
        fixture.packet(at, b);
        testbed.host.run_until_idle(at);
        let first = Registers { packets: 2, commands: 0, fence: 2 };
        assert_eq!(fixture.recorder.driver.saved(), [Some(first), Some(Registers::default())]);
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        assert_eq!(fixture.packets(), [Some(2), Some(1)]);
        fixture.close(at, &[a, b]);
    });
    let created = place(&events, is(1, "context-allocation.created"));
    let entered = place(
        &events,
        |event| matches!(&event.kind, EventKind::DdiCall { name, .. } if *name == "DxgkDdiCreateContext"),
    );
    let left = place(&events, |event| event.kind.name() == "context.created");
    assert!(entered < created && created < left, "inside the call that makes its context");
    let done = place(
        &events,
        |event| matches!(&event.kind, EventKind::PagingDone { operation, of, .. } if *operation == "init-context" && *of == Kind::ContextAllocation.subject(1)),
    );
    let given = place(&events, |event| event.kind.name() == "packet.submitted");
    assert!(done < given, "initialised before the first packet");
}

#[test]
fn saved_state_survives_an_eviction() {
    let events = run_clean(1, SMALL, |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let (a, b) = (fixture.context(at, 0), fixture.context(at, 0));
        for context in [a, a, a, b] {
            fixture.packet(at, context);
        }
        testbed.host.run_until_idle(at);
        assert_eq!(fixture.packets(), [Some(3), Some(0)]);
        fixture.press(testbed, at, 6);
        testbed.host.run_until_idle(at);
        assert_eq!(fixture.packets(), [None, Some(0)], "the one at rest had to go");
        fixture.close(at, &[]);
        let fixture = Fixture::open(testbed, at, recorder);
        let c = fixture.context(at, 0);
        fixture.close(at, &[c]);
    });
    assert!(events.iter().any(is(1, "memory.evicted")));
    assert!(!events.iter().any(is(2, "memory.evicted")), "it is current");
}

#[test]
fn an_evicted_area_comes_back_with_its_bytes() {
    let events = run_clean(1, SMALL, |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        // More contexts than pages: the areas of running contexts evict others.
        let all: Vec<u32> = (0..9).map(|_| fixture.context(at, 0)).collect();
        for round in 1..=3 {
            for context in &all {
                fixture.packet(at, *context);
                testbed.host.run_until_idle(at);
            }
            let there = fixture.packets().into_iter().flatten().max();
            assert_eq!(there, Some(round));
        }
        for (number, context) in all.iter().enumerate() {
            fixture.packet(at, *context);
            testbed.host.run_until_idle(at);
            // The loaded contents are still in the area: the engine saves at the next switch.
            assert_eq!(fixture.packets()[number], Some(3), "context {number}");
        }
        fixture.close(at, &all);
    });
    let moved = events.iter().filter(|event| event.kind.name() == "memory.evicted").count();
    assert!(moved >= 20, "{moved} were moved out");
}

/// The driver frees an area from its own thread while a packet of its context is in flight.
#[test]
fn a_freed_area_is_kept_until_the_switch_has_passed() {
    let events = run_clean(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let a = fixture.context(at, 0);
        fixture.packet(at, a);
        recorder.driver.change_areas(at, false).unwrap();
        testbed.host.run_until_idle(at);
        assert_eq!(fixture.packets(), [], "it has none any more");
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        fixture.close(at, &[a]);
    });
    let address = events.iter().find_map(|event| match event.kind {
        EventKind::MemoryPlaced { address, .. }
            if event.subject == Kind::ContextAllocation.subject(1) =>
        {
            Some(address)
        }
        _ => None,
    });
    assert!(address.is_some());
    let freed = place(&events, is(1, "context-allocation.freed"));
    let done = place(&events, |event| event.kind.name() == "packet.done");
    let requested = place(&events, |event| {
        matches!(event.kind, EventKind::PagingSubmitted { switch: true, .. })
    });
    let switched =
        place(&events, |event| matches!(event.kind, EventKind::NodeSwitched { to: None }));
    let gone = place(&events, is(1, "context-allocation.destroyed"));
    assert!(freed < done && done < requested && requested < switched && switched < gone);
}

/// The engine saves into memory whose handle is destroyed: the bytes can be read.
#[test]
fn an_engine_saves_into_an_area_that_was_freed_under_it() {
    let mut at_address = None;
    run_clean(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let a = fixture.context(at, 0);
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        let area = fixture.recorder.driver.area_addresses()[0].unwrap();
        recorder.driver.change_areas(at, false).unwrap();
        testbed.host.run_until_idle(at);
        let mut bytes = [0; softgpu::REGISTERS_SIZE];
        assert!(flight::HardwareModel::peek(&*recorder.hardware, area + SAVED_AT, &mut bytes));
        at_address = Registers::decode(&bytes);
        fixture.close(at, &[a]);
    });
    assert_eq!(at_address.map(|registers| registers.packets), Some(1));
}

#[test]
fn an_area_replaced_while_its_context_runs_is_saved_into() {
    for seed in 1..20 {
        run_clean(seed, MemoryPlan::default(), |testbed, at, recorder| {
            let fixture = Fixture::open(testbed, at, recorder);
            let (a, b) = (fixture.context(at, 0), fixture.context(at, 0));
            fixture.packet(at, a);
            recorder.driver.change_areas(at, true).unwrap();
            fixture.packet(at, a);
            testbed.host.run_until_idle(at);
            fixture.packet(at, b);
            testbed.host.run_until_idle(at);
            let saved = fixture.packets();
            assert!(saved[0].is_some_and(|value| (1..=2).contains(&value)), "{saved:?}");
            fixture.close(at, &[a, b]);
        });
    }
}

#[test]
fn a_freed_context_allocation_gets_no_more_operations() {
    let heard = recorded_handles(|testbed, at, recorder, fixture| {
        let name = recorder.share(at, DRIVER_HANDLE).unwrap();
        let a = fixture.context(at, 0);
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        let before = recorder.paging_operations().len();
        recorder.services().destroy_context_allocation(at, name).unwrap();
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        fixture.close(at, &[a]);
        before
    });
    assert!(!heard.contains(&DRIVER_HANDLE));
}

/// An area is freed while its page-out is planned: the driver is not called for it, and another
/// allocation gets its place.
#[test]
fn an_area_freed_during_its_eviction_leaves_its_place_to_others() {
    let mut unbuilt = 0;
    for seed in 1..=40 {
        let events = run_clean(seed, SMALL, |testbed, at, recorder| {
            let fixture = Fixture::open(testbed, at, recorder);
            let (a, b) = (fixture.context(at, 0), fixture.context(at, 0));
            fixture.packet(at, a);
            testbed.host.run_until_idle(at);
            fixture.packet(at, b);
            testbed.host.run_until_idle(at);
            let process = fixture.client.session().process();
            let queue =
                testbed.kernel.create_paging_queue(process, Handle(fixture.device), 0).unwrap();
            let create = CreateAllocation::new(fixture.device, vec![format::describe(PAGE); 5]);
            let handles = fixture.client.create(at, &create).unwrap().allocations;
            for handle in handles {
                let list = vec![Handle(handle)];
                let request = MakeResidentRequest {
                    queue: queue.queue,
                    list,
                    ..MakeResidentRequest::default()
                };
                let _ = testbed.kernel.make_resident(process, &request); // There may be no room.
            }
            fixture.client.destroy_context(at, a).unwrap();
            testbed.host.run_until_idle(at);
            fixture.close(at, &[b]);
        });
        let evicted = events.iter().any(is(1, "memory.evicted"));
        unbuilt += u32::from(evicted && !events.iter().any(built("transfer", 1)));
    }
    assert!(unbuilt > 0, "no area was freed before its page-out was built");
}

/// The driver handles that a driver received after a number of operations.
fn recorded_handles(
    body: impl FnOnce(&KernelTestbed, &mut Passive, &Arc<RecordingDriver>, &Fixture) -> usize,
) -> Vec<usize> {
    let mut heard = Vec::new();
    let aperture = MemoryPlan { visible: PAGE, local: PAGE, ..MemoryPlan::default() };
    run_clean(1, aperture, |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let before = body(testbed, at, recorder, &fixture);
        heard =
            recorder.paging_operations().split_off(before).into_iter().map(|pair| pair.1).collect();
    });
    heard
}

#[test]
fn a_shared_area_is_used_by_every_context_of_its_device() {
    let events = run_clean(1, SMALL, |testbed, at, recorder| {
        let slot = Arc::new(AtomicUsize::new(0));
        let name = slot.clone();
        recorder.on(HookPoint::CreateDevice, move |recorder, at| {
            name.store(recorder.share(at, DRIVER_HANDLE)?, SeqCst);
            Ok(())
        });
        let name = slot.clone();
        recorder.on(HookPoint::DestroyDevice, move |recorder, at| {
            recorder.services().destroy_context_allocation(at, name.load(SeqCst))
        });
        let fixture = Fixture::open(testbed, at, recorder);
        let (a, b) = (fixture.context(at, 0), fixture.context(at, 1));
        fixture.packet(at, a);
        fixture.packet(at, b);
        testbed.host.run_until_idle(at);
        fixture.press(testbed, at, 5);
        assert!(recorder.services().map_context_allocation(at, slot.load(SeqCst), 0, 1).is_some());
        fixture.close(at, &[a, b]);
    });
    let first = place(&events, built("init-context", 1));
    assert!(first < place(&events, |event| event.kind.name() == "packet.submitted"));
    let freed = place(&events, is(1, "context-allocation.freed"));
    let moved = events.iter().take(freed).any(is(1, "memory.evicted"));
    assert!(!moved, "both nodes have its device current");
}

/// Rounds of packets of many contexts on two nodes, in a memory that holds half of them.
#[test]
fn registers_are_right_after_many_switches() {
    for seed in 1..6 {
        let plan = MemoryPlan { visible: 3 * PAGE, local: 3 * PAGE, aperture: PAGE, ..SMALL };
        let events = run_clean(seed, plan, |testbed, at, recorder| {
            let fixture = Fixture::open(testbed, at, recorder);
            let all: Vec<u32> = (0..10).map(|number| fixture.context(at, number % 2)).collect();
            let (mut done, mut rng) = ([0; 10], seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for _ in 0..150 {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (one, count) = (usize::try_from(rng >> 33).unwrap() % 10, 1 + (rng >> 20) % 3);
                for _ in 0..count {
                    fixture.packet(at, all[one]);
                    done[one] += 1;
                }
                if rng >> 40 & 1 == 0 {
                    testbed.host.run_until_idle(at);
                }
            }
            testbed.host.run_until_idle(at);
            // Each becomes current in turn and saves when the previous one does.
            for (number, context) in all.iter().enumerate() {
                fixture.packet(at, *context);
                testbed.host.run_until_idle(at);
                assert_eq!(
                    fixture.packets()[number].map(|value| value <= done[number]),
                    Some(true)
                );
                done[number] += 1;
            }
            let after: Vec<u32> = (0..2).map(|number| fixture.context(at, number)).collect();
            for (number, context) in all.iter().enumerate() {
                fixture.packet(at, *context);
                done[number] += 1;
                fixture.packet(at, after[number % 2]);
                testbed.host.run_until_idle(at);
                assert_eq!(fixture.packets()[number], Some(done[number]), "context {number}");
            }
            fixture.close(at, &all);
        });
        let moved = events.iter().filter(|event| event.kind.name() == "memory.evicted").count();
        assert!(moved > 10, "{moved} were moved out");
    }
}

#[test]
fn leaks_of_a_failed_create_are_reported_and_reclaimed() {
    let events = run_recorded(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        recorder.on(HookPoint::CreateContext, |recorder, at| {
            let context = recorder.context(0);
            let args = kernel::operation::CreateContextAllocationArgs {
                context,
                ..recorder.context_allocation_args(DRIVER_HANDLE)
            };
            recorder.services().create_context_allocation(at, &args)?;
            Err(DriverError::NoMemory)
        });
        assert!(fixture.client.create_context(at, fixture.device, 0).is_err());
        fixture.close(at, &[]);
    });
    assert_eq!(broken(&events), [(RuleId::CB_CTXALLOC_013, Kind::Context.subject(1))]);
    let freed = place(&events, |event| {
        matches!(event.kind, EventKind::ContextAllocationFreed { owner_ended: true })
    });
    assert!(freed < place(&events, is(1, "context-allocation.destroyed")));
}

#[test]
fn a_driver_leak_is_reported_at_its_owner() {
    let events = run_recorded(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        recorder.share(at, DRIVER_HANDLE).unwrap();
        let a = fixture.context(at, 0);
        let context = recorder.context(0);
        let args = kernel::operation::CreateContextAllocationArgs {
            context,
            ..recorder.context_allocation_args(DRIVER_HANDLE + 1)
        };
        recorder.services().create_context_allocation(at, &args).unwrap();
        fixture.packet(at, a);
        testbed.host.run_until_idle(at);
        fixture.close(at, &[a]);
    });
    let owners = [Kind::Context.subject(1), Kind::Device.subject(1)];
    assert_eq!(broken(&events), owners.map(|subject| (RuleId::CB_CTXALLOC_013, subject)));
}

#[test]
fn an_adapter_is_removed_while_a_freed_area_is_current() {
    for seed in 1..10 {
        let events = run_clean(seed, MemoryPlan::default(), |testbed, at, recorder| {
            let fixture = Fixture::open(testbed, at, recorder);
            let (a, b) = (fixture.context(at, 0), fixture.context(at, 1));
            fixture.packet(at, a);
            fixture.packet(at, b);
            recorder.driver.change_areas(at, seed % 2 == 0).unwrap();
            testbed.kernel.remove_adapter(at, testbed.adapter);
            let _ = fixture.client.destroy_device(at, fixture.device);
            let _ = fixture.client.close_adapter(at, fixture.adapter);
            fixture.client.end(at);
        });
        let gone = events.iter().rposition(|it| it.kind.name() == "context-allocation.destroyed");
        let stopped = events.iter().position(|event| event.kind.name() == "adapter.stopped");
        assert!(gone < stopped);
    }
}

#[test]
fn stale_and_foreign_handles_are_rejected_and_reported() {
    let events = run_recorded(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let name = recorder.share(at, DRIVER_HANDLE).unwrap();
        let services = recorder.services();
        assert_eq!(
            services.destroy_context_allocation(at, DRIVER_HANDLE),
            Err(DriverError::Invalid)
        );
        assert_eq!(
            services.destroy_context_allocation(at, recorder.device(0)),
            Err(DriverError::Invalid)
        );
        assert_eq!(services.destroy_context_allocation(at, name), Ok(()));
        assert_eq!(services.destroy_context_allocation(at, name), Err(DriverError::Invalid));
        assert_eq!(services.update_context_allocation(at, name, &[]), Err(DriverError::Invalid));
        assert_eq!(services.map_context_allocation(at, name, 0, 1), None);
        fixture.close(at, &[]);
        // Its device is destroyed, and the device's handle with it.
        assert_eq!(recorder.share(at, DRIVER_HANDLE), Err(DriverError::Invalid));
    });
    let adapter = Kind::Adapter.subject(1);
    let mut expected = vec![(RuleId::CB_CTXALLOC_009, adapter); 5];
    expected.push((RuleId::CB_CTXALLOC_003, adapter));
    assert_eq!(broken(&events), expected);
}

#[test]
fn an_object_of_another_adapter_is_rejected_and_reported() {
    let other = RecordingDriver::new(MemoryPlan::default());
    let log_of = std::cell::RefCell::new(None);
    let recorder = RecordingDriver::new(MemoryPlan::default());
    let make = |log: &Arc<flight::Log>| {
        *log_of.borrow_mut() = Some(log.clone());
        recorder.set_up(log)
    };
    let events = run(1, make, |testbed, at| {
        let log = log_of.borrow_mut().take().unwrap();
        let second = testbed.kernel.add_adapter(at, other.set_up(&log)).unwrap();
        let fixture = Fixture::open(testbed, at, &recorder);
        let name = recorder.share(at, DRIVER_HANDLE).unwrap();
        assert_eq!(
            other.services().destroy_context_allocation(at, name),
            Err(DriverError::Invalid)
        );
        let args = recorder.context_allocation_args(DRIVER_HANDLE + 1);
        assert_eq!(
            other.services().create_context_allocation(at, &args),
            Err(DriverError::Invalid)
        );
        assert_eq!(recorder.services().destroy_context_allocation(at, name), Ok(()));
        fixture.close(at, &[]);
        testbed.kernel.remove_adapter(at, second);
    });
    let second = Kind::Adapter.subject(2);
    let rules = [RuleId::CB_CTXALLOC_009, RuleId::CB_CTXALLOC_002, RuleId::CB_CTXALLOC_003];
    assert_eq!(broken(&events), rules.map(|rule_id| (rule_id, second)));
}

/// A driver frees an area inside any call, including the call that creates or destroys its owner.
#[test]
fn an_area_is_freed_inside_every_call_about_its_owner() {
    for when in [
        HookPoint::CreateDevice,
        HookPoint::CreateContext,
        HookPoint::DestroyContext,
        HookPoint::DestroyDevice,
    ] {
        run_clean(1, MemoryPlan::default(), |testbed, at, recorder| {
            recorder.on(when, |recorder, at| {
                let name = recorder.share(at, DRIVER_HANDLE)?;
                recorder.services().destroy_context_allocation(at, name)
            });
            let fixture = Fixture::open(testbed, at, recorder);
            let a = fixture.context(at, 0);
            fixture.packet(at, a);
            testbed.host.run_until_idle(at);
            fixture.close(at, &[a]);
        });
    }
}

#[test]
fn an_update_is_done_when_the_call_returns_and_carries_its_bytes() {
    let events = run_clean(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let name = recorder.share(at, DRIVER_HANDLE).unwrap();
        let services = recorder.services();
        services.update_context_allocation(at, name, b"as the driver said").unwrap();
        let place = services.map_context_allocation(at, name, 0, 1).unwrap();
        let mut bytes = [0; 18];
        assert!(flight::HardwareModel::peek(&*recorder.hardware, place, &mut bytes));
        assert_eq!(&bytes, b"as the driver said");
        services.destroy_context_allocation(at, name).unwrap();
        fixture.close(at, &[]);
    });
    assert!(place(&events, built("init-context", 1)) < place(&events, built("update-context", 1)));
}

#[test]
fn an_area_of_a_lost_device_is_kept_until_its_packets_have_passed() {
    for seed in 1..10 {
        let events = run_recorded(seed, MemoryPlan::default(), |testbed, at, recorder| {
            let fixture = Fixture::open(testbed, at, recorder);
            let a = fixture.context(at, 0);
            for _ in 0..5 {
                fixture.packet(at, a);
            }
            // The driver rejects commands that it cannot parse: the device is lost, its packets
            // continue.
            let unknown = Command::Fill { target: Handle(0x7f), offset: 0, length: 1, value: 1 };
            assert!(fixture.client.submit(at, a, &format::encode(&[unknown])).is_err());
            fixture.close(at, &[a]);
        });
        let gone = place(&events, is(1, "context-allocation.destroyed"));
        let switched =
            place(&events, |event| matches!(event.kind, EventKind::NodeSwitched { to: None }));
        assert!(switched < gone, "{seed}");
    }
}

/// Every good scenario, in many orders, on every driver that has save areas.
#[test]
fn drivers_with_save_areas_fly_clean_in_many_orders() {
    for driver in ["softgpu-memory", "softgpu-context-allocation-updates", "table-memory"] {
        let good = good_scenarios(driver);
        for (seed, scenario) in
            (0..10).flat_map(|seed| good.iter().map(move |scenario| (seed, scenario)))
        {
            let flown = flown(driver, scenario.name, seed);
            let label = || format!("{driver}, {}, seed {seed}", scenario.name);
            assert_eq!(flown.outcome, Outcome::Clean, "{}: {:?}", label(), flown.findings);
            assert_eq!(flown.live.count(), 0, "{}:\n{}", label(), flown.live);
        }
    }
}

/// As above, on real threads.
#[test]
fn drivers_with_save_areas_fly_clean_side_by_side() {
    for driver in ["softgpu-memory", "table-memory"] {
        for scenario in good_scenarios(driver) {
            for _ in 0..5 {
                let flown = flown(driver, scenario.name, HostKind::Threaded);
                let label = || format!("{driver}, {}", scenario.name);
                assert_eq!(flown.outcome, Outcome::Clean, "{}: {:?}", label(), flown.findings);
            }
        }
    }
}

/// A hung engine never switches: after a reset it cannot save any more.
#[test]
fn the_area_of_a_hung_engine_is_reclaimed_after_its_reset() {
    let events = run_recorded(1, MemoryPlan::default(), |testbed, at, recorder| {
        let fixture = Fixture::open(testbed, at, recorder);
        let a = fixture.context(at, 0);
        fixture.client.submit(at, a, &format::encode(&[Command::Hang])).unwrap();
        let _ = fixture.client.destroy_context(at, a);
        let _ = fixture.client.destroy_device(at, fixture.device);
        fixture.client.end(at);
        assert!(recorder.hardware.faults() == 0, "nothing was saved");
    });
    assert_eq!(broken(&events), []);
    let gone = place(&events, is(1, "context-allocation.destroyed"));
    assert!(gone > place(&events, |event| event.kind.name() == "device.lost"));
}
