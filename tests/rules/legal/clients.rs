//! Clients that do what pages allow and few clients do.

use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::status::STATUS_TIMEOUT;
use abi::ukm::D3DDDI_ALLOCATIONPRIORITY_NORMAL;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;
use softgpu::format::describe;
use thunk::{
    AllocationSelection, CpuWait, CreateAllocation, CreatedAllocation, DestroyAllocation,
    PagingStatus, SyncObject,
};
use windtunnel::{ScenarioStopped, TestClient, Testbed};

type Result<T = ()> = std::result::Result<T, ScenarioStopped>;

/// The value of a call that has to succeed.
fn ok<T>(call: &str, result: std::result::Result<T, NTSTATUS>) -> Result<T> {
    result.map_err(|status| {
        let name = abi::status::name(status).unwrap_or("another status");
        ScenarioStopped::failed(format!("{call} to succeed; it returned {name}"))
    })
}

/// Whether a condition of the client holds.
fn expect(holds: bool, what: &str) -> Result {
    if holds { Ok(()) } else { Err(ScenarioStopped::failed(what.to_owned())) }
}

fn shared(client: &TestClient, at: &mut Passive, count: usize) -> Result<CreatedAllocation> {
    let create = CreateAllocation::new(client.device, vec![describe(4096); count]).with_resource();
    let flags = create.flags | Flags::CreateShared;
    client.create_with(at, &CreateAllocation { flags, ..create })
}

fn monitored(client: &TestClient, at: &mut Passive) -> Result<D3DKMT_HANDLE> {
    let fence = client.client.create_sync(at, client.device, SyncObject::Monitored(0), 0);
    Ok(ok("D3DKMTCreateSynchronizationObject2", fence)?.object)
}

fn destroy_sync(client: &TestClient, at: &mut Passive, fence: D3DKMT_HANDLE) -> Result {
    ok("D3DKMTDestroySynchronizationObject", client.client.destroy_sync(at, fence))
}

fn destroy_context(client: &TestClient, at: &mut Passive, context: D3DKMT_HANDLE) -> Result {
    ok("D3DKMTDestroyContext", client.client.destroy_context(at, context))
}

pub(super) fn many_contexts(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let mut contexts = Vec::new();
    for number in 0..64 {
        contexts.push(client.create_context_on(testbed.at, number % 2)?);
    }
    let created = client.create(testbed.at, 1)?;
    for context in contexts.iter().step_by(7) {
        client.fill(testbed.at, *context, created.allocations[0])?;
    }
    while !contexts.is_empty() {
        let middle = contexts.swap_remove(contexts.len() / 2);
        destroy_context(&client, testbed.at, middle)?;
    }
    client.destroy_list(testbed.at, &created.allocations)?;
    testbed.run_until_idle();
    client.close(testbed.at, &[])
}

pub(super) fn contexts_before_work_ends(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create_resource(testbed.at, 2)?;
    for _ in 0..4 {
        let context = client.create_context(testbed.at)?;
        client.fill(testbed.at, context, created.allocations[1])?;
        destroy_context(&client, testbed.at, context)?;
    }
    client.destroy_resource(testbed.at, created.resource)?;
    client.close(testbed.at, &[])
}

pub(super) fn destroys_inside_out(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create_resource(testbed.at, 5)?;
    for allocation in created.allocations.iter().rev() {
        client.destroy_list(testbed.at, &[*allocation])?;
    }
    client.destroy_resource(testbed.at, created.resource)?;
    let alone = client.create(testbed.at, 4)?;
    let mixed: Vec<_> = [2, 0, 3, 1].map(|at| alone.allocations[at]).to_vec();
    client.destroy_list(testbed.at, &mixed)?;
    client.close(testbed.at, &[])
}

pub(super) fn device_takes_all(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create_resource(testbed.at, 3)?;
    client.create(testbed.at, 2)?;
    let context = client.create_context(testbed.at)?;
    client.create_context_on(testbed.at, 1)?;
    client.fill(testbed.at, context, created.allocations[0])?;
    client.close(testbed.at, &[])
}

