//! A callback that is to be refused once.
//!
//! Every callback asks, and hardly ever is there one: so that is known without a lock.

use abi::HRESULT;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The callback of a device that is refused the next time, if one is.
#[derive(Debug, Default)]
pub(crate) struct FailureInjection {
    /// Whether there may be one. Written while `callback` is locked.
    armed: AtomicBool,
    /// Its name, and with what it is refused.
    callback: Mutex<Option<(&'static str, HRESULT)>>,
}

impl FailureInjection {
    /// Has a callback refused the next time.
    pub(crate) fn arm(&self, name: &'static str, result: HRESULT) {
        let mut callback = self.lock();
        *callback = Some((name, result));
        self.armed.store(true, Ordering::Release);
    }

    /// Forgets that. Answers whether the callback was refused.
    pub(crate) fn disarm(&self) -> bool {
        let mut callback = self.lock();
        self.armed.store(false, Ordering::Release);
        callback.take().is_none()
    }

    /// Whether a callback is to be refused now, and with what.
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
        assert!(refusing.disarm(), "there was none");
        refusing.arm("a", E_FAIL);
        assert_eq!((refusing.take_failure("b"), refusing.take_failure("a")), (None, Some(E_FAIL)));
        assert_eq!((refusing.take_failure("a"), refusing.disarm()), (None, true));
        refusing.arm("b", E_OUTOFMEMORY);
        assert!(!refusing.disarm(), "it was not called");
        assert_eq!(refusing.take_failure("b"), None);
    }
}
