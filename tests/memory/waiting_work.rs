//! Memory that queued work uses behind a wait for a fence: what has to wait for the fence is the
//! waiting client's own, and the adapter's paging goes on for other processes.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{EventKind, Passive};
use harness::memory_client::{hidden, pages_of_each};
use harness::memory_testbed::{MemoryTestbed, peek, with_clean_memory_testbed};
use softgpu::MemoryPlan;
use softgpu::format::only_in;
use softgpu::{APERTURE, LOCAL};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thunk::{PagingStatus, SyncObject};
use windtunnel::HostKind;

/// Sixteen pages of each kind. One page is the context's save area.
const SMALL: MemoryPlan = pages_of_each(16);

fn orders() -> impl Iterator<Item = HostKind> {
    (1..=5).map(HostKind::deterministic).chain([HostKind::Threaded; 3])
}

/// Queues a wait for a fence that nothing signals yet, and behind the wait a packet that fills the
/// allocation. Returns the fence.
fn fill_behind_fence(testbed: &MemoryTestbed<'_>, at: &mut Passive, it: u32, value: u8) -> u32 {
    let (client, device) = (&testbed.test_client.client, testbed.test_client.device);
    let fence = client.create_sync(at, device, SyncObject::Monitored(0), 0).unwrap().object;
    client.wait_gpu(at, testbed.context, &[(fence, 1)]).unwrap();
    testbed.fill(at, it, 4, value);
    fence
}

/// Signals the fence.
fn signal(testbed: &MemoryTestbed<'_>, at: &mut Passive, fence: u32) {
    let (client, device) = (&testbed.test_client.client, testbed.test_client.device);
    client.signal_cpu(at, device, &[(fence, 1)], 0).unwrap();
}

#[test]
fn an_eviction_behind_a_waiting_packet_does_not_hold_the_paging_of_another_process() {
    for on in orders() {
        let events = with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.resident(at, 4, &hidden());
            let fence = fill_behind_fence(testbed, at, it, 7);
            testbed.evict(at, it, 0);
            testbed.run_until_idle(at);
            let other = testbed.another_client(at);
            // Page-ins, a move for a lock, an eviction and a destruction.
            let list = [(); 2].map(|()| other.resident(at, 4, &hidden()));
            for page in list {
                other.fill(at, page, 4, 3);
            }
            other.run_until_idle(at);
            let movable = only_in(&[LOCAL, APERTURE]);
            let movable = other.resident(at, 1, &movable);
            assert!(peek(other.lock(at, movable), 4096).is_some(), "{on:?}");
            other.unlock(at, movable);
            other.evict(at, list[0], 0);
            other.run_until_idle(at);
            assert_eq!(other.address(list[0]), None, "{on:?}");
            other.test_client.destroy_list(at, &list).unwrap();
            other.close(at);
            // The waiting packet uses the memory all the same.
            assert!(testbed.address(it).is_some(), "{on:?}");
            signal(testbed, at, fence);
            testbed.run_until_idle(at);
            assert_eq!(testbed.address(it), None, "{on:?}: it is evicted when the work is done");
            testbed.test_client.make_resident(at, &[it]).unwrap();
            assert_eq!(testbed.held(it, 4), Some(vec![7; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
        let waiting =
            |kind: &EventKind| matches!(kind, EventKind::PagingPlanned { waits, .. } if *waits > 0);
        assert!(!events.iter().any(|event| waiting(&event.kind)), "{on:?}");
    }
}

#[test]
fn an_eviction_that_waits_is_cancelled_by_a_residency_request() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.resident(at, 4, &hidden());
            let fence = fill_behind_fence(testbed, at, it, 7);
            testbed.evict(at, it, 0);
            testbed.test_client.make_resident(at, &[it]).unwrap();
            signal(testbed, at, fence);
            testbed.run_until_idle(at);
            assert_eq!(testbed.held(it, 4), Some(vec![7; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}

#[test]
fn memory_of_waiting_work_is_given_to_no_one() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.resident(at, 8, &hidden());
            let fence = fill_behind_fence(testbed, at, it, 7);
            testbed.evict(at, it, 0);
            let other = testbed.another_client(at);
            let large = other.create(at, 8, &hidden());
            let queue = other.test_client.paging_queue(at).unwrap();
            let client = &other.test_client.client;
            // There is no room, and nothing of the other process waits for it.
            let made = client.make_resident(at, queue.queue, &[large], 0).unwrap();
            assert!(matches!(made, PagingStatus::NoMemory(_)), "{on:?}: {made:?}");
            let small = other.resident(at, 4, &hidden());
            other.test_client.destroy_list(at, &[small]).unwrap();
            // Nor to the waiting process itself: its paging work would hold that of the others.
            let own = testbed.create(at, 8, &hidden());
            let own_queue = testbed.test_client.paging_queue(at).unwrap();
            let made = testbed.test_client.client.make_resident(at, own_queue.queue, &[own], 0);
            assert!(matches!(made, Ok(PagingStatus::NoMemory(_))), "{on:?}: {made:?}");
            signal(testbed, at, fence);
            testbed.run_until_idle(at);
            other.test_client.make_resident(at, &[large]).unwrap();
            other.close(at);
            testbed.test_client.make_resident(at, &[it]).unwrap();
            assert_eq!(testbed.held(it, 4), Some(vec![7; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}

#[test]
fn a_lock_that_moves_memory_of_waiting_work_waits_alone() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.resident(at, 4, &only_in(&[LOCAL, APERTURE]));
            let fence = fill_behind_fence(testbed, at, it, 7);
            let (client, device) = (testbed.test_client.client.clone(), testbed.test_client.device);
            let is_locked = Arc::new(AtomicBool::new(false));
            let locked = is_locked.clone();
            testbed.testbed.host.spawn("locks", move |at| {
                let address = client.lock2(at, device, it, 0).unwrap();
                locked.store(true, Ordering::Relaxed);
                assert_eq!(peek(address, 4 * 4096), Some(vec![7; 4 * 4096]));
                client.unlock2(at, device, it).unwrap();
            });
            let other = testbed.another_client(at);
            let resident = other.resident(at, 4, &hidden());
            other.evict(at, resident, 0);
            other.close(at);
            assert!(!is_locked.load(Ordering::Relaxed), "{on:?}");
            signal(testbed, at, fence);
            testbed.run_until_idle(at);
            assert!(is_locked.load(Ordering::Relaxed), "{on:?}");
            testbed.close(at);
        });
    }
}

/// The kernel signals the fence of a paging queue itself.
#[test]
fn an_eviction_behind_a_packet_that_waits_for_its_page_in_is_planned_at_once() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.create(at, 12, &hidden());
            let (client, queue) =
                (&testbed.test_client.client, testbed.test_client.paging_queue(at).unwrap());
            let made = client.make_resident(at, queue.queue, &[it], 0).unwrap();
            let PagingStatus::Pending(value) = made else { panic!("{on:?}: {made:?}") };
            client.wait_gpu(at, testbed.context, &[(queue.fence, value)]).unwrap();
            testbed.fill(at, it, 4, 7);
            testbed.evict(at, it, 0);
            // Its memory is the room for another.
            let other = testbed.resident(at, 12, &hidden());
            testbed.test_client.destroy_list(at, &[other]).unwrap();
            testbed.test_client.make_resident(at, &[it]).unwrap();
            assert_eq!(testbed.held(it, 4), Some(vec![7; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}