pub(super) fn killed_mid_work(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let context = client.create_context(testbed.at)?;
    let created = client.create(testbed.at, 2)?;
    client.fill(testbed.at, context, created.allocations[0])?;
    let locked = client.client.lock2(testbed.at, client.device, created.allocations[1], 0);
    ok("D3DKMTLock2", locked)?;
    client.client.kill(testbed.at);
    testbed.run_until_idle();
    Ok(())
}

pub(super) fn adapter_closed_late(testbed: &mut Testbed<'_>) -> Result {
    let (late, other) = (testbed.test_client()?, testbed.test_client()?);
    ok("D3DKMTDestroyDevice", late.client.destroy_device(testbed.at, late.device))?;
    other.create(testbed.at, 1)?;
    other.close(testbed.at, &[])?;
    testbed.run_until_idle();
    ok("D3DKMTCloseAdapter", late.client.close_adapter(testbed.at, late.adapter))?;
    late.client.end(testbed.at);
    Ok(())
}

pub(super) fn both_destroy_flags(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let both = DestroyAllocation {
        device: client.device,
        assume_not_in_use: true,
        synchronous: true,
        ..DestroyAllocation::default()
    };
    let created = client.create_resource(testbed.at, 2)?;
    client.destroy_with(
        testbed.at,
        &DestroyAllocation { resource: created.resource, ..both.clone() },
    )?;
    let list = client.create(testbed.at, 3)?.allocations;
    client.destroy_with(testbed.at, &DestroyAllocation { list, ..both })?;
    client.close(testbed.at, &[])
}

pub(super) fn synchronous_on_idle(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let context = client.create_context(testbed.at)?;
    let created = client.create(testbed.at, 6)?;
    client.fill(testbed.at, context, created.allocations[0])?;
    testbed.run_until_idle();
    for allocation in created.allocations {
        let destroy = DestroyAllocation {
            device: client.device,
            list: vec![allocation],
            synchronous: true,
            ..DestroyAllocation::default()
        };
        client.destroy_with(testbed.at, &destroy)?;
    }
    client.close(testbed.at, &[context])
}

pub(super) fn one_and_many(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let many = client.create_resource(testbed.at, 200)?;
    let one = client.create_resource(testbed.at, 1)?;
    client.destroy_list(testbed.at, &many.allocations[50..150])?;
    client.destroy_resource(testbed.at, one.resource)?;
    client.destroy_resource(testbed.at, many.resource)?;
    client.close(testbed.at, &[])
}

pub(super) fn no_private_data(testbed: &mut Testbed<'_>) -> Result {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let created = shared(&maker, testbed.at, 1)?;
    let opened = opener.client.open_resource(testbed.at, opener.device, created.global);
    let opened = ok("D3DKMTOpenResource", opened)?;
    expect(opened.runtime.is_empty() && opened.private.is_empty(), "no private data")?;
    opener.destroy_resource(testbed.at, opened.resource)?;
    maker.destroy_resource(testbed.at, created.resource)?;
    opener.close(testbed.at, &[])?;
    maker.close(testbed.at, &[])
}

pub(super) fn opens_twice(testbed: &mut Testbed<'_>) -> Result {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let created = shared(&maker, testbed.at, 2)?;
    let open = |at: &mut Passive| {
        ok("D3DKMTOpenResource", opener.client.open_resource(at, opener.device, created.global))
    };
    let (first, second) = (open(testbed.at)?, open(testbed.at)?);
    expect(first.resource != second.resource, "two handles")?;
    opener.destroy_resource(testbed.at, first.resource)?;
    let context = opener.create_context(testbed.at)?;
    opener.fill(testbed.at, context, second.allocations[0])?;
    opener.destroy_resource(testbed.at, second.resource)?;
    maker.destroy_resource(testbed.at, created.resource)?;
    opener.close(testbed.at, &[context])?;
    maker.close(testbed.at, &[])
}

