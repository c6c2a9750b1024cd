//! Children of `fork`: they have a copy of the kernel's memory, and none of its threads.
//!
//! Locks of the copy may be held by threads that are not there, so a child touches nothing of
//! it. A child that was forked before the first call has nothing to lose, and starts a kernel
//! of its own.
#![expect(unsafe_code, reason = "is told of forks by the C library")]

use crate::global_kernel::GlobalKernel;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kernel of this process, or of the one it was forked from, has begun to start.
static STARTED: AtomicBool = AtomicBool::new(false);

/// This process was forked from one with a kernel.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs when the library is loaded: a fork can come before the first call, and during it.
#[used]
#[unsafe(link_section = ".init_array")]
static FORK_HOOK: extern "C" fn() = register_fork_hook;

/// Asks to be told of forks, once.
pub(crate) extern "C" fn register_fork_hook() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: The handler is a function that is never unloaded, and it takes no lock.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if refused != 0 {
            eprintln!("windtunnel: children of fork cannot be told from their parents");
        }
    });
}

/// In a child, before anything else of it runs.
extern "C" fn in_child() {
    FORKED.store(STARTED.load(Ordering::Relaxed), Ordering::Relaxed);
    // The thread that forked may have been in the host, and would say goodbye when it ends.
    if let Some(kernel) = GlobalKernel::running() {
        kernel.host.abandon();
    }
}

/// From here on a child has lost something.
pub(crate) fn mark_started() {
    register_fork_hook();
    STARTED.store(true, Ordering::Relaxed);
}

/// Whether the kernel's threads are in another process.
pub(crate) fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}
