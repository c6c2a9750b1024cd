//! What a flight may take: virtual time, events and memory. A driver that goes beyond never ends, or
//! takes all that the machine has, so its flight is ended there.
//!
//! A log knows the limits of its flight, and counts what has no event: waits and routines of the
//! driver. Beyond a limit the next [`LOOKS`] calls are noted; then the flight ends with a finding
//! that names those that repeat. So nothing but a count is kept before. A call of the driver that
//! waits for ever ends the flight at once.
//!
//! # Invariants
//!
//! 1. All limits are of the flight, not of the machine: none depends on how fast the machine is.
//! 2. A flight ends where the caller holds no lock of a kernel: before a call of the driver, at its
//!    callbacks and waits.

use crate::{CallGuard, Component, Kind, Log, RuleId, RunningCall, Subject};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// What a flight may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightLimits {
    /// Virtual time, in seconds.
    pub time: u64,
    /// Events. As many waits and routines of the driver, which are no events, are allowed, too.
    pub events: u64,
    /// Memory, in MiB.
    pub memory: u64,
}

impl FlightLimits {
    /// No limits: a kernel that clients call runs as long as they like.
    pub const NONE: Self = Self { time: u64::MAX, events: u64::MAX, memory: u64::MAX };
}

impl Default for FlightLimits {
    fn default() -> Self {
        // Fewer than the turns after which a worker of the host gives up: the finding of a limit names
        // the loop.
        Self { time: 3600, events: 400_000, memory: 2048 }
    }
}

/// Units of 100 ns per second.
const SECOND: u64 = 10_000_000;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// How many calls are noted beyond a limit before the flight ends.
const LOOKS: u32 = 128;

/// How many calls that repeat are named.
const NAMED: usize = 8;

/// The place of a loop outside of all driver functions.
const OUTSIDE: &str = "a routine of the driver that is not a DDI";

/// A flight that is over because of a limit unwinds its threads with this payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightOver;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Limit {
    Time = 1,
    Events = 2,
    Turns = 3,
    Memory = 4,
    /// A call of the driver waits for ever.
    Wait = 5,
}

/// What the flight of a log has taken.
#[derive(Debug)]
pub(crate) struct Usage {
    limits: FlightLimits,
    /// Number of waits and routines of the driver.
    turns: AtomicU64,
    /// The limit that the flight has passed, as its number.
    passed: AtomicU8,
    ended: AtomicBool,
    calls: Mutex<Calls>,
}

/// The calls beyond a limit.
#[derive(Debug, Default)]
struct Calls {
    count: u32,
    by_text: BTreeMap<String, u32>,
}

impl Usage {
    pub(crate) fn new(limits: FlightLimits) -> Self {
        Self {
            limits,
            turns: AtomicU64::new(0),
            passed: AtomicU8::new(0),
            ended: AtomicBool::new(false),
            calls: Mutex::default(),
        }
    }

    /// The flight has gone beyond a limit. The first one counts.
    #[cold]
    fn pass(&self, limit: Limit) {
        let (none, order) = (0, Ordering::Relaxed);
        // A limit that was passed before stays.
        let _ = self.passed.compare_exchange(none, limit as u8, order, order);
    }

    /// The log has this many events.
    pub(crate) fn note_events(&self, events: u64) {
        if events > self.limits.events {
            self.pass(Limit::Events);
        }
    }

    /// The limit that was passed, in words.
    fn words(&self) -> String {
        let FlightLimits { time, events, memory } = self.limits;
        match self.passed.load(Ordering::Relaxed) {
            passed if passed == Limit::Time as u8 => {
                format!("{time} seconds of virtual time (--max-time)")
            }
            passed if passed == Limit::Events as u8 => format!("{events} events (--max-events)"),
            passed if passed == Limit::Turns as u8 => {
                format!("{events} waits and routines of the driver (--max-events)")
            }
            _ => format!("{memory} MiB of memory (--max-memory)"),
        }
    }
}

