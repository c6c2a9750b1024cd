//! Failure injection: makes one callback fail once.
//!
//! Every callback checks for an injected failure, and there rarely is one, so the check takes no
//! lock.

use abi::HRESULT;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The callback of a device that fails next, if any.
#[derive(Debug, Default)]
pub(crate) struct FailureInjection {
    /// Whether a failure may be armed. Written while `callback` is locked.
    armed: AtomicBool,
    /// The callback's name and the result that it returns.
    callback: Mutex<Option<(&'static str, HRESULT)>>,
}

impl FailureInjection {
    /// Makes a callback fail the next time.
    pub(crate) fn arm(&self, name: &'static str, result: HRESULT) {
        let mut callback = self.lock();
        *callback = Some((name, result));
        self.armed.store(true, Ordering::Release);
    }

    /// Cancels the failure. Returns whether the callback has failed.
    pub(crate) fn disarm(&self) -> bool {
        let mut callback = self.lock();
        self.armed.store(false, Ordering::Release);
        callback.take().is_none()
    }

    /// The result that a callback must fail with now, if any.
    #[inline]
    pub(crate) fn take_failure(&self, name: &str) -> Option<HRESULT> {
        if self.armed.load(Ordering::Acquire) { self.take_if_named(name) } else { None }
    }

    #[cold]
    fn take_if_named(&self, name: &str) -> Option<HRESULT> {
        let mut callback = self.lock();
        let error = callback.take_if(|pair| pair.0 == name)?;
        self.armed.store(false, Ordering::Release);
        Some(error.1)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(&'static str, HRESULT)>> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::hresult::{E_FAIL, E_OUTOFMEMORY};

    #[test]
    fn one_is_refused_once_and_others_are_not() {
        let refusing = FailureInjection::default();
        assert_eq!(refusing.take_failure("a"), None);
        assert!(refusing.disarm(), "the failure was used");
        refusing.arm("a", E_FAIL);
        assert_eq!((refusing.take_failure("b"), refusing.take_failure("a")), (None, Some(E_FAIL)));
        assert_eq!((refusing.take_failure("a"), refusing.disarm()), (None, true));
        refusing.arm("b", E_OUTOFMEMORY);
        assert!(!refusing.disarm(), "the callback was not called");
        assert_eq!(refusing.take_failure("b"), None);
    }
}
