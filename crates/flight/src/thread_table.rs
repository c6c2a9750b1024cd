//! The virtual threads of a host, and whom to wake when none of them could go on.
//!
//! Both hosts keep this table under their own lock; how a thread that is ready gets to run is
//! theirs.
//!
//! # Invariants
//!
//! 1. A thread is ready, or waits, or is not there (away or done). One that is rung while it
//!    waits is ready at once.
//! 2. When none is ready: those who wait for quiet go on; else the earliest deadline passes;
//!    else the first client that waits is stuck (for something before for another's end);
//!    else the run is over, if it is to end at all.
//! 3. While somebody is away, a wait for what clients do is neither stuck nor due: its host lets
//!    its time pass.

use crate::host::{WaitResult, WaitToken};
use crate::sync::Condvar;
use crate::{EventKind, InternalError, Log, Subject, Text};
use std::any::Any;
use std::fmt::Write as _;
use std::sync::Arc;

/// How many of the last events the message of an internal error has.
const LAST_EVENTS: usize = 12;

/// A virtual thread panicked: ours, not a driver's, for a driver's panic is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError(pub String);

/// What a virtual thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It does something of its own: a run is not over before it has ended.
    Client,
    /// It serves others, and ends when they have.
    Worker,
}

/// The virtual threads of a host.
#[derive(Debug, Default)]
pub(crate) struct ThreadTable {
    now: u64,
    /// Threads may come that were never here.
    pub(crate) allows_external: bool,
    pub(crate) threads: Vec<Thread>,
    panicked: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Thread {
    name: String,
    role: Role,
    pub(crate) status: Status,
    /// Rung when it may run.
    pub(crate) turn: Arc<Condvar>,
}

#[derive(Debug)]
pub(crate) enum Status {
    Ready(WaitResult),
    Parked(WaitToken, Option<u64>),
    /// It goes on when nothing else can.
    WaitingForIdle,
    /// Its owner is elsewhere, and may come back to it.
    Outside,
    Done,
}

impl Thread {
    fn new(name: &str, role: Role) -> Self {
        let (name, turn) = (name.to_owned(), Arc::default());
        Self { name, role, status: Status::Ready(WaitResult::Woken), turn }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.status, Status::Ready(_))
    }
}

impl ThreadTable {
    /// Adds a virtual thread, and says so. Answers its number.
    pub(crate) fn add(&mut self, name: &str, role: Role, log: &Log) -> usize {
        self.threads.push(Thread::new(name, role));
        let number = self.threads.len() - 1;
        log_started(number, name, log);
        number
    }

    /// Adds a client in the place of one that is done, if there is one: numbers stay small.
    pub(crate) fn add_external(&mut self, name: &str, log: &Log) -> usize {
        let done = |thread: &Thread| matches!(thread.status, Status::Done);
        let Some(number) = self.threads.iter().position(done) else {
            return self.add(name, Role::Client, log);
        };
        self.threads[number] = Thread::new(name, Role::Client);
        log_started(number, name, log);
        number
    }

    /// What time it is.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Time has passed, outside.
    pub(crate) fn advance_time(&mut self, until: u64) {
        self.now = self.now.max(until);
    }

