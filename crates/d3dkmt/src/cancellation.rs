//! Cancellation of the client's threads (`pthread_cancel`): it is held back while a thread is
//! inside a call, also an asynchronous one, because a frame of ours that is left keeps its locks.
#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE` of glibc.
const DISABLE: c_int = 1;

/// `PTHREAD_CANCEL_DEFERRED` of glibc.
const DEFERRED: c_int = 0;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    /// A cancellation that was held back ends the thread here.
    fn pthread_testcancel();
}

/// Whether cancellation was allowed before it was held back.
#[derive(Clone, Copy)]
pub(crate) struct Cancellation(c_int);

/// Holds cancellation back.
pub(crate) fn hold() -> Cancellation {
    let mut before = DISABLE;
    // SAFETY: The number is this function's own.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    Cancellation(before)
}

impl Cancellation {
    /// Allows cancellation again, if it was allowed before. This may end the thread: no frame between
    /// this one and the client's has a destructor.
    pub(crate) fn restore(self) {
        if self.0 == DISABLE {
            return;
        }
        // If the state were set first, an asynchronous cancellation would happen in that function,
        // and glibc 2.36 would give the thread no result.
        let (mut held, mut kind) = (DISABLE, DEFERRED);
        // SAFETY: The number is this function's own.
        unsafe { pthread_setcanceltype(DEFERRED, &raw mut kind) };
        // SAFETY: As above. The state is one that the C library returned.
        unsafe { pthread_setcancelstate(self.0, &raw mut held) };
        if kind != DEFERRED {
            // SAFETY: The frames of the thread have no destructors.
            unsafe { pthread_testcancel() };
            // SAFETY: As above. The kind is one that the C library returned.
            unsafe { pthread_setcanceltype(kind, &raw mut held) };
        }
    }
}
