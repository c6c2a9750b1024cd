//! Good clients of synchronisation objects: contexts and the CPU go on in the order they agreed.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{TestClient, ScenarioStopped, ThreadBody, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_ACCESS_DENIED;
use abi::ukm::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags, D3DDDICB_SIGNALFLAGS as SignalFlags};
use thunk::{CpuWait, NewSync, SyncObject};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    good(
        "sync-cpu",
        "the CPU signals what a context waits for, and waits for what it signals",
        sync_cpu_signal_and_wait,
    ),
    good("sync-step", "two contexts go on in step, each waits for the other", sync_contexts_in_lockstep),
    good("sync-semaphore", "as many waits of a semaphore pass as there were signals", sync_semaphore),
    good("sync-mutex", "a mutex lets one context go on at a time, and outlives one", sync_mutex),
    good("sync-events", "events are set when fences have values and contexts come", sync_cpu_notification),
    good("sync-broadcast", "a signal counts when all its contexts have come to it", sync_broadcast_signal),
    good("sync-shared", "a shared object is opened by a second process, which just ends", sync_shared_object),
    good("sync-rights", "a device may not signal, or not wait for, a fence", sync_no_signal_no_wait),
    good("sync-reset", "a reset hits a device: its fences have their maximum", sync_device_reset),
];

const fn good(
    name: &'static str,
    about: &'static str,
    story: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks: &[], needs: WORK, body: DisplayBody(story) }
}

/// Makes an object, or stops.
pub(crate) fn create_object(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    object: SyncObject,
    flags: u32,
) -> Result<NewSync, ScenarioStopped> {
    let created = bench.client.create_sync(tunnel.at, bench.device, object, flags);
    expect_ok("D3DKMTCreateSynchronizationObject2", created)
}

pub(crate) fn monitored(tunnel: &mut Testbed<'_>, bench: &TestClient) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
    create_object(tunnel, bench, SyncObject::Monitored(0), 0).map(|it| it.object)
}

pub(crate) fn destroy(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    list: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    for object in list {
        let destroyed = bench.client.destroy_sync(tunnel.at, *object);
        expect_ok("D3DKMTDestroySynchronizationObject", destroyed)?;
    }
    Ok(())
}

fn wait_gpu(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    context: D3DKMT_HANDLE,
    list: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), ScenarioStopped> {
    let queued = bench.client.wait_gpu(tunnel.at, context, list);
    expect_ok("D3DKMTWaitForSynchronizationObjectFromGpu", queued)
}

fn signal_gpu(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    context: D3DKMT_HANDLE,
    list: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), ScenarioStopped> {
    let queued = bench.client.signal_gpu(tunnel.at, context, list);
    expect_ok("D3DKMTSignalSynchronizationObjectFromGpu", queued)
}

pub(crate) fn signal_cpu(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    list: &[(D3DKMT_HANDLE, u64)],
    flags: u32,
) -> Result<(), ScenarioStopped> {
    let signalled = bench.client.signal_cpu(tunnel.at, bench.device, list, flags);
    expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
}

pub(crate) fn wait_cpu(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    list: &[(D3DKMT_HANDLE, u64)],
    how: CpuWait,
) -> Result<(), ScenarioStopped> {
    let gpu_wait = bench.client.wait_cpu(tunnel.at, bench.device, list, how);
    expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", gpu_wait)
}

fn is_set(bench: &TestClient, event: usize, expected: bool) -> Result<(), ScenarioStopped> {
    if bench.client.event_is_set(event) == Ok(expected) {
        return Ok(());
    }
    let set = if expected { "set" } else { "not set" };
    Err(ScenarioStopped(format!("event {event:#x} to be {set}")))
}

