//! The report of a kernel's clients: broken rules, and objects left alive with their creators.
//!
//! # Invariants
//!
//! 1. Events are observed in order: they are taken from the log under the observer's lock.
//! 2. State is kept only for live objects (handles, threads inside a call) and for findings.

use crate::call_site::CallSite;
use crate::forced_end::DriverFault;
use crate::refused_calls::RefusedCalls;
use crate::{fault_here, internal, signals, standard_error};
use abi::NTSTATUS;
use flight::{Component, Event, EventKind, InternalError, Kind, Log, Subject};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use verify::{Finding, Severity, Verifier, plural, sentence};

/// How long the report of a forced end waits for a lock, which the thread of a fault may hold.
const FAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// Collects the report of clients.
#[derive(Default)]
pub struct Report {
    /// `None` if only a report with errors is requested, on standard error.
    to: Option<OsString>,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    verifier: Verifier,
    /// The current call of each thread.
    calls: BTreeMap<u32, Arc<CallSite>>,
    /// Live handles by process, with the call that created each.
    handles: BTreeMap<(Subject, u32), HandleOrigin>,
    /// What open NT handles refer to, with the call that shared it.
    nt_objects: BTreeMap<Subject, Option<Arc<CallSite>>>,
    /// For each finding of a client, by its index, the first call that broke the rule.
    breaches: BTreeMap<usize, Arc<CallSite>>,
    refused: RefusedCalls,
}

/// A live handle.
struct HandleOrigin {
    of: Subject,
    created_at: Option<Arc<CallSite>>,
}

/// A fault that ended a client, or a server.
#[derive(Clone, Copy, Debug)]
pub struct FaultText<'a> {
    /// What ended the process, where, and who is to blame.
    pub sentence: &'a str,
    /// The client's functions that led to it, the innermost first.
    pub callers: &'a [String],
}

/// The objects that are left alive.
#[derive(Debug, Default)]
pub struct Leaks {
    count: usize,
    text: String,
}

impl Leaks {
    /// Adds those of another process, or a remark.
    pub fn add(&mut self, other: &Leaks) {
        self.count += other.count;
        self.text.push_str(&other.text);
    }

    /// Adds an object.
    pub fn add_object(&mut self, text: &str) {
        self.count += 1;
        self.add_line(&format!("  {text}"));
    }

    /// Adds a line.
    pub fn add_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Whether nothing is left alive.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// How a report was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenReport {
    /// Without errors.
    Clean,
    /// With errors, or it could not be written: a report that is lost is not a good one.
    Bad,
}

impl Report {
    /// A report that is written to a file, or to standard error (`1`); with `None` to standard error
    /// if there are errors.
    pub fn new(to: Option<OsString>) -> Self {
        Self { to, state: Mutex::default() }
    }

    /// Runs a call on this thread, and observes its events and why it was refused.
    pub fn call(
        &self,
        log: &Log,
        call_site: CallSite,
        call: impl FnOnce() -> NTSTATUS,
    ) -> NTSTATUS {
        let call_site = Arc::new(call_site);
        self.state().calls.insert(flight::current_thread(), call_site.clone());
        let (status, refusal) = thunk::with_refusal(call);
        let mut state = self.state();
        state.observe(log);
        if let Some(refusal) = refusal {
            state.refused.add(call_site, refusal);
        }
        status
    }

