//! A client's queries about memory, and their results.
//!
//! "Row" is the number of an observation of Windows; each assertion states it in plain text.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::{
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT as AWAY,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY as HERE, D3DKMT_DEVICEEXECUTION_ACTIVE,
    D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY,
};
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER as INVALID,
    STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED,
};
use abi::ukm::{
    D3DDDI_MAKERESIDENT_FLAGS as Flags, D3DDDI_RECLAIM_RESULT_OK, D3DDDICB_LOCKFLAGS as LockFlags,
};
use flight::{Event, Passive, RuleId};
use harness::{KernelTestbed, run, softgpu, verified};
use softgpu::LOCAL;
use softgpu::format::{anywhere, describe_in, only_in};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use thunk::{AllocationSelection, Client, CreateAllocation, PagingStatus};
use windtunnel::TestClient;

const MIB: u64 = 1 << 20;
const LOCAL_GROUP: i32 = 0;

/// Runs a test with a client that has a device on an adapter with memory.
fn with_memory(body: impl FnOnce(&KernelTestbed, &mut Passive, &TestClient)) -> Vec<Event> {
    run(1, drivers::find("softgpu-memory").unwrap().make, |testbed, at| {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
        body(testbed, at, &test_client);
        test_client.close(at, &[]).unwrap();
    })
}

/// An allocation of some MiB that can only be in hidden local memory.
fn hidden(test_client: &TestClient, at: &mut Passive, mib: u64) -> u32 {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let create = CreateAllocation::new(test_client.device, vec![describe_in(mib * MIB, 0, &wants)]);
    test_client.create_with(at, &create).unwrap().allocations[0]
}

fn residency(test_client: &TestClient, at: &mut Passive, list: &[u32]) -> Vec<i32> {
    test_client.client.residency(at, AllocationSelection::of(test_client.device, list)).unwrap()
}

#[test]
fn sizes_and_budgets_are_as_windows_says() {
    with_memory(|_, at, test_client| {
        let (client, adapter) = (&test_client.client, test_client.adapter);
        let sizes = client.segment_sizes(at, adapter).unwrap();
        let sizes = (sizes.DedicatedVideoMemorySize, sizes.SharedSystemMemorySize);
        assert_eq!(sizes, (64 * MIB, 64 * MIB));
        for group in [LOCAL_GROUP, 1] {
            // Row 33: nothing is reserved in a fresh process, and nothing is used beyond budget.
            let it = client.memory_info(at, adapter, group, 0).unwrap();
            assert!(it.Budget >= it.AvailableForReservation);
            // The aperture of this driver is not for applications, so it is not part of budgets.
            assert_eq!(it.Budget > 0, group == LOCAL_GROUP);
            assert!(it.CurrentUsage <= it.Budget);
            assert_eq!(it.CurrentReservation, 0);
            // Row 34: the pseudo handle of the current process is the current process.
            assert_eq!(
                client.memory_info(at, adapter, group, usize::MAX).unwrap().Budget,
                it.Budget
            );
        }
        let refused = |at: &mut Passive, adapter, group, process| {
            client.memory_info(at, adapter, group, process).map(|_| ()).unwrap_err()
        };
        // Row 36: an invalid process handle. Row 37: an invalid adapter. Row 39: a group.
        assert_eq!(refused(at, adapter, LOCAL_GROUP, 0x1234), STATUS_INVALID_HANDLE);
        assert_eq!(refused(at, 0x1ead_beed, LOCAL_GROUP, 0), INVALID);
        assert_eq!(refused(at, adapter, 2, 0), INVALID);
    });
}

#[test]
fn reservations_are_reported_and_limited_by_memory() {
    with_memory(|_, at, test_client| {
        let (client, adapter) = (&test_client.client, test_client.adapter);
        client.reserve_memory(at, adapter, LOCAL_GROUP, MIB).unwrap();
        let it = client.memory_info(at, adapter, LOCAL_GROUP, 0).unwrap();
        assert_eq!(it.CurrentReservation, MIB);
        let most = it.AvailableForReservation;
        let more = client.reserve_memory(at, adapter, LOCAL_GROUP, most + 1);
        assert_eq!(more, Err(STATUS_NO_MEMORY));
        client.reserve_memory(at, adapter, LOCAL_GROUP, 0).unwrap();
    });
}

