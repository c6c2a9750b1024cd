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
        with_clean_memory_testbed(on, MemoryPlan::default(), |bay, at| {
            for (home, wants) in homes() {
                let it = bay.resident(at, PAGES, &wants);
                let copy = bay.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
                bay.fill(at, it, PAGES, 0x11);
                bay.run_until_idle(at);
                let address = bay.lock(at, it);
                assert_eq!(peek(address, BYTES), Some(vec![0x11; BYTES]), "{home}, {on:?}");
                let written: Vec<u8> = (0..=250).cycle().take(BYTES).collect();
                assert!(write_cpu(address, &written));
                // A listed allocation stays resident for the GPU, wherever the CPU sees it.
                bay.copy(at, it, copy, PAGES);
                bay.fill(at, it, 1, 0x22);
                bay.run_until_idle(at);
                let other = bay.lock(at, copy);
                assert_eq!(peek(other, BYTES).as_ref(), Some(&written), "{home}, {on:?}");
                assert_eq!(peek(address, 4096), Some(vec![0x22; 4096]), "{home}, {on:?}");
                assert_eq!(peek(address + 4096, 1).unwrap()[0], written[4096], "{home}, {on:?}");
                bay.unlock(at, it);
                bay.unlock(at, copy);
                bay.test_client.destroy_list(at, &[it, copy]).unwrap();
            }
            bay.close(at);
        });
    }
}

#[test]
fn a_never_resident_allocation_is_zero_and_keeps_cpu_writes() {
    for on in orders() {
        with_clean_memory_testbed(on, MemoryPlan::default(), |bay, at| {
            for (home, wants) in homes() {
                let it = bay.create(at, PAGES, &wants);
                let address = bay.lock(at, it);
                assert_eq!(peek(address, BYTES), Some(vec![0; BYTES]), "{home}");
                assert!(write_cpu(address, &[7; BYTES]));
                bay.unlock(at, it);
                bay.test_client.make_resident(at, &[it]).unwrap();
                assert_eq!(bay.held(it, 3), Some(vec![7; BYTES]), "{home}, {on:?}");
                bay.test_client.destroy_list(at, &[it]).unwrap();
            }
            bay.close(at);
        });
    }
}

/// ALLOC-LOCK-015.
#[test]
fn an_address_stays_while_its_allocation_moves() {
    for on in orders() {
        with_clean_memory_testbed(on, MemoryPlan::default(), |bay, at| {
            for (home, wants) in homes() {
                let it = bay.resident(at, PAGES, &wants);
                bay.fill(at, it, PAGES, 1);
                bay.run_until_idle(at);
                let address = bay.lock(at, it);
                let mapped = bay.address(it).unwrap() >= APERTURES;
                assert!(mapped || wants.segments.has(VISIBLE), "{home}, {on:?}");
                for turn in 2..6 {
                    assert_eq!(peek(address, BYTES), Some(vec![turn - 1; BYTES]), "{home}");
                    bay.evict(at, it, 0);
                    bay.run_until_idle(at);
                    // An allocation locked in memory stays there, so that no byte is lost in a
                    // move.
                    assert_eq!(bay.address(it).is_none(), mapped, "{home}, {on:?}");
                    assert_eq!(peek(address, BYTES), Some(vec![turn - 1; BYTES]), "{home}");
                    assert!(write_cpu(address, &[turn; 4096]));
                    bay.test_client.make_resident(at, &[it]).unwrap();
                    assert_eq!(peek(address, 4096), Some(vec![turn; 4096]), "{home}, {on:?}");
                    bay.fill(at, it, PAGES, turn);
                    bay.run_until_idle(at);
                }
                assert_eq!(bay.lock(at, it), address, "a second lock answers the same");
                bay.unlock(at, it);
                assert_eq!(peek(address, 1), Some(vec![5]), "one of two is ended");
                bay.unlock(at, it);
                bay.test_client.destroy_list(at, &[it]).unwrap();
            }
            bay.close(at);
        });
    }
}

/// ALLOC-LOCK-012.
#[test]
fn a_lock_in_a_hurry_is_refused_while_the_device_is_busy() {
    with_clean_memory_testbed(1, MemoryPlan::default(), |bay, at| {
        let it = bay.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
        bay.fill(at, it, PAGES, 1);
        bay.run_until_idle(at);
        bay.fill(at, it, PAGES, 2);
        let (client, device) = (&bay.test_client.client, bay.test_client.device);
        let entire = LockFlags::LockEntire;
        let hurried = client.lock(at, device, it, entire | LockFlags::DonotWait, &[]);
        assert_eq!(hurried, Err(STATUS_GRAPHICS_ALLOCATION_BUSY));
        let address = client.lock(at, device, it, entire, &[]).unwrap();
        assert_eq!(peek(address, BYTES), Some(vec![2; BYTES]), "the other waits for the work");
        client.unlock(at, device, &[it]).unwrap();
        let idle = client.lock(at, device, it, entire | LockFlags::DonotWait, &[]);
        assert_eq!(peek(idle.unwrap(), 1), Some(vec![2]));
        client.unlock(at, device, &[it]).unwrap();
        bay.close(at);
    });
}

