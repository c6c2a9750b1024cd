//! Packets with allocation lists, byte by byte: listed allocations are resident, wherever they
//! were.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::D3DKMT_RENDERFLAGS as Flags;
use abi::status::STATUS_INVALID_PARAMETER;
use flight::{Event, EventKind, HardwareModel, Log, Passive};
use harness::memory_client::{hidden, pages_of_each};
use harness::{KernelTestbed, flown, run};
use kernel::{DriverSetup, Handle};
use softgpu::format::{Command, describe_in, encode};
use softgpu::{Gpu, MemoryPlan, SoftGpu};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, RenderCommand, RenderContext};
use verify::Verifier;
use windtunnel::{HostKind, Outcome, SCENARIOS};

const PAGE: u64 = 4096;
const SIZE: u64 = 6 * PAGE;

/// Sixteen pages of each kind: enough for two allocations and the save areas, not for three.
const SMALL: MemoryPlan = pages_of_each(16);

/// A client with a device, a context with allocation lists, and its hardware.
struct RenderClient<'a> {
    testbed: &'a KernelTestbed,
    gpu: Arc<Gpu>,
    client: Client,
    device: u32,
    context: RenderContext,
}

impl RenderClient<'_> {
    fn create(&self, at: &mut Passive, count: usize) -> Vec<u32> {
        let private = vec![describe_in(SIZE, PAGE, &hidden()); count];
        self.client.create(at, &CreateAllocation::new(self.device, private)).unwrap().allocations
    }

    fn render(&mut self, at: &mut Passive, commands: &[Command], list: &[u32], flags: u32) -> u32 {
        let list = list.iter().map(|number| (*number, true)).collect();
        let packet =
            RenderCommand { commands: encode(commands), list, flags, ..RenderCommand::default() };
        self.client.render(at, &mut self.context, &packet).unwrap()
    }

    /// The first bytes of an allocation at its current location.
    fn peek(&self, name: u32, offset: u64) -> Option<u8> {
        let process = self.client.session().process();
        let address = self.testbed.kernel.address_of(process, Handle(name))?;
        let mut byte = [0];
        self.gpu.peek(address + offset, &mut byte).then_some(byte[0])
    }
}

fn fill(target: u32, offset: u64, value: u8) -> Command {
    Command::Fill { target: Handle(target), offset, length: 64, value }
}

fn copy(from: u32, to: u32) -> Command {
    let (from, to) = (Handle(from), Handle(to));
    Command::Copy { from, from_offset: 0, to, to_offset: PAGE, length: 64 }
}

/// Runs a test with a client of a WDDM 1.x driver that has little memory.
fn run_client(
    on: impl Into<HostKind>,
    body: impl FnOnce(&mut RenderClient<'_>, &mut Passive),
) -> Vec<Event> {
    let ram = nt::Ram::new(16 << 20).unwrap();
    let (driver, gpu) = SoftGpu::with_lists(ram, SMALL);
    let machine = gpu.clone();
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
        let mut render_client = RenderClient { testbed, gpu, client, device, context };
        body(&mut render_client, at);
        let RenderClient { client, device, context, .. } = render_client;
        client.destroy_context(at, context.context).unwrap();
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    });
    let mut verifier = Verifier::new();
    for event in &events {
        verifier.observe(event);
    }
    assert_eq!(verifier.findings(), [], "a good client, and a good driver");
    events
}

#[test]
fn listed_allocations_are_resident_in_a_small_memory() {
    for on in (1..=6).map(HostKind::deterministic).chain([HostKind::Threaded; 2]) {
        let events = run_client(on, |render_client, at| {
            let list = render_client.create(at, 3);
            for turn in 0..9_u8 {
                let (one, two) = (list[turn as usize % 3], list[(turn as usize + 1) % 3]);
                let commands = [fill(one, 0, turn + 1), copy(one, two)];
                render_client.render(at, &commands, &[one, two], 0);
            }
            render_client.testbed.host.run_until_idle(at);
            // The last packet used the third and the first allocation.
            let seen = [render_client.peek(list[2], 0), render_client.peek(list[0], PAGE)];
            assert_eq!(seen, [Some(9), Some(9)], "{on:?}");
            // Another allocation is resident again, as its own last packet left it.
            render_client.render(at, &[], &[list[1]], 0);
            render_client.testbed.host.run_until_idle(at);
            assert_eq!(render_client.peek(list[1], 0), Some(8), "{on:?}");
        });
        let left = |event: &Event| matches!(event.kind, EventKind::MemoryEvicted { .. });
        assert!(events.iter().any(left), "{on:?}: no allocation was evicted");
    }
}

#[test]
fn a_null_rendering_packet_changes_nothing_and_completes() {
    let events = run_client(1, |render_client, at| {
        let list = render_client.create(at, 1);
        render_client.render(at, &[fill(list[0], 0, 5)], &list, 0);
        render_client.render(at, &[fill(list[0], 0, 6)], &list, Flags::NullRendering);
        render_client.testbed.host.run_until_idle(at);
        assert_eq!(render_client.peek(list[0], 0), Some(5));
    });
    let done = |event: &&Event| matches!(event.kind, EventKind::PacketDone { .. });
    assert_eq!(events.iter().filter(done).count(), 2);
}

