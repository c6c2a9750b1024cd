//! Work that does not end, work that gives way, and what becomes of the others.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{MEMORY_RECOVERY, RECOVERY, Scenario};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::kmt::{
    D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET,
    D3DKMT_DEVICEEXECUTION_STATE,
};
use abi::status::STATUS_DEVICE_REMOVED;
use softgpu::format::{self, Command};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "hang",
        about: "a packet that never ends: its device is in error, and another one works",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_hang),
    },
    Scenario {
        name: "hang-with-others",
        about: "a packet that never ends, before packets of another process on the same node",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_hang_shared_node),
    },
    Scenario {
        name: "preempted",
        about: "a context with a higher priority overtakes one that has many packets",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_preemption_priority),
    },
    Scenario {
        name: "preempted-idle",
        about: "a node gives back what it has: nothing, something, and nothing after a reset",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_preemption_idle_node),
    },
    Scenario {
        name: "cancelled",
        about: "a device hangs while packets of it wait, which never get to the hardware",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_cancel_queued),
    },
    Scenario {
        name: "reset",
        about: "the whole adapter is reset while allocations have a place and packets are queued",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_adapter_reset),
    },
    Scenario {
        name: "preempted-paging",
        about: "a node gives back paging commands that come behind a packet",
        breaks: &[],
        needs: MEMORY_RECOVERY,
        body: DisplayBody(tdr_preempt_paging),
    },
    Scenario {
        name: "hung-paging",
        about: "paging commands behind a packet that never ends",
        breaks: &[],
        needs: MEMORY_RECOVERY,
        body: DisplayBody(tdr_paging_hang),
    },
];

/// What a device is that is not at fault: a driver may take it down with the one that is.
const ANY: &[D3DKMT_DEVICEEXECUTION_STATE] =
    &[D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_RESET, D3DKMT_DEVICEEXECUTION_HUNG];

/// How a device is.
fn state(
    bench: &TestClient,
    tunnel: &mut Testbed<'_>,
    right: &[D3DKMT_DEVICEEXECUTION_STATE],
) -> Result<(), ScenarioStopped> {
    let call = "D3DKMTGetDeviceState";
    let state = expect_ok(call, bench.client.device_state(tunnel.at, bench.device))?;
    if right.contains(&state) {
        return Ok(());
    }
    Err(ScenarioStopped(format!("{call} to answer state {right:?}; it answered {state}")))
}

/// Submits, whatever is answered.
fn try_submit(
    bench: &TestClient,
    tunnel: &mut Testbed<'_>,
    context: D3DKMT_HANDLE,
    commands: &[Command],
) -> bool {
    bench.client.submit(tunnel.at, context, &format::encode(commands)).is_ok()
}

fn fill(target: D3DKMT_HANDLE, offset: u64, value: u8) -> Command {
    Command::Fill { target: kernel::Handle(target), offset, length: 64, value }
}

/// What a device that hung answers.
fn is_lost(bench: &TestClient, tunnel: &mut Testbed<'_>, context: D3DKMT_HANDLE) -> Result<(), ScenarioStopped> {
    let submitted = bench.client.submit(tunnel.at, context, &format::encode(&[]));
    expect_error("D3DKMTSubmitCommand", &submitted, STATUS_DEVICE_REMOVED)
}

