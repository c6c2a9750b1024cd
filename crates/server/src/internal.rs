//! Internal errors: after the first one every call fails, and a server ends.
//!
//! An internal error is a broken invariant of ours (`flight::InternalError`), or any other panic that
//! is not a driver's, on a thread of the client or on one of the host's workers. It is reported on
//! standard error, with the last events if a report was requested. From then on every call returns
//! `STATUS_UNSUCCESSFUL`; a server ends instead (`forced_end.rs`). An internal error is never counted
//! against the client: nothing that happens after it is judged.

use crate::{forced_end, hosted_kernel, standard_error};
use flight::{
    Host, InternalError, Log, NoResources, Passive, Role, Spawner, ThreadBody, ThreadedHost,
    WaitResult, WaitToken,
};
use std::fmt::Write as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread;

/// The number of last events that are printed.
const LAST_EVENTS: usize = 16;

/// The first internal error of this process.
static FIRST: OnceLock<InternalError> = OnceLock::new();

/// The first internal error, if there was one.
pub fn first() -> Option<&'static InternalError> {
    FIRST.get()
}

/// Runs `body` and returns its panic, if it panics. An internal error is reported, and ends a server;
/// a machine without threads is reported, too.
pub fn caught<R>(body: impl FnOnce() -> R) -> thread::Result<R> {
    let result = catch_unwind(AssertUnwindSafe(body));
    if let Err(panic) = &result {
        if let Some(error) = panic.downcast_ref::<NoResources>() {
            standard_error::print_line(&error.0);
        } else {
            let error = InternalError::of_panic(&**panic);
            if FIRST.set(error.clone()).is_ok() {
                print(&error);
            }
            forced_end::end_at_internal_error(&error);
        }
    }
    result
}

fn print(error: &InternalError) {
    let what_ends = if forced_end::is_server() {
        "the server ends, and calls of its clients return STATUS_DEVICE_REMOVED"
    } else {
        "every further call returns STATUS_UNSUCCESSFUL"
    };
    let mut text = format!(
        "windtunnel: {error}\nwindtunnel: this is a bug of Windtunnel, not of its client; \
         {what_ends}\n"
    );
    let events = hosted_kernel::running().map(|kernel| kernel.log().last_events(LAST_EVENTS));
    for event in events.unwrap_or_default() {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {event}");
    }
    standard_error::print(&text);
}

/// The host's workers. Their internal errors are reported too.
#[derive(Debug)]
pub struct Workers(pub Arc<ThreadedHost>);

impl Host for Workers {
    fn park(&self, at: &mut Passive, ticket: &WaitToken, deadline: Option<u64>) -> WaitResult {
        self.0.park(at, ticket, deadline)
    }

    fn now(&self) -> u64 {
        self.0.now()
    }

    fn wake(&self, ticket: &WaitToken) {
        self.0.wake(ticket);
    }

    fn yield_point(&self, at: &mut Passive) {
        self.0.yield_point(at);
    }

    fn pass_time(&self, time: u64) {
        self.0.pass_time(time);
    }

    fn spawner(self: Arc<Self>) -> Arc<dyn Spawner> {
        self
    }
}

impl Spawner for Workers {
    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody) -> io::Result<()> {
        let (begins, has_begun) = sync_channel(1);
        let body = move |at: &mut Passive| {
            // The other side may have been dropped.
            _ = begins.send(());
            if let Err(panic) = caught(|| body(at)) {
                resume_unwind(panic);
            }
        };
        self.0.clone().start(name, role, Box::new(body))?;
        // A thread allocates when it begins, and ends the process if it cannot: a client that has used
        // up its memory since would be ended by a thread that begins late.
        _ = has_begun.recv();
        Ok(())
    }

    fn run_until_idle(&self, at: &mut Passive) {
        ThreadedHost::run_until_idle(&self.0, at);
    }

    fn log(&self) -> &Log {
        self.0.log()
    }

    fn driver_threads(&self) -> Vec<String> {
        self.0.driver_threads()
    }
}