fn sync_cpu_signal_and_wait(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let one = bench.create(tunnel.at, 1)?.allocations[0];
    let (start, end) = (monitored(tunnel, &bench)?, monitored(tunnel, &bench)?);
    wait_gpu(tunnel, &bench, context, &[(start, 1)])?;
    bench.fill(tunnel.at, context, one)?;
    signal_gpu(tunnel, &bench, context, &[(end, 5)])?;
    tunnel.run_until_idle();
    tunnel.snapshot_live_objects("the context waits for the CPU");
    signal_cpu(tunnel, &bench, &[(start, 2)], 0)?;
    wait_cpu(tunnel, &bench, &[(end, 4), (start, 1)], CpuWait::default())?;
    // From here on the context goes first: a thread waits for it.
    wait_gpu(tunnel, &bench, context, &[(start, 3)])?;
    bench.fill(tunnel.at, context, one)?;
    signal_gpu(tunnel, &bench, context, &[(end, 6)])?;
    let waits = bench.clone();
    let signals = bench.clone();
    let threads: Vec<ThreadBody> = vec![
        Box::new(move |at| {
            let fences = [(end, 6)];
            let gpu_wait = waits.client.wait_cpu(at, waits.device, &fences, CpuWait::default());
            expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", gpu_wait)
        }),
        Box::new(move |at| {
            let signalled = signals.client.signal_cpu(at, signals.device, &[(start, 3)], 0);
            expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
        }),
    ];
    tunnel.run_threads(threads)?;
    destroy(tunnel, &bench, &[start, end])?;
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

fn sync_contexts_in_lockstep(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (one, other) = (bench.create_context(tunnel.at)?, bench.create_context_on(tunnel.at, 1)?);
    let target = bench.create(tunnel.at, 1)?.allocations[0];
    let (ping, pong) = (monitored(tunnel, &bench)?, monitored(tunnel, &bench)?);
    for round in 1..=3 {
        wait_gpu(tunnel, &bench, other, &[(ping, round)])?;
        bench.fill(tunnel.at, other, target)?;
        signal_gpu(tunnel, &bench, other, &[(pong, round)])?;
    }
    for round in 1..=3 {
        bench.fill(tunnel.at, one, target)?;
        signal_gpu(tunnel, &bench, one, &[(ping, round)])?;
        wait_gpu(tunnel, &bench, one, &[(pong, round)])?;
    }
    // The names may go: what is queued keeps the objects.
    destroy(tunnel, &bench, &[ping])?;
    wait_cpu(tunnel, &bench, &[(pong, 3)], CpuWait::default())?;
    destroy(tunnel, &bench, &[pong])?;
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &[target])?;
    bench.close(tunnel.at, &[one, other])
}

fn sync_semaphore(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (one, other) = (bench.create_context(tunnel.at)?, bench.create_context_on(tunnel.at, 1)?);
    let created = SyncObject::Semaphore(1, 2);
    let created = bench.client.create_sync_v1(tunnel.at, bench.device, created);
    let turns = expect_ok("D3DKMTCreateSynchronizationObject", created)?;
    let fence = create_object(tunnel, &bench, SyncObject::Fence(1), 0)?.object;
    let done = monitored(tunnel, &bench)?;
    for _ in 0..3 {
        let waits = bench.client.wait_v1(tunnel.at, one, &[turns]);
        expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    }
    let waits = bench.client.wait_v2(tunnel.at, one, &[fence], 2);
    expect_ok("D3DKMTWaitForSynchronizationObject2", waits)?;
    signal_gpu(tunnel, &bench, one, &[(done, 1)])?;
    tunnel.run_until_idle();
    for _ in 0..2 {
        let signals = bench.client.signal_v1(tunnel.at, other, &[turns]);
        expect_ok("D3DKMTSignalSynchronizationObject", signals)?;
    }
    let signals = bench.client.signal_v2(tunnel.at, (other, &[]), &[fence], 2);
    expect_ok("D3DKMTSignalSynchronizationObject2", signals)?;
    wait_cpu(tunnel, &bench, &[(done, 1)], CpuWait::default())?;
    destroy(tunnel, &bench, &[turns, fence, done])?;
    bench.close(tunnel.at, &[one, other])
}

