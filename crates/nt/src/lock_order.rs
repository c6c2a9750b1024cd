//! The order in which a driver acquires its spin locks. Two locks that are acquired in both orders
//! can deadlock two processors; the orders are remembered, so the deadlock itself is not needed.
//!
//! A third lock that is held in both orders keeps the two apart: that is no inversion.
//!
//! A lock is known by its address. It is forgotten when its memory is freed or when it is
//! initialised, because another lock may be there then.

use crate::processor::HeldLock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of pairs, and of ways to acquire a pair, that are remembered.
const MAX_PAIRS: usize = 4096;
const MAX_WAYS: usize = 8;

/// The orders that were seen.
#[derive(Default)]
pub(crate) struct LockOrder(Mutex<BTreeMap<(usize, usize), Vec<Acquisition>>>);

/// Two locks were acquired, one while the other was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acquisition {
    /// Where the first lock was acquired: a return address, or zero.
    pub(crate) first: u64,
    /// Where the second lock was acquired.
    pub(crate) second: u64,
    /// The other locks that were held.
    others: Vec<usize>,
}

impl LockOrder {
    /// A lock is acquired while others are held. Returns the acquisition in the opposite order, and
    /// the lock that is held now.
    pub(crate) fn acquire(
        &self,
        held: &[HeldLock],
        new: HeldLock,
    ) -> Option<(Acquisition, HeldLock)> {
        let mut pairs = self.pairs();
        let mut inverted = None;
        for one in held.iter().filter(|one| one.address != new.address) {
            let others: Vec<usize> = held
                .iter()
                .map(|lock| lock.address)
                .filter(|lock| ![one.address, new.address].contains(lock))
                .collect();
            let opposite = pairs.get(&(new.address, one.address)).and_then(|ways| {
                ways.iter().find(|way| !way.others.iter().any(|lock| others.contains(lock)))
            });
            if inverted.is_none() {
                inverted = opposite.map(|way| (way.clone(), *one));
            }
            if pairs.len() >= MAX_PAIRS {
                continue;
            }
            let ways = pairs.entry((one.address, new.address)).or_default();
            if ways.len() < MAX_WAYS && !ways.iter().any(|way| way.others == others) {
                ways.push(Acquisition { first: one.caller, second: new.caller, others });
            }
        }
        inverted
    }

    /// Forgets the locks in this memory.
    pub(crate) fn forget(&self, memory: &Range<usize>) {
        let mut pairs = self.pairs();
        if !pairs.is_empty() {
            pairs.retain(|(one, other), _| !memory.contains(one) && !memory.contains(other));
        }
    }

    fn pairs(&self) -> MutexGuard<'_, BTreeMap<(usize, usize), Vec<Acquisition>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(address: usize) -> HeldLock {
        HeldLock { address, caller: address as u64 * 10 }
    }

    #[test]
    fn both_orders_are_an_inversion() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[lock(1)], lock(2)), None);
        assert_eq!(order.acquire(&[lock(1)], lock(2)), None);
        assert_eq!(order.acquire(&[lock(2)], lock(3)), None);
        let (earlier, held) = order.acquire(&[lock(2)], lock(1)).unwrap();
        assert_eq!((earlier.first, earlier.second, held.address), (10, 20, 2));
    }

    #[test]
    fn a_common_third_lock_keeps_two_orders_apart() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[lock(9), lock(1)], lock(2)), None);
        assert_eq!(order.acquire(&[lock(9), lock(2)], lock(1)), None);
        assert!(order.acquire(&[lock(2)], lock(1)).is_some(), "without the third one");
    }

    #[test]
    fn a_lock_whose_memory_is_freed_is_forgotten() {
        let order = LockOrder::default();
        assert_eq!(order.acquire(&[lock(1)], lock(2)), None);
        order.forget(&(2..3));
        assert_eq!(order.acquire(&[lock(2)], lock(1)), None);
    }
}
