//! Good clients of synchronization objects: contexts and the CPU continue in the agreed order.

use crate::needs::WORK;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, ThreadBody, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_ACCESS_DENIED;
use abi::ukm::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags, D3DDDICB_SIGNALFLAGS as SignalFlags};
use thunk::{CpuWait, NewSync, SyncObject};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    good(
        "sync-cpu-signal-and-wait",
        "signals a fence from the CPU for a waiting context, and waits on the CPU for the context's signal",
        sync_cpu_signal_and_wait,
    ),
    good(
        "sync-contexts-in-lockstep",
        "runs two contexts in lockstep, each waits for a fence of the other",
        sync_contexts_in_lockstep,
    ),
    good("sync-semaphore", "waits on a semaphore as often as it is signaled", sync_semaphore),
    good(
        "sync-mutex",
        "passes a synchronization mutex between contexts; the mutex outlives one of them",
        sync_mutex,
    ),
    good(
        "sync-cpu-notification",
        "sets events when fences reach values and contexts reach notifications",
        sync_cpu_notification,
    ),
    good(
        "sync-broadcast-signal",
        "signals with a broadcast that counts when all its contexts have reached it",
        sync_broadcast_signal,
    ),
    good(
        "sync-shared-object",
        "opens a shared synchronization object in a second process, which then ends",
        sync_shared_object,
    ),
    good(
        "sync-no-signal-no-wait",
        "uses fences whose device may not signal or may not wait",
        sync_no_signal_no_wait,
    ),
    good(
        "sync-device-reset",
        "resets a device; its fences get their maximum value",
        sync_device_reset,
    ),
];

const fn good(
    name: &'static str,
    about: &'static str,
    body: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks: &[], needs: WORK, body: DisplayBody(body) }
}

/// Creates an object; stops the scenario on failure.
pub(crate) fn create_object(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    object: SyncObject,
    flags: u32,
) -> Result<NewSync, ScenarioStopped> {
    let created = test_client.client.create_sync(testbed.at, test_client.device, object, flags);
    expect_ok("D3DKMTCreateSynchronizationObject2", created)
}

pub(crate) fn monitored(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
    create_object(testbed, test_client, SyncObject::Monitored(0), 0).map(|new_sync| new_sync.object)
}

pub(crate) fn destroy(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    list: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    for object in list {
        let destroyed = test_client.client.destroy_sync(testbed.at, *object);
        expect_ok("D3DKMTDestroySynchronizationObject", destroyed)?;
    }
    Ok(())
}

pub(crate) fn wait_gpu(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    context: D3DKMT_HANDLE,
    list: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), ScenarioStopped> {
    let queued = test_client.client.wait_gpu(testbed.at, context, list);
    expect_ok("D3DKMTWaitForSynchronizationObjectFromGpu", queued)
}

pub(crate) fn signal_gpu(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    context: D3DKMT_HANDLE,
    list: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), ScenarioStopped> {
    let queued = test_client.client.signal_gpu(testbed.at, context, list);
    expect_ok("D3DKMTSignalSynchronizationObjectFromGpu", queued)
}

pub(crate) fn signal_cpu(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    list: &[(D3DKMT_HANDLE, u64)],
    flags: u32,
) -> Result<(), ScenarioStopped> {
    let signalled = test_client.client.signal_cpu(testbed.at, test_client.device, list, flags);
    expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
}

pub(crate) fn wait_cpu(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    list: &[(D3DKMT_HANDLE, u64)],
    how: CpuWait,
) -> Result<(), ScenarioStopped> {
    let waited = test_client.client.wait_cpu(testbed.at, test_client.device, list, how);
    expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
}

pub(crate) fn is_set(
    test_client: &TestClient,
    event: usize,
    expected: bool,
) -> Result<(), ScenarioStopped> {
    if test_client.client.event_is_set(event) == Ok(expected) {
        return Ok(());
    }
    let set = if expected { "set" } else { "not set" };
    Err(ScenarioStopped::failed(format!("event {event:#x} to be {set}")))
}