fn sync_mutex(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (one, other) = (bench.create_context(tunnel.at)?, bench.create_context_on(tunnel.at, 1)?);
    let lock = create_object(tunnel, &bench, SyncObject::Mutex(false), 0)?.object;
    let done = monitored(tunnel, &bench)?;
    for context in [one, other] {
        let waits = bench.client.wait_v1(tunnel.at, context, &[lock]);
        expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    }
    signal_gpu(tunnel, &bench, other, &[(done, 1)])?;
    tunnel.run_until_idle();
    let signals = bench.client.signal_v1(tunnel.at, one, &[lock]);
    expect_ok("D3DKMTSignalSynchronizationObject", signals)?;
    wait_cpu(tunnel, &bench, &[(done, 1)], CpuWait::default())?;
    // The other one has it, and ends: whoever comes next gets it.
    expect_ok("D3DKMTDestroyContext", bench.client.destroy_context(tunnel.at, other))?;
    let waits = bench.client.wait_v1(tunnel.at, one, &[lock]);
    expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    signal_gpu(tunnel, &bench, one, &[(done, 2)])?;
    wait_cpu(tunnel, &bench, &[(done, 2)], CpuWait::default())?;
    destroy(tunnel, &bench, &[lock, done])?;
    bench.close(tunnel.at, &[one])
}

fn sync_cpu_notification(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let (one, other) = (monitored(tunnel, &bench)?, monitored(tunnel, &bench)?);
    let all = bench.client.create_event();
    let any = bench.client.create_event();
    let both = [(one, 1), (other, 1)];
    wait_cpu(tunnel, &bench, &both, CpuWait { any: false, event: all })?;
    wait_cpu(tunnel, &bench, &both, CpuWait { any: true, event: any })?;
    signal_cpu(tunnel, &bench, &[(other, 7)], 0)?;
    is_set(&bench, any, true)?;
    is_set(&bench, all, false)?;
    signal_cpu(tunnel, &bench, &[(one, 1)], 0)?;
    is_set(&bench, all, true)?;
    // A fence goes back when its client says so, and new waits are for what it has then.
    signal_cpu(tunnel, &bench, &[(other, 2)], SignalFlags::AllowFenceRewind)?;
    let late = bench.client.create_event();
    wait_cpu(tunnel, &bench, &[(other, 3)], CpuWait { any: false, event: late })?;
    is_set(&bench, late, false)?;
    signal_cpu(tunnel, &bench, &[(other, 3)], 0)?;
    is_set(&bench, late, true)?;
    let told = bench.client.create_event();
    let notice = create_object(tunnel, &bench, SyncObject::Notification(told), 0)?.object;
    let queued = bench.client.signal_v1(tunnel.at, context, &[notice]);
    expect_ok("D3DKMTSignalSynchronizationObject", queued)?;
    let queued = bench.client.create_event();
    let enqueued = bench.client.signal_event_gpu(tunnel.at, context, queued);
    expect_ok("D3DKMTSignalSynchronizationObjectFromGpu2", enqueued)?;
    tunnel.run_until_idle();
    is_set(&bench, told, true)?;
    is_set(&bench, queued, true)?;
    destroy(tunnel, &bench, &[one, other, notice])?;
    for event in [all, any, late, told, queued] {
        expect_ok("CloseHandle", bench.client.close_event(event))?;
    }
    bench.close(tunnel.at, &[context])
}

fn sync_broadcast_signal(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (one, other) = (bench.create_context(tunnel.at)?, bench.create_context_on(tunnel.at, 1)?);
    let (start, end) = (monitored(tunnel, &bench)?, monitored(tunnel, &bench)?);
    let told = bench.client.create_event();
    wait_gpu(tunnel, &bench, other, &[(start, 1)])?;
    let queued = bench.client.broadcast_gpu(tunnel.at, &[one, other], &[(end, 1)]);
    expect_ok("D3DKMTSignalSynchronizationObjectFromGpu2", queued)?;
    wait_cpu(tunnel, &bench, &[(end, 1)], CpuWait { any: false, event: told })?;
    tunnel.run_until_idle();
    is_set(&bench, told, false)?;
    signal_cpu(tunnel, &bench, &[(start, 1)], 0)?;
    wait_cpu(tunnel, &bench, &[(end, 1)], CpuWait::default())?;
    is_set(&bench, told, true)?;
    destroy(tunnel, &bench, &[start, end])?;
    expect_ok("CloseHandle", bench.client.close_event(told))?;
    bench.close(tunnel.at, &[one, other])
}

