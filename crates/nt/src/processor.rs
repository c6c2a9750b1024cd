//! The processor state of a running driver: its IRQL and the locks that it holds.
//!
//! All code of a driver runs inside [`run_driver`]: DDIs, and through `run_routine` also the
//! driver's threads, DPCs and work items.
//!
//! # Invariants
//!
//! 1. The host's IRQL is never below the IRQL at which the driver was entered. A driver that lowers
//!    it further reads back the IRQL it set, but the host's IRQL stays. So no IRQL proof that is
//!    lent meanwhile becomes invalid.
//! 2. Held locks are recorded here, by address, so a lock whose memory was freed can still be
//!    released. The `KSPIN_LOCK` in the driver's memory only shows whether it is held.
//! 3. The driver's IRQL is a number as on Windows: a driver that raises to `APC_LEVEL` reads 1. The
//!    host knows three levels only; `APC_LEVEL` is its passive level, because there are no APCs.

use crate::abandon::{self, Abandoned};
use crate::control_state::{ControlChange, keep_control_state};
use crate::held_locks::{HeldLock, LockKind, acquired, judge_lock_order, judge_own_lock};
use crate::image::{self, DriverCode};
use crate::import_irql::irql_name;
use crate::ke_irql::{DEVICE_LEVEL, DISPATCH_LEVEL, KIRQL, PASSIVE_LEVEL};
use crate::pool::Pool;
use crate::raised_time::{self, RaisedTime};
use crate::waits::{current_call, log_misuse};
use flight::{
    Attachment, AttachmentGuard, Component, ExecutionContext, Host, Irql, Log, RuleId, RunningCall,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of attempts to acquire a lock that another thread holds, before giving up.
const MAX_SPINS: u32 = 10_000_000;

/// The spin locks that any thread holds.
static HELD_SPIN_LOCKS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The driver that runs on this thread.
struct RunningDriver {
    host: Arc<dyn Host>,
    log: Arc<Log>,
    processor: Mutex<ProcessorState>,
}

/// The processor state that the driver changes.
struct ProcessorState {
    entered: Irql,
    /// The IRQL that the driver set, as its number.
    number: KIRQL,
    /// The locks that it holds, in the order of acquisition. Spin locks that it leaves are a breach.
    locks: Vec<HeldLock>,
    raised_time: RaisedTime,
    /// The first change of the control state that it left.
    control: Option<ControlChange>,
}

/// The processor state when driver code returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitState {
    /// The IRQL at which it was entered.
    pub entered: Irql,
    /// The IRQL at which it returned.
    pub level: Irql,
    /// The same as its number, which also tells `APC_LEVEL`.
    pub irql: u8,
    /// Number of spin locks that it still held.
    pub locks: usize,
    /// The return address of the call that acquired the last of them. Zero if it is not known.
    pub lock_caller: u64,
    /// The virtual time that it spent at `DISPATCH_LEVEL` or above, in units of 100 ns.
    pub raised_time: u64,
    /// What it left changed of the control state of the processor.
    pub control: Option<ControlChange>,
}

impl ExitState {
    /// The sentence on code that returned with another control state of the processor.
    pub fn control_breach(&self) -> Option<String> {
        self.control.map(|change| change.breach("the driver"))
    }

    /// The sentence on a function that returned at another IRQL or with a spin lock.
    pub fn breach(&self, function: &str) -> Option<String> {
        let (entered, left) = (number_of(self.entered), self.irql);
        let locks = match self.locks {
            0 => String::new(),
            1 => format!(" with a spin lock{}", acquired(self.lock_caller)),
            locks => format!(" with {locks} spin locks, the last{}", acquired(self.lock_caller)),
        };
        (entered != left || self.locks > 0).then(|| {
            format!(
                "{function} returned at {}{locks} and was entered at {}: it must return at the IRQL \
                 of its entry, without a spin lock",
                irql_name(left),
                irql_name(entered),
            )
        })
    }
}

/// Runs driver code; returns its result and the processor state at its end. The IRQL and the locks
/// are restored, also if the code unwinds.
pub fn run_driver<R>(
    host: &Arc<dyn Host>,
    log: &Arc<Log>,
    body: impl FnOnce() -> R,
) -> (R, ExitState) {
    let entered = host.irql();
    let driver = RunningDriver::new(host.clone(), log.clone(), entered);
    let attached = Some(ExecutionContext::attach(driver.clone()));
    let back = RunningDriverGuard { driver, attached };
    let call = flight::CallGuard::current().map_or(0, |call| call.number.into());
    let code = DriverCode::begin(call, number_of(entered));
    if code.limits_stack() {
        // A breach ends the process: the parent reports it.
        log.judge(RuleId::WT_STACK_001, Component::Driver, current_call(), "any DDI", None);
    }
    if code.is_above_paged_memory() {
        log.judge(RuleId::WT_PAGED_001, Component::Driver, current_call(), "any DDI", None);
    }
    let answer = image::returning(body);
    drop(code);
    (answer, back.restore())
}

