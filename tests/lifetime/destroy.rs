//! Destruction of allocations: the right order and the right calls, whatever else happens.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::status::{STATUS_INVALID_HANDLE, STATUS_NO_MEMORY};
use flight::{Event, EventKind, Fence, Kind, Passive, RuleId};
use harness::{KernelTestbed, VariantDriver, flown, run, softgpu, verified};
use kernel::miniport::Generation;
use softgpu::format::{Command, describe};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, DestroyAllocation};
use verify::Severity;
use windtunnel::TestClient;

fn test_client(testbed: &KernelTestbed, at: &mut Passive) -> TestClient {
    TestClient::open(Client::new(&testbed.kernel), at).unwrap()
}

/// The position of the first event that matches.
fn place(events: &[Event], what: &str, is: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(is).unwrap_or_else(|| panic!("there is no event: {what}"))
}

/// The calls of the driver, in order, from the first client call of that name on.
fn calls_after(events: &[Event], call: &str) -> Vec<String> {
    let entered =
        |event: &&Event| !matches!(&event.kind, EventKind::Enter { call: name } if name == call);
    let name = |event: &Event| match &event.kind {
        EventKind::DdiCall { name, .. } => Some(name.to_string()),
        _ => None,
    };
    events.iter().skip_while(entered).filter_map(name).collect()
}

#[test]
fn a_synchronous_destroy_behind_work_that_never_ends_is_answered_after_a_reset() {
    let events = run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        let context = test_client.create_context(at).unwrap();
        let made = test_client.create_resource(at, 1).unwrap();
        test_client.submit(at, context, &[Command::Hang]).unwrap();
        let destroy = DestroyAllocation {
            device: test_client.device,
            resource: made.resource,
            synchronous: true,
            ..DestroyAllocation::default()
        };
        // The engine is reset in the meantime, which ends the work.
        assert_eq!(test_client.client.destroy(at, &destroy), Ok(()));
        test_client.close(at, &[context]).unwrap();
    });
    assert_eq!(verified(&events).findings(), []);
    let behind = |event: &Event| match &event.kind {
        EventKind::WaitParked { why } => why.contains("behind packet 1 of context 1"),
        _ => false,
    };
    let reset =
        place(&events, "node.reset", |event| matches!(event.kind, EventKind::NodeReset { .. }));
    assert!(place(&events, "a wait", behind) < reset);
    assert!(
        place(&events, "its end", |event| event.kind == EventKind::ResourceDestroyed {}) > reset
    );
}

#[test]
fn a_resource_is_destroyed_with_its_last_member_by_any_call() {
    for seed in 0..50 {
        let events = flown("softgpu", "destroy-member-in-flight", seed).events;
        let gone = |number| {
            let subject = Kind::Allocation.subject(number);
            place(&events, "gone", |event| {
                event.subject == subject && event.kind == EventKind::AllocationDestroyed {}
            })
        };
        let goes =
            |event: &Event| matches!(event.kind, EventKind::DdiResource { destroy: true, .. });
        let carried: Vec<&Event> = events.iter().filter(|event| goes(event)).collect();
        assert_eq!(carried.len(), 1, "seed {seed}");
        let end = place(&events, "resource.destroyed", |event| {
            event.kind == EventKind::ResourceDestroyed {}
        });
        assert!(end > gone(1) && end > gone(2), "seed {seed}");
    }
    // After the work, the member without assumptions is destroyed first, and the resource is not.
    let events = flown("softgpu", "destroy-member-in-flight", 1).events;
    let stays = |event: &Event| matches!(event.kind, EventKind::DdiResource { destroy: false, .. });
    let stays = place(&events, "the resource stays", stays);
    let passed = |event: &Event| event.kind == EventKind::FencePassed { fence: Fence(2) };
    assert!(stays < place(&events, "the work has passed", passed));
}

#[test]
fn a_destroy_behind_two_nodes_waits_for_both() {
    let mut behind_both = 0;
    for seed in 0..50 {
        let events = flown("softgpu", "destroy-two-nodes", seed).events;
        for retirement in [1, 2].map(|number| Kind::Retirement.subject(number)) {
            let idle = |event: &Event| {
                event.subject == retirement && event.kind == EventKind::RetireIdle {}
            };
            let idle = place(&events, "idle", idle);
            let behind: Vec<_> = events
                .iter()
                .filter(|event| event.subject == retirement)
                .filter_map(|event| match event.kind {
                    EventKind::RetireWaits { context, packet } => Some((context, packet)),
                    _ => None,
                })
                .collect();
            for (context, packet) in &behind {
                let done = |event: &Event| {
                    let last = |kind: &EventKind| matches!(kind, EventKind::PacketDone { packet: kind, .. } if kind == packet);
                    event.subject == *context && last(&event.kind)
                };
                assert!(place(&events, "done", done) < idle, "seed {seed}: {context}");
            }
            behind_both += usize::from(behind.len() == 2);
        }
    }
    assert!(behind_both > 0, "work was in flight on both");
}

