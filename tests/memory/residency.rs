//! Residency: allocations made resident, evicted, offered and reclaimed, byte by byte.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as CreateFlags;
use abi::ukm::{
    D3DDDI_EVICT_FLAGS as EvictFlags, D3DDDI_RECLAIM_RESULT_DISCARDED as DISCARDED,
    D3DDDI_RECLAIM_RESULT_OK as UNCHANGED,
};
use flight::{Event, EventKind};
use harness::memory_client::{hidden, pages_of_each};
use harness::memory_testbed::{
    MemoryTestbed, PAGE, peek, with_clean_memory_testbed, with_memory_testbed, write_cpu,
};
use softgpu::format::{anywhere, describe_in, only_in};
use softgpu::{APERTURE, MemoryPlan, VISIBLE};
use thunk::{CreateAllocation, PagingStatus};
use windtunnel::HostKind;

/// Sixteen pages of each kind.
const SMALL: MemoryPlan = pages_of_each(16);

fn orders() -> impl Iterator<Item = HostKind> {
    (1..=5).map(HostKind::deterministic).chain([HostKind::Threaded; 3])
}

fn place(events: &[Event], is: impl Fn(&EventKind) -> bool) -> Option<usize> {
    events.iter().position(|event| is(&event.kind))
}

/// RESID-OFFER-009.
#[test]
fn a_discarded_allocation_is_reclaimed_as_zeroes_and_reported() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            // The page between them is the context's save area.
            for (wants, rest) in [(hidden(), 8), (only_in(&[APERTURE]), 12)] {
                let list = [(); 2].map(|()| testbed.resident(at, 4, &wants));
                for it in list {
                    testbed.fill(at, it, 4, 0x77);
                }
                testbed.run_until_idle(at);
                let client = &testbed.test_client.client;
                client.offer(at, testbed.names(&list), 1).unwrap();
                let other = testbed.resident(at, rest, &wants);
                let queue = testbed.test_client.paging_queue(at).unwrap();
                let (results, _) = client.reclaim2(at, queue.queue, &list).unwrap();
                assert_eq!(results, [DISCARDED; 2], "{on:?}");
                testbed.test_client.destroy_list(at, &[other]).unwrap();
                testbed.run_until_idle(at);
                testbed.test_client.make_resident(at, &list).unwrap();
                for it in list {
                    assert_eq!(testbed.held(it, 4), Some(vec![0; 4 * 4096]), "{on:?}");
                }
                testbed.test_client.destroy_list(at, &list).unwrap();
                testbed.run_until_idle(at);
            }
            testbed.close(at);
        });
    }
}

/// RESID-OFFER-004.
#[test]
fn an_offer_behind_work_counts_when_the_work_is_done() {
    let events = with_clean_memory_testbed(1, SMALL, |testbed, at| {
        let it = testbed.resident(at, 12, &hidden());
        testbed.fill(at, it, 12, 1);
        testbed.run_until_idle(at);
        testbed.fill(at, it, 12, 2);
        let client = &testbed.test_client.client;
        client.offer(at, testbed.names(&[it]), 1).unwrap();
        // It is not available to others yet: the work writes to it.
        let other = testbed.create(at, 12, &hidden());
        let queue = testbed.test_client.paging_queue(at).unwrap();
        let made = client.make_resident(at, queue.queue, &[other], 0).unwrap();
        assert!(matches!(made, PagingStatus::NoMemory(_)), "{made:?}");
        testbed.run_until_idle(at);
        testbed.test_client.make_resident(at, &[other]).unwrap();
        assert_eq!(client.reclaim2(at, queue.queue, &[it]).unwrap().0, [DISCARDED]);
        testbed.close(at);
    });
    let ready = place(&events, |kind| matches!(kind, EventKind::OfferReady {})).unwrap();
    let thrown = place(&events, |kind| matches!(kind, EventKind::MemoryEvicted { .. })).unwrap();
    assert!(ready < thrown);
}

