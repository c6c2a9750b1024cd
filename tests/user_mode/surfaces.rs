//! The order in which an application's resource is destroyed: its last commands are submitted, its
//! driver releases it, its views are closed, its allocations are destroyed.
#![expect(clippy::unwrap_used, reason = "an event that is not there is a failed test")]

use flight::{Event, EventKind, Kind, Subject};
use harness::flown;
use std::collections::BTreeMap;
use windtunnel::Outcome;

const SCENARIOS: [&str; 5] = [
    "umd-texture",
    "umd-destroy-in-flight",
    "umd-deferred-destroy",
    "umd-surface-group",
    "umd-shared-resource",
];

/// The event numbers of an allocation's life.
#[derive(Clone, Debug, Default)]
struct Life {
    /// The callback that submitted the last packet which uses it.
    handed: Option<u64>,
    /// The completion of that packet.
    done: Option<u64>,
    /// The close of each of its views.
    closed: Vec<u64>,
    gone: Option<u64>,
}

/// The event numbers of a resource's life.
#[derive(Clone, Debug, Default)]
struct Group {
    allocations: Vec<Subject>,
    /// The callback that released it, and the event of the release.
    freed: Option<(u64, String)>,
    released: Option<u64>,
    dropped: Option<u64>,
    /// The details of the release.
    before: bool,
}

#[derive(Default)]
struct Lifetimes {
    allocations: BTreeMap<Subject, Life>,
    groups: BTreeMap<Subject, Group>,
    /// A thread's current callback.
    callback: BTreeMap<u32, (u64, String)>,
    /// A thread's objects created since then.
    made: BTreeMap<u32, Vec<Subject>>,
    views: BTreeMap<Subject, Subject>,
    /// Packets by context and number: the submitting callback.
    packets: BTreeMap<(Subject, u64), u64>,
    /// The packet of a node's fence.
    fences: BTreeMap<(Subject, u32), (Subject, u64)>,
    /// The allocations of a packet.
    used: BTreeMap<(Subject, u64), Vec<Subject>>,
}

impl Lifetimes {
    fn of(events: &[Event]) -> Self {
        let mut lifetimes = Self::default();
        for event in events {
            lifetimes.follow(event);
        }
        lifetimes
    }

    fn follow(&mut self, event: &Event) {
        let (seq, thread, subject) = (event.seq, event.thread, event.subject);
        match &event.kind {
            EventKind::UmdCallback { name } => {
                self.callback.insert(thread, (seq, name.to_string()));
                self.made.remove(&thread);
            }
            EventKind::AllocationCreated { .. } => {
                self.made.entry(thread).or_default().push(subject);
            }
            EventKind::SurfacesBacked { .. } => {
                let made = self.made.remove(&thread).unwrap_or_default();
                self.groups.entry(subject).or_default().allocations.extend(made);
            }
            EventKind::SurfacesReleased {} => {
                let freed = self.callback.get(&thread).cloned();
                let group = self.groups.entry(subject).or_default();
                (group.freed, group.released) = (freed, Some(seq));
            }
            EventKind::SurfacesDropped { released } => {
                let group = self.groups.entry(subject).or_default();
                (group.dropped, group.before) = (Some(seq), *released);
            }
            EventKind::ViewOpened { allocation, .. } => {
                self.views.insert(subject, *allocation);
            }
            EventKind::ViewClosed {} => self.life(self.views[&subject]).closed.push(seq),
            EventKind::AllocationDestroyed {} => self.life(subject).gone = Some(seq),
            _ => self.follow_packet(event),
        }
    }

    fn follow_packet(&mut self, event: &Event) {
        let (seq, subject) = (event.seq, event.subject);
        match &event.kind {
            EventKind::PacketQueued { packet } => {
                if let Some((callback, _)) = self.callback.get(&event.thread) {
                    self.packets.insert((subject, *packet), *callback);
                }
            }
            EventKind::PacketSubmitted { packet, node, fence } => {
                self.fences.insert((*node, fence.0), (subject, *packet));
            }
            EventKind::PacketUses { node, fence, .. } if subject.kind == Kind::Allocation => {
                let packet = self.fences[&(*node, fence.0)];
                self.used.entry(packet).or_default().push(subject);
                self.life(subject).handed = self.packets.get(&packet).copied();
            }
            EventKind::PacketDone { packet, .. } => {
                for it in self.used.remove(&(subject, *packet)).unwrap_or_default() {
                    self.life(it).done = Some(seq);
                }
            }
            _ => {}
        }
    }

    fn life(&mut self, allocation: Subject) -> &mut Life {
        self.allocations.entry(allocation).or_default()
    }
}

/// Flies, and checks the order of each resource. Returns how many of them were released before the
/// application's destroy returned, how many later, and how many allocations the GPU used.
fn in_order(driver: &str, scenario: &str, seed: u64) -> [usize; 3] {
    let flown = flown(driver, scenario, seed);
    let at = format!("{driver}, {scenario}, seed {seed}");
    assert_eq!(flown.outcome, Outcome::Clean, "{at}: {}", flown.report());
    let lifetimes = Lifetimes::of(&flown.events);
    let mut counts = [0; 3];
    for (name, group) in &lifetimes.groups {
        let at = format!("{at}, {name}");
        let (released, dropped) = (group.released.unwrap(), group.dropped.unwrap());
        assert_eq!(group.before, released < dropped, "{at}: {group:?}");
        counts[usize::from(released > dropped)] += 1;
        let (freed, callback) = group.freed.clone().unwrap();
        assert!(["pfnDeallocateCb", "pfnDeallocate2Cb"].contains(&&*callback), "{at}: {callback}");
        for allocation in &group.allocations {
            let life = &lifetimes.allocations[allocation];
            let (first, last) = (life.closed.iter().min(), life.closed.iter().max());
            let (first, last, gone) = (*first.unwrap(), *last.unwrap(), life.gone.unwrap());
            assert!(freed < last && last < gone, "{at}: {freed}, {life:?}");
            // A device that has opened it may close its view before the creator does.
            assert!(freed < first || life.closed.len() > 1, "{at}: {freed}, {life:?}");
            if let (Some(handed), Some(done)) = (life.handed, life.done) {
                let alone = life.closed.len() == 1;
                assert!(handed < freed || !alone, "{at}: {freed}, {life:?}");
                assert!(done < last, "{at}: {life:?}");
                counts[2] += 1;
            }
        }
    }
    counts
}

fn all(driver: &str, seeds: u64) -> [usize; 3] {
    let mut counts = [0; 3];
    for scenario in SCENARIOS {
        for seed in 1..=seeds {
            let more = in_order(driver, scenario, seed);
            for (sum, it) in counts.iter_mut().zip(more) {
                *sum += it;
            }
        }
    }
    counts
}

/// Where the kernel knows the allocations of a packet, the driver releases when its commands are
/// submitted, and the kernel's retirement waits for the GPU.
#[test]
fn with_lists_a_resource_is_destroyed_after_the_last_packet_that_uses_it() {
    let [immediate, deferred, used] = all("softgpu-allocation-lists", 16);
    assert_eq!(deferred, 0);
    assert!(immediate > 100 && used > 100, "{immediate} resources, {used} allocations in packets");
}

/// Where it does not, the driver has a fence, and defers the release while the GPU may use it.
#[test]
fn without_lists_a_release_is_deferred_until_a_flush_or_the_end_of_the_device() {
    for driver in ["softgpu-memory", "softgpu-gpummu"] {
        let [immediate, deferred, _] = all(driver, 8);
        assert!(immediate > 20 && deferred > 20, "{driver}: {immediate} and {deferred}");
    }
}
