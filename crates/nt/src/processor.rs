//! The processor as a driver's imports see it: the level it runs at, and the spin locks it has.
//!
//! # Invariants
//!
//! 1. The host's level is never below the one the driver was entered at: a driver that asks for
//!    less gets the answer it wants and not the level, so no proof is lent that does not hold.
//! 2. The owners of locks are kept here, by address: a lock whose memory is gone can still be let
//!    go. The word in the driver's memory says only whether it is owned.

use flight::{Attachment, AttachmentGuard, ExecutionContext, Host, Irql, Log};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often somebody looks at a lock that another thread has, before it is taken for lost.
const MAX_SPINS: u32 = 10_000_000;

/// The spin locks that somebody has.
static HELD_SPIN_LOCKS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The driver that runs on this thread.
struct RunningDriver {
    host: Arc<dyn Host>,
    log: Arc<Log>,
    processor: Mutex<ProcessorState>,
}

/// What the driver did to the processor it runs on.
struct ProcessorState {
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
    let driver = RunningDriver::new(host.clone(), log.clone(), entered);
    let attached = Some(ExecutionContext::attach(driver.clone()));
    let back = RunningDriverGuard { driver, attached };
    let answer = body();
    (answer, back.restore())
}

impl RunningDriver {
    fn new(host: Arc<dyn Host>, log: Arc<Log>, entered: Irql) -> Arc<Self> {
        let processor = ProcessorState { entered, level: entered, locks: vec![] };
        Arc::new(Self { host, log, processor: Mutex::new(processor) })
    }

    /// The driver that runs on this thread. Where none is running, the call of `import` is
    /// reported.
    fn current(import: &'static str) -> Option<Arc<Self>> {
        let driver = ExecutionContext::attached();
        if driver.is_none() {
            ExecutionContext::report_missing(import);
        }
        driver
    }

    /// Not to be held while the host is asked for anything.
    fn processor(&self) -> MutexGuard<'_, ProcessorState> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attachment for RunningDriver {
    /// A new thread begins at passive level, without a lock.
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        Some(RunningDriver::new(self.host.clone(), self.log.clone(), Irql::Passive))
    }
}

/// The level the driver believes to be at.
pub(crate) fn level(import: &'static str) -> Irql {
    RunningDriver::current(import).map_or(Irql::Passive, |driver| driver.processor().level)
}

/// Changes the level; returns the one before.
pub(crate) fn set_level(import: &'static str, level: Irql) -> Irql {
    let Some(driver) = RunningDriver::current(import) else { return Irql::Passive };
    let (entered, before) = {
        let mut processor = driver.processor();
        (processor.entered, std::mem::replace(&mut processor.level, level))
    };
    driver.host.set_irql(level.max(entered));
    before
}

/// Takes a lock. One that this thread has already is not waited for: it is left twice.
pub(crate) fn acquire_spin_lock(import: &'static str, lock: usize) {
    let Some(driver) = RunningDriver::current(import) else { return };
    let mine = driver.processor().locks.contains(&lock);
    // A lock that a driver never lets go is named when that driver leaves.
    let _got = mine || (0..MAX_SPINS).any(|_| held_spin_locks().insert(lock) || yield_once());
    driver.processor().locks.push(lock);
}

/// Lets a lock go.
pub(crate) fn release_spin_lock(import: &'static str, lock: usize) {
    let Some(driver) = RunningDriver::current(import) else { return };
    let mut processor = driver.processor();
    let index = processor.locks.iter().rposition(|held| *held == lock);
    index.map(|index| processor.locks.remove(index));
    if !processor.locks.contains(&lock) {
        held_spin_locks().remove(&lock);
    }
}

/// The host that runs the driver on this thread, and the log of the flight.
pub(crate) fn current(import: &'static str) -> Option<(Arc<dyn Host>, Arc<Log>)> {
    RunningDriver::current(import).map(|driver| (driver.host.clone(), driver.log.clone()))
}

fn held_spin_locks() -> MutexGuard<'static, BTreeSet<usize>> {
    HELD_SPIN_LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn yield_once() -> bool {
    std::thread::yield_now();
    false
}

