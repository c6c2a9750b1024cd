//! Requests for memory that fail, or that come too late: they change nothing.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use harness::memory_client::{hidden, pages_of_each};
use harness::memory_testbed::with_clean_memory_testbed;
use softgpu::MemoryPlan;
use thunk::PagingStatus;
use windtunnel::HostKind;

/// Sixteen pages of each kind.
const SMALL: MemoryPlan = pages_of_each(16);

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
            assert!(matches!(made, PagingStatus::NoMemory(_)), "{on:?}: {made:?}");
            testbed.run_until_idle(at);
            assert_eq!([saved, fresh].map(|it| testbed.address(it)), [None; 2], "{on:?}");
            testbed.test_client.make_resident(at, &[saved, fresh]).unwrap();
            assert_eq!(testbed.held(saved, 4), Some(vec![5; 4 * 4096]), "{on:?}");
            assert_eq!(testbed.held(fresh, 2), Some(vec![0; 2 * 4096]), "{on:?}");
            testbed.close(at);
        });
    }
}
