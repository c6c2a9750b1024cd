//! Renamed allocations, byte by byte: every packet sees the bytes written for it, and a discarding
//! lock does not wait for packets.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as CreateFlags;
use abi::status::{STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_INVALID_PARAMETER};
use abi::ukm::{D3DDDI_ALLOCATIONINFO2_FLAGS as InfoFlags, D3DDDICB_LOCKFLAGS as LockFlags};
use flight::{Event, EventKind, Log, Passive, Spawner};
use harness::memory_client::pages_of_each;
use harness::memory_testbed::{PAGE, peek, write_cpu};
use harness::{run, verified};
use kernel::segment::PlacementRequirements;
use kernel::{DriverSetup, Handle, Kernel};
use softgpu::format::{Command, describe_in, encode, list_handle, only_in};
use softgpu::{APERTURE, LOCAL, MemoryPlan, SoftGpu, VISIBLE};
use std::sync::Arc;
use thunk::{
    AllocationSelection, Client, CreateAllocation, DestroyAllocation, RenderCommand, RenderContext,
    SyncObject,
};
use windtunnel::HostKind;

const NO_REFERENCE: u32 = LockFlags::NoExistingReference;

/// Little memory: five allocations of four pages.
const SMALL: MemoryPlan = pages_of_each(20);

/// Every order, including real threads and little memory.
fn orders() -> impl Iterator<Item = (HostKind, MemoryPlan)> {
    let deterministic = (1..=6).map(|value| (HostKind::deterministic(value), SMALL));
    let pressured = (1..=6).map(|value| (HostKind::under_pressure(value), MemoryPlan::default()));
    deterministic.chain(pressured).chain([(HostKind::Threaded, SMALL); 3])
}

/// Every location of an allocation that a client fills.
fn placements() -> [PlacementRequirements; 3] {
    [only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), only_in(&[LOCAL, APERTURE])]
}

/// A client of a WDDM 1.x driver, with a device and a context with allocation lists.
struct RenderClient {
    kernel: Arc<Kernel>,
    host: Arc<dyn Spawner>,
    client: Client,
    device: u32,
    context: RenderContext,
}

impl RenderClient {
    fn create(&self, at: &mut Passive, pages: u64, wants: &PlacementRequirements) -> u32 {
        let private = vec![describe_in(pages * PAGE, PAGE, wants)];
        self.client.create(at, &CreateAllocation::new(self.device, private)).unwrap().allocations[0]
    }

    fn render(&mut self, at: &mut Passive, command: Command, list: &[u32]) {
        let list = list.iter().map(|number| (*number, true)).collect();
        let packet =
            RenderCommand { commands: encode(&[command]), list, ..RenderCommand::default() };
        self.client.render(at, &mut self.context, &packet).unwrap();
    }

    /// Discards an allocation's contents and fills it. Returns its new handle.
    fn refill(&self, at: &mut Passive, it: u32, value: u8) -> u32 {
        let mut locked = self.client.lock_discard(at, self.device, it, 0);
        if locked == Err(STATUS_GRAPHICS_ALLOCATION_BUSY) {
            locked = self.client.lock_discard(at, self.device, it, NO_REFERENCE);
        }
        let (name, address) = locked.unwrap();
        assert!(write_cpu(address, &[value; 64]));
        self.unlock(at, name);
        name
    }

    fn unlock(&self, at: &mut Passive, it: u32) {
        self.client.unlock(at, self.device, &[it]).unwrap();
    }

    /// The bytes that the CPU sees.
    fn seen(&self, at: &mut Passive, it: u32, bytes: usize) -> Vec<u8> {
        let address = self.client.lock(at, self.device, it, LockFlags::LockEntire, &[]).unwrap();
        let seen = peek(address, bytes).unwrap();
        self.unlock(at, it);
        seen
    }