fn tdr_hang(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let created = bench.create(tunnel.at, 1)?;
    bench.fill(tunnel.at, context, created.allocations[0])?;
    bench.submit(tunnel.at, context, &[Command::Hang])?;
    tunnel.wait();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    is_lost(&bench, tunnel, context)?;
    // What is over by that stays over.
    tunnel.kernel.preempt_node(tunnel.adapter, 0);
    tunnel.wait();
    bench.destroy_list(tunnel.at, &created.allocations)?;
    // Another device of the same adapter works.
    let other = tunnel.test_client()?;
    let mine = other.create_context(tunnel.at)?;
    let more = other.create(tunnel.at, 1)?;
    other.fill(tunnel.at, mine, more.allocations[0])?;
    tunnel.run_until_idle();
    state(&other, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    other.destroy_list(tunnel.at, &more.allocations)?;
    other.close(tunnel.at, &[mine])?;
    bench.close(tunnel.at, &[context])
}

fn tdr_hang_shared_node(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bad, good) = (tunnel.test_client()?, tunnel.test_client()?);
    let (mine, theirs) = (bad.create_context(tunnel.at)?, good.create_context(tunnel.at)?);
    let elsewhere = good.create_context_on(tunnel.at, 1)?;
    let created = good.create(tunnel.at, 2)?;
    good.fill(tunnel.at, theirs, created.allocations[0])?;
    bad.submit(tunnel.at, mine, &[Command::Hang])?;
    // These are behind it, and on a node that moves.
    for (turn, value) in (0..4).zip(1..) {
        let on = if turn % 2 == 0 { theirs } else { elsewhere };
        try_submit(&good, tunnel, on, &[fill(created.allocations[0], turn * 64, value)]);
    }
    tunnel.wait();
    state(&bad, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    state(&good, tunnel, ANY)?;
    good.destroy_list(tunnel.at, &created.allocations)?;
    good.close(tunnel.at, &[theirs, elsewhere])?;
    bad.close(tunnel.at, &[mine])
}

fn tdr_preemption_priority(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (low, high) = (bench.create_context(tunnel.at)?, bench.create_context(tunnel.at)?);
    let created = bench.create(tunnel.at, 1)?;
    let set = bench.client.set_context_priority(tunnel.at, high, 1);
    expect_ok("D3DKMTSetContextSchedulingPriority", set)?;
    let told = bench.client.context_priority(tunnel.at, high);
    let told = expect_ok("D3DKMTGetContextSchedulingPriority", told)?;
    if told != 1 {
        let said = format!("D3DKMTGetContextSchedulingPriority to answer 1; it answered {told}");
        return Err(ScenarioStopped(said));
    }
    bench.fill(tunnel.at, low, created.allocations[0])?;
    for turn in 0..8 {
        bench.submit(tunnel.at, low, &[fill(created.allocations[0], turn * 64, 1)])?;
    }
    for turn in 0..3 {
        bench.submit(tunnel.at, high, &[fill(created.allocations[0], 2048 + turn * 64, 2)])?;
    }
    tunnel.run_until_idle();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    bench.destroy_list(tunnel.at, &created.allocations)?;
    bench.close(tunnel.at, &[low, high])
}

fn tdr_preemption_idle_node(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    bench.submit(tunnel.at, context, &[])?;
    tunnel.run_until_idle();
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    kernel.preempt_node(adapter, 0);
    tunnel.run_until_idle();
    for _ in 0..6 {
        bench.submit(tunnel.at, context, &[])?;
        kernel.preempt_node(adapter, 0);
    }
    tunnel.run_until_idle();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    kernel.force_reset(adapter);
    tunnel.run_until_idle();
    kernel.preempt_node(adapter, 0);
    tunnel.run_until_idle();
    // And it works again.
    let other = tunnel.test_client()?;
    let mine = other.create_context(tunnel.at)?;
    other.submit(tunnel.at, mine, &[])?;
    tunnel.run_until_idle();
    state(&other, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    other.close(tunnel.at, &[mine])?;
    bench.close(tunnel.at, &[context])
}

fn tdr_cancel_queued(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (first, second) = (bench.create_context(tunnel.at)?, bench.create_context(tunnel.at)?);
    bench.submit(tunnel.at, first, &[Command::Hang])?;
    // Asked for what it has, a node gets nothing: what comes now waits, and the hang stays.
    tunnel.kernel.preempt_node(tunnel.adapter, 0);
    for _ in 0..3 {
        try_submit(&bench, tunnel, first, &[]);
        try_submit(&bench, tunnel, second, &[]);
    }
    tunnel.wait();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    bench.close(tunnel.at, &[first, second])
}

fn tdr_adapter_reset(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, other) = (tunnel.test_client()?, tunnel.test_client()?);
    let context = one.create_context(tunnel.at)?;
    let (created, more) = (one.create(tunnel.at, 2)?, other.create(tunnel.at, 1)?);
    one.fill(tunnel.at, context, created.allocations[0])?;
    if other.has_memory() {
        other.make_resident(tunnel.at, &more.allocations)?;
    }
    one.submit(tunnel.at, context, &[])?;
    tunnel.kernel.force_reset(tunnel.adapter);
    tunnel.run_until_idle();
    for bench in [&one, &other] {
        state(bench, tunnel, &[D3DKMT_DEVICEEXECUTION_RESET])?;
    }
    is_lost(&one, tunnel, context)?;
    one.destroy_list(tunnel.at, &created.allocations)?;
    other.destroy_list(tunnel.at, &more.allocations)?;
    other.close(tunnel.at, &[])?;
    one.close(tunnel.at, &[context])?;
    tdr_hang(tunnel)
}

/// A packet that takes its time.
fn long(target: D3DKMT_HANDLE) -> Vec<Command> {
    (0..48).map(|turn| fill(target, turn * 64, 7)).collect()
}

fn tdr_preempt_paging(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context_on(tunnel.at, 1)?;
    let mine = bench.create_context(tunnel.at)?;
    let created = bench.create(tunnel.at, 4)?;
    let queue = bench.paging_queue(tunnel.at)?;
    bench.fill(tunnel.at, context, created.allocations[0])?;
    for turn in 1..4 {
        bench.submit(tunnel.at, context, &long(created.allocations[0]))?;
        bench.submit(tunnel.at, mine, &long(created.allocations[0]))?;
        let one = [created.allocations[turn]];
        expect_ok("D3DKMTMakeResident", bench.client.make_resident(tunnel.at, queue.queue, &one, 0))?;
        // Its commands come behind the packet, on whichever node the driver pages.
        tunnel.pause();
        for node in 0..2 {
            tunnel.kernel.preempt_node(tunnel.adapter, node);
        }
    }
    tunnel.run_until_idle();
    for target in &created.allocations {
        bench.submit(tunnel.at, context, &[fill(*target, 0, 9)])?;
    }
    tunnel.run_until_idle();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    bench.destroy_list(tunnel.at, &created.allocations)?;
    bench.close(tunnel.at, &[context, mine])
}

fn tdr_paging_hang(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bad, good) = (tunnel.test_client()?, tunnel.test_client()?);
    let (mine, theirs) = (bad.create_context(tunnel.at)?, good.create_context(tunnel.at)?);
    let other = bad.create_context_on(tunnel.at, 1)?;
    let created = good.create(tunnel.at, 2)?;
    good.paging_queue(tunnel.at)?;
    // Whichever node the driver pages on.
    bad.submit(tunnel.at, other, &[Command::Hang])?;
    try_submit(&bad, tunnel, mine, &[Command::Hang]);
    let queue = good.paging_queue(tunnel.at)?;
    // A driver that resets all takes its device down, while it waits.
    let _ = good.client.make_resident(tunnel.at, queue.queue, &created.allocations, 0);
    try_submit(&good, tunnel, theirs, &[fill(created.allocations[0], 0, 3)]);
    tunnel.wait();
    state(&bad, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    state(&good, tunnel, ANY)?;
    good.destroy_list(tunnel.at, &created.allocations)?;
    good.close(tunnel.at, &[theirs])?;
    bad.close(tunnel.at, &[mine, other])?;
    // Memory is there again for others.
    let after = tunnel.test_client()?;
    let context = after.create_context(tunnel.at)?;
    let more = after.create(tunnel.at, 1)?;
    after.fill(tunnel.at, context, more.allocations[0])?;
    after.destroy_list(tunnel.at, &more.allocations)?;
    after.close(tunnel.at, &[context])
}
