//! Destroys of allocations that are locked, offered, evicted, mapped or in transfer: in every drawn
//! order, each stage waits for what it must wait for, and for nothing else.
#![forbid(unsafe_code)]

use flight::{Event, EventKind, Subject};
use harness::{flown, good_scenarios};
use windtunnel::{HostKind, Outcome};

/// A flight of a good client, in the order of its events.
fn events(scenario: &str, on: HostKind) -> Vec<Event> {
    let flown = flown("softgpu-memory", scenario, on);
    let locked = scenario == "destroy-locked";
    assert!(locked || flown.outcome == Outcome::Clean, "{scenario}, {on:?}: {:?}", flown.findings);
    assert_eq!(flown.live.count(), 0, "{scenario}, {on:?}");
    flown.events
}

/// All thread orders of the test.
fn orders() -> impl Iterator<Item = HostKind> {
    (1..=20)
        .map(HostKind::deterministic)
        .chain((1..=10).map(HostKind::under_pressure))
        .chain([HostKind::Threaded; 5])
}

/// The destruction of one allocation with one view, by the positions of its events.
struct End<'a> {
    events: &'a [Event],
    allocation: Subject,
    view: Subject,
    retirement: Subject,
    requested: usize,
    assume: bool,
    sync: bool,
}

impl<'a> End<'a> {
    /// Each destruction that a destroy call requested.
    fn all(events: &'a [Event]) -> Vec<Self> {
        let view = |retirement: Subject| {
            let mut views = events.iter().filter(
                |event| matches!(event.kind, EventKind::ViewRetiring { retirement: by, .. } if by == retirement),
            );
            let view = views.next()?.subject;
            assert!(views.next().is_none(), "each of these scenarios destroys one at a time");
            Some(view)
        };
        let allocation = |view: Subject| {
            events.iter().find_map(|event| match event.kind {
                EventKind::ViewOpened { allocation, .. } if event.subject == view => {
                    Some(allocation)
                }
                _ => None,
            })
        };
        let end = |(requested, it): (usize, &Event)| {
            let EventKind::RetireRequested { assume_not_in_use: assume, synchronous: sync, .. } =
                it.kind
            else {
                return None;
            };
            let (retirement, view) = (it.subject, view(it.subject)?);
            let allocation = allocation(view)?;
            Some(Self { events, allocation, view, retirement, requested, assume, sync })
        };
        events.iter().enumerate().filter_map(end).collect()
    }

    /// The position of the one event of that name with this subject.
    fn one(&self, subject: Subject, name: &str) -> usize {
        let mut all = self.places(|event| event.subject == subject && event.kind.name() == name);
        let first = all.next().unwrap_or_else(|| panic!("{subject} has no {name}"));
        assert!(all.next().is_none(), "{subject} has two {name}");
        first
    }

    fn places(&self, is: impl Fn(&Event) -> bool) -> impl Iterator<Item = usize> {
        let all = self.events.iter().enumerate();
        all.filter_map(move |(place, it)| is(it).then_some(place))
    }

    /// The positions where paging operations on the allocation are complete.
    fn done(&self, name: &str) -> Vec<usize> {
        let of = self.allocation;
        let is = |event: &Event| match &event.kind {
            EventKind::PagingDone { operation, of: on, .. } => *on == of && operation == name,
            _ => false,
        };
        self.places(is).collect()
    }

    /// The properties of every destruction.
    fn check(&self, on: HostKind) {
        let what = format!("{}, {on:?}", self.allocation);
        let idle = self.one(self.view, "view.idle");
        let freed = self.one(self.allocation, "memory.freed");
        let decommitted = self.one(self.allocation, "allocation.decommitted");
        let closes = self.one(self.view, "ddi.closes");
        let closed = self.one(self.view, "view.closed");
        let destroys = self.one(self.allocation, "ddi.destroys");
        let gone = self.one(self.allocation, "allocation.destroyed");
        let over = self.one(self.retirement, "retire.done");
        let order =
            [self.requested, idle, freed, decommitted, closes, closed, destroys, gone, over];
        assert!(order.is_sorted(), "{what}: {order:?}");
        let named = |event: &Event| {
            let of = match event.kind {
                EventKind::PagingBuilt { of, .. } | EventKind::PagingDone { of, .. } => Some(of),
                _ => None,
            };
            of == Some(self.allocation)
        };
        let late = self.places(named).filter(|index| *index > freed).count();
        assert_eq!(late, 0, "{what}: nothing pages what has no memory any more");
        if self.sync {
            let answered = self.one(self.retirement, "retire.returned");
            assert!(answered > over, "{what}: the call waits for the end");
        }
        if self.assume {
            // The client's claim is trusted: the view is idle before another thread runs.
            let behind = self.places(|event| {
                event.subject == self.retirement
                    && matches!(event.kind, EventKind::RetireWaits { .. })
            });
            assert_eq!(behind.count(), 0, "{what}");
        }
    }
}

