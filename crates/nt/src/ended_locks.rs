//! The addresses of locks that have ended: what a client accesses too late.
//!
//! Unlocked addresses may be mapped again, so the latest lock at an address counts. The handler of
//! a fault reads the table.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The number of locks that are remembered.
const REMEMBERED: usize = 256;

#[derive(Default)]
struct Record {
    start: AtomicU64,
    bytes: AtomicU64,
    view: AtomicU32,
    destroyed: AtomicU32,
}

static RECORDS: [Record; REMEMBERED] = [const {
    Record {
        start: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        view: AtomicU32::new(0),
        destroyed: AtomicU32::new(0),
    }
}; REMEMBERED];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A lock that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedLock {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// The number of the view that was locked.
    pub(crate) view: u32,
    /// Whether a destroy ended it, not an unlock.
    pub(crate) destroyed: bool,
}

/// Remembers a lock that ends.
pub(crate) fn remember(lock: EndedLock) {
    let record = &RECORDS[NEXT.fetch_add(1, Ordering::Relaxed) % REMEMBERED];
    record.start.store(0, Ordering::Relaxed);
    record.bytes.store(lock.bytes, Ordering::Relaxed);
    record.view.store(lock.view, Ordering::Relaxed);
    record.destroyed.store(lock.destroyed.into(), Ordering::Relaxed);
    record.start.store(lock.start, Ordering::Release);
}

/// The latest lock that has ended at an address.
pub(crate) fn find(address: u64) -> Option<EndedLock> {
    let next = NEXT.load(Ordering::Relaxed);
    let records = (0..REMEMBERED).map(|back| &RECORDS[next.wrapping_sub(back + 1) % REMEMBERED]);
    let locks = records.map(|record| EndedLock {
        start: record.start.load(Ordering::Acquire),
        bytes: record.bytes.load(Ordering::Relaxed),
        view: record.view.load(Ordering::Relaxed),
        destroyed: record.destroyed.load(Ordering::Relaxed) != 0,
    });
    let mut locks = locks.filter(|lock| lock.start != 0);
    locks.find(|lock| address.checked_sub(lock.start).is_some_and(|offset| offset < lock.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lock_at_an_address_counts() {
        let lock = |view| EndedLock { start: 0x1000, bytes: 0x100, view, destroyed: view == 2 };
        assert_eq!(find(0x1000), None);
        remember(lock(1));
        remember(lock(2));
        assert_eq!((find(0x1000), find(0x10ff)), (Some(lock(2)), Some(lock(2))));
        assert_eq!((find(0xfff), find(0x1100)), (None, None));
        for view in 3..1000 {
            remember(EndedLock { start: 0x8000, ..lock(view) });
        }
        assert_eq!(find(0x1000), None);
    }
}
