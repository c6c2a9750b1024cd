//! A callback that is to be refused once.
//!
//! Every callback asks, and hardly ever is there one: so that is known without a lock.

use abi::HRESULT;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The callback of a device that is refused the next time, if one is.
#[derive(Debug, Default)]
pub(crate) struct Refusing {
    /// Whether there may be one. Written while `which` is locked.
    any: AtomicBool,
    /// Its name, and with what it is refused.
    which: Mutex<Option<(&'static str, HRESULT)>>,
}

impl Refusing {
    /// Has a callback refused the next time.
    pub(crate) fn begin(&self, name: &'static str, result: HRESULT) {
        let mut which = self.hold();
        *which = Some((name, result));
        self.any.store(true, Ordering::Release);
    }

    /// Forgets that. Answers whether the callback was refused.
    pub(crate) fn stop(&self) -> bool {
        let mut which = self.hold();
        self.any.store(false, Ordering::Release);
        which.take().is_none()
    }

    /// Whether a callback is to be refused now, and with what.
    #[inline]
    pub(crate) fn refuse(&self, name: &str) -> Option<HRESULT> {
        if self.any.load(Ordering::Acquire) { self.take(name) } else { None }
    }

    #[cold]
    fn take(&self, name: &str) -> Option<HRESULT> {
        let mut which = self.hold();
        let refused = which.take_if(|it| it.0 == name)?;
        self.any.store(false, Ordering::Release);
        Some(refused.1)
    }

    fn hold(&self) -> MutexGuard<'_, Option<(&'static str, HRESULT)>> {
        self.which.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::hresult::{E_FAIL, E_OUTOFMEMORY};

    #[test]
    fn one_is_refused_once_and_others_are_not() {
        let refusing = Refusing::default();
        assert_eq!(refusing.refuse("a"), None);
        assert!(refusing.stop(), "there was none");
        refusing.begin("a", E_FAIL);
        assert_eq!((refusing.refuse("b"), refusing.refuse("a")), (None, Some(E_FAIL)));
        assert_eq!((refusing.refuse("a"), refusing.stop()), (None, true));
        refusing.begin("b", E_OUTOFMEMORY);
        assert!(!refusing.stop(), "it was not called");
        assert_eq!(refusing.refuse("b"), None);
    }
}
