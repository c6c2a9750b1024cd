//! The order in which a driver acquires its locks. Two locks that are acquired in both orders can
//! deadlock two threads; the orders are remembered, so the deadlock itself is not needed.
//!
//! Spin locks are compared with spin locks, mutexes and resources with each other. A third lock that
//! is held in both orders keeps the two apart: that is no inversion. Nor do threads that share a
//! resource wait for each other.
//!
//! A lock is known by its address. It is forgotten when its memory is freed or when it is
//! initialised, because another lock may be there then.

use crate::held_locks::HeldLock;
use crate::image::ThreadFrames;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of pairs, and of ways to acquire a pair, that are remembered.
const MAX_PAIRS: usize = 4096;
const MAX_WAYS: usize = 8;

/// The orders that were seen.
#[derive(Default)]
pub(crate) struct LockOrder(Mutex<Orders>);

#[derive(Default)]
struct Orders {
    pairs: BTreeMap<(usize, usize), Vec<Acquisition>>,
    /// How many acquisitions were not remembered, because there was no room.
    left_out: u64,
}

/// Two locks were acquired, one while the other was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acquisition {
    /// Where the first lock was acquired: a return address, or zero.
    pub(crate) first: u64,
    /// Where the second lock was acquired.
    pub(crate) second: u64,
    /// The thread, with its frames when it acquired the second lock.
    pub(crate) thread: ThreadFrames,
    /// Whether the first and the second lock were shared.
    shared: (bool, bool),
    /// The other locks that were held.
    others: Vec<usize>,
}

impl Acquisition {
    /// Whether this acquisition and one in the opposite order can wait for each other.
    fn conflicts(&self, shared: (bool, bool), others: &[usize]) -> bool {
        let first = !(self.shared.0 && shared.1);
        let second = !(self.shared.1 && shared.0);
        first && second && !self.others.iter().any(|lock| others.contains(lock))
    }
}

impl LockOrder {
    /// A lock is acquired while others are held. Returns the acquisition in the opposite order, and
    /// the lock that is held now. `frames` returns those of this thread.
    pub(crate) fn acquire(
        &self,
        held: &[HeldLock],
        new: HeldLock,
        frames: impl Fn() -> ThreadFrames,
    ) -> Option<(Acquisition, HeldLock)> {
        let mut orders = self.orders();
        let mut inverted = None;
        let comparable = |one: &&HeldLock| {
            one.address != new.address && one.kind.is_spin_lock() == new.kind.is_spin_lock()
        };
        for one in held.iter().filter(comparable) {
            let others: Vec<usize> = held
                .iter()
                .map(|lock| lock.address)
                .filter(|lock| ![one.address, new.address].contains(lock))
                .collect();
            let shared = (one.shared, new.shared);
            let opposite = orders
                .pairs
                .get(&(new.address, one.address))
                .and_then(|ways| ways.iter().find(|way| way.conflicts(shared, &others)));
            if inverted.is_none() {
                inverted = opposite.map(|way| (way.clone(), *one));
            }
            let pair = (one.address, new.address);
            let ways = orders.pairs.get(&pair).map_or(&[][..], Vec::as_slice);
            if ways.iter().any(|way| way.others == others && way.shared == shared) {
                continue;
            }
            let is_full = if ways.is_empty() {
                orders.pairs.len() >= MAX_PAIRS
            } else {
                ways.len() >= MAX_WAYS
            };
            if is_full {
                orders.left_out += 1;
                continue;
            }
            orders.pairs.entry(pair).or_default().push(Acquisition {
                first: one.caller,
                second: new.caller,
                thread: frames(),
                shared,
                others,
            });
        }
        inverted
    }

    /// Forgets the locks in this memory.
    pub(crate) fn forget(&self, memory: &Range<usize>) {
        let pairs = &mut self.orders().pairs;
        if !pairs.is_empty() {
            pairs.retain(|(one, other), _| !memory.contains(one) && !memory.contains(other));
        }
    }

    /// How many acquisitions of a lock under another one were not remembered since the last call.
    pub(crate) fn take_left_out(&self) -> u64 {
        std::mem::take(&mut self.orders().left_out)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_locks::LockKind;

    fn lock(address: usize) -> HeldLock {
        let caller = address as u64 * 10;
        HeldLock { address, kind: LockKind::Spin, shared: false, caller }
    }

    fn resource(address: usize, shared: bool) -> HeldLock {
        HeldLock { kind: LockKind::Resource, shared, ..lock(address) }
    }

    fn thread(number: u32) -> impl Fn() -> ThreadFrames {
        move || ThreadFrames { thread: number, frames: vec![number.into()] }
    }

    #[test]
    fn both_orders_are_an_inversion() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[lock(1)], lock(2), thread(3)), None);
        assert_eq!(order.acquire(&[lock(1)], lock(2), thread(4)), None);
        assert_eq!(order.acquire(&[lock(2)], lock(3), thread(4)), None);
        let (earlier, held) = order.acquire(&[lock(2)], lock(1), thread(5)).unwrap();
        assert_eq!((earlier.first, earlier.second, held.address), (10, 20, 2));
        assert_eq!(earlier.thread, thread(3)(), "the first thread that did it");
    }

    #[test]
    fn a_common_third_lock_keeps_two_orders_apart() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[lock(9), lock(1)], lock(2), thread(1)), None);
        assert_eq!(order.acquire(&[lock(9), lock(2)], lock(1), thread(1)), None);
        assert!(order.acquire(&[lock(2)], lock(1), thread(1)).is_some(), "without the third one");
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[resource(9, false), lock(1)], lock(2), thread(1)), None);
        assert_eq!(order.acquire(&[resource(9, false), lock(2)], lock(1), thread(1)), None);
    }

    #[test]
    fn threads_that_share_do_not_wait_for_each_other() {
        let acquire = |first: [bool; 2], second: [bool; 2]| {
            let order = LockOrder::default();
            order.acquire(&[resource(1, first[0])], resource(2, first[1]), thread(1));
            let again = resource(1, second[1]);
            order.acquire(&[resource(2, second[0])], again, thread(2)).is_some()
        };
        assert!(acquire([false, false], [false, false]));
        assert!(acquire([true, false], [true, false]), "each waits for exclusive access");
        assert!(!acquire([true, true], [true, true]));
        assert!(!acquire([true, false], [false, true]), "the first resource is shared by both");
    }

    #[test]
    fn a_spin_lock_is_not_compared_with_a_resource() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[resource(1, false)], lock(2), thread(1)), None);
        assert_eq!(order.acquire(&[lock(2)], resource(1, false), thread(1)), None);
    }

    #[test]
    fn a_lock_whose_memory_is_freed_is_forgotten() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[lock(1)], lock(2), thread(1)), None);
        order.forget(&(2..3));
        assert_eq!(order.acquire(&[lock(2)], lock(1), thread(1)), None);
    }

    #[test]
    fn what_is_not_remembered_is_counted() {
        let order = LockOrder::default();
        for address in 1..=MAX_PAIRS + 2 {
            assert_eq!(order.acquire(&[lock(0)], lock(address), thread(1)), None);
        }
        order.acquire(&[lock(0)], lock(1), thread(1)); // It is remembered.
        assert_eq!((order.take_left_out(), order.take_left_out()), (2, 0));
        for other in 10_000..10_000 + MAX_WAYS {
            order.acquire(&[lock(other), lock(0)], lock(1), thread(1));
        }
        // One way more than there is room for, and none of the pairs with the other lock.
        assert_eq!(order.take_left_out(), 1 + MAX_WAYS as u64);
    }
}