    fn destroy(&self, at: &mut Passive, list: &[u32]) {
        let list = DestroyAllocation {
            device: self.device,
            list: list.to_vec(),
            ..DestroyAllocation::default()
        };
        self.client.destroy(at, &list).unwrap();
    }

    /// Stalls the GPU until this fence is signalled.
    fn stall(&self, at: &mut Passive) -> u32 {
        let fence = self.client.create_sync(at, self.device, SyncObject::Monitored(0), 0);
        let fence = fence.unwrap().object;
        self.client.wait_gpu(at, self.context.context, &[(fence, 1)]).unwrap();
        fence
    }

    fn go_on(&self, at: &mut Passive, fence: u32) {
        self.client.signal_cpu(at, self.device, &[(fence, 1)], 0).unwrap();
        self.host.run_until_idle(at);
        self.client.destroy_sync(at, fence).unwrap();
    }
}

fn copy(from: u32, to: u32, place: u64) -> Command {
    let (from, to) = (Handle(from), Handle(to));
    Command::Copy { from, from_offset: 0, to, to_offset: place * 64, length: 64 }
}

/// Runs a test with a client that may leak objects, which end with its device.
fn run_client(
    on: HostKind,
    plan: MemoryPlan,
    body: impl FnOnce(&mut RenderClient, &mut Passive),
) -> Vec<Event> {
    with_ram(1 << 18, on, plan, body)
}

/// As above, in a machine with this many pages.
fn with_ram(
    pages: u64,
    on: HostKind,
    plan: MemoryPlan,
    body: impl FnOnce(&mut RenderClient, &mut Passive),
) -> Vec<Event> {
    let ram = nt::Ram::new(pages * PAGE).unwrap();
    let (driver, machine) = SoftGpu::with_lists(ram.clone(), plan);
    let set_up = move |log: &Arc<Log>| DriverSetup {
        miniport: driver,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    };
    let events = run(on, set_up, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let context = client.create_context_with_lists(at, device, 0).unwrap();
        let (kernel, host) = (testbed.kernel.clone(), testbed.host.clone());
        let mut render_client = RenderClient { kernel, host, client, device, context };
        body(&mut render_client, at);
        testbed.kernel.validate().unwrap();
        let RenderClient { client, device, context, .. } = render_client;
        client.destroy_context(at, context.context).unwrap();
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    });
    assert_eq!(ram.allocated_bytes(), 0, "{on:?}: pages of the machine's memory were left behind");
    events
}

/// As above, with a client that breaks no rule.
fn run_clean_client(
    on: HostKind,
    plan: MemoryPlan,
    body: impl FnOnce(&mut RenderClient, &mut Passive),
) -> Vec<Event> {
    let events = run_client(on, plan, body);
    assert_eq!(verified(&events).findings(), [], "{on:?}");
    let broken = events.iter().find(|event| matches!(event.kind, EventKind::RuleBroken { .. }));
    assert!(broken.is_none(), "{on:?}: {broken:?}");
    events
}

fn instances_created(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.kind, EventKind::InstanceCreated { .. })).count()
}

#[test]
fn every_packet_sees_what_was_written_for_it() {
    for (on, plan) in orders() {
        for (home, wants) in placements().into_iter().enumerate() {
            for instances in [0, 2, 3] {
                let events = run_clean_client(on, plan, |render_client, at| {
                    let first =
                        render_client.create(at, 4, &PlacementRequirements { instances, ..wants });
                    let target = render_client.create(at, 1, &only_in(&[VISIBLE, APERTURE]));
                    let mut newest = first;
                    for turn in 0..16_u8 {
                        newest = render_client.refill(at, newest, turn + 1);
                        render_client.render(
                            at,
                            copy(first, target, turn.into()),
                            &[newest, target],
                        );
                    }
                    let seen = render_client.seen(at, target, 16 * 64);
                    let due: Vec<u8> = (1..=16).flat_map(|byte| [byte; 64]).collect();
                    assert!(seen == due, "{on:?}, home {home}, {instances} instances");
                    render_client.destroy(at, &[newest, target]);
                });
                let most = if instances == 0 { 63 } else { instances as usize - 1 };
                assert!(
                    (1..=most).contains(&instances_created(&events)),
                    "{on:?}, {}",
                    instances_created(&events)
                );
            }
        }
    }
}

