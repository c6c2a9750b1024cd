//! The one ordered log of a run.
//!
//! # Invariants
//!
//! 1. An event gets its number under the log's lock, while the thread also holds the lock of the
//!    change it reports. So the order of events is the order of changes.
//! 2. The log has no effect on the run: observers take events out and give nothing back.
//! 3. A rule that is broken at one place again and again is logged [`MAX_BREACHES`] times; after
//!    that the log has one event for as many breaches. So a driver that loops does not fill it.

use crate::event_chunk::EventChunk;
use crate::limits::{FlightLimits, Usage};
use crate::{Component, Event, EventKind, FastMap, Kind, RuleId, Subject, Text, invariant, thread};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How often a rule is logged as broken at one place, one event for each breach.
const MAX_BREACHES: u64 = 1000;

/// How many sentences of one rule at one place are counted apart.
const MAX_MESSAGES: usize = 16;

/// How many events that were read stay in memory, at least: an internal error shows them.
const RECENT_EVENTS: usize = 16;

/// Reads each event as it is logged, under the log's lock. It must not log.
pub trait EventSink: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// An event was logged.
    fn event(&self, event: &Event);

    /// Where the driver has an entry point: text behind its name in a sentence.
    fn place_of_entry(&self, entry: &str) -> String {
        let _ = entry;
        String::new()
    }

    /// The flight is over because of a limit, as the last event says. A driver whose frames cannot
    /// be unwound is left here: its process ends. Otherwise this returns.
    fn flight_over(&self, message: &str) {
        let _ = message;
    }
}

/// The ordered log: events in, events out, and how often each entry rule was judged.
pub struct Log {
    inner: Mutex<LogState>,
    /// How often each live rule was judged. The counts are not ordered with the events.
    rule_counts: Vec<AtomicU64>,
    /// Numbers the driver calls of both kernels.
    calls: AtomicU32,
    /// A rule was broken that is judged at a door.
    breached: AtomicBool,
    enabled: bool,
    sink: Option<Box<dyn EventSink>>,
    pub(crate) usage: Usage,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// How often each live rule was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCounts(Box<[u64; COUNTS]>);

/// A power of two, so that an index needs no check.
const COUNTS: usize = RuleId::LIVE.len().next_power_of_two();

#[derive(Debug, Default)]
struct LogState {
    last: u64,
    /// The chunks that are full, the oldest first.
    full_chunks: VecDeque<EventChunk>,
    /// The last events.
    chunk: EventChunk,
    /// The chunks that were read last, the oldest first: as few as have [`RECENT_EVENTS`] events.
    recent: VecDeque<Arc<EventChunk>>,
    pointers: FastMap<usize, PointerEntry>,
    free_numbers: Vec<u32>,
    breaches: BTreeMap<BreachPlace, Breaches>,
    /// The number of the event at which the flight ended because of a limit.
    last_of_flight: Option<u64>,
}

impl LogState {
    /// Adds the next event; `None` if no place is prepared. What happened is still to be written
    /// there.
    #[expect(clippy::inline_always, reason = "every event is logged by it")]
    #[inline(always)]
    fn push(&mut self, subject: Subject, owns_memory: bool) -> Option<&mut Event> {
        let kind = EventKind::ViewIdle {}; // Any that has no values.
        let event = Event { seq: self.last + 1, thread: 0, call: None, subject, kind };
        let place = self.chunk.push(event, owns_memory)?;
        self.last += 1;
        // Written afterwards, so that not everything is in registers at once.
        (place.thread, place.call) = thread::current_with_call();
        Some(place)
    }

    /// Prepares a place for an event.
    #[cold]
    fn prepare_place(&mut self) {
        if !self.chunk.prepare() {
            self.full_chunks.push_back(std::mem::take(&mut self.chunk));
            self.chunk.prepare();
        }
    }

    /// Drops one reference to a driver pointer. Returns its number, which is free again with the last
    /// reference.
    #[inline]
    fn end_pointer(&mut self, driver_handle: usize) -> Subject {
        let mut number = 0;
        if let Entry::Occupied(mut entry) = self.pointers.entry(driver_handle) {
            let pointer = entry.get_mut();
            number = pointer.number;
            pointer.references -= 1;
            if pointer.references == 0 {
                entry.remove();
                self.free_numbers.push(number);
            }
        }
        Kind::DriverPointer.subject(number)
    }

