//! Good clients of synchronisation objects: contexts and the CPU go on in the order they agreed.

use crate::scenario::Story::Told;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{Bench, Stopped, Thread, Tunnel, refused, wanted};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_ACCESS_DENIED;
use abi::ukm::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags, D3DDDICB_SIGNALFLAGS as SignalFlags};
use thunk::{CpuWait, NewSync, SyncObject};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    good(
        "sync-cpu",
        "the CPU signals what a context waits for, and waits for what it signals",
        cpu,
    ),
    good("sync-step", "two contexts go on in step, each waits for the other", in_step),
    good("sync-semaphore", "as many waits of a semaphore pass as there were signals", semaphore),
    good("sync-mutex", "a mutex lets one context go on at a time, and outlives one", mutex),
    good("sync-events", "events are set when fences have values and contexts come", events),
    good("sync-broadcast", "a signal counts when all its contexts have come to it", broadcast),
    good("sync-shared", "a shared object is opened by a second process, which just ends", shared),
    good("sync-rights", "a device may not signal, or not wait for, a fence", rights),
    good("sync-reset", "a reset hits a device: its fences have their maximum", reset),
];

const fn good(
    name: &'static str,
    about: &'static str,
    story: fn(&mut Tunnel<'_>) -> Result<(), Stopped>,
) -> Scenario {
    Scenario { name, about, breaks: &[], needs: WORK, story: Told(story) }
}

/// Makes an object, or stops.
pub(crate) fn make(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    object: SyncObject,
    flags: u32,
) -> Result<NewSync, Stopped> {
    let made = bench.client.create_sync(tunnel.at, bench.device, object, flags);
    wanted("D3DKMTCreateSynchronizationObject2", made)
}

pub(crate) fn monitored(tunnel: &mut Tunnel<'_>, bench: &Bench) -> Result<D3DKMT_HANDLE, Stopped> {
    make(tunnel, bench, SyncObject::Monitored(0), 0).map(|it| it.object)
}

pub(crate) fn destroy(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    list: &[D3DKMT_HANDLE],
) -> Result<(), Stopped> {
    for object in list {
        let destroyed = bench.client.destroy_sync(tunnel.at, *object);
        wanted("D3DKMTDestroySynchronizationObject", destroyed)?;
    }
    Ok(())
}

fn wait_gpu(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    context: D3DKMT_HANDLE,
    list: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), Stopped> {
    let queued = bench.client.wait_gpu(tunnel.at, context, list);
    wanted("D3DKMTWaitForSynchronizationObjectFromGpu", queued)
}

fn signal_gpu(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    context: D3DKMT_HANDLE,
    list: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), Stopped> {
    let queued = bench.client.signal_gpu(tunnel.at, context, list);
    wanted("D3DKMTSignalSynchronizationObjectFromGpu", queued)
}

pub(crate) fn signal_cpu(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    list: &[(D3DKMT_HANDLE, u64)],
    flags: u32,
) -> Result<(), Stopped> {
    let signalled = bench.client.signal_cpu(tunnel.at, bench.device, list, flags);
    wanted("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
}

pub(crate) fn wait_cpu(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    list: &[(D3DKMT_HANDLE, u64)],
    how: CpuWait,
) -> Result<(), Stopped> {
    let waited = bench.client.wait_cpu(tunnel.at, bench.device, list, how);
    wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
}

fn is_set(bench: &Bench, event: usize, expected: bool) -> Result<(), Stopped> {
    if bench.client.event_is_set(event) == Ok(expected) {
        return Ok(());
    }
    let set = if expected { "set" } else { "not set" };
    Err(Stopped(format!("event {event:#x} to be {set}")))
}

fn cpu(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let one = bench.create(tunnel.at, 1)?.allocations[0];
    let (start, end) = (monitored(tunnel, &bench)?, monitored(tunnel, &bench)?);
    wait_gpu(tunnel, &bench, context, &[(start, 1)])?;
    bench.fill(tunnel.at, context, one)?;
    signal_gpu(tunnel, &bench, context, &[(end, 5)])?;
    tunnel.settle();
    tunnel.look("the context waits for the CPU");
    signal_cpu(tunnel, &bench, &[(start, 2)], 0)?;
    wait_cpu(tunnel, &bench, &[(end, 4), (start, 1)], CpuWait::default())?;
    // From here on the context goes first: a thread waits for it.
    wait_gpu(tunnel, &bench, context, &[(start, 3)])?;
    bench.fill(tunnel.at, context, one)?;
    signal_gpu(tunnel, &bench, context, &[(end, 6)])?;
    let waits = bench.clone();
    let signals = bench.clone();
    let threads: Vec<Thread> = vec![
        Box::new(move |at| {
            let fences = [(end, 6)];
            let waited = waits.client.wait_cpu(at, waits.device, &fences, CpuWait::default());
            wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
        }),
        Box::new(move |at| {
            let signalled = signals.client.signal_cpu(at, signals.device, &[(start, 3)], 0);
            wanted("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
        }),
    ];
    tunnel.side_by_side(threads)?;
    destroy(tunnel, &bench, &[start, end])?;
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

fn in_step(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (one, other) = (bench.context(tunnel.at)?, bench.context_on(tunnel.at, 1)?);
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
    tunnel.settle();
    bench.destroy_list(tunnel.at, &[target])?;
    bench.close(tunnel.at, &[one, other])
}

fn semaphore(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (one, other) = (bench.context(tunnel.at)?, bench.context_on(tunnel.at, 1)?);
    let made = SyncObject::Semaphore(1, 2);
    let made = bench.client.create_sync_v1(tunnel.at, bench.device, made);
    let turns = wanted("D3DKMTCreateSynchronizationObject", made)?;
    let fence = make(tunnel, &bench, SyncObject::Fence(1), 0)?.object;
    let done = monitored(tunnel, &bench)?;
    for _ in 0..3 {
        let waits = bench.client.wait_v1(tunnel.at, one, &[turns]);
        wanted("D3DKMTWaitForSynchronizationObject", waits)?;
    }
    let waits = bench.client.wait_v2(tunnel.at, one, &[fence], 2);
    wanted("D3DKMTWaitForSynchronizationObject2", waits)?;
    signal_gpu(tunnel, &bench, one, &[(done, 1)])?;
    tunnel.settle();
    for _ in 0..2 {
        let signals = bench.client.signal_v1(tunnel.at, other, &[turns]);
        wanted("D3DKMTSignalSynchronizationObject", signals)?;
    }
    let signals = bench.client.signal_v2(tunnel.at, (other, &[]), &[fence], 2);
    wanted("D3DKMTSignalSynchronizationObject2", signals)?;
    wait_cpu(tunnel, &bench, &[(done, 1)], CpuWait::default())?;
    destroy(tunnel, &bench, &[turns, fence, done])?;
    bench.close(tunnel.at, &[one, other])
}

fn mutex(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (one, other) = (bench.context(tunnel.at)?, bench.context_on(tunnel.at, 1)?);
    let lock = make(tunnel, &bench, SyncObject::Mutex(false), 0)?.object;
    let done = monitored(tunnel, &bench)?;
    for context in [one, other] {
        let waits = bench.client.wait_v1(tunnel.at, context, &[lock]);
        wanted("D3DKMTWaitForSynchronizationObject", waits)?;
    }
    signal_gpu(tunnel, &bench, other, &[(done, 1)])?;
    tunnel.settle();
    let signals = bench.client.signal_v1(tunnel.at, one, &[lock]);
    wanted("D3DKMTSignalSynchronizationObject", signals)?;
    wait_cpu(tunnel, &bench, &[(done, 1)], CpuWait::default())?;
    // The other one has it, and ends: whoever comes next gets it.
    wanted("D3DKMTDestroyContext", bench.client.destroy_context(tunnel.at, other))?;
    let waits = bench.client.wait_v1(tunnel.at, one, &[lock]);
    wanted("D3DKMTWaitForSynchronizationObject", waits)?;
    signal_gpu(tunnel, &bench, one, &[(done, 2)])?;
    wait_cpu(tunnel, &bench, &[(done, 2)], CpuWait::default())?;
    destroy(tunnel, &bench, &[lock, done])?;
    bench.close(tunnel.at, &[one])
}

fn events(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
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
    let notice = make(tunnel, &bench, SyncObject::Notification(told), 0)?.object;
    let queued = bench.client.signal_v1(tunnel.at, context, &[notice]);
    wanted("D3DKMTSignalSynchronizationObject", queued)?;
    let queued = bench.client.create_event();
    let enqueued = bench.client.event_gpu(tunnel.at, context, queued);
    wanted("D3DKMTSignalSynchronizationObjectFromGpu2", enqueued)?;
    tunnel.settle();
    is_set(&bench, told, true)?;
    is_set(&bench, queued, true)?;
    destroy(tunnel, &bench, &[one, other, notice])?;
    for event in [all, any, late, told, queued] {
        wanted("CloseHandle", bench.client.close_event(event))?;
    }
    bench.close(tunnel.at, &[context])
}

fn broadcast(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (one, other) = (bench.context(tunnel.at)?, bench.context_on(tunnel.at, 1)?);
    let (start, end) = (monitored(tunnel, &bench)?, monitored(tunnel, &bench)?);
    let told = bench.client.create_event();
    wait_gpu(tunnel, &bench, other, &[(start, 1)])?;
    let queued = bench.client.broadcast_gpu(tunnel.at, &[one, other], &[(end, 1)]);
    wanted("D3DKMTSignalSynchronizationObjectFromGpu2", queued)?;
    wait_cpu(tunnel, &bench, &[(end, 1)], CpuWait { any: false, event: told })?;
    tunnel.settle();
    is_set(&bench, told, false)?;
    signal_cpu(tunnel, &bench, &[(start, 1)], 0)?;
    wait_cpu(tunnel, &bench, &[(end, 1)], CpuWait::default())?;
    is_set(&bench, told, true)?;
    destroy(tunnel, &bench, &[start, end])?;
    wanted("CloseHandle", bench.client.close_event(told))?;
    bench.close(tunnel.at, &[one, other])
}

fn shared(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, second) = (tunnel.bench()?, tunnel.bench()?);
    let (one, other) = (bench.context(tunnel.at)?, second.context_on(tunnel.at, 1)?);
    let made = make(tunnel, &bench, SyncObject::Semaphore(0, 1), Flags::Shared)?;
    let opened = second.client.open_sync(tunnel.at, made.global);
    let opened = wanted("D3DKMTOpenSynchronizationObject", opened)?;
    let waits = bench.client.wait_v1(tunnel.at, one, &[made.object]);
    wanted("D3DKMTWaitForSynchronizationObject", waits)?;
    let signals = second.client.signal_v1(tunnel.at, other, &[opened]);
    wanted("D3DKMTSignalSynchronizationObject", signals)?;
    tunnel.settle();
    let nt =
        make(tunnel, &bench, SyncObject::Monitored(0), Flags::Shared | Flags::NtSecuritySharing)?;
    // The second process is killed: what it has of the object goes with it.
    second.client.kill(tunnel.at);
    destroy(tunnel, &bench, &[made.object, nt.object])?;
    bench.close(tunnel.at, &[one])
}

fn rights(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let silent = make(tunnel, &bench, SyncObject::Monitored(1), Flags::NoSignal)?.object;
    let deaf = make(tunnel, &bench, SyncObject::Monitored(1), Flags::NoWait)?.object;
    signal_cpu(tunnel, &bench, &[(deaf, 2)], 0)?;
    wait_cpu(tunnel, &bench, &[(silent, 1)], CpuWait::default())?;
    let signalled = bench.client.signal_gpu(tunnel.at, context, &[(silent, 2)]);
    refused("D3DKMTSignalSynchronizationObjectFromGpu", &signalled, STATUS_ACCESS_DENIED)?;
    let signalled = bench.client.signal_cpu(tunnel.at, bench.device, &[(silent, 2)], 0);
    refused("D3DKMTSignalSynchronizationObjectFromCpu", &signalled, STATUS_ACCESS_DENIED)?;
    let waits = bench.client.wait_gpu(tunnel.at, context, &[(deaf, 1)]);
    refused("D3DKMTWaitForSynchronizationObjectFromGpu", &waits, STATUS_ACCESS_DENIED)?;
    destroy(tunnel, &bench, &[silent, deaf])?;
    bench.close(tunnel.at, &[context])
}

fn reset(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let fence = monitored(tunnel, &bench)?;
    let stays =
        make(tunnel, &bench, SyncObject::Monitored(0), Flags::NoSignalMaxValueOnTdr)?.object;
    let (told, untold) = (bench.client.create_event(), bench.client.create_event());
    wait_cpu(tunnel, &bench, &[(fence, 1 << 31)], CpuWait { any: false, event: told })?;
    wait_cpu(tunnel, &bench, &[(stays, 1)], CpuWait { any: false, event: untold })?;
    let session = bench.client.session();
    let device = kernel::Handle(bench.device);
    if tunnel.kernel.hit_by_reset(session.process(), device).is_err() {
        return Err(Stopped("a device to reset".to_owned()));
    }
    is_set(&bench, told, true)?;
    is_set(&bench, untold, false)?;
    destroy(tunnel, &bench, &[fence, stays])?;
    for event in [told, untold] {
        wanted("CloseHandle", bench.client.close_event(event))?;
    }
    bench.close(tunnel.at, &[])
}