#[test]
fn a_discard_does_not_wait_below_the_instance_limit() {
    for (on, plan) in orders() {
        let events = run_clean_client(on, plan, |render_client, at| {
            let first = render_client.create(at, 1, &only_in(&[VISIBLE, APERTURE]));
            let target = render_client.create(at, 1, &only_in(&[VISIBLE, APERTURE]));
            let fence = render_client.stall(at);
            let mut names = vec![first];
            for turn in 0..12_u8 {
                let (name, address) = render_client
                    .client
                    .lock_discard(at, render_client.device, names[names.len() - 1], 0)
                    .unwrap();
                assert!(write_cpu(address, &[turn + 1; 64]));
                render_client.unlock(at, name);
                render_client.render(at, copy(first, target, turn.into()), &[name, target]);
                names.push(name);
            }
            render_client.go_on(at, fence);
            let due: Vec<u8> = (1..=12).flat_map(|byte| [byte; 64]).collect();
            assert!(render_client.seen(at, target, 12 * 64) == due, "{on:?}");
            // All instances are idle now: the first one is used again.
            let (name, _) =
                render_client.client.lock_discard(at, render_client.device, names[12], 0).unwrap();
            assert!(names[..12].contains(&name), "{on:?}");
            render_client.unlock(at, name);
        });
        // The first was never used, so the second lock returned it as well.
        assert_eq!(instances_created(&events), 11, "{on:?}");
    }
}

#[test]
fn an_instance_that_commands_reference_is_not_reused() {
    for (on, plan) in orders() {
        run_clean_client(on, plan, |render_client, at| {
            let (client, device) = (render_client.client.clone(), render_client.device);
            let wants = PlacementRequirements { instances: 3, ..only_in(&[VISIBLE, APERTURE]) };
            let first = render_client.create(at, 1, &wants);
            let (second, _) = client.lock_discard(at, device, first, 0).unwrap();
            let (third, address) = client.lock_discard(at, device, second, 0).unwrap();
            assert!(first != second && second != third && first != third);
            assert!(write_cpu(address, &[3; 64]));
            // Nothing was submitted, so the client may have written commands for all of them.
            let hurried = [0, LockFlags::DonotWait, LockFlags::DonotWait | LockFlags::IgnoreSync];
            for flags in hurried {
                let more = client.lock_discard(at, device, third, flags);
                assert_eq!(more, Err(STATUS_GRAPHICS_ALLOCATION_BUSY), "{on:?}");
            }
            render_client.unlock(at, second);
            render_client.unlock(at, third);
            // It has not: its current instance is idle and is reused.
            let again = client.lock_discard(at, device, third, NO_REFERENCE).unwrap();
            assert_eq!(again.0, third, "{on:?}");
            render_client.unlock(at, third);
            // While a packet uses it, another instance is returned.
            let fence = render_client.stall(at);
            render_client.render(at, copy(first, first, 2), &[third]);
            let other = client.lock_discard(at, device, third, NO_REFERENCE).unwrap();
            assert!(other.0 != third, "{on:?}");
            render_client.unlock(at, other.0);
            render_client.go_on(at, fence);
            assert_eq!(render_client.seen(at, other.0, 1).len(), 1);
            render_client.destroy(at, &[other.0]);
        });
    }
}

