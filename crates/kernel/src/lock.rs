//! The locks of this crate: there is one kind, and one of it.
//!
//! Order, outermost first: the world, then what `flight` locks inside (the log, the host).
//! Nothing else may be locked, and nothing may wait, while the world is held; but for who looks at
//! bytes (a `Witness`) and the machine's memory, which know nothing of the world.
#![cfg_attr(
    not(any(shuttle, loom)),
    expect(clippy::disallowed_types, reason = "locks come from here")
)]

// `cargo xtask test` makes both builds: the order in which it is taken is drawn, or all are tried.
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(any(shuttle, loom)))]
use std::sync::{Mutex, MutexGuard};

/// A held lock. Whoever goes on with it takes it over, and gives it back or lets it go: a step
/// that calls a driver in between lets it go and comes back with another.
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

    /// Holds it. A panic of ours while it was held is the end of the run anyway.
    pub(crate) fn lock(&self) -> StateGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
