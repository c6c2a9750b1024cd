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
    plug(MemoryPlan::default())
}

fn plug(
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
fn hidden(bench: &TestClient, at: &mut Passive) -> u32 {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let create = CreateAllocation::new(bench.device, vec![describe_in(8192, 4096, &wants)]);
    bench.create_with(at, &create).unwrap().allocations[0]
}

/// A client with a filled allocation in memory that loses its contents without power.
fn filled(wing: &KernelTestbed, at: &mut Passive) -> (TestClient, u32, u32) {
    let bench = TestClient::open(Client::new(&wing.kernel), at).unwrap();
    let context = bench.create_context(at).unwrap();
    let it = hidden(&bench, at);
    bench.submit(at, context, &[fill(it, 0x5a)]).unwrap();
    wing.host.run_until_idle(at);
    (bench, context, it)
}

fn sleep(wing: &KernelTestbed, at: &mut Passive) {
    assert!(wing.kernel.power_down(at, wing.adapter, PowerAction::Sleep));
    assert!(wing.kernel.power_up(at, wing.adapter));
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
        let (driver, _, plug) = slow();
        let events = run(seed, plug, |wing, at| {
            let (bench, context, it) = filled(wing, at);
            wing.kernel.preempt_node(wing.adapter, 0);
            sleep(wing, at);
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0x5a; 8192]);
            bench.close(at, &[context]).unwrap();
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
        let (_, slow, plug) = slow();
        let events = run(seed, plug, |wing, at| {
            let (bench, context, _) = filled(wing, at);
            slow.pause();
            assert!(wing.kernel.power_down(at, wing.adapter, PowerAction::Sleep));
            slow.resume();
            assert!(wing.kernel.power_up(at, wing.adapter));
            bench.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert!(called(&events, "DxgkDdiResetFromTimeout") > 0);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}

#[test]
fn a_reset_that_is_wanted_in_sleep_comes_after_it() {
    for seed in 0..10 {
        let (_, _, plug) = slow();
        let events = run(seed, plug, |wing, at| {
            let (bench, context, _) = filled(wing, at);
            assert!(wing.kernel.power_down(at, wing.adapter, PowerAction::Sleep));
            wing.kernel.force_reset(wing.adapter);
            wing.host.run_until_idle(at);
            assert!(wing.kernel.power_up(at, wing.adapter));
            wing.host.run_until_idle(at);
            bench.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(called(&events, "DxgkDdiResetFromTimeout"), 1);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}

#[test]
fn a_node_queried_during_sleep_does_not_time_out() {
    for seed in 0..10 {
        let (_, _, plug) = slow();
        let events = run(seed, plug, |wing, at| {
            let (bench, context, _) = filled(wing, at);
            assert!(wing.kernel.power_down(at, wing.adapter, PowerAction::Sleep));
            wing.kernel.preempt_node(wing.adapter, 0);
            // Its wait ends with the sleep.
            let one = bench.clone();
            let waits = wing.host.spawn("waits", move |at| {
                let other = one.create_context(at).unwrap();
                one.client.destroy_context(at, other).unwrap();
            });
            let minute = wing.host.now() + 600_000_000;
            wing.host.park(at, &WaitToken::new("a minute"), Some(minute));
            assert!(wing.kernel.power_up(at, wing.adapter));
            wing.host.park(at, &waits, None);
            bench.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(count(&events, "node.preempted"), 1);
        assert_eq!(count(&events, "node.timed-out"), 0);
    }
}

/// A packet that fills an allocation, of a context that first waits for a fence. Only the packet
/// still needs the allocation.
fn late_fill(bench: &TestClient, at: &mut Passive, context: u32, target: u32, value: u8) -> u32 {
    let (client, device) = (&bench.client, bench.device);
    let fence = client.create_sync(at, device, SyncObject::Monitored(0), 0).unwrap().object;
    client.wait_gpu(at, context, &[(fence, 1)]).unwrap();
    bench.submit(at, context, &[fill(target, value)]).unwrap();
    // It was requested with each packet.
    for _ in 0..2 {
        client.evict(at, device, &[target], EvictFlags::EvictOnlyIfNecessary).unwrap();
    }
    fence
}

#[test]
fn allocations_of_an_unsubmitted_packet_survive_sleep() {
    for seed in 0..10 {
        let (driver, _, plug) = slow();
        let events = run(seed, plug, |wing, at| {
            let (bench, context, it) = filled(wing, at);
            let fence = late_fill(&bench, at, context, it, 0xa5);
            sleep(wing, at);
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0x5a; 8192]);
            bench.client.signal_cpu(at, bench.device, &[(fence, 1)], 0).unwrap();
            wing.host.run_until_idle(at);
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0xa5; 8192]);
            bench.client.destroy_sync(at, fence).unwrap();
            bench.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}

#[test]
fn power_goes_after_the_packets_that_paging_work_waits_for() {
    for seed in 0..10 {
        let pages = |value: u64| value * 4096;
        // The context's save area takes one of the two pages.
        let plan = MemoryPlan { local: pages(3), ..MemoryPlan::default() };
        let (driver, _, plug) = plug(plan);
        let events = run(seed, plug, |wing, at| {
            let (bench, context, it) = filled(wing, at);
            let fence = late_fill(&bench, at, context, it, 0xa5);
            let other = hidden(&bench, at);
            let queue = bench.paging_queue(at).unwrap();
            let made = bench.client.make_resident(at, queue.queue, &[other], 0).unwrap();
            let PagingStatus::Pending(value) = made else { panic!("{made:?}") };
            let (kernel, adapter) = (wing.kernel.clone(), wing.adapter);
            let sleeps = wing.host.spawn("sleeps", move |at| {
                assert!(kernel.power_down(at, adapter, PowerAction::Sleep));
                assert!(kernel.power_up(at, adapter));
            });
            wing.host.run_until_idle(at);
            bench.client.signal_cpu(at, bench.device, &[(fence, 1)], 0).unwrap();
            bench.client.wait(at, bench.device, queue.fence, value).unwrap();
            wing.host.park(at, &sleeps, None);
            assert!(driver.read(Handle(other), 0..8192).unwrap() == [0; 8192]);
            bench.client.evict(at, bench.device, &[other], 0).unwrap();
            bench.make_resident(at, &[it]).unwrap();
            assert!(driver.read(Handle(it), 0..8192).unwrap() == [0xa5; 8192]);
            bench.client.destroy_sync(at, fence).unwrap();
            bench.close(at, &[context]).unwrap();
        });
        assert_eq!(verified(&events).findings(), []);
        assert_eq!(count(&events, "wait.stuck"), 0);
    }
}