fn ends(scenario: &str, count: usize, also: impl Fn(&End<'_>)) {
    for on in orders() {
        let events = events(scenario, on);
        let all = End::all(&events);
        // Destructions that its device requested are additional.
        assert!(all.len() >= count, "{scenario}, {on:?}: {} ends", all.len());
        for end in &all {
            end.check(on);
        }
        all.iter().take(count).for_each(&also);
    }
}

#[test]
fn a_lock_is_dropped_before_its_allocation_waits_for_anything() {
    ends("destroy-locked", 2, |end| {
        let dropped = |event: &Event| {
            let ended = matches!(event.kind, EventKind::LockEnded { dropped: true, .. });
            event.subject == end.view && ended
        };
        let dropped: Vec<usize> = end.places(dropped).collect();
        assert_eq!(dropped.len(), 2, "both locks");
        assert!(dropped[0] > end.requested && dropped[1] < end.one(end.view, "view.idle"));
    });
}

#[test]
fn an_unlocked_allocation_has_no_lock_to_drop() {
    ends("destroy-after-unlock", 1, |end| {
        let dropped =
            |event: &Event| matches!(event.kind, EventKind::LockEnded { dropped: true, .. });
        assert_eq!(end.places(dropped).count(), 0);
    });
}

#[test]
fn an_offered_allocation_is_not_discarded_before_its_destruction() {
    ends("destroy-offered", 2, |end| {
        let evicted = |event: &Event| {
            event.subject == end.allocation && matches!(event.kind, EventKind::MemoryEvicted { .. })
        };
        let since = end.places(evicted).filter(|place| *place > end.requested).count();
        // Under pressure it may have been in an aperture: then it is unmapped.
        assert_eq!(since, end.done("unmap-aperture").len());
    });
}

#[test]
fn destroying_an_evicted_allocation_pages_nothing() {
    ends("destroy-evicted", 1, |end| {
        let over = end.one(end.retirement, "retire.done");
        let planned = end.places(|event| matches!(event.kind, EventKind::PagingPlanned { .. }));
        assert_eq!(planned.filter(|place| (end.requested..over).contains(place)).count(), 0);
    });
}

#[test]
fn a_mapped_allocation_is_unmapped_before_it_is_closed() {
    ends("destroy-in-aperture", 4, |end| {
        let unmapped = end.done("unmap-aperture");
        assert_eq!(unmapped.len(), 1, "{}", end.allocation);
        let (idle, closes) = (end.one(end.view, "view.idle"), end.one(end.view, "ddi.closes"));
        assert!(idle < unmapped[0] && unmapped[0] < closes, "{}", end.allocation);
        let evicted = end.one(end.allocation, "memory.evicted");
        assert!(evicted > idle, "it stays mapped while work may use it");
        let planned = &end.events[evicted + 1].kind;
        if !matches!(planned, EventKind::PagingPlanned { .. }) {
            return; // Threads side by side: another one came between.
        }
        assert!(matches!(planned, EventKind::PagingPlanned { waits: 0, .. }), "{planned:?}");
    });
}

#[test]
fn an_allocation_in_transfer_is_destroyed_after_the_transfer() {
    ends("destroy-during-transfer", 8, |end| {
        let idle = end.one(end.view, "view.idle");
        // The device has no work, so its own work is no reason to wait.
        let mut next = end.events[end.requested..idle].iter();
        assert!(next.all(|event| !matches!(event.kind, EventKind::PagingDone { .. })));
    });
    let seen = events("destroy-during-transfer", HostKind::deterministic(1));
    let late = |end: &End<'_>| {
        let done = |event: &Event| match event.kind {
            EventKind::PagingDone { of, .. } => of == end.allocation,
            _ => false,
        };
        end.places(done).any(|place| place > end.requested)
    };
    let all = End::all(&seen);
    assert_eq!(all.iter().filter(|end| late(end)).count(), 8, "all were in transfer");
    let parked = |end: &&End<'_>| {
        let is = |event: &Event| {
            event.subject == end.retirement && matches!(event.kind, EventKind::WaitParked { .. })
        };
        end.places(is).next().is_some()
    };
    assert_eq!(all.iter().filter(parked).count(), 4, "those destroyed synchronously parked");
}

/// With GPU virtual addresses, an allocation is destroyed after its addresses are unmapped, in every
/// scenario of addresses.
#[test]
fn an_allocation_is_destroyed_after_its_addresses_are_unmapped() {
    let scenarios = good_scenarios("softgpu-gpummu");
    let addresses: Vec<_> =
        scenarios.iter().filter(|scenario| scenario.name.starts_with("gpuva")).collect();
    assert!(addresses.len() > 5, "{} scenarios", addresses.len());
    for scenario in addresses {
        for seed in 1..=3 {
            let flown = flown("softgpu-gpummu", scenario.name, seed);
            assert_eq!(flown.outcome, Outcome::Clean, "{}: {:?}", scenario.name, flown.findings);
        }
    }
}
