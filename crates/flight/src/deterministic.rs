//! The deterministic host: one virtual thread runs at a time, in an order drawn from a seed.
//!
//! A virtual thread is an OS thread that runs only while it is `running`. Threads switch only in
//! `park`, `yield_point` and `run_until_idle` and when a thread ends, and only if another thread is
//! ready. So a run repeats from its seed, and the state of all threads is known when one waits.
//!
//! # Invariants
//!
//! 1. At most one virtual thread runs: `running`.
//! 2. When no thread is ready, the table selects the next one.

use crate::host::{Host, WaitResult, WaitToken};
use crate::level::Passive;
use crate::random::next_random;
use crate::spawner::{self, Spawner, ThreadBody};
use crate::sync::{self, JoinHandle, Mutex, MutexGuard};
use crate::thread_table::{HostError, Role, Status, ThreadTable, panic_message};
use crate::{Log, thread};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

/// A host whose runs repeat from their seed.
#[derive(Debug)]
pub struct DeterministicHost {
    state: Mutex<DeterministicState>,
    /// Only the running thread is ready, and nothing has changed since that was seen: a yield point
    /// has nothing to choose.
    alone: AtomicBool,
    log: Arc<Log>,
}

#[derive(Debug)]
struct DeterministicState {
    random: u64,
    running: usize,
    table: ThreadTable,
    handles: Vec<JoinHandle<()>>,
}

impl DeterministicHost {
    /// Flies `main` as the first virtual thread. All threads that it starts have ended when this
    /// returns.
    ///
    /// # Errors
    /// [`HostError`] with the message of a virtual thread that panicked.
    pub fn fly<R>(
        seed: u64,
        log: &Arc<Log>,
        main: impl FnOnce(&Arc<DeterministicHost>, &mut Passive) -> R,
    ) -> Result<R, HostError> {
        let state = DeterministicState {
            random: seed,
            running: 0,
            table: ThreadTable::default(),
            handles: Vec::new(),
        };
        let (state, alone) = (Mutex::new(state), AtomicBool::new(false));
        let host = Arc::new(DeterministicHost { state, alone, log: log.clone() });
        host.state().table.add("main", Role::Client, log);
        let before = thread::set_current(0);
        let answer = catch_unwind(AssertUnwindSafe(|| main(&host, &mut Passive::new())));
        host.finish(0, answer.as_ref().err().and_then(|panic| panic_message(&**panic, log)));
        thread::set_current(before);
        loop {
            let Some(handle) = host.state().handles.pop() else { break };
            // A panic of the thread's body was caught and is in the table.
            let _ = handle.join();
        }
        host.state().table.result(answer)
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
        let me = thread::current() as usize;
        let mut state = self.state();
        state.table.threads[me].status = Status::WaitingForIdle;
        drop(Self::hand_over(state, me));
    }

    /// Ends a virtual thread and runs the next one.
    fn finish(&self, me: usize, panicked: Option<String>) {
        let mut state = self.state();
        state.table.finish(me, panicked);
        if let Some(next) = state.choose() {
            state.run(next);
        }
    }

    /// Runs the chosen thread, and returns when the calling thread runs again.
    fn hand_over(
        mut state: MutexGuard<'_, DeterministicState>,
        me: usize,
    ) -> MutexGuard<'_, DeterministicState> {
        match state.choose() {
            Some(next) if next != me => {
                state.run(next);
                wait_for_turn(state, me)
            }
            _ => state,
        }
    }

    /// The state, of which the caller may make another thread ready.
    fn state(&self) -> MutexGuard<'_, DeterministicState> {
        let state = self.unchanged_state();
        self.alone.store(false, Ordering::Relaxed);
        state
    }

    /// The state, of which the caller makes no thread ready.
    fn unchanged_state(&self) -> MutexGuard<'_, DeterministicState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spawner for DeterministicHost {
    fn log(&self) -> &Log {
        &self.log
    }

    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody) -> io::Result<()> {
        let me = self.state().table.add(name, role, &self.log);
        let host = self.clone();
        let spawned = sync::spawn(move || {
            thread::set_current(u32::try_from(me).unwrap_or(u32::MAX));
            drop(wait_for_turn(host.state(), me));
            let ended = catch_unwind(AssertUnwindSafe(|| body(&mut Passive::new())));
            host.finish(me, ended.err().and_then(|panic| panic_message(&*panic, &host.log)));
        });
        // The calling thread goes on: no other one is chosen.
        let handle = spawned.inspect_err(|_| self.state().table.finish(me, None))?;
        self.state().handles.push(handle);
        Ok(())
    }

    fn run_until_idle(&self, at: &mut Passive) {
        DeterministicHost::run_until_idle(self, at);
    }

    fn driver_threads(&self) -> Vec<String> {
        self.state().table.driver_threads()
    }
}