/// RESID-MAKE-002.
#[test]
fn as_many_evicts_as_requests_end_residency() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.resident(at, 4, &hidden());
            testbed.test_client.make_resident(at, &[it, it]).unwrap();
            testbed.fill(at, it, 4, 5);
            for _ in 0..2 {
                testbed.evict(at, it, 0);
                testbed.run_until_idle(at);
                assert_eq!(testbed.held(it, 4), Some(vec![5; 4 * 4096]), "{on:?}");
            }
            testbed.evict(at, it, 0);
            testbed.run_until_idle(at);
            assert_eq!(testbed.address(it), None, "{on:?}");
            testbed.test_client.make_resident(at, &[it]).unwrap();
            assert_eq!(testbed.held(it, 4), Some(vec![5; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}

/// RESID-EVICT-004, RESID-EVICT-005: a client with a wrong claim gets the old bytes.
#[test]
fn an_unwritten_allocation_is_unchanged() {
    for on in orders() {
        let events = with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let it = testbed.resident(at, 4, &hidden());
            testbed.fill(at, it, 4, 6);
            testbed.evict(at, it, 0);
            testbed.run_until_idle(at);
            testbed.test_client.make_resident(at, &[it, it]).unwrap();
            testbed.fill(at, it, 4, 7);
            testbed.run_until_idle(at);
            testbed.evict(at, it, EvictFlags::NotWrittenTo);
            testbed.evict(at, it, 0);
            testbed.run_until_idle(at);
            testbed.test_client.make_resident(at, &[it]).unwrap();
            assert_eq!(testbed.held(it, 4), Some(vec![6; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
        let discards = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::MemoryEvicted { discard: true, .. }));
        assert_eq!(discards.count(), 1, "{on:?}");
    }
}

#[test]
fn an_allocation_stays_resident_until_both_devices_evict_it() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let private = vec![describe_in(4 * PAGE, PAGE, &hidden())];
            let create = CreateAllocation::new(testbed.test_client.device, private).with_resource();
            let flags = create.flags | CreateFlags::CreateShared;
            let made =
                testbed.test_client.create_with(at, &CreateAllocation { flags, ..create }).unwrap();
            let other = testbed.another_client(at);
            let opened =
                other.test_client.client.open_resource(at, other.test_client.device, made.global);
            let opened = opened.unwrap().allocations;
            let (mine, theirs) = (made.allocations[0], opened[0]);
            testbed.test_client.make_resident(at, &[mine]).unwrap();
            other.test_client.make_resident(at, &[theirs]).unwrap();
            testbed.fill(at, mine, 4, 8);
            testbed.run_until_idle(at);
            testbed.evict(at, mine, 0);
            testbed.run_until_idle(at);
            assert_eq!(other.held(theirs, 4), Some(vec![8; 4 * 4096]), "{on:?}");
            other.fill(at, theirs, 2, 9);
            other.evict(at, theirs, 0);
            testbed.run_until_idle(at);
            assert_eq!(other.address(theirs), None, "{on:?}");
            testbed.test_client.make_resident(at, &[mine]).unwrap();
            let held = testbed.held(mine, 4).unwrap();
            assert_eq!((held[0], held[2 * 4096]), (9, 8), "{on:?}");
            other.close(at);
            assert_eq!(testbed.held(mine, 1), Some(vec![9; 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}

/// The GPU accesses a non-resident allocation: the device is lost, and its memory is free for
/// others.
#[test]
fn a_lost_device_frees_its_memory_when_it_ends() {
    with_memory_testbed(1, SMALL, |testbed, at| {
        let mine = testbed.resident(at, 12, &hidden());
        let away = testbed.create(at, 1, &hidden());
        testbed.fill(at, away, 1, 1);
        testbed.run_until_idle(at);
        let refused = testbed.test_client.client.evict(at, testbed.test_client.device, &[mine], 0);
        assert!(refused.is_err(), "the device is lost");
        testbed.close(at);
        testbed.run_until_idle(at);
        let other = testbed.another_client(at);
        let theirs = other.resident(at, 12, &hidden());
        other.fill(at, theirs, 12, 3);
        other.run_until_idle(at);
        assert_eq!(other.held(theirs, 12), Some(vec![3; 12 * 4096]));
        other.close(at);
    });
}

/// One of everything: resident, locked, offered, evicted, mapped.
fn fill_up(testbed: &MemoryTestbed<'_>, at: &mut flight::Passive) -> usize {
    testbed.resident(at, 2, &hidden());
    testbed.resident(at, 2, &only_in(&[APERTURE]));
    let offered = testbed.resident(at, 2, &anywhere());
    testbed.test_client.client.offer(at, testbed.names(&[offered]), 1).unwrap();
    let away = testbed.resident(at, 2, &anywhere());
    testbed.fill(at, away, 2, 1);
    testbed.evict(at, away, 0);
    let locked = testbed.resident(at, 2, &only_in(&[VISIBLE, APERTURE]));
    let fresh = testbed.create(at, 2, &anywhere());
    testbed.lock(at, fresh);
    testbed.lock(at, locked)
}

/// `with_memory_testbed` counts the machine's pages, and its callee checks the live objects.
#[test]
fn an_adapter_is_removed_with_all_resident_allocations() {
    for on in orders() {
        with_memory_testbed(on, SMALL, |testbed, at| {
            let before = testbed.ram.allocated_bytes();
            let address = fill_up(testbed, at);
            assert!(write_cpu(address, &[1]) && testbed.ram.allocated_bytes() > before, "{on:?}");
            testbed.testbed.kernel.remove_adapter(at, testbed.testbed.adapter);
            // From here on the address is the system's, which may reuse it.
            testbed.test_client.client.kill(at);
        });
    }
}

#[test]
fn a_process_ends_with_all_its_resident_allocations() {
    for on in orders() {
        with_memory_testbed(on, SMALL, |testbed, at| {
            let address = fill_up(testbed, at);
            testbed.test_client.client.kill(at);
            testbed.run_until_idle(at);
            assert_eq!(peek(address, 1), None, "{on:?}");
            let other = testbed.another_client(at);
            let all = [hidden(), only_in(&[APERTURE])]
                .map(|requirements| other.resident(at, 15, &requirements));
            assert!(
                all.iter().all(|number| other.address(*number).is_some()),
                "all of it is free again"
            );
            other.close(at);
        });
    }
}

/// An offer that no other allocation used is reclaimed at once: the allocation is where it was, and
/// there is nothing to wait for.
#[test]
fn an_offer_that_was_not_used_is_reclaimed_at_once() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let allocation = testbed.resident(at, 4, &hidden());
            testbed.fill(at, allocation, 4, 8);
            testbed.run_until_idle(at);
            let client = &testbed.test_client.client;
            client.offer(at, testbed.names(&[allocation]), 1).unwrap();
            testbed.run_until_idle(at);
            let queue = testbed.test_client.paging_queue(at).unwrap();
            let (results, value) = client.reclaim2(at, queue.queue, &[allocation]).unwrap();
            assert_eq!((results, value), (vec![UNCHANGED], 0), "{on:?}");
            assert_eq!(testbed.held(allocation, 4), Some(vec![8; 4 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}
