//! Who is inside a driver for a device: one thread at a time.

use flight::{Host, Passive, Text, WaitResult, WaitToken};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The way into a driver, for one device.
#[derive(Debug, Default)]
pub(crate) struct DriverLock(Mutex<LockState>);

#[derive(Debug, Default)]
struct LockState {
    /// The virtual thread that is inside.
    thread: Option<u32>,
    /// Who waits, and on what.
    waiters: VecDeque<(u32, WaitToken)>,
}

impl DriverLock {
    /// Goes in, when nobody else is. Answers who had to be waited for; or who waits for what, if
    /// whoever is inside never comes out.
    pub(crate) fn enter(&self, host: &dyn Host, at: &mut Passive) -> Result<Option<u32>, Text> {
        let me = flight::current_thread();
        let mut other = None;
        loop {
            let token = {
                let mut inside = self.lock();
                let Some(thread) = inside.thread else {
                    inside.thread = Some(me);
                    return Ok(other);
                };
                other = other.or(Some(thread));
                let token = WaitToken::new("the way into a user-mode driver");
                inside.waiters.push_back((me, token.clone()));
                token
            };
            if let WaitResult::Stuck(graph) = host.park(at, &token, None) {
                // Nobody is to ring for one who has gone.
                self.lock().waiters.retain(|pair| pair.0 != me);
                return Err(graph);
            }
        }
    }

    /// Goes out, and lets the next one in.
    pub(crate) fn leave(&self, host: &dyn Host) {
        let next = {
            let mut inside = self.lock();
            inside.thread = None;
            inside.waiters.pop_front()
        };
        if let Some((_, next)) = next {
            host.wake(&next);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
