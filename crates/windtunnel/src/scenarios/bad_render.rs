//! Bad clients of a driver of WDDM 1.x: each breaks a rule, through the door, and is named.

use crate::scenario::{ALLOCATION_LISTS, Scenario};
use crate::scenarios::bad::bad;
use crate::scenarios::render::{RenderClient, dynamic, fill};
use crate::tunnel::{ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::kmt::D3DKMT_RENDERFLAGS as Flags;
use abi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};
use abi::ukm::D3DDDICB_LOCKFLAGS as LockFlags;
use flight::{Passive, RuleId};
use softgpu::format::anywhere;
use thunk::{RenderCommand, RenderContext};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    listed(
        "render-old-buffer",
        "a client goes on with the buffers that it gave back",
        &[RuleId::SUBMIT_RENDER_001],
        render_stale_command_buffer,
    ),
    listed(
        "render-beyond",
        "a client asks for larger buffers, and takes it that it got them",
        &[RuleId::SUBMIT_RENDER_002],
        render_assumes_resized_buffers,
    ),
    listed(
        "render-too-long",
        "a packet has more commands than its buffer has room for",
        &[RuleId::SUBMIT_RENDER_003],
        |it| bad_packet(it, |packet, _| packet.length = Some(1 << 20)),
    ),
    listed(
        "render-short",
        "a packet ends before its commands begin",
        &[RuleId::SUBMIT_RENDER_003],
        |it| bad_packet(it, |packet, _| (packet.offset, packet.length) = (64, Some(8))),
    ),
    listed(
        "render-long-list",
        "a packet lists more allocations than there is room for",
        &[RuleId::SUBMIT_RENDER_003],
        |it| {
            bad_packet(it, |packet, context| {
                let one = packet.list[0];
                packet.list = vec![one; context.list.1 as usize + 1];
            })
        },
    ),
    listed(
        "render-stray-patch",
        "a patch location names an allocation behind the list",
        &[RuleId::SUBMIT_RENDER_004],
        |it| bad_packet(it, |packet, _| packet.patches = vec![(0, 4), (1, 8)]),
    ),
    listed(
        "render-absent",
        "a packet lists what is not resident, with a driver of WDDM 2",
        &[RuleId::RESID_MAKE_011],
        render_list_not_resident,
    ),
    listed(
        "render-older",
        "a packet uses an instance, and one before it has used a newer one",
        &[RuleId::SUBMIT_RENDER_006],
        |it| {
            older(it, |it, at, first, newest| {
                let newer = RenderClient::packet(&[fill(first, 1)], &[newest]);
                let rendered = it.client.client.render(at, &mut it.context, &newer);
                expect_ok("D3DKMTRender of the newest instance", rendered)?;
                let older = RenderClient::packet(&[fill(first, 2)], &[first]);
                let rendered = it.client.client.render(at, &mut it.context, &older);
                expect_error("D3DKMTRender of an older one", &rendered, STATUS_INVALID_PARAMETER)
            })
        },
    ),
    listed(
        "render-older-patch",
        "the patch locations of a packet go back from an instance to an older one",
        &[RuleId::SUBMIT_RENDER_006],
        |it| {
            older(it, |it, at, first, newest| {
                let packet = RenderCommand {
                    patches: vec![(1, 4), (0, 8)],
                    ..RenderClient::packet(&[fill(first, 1)], &[first, newest])
                };
                let rendered = it.client.client.render(at, &mut it.context, &packet);
                expect_error("D3DKMTRender of two instances", &rendered, STATUS_INVALID_PARAMETER)
            })
        },
    ),
    listed(
        "lock-retired",
        "a client locks an instance that a newer one has taken the place of",
        &[RuleId::ALLOC_LOCK_004],
        |it| {
            older(it, |it, at, first, _| {
                let (client, device) = (&it.client.client, it.client.device);
                let locked = client.lock(at, device, first, LockFlags::LockEntire, &[]);
                expect_error("D3DKMTLock of what is retired", &locked, STATUS_INVALID_PARAMETER)
            })
        },
    ),
];

