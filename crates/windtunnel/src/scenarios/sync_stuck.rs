//! Waits that only a client can end: bad clients that never end them, and good clients that are
//! killed, destroy their device, or destroy the fence.

use crate::needs::WORK;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::sync::{
    destroy, is_set, monitored, signal_cpu, signal_gpu, wait_cpu, wait_gpu,
};
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_UNSUCCESSFUL;
use flight::RuleId;
use thunk::{CpuWait, DestroyAllocation};

/// The bad clients.
pub(crate) const BAD: &[Scenario] = &[
    scenario(
        "sync-wait-never-signaled",
        "waits on the CPU for a fence value that is never signaled",
        &[RuleId::WT_STUCK_001],
        sync_wait_never_signaled,
    ),
    scenario(
        "sync-contexts-wait-for-each-other",
        "queues a wait in each of two contexts for the other's signal behind it",
        &[RuleId::WT_STUCK_001],
        sync_contexts_wait_for_each_other,
    ),
    scenario(
        "destroy-synchronous-behind-wait",
        "destroys with SynchronousDestroy behind a wait of its own that nothing ends",
        &[RuleId::WT_STUCK_001],
        destroy_synchronous_behind_wait,
    ),
    scenario(
        "sync-destroy-waiting-context",
        "destroys a context that waits for a fence that is never signaled",
        &[RuleId::WT_STUCK_001],
        sync_destroy_waiting_context,
    ),
    scenario(
        "sync-destroy-fence-under-context-wait",
        "destroys a fence that a context waits for and that no queued work signals",
        &[RuleId::WT_SYNC_001],
        sync_destroy_fence_under_context_wait,
    ),
];

/// The good clients.
pub(crate) const ALL: &[Scenario] = &[
    scenario(
        "process-killed-while-waiting",
        "kills a client whose contexts wait for a fence that is never signaled",
        &[],
        process_killed_while_waiting,
    ),
    scenario(
        "sync-destroy-waiting-device",
        "destroys a device whose context waits for a fence that is never signaled",
        &[],
        sync_destroy_waiting_device,
    ),
    scenario(
        "sync-destroy-fence-under-cpu-wait",
        "destroys fences and a paging queue that the CPU waits for; the waits are released",
        &[],
        sync_destroy_fence_under_cpu_wait,
    ),
    scenario(
        "sync-destroy-fence-before-signal",
        "destroys a fence that a context waits for, while another context has queued its signal",
        &[],
        sync_destroy_fence_before_signal,
    ),
];

const fn scenario(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    body: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks, needs: WORK, body: DisplayBody(body) }
}

const WAIT: &str = "D3DKMTWaitForSynchronizationObjectFromCpu";

fn sync_wait_never_signaled(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let fence = monitored(testbed, &test_client)?;
    let wait = CpuWait::default();
    let waited = test_client.client.wait_cpu(testbed.at, test_client.device, &[(fence, 1)], wait);
    expect_error(WAIT, &waited, STATUS_UNSUCCESSFUL)?;
    destroy(testbed, &test_client, &[fence])?;
    test_client.close(testbed.at, &[])
}

fn sync_contexts_wait_for_each_other(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, two) =
        (test_client.create_context(testbed.at)?, test_client.create_second_context(testbed.at)?);
    let (first, second) = (monitored(testbed, &test_client)?, monitored(testbed, &test_client)?);
    for (context, waits, signals) in [(one, first, second), (two, second, first)] {
        wait_gpu(testbed, &test_client, context, &[(waits, 1)])?;
        signal_gpu(testbed, &test_client, context, &[(signals, 1)])?;
    }
    let wait = CpuWait::default();
    let waited = test_client.client.wait_cpu(testbed.at, test_client.device, &[(first, 1)], wait);
    expect_error(WAIT, &waited, STATUS_UNSUCCESSFUL)?;
    test_client.close(testbed.at, &[])
}

/// A context with a queued wait that nothing ends, and a packet behind it.
fn waiting(
    testbed: &mut Testbed<'_>,
) -> Result<(TestClient, D3DKMT_HANDLE, D3DKMT_HANDLE), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let fence = monitored(testbed, &test_client)?;
    let created = test_client.create(testbed.at, 1)?;
    test_client.fill(testbed.at, context, created.allocations[0])?;
    wait_gpu(testbed, &test_client, context, &[(fence, 1)])?;
    test_client.fill(testbed.at, context, created.allocations[0])?;
    Ok((test_client, context, created.allocations[0]))
}

