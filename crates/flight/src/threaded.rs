//! The threaded host: virtual threads are real ones, and run when they like.
//!
//! What two threads do at once is up to the machine, so a run does not repeat; what a run
//! *says* is as true as under `Stepped`, and a wait that nothing could end is found in the same
//! way. Time is virtual here, too: a deadline passes when nothing else can happen. Only who waits
//! for what clients do ([`WaitToken::of_clients`]) waits as long as it says while a client is away.
//!
//! A thread that is not the host's own, such as one of a program in C, becomes a virtual thread
//! with [`ThreadedHost::adopt`], for as long as it is inside.
//!
//! # Invariants
//!
//! 1. Who is ready runs, or is about to. Whoever stops being ready looks whether anybody still
//!    is; if not, the table says who goes on.
//! 2. A thread of the operating system has one place in a host's table and keeps it: inside it
//!    is there, outside it is away. Its place is free for another when it has ended.

use crate::host::{Host, WaitResult, WaitToken};
use crate::level::Passive;
use crate::spawner::{self, Spawner, ThreadBody};
use crate::sync::{self, JoinHandle, Mutex, MutexGuard, thread_local};
use crate::thread_table::{HostError, Role, Status, ThreadTable, panic_message};
use crate::{Log, thread};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A host whose virtual threads run side by side.
#[derive(Debug)]
pub struct ThreadedHost {
    state: Mutex<ThreadedState>,
    log: Arc<Log>,
    /// Its threads are not in this process: see [`ThreadedHost::abandon`].
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct ThreadedState {
    table: ThreadTable,
    handles: Vec<JoinHandle<()>>,
    /// Those who serve end when nobody else has anything left to do.
    ending: bool,
    /// How many wait for clients with a deadline.
    timed_waits: u32,
    /// When time was looked at last, while somebody does.
    clock: Option<Instant>,
}

thread_local! {
    static YIELD_RANDOM: Cell<u32> = const { Cell::new(0) };
    static REGISTRATIONS: RefCell<Registrations> = const { RefCell::new(Registrations(Vec::new())) };
}

/// The places of this thread of the operating system, in the hosts it has been in.
struct Registrations(Vec<Registration>);

struct Registration {
    host: Weak<ThreadedHost>,
    number: usize,
    /// The thread is not the host's own, so the host does not see it end.
    adopted: bool,
}

impl ThreadedHost {
    /// A host without a thread of its own. It lives until [`ThreadedHost::end`].
    pub fn new(log: &Arc<Log>) -> Arc<ThreadedHost> {
        let (state, log, abandoned) = (Mutex::default(), log.clone(), AtomicBool::new(false));
        Arc::new(ThreadedHost { state, log, abandoned })
    }

    /// Says that clients may have threads that were never here: what they could do may happen as
    /// long as this lives.
    pub fn expect_external_threads(&self) {
        self.state().table.allows_external = true;
    }

    /// Flies `main` as the first virtual thread. What it starts is over before this returns.
    pub fn fly<R>(
        log: &Arc<Log>,
        main: impl FnOnce(&Arc<ThreadedHost>, &mut Passive) -> R,
    ) -> Result<R, HostError> {
        let host = ThreadedHost::new(log);
        let number = host.allocate_thread("main");
        let answer = catch_unwind(AssertUnwindSafe(|| host.adopt("main", |at| main(&host, at))));
        host.finish(number, answer.as_ref().err().map(|panic| panic_message(&**panic, log)));
        host.end().and(answer.map_err(|_| HostError("main".to_owned())))
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
        let number = self.registered_thread().unwrap_or_else(|| self.allocate_thread(name));
        let inside = ThreadGuard::enter(self, number);
        let answer = body(&mut Passive::new());
        drop(inside);
        answer
    }

    /// Starts a virtual thread; the ticket rings when it has ended.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> WaitToken {
        spawner::spawn(self, name, body)
    }

