//! Waits of a driver: for its dispatcher objects and for time. Time is virtual: it passes when no
//! thread can run.
//!
//! The state of an object is in the driver's memory (`dispatcher.rs`) and changes under the lock of
//! this module, as under the dispatcher lock of Windows. A thread that waits leaves its token with
//! each of its objects. A change that signals an object wakes all of its threads, the longest wait
//! first; each looks again, and the first that runs consumes the signal.

use crate::abandon::{self, Abandoned};
use crate::clock;
use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::entry::{judge_at_most, judge_irql};
use crate::executive::Executive;
use crate::held_locks::{self, HeldLock, LockKind};
use crate::image::{self, DriverWaits};
use crate::ke_irql::APC_LEVEL;
use crate::processor::{self, current, level};
use flight::{
    At, CallGuard, Component, EventKind, ExecutionContext, Host, Irql, Kind, Log, RunningCall,
    WaitResult, WaitToken,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The threads that wait, by the address of the object, with the data that has no field in it.
static WAITERS: Mutex<BTreeMap<usize, Waiters>> = Mutex::new(BTreeMap::new());

struct Waiters {
    /// The IRQL at which the object was last signalled.
    set_level: Irql,
    tokens: Vec<WaitToken>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self { set_level: Irql::Passive, tokens: Vec::new() }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The object with this index was signalled (of a wait for all: index 0), or the delay is over.
    Satisfied(usize),
    /// The timeout passed first.
    TimedOut,
    /// The wait could not end, or waiting is not allowed here.
    Failed,
    /// The run is over, and the driver's code on this thread does not continue: the caller drops
    /// its values and calls [`leave_if_over`].
    HostEnded,
}

/// How long a wait lasts at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// It only looks.
    Poll,
    /// Until this time of the host.
    Until(u64),
    Never,
}

impl Timeout {
    /// A timeout as Windows writes it: none is endless, zero only looks, a negative one is relative
    /// to now, and a positive one is a system time.
    pub(crate) fn from_windows(value: Option<i64>, now: u64) -> Self {
        match value {
            None => Timeout::Never,
            Some(0) => Timeout::Poll,
            Some(value) => Timeout::Until(clock::due_time(value, now)),
        }
    }

    fn deadline(self) -> Option<u64> {
        match self {
            Timeout::Until(deadline) => Some(deadline),
            Timeout::Poll | Timeout::Never => None,
        }
    }
}

/// Writes the header of an object and forgets the threads that waited for one that was there.
pub(crate) fn initialize(object: ObjectMemory, kind: ObjectKind, signal_state: i32) {
    let mut waiters = waiters();
    object.initialize(kind, signal_state);
    waiters.insert(object.address(), Waiters::default());
}

/// The state of an object. Zero if there is none.
pub(crate) fn read_state(object: ObjectMemory) -> i32 {
    let _lock = waiters();
    object.kind().map_or(0, |_| object.signal_state())
}

/// Changes an object, at most at `DISPATCH_LEVEL`; if it is signalled then, wakes the threads that
/// wait for it. Returns what `act` returns, and `None` if there is no object.
pub(crate) fn change<R>(
    import: &'static str,
    object: ObjectMemory,
    act: impl FnOnce(ObjectKind) -> R,
) -> Option<R> {
    let (by, found) = (level(import), current(import));
    judge_irql(import);
    change_at(by, found.as_ref().map(|(host, _)| &**host), object, act)
}

/// As [`change`], for a caller that is not the driver itself.
pub(crate) fn change_at<R>(
    by: Irql,
    host: Option<&dyn Host>,
    object: ObjectMemory,
    act: impl FnOnce(ObjectKind) -> R,
) -> Option<R> {
    let (answer, tokens) = {
        let mut waiters = waiters();
        let answer = act(object.kind()?);
        if object.signal_state() <= 0 {
            return Some(answer);
        }
        let known = waiters.entry(object.address()).or_default();
        known.set_level = by;
        (answer, std::mem::take(&mut known.tokens))
    };
    for token in host.iter().flat_map(|host| tokens.iter().map(move |token| (host, token))) {
        token.0.wake(token.1);
    }
    Some(answer)
}