    /// Observes the events since the last call.
    pub fn observe(&self, log: &Log) {
        self.state().observe(log);
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

    /// Whether a rule was broken so that the kernel's clients or its driver fail.
    pub fn has_errors(&self) -> bool {
        self.state().count(Severity::Error) > 0
    }

    /// The live handles and NT objects, each with the call that created it.
    pub fn leaks(&self) -> Leaks {
        leaks(&self.state(), None)
    }

    /// The live handles of a process, each with the call that created it.
    pub fn leaks_of(&self, process: Subject) -> Leaks {
        leaks(&self.state(), Some(process))
    }

    /// Writes the report of everything that was observed, and of the objects left alive.
    pub fn write(&self, left: &Leaks) -> WrittenReport {
        let state = self.state();
        let has_errors = state.count(Severity::Error) > 0;
        let text = text(&state, left, None);
        drop(state);
        self.finish(&text, has_errors)
    }

    /// Writes the report without the kernel, if its state can be locked in this time: a thread that
    /// was left inside the library may hold the lock.
    pub fn write_in_time(&self, time: Duration, fault: Option<FaultText<'_>>) -> WrittenReport {
        let (text, has_errors) = if let Some(state) = self.state_within(time) {
            (text(&state, &leaks(&state, None), fault), state.count(Severity::Error) > 0)
        } else {
            let end = fault.map(|fault| format!("\nended by {}\n", fault.sentence));
            let why = "the findings are not known: a thread ended inside the library";
            (format!("windtunnel: report\n{}\n{why}\n", end.unwrap_or_default()), true)
        };
        self.finish(&text, has_errors)
    }

    /// Writes the report of a process whose driver has ended it: with the finding on the fault, without
    /// the live objects of clients that are still there.
    pub fn write_at_driver_fault(&self, log: &Log, fault: &DriverFault, left: &Leaks) {
        let ended_by = FaultText { sentence: &fault.ended_by, callers: &fault.callers };
        let Some(mut state) = self.state_within(FAULT_TIMEOUT) else {
            self.write_in_time(Duration::ZERO, Some(ended_by));
            return;
        };
        state.observe(log);
        if let Some(event) = &fault.finding {
            state.verifier.observe(&Event { seq: log.last_seq() + 1, ..event.clone() });
        }
        let text = text(&state, left, Some(ended_by));
        self.print(&text, true);
    }

    /// Writes the report of a server that an internal error has ended. What happened since the last
    /// call that returned is not judged.
    pub(crate) fn write_at_internal_error(&self, error: &InternalError, left: &Leaks) {
        if let Some(state) = self.state_within(FAULT_TIMEOUT) {
            self.print(&text(&state, left, None), true);
        } else {
            let ended_by = FaultText { sentence: &error.to_string(), callers: &[] };
            self.write_in_time(Duration::ZERO, Some(ended_by));
        }
    }

    /// Whether the report is written to standard error.
    pub fn is_on_standard_error(&self) -> bool {
        self.to.as_ref().is_none_or(|to| to == "1")
    }

    fn finish(&self, text: &str, has_errors: bool) -> WrittenReport {
        let is_written = self.print(text, has_errors);
        if has_errors || !is_written { WrittenReport::Bad } else { WrittenReport::Clean }
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

impl ReportState {
    /// Observes the events since the last call.
    fn observe(&mut self, log: &Log) {
        let state = self;
        log.read(|event| {
            let before = state.verifier.findings().len();
            state.verifier.observe(event);
            state.add_breaches(before, event.thread);
            match event.kind {
                EventKind::HandlePublished { handle, of: to } => {
                    let created_at = state.calls.get(&event.thread).cloned();
                    let key = (event.subject, handle.0);
                    state.handles.insert(key, HandleOrigin { of: to, created_at });
                }
                EventKind::HandleClosed { handle, .. } => {
                    state.handles.remove(&(event.subject, handle.0));
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

/// The live objects, of a process or of all.
fn leaks(state: &ReportState, of: Option<Subject>) -> Leaks {
    let (mut text, mut count) = (String::new(), 0);
    let mine = |key: &(Subject, u32)| of.is_none_or(|process| process == key.0);
    for ((_, handle), name) in state.handles.iter().filter(|pair| mine(pair.0)) {
        count += 1;
        let (object, origin) = (describe_subject(name.of), origin(name.created_at.as_deref()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {handle:#010x} {object}: created by {origin}");
    }
    for (object, created_at) in state.nt_objects.iter().filter(|_| of.is_none()) {
        count += 1;
        let origin = origin(created_at.as_deref());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {object}, which has an open NT handle: created by {origin}");
    }
    Leaks { count, text }
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
fn text(state: &ReportState, left: &Leaks, fault: Option<FaultText<'_>>) -> String {
    let mut text = String::from("windtunnel: report\n");
    if let Some(fault) = fault {
        let _ = writeln!(text, "\nended by {}", fault.sentence);
        describe_callers(&mut text, fault.callers);
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
    state.refused.describe(&mut text);
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
    fault_here::name_code_here(text)
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
    let _ = match it.source {
        "ours" => writeln!(text, "  basis    ours: a rule of Windtunnel without a Microsoft page"),
        source => writeln!(text, "  basis    {}: {source}", it.basis),
    };
    let _ = writeln!(text, "  Windows  {}", it.windows);
}
