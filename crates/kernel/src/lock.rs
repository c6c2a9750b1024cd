//! The lock of this crate: one type, with one instance.
//!
//! Lock order, outermost first: the kernel state, then the locks inside `flight` (the log, the
//! host). While the state is locked, no other lock may be taken and no thread may wait; exceptions
//! are the `MemoryObserver` and system memory, which do not use the state.
#![cfg_attr(
    not(any(shuttle, loom)),
    expect(clippy::disallowed_types, reason = "locks come from here")
)]

// `cargo xtask test` builds both: the order of lock acquisitions is random, or exhaustive.
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(any(shuttle, loom)))]
use std::sync::{Mutex, MutexGuard};

/// A locked `T`. A function that takes the guard returns it or drops it. A step that calls a driver
/// in between drops the guard and returns another.
pub(crate) type StateGuard<'a, T> = MutexGuard<'a, T>;

/// A `T` that is set once, and read without a lock.
pub(crate) type Once<T> = std::sync::OnceLock<T>;

/// A lock around a `T`.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(it: T) -> Self {
        Self(Mutex::new(it))
    }

    /// Locks it. A poisoned lock is ignored: a kernel panic under the lock ends the flight anyway.
    pub(crate) fn lock(&self) -> StateGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