/// Runs driver code at the host's current IRQL, inside of driver code that already runs.
pub fn run_nested<R>(host: &dyn Host, body: impl FnOnce() -> R) -> R {
    let call = flight::CallGuard::current().map_or(0, |call| call.number.into());
    let _code = DriverCode::begin(call, number_of(host.irql()));
    body()
}

/// Runs a routine of the driver that is not a DDI: a thread's start routine, a DPC or a work item.
/// Returns how it ended if it did not return. See [`crate::abandon`].
pub(crate) fn run_routine(
    host: &Arc<dyn Host>,
    log: &Arc<Log>,
    routine: impl FnOnce(),
) -> (Result<(), Abandoned>, ExitState) {
    run_driver(host, log, || abandon::run(|| run_with_control_state(routine)))
}

/// Runs code of the driver alone: nothing of ours runs between its return and the comparison of the
/// control state.
pub(crate) fn run_with_control_state<R>(body: impl FnOnce() -> R) -> R {
    let (answer, change) = keep_control_state(image::hosts_image(), body);
    if let Some(change) = change
        && let Some(driver) = ExecutionContext::attached::<RunningDriver>()
    {
        driver.processor().control.get_or_insert(change);
    }
    answer
}

/// Entry rules: a driver returns at the IRQL at which it was called, without a spin lock, and with
/// the control state of the processor as it was.
pub fn judge_exit(log: &Log, place: &'static str, left: &ExitState) {
    judge_breaches(log, place, left.breach(&running_function(log)), left.control_breach());
}

/// As [`judge_exit`] for a routine of the driver that is not a DDI.
pub(crate) fn judge_routine_exit(log: &Log, routine: &'static str, left: &ExitState) {
    let named = |breach: Option<String>| breach.map(|breach| format!("{routine}: {breach}"));
    let level = left.breach("the driver");
    judge_breaches(log, routine, named(level), named(left.control_breach()));
}

/// The function of the driver that this thread runs, and where it is, for a sentence.
fn running_function(log: &Log) -> String {
    let Some(call) = RunningCall::current() else { return "the driver".to_owned() };
    let function = log.describe_entry(call.name);
    if function == call.name { function } else { function + "," }
}

fn judge_breaches(log: &Log, place: &'static str, level: Option<String>, control: Option<String>) {
    log.judge(RuleId::KMD_LEVEL_008, Component::Driver, current_call(), place, level);
    judge_control_state(log, place, control);
}

/// Entry rule: a driver returns with the control state of the processor as it was. Built-in drivers
/// are not judged.
pub fn judge_control_state(log: &Log, place: &'static str, broken: Option<String>) {
    if image::hosts_image() {
        log.judge(RuleId::WT_REGISTER_001, Component::Driver, current_call(), place, broken);
    }
}

/// The number of an IRQL of the host.
pub(crate) fn number_of(level: Irql) -> KIRQL {
    match level {
        Irql::Passive => PASSIVE_LEVEL,
        Irql::Dispatch => DISPATCH_LEVEL,
        Irql::Device => DEVICE_LEVEL,
    }
}

/// The host's IRQL for a number.
pub(crate) fn level_of(number: KIRQL) -> Irql {
    match number {
        0 | 1 => Irql::Passive,
        DISPATCH_LEVEL => Irql::Dispatch,
        _ => Irql::Device,
    }
}

impl RunningDriver {
    fn new(host: Arc<dyn Host>, log: Arc<Log>, entered: Irql) -> Arc<Self> {
        let raised_time = RaisedTime::default();
        let number = number_of(entered);
        let (locks, control) = (Vec::new(), None);
        let processor = ProcessorState { entered, number, locks, raised_time, control };
        Arc::new(Self { host, log, processor: Mutex::new(processor) })
    }

    /// The driver that runs on this thread. If none is running, the call of `import` is reported.
    fn current(import: &'static str) -> Option<Arc<Self>> {
        let driver = ExecutionContext::attached();
        if driver.is_none() {
            ExecutionContext::report_missing(import);
        }
        driver
    }

    /// Locks the processor state. The caller does not hold the lock during a call that may wait.
    fn processor(&self) -> MutexGuard<'_, ProcessorState> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attachment for RunningDriver {
    /// A new thread starts at `PASSIVE_LEVEL` and holds no lock.
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        Some(RunningDriver::new(self.host.clone(), self.log.clone(), Irql::Passive))
    }
}

