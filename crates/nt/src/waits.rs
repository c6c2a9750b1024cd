//! Waits of a driver: for its events and for time. Time is virtual: it passes when no thread can
//! run.

use crate::dispatcher::EventMemory;
use crate::image::DriverWaits;
use crate::processor::{current, level};
use flight::{
    At, CallGuard, Component, EventKind, Host, Irql, Kind, Log, RuleId, WaitResult, WaitToken,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The initialised events by address, with the data that has no field in a `KEVENT`. Their state is
/// in the driver's memory, and changes under this lock.
static EVENTS: Mutex<BTreeMap<usize, Event>> = Mutex::new(BTreeMap::new());

struct Event {
    /// The IRQL at which it was last set.
    set_level: Irql,
    waiters: Vec<WaitToken>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The event was set, or the delay is over.
    Set,
    /// The timeout passed first.
    TimedOut,
    /// The wait could not end, or waiting is not allowed here.
    Failed,
}

/// Initialises an event.
pub(crate) fn initialize(event: EventMemory, auto_reset: bool, set: bool) {
    let mut events = events();
    event.initialize(auto_reset, set);
    events.insert(event.address(), Event { set_level: Irql::Passive, waiters: Vec::new() });
}

/// Clears an event; returns the previous state.
pub(crate) fn clear(event: EventMemory) -> i32 {
    let events = events();
    if events.contains_key(&event.address()) { event.set_signal_state(0) } else { 0 }
}

/// The state of an event.
pub(crate) fn read_state(event: EventMemory) -> i32 {
    let events = events();
    if events.contains_key(&event.address()) { event.signal_state() } else { 0 }
}

/// Sets an event; returns the previous state.
pub(crate) fn set(event: EventMemory) -> i32 {
    const NAME: &str = "KeSetEvent";
    let by = level(NAME);
    let (before, waiters) = match events().get_mut(&event.address()) {
        Some(known) => {
            known.set_level = by;
            (event.set_signal_state(1), std::mem::take(&mut known.waiters))
        }
        None => return 0,
    };
    if let Some((host, _)) = current(NAME) {
        for token in &waiters {
            host.wake(token);
        }
    }
    before
}

/// Waits for an event, at most until `deadline`. A deadline of zero only checks the event.
pub(crate) fn wait(event: EventMemory, deadline: Option<u64>) -> WaitEnd {
    const NAME: &str = "KeWaitForSingleObject";
    let Some((host, log)) = current(NAME) else { return WaitEnd::Failed };
    let mut waited = false;
    loop {
        let token = match event_state(event) {
            EventState::Set(by) => {
                if waited {
                    log_wait(&log, NAME, &format!("set at {by}"));
                }
                return WaitEnd::Set;
            }
            EventState::NoEvent => {
                let absent =
                    EventKind::EntryMissing { name: "KeWaitForSingleObject of no event".into() };
                log.emit(current_call(), absent);
                return WaitEnd::Failed;
            }
            EventState::Unset if deadline == Some(0) => return WaitEnd::TimedOut,
            EventState::Unset => enqueue_waiter(&*host, event),
        };
        match park(&host, &log, NAME, &token, deadline) {
            Some(WaitResult::Woken) => waited = true,
            Some(WaitResult::TimedOut) => {
                log_wait(&log, NAME, "timed out");
                return WaitEnd::TimedOut;
            }
            Some(WaitResult::Stuck(_) | WaitResult::HostEnded) => {
                log_wait(&log, NAME, "stuck");
                return WaitEnd::Failed;
            }
            None => return WaitEnd::Failed,
        }
    }
}

/// Waits until time `until`.
pub(crate) fn delay(until: u64) -> WaitEnd {
    const NAME: &str = "KeDelayExecutionThread";
    let Some((host, log)) = current(NAME) else { return WaitEnd::Failed };
    let token = WaitToken::new("time to pass");
    if park(&host, &log, NAME, &token, Some(until)).is_none() {
        return WaitEnd::Failed;
    }
    log_wait(&log, NAME, "timed out");
    WaitEnd::Set
}

enum EventState {
    Set(Irql),
    Unset,
    NoEvent,
}

fn event_state(event: EventMemory) -> EventState {
    let events = events();
    let Some(known) = events.get(&event.address()) else { return EventState::NoEvent };
    if event.signal_state() == 0 {
        return EventState::Unset;
    }
    if event.is_auto_reset() {
        event.set_signal_state(0);
    }
    EventState::Set(known.set_level)
}

/// Adds a wait token to the event's waiters. The event may have been set since the caller checked
/// it, so it is checked again under the lock; if it is set, the token is woken at once.
fn enqueue_waiter(host: &dyn Host, event: EventMemory) -> WaitToken {
    let token = WaitToken::new("an event of the driver's");
    let set = match events().get_mut(&event.address()) {
        Some(known) if event.signal_state() == 0 => {
            known.waiters.push(token.clone());
            false
        }
        _ => true,
    };
    if set {
        host.wake(&token);
    }
    token
}

/// Parks at passive level. Above it the wait breaks an entry rule, and returns `None` at once.
fn park(
    host: &Arc<dyn Host>,
    log: &Log,
    name: &'static str,
    token: &WaitToken,
    deadline: Option<u64>,
) -> Option<WaitResult> {
    let at = host.irql();
    let broken = (at > Irql::Passive).then(|| format!("{name} was called at {at} level"));
    if broken.is_none() || !CallGuard::misuse(name) {
        log.judge(RuleId::WT_LEVEL_001, Component::Driver, current_call(), name, broken);
    }
    At::at_current_irql(&**host, |at| match at {
        At::Passive(at) => {
            let _waits = DriverWaits::begin();
            Some(host.park(at, token, deadline))
        }
        At::Dispatch(_) | At::Device(_) => None,
    })
}

fn log_wait(log: &Log, what: &'static str, ended: &str) {
    log.emit(
        current_call(),
        EventKind::DriverWaited { object: what.into(), ended: ended.to_owned().into() },
    );
}

/// The driver call that this thread is in, as the subject of an event.
pub(crate) fn current_call() -> flight::Subject {
    Kind::Call.subject(CallGuard::current().map_or(0, |call| call.number))
}

fn events() -> MutexGuard<'static, BTreeMap<usize, Event>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[expect(unsafe_code, reason = "acts as a driver with its own memory")]
mod tests {
    use super::*;
    use crate::processor::{run_driver, set_level};
    use flight::{DeterministicHost, Passive};

    fn fly(body: impl FnOnce(&Arc<DeterministicHost>, &Arc<Log>, &mut Passive)) -> Vec<String> {
        let log = Arc::new(Log::new());
        DeterministicHost::fly(1, &log, |host, at| body(host, &log, at)).unwrap();
        let waits = |event: flight::Event| match event.kind {
            EventKind::DriverWaited { object: what, ended } => Some(format!("{what} {ended}")),
            _ => None,
        };
        log.take().into_iter().filter_map(waits).collect()
    }

    fn driver<R>(host: &Arc<DeterministicHost>, log: &Arc<Log>, body: impl FnOnce() -> R) -> R {
        let host: Arc<dyn Host> = host.clone();
        run_driver(&host, log, body).0
    }

    /// The address of a new event.
    fn new_event(auto_reset: bool, set: bool) -> usize {
        let memory = Box::leak(Box::new([0_u64; 3]));
        let address = memory.as_mut_ptr().expose_provenance();
        initialize(event_at(address), auto_reset, set);
        address
    }

    /// The event at an address of `new_event`.
    fn event_at(address: usize) -> EventMemory {
        let memory = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: The memory of a new event has 24 bytes and is never freed.
        unsafe { EventMemory::at(memory) }.unwrap()
    }

    #[test]
    fn a_wait_ends_when_another_thread_sets_the_event() {
        let text = fly(|host, log, at| {
            let address = new_event(true, false);
            let (there, logged) = (host.clone(), log.clone());
            let end = host.spawn("dpc", move |_| {
                driver(&there, &logged, || {
                    set_level("a test", Irql::Dispatch);
                    assert_eq!(set(event_at(address)), 0);
                });
            });
            driver(host, log, || {
                assert_eq!(wait(event_at(address), None), WaitEnd::Set);
                assert_eq!(wait(event_at(address), Some(0)), WaitEnd::TimedOut, "it is used up");
            });
            host.park(at, &end, None);
        });
        assert_eq!(text, ["KeWaitForSingleObject set at dispatch"]);
    }

    #[test]
    fn what_is_set_is_not_waited_for() {
        let text = fly(|host, log, _| {
            let event = event_at(new_event(false, true));
            driver(host, log, || {
                assert_eq!(wait(event, None), WaitEnd::Set);
                assert_eq!(wait(event, None), WaitEnd::Set, "it stays set");
                assert_eq!(set(event), 1);
            });
        });
        assert!(text.is_empty(), "{text:?}");
    }

    #[test]
    fn time_passes_and_a_wait_for_nothing_ends() {
        let text = fly(|host, log, _| {
            let memory = Box::leak(Box::new([0_u64; 3]));
            let unused = event_at(memory.as_mut_ptr().expose_provenance());
            let event = event_at(new_event(false, false));
            driver(host, log, || {
                assert_eq!(delay(10), WaitEnd::Set);
                assert_eq!(wait(event, Some(20)), WaitEnd::TimedOut);
                assert_eq!(wait(event, None), WaitEnd::Failed, "no thread sets it");
                assert_eq!(wait(unused, None), WaitEnd::Failed, "it is not initialised");
            });
        });
        let (delay, wait) = ("KeDelayExecutionThread", "KeWaitForSingleObject");
        let expected = [(delay, "timed out"), (wait, "timed out"), (wait, "stuck")];
        assert_eq!(text, expected.map(|(what, ended)| format!("{what} {ended}")));
    }

    #[test]
    fn the_state_is_in_the_drivers_memory() {
        fly(|host, log, _| {
            let event = event_at(new_event(false, false));
            driver(host, log, || {
                assert_eq!((set(event), event.signal_state()), (0, 1));
                assert_eq!((clear(event), read_state(event)), (1, 0));
                event.set_signal_state(1); // The driver writes it itself.
                assert_eq!(wait(event, Some(0)), WaitEnd::Set);
            });
        });
    }

    #[test]
    fn a_wait_above_passive_level_fails() {
        let text = fly(|host, log, _| {
            let event = event_at(new_event(false, false));
            driver(host, log, || {
                set_level("a test", Irql::Dispatch);
                assert_eq!((wait(event, None), delay(1)), (WaitEnd::Failed, WaitEnd::Failed));
                assert_eq!(wait(event, Some(0)), WaitEnd::TimedOut, "a check is not a wait");
            });
        });
        assert!(text.is_empty(), "{text:?}");
    }
}