#[test]
fn a_single_instance_waits_for_its_packets() {
    for (on, plan) in orders() {
        let events = run_clean_client(on, plan, |render_client, at| {
            let (client, device) = (render_client.client.clone(), render_client.device);
            let one = PlacementRequirements { instances: 1, ..only_in(&[VISIBLE, APERTURE]) };
            let it = render_client.create(at, 1, &one);
            let target = render_client.create(at, 1, &only_in(&[VISIBLE, APERTURE]));
            for turn in 0..6_u8 {
                let hurried = client.lock_discard(at, device, it, 0);
                assert_eq!(hurried, Err(STATUS_GRAPHICS_ALLOCATION_BUSY));
                let flags = NO_REFERENCE | LockFlags::DonotWait;
                let (name, address) = client.lock_discard(at, device, it, flags).unwrap();
                assert_eq!(name, it);
                assert!(write_cpu(address, &[turn + 1; 64]));
                render_client.unlock(at, it);
                render_client.render(at, copy(it, target, turn.into()), &[it, target]);
            }
            let due: Vec<u8> = (1..=6).flat_map(|byte| [byte; 64]).collect();
            assert!(render_client.seen(at, target, 6 * 64) == due, "{on:?}");
        });
        assert_eq!(instances_created(&events), 0);
    }
}

#[test]
fn an_older_instance_can_only_be_unlocked() {
    for (on, plan) in orders() {
        run_client(on, plan, |render_client, at| {
            let (client, device) = (render_client.client.clone(), render_client.device);
            let first = render_client.create(at, 1, &only_in(&[VISIBLE, APERTURE]));
            let entire = LockFlags::LockEntire;
            let before = client.lock(at, device, first, entire, &[]).unwrap();
            let (newest, address) = client.lock_discard(at, device, first, 0).unwrap();
            assert!(
                write_cpu(before, &[1; 64]) && write_cpu(address, &[2; 64]) && before != address
            );
            assert_eq!(peek(before, 1), Some(vec![1]), "{on:?}");
            let refused = Err(STATUS_INVALID_PARAMETER);
            assert_eq!(client.lock(at, device, first, entire, &[]).map(drop), refused);
            let destroy = |number| DestroyAllocation {
                device,
                list: vec![number],
                ..DestroyAllocation::default()
            };
            assert_eq!(client.destroy(at, &destroy(first)), refused);
            assert_eq!(client.offer(at, AllocationSelection::of(device, &[first]), 1), refused);
            render_client.unlock(at, first);
            assert_eq!(client.unlock(at, device, &[first]), refused, "it is not locked any more");
            assert_eq!(client.unlock(at, device, &[newest, newest]), refused, "not twice");
            render_client.unlock(at, newest);
            // The newest instance is offered.
            client.offer(at, AllocationSelection::of(device, &[newest]), 1).unwrap();
            assert_eq!(client.lock_discard(at, device, newest, 0).map(drop), refused);
            let thrown = client.reclaim(at, AllocationSelection::of(device, &[newest])).unwrap()[0];
            assert!(thrown || render_client.seen(at, newest, 64) == [2; 64], "{on:?}");
            client.destroy(at, &destroy(newest)).unwrap();
            assert_eq!(client.destroy(at, &destroy(newest)), refused);
        });
    }
}

#[test]
fn a_shared_primary_or_pinned_allocation_has_one_instance() {
    let (resource, shared) = (CreateFlags::CreateResource, CreateFlags::CreateShared);
    let cases = [
        (resource, 0, false),
        (resource | shared, 0, false),
        (0, InfoFlags::Primary, false),
        (0, 0, true),
    ];
    for (on, plan) in orders() {
        run_clean_client(on, plan, |render_client, at| {
            let (client, device) = (render_client.client.clone(), render_client.device);
            for (flags, info, pinned) in cases {
                let mut wants = only_in(&[VISIBLE, APERTURE]);
                wants.flags.pinned = pinned;
                let private = vec![describe_in(PAGE, PAGE, &wants)];
                let allocation_flags = vec![info];
                let create = CreateAllocation {
                    flags,
                    allocation_flags,
                    ..CreateAllocation::new(device, private)
                };
                let made = client.create(at, &create).unwrap();
                let it = made.allocations[0];
                let (name, _) = client.lock_discard(at, device, it, 0).unwrap();
                assert_eq!(name == it, flags != resource || pinned, "{on:?}, {flags}, {info}");
                render_client.unlock(at, name);
                let list = if made.resource == 0 { vec![it] } else { Vec::new() };
                let all = DestroyAllocation {
                    device,
                    resource: made.resource,
                    list,
                    ..DestroyAllocation::default()
                };
                client.destroy(at, &all).unwrap();
            }
        });
    }
}

