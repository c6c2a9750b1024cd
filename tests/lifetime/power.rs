//! Power changes during other operations: nothing is lost, and no thread waits for something that
//! cannot happen.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use flight::{Event, EventKind, Log, Passive, WaitToken};
use harness::{KernelTestbed, PausableGpu, run, verified};
use kernel::power::PowerAction;
use kernel::{DriverSetup, Handle};
use softgpu::format::{Command, describe_in, only_in};
use softgpu::{LOCAL, MemoryPlan, SoftGpu};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, PagingStatus, SyncObject};
use windtunnel::TestClient;

/// The built-in driver on hardware with memory that can power down.
fn slow() -> (Arc<SoftGpu>, Arc<PausableGpu>, impl FnOnce(&Arc<Log>) -> DriverSetup) {
    set_up(MemoryPlan::default())
}

fn set_up(
    plan: MemoryPlan,
) -> (Arc<SoftGpu>, Arc<PausableGpu>, impl FnOnce(&Arc<Log>) -> DriverSetup) {
    let ram = nt::Ram::new(256 << 20).unwrap();
    let (driver, gpu) = SoftGpu::with_memory(ram, plan);
    let slow = PausableGpu::new(gpu);
    let (miniport, machine) = (driver.clone(), slow.clone());
    (driver, slow, |log: &Arc<Log>| DriverSetup {
        miniport,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    })
}

fn fill(target: u32, value: u8) -> Command {
    Command::Fill { target: Handle(target), offset: 0, length: 8192, value }
}

/// Two pages of memory that loses its contents without power.
fn hidden(test_client: &TestClient, at: &mut Passive) -> u32 {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let create = CreateAllocation::new(test_client.device, vec![describe_in(8192, 4096, &wants)]);
    test_client.create_with(at, &create).unwrap().allocations[0]
}

/// A client with a filled allocation in memory that loses its contents without power.
fn filled(testbed: &KernelTestbed, at: &mut Passive) -> (TestClient, u32, u32) {
    let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
    let context = test_client.create_context(at).unwrap();
    let it = hidden(&test_client, at);
    test_client.submit(at, context, &[fill(it, 0x5a)]).unwrap();
    testbed.host.run_until_idle(at);
    (test_client, context, it)
}

fn sleep(testbed: &KernelTestbed, at: &mut Passive) {
    assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep));
    assert!(testbed.kernel.power_up(at, testbed.adapter));
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.kind.name() == name).count()
}

fn called(events: &[Event], ddi: &str) -> usize {
    let called =
        |event: &&Event| matches!(&event.kind, EventKind::DdiCall { name, .. } if name == ddi);
    events.iter().filter(called).count()
}

#[test]
fn a_node_answers_a_query_before_power_down() {
    for seed in 0..10 {
        let (driver, _, set_up) = slow();
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, it) = filled(testbed, at);
            testbed.kernel.preempt_node(testbed.adapter, 0);
            sleep(testbed, at);
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0x5a; 8192]);
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        let place = |name: &str| events.iter().position(|event| event.kind.name() == name);
        assert!(place("node.preempted").unwrap() < place("adapter.powered").unwrap());
        assert_eq!(count(&events, "node.timed-out"), 0);
    }
}

#[test]
fn hardware_that_hangs_while_its_power_changes_is_reset() {
    for seed in 0..10 {
        let (_, slow, set_up) = slow();
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, _) = filled(testbed, at);
            slow.pause();
            assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep));
            slow.resume();
            assert!(testbed.kernel.power_up(at, testbed.adapter));
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert!(called(&events, "DxgkDdiResetFromTimeout") > 0);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}

#[test]
fn a_reset_requested_in_sleep_happens_after_it() {
    for seed in 0..10 {
        let (_, _, set_up) = slow();
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, _) = filled(testbed, at);
            assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep));
            testbed.kernel.force_reset(testbed.adapter);
            testbed.host.run_until_idle(at);
            assert!(testbed.kernel.power_up(at, testbed.adapter));
            testbed.host.run_until_idle(at);
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(called(&events, "DxgkDdiResetFromTimeout"), 1);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}

