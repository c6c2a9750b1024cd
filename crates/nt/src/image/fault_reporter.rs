//! The thread that reports a fault of another thread, in a process that also does other things: a
//! signal handler may not allocate or lock.
#![expect(unsafe_code, reason = "waits in a signal handler")]

use super::crash::CrashRecord;
use libc::c_int;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// How long a handler waits: the reporter may need a lock that the thread of the fault holds.
const PATIENCE: c_int = 20_000;

/// The reporter of a process.
pub(super) struct FaultReporter {
    /// The handler writes here when the record is complete.
    begin: RawFd,
    /// The reporter writes here when it is done.
    done: RawFd,
    /// The process that has the thread: a child of `fork` has none.
    process: libc::pid_t,
}

/// The thread itself.
static THREAD: AtomicI32 = AtomicI32::new(0);

impl FaultReporter {
    /// Starts the thread: it calls `report` with the record for each fault.
    pub(super) fn start(record: *mut CrashRecord, report: fn(&CrashRecord)) -> Option<Self> {
        // SAFETY: The call creates a descriptor.
        let event = || unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let (begin, done) = (event(), event());
        if begin < 0 || done < 0 {
            return None;
        }
        let record = record.expose_provenance();
        let thread = std::thread::Builder::new().name("windtunnel-faults".to_owned());
        let spawned = thread.spawn(move || {
            // SAFETY: Asks for a number.
            THREAD.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            loop {
                wait_for_event(begin, -1);
                clear_event(begin);
                let record = ptr::with_exposed_provenance::<CrashRecord>(record);
                // SAFETY: The record is leaked, and its writer waits while this thread reads it.
                let record = unsafe { &*record };
                // A report that fails must not let the handler wait.
                _ = catch_unwind(AssertUnwindSafe(|| report(record)));
                set_event(done);
            }
        });
        // SAFETY: Asks for a number.
        let process = unsafe { libc::getpid() };
        spawned.ok().map(|_| Self { begin, done, process })
    }

    /// Whether it can report a fault of this thread. A signal handler may call this.
    pub(super) fn serves_this_thread(&self) -> bool {
        // SAFETY: Asks for a number.
        let process = unsafe { libc::getpid() };
        // SAFETY: As above.
        let thread = unsafe { libc::gettid() };
        process == self.process && thread != THREAD.load(Ordering::SeqCst)
    }

    /// Lets the thread report, and waits until it has. A signal handler may call this.
    pub(super) fn report(&self) {
        set_event(self.begin);
        self.wait();
    }

    /// Waits until a report that another thread began is complete.
    pub(super) fn wait(&self) {
        wait_for_event(self.done, PATIENCE);
    }

    /// Forgets the last report, before another one.
    pub(super) fn reset(&self) {
        clear_event(self.done);
    }
}

/// Sets an event of the system.
fn set_event(event: RawFd) {
    let one = 1_u64;
    // SAFETY: The number is this function's own.
    unsafe { libc::write(event, (&raw const one).cast(), 8) };
}

/// Clears an event of the system.
fn clear_event(event: RawFd) {
    let mut count = 0_u64;
    // SAFETY: The number is this function's own; the descriptor does not block.
    unsafe { libc::read(event, (&raw mut count).cast(), 8) };
}

/// Waits for an event of the system, or for the time to pass.
fn wait_for_event(event: RawFd, milliseconds: c_int) {
    let mut waits = libc::pollfd { fd: event, events: libc::POLLIN, revents: 0 };
    // SAFETY: The structure is this function's own.
    unsafe { libc::poll(&raw mut waits, 1, milliseconds) };
}
