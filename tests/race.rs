//! Races: the kernel on the `Free` host, in orders that shuttle draws.
//!
//! Empty but for a build with `--cfg shuttle`; `cargo xtask test` makes one. Then each lock of the
//! kernel and of the host, and each call of a driver, is a place where another may go on.
#![cfg(shuttle)]

use flight::{Event, What, Who};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};
use softgpu::format::describe;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use stories::{run, softgpu, verified};
use thunk::{Client, Create, Destroy};
use windtunnel::{Bench, On};

/// How many orders there are from each seed; the seeds are drawn from side by side.
const ORDERS: usize = 2_500;
const SEEDS: Range<u64> = 1..5;

/// Tells a story in many orders, and looks at the events of each.
fn in_many_orders(
    seeds: Range<u64>,
    orders: usize,
    story: fn() -> Vec<Event>,
    look: fn(Vec<Event>),
) {
    std::thread::scope(|scope| {
        for seed in seeds {
            let mut config = Config::new();
            config.stack_size = 1 << 20; // Without optimisation, frames are large.
            let scheduler = RandomScheduler::new_from_seed(seed, orders);
            scope.spawn(|| Runner::new(scheduler, config).run(move || look(story())));
        }
    });
}

/// Work completes, its resource is destroyed, another is created into it, and the device goes:
/// all at once.
fn ends_meet() -> Vec<Event> {
    run(On::Free, softgpu, |wing, at| {
        let bench = Bench::open(Client::new(&wing.kernel), at).expect("a device");
        let context = bench.context(at).expect("a context");
        let made = bench.create_resource(at, 2).expect("a resource");
        bench.fill(at, context, made.allocations[0]).expect("work");

        let (one, resource) = (bench.clone(), made.resource);
        let destroys = wing.host.spawn("destroys", move |at| {
            let whole = Destroy { device: one.device, resource, ..Destroy::default() };
            let _ = one.client.destroy(at, &whole); // Or the device was first.
        });
        let two = bench.clone();
        let creates = wing.host.spawn("creates", move |at| {
            let more = Create::on(two.device, vec![describe(4096)]).into_resource(resource);
            let _ = two.client.create(at, &more); // Or the resource was gone.
        });
        assert_eq!(bench.client.destroy_device(at, bench.device), Ok(()));
        wing.host.park(at, &destroys, None);
        wing.host.park(at, &creates, None);
        bench.client.kill(at);
    })
}

/// How often the create was first, and how often something else was.
static CREATED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

#[test]
fn complete_destroy_create_and_removal_meet_in_any_order() {
    in_many_orders(SEEDS, ORDERS, ends_meet, |events| {
        for finding in verified(&events).findings() {
            assert_eq!(finding.who, Who::Client, "{}", finding.message);
        }
        let created = events.iter().filter(|it| it.what.name() == "allocation.created").count();
        CREATED[usize::from(created > 2)].fetch_add(1, Relaxed);
    });
    let [late, first] = CREATED.each_ref().map(|it| it.load(Relaxed));
    assert_eq!(late + first, ORDERS * SEEDS.count());
    assert!(late > 100 && first > 100, "the orders are different: {late} and {first}");
}

/// The events as they were if the kernel had destroyed before it closed: the first destroying
/// call comes before the close before it, on its thread.
fn reversed(mut events: Vec<Event>) -> Vec<Event> {
    let calls =
        |it: &Event, ddi: &str| matches!(&it.what, What::DdiCall { name, .. } if name == ddi);
    let destroy = events.iter().position(|it| calls(it, "DxgkDdiDestroyAllocation"));
    let destroy = destroy.expect("the driver destroys");
    let (thread, call) = (events[destroy].thread, events[destroy].call);
    let close = |it: &Event| it.thread == thread && calls(it, "DxgkDdiCloseAllocation");
    let close = events[..destroy].iter().rposition(close).expect("the driver closes first");
    let rest = events.split_off(close);
    let (early, late): (Vec<Event>, Vec<Event>) = rest.into_iter().partition(|it| it.call == call);
    let moved = events.into_iter().chain(early).chain(late);
    (1..).zip(moved).map(|(seq, event)| Event { seq, ..event }).collect()
}

#[test]
fn a_destroy_before_its_close_is_found_in_any_order() {
    in_many_orders(5..6, 250, ends_meet, |events| {
        let verifier = verified(&reversed(events));
        let found = verifier.findings().iter().any(|it| it.who == Who::Kernel);
        assert!(found, "nobody saw it");
    });
}
