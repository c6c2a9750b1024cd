//! Work that does not end, work that gives way, and what becomes of the others.

use crate::scenario::Story::Told;
use crate::scenario::{MEMORY_RECOVERY, RECOVERY, Scenario};
use crate::tunnel::{Bench, Stopped, Tunnel, refused, wanted};
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
        story: Told(hang),
    },
    Scenario {
        name: "hang-with-others",
        about: "a packet that never ends, before packets of another process on the same node",
        breaks: &[],
        needs: RECOVERY,
        story: Told(hang_with_others),
    },
    Scenario {
        name: "preempted",
        about: "a context with a higher priority overtakes one that has many packets",
        breaks: &[],
        needs: RECOVERY,
        story: Told(preempted),
    },
    Scenario {
        name: "preempted-idle",
        about: "a node gives back what it has: nothing, something, and nothing after a reset",
        breaks: &[],
        needs: RECOVERY,
        story: Told(preempted_idle),
    },
    Scenario {
        name: "cancelled",
        about: "a device hangs while packets of it wait, which never get to the hardware",
        breaks: &[],
        needs: RECOVERY,
        story: Told(cancelled),
    },
    Scenario {
        name: "reset",
        about: "the whole adapter is reset while allocations have a place and packets are queued",
        breaks: &[],
        needs: RECOVERY,
        story: Told(reset),
    },
    Scenario {
        name: "preempted-paging",
        about: "a node gives back paging commands that come behind a packet",
        breaks: &[],
        needs: MEMORY_RECOVERY,
        story: Told(preempted_paging),
    },
    Scenario {
        name: "hung-paging",
        about: "paging commands behind a packet that never ends",
        breaks: &[],
        needs: MEMORY_RECOVERY,
        story: Told(hung_paging),
    },
];

/// What a device is that is not at fault: a driver may take it down with the one that is.
const ANY: &[D3DKMT_DEVICEEXECUTION_STATE] =
    &[D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_RESET, D3DKMT_DEVICEEXECUTION_HUNG];

/// How a device is.
fn state(
    bench: &Bench,
    tunnel: &mut Tunnel<'_>,
    right: &[D3DKMT_DEVICEEXECUTION_STATE],
) -> Result<(), Stopped> {
    let call = "D3DKMTGetDeviceState";
    let state = wanted(call, bench.client.device_state(tunnel.at, bench.device))?;
    if right.contains(&state) {
        return Ok(());
    }
    Err(Stopped(format!("{call} to answer state {right:?}; it answered {state}")))
}

/// Submits, whatever is answered.
fn try_submit(
    bench: &Bench,
    tunnel: &mut Tunnel<'_>,
    context: D3DKMT_HANDLE,
    commands: &[Command],
) -> bool {
    bench.client.submit(tunnel.at, context, &format::encode(commands)).is_ok()
}

fn fill(target: D3DKMT_HANDLE, offset: u64, value: u8) -> Command {
    Command::Fill { target: kernel::Handle(target), offset, length: 64, value }
}

/// What a device that hung answers.
fn is_lost(bench: &Bench, tunnel: &mut Tunnel<'_>, context: D3DKMT_HANDLE) -> Result<(), Stopped> {
    let submitted = bench.client.submit(tunnel.at, context, &format::encode(&[]));
    refused("D3DKMTSubmitCommand", &submitted, STATUS_DEVICE_REMOVED)
}

