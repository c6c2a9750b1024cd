//! Requests for memory that fail, or that come too late: they change nothing.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::status::STATUS_INVALID_PARAMETER as INVALID;
use abi::ukm::{
    D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve, D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation,
};
use flight::{Event, EventKind, Passive, RuleId};
use harness::memory_client::{hidden, pages_of_each};
use harness::memory_testbed::{
    MemoryTestbed, PAGE, with_clean_memory_testbed, with_memory_testbed,
};
use softgpu::format::anywhere;
use softgpu::{MemoryPlan, MmuPlan};
use thunk::{CpuWait, PagingStatus, SyncObject};
use windtunnel::HostKind;

/// Sixteen pages of each kind.
const SMALL: MemoryPlan = pages_of_each(16);

/// Memory for page tables as well.
const WITH_ADDRESSES: MemoryPlan =
    MemoryPlan { mmu: Some(MmuPlan::TWO_LEVELS), ..pages_of_each(1024) };

/// The size of a reservation in bytes.
const SPACE: u64 = 4 << 20;

/// The size of a small reservation in bytes.
const RANGE: u64 = 64 << 10;

fn orders() -> impl Iterator<Item = HostKind> {
    (1..=5).map(HostKind::deterministic).chain([HostKind::Threaded; 3])
}

