//! Hangs, preemption, and their effect on other devices.

use crate::needs::{MEMORY_RECOVERY, RECOVERY};
use crate::private_data::{Command, DataUse};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::kmt::{
    D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET,
    D3DKMT_DEVICEEXECUTION_STATE,
};
use abi::status::STATUS_DEVICE_REMOVED;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "tdr-hang",
        about: "submits a packet that hangs; its device is lost and another device continues",
        breaks: &[],
        needs: RECOVERY.private_data(DataUse::Hang),
        body: DisplayBody(tdr_hang),
    },
    Scenario {
        name: "tdr-hang-after-work",
        about: "completes packets on both nodes, then hangs each of them in turn",
        breaks: &[],
        needs: RECOVERY.nodes(2).private_data(DataUse::Hang),
        body: DisplayBody(tdr_hang_after_work),
    },
    Scenario {
        name: "tdr-hang-shared-node",
        about: "submits a packet that hangs in front of packets of another process on the same node",
        breaks: &[],
        needs: RECOVERY.nodes(2).private_data(DataUse::Hang),
        body: DisplayBody(tdr_hang_shared_node),
    },
    Scenario {
        name: "tdr-preemption-priority",
        about: "preempts a context with many packets by a context with a higher priority",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_preemption_priority),
    },
    Scenario {
        name: "tdr-preemption-idle-node",
        about: "preempts a node that is idle, busy, and idle after a reset",
        breaks: &[],
        needs: RECOVERY,
        body: DisplayBody(tdr_preemption_idle_node),
    },
    Scenario {
        name: "tdr-cancel-queued",
        about: "hangs a device while its queued packets wait; they are cancelled before they reach the hardware",
        breaks: &[],
        needs: RECOVERY.private_data(DataUse::Hang),
        body: DisplayBody(tdr_cancel_queued),
    },
    Scenario {
        name: "tdr-adapter-reset",
        about: "resets the whole adapter while allocations are resident and packets are queued",
        breaks: &[],
        needs: RECOVERY.private_data(DataUse::Hang),
        body: DisplayBody(tdr_adapter_reset),
    },
    Scenario {
        name: "tdr-preempt-paging",
        about: "preempts paging commands that are queued behind a packet",
        breaks: &[],
        needs: MEMORY_RECOVERY,
        body: DisplayBody(tdr_preempt_paging),
    },
    Scenario {
        name: "tdr-paging-hang",
        about: "queues paging commands behind a packet that hangs",
        breaks: &[],
        needs: MEMORY_RECOVERY.private_data(DataUse::Hang),
        body: DisplayBody(tdr_paging_hang),
    },
];

/// The states of an innocent device: a driver may reset it together with the faulty one.
const ANY: &[D3DKMT_DEVICEEXECUTION_STATE] =
    &[D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_RESET, D3DKMT_DEVICEEXECUTION_HUNG];

/// Checks the state of a device.
fn state(
    test_client: &TestClient,
    testbed: &mut Testbed<'_>,
    right: &[D3DKMT_DEVICEEXECUTION_STATE],
) -> Result<(), ScenarioStopped> {
    let call = "D3DKMTGetDeviceState";
    let state = expect_ok(call, test_client.client.device_state(testbed.at, test_client.device))?;
    if right.contains(&state) {
        return Ok(());
    }
    let right = right.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    Err(ScenarioStopped::failed(format!("{call} to return state {right}; it returned {state}")))
}

/// Submits and ignores the status.
fn try_submit(
    test_client: &TestClient,
    testbed: &mut Testbed<'_>,
    context: D3DKMT_HANDLE,
    commands: &[Command],
) -> bool {
    let packet = test_client.private_data.packet(commands);
    packet.is_ok_and(|bytes| test_client.client.submit(testbed.at, context, &bytes).is_ok())
}

fn fill(target: D3DKMT_HANDLE, offset: u64, value: u8) -> Command {
    Command::Fill { target: kernel::Handle(target), offset, length: 64, value }
}

/// Checks the statuses that a hung device returns.
fn is_lost(
    test_client: &TestClient,
    testbed: &mut Testbed<'_>,
    context: D3DKMT_HANDLE,
) -> Result<(), ScenarioStopped> {
    let submitted = test_client.client.submit(testbed.at, context, &[]);
    expect_error("D3DKMTSubmitCommand", &submitted, STATUS_DEVICE_REMOVED)
}