fn hang(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let made = bench.create(tunnel.at, 1)?;
    bench.fill(tunnel.at, context, made.allocations[0])?;
    bench.submit(tunnel.at, context, &[Command::Hang])?;
    tunnel.wait();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    is_lost(&bench, tunnel, context)?;
    // What is over by that stays over.
    tunnel.kernel.preempt_node(tunnel.adapter, 0);
    tunnel.wait();
    bench.destroy_list(tunnel.at, &made.allocations)?;
    // Another device of the same adapter works.
    let other = tunnel.bench()?;
    let mine = other.context(tunnel.at)?;
    let more = other.create(tunnel.at, 1)?;
    other.fill(tunnel.at, mine, more.allocations[0])?;
    tunnel.settle();
    state(&other, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    other.destroy_list(tunnel.at, &more.allocations)?;
    other.close(tunnel.at, &[mine])?;
    bench.close(tunnel.at, &[context])
}

fn hang_with_others(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bad, good) = (tunnel.bench()?, tunnel.bench()?);
    let (mine, theirs) = (bad.context(tunnel.at)?, good.context(tunnel.at)?);
    let elsewhere = good.context_on(tunnel.at, 1)?;
    let made = good.create(tunnel.at, 2)?;
    good.fill(tunnel.at, theirs, made.allocations[0])?;
    bad.submit(tunnel.at, mine, &[Command::Hang])?;
    // These are behind it, and on a node that moves.
    for (turn, value) in (0..4).zip(1..) {
        let on = if turn % 2 == 0 { theirs } else { elsewhere };
        try_submit(&good, tunnel, on, &[fill(made.allocations[0], turn * 64, value)]);
    }
    tunnel.wait();
    state(&bad, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    state(&good, tunnel, ANY)?;
    good.destroy_list(tunnel.at, &made.allocations)?;
    good.close(tunnel.at, &[theirs, elsewhere])?;
    bad.close(tunnel.at, &[mine])
}

fn preempted(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (low, high) = (bench.context(tunnel.at)?, bench.context(tunnel.at)?);
    let made = bench.create(tunnel.at, 1)?;
    let set = bench.client.set_context_priority(tunnel.at, high, 1);
    wanted("D3DKMTSetContextSchedulingPriority", set)?;
    let told = bench.client.context_priority(tunnel.at, high);
    let told = wanted("D3DKMTGetContextSchedulingPriority", told)?;
    if told != 1 {
        let said = format!("D3DKMTGetContextSchedulingPriority to answer 1; it answered {told}");
        return Err(Stopped(said));
    }
    bench.fill(tunnel.at, low, made.allocations[0])?;
    for turn in 0..8 {
        bench.submit(tunnel.at, low, &[fill(made.allocations[0], turn * 64, 1)])?;
    }
    for turn in 0..3 {
        bench.submit(tunnel.at, high, &[fill(made.allocations[0], 2048 + turn * 64, 2)])?;
    }
    tunnel.settle();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    bench.destroy_list(tunnel.at, &made.allocations)?;
    bench.close(tunnel.at, &[low, high])
}

fn preempted_idle(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    bench.submit(tunnel.at, context, &[])?;
    tunnel.settle();
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    kernel.preempt_node(adapter, 0);
    tunnel.settle();
    for _ in 0..6 {
        bench.submit(tunnel.at, context, &[])?;
        kernel.preempt_node(adapter, 0);
    }
    tunnel.settle();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    kernel.force_reset(adapter);
    tunnel.settle();
    kernel.preempt_node(adapter, 0);
    tunnel.settle();
    // And it works again.
    let other = tunnel.bench()?;
    let mine = other.context(tunnel.at)?;
    other.submit(tunnel.at, mine, &[])?;
    tunnel.settle();
    state(&other, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    other.close(tunnel.at, &[mine])?;
    bench.close(tunnel.at, &[context])
}

fn cancelled(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (first, second) = (bench.context(tunnel.at)?, bench.context(tunnel.at)?);
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

fn reset(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (one, other) = (tunnel.bench()?, tunnel.bench()?);
    let context = one.context(tunnel.at)?;
    let (made, more) = (one.create(tunnel.at, 2)?, other.create(tunnel.at, 1)?);
    one.fill(tunnel.at, context, made.allocations[0])?;
    if other.has_memory() {
        other.resident(tunnel.at, &more.allocations)?;
    }
    one.submit(tunnel.at, context, &[])?;
    tunnel.kernel.force_reset(tunnel.adapter);
    tunnel.settle();
    for bench in [&one, &other] {
        state(bench, tunnel, &[D3DKMT_DEVICEEXECUTION_RESET])?;
    }
    is_lost(&one, tunnel, context)?;
    one.destroy_list(tunnel.at, &made.allocations)?;
    other.destroy_list(tunnel.at, &more.allocations)?;
    other.close(tunnel.at, &[])?;
    one.close(tunnel.at, &[context])?;
    hang(tunnel)
}

/// A packet that takes its time.
fn long(target: D3DKMT_HANDLE) -> Vec<Command> {
    (0..48).map(|turn| fill(target, turn * 64, 7)).collect()
}

fn preempted_paging(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context_on(tunnel.at, 1)?;
    let mine = bench.context(tunnel.at)?;
    let made = bench.create(tunnel.at, 4)?;
    let queue = bench.queue(tunnel.at)?;
    bench.fill(tunnel.at, context, made.allocations[0])?;
    for turn in 1..4 {
        bench.submit(tunnel.at, context, &long(made.allocations[0]))?;
        bench.submit(tunnel.at, mine, &long(made.allocations[0]))?;
        let one = [made.allocations[turn]];
        wanted("D3DKMTMakeResident", bench.client.make_resident(tunnel.at, queue.queue, &one, 0))?;
        // Its commands come behind the packet, on whichever node the driver pages.
        tunnel.pause();
        for node in 0..2 {
            tunnel.kernel.preempt_node(tunnel.adapter, node);
        }
    }
    tunnel.settle();
    for target in &made.allocations {
        bench.submit(tunnel.at, context, &[fill(*target, 0, 9)])?;
    }
    tunnel.settle();
    state(&bench, tunnel, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    bench.destroy_list(tunnel.at, &made.allocations)?;
    bench.close(tunnel.at, &[context, mine])
}

fn hung_paging(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bad, good) = (tunnel.bench()?, tunnel.bench()?);
    let (mine, theirs) = (bad.context(tunnel.at)?, good.context(tunnel.at)?);
    let other = bad.context_on(tunnel.at, 1)?;
    let made = good.create(tunnel.at, 2)?;
    good.queue(tunnel.at)?;
    // Whichever node the driver pages on.
    bad.submit(tunnel.at, other, &[Command::Hang])?;
    try_submit(&bad, tunnel, mine, &[Command::Hang]);
    let queue = good.queue(tunnel.at)?;
    // A driver that resets all takes its device down, while it waits.
    let _ = good.client.make_resident(tunnel.at, queue.queue, &made.allocations, 0);
    try_submit(&good, tunnel, theirs, &[fill(made.allocations[0], 0, 3)]);
    tunnel.wait();
    state(&bad, tunnel, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    state(&good, tunnel, ANY)?;
    good.destroy_list(tunnel.at, &made.allocations)?;
    good.close(tunnel.at, &[theirs])?;
    bad.close(tunnel.at, &[mine, other])?;
    // Memory is there again for others.
    let after = tunnel.bench()?;
    let context = after.context(tunnel.at)?;
    let more = after.create(tunnel.at, 1)?;
    after.fill(tunnel.at, context, more.allocations[0])?;
    after.destroy_list(tunnel.at, &more.allocations)?;
    after.close(tunnel.at, &[context])
}
