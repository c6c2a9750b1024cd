//! Locks: the CPU and the GPU see the same bytes, at an address that stays.
#![forbid(unsafe_code)]

use abi::status::{STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_INVALID_PARAMETER};
use abi::ukm::D3DDDICB_LOCKFLAGS as LockFlags;
use flight::{Event, EventKind};
use harness::memory_testbed::{
    MemoryTestbed, PAGE, peek, with_clean_memory_testbed, with_memory_testbed, write_cpu,
};
use kernel::segment::PlacementRequirements;
use softgpu::format::{anywhere, only_in};
use softgpu::{APERTURE, LOCAL, MemoryPlan, VISIBLE};
use thunk::DestroyAllocation;
use windtunnel::HostKind;

/// The first GPU address of apertures; memory segments are below.
const APERTURES: u64 = 0x30_0000_0000;
const PAGES: u64 = 3;
const BYTES: usize = 3 * 4096;

/// Every location that a locked allocation can have.
fn homes() -> [(&'static str, PlacementRequirements); 4] {
    [
        ("an aperture", only_in(&[APERTURE])),
        ("memory that the CPU sees", only_in(&[VISIBLE, APERTURE])),
        ("memory that it does not see, and an aperture", only_in(&[LOCAL, APERTURE])),
        ("anywhere", anywhere()),
    ]
}

/// Every order, including real threads and little memory.
fn orders() -> impl Iterator<Item = HostKind> {
    (1..=5)
        .map(HostKind::deterministic)
        .chain((1..=5).map(HostKind::under_pressure))
        .chain([HostKind::Threaded; 3])
}

fn count(events: &[Event], is: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| is(&event.kind)).count()
}

#[test]
fn the_cpu_and_the_gpu_see_the_same_bytes() {
    for on in orders() {
        with_clean_memory_testbed(on, MemoryPlan::default(), |testbed, at| {
            for (home, wants) in homes() {
                let it = testbed.resident(at, PAGES, &wants);
                let copy = testbed.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
                testbed.fill(at, it, PAGES, 0x11);
                testbed.run_until_idle(at);
                let address = testbed.lock(at, it);
                assert_eq!(peek(address, BYTES), Some(vec![0x11; BYTES]), "{home}, {on:?}");
                let written: Vec<u8> = (0..=250).cycle().take(BYTES).collect();
                assert!(write_cpu(address, &written));
                // A listed allocation stays resident for the GPU, wherever the CPU sees it.
                testbed.copy(at, it, copy, PAGES);
                testbed.fill(at, it, 1, 0x22);
                testbed.run_until_idle(at);
                let other = testbed.lock(at, copy);
                assert_eq!(peek(other, BYTES).as_ref(), Some(&written), "{home}, {on:?}");
                assert_eq!(peek(address, 4096), Some(vec![0x22; 4096]), "{home}, {on:?}");
                assert_eq!(peek(address + 4096, 1).unwrap()[0], written[4096], "{home}, {on:?}");
                testbed.unlock(at, it);
                testbed.unlock(at, copy);
                testbed.test_client.destroy_list(at, &[it, copy]).unwrap();
            }
            testbed.close(at);
        });
    }
}

#[test]
fn a_never_resident_allocation_is_zero_and_keeps_cpu_writes() {
    for on in orders() {
        with_clean_memory_testbed(on, MemoryPlan::default(), |testbed, at| {
            for (home, wants) in homes() {
                let it = testbed.create(at, PAGES, &wants);
                let address = testbed.lock(at, it);
                assert_eq!(peek(address, BYTES), Some(vec![0; BYTES]), "{home}");
                assert!(write_cpu(address, &[7; BYTES]));
                testbed.unlock(at, it);
                testbed.test_client.make_resident(at, &[it]).unwrap();
                assert_eq!(testbed.held(it, 3), Some(vec![7; BYTES]), "{home}, {on:?}");
                testbed.test_client.destroy_list(at, &[it]).unwrap();
            }
            testbed.close(at);
        });
    }
}

