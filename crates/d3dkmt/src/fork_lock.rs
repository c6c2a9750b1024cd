//! A lock that a child of `fork` does not wait for.
//!
//! A thread of the parent may hold a lock when another one forks. The child has a copy of the lock,
//! and no such thread. So a lock knows which process has it, and a child takes over that of its
//! parent. The value may be half changed then: the child begins with a new one.
#![expect(unsafe_code, reason = "a value that the holder of the lock accesses")]

use crate::fork;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How long a thread sleeps before it looks again. These locks are held for short times, or once.
const PAUSE: Duration = Duration::from_micros(50);

/// No one holds the lock.
const FREE: u32 = 0;

/// A value behind such a lock.
pub(crate) struct ForkLock<T> {
    /// The generation ([`fork::generation`]) of the process that holds it, or [`FREE`].
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: One thread of a process accesses the value at a time.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// Holds the lock until it is dropped.
pub(crate) struct ForkGuard<'a, T> {
    lock: &'a ForkLock<T>,
    holder: u32,
}

impl<T: Default> ForkLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread of this process has the lock.
    pub(crate) fn lock(&self) -> ForkGuard<'_, T> {
        let mine = fork::generation();
        loop {
            let taken = |from: u32| {
                let (to, relaxed) = (mine, Ordering::Relaxed);
                self.holder.compare_exchange(from, to, Ordering::Acquire, relaxed)
            };
            match taken(FREE) {
                Ok(_) => return ForkGuard { lock: self, holder: mine },
                Err(holder) if holder == mine => thread::sleep(PAUSE),
                Err(holder) => {
                    if taken(holder).is_ok() {
                        // SAFETY: This thread has the lock. The old value is not dropped: it may be
                        // half changed.
                        unsafe { ptr::write(self.value.get(), T::default()) };
                        return ForkGuard { lock: self, holder: mine };
                    }
                }
            }
        }
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: This thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: This thread has the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    fn drop(&mut self) {
        let (holder, relaxed) = (&self.lock.holder, Ordering::Relaxed);
        // A child that was forked in a signal handler may have taken it over.
        _ = holder.compare_exchange(self.holder, FREE, Ordering::Release, relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn threads_take_turns() {
        let lock = Arc::new(ForkLock::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || (0..1000).for_each(|_| *lock.lock() += 1))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.lock(), 4000);
    }

    #[test]
    fn a_lock_of_the_parent_is_taken_over_with_a_new_value() {
        let lock = ForkLock::new(7);
        lock.holder.store(fork::generation() + 1, Ordering::Relaxed);
        assert_eq!(*lock.lock(), 0);
        *lock.lock() = 1;
        assert_eq!(*lock.lock(), 1);
    }
}