/// What a client does with an allocation that was renamed: by its first name, or the newest.
fn older(
    tunnel: &mut Testbed<'_>,
    wrong: impl FnOnce(&mut RenderClient, &mut Passive, D3DKMT_HANDLE, D3DKMT_HANDLE) -> Result<(), ScenarioStopped>,
) -> Result<(), ScenarioStopped> {
    let mut easel = RenderClient::open(tunnel)?;
    if !easel.is_paged_in_by_kernel() {
        return Err(ScenarioStopped("a driver of WDDM 1.x".to_owned()));
    }
    let first = easel.create(tunnel.at, &[dynamic(0)])?[0];
    let newest = easel.discard(tunnel.at, first)?;
    wrong(&mut easel, tunnel.at, first, newest)?;
    tunnel.run_until_idle();
    easel.client.destroy_list(tunnel.at, &[newest])?;
    easel.close(tunnel.at)
}

fn render_list_not_resident(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut easel = RenderClient::open(tunnel)?;
    if easel.is_paged_in_by_kernel() {
        return Err(ScenarioStopped("a driver of WDDM 2".to_owned()));
    }
    let list = easel.create_not_resident(tunnel.at, &[anywhere()])?;
    let packet = RenderClient::packet(&[fill(list[0], 1)], &list);
    let rendered = easel.client.client.render(tunnel.at, &mut easel.context, &packet);
    expect_error("D3DKMTRender of what is not resident", &rendered, STATUS_DEVICE_REMOVED)?;
    easel.client.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

const fn listed(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    story: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { needs: ALLOCATION_LISTS, ..bad(name, about, breaks, story) }
}

/// A packet that something is wrong with is refused.
fn bad_packet(
    tunnel: &mut Testbed<'_>,
    wrong: impl FnOnce(&mut RenderCommand, &RenderContext),
) -> Result<(), ScenarioStopped> {
    let mut easel = RenderClient::open(tunnel)?;
    let list = easel.create(tunnel.at, &[anywhere()])?;
    let mut packet = RenderClient::packet(&[fill(list[0], 1)], &list);
    wrong(&mut packet, &easel.context);
    let rendered = easel.client.client.render(tunnel.at, &mut easel.context, &packet);
    expect_error("D3DKMTRender", &rendered, STATUS_INVALID_PARAMETER)?;
    easel.client.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

fn render_stale_command_buffer(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut easel = RenderClient::open(tunnel)?;
    let list = easel.create(tunnel.at, &[anywhere()])?;
    let packet = RenderClient::packet(&[fill(list[0], 1)], &list);
    let client = easel.client.client.clone();
    let before = easel.context;
    expect_ok("D3DKMTRender", client.render(tunnel.at, &mut easel.context, &packet))?;
    // The next packet is in the old buffers; what is rendered is what the new ones came with.
    client.write_packet(&before, &packet);
    let _ = client.render_written(tunnel.at, &mut easel.context, &packet);
    tunnel.run_until_idle();
    easel.client.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

fn render_assumes_resized_buffers(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    const ASKED: u32 = 3000;
    let mut easel = RenderClient::open(tunnel)?;
    let list = easel.create(tunnel.at, &[anywhere()])?;
    let more = RenderCommand {
        flags: Flags::ResizeCommandBuffer,
        resize: (ASKED, 0, 0),
        ..RenderClient::packet(&[fill(list[0], 1)], &list)
    };
    let client = easel.client.client.clone();
    expect_ok("D3DKMTRender", client.render(tunnel.at, &mut easel.context, &more))?;
    // It got less than it asked for.
    easel.context.commands.1 = ASKED;
    let all = RenderCommand { commands: vec![0; ASKED as usize], ..RenderCommand::default() };
    client.write_packet(&easel.context, &all);
    let packet = RenderClient::packet(&[fill(list[0], 2)], &list);
    expect_ok("D3DKMTRender", client.render(tunnel.at, &mut easel.context, &packet))?;
    tunnel.run_until_idle();
    easel.client.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}
