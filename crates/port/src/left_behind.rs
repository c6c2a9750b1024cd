//! Entry rules on what a driver from a file leaves behind: at the stop and the removal of its
//! adapter, and at its unload.
//!
//! WINDOWS: `DxgkDdiStopDevice` frees what `DxgkDdiStartDevice` got, and `DxgkDdiRemoveDevice` what
//! `DxgkDdiAddDevice` got (documented). No page says when a driver gives back what it got in another
//! call: that is judged at the unload. Timers, DPCs and work items are judged from the start on,
//! whichever call queued them, because their routines would find a stopped adapter. Pool is judged by
//! its own events.

use crate::display::TableDriver;
use crate::door::Door;
use flight::{Component, Host, Log, Passive, RuleId, Subject};
use nt::{Executive, OwnedKind, Pool, Scope};
use std::ops::Range;
use std::sync::Arc;

/// How often other threads may run before a thread that still runs is reported: a driver may have
/// waited for an event that its thread sets last, before it ends.
const MAX_TURNS: usize = 1000;

/// The places that a sentence names for one kind.
const MAX_PLACES: usize = 3;

/// A kind, and the words for one and for several things of it.
type KindRow = (OwnedKind, &'static str, &'static str);

/// What is queued at the stop or the removal. Windows has run the other DPCs at once, and a running
/// work item may be past the event that the driver has waited for.
const QUEUED: &[KindRow] = &[
    (OwnedKind::SetTimer, "timer that is set", "timers that are set"),
    (OwnedKind::DelayedDpc, "queued DPC", "queued DPCs"),
    (OwnedKind::QueuedWorkItem, "queued work item", "queued work items"),
];
/// What is queued or runs at the unload.
const PENDING: &[KindRow] = &[
    (OwnedKind::SetTimer, "timer that is set", "timers that are set"),
    (OwnedKind::QueuedDpc, "queued DPC", "queued DPCs"),
    (OwnedKind::QueuedWorkItem, "queued work item", "queued work items"),
    (OwnedKind::RunningWorkItem, "running work item", "running work items"),
];
const RESOURCES: &[KindRow] = &[
    (OwnedKind::RunningThread, "running thread", "running threads"),
    (OwnedKind::Reference, "reference to an object", "references to objects"),
    (
        OwnedKind::Memory,
        "block of contiguous memory or pages",
        "blocks of contiguous memory or pages",
    ),
];
/// The kinds of WT-LEAK-001.
const HANDLES: &[KindRow] = &[(OwnedKind::Handle, "open handle", "open handles")];
/// The kinds of WT-LEAK-002.
const OTHERS: &[KindRow] = &[
    (OwnedKind::LookasideList, "lookaside list", "lookaside lists"),
    (OwnedKind::Mapping, "mapping of MmMapIoSpace", "mappings of MmMapIoSpace"),
    (
        OwnedKind::UserMapping,
        "user-mode mapping of MmMapLockedPagesSpecifyCache",
        "user-mode mappings of MmMapLockedPagesSpecifyCache",
    ),
    (OwnedKind::LockedPages, "MDL with locked pages", "MDLs with locked pages"),
    (OwnedKind::WorkItem, "work item of IoAllocateWorkItem", "work items of IoAllocateWorkItem"),
    (OwnedKind::Timer, "timer of ExAllocateTimer", "timers of ExAllocateTimer"),
];

/// The numbers of the things that a driver acquired in the calls whose counterparts release them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcquiredRanges {
    /// In `DxgkDdiAddDevice`.
    pub(crate) add: Range<u64>,
    /// In `DxgkDdiStartDevice`, until the adapter is stopped.
    pub(crate) start: Option<Range<u64>>,
}

/// What a driver gives back until now.
struct Balance<'a> {
    host: &'a Arc<dyn Host>,
    log: &'a Log,
    executive: &'a Executive,
    subject: Subject,
    /// The call that has returned.
    entry: &'static str,
    /// The beginning of the sentence.
    sentence: String,
}