fn sync_shared_object(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, second) = (tunnel.test_client()?, tunnel.test_client()?);
    let (one, other) = (bench.create_context(tunnel.at)?, second.create_context_on(tunnel.at, 1)?);
    let created = create_object(tunnel, &bench, SyncObject::Semaphore(0, 1), Flags::Shared)?;
    let opened = second.client.open_sync(tunnel.at, created.global);
    let opened = expect_ok("D3DKMTOpenSynchronizationObject", opened)?;
    let waits = bench.client.wait_v1(tunnel.at, one, &[created.object]);
    expect_ok("D3DKMTWaitForSynchronizationObject", waits)?;
    let signals = second.client.signal_v1(tunnel.at, other, &[opened]);
    expect_ok("D3DKMTSignalSynchronizationObject", signals)?;
    tunnel.run_until_idle();
    let nt =
        create_object(tunnel, &bench, SyncObject::Monitored(0), Flags::Shared | Flags::NtSecuritySharing)?;
    // The second process is killed: what it has of the object goes with it.
    second.client.kill(tunnel.at);
    destroy(tunnel, &bench, &[created.object, nt.object])?;
    bench.close(tunnel.at, &[one])
}

fn sync_no_signal_no_wait(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let silent = create_object(tunnel, &bench, SyncObject::Monitored(1), Flags::NoSignal)?.object;
    let deaf = create_object(tunnel, &bench, SyncObject::Monitored(1), Flags::NoWait)?.object;
    signal_cpu(tunnel, &bench, &[(deaf, 2)], 0)?;
    wait_cpu(tunnel, &bench, &[(silent, 1)], CpuWait::default())?;
    let signalled = bench.client.signal_gpu(tunnel.at, context, &[(silent, 2)]);
    expect_error("D3DKMTSignalSynchronizationObjectFromGpu", &signalled, STATUS_ACCESS_DENIED)?;
    let signalled = bench.client.signal_cpu(tunnel.at, bench.device, &[(silent, 2)], 0);
    expect_error("D3DKMTSignalSynchronizationObjectFromCpu", &signalled, STATUS_ACCESS_DENIED)?;
    let waits = bench.client.wait_gpu(tunnel.at, context, &[(deaf, 1)]);
    expect_error("D3DKMTWaitForSynchronizationObjectFromGpu", &waits, STATUS_ACCESS_DENIED)?;
    destroy(tunnel, &bench, &[silent, deaf])?;
    bench.close(tunnel.at, &[context])
}

fn sync_device_reset(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let fence = monitored(tunnel, &bench)?;
    let stays =
        create_object(tunnel, &bench, SyncObject::Monitored(0), Flags::NoSignalMaxValueOnTdr)?.object;
    let (told, untold) = (bench.client.create_event(), bench.client.create_event());
    wait_cpu(tunnel, &bench, &[(fence, 1 << 31)], CpuWait { any: false, event: told })?;
    wait_cpu(tunnel, &bench, &[(stays, 1)], CpuWait { any: false, event: untold })?;
    let session = bench.client.session();
    let device = kernel::Handle(bench.device);
    if tunnel.kernel.simulate_reset(session.process(), device).is_err() {
        return Err(ScenarioStopped("a device to reset".to_owned()));
    }
    is_set(&bench, told, true)?;
    is_set(&bench, untold, false)?;
    destroy(tunnel, &bench, &[fence, stays])?;
    for event in [told, untold] {
        expect_ok("CloseHandle", bench.client.close_event(event))?;
    }
    bench.close(tunnel.at, &[])
}
