//! The virtual threads of a host. Selects the next thread when none is ready.
//!
//! Both hosts keep this table under their own lock. A host decides how a ready thread gets to run;
//! the table does not.
//!
//! # Invariants
//!
//! 1. A thread is ready, waiting, outside or done. A waiting thread whose token is woken is ready
//!    at once.
//! 2. When no thread is ready, the first case that applies decides: a thread that waits for idle
//!    becomes ready; the earliest deadline passes; the first waiting client thread is stuck, where
//!    a thread whose driver waits comes first, of a worker, too, and a thread that waits for the end
//!    of another thread comes last; the run is over, if the host is to end.
//! 3. While a client thread is outside, or may come, a wait for clients is neither stuck nor timed out
//!    by the table: the host lets real time pass.
//! 4. An adopted thread has a [`Seat`], which says whether it is inside. The thread enters and leaves
//!    without the host's lock.
//!
//! # Threads of a driver
//!
//! A thread that a driver started ([`Role::Driver`]), or that runs its DPCs, timers and work items
//! ([`Role::DriverWorker`]), waits as long as it likes: it is never stuck, and it does not keep the
//! run alive. When the run is over its wait ends with [`WaitResult::HostEnded`].
//!
//! Its deadlines take part in virtual time, in order with all others. But a driver that polls every
//! millisecond would make time pass without end, so its deadlines pass within limits only:
//!
//! - While a thread waits for idle, a driver's deadlines pass for [`IDLE_TIME`] from the moment at
//!   which no thread was ready, and for at most [`IDLE_TURNS`] deadlines. So work that a driver
//!   finishes by polling is done when the wait for idle ends, and the wait ends. A deadline of
//!   another thread that is earlier passes first. Without a driver's deadline in that time, no
//!   deadline passes, as in a run without driver threads.
//! - While client threads wait, a driver's deadlines pass until one of the client threads
//!   continues. If no other thread has a deadline, that takes at most [`PATIENCE`]; then the client
//!   threads are stuck. After [`PATIENCE_TURNS`] deadlines of drivers the next deadline of another
//!   thread passes, even if it is later: the driver oversleeps.
//! - When all client threads are done, no deadline of a driver passes.

use crate::host::{WaitResult, WaitToken};
use crate::internal::NO_RESOURCES;
use crate::sync::Condvar;
use crate::{EventKind, FlightOver, InternalError, Log, NoResources, Subject, Text};
use std::any::Any;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of events in the message of an internal error.
const LAST_EVENTS: usize = 12;

/// The time, in units of 100 ns, for which a driver's deadlines pass during a wait for idle: 50 ms.
const IDLE_TIME: u64 = 500_000;
/// Number of deadlines that pass at most during a wait for idle.
const IDLE_TURNS: u32 = 1_000;
/// The time for which a driver's deadlines pass while client threads wait without a deadline: 10 s.
const PATIENCE: u64 = 100_000_000;
/// Number of a driver's deadlines that pass at most while no client thread continues.
const PATIENCE_TURNS: u32 = 20_000;

/// A virtual thread panicked in Windtunnel's own code, or the machine has no resources left. A
/// driver's panic is a `DriverError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError(pub String);

impl HostError {
    /// Whether the machine had no memory or no threads left: that is no fault of Windtunnel.
    pub fn is_no_resources(&self) -> bool {
        self.0.contains(NO_RESOURCES)
    }
}

/// The purpose of a virtual thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It does its own work: the run is not over before the thread has ended.
    Client,
    /// It serves client threads, and ends after they have ended.
    Worker,
    /// The driver started it. It may wait for ever; the run does not wait for it.
    Driver,
    /// It runs the DPCs, timers and work items of a driver, and ends after the client threads.
    DriverWorker,
}

impl Role {
    /// Whether it waits on behalf of a driver, so that its deadlines pass within limits.
    fn is_of_driver(self) -> bool {
        matches!(self, Role::Driver | Role::DriverWorker)
    }
}

/// The virtual threads of a host.
#[derive(Debug, Default)]
pub(crate) struct ThreadTable {
    now: u64,
    /// Threads that are not in the table may still enter the host.
    pub(crate) allows_external: bool,
    /// So may threads of clients that are not there yet.
    pub(crate) expects_clients: bool,
    pub(crate) threads: Vec<Thread>,
    panicked: Option<String>,
    limits: DriverLimits,
}