#[test]
fn rendering_continues_in_the_next_buffer() {
    run_client(1, |render_client, at| {
        let list = render_client.create(at, 1);
        let resize = RenderCommand {
            flags: Flags::ResizeCommandBuffer,
            resize: (1 << 20, 0, 0),
            ..RenderCommand::default()
        };
        render_client.client.render(at, &mut render_client.context, &resize).unwrap();
        assert_eq!(render_client.context.commands.1, 2048, "a part of what was asked for");
        let many: Vec<Command> =
            (0..60).map(|byte| fill(list[0], u64::from(byte) * 64, byte)).collect();
        assert_eq!(render_client.render(at, &many, &list, 0), 2, "two buffers");
        render_client.testbed.host.run_until_idle(at);
        for it in 0..60 {
            assert_eq!(render_client.peek(list[0], u64::from(it) * 64), Some(it));
        }
    });
}

#[test]
fn moved_allocations_are_patched_and_others_may_be_skipped() {
    let events = run_client(1, |render_client, at| {
        let list = render_client.create(at, 2);
        for turn in 0..12 {
            render_client.render(at, &[fill(list[0], 0, turn), copy(list[0], list[1])], &list, 0);
            render_client.testbed.host.run_until_idle(at);
            assert_eq!(render_client.peek(list[1], PAGE), Some(turn));
        }
    });
    let count = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
    let (patched, started) = (count("packet.patched"), count("packet.started"));
    assert!(0 < patched && patched < started, "{patched} of {started}");
    let moved = |event: &&Event| matches!(&event.kind, EventKind::MemoryEvicted { why, .. } if why.contains("elsewhere"));
    assert!(events.iter().filter(moved).count() > 1);
}

#[test]
fn a_failed_render_leaves_new_buffers_and_a_working_context() {
    run_client(1, |render_client, at| {
        let list = render_client.create(at, 1);
        let before = render_client.context;
        let packet = RenderCommand { commands: vec![1, 2, 3], ..RenderCommand::default() };
        let refused = render_client.client.render(at, &mut render_client.context, &packet);
        assert_eq!(refused, Err(STATUS_INVALID_PARAMETER));
        assert_ne!(
            render_client.context.commands.0, before.commands.0,
            "the buffers change places"
        );
        let refused = render_client.client.render(at, &mut render_client.context, &packet);
        assert_eq!(refused, Err(STATUS_INVALID_PARAMETER));
        assert_eq!(render_client.context.commands.0, before.commands.0);
        render_client.render(at, &[fill(list[0], 0, 5)], &list, 0);
        render_client.testbed.host.run_until_idle(at);
        assert_eq!(render_client.peek(list[0], 0), Some(5));
    });
}

#[test]
fn a_process_that_is_killed_leaves_no_buffer() {
    for seed in 1..8 {
        let ram = nt::Ram::new(16 << 20).unwrap();
        let (driver, machine) = SoftGpu::with_lists(ram, SMALL);
        let set_up = move |log: &Arc<Log>| {
            let pool = nt::Pool::new(log.clone());
            DriverSetup { miniport: driver, hardware: machine, pool }
        };
        run(seed, set_up, |testbed, at| {
            let client = Client::new(&testbed.kernel);
            let adapter = client.adapters(at).unwrap()[0];
            let device = client.create_device(at, adapter).unwrap();
            let mut context = client.create_context_with_lists(at, device, 0).unwrap();
            let private = vec![describe_in(SIZE, PAGE, &hidden()); 3];
            let list =
                client.create(at, &CreateAllocation::new(device, private)).unwrap().allocations;
            for turn in 0..6 {
                let (one, two) = (list[turn % 3], list[(turn + 1) % 3]);
                let packet = RenderCommand {
                    commands: encode(&[copy(one, two)]),
                    list: vec![(one, false), (two, true)],
                    ..RenderCommand::default()
                };
                client.render(at, &mut context, &packet).unwrap();
            }
            client.kill(at);
        });
    }
}

#[test]
fn bad_clients_are_reported() {
    let mut bad = 0;
    for scenario in SCENARIOS.iter().copied().flatten() {
        let renders = scenario.needs.has_entry("DxgkDdiRender");
        if !renders || scenario.breaks.is_empty() {
            continue;
        }
        let absent = scenario.name == "render-list-not-resident";
        let driver = if absent { "table-allocation-lists" } else { "softgpu-allocation-lists" };
        for seed in 1..4 {
            let flown = flown(driver, scenario.name, seed);
            let found: Vec<_> = flown.findings.iter().map(|finding| finding.rule).collect();
            assert_eq!(found, scenario.breaks, "{}: {:?}", scenario.name, flown.findings);
            assert!(flown.needs.is_empty(), "{}: {:?}", scenario.name, flown.needs);
        }
        bad += 1;
    }
    assert!(bad >= 10, "{bad}");
}

#[test]
fn good_clients_are_clean_in_many_orders_and_under_pressure() {
    for driver in
        ["softgpu-allocation-lists", "softgpu-guaranteed-dma-buffer", "table-allocation-lists"]
    {
        for scenario in SCENARIOS.iter().copied().flatten() {
            if !scenario.needs.has_entry("DxgkDdiRender") || !scenario.breaks.is_empty() {
                continue;
            }
            for on in (1..6)
                .flat_map(|value| [HostKind::deterministic(value), HostKind::under_pressure(value)])
                .chain([HostKind::Threaded])
            {
                let flown = flown(driver, scenario.name, on);
                let what = format!("{driver}, {}, {on:?}", scenario.name);
                assert_eq!(flown.outcome, Outcome::Clean, "{what}: {:?}", flown.findings);
                assert_eq!(flown.live.count(), 0, "{what}");
            }
        }
    }
}
