//! The report at the end of the process: broken rules, and objects left alive with their creators.
//!
//! `WINDTUNNEL_REPORT=1` prints it to standard error, `WINDTUNNEL_REPORT=path` writes a file.
//!
//! # Invariants
//!
//! 1. Events are observed in their order: they are taken out of the log under the lock of the
//!    observer.
//! 2. What is remembered is about what is alive (names, and threads that are inside a call), and
//!    about what is in the report.
#![expect(unsafe_code, reason = "is called at the end of the process by the C library")]

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

/// The environment variable that asks for a report.
const VARIABLE: &str = "WINDTUNNEL_REPORT";

/// How long the end of a process waits for what is left to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Collects what the report says about a client.
pub(crate) struct Report {
    to: OsString,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    verifier: Verifier,
    /// The call each thread is in.
    calls: BTreeMap<u32, Arc<CallSite>>,
    /// Names that are alive, with the call that made them.
    handles: BTreeMap<u32, HandleOrigin>,
    /// The first call that broke a rule in a place, for each finding of a client.
    breaches: BTreeMap<(RuleId, String), Arc<CallSite>>,
}

/// A name that is alive.
struct HandleOrigin {
    of: Subject,
    created_at: Option<Arc<CallSite>>,
}

impl Report {
    /// A watch, if the environment asks for one.
    pub(crate) fn from_environment() -> Option<Self> {
        let to = std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && value != "0")?;
        Some(Self { to, state: Mutex::default() })
    }

    /// A thread enters a call.
    pub(crate) fn enter(&self, thread: u32, call_site: CallSite) {
        self.state().calls.insert(thread, Arc::new(call_site));
    }

    /// Watches what has happened since the last time.
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

/// Runs when the process ends, after what the client registered for its end.
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
        // The kernel is not asked for anything any more.
        return watch.write(&text(&watch.state(), ""));
    }
    // On a thread of its own: this one has lost what is local to it, and shall not wait for ever.
    let (said, heard) = channel();
    let report = move || {
        let left = describe_leaks(watch, tunnel);
        let kernel = tunnel.session.kernel();
        let process = tunnel.session.process();
        let end = || {
            tunnel.host.adopt("exit", |at| kernel.end_process(at, process, ProcessExit::Orderly))
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
        None => describe_leaks(watch, tunnel) + "  (and it does not end)\n",
    };
    watch.write(&text(&watch.state(), &left));
}

/// What is alive, by the call that made it.
fn describe_leaks(watch: &Report, tunnel: &GlobalKernel) -> String {
    watch.observe(tunnel.session.kernel().log());
    let state = watch.state();
    let mut text = String::new();
    for (handle, name) in &state.handles {
        let call_site = match &name.created_at {
            Some(call_site) => format!("{}, called by {}", call_site.call, call_site.caller()),
            None => "a call that was not seen".to_owned(),
        };
        // Writing to a String does not fail.
        let _ =
            writeln!(text, "  {handle:#010x} {}: made by {call_site}", describe_subject(name.of));
    }
    text
}

/// What a client calls it.
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
        let _ = writeln!(text, "\n{error}\n  not the client's; nothing after it is judged");
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let _ = writeln!(
        text,
        "\nwindtunnel: {} errors, {} warnings, {} notes, {} things left alive",
        of(Severity::Error),
        of(Severity::Warning),
        of(Severity::Note),
        left.lines().count(),
    );
    text
}

/// A finding, for people. Writing to a String does not fail.
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
        "ours" => writeln!(text, "  basis    ours: a rule of Windtunnel, with no page behind it"),
        basis => writeln!(text, "  basis    {basis}: {}", it.source),
    };
    let _ = writeln!(text, "  Windows  {}", it.windows);
}
