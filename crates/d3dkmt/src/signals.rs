//! Signals: they are the client's, so its threads get them and ours do not.
#![expect(unsafe_code, reason = "asks the C library for the signal mask")]

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `body` with every signal held back: the threads it starts begin, and stay, like that.
pub(crate) fn held<R>(body: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: There is room for a set, which is filled.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let set = libc::SIG_SETMASK;
    // SAFETY: The set was filled just now, and there is room for the one before.
    let held = unsafe { libc::pthread_sigmask(set, all.as_ptr(), before.as_mut_ptr()) } == 0;
    let answer = body();
    if held {
        // SAFETY: The set before was filled in, for the call succeeded.
        unsafe { libc::pthread_sigmask(set, before.as_ptr(), ptr::null_mut()) };
    }
    answer
}
