//! The lock around a kernel's state, and the threads that wait until the state changes.
//!
//! Lock order, outermost first: the state, then the locks inside this crate (the log, the hosts).
//! While the state is locked, no other lock may be taken and no thread may wait. Exceptions are
//! locks below everything that do not use the state: those of memory and of `MemoryObserver`s.
//!
//! A wait does not hold the lock: [`Lock::wait_until`] checks the state, adds a token to the
//! state's [`WaitQueue`] under the same lock, and parks afterwards. So no change is missed.

#[cfg(shuttle)]
use crate::sync::{Mutex, MutexGuard};
use crate::{Host, WaitResult, WaitToken};
// `cargo xtask test` builds the kernel's handle table with it, and tries every order.
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(any(shuttle, loom)))]
use parking_lot::{Mutex, MutexGuard};

/// A locked `T`. A function that takes the guard returns it or drops it. A step that calls a driver
/// in between drops the guard and returns another.
pub type StateGuard<'a, T> = MutexGuard<'a, T>;

/// A lock around a `T`: the only kind of lock in the kernels.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

/// The threads that wait for a change of the state that this queue is part of.
#[derive(Debug, Default)]
pub struct WaitQueue(Vec<WaitToken>);

impl<T> Lock<T> {
    /// An unlocked `value`.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the value. A panic under the lock does not poison it: a kernel's panic ends the flight
    /// anyway.
    #[cfg(not(any(shuttle, loom)))]
    #[inline]
    pub fn lock(&self) -> StateGuard<'_, T> {
        self.0.lock()
    }

    /// The same, in builds that choose the order of threads.
    #[cfg(any(shuttle, loom))]
    pub fn lock(&self) -> StateGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<S: AsMut<WaitQueue>> Lock<S> {
    /// Waits until `act` returns a value, and returns that value. `act` checks and acts under one
    /// lock of the state, and is called again each time the [`WaitQueue`] is woken. `token` makes
    /// the token of a wait, and `park` waits for it with [`Host::park`].
    ///
    /// # Errors
    ///
    /// How the wait ended, if its token was not woken.
    pub fn wait_until<T>(
        &self,
        token: impl Fn(&S) -> WaitToken,
        mut park: impl FnMut(&WaitToken) -> WaitResult,
        mut act: impl FnMut(&mut S) -> Option<T>,
    ) -> Result<T, WaitResult> {
        loop {
            let token = {
                let mut state = self.lock();
                if let Some(value) = act(&mut state) {
                    return Ok(value);
                }
                let token = token(&state);
                state.as_mut().push(token.clone());
                token
            };
            let result = park(&token);
            if result != WaitResult::Woken {
                self.lock().as_mut().remove(&token);
                return Err(result);
            }
        }
    }
}

impl WaitQueue {
    /// Adds a thread, by the token that it parks with.
    pub fn push(&mut self, token: WaitToken) {
        self.0.push(token);
    }

    /// Whether no thread waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes all threads, the longest wait first. Each checks the state again.
    #[inline]
    pub fn wake_all(&mut self, host: &dyn Host) {
        if !self.0.is_empty() {
            self.wake_waiting(host);
        }
    }

    #[cold]
    fn wake_waiting(&mut self, host: &dyn Host) {
        for token in self.0.drain(..) {
            host.wake(&token);
        }
    }

    /// Removes a thread whose wait has ended without being woken.
    fn remove(&mut self, token: &WaitToken) {
        self.0.retain(|other| !other.same_as(token));
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::{DeterministicHost, Log, Passive};
    use std::sync::Arc;

    /// A number, and the threads that wait for it to change.
    #[derive(Default)]
    struct Counter {
        value: u32,
        waiters: WaitQueue,
    }

    impl AsMut<WaitQueue> for Counter {
        fn as_mut(&mut self) -> &mut WaitQueue {
            &mut self.waiters
        }
    }

    /// Waits until the counter has a value, and then takes it.
    fn take(
        counter: &Lock<Counter>,
        host: &dyn Host,
        at: &mut Passive,
        value: u32,
    ) -> Result<u32, WaitResult> {
        counter.wait_until(
            |state| WaitToken::new(format!("{value}, not {}", state.value)),
            |token| host.park(at, token, None),
            |state| (state.value == value).then(|| std::mem::take(&mut state.value)),
        )
    }

    #[test]
    fn a_waiting_thread_checks_again_after_each_change() {
        for seed in 0..32 {
            let log = Arc::new(Log::new());
            DeterministicHost::fly(seed, &log.clone(), |host, at| {
                let counter = Arc::new(Lock::<Counter>::default());
                let (counting, waker) = (counter.clone(), host.clone());
                host.spawn("counter", move |at| {
                    for _ in 0..3 {
                        waker.yield_point(at);
                        let mut state = counting.lock();
                        state.value += 1;
                        state.waiters.wake_all(&*waker);
                    }
                });
                assert_eq!(take(&counter, &**host, at, 3), Ok(3));
                let state = counter.lock();
                assert!(state.value == 0 && state.waiters.is_empty());
            })
            .unwrap();
        }
    }

    #[test]
    fn a_thread_that_gives_up_does_not_stay_in_the_queue() {
        let log = Arc::new(Log::new());
        DeterministicHost::fly(1, &log.clone(), |host, at| {
            let counter = Lock::<Counter>::default();
            let result = take(&counter, &**host, at, 1);
            let Err(WaitResult::Stuck(graph)) = result else {
                panic!("nothing changes the counter: {result:?}")
            };
            assert!(graph.contains("1, not 0"), "{graph}");
            assert!(counter.lock().waiters.is_empty());
        })
        .unwrap();
    }
}
