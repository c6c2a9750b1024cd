//! The threaded host: each virtual thread is an OS thread, and all of them run concurrently.
//!
//! The OS schedules the threads, so a run does not repeat. Its events are as reliable as those of
//! the deterministic host, and a deadlock is detected in the same way. Time is virtual: a deadline
//! passes when no thread can run. The exception is a wait for clients
//! ([`WaitToken::for_clients`]): while a client thread is outside, or may come, its deadline passes in
//! real time.
//!
//! A thread that the host did not start, for example a thread of a C program, becomes a virtual
//! thread inside [`ThreadedHost::adopt`].
//!
//! # Invariants
//!
//! 1. Every ready thread runs or is about to run. A thread that stops being ready checks whether
//!    another thread is ready; if none is, the table selects the next one.
//! 2. An OS thread has one entry in a host's table and keeps it. Between two `adopt` calls it is
//!    outside. The entry is reused after the thread has ended.
//! 3. An adopted thread enters and leaves by its seat, without the host's lock. A thread that leaves
//!    takes the lock if [`Shared::waits`] says that another thread's wait may depend on it.

use crate::host::{Host, WaitResult, WaitToken};
use crate::level::Passive;
use crate::spawner::{self, Spawner, ThreadBody};
use crate::sync::{self, JoinHandle, Mutex, MutexGuard, thread_local};
use crate::thread_table::{HostError, Role, Seat, Status, ThreadTable, panic_message};
use crate::{Log, invariant, thread};
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A host whose virtual threads run concurrently.
#[derive(Debug)]
pub struct ThreadedHost {
    state: Mutex<ThreadedState>,
    shared: Arc<Shared>,
    log: Arc<Log>,
    /// The host's threads are not in this process: see [`ThreadedHost::abandon`].
    abandoned: AtomicBool,
}

/// What threads that enter and leave read and change without the lock.
#[derive(Debug, Default)]
struct Shared {
    /// Whether a thread may wait for something that happens when no other thread is ready, or the
    /// host ends. Set and cleared under the lock.
    waits: AtomicBool,
    /// Whether a client thread has entered since the table selected a thread.
    entered: AtomicBool,
}

#[derive(Debug, Default)]
struct ThreadedState {
    table: ThreadTable,
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// Worker threads end when no client thread has work left.
    ending: bool,
    /// Number of threads that wait for clients with a deadline.
    timed_waits: u32,
    /// The last reading of the real clock. `None` while no thread waits in real time.
    clock: Option<Instant>,
}

thread_local! {
    static YIELD_RANDOM: Cell<u32> = const { Cell::new(0) };
    static REGISTRATIONS: RefCell<Registrations> = const { RefCell::new(Registrations(Vec::new())) };
}

/// The table entries of this OS thread, one per host that it has entered.
struct Registrations(Vec<Registration>);

struct Registration {
    host: Weak<ThreadedHost>,
    number: usize,
    /// Of a thread that the host did not start. Its entry is released when the thread ends.
    seat: Option<Arc<Seat>>,
}

impl ThreadedHost {
    /// Creates a host without threads. It runs until [`ThreadedHost::end`].
    pub fn new(log: &Arc<Log>) -> Arc<ThreadedHost> {
        let shared = Arc::new(Shared::default());
        let state = ThreadedState { shared: shared.clone(), ..ThreadedState::default() };
        let (log, abandoned) = (log.clone(), AtomicBool::new(false));
        Arc::new(ThreadedHost { state: Mutex::new(state), shared, log, abandoned })
    }

    /// Declares that client threads which the host has not seen yet may still enter it. A wait
    /// with [`WaitToken::for_external_threads`] is then never stuck.
    pub fn expect_external_threads(&self) {
        self.state().table.allows_external = true;
    }

    /// Declares that clients may come at any time, as to a server: see [`Host::expects_clients`].
    pub fn expect_clients(&self) {
        self.state().table.expects_clients = true;
    }

    /// Declares that no more clients come: a wait that only they could end is stuck then.
    pub fn expect_no_clients(&self) {
        self.state().table.expects_clients = false;
    }

    /// Flies `main` as the first virtual thread. All threads that it starts have ended when this
    /// returns.
    ///
    /// # Errors
    /// [`HostError`] with the message of a virtual thread that panicked.
    pub fn fly<R>(
        log: &Arc<Log>,
        main: impl FnOnce(&Arc<ThreadedHost>, &mut Passive) -> R,
    ) -> Result<R, HostError> {
        let host = ThreadedHost::new(log);
        let number = host.allocate_thread("main");
        let answer = catch_unwind(AssertUnwindSafe(|| host.adopt("main", |at| main(&host, at))));
        host.finish(number, answer.as_ref().err().and_then(|panic| panic_message(&**panic, log)));
        host.end().and(answer.map_err(|_| HostError("main".to_owned())))
    }