/// Puts back what the driver changed, also if it unwinds.
struct RunningDriverGuard {
    driver: Arc<RunningDriver>,
    attached: Option<AttachmentGuard<RunningDriver>>,
}

impl RunningDriverGuard {
    fn restore(mut self) -> ExitState {
        self.detach();
        let processor = self.driver.processor();
        let (entered, level) = (processor.entered, processor.level);
        ExitState { entered, level, locks: processor.locks.len() }
    }

    /// Ends the driver's time on this thread, once.
    fn detach(&mut self) {
        let Some(attached) = self.attached.take() else { return };
        drop(attached);
        let processor = self.driver.processor();
        self.driver.host.set_irql(processor.entered);
        for lock in &processor.locks {
            held_spin_locks().remove(lock);
        }
    }
}

impl Drop for RunningDriverGuard {
    fn drop(&mut self) {
        self.detach();
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
                let before = set_level("a test", Irql::Dispatch);
                assert_eq!((host.irql(), level("a test")), (Irql::Dispatch, Irql::Dispatch));
                set_level("a test", before)
            });
            assert_eq!(before, Irql::Dispatch);
            assert_eq!(left, ExitState { entered: Irql::Passive, level: Irql::Passive, locks: 0 });
        });
    }

    #[test]
    fn what_it_leaves_is_said_and_put_back() {
        fly(|host, log, _| {
            let leaves = || {
                set_level("a test", Irql::Dispatch);
                acquire_spin_lock("a test", 0x40);
            };
            let ((), left) = run_driver(host, log, leaves);
            assert_eq!((left.level, left.locks, host.irql()), (Irql::Dispatch, 1, Irql::Passive));
            // Nobody has it any more: this does not hang.
            let ((), left) = run_driver(host, log, || {
                acquire_spin_lock("a test", 0x40);
                release_spin_lock("a test", 0x40);
            });
            assert_eq!(left.locks, 0);
        });
    }

    #[test]
    fn a_lock_that_is_taken_twice_is_left() {
        fly(|host, log, _| {
            let ((), left) = run_driver(host, log, || {
                acquire_spin_lock("a test", 0x80);
                acquire_spin_lock("a test", 0x80);
                release_spin_lock("a test", 0x80);
            });
            assert_eq!(left.locks, 1);
        });
    }

    #[test]
    fn nobody_gets_below_the_level_it_was_entered_at() {
        fly(|host, log, at| {
            at.raised(&**host, |_: &mut flight::Dispatch| {
                let ((), left) = run_driver(host, log, || {
                    set_level("a test", Irql::Passive);
                    assert_eq!((level("a test"), host.irql()), (Irql::Passive, Irql::Dispatch));
                });
                assert_eq!((left.entered, left.level), (Irql::Dispatch, Irql::Passive));
            });
        });
    }

    #[test]
    fn a_thread_that_a_driver_starts_has_its_host_and_pool_and_begins_at_passive_level() {
        let log = Arc::new(Log::new());
        let pool = crate::Pool::new(log.clone());
        let flown = DeterministicHost::fly(0, &log, |host, at| {
            let any_host: Arc<dyn Host> = host.clone();
            let start = || {
                set_level("a test", Irql::Dispatch);
                acquire_spin_lock("a test", 0xC0);
                let context = ExecutionContext::capture();
                let end = host.spawn("the driver's", move |_| {
                    assert!(current("a test").is_none());
                    let _entered = context.enter();
                    assert!(
                        current("a test").is_some() && crate::Pool::current("a test").is_some()
                    );
                    assert_eq!(level("a test"), Irql::Passive);
                    set_level("a test", Irql::Dispatch);
                });
                release_spin_lock("a test", 0xC0);
                set_level("a test", Irql::Passive);
                end
            };
            let (end, left) = run_driver(&any_host, &log, || pool.run_driver(start));
            host.park(at, &end, None);
            assert_eq!((left.level, left.locks, host.irql()), (Irql::Passive, 0, Irql::Passive));
        });
        assert_eq!(flown, Ok(()));
    }
}
