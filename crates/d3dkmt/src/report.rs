//! The report at the end of the process: broken rules, and objects left alive with their creators.
//!
//! `WINDTUNNEL_REPORT=1` prints it to standard error, `WINDTUNNEL_REPORT=path` writes a file. With
//! `WINDTUNNEL_FAIL=1` alone it is printed to standard error if it has errors. A fault that ends the
//! process has its report, too ([`write_at_fault`]).
//!
//! # Invariants
//!
//! 1. Events are observed in order: they are taken from the log under the observer's lock.
//! 2. State is kept only for live objects (handles, threads inside a call) and for findings.
#![expect(unsafe_code, reason = "the C library calls it at process exit")]

use crate::call_site::CallSite;
use crate::faults::Fault;
use crate::global_kernel::GlobalKernel;
use crate::{exit_status, fork, global_kernel, internal, signals, standard_error};
use flight::{Component, EventKind, Kind, Log, Subject};
use kernel::ProcessExit;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use verify::{Finding, Severity, Verifier, plural, sentence};

/// The environment variable that requests a report.
const VARIABLE: &str = "WINDTUNNEL_REPORT";

/// How long process exit waits for the remaining objects to be destroyed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the report of a fault waits for a lock, which the thread of the fault may hold.
const FAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// Collects the report of a client.
pub(crate) struct Report {
    /// `None` if only a report with errors is requested, on standard error.
    to: Option<OsString>,
    /// The report is written, or is being written.
    written: AtomicBool,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    verifier: Verifier,
    /// The current call of each thread.
    calls: BTreeMap<u32, Arc<CallSite>>,
    /// Live handles, with the call that created each.
    handles: BTreeMap<u32, HandleOrigin>,
    /// What open NT handles refer to, with the call that shared it.
    nt_objects: BTreeMap<Subject, Option<Arc<CallSite>>>,
    /// For each finding of a client, by its index, the first call that broke the rule.
    breaches: BTreeMap<usize, Arc<CallSite>>,
}

/// A live handle.
struct HandleOrigin {
    of: Subject,
    created_at: Option<Arc<CallSite>>,
}

