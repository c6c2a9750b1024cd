//! Signals belong to the client, so they are blocked on the library's threads.
#![expect(unsafe_code, reason = "sets the signal mask through the C library")]

use std::mem::MaybeUninit;
use std::ptr;

/// The signals of faults.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];

/// Runs `body` with every signal blocked. Threads that it starts inherit the mask.
pub fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    with_mask(&[], body)
}

/// Runs `body` with every signal blocked but those of faults: a fault whose signal is blocked ends the
/// process without a report.
pub fn with_sent_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    with_mask(&FAULTS, body)
}

/// Runs `body` with every signal blocked but these.
fn with_mask<R>(open: &[libc::c_int], body: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `all` has room for a signal set, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for signal in open {
        // SAFETY: The set was filled above.
        unsafe { libc::sigdelset(all.as_mut_ptr(), *signal) };
    }
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

/// Runs `body`, in which a write to a pipe that no one reads is an error and not a signal.
pub fn with_broken_pipes_as_errors<R>(body: impl FnOnce() -> R) -> R {
    let (mut pipe, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `pipe` has room for a signal set, which the call fills.
    unsafe { libc::sigemptyset(pipe.as_mut_ptr()) };
    // SAFETY: `pipe` was filled above.
    unsafe { libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE) };
    let was_pending = is_broken_pipe_pending();
    // SAFETY: `pipe` was filled above, and `before` has room for a signal set.
    let held =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) } == 0;
    let answer = body();
    if held {
        if !was_pending && is_broken_pipe_pending() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: The set is filled, and the time is this function's own.
            unsafe { libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &raw const now) };
        }
        // SAFETY: `before` was filled by the call that succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    answer
}

/// Whether the signal of a broken pipe waits for this thread.
fn is_broken_pipe_pending() -> bool {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: `pending` has room for a signal set.
    let known = unsafe { libc::sigpending(pending.as_mut_ptr()) } == 0;
    // SAFETY: The set was filled, if the call succeeded.
    known && unsafe { libc::sigismember(pending.as_ptr(), libc::SIGPIPE) } == 1
}
