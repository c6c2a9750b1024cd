//! What a driver waits for: events it sets, and time. Time is virtual: it passes when nothing
//! else can happen.

use crate::processor::{current, level};
use flight::{At, Host, InCall, Irql, Kind, Log, RuleId, Ticket, What, Who, Woken};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The events that were initialised, by their addresses. As with locks, the state is here and
/// not in the driver's memory.
static EVENTS: Mutex<BTreeMap<usize, Event>> = Mutex::new(BTreeMap::new());

struct Event {
    /// Whether one wait uses it up (`SynchronizationEvent`).
    once: bool,
    /// The level of whoever set it.
    set: Option<Irql>,
    waiting: Vec<Ticket>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// What was waited for is there.
    Set,
    /// The time is over.
    TimedOut,
    /// It could not end, or nobody may wait here.
    Refused,
}

/// Initialises an event.
pub(crate) fn initialize(event: usize, once: bool, set: bool) {
    let set = set.then_some(Irql::Passive);
    events().insert(event, Event { once, set, waiting: Vec::new() });
}

/// Sets an event; answers whether it was set.
pub(crate) fn set(event: usize) -> bool {
    let by = level();
    let (before, waiting) = match events().get_mut(&event) {
        Some(it) => (it.set.replace(by).is_some(), std::mem::take(&mut it.waiting)),
        None => return false,
    };
    if let Some((host, _)) = current() {
        for ticket in &waiting {
            host.ring(ticket);
        }
    }
    before
}

/// Waits for an event, at most until `deadline`; zero does not wait at all.
pub(crate) fn wait(event: usize, deadline: Option<u64>) -> Ended {
    const NAME: &str = "KeWaitForSingleObject";
    let Some((host, log)) = current() else { return Ended::Refused };
    let mut waited = false;
    loop {
        let ticket = match look(event) {
            Look::Set(by) => {
                if waited {
                    say(&log, NAME, &format!("set at {by}"));
                }
                return Ended::Set;
            }
            Look::NoEvent => {
                let absent = What::Absent { name: "KeWaitForSingleObject of no event".into() };
                log.emit(call(), absent);
                return Ended::Refused;
            }
            Look::Unset if deadline == Some(0) => return Ended::TimedOut,
            Look::Unset => queue(event),
        };
        match park(&host, &log, NAME, &ticket, deadline) {
            Some(Woken::Rung) => waited = true,
            Some(Woken::TimedOut) => {
                say(&log, NAME, "timed out");
                return Ended::TimedOut;
            }
            Some(Woken::Stuck(_) | Woken::Over) => {
                say(&log, NAME, "stuck");
                return Ended::Refused;
            }
            None => return Ended::Refused,
        }
    }
}

/// Lets time pass.
pub(crate) fn delay(until: u64) -> Ended {
    const NAME: &str = "KeDelayExecutionThread";
    let Some((host, log)) = current() else { return Ended::Refused };
    let ticket = Ticket::new("time to pass");
    if park(&host, &log, NAME, &ticket, Some(until)).is_none() {
        return Ended::Refused;
    }
    say(&log, NAME, "timed out");
    Ended::Set
}

enum Look {
    Set(Irql),
    Unset,
    NoEvent,
}

fn look(event: usize) -> Look {
    match events().get_mut(&event) {
        None => Look::NoEvent,
        Some(Event { set: None, .. }) => Look::Unset,
        Some(Event { once: true, set, .. }) => set.take().map_or(Look::Unset, Look::Set),
        Some(Event { set: Some(by), .. }) => Look::Set(*by),
    }
}

/// A ticket for the event; if it was set meanwhile, a rung one would be missed, so it is looked
/// at once more under the lock.
fn queue(event: usize) -> Ticket {
    let ticket = Ticket::new("an event of the driver's");
    let set = match events().get_mut(&event) {
        Some(it) if it.set.is_none() => {
            it.waiting.push(ticket.clone());
            false
        }
        _ => true,
    };
    if let (true, Some((host, _))) = (set, current()) {
        host.ring(&ticket);
    }
    ticket
}