/// ALLOC-LOCK-015.
#[test]
fn an_address_stays_while_its_allocation_moves() {
    for on in orders() {
        with_clean_memory_testbed(on, MemoryPlan::default(), |testbed, at| {
            for (home, wants) in homes() {
                let it = testbed.resident(at, PAGES, &wants);
                testbed.fill(at, it, PAGES, 1);
                testbed.run_until_idle(at);
                let address = testbed.lock(at, it);
                let mapped = testbed.address(it).unwrap() >= APERTURES;
                assert!(mapped || wants.segments.has(VISIBLE), "{home}, {on:?}");
                for turn in 2..6 {
                    assert_eq!(peek(address, BYTES), Some(vec![turn - 1; BYTES]), "{home}");
                    testbed.evict(at, it, 0);
                    testbed.run_until_idle(at);
                    // An allocation locked in memory stays there, so that no byte is lost in a
                    // move.
                    assert_eq!(testbed.address(it).is_none(), mapped, "{home}, {on:?}");
                    assert_eq!(peek(address, BYTES), Some(vec![turn - 1; BYTES]), "{home}");
                    assert!(write_cpu(address, &[turn; 4096]));
                    testbed.test_client.make_resident(at, &[it]).unwrap();
                    assert_eq!(peek(address, 4096), Some(vec![turn; 4096]), "{home}, {on:?}");
                    testbed.fill(at, it, PAGES, turn);
                    testbed.run_until_idle(at);
                }
                assert_eq!(testbed.lock(at, it), address, "a second lock answers the same");
                testbed.unlock(at, it);
                assert_eq!(peek(address, 1), Some(vec![5]), "one of two is ended");
                testbed.unlock(at, it);
                testbed.test_client.destroy_list(at, &[it]).unwrap();
            }
            testbed.close(at);
        });
    }
}

/// ALLOC-LOCK-012.
#[test]
fn a_do_not_wait_lock_fails_while_the_device_is_busy() {
    with_clean_memory_testbed(1, MemoryPlan::default(), |testbed, at| {
        let it = testbed.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
        testbed.fill(at, it, PAGES, 1);
        testbed.run_until_idle(at);
        testbed.fill(at, it, PAGES, 2);
        let (client, device) = (&testbed.test_client.client, testbed.test_client.device);
        let entire = LockFlags::LockEntire;
        let hurried = client.lock(at, device, it, entire | LockFlags::DonotWait, &[]);
        assert_eq!(hurried, Err(STATUS_GRAPHICS_ALLOCATION_BUSY));
        let address = client.lock(at, device, it, entire, &[]).unwrap();
        assert_eq!(peek(address, BYTES), Some(vec![2; BYTES]), "the other waits for the work");
        client.unlock(at, device, &[it]).unwrap();
        let idle = client.lock(at, device, it, entire | LockFlags::DonotWait, &[]);
        assert_eq!(peek(idle.unwrap(), 1), Some(vec![2]));
        client.unlock(at, device, &[it]).unwrap();
        testbed.close(at);
    });
}

/// ALLOC-LOCK-013.
#[test]
fn a_lock_without_eviction_fails_in_cpu_invisible_memory() {
    let events = with_clean_memory_testbed(1, MemoryPlan::default(), |testbed, at| {
        let hidden = testbed.resident(at, PAGES, &only_in(&[LOCAL, APERTURE]));
        let seen = testbed.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
        let (client, device) = (&testbed.test_client.client, testbed.test_client.device);
        let still = LockFlags::LockEntire | LockFlags::DonotEvict;
        let before = testbed.address(hidden);
        assert!(client.lock(at, device, hidden, still, &[]).is_err());
        assert!(before.is_some() && testbed.address(hidden) == before, "it is where it was");
        client.lock(at, device, seen, still, &[]).unwrap();
        client.unlock(at, device, &[seen]).unwrap();
        testbed.test_client.destroy_list(at, &[hidden, seen]).unwrap();
        testbed.close(at);
    });
    assert_eq!(count(&events, |kind| matches!(kind, EventKind::MemoryEvicted { .. })), 0);
}

#[test]
fn a_lock_moves_a_cpu_invisible_allocation_after_its_work() {
    let events = with_clean_memory_testbed(1, MemoryPlan::default(), |testbed, at| {
        let it = testbed.resident(at, PAGES, &only_in(&[LOCAL, APERTURE]));
        let local = testbed.address(it).unwrap();
        testbed.fill(at, it, PAGES, 1);
        testbed.run_until_idle(at);
        testbed.fill(at, it, PAGES, 9);
        // The packet is in flight, and finds its allocation at the same location.
        let address = testbed.lock(at, it);
        assert_eq!(peek(address, BYTES), Some(vec![9; BYTES]));
        let mapped = testbed.address(it).unwrap();
        assert_ne!(mapped, local, "it is resident, elsewhere");
        testbed.unlock(at, it);
        let info =
            testbed.test_client.client.memory_info(at, testbed.test_client.adapter, 0, 0).unwrap();
        assert_eq!(info.CurrentUsage, PAGES * PAGE);
        testbed.evict(at, it, 0);
        let info =
            testbed.test_client.client.memory_info(at, testbed.test_client.adapter, 0, 0).unwrap();
        assert_eq!(info.CurrentUsage, 0, "it counts no more where it counted");
        testbed.close(at);
    });
    assert_eq!(count(&events, |kind| matches!(kind, EventKind::DeviceLost { .. })), 0);
}

