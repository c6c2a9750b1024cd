//! The `Free` host: virtual threads are real ones, and run when they like.
//!
//! What two threads do at once is up to the machine, so a run does not repeat; what a run
//! *says* is as true as under `Stepped`, and a wait that nothing could end is found in the same
//! way. Time is virtual here, too: a deadline passes when nothing else can happen. Only who waits
//! for what clients do ([`Ticket::of_clients`]) waits as long as it says while a client is away.
//!
//! A thread that is not the host's own, such as one of a program in C, becomes a virtual thread
//! with [`Free::adopt`], for as long as it is inside.
//!
//! # Invariants
//!
//! 1. Who is ready runs, or is about to. Whoever stops being ready looks whether anybody still
//!    is; if not, the table says who goes on.
//! 2. A thread of the operating system has one place in a host's table and keeps it: inside it
//!    is there, outside it is away. Its place is free for another when it has ended.

use crate::crew::{self, Body, Crew};
use crate::host::{Host, Ticket, Woken};
use crate::level::Passive;
use crate::sync::{self, JoinHandle, Mutex, MutexGuard, thread_local};
use crate::table::{CouldNotRun, Role, Status, Table, said};
use crate::{Log, thread};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A host whose virtual threads run side by side.
#[derive(Debug)]
pub struct Free {
    state: Mutex<State>,
    log: Arc<Log>,
    /// Its threads are not in this process: see [`Free::abandon`].
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    handles: Vec<JoinHandle<()>>,
    /// Those who serve end when nobody else has anything left to do.
    ends: bool,
    /// How many wait for clients with a deadline.
    timed: u32,
    /// When time was looked at last, while somebody does.
    clock: Option<Instant>,
}

thread_local! {
    static BREATHS: Cell<u32> = const { Cell::new(0) };
    static PLACES: RefCell<Places> = const { RefCell::new(Places(Vec::new())) };
}

/// The places of this thread of the operating system, in the hosts it has been in.
struct Places(Vec<Place>);

struct Place {
    host: Weak<Free>,
    number: usize,
    /// The thread is not the host's own, so the host does not see it end.
    adopted: bool,
}

impl Free {
    /// A host without a thread of its own. It lives until [`Free::end`].
    pub fn new(log: &Arc<Log>) -> Arc<Free> {
        let (state, log, abandoned) = (Mutex::default(), log.clone(), AtomicBool::new(false));
        Arc::new(Free { state, log, abandoned })
    }

    /// Flies `main` as the first virtual thread. What it starts is over before this returns.
    pub fn fly<R>(
        log: &Arc<Log>,
        main: impl FnOnce(&Arc<Free>, &mut Passive) -> R,
    ) -> Result<R, CouldNotRun> {
        let host = Free::new(log);
        let number = host.take_place("main");
        let answer = catch_unwind(AssertUnwindSafe(|| host.adopt("main", |at| main(&host, at))));
        host.finish(number, answer.as_ref().err().map(|it| said(&**it)));
        host.end().and(answer.map_err(|_| CouldNotRun("main".to_owned())))
    }

    /// Says that this is a copy of the host, in a child of `fork`: its threads are elsewhere, and
    /// one of them may have held its lock. Nothing is asked of it again, not even by threads that
    /// end.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Makes the calling thread a virtual thread for the time of `body`. Inside another `adopt`
    /// of the same host, or on a thread the host has started, it goes on as the one it is.
    pub fn adopt<R>(self: &Arc<Self>, name: &str, body: impl FnOnce(&mut Passive) -> R) -> R {
        let number = self.place().unwrap_or_else(|| self.take_place(name));
        let inside = Inside::enter(self, number);
        let answer = body(&mut Passive::new());
        drop(inside);
        answer
    }

