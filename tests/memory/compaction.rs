//! Compaction on request: afterwards free memory is contiguous, and every byte is right.
#![forbid(unsafe_code)]

use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use flight::{Event, EventKind, Passive};
use harness::flown;
use harness::memory_client::hidden;
use harness::memory_testbed::{MemoryTestbed, PAGE, peek, with_clean_memory_testbed};
use kernel::SegmentSpace;
use softgpu::format::only_in;
use softgpu::{APERTURE, LOCAL, MemoryPlan};
use windtunnel::{HostKind, Outcome};

const SMALL: MemoryPlan = MemoryPlan {
    visible: 16 * PAGE,
    local: 64 * PAGE,
    aperture: 64 * PAGE,
    paging_buffer: 256,
    paging_node: 1,
    mmu: None,
};

fn orders() -> impl Iterator<Item = HostKind> {
    (1..=5).map(HostKind::deterministic).chain([HostKind::Threaded; 3])
}

fn local(testbed: &MemoryTestbed<'_>) -> SegmentSpace {
    let rooms = testbed.testbed.kernel.segment_space(testbed.testbed.adapter);
    *rooms.iter().find(|segment_space| segment_space.segment == LOCAL).expect("it has local memory")
}

/// Creates allocations of these sizes side by side, each with its own bytes, then destroys those
/// with an odd index. Returns the others, with their size and value.
fn holes(testbed: &MemoryTestbed<'_>, at: &mut Passive, sizes: &[u64]) -> Vec<(u32, u64, u8)> {
    let make = |(value, pages): (u8, &u64)| {
        let it = testbed.resident(at, *pages, &hidden());
        testbed.fill(at, it, *pages, value);
        (it, *pages, value)
    };
    let all: Vec<(u32, u64, u8)> = (1..).zip(sizes).map(make).collect();
    testbed.run_until_idle(at);
    let odd: Vec<u32> = all.iter().skip(1).step_by(2).map(|entry| entry.0).collect();
    testbed.test_client.destroy_list(at, &odd).expect("they end");
    testbed.run_until_idle(at);
    all.into_iter().step_by(2).collect()
}

/// These may be moved out, but are not.
fn let_go(testbed: &MemoryTestbed<'_>, at: &mut Passive, held: &[(u32, u64, u8)]) {
    for (it, ..) in held {
        testbed.evict(at, *it, EvictFlags::EvictOnlyIfNecessary);
    }
}

fn compare(testbed: &MemoryTestbed<'_>, at: &mut Passive, held: &[(u32, u64, u8)]) {
    for (it, pages, value) in held {
        testbed.test_client.make_resident(at, &[*it]).expect("room");
        let bytes = usize::try_from(pages * PAGE).expect("it is small");
        assert_eq!(testbed.held(*it, bytes / 4096), Some(vec![*value; bytes]));
    }
}

fn transfers(events: &[Event]) -> usize {
    let is = |event: &&Event| match &event.kind {
        EventKind::PagingDone { operation, .. } => operation == "transfer",
        _ => false,
    };
    events.iter().filter(is).count()
}

#[test]
fn free_memory_is_contiguous_and_bytes_are_right() {
    for on in orders() {
        // Holes that the next one fits into, and holes that are too small for it.
        for sizes in [[4, 5, 4, 6, 4, 7, 3, 5], [2, 1, 6, 1, 7, 2, 9, 1]] {
            let events = with_clean_memory_testbed(on, SMALL, |testbed, at| {
                let held = holes(testbed, at, &sizes);
                let before = local(testbed);
                let_go(testbed, at, &held);
                assert!(testbed.testbed.kernel.compact(at, testbed.testbed.adapter) > 0, "{on:?}");
                let after = local(testbed);
                assert_eq!(after.free, before.free);
                assert!(after.largest > before.largest, "{on:?}: {before:?}, {after:?}");
                compare(testbed, at, &held);
                let_go(testbed, at, &held);
                let again = testbed.testbed.kernel.compact(at, testbed.testbed.adapter);
                assert_eq!(again, 0, "there is nothing left to do");
                testbed.close(at);
            });
            assert!(transfers(&events) >= 2, "{on:?}");
        }
    }
}

#[test]
fn resident_locked_and_offered_allocations_are_not_moved() {
    with_clean_memory_testbed(1, SMALL, |testbed, at| {
        let held = holes(testbed, at, &[4, 5, 4, 6, 4, 7, 3, 5]);
        let places: Vec<_> = held.iter().map(|entry| testbed.address(entry.0)).collect();
        assert_eq!(
            testbed.testbed.kernel.compact(at, testbed.testbed.adapter),
            0,
            "all are listed"
        );
        let mapped = testbed.resident(at, 2, &only_in(&[LOCAL, APERTURE]));
        let address = testbed.lock(at, mapped);
        let seen = peek(address, 4096);
        let_go(testbed, at, &held[2..]);
        let offered = [held[2].0];
        testbed.test_client.client.offer(at, testbed.names(&offered), 1).expect("an offer");
        testbed.testbed.kernel.compact(at, testbed.testbed.adapter);
        let now: Vec<_> = held.iter().map(|entry| testbed.address(entry.0)).collect();
        assert_eq!(places[..3], now[..3]);
        assert_ne!(places[3], now[3], "the one that may is moved");
        assert_eq!(peek(address, 4096), seen);
        testbed.unlock(at, mapped);
        testbed.close(at);
    });
}

#[test]
fn compaction_waits_for_work_that_may_use_the_allocation() {
    for on in orders() {
        with_clean_memory_testbed(on, SMALL, |testbed, at| {
            let held = holes(testbed, at, &[4, 5, 4, 6, 4, 7, 3, 5]);
            for (it, pages, value) in &held {
                testbed.fill(at, *it, *pages, value + 100);
            }
            let_go(testbed, at, &held);
            testbed.testbed.kernel.compact(at, testbed.testbed.adapter);
            let held = held.iter().map(|(it, pages, value)| (*it, *pages, value + 100));
            compare(testbed, at, &held.collect::<Vec<_>>());
            testbed.close(at);
        });
    }
}

/// With an observer that compares every moved byte.
#[test]
fn a_flight_is_compacted_and_clean() {
    for seed in 1..=10 {
        let flown = flown("softgpu-memory", "residency-compaction", HostKind::deterministic(seed));
        assert_eq!(flown.outcome, Outcome::Clean, "{:?}", flown.findings);
        let moved = |event: &&Event| match &event.kind {
            EventKind::MemoryEvicted { why, .. } => why == "memory is compacted",
            _ => false,
        };
        assert_eq!(flown.events.iter().filter(moved).count(), 3, "the first is where it was");
    }
}