impl Host for DeterministicHost {
    fn park(&self, _at: &mut Passive, token: &WaitToken, deadline: Option<u64>) -> WaitResult {
        let me = thread::current() as usize;
        let mut state = self.state();
        if token.take() {
            return WaitResult::Woken;
        }
        state.table.threads[me].status = Status::Parked(token.clone(), deadline);
        let mut state = Self::hand_over(state, me);
        self.log.note_time(state.table.now());
        state.table.take_result(me)
    }

    fn wake(&self, token: &WaitToken) {
        // A token without a waiting thread makes no thread ready.
        if !token.is_woken() && self.unchanged_state().table.wake(token).is_some() {
            self.alone.store(false, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.unchanged_state().table.now()
    }

    fn pass_time(&self, time: u64) {
        let mut state = self.state();
        state.table.pass_time(time);
        self.log.note_time(state.table.now());
    }

    fn spawner(self: Arc<Self>) -> Arc<dyn Spawner> {
        self
    }

    fn yield_point(&self, _at: &mut Passive) {
        // Under another lock of the state only a thread that runs beside the virtual ones can write
        // this; it is seen at the next yield point.
        if self.alone.load(Ordering::Relaxed) {
            return;
        }
        let me = thread::current() as usize;
        let state = self.state();
        if state.table.ready().eq([me]) {
            self.alone.store(true, Ordering::Relaxed);
            return;
        }
        drop(Self::hand_over(state, me));
    }
}

impl DeterministicState {
    fn run(&mut self, next: usize) {
        self.running = next;
        self.table.threads[next].turn.notify_one();
    }

    /// Chooses the thread that runs next. `None` if all have ended.
    fn choose(&mut self) -> Option<usize> {
        loop {
            let mut ready = self.table.ready();
            match (ready.next(), ready.count()) {
                (Some(only), 0) => return Some(only),
                (Some(_), others) => {
                    let draw = self.draw(others + 1);
                    return self.table.ready().nth(draw);
                }
                (None, _) if self.table.wake_one(true) => (),
                (None, _) => return None,
            }
        }
    }

    /// Draws a number below `bound` from the seed.
    fn draw(&mut self, bound: usize) -> usize {
        usize::try_from(next_random(&mut self.random, bound as u64)).unwrap_or(0)
    }
}

fn wait_for_turn(
    mut state: MutexGuard<'_, DeterministicState>,
    me: usize,
) -> MutexGuard<'_, DeterministicState> {
    let turn = state.table.threads[me].turn.clone();
    while state.running != me {
        state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Irql;

    fn fly<R>(seed: u64, main: impl FnOnce(&Arc<DeterministicHost>, &mut Passive) -> R) -> R {
        DeterministicHost::fly(seed, &Arc::new(Log::silent()), main).unwrap()
    }

    /// Runs three threads that yield between steps. Returns the order of their steps.
    fn order(seed: u64) -> String {
        let said = Arc::new(Mutex::new(String::new()));
        fly(seed, |host, at| {
            for name in ["a", "b", "c"] {
                let (host2, said) = (host.clone(), said.clone());
                host.spawn(name, move |at| {
                    for _ in 0..4 {
                        host2.yield_point(at);
                        said.lock().unwrap().push_str(name);
                    }
                });
            }
            host.run_until_idle(at);
        });
        said.lock().unwrap().clone()
    }

    #[test]
    fn the_seed_is_the_order() {
        assert_eq!(order(1), order(1));
        assert_eq!(order(1).len(), 12);
        assert!((2..20).any(|seed| order(seed) != order(1)));
    }

    #[test]
    fn a_ring_before_the_park_is_not_lost_and_is_used_once() {
        fly(0, |host, at| {
            let token = WaitToken::new("it");
            host.wake(&token);
            host.wake(&token);
            assert_eq!(host.park(at, &token, None), WaitResult::Woken);
            assert_eq!(host.park(at, &token, Some(5)), WaitResult::TimedOut);
        });
    }

    #[test]
    fn a_wait_that_nothing_can_end_is_stuck_and_says_why() {
        fly(0, |host, at| {
            let work_available = WaitToken::new("work");
            host.spawn_worker("system", work_available, |_| false);
            let woken = host.park(at, &WaitToken::new("a fence"), None);
            let graph = "main waits for a fence; system waits for work";
            assert_eq!(woken, WaitResult::Stuck(graph.into()));
        });
    }

    #[test]
    fn a_worker_whose_driver_waits_is_stuck_before_a_thread_that_waits_for_it() {
        fly(0, |host, at| {
            let done = WaitToken::new("the worker");
            let (host2, done2) = (host.clone(), done.clone());
            host.spawn_worker("system", WaitToken::new("work"), move |at| {
                let woken = host2.park(at, &WaitToken::for_driver("an event"), None);
                assert!(matches!(woken, WaitResult::Stuck(_)), "{woken:?}");
                host2.wake(&done2);
                false
            });
            assert_eq!(host.park(at, &done, None), WaitResult::Woken);
        });
    }

    #[test]
    fn who_waits_for_a_stuck_thread_is_not_the_stuck_one() {
        fly(0, |host, at| {
            let host2 = host.clone();
            let ended = host.spawn("client", move |at| {
                let woken = host2.park(at, &WaitToken::new("a fence"), None);
                assert!(matches!(woken, WaitResult::Stuck(_)), "{woken:?}");
            });
            assert_eq!(host.park(at, &ended, None), WaitResult::Woken);
        });
    }

    #[test]
    fn one_who_serves_is_rung_and_ends_with_the_others() {
        fly(3, |host, at| {
            let (work_available, done) = (WaitToken::new("work"), WaitToken::new("the service"));
            let (host2, done2) = (host.clone(), done.clone());
            let mut orders = 1;
            host.spawn_worker("system", work_available.clone(), move |_| {
                if orders == 1 {
                    host2.wake(&done2);
                }
                orders -= 1;
                orders == 0
            });
            host.wake(&work_available);
            assert_eq!(host.park(at, &done, None), WaitResult::Woken);
        });
    }

    #[test]
    fn a_panic_hands_the_baton_on() {
        let log = Arc::new(Log::silent());
        let flown = DeterministicHost::fly(0, &log, |host, at| {
            let ended = host.spawn("bad", |_| panic!("oh"));
            host.park(at, &ended, None)
        });
        assert_eq!(flown, Err(HostError("bad: oh".into())));
    }

    #[test]
    fn a_raised_level_is_lent_and_goes_back() {
        fly(0, |host, at| {
            let inside = at.raised(|_: &mut crate::Dispatch| host.irql());
            assert_eq!((inside, host.irql()), (Irql::Dispatch, Irql::Passive));
        });
    }

    #[test]
    fn an_internal_error_of_any_thread_ends_the_flight_with_the_last_events() {
        let log = Arc::new(Log::new());
        let flown = DeterministicHost::fly(1, &log, |host, at| {
            let end = host.spawn("second", |_| crate::internal_error("planted"));
            host.park(at, &end, None);
        });
        let HostError(message) = flown.unwrap_err();
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with("second: internal error at "), "{message}");
        assert!(lines[0].ends_with("broken invariant: planted; the last events:"), "{message}");
        assert_eq!(lines.len(), 3, "both threads have started: {message}");
        assert!(lines[2].contains("1 second"), "{message}");
    }
}