impl Report {
    /// An observer, if the environment requests a report.
    pub(crate) fn from_environment() -> Option<Self> {
        let to = std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && value != "0");
        let requested = to.is_some() || exit_status::is_requested();
        let written = AtomicBool::new(false);
        requested.then(|| Self { to, written, state: Mutex::default() })
    }

    /// A thread enters a call.
    pub(crate) fn enter(&self, thread: u32, call_site: CallSite) {
        self.state().calls.insert(thread, Arc::new(call_site));
    }

    /// Observes the events since the last call.
    pub(crate) fn observe(&self, log: &Log) {
        let state = &mut *self.state();
        log.read(|event| {
            let before = state.verifier.findings().len();
            state.verifier.observe(event);
            state.add_breaches(before, event.thread);
            match event.kind {
                EventKind::HandlePublished { handle, of: to } => {
                    let created_at = state.calls.get(&event.thread).cloned();
                    state.handles.insert(handle.0, HandleOrigin { of: to, created_at });
                }
                EventKind::HandleClosed { handle, .. } => {
                    state.handles.remove(&handle.0);
                }
                EventKind::NtObjectCreated { .. } => {
                    let created_at = state.calls.get(&event.thread).cloned();
                    state.nt_objects.insert(event.subject, created_at);
                }
                EventKind::NtObjectEnded {} => {
                    state.nt_objects.remove(&event.subject);
                }
                EventKind::Leave { .. } => {
                    state.calls.remove(&event.thread);
                }
                _ => (),
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, ReportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if it can be locked in this time.
    fn state_within(&self, time: Duration) -> Option<MutexGuard<'_, ReportState>> {
        let started = Instant::now();
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) if started.elapsed() > time => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Writes the report of everything that was observed, and of the objects left alive.
    fn write(&self, left: &Leaks) {
        let state = self.state();
        let has_errors = state.count(Severity::Error) > 0;
        let is_written = self.print(&text(&state, left, None), has_errors);
        // A report that is lost is not a good one.
        if has_errors || !is_written {
            exit_status::set_errors();
        }
    }

    /// Writes the text where it was requested. Returns whether it was written.
    fn print(&self, text: &str, has_errors: bool) -> bool {
        match &self.to {
            None if has_errors => standard_error::print(text),
            None => true,
            Some(to) if to == "1" => standard_error::print(text),
            Some(to) => {
                let write = || std::fs::write(to, text);
                let written = signals::with_broken_pipes_as_errors(write);
                if let Err(why) = &written {
                    standard_error::print_line(&format!(
                        "{} cannot be written: {why}",
                        to.display()
                    ));
                }
                written.is_ok()
            }
        }
    }
}

/// Writes the report of a client that a signal is about to end. If a handler of the client lets it go
/// on, the report at its exit replaces this one.
pub(crate) fn write_at_fault(kernel: &GlobalKernel, fault: &Fault) {
    let Some(report) = &kernel.report else { return };
    if report.written.load(Ordering::Acquire) {
        return;
    }
    // The thread of the fault may hold the lock of the log, if it was inside.
    if !fault.is_inside && internal::first().is_none() {
        report.observe(kernel.session.kernel().log());
    }
    write_in_time(report, Some(fault));
}

/// Writes the report without the kernel, if its state can be locked in time: a thread that was left
/// inside the library may hold the lock.
fn write_in_time(report: &Report, fault: Option<&Fault>) {
    let (text, has_errors) = if let Some(state) = report.state_within(FAULT_TIMEOUT) {
        (text(&state, &leaks(&state), fault), state.count(Severity::Error) > 0)
    } else {
        let end = fault.map(|fault| format!("\nended by {}\n", fault.sentence));
        let why = "the findings are not known: a thread ended inside the library";
        (format!("windtunnel: report\n{}\n{why}\n", end.unwrap_or_default()), true)
    };
    let is_written = report.print(&text, has_errors);
    if has_errors || !is_written {
        exit_status::set_errors();
    }
}

impl ReportState {
    /// Records the current call of the thread for the findings since `before`.
    fn add_breaches(&mut self, before: usize, thread: u32) {
        let Some(call_site) = self.calls.get(&thread) else { return };
        let new = self.verifier.findings().iter().enumerate().skip(before);
        let of_client = new.filter(|(_, finding)| finding.component == Component::Client);
        self.breaches.extend(of_client.map(|(index, _)| (index, call_site.clone())));
    }

    fn count(&self, severity: Severity) -> usize {
        let findings = self.verifier.findings().iter();
        findings.filter(|finding| finding.severity == severity).count()
    }
}

/// The objects that are left alive.
#[derive(Default)]
struct Leaks {
    count: usize,
    text: String,
}

/// Runs at process exit, after the client's exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static EXIT_HOOK: extern "C" fn() = write_at_exit;

/// Writes the report, once.
pub(crate) extern "C" fn write_at_exit() {
    if fork::is_forked_child() {
        return;
    }
    let Some(tunnel) = GlobalKernel::running() else { return };
    let Some(watch) = &tunnel.report else { return };
    if watch.written.swap(true, Ordering::AcqRel) {
        return;
    }
    tunnel.over.store(true, Ordering::Release);
    // `exit` in a signal handler that interrupted a call: this thread may hold any lock.
    if global_kernel::is_inside() {
        return write_in_time(watch, None);
    }
    if internal::first().is_some() {
        // The kernel is not called any more.
        return watch.write(&Leaks::default());
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
            left.text.push_str("  (and they are not destroyed)\n");
            left
        }
    };
    watch.write(&left);
}

/// The live objects, each with the call that created it.
fn describe_leaks(watch: &Report, tunnel: &GlobalKernel) -> Leaks {
    tunnel.host.adopt("exit", |at| tunnel.session.collect_closed_nt_handles(at));
    watch.observe(tunnel.session.kernel().log());
    leaks(&watch.state())
}

fn leaks(state: &ReportState) -> Leaks {
    let mut text = String::new();
    for (handle, name) in &state.handles {
        let (object, origin) = (describe_subject(name.of), origin(name.created_at.as_deref()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {handle:#010x} {object}: created by {origin}");
    }
    for (object, created_at) in &state.nt_objects {
        let origin = origin(created_at.as_deref());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {object}, which has an open NT handle: created by {origin}");
    }
    Leaks { count: state.handles.len() + state.nt_objects.len(), text }
}

/// The call that created an object, with its callers.
fn origin(created_at: Option<&CallSite>) -> String {
    let Some(call_site) = created_at else { return "a call that was not observed".to_owned() };
    let callers = call_site.callers().join("\n    called by ");
    format!("{}, called by {callers}", call_site.call)
}

/// The client's term for a subject.
fn describe_subject(subject: Subject) -> String {
    match subject.kind {
        Kind::View => format!("allocation ({subject})"),
        Kind::ResourceView => format!("resource ({subject})"),
        _ => subject.to_string(),
    }
}

/// The whole report.
fn text(state: &ReportState, left: &Leaks, fault: Option<&Fault>) -> String {
    let mut text = String::from("windtunnel: report\n");
    if let Some(fault) = fault {
        let _ = writeln!(text, "\nended by {}", fault.sentence);
        describe_callers(&mut text, &fault.callers);
    }
    for (index, finding) in state.verifier.findings().iter().enumerate() {
        text.push('\n');
        let call_site = state.breaches.get(&index);
        describe(&mut text, finding, call_site.map(|call_site| call_site.callers()));
        for consequence in &finding.consequences {
            let _ = writeln!(text, "  then     {}", consequence.line());
        }
    }
    if left.count > 0 {
        let _ = write!(text, "\nleft alive:\n{}", left.text);
    }
    let mut before = "\n";
    for (name, count) in state.verifier.missing() {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        let _ = writeln!(text, "{before}absent: {name}{times}");
        before = "";
    }
    if let Some(error) = internal::first() {
        let _ = writeln!(text, "\n{error}\n  not the client's fault; later events are not judged");
    }
    let of = |severity, noun| plural(state.count(severity), noun);
    let _ = writeln!(
        text,
        "\nwindtunnel: {}, {}, {}, {} left alive",
        of(Severity::Error, "error"),
        of(Severity::Warning, "warning"),
        of(Severity::Note, "note"),
        plural(left.count, "object"),
    );
    text
}

/// The functions that led to a place.
fn describe_callers(text: &mut String, callers: &[String]) {
    for (index, caller) in callers.iter().enumerate() {
        let label = if index == 0 { "called" } else { "" };
        let _ = writeln!(text, "  {label:<8} by {caller}");
    }
}

/// The text of a finding. Writing to a String cannot fail.
fn describe(text: &mut String, it: &Finding, callers: Option<Vec<String>>) {
    let times = if it.count > 1 { format!(" ({} times)", it.count) } else { String::new() };
    let rule = it.rule.name();
    let says = verify::find(rule).map_or("not in the catalogue", |entry| entry.rule.as_str());
    let _ = writeln!(text, "{}: {}{times}", it.severity.name(), sentence(&it.message));
    let _ = writeln!(text, "  who      {}, in {}", it.component.name(), it.argument);
    describe_callers(text, &callers.unwrap_or_default());
    let _ = writeln!(text, "  rule     {rule}: {says}");
    let _ = match it.basis {
        "ours" => writeln!(text, "  basis    ours: a rule of Windtunnel without a Microsoft page"),
        basis => writeln!(text, "  basis    {basis}: {}", it.source),
    };
    let _ = writeln!(text, "  Windows  {}", it.windows);
}