    /// The events that were read last, then those that were not taken out.
    fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        let recent = self.recent.iter().map(|chunk| &**chunk);
        recent.chain(&self.full_chunks).chain([&self.chunk]).flat_map(EventChunk::events)
    }

    /// Keeps a chunk that is being read, and drops older ones that are not needed for
    /// [`RECENT_EVENTS`].
    fn keep_recent(&mut self, chunk: Arc<EventChunk>) {
        self.recent.push_back(chunk);
        let mut count: usize = self.recent.iter().map(|chunk| chunk.events().len()).sum();
        while let Some(oldest) = self.recent.front() {
            count -= oldest.events().len();
            if count < RECENT_EVENTS {
                return;
            }
            self.recent.pop_front();
        }
    }
}

/// A rule, the component that broke it, and the entry and argument.
pub(crate) type BreachPlace = (RuleId, Component, &'static str);

/// The breaches of one rule at one place.
#[derive(Debug, Default)]
struct Breaches {
    /// How many have an event of their own.
    logged: u64,
    /// The later ones that no event has counted: the subject of the last, its sentence, and how
    /// many. There are at most [`MAX_MESSAGES`] sentences.
    repeated: Vec<(Subject, String, u64)>,
}

impl Breaches {
    /// Counts a breach that gets no event of its own. Returns whether it is time for an event that
    /// counts.
    fn repeat(&mut self, subject: Subject, message: String) -> bool {
        let known = self.repeated.iter().position(|(_, known, _)| *known == message);
        let full = self.repeated.len() == MAX_MESSAGES;
        match known.or(full.then_some(MAX_MESSAGES - 1)) {
            Some(index) => {
                let (last, _, count) = &mut self.repeated[index];
                (*last, *count) = (subject, *count + 1);
            }
            None => self.repeated.push((subject, message, 1)),
        }
        self.repeated.iter().map(|(.., count)| count).sum::<u64>() >= MAX_BREACHES
    }
}

/// A driver pointer that is in use.
#[derive(Debug)]
struct PointerEntry {
    number: u32,
    references: u32,
}

impl Log {
    /// A log that keeps events.
    pub fn new() -> Self {
        Self::with_enabled(true)
    }

    /// A log whose events are also passed to `sink`, at once and in order.
    pub fn with_sink(sink: impl EventSink + 'static) -> Self {
        Self { sink: Some(Box::new(sink)), ..Self::new() }
    }

    /// A log that keeps no events, to measure the cost of keeping them.
    pub fn silent() -> Self {
        Self::with_enabled(false)
    }

    fn with_enabled(enabled: bool) -> Self {
        let judged = RuleId::LIVE.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            inner: Mutex::default(),
            rule_counts: judged,
            calls: AtomicU32::new(0),
            breached: AtomicBool::new(false),
            enabled,
            sink: None,
            usage: Usage::new(FlightLimits::NONE),
        }
    }

    /// The number of the next driver call. It is unique in a run, and counts from one if the log
    /// keeps events.
    #[inline]
    pub fn next_call(&self) -> u32 {
        if !self.enabled {
            return thread::next_unlogged_call();
        }
        self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Whether the log keeps events. If not, the caller need not construct them.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Logs an event, which is only built if the log keeps it.
    #[expect(clippy::inline_always, reason = "a log that keeps nothing costs one comparison")]
    #[inline(always)]
    pub fn emit(&self, subject: Subject, what: impl FnOnce() -> EventKind) {
        if self.enabled {
            // A value that may have to be dropped would be in memory, and be copied as a whole.
            let kind = ManuallyDrop::new(what());
            // Whether it owns memory is nearly always a constant here.
            let mut place = self.place(subject, kind.owns_memory());
            place.replace_kind(ManuallyDrop::into_inner(kind));
            if self.sink.is_some() {
                self.pass_to_sink(place);
            }
        }
    }

    /// A place for an event. What happened is written there by the caller, which knows the size of
    /// it: nothing else is copied.
    #[inline(never)]
    fn place(&self, subject: Subject, owns_memory: bool) -> MappedMutexGuard<'_, Event> {
        let Some(inner) = self.inner.try_lock() else {
            return self.place_otherwise(subject, owns_memory);
        };
        match MutexGuard::try_map(inner, |inner| inner.push(subject, owns_memory)) {
            Ok(place) => place,
            Err(inner) => self.place_in_next_chunk(inner, subject, owns_memory),
        }
    }

    /// The same if another thread has the lock.
    #[cold]
    #[inline(never)]
    fn place_otherwise(&self, subject: Subject, owns_memory: bool) -> MappedMutexGuard<'_, Event> {
        self.place_in_next_chunk(self.inner(), subject, owns_memory)
    }

    /// The same if the chunk may be full.
    #[cold]
    #[inline(never)]
    fn place_in_next_chunk<'a>(
        &self,
        inner: MutexGuard<'a, LogState>,
        subject: Subject,
        owns_memory: bool,
    ) -> MappedMutexGuard<'a, Event> {
        self.usage.note_events(inner.last);
        MutexGuard::map(inner, |inner| {
            inner.prepare_place();
            invariant(inner.push(subject, owns_memory), "a place was prepared")
        })
    }

    /// Passes an event to the sink, under the lock.
    #[expect(clippy::needless_pass_by_value, reason = "a guard that is not lent is in registers")]
    #[cold]
    #[inline(never)]
    fn pass_to_sink(&self, event: MappedMutexGuard<'_, Event>) {
        if let Some(sink) = &self.sink {
            sink.event(&event);
        }
    }

    fn record_locked(&self, inner: &mut LogState, subject: Subject, kind: EventKind) {
        inner.prepare_place();
        let place = inner.push(subject, kind.owns_memory());
        let place = invariant(place, "a place was prepared");
        place.replace_kind(kind);
        if let Some(sink) = &self.sink {
            sink.event(place);
        }
    }

    /// Judges a rule at a door: always counted, logged if broken. `argument` is the entry and the
    /// argument, `broken` the finding's sentence.
    #[inline]
    pub fn judge(
        &self,
        rule: RuleId,
        component: Component,
        about: Subject,
        argument: &'static str,
        broken: Option<String>,
    ) {
        if !self.enabled {
            return;
        }
        self.rule_counts[rule.index()].fetch_add(1, Ordering::Relaxed);
        if let Some(message) = broken {
            self.breached.store(true, Ordering::Relaxed);
            let component =
                if component == Component::Client { thread::caller() } else { component };
            self.record_breach(about, (rule, component, argument), message);
        }
    }

    /// Counts a rule that was judged at a door and kept.
    #[inline]
    pub fn count_kept(&self, rule: RuleId) {
        if self.enabled {
            self.rule_counts[rule.index()].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn record_breach(&self, about: Subject, place: BreachPlace, message: String) {
        let inner = &mut *self.inner();
        let breaches = inner.breaches.entry(place).or_default();
        if breaches.logged < MAX_BREACHES {
            breaches.logged += 1;
            let (rule, component, argument) = place;
            let (argument, message) = (argument.into(), message.into());
            let kind = EventKind::RuleBroken { rule, component, argument, message };
            self.record_locked(inner, about, kind);
        } else if breaches.repeat(about, message) {
            let repeated = std::mem::take(&mut breaches.repeated);
            self.record_repeated(inner, place, repeated);
        }
    }

    /// An entry point of the driver, for a sentence.
    pub fn describe_entry(&self, name: &str) -> String {
        let place = self.sink.as_ref().map(|sink| sink.place_of_entry(name));
        format!("{name}{}", place.unwrap_or_default())
    }

    /// Logs the last breach of a flight, and passes the end on to the sink.
    #[cold]
    pub(crate) fn end_flight(&self, about: Subject, place: BreachPlace, message: &str) {
        let (rule, component, argument) = place;
        self.breached.store(true, Ordering::Relaxed);
        self.rule_counts[rule.index()].fetch_add(1, Ordering::Relaxed);
        let inner = &mut *self.inner();
        let (argument, text) = (argument.into(), message.to_owned().into());
        let kind = EventKind::RuleBroken { rule, component, argument, message: text };
        self.record_locked(inner, about, kind);
        inner.last_of_flight = Some(inner.last);
        if let Some(sink) = &self.sink {
            sink.flight_over(message);
        }
    }

    #[cold]
    fn record_repeated(
        &self,
        inner: &mut LogState,
        (rule, component, argument): BreachPlace,
        repeated: Vec<(Subject, String, u64)>,
    ) {
        for (subject, message, count) in repeated {
            let (argument, message) = (Text::from(argument), message.into());
            let kind = EventKind::RuleRepeated { rule, component, argument, message, count };
            self.record_locked(inner, subject, kind);
        }
    }

    /// Logs how often rules were broken again that no event has counted yet. Call this at the end
    /// of a run whose events go to a sink.
    pub fn flush(&self) {
        let inner = &mut *self.inner();
        let mut breaches = std::mem::take(&mut inner.breaches);
        for (place, breaches) in &mut breaches {
            self.record_repeated(inner, *place, std::mem::take(&mut breaches.repeated));
        }
        inner.breaches = breaches;
    }

    /// Whether a rule that is judged at a door was broken. What happens after that may follow from
    /// the breach.
    pub fn has_breach(&self) -> bool {
        self.breached.load(Ordering::Relaxed)
    }

    /// Takes out the events since the last call. Those after the end of a flight because of a limit
    /// are left out: threads that are unwound log, too.
    pub fn take(&self) -> Vec<Event> {
        self.flush();
        let inner = &mut *self.inner();
        let last = std::mem::take(&mut inner.chunk);
        let full = std::mem::take(&mut inner.full_chunks);
        let mut events = if full.is_empty() {
            last.into_events()
        } else {
            full.into_iter().chain([last]).flat_map(EventChunk::into_events).collect()
        };
        if let Some(end) = inner.last_of_flight {
            events.retain(|event| event.seq <= end);
        }
        events
    }

    /// Takes out the events since the last call and shows them to an observer, in order. It may log.
    /// Chunk by chunk, the memory of events that were read is freed, but for the last few
    /// ([`Log::last_events`]), so a log that is read now and then does not grow.
    pub fn read(&self, mut observe: impl FnMut(&Event)) {
        self.read_chunks(|events| events.iter().for_each(&mut observe));
    }

    /// The same, with the events of a chunk at once.
    pub fn read_chunks(&self, mut observe: impl FnMut(&[Event])) {
        self.flush();
        let last = self.inner().last;
        loop {
            let chunk = {
                let inner = &mut *self.inner();
                let full = inner.full_chunks.pop_front();
                let chunk = Arc::new(full.unwrap_or_else(|| std::mem::take(&mut inner.chunk)));
                if !chunk.events().is_empty() {
                    inner.keep_recent(chunk.clone());
                }
                chunk
            };
            observe(chunk.events());
            let is_done = chunk.events().last().is_none_or(|event| event.seq >= last);
            if is_done {
                return;
            }
        }
    }

    /// The number of the last event; zero before the first.
    pub fn last_seq(&self) -> u64 {
        self.inner().last
    }

    /// The last events, at most `count` of them: those that were not taken out, and the last that were
    /// read by [`Log::read`]. They stay in the log.
    pub fn last_events(&self, count: usize) -> Vec<Event> {
        let inner = self.inner();
        let mut events: Vec<Event> = inner.events().rev().take(count).cloned().collect();
        events.reverse();
        events
    }

    /// How often the entry rules were judged.
    pub fn rule_counts(&self) -> RuleCounts {
        let mut counts = RuleCounts::default();
        for (count, atomic) in counts.0.iter_mut().zip(&self.rule_counts) {
            *count = atomic.load(Ordering::Relaxed);
        }
        counts
    }

    /// Logs the event of a driver pointer that has a reference, and drops that reference.
    #[inline]
    pub fn end_pointer(&self, driver_handle: usize, what: impl FnOnce() -> EventKind) {
        if self.enabled {
            let kind = ManuallyDrop::new(what()); // See `emit`.
            let mut place = self.place_of_ended(driver_handle, kind.owns_memory());
            place.replace_kind(ManuallyDrop::into_inner(kind));
            if self.sink.is_some() {
                self.pass_to_sink(place);
            }
        }
    }

    #[inline(never)]
    fn place_of_ended(
        &self,
        driver_handle: usize,
        owns_memory: bool,
    ) -> MappedMutexGuard<'_, Event> {
        let mut inner = self.inner();
        let subject = inner.end_pointer(driver_handle);
        match MutexGuard::try_map(inner, |inner| inner.push(subject, owns_memory)) {
            Ok(place) => place,
            Err(inner) => self.place_in_next_chunk(inner, subject, owns_memory),
        }
    }

    /// Numbers a driver pointer. The number stays the same while the pointer has a reference.
    pub fn acquire_pointer(&self, driver_handle: usize) -> Subject {
        if !self.enabled {
            return Kind::DriverPointer.subject(0);
        }
        let inner = &mut *self.inner();
        let next = inner.pointers.len() + inner.free_numbers.len() + 1;
        let driver_handle = inner.pointers.entry(driver_handle).or_insert_with(|| {
            // The number freed last, which does not depend on the addresses of the driver's memory.
            let number = inner.free_numbers.pop().or(u32::try_from(next).ok()).unwrap_or(u32::MAX);
            PointerEntry { number, references: 0 }
        });
        driver_handle.references += 1;
        Kind::DriverPointer.subject(driver_handle.number)
    }

    /// The number of a driver pointer that has a reference.
    pub fn pointer_subject(&self, driver_handle: usize) -> Subject {
        if !self.enabled {
            return Kind::DriverPointer.subject(0);
        }
        Kind::DriverPointer.subject(
            self.inner()
                .pointers
                .get(&driver_handle)
                .map_or(0, |pointer_entry| pointer_entry.number),
        )
    }

    /// Drops one reference. With the last one, the number is free again.
    pub fn release_pointer(&self, driver_handle: usize) {
        if !self.enabled {
            return; // No reference: see `acquire_pointer`.
        }
        self.inner().end_pointer(driver_handle);
    }

    #[inline]
    fn inner(&self) -> MutexGuard<'_, LogState> {
        // A panic while logging leaves a consistent log.
        self.inner.lock()
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for RuleCounts {
    fn default() -> Self {
        Self(Box::new([0; COUNTS]))
    }
}

impl RuleCounts {
    /// Counts one judgment.
    pub fn increment(&mut self, rule: RuleId) {
        self.add_count(rule, 1);
    }

    /// Counts several judgments.
    #[inline]
    pub fn add_count(&mut self, rule: RuleId, count: u64) {
        self.0[rule.index() % COUNTS] += count;
    }

    /// How often the rule was judged.
    pub fn count_of(&self, rule: RuleId) -> u64 {
        self.0[rule.index() % COUNTS]
    }

    /// Adds other counts to these.
    pub fn add(&mut self, other: &RuleCounts) {
        for (mine, more) in self.0.iter_mut().zip(other.0.iter()) {
            *mine += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_chunk::CHUNK;

    #[test]
    fn a_driver_pointer_keeps_its_number_while_it_is_referenced() {
        let log = Log::new();
        let (a, b) = (log.acquire_pointer(0x7000), log.acquire_pointer(0x10));
        assert_eq!([a.number, b.number, log.acquire_pointer(0x7000).number], [1, 2, 1]);
        log.release_pointer(0x7000);
        assert_eq!(log.pointer_subject(0x7000), a, "it was held twice");
        log.release_pointer(0x7000);
        assert_eq!(log.acquire_pointer(0x9999), a, "a free number is used again");
        assert_eq!(log.acquire_pointer(0x7000).number, 3);
    }

    #[test]
    fn events_are_read_in_order_and_once_and_their_memory_is_freed() {
        let log = Log::new();
        let emit =
            |count| (0..count).for_each(|_| log.emit(Subject::RUN, || EventKind::ViewIdle {}));
        let numbers = |events: &[Event]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
        let mut next = 1;
        for round in 0..20 {
            let count = 5 * CHUNK as u64 / 4 + round % 2;
            emit(count);
            assert_eq!(numbers(&log.last_events(2)), [next + count - 2, next + count - 1]);
            let mut read = Vec::new();
            log.read(|event| read.push(event.seq));
            assert!(read.into_iter().eq(next..next + count), "round {round}");
            next += count;
            let inner = log.inner();
            let chunks = inner.full_chunks.iter().chain([&inner.chunk]);
            assert!(chunks.map(EventChunk::capacity).eq([0]), "round {round}");
        }
        let many = 5 * CHUNK as u64 + 3;
        emit(many);
        let recent = log.last_events(usize::MAX).len() as u64 - many;
        assert!((RECENT_EVENTS as u64..CHUNK as u64 + RECENT_EVENTS as u64).contains(&recent));
        assert!(numbers(&log.take()).into_iter().eq(next..next + many));
        log.read(|event| panic!("{event} was taken out before"));
        assert!(log.take().is_empty());
    }

    #[test]
    fn the_last_events_are_known_after_and_while_they_are_read() {
        let log = Log::new();
        let numbers = || log.last_events(3).iter().map(|event| event.seq).collect::<Vec<_>>();
        for round in 1..100_u64 {
            log.emit(Subject::RUN, || EventKind::ViewIdle {});
            let expected: Vec<u64> = (1.max(round.saturating_sub(2))..=round).collect();
            log.read(|_| assert_eq!(numbers(), expected));
            assert_eq!(numbers(), expected);
            assert!(log.inner().recent.len() <= RECENT_EVENTS);
        }
    }

    #[test]
    fn an_observer_may_log() {
        let log = Log::new();
        log.emit(Subject::RUN, || EventKind::ViewIdle {});
        let mut count = 0;
        let answer = |_: &Event| {
            count += 1;
            log.emit(Subject::RUN, || EventKind::ViewClosed {});
        };
        log.read(answer);
        assert_eq!((count, log.take().len()), (1, 1), "events of the observer are read later");
    }

    #[test]
    fn a_rule_that_is_broken_again_and_again_is_counted() {
        let log = Log::new();
        let judge = |message: &str| {
            let (rule, broken) = (RuleId::WT_LEVEL_001, Some(message.to_owned()));
            log.judge(rule, Component::Driver, Subject::RUN, "here", broken);
        };
        for index in 0..2 * MAX_BREACHES + 500 {
            judge(if index.is_multiple_of(2) { "one" } else { "other" });
        }
        log.judge(
            RuleId::WT_LEVEL_001,
            Component::Driver,
            Subject::RUN,
            "elsewhere",
            Some("one".to_owned()),
        );
        let events = log.take();
        let single = |event: &&Event| matches!(event.kind, EventKind::RuleBroken { .. });
        assert_eq!(events.iter().filter(single).count() as u64, MAX_BREACHES + 1);
        let repeated: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::RuleRepeated { message, count, .. } => Some((&**message, *count)),
                _ => None,
            })
            .collect();
        assert_eq!(repeated, [("one", 500), ("other", 500), ("one", 250), ("other", 250)]);
        assert!(log.take().is_empty(), "what is counted is not counted again");
        judge("one");
        assert_eq!(log.take().len(), 1);
    }

    #[test]
    fn sentences_that_differ_each_time_do_not_fill_the_log() {
        let log = Log::new();
        let breaches = 10 * MAX_BREACHES;
        for index in 0..breaches {
            let broken = Some(format!("value {index}"));
            log.judge(RuleId::WT_LEVEL_001, Component::Driver, Subject::RUN, "here", broken);
        }
        let events = log.take();
        let count = |event: &Event| match event.kind {
            EventKind::RuleRepeated { count, .. } => count,
            _ => 1,
        };
        assert_eq!(events.iter().map(count).sum::<u64>(), breaches);
        assert!(events.len() as u64 <= MAX_BREACHES + 9 * MAX_MESSAGES as u64, "{}", events.len());
    }

    #[test]
    fn a_kept_rule_is_counted_and_a_broken_one_is_said() {
        let log = Log::new();
        let rule = RuleId::ALLOC_CREATE_001;
        log.judge(rule, Component::Client, Subject::RUN, "here", None);
        log.judge(rule, Component::Client, Subject::RUN, "here", Some("no".into()));
        assert_eq!((log.rule_counts().count_of(rule), log.take().len()), (2, 1));
    }
}
