//! The rules that bind the class driver itself: each is judged in a flight, holds there, and is
//! broken by the same trace with one event changed.

use crate::tests::source::*;
use crate::*;
use flight::{Component, Event, RuleId};
use std::collections::BTreeSet;

/// One change of a trace. An event is found by parts of its line: the first line that has all of
/// them.
enum Change {
    /// The event is removed.
    Missing(&'static str),
    /// The event is repeated, right after the next one of another kind.
    Again(&'static str, &'static str),
    /// The event comes after the next one of another kind.
    Late(&'static str, &'static str),
    /// The event right before another comes right after that.
    Swap(&'static str, &'static str),
    /// A value of the event is changed.
    Set(&'static str, &'static str, &'static str),
}

use Change::{Again, Late, Missing, Set, Swap};

const CASES: &[(RuleId, Change)] = &[
    (RuleId::KS_ALLOC_001, Set("allocator.chosen", "by", "client")),
    (RuleId::KS_ALLOC_002, Again("ks.call name=AVStrMiniInitializeAllocator", "ks.call")),
    (
        RuleId::KS_ALLOC_005,
        Set("allocator.used entry=AVStrMiniAllocate", "driver_handle", "driver-pointer:77"),
    ),
    (RuleId::KS_ALLOC_009, Set("allocator.ready", "frames", "2")),
    (RuleId::KS_ALLOC_010, Set("frame.freeing", "pointer", "driver-pointer:77")),
    (RuleId::KS_ALLOC_012, Missing("frame.freed")),
    (
        RuleId::KS_ALLOC_013,
        Late("allocator.used entry=AVStrMiniDeleteAllocator", "allocator.deleted"),
    ),
    (RuleId::KS_ALLOC_016, Missing("allocator.deleted")),
    (RuleId::KS_ALLOC_018, Set("allocator.chosen", "user", "true")),
    (RuleId::KS_ALLOC_026, Set("frame.created", "pin", "pin:9")),
    (RuleId::KS_BAG_002, Missing("ks.unbagged")),
    (RuleId::KS_DEV_002, Missing("ks.started")),
    (RuleId::KS_DEV_005, Late("pin.closed", "filter.closed")),
    (RuleId::KS_FRAMING_006, Set("pin.framing set=true", "succeeded", "true")),
    (RuleId::KS_PIN_001, Set("ks.call name=AVStrMiniPinCreate", "locks", "device")),
    (RuleId::KS_PIN_003, Late("ks.return name=AVStrMiniPinClose", "pin.closed")),
    (RuleId::KS_PIN_005, Set("ks.call name=AVStrMiniPinSetDataFormat", "level", "dispatch")),
    (RuleId::KS_PIN_009, Set("pin.created", "possible", "0")),
    (RuleId::KS_PROC_003, Set("ks.call name=AVStrMiniPinProcess", "level", "dispatch")),
    (RuleId::KS_PTR_006, Late("pointer.deleted", "frame.done")),
    (RuleId::KS_PTR_011, Swap("pointer.deleted", "frame.cancelled")),
    (RuleId::KS_STATE_001, Set("pin.state-requested to=acquire", "to", "pause")),
    (RuleId::KS_STATE_003, Set("pin.state-requested to=acquire", "to", "stop")),
    (RuleId::KS_STATE_004, Missing("pin.state-requested to=pause")),
];

/// A flight in which all of the rules are judged.
fn recorded() -> Vec<Event> {
    let (events, _) = fly(0, |run, at| {
        let source = Source::with(true, |it, entry, pin| {
            if entry == Entry::PinCreate {
                let item = it.services().allocate_memory(8, 0, MemoryKind::Paged).unwrap();
                it.services().add_to_bag(BagOwner::Pin(pin), item, false).unwrap();
            }
            Ok(())
        });
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        let framing = run.stream.framing(graph.pin).unwrap().unwrap();
        assert!(run.stream.set_framing(graph.pin, &framing).is_err());
        graph.run(at, 3).unwrap();
        graph.stop(at).unwrap();
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    check_order(&events);
    assert_eq!(broken(&events), []);
    events
}

fn verified(events: &[Event]) -> verify::Verifier {
    let mut verifier = verify::Verifier::new();
    for event in events {
        verifier.observe(event);
    }
    verifier
}

#[test]
fn one_wrong_event_is_one_rule_broken() {
    let events = recorded();
    let quiet = verified(&events);
    assert_eq!(quiet.findings(), []);
    for (request_rule, change) in CASES {
        assert_ne!(
            quiet.rule_counts().count_of(*request_rule),
            0,
            "{} is not judged",
            request_rule.name()
        );
        let changed = change.apply(&events);
        let verifier = verified(&changed);
        let first = verifier.findings().first();
        let first = first.unwrap_or_else(|| panic!("{} is not found", request_rule.name()));
        let together: BTreeSet<RuleId> = verifier
            .findings()
            .iter()
            .take_while(|finding| finding.events.last() == first.events.last())
            .inspect(|finding| assert_eq!(finding.component, Component::Kernel))
            .map(|finding| finding.rule)
            .collect();
        assert_eq!(together, BTreeSet::from([*request_rule]), "{}: {first:?}", request_rule.name());
    }
}

impl Change {
    fn apply(&self, events: &[Event]) -> Vec<Event> {
        let mut events = events.to_vec();
        match *self {
            Missing(event) => drop(events.remove(find(&events, event))),
            Again(event, other) => {
                let at = find(&events, event);
                let again = events[at].clone();
                let next = at + 1 + find(&events[at + 1..], other);
                events.insert(next, again);
            }
            Late(event, other) => {
                let at = find(&events, event);
                let moved = events.remove(at);
                let next = at + find(&events[at..], other);
                events.insert(next + 1, moved);
            }
            Swap(event, other) => {
                let next = find(&events, other);
                assert!(events[next - 1].to_string().contains(event), "{event}");
                events.swap(next - 1, next);
            }
            Set(event, name, value) => {
                let at = find(&events, event);
                events[at] = with(&events[at], name, value);
            }
        }
        for (event, seq) in events.iter_mut().zip(1..) {
            event.seq = seq;
        }
        events
    }
}

fn find(events: &[Event], words: &str) -> usize {
    let has = |event: &Event| {
        let line = event.to_string();
        let line: Vec<&str> = line.split(' ').collect();
        words.split(' ').all(|word| line.contains(&word))
    };
    events.iter().position(has).unwrap_or_else(|| panic!("no event has {words}"))
}

fn with(event: &Event, name: &str, value: &str) -> Event {
    let line = event.to_string();
    let other = |word: &str| match word.split_once('=') {
        Some((it, _)) if it == name => format!("{name}={value}"),
        _ => word.to_owned(),
    };
    let line: Vec<String> = line.split(' ').map(other).collect();
    line.join(" ").parse().unwrap()
}
