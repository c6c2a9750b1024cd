//! The locks of this crate: there is one kind, and one of it.
//!
//! Order, outermost first: the world, then what `flight` locks inside (the log, the host).
//! Nothing else may be locked, and nothing may wait, while the world is held. The mutexes that
//! drivers know (`mutex.rs`) are no locks but state: they are held across calls of drivers.
#![cfg_attr(not(shuttle), expect(clippy::disallowed_types, reason = "locks come from here"))]

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

    /// Holds it. A panic of ours while it was held is the end of the run anyway.
    pub(crate) fn lock(&self) -> StateGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