pub(super) fn opens_own_resource(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let mut second = client.clone();
    second.device = client.create_device(testbed.at)?;
    let created = shared(&client, testbed.at, 1)?;
    let opened = client.client.open_resource(testbed.at, second.device, created.global);
    let opened = ok("D3DKMTOpenResource", opened)?;
    client.destroy_resource(testbed.at, created.resource)?;
    second.destroy_resource(testbed.at, opened.resource)?;
    ok("D3DKMTDestroyDevice", client.client.destroy_device(testbed.at, second.device))?;
    client.close(testbed.at, &[])
}

pub(super) fn creator_dies_first(testbed: &mut Testbed<'_>) -> Result {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let created = shared(&maker, testbed.at, 2)?;
    let opened = opener.client.open_resource(testbed.at, opener.device, created.global);
    let opened = ok("D3DKMTOpenResource", opened)?;
    maker.client.kill(testbed.at);
    let context = opener.create_context(testbed.at)?;
    opener.fill(testbed.at, context, opened.allocations[1])?;
    testbed.run_until_idle();
    opener.destroy_resource(testbed.at, opened.resource)?;
    opener.close(testbed.at, &[context])
}

pub(super) fn empty_destroy(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    for _ in 0..3 {
        client.destroy_list(testbed.at, &[])?;
    }
    client.close(testbed.at, &[])
}

pub(super) fn empty_resource(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create_resource(testbed.at, 2)?;
    for _ in 0..3 {
        let more = CreateAllocation::new(client.device, vec![describe(4096); 2]);
        let more = client.create_with(testbed.at, &more.into_resource(created.resource))?;
        client.destroy_list(testbed.at, &more.allocations)?;
    }
    client.destroy_list(testbed.at, &created.allocations)?;
    client.destroy_resource(testbed.at, created.resource)?;
    client.close(testbed.at, &[])
}

pub(super) fn cpu_only_fence(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let fence = monitored(&client, testbed.at)?;
    for value in [1, 2, 1000, 1 << 40] {
        let signal = client.client.signal_cpu(testbed.at, client.device, &[(fence, value)], 0);
        ok("D3DKMTSignalSynchronizationObjectFromCpu", signal)?;
        let wait = CpuWait::default();
        let waited = client.client.wait_cpu(testbed.at, client.device, &[(fence, value)], wait);
        ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)?;
    }
    destroy_sync(&client, testbed.at, fence)?;
    client.close(testbed.at, &[])
}

pub(super) fn waits_for_the_past(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let context = client.create_context(testbed.at)?;
    let fence = monitored(&client, testbed.at)?;
    let signal = client.client.signal_cpu(testbed.at, client.device, &[(fence, 9)], 0);
    ok("D3DKMTSignalSynchronizationObjectFromCpu", signal)?;
    for value in [9, 3, 0] {
        let list = [(fence, value)];
        let waited = client.client.wait_cpu(testbed.at, client.device, &list, CpuWait::default());
        ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)?;
        let waited = client.client.wait_gpu(testbed.at, context, &list);
        ok("D3DKMTWaitForSynchronizationObjectFromGpu", waited)?;
    }
    testbed.run_until_idle();
    destroy_sync(&client, testbed.at, fence)?;
    client.close(testbed.at, &[context])
}

pub(super) fn signals_before_wait(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let (one, two) = (client.create_context(testbed.at)?, client.create_context_on(testbed.at, 1)?);
    let fence = monitored(&client, testbed.at)?;
    let created = client.create(testbed.at, 1)?;
    for value in 1..=3 {
        client.fill(testbed.at, one, created.allocations[0])?;
        let signal = client.client.signal_gpu(testbed.at, one, &[(fence, value)]);
        ok("D3DKMTSignalSynchronizationObjectFromGpu", signal)?;
        let waited = client.client.wait_gpu(testbed.at, two, &[(fence, value)]);
        ok("D3DKMTWaitForSynchronizationObjectFromGpu", waited)?;
        client.fill(testbed.at, two, created.allocations[0])?;
    }
    client.destroy_list(testbed.at, &created.allocations)?;
    testbed.run_until_idle();
    destroy_sync(&client, testbed.at, fence)?;
    client.close(testbed.at, &[two, one])
}