/// The machine has pages for three instances, and a few more for buffers.
#[test]
fn a_discard_waits_when_memory_is_short() {
    let plan = MemoryPlan { aperture: 80 * PAGE, ..SMALL };
    for on in (1..=6).map(HostKind::deterministic).chain([HostKind::Threaded; 3]) {
        let events = with_ram(40 + 3 * 64 + 40, on, plan, |render_client, at| {
            let first = render_client.create(at, 64, &only_in(&[APERTURE]));
            let target = render_client.create(at, 1, &only_in(&[VISIBLE]));
            let fence = render_client.stall(at);
            let (client, device, host) =
                (render_client.client.clone(), render_client.device, render_client.host.clone());
            let signals = render_client.host.spawn("signals", move |at| {
                host.run_until_idle(at); // Its client waits: now it may go on.
                client.signal_cpu(at, device, &[(fence, 1)], 0).unwrap();
            });
            let mut newest = first;
            for turn in 0..8_u8 {
                newest = render_client.refill(at, newest, turn + 1);
                render_client.render(at, copy(first, target, turn.into()), &[newest, target]);
            }
            render_client.host.park(at, &signals, None);
            let due: Vec<u8> = (1..=8).flat_map(|byte| [byte; 64]).collect();
            assert!(render_client.seen(at, target, 8 * 64) == due, "{on:?}");
            render_client.destroy(at, &[newest, target]);
            render_client.client.destroy_sync(at, fence).unwrap();
        });
        assert_eq!(verified(&events).findings(), [], "{on:?}");
        // One more instance was created without memory.
        assert_eq!(instances_created(&events), 3, "{on:?}");
    }
}

#[test]
fn all_instances_end_with_the_allocation_even_in_use() {
    for (on, plan) in orders() {
        for end in 0..3 {
            run_client(on, plan, |render_client, at| {
                let wants = only_in(&[VISIBLE, APERTURE]);
                let (first, target) =
                    (render_client.create(at, 4, &wants), render_client.create(at, 1, &wants));
                let mut newest = first;
                for turn in 0..4 {
                    newest = render_client.refill(at, newest, turn);
                    render_client.render(at, copy(first, target, turn.into()), &[newest, target]);
                }
                // The current instance and an older one are locked.
                let flags = LockFlags::LockEntire;
                render_client.client.lock(at, render_client.device, newest, flags, &[]).unwrap();
                let last =
                    render_client.client.lock_discard(at, render_client.device, newest, 0).unwrap();
                if end > 0 {
                    let (device, assume_not_in_use) = (render_client.device, end > 1);
                    let list = vec![target, last.0];
                    let destroy = DestroyAllocation {
                        device,
                        list,
                        assume_not_in_use,
                        ..DestroyAllocation::default()
                    };
                    render_client.client.destroy(at, &destroy).unwrap();
                }
            });
        }
    }
}

