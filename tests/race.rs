//! Races: the kernel on the threaded host, in orders that shuttle draws.
//!
//! Empty except in a build with `--cfg shuttle`, which `cargo xtask test` makes. Then each lock of
//! the kernel and of the host, and each driver call, is a point where another thread may continue.
#![cfg(shuttle)]

use flight::{Component, Event, EventKind, Log, Passive, RuleId};
use harness::memory_client::set_up_memory;
use harness::{KernelTestbed, run, softgpu, verified};
use kernel::power::PowerAction;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};
use softgpu::MemoryPlan;
use softgpu::format::describe;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thunk::{Client, CreateAllocation, DestroyAllocation};
use windtunnel::{HostKind, TestClient};

/// The number of orders from each seed; the seeds run in parallel.
const ORDERS: usize = 2_500;
const SEEDS: Range<u64> = 1..5;
/// As above, for a change of power.
const POWER_ORDERS: usize = 500;

/// Runs a test in many orders and checks the events of each.
fn in_many_orders(
    seeds: Range<u64>,
    orders: usize,
    body: fn() -> Vec<Event>,
    look: fn(Vec<Event>),
) {
    std::thread::scope(|scope| {
        for seed in seeds {
            let mut config = Config::new();
            config.stack_size = 1 << 20; // Without optimisation, frames are large.
            let scheduler = RandomScheduler::new_from_seed(seed, orders);
            scope.spawn(|| Runner::new(scheduler, config).run(move || look(body())));
        }
    });
}

/// Work completes, its resource is destroyed, another allocation is created into it, the device is
/// destroyed and the adapter is removed: all concurrently.
fn ends_meet() -> Vec<Event> {
    run(HostKind::Threaded, softgpu, all_at_once)
}

/// As above, in a kernel whose worker destroys before it closes.
fn ends_meet_reversed() -> Vec<Event> {
    run(HostKind::Threaded, softgpu, |testbed, at| {
        testbed.kernel.plant_reversal();
        all_at_once(testbed, at);
    })
}

fn all_at_once(testbed: &KernelTestbed, at: &mut Passive) {
    let test_client = TestClient::open(Client::new(&testbed.kernel), at).expect("a device");
    let context = test_client.create_context(at).expect("a context");
    let made = test_client.create_resource(at, 2).expect("a resource");
    test_client.fill(at, context, made.allocations[0]).expect("work");

    let (one, resource) = (test_client.clone(), made.resource);
    let destroys = testbed.host.spawn("destroys", move |at| {
        let whole =
            DestroyAllocation { device: one.device, resource, ..DestroyAllocation::default() };
        let _ = one.client.destroy(at, &whole); // Or the device was first.
    });
    let two = test_client.clone();
    let creates = testbed.host.spawn("creates", move |at| {
        let more = CreateAllocation::new(two.device, vec![describe(4096)]).into_resource(resource);
        let _ = two.client.create(at, &more); // Or the resource was gone.
    });
    let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
    let removes = testbed.host.spawn("removes", move |at| kernel.remove_adapter(at, adapter));
    assert_eq!(test_client.client.destroy_device(at, test_client.device), Ok(()));
    for another_client in [destroys, creates, removes] {
        testbed.host.park(at, &another_client, None);
    }
    test_client.client.kill(at);
}

/// Counts the orders in which a condition holds.
struct EventOrders {
    all: AtomicUsize,
    so: AtomicUsize,
}

impl EventOrders {
    const fn new() -> Self {
        Self { all: AtomicUsize::new(0), so: AtomicUsize::new(0) }
    }

    fn count(&self, so: bool) {
        self.all.fetch_add(1, Relaxed);
        self.so.fetch_add(so.into(), Relaxed);
    }

    /// Checks that the condition holds in some orders and not in others. Returns the number of
    /// orders.
    fn differ(&self, all: usize) {
        let so = self.so.load(Relaxed);
        assert_eq!(self.all.load(Relaxed), all);
        assert!(so >= all / 100 && so <= all - all / 100, "{so} of {all}");
    }
}