    /// Starts a virtual thread that serves others: it works while `work` says it did
    /// something, then parks until the bell rings.
    pub fn spawn_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    ) {
        spawner::spawn_worker(self, name, work_available, work, |_, _| None);
    }

    /// Lets everything else run until nothing can.
    pub fn run_until_idle(&self, _at: &mut Passive) {
        let me = self.current_thread();
        Self::block(self.state(), me, Status::WaitingForIdle);
    }

    /// Ends the host: those who serve go home when nobody has anything left to do, and this
    /// returns when every thread the host has started has ended, with what one of them said if it
    /// panicked. Called from inside, it does not wait: the end comes when the last one has left.
    pub fn end(&self) -> Result<(), HostError> {
        {
            let mut state = self.state();
            state.ending = true;
            state.wake_if_idle();
            let inside = |index: usize| state.table.threads[index].is_ready();
            if self.registered_thread().is_some_and(inside) {
                return Ok(());
            }
        }
        loop {
            let Some(handle) = self.state().handles.pop() else { break };
            // A body's panic was caught and is in the table.
            let _ = handle.join();
        }
        self.state().table.result(Ok::<(), ()>(()))
    }

    /// A place in the table for the calling thread, which keeps it.
    fn allocate_thread(self: &Arc<Self>, name: &str) -> usize {
        let number = self.state().table.add_external(name, &self.log);
        self.state().table.threads[number].status = Status::Outside;
        self.register_thread(number, true);
        number
    }

    fn register_thread(self: &Arc<Self>, number: usize, adopted: bool) {
        REGISTRATIONS.with(|it| {
            let mut it = it.borrow_mut();
            it.0.retain(|registration| registration.host.strong_count() > 0);
            it.0.push(Registration { host: Arc::downgrade(self), number, adopted });
        });
    }

    /// The calling thread's place.
    fn registered_thread(&self) -> Option<usize> {
        let mine = |registration: &&Registration| ptr::eq(registration.host.as_ptr(), self);
        // A thread that is ending has forgotten its places.
        let found = REGISTRATIONS.try_with(|registrations| {
            registrations.borrow().0.iter().rfind(mine).map(|registration| registration.number)
        });
        found.ok().flatten()
    }

    /// The calling thread's place, which it needs to wait.
    fn current_thread(&self) -> usize {
        self.registered_thread().expect("only a virtual thread waits: it has to be adopted first")
    }

    /// The calling thread stops being ready, until somebody makes it so again.
    fn block(mut state: MutexGuard<'_, ThreadedState>, me: usize, status: Status) -> WaitResult {
        let deadline = match &status {
            Status::Parked(token, deadline) if token.is_for_clients() => *deadline,
            _ => None,
        };
        state.table.threads[me].status = status;
        state.wake_if_idle();
        let turn = state.table.threads[me].turn.clone();
        if let Some(deadline) = deadline {
            state = Self::block_until(state, me, deadline);
        }
        while !state.table.threads[me].is_ready() {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.table.take_result(me)
    }

    /// The same, until a deadline that passes by itself while somebody is away.
    fn block_until(
        mut state: MutexGuard<'_, ThreadedState>,
        me: usize,
        deadline: u64,
    ) -> MutexGuard<'_, ThreadedState> {
        let turn = state.table.threads[me].turn.clone();
        state.clock.get_or_insert_with(Instant::now);
        state.timed_waits += 1;
        while !state.table.threads[me].is_ready() {
            let left = deadline.saturating_sub(state.now());
            // If it has passed, somebody inside runs, or who was away is back: look again soon.
            let left = if left == 0 {
                SHORT_WAIT
            } else {
                Duration::from_nanos(left.saturating_mul(NANOSECONDS_PER_TICK))
            };
            let waited = turn.wait_timeout(state, left.min(WAIT_SLICE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let over = state.now() >= deadline && state.table.any_outside();
            if over && !state.table.threads[me].is_ready() {
                state.table.time_out(me);
            }
        }
        state.timed_waits -= 1;
        if state.timed_waits == 0 {
            state.clock = None;
        }
        state
    }

    fn finish(&self, me: usize, panicked: Option<String>) {
        let mut state = self.state();
        state.table.finish(me, panicked);
        state.wake_if_idle();
    }

    fn state(&self) -> MutexGuard<'_, ThreadedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadedState {
    /// What time it is. While somebody is away and somebody else waits for that, it passes by
    /// itself, and for all in the same way.
    fn now(&mut self) -> u64 {
        if let Some(last) = self.clock {
            let now = Instant::now();
            let passed = ticks(now.duration_since(last));
            if passed > 0 {
                self.clock = Some(now);
            }
            if self.table.any_outside() {
                self.table.advance_time(self.table.now().saturating_add(passed));
            }
        }
        self.table.now()
    }

    /// Somebody stopped being ready. If that was the last one, the table says who goes on.
    fn wake_if_idle(&mut self) {
        if self.table.ready().next().is_none() && self.table.wake_one(self.ending) {
            for number in self.table.ready() {
                self.table.threads[number].turn.notify_one();
            }
        }
    }
}

impl Spawner for ThreadedHost {
    fn log(&self) -> &Log {
        &self.log
    }

    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody) {
        let me = self.state().table.add(name, role, &self.log);
        let host = self.clone();
        let handle = sync::spawn(move || {
            host.register_thread(me, false);
            thread::set_current(u32::try_from(me).unwrap_or(u32::MAX));
            let ended = catch_unwind(AssertUnwindSafe(|| body(&mut Passive::new())));
            host.finish(me, ended.err().map(|panic| panic_message(&*panic, &host.log)));
        });
        self.state().handles.push(handle);
    }

    fn run_until_idle(&self, at: &mut Passive) {
        ThreadedHost::run_until_idle(self, at);
    }
}

