//! The deadline of driver code: a thread outside of the flight looks for driver code that runs for
//! too long.
//!
//! A driver call is given the tick at which it was entered. When it waits, it is outside; when it
//! goes on, its time begins again. The clock is the machine's, so a finding does not depend on it
//! unless a call takes seconds.
#![expect(unsafe_code, reason = "sends a signal to a thread")]

use super::processor_block::ProcessorBlock;
use super::signals::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The signal that ends a driver call.
pub(super) const DEADLINE_SIGNAL: libc::c_int = libc::SIGUSR2;

/// The time between two looks.
const TICK: Duration = Duration::from_millis(50);

/// The current tick, from 1.
static NOW: AtomicU64 = AtomicU64::new(1);

/// The threads that run driver code, with their blocks.
static THREADS: Mutex<Vec<(libc::pid_t, ProcessorBlock)>> = Mutex::new(Vec::new());

/// The current tick.
pub(super) fn now() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// Watches a thread from now on.
pub(super) fn watch(block: ProcessorBlock) {
    // SAFETY: Asks for a number.
    let thread = unsafe { libc::gettid() };
    THREADS.lock().unwrap_or_else(PoisonError::into_inner).push((thread, block));
}

/// Starts the watchdog: driver code that runs for longer than `deadline` is abandoned.
pub fn start_watchdog(deadline: Duration) {
    let limit = deadline.as_millis().div_ceil(TICK.as_millis());
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let (started, is_started) = std::sync::mpsc::channel();
    let spawned = std::thread::Builder::new().spawn(move || {
        _ = started.send(());
        loop {
            std::thread::sleep(TICK);
            let now = NOW.fetch_add(1, Ordering::Relaxed) + 1;
            let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (thread, block) in threads {
                let entered = block.entered();
                let late = entered != 0 && now.saturating_sub(entered) > limit;
                // A user-mode driver that waits for its own threads waits without our knowledge.
                if late && (block.is_user_mode() || is_running(thread)) {
                    // SAFETY: The signal's handler is installed. A thread that has ended is not
                    // found by its number.
                    unsafe { libc::syscall(libc::SYS_tgkill, process(), thread, DEADLINE_SIGNAL) };
                }
            }
        }
    });
    if let Err(why) = spawned {
        flight::no_resources(format_args!("the watchdog cannot be started: {why}"));
    }
    // The start of a thread needs a lock that the initialization of a driver's file holds.
    _ = is_started.recv();
}

/// Whether a thread runs, and does not wait for another one.
fn is_running(thread: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    let state = stat.ok().and_then(|stat| stat.rsplit(')').next()?.trim().chars().next());
    state == Some('R')
}
