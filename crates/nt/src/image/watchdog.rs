//! The deadline of driver code: a thread outside of the flight looks for driver code that runs for
//! too long.
//!
//! A driver call is given the tick at which it was entered. When it waits, it is outside; when it
//! goes on, its time begins again. The clock is the machine's, so a finding does not depend on it
//! unless a call takes seconds.
//!
//! The watchdog also gives the sign of life of the process, while it can end the driver: the parent
//! ends a process without one.
#![expect(unsafe_code, reason = "sends a signal to a thread")]

use super::channel::{Channel, Number};
use super::processor_block::ProcessorBlock;
use super::sanitizer;
use super::signals::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// The same threads, as the C library knows them.
static HANDLES: Mutex<Vec<libc::pthread_t>> = Mutex::new(Vec::new());

/// Whether driver code is ended because its process has taken too much memory.
static OUT_OF_MEMORY: AtomicBool = AtomicBool::new(false);

/// For how many ticks a flight beyond its limit of memory may go on, until it ends by itself.
const MEMORY_PATIENCE: u64 = 20;

/// The current tick.
pub(super) fn now() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// Watches a thread from now on.
pub(super) fn watch(block: ProcessorBlock) {
    // SAFETY: Asks for a number.
    let thread = unsafe { libc::gettid() };
    // SAFETY: As above.
    let handle = unsafe { libc::pthread_self() };
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    THREADS.lock().unwrap_or_else(PoisonError::into_inner).push((thread, block));
}

/// Whether a thread of the C library is one that runs driver code.
pub(super) fn watches(thread: libc::pthread_t) -> bool {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner).contains(&thread)
}

/// Whether driver code is ended because its process has taken too much memory.
pub(super) fn is_out_of_memory() -> bool {
    OUT_OF_MEMORY.load(Ordering::Relaxed)
}

/// The memory that this process uses, in bytes.
fn used_memory() -> u64 {
    const PAGE: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(PAGE)
}

/// Whether the driver code of this process can be ended from inside.
#[derive(Default)]
struct Health {
    /// For how many ticks a thread has not followed its signal.
    unanswered: u64,
    /// For how many ticks driver code has waited outside of our knowledge, and nothing has run.
    quiet: u64,
    /// The length of the text of the flight.
    length: u64,
}

impl Health {
    /// How long a thread may take to follow its signal, in ticks.
    const PATIENCE: u64 = 20;

    /// Looks once. Returns whether the process can still end its driver.
    fn look(&mut self, signalled: bool, waits: bool, length: u64, limit: u64) -> bool {
        self.unanswered = if signalled { self.unanswered + 1 } else { 0 };
        let quiet = waits && !signalled && length == self.length;
        self.quiet = if quiet { self.quiet + 1 } else { 0 };
        self.length = length;
        self.unanswered < Self::PATIENCE && self.quiet <= limit
    }
}

/// Starts the watchdog: driver code that runs for longer than `deadline` is abandoned. The sign of
/// life goes to `channel`. `is_beyond` is told the memory that the process has taken since, in bytes,
/// and returns whether that is too much: driver code that then goes on is abandoned, too.
pub fn start_watchdog(
    deadline: Duration,
    channel: &'static Channel,
    is_beyond: impl Fn(u64) -> bool + Send + 'static,
) {
    let at_start = used_memory();
    let limit = deadline.as_millis().div_ceil(TICK.as_millis());
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let (started, is_started) = std::sync::mpsc::channel();
    let spawned = std::thread::Builder::new().spawn(move || {
        _ = started.send(());
        let (mut health, mut beyond) = (Health::default(), 0);
        channel.set_number(Number::Heartbeat, now());
        loop {
            std::thread::sleep(TICK);
            let now = NOW.fetch_add(1, Ordering::Relaxed) + 1;
            let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (mut signalled, mut waits) = (false, false);
            beyond += u64::from(is_beyond(used_memory().saturating_sub(at_start)));
            let out_of_memory = beyond > MEMORY_PATIENCE;
            OUT_OF_MEMORY.store(out_of_memory, Ordering::Relaxed);
            for (thread, block) in &threads {
                let entered = block.entered();
                let late = entered != 0 && (now.saturating_sub(entered) > limit || out_of_memory);
                // The report of the sanitizer takes as long as it reads symbols.
                let late = late && !sanitizer::is_reporting();
                // A user-mode driver that waits for its own threads waits without our knowledge.
                if late && (block.is_user_mode() || is_running(*thread)) {
                    signalled = true;
                    // SAFETY: The signal's handler is installed. A thread that has ended is not
                    // found by its number.
                    unsafe { libc::syscall(libc::SYS_tgkill, process(), *thread, DEADLINE_SIGNAL) };
                } else if late && is_alive(*thread) {
                    waits = true;
                }
            }
            let waits = waits && !threads.iter().any(|(thread, _)| is_running(*thread));
            if health.look(signalled, waits, channel.length(), limit) {
                channel.set_number(Number::Heartbeat, now);
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
    state(thread) == Some('R')
}

/// Whether a thread has not ended.
fn is_alive(thread: libc::pid_t) -> bool {
    state(thread).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The state of a thread, as the system calls it.
fn state(thread: libc::pid_t) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    stat.ok().and_then(|stat| stat.rsplit(')').next()?.trim().chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_healthy_until_a_thread_ignores_its_signal_or_nothing_runs() {
        const LIMIT: u64 = 40;
        let mut health = Health::default();
        for tick in 0..Health::PATIENCE - 1 {
            assert!(health.look(true, false, tick, LIMIT), "{tick}");
        }
        assert!(!health.look(true, false, 100, LIMIT), "the signal is not answered");
        let mut health = Health::default();
        for tick in 0..LIMIT {
            assert!(health.look(false, true, 7, LIMIT), "{tick}");
        }
        assert!(health.look(false, true, 8, LIMIT), "the flight goes on");
        for tick in 0..LIMIT {
            assert!(health.look(false, true, 8, LIMIT), "{tick}");
        }
        assert!(!health.look(false, true, 8, LIMIT), "nothing runs");
        assert!(health.look(false, false, 8, LIMIT), "the wait is over");
    }
}