#[test]
fn threads_fill_their_own_instances() {
    for (on, plan) in orders() {
        run_clean_client(on, plan, |render_client, at| {
            let (client, device) = (render_client.client.clone(), render_client.device);
            let all = ["one", "two", "three"].map(|name| {
                let (kernel, host) = (render_client.kernel.clone(), render_client.host.clone());
                let client = client.clone();
                render_client.host.spawn(name, move |at| {
                    let context = client.create_context_with_lists(at, device, 0).unwrap();
                    let wants =
                        PlacementRequirements { instances: 3, ..only_in(&[VISIBLE, APERTURE]) };
                    let private = vec![describe_in(PAGE, PAGE, &wants); 2];
                    let made = client.create(at, &CreateAllocation::new(device, private)).unwrap();
                    let (first, target) = (made.allocations[0], made.allocations[1]);
                    let mut render_client = RenderClient { kernel, host, client, device, context };
                    let mut newest = first;
                    for turn in 0..8_u8 {
                        newest = render_client.refill(at, newest, turn + 1);
                        render_client.render(
                            at,
                            copy(first, target, turn.into()),
                            &[newest, target],
                        );
                    }
                    let due: Vec<u8> = (1..=8).flat_map(|byte| [byte; 64]).collect();
                    assert!(render_client.seen(at, target, 8 * 64) == due, "{on:?}");
                    render_client.destroy(at, &[newest, target]);
                    render_client
                        .client
                        .destroy_context(at, render_client.context.context)
                        .unwrap();
                    render_client.kernel.validate().unwrap();
                })
            });
            for ended in all {
                render_client.host.park(at, &ended, None);
            }
        });
    }
}

#[test]
fn a_waiting_lock_fails_when_its_allocation_is_destroyed() {
    for (on, plan) in orders() {
        run_client(on, plan, |render_client, at| {
            let (client, device) = (render_client.client.clone(), render_client.device);
            let one = PlacementRequirements { instances: 1, ..only_in(&[VISIBLE, APERTURE]) };
            let it = render_client.create(at, 1, &one);
            let fence = render_client.stall(at);
            render_client.render(at, copy(it, it, 2), &[it]);
            let waits = client.clone();
            let ended = render_client.host.spawn("waits", move |at| {
                let locked = waits.lock_discard(at, device, it, NO_REFERENCE);
                assert_eq!(locked, Err(STATUS_INVALID_PARAMETER), "{on:?}");
            });
            render_client.host.run_until_idle(at);
            let list = DestroyAllocation { device, list: vec![it], ..DestroyAllocation::default() };
            client.destroy(at, &list).unwrap();
            render_client.go_on(at, fence);
            render_client.host.park(at, &ended, None);
        });
    }
}

/// Commands name instances by their index in the packet's list: an older one, then a newer one.
#[test]
fn one_packet_uses_two_instances() {
    for (on, plan) in orders() {
        run_clean_client(on, plan, |render_client, at| {
            let wants = only_in(&[VISIBLE, APERTURE]);
            let (mut older, target) =
                (render_client.create(at, 1, &wants), render_client.create(at, 1, &wants));
            for turn in 0..6_u64 {
                // Its commands are not submitted when the allocation is needed again.
                let value = u8::try_from(2 * turn).unwrap();
                let one = render_client.refill(at, older, value + 1);
                let two = render_client.refill(at, one, value + 2);
                let part = |place, to| {
                    let (from, to_offset) = (list_handle(place), 64 * (2 * turn + to));
                    Command::Copy {
                        from,
                        from_offset: 0,
                        to: list_handle(2),
                        to_offset,
                        length: 64,
                    }
                };
                let packet = RenderCommand {
                    commands: encode(&[part(0, 0), part(1, 1)]),
                    list: vec![(one, false), (two, false), (target, true)],
                    patches: vec![(0, 8), (1, 8)],
                    ..RenderCommand::default()
                };
                render_client.client.render(at, &mut render_client.context, &packet).unwrap();
                older = two;
            }
            let due: Vec<u8> = (1..=12).flat_map(|byte| [byte; 64]).collect();
            assert!(render_client.seen(at, target, 12 * 64) == due, "{on:?}");
            render_client.destroy(at, &[older, target]);
        });
    }
}
