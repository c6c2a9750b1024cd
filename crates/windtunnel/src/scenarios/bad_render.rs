//! Bad clients of a WDDM 1.x driver: each breaks a rule of an entry point and is reported.

use crate::needs::ALLOCATION_LISTS;
use crate::private_data::anywhere;
use crate::scenario::Scenario;
use crate::scenarios::bad::bad;
use crate::scenarios::bad_gpuva::destroy_as_unused;
use crate::scenarios::render::{RenderClient, dynamic, fill};
use crate::scenarios::sync::{destroy, monitored, signal_cpu, wait_gpu};
use crate::testbed::{ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::kmt::D3DKMT_RENDERFLAGS as Flags;
use abi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};
use abi::ukm::D3DDDICB_LOCKFLAGS as LockFlags;
use flight::{Passive, RuleId};
use thunk::{RenderCommand, RenderContext};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    listed(
        "render-stale-command-buffer",
        "writes to the previous command buffer after a render call replaced it",
        &[RuleId::SUBMIT_RENDER_001],
        render_stale_command_buffer,
    ),
    listed(
        "render-assumes-resized-buffers",
        "requests larger buffers and uses the requested sizes instead of the returned ones",
        &[RuleId::SUBMIT_RENDER_002],
        render_assumes_resized_buffers,
    ),
    listed(
        "render-command-length-too-long",
        "renders more commands than the command buffer holds",
        &[RuleId::SUBMIT_RENDER_003],
        |testbed| bad_packet(testbed, |packet, _| packet.length = Some(1 << 20)),
    ),
    listed(
        "render-command-length-too-short",
        "renders a packet that ends before its commands begin",
        &[RuleId::SUBMIT_RENDER_003],
        |testbed| bad_packet(testbed, |packet, _| (packet.offset, packet.length) = (64, Some(8))),
    ),
    listed(
        "render-allocation-list-too-long",
        "lists more allocations than the allocation list holds",
        &[RuleId::SUBMIT_RENDER_003],
        |testbed| {
            bad_packet(testbed, |packet, context| {
                let one = packet.list[0];
                packet.list = vec![one; context.list.1 as usize + 1];
            })
        },
    ),
    listed(
        "render-destroy-behind-wait",
        "destroys with AssumeNotInUse an allocation that a packet behind a GPU wait lists",
        &[RuleId::ALLOC_DESTROY_008],
        render_destroy_behind_wait,
    ),
    listed(
        "render-patch-index-out-of-range",
        "passes a patch location with an allocation index past the list",
        &[RuleId::SUBMIT_RENDER_004],
        |testbed| bad_packet(testbed, |packet, _| packet.patches = vec![(0, 4), (1, 8)]),
    ),
    listed(
        "render-list-not-resident",
        "lists an allocation that is not resident, with a WDDM 2 driver",
        &[RuleId::RESID_MAKE_011],
        render_list_not_resident,
    ),
    listed(
        "render-stale-instance",
        "renders with an older instance after a packet used a newer one",
        &[RuleId::SUBMIT_RENDER_006],
        |it| {
            older(it, |it, at, first, newest| {
                let newer = it.packet(&[fill(first, 1)], &[newest])?;
                let rendered = it.client.client.render(at, &mut it.context, &newer);
                expect_ok("D3DKMTRender of the newest instance", rendered)?;
                let older = it.packet(&[fill(first, 2)], &[first])?;
                let rendered = it.client.client.render(at, &mut it.context, &older);
                expect_error("D3DKMTRender of an older one", &rendered, STATUS_INVALID_PARAMETER)
            })
        },
    ),
    listed(
        "render-patch-stale-instance",
        "orders the patch locations of a packet from a newer to an older instance",
        &[RuleId::SUBMIT_RENDER_006],
        |it| {
            older(it, |it, at, first, newest| {
                let packet = RenderCommand {
                    patches: vec![(1, 4), (0, 8)],
                    ..it.packet(&[fill(first, 1)], &[first, newest])?
                };
                let rendered = it.client.client.render(at, &mut it.context, &packet);
                expect_error("D3DKMTRender of two instances", &rendered, STATUS_INVALID_PARAMETER)
            })
        },
    ),
    listed(
        "lock-superseded-instance",
        "locks an instance that a newer one has replaced",
        &[RuleId::ALLOC_LOCK_004],
        |testbed| {
            older(testbed, |testbed, at, first, _| {
                let (client, device) = (&testbed.client.client, testbed.client.device);
                let locked = client.lock(at, device, first, LockFlags::LockEntire, &[]);
                expect_error("D3DKMTLock of what is retired", &locked, STATUS_INVALID_PARAMETER)
            })
        },
    ),
];

