//! Destruction during other operations, in many orders and on real threads: no object is leaked,
//! and neither the driver nor the kernel breaks a rule.

use flight::{Component, Event, EventKind, Passive, WaitToken};
use harness::{KernelTestbed, VariantDriver, run, verified};
use kernel::miniport::Generation;
use softgpu::format::{Command, describe};
use thunk::{Client, CreateAllocation, DestroyAllocation};
use windtunnel::{HostKind, TestClient};

/// The action on a kernel whose driver is slow.
type TestBody = fn(&KernelTestbed, &mut Passive);

/// The concurrent work of a thread; it signals when it is in progress.
type Thread = Box<dyn FnOnce(&mut Passive, &dyn Fn()) + Send>;

/// Runs a test in many orders, and as often on real threads. Returns the events of each.
fn fly_all(generation: Generation, times: u64, body: TestBody) -> Vec<Vec<Event>> {
    let mut flights = Vec::new();
    for on in (0..times).flat_map(|seed| [HostKind::deterministic(seed), HostKind::Threaded]) {
        let driver = VariantDriver::of(generation);
        let events = run(
            on,
            |log| driver.set_up(log),
            |testbed, at| {
                driver.yield_in_calls(&testbed.host);
                body(testbed, at);
            },
        );
        for finding in verified(&events).findings() {
            assert_eq!(finding.component, Component::Client, "{on:?}: {}", finding.message);
        }
        flights.push(events);
    }
    flights
}

/// Starts threads; when one is in progress, runs `meanwhile`; then waits for all of them.
fn with<const N: usize>(
    testbed: &KernelTestbed,
    at: &mut Passive,
    threads: [Thread; N],
    meanwhile: impl FnOnce(&mut Passive),
) {
    let going = WaitToken::new("a thread in the middle of it");
    let spawn = |(number, body): (usize, Thread)| {
        let (host, going) = (testbed.host.clone(), going.clone());
        testbed.host.spawn(&format!("client {number}"), move |at| {
            let say = || host.wake(&going);
            body(at, &say);
            say();
        })
    };
    let ends: Vec<WaitToken> = (1..).zip(threads).map(spawn).collect();
    testbed.host.park(at, &going, None);
    meanwhile(at);
    for end in &ends {
        testbed.host.park(at, end, None);
    }
}

/// Repeats an action until it fails, and signals each success.
fn again(mut body: impl FnMut(&mut Passive) -> Option<()> + Send + 'static) -> Thread {
    Box::new(move |at, say| {
        while body(at).is_some() {
            say();
        }
    })
}

/// Creates, uses and destroys a device, as far as that succeeds.
fn life(client: &Client, at: &mut Passive) -> Option<()> {
    let test_client = TestClient::open(client.clone(), at).ok()?;
    on_device(&test_client, at);
    client.destroy_device(at, test_client.device).ok()
}

/// Uses a device, as far as that succeeds.
fn on_device(test_client: &TestClient, at: &mut Passive) -> Option<()> {
    let context = test_client.create_context(at).ok()?;
    let made = test_client.create_resource(at, 2).ok()?;
    test_client.fill(at, context, made.allocations[0]).ok()?;
    let more = CreateAllocation::new(test_client.device, vec![describe(4096)])
        .into_resource(made.resource);
    test_client.client.create(at, &more).ok()?;
    let destroy = DestroyAllocation {
        device: test_client.device,
        resource: made.resource,
        ..DestroyAllocation::default()
    };
    test_client.destroy_with(at, &DestroyAllocation { synchronous: true, ..destroy }).ok()?;
    test_client.client.destroy_context(at, context).ok()
}

fn adapter_stops(testbed: &KernelTestbed, at: &mut Passive) {
    let clients = [Client::new(&testbed.kernel), Client::new(&testbed.kernel)];
    let lives = clients.clone().map(|client| again(move |at| life(&client, at)));
    with(testbed, at, lives, |at| {
        testbed.kernel.remove_adapter(at, testbed.adapter);
    });
    for client in clients {
        client.kill(at);
    }
}

#[test]
fn an_adapter_stops_while_devices_come_and_go() {
    for generation in [Generation::One, Generation::Two] {
        fly_all(generation, 100, adapter_stops);
    }
}

fn process_is_killed(testbed: &KernelTestbed, at: &mut Passive) {
    let client = Client::new(&testbed.kernel);
    let lives = [client.clone(), client.clone()].map(|client| again(move |at| life(&client, at)));
    with(testbed, at, lives, |at| {
        client.kill(at);
    });
}

#[test]
fn a_process_is_killed_while_its_threads_are_inside() {
    for generation in [Generation::One, Generation::Two] {
        for events in fly_all(generation, 100, process_is_killed) {
            let ended = |event: &Event| event.kind == EventKind::ProcessEnded {};
            let late = events.iter().skip_while(|event| !ended(event)).skip(1);
            let for_it =
                |event: &&Event| matches!(event.kind, EventKind::DdiCall { process: Some(_), .. });
            assert_eq!(late.filter(for_it).count(), 0, "the driver is called for it no more");
        }
    }
}

fn device_is_destroyed(testbed: &KernelTestbed, at: &mut Passive) {
    let Ok(test_client) = TestClient::open(Client::new(&testbed.kernel), at) else { return };
    let lives = [test_client.clone(), test_client.clone()]
        .map(|test_client| again(move |at| on_device(&test_client, at)));
    with(testbed, at, lives, |at| {
        assert_eq!(test_client.client.destroy_device(at, test_client.device), Ok(()));
    });
    test_client.client.kill(at);
}

