//! Destroys behind work in flight on two nodes and behind a context that waits for the CPU: each
//! completes at the right event, with any flags; and one that waits for itself is reported.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::status::STATUS_UNSUCCESSFUL;
use flight::{Event, EventKind, Passive, RuleId, Subject};
use harness::{KernelTestbed, run, verified};
use kernel::DriverSetup;
use std::sync::Arc;
use thunk::{Client, DestroyAllocation, SyncObject};
use windtunnel::{HostKind, TestClient};

/// A client with a context on each node and a third context that waits for the CPU.
struct Fixture {
    test_client: TestClient,
    contexts: [u32; 3],
    fence: u32,
    resource: u32,
}

impl Fixture {
    /// Puts work in flight on both nodes, and a packet behind a wait that only the CPU can end.
    fn new(testbed: &KernelTestbed, at: &mut Passive) -> Self {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
        let contexts = [0, 1, 0].map(|node| test_client.create_context_on(at, node).unwrap());
        let fence =
            test_client.client.create_sync(at, test_client.device, SyncObject::Monitored(0), 0);
        let fence = fence.unwrap().object;
        let resource = test_client.create_resource(at, 1).unwrap().resource;
        let used = test_client.create(at, 1).unwrap().allocations[0];
        test_client.client.wait_gpu(at, contexts[2], &[(fence, 7)]).unwrap();
        for context in contexts {
            test_client.fill(at, context, used).unwrap();
        }
        Self { test_client, contexts, fence, resource }
    }

    fn destroy(&self, assume: bool, synchronous: bool) -> DestroyAllocation {
        DestroyAllocation {
            device: self.test_client.device,
            resource: self.resource,
            assume_not_in_use: assume,
            synchronous,
            ..DestroyAllocation::default()
        }
    }

    fn close(&self, at: &mut Passive) {
        self.test_client.client.destroy_sync(at, self.fence).unwrap();
        self.test_client.close(at, &self.contexts).unwrap();
    }
}

/// The position of the first event that `wanted` accepts.
fn place(events: &[Event], what: &str, wanted: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(wanted).unwrap_or_else(|| panic!("{what} is not among the events"))
}

/// The positions of the relevant events, by name.
struct Order {
    requested: usize,
    idle: usize,
    done: usize,
    answered: usize,
    signalled: usize,
    /// The packets in flight on the nodes, and the waiting packet.
    packets: [usize; 3],
    behind: usize,
}

fn order(events: &[Event]) -> Order {
    let first = Subject { number: 1, ..flight::Kind::Retirement.subject(1) };
    let of_first = |name: &str| {
        place(events, name, |event| event.subject == first && event.kind.name() == name)
    };
    let packet = |context: u32| {
        let subject = flight::Kind::Context.subject(context);
        place(events, "packet.done", |event| {
            event.subject == subject
                && matches!(event.kind, EventKind::PacketDone { packet: 1, .. })
        })
    };
    let behind = |event: &&Event| event.subject == first && event.kind.name() == "retire.waits";
    Order {
        requested: of_first("retire.requested"),
        idle: of_first("retire.idle"),
        done: of_first("retire.done"),
        answered: of_first("retire.returned"),
        signalled: place(events, "sync.signalled", |event| event.kind.name() == "sync.signalled"),
        packets: [1, 2, 3].map(packet),
        behind: events.iter().filter(behind).count(),
    }
}

/// Flies one combination of flags. The CPU signals when everything else is idle.
fn fly(
    on: HostKind,
    make: fn(&Arc<flight::Log>) -> DriverSetup,
    assume: bool,
    synchronous: bool,
) -> Vec<Event> {
    let events = run(on, make, |testbed, at| {
        let fixture = Fixture::new(testbed, at);
        let (client, device, fence) =
            (fixture.test_client.client.clone(), fixture.test_client.device, fixture.fence);
        let host = testbed.host.clone();
        let signals = testbed.host.spawn("signals", move |at| {
            host.run_until_idle(at);
            client.signal_cpu(at, device, &[(fence, 7)], 0).unwrap();
        });
        fixture.test_client.destroy_with(at, &fixture.destroy(assume, synchronous)).unwrap();
        testbed.host.park(at, &signals, None);
        testbed.host.run_until_idle(at);
        fixture.close(at);
    });
    assert_eq!(verified(&events).findings(), [], "{on:?}, {assume}, {synchronous}");
    events
}

fn all(check: impl Fn(HostKind, &dyn Fn(HostKind, bool, bool) -> Vec<Event>)) {
    let drivers: [fn(&Arc<flight::Log>) -> DriverSetup; 2] =
        [harness::softgpu, drivers::find("table").unwrap().make];
    let orders = (0..20).map(HostKind::deterministic).chain((0..10).map(HostKind::under_pressure));
    for on in orders.chain(std::iter::repeat_n(HostKind::Threaded, 10)) {
        for make in drivers {
            check(on, &|on, assume, synchronous| fly(on, make, assume, synchronous));
        }
    }
}