fn destroy_synchronous_behind_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, _, allocation) = waiting(testbed)?;
    let request = DestroyAllocation {
        device: test_client.device,
        list: vec![allocation],
        synchronous: true,
        ..DestroyAllocation::default()
    };
    let destroyed = test_client.client.destroy(testbed.at, &request);
    expect_error("D3DKMTDestroyAllocation2", &destroyed, STATUS_UNSUCCESSFUL)?;
    test_client.client.kill(testbed.at);
    Ok(())
}

fn sync_destroy_waiting_context(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, context, _) = waiting(testbed)?;
    let destroyed = test_client.client.destroy_context(testbed.at, context);
    expect_ok("D3DKMTDestroyContext", destroyed)?;
    test_client.client.kill(testbed.at);
    Ok(())
}

fn process_killed_while_waiting(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, ..) = waiting(testbed)?;
    let other = test_client.create_second_context(testbed.at)?;
    let fence = monitored(testbed, &test_client)?;
    wait_gpu(testbed, &test_client, other, &[(fence, 7)])?;
    test_client.client.kill(testbed.at);
    Ok(())
}

fn sync_destroy_waiting_device(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, ..) = waiting(testbed)?;
    let destroyed = test_client.client.destroy_device(testbed.at, test_client.device);
    expect_ok("D3DKMTDestroyDevice", destroyed)?;
    test_client.client.kill(testbed.at);
    Ok(())
}

fn sync_destroy_fence_under_context_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let fence = monitored(testbed, &test_client)?;
    let created = test_client.create(testbed.at, 1)?;
    wait_gpu(testbed, &test_client, context, &[(fence, 1)])?;
    test_client.fill(testbed.at, context, created.allocations[0])?;
    destroy(testbed, &test_client, &[fence])?;
    // The context continues.
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &[context])
}

fn sync_destroy_fence_under_cpu_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, two) = (monitored(testbed, &test_client)?, monitored(testbed, &test_client)?);
    let (first, both, queued) = (
        test_client.client.create_event(),
        test_client.client.create_event(),
        test_client.client.create_event(),
    );
    let on = |event| CpuWait { any: false, event };
    wait_cpu(testbed, &test_client, &[(one, 1)], on(first))?;
    wait_cpu(testbed, &test_client, &[(one, 1), (two, 1)], on(both))?;
    destroy(testbed, &test_client, &[one])?;
    is_set(&test_client, first, true)?;
    is_set(&test_client, both, false)?;
    signal_cpu(testbed, &test_client, &[(two, 1)], 0)?;
    is_set(&test_client, both, true)?;
    if test_client.has_memory() {
        let queue = test_client.client.create_paging_queue(testbed.at, test_client.device, 0);
        let queue = expect_ok("D3DKMTCreatePagingQueue", queue)?;
        wait_cpu(testbed, &test_client, &[(queue.fence, 100)], on(queued))?;
        let destroyed = test_client.client.destroy_paging_queue(testbed.at, queue.queue);
        expect_ok("D3DKMTDestroyPagingQueue", destroyed)?;
        is_set(&test_client, queued, true)?;
    }
    for event in [first, both, queued] {
        expect_ok("CloseHandle", test_client.client.close_event(event))?;
    }
    destroy(testbed, &test_client, &[two])?;
    test_client.close(testbed.at, &[])
}

fn sync_destroy_fence_before_signal(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (waits, signals) =
        (test_client.create_context(testbed.at)?, test_client.create_second_context(testbed.at)?);
    let fence = monitored(testbed, &test_client)?;
    let created = test_client.create(testbed.at, 1)?;
    wait_gpu(testbed, &test_client, waits, &[(fence, 1)])?;
    test_client.fill(testbed.at, signals, created.allocations[0])?;
    signal_gpu(testbed, &test_client, signals, &[(fence, 1)])?;
    test_client.fill(testbed.at, waits, created.allocations[0])?;
    destroy(testbed, &test_client, &[fence])?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &[waits, signals])
}