impl Calls {
    /// The calls that repeat, the most frequent first.
    fn words(&self) -> String {
        let mut calls: Vec<(&String, u32)> =
            self.by_text.iter().map(|(text, count)| (text, *count)).collect();
        calls.sort_by_key(|(text, count)| (u32::MAX - count, text.as_str()));
        let mut words = String::new();
        for (text, count) in calls.into_iter().take(NAMED) {
            let comma = if words.is_empty() { "" } else { "; " };
            // Writing to a String does not fail.
            _ = write!(words, "{comma}{text} ({count} of the last {} calls)", self.count);
        }
        words
    }
}

impl Log {
    /// The same log, of a flight with limits.
    #[must_use]
    pub fn with_limits(mut self, limits: FlightLimits) -> Self {
        self.usage = Usage::new(limits);
        self
    }

    /// Counts a wait or a routine of a driver. `call` describes it.
    pub fn count_turn(&self, component: Component, call: impl FnOnce() -> String) {
        if self.usage.turns.fetch_add(1, Ordering::Relaxed) >= self.usage.limits.events {
            self.usage.pass(Limit::Turns);
        }
        self.note_call(component, call);
    }

    /// Notes a call, if the flight has gone beyond a limit. The caller holds no lock: the flight may
    /// end here.
    #[inline]
    pub fn note_call(&self, component: Component, call: impl FnOnce() -> String) {
        if self.usage.passed.load(Ordering::Relaxed) != 0 {
            self.look_at(component, call());
        }
    }

    /// Whether the virtual time of the flight has a limit.
    pub(crate) fn limits_time(&self) -> bool {
        self.usage.limits.time != u64::MAX
    }

    /// The virtual time, in units of 100 ns.
    pub(crate) fn note_time(&self, now: u64) {
        if now / SECOND > self.usage.limits.time {
            self.usage.pass(Limit::Time);
        }
    }

    /// The process of the flight has taken this many bytes of memory. Returns whether that is beyond
    /// the limit.
    pub fn note_memory(&self, bytes: u64) -> bool {
        let is_beyond = bytes / MIB > self.usage.limits.memory;
        if is_beyond {
            self.usage.pass(Limit::Memory);
        }
        is_beyond
    }

    /// The driver requests memory, and would have this many bytes. Beyond the limit the flight ends
    /// here: `call` says where. The caller holds no lock.
    pub fn note_memory_of_driver(&self, bytes: u64, call: impl FnOnce() -> String) {
        if self.note_memory(bytes) && !self.usage.ended.swap(true, Ordering::Relaxed) {
            let (limit, call) = (self.usage.words(), call());
            self.end(
                (RuleId::WT_CRASH_001, Component::Driver),
                &format!(
                    "the driver takes more and more memory: it went beyond {limit} with {call}"
                ),
            );
            leave();
        }
    }

    /// Whether the flight was ended because of a limit.
    pub fn is_ended(&self) -> bool {
        self.usage.ended.load(Ordering::Relaxed)
    }

    #[cold]
    fn look_at(&self, component: Component, call: String) {
        if self.is_ended() {
            leave();
            return;
        }
        let calls = {
            let mut calls = self.usage.calls.lock();
            *calls.by_text.entry(call).or_default() += 1;
            calls.count += 1;
            if calls.count < LOOKS || self.usage.ended.swap(true, Ordering::Relaxed) {
                return;
            }
            calls.words()
        };
        let message = format!(
            "the flight does not end: it went beyond {}, and repeats {calls}",
            self.usage.words()
        );
        self.end((RuleId::WT_CRASH_001, component), &message);
    }

    /// A call of the driver waits for what nothing is left to do, so it never returns: the flight
    /// ends here, with the finding `message`. The caller holds no lock. A kernel without limits
    /// reports it and goes on, because its clients have more to do: then this returns.
    #[cold]
    pub fn note_endless_wait(&self, message: String) {
        if self.usage.limits == FlightLimits::NONE {
            let (about, place) = running_place();
            let (rule, component) = (RuleId::WT_STUCK_001, Component::Driver);
            self.judge(rule, component, about, place, Some(message));
            return;
        }
        self.usage.pass(Limit::Wait);
        if self.usage.ended.swap(true, Ordering::Relaxed) {
            leave();
        } else {
            self.end((RuleId::WT_STUCK_001, Component::Driver), &message);
        }
    }

