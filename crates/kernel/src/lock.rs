//! The locks of this crate: there is one kind, and one of it.
//!
//! Order, outermost first: the world, then what `flight` locks inside (the log, the host).
//! Nothing else may be locked, and nothing may wait, while the world is held.
#![expect(clippy::disallowed_types, reason = "this is where locks come from")]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock around a `T`.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(it: T) -> Self {
        Self(Mutex::new(it))
    }

    /// Holds it. A panic of ours while it was held is the end of the run anyway.
    pub(crate) fn hold(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