/// What is left of the limits for the deadlines of drivers.
#[derive(Debug, Default)]
struct DriverLimits {
    /// The end of the time that a wait for idle lasts, and the number of deadlines that have
    /// passed in it.
    idle: Option<(u64, u32)>,
    /// When a client thread last continued.
    client_continued: u64,
    /// Number of deadlines of drivers that have passed since.
    turns: u32,
}

#[derive(Debug)]
pub(crate) struct Thread {
    name: String,
    role: Role,
    pub(crate) status: Status,
    /// Notified when the thread may run.
    pub(crate) turn: Arc<Condvar>,
    /// Of a thread that the host did not start.
    seat: Option<Arc<Seat>>,
}

/// Whether an adopted thread is inside its host. Only that thread changes it.
///
/// All operations are sequentially consistent, so that a thread which leaves and one which begins to
/// wait cannot miss each other.
#[derive(Debug, Default)]
pub(crate) struct Seat(AtomicBool);

impl Seat {
    /// Enters. Returns whether the thread was outside.
    pub(crate) fn enter(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn is_inside(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
pub(crate) enum Status {
    Ready(WaitResult),
    Parked(WaitToken, Option<u64>),
    /// It continues when no other thread can.
    WaitingForIdle,
    /// An adopted thread that does not wait: it is ready if its seat says that it is inside. Else it
    /// has left the host, and may return.
    Adopted,
    Done,
}

impl Thread {
    fn new(name: &str, role: Role) -> Self {
        let (name, turn) = (name.to_owned(), Arc::default());
        Self { name, role, status: Status::Ready(WaitResult::Woken), turn, seat: None }
    }

    /// Makes it an adopted thread, which is outside.
    pub(crate) fn adopt(&mut self) -> Arc<Seat> {
        self.status = Status::Adopted;
        self.seat.insert(Arc::default()).clone()
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self.status {
            Status::Ready(_) => true,
            Status::Adopted => self.is_seated(),
            Status::Parked(..) | Status::WaitingForIdle | Status::Done => false,
        }
    }

    /// Whether it has left the host, and may return.
    fn is_outside(&self) -> bool {
        matches!(self.status, Status::Adopted) && !self.is_seated()
    }

    fn is_seated(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.is_inside())
    }

    /// Whether it waits for something that may happen when no other thread is ready. A worker that
    /// waits for work does not.
    fn waits_for_others(&self) -> bool {
        match &self.status {
            Status::WaitingForIdle => true,
            Status::Parked(_, deadline) => deadline.is_some() || self.role == Role::Client,
            Status::Ready(_) | Status::Adopted | Status::Done => false,
        }
    }
}

impl ThreadTable {
    /// Adds a virtual thread, logs its start and returns its number.
    pub(crate) fn add(&mut self, name: &str, role: Role, log: &Log) -> usize {
        self.threads.push(Thread::new(name, role));
        let number = self.threads.len() - 1;
        log_started(number, name, log);
        number
    }

    /// Adds a client thread. Reuses the entry of a thread that is done, so that numbers stay small.
    pub(crate) fn add_external(&mut self, name: &str, log: &Log) -> usize {
        let done = |thread: &Thread| matches!(thread.status, Status::Done);
        let Some(number) = self.threads.iter().position(done) else {
            return self.add(name, Role::Client, log);
        };
        self.threads[number] = Thread::new(name, Role::Client);
        log_started(number, name, log);
        number
    }

    /// The virtual time.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Advances the time; it never goes back.
    pub(crate) fn advance_time(&mut self, until: u64) {
        self.now = self.now.max(until);
    }

    /// Whether a thread is outside and may return.
    fn any_outside(&self) -> bool {
        self.threads.iter().any(Thread::is_outside)
    }

    /// Whether a client's thread may enter that is not inside.
    pub(crate) fn may_client_enter(&self) -> bool {
        self.expects_clients || self.any_outside()
    }

    /// Whether the table must select a thread when no thread is ready: see [`ThreadTable::wake_one`].
    pub(crate) fn any_waits_for_others(&self) -> bool {
        self.threads.iter().any(Thread::waits_for_others)
    }

    /// Whether a thread that is not inside the host may wake the token.
    fn can_be_woken(&self, token: &WaitToken) -> bool {
        token.is_for_clients()
            && (self.may_client_enter()
                || (self.allows_external && token.is_for_external_threads()))
    }

    /// Ends the wait of a thread whose deadline has passed.
    pub(crate) fn time_out(&mut self, current_thread: usize) {
        if let Status::Parked(_, Some(deadline)) = self.threads[current_thread].status {
            self.advance_time(deadline);
            self.threads[current_thread].status = Status::Ready(WaitResult::TimedOut);
        }
    }

    /// The numbers of the ready threads.
    pub(crate) fn ready(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().enumerate().filter(|(_, it)| it.is_ready()).map(|(number, _)| number)
    }

    /// Wakes a token. Returns the thread that becomes ready.
    pub(crate) fn wake(&mut self, token: &WaitToken) -> Option<usize> {
        let parked = |thread: &Thread| matches!(&thread.status, Status::Parked(enabled, _) if enabled.same_as(token));
        let found = self.threads.iter().position(parked);
        match found {
            Some(number) => self.threads[number].status = Status::Ready(WaitResult::Woken),
            None => token.set(),
        }
        found
    }

    /// Returns how the wait of a thread that is ready again ended.
    pub(crate) fn take_result(&mut self, current_thread: usize) -> WaitResult {
        self.note_progress(current_thread);
        let thread = &mut self.threads[current_thread];
        let running = match thread.seat {
            Some(_) => Status::Adopted,
            None => Status::Ready(WaitResult::Woken),
        };
        match std::mem::replace(&mut thread.status, running) {
            Status::Ready(woken) => woken,
            Status::Parked(..) | Status::WaitingForIdle | Status::Adopted | Status::Done => {
                WaitResult::HostEnded
            }
        }
    }

    /// Marks a thread as done, and records its panic if it panicked.
    pub(crate) fn finish(&mut self, current_thread: usize, panicked: Option<String>) {
        self.threads[current_thread].status = Status::Done;
        if let Some(why) = panicked {
            self.panicked.get_or_insert(format!("{}: {why}", self.threads[current_thread].name));
        }
    }

    /// The result of a run whose threads have all ended.
    pub(crate) fn result<R, P>(&mut self, answer: Result<R, P>) -> Result<R, HostError> {
        match (answer, self.panicked.take()) {
            (Ok(answer), None) => Ok(answer),
            (_, why) => Err(HostError(why.unwrap_or_default())),
        }
    }

    /// Selects the next thread when no thread is ready (invariant 2). If `ends`, the run is over
    /// when no client thread has work left. Returns whether a thread is ready now.
    pub(crate) fn wake_one(&mut self, ends: bool) -> bool {
        let quiet = |thread: &Thread| matches!(thread.status, Status::WaitingForIdle);
        if let Some(idle) = self.threads.iter().position(quiet) {
            if let Some(next) = self.next_due_while_idle() {
                self.time_out(next);
                return true;
            }
            self.limits.idle = None;
            self.note_progress(idle);
            self.threads[idle].status = Status::Ready(WaitResult::Woken);
            return true;
        }
        if let Some(next) = self.next_due() {
            self.time_out(next);
            return true;
        }
        if let Some(next) = self.first_stuck() {
            let graph = self.graph();
            self.threads[next].status = Status::Ready(WaitResult::Stuck(graph));
            return true;
        }
        let parked = |thread: &Thread| matches!(thread.status, Status::Parked(..));
        if self.threads.iter().any(|thread| parked(thread) && thread.role == Role::Client) {
            return false; // It waits for a thread that is outside: workers are still needed.
        }
        let servers = self.threads.iter_mut().filter(|thread| parked(thread));
        let mut woken = false;
        for server in servers.filter(|_| ends) {
            server.status = Status::Ready(WaitResult::HostEnded);
            woken = true;
        }
        woken
    }

    /// The thread whose wait nothing can end. Others may wait for a thread in a driver, so that one
    /// comes first; a thread that waits for the end of another thread comes last.
    fn first_stuck(&self) -> Option<usize> {
        let first = |is_next: &dyn Fn(Role, &WaitToken) -> bool| {
            self.threads.iter().position(|thread| match &thread.status {
                Status::Parked(token, _) => {
                    !self.can_be_woken(token) && is_next(thread.role, token)
                }
                _ => false,
            })
        };
        let in_driver =
            |role: Role, token: &WaitToken| !role.is_of_driver() && token.is_in_driver();
        let of_client = |role: Role, _: &WaitToken| role == Role::Client;
        let waits =
            |role: Role, token: &WaitToken| of_client(role, token) && !token.is_thread_end();
        let driver = if self.any_client() { first(&in_driver) } else { None };
        driver.or_else(|| first(&waits)).or_else(|| first(&of_client))
    }

    /// The deadlines that may pass now, each with its thread, of drivers' threads or of others.
    fn deadlines(&self, of_driver: bool) -> impl Iterator<Item = (u64, usize)> {
        let due = move |(index, thread): (usize, &Thread)| match &thread.status {
            _ if thread.role.is_of_driver() != of_driver => None,
            Status::Parked(token, _) if self.can_be_woken(token) => None,
            Status::Parked(_, Some(deadline)) => Some((*deadline, index)),
            _ => None,
        };
        self.threads.iter().enumerate().filter_map(due)
    }

    /// The thread whose deadline passes next although another thread waits for idle.
    fn next_due_while_idle(&mut self) -> Option<usize> {
        let of_driver = self.deadlines(true).min()?;
        let end = self.now.saturating_add(IDLE_TIME);
        let (end, turns) = self.limits.idle.get_or_insert((end, 0));
        if of_driver.0 > *end || *turns == IDLE_TURNS {
            return None;
        }
        *turns += 1;
        self.deadlines(false).chain([of_driver]).min().map(|(_, thread)| thread)
    }

    /// The thread whose deadline passes next.
    fn next_due(&mut self) -> Option<usize> {
        let other = self.deadlines(false).min();
        let of_driver = self.deadlines(true).min().filter(|(deadline, _)| {
            let patience = self.limits.client_continued.saturating_add(PATIENCE);
            self.limits.turns < PATIENCE_TURNS
                && (other.is_some() || *deadline <= patience)
                && self.any_client()
        });
        let next = of_driver.into_iter().chain(other).min()?;
        if of_driver == Some(next) {
            self.limits.turns += 1;
        }
        Some(next.1)
    }

    /// Whether a client thread is not done.
    fn any_client(&self) -> bool {
        let lives = |thread: &Thread| !matches!(thread.status, Status::Done);
        self.threads.iter().any(|thread| thread.role == Role::Client && lives(thread))
    }

    /// Renews the limits of drivers' deadlines if a client thread continues.
    pub(crate) fn note_progress(&mut self, current_thread: usize) {
        if self.threads[current_thread].role == Role::Client {
            self.note_client_progress();
        }
    }

    /// Renews the limits of drivers' deadlines: a client thread continues.
    pub(crate) fn note_client_progress(&mut self) {
        (self.limits.client_continued, self.limits.turns) = (self.now, 0);
    }

    /// Lets time pass while a thread runs. Every wait whose deadline has passed then ends.
    pub(crate) fn pass_time(&mut self, time: u64) {
        self.advance_time(self.now.saturating_add(time));
        let due: Vec<(u64, usize)> = self.deadlines(false).chain(self.deadlines(true)).collect();
        for (_, thread) in due.into_iter().filter(|(deadline, _)| *deadline <= self.now) {
            self.threads[thread].status = Status::Ready(WaitResult::TimedOut);
        }
    }

    /// The names of the driver's threads that have not ended.
    pub(crate) fn driver_threads(&self) -> Vec<String> {
        let lives = |thread: &&Thread| {
            thread.role == Role::Driver && !matches!(thread.status, Status::Done)
        };
        self.threads.iter().filter(lives).map(|thread| thread.name.clone()).collect()
    }

    /// The wait graph as text: each waiting thread and what it waits for.
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
    log.emit(Subject::RUN, || EventKind::ThreadStarted { name: name.into() });
}

/// The message of a panic; `None` if the flight is over because of a limit. That of an internal error
/// ends with the last events of the log, one per line.
pub(crate) fn panic_message(panic: &(dyn Any + Send), log: &Log) -> Option<String> {
    if panic.is::<FlightOver>() {
        return None;
    }
    if let Some(error) = panic.downcast_ref::<InternalError>() {
        let mut message = format!("{error}; the last events:");
        for event in log.last_events(LAST_EVENTS) {
            // Writing to a String does not fail.
            let _ = write!(message, "\n  {event}");
        }
        return Some(message);
    }
    if let Some(NoResources(why)) = panic.downcast_ref() {
        return Some(why.clone());
    }
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Some(text.unwrap_or_else(|| "panic".to_owned()))
}

#[cfg(all(test, not(any(shuttle, loom))))]
#[path = "thread_table_tests.rs"]
mod tests;