/// Parks at passive level; above it nobody waits, which is judged.
fn park(
    host: &Arc<dyn Host>,
    log: &Log,
    name: &'static str,
    ticket: &Ticket,
    deadline: Option<u64>,
) -> Option<Woken> {
    let at = host.irql();
    let broken = (at > Irql::Passive).then(|| format!("{name} was called at {at} level"));
    if broken.is_none() || !InCall::misuse(name) {
        log.judge(RuleId::WT_LEVEL_001, Who::Driver, call(), name, broken);
    }
    At::here(&**host, |at| match at {
        At::Passive(at) => Some(host.park(at, ticket, deadline)),
        At::Dispatch(_) | At::Device(_) => None,
    })
}

fn say(log: &Log, what: &'static str, ended: &str) {
    log.emit(call(), What::DriverWaited { what: what.into(), ended: ended.to_owned().into() });
}

/// The call the driver is in, for events.
pub(crate) fn call() -> flight::Subject {
    Kind::Call.nr(InCall::current().map_or(0, |it| it.number))
}

fn events() -> MutexGuard<'static, BTreeMap<usize, Event>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::{inside, set_level};
    use flight::{Passive, Stepped};

    fn fly(body: impl FnOnce(&Arc<Stepped>, &Arc<Log>, &mut Passive)) -> Vec<String> {
        let log = Arc::new(Log::new());
        Stepped::fly(1, &log, |host, at| body(host, &log, at)).unwrap();
        let waits = |it: flight::Event| match it.what {
            What::DriverWaited { what, ended } => Some(format!("{what} {ended}")),
            _ => None,
        };
        log.take().into_iter().filter_map(waits).collect()
    }

    fn driver<R>(host: &Arc<Stepped>, log: &Arc<Log>, body: impl FnOnce() -> R) -> R {
        let host: Arc<dyn Host> = host.clone();
        inside(&host, log, body).0
    }

    #[test]
    fn a_wait_ends_when_another_thread_sets_the_event() {
        let said = fly(|host, log, at| {
            initialize(0x1000, true, false);
            let (there, logged) = (host.clone(), log.clone());
            let end = host.spawn("dpc", move |_| {
                driver(&there, &logged, || {
                    set_level(Irql::Dispatch);
                    assert!(!set(0x1000));
                });
            });
            driver(host, log, || {
                assert_eq!(wait(0x1000, None), Ended::Set);
                assert_eq!(wait(0x1000, Some(0)), Ended::TimedOut, "it is used up");
            });
            host.park(at, &end, None);
        });
        assert_eq!(said, ["KeWaitForSingleObject set at dispatch"]);
    }

    #[test]
    fn what_is_set_is_not_waited_for() {
        let said = fly(|host, log, _| {
            initialize(0x2000, false, true);
            driver(host, log, || {
                assert_eq!(wait(0x2000, None), Ended::Set);
                assert_eq!(wait(0x2000, None), Ended::Set, "it stays set");
                assert!(set(0x2000));
            });
        });
        assert!(said.is_empty(), "{said:?}");
    }

    #[test]
    fn time_passes_and_a_wait_for_nothing_ends() {
        let said = fly(|host, log, _| {
            initialize(0x3000, false, false);
            driver(host, log, || {
                assert_eq!(delay(10), Ended::Set);
                assert_eq!(wait(0x3000, Some(20)), Ended::TimedOut);
                assert_eq!(wait(0x3000, None), Ended::Refused, "nobody sets it");
                assert_eq!(wait(0x3008, None), Ended::Refused, "there is none");
            });
        });
        let (delay, wait) = ("KeDelayExecutionThread", "KeWaitForSingleObject");
        let expected = [(delay, "timed out"), (wait, "timed out"), (wait, "stuck")];
        assert_eq!(said, expected.map(|(what, ended)| format!("{what} {ended}")));
    }

    #[test]
    fn above_passive_nobody_waits() {
        let said = fly(|host, log, _| {
            initialize(0x4000, false, false);
            driver(host, log, || {
                set_level(Irql::Dispatch);
                assert_eq!((wait(0x4000, None), delay(1)), (Ended::Refused, Ended::Refused));
                assert_eq!(wait(0x4000, Some(0)), Ended::TimedOut, "to look is no wait");
            });
        });
        assert!(said.is_empty(), "{said:?}");
    }
}