impl Host for ThreadedHost {
    fn park(&self, _at: &mut Passive, token: &WaitToken, deadline: Option<u64>) -> WaitResult {
        let me = self.current_thread();
        let state = self.state();
        if token.take() {
            return WaitResult::Woken;
        }
        Self::block(state, me, Status::Parked(token.clone(), deadline))
    }

    fn now(&self) -> u64 {
        self.state().now()
    }

    fn wake(&self, token: &WaitToken) {
        let mut state = self.state();
        if let Some(number) = state.table.wake(token) {
            state.table.threads[number].turn.notify_one();
        }
    }

    fn yield_point(&self, _at: &mut Passive) {
        // Giving way costs more than most calls of a driver. Which of them come after it is
        // drawn, so that another thread still gets in at any of them.
        if YIELD_RANDOM.with(|number| next_random(number).is_multiple_of(sync::YIELD_INTERVAL)) {
            sync::yield_now();
        }
    }
}

/// How many nanoseconds a step of time has.
const NANOSECONDS_PER_TICK: u64 = 100;

/// How soon somebody looks again whose time is over while others run.
const SHORT_WAIT: Duration = Duration::from_millis(1);

/// Nobody sleeps longer without looking: a clock has a last day.
const WAIT_SLICE: Duration = Duration::from_mins(1);

/// Time, in steps of 100 ns.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / u128::from(NANOSECONDS_PER_TICK)).unwrap_or(u64::MAX)
}

/// The next of a thread's drawn numbers.
fn next_random(last: &Cell<u32>) -> u32 {
    last.set(last.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    last.get() >> 16
}

/// While it lives, a thread is inside: it counts as one that runs.
struct ThreadGuard<'a> {
    host: &'a ThreadedHost,
    number: usize,
    /// It was inside before, and stays.
    nested: bool,
    previous_thread: u32,
}

impl<'a> ThreadGuard<'a> {
    fn enter(host: &'a ThreadedHost, number: usize) -> Self {
        let status = &mut host.state().table.threads[number].status;
        let nested = !matches!(status, Status::Outside);
        *status = Status::Ready(WaitResult::Woken);
        let before = thread::set_current(u32::try_from(number).unwrap_or(u32::MAX));
        Self { host, number, nested, previous_thread: before }
    }
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        thread::set_current(self.previous_thread);
        if !self.nested {
            let mut state = self.host.state();
            state.table.threads[self.number].status = Status::Outside;
            state.wake_if_idle();
        }
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        for place in self.0.drain(..).filter(|registration| registration.adopted) {
            if let Some(host) = place.host.upgrade()
                && !host.abandoned.load(Ordering::Relaxed)
            {
                host.finish(place.number, None);
            }
        }
    }
}

#[cfg(test)]
#[path = "threaded_tests.rs"]
mod tests;