#[test]
fn a_created_allocation_is_destroyed_when_its_open_fails() {
    let variant = VariantDriver::of(Generation::Two);
    let events = run(
        1,
        |log| variant.set_up(log),
        |testbed, at| {
            let test_client = test_client(testbed, at);
            let home = test_client.create_resource(at, 1).unwrap();
            variant.set_fail_open(true);
            let pages = vec![describe(4096); 2];
            let alone = CreateAllocation::new(test_client.device, pages.clone());
            for create in
                [alone.clone(), alone.clone().with_resource(), alone.into_resource(home.resource)]
            {
                assert_eq!(test_client.client.create(at, &create).err(), Some(STATUS_NO_MEMORY));
            }
            variant.set_fail_open(false);
            test_client.destroy_resource(at, home.resource).unwrap();
            test_client.close(at, &[]).unwrap();
        },
    );
    assert!(verified(&events).findings().is_empty());
    let names = calls_after(&events, "D3DKMTCreateAllocation");
    let create_open = ["DxgkDdiCreateAllocation", "DxgkDdiOpenAllocation"];
    let destroy = "DxgkDdiDestroyAllocation";
    let expected = [
        &create_open[..], // The resource that is there.
        &create_open,     // Two alone, undone in a call each.
        &[destroy, destroy],
        &create_open, // A new resource, undone with its members in one call.
        &[destroy],
        &create_open, // Members of the one that is there: it stays.
        &[destroy],
        &["DxgkDdiCloseAllocation", destroy],
    ];
    assert_eq!(names[..expected.concat().len()], expected.concat());
    let fates: Vec<bool> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::DdiResource { destroy: goes, .. } => Some(goes),
            _ => None,
        })
        .collect();
    // The undone new resource; lent to the create that joins, then to its undoing; the destruction.
    assert_eq!(fates, [true, false, false, true]);
}

/// Two threads create into a resource while another destroys it; the driver is slow. Returns the
/// failures of the creates, in thread order.
fn create_or_destroy(seed: u64) -> (Vec<Event>, Vec<Option<i32>>) {
    let variant = VariantDriver::of(Generation::Two);
    let (sender, receiver) = std::sync::mpsc::channel();
    let body = |testbed: &KernelTestbed, at: &mut Passive| {
        let test_client = test_client(testbed, at);
        let resource = test_client.create_resource(at, 1).unwrap().resource;
        variant.yield_in_calls(&testbed.host);
        let creates = |name: &'static str| {
            let (test_client, sender) = (test_client.clone(), sender.clone());
            testbed.host.spawn(name, move |at| {
                let more = CreateAllocation::new(test_client.device, vec![describe(4096)])
                    .into_resource(resource);
                sender.send((name, test_client.client.create(at, &more).err())).unwrap();
            })
        };
        let other = test_client.clone();
        let ends = [
            creates("one"),
            creates("two"),
            testbed.host.spawn("destroys", move |at| other.destroy_resource(at, resource).unwrap()),
        ];
        for end in &ends {
            testbed.host.park(at, end, None);
        }
        test_client.close(at, &[]).unwrap();
    };
    let events = run(seed, |log| variant.set_up(log), body);
    let mut answers: Vec<(&str, Option<i32>)> = receiver.try_iter().collect();
    answers.sort_unstable();
    (events, answers.into_iter().map(|pair| pair.1).collect())
}

#[test]
fn a_create_whose_resource_was_destroyed_meanwhile_is_undone() {
    let (mut undone, mut gpu_wait, mut made) = (0, 0, 0);
    for seed in 0..300 {
        let (events, answers) = create_or_destroy(seed);
        let verifier = verified(&events);
        // A client with a stale handle breaks a rule; no other rule may be broken.
        let mut rules = verifier.findings().iter().map(|finding| finding.rule);
        assert!(rules.all(|rule_id| rule_id == RuleId::ALLOC_CREATE_003), "seed {seed}");
        for (answer, thread) in answers.into_iter().zip(3..) {
            let mine =
                || events.iter().filter(|event| event.thread == thread).map(|event| &event.kind);
            let called = |name: &str| {
                mine().any(
                    |kind| matches!(kind, EventKind::DdiCall { name: called, .. } if called == name),
                )
            };
            let parked = mine().any(|kind| matches!(kind, EventKind::WaitParked { .. }));
            match answer {
                None => made += 1,
                Some(status) => {
                    assert_eq!(status, STATUS_INVALID_HANDLE, "seed {seed}");
                    undone += usize::from(called("DxgkDdiDestroyAllocation"));
                    gpu_wait += usize::from(parked && !called("DxgkDdiCreateAllocation"));
                }
            }
        }
    }
    assert!(
        made > 0 && undone > 0 && gpu_wait > 0,
        "{made} made, {undone} undone, {gpu_wait} waited"
    );
}