pub(super) fn waits_any(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let mut fences = Vec::new();
    for _ in 0..3 {
        fences.push((monitored(&client, testbed.at)?, 1));
    }
    let event = client.client.create_event();
    let wait = CpuWait { any: true, event };
    let waited = client.client.wait_cpu(testbed.at, client.device, &fences, wait);
    ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)?;
    let signal = client.client.signal_cpu(testbed.at, client.device, &fences[1..2], 0);
    ok("D3DKMTSignalSynchronizationObjectFromCpu", signal)?;
    testbed.run_until_idle();
    expect(client.client.event_is_set(event) == Ok(true), "the event to be set")?;
    ok("CloseHandle", client.client.close_event(event))?;
    for (fence, _) in fences {
        destroy_sync(&client, testbed.at, fence)?;
    }
    client.close(testbed.at, &[])
}

pub(super) fn resident_repeatedly(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create(testbed.at, 1)?;
    for _ in 0..3 {
        client.make_resident(testbed.at, &created.allocations)?;
    }
    for _ in 0..3 {
        let evicted = client.client.evict(testbed.at, client.device, &created.allocations, 0);
        ok("D3DKMTEvict", evicted)?;
    }
    client.make_resident(testbed.at, &created.allocations)?;
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[])
}

pub(super) fn offer_reclaim_offer(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create(testbed.at, 2)?;
    let all = AllocationSelection::of(client.device, &created.allocations);
    for priority in [1, 2, 3] {
        ok("D3DKMTOfferAllocations", client.client.offer(testbed.at, all, priority))?;
        ok("D3DKMTReclaimAllocations", client.client.reclaim(testbed.at, all))?;
    }
    ok("D3DKMTOfferAllocations", client.client.offer(testbed.at, all, 1))?;
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[])
}

pub(super) fn evicts_then_destroys(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create(testbed.at, 2)?;
    let queue = client.client.create_paging_queue(testbed.at, client.device, 0);
    let queue = ok("D3DKMTCreatePagingQueue", queue)?;
    let resident = client.client.make_resident(testbed.at, queue.queue, &created.allocations, 0);
    if let PagingStatus::Pending(value) = ok("D3DKMTMakeResident", resident)? {
        let waited = client.client.wait(testbed.at, client.device, queue.fence, value);
        ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)?;
    }
    let destroyed = client.client.destroy_paging_queue(testbed.at, queue.queue);
    ok("D3DKMTDestroyPagingQueue", destroyed)?;
    let evicted = client.client.evict(testbed.at, client.device, &created.allocations, 0);
    ok("D3DKMTEvict", evicted)?;
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[])
}

pub(super) fn two_paging_queues(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create(testbed.at, 2)?;
    let mut queues = Vec::new();
    for allocation in &created.allocations {
        let queue = client.client.create_paging_queue(testbed.at, client.device, 0);
        let queue = ok("D3DKMTCreatePagingQueue", queue)?;
        let resident = client.client.make_resident(testbed.at, queue.queue, &[*allocation], 0);
        queues.push((queue, ok("D3DKMTMakeResident", resident)?));
    }
    for (queue, status) in queues.into_iter().rev() {
        if let PagingStatus::Pending(value) = status {
            let waited = client.client.wait(testbed.at, client.device, queue.fence, value);
            ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)?;
        }
        let destroyed = client.client.destroy_paging_queue(testbed.at, queue.queue);
        ok("D3DKMTDestroyPagingQueue", destroyed)?;
    }
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[])
}

pub(super) fn locks_nested(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create(testbed.at, 1)?;
    let one = created.allocations[0];
    let mut addresses = Vec::new();
    for _ in 0..3 {
        let locked = client.client.lock2(testbed.at, client.device, one, 0);
        addresses.push(ok("D3DKMTLock2", locked)?);
    }
    addresses.dedup();
    expect(addresses.len() == 1, "one address")?;
    for _ in 0..3 {
        ok("D3DKMTUnlock2", client.client.unlock2(testbed.at, client.device, one))?;
    }
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[])
}