#[test]
fn an_adapter_without_memory_reports_none() {
    run(1, softgpu, |testbed, at| {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
        let sizes = test_client.client.segment_sizes(at, test_client.adapter).unwrap();
        assert_eq!((sizes.DedicatedVideoMemorySize, sizes.SharedSystemMemorySize), (0, 0));
        let queue = test_client.client.create_paging_queue(at, test_client.device, 0);
        assert_eq!(queue, Err(STATUS_NOT_IMPLEMENTED));
        test_client.close(at, &[]).unwrap();
    });
}

/// RESID-MAKE-003.
#[test]
fn a_request_that_finds_no_room_changes_nothing() {
    with_memory(|_, at, test_client| {
        let (first, second) = (hidden(test_client, at, 24), hidden(test_client, at, 16));
        test_client.make_resident(at, &[first]).unwrap();
        let queue = test_client.paging_queue(at).unwrap().queue;
        let PagingStatus::NoMemory(bytes) =
            test_client.client.make_resident(at, queue, &[first, second], 0).unwrap()
        else {
            panic!("there is room for both")
        };
        assert!(bytes > 0);
        assert_eq!(residency(test_client, at, &[first, second]), [HERE, AWAY]);
        // The first was counted once, so one call evicts it.
        test_client.client.evict(at, test_client.device, &[first], 0).unwrap();
        assert_eq!(test_client.client.evict(at, test_client.device, &[first], 0), Err(INVALID));
        test_client.make_resident(at, &[second]).unwrap();
        assert_eq!(residency(test_client, at, &[second]), [HERE]);
        test_client.destroy_list(at, &[first, second]).unwrap();
    });
}