    /// Marks this host as a copy in a child process of `fork`. Its threads exist in the parent
    /// only, and one of them may have held the lock. The host is not used again, not even when a
    /// thread ends.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Makes the calling thread a virtual thread while `body` runs. Inside another `adopt` of the
    /// same host, or on a thread that the host started, the thread keeps its number.
    pub fn adopt<R>(self: &Arc<Self>, name: &str, body: impl FnOnce(&mut Passive) -> R) -> R {
        let inside = ThreadGuard::enter(self).unwrap_or_else(|| {
            self.allocate_thread(name);
            let entered = ThreadGuard::enter(self);
            invariant(entered, "the thread was just registered")
        });
        let answer = body(&mut Passive::new());
        drop(inside);
        answer
    }

    /// Starts a virtual thread. The returned token is woken when the thread has ended.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> WaitToken {
        spawner::spawn(self, name, body)
    }

    /// Starts a worker thread: it calls `work` until that returns false, then parks until the
    /// work-available token is woken.
    pub fn spawn_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    ) {
        spawner::spawn_worker(self, (name, Role::Worker), work_available, work, |_, _| None);
    }

    /// Lets all other threads run until none can.
    pub fn run_until_idle(&self, _at: &mut Passive) {
        let me = self.current_thread();
        Self::block(self.state(), me, Status::WaitingForIdle);
    }

    /// Ends the host: worker threads end when no client thread has work left. Returns when every
    /// thread that the host started has ended. Called on a virtual thread, it does not wait: the
    /// host ends when the last client thread has left.
    ///
    /// # Errors
    /// [`HostError`] with the message of a virtual thread that panicked.
    pub fn end(&self) -> Result<(), HostError> {
        {
            let mut state = self.state();
            state.ending = true;
            state.shared.waits.store(true, Ordering::SeqCst);
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

    /// Adds a table entry for the calling thread, which keeps it.
    fn allocate_thread(self: &Arc<Self>, name: &str) -> usize {
        let mut state = self.state();
        let number = state.table.add_external(name, &self.log);
        let seat = state.table.threads[number].adopt();
        drop(state);
        self.register_thread(number, Some(seat));
        number
    }

    fn register_thread(self: &Arc<Self>, number: usize, seat: Option<Arc<Seat>>) {
        REGISTRATIONS.with(|it| {
            let mut it = it.borrow_mut();
            it.0.retain(|registration| registration.host.strong_count() > 0);
            it.0.push(Registration { host: Arc::downgrade(self), number, seat });
        });
    }

    /// The calling thread's entry in the table.
    fn registered_thread(&self) -> Option<usize> {
        self.with_registration(|registration| registration.number)
    }

    /// Lends the calling thread's registration, if it has one.
    #[inline]
    fn with_registration<R>(&self, body: impl FnOnce(&Registration) -> R) -> Option<R> {
        let mine = |registration: &&Registration| ptr::eq(registration.host.as_ptr(), self);
        // A thread that is ending has already dropped its registrations.
        let found = REGISTRATIONS
            .try_with(|registrations| registrations.borrow().0.iter().rfind(mine).map(body));
        found.ok().flatten()
    }

    /// The calling thread's entry in the table. Panics if it has none.
    fn current_thread(&self) -> usize {
        self.registered_thread().expect("only a virtual thread waits: it has to be adopted first")
    }

    /// Blocks the calling thread until its status is ready again.
    fn block(mut state: MutexGuard<'_, ThreadedState>, me: usize, status: Status) -> WaitResult {
        let deadline = match &status {
            Status::Parked(token, deadline) if token.is_for_clients() => *deadline,
            _ => None,
        };
        state.table.threads[me].status = status;
        if state.table.any_waits_for_others() {
            // Before the seats are read: a thread that leaves after that sees it.
            state.shared.waits.store(true, Ordering::SeqCst);
        }
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

    /// Like `block`, with a deadline that passes in real time while a client thread is outside.
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
            // After the deadline this thread still waits if another thread runs, or if no client
            // thread is outside any more. Check again soon.
            let left = if left == 0 {
                SHORT_WAIT
            } else {
                Duration::from_nanos(left.saturating_mul(NANOSECONDS_PER_TICK))
            };
            let waited = turn.wait_timeout(state, left.min(WAIT_SLICE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let over = state.now() >= deadline && state.table.may_client_enter();
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

    /// A thread has left, and another thread's wait may depend on it.
    #[cold]
    fn wake_waiting(&self) {
        let mut state = self.state();
        state.wake_if_idle();
        let waits = state.ending || state.table.any_waits_for_others();
        state.shared.waits.store(waits, Ordering::SeqCst);
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
    /// The virtual time. While a client thread is outside and another thread waits for clients, it
    /// follows the real clock, for all threads.
    fn now(&mut self) -> u64 {
        if let Some(last) = self.clock {
            let now = Instant::now();
            let passed = ticks(now.duration_since(last));
            if passed > 0 {
                self.clock = Some(now);
            }
            if self.table.may_client_enter() {
                self.table.advance_time(self.table.now().saturating_add(passed));
            }
        }
        self.table.now()
    }

    /// Called when a thread stops being ready. If no thread is ready, the table selects the next
    /// one.
    fn wake_if_idle(&mut self) {
        if self.shared.entered.swap(false, Ordering::Relaxed) {
            self.table.note_client_progress();
        }
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

    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody) -> io::Result<()> {
        let me = self.state().table.add(name, role, &self.log);
        let host = self.clone();
        let spawned = sync::spawn(move || {
            host.register_thread(me, None);
            thread::set_current(u32::try_from(me).unwrap_or(u32::MAX));
            let ended = catch_unwind(AssertUnwindSafe(|| body(&mut Passive::new())));
            host.finish(me, ended.err().and_then(|panic| panic_message(&*panic, &host.log)));
        });
        let handle = spawned.inspect_err(|_| self.finish(me, None))?;
        self.state().handles.push(handle);
        Ok(())
    }

    fn run_until_idle(&self, at: &mut Passive) {
        ThreadedHost::run_until_idle(self, at);
    }

    fn driver_threads(&self) -> Vec<String> {
        self.state().table.driver_threads()
    }
}

impl Host for ThreadedHost {
    fn park(&self, _at: &mut Passive, token: &WaitToken, deadline: Option<u64>) -> WaitResult {
        let me = self.current_thread();
        let state = self.state();
        if token.take() {
            return WaitResult::Woken;
        }
        let result = Self::block(state, me, Status::Parked(token.clone(), deadline));
        if self.log.limits_time() {
            self.log.note_time(self.now());
        }
        result
    }

    fn now(&self) -> u64 {
        self.state().now()
    }

    fn wake(&self, token: &WaitToken) {
        if token.is_woken() {
            return;
        }
        let mut state = self.state();
        if let Some(number) = state.table.wake(token) {
            state.table.threads[number].turn.notify_one();
        }
    }

    fn expects_clients(&self) -> bool {
        self.state().table.expects_clients
    }

    fn pass_time(&self, time: u64) {
        let mut state = self.state();
        state.table.pass_time(time);
        self.log.note_time(state.table.now());
        for number in state.table.ready() {
            state.table.threads[number].turn.notify_one();
        }
    }

    fn spawner(self: Arc<Self>) -> Arc<dyn Spawner> {
        self
    }

    fn yield_point(&self, _at: &mut Passive) {
        // Yielding costs more than most driver calls, so only some yield points yield. They are
        // chosen pseudo-randomly: any driver call can be preceded by a thread switch. If no one
        // watches, the order of threads is of no interest.
        if YIELD_RANDOM.with(|number| next_random(number).is_multiple_of(sync::YIELD_INTERVAL))
            && self.should_yield()
        {
            sync::yield_now();
        }
    }
}

impl ThreadedHost {
    /// Whether another thread than this one may be ready, and someone watches. Under shuttle every
    /// thread may be ready.
    fn should_yield(&self) -> bool {
        if cfg!(shuttle) {
            return true;
        }
        if !self.log.is_enabled() {
            return false;
        }
        let state = self.state.try_lock();
        state.map_or(true, |state| state.table.ready().nth(1).is_some())
    }
}

/// Nanoseconds per tick.
const NANOSECONDS_PER_TICK: u64 = 100;

/// How soon a thread checks again if its deadline has passed while other threads run.
const SHORT_WAIT: Duration = Duration::from_millis(1);

/// The longest sleep without a check. An `Instant` cannot represent arbitrary deadlines.
const WAIT_SLICE: Duration = Duration::from_mins(1);

/// Converts a duration to ticks of 100 ns.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / u128::from(NANOSECONDS_PER_TICK)).unwrap_or(u64::MAX)
}

/// A thread's next pseudo-random number.
fn next_random(last: &Cell<u32>) -> u32 {
    last.set(last.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    last.get() >> 16
}

/// Keeps a thread inside the host: it counts as running until the guard drops.
struct ThreadGuard<'a> {
    host: &'a ThreadedHost,
    /// The thread was inside before, and stays inside.
    nested: bool,
    previous_thread: u32,
}

impl<'a> ThreadGuard<'a> {
    /// Enters, if the calling thread has a registration.
    fn enter(host: &'a ThreadedHost) -> Option<Self> {
        let sit = |registration: &Registration| {
            let entered = registration.seat.as_ref().is_some_and(|seat| seat.enter());
            (registration.number, !entered)
        };
        let (number, nested) = host.with_registration(sit)?;
        if !nested && !host.shared.entered.load(Ordering::Relaxed) {
            host.shared.entered.store(true, Ordering::Relaxed);
        }
        let before = thread::set_current(u32::try_from(number).unwrap_or(u32::MAX));
        Some(Self { host, nested, previous_thread: before })
    }
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        thread::set_current(self.previous_thread);
        if self.nested {
            return;
        }
        self.host.with_registration(|registration| {
            if let Some(seat) = &registration.seat {
                seat.leave();
            }
        });
        if self.host.shared.waits.load(Ordering::SeqCst) {
            self.host.wake_waiting();
        }
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        for place in self.0.drain(..).filter(|registration| registration.seat.is_some()) {
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