/// The number of the IRQL that the driver reads. Zero if no driver runs on this thread.
pub fn irql_number() -> u8 {
    number("KeGetCurrentIrql")
}

/// Changes the number of the driver's IRQL, as a move to CR8 does; returns the previous one.
pub fn set_irql_number(new: u8) -> u8 {
    set_number("KeRaiseIrql", new)
}

/// The number of the IRQL that the driver reads.
pub(crate) fn number(import: &'static str) -> KIRQL {
    RunningDriver::current(import).map_or(PASSIVE_LEVEL, |driver| driver.processor().number)
}

/// The IRQL that the driver reads.
pub(crate) fn level(import: &'static str) -> Irql {
    level_of(number(import))
}

/// Changes the IRQL; returns the previous one.
pub(crate) fn set_number(import: &'static str, new: KIRQL) -> KIRQL {
    let Some(driver) = RunningDriver::current(import) else { return PASSIVE_LEVEL };
    let (entered, before) = {
        let mut processor = driver.processor();
        processor.raised_time.irql_changed(new);
        (processor.entered, std::mem::replace(&mut processor.number, new))
    };
    driver.host.set_irql(level_of(new).max(entered));
    DriverCode::irql_changed(new);
    before
}

/// Changes the IRQL; returns the previous one.
#[cfg(test)]
pub(crate) fn set_level(import: &'static str, level: Irql) -> Irql {
    level_of(set_number(import, number_of(level)))
}

/// Lets virtual time pass for the driver: a call of it takes this time.
pub(crate) fn pass_time(import: &'static str, time: u64) {
    let Some(driver) = RunningDriver::current(import) else { return };
    let (time, too_long) = {
        let mut processor = driver.processor();
        let number = processor.number;
        let time = processor.raised_time.pass(number, time);
        if processor.raised_time.is_raised() {
            image::restart_deadline();
        }
        // Windows has stopped, if this driver polled so long before.
        let stopped = processor.raised_time.is_first_call()
            && ExecutionContext::attached::<Pool>().is_some_and(|pool| pool.is_stopped());
        (time, stopped || processor.raised_time.is_too_long())
    };
    driver.host.pass_time(time);
    let log = driver.log.clone();
    drop(driver); // What follows may not return.
    raised_time::judge_watchdog(&log, import, too_long);
}

/// Acquires a lock, which readers share. A lock that this thread already holds is acquired again
/// without waiting; it must be released twice.
pub(crate) fn acquire_spin_lock(import: &'static str, lock: usize, shared: bool) {
    let Some(driver) = RunningDriver::current(import) else { return };
    let held = driver.processor().locks.clone();
    let new = HeldLock::new(LockKind::Spin, lock).shared(shared);
    let mine = held.iter().find(|held| held.address == lock);
    if let Some(mine) = mine {
        image::end_for_deadlock(mine.caller);
    }
    judge_own_lock(&driver.log, import, mine.map(|mine| ("spin lock", mine.caller)));
    judge_lock_order(&driver.log, import, &held, new);
    // A lock that a driver never releases is reported when that driver returns.
    let _got =
        mine.is_some() || (0..MAX_SPINS).any(|_| held_spin_locks().insert(lock) || yield_once());
    driver.processor().locks.push(new);
}

/// The locks that this thread holds, in the order of acquisition.
pub(crate) fn held_locks(import: &'static str) -> Vec<HeldLock> {
    RunningDriver::current(import).map_or(vec![], |driver| driver.processor().locks.clone())
}

/// This thread has acquired a lock that is not a spin lock.
pub(crate) fn lock_acquired(import: &'static str, lock: HeldLock) {
    if let Some(driver) = RunningDriver::current(import) {
        driver.processor().locks.push(lock);
    }
}

/// Whether the thread holds a spin lock.
pub(crate) fn holds_spin_lock(import: &'static str) -> bool {
    held_locks(import).iter().any(|lock| lock.kind.is_spin_lock())
}

/// This thread has released a lock that is not a spin lock. One that it acquired in an earlier call
/// is not known here.
pub(crate) fn lock_released(import: &'static str, lock: usize) {
    if let Some(driver) = RunningDriver::current(import) {
        let locks = &mut driver.processor().locks;
        locks.retain(|held| held.address != lock || held.kind.is_spin_lock());
    }
}

/// Acquires a lock if no thread holds it. Returns whether it did.
pub(crate) fn try_acquire_spin_lock(import: &'static str, lock: usize) -> bool {
    let Some(driver) = RunningDriver::current(import) else { return false };
    let free = held_spin_locks().insert(lock);
    if free {
        driver.processor().locks.push(HeldLock::new(LockKind::Spin, lock));
    }
    free
}

/// Whether any thread holds the lock.
pub(crate) fn is_spin_lock_held(lock: usize) -> bool {
    held_spin_locks().contains(&lock)
}