/// RESID-MAKE-007.
#[test]
fn a_failed_must_succeed_request_ends_its_device() {
    with_memory(|_, at, test_client| {
        let (first, second) = (hidden(test_client, at, 24), hidden(test_client, at, 16));
        test_client.make_resident(at, &[first]).unwrap();
        let state =
            |at: &mut Passive| test_client.client.device_state(at, test_client.device).unwrap();
        let (queue, client) = (test_client.paging_queue(at).unwrap().queue, &test_client.client);
        let may = client.make_resident(at, queue, &[second], Flags::CantTrimFurther).unwrap();
        assert!(matches!(may, PagingStatus::NoMemory(_)));
        assert_eq!(state(at), D3DKMT_DEVICEEXECUTION_ACTIVE);
        let flags = Flags::CantTrimFurther | Flags::MustSucceed;
        let must = client.make_resident(at, queue, &[second], flags).unwrap();
        assert!(matches!(must, PagingStatus::NoMemory(_)));
        assert_eq!(state(at), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
        let late = client.make_resident(at, queue, &[first], 0);
        assert_eq!(late, Err(STATUS_DEVICE_REMOVED));
        test_client.destroy_list(at, &[first, second]).unwrap();
    });
}

/// PAGQ-LIFE-002, PAGQ-LIFE-003.
#[test]
fn a_paging_queue_is_destroyed_with_its_fence() {
    with_memory(|_, at, test_client| {
        let (client, device) = (&test_client.client, test_client.device);
        let queue = client.create_paging_queue(at, device, 0).unwrap();
        assert_ne!(queue.value, 0);
        client.wait(at, device, queue.fence, 0).unwrap();
        client.destroy_paging_queue(at, queue.queue).unwrap();
        assert_eq!(client.destroy_paging_queue(at, queue.queue), Err(INVALID));
        assert_eq!(client.wait(at, device, queue.fence, 0), Err(INVALID));
        let other = test_client.create_device(at).unwrap();
        let queue = client.create_paging_queue(at, other, 1).unwrap();
        client.destroy_device(at, other).unwrap();
        assert_eq!(client.destroy_paging_queue(at, queue.queue), Err(INVALID));
        assert_eq!(client.wait(at, device, queue.fence, 0), Err(INVALID));
        assert_eq!(client.create_paging_queue(at, device, 2).unwrap_err(), INVALID);
    });
}

/// ALLOC-LOCK-005.
#[test]
fn the_cpu_locks_only_cpu_visible_allocations() {
    with_memory(|_, at, test_client| {
        let (client, device) = (&test_client.client, test_client.device);
        let hidden = hidden(test_client, at, 1);
        assert_eq!(client.lock2(at, device, hidden, 0), Err(INVALID));
        let seen = CreateAllocation::new(device, vec![describe_in(4096, 0, &anywhere())]);
        let seen = test_client.create_with(at, &seen).unwrap().allocations[0];
        let address = client.lock2(at, device, seen, 0).unwrap();
        assert_ne!(address, 0);
        assert_eq!(client.lock2(at, device, seen, 0), Ok(address), "a lock counts");
        client.unlock(at, device, &[seen, seen]).unwrap();
        test_client.destroy_list(at, &[hidden, seen]).unwrap();
    });
}

/// ALLOC-PRIO-003.
#[test]
fn a_resource_is_resident_when_all_of_it_is() {
    with_memory(|_, at, test_client| {
        let made = test_client.create_resource(at, 2).unwrap();
        let resources = &[made.resource];
        let names = AllocationSelection { device: test_client.device, resources, list: &[] };
        let client = &test_client.client;
        test_client.make_resident(at, &made.allocations[..1]).unwrap();
        assert_eq!(client.residency(at, names).unwrap(), [AWAY]);
        test_client.make_resident(at, &made.allocations[1..]).unwrap();
        assert_eq!(client.residency(at, names).unwrap(), [HERE]);
        client.set_priorities(at, names, &[0x2800_0000]).unwrap();
        let list = AllocationSelection::of(test_client.device, &made.allocations);
        assert_eq!(client.priorities(at, list).unwrap(), [0x2800_0000; 2]);
        client.set_priorities(at, list, &[5, 6]).unwrap();
        assert_eq!(client.priorities(at, list).unwrap(), [5, 6]);
        test_client.destroy_resource(at, made.resource).unwrap();
    });
}

#[test]
fn an_offered_allocation_is_reclaimed_by_either_call() {
    with_memory(|_, at, test_client| {
        let made = test_client.create_resource(at, 2).unwrap();
        let (client, device) = (&test_client.client, test_client.device);
        let whole = AllocationSelection { device, resources: &[made.resource], list: &[] };
        test_client.make_resident(at, &made.allocations).unwrap();
        client.offer(at, whole, 1).unwrap();
        assert_eq!(client.reclaim(at, whole), Ok(vec![false]), "one answer for a resource");
        client.offer(at, AllocationSelection::of(device, &made.allocations), 2).unwrap();
        let queue = test_client.paging_queue(at).unwrap();
        let (results, value) = client.reclaim2(at, queue.queue, &made.allocations).unwrap();
        assert_eq!(results, [D3DDDI_RECLAIM_RESULT_OK; 2]);
        client.wait(at, device, queue.fence, value).unwrap();
        assert_eq!(residency(test_client, at, &made.allocations), [HERE; 2]);
        test_client.destroy_resource(at, made.resource).unwrap();
    });
}

#[test]
fn a_process_over_budget_is_notified_when_memory_is_short() {
    with_memory(|testbed, at, test_client| {
        let trimmed = Arc::new(AtomicU64::new(0));
        let (client, device, counter) = (&test_client.client, test_client.device, trimmed.clone());
        let unwinds = move |bytes| {
            counter.store(bytes, SeqCst);
            std::panic::resume_unwind(Box::new("a client's own affair"));
        };
        let registration = client.register_trim(at, device, unwinds).unwrap();
        // Two processes share the budget, so this one uses more than its part.
        let mine = [hidden(test_client, at, 16), hidden(test_client, at, 14)];
        test_client.make_resident(at, &mine).unwrap();
        let other = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
        let theirs = hidden(&other, at, 16);
        let queue = other.paging_queue(at).unwrap().queue;
        let made = other.client.make_resident(at, queue, &[theirs], 0).unwrap();
        assert!(matches!(made, PagingStatus::NoMemory(_)), "{made:?}");
        testbed.host.run_until_idle(at);
        assert!(trimmed.load(SeqCst) > 0);
        client.unregister_trim(at, registration).unwrap();
        assert_eq!(client.unregister_trim(at, registration), Err(INVALID));
        trimmed.store(0, SeqCst);
        assert!(other.client.make_resident(at, queue, &[theirs], 0).is_ok());
        testbed.host.run_until_idle(at);
        assert_eq!(trimmed.load(SeqCst), 0, "no client is notified any more");
        other.destroy_list(at, &[theirs]).unwrap();
        other.close(at, &[]).unwrap();
        test_client.destroy_list(at, &mine).unwrap();
    });
}

#[test]
fn good_calls_are_evaluated_without_findings() {
    let mut kernel = None;
    let events = with_memory(|testbed, at, test_client| {
        kernel = Some(testbed.kernel.clone());
        let (client, device) = (&test_client.client, test_client.device);
        let create = CreateAllocation::new(device, vec![describe_in(4096, 0, &anywhere())]);
        let list = test_client.create_with(at, &create).unwrap().allocations;
        let names = AllocationSelection::of(device, &list);
        test_client.make_resident(at, &list).unwrap();
        let entire = LockFlags::LockEntire;
        for flags in [entire, entire | LockFlags::IgnoreSync] {
            client.lock(at, device, list[0], flags, &[]).unwrap();
            client.unlock(at, device, &list).unwrap();
        }
        let flags = entire | LockFlags::AcquireAperture | LockFlags::UseAlternateVA;
        client.lock(at, device, list[0], flags, &[]).unwrap();
        client.unlock(at, device, &list).unwrap();
        let flags = entire | LockFlags::AcquireAperture;
        client.lock(at, device, list[0], flags, &[]).unwrap();
        client.lock(at, device, list[0], LockFlags::ReadOnly, &[0]).unwrap();
        client.unlock(at, device, &[list[0], list[0]]).unwrap();
        client.lock2(at, device, list[0], 0).unwrap();
        client.unlock2(at, device, list[0]).unwrap();
        client.set_priorities(at, names, &[7]).unwrap();
        client.residency(at, names).unwrap();
        client.offer(at, names, 1).unwrap();
        client.reclaim(at, names).unwrap();
        client.evict(at, device, &list, 0).unwrap();
        let registration = client.register_trim(at, device, |_| ()).unwrap();
        client.unregister_trim(at, registration).unwrap();
        test_client.destroy_list(at, &list).unwrap();
    });
    let (verifier, judged) = (verified(&events), kernel.unwrap().log().rule_counts());
    for rule in JUDGED {
        assert_ne!(judged.count_of(*rule), 0, "{} was not judged", rule.name());
        let found = verifier.findings().iter().find(|finding| finding.rule == *rule);
        assert!(found.is_none(), "{found:?}");
    }
}

const JUDGED: &[RuleId] = &[
    RuleId::ALLOC_LOCK_001,
    RuleId::ALLOC_LOCK_002,
    RuleId::ALLOC_LOCK_003,
    RuleId::ALLOC_LOCK_004,
    RuleId::ALLOC_LOCK_007,
    RuleId::ALLOC_LOCK_008,
    RuleId::ALLOC_LOCK_009,
    RuleId::ALLOC_LOCK_010,
    RuleId::ALLOC_LOCK_016,
    RuleId::ALLOC_LOCK_017,
    RuleId::ALLOC_LOCK_018,
    RuleId::ALLOC_PRIO_001,
    RuleId::ALLOC_PRIO_004,
    RuleId::PAGQ_LIFE_004,
    RuleId::RESID_EVICT_001,
    RuleId::RESID_MAKE_001,
    RuleId::RESID_MAKE_006,
    RuleId::RESID_OFFER_001,
    RuleId::RESID_OFFER_002,
    RuleId::RESID_OFFER_008,
    RuleId::RESID_TRIM_001,
];