    /// Starts a virtual thread; the ticket rings when it has ended.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> Ticket {
        crew::spawn(self, name, body)
    }

    /// Starts a virtual thread that serves others: it works while `work` says it did
    /// something, then parks until the bell rings.
    pub fn serve(
        self: &Arc<Self>,
        name: &str,
        bell: Ticket,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    ) {
        crew::serve(self, name, bell, work, |_, _| None);
    }

    /// Lets everything else run until nothing can.
    pub fn quiet(&self, _at: &mut Passive) {
        let me = self.me();
        Self::rest(self.state(), me, Status::Quiet);
    }

    /// Ends the host: those who serve go home when nobody has anything left to do, and this
    /// returns when every thread the host has started has ended, with what one of them said if it
    /// panicked. Called from inside, it does not wait: the end comes when the last one has left.
    pub fn end(&self) -> Result<(), CouldNotRun> {
        {
            let mut state = self.state();
            state.ends = true;
            state.look_around();
            let inside = |it: usize| state.table.threads[it].is_ready();
            if self.place().is_some_and(inside) {
                return Ok(());
            }
        }
        loop {
            let Some(handle) = self.state().handles.pop() else { break };
            // A body's panic was caught and is in the table.
            let _ = handle.join();
        }
        self.state().table.outcome(Ok::<(), ()>(()))
    }

    /// A place in the table for the calling thread, which keeps it.
    fn take_place(self: &Arc<Self>, name: &str) -> usize {
        let number = self.state().table.seat(name, &self.log);
        self.state().table.threads[number].status = Status::Away;
        self.remember(number, true);
        number
    }

    fn remember(self: &Arc<Self>, number: usize, adopted: bool) {
        PLACES.with(|it| {
            let mut it = it.borrow_mut();
            it.0.retain(|it| it.host.strong_count() > 0);
            it.0.push(Place { host: Arc::downgrade(self), number, adopted });
        });
    }

    /// The calling thread's place.
    fn place(&self) -> Option<usize> {
        let mine = |it: &&Place| ptr::eq(it.host.as_ptr(), self);
        // A thread that is ending has forgotten its places.
        let found = PLACES.try_with(|it| it.borrow().0.iter().rfind(mine).map(|it| it.number));
        found.ok().flatten()
    }

    /// The calling thread's place, which it needs to wait.
    fn me(&self) -> usize {
        self.place().expect("only a virtual thread waits: it has to be adopted first")
    }

    /// The calling thread stops being ready, until somebody makes it so again.
    fn rest(mut state: MutexGuard<'_, State>, me: usize, status: Status) -> Woken {
        let deadline = match &status {
            Status::Parked(ticket, deadline) if ticket.is_of_clients() => *deadline,
            _ => None,
        };
        state.table.threads[me].status = status;
        state.look_around();
        let turn = state.table.threads[me].turn.clone();
        if let Some(deadline) = deadline {
            state = Self::rest_until(state, me, deadline);
        }
        while !state.table.threads[me].is_ready() {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.table.woken(me)
    }

    /// The same, until a deadline that passes by itself while somebody is away.
    fn rest_until(
        mut state: MutexGuard<'_, State>,
        me: usize,
        deadline: u64,
    ) -> MutexGuard<'_, State> {
        let turn = state.table.threads[me].turn.clone();
        state.clock.get_or_insert_with(Instant::now);
        state.timed += 1;
        while !state.table.threads[me].is_ready() {
            let left = deadline.saturating_sub(state.now());
            // If it has passed, somebody inside runs, or who was away is back: look again soon.
            let left =
                if left == 0 { SOON } else { Duration::from_nanos(left.saturating_mul(STEP)) };
            let waited = turn.wait_timeout(state, left.min(PIECE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let over = state.now() >= deadline && state.table.anybody_away();
            if over && !state.table.threads[me].is_ready() {
                state.table.time_out(me);
            }
        }
        state.timed -= 1;
        if state.timed == 0 {
            state.clock = None;
        }
        state
    }

    fn finish(&self, me: usize, panicked: Option<String>) {
        let mut state = self.state();
        state.table.finish(me, panicked);
        state.look_around();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What time it is. While somebody is away and somebody else waits for that, it passes by
    /// itself, and for all in the same way.
    fn now(&mut self) -> u64 {
        if let Some(last) = self.clock {
            let now = Instant::now();
            let passed = steps(now.duration_since(last));
            if passed > 0 {
                self.clock = Some(now);
            }
            if self.table.anybody_away() {
                self.table.pass(self.table.now().saturating_add(passed));
            }
        }
        self.table.now()
    }

    /// Somebody stopped being ready. If that was the last one, the table says who goes on.
    fn look_around(&mut self) {
        if self.table.ready().next().is_none() && self.table.wake_one(self.ends) {
            for number in self.table.ready() {
                self.table.threads[number].turn.notify_one();
            }
        }
    }
}

impl Crew for Free {
    fn log(&self) -> &Log {
        &self.log
    }

    fn start(self: Arc<Self>, name: &str, role: Role, body: Body) {
        let me = self.state().table.add(name, role, &self.log);
        let host = self.clone();
        let handle = sync::spawn(move || {
            host.remember(me, false);
            thread::become_thread(u32::try_from(me).unwrap_or(u32::MAX));
            let ended = catch_unwind(AssertUnwindSafe(|| body(&mut Passive::new())));
            host.finish(me, ended.err().map(|it| said(&*it)));
        });
        self.state().handles.push(handle);
    }

    fn quiet(&self, at: &mut Passive) {
        Free::quiet(self, at);
    }
}

impl Host for Free {
    fn park(&self, _at: &mut Passive, ticket: &Ticket, deadline: Option<u64>) -> Woken {
        let me = self.me();
        let state = self.state();
        if ticket.take() {
            return Woken::Rung;
        }
        Self::rest(state, me, Status::Parked(ticket.clone(), deadline))
    }

    fn now(&self) -> u64 {
        self.state().now()
    }

    fn ring(&self, ticket: &Ticket) {
        let mut state = self.state();
        if let Some(number) = state.table.ring(ticket) {
            state.table.threads[number].turn.notify_one();
        }
    }

    fn breathe(&self, _at: &mut Passive) {
        // Giving way costs more than most calls of a driver. Which of them come after it is
        // drawn, so that another thread still gets in at any of them.
        if BREATHS.with(|it| draw(it).is_multiple_of(sync::ONE_IN)) {
            sync::yield_now();
        }
    }
}

/// How many nanoseconds a step of time has.
const STEP: u64 = 100;

/// How soon somebody looks again whose time is over while others run.
const SOON: Duration = Duration::from_millis(1);

/// Nobody sleeps longer without looking: a clock has a last day.
const PIECE: Duration = Duration::from_mins(1);

/// Time, in steps of 100 ns.
fn steps(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / u128::from(STEP)).unwrap_or(u64::MAX)
}

/// The next of a thread's drawn numbers.
fn draw(last: &Cell<u32>) -> u32 {
    last.set(last.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    last.get() >> 16
}

/// While it lives, a thread is inside: it counts as one that runs.
struct Inside<'a> {
    host: &'a Free,
    number: usize,
    /// It was inside before, and stays.
    nested: bool,
    before: u32,
}

impl<'a> Inside<'a> {
    fn enter(host: &'a Free, number: usize) -> Self {
        let status = &mut host.state().table.threads[number].status;
        let nested = !matches!(status, Status::Away);
        *status = Status::Ready(Woken::Rung);
        let before = thread::become_thread(u32::try_from(number).unwrap_or(u32::MAX));
        Self { host, number, nested, before }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        thread::become_thread(self.before);
        if !self.nested {
            let mut state = self.host.state();
            state.table.threads[self.number].status = Status::Away;
            state.look_around();
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for place in self.0.drain(..).filter(|it| it.adopted) {
            if let Some(host) = place.host.upgrade()
                && !host.abandoned.load(Ordering::Relaxed)
            {
                host.finish(place.number, None);
            }
        }
    }
}

#[cfg(test)]
#[path = "free_tests.rs"]
mod tests;