/// A client's action on a renamed allocation, by its first or its newest handle.
fn older(
    testbed: &mut Testbed<'_>,
    wrong: impl FnOnce(
        &mut RenderClient,
        &mut Passive,
        D3DKMT_HANDLE,
        D3DKMT_HANDLE,
    ) -> Result<(), ScenarioStopped>,
) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    if !render_client.is_paged_in_by_kernel() {
        return Err(ScenarioStopped::missing("a WDDM 1.x driver"));
    }
    let first = render_client.create(testbed.at, &[dynamic(0)])?[0];
    let newest = render_client.discard(testbed.at, first)?;
    wrong(&mut render_client, testbed.at, first, newest)?;
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &[newest])?;
    render_client.close(testbed.at)
}

fn render_list_not_resident(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    if render_client.is_paged_in_by_kernel() {
        return Err(ScenarioStopped::missing("a WDDM 2 driver"));
    }
    let list = render_client.create_not_resident(testbed.at, &[anywhere()])?;
    let packet = render_client.packet(&[fill(list[0], 1)], &list)?;
    let rendered =
        render_client.client.client.render(testbed.at, &mut render_client.context, &packet);
    expect_error("D3DKMTRender of what is not resident", &rendered, STATUS_DEVICE_REMOVED)?;
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

const fn listed(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    body: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { needs: ALLOCATION_LISTS, ..bad(name, about, breaks, body) }
}

/// Renders an invalid packet, which must fail.
fn bad_packet(
    testbed: &mut Testbed<'_>,
    wrong: impl FnOnce(&mut RenderCommand, &RenderContext),
) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let list = render_client.create(testbed.at, &[anywhere()])?;
    let mut packet = render_client.packet(&[fill(list[0], 1)], &list)?;
    wrong(&mut packet, &render_client.context);
    let rendered =
        render_client.client.client.render(testbed.at, &mut render_client.context, &packet);
    expect_error("D3DKMTRender", &rendered, STATUS_INVALID_PARAMETER)?;
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

fn render_destroy_behind_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let list = render_client.create(testbed.at, &[anywhere()])?;
    let test_client = render_client.client.clone();
    let fence = monitored(testbed, &test_client)?;
    wait_gpu(testbed, &test_client, render_client.context.context, &[(fence, 1)])?;
    let packet = render_client.packet(&[fill(list[0], 1)], &list)?;
    let rendered = test_client.client.render(testbed.at, &mut render_client.context, &packet);
    expect_ok("D3DKMTRender", rendered)?;
    destroy_as_unused(testbed, &test_client, list[0])?;
    signal_cpu(testbed, &test_client, &[(fence, 1)], 0)?;
    testbed.run_until_idle();
    destroy(testbed, &test_client, &[fence])?;
    render_client.close(testbed.at)
}

fn render_stale_command_buffer(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let list = render_client.create(testbed.at, &[anywhere()])?;
    let packet = render_client.packet(&[fill(list[0], 1)], &list)?;
    let client = render_client.client.client.clone();
    let before = render_client.context;
    expect_ok("D3DKMTRender", client.render(testbed.at, &mut render_client.context, &packet))?;
    // The client writes the next packet to the old buffers; the kernel renders the new ones.
    client.write_packet(&before, &packet);
    let _ = client.render_written(testbed.at, &mut render_client.context, &packet);
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

fn render_assumes_resized_buffers(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    const ASKED: u32 = 3000;
    let mut render_client = RenderClient::open(testbed)?;
    let list = render_client.create(testbed.at, &[anywhere()])?;
    let more = RenderCommand {
        flags: Flags::ResizeCommandBuffer,
        resize: (ASKED, 0, 0),
        ..render_client.packet(&[fill(list[0], 1)], &list)?
    };
    let client = render_client.client.client.clone();
    expect_ok("D3DKMTRender", client.render(testbed.at, &mut render_client.context, &more))?;
    // The kernel granted less than requested.
    render_client.context.commands.1 = ASKED;
    let all = RenderCommand { commands: vec![0; ASKED as usize], ..RenderCommand::default() };
    client.write_packet(&render_client.context, &all);
    let packet = render_client.packet(&[fill(list[0], 2)], &list)?;
    expect_ok("D3DKMTRender", client.render(testbed.at, &mut render_client.context, &packet))?;
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}