fn sync_cpu_signal_and_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let one = test_client.create(testbed.at, 1)?.allocations[0];
    let (start, end) = (monitored(testbed, &test_client)?, monitored(testbed, &test_client)?);
    wait_gpu(testbed, &test_client, context, &[(start, 1)])?;
    test_client.fill(testbed.at, context, one)?;
    signal_gpu(testbed, &test_client, context, &[(end, 5)])?;
    testbed.run_until_idle();
    testbed.snapshot_live_objects("the context waits for the CPU");
    signal_cpu(testbed, &test_client, &[(start, 2)], 0)?;
    wait_cpu(testbed, &test_client, &[(end, 4), (start, 1)], CpuWait::default())?;
    // From here on a thread waits for the context.
    wait_gpu(testbed, &test_client, context, &[(start, 3)])?;
    test_client.fill(testbed.at, context, one)?;
    signal_gpu(testbed, &test_client, context, &[(end, 6)])?;
    let waits = test_client.clone();
    let signals = test_client.clone();
    let threads: Vec<ThreadBody> = vec![
        Box::new(move |at| {
            let fences = [(end, 6)];
            let waited = waits.client.wait_cpu(at, waits.device, &fences, CpuWait::default());
            expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
        }),
        Box::new(move |at| {
            let signalled = signals.client.signal_cpu(at, signals.device, &[(start, 3)], 0);
            expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
        }),
    ];
    testbed.run_threads(threads)?;
    destroy(testbed, &test_client, &[start, end])?;
    test_client.destroy_list(testbed.at, &[one])?;
    test_client.close(testbed.at, &[context])
}

fn sync_contexts_in_lockstep(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, other) =
        (test_client.create_context(testbed.at)?, test_client.create_second_context(testbed.at)?);
    let target = test_client.create(testbed.at, 1)?.allocations[0];
    let (ping, pong) = (monitored(testbed, &test_client)?, monitored(testbed, &test_client)?);
    for round in 1..=3 {
        wait_gpu(testbed, &test_client, other, &[(ping, round)])?;
        test_client.fill(testbed.at, other, target)?;
        signal_gpu(testbed, &test_client, other, &[(pong, round)])?;
    }
    for round in 1..=3 {
        test_client.fill(testbed.at, one, target)?;
        signal_gpu(testbed, &test_client, one, &[(ping, round)])?;
        wait_gpu(testbed, &test_client, one, &[(pong, round)])?;
    }
    // Destroys the handles; queued waits and signals keep the objects alive.
    destroy(testbed, &test_client, &[ping])?;
    wait_cpu(testbed, &test_client, &[(pong, 3)], CpuWait::default())?;
    destroy(testbed, &test_client, &[pong])?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &[target])?;
    test_client.close(testbed.at, &[one, other])
}

fn sync_semaphore(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, other) =
        (test_client.create_context(testbed.at)?, test_client.create_second_context(testbed.at)?);
    let created = SyncObject::Semaphore(1, 2);
    let created = test_client.client.create_sync_v1(testbed.at, test_client.device, created);
    let turns = expect_ok("D3DKMTCreateSynchronizationObject", created)?;
    let fence = create_object(testbed, &test_client, SyncObject::Fence(1), 0)?.object;
    let done = monitored(testbed, &test_client)?;
    for _ in 0..3 {
        let waits = test_client.client.wait_v1(testbed.at, one, &[turns]);
        expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    }
    let waits = test_client.client.wait_v2(testbed.at, one, &[fence], 2);
    expect_ok("D3DKMTWaitForSynchronizationObject2", waits)?;
    signal_gpu(testbed, &test_client, one, &[(done, 1)])?;
    testbed.run_until_idle();
    for _ in 0..2 {
        let signals = test_client.client.signal_v1(testbed.at, other, &[turns]);
        expect_ok("D3DKMTSignalSynchronizationObject", signals)?;
    }
    let signals = test_client.client.signal_v2(testbed.at, (other, &[]), &[fence], 2);
    expect_ok("D3DKMTSignalSynchronizationObject2", signals)?;
    wait_cpu(testbed, &test_client, &[(done, 1)], CpuWait::default())?;
    destroy(testbed, &test_client, &[turns, fence, done])?;
    test_client.close(testbed.at, &[one, other])
}