/// Waits for one of the objects, or for all of them. `me` is the address of the waiting thread's
/// object, which can own mutexes.
pub(crate) fn wait(
    name: &'static str,
    objects: &[ObjectMemory],
    all: bool,
    timeout: Option<i64>,
) -> WaitEnd {
    let Some((host, log)) = current(name) else { return WaitEnd::Failed };
    if objects.is_empty() || objects.iter().any(|object| object.kind().is_none()) {
        let absent = format!("{name} of no dispatcher object");
        log.emit(current_call(), || EventKind::EntryMissing { name: absent.into() });
        return WaitEnd::Failed;
    }
    let timeout = Timeout::from_windows(timeout, host.now());
    judge_wait_level(name, timeout);
    let thread = crate::ps::current_thread();
    // Another wait ends without the mutex.
    if timeout == Timeout::Never && (all || objects.len() == 1) {
        judge_mutex_order(&log, name, objects, thread);
    }
    let mut waited = false;
    loop {
        count_turn(&log, name);
        let token = match attempt(objects, all, thread, timeout) {
            Ok((index, by)) => {
                let consumed = if all { objects } else { &objects[index..=index] };
                remember_mutexes(name, consumed);
                if waited {
                    log_wait(&log, name, &format!("set at {by}"));
                }
                return WaitEnd::Satisfied(index);
            }
            Err(None) => return WaitEnd::TimedOut,
            Err(Some(token)) => token,
        };
        let result = park(&host, &token, timeout.deadline());
        if result != Some(WaitResult::Woken) {
            dequeue(objects, &token);
        }
        match result {
            Some(WaitResult::Woken) => waited = true,
            Some(WaitResult::TimedOut) => {
                log_wait(&log, name, "timed out");
                return WaitEnd::TimedOut;
            }
            Some(WaitResult::HostEnded) if abandon::is_possible() => return WaitEnd::HostEnded,
            Some(WaitResult::Stuck(graph)) => {
                log_wait(&log, name, "stuck");
                report_endless(&log, name, token.why(), &graph);
                return WaitEnd::Failed;
            }
            Some(WaitResult::HostEnded) => {
                log_wait(&log, name, "stuck");
                return WaitEnd::Failed;
            }
            None => return WaitEnd::Failed,
        }
    }
}

/// Waits until a time, given as a timeout of Windows. Zero gives other threads the processor.
pub(crate) fn delay(interval: i64) -> WaitEnd {
    const NAME: &str = "KeDelayExecutionThread";
    let Some((host, log)) = current(NAME) else { return WaitEnd::Failed };
    let timeout = Timeout::from_windows(Some(interval), host.now());
    judge_wait_level(NAME, timeout);
    let Some(deadline) = timeout.deadline() else {
        yield_at_passive(&*host, &log, NAME);
        return WaitEnd::Satisfied(0);
    };
    count_turn(&log, NAME);
    let token = WaitToken::new("time to pass");
    match park(&host, &token, Some(deadline)) {
        None => return WaitEnd::Failed,
        Some(WaitResult::HostEnded) if abandon::is_possible() => return WaitEnd::HostEnded,
        Some(_) => log_wait(&log, NAME, "timed out"),
    }
    WaitEnd::Satisfied(0)
}

/// Parks until a token of this crate is woken.
pub(crate) fn park_for(import: &'static str, host: &Arc<dyn Host>, token: &WaitToken) -> WaitEnd {
    match park(host, token, None) {
        Some(WaitResult::Woken) => WaitEnd::Satisfied(0),
        Some(WaitResult::HostEnded) if abandon::is_possible() => WaitEnd::HostEnded,
        _ => {
            log_misuse(import, "and waits for what never happens");
            WaitEnd::Failed
        }
    }
}

/// Ends the driver's routine on this thread if its wait ended with the run. The caller owns no
/// value that needs to be dropped.
pub(crate) fn leave_if_over(end: WaitEnd) {
    if end == WaitEnd::HostEnded {
        abandon::abandon(Abandoned::HostEnded);
    }
}

/// Reports a wait that nothing can end, which may end the flight. Without a model of the device, a
/// driver that has used its device may wait for its interrupt: that is not judged.
///
/// WINDOWS: the call never returns (documented: a wait without a timeout lasts until the object is
/// signalled). That this is the driver's fault is our reading.
fn report_endless(log: &Log, name: &'static str, object: &str, graph: &str) {
    let executive = ExecutionContext::attached::<Executive>();
    if image::hosts_image() && executive.is_some_and(|it| it.uses_device()) {
        let device = format!("the device that {name} waits for");
        log.emit(current_call(), || EventKind::EntryMissing { name: device.into() });
        return;
    }
    log.note_endless_wait(format!(
        "{} never returns: it waits for {object}, and nothing that could end the wait is left to \
         run ({graph})",
        call_of(name)
    ));
}

/// Counts a wait of the driver on this thread, which may end a flight that does not end.
fn count_turn(log: &Log, import: &'static str) {
    log.count_turn(Component::Driver, || call_of(import));
}

/// The call of an import by the driver on this thread: its place, and the driver function.
pub(crate) fn call_of(import: &str) -> String {
    let place = image::place(image::last_caller());
    RunningCall::describe(&format!("{import}{place}"))
}

/// Lets another thread run first, at passive level. Above, the watchdog of raised IRQLs counts the
/// time of such calls.
pub(crate) fn yield_at_passive(host: &dyn Host, log: &Log, import: &'static str) {
    At::at_current_irql(host, |at| {
        if let At::Passive(at) = at {
            count_turn(log, import);
            let _waits = DriverWaits::begin();
            host.yield_point(at);
        }
    });
}