fn tdr_hang(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let created = test_client.create(testbed.at, 1)?;
    test_client.fill(testbed.at, context, created.allocations[0])?;
    test_client.submit(testbed.at, context, &[Command::Hang])?;
    testbed.wait();
    state(&test_client, testbed, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    is_lost(&test_client, testbed, context)?;
    // The device stays lost.
    testbed.kernel.preempt_node(testbed.adapter, 0);
    testbed.wait();
    test_client.destroy_list(testbed.at, &created.allocations)?;
    // Another device of the same adapter works.
    let other = testbed.test_client()?;
    let mine = other.create_context(testbed.at)?;
    let more = other.create(testbed.at, 1)?;
    other.fill(testbed.at, mine, more.allocations[0])?;
    testbed.run_until_idle();
    state(&other, testbed, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    other.destroy_list(testbed.at, &more.allocations)?;
    other.close(testbed.at, &[mine])?;
    test_client.close(testbed.at, &[context])
}

/// Each node has completed packets before it hangs, so a last aborted fence of zero is wrong.
fn tdr_hang_after_work(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    for node in 0..2 {
        let test_client = testbed.test_client()?;
        let context = test_client.create_context_on(testbed.at, node)?;
        let created = test_client.create(testbed.at, 1)?;
        for turn in 0..3 {
            let packet = [fill(created.allocations[0], turn * 64, 1)];
            test_client.submit(testbed.at, context, &packet)?;
        }
        testbed.run_until_idle();
        state(&test_client, testbed, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
        test_client.submit(testbed.at, context, &[Command::Hang])?;
        testbed.wait();
        is_lost(&test_client, testbed, context)?;
        test_client.destroy_list(testbed.at, &created.allocations)?;
        test_client.close(testbed.at, &[context])?;
    }
    Ok(())
}

fn tdr_hang_shared_node(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bad, good) = (testbed.test_client()?, testbed.test_client()?);
    let (mine, theirs) = (bad.create_context(testbed.at)?, good.create_context(testbed.at)?);
    let elsewhere = good.create_context_on(testbed.at, 1)?;
    let created = good.create(testbed.at, 2)?;
    good.fill(testbed.at, theirs, created.allocations[0])?;
    bad.submit(testbed.at, mine, &[Command::Hang])?;
    // These packets are queued behind it, and on a node that makes progress.
    for (turn, value) in (0..4).zip(1..) {
        let on = if turn % 2 == 0 { theirs } else { elsewhere };
        try_submit(&good, testbed, on, &[fill(created.allocations[0], turn * 64, value)]);
    }
    testbed.wait();
    state(&bad, testbed, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    state(&good, testbed, ANY)?;
    good.destroy_list(testbed.at, &created.allocations)?;
    good.close(testbed.at, &[theirs, elsewhere])?;
    bad.close(testbed.at, &[mine])
}

fn tdr_preemption_priority(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (low, high) =
        (test_client.create_context(testbed.at)?, test_client.create_context(testbed.at)?);
    let created = test_client.create(testbed.at, 1)?;
    let set = test_client.client.set_context_priority(testbed.at, high, 1);
    expect_ok("D3DKMTSetContextSchedulingPriority", set)?;
    let priority = test_client.client.context_priority(testbed.at, high);
    let priority = expect_ok("D3DKMTGetContextSchedulingPriority", priority)?;
    if priority != 1 {
        let text =
            format!("D3DKMTGetContextSchedulingPriority to return 1; it returned {priority}");
        return Err(ScenarioStopped::failed(text));
    }
    test_client.fill(testbed.at, low, created.allocations[0])?;
    for turn in 0..8 {
        test_client.submit(testbed.at, low, &[fill(created.allocations[0], turn * 64, 1)])?;
    }
    for turn in 0..3 {
        test_client.submit(
            testbed.at,
            high,
            &[fill(created.allocations[0], 2048 + turn * 64, 2)],
        )?;
    }
    testbed.run_until_idle();
    state(&test_client, testbed, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &[low, high])
}

fn tdr_preemption_idle_node(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    test_client.submit(testbed.at, context, &[])?;
    testbed.run_until_idle();
    let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
    kernel.preempt_node(adapter, 0);
    testbed.run_until_idle();
    for _ in 0..6 {
        test_client.submit(testbed.at, context, &[])?;
        kernel.preempt_node(adapter, 0);
    }
    testbed.run_until_idle();
    state(&test_client, testbed, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    kernel.force_reset(adapter);
    testbed.run_until_idle();
    kernel.preempt_node(adapter, 0);
    testbed.run_until_idle();
    // The node works again.
    let other = testbed.test_client()?;
    let mine = other.create_context(testbed.at)?;
    other.submit(testbed.at, mine, &[])?;
    testbed.run_until_idle();
    state(&other, testbed, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    other.close(testbed.at, &[mine])?;
    test_client.close(testbed.at, &[context])
}

fn tdr_cancel_queued(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (first, second) =
        (test_client.create_context(testbed.at)?, test_client.create_context(testbed.at)?);
    test_client.submit(testbed.at, first, &[Command::Hang])?;
    // While a preemption is pending the node gets no packet: new packets wait, and the hang stays.
    testbed.kernel.preempt_node(testbed.adapter, 0);
    for _ in 0..3 {
        try_submit(&test_client, testbed, first, &[]);
        try_submit(&test_client, testbed, second, &[]);
    }
    testbed.wait();
    state(&test_client, testbed, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    test_client.close(testbed.at, &[first, second])
}

fn tdr_adapter_reset(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, other) = (testbed.test_client()?, testbed.test_client()?);
    let context = one.create_context(testbed.at)?;
    let (created, more) = (one.create(testbed.at, 2)?, other.create(testbed.at, 1)?);
    one.fill(testbed.at, context, created.allocations[0])?;
    if other.has_memory() {
        other.make_resident(testbed.at, &more.allocations)?;
    }
    one.submit(testbed.at, context, &[])?;
    testbed.kernel.force_reset(testbed.adapter);
    testbed.run_until_idle();
    for test_client in [&one, &other] {
        state(test_client, testbed, &[D3DKMT_DEVICEEXECUTION_RESET])?;
    }
    is_lost(&one, testbed, context)?;
    one.destroy_list(testbed.at, &created.allocations)?;
    other.destroy_list(testbed.at, &more.allocations)?;
    other.close(testbed.at, &[])?;
    one.close(testbed.at, &[context])?;
    tdr_hang(testbed)
}

/// A packet that takes long.
fn long(target: D3DKMT_HANDLE) -> Vec<Command> {
    (0..48).map(|turn| fill(target, turn * 64, 7)).collect()
}

fn tdr_preempt_paging(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_second_context(testbed.at)?;
    let mine = test_client.create_context(testbed.at)?;
    let created = test_client.create(testbed.at, 4)?;
    let queue = test_client.paging_queue(testbed.at)?;
    test_client.fill(testbed.at, context, created.allocations[0])?;
    for turn in 1..4 {
        test_client.submit(testbed.at, context, &long(created.allocations[0]))?;
        test_client.submit(testbed.at, mine, &long(created.allocations[0]))?;
        let one = [created.allocations[turn]];
        expect_ok(
            "D3DKMTMakeResident",
            test_client.client.make_resident(testbed.at, queue.queue, &one, 0),
        )?;
        // The paging commands are queued behind the packet, on whichever node the driver uses.
        testbed.pause();
        for node in 0..2 {
            testbed.kernel.preempt_node(testbed.adapter, node);
        }
    }
    testbed.run_until_idle();
    for target in &created.allocations {
        test_client.submit(testbed.at, context, &[fill(*target, 0, 9)])?;
    }
    testbed.run_until_idle();
    state(&test_client, testbed, &[D3DKMT_DEVICEEXECUTION_ACTIVE])?;
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &[context, mine])
}

fn tdr_paging_hang(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bad, good) = (testbed.test_client()?, testbed.test_client()?);
    let (mine, theirs) = (bad.create_context(testbed.at)?, good.create_context(testbed.at)?);
    let other = bad.create_second_context(testbed.at)?;
    let created = good.create(testbed.at, 2)?;
    good.paging_queue(testbed.at)?;
    // Any node that the driver uses for paging.
    bad.submit(testbed.at, other, &[Command::Hang])?;
    try_submit(&bad, testbed, mine, &[Command::Hang]);
    let queue = good.paging_queue(testbed.at)?;
    // A driver that resets the whole adapter loses its device during the wait.
    let _ = good.client.make_resident(testbed.at, queue.queue, &created.allocations, 0);
    try_submit(&good, testbed, theirs, &[fill(created.allocations[0], 0, 3)]);
    testbed.wait();
    state(&bad, testbed, &[D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET])?;
    state(&good, testbed, ANY)?;
    good.destroy_list(testbed.at, &created.allocations)?;
    good.close(testbed.at, &[theirs])?;
    bad.close(testbed.at, &[mine, other])?;
    // The memory is free for other devices again.
    let after = testbed.test_client()?;
    let context = after.create_context(testbed.at)?;
    let more = after.create(testbed.at, 1)?;
    after.fill(testbed.at, context, more.allocations[0])?;
    after.destroy_list(testbed.at, &more.allocations)?;
    after.close(testbed.at, &[context])
}
