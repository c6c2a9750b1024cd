//! Children of `fork`: they have a copy of the kernel's memory, but none of its threads.
//!
//! Locks of the copy may be held by threads that do not exist in the child, so a child does not
//! touch it. A child that was forked before the first call starts its own kernel. A client of a server
//! makes its own connection; what it needs for that has no locks that a child would wait for
//! ([`fork_lock`](crate::fork_lock)).
#![expect(unsafe_code, reason = "registers a fork handler with the C library")]

use crate::global_kernel::GlobalKernel;
use crate::remote;
use server::standard_error;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The kernel of this process, or of its parent, has begun to start.
static STARTED: AtomicBool = AtomicBool::new(false);

/// A number that this process shares with none of its parents: how often they were forked, plus one.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// This process was forked from one with a kernel.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs when the library is loaded, because a fork can happen before or during the first call.
#[used]
#[unsafe(link_section = ".init_array")]
static FORK_HOOK: extern "C" fn() = register_fork_hook;

/// Registers the fork handler, once.
pub(crate) extern "C" fn register_fork_hook() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: The handler is a function that is never unloaded, and it takes no lock.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if refused != 0 {
            standard_error::print_line(
                "cannot detect fork: children would use the parent's kernel",
            );
        }
    });
}

/// Runs in the child before any other code.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    FORKED.store(STARTED.load(Ordering::Relaxed), Ordering::Relaxed);
    remote::forget();
    // The forking thread may have been in the host, which would notice its end.
    if let Some(kernel) = GlobalKernel::running() {
        kernel.host.abandon();
    }
}

/// Tells this process from its parents. Not zero.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// From here on a child must not use the kernel.
pub(crate) fn mark_started() {
    register_fork_hook();
    STARTED.store(true, Ordering::Relaxed);
}

/// Whether the kernel belongs to the parent process.
pub(crate) fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}