/// ALLOC-LOCK-013.
#[test]
fn a_lock_that_may_move_nothing_is_refused_where_the_cpu_does_not_see() {
    let events = with_clean_memory_testbed(1, MemoryPlan::default(), |bay, at| {
        let hidden = bay.resident(at, PAGES, &only_in(&[LOCAL, APERTURE]));
        let seen = bay.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
        let (client, device) = (&bay.test_client.client, bay.test_client.device);
        let still = LockFlags::LockEntire | LockFlags::DonotEvict;
        let before = bay.address(hidden);
        assert!(client.lock(at, device, hidden, still, &[]).is_err());
        assert!(before.is_some() && bay.address(hidden) == before, "it is where it was");
        client.lock(at, device, seen, still, &[]).unwrap();
        client.unlock(at, device, &[seen]).unwrap();
        bay.test_client.destroy_list(at, &[hidden, seen]).unwrap();
        bay.close(at);
    });
    assert_eq!(count(&events, |kind| matches!(kind, EventKind::MemoryEvicted { .. })), 0);
}

#[test]
fn a_lock_moves_what_is_hidden_once_its_work_is_done() {
    let events = with_clean_memory_testbed(1, MemoryPlan::default(), |bay, at| {
        let it = bay.resident(at, PAGES, &only_in(&[LOCAL, APERTURE]));
        let local = bay.address(it).unwrap();
        bay.fill(at, it, PAGES, 1);
        bay.run_until_idle(at);
        bay.fill(at, it, PAGES, 9);
        // The packet is in flight, and finds its allocation at the same location.
        let address = bay.lock(at, it);
        assert_eq!(peek(address, BYTES), Some(vec![9; BYTES]));
        let mapped = bay.address(it).unwrap();
        assert_ne!(mapped, local, "it is resident, elsewhere");
        bay.unlock(at, it);
        let info = bay.test_client.client.memory_info(at, bay.test_client.adapter, 0, 0).unwrap();
        assert_eq!(info.CurrentUsage, PAGES * PAGE);
        bay.evict(at, it, 0);
        let info = bay.test_client.client.memory_info(at, bay.test_client.adapter, 0, 0).unwrap();
        assert_eq!(info.CurrentUsage, 0, "it counts no more where it counted");
        bay.close(at);
    });
    assert_eq!(count(&events, |kind| matches!(kind, EventKind::DeviceLost { .. })), 0);
}

/// When all CPU-visible locations are in use, a lock fails and nothing is lost.
#[test]
fn a_lock_without_room_is_refused_and_what_is_listed_stays_resident() {
    let plan = MemoryPlan { aperture: 4 * PAGE, ..MemoryPlan::default() };
    with_clean_memory_testbed(1, plan, |bay, at| {
        let full = bay.resident(at, 4, &only_in(&[APERTURE]));
        let it = bay.resident(at, PAGES, &only_in(&[LOCAL, APERTURE]));
        bay.fill(at, it, PAGES, 3);
        bay.run_until_idle(at);
        assert!(bay.test_client.client.lock2(at, bay.test_client.device, it, 0).is_err());
        bay.run_until_idle(at);
        assert_eq!(bay.held(it, 3), Some(vec![3; BYTES]));
        bay.evict(at, full, 0);
        let address = bay.lock(at, it);
        assert_eq!(peek(address, BYTES), Some(vec![3; BYTES]));
        bay.unlock(at, it);
        bay.close(at);
    });
}

/// ALLOC-LOCK-004, ALLOC-LOCK-022.
#[test]
fn an_offered_allocation_is_locked_after_its_reclaim() {
    for on in orders() {
        with_memory_testbed(on, MemoryPlan::default(), |bay, at| {
            let it = bay.resident(at, PAGES, &only_in(&[VISIBLE, APERTURE]));
            bay.fill(at, it, PAGES, 4);
            bay.run_until_idle(at);
            let (client, device) = (&bay.test_client.client, bay.test_client.device);
            client.offer(at, bay.names(&[it]), 1).unwrap();
            assert_eq!(client.lock2(at, device, it, 0), Err(STATUS_INVALID_PARAMETER));
            let queue = bay.test_client.paging_queue(at).unwrap();
            let (results, _) = client.reclaim2(at, queue.queue, &[it]).unwrap();
            // At once, whether the fence is signalled or not.
            let address = bay.lock(at, it);
            let kept = if results == [0] { 4 } else { 0 };
            assert_eq!(peek(address, BYTES), Some(vec![kept; BYTES]), "{on:?}");
            bay.unlock(at, it);
            bay.close(at);
        });
    }
}

/// The client breaks ALLOC-DESTROY-022; the address it kept is unmapped.
#[test]
fn an_address_is_nothing_once_its_allocation_is_destroyed() {
    with_memory_testbed(1, MemoryPlan::default(), |bay, at| {
        for (home, wants) in homes() {
            let it = bay.resident(at, PAGES, &wants);
            let address = bay.lock(at, it);
            assert!(write_cpu(address, &[1]), "{home}");
            let (device, list) = (bay.test_client.device, vec![it]);
            let destroy = DestroyAllocation {
                device,
                list,
                synchronous: true,
                ..DestroyAllocation::default()
            };
            bay.test_client.destroy_with(at, &destroy).unwrap();
            // No other allocation gets the address, either.
            let others = [(); 4].map(|()| bay.create(at, PAGES, &anywhere()));
            let others = others.map(|number| bay.lock(at, number));
            assert!(!others.contains(&address), "{home}");
            assert_eq!(peek(address, 1), None, "{home}");
            assert!(!write_cpu(address, &[1]), "{home}");
        }
        bay.close(at);
    });
}

/// More addresses than are reserved: the oldest are released to the system.
#[test]
fn a_client_that_never_unlocks_does_not_use_up_the_addresses() {
    with_memory_testbed(1, MemoryPlan::default(), |bay: &MemoryTestbed<'_>, at| {
        for _ in 0..600 {
            let it = bay.create(at, 1, &anywhere());
            let address = bay.lock(at, it);
            bay.test_client.destroy_list(at, &[it]).unwrap();
            assert_eq!(peek(address, 1), None);
        }
        bay.close(at);
    });
}
