//! The report at the end of the process.
//!
//! `WINDTUNNEL_REPORT=1` prints it to standard error, `WINDTUNNEL_REPORT=path` writes a file. With
//! `WINDTUNNEL_FAIL=1` alone it is printed to standard error if it has errors. A fault that ends the
//! process has its report, too ([`write_at_fault`]).
#![expect(unsafe_code, reason = "the C library calls it at process exit")]

use crate::faults::Fault;
use crate::global_kernel::GlobalKernel;
use crate::{exit_status, fork, global_kernel, remote};
use kernel::ProcessExit;
use server::{DriverFault, FaultText, Leaks, Report, WrittenReport, internal, signals};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The environment variable that requests a report.
const VARIABLE: &str = "WINDTUNNEL_REPORT";

/// How long process exit waits for the remaining objects to be destroyed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the report of a fault waits for a lock, which the thread of the fault may hold.
const FAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// The report is written, or is being written.
static WRITTEN: AtomicBool = AtomicBool::new(false);

/// An observer, if the environment requests a report.
pub(crate) fn from_environment() -> Option<Report> {
    let to = std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && value != "0");
    (to.is_some() || exit_status::is_requested()).then(|| Report::new(to))
}

/// Writes the report of a client that a signal is about to end. If a handler of the client lets it go
/// on, the report at its exit replaces this one.
pub(crate) fn write_at_fault(kernel: &GlobalKernel, fault: &Fault) {
    let Some(report) = &kernel.report else { return };
    if WRITTEN.load(Ordering::Acquire) {
        return;
    }
    // The thread of the fault may hold the lock of the log, if it was inside.
    if !fault.is_inside && internal::first().is_none() {
        report.observe(kernel.session.kernel().log());
    }
    let text = FaultText { sentence: &fault.sentence, callers: &fault.callers };
    note(report.write_in_time(FAULT_TIMEOUT, Some(text)));
}

/// Writes the report of a client whose driver has faulted: the process is about to end.
pub(crate) fn write_at_driver_fault(kernel: &GlobalKernel, fault: &DriverFault) {
    let Some(report) = &kernel.report else { return };
    if !WRITTEN.load(Ordering::Acquire) {
        report.write_at_driver_fault(kernel.session.kernel().log(), fault, &Leaks::default());
        note(WrittenReport::Bad);
    }
}

/// A client with a bad report fails, if it wants that.
fn note(written: WrittenReport) {
    if written == WrittenReport::Bad {
        exit_status::set_errors();
    }
}

/// Runs at process exit, after the client's exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static EXIT_HOOK: extern "C" fn() = write_at_exit;

/// Writes the report, once.
pub(crate) extern "C" fn write_at_exit() {
    remote::say_goodbye();
    if fork::is_forked_child() {
        return;
    }
    let Some(tunnel) = GlobalKernel::running() else { return };
    let Some(watch) = &tunnel.report else { return };
    if WRITTEN.swap(true, Ordering::AcqRel) {
        return;
    }
    tunnel.over.store(true, Ordering::Release);
    // `exit` in a signal handler that interrupted a call: this thread may hold any lock.
    if global_kernel::is_inside() {
        return note(watch.write_in_time(FAULT_TIMEOUT, None));
    }
    if internal::first().is_some() {
        // The kernel is not called any more.
        return note(watch.write(&Leaks::default()));
    }
    // On another thread: this one has lost its thread-local values and must not wait forever.
    let (said, heard) = channel();
    let report = move || {
        let left = describe_leaks(watch, tunnel);
        let kernel = tunnel.session.kernel();
        let process = tunnel.session.process();
        let end = || {
            tunnel.host.adopt("exit", |at| kernel.end_process(at, process, ProcessExit::Orderly));
        };
        internal::caught(end).ok()?;
        watch.observe(kernel.log());
        said.send(left).ok()
    };
    let reporter = signals::with_signals_blocked(|| std::thread::Builder::new().spawn(report));
    let ended = reporter.ok().and_then(|_| heard.recv_timeout(EXIT_TIMEOUT).ok());
    let left = match ended {
        Some(left) => left,
        None if internal::first().is_some() => Leaks::default(),
        None => {
            let mut left = describe_leaks(watch, tunnel);
            left.add_line("  (and they are not destroyed)");
            left
        }
    };
    note(watch.write(&left));
}

/// The live objects, each with the call that created it.
fn describe_leaks(watch: &Report, tunnel: &GlobalKernel) -> Leaks {
    tunnel.host.adopt("exit", |at| tunnel.session.collect_closed_nt_handles(at));
    watch.observe(tunnel.session.kernel().log());
    watch.leaks()
}
