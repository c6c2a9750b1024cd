//! Whether there may be work, for a worker thread that asks without the lock of the state.
#![expect(clippy::disallowed_types, reason = "a hint beside the state, written under its lock")]

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a job may be queued or a timeout set.
///
/// It is written under the lock of the state only. A thread that adds work does so, writes this,
/// and wakes the worker thread afterwards: so a worker thread that sees an old value is woken.
#[derive(Debug, Default)]
pub(crate) struct WorkHint {
    none: AtomicBool,
}

impl WorkHint {
    /// Whether there may be work.
    #[inline]
    pub(crate) fn may_be_work(&self) -> bool {
        !self.none.load(Ordering::Relaxed)
    }

    /// Notes that work was added.
    #[inline]
    pub(crate) fn note_work(&self) {
        self.none.store(false, Ordering::Relaxed);
    }

    /// Notes that there is no work.
    #[inline]
    pub(crate) fn note_none(&self) {
        self.none.store(true, Ordering::Relaxed);
    }
}