    /// Whether somebody is away, and may come back.
    pub(crate) fn any_outside(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread.status, Status::Outside))
    }

    /// Whether somebody who is not here may do what is waited for.
    fn can_be_woken(&self, token: &WaitToken) -> bool {
        token.is_for_clients()
            && (self.any_outside() || (self.allows_external && token.is_for_external_threads()))
    }

    /// The deadline of a thread that waits has passed.
    pub(crate) fn time_out(&mut self, current_thread: usize) {
        if let Status::Parked(_, Some(deadline)) = self.threads[current_thread].status {
            self.advance_time(deadline);
            self.threads[current_thread].status = Status::Ready(WaitResult::TimedOut);
        }
    }

    /// The numbers of those that are ready.
    pub(crate) fn ready(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().enumerate().filter(|(_, it)| it.is_ready()).map(|(number, _)| number)
    }

    /// Rings a ticket. Answers who is ready now because of it.
    pub(crate) fn wake(&mut self, token: &WaitToken) -> Option<usize> {
        let parked = |thread: &Thread| matches!(&thread.status, Status::Parked(enabled, _) if enabled.same_as(token));
        let found = self.threads.iter().position(parked);
        match found {
            Some(number) => self.threads[number].status = Status::Ready(WaitResult::Woken),
            None => token.set(),
        }
        found
    }

    /// How the wait of a thread that is ready again ended.
    pub(crate) fn take_result(&mut self, current_thread: usize) -> WaitResult {
        match std::mem::replace(
            &mut self.threads[current_thread].status,
            Status::Ready(WaitResult::Woken),
        ) {
            Status::Ready(woken) => woken,
            Status::Parked(..) | Status::WaitingForIdle | Status::Outside | Status::Done => {
                WaitResult::HostEnded
            }
        }
    }

    /// A thread has ended, perhaps with a panic.
    pub(crate) fn finish(&mut self, current_thread: usize, panicked: Option<String>) {
        self.threads[current_thread].status = Status::Done;
        if let Some(why) = panicked {
            self.panicked.get_or_insert(format!("{}: {why}", self.threads[current_thread].name));
        }
    }

    /// What became of a run whose threads have all ended.
    pub(crate) fn result<R, P>(&mut self, answer: Result<R, P>) -> Result<R, HostError> {
        match (answer, self.panicked.take()) {
            (Ok(answer), None) => Ok(answer),
            (_, why) => Err(HostError(why.unwrap_or_default())),
        }
    }

    /// Nobody is ready: invariant 2. `ends` is whether the run is over when nobody has anything
    /// left to do. Answers whether somebody is ready now.
    pub(crate) fn wake_one(&mut self, ends: bool) -> bool {
        let quiet = |thread: &Thread| matches!(thread.status, Status::WaitingForIdle);
        if let Some(next) = self.threads.iter().position(quiet) {
            self.threads[next].status = Status::Ready(WaitResult::Woken);
            return true;
        }
        let due = |(index, it): (usize, &Thread)| match &it.status {
            Status::Parked(token, _) if self.can_be_woken(token) => None,
            Status::Parked(_, Some(deadline)) => Some((*deadline, index)),
            _ => None,
        };
        if let Some((_, next)) = self.threads.iter().enumerate().filter_map(due).min() {
            self.time_out(next);
            return true;
        }
        // Whoever waits for another's end is not the one that is stuck, if there is one.
        let stuck = |thread: &Thread, end: bool| match &thread.status {
            Status::Parked(token, _) if self.can_be_woken(token) => false,
            Status::Parked(token, _) => thread.role == Role::Client && token.is_thread_end() == end,
            _ => false,
        };
        let first = |end| self.threads.iter().position(|thread| stuck(thread, end));
        if let Some(next) = first(false).or_else(|| first(true)) {
            let graph = self.graph();
            self.threads[next].status = Status::Ready(WaitResult::Stuck(graph));
            return true;
        }
        let parked = |thread: &Thread| matches!(thread.status, Status::Parked(..));
        if self.threads.iter().any(|thread| parked(thread) && thread.role == Role::Client) {
            return false; // It waits for one that is away: those who serve are needed yet.
        }
        let servers = self.threads.iter_mut().filter(|thread| parked(thread));
        let mut woken = false;
        for server in servers.filter(|_| ends) {
            server.status = Status::Ready(WaitResult::HostEnded);
            woken = true;
        }
        woken
    }

    /// Who waits for what, in words.
    fn graph(&self) -> Text {
        let mut graph = String::new();
        for thread in &self.threads {
            if let Status::Parked(token, _) = &thread.status {
                let comma = if graph.is_empty() { "" } else { "; " };
                // Writing to a String does not fail.
                let _ = write!(graph, "{comma}{} waits for {}", thread.name, token.why());
            }
        }
        graph.into()
    }
}

fn log_started(number: usize, name: &str, log: &Log) {
    let name = format!("{number} {name}");
    log.emit(Subject::RUN, EventKind::ThreadStarted { name: name.into() });
}

/// The message of a panic. That of an internal error ends with the last events of the log, one per
/// line.
pub(crate) fn panic_message(panic: &(dyn Any + Send), log: &Log) -> String {
    if let Some(error) = panic.downcast_ref::<InternalError>() {
        let mut message = format!("{error}; the last events:");
        for event in log.last_events(LAST_EVENTS) {
            // Writing to a String does not fail.
            let _ = write!(message, "\n  {event}");
        }
        return message;
    }
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}