/// When all CPU-visible locations are in use, a lock fails and nothing is lost.
#[test]
fn a_lock_without_room_fails_and_resident_allocations_stay() {
    let plan = MemoryPlan { aperture: 4 * PAGE, ..MemoryPlan::default() };
    with_clean_memory_testbed(1, plan, |testbed, at| {
        let full = testbed.resident(at, 4, &only_in(&[APERTURE]));
        let it = testbed.resident(at, PAGES, &only_in(&[LOCAL, APERTURE]));
        testbed.fill(at, it, PAGES, 3);
        testbed.run_until_idle(at);
        assert!(testbed.test_client.client.lock2(at, testbed.test_client.device, it, 0).is_err());
        testbed.run_until_idle(at);
        assert_eq!(testbed.held(it, 3), Some(vec![3; BYTES]));
        testbed.evict(at, full, 0);
        let address = testbed.lock(at, it);
        assert_eq!(peek(address, BYTES), Some(vec![3; BYTES]));
        testbed.unlock(at, it);
        testbed.close(at);
    });
}

/// ALLOC-LOCK-004, ALLOC-LOCK-022.
#[test]
fn an_offered_allocation_is_locked_after_its_reclaim() {
    for on in orders() {
        with_memory_testbed(on, MemoryPlan::default(), |testbed, at| {
            let it = testbed.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
            testbed.fill(at, it, PAGES, 4);
            testbed.run_until_idle(at);
            let (client, device) = (&testbed.test_client.client, testbed.test_client.device);
            client.offer(at, testbed.names(&[it]), 1).unwrap();
            assert_eq!(client.lock2(at, device, it, 0), Err(STATUS_INVALID_PARAMETER));
            let queue = testbed.test_client.paging_queue(at).unwrap();
            let (results, _) = client.reclaim2(at, queue.queue, &[it]).unwrap();
            // At once, whether the fence is signalled or not.
            let address = testbed.lock(at, it);
            let kept = if results == [0] { 4 } else { 0 };
            assert_eq!(peek(address, BYTES), Some(vec![kept; BYTES]), "{on:?}");
            testbed.unlock(at, it);
            testbed.close(at);
        });
    }
}

/// The client breaks ALLOC-DESTROY-022; the address it kept is unmapped.
#[test]
fn an_address_is_unmapped_when_its_allocation_is_destroyed() {
    with_memory_testbed(1, MemoryPlan::default(), |testbed, at| {
        for (home, wants) in homes() {
            let it = testbed.resident(at, PAGES, &wants);
            let address = testbed.lock(at, it);
            assert!(write_cpu(address, &[1]), "{home}");
            let (device, list) = (testbed.test_client.device, vec![it]);
            let destroy = DestroyAllocation {
                device,
                list,
                synchronous: true,
                ..DestroyAllocation::default()
            };
            testbed.test_client.destroy_with(at, &destroy).unwrap();
            // No other allocation gets the address, either.
            let others = [(); 4].map(|()| testbed.create(at, PAGES, &anywhere()));
            let others = others.map(|number| testbed.lock(at, number));
            assert!(!others.contains(&address), "{home}");
            assert_eq!(peek(address, 1), None, "{home}");
            assert!(!write_cpu(address, &[1]), "{home}");
        }
        testbed.close(at);
    });
}

/// More addresses than are reserved: the oldest are released to the system.
#[test]
fn a_client_that_never_unlocks_does_not_use_up_the_addresses() {
    with_memory_testbed(1, MemoryPlan::default(), |testbed: &MemoryTestbed<'_>, at| {
        for _ in 0..600 {
            let it = testbed.create(at, 1, &anywhere());
            let address = testbed.lock(at, it);
            testbed.test_client.destroy_list(at, &[it]).unwrap();
            assert_eq!(peek(address, 1), None);
        }
        testbed.close(at);
    });
}