fn sync_mutex(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, other) =
        (test_client.create_context(testbed.at)?, test_client.create_second_context(testbed.at)?);
    let lock = create_object(testbed, &test_client, SyncObject::Mutex(false), 0)?.object;
    let done = monitored(testbed, &test_client)?;
    for context in [one, other] {
        let waits = test_client.client.wait_v1(testbed.at, context, &[lock]);
        expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    }
    signal_gpu(testbed, &test_client, other, &[(done, 1)])?;
    testbed.run_until_idle();
    let signals = test_client.client.signal_v1(testbed.at, one, &[lock]);
    expect_ok("D3DKMTSignalSynchronizationObject", signals)?;
    wait_cpu(testbed, &test_client, &[(done, 1)], CpuWait::default())?;
    // The other context owns the mutex and is destroyed: the next waiter acquires it.
    expect_ok("D3DKMTDestroyContext", test_client.client.destroy_context(testbed.at, other))?;
    let waits = test_client.client.wait_v1(testbed.at, one, &[lock]);
    expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    signal_gpu(testbed, &test_client, one, &[(done, 2)])?;
    wait_cpu(testbed, &test_client, &[(done, 2)], CpuWait::default())?;
    destroy(testbed, &test_client, &[lock, done])?;
    test_client.close(testbed.at, &[one])
}

fn sync_cpu_notification(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let (one, other) = (monitored(testbed, &test_client)?, monitored(testbed, &test_client)?);
    let all = test_client.client.create_event();
    let any = test_client.client.create_event();
    let both = [(one, 1), (other, 1)];
    wait_cpu(testbed, &test_client, &both, CpuWait { any: false, event: all })?;
    wait_cpu(testbed, &test_client, &both, CpuWait { any: true, event: any })?;
    signal_cpu(testbed, &test_client, &[(other, 7)], 0)?;
    is_set(&test_client, any, true)?;
    is_set(&test_client, all, false)?;
    signal_cpu(testbed, &test_client, &[(one, 1)], 0)?;
    is_set(&test_client, all, true)?;
    // The client rewinds the fence; new waits compare with the new value.
    signal_cpu(testbed, &test_client, &[(other, 2)], SignalFlags::AllowFenceRewind)?;
    let late = test_client.client.create_event();
    wait_cpu(testbed, &test_client, &[(other, 3)], CpuWait { any: false, event: late })?;
    is_set(&test_client, late, false)?;
    signal_cpu(testbed, &test_client, &[(other, 3)], 0)?;
    is_set(&test_client, late, true)?;
    let notified = test_client.client.create_event();
    let notice =
        create_object(testbed, &test_client, SyncObject::Notification(notified), 0)?.object;
    let queued = test_client.client.signal_v1(testbed.at, context, &[notice]);
    expect_ok("D3DKMTSignalSynchronizationObject", queued)?;
    let queued = test_client.client.create_event();
    let enqueued = test_client.client.signal_event_gpu(testbed.at, context, queued);
    expect_ok("D3DKMTSignalSynchronizationObjectFromGpu2", enqueued)?;
    testbed.run_until_idle();
    is_set(&test_client, notified, true)?;
    is_set(&test_client, queued, true)?;
    destroy(testbed, &test_client, &[one, other, notice])?;
    for event in [all, any, late, notified, queued] {
        expect_ok("CloseHandle", test_client.client.close_event(event))?;
    }
    test_client.close(testbed.at, &[context])
}

fn sync_broadcast_signal(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, other) =
        (test_client.create_context(testbed.at)?, test_client.create_second_context(testbed.at)?);
    let (start, end) = (monitored(testbed, &test_client)?, monitored(testbed, &test_client)?);
    let notified = test_client.client.create_event();
    wait_gpu(testbed, &test_client, other, &[(start, 1)])?;
    let queued = test_client.client.broadcast_gpu(testbed.at, &[one, other], &[(end, 1)]);
    expect_ok("D3DKMTSignalSynchronizationObjectFromGpu2", queued)?;
    wait_cpu(testbed, &test_client, &[(end, 1)], CpuWait { any: false, event: notified })?;
    testbed.run_until_idle();
    is_set(&test_client, notified, false)?;
    signal_cpu(testbed, &test_client, &[(start, 1)], 0)?;
    wait_cpu(testbed, &test_client, &[(end, 1)], CpuWait::default())?;
    is_set(&test_client, notified, true)?;
    destroy(testbed, &test_client, &[start, end])?;
    expect_ok("CloseHandle", test_client.client.close_event(notified))?;
    test_client.close(testbed.at, &[one, other])
}

