//! The lock of this crate: there is one kind, and one instance.
//!
//! Order, outermost first: the state, then the locks inside `flight` (the log, the host). Nothing
//! else may be locked, and no thread may wait, while the state is locked. The mutexes that drivers
//! know (`mutex.rs`) are not locks but state: they are held across calls to drivers.
#![cfg_attr(
    not(shuttle),
    expect(clippy::disallowed_types, reason = "this module defines the locks")
)]

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(shuttle))]
use std::sync::{Mutex, MutexGuard};

/// A held lock.
pub(crate) type StateGuard<'a, T> = MutexGuard<'a, T>;

/// A lock around a `T`.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(it: T) -> Self {
        Self(Mutex::new(it))
    }

    /// Locks it. A panic of ours while it was locked ends the run anyway.
    pub(crate) fn lock(&self) -> StateGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