pub(super) fn named_priorities(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let created = client.create(testbed.at, 1)?;
    let all = AllocationSelection::of(client.device, &created.allocations);
    // The named priorities: minimum, low, normal, high and maximum.
    let named =
        [0x2800_0000, 0x5000_0000, D3DDDI_ALLOCATIONPRIORITY_NORMAL, 0xa000_0000, 0xc800_0000];
    for priority in named {
        let set = client.client.set_priorities(testbed.at, all, &[priority]);
        ok("D3DKMTSetAllocationPriority", set)?;
        let read = ok("D3DKMTGetAllocationPriority", client.client.priorities(testbed.at, all))?;
        expect(read == [priority], "the priority that was set")?;
    }
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[])
}

pub(super) fn keyed_mutex_times_out(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let mutex = ok("D3DKMTCreateKeyedMutex", client.client.create_keyed_mutex(testbed.at, 5))?;
    let acquire =
        |at: &mut Passive, key| client.client.acquire_keyed_mutex(at, mutex.handle, key, Some(0));
    expect(acquire(testbed.at, 6) == Err(STATUS_TIMEOUT), "STATUS_TIMEOUT")?;
    ok("D3DKMTAcquireKeyedMutex", acquire(testbed.at, 5))?;
    let released = client.client.release_keyed_mutex(testbed.at, mutex.handle, 6, 1);
    ok("D3DKMTReleaseKeyedMutex", released)?;
    expect(acquire(testbed.at, 5) == Err(STATUS_TIMEOUT), "STATUS_TIMEOUT")?;
    let destroyed = client.client.destroy_keyed_mutex(testbed.at, mutex.handle);
    ok("D3DKMTDestroyKeyedMutex", destroyed)?;
    client.close(testbed.at, &[])
}

pub(super) fn shared_line_spurious(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let context = client.create_context(testbed.at)?;
    let created = client.create(testbed.at, 1)?;
    for _ in 0..30 {
        testbed.shared_line_interrupt();
    }
    client.fill(testbed.at, context, created.allocations[0])?;
    testbed.shared_line_interrupt();
    client.destroy_list(testbed.at, &created.allocations)?;
    client.close(testbed.at, &[context])
}

pub(super) fn two_processes_interleaved(testbed: &mut Testbed<'_>) -> Result {
    let clients = [testbed.test_client()?, testbed.test_client()?];
    let contexts = [clients[0].create_context(testbed.at)?, clients[1].create_context(testbed.at)?];
    let mut older: Vec<(usize, CreatedAllocation)> = Vec::new();
    for round in 0..8 {
        let turn = round % 2;
        let created = clients[turn].create_resource(testbed.at, 1 + round)?;
        clients[turn].fill(testbed.at, contexts[turn], created.allocations[0])?;
        older.push((turn, created));
        if older.len() > 3 {
            let (owner, oldest) = older.remove(0);
            clients[owner].destroy_resource(testbed.at, oldest.resource)?;
        }
    }
    for (owner, created) in older.into_iter().rev() {
        clients[owner].destroy_resource(testbed.at, created.resource)?;
    }
    for (client, context) in clients.iter().zip(contexts) {
        client.close(testbed.at, &[context])?;
    }
    Ok(())
}

pub(super) fn restarts_idle(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    client.create_resource(testbed.at, 2)?;
    testbed.run_until_idle();
    testbed.restart()?;
    // The old device is lost; its handle stays valid until it is closed.
    let fresh = testbed.test_client()?;
    let created = fresh.create(testbed.at, 1)?;
    client.close(testbed.at, &[])?;
    fresh.destroy_list(testbed.at, &created.allocations)?;
    fresh.close(testbed.at, &[])
}

pub(super) fn empty_packets(testbed: &mut Testbed<'_>) -> Result {
    let client = testbed.test_client()?;
    let context = client.create_context(testbed.at)?;
    for _ in 0..5 {
        client.submit(testbed.at, context, &[])?;
    }
    testbed.run_until_idle();
    client.close(testbed.at, &[context])
}