    /// Ends the flight with a finding.
    #[cold]
    fn end(&self, (rule, component): (RuleId, Component), message: &str) {
        let (about, place) = running_place();
        self.end_flight(about, (rule, component, place), message);
        leave();
    }
}

/// The call that this thread is in, and its function.
fn running_place() -> (Subject, &'static str) {
    let place = RunningCall::current().map_or(OUTSIDE, |running| running.name);
    (Kind::Call.subject(CallGuard::current().map_or(0, |call| call.number)), place)
}

/// Unwinds this thread, whose flight is over, unless it unwinds already.
fn leave() {
    if !std::thread::panicking() {
        resume_unwind(Box::new(FlightOver));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventKind, Subject};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const LIMITS: FlightLimits = FlightLimits { time: 2, events: 1000, memory: 1 };

    fn log() -> Log {
        Log::new().with_limits(LIMITS)
    }

    /// Repeats a step until the flight is over. Returns the last event, and how many steps were made.
    fn end(log: &Log, mut step: impl FnMut(u64)) -> (Event, u64) {
        let mut steps = 0;
        let over = catch_unwind(AssertUnwindSafe(|| {
            for number in 0..10_000 {
                step(number);
                steps += 1;
            }
        }));
        assert!(over.unwrap_err().is::<FlightOver>() && log.is_ended());
        let last = log.take().pop().unwrap();
        (last, steps)
    }

    fn message(event: &Event) -> String {
        match &event.kind {
            EventKind::RuleBroken { rule: RuleId::WT_CRASH_001, message, .. } => {
                message.to_string()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_loop_without_events_is_named_with_the_calls_that_repeat() {
        let log = log();
        let turn = |number: u64| {
            let name = if number.is_multiple_of(4) { "one" } else { "other" };
            log.count_turn(Component::Driver, || name.to_owned());
        };
        let (last, steps) = end(&log, turn);
        let text = "it went beyond 1000 waits and routines of the driver (--max-events), and repeats \
                    other (96 of the last 128 calls); one (32 of the last 128 calls)";
        assert!(message(&last).ends_with(text), "{}", message(&last));
        assert_eq!(steps, LIMITS.events + u64::from(LOOKS) - 1);
    }

    #[test]
    fn events_and_time_have_limits_and_what_is_logged_after_the_end_is_left_out() {
        let log = log();
        let (last, _) = end(&log, |_| {
            log.emit(Subject::RUN, || EventKind::ViewIdle {});
            log.note_call(Component::Umd, || "a call".to_owned());
        });
        assert!(message(&last).contains(" 1000 events (--max-events)"), "{}", message(&last));
        log.emit(Subject::RUN, || EventKind::ViewIdle {});
        assert!(log.take().is_empty());
        let log = self::log();
        let (last, _) = end(&log, |number| {
            log.note_time(number * SECOND / 4);
            log.note_call(Component::Driver, || "a delay".to_owned());
        });
        let text = "2 seconds of virtual time (--max-time), and repeats a delay (128 of";
        assert!(message(&last).contains(text), "{}", message(&last));
    }

    #[test]
    fn an_allocation_beyond_the_limit_ends_the_flight_at_once() {
        let log = log();
        let call = || "an allocation".to_owned();
        let (last, steps) = end(&log, |number| log.note_memory_of_driver(number * MIB, call));
        assert_eq!(steps, LIMITS.memory + 1);
        let text = "it went beyond 1 MiB of memory (--max-memory) with an allocation";
        assert!(message(&last).ends_with(text), "{}", message(&last));
    }

    #[test]
    fn a_flight_that_ends_is_not_ended_and_one_without_limits_goes_on() {
        let log = log();
        for _ in 0..LIMITS.events + u64::from(LOOKS) - 1 {
            log.count_turn(Component::Driver, String::new);
        }
        assert!(!log.is_ended() && log.take().is_empty());
        let log = Log::new();
        for number in 0..5000 {
            log.note_time(u64::MAX);
            log.note_memory_of_driver(number * MIB * MIB, String::new);
            log.count_turn(Component::Driver, String::new);
        }
        assert!(!log.is_ended());
    }
}
