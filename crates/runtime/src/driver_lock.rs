//! The lock that lets one thread at a time into a driver for a device.

use flight::{Host, Passive, Text, WaitResult, WaitToken};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock on a driver, for one device.
#[derive(Debug, Default)]
pub(crate) struct DriverLock(Mutex<LockState>);

#[derive(Debug, Default)]
struct LockState {
    /// The virtual thread that holds the lock.
    thread: Option<u32>,
    /// The waiting threads and their wait tokens.
    waiters: VecDeque<(u32, WaitToken)>,
}

impl DriverLock {
    /// Acquires the lock. Returns the thread that this thread had to wait for; fails with a
    /// description of the deadlock if the owner never releases the lock.
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
                let token = WaitToken::new("the lock of a user-mode device");
                inside.waiters.push_back((me, token.clone()));
                token
            };
            if let WaitResult::Stuck(graph) = host.park(at, &token, None) {
                // A thread that stopped waiting must not be woken.
                self.lock().waiters.retain(|pair| pair.0 != me);
                return Err(graph);
            }
        }
    }

    /// Releases the lock, and wakes the next waiting thread.
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
