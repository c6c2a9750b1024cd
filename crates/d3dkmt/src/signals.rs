//! Signals: they are the client's, so its threads get them and ours do not.
#![expect(unsafe_code, reason = "asks the C library for the signal mask")]

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `body` with every signal held back: the threads it starts begin, and stay, like that.
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
