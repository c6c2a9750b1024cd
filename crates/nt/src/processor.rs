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
const PATIENCE: u32 = 10_000_000;

thread_local! {
    static NOW: RefCell<Option<Now>> = const { RefCell::new(None) };
}

/// The spin locks that somebody has.
static LOCKS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The driver that runs on this thread.
struct Now {
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
pub struct Left {
    /// The level it was entered at.
    pub entered: Irql,
    /// The level it left at.
    pub level: Irql,
    /// How many spin locks it had then.
    pub locks: usize,
}

/// Runs code of a driver; answers how it left. What it changed is put back, also if it unwinds.
pub fn inside<R>(host: &Arc<dyn Host>, log: &Arc<Log>, body: impl FnOnce() -> R) -> (R, Left) {
    let entered = host.irql();
    let now = Now { host: host.clone(), log: log.clone(), entered, level: entered, locks: vec![] };
    let back = Back { before: NOW.replace(Some(now)), put: false };
    let answer = body();
    (answer, back.put())
}

/// The level the driver believes to be at.
pub(crate) fn level() -> Irql {
    with(|it| it.level).unwrap_or(Irql::Passive)
}

/// Changes it; answers the one before.
pub(crate) fn set_level(level: Irql) -> Irql {
    let change = |it: &mut Now| {
        it.host.set_irql(level.max(it.entered));
        std::mem::replace(&mut it.level, level)
    };
    with(change).unwrap_or(Irql::Passive)
}

/// Takes a lock. One that this thread has already is not waited for: it is left twice.
pub(crate) fn take(lock: usize) {
    let mine = with(|it| it.locks.contains(&lock)).unwrap_or(true);
    // A lock that a driver never lets go is named when that driver leaves.
    let _got = mine || (0..PATIENCE).any(|_| locks().insert(lock) || yielded());
    with(|it| it.locks.push(lock));
}

/// Lets a lock go.
pub(crate) fn let_go(lock: usize) {
    let last = with(|it| {
        let place = it.locks.iter().rposition(|it| *it == lock);
        place.map(|at| it.locks.remove(at));
        !it.locks.contains(&lock)
    });
    if last == Some(true) {
        locks().remove(&lock);
    }
}

/// Who runs the driver on this thread, and where to say what it did.
pub(crate) fn current() -> Option<(Arc<dyn Host>, Arc<Log>)> {
    with(|it| (it.host.clone(), it.log.clone()))
}

fn with<R>(body: impl FnOnce(&mut Now) -> R) -> Option<R> {
    NOW.try_with(|it| it.borrow_mut().as_mut().map(body)).ok().flatten()
}

fn locks() -> MutexGuard<'static, BTreeSet<usize>> {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn yielded() -> bool {
    std::thread::yield_now();
    false
}

/// Puts back who ran here before, once.
struct Back {
    before: Option<Now>,
    put: bool,
}

impl Back {
    fn put(mut self) -> Left {
        self.back().unwrap_or(Left { entered: Irql::Passive, level: Irql::Passive, locks: 0 })
    }

    fn back(&mut self) -> Option<Left> {
        if std::mem::replace(&mut self.put, true) {
            return None;
        }
        let before = self.before.take();
        let now = NOW.try_with(|it| it.replace(before)).ok().flatten()?;
        now.host.set_irql(now.entered);
        for lock in &now.locks {
            locks().remove(lock);
        }
        Some(Left { entered: now.entered, level: now.level, locks: now.locks.len() })
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        let _unwound = self.back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{Passive, Stepped};

    fn fly(body: impl FnOnce(&Arc<dyn Host>, &Arc<Log>, &mut Passive)) {
        let log = Arc::new(Log::silent());
        let flown = Stepped::fly(0, &log, |host, at| {
            let host: Arc<dyn Host> = host.clone();
            body(&host, &log, at);
        });
        flown.unwrap();
    }

    #[test]
    fn a_driver_leaves_as_it_came() {
        fly(|host, log, _| {
            let (before, left) = inside(host, log, || {
                let before = set_level(Irql::Dispatch);
                assert_eq!((host.irql(), level()), (Irql::Dispatch, Irql::Dispatch));
                set_level(before)
            });
            assert_eq!(before, Irql::Dispatch);
            assert_eq!(left, Left { entered: Irql::Passive, level: Irql::Passive, locks: 0 });
        });
    }

    #[test]
    fn what_it_leaves_is_said_and_put_back() {
        fly(|host, log, _| {
            let leaves = || {
                set_level(Irql::Dispatch);
                take(0x40);
            };
            let ((), left) = inside(host, log, leaves);
            assert_eq!((left.level, left.locks, host.irql()), (Irql::Dispatch, 1, Irql::Passive));
            // Nobody has it any more: this does not hang.
            let ((), left) = inside(host, log, || {
                take(0x40);
                let_go(0x40);
            });
            assert_eq!(left.locks, 0);
        });
    }

    #[test]
    fn a_lock_that_is_taken_twice_is_left() {
        fly(|host, log, _| {
            let ((), left) = inside(host, log, || {
                take(0x80);
                take(0x80);
                let_go(0x80);
            });
            assert_eq!(left.locks, 1);
        });
    }

    #[test]
    fn nobody_gets_below_the_level_it_was_entered_at() {
        fly(|host, log, at| {
            at.raised(&**host, |_: &mut flight::Dispatch| {
                let ((), left) = inside(host, log, || {
                    set_level(Irql::Passive);
                    assert_eq!((level(), host.irql()), (Irql::Passive, Irql::Dispatch));
                });
                assert_eq!((left.entered, left.level), (Irql::Dispatch, Irql::Passive));
            });
        });
    }
}
