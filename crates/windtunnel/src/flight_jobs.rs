//! The flights of a check, on several threads, and delivered in order.
//!
//! A thread takes the next flight that no thread has. The results are delivered in the order of the
//! flights, so a report does not depend on which flight ends first. When the body ends early, what
//! was flown ahead is dropped.

use crate::fly::FlightResult;
use flight::HostError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The result of a flight, or why it could not be made.
pub(crate) type FlightAttempt = Result<FlightResult, HostError>;

/// How many flights are made ahead of the one that is delivered next, for each thread. It bounds the
/// results that wait.
const AHEAD: u64 = 4;

/// The stack of a thread that flies, as large as that of a process's first thread.
const STACK: usize = 8 << 20;

/// The flights that are made and the results that wait.
struct Queue {
    state: Mutex<State>,
    /// A result came, was delivered, or the body has ended.
    changed: Condvar,
    total: u64,
    ahead: u64,
}

#[derive(Default)]
struct State {
    /// The next flight to make.
    next: u64,
    /// The next result to deliver.
    delivered: u64,
    /// No further flight is made.
    ended: bool,
    results: BTreeMap<u64, thread::Result<FlightAttempt>>,
}

/// Runs `body` with a function that returns the result of each flight: 0, 1 and so on below `total`,
/// each asked for once and in order. `fly` makes a flight, on `jobs` threads at once.
pub(crate) fn with_flights<R>(
    jobs: usize,
    total: u64,
    fly: &(dyn Fn(u64) -> FlightAttempt + Sync),
    body: impl FnOnce(&mut dyn FnMut(u64) -> FlightAttempt) -> R,
) -> R {
    let jobs = u64::try_from(jobs).unwrap_or(u64::MAX).min(total);
    if jobs <= 1 {
        return body(&mut |index| fly(index));
    }
    let queue = Queue {
        state: Mutex::default(),
        changed: Condvar::new(),
        total,
        ahead: jobs.saturating_mul(AHEAD),
    };
    thread::scope(|scope| {
        let start = || {
            let builder = thread::Builder::new().name("flights".to_owned()).stack_size(STACK);
            builder.spawn_scoped(scope, || queue.work(fly))
        };
        // With fewer threads than asked for it takes longer.
        let started = (0..jobs).take_while(|_| start().is_ok()).count();
        if started == 0 {
            return body(&mut |index| fly(index));
        }
        let _end = EndGuard(&queue);
        body(&mut |index| queue.deliver(index))
    })
}

/// Ends the threads of a queue, also when the body panics.
struct EndGuard<'a>(&'a Queue);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.changed.notify_all();
    }
}

impl Queue {
    /// Makes flights until there is none left.
    fn work(&self, fly: &(dyn Fn(u64) -> FlightAttempt + Sync)) {
        while let Some(index) = self.take() {
            let result = catch_unwind(AssertUnwindSafe(|| fly(index)));
            self.state().results.insert(index, result);
            self.changed.notify_all();
        }
    }

    /// The next flight to make.
    fn take(&self) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.ended || state.next == self.total {
                return None;
            }
            if state.next - state.delivered < self.ahead {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.wait(state);
        }
    }

    /// Waits for a result. A panic goes on in the thread that asks.
    fn deliver(&self, index: u64) -> FlightAttempt {
        let mut state = self.state();
        let result = loop {
            match state.results.remove(&index) {
                Some(result) => break result,
                None => state = self.wait(state),
            }
        };
        state.delivered = index + 1;
        drop(state);
        self.changed.notify_all();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn name(index: u64) -> FlightAttempt {
        Err(HostError(index.to_string()))
    }

    /// The names of the first `asked` of `total` flights, and how many were made.
    fn names(jobs: usize, total: u64, asked: u64) -> (Vec<String>, u64) {
        let made = AtomicU64::new(0);
        let fly = |index: u64| {
            made.fetch_add(1, Ordering::SeqCst);
            if index.is_multiple_of(3) {
                thread::yield_now();
            }
            name(index)
        };
        let names = with_flights(jobs, total, &fly, |next| {
            (0..asked).filter_map(|index| next(index).err()).map(|HostError(name)| name).collect()
        });
        (names, made.into_inner())
    }

    #[test]
    fn results_come_in_order_with_any_number_of_threads() {
        let all: Vec<String> = (0..200).map(|index| index.to_string()).collect();
        for jobs in [1, 2, 7, 500] {
            assert_eq!(names(jobs, 200, 200), (all.clone(), 200), "{jobs}");
        }
        assert_eq!(names(4, 0, 0), (Vec::new(), 0));
    }

    #[test]
    fn a_body_that_ends_early_leaves_the_rest_unflown() {
        let (names, made) = names(2, 1_000_000, 10);
        assert_eq!(names.len(), 10);
        assert!(made <= 10 + 2 * AHEAD, "{made}");
    }

    #[test]
    fn a_panic_reaches_the_thread_that_asks() {
        let fly = |index: u64| if index == 5 { panic!("on purpose") } else { name(index) };
        let seen = AtomicU64::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            with_flights(3, 20, &fly, |next| {
                for index in 0..20 {
                    drop(next(index));
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(seen.into_inner(), 5, "what was flown before the panic is delivered");
    }
}