#[test]
fn a_node_queried_during_sleep_does_not_time_out() {
    for seed in 0..10 {
        let (_, _, set_up) = slow();
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, _) = filled(testbed, at);
            assert!(testbed.kernel.power_down(at, testbed.adapter, PowerAction::Sleep));
            testbed.kernel.preempt_node(testbed.adapter, 0);
            // Its wait ends with the sleep.
            let one = test_client.clone();
            let waits = testbed.host.spawn("waits", move |at| {
                let other = one.create_context(at).unwrap();
                one.client.destroy_context(at, other).unwrap();
            });
            let minute = testbed.host.now() + 600_000_000;
            testbed.host.park(at, &WaitToken::new("a minute"), Some(minute));
            assert!(testbed.kernel.power_up(at, testbed.adapter));
            testbed.host.park(at, &waits, None);
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(count(&events, "node.preempted"), 1);
        assert_eq!(count(&events, "node.timed-out"), 0);
    }
}

/// A packet that fills an allocation, of a context that first waits for a fence. Only the packet
/// still needs the allocation.
fn late_fill(
    test_client: &TestClient,
    at: &mut Passive,
    context: u32,
    target: u32,
    value: u8,
) -> u32 {
    let (client, device) = (&test_client.client, test_client.device);
    let fence = client.create_sync(at, device, SyncObject::Monitored(0), 0).unwrap().object;
    client.wait_gpu(at, context, &[(fence, 1)]).unwrap();
    test_client.submit(at, context, &[fill(target, value)]).unwrap();
    // It was requested with each packet.
    for _ in 0..2 {
        client.evict(at, device, &[target], EvictFlags::EvictOnlyIfNecessary).unwrap();
    }
    fence
}

#[test]
fn allocations_of_an_unsubmitted_packet_survive_sleep() {
    for seed in 0..10 {
        let (driver, _, set_up) = slow();
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, it) = filled(testbed, at);
            let fence = late_fill(&test_client, at, context, it, 0xa5);
            sleep(testbed, at);
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0x5a; 8192]);
            test_client.client.signal_cpu(at, test_client.device, &[(fence, 1)], 0).unwrap();
            testbed.host.run_until_idle(at);
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0xa5; 8192]);
            test_client.client.destroy_sync(at, fence).unwrap();
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}

#[test]
fn power_down_follows_the_packets_that_paging_work_waits_for() {
    let mut waiting = 0;
    for seed in 0..10 {
        let pages = |value: u64| value * 4096;
        // The context's save area takes one of the two pages.
        let plan = MemoryPlan { local: pages(3), ..MemoryPlan::default() };
        let (driver, _, set_up) = set_up(plan);
        let events = run(seed, set_up, |testbed, at| {
            let (test_client, context, it) = filled(testbed, at);
            let (client, device) = (&test_client.client, test_client.device);
            let other = hidden(&test_client, at);
            let queue = test_client.paging_queue(at).unwrap();
            // After the submission no call of this thread lets the hardware run.
            test_client.submit(at, context, &[fill(it, 0xa5)]).unwrap();
            // It was requested with each packet.
            for _ in 0..2 {
                client.evict(at, device, &[it], EvictFlags::EvictOnlyIfNecessary).unwrap();
            }
            let made = test_client.client.make_resident(at, queue.queue, &[other], 0).unwrap();
            let PagingStatus::Pending(value) = made else { panic!("{made:?}") };
            let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
            let sleeps = testbed.host.spawn("sleeps", move |at| {
                assert!(kernel.power_down(at, adapter, PowerAction::Sleep));
                assert!(kernel.power_up(at, adapter));
            });
            test_client.client.wait(at, test_client.device, queue.fence, value).unwrap();
            testbed.host.park(at, &sleeps, None);
            assert!(driver.read(Handle(other), 0..8192).unwrap() == [0; 8192]);
            test_client.client.evict(at, test_client.device, &[other], 0).unwrap();
            test_client.make_resident(at, &[it]).unwrap();
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0xa5; 8192]);
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(count(&events, "wait.stuck"), 0);
        waiting += count_waiting(&events);
    }
    assert!(waiting > 0, "no paging work waits for the packet");
}

/// The number of times that paging work waits for a packet.
fn count_waiting(events: &[Event]) -> usize {
    let waits = |event: &&Event| matches!(event.kind, EventKind::PagingPlanned { waits: 1.., .. });
    events.iter().filter(waits).count()
}