/// RESID-MAKE-003: a list that does not fit is undone as a whole. What was placed for it is free
/// again, and what an earlier eviction saved is not lost.
#[test]
fn a_list_that_does_not_fit_leaves_nothing_placed() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let saved = testbed.resident(at, 4, &hidden());
            testbed.fill(at, saved, 4, 5);
            testbed.evict(at, saved, 0);
            testbed.run_until_idle(at);
            let fresh = testbed.create(at, 2, &hidden());
            let large = testbed.create(at, 16, &hidden());
            let queue = testbed.test_client.paging_queue(at).unwrap();
            let client = &testbed.test_client.client;
            let made = client.make_resident(at, queue.queue, &[saved, fresh, large], 0).unwrap();
            // The list has 22 pages, the memory 16.
            let missing = |bytes: u64| bytes >= 6 * PAGE;
            assert!(matches!(made, PagingStatus::NoMemory(bytes) if missing(bytes)), "{made:?}");
            testbed.run_until_idle(at);
            assert_eq!(
                [saved, fresh].map(|allocation| testbed.address(allocation)),
                [None; 2],
                "{on:?}"
            );
            testbed.test_client.make_resident(at, &[saved, fresh]).unwrap();
            assert_eq!(testbed.held(saved, 4), Some(vec![5; 4 * 4096]), "{on:?}");
            assert_eq!(testbed.held(fresh, 2), Some(vec![0; 2 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}

/// A map operation of an address update.
fn map(base: u64, allocation: u32) -> Operation {
    Operation { OperationType: MAP, Data: [base, PAGE, allocation.into(), 0, PAGE, 0, 0] }
}

/// How many operations each applied update ignored.
fn ignored(events: &[Event]) -> Vec<u32> {
    let ignored = |event: &Event| match event.kind {
        EventKind::UpdateApplied { ignored, .. } => Some(ignored),
        _ => None,
    };
    events.iter().filter_map(ignored).collect()
}

/// An update that waits for a fence ignores an allocation that is destroyed meanwhile, also while
/// the destruction itself waits for queued work.
#[test]
fn an_update_that_waited_maps_no_destroyed_allocation() {
    for (seed, busy) in (1..=5).flat_map(|seed| [(seed, false), (seed, true)]) {
        let events = with_clean_memory_testbed(seed, WITH_ADDRESSES, |testbed, at| {
            let (test_client, device) = (&testbed.test_client, testbed.test_client.device);
            let client = &test_client.client;
            let [gone, stays] = [(); 2].map(|()| testbed.resident(at, 1, &hidden()));
            let base = reserve(testbed, at);
            let [due, work] = [(); 2].map(|()| {
                client.create_sync(at, device, SyncObject::Monitored(0), 0).unwrap().object
            });
            let operations = [map(base, gone), map(base + PAGE, stays)];
            client.update_address(at, device, &operations, Some((due, 1))).unwrap();
            if busy {
                client.wait_gpu(at, testbed.context, &[(work, 1)]).unwrap();
                client.signal_gpu(at, testbed.context, &[(work, 2)]).unwrap();
            }
            test_client.destroy_list(at, &[gone]).unwrap();
            client.signal_cpu(at, device, &[(due, 1)], 0).unwrap();
            client.wait_cpu(at, device, &[(due, 2)], CpuWait::default()).unwrap();
            client.signal_cpu(at, device, &[(work, if busy { 1 } else { 2 })], 0).unwrap();
            client.wait_cpu(at, device, &[(work, 2)], CpuWait::default()).unwrap();
            testbed.run_until_idle(at);
            test_client.destroy_list(at, &[stays]).unwrap();
            client.free_address(at, test_client.adapter, base, SPACE).unwrap();
            for object in [due, work] {
                client.destroy_sync(at, object).unwrap();
            }
            testbed.close(at);
        });
        assert_eq!(ignored(&events), [1], "seed {seed}, busy: {busy}");
    }
}

/// An update that waits for a fence ignores addresses that are freed meanwhile, also if they are
/// reserved again.
#[test]
fn an_update_that_waited_maps_nothing_in_another_reservation() {
    for seed in 1..=5 {
        let events = with_clean_memory_testbed(seed, WITH_ADDRESSES, |testbed, at| {
            let (test_client, device) = (&testbed.test_client, testbed.test_client.device);
            let client = &test_client.client;
            let allocation = testbed.resident(at, 1, &hidden());
            let base = reserve(testbed, at);
            let due = client.create_sync(at, device, SyncObject::Monitored(0), 0).unwrap().object;
            client.update_address(at, device, &[map(base, allocation)], Some((due, 1))).unwrap();
            client.free_address(at, test_client.adapter, base, SPACE).unwrap();
            testbed.run_until_idle(at);
            assert_eq!(reserve(testbed, at), base, "the same addresses");
            client.signal_cpu(at, device, &[(due, 1)], 0).unwrap();
            client.wait_cpu(at, device, &[(due, 2)], CpuWait::default()).unwrap();
            client.free_address(at, test_client.adapter, base, SPACE).unwrap();
            test_client.destroy_list(at, &[allocation]).unwrap();
            client.destroy_sync(at, due).unwrap();
            testbed.close(at);
        });
        assert_eq!(ignored(&events), [1], "seed {seed}");
    }
}

/// A second free is told from one of addresses that were never in use, for the last 256 ranges.
#[test]
fn a_range_that_was_freed_256_frees_ago_is_freed_twice() {
    let events = with_memory_testbed(1, WITH_ADDRESSES, |testbed, at| {
        let (client, adapter) = (&testbed.test_client.client, testbed.test_client.adapter);
        let ranges: Vec<u64> = (0..257).map(|_| reserve_bytes(testbed, at, RANGE)).collect();
        let free = |at: &mut Passive, base| client.free_address(at, adapter, base, RANGE);
        for base in &ranges[..256] {
            free(at, *base).unwrap();
        }
        assert_eq!(free(at, ranges[0]), Err(INVALID), "the oldest that is known");
        free(at, ranges[256]).unwrap();
        assert_eq!(free(at, ranges[0]), Err(INVALID), "forgotten");
        testbed.close(at);
    });
    assert_eq!(broken(&events), [RuleId::GPUVA_FREE_004, RuleId::GPUVA_FREE_001]);
}

fn reserve(testbed: &MemoryTestbed<'_>, at: &mut Passive) -> u64 {
    reserve_bytes(testbed, at, SPACE)
}

fn reserve_bytes(testbed: &MemoryTestbed<'_>, at: &mut Passive, bytes: u64) -> u64 {
    let queue = testbed.test_client.paging_queue(at).unwrap();
    let asked = Reserve { hPagingQueue: queue.queue, Size: bytes, ..Reserve::ZERO };
    let (base, status) = testbed.test_client.client.reserve_address(at, &asked).unwrap();
    if let PagingStatus::Pending(value) = status {
        let device = testbed.test_client.device;
        testbed.test_client.client.wait(at, device, queue.fence, value).unwrap();
    }
    base
}

/// Every flag of `D3DKMTLock2` is reserved: a lock with one is rejected.
#[test]
fn a_lock_with_a_reserved_flag_is_rejected() {
    let events = with_memory_testbed(1, SMALL, |testbed, at| {
        let (client, device) = (&testbed.test_client.client, testbed.test_client.device);
        let allocation = testbed.resident(at, 1, &anywhere());
        for bit in [0, 31] {
            assert_eq!(client.lock2(at, device, allocation, 1 << bit), Err(INVALID), "{bit}");
        }
        testbed.close(at);
    });
    assert_eq!(broken(&events), [RuleId::ALLOC_LOCK_018; 2]);
}

fn broken(events: &[Event]) -> Vec<RuleId> {
    let broken = |event: &Event| match event.kind {
        EventKind::RuleBroken { rule, .. } => Some(rule),
        _ => None,
    };
    events.iter().filter_map(broken).collect()
}