/// Releases a lock.
pub(crate) fn release_spin_lock(import: &'static str, lock: usize) {
    let Some(driver) = RunningDriver::current(import) else { return };
    let mut processor = driver.processor();
    let Some(index) = processor.locks.iter().rposition(|held| held.address == lock) else {
        drop(processor);
        return log_misuse(import, "for a spin lock that the thread does not hold");
    };
    processor.locks.remove(index);
    if !processor.locks.iter().any(|held| held.address == lock) {
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

/// Restores the IRQL and the locks when driver code ends, also if it unwinds.
struct RunningDriverGuard {
    driver: Arc<RunningDriver>,
    attached: Option<AttachmentGuard<RunningDriver>>,
}

impl RunningDriverGuard {
    fn restore(mut self) -> ExitState {
        self.detach();
        let processor = self.driver.processor();
        let (entered, irql) = (processor.entered, processor.number);
        let level = level_of(irql);
        let left = processor.locks.iter().filter(|lock| lock.kind.is_spin_lock());
        let lock_caller = left.clone().next_back().map_or(0, |lock| lock.caller);
        let locks = left.count();
        let raised_time = processor.raised_time.total();
        let control = processor.control;
        ExitState { entered, level, irql, locks, lock_caller, raised_time, control }
    }

    /// Ends the driver's run on this thread. Has no effect the second time.
    fn detach(&mut self) {
        let Some(attached) = self.attached.take() else { return };
        drop(attached);
        let processor = self.driver.processor();
        self.driver.host.set_irql(processor.entered);
        for lock in processor.locks.iter().filter(|lock| lock.kind.is_spin_lock()) {
            held_spin_locks().remove(&lock.address);
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
        let flown = DeterministicHost::fly(0, &log, |host, at| {
            let host: Arc<dyn Host> = host.clone();
            body(&host, &log, at);
        });
        flown.unwrap();
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
            let (entered, level) = (Irql::Passive, Irql::Passive);
            let (irql, locks, lock_caller, raised_time, control) = (0, 0, 0, 0, None);
            let expected =
                ExitState { entered, level, irql, locks, lock_caller, raised_time, control };
            assert_eq!(left, expected);
        });
    }

    #[test]
    fn a_driver_that_returns_at_apc_level_is_found() {
        fly(|host, log, _| {
            let ((), left) = run_driver(host, log, || _ = set_number("a test", 1));
            assert_eq!((left.level, left.irql), (Irql::Passive, 1));
            let breach = left.breach("the driver").unwrap();
            let expected = "the driver returned at APC_LEVEL and was entered at PASSIVE_LEVEL: ";
            assert!(breach.starts_with(expected), "{breach}");
            let ((), left) = run_driver(host, log, || ());
            assert_eq!(left.breach("the driver"), None);
        });
    }

    #[test]
    fn what_it_leaves_is_said_and_put_back() {
        fly(|host, log, _| {
            let leaves = || {
                set_level("a test", Irql::Dispatch);
                acquire_spin_lock("a test", 0x40, false);
            };
            let ((), left) = run_driver(host, log, leaves);
            assert_eq!((left.level, left.locks, host.irql()), (Irql::Dispatch, 1, Irql::Passive));
            let breach = left.breach("the driver").unwrap();
            assert!(breach.contains("returned at DISPATCH_LEVEL with a spin lock"), "{breach}");
            // The lock was released, so this does not hang.
            let ((), left) = run_driver(host, log, || {
                acquire_spin_lock("a test", 0x40, false);
                release_spin_lock("a test", 0x40);
            });
            assert_eq!(left.locks, 0);
        });
    }

    #[test]
    fn a_lock_that_is_taken_twice_is_left() {
        fly(|host, log, _| {
            let ((), left) = run_driver(host, log, || {
                acquire_spin_lock("a test", 0x80, false);
                acquire_spin_lock("a test", 0x80, false);
                release_spin_lock("a test", 0x80);
            });
            assert_eq!(left.locks, 1);
        });
    }

    #[test]
    fn the_hosts_level_stays_at_or_above_the_level_the_driver_was_entered_at() {
        fly(|host, log, at| {
            at.raised(|_: &mut flight::Dispatch| {
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
        let pool = Pool::new(log.clone());
        let flown = DeterministicHost::fly(0, &log, |host, at| {
            let any_host: Arc<dyn Host> = host.clone();
            let start = || {
                set_level("a test", Irql::Dispatch);
                acquire_spin_lock("a test", 0xC0, false);
                let context = ExecutionContext::capture();
                let end = host.spawn("the driver's", move |_| {
                    assert!(current("a test").is_none());
                    let _entered = context.enter();
                    assert!(current("a test").is_some() && Pool::current("a test").is_some());
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