/// Consumes the signal of one of the objects or of all; returns the index and the level at which
/// the object was signalled. Otherwise returns the token of the wait, unless the thread only looks.
fn attempt(
    objects: &[ObjectMemory],
    all: bool,
    thread: usize,
    timeout: Timeout,
) -> Result<(usize, Irql), Option<WaitToken>> {
    let mut waiters = waiters();
    let signalled = |object: &ObjectMemory| is_signalled(*object, thread);
    let found = if all {
        objects.iter().all(signalled).then_some(0)
    } else {
        objects.iter().position(signalled)
    };
    if let Some(index) = found {
        let consumed = if all { objects } else { &objects[index..=index] };
        for object in consumed {
            consume(*object, thread);
        }
        let by = waiters.get(&objects[index].address()).map(|known| known.set_level);
        return Ok((index, by.unwrap_or(Irql::Passive)));
    }
    let why = match objects {
        [object] => object.kind().map_or("an object of the driver's", ObjectKind::name),
        _ => "objects of the driver's",
    };
    let token = match timeout {
        Timeout::Poll => return Err(None),
        Timeout::Until(_) => WaitToken::new(why),
        Timeout::Never => WaitToken::for_driver(why),
    };
    for object in objects {
        waiters.entry(object.address()).or_default().tokens.push(token.clone());
    }
    Err(Some(token))
}

/// Entry rule: mutexes are acquired in the same order as before. One that the thread owns is not
/// waited for.
fn judge_mutex_order(log: &Log, name: &'static str, objects: &[ObjectMemory], thread: usize) {
    let is_other = |object: &&ObjectMemory| {
        object.kind() == Some(ObjectKind::Mutex) && crate::ke_mutex::owner(**object) != thread
    };
    for mutex in objects.iter().filter(is_other) {
        let new = HeldLock::new(LockKind::Mutex, mutex.address());
        held_locks::judge_lock_order(log, name, &processor::held_locks(name), new);
    }
}

/// Remembers the mutexes that a satisfied wait has acquired for the first time.
fn remember_mutexes(name: &'static str, objects: &[ObjectMemory]) {
    let is_new = |object: &&ObjectMemory| {
        object.kind() == Some(ObjectKind::Mutex) && object.signal_state() == 0
    };
    for mutex in objects.iter().filter(is_new) {
        processor::lock_acquired(name, HeldLock::new(LockKind::Mutex, mutex.address()));
    }
}

/// Removes the token of a wait that ended without a signal.
fn dequeue(objects: &[ObjectMemory], token: &WaitToken) {
    let mut waiters = waiters();
    for object in objects {
        if let Some(known) = waiters.get_mut(&object.address()) {
            known.tokens.retain(|other| !other.same_as(token));
        }
    }
}

fn is_signalled(object: ObjectMemory, thread: usize) -> bool {
    let state = object.signal_state();
    match object.kind() {
        Some(ObjectKind::Mutex) => state > 0 || crate::ke_mutex::owner(object) == thread,
        Some(_) => state != 0,
        None => false,
    }
}

/// What a satisfied wait changes in the object.
fn consume(object: ObjectMemory, thread: usize) {
    let state = object.signal_state();
    match object.kind() {
        Some(ObjectKind::SynchronizationEvent | ObjectKind::SynchronizationTimer) => {
            object.set_signal_state(0);
        }
        Some(ObjectKind::Semaphore) => {
            object.set_signal_state(state - 1);
        }
        Some(ObjectKind::Mutex) => crate::ke_mutex::acquire(object, thread),
        _ => (),
    }
}

/// Parks at passive level; above it, returns `None` at once.
fn park(host: &Arc<dyn Host>, token: &WaitToken, deadline: Option<u64>) -> Option<WaitResult> {
    At::at_current_irql(&**host, |at| match at {
        At::Passive(at) => {
            let _waits = DriverWaits::begin();
            Some(host.park(at, token, deadline))
        }
        At::Dispatch(_) | At::Device(_) => None,
    })
}

/// Entry rules: a wait is at an IRQL that allows it, and without a spin lock. A breach is reported
/// once: a spin lock raises the IRQL.
///
/// WINDOWS (documented): a time-out of zero does not wait, so it is allowed at `DISPATCH_LEVEL`.
fn judge_wait_level(import: &'static str, timeout: Timeout) {
    if timeout == Timeout::Poll {
        judge_irql(import);
    } else if !held_locks::judge_wait(import) {
        judge_at_most(import, import, APC_LEVEL);
    }
}

/// Logs a wait of a DDI. The waits of a driver's own threads are not logged: a thread that polls
/// would fill the log.
fn log_wait(log: &Log, what: &'static str, ended: &str) {
    if abandon::is_possible() {
        return;
    }
    log.emit(current_call(), || EventKind::DriverWaited {
        object: what.into(),
        ended: ended.to_owned().into(),
    });
}

/// Logs a misuse of an import that is a bug check or an exception on Windows.
pub(crate) fn log_misuse(import: &'static str, why: &str) {
    if let Some((_, log)) = current(import) {
        let why = why.to_owned().into();
        log.emit(current_call(), || EventKind::DriverMisuse { import: import.into(), why });
    }
}

/// The driver call that this thread is in, as the subject of an event.
pub(crate) fn current_call() -> flight::Subject {
    Kind::Call.subject(CallGuard::current().map_or(0, |call| call.number))
}

fn waiters() -> MutexGuard<'static, BTreeMap<usize, Waiters>> {
    WAITERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;