impl Balance<'_> {
    /// What is left of these kinds, as text.
    fn left(&self, kinds: &[KindRow], scopes: &[Scope]) -> Vec<String> {
        let describe = |&(kind, one, many): &KindRow| {
            let things = scopes
                .iter()
                .flat_map(|scope| nt::left_things(self.host, self.executive, kind, scope));
            let places = self.executive.report(things.collect());
            let named = places.iter().filter(|place| !place.is_empty()).take(MAX_PLACES);
            let named: Vec<&str> = named.map(|place| place.trim_start()).collect();
            let made = if named.is_empty() {
                String::new()
            } else {
                format!(" (made {})", named.join(", "))
            };
            match places.len() {
                0 => None,
                1 => Some(format!("one {one}{made}")),
                count => Some(format!("{count} {many}{made}")),
            }
        };
        kinds.iter().filter_map(describe).collect()
    }

    fn judge(&self, rule: RuleId, left: &[String]) {
        let broken = (!left.is_empty()).then(|| format!("{}: {}", self.sentence, left.join("; ")));
        self.log.judge(rule, Component::Driver, self.subject, self.entry, broken);
    }

    /// Judges what is left: by `rule` what runs, is queued or is memory, by rules of their own the
    /// other kinds.
    fn judge_all(&self, rule: RuleId, resources: &[Scope], queued: &[Scope]) {
        let left = [self.left(RESOURCES, resources), self.left(QUEUED, queued)];
        self.judge(rule, &left.concat());
        self.judge(RuleId::WT_LEAK_001, &self.left(HANDLES, resources));
        self.judge(RuleId::WT_LEAK_002, &self.left(OTHERS, resources));
    }
}

impl TableDriver {
    /// Runs a call; returns also the numbers of the things that the driver got meanwhile.
    pub(crate) fn count_things<R>(&self, call: impl FnOnce() -> R) -> (R, Range<u64>) {
        let next = || self.pool.executive().map_or(0, |executive| executive.next_owned());
        let first = next();
        let result = call();
        (result, first..next())
    }

    /// Entry rules: what `DxgkDdiStartDevice` got is gone when the adapter is stopped.
    pub(crate) fn judge_stop(&self, at: &mut Passive, door: &Door, stop: &'static str) {
        let Some(executive) = self.pool.executive() else { return };
        let Some(start) = door.acquired().start.take() else { return };
        let services = door.services();
        let since = Scope::Since(start.start);
        let during = Scope::During(start);
        let threads =
            || nt::left_things(services.host(), executive, OwnedKind::RunningThread, &during).len();
        for _ in (0..MAX_TURNS).take_while(|_| threads() > 0) {
            services.host().yield_point(at);
        }
        let sentence =
            format!("{stop} returned, but what the driver got since DxgkDdiStartDevice is left");
        let (host, log, subject) = (services.host(), services.log(), services.adapter());
        let balance = Balance { host, log, executive, subject, entry: stop, sentence };
        balance.judge_all(RuleId::KMD_PNP_005, &[during], &[since]);
    }

    /// Entry rules: what `DxgkDdiAddDevice` got is gone when the adapter is removed; also what a
    /// `DxgkDdiStartDevice` got that failed.
    pub(crate) fn judge_removal(&self, door: &Door) {
        const NAME: &str = "DxgkDdiRemoveDevice";
        let Some(executive) = self.pool.executive() else { return };
        let services = door.services();
        let AcquiredRanges { add, start } = std::mem::take(&mut *door.acquired());
        let since = Scope::Since(add.start);
        let calls: Vec<Scope> = start.into_iter().chain([add]).map(Scope::During).collect();
        let sentence =
            format!("{NAME} returned, but what the driver got since DxgkDdiAddDevice is left");
        let (host, log, subject) = (services.host(), services.log(), services.adapter());
        let balance = Balance { host, log, executive, subject, entry: NAME, sentence };
        balance.judge_all(RuleId::KMD_PNP_003, &calls, &[since]);
    }
}

/// Entry rules: what a display driver started or got is gone when it is unloaded.
pub fn judge_unload(host: &Arc<dyn Host>, log: &Log, pool: &Pool) {
    judge_at_unload(RuleId::KMD_PNP_005, "DxgkDdiUnload", host, log, pool);
}

/// Entry rules: what an `AVStream` minidriver started or got is gone when it is unloaded.
pub fn judge_stream_unload(host: &Arc<dyn Host>, log: &Log, pool: &Pool) {
    judge_at_unload(RuleId::WT_LEAK_003, "DriverUnload", host, log, pool);
}

fn judge_at_unload(
    rule: RuleId,
    entry: &'static str,
    host: &Arc<dyn Host>,
    log: &Log,
    pool: &Pool,
) {
    let Some(executive) = pool.executive() else { return };
    let sentence = "the driver is unloaded, but it has left".to_owned();
    let balance = Balance { host, log, executive, subject: Subject::RUN, entry, sentence };
    let all = [Scope::All];
    let left = [RESOURCES, PENDING].map(|kinds| balance.left(kinds, &all));
    balance.judge(rule, &left.concat());
    balance.judge(RuleId::WT_LEAK_001, &balance.left(HANDLES, &all));
    balance.judge(RuleId::WT_LEAK_002, &balance.left(OTHERS, &all));
}