#[test]
fn a_device_is_destroyed_while_threads_are_inside() {
    for generation in [Generation::One, Generation::Two] {
        fly_all(generation, 100, device_is_destroyed);
    }
}

/// A device is lost with work in the hardware, which nothing waits for any more.
fn work_outlives_its_device(testbed: &KernelTestbed, at: &mut Passive) {
    let Ok(test_client) = TestClient::open(Client::new(&testbed.kernel), at) else { return };
    let Ok(context) = test_client.create_context(at) else { return };
    for _ in 0..20 {
        let _ = test_client.submit(at, context, &[]);
    }
    let _ = test_client.client.submit(at, context, b"no commands");
    test_client.client.kill(at);
    testbed.kernel.remove_adapter(at, testbed.adapter);
}

#[test]
fn no_interrupt_comes_when_the_driver_has_forgotten_its_adapter() {
    for events in fly_all(Generation::Two, 100, work_outlives_its_device) {
        let calls = |name: &str| {
            let called = |event: &Event| matches!(&event.kind, EventKind::DdiCall { name: event, .. } if event == name);
            events.iter().rposition(called)
        };
        let removed = calls("DxgkDdiRemoveDevice");
        assert!(calls("DxgkDdiInterruptRoutine") < removed, "an interrupt after the end");
        assert!(calls("DxgkDdiDpcRoutine") < removed, "a DPC after the end");
    }
}

/// Two threads destroy one object; one of them gets an error.
fn both_end_it(testbed: &KernelTestbed, at: &mut Passive) {
    let Ok(test_client) = TestClient::open(Client::new(&testbed.kernel), at) else { return };
    let Ok(context) = test_client.create_context(at) else { return };
    let Ok(made) = test_client.create_resource(at, 2) else { return };
    let _ = test_client.submit(
        at,
        context,
        &[Command::Fill {
            target: kernel::Handle(made.allocations[0]),
            offset: 0,
            length: 4096,
            value: 1,
        }],
    );
    let (sender, receiver) = std::sync::mpsc::channel();
    let ends = [(), ()].map(|()| -> Thread {
        let (test_client, made, sender) = (test_client.clone(), made.clone(), sender.clone());
        Box::new(move |at, _| {
            let of = DestroyAllocation {
                device: test_client.device,
                synchronous: true,
                ..DestroyAllocation::default()
            };
            let list = DestroyAllocation { list: made.allocations, ..of.clone() };
            let whole = DestroyAllocation { resource: made.resource, ..of };
            let answers = [
                test_client.client.destroy(at, &list).is_ok(),
                test_client.client.destroy(at, &whole).is_ok(),
                test_client.client.destroy_context(at, context).is_ok(),
                test_client.client.destroy_device(at, test_client.device).is_ok(),
            ];
            let _ = sender.send(answers);
        })
    });
    with(testbed, at, ends, |_| ());
    let answers: Vec<[bool; 4]> = receiver.try_iter().collect();
    let times = |nr: usize| answers.iter().filter(|flags| flags[nr]).count();
    // The first thread that destroys the resource or the device also destroys its contents.
    assert!(times(0) <= 1 && times(1) <= 1 && times(2) <= 1, "{answers:?}");
    assert_eq!(times(3), 1, "{answers:?}");
    test_client.client.kill(at);
}

#[test]
fn an_object_destroyed_by_two_threads_ends_once() {
    fly_all(Generation::Two, 200, both_end_it);
}

/// A context is destroyed while threads submit to it and create, repeatedly.
fn context_is_destroyed(testbed: &KernelTestbed, at: &mut Passive) {
    let Ok(test_client) = TestClient::open(Client::new(&testbed.kernel), at) else { return };
    for _ in 0..5 {
        let Ok(context) = test_client.create_context(at) else { return };
        let (one, two, creates) = (test_client.clone(), test_client.clone(), test_client.clone());
        let threads: [Thread; 3] = [
            again(move |at| one.submit(at, context, &[]).ok()),
            again(move |at| two.submit(at, context, &[]).ok()),
            Box::new(move |at, _| {
                for _ in 0..3 {
                    let made = creates
                        .create(at, 1)
                        .map(|created_allocation| created_allocation.allocations);
                    let _ = made.and_then(|numbers| creates.destroy_list(at, &numbers));
                }
            }),
        ];
        with(testbed, at, threads, |at| {
            assert_eq!(test_client.client.destroy_context(at, context), Ok(()));
        });
    }
    test_client.client.kill(at);
}

#[test]
fn a_context_is_destroyed_while_threads_submit_to_it() {
    let first = fly_all(Generation::One, 50, context_is_destroyed);
    for events in first.into_iter().chain(fly_all(Generation::Two, 50, context_is_destroyed)) {
        let made = events.iter().filter(|event| event.kind.name() == "context.created").count();
        let destroys = |event: &&Event| matches!(&event.kind, EventKind::DdiCall { name, .. } if name == "DxgkDdiDestroyContext");
        assert_eq!(made, events.iter().filter(destroys).count(), "the driver is told of each end");
    }
}

#[test]
fn an_adapter_is_removed_by_three_at_once() {
    fly_all(Generation::Two, 100, |testbed, at| {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).ok();
        let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
        let others = [kernel.clone(), kernel].map(|kernel| -> Thread {
            Box::new(move |at, _| {
                kernel.remove_adapter(at, adapter);
                assert!(kernel.adapters().is_empty());
            })
        });
        with(testbed, at, others, |at| testbed.kernel.remove_adapter(at, testbed.adapter));
        if let Some(test_client) = test_client {
            test_client.client.kill(at);
        }
    });
}
