//! The report at the end of the process: broken rules, and objects left alive with their creators.
//!
//! `WINDTUNNEL_REPORT=1` prints it to standard error, `WINDTUNNEL_REPORT=path` writes a file.
//!
//! # Invariants
//!
//! 1. Events are observed in order: they are taken from the log under the observer's lock.
//! 2. State is kept only for live objects (handles, threads inside a call) and for findings.
#![expect(unsafe_code, reason = "the C library calls it at process exit")]

use crate::call_site::CallSite;
use crate::global_kernel::GlobalKernel;
use crate::{fork, internal, signals};
use flight::{Component, EventKind, Kind, Log, RuleId, Subject};
use kernel::ProcessExit;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use verify::{Finding, Severity, Verifier};

/// The environment variable that requests a report.
const VARIABLE: &str = "WINDTUNNEL_REPORT";

/// How long process exit waits for the remaining objects to be destroyed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Collects the report of a client.
pub(crate) struct Report {
    to: OsString,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    verifier: Verifier,
    /// The current call of each thread.
    calls: BTreeMap<u32, Arc<CallSite>>,
    /// Live handles, with the call that created each.
    handles: BTreeMap<u32, HandleOrigin>,
    /// For each finding of a client, the first call that broke the rule.
    breaches: BTreeMap<(RuleId, String), Arc<CallSite>>,
}

/// A live handle.
struct HandleOrigin {
    of: Subject,
    created_at: Option<Arc<CallSite>>,
}

impl Report {
    /// An observer, if the environment requests a report.
    pub(crate) fn from_environment() -> Option<Self> {
        let to = std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && value != "0")?;
        Some(Self { to, state: Mutex::default() })
    }

    /// A thread enters a call.
    pub(crate) fn enter(&self, thread: u32, call_site: CallSite) {
        self.state().calls.insert(thread, Arc::new(call_site));
    }

    /// Observes the events since the last call.
    pub(crate) fn observe(&self, log: &Log) {
        let mut state = self.state();
        for event in log.take() {
            state.verifier.observe(&event);
            match event.kind {
                EventKind::HandlePublished { handle, of: to } => {
                    let created_at = state.calls.get(&event.thread).cloned();
                    state.handles.insert(handle.0, HandleOrigin { of: to, created_at });
                }
                EventKind::HandleClosed { handle, .. } => {
                    state.handles.remove(&handle.0);
                }
                EventKind::RuleBroken {
                    rule,
                    component: Component::Client,
                    argument: place,
                    ..
                } => {
                    if let Some(call_site) = state.calls.get(&event.thread).cloned() {
                        state.breaches.entry((rule, place.into_owned())).or_insert(call_site);
                    }
                }
                EventKind::Leave { .. } => {
                    state.calls.remove(&event.thread);
                }
                _ => (),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ReportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, text: &str) {
        let done = if self.to == "1" {
            eprint!("{text}");
            Ok(())
        } else {
            std::fs::write(&self.to, text)
        };
        if let Err(why) = done {
            eprintln!("windtunnel: {} cannot be written: {why}", self.to.display());
        }
    }
}

/// Runs at process exit, after the client's exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static EXIT_HOOK: extern "C" fn() = write_at_exit;

extern "C" fn write_at_exit() {
    if fork::is_forked_child() {
        return;
    }
    let Some(tunnel) = GlobalKernel::running() else { return };
    let Some(watch) = &tunnel.report else { return };
    tunnel.over.store(true, Ordering::Release);
    if internal::first().is_some() {
        // The kernel is not called any more.
        return watch.write(&text(&watch.state(), ""));
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
        None if internal::first().is_some() => String::new(),
        None => describe_leaks(watch, tunnel) + "  (and they are not destroyed)\n",
    };
    watch.write(&text(&watch.state(), &left));
}

/// The live objects, each with the call that created it.
fn describe_leaks(watch: &Report, tunnel: &GlobalKernel) -> String {
    watch.observe(tunnel.session.kernel().log());
    let state = watch.state();
    let mut text = String::new();
    for (handle, name) in &state.handles {
        let call_site = match &name.created_at {
            Some(call_site) => format!("{}, called by {}", call_site.call, call_site.caller()),
            None => "a call that was not observed".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {handle:#010x} {}: created by {call_site}",
            describe_subject(name.of)
        );
    }
    text
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
fn text(state: &ReportState, left: &str) -> String {
    let findings = state.verifier.findings();
    let mut text = String::from("windtunnel: report\n");
    for it in findings {
        text.push('\n');
        let call_site = state.breaches.get(&(it.rule, it.argument.clone()));
        describe(&mut text, it, call_site.map(|call_site| call_site.caller()));
    }
    if !left.is_empty() {
        let _ = write!(text, "\nleft alive:\n{left}");
    }
    if let Some(error) = internal::first() {
        let _ = writeln!(text, "\n{error}\n  not the client's fault; later events are not judged");
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let _ = writeln!(
        text,
        "\nwindtunnel: {} errors, {} warnings, {} notes, {} objects left alive",
        of(Severity::Error),
        of(Severity::Warning),
        of(Severity::Note),
        left.lines().count(),
    );
    text
}

/// The text of a finding. Writing to a String cannot fail.
fn describe(text: &mut String, it: &Finding, caller: Option<String>) {
    let times = if it.count > 1 { format!(" ({} times)", it.count) } else { String::new() };
    let rule = it.rule.name();
    let says = verify::find(rule).map_or("not in the catalogue", |entry| entry.rule.as_str());
    let _ = writeln!(text, "{}: {}{times}", it.severity.name(), it.message);
    let _ = writeln!(text, "  who      {}, in {}", it.component.name(), it.argument);
    if let Some(caller) = caller {
        let _ = writeln!(text, "  called   by {caller}");
    }
    let _ = writeln!(text, "  rule     {rule}: {says}");
    let _ = match it.basis {
        "ours" => writeln!(text, "  basis    ours: a rule of Windtunnel without a Microsoft page"),
        basis => writeln!(text, "  basis    {basis}: {}", it.source),
    };
    let _ = writeln!(text, "  Windows  {}", it.windows);
}