#[test]
fn a_changed_hresource_is_used_from_then_on() {
    let flights = ["create-into-resource", "destroy-members-by-list", "destroy-empty-resource"]
        .map(|scenario| {
            let flown = flown("table-resource-handle-changes", scenario, 1);
            assert!(flown.findings.is_empty(), "{:?}", flown.findings);
            assert!(flown.rule_counts.count_of(RuleId::KMD_ALLOC_010) > 0);
            flown.events
        });
    for events in flights {
        let handles = events.iter().filter_map(|it| match it.kind {
            EventKind::DriverHandleSet { of: to } if to == Kind::Resource.subject(1) => {
                Some(it.subject)
            }
            _ => None,
        });
        let handles: Vec<_> = handles.collect();
        assert!(handles.len() > 1, "the driver handle changed");
        let last = events.iter().rev().find_map(|event| match event.kind {
            EventKind::DdiResource { driver_handle, destroy: true, .. } => Some(driver_handle),
            _ => None,
        });
        assert_eq!(last.as_ref(), handles.last(), "the last one travels with the end");
    }
}

#[test]
fn a_driver_may_query_objects_that_its_call_is_creating() {
    let events = flown("table", "create-standalone", 1).events;
    let open = |event: &Event| matches!(&event.kind, EventKind::DdiCall { name, .. } if name == "DxgkDdiOpenAllocation");
    let call = place(&events, "open", open);
    let number = events[call].call;
    let back = |event: &Event| matches!(&event.kind, EventKind::Callback { name } if name == "DxgkCbAcquireHandleData");
    assert!(
        events.iter().any(|event| event.call == number && back(event)),
        "it asks inside the call"
    );
    let given = place(
        &events,
        "name",
        |event| matches!(event.kind, EventKind::HandlePublished { of: to, .. } if to == Kind::View.subject(1)),
    );
    assert!(call < given, "before clients have the name");
    let opened = place(&events, "opened", |event| {
        matches!(event.kind, EventKind::ViewOpened { handle_set: true, .. })
    });
    assert!(opened < given);
}

#[test]
fn a_failed_destroy_is_not_repeated() {
    let flown = flown("kmd-fails-destroy-allocation", "destroy-members-by-list", 1);
    let rule = flown.findings.first().map(|finding| (finding.rule, finding.severity));
    assert_eq!(rule, Some((RuleId::KMD_DESTROY_009, Severity::Warning)));
    for number in 1..=3 {
        let given = |event: &&Event| {
            event.subject == Kind::Allocation.subject(number)
                && matches!(event.kind, EventKind::DdiDestroys { .. })
        };
        assert_eq!(flown.events.iter().filter(given).count(), 1);
    }
    assert_eq!(flown.live.count(), 0);
}

#[test]
fn packets_write_the_commanded_bytes() {
    let (driver, machine) = softgpu::SoftGpu::new();
    let seen = driver.clone();
    let set_up = |log: &Arc<flight::Log>| kernel::DriverSetup {
        miniport: driver,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    };
    run(1, set_up, |testbed, at| {
        let test_client = test_client(testbed, at);
        let context = test_client.create_context(at).unwrap();
        let made = test_client.create(at, 2).unwrap();
        let (from, to) = (kernel::Handle(made.allocations[0]), kernel::Handle(made.allocations[1]));
        let fill = Command::Fill { target: from, offset: 16, length: 8, value: 0x5a };
        let copy = Command::Copy { from, from_offset: 12, to, to_offset: 0, length: 8 };
        test_client.submit(at, context, &[fill, copy]).unwrap();
        testbed.host.run_until_idle(at);
        assert_eq!(seen.read(to, 0..10).unwrap(), [0, 0, 0, 0, 0x5a, 0x5a, 0x5a, 0x5a, 0, 0]);
        test_client.destroy_list(at, &made.allocations).unwrap();
        test_client.close(at, &[context]).unwrap();
    });
}
