//! Signals belong to the client, so they are blocked on the library's threads.
#![expect(unsafe_code, reason = "sets the signal mask through the C library")]

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `body` with every signal blocked. Threads that it starts inherit the mask.
pub(crate) fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `all` has room for a signal set, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let set = libc::SIG_SETMASK;
    // SAFETY: `all` was filled above, and `before` has room for a signal set.
    let held = unsafe { libc::pthread_sigmask(set, all.as_ptr(), before.as_mut_ptr()) } == 0;
    let answer = body();
    if held {
        // SAFETY: `before` was filled by the call that succeeded.
        unsafe { libc::pthread_sigmask(set, before.as_ptr(), ptr::null_mut()) };
    }
    answer
}
