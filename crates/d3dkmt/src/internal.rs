//! Internal errors: after the first one every call fails.
//!
//! An internal error is a broken invariant of ours (`flight::InternalError`), on a thread of the
//! client or on one of the host's workers. It is reported on standard error, with the last
//! events if a report was requested. From then on every call returns `STATUS_UNSUCCESSFUL`. It
//! is never counted against the client: nothing that happens after it is judged.

use crate::global_kernel::GlobalKernel;
use crate::standard_error;
use flight::{
    Host, InternalError, Log, NoResources, Passive, Role, Spawner, ThreadBody, ThreadedHost,
    WaitResult, WaitToken,
};
use std::fmt::Write as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

/// The number of last events that are printed.
const LAST_EVENTS: usize = 16;

/// The first internal error of this process.
static FIRST: OnceLock<InternalError> = OnceLock::new();

/// The first internal error, if there was one.
pub(crate) fn first() -> Option<&'static InternalError> {
    FIRST.get()
}

/// Runs `body` and returns its panic, if it panics. An internal error is reported; a machine without
/// threads is, too.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> thread::Result<R> {
    let result = catch_unwind(AssertUnwindSafe(body));
    if let Err(panic) = &result
        && let Some(error) = panic.downcast_ref::<InternalError>()
    {
        report(error);
    }
    if let Err(panic) = &result
        && let Some(error) = panic.downcast_ref::<NoResources>()
    {
        standard_error::print_line(&error.0);
    }
    result
}

fn report(error: &InternalError) {
    if FIRST.set(error.clone()).is_err() {
        return;
    }
    let mut text = format!(
        "windtunnel: {error}\nwindtunnel: this is a bug of Windtunnel, not of its client; every \
         further call returns STATUS_UNSUCCESSFUL\n"
    );
    let events = GlobalKernel::running().map(|tunnel| tunnel.session.kernel().log().take());
    let events = events.unwrap_or_default();
    for event in &events[events.len().saturating_sub(LAST_EVENTS)..] {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {event}");
    }
    standard_error::print(&text);
}

/// The host's workers. Their internal errors are reported too.
pub(crate) struct Workers(pub(crate) Arc<ThreadedHost>);

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
        let body = move |at: &mut Passive| {
            if let Err(panic) = caught(|| body(at)) {
                resume_unwind(panic);
            }
        };
        self.0.clone().start(name, role, Box::new(body))
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

#[cfg(test)]
#[expect(unsafe_code, reason = "calls the exported functions")]
mod tests {
    use super::*;
    use crate::{D3DKMTEnumAdapters2, global_kernel, windtunnel_event_create};
    use abi::kmt::D3DKMT_ENUMADAPTERS2;
    use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Where the child process plants the error.
    const PLANTED: &str = "WINDTUNNEL_TEST_PLANTED";

    fn enumerate() -> abi::NTSTATUS {
        let mut args = D3DKMT_ENUMADAPTERS2::ZERO;
        // SAFETY: `args` outlives the call and has no array.
        unsafe { D3DKMTEnumAdapters2(&raw mut args) }
    }

    #[test]
    #[ignore = "breaks the kernel of its process; the other tests run it in a child process"]
    fn planted() {
        assert_eq!(enumerate(), STATUS_SUCCESS);
        // SAFETY: NULL is an invalid parameter, and breaks no rule.
        assert_eq!(unsafe { D3DKMTEnumAdapters2(std::ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
        if std::env::var(PLANTED).unwrap() == "worker" {
            let host = GlobalKernel::running().unwrap().host.clone();
            let workers: Arc<dyn Spawner> = Arc::new(Workers(host));
            workers.spawn("planted", |_| flight::internal_error("a planted invariant"));
            let started = Instant::now();
            while first().is_none() && started.elapsed() < Duration::from_mins(1) {
                thread::sleep(Duration::from_millis(1));
            }
        } else {
            let status = global_kernel::call("planted", |session, _| {
                session.create_event();
                flight::internal_error("a planted invariant")
            });
            assert_eq!(status, STATUS_UNSUCCESSFUL);
        }
        assert_eq!(first().unwrap().invariant(), "a planted invariant");
        assert_eq!(enumerate(), STATUS_UNSUCCESSFUL);
        assert!(windtunnel_event_create().is_null());
    }

    /// Standard error and the report of a process in which the error is planted.
    fn plant(place: &str) -> (String, String) {
        let name = format!("windtunnel-planted-{place}-{}", std::process::id());
        let report = std::env::temp_dir().join(name);
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "internal::tests::planted", "--ignored", "--nocapture"])
            .env(PLANTED, place)
            .env("WINDTUNNEL_REPORT", &report)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{}{errors}", text(&output.stdout));
        assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
        let written = std::fs::read_to_string(&report).unwrap();
        std::fs::remove_file(&report).unwrap();
        (errors, written)
    }

    /// Checks the output for an error on either thread.
    fn is_ours(errors: &str, report: &str) {
        assert!(errors.contains("broken invariant: a planted invariant"), "{errors}");
        assert!(errors.contains("a bug of Windtunnel, not of its client"), "{errors}");
        assert!(report.contains("broken invariant: a planted invariant"), "{report}");
        assert!(report.contains("0 errors, 0 warnings, 0 notes"), "{report}");
        assert!(!report.contains("left alive:"), "{report}");
    }

    #[test]
    fn an_internal_error_in_a_call_is_reported_and_refuses_every_further_call() {
        let (errors, report) = plant("call");
        is_ours(&errors, &report);
    }

    #[test]
    fn an_internal_error_of_a_worker_is_reported_and_refuses_every_further_call() {
        let (errors, report) = plant("worker");
        is_ours(&errors, &report);
    }
}