#[test]
fn without_flags_the_destruction_waits_for_queued_work_and_the_caller_does_not() {
    all(|on, fly| {
        let it = order(&fly(on, false, false));
        assert!(it.packets.iter().all(|packet| *packet < it.idle), "{on:?}");
        assert!(it.signalled < it.packets[2] && it.idle < it.done, "{on:?}");
        // Packets in flight on the nodes may complete before the destroy; the third does not.
        assert!((1..=3).contains(&it.behind), "{on:?}");
        assert!(it.requested < it.answered && it.answered < it.packets[2], "{on:?}");
    });
}

#[test]
fn assume_not_in_use_waits_for_nothing() {
    all(|on, fly| {
        let it = order(&fly(on, true, false));
        assert_eq!(it.behind, 0, "{on:?}");
        assert!(it.idle < it.signalled && it.done < it.signalled, "{on:?}");
    });
}

#[test]
fn a_synchronous_destroy_returns_after_the_destruction() {
    all(|on, fly| {
        let it = order(&fly(on, false, true));
        assert!(it.packets.iter().all(|packet| *packet < it.idle), "{on:?}");
        assert!(it.signalled < it.idle && it.idle < it.done && it.done < it.answered, "{on:?}");
    });
}

#[test]
fn with_both_flags_the_destruction_ends_before_the_cpu_signals() {
    all(|on, fly| {
        let it = order(&fly(on, true, true));
        assert_eq!(it.behind, 0, "{on:?}");
        assert!(it.done < it.answered && it.answered < it.signalled, "{on:?}");
    });
}

/// Expects the finding of a wait that cannot end, and no other.
fn stuck(events: &[Event]) -> String {
    let verifier = verified(events);
    let all = verifier.findings();
    assert!(all.iter().all(|finding| finding.rule == RuleId::WT_STUCK_001), "{all:?}");
    all.first().map(|finding| finding.message.clone()).unwrap_or_default()
}

#[test]
fn a_caller_that_waits_for_its_own_signal_is_reported_as_stuck() {
    for seed in 0..20 {
        let events = run(seed, harness::softgpu, |testbed, at| {
            let fixture = Fixture::new(testbed, at);
            let destroyed = fixture.test_client.client.destroy(at, &fixture.destroy(false, true));
            assert_eq!(destroyed, Err(STATUS_UNSUCCESSFUL));
            // The destruction keeps waiting and completes when the client signals.
            let list = [(fixture.fence, 7)];
            fixture
                .test_client
                .client
                .signal_cpu(at, fixture.test_client.device, &list, 0)
                .unwrap();
            testbed.host.run_until_idle(at);
            fixture.close(at);
        });
        let message = stuck(&events);
        for part in [
            "main waits for retirement 1",
            "behind packet 1 of context 3 (context 3 waits for sync 1",
            "7",
        ] {
            assert!(message.contains(part), "seed {seed}: {message}");
        }
    }
}

#[test]
fn two_contexts_that_wait_for_one_another_are_both_reported() {
    let events = run(1, harness::softgpu, |testbed, at| {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
        let [one, two] = [0, 1].map(|node| test_client.create_context_on(at, node).unwrap());
        let fence = || SyncObject::Monitored(0);
        let [left, right] = [(); 2].map(|()| {
            test_client.client.create_sync(at, test_client.device, fence(), 0).unwrap().object
        });
        let resource = test_client.create_resource(at, 1).unwrap().resource;
        for (context, waits, signals) in [(one, left, right), (two, right, left)] {
            test_client.client.wait_gpu(at, context, &[(waits, 1)]).unwrap();
            test_client.submit(at, context, &[]).unwrap();
            test_client.client.signal_gpu(at, context, &[(signals, 1)]).unwrap();
        }
        let destroy = DestroyAllocation {
            device: test_client.device,
            resource,
            synchronous: true,
            ..DestroyAllocation::default()
        };
        assert_eq!(test_client.client.destroy(at, &destroy), Err(STATUS_UNSUCCESSFUL));
        test_client.client.signal_cpu(at, test_client.device, &[(left, 1)], 0).unwrap();
        testbed.host.run_until_idle(at);
        for fence in [left, right] {
            test_client.client.destroy_sync(at, fence).unwrap();
        }
        test_client.close(at, &[one, two]).unwrap();
    });
    let message = stuck(&events);
    for part in ["context 1 waits for sync 1", "context 2 waits for sync 2"] {
        assert!(message.contains(part), "{message}");
    }
}