fn sync_shared_object(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, second) = (testbed.test_client()?, testbed.test_client()?);
    let (one, other) =
        (test_client.create_context(testbed.at)?, second.create_second_context(testbed.at)?);
    let created = create_object(testbed, &test_client, SyncObject::Semaphore(0, 1), Flags::Shared)?;
    let opened = second.client.open_sync(testbed.at, created.global);
    let opened = expect_ok("D3DKMTOpenSynchronizationObject", opened)?;
    let waits = test_client.client.wait_v1(testbed.at, one, &[created.object]);
    expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    let signals = second.client.signal_v1(testbed.at, other, &[opened]);
    expect_ok("D3DKMTSignalSynchronizationObject", signals)?;
    testbed.run_until_idle();
    let nt = create_object(
        testbed,
        &test_client,
        SyncObject::Monitored(0),
        Flags::Shared | Flags::NtSecuritySharing,
    )?;
    // The second process is killed; its handles to the object are closed.
    second.client.kill(testbed.at);
    destroy(testbed, &test_client, &[created.object, nt.object])?;
    test_client.close(testbed.at, &[one])
}

fn sync_no_signal_no_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let no_signal =
        create_object(testbed, &test_client, SyncObject::Monitored(1), Flags::NoSignal)?.object;
    let no_wait =
        create_object(testbed, &test_client, SyncObject::Monitored(1), Flags::NoWait)?.object;
    signal_cpu(testbed, &test_client, &[(no_wait, 2)], 0)?;
    wait_cpu(testbed, &test_client, &[(no_signal, 1)], CpuWait::default())?;
    let signalled = test_client.client.signal_gpu(testbed.at, context, &[(no_signal, 2)]);
    expect_error("D3DKMTSignalSynchronizationObjectFromGpu", &signalled, STATUS_ACCESS_DENIED)?;
    let signalled =
        test_client.client.signal_cpu(testbed.at, test_client.device, &[(no_signal, 2)], 0);
    expect_error("D3DKMTSignalSynchronizationObjectFromCpu", &signalled, STATUS_ACCESS_DENIED)?;
    let waits = test_client.client.wait_gpu(testbed.at, context, &[(no_wait, 1)]);
    expect_error("D3DKMTWaitForSynchronizationObjectFromGpu", &waits, STATUS_ACCESS_DENIED)?;
    // The flags belong to the object, whichever device uses it.
    let other = test_client.create_device(testbed.at)?;
    let signalled = test_client.client.signal_cpu(testbed.at, other, &[(no_signal, 2)], 0);
    expect_error("D3DKMTSignalSynchronizationObjectFromCpu", &signalled, STATUS_ACCESS_DENIED)?;
    signal_cpu(testbed, &test_client, &[(no_wait, 3)], 0)?;
    expect_ok("D3DKMTDestroyDevice", test_client.client.destroy_device(testbed.at, other))?;
    destroy(testbed, &test_client, &[no_signal, no_wait])?;
    test_client.close(testbed.at, &[context])
}

fn sync_device_reset(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let fence = monitored(testbed, &test_client)?;
    let stays = create_object(
        testbed,
        &test_client,
        SyncObject::Monitored(0),
        Flags::NoSignalMaxValueOnTdr,
    )?
    .object;
    let (notified, unsignalled) =
        (test_client.client.create_event(), test_client.client.create_event());
    wait_cpu(testbed, &test_client, &[(fence, 1 << 31)], CpuWait { any: false, event: notified })?;
    wait_cpu(testbed, &test_client, &[(stays, 1)], CpuWait { any: false, event: unsignalled })?;
    let session = test_client.client.session();
    let device = kernel::Handle(test_client.device);
    if testbed.kernel.simulate_reset(session.process(), device).is_err() {
        return Err(ScenarioStopped::missing("a device to reset"));
    }
    is_set(&test_client, notified, true)?;
    is_set(&test_client, unsignalled, false)?;
    destroy(testbed, &test_client, &[fence, stays])?;
    for event in [notified, unsignalled] {
        expect_ok("CloseHandle", test_client.client.close_event(event))?;
    }
    test_client.close(testbed.at, &[])
}
