//! The processor as a driver's imports see it: the level it runs at, and the spin locks it has.
//!
//! # Invariants
//!
//! 1. The host's level is never below the one the driver was entered at: a driver that asks for
//!    less gets the answer it wants and not the level, so no proof is lent that does not hold.
//! 2. Locks are kept here, by address, and never in the driver's memory: a lock whose memory
//!    is gone can still be let go.

use flight::{Host, Irql, Log};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often somebody looks at a lock that another thread has, before it is taken for lost.
const MAX_SPINS: u32 = 10_000_000;

thread_local! {
    static NOW: RefCell<Option<RunningDriver>> = const { RefCell::new(None) };
}

/// The spin locks that somebody has.
static HELD_SPIN_LOCKS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The driver that runs on this thread.
struct RunningDriver {
    host: Arc<dyn Host>,
    log: Arc<Log>,
    entered: Irql,
    /// The level it asked for.
    level: Irql,
    /// The locks it has, in the order it took them.
    locks: Vec<usize>,
}

/// How a driver left.
#[derive(Debug, PartialEq, Eq)]
pub struct ExitState {
    /// The level it was entered at.
    pub entered: Irql,
    /// The level it left at.
    pub level: Irql,
    /// How many spin locks it had then.
    pub locks: usize,
}

/// Runs code of a driver; answers how it left. What it changed is put back, also if it unwinds.
pub fn run_driver<R>(
    host: &Arc<dyn Host>,
    log: &Arc<Log>,
    body: impl FnOnce() -> R,
) -> (R, ExitState) {
    let entered = host.irql();
    let now = RunningDriver {
        host: host.clone(),
        log: log.clone(),
        entered,
        level: entered,
        locks: vec![],
    };
    let back = RunningDriverGuard { previous: NOW.replace(Some(now)), restored: false };
    let answer = body();
    (answer, back.restore())
}

/// The level the driver believes to be at.
pub(crate) fn level() -> Irql {
    with_running_driver(|running_driver| running_driver.level).unwrap_or(Irql::Passive)
}

/// Changes it; answers the one before.
pub(crate) fn set_level(level: Irql) -> Irql {
    let change = |it: &mut RunningDriver| {
        it.host.set_irql(level.max(it.entered));
        std::mem::replace(&mut it.level, level)
    };
    with_running_driver(change).unwrap_or(Irql::Passive)
}

/// Takes a lock. One that this thread has already is not waited for: it is left twice.
pub(crate) fn acquire_spin_lock(lock: usize) {
    let mine =
        with_running_driver(|running_driver| running_driver.locks.contains(&lock)).unwrap_or(true);
    // A lock that a driver never lets go is named when that driver leaves.
    let _got = mine || (0..MAX_SPINS).any(|_| held_spin_locks().insert(lock) || yield_once());
    with_running_driver(|running_driver| running_driver.locks.push(lock));
}

/// Lets a lock go.
pub(crate) fn release_spin_lock(lock: usize) {
    let last = with_running_driver(|running_driver| {
        let place = running_driver.locks.iter().rposition(|it| *it == lock);
        place.map(|at| running_driver.locks.remove(at));
        !running_driver.locks.contains(&lock)
    });
    if last == Some(true) {
        held_spin_locks().remove(&lock);
    }
}

/// Who runs the driver on this thread, and where to say what it did.
pub(crate) fn current() -> Option<(Arc<dyn Host>, Arc<Log>)> {
    with_running_driver(|running_driver| (running_driver.host.clone(), running_driver.log.clone()))
}

fn with_running_driver<R>(body: impl FnOnce(&mut RunningDriver) -> R) -> Option<R> {
    NOW.try_with(|running_driver| running_driver.borrow_mut().as_mut().map(body)).ok().flatten()
}

fn held_spin_locks() -> MutexGuard<'static, BTreeSet<usize>> {
    HELD_SPIN_LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn yield_once() -> bool {
    std::thread::yield_now();
    false
}

/// Puts back who ran here before, once.
struct RunningDriverGuard {
    previous: Option<RunningDriver>,
    restored: bool,
}

impl RunningDriverGuard {
    fn restore(mut self) -> ExitState {
        self.restore_once().unwrap_or(ExitState {
            entered: Irql::Passive,
            level: Irql::Passive,
            locks: 0,
        })
    }

    fn restore_once(&mut self) -> Option<ExitState> {
        if std::mem::replace(&mut self.restored, true) {
            return None;
        }
        let before = self.previous.take();
        let now = NOW.try_with(|running_driver| running_driver.replace(before)).ok().flatten()?;
        now.host.set_irql(now.entered);
        for lock in &now.locks {
            held_spin_locks().remove(lock);
        }
        Some(ExitState { entered: now.entered, level: now.level, locks: now.locks.len() })
    }
}

impl Drop for RunningDriverGuard {
    fn drop(&mut self) {
        let _unwound = self.restore_once();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{DeterministicHost, Passive};

    fn fly(body: impl FnOnce(&Arc<dyn Host>, &Arc<Log>, &mut Passive)) {
        let log = Arc::new(Log::silent());
        let flight_result = DeterministicHost::fly(0, &log, |host, at| {
            let host: Arc<dyn Host> = host.clone();
            body(&host, &log, at);
        });
        flight_result.unwrap();
    }

    #[test]
    fn a_driver_leaves_as_it_came() {
        fly(|host, log, _| {
            let (before, left) = run_driver(host, log, || {
                let before = set_level(Irql::Dispatch);
                assert_eq!((host.irql(), level()), (Irql::Dispatch, Irql::Dispatch));
                set_level(before)
            });
            assert_eq!(before, Irql::Dispatch);
            assert_eq!(left, ExitState { entered: Irql::Passive, level: Irql::Passive, locks: 0 });
        });
    }

    #[test]
    fn what_it_leaves_is_said_and_put_back() {
        fly(|host, log, _| {
            let leaves = || {
                set_level(Irql::Dispatch);
                acquire_spin_lock(0x40);
            };
            let ((), left) = run_driver(host, log, leaves);
            assert_eq!((left.level, left.locks, host.irql()), (Irql::Dispatch, 1, Irql::Passive));
            // Nobody has it any more: this does not hang.
            let ((), left) = run_driver(host, log, || {
                acquire_spin_lock(0x40);
                release_spin_lock(0x40);
            });
            assert_eq!(left.locks, 0);
        });
    }

    #[test]
    fn a_lock_that_is_taken_twice_is_left() {
        fly(|host, log, _| {
            let ((), left) = run_driver(host, log, || {
                acquire_spin_lock(0x80);
                acquire_spin_lock(0x80);
                release_spin_lock(0x80);
            });
            assert_eq!(left.locks, 1);
        });
    }

    #[test]
    fn nobody_gets_below_the_level_it_was_entered_at() {
        fly(|host, log, at| {
            at.raised(&**host, |_: &mut flight::Dispatch| {
                let ((), left) = run_driver(host, log, || {
                    set_level(Irql::Passive);
                    assert_eq!((level(), host.irql()), (Irql::Passive, Irql::Dispatch));
                });
                assert_eq!((left.entered, left.level), (Irql::Dispatch, Irql::Passive));
            });
        });
    }
}
