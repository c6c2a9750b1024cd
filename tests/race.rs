//! Races: the kernel on the threaded host, in orders that shuttle draws.
//!
//! Empty except in a build with `--cfg shuttle`, which `cargo xtask test` makes. Then each lock of
//! the kernel and of the host, and each driver call, is a point where another thread may continue.
#![cfg(shuttle)]

use flight::{Component, Event, EventKind, Log, Passive, RuleId};
use harness::memory_client::set_up_memory;
use harness::racing::objects::{CallResult, Ending};
use harness::racing::{RacingPair, racing_pairs};
use harness::{KernelTestbed, run, softgpu, verified};
use kernel::power::PowerAction;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use softgpu::MemoryPlan;
use softgpu::format::describe;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
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

/// The orders of each pair of calls: half of them drawn at each step, half with priorities that
/// change at a few steps, so that one thread is far ahead of the other.
const PAIR_ORDERS: usize = 40;

/// The steps at which priorities change.
const CHANGES: usize = 3;

/// Flies a pair in many orders. `look` gets the result of each.
fn fly_pair(
    orders: usize,
    fly: impl Fn() -> Result<CallResult, String> + Clone + Send + Sync + 'static,
    look: impl Fn(Result<CallResult, String>) + Clone + Send + Sync + 'static,
) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let (random, other) = (fly.clone(), look.clone());
    Runner::new(RandomScheduler::new_from_seed(1, orders / 2), config.clone())
        .run(move || other(random()));
    Runner::new(PctScheduler::new_from_seed(1, CHANGES, orders / 2), config)
        .run(move || look(fly()));
}

/// How often a call succeeded, and how often it failed.
type Counts = BTreeMap<&'static str, [usize; 2]>;

/// Calls that never succeed: an NT handle of a keyed mutex alone does not exist, and no thread
/// releases the mutex with the key that the call waits for.
const NEVER_SUCCEED: &[&str] = &["D3DKMTOpenKeyedMutexFromNtHandle", "D3DKMTAcquireKeyedMutex"];

#[test]
fn every_call_beside_the_end_of_its_object_succeeds_or_fails_in_any_order() {
    let pairs: Vec<RacingPair> = racing_pairs().collect();
    let counts = Arc::new(Mutex::new(Counts::new()));
    let bad = Arc::new(Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for share in pairs.chunks(pairs.len().div_ceil(cores)) {
            let (counts, bad) = (&counts, &bad);
            scope.spawn(move || {
                for pair in share.iter().copied() {
                    let (counts, bad) = (counts.clone(), bad.clone());
                    let look = move |result: Result<CallResult, String>| match result {
                        Ok(result) => {
                            let mut counts = counts.lock().expect("counts");
                            let counted = counts.entry(pair.call.name).or_default();
                            counted[usize::from(result.is_err())] += 1;
                        }
                        Err(why) => {
                            bad.lock().expect("failures").push(format!("{}: {why}", pair.name()));
                        }
                    };
                    fly_pair(PAIR_ORDERS, move || pair.fly(), look);
                }
            });
        }
    });
    let bad = bad.lock().expect("failures");
    assert!(bad.is_empty(), "{} flights failed, such as {}", bad.len(), bad[0]);
    // The calls race: each one succeeds in some orders.
    let counts = counts.lock().expect("counts");
    let never =
        counts.iter().filter(|(name, counts)| counts[0] == 0 && !NEVER_SUCCEED.contains(name));
    assert_eq!(never.collect::<Vec<_>>(), []);
    let failed = counts.values().filter(|counts| counts[1] > 0).count();
    assert!(failed > counts.len() / 2, "{failed} of {} calls failed in some order", counts.len());
}

/// Whether the lock used the extent of a view that had ended.
static DANGLED: EventOrders = EventOrders::new();

#[test]
fn a_planted_use_of_an_ended_extent_is_found_in_some_orders() {
    let is_planted =
        |pair: &RacingPair| pair.call.name == "D3DKMTLock2" && pair.ending == Ending::AllocationNow;
    let pair = racing_pairs().find(is_planted).expect("a row of the table");
    let fly = move || pair.fly_after(|testbed| testbed.kernel.plant_stale_extent());
    fly_pair(PAIR_ORDERS * 10, fly, |result| {
        let why = result.err().unwrap_or_default();
        DANGLED.count(why.contains("is live while an id of it is in use"));
    });
    DANGLED.differ(PAIR_ORDERS * 10);
}