/// Whether the create was in time, and whether the removal was first to destroy the device.
static CREATED: EventOrders = EventOrders::new();
static REMOVED: EventOrders = EventOrders::new();

#[test]
fn completion_destroy_create_and_removal_race_in_any_order() {
    in_many_orders(SEEDS, ORDERS, ends_meet, |events| {
        for finding in verified(&events).findings() {
            assert_eq!(finding.component, Component::Client, "{}", finding.message);
        }
        let place = |name: &str| events.iter().position(|it| it.kind.name() == name);
        let created = events.iter().filter(|it| it.kind.name() == "allocation.created").count();
        CREATED.count(created > 2);
        REMOVED.count(ended_by(&events) != Some(MAIN));
        assert!(place("adapter.stopped") > place("device.destroyed"), "the device goes first");
    });
    let all = ORDERS * SEEDS.count();
    CREATED.differ(all);
    REMOVED.differ(all);
}

/// The test's thread.
const MAIN: u32 = 0;

/// The thread that called the driver to destroy the device.
fn ended_by(events: &[Event]) -> Option<u32> {
    let ends = |it: &&Event| it.kind.name() == "device.destroyed";
    events.iter().find(ends).map(|it| it.thread)
}

static FOUND: EventOrders = EventOrders::new();

#[test]
fn a_planted_destroy_before_its_close_is_found_in_some_orders() {
    in_many_orders(5..6, ORDERS, ends_meet_reversed, |events| {
        let verifier = verified(&events);
        let mut ours = verifier.findings().iter().filter(|it| it.component == Component::Kernel);
        FOUND.count(ours.any(|it| it.rule == RuleId::ALLOC_DESTROY_015));
    });
    FOUND.differ(ORDERS);
}

/// A client's memory is paged in while its adapter sleeps and wakes.
fn pages_and_sleeps() -> Vec<Event> {
    let make = |log: &Arc<Log>| set_up_memory(log, MemoryPlan::default()).0;
    run(HostKind::Threaded, make, |testbed, at| {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).expect("a device");
        let made = test_client.create(at, 2).expect("allocations").allocations;
        let one = test_client.clone();
        let pages = testbed.host.spawn("pages", move |at| {
            for it in made {
                one.make_resident(at, &[it]).expect("it comes");
            }
        });
        testbed.kernel.power_down(at, testbed.adapter, PowerAction::None);
        testbed.kernel.power_up(at, testbed.adapter);
        testbed.host.park(at, &pages, None);
        test_client.close(at, &[]).expect("an end");
    })
}

/// Whether paging ran before the power went down, and whether paging waited for power.
static BEFORE: EventOrders = EventOrders::new();
static WAITED: EventOrders = EventOrders::new();

#[test]
fn paging_work_and_power_changes_race_in_any_order() {
    in_many_orders(SEEDS, POWER_ORDERS, pages_and_sleeps, |events| {
        assert_eq!(verified(&events).findings(), []);
        let (mut sleeps, mut before, mut gpu_wait) = (false, false, false);
        let mut flying = BTreeSet::new();
        for event in &events {
            match &event.kind {
                EventKind::AdapterPowered { state } => {
                    assert_eq!(
                        flying,
                        BTreeSet::new(),
                        "what the hardware has is lost with its power"
                    );
                    sleeps = state == "d3";
                }
                EventKind::DdiCall { name, .. } if sleeps => {
                    assert_eq!(name, "DxgkDdiSetPowerState")
                }
                EventKind::PagingPlanned { .. } => gpu_wait |= sleeps,
                EventKind::PagingSubmitted { paging, .. } => {
                    flying.insert(*paging);
                    before |= !gpu_wait;
                }
                EventKind::PagingEnded { .. } => {
                    flying.remove(&event.subject);
                }
                _ => (),
            }
        }
        BEFORE.count(before);
        WAITED.count(gpu_wait);
    });
    let all = POWER_ORDERS * SEEDS.count();
    BEFORE.differ(all);
    WAITED.differ(all);
}
