//! What a driver got from the executive and has to give back: handles, lookaside lists, mappings,
//! locked pages, memory, references, threads, timers, DPCs and work items. Pool is counted in
//! `pool.rs`.
//!
//! Each thing has an [`Origin`]: its number, in the order in which the driver got the things, and the
//! call that got it. A caller asks for what was got in a range of numbers, for instance during
//! `DxgkDdiStartDevice`, and is not given again what it has reported.

use crate::Executive;
use crate::image;
use flight::ExecutionContext;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kind of a thing that a driver owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnedKind {
    /// A handle (`ZwOpenKey`).
    Handle,
    /// A lookaside list (`ExInitializeLookasideListEx`).
    LookasideList,
    /// A mapping of physical addresses (`MmMapIoSpace`).
    Mapping,
    /// A mapping of locked pages for user mode (`MmMapLockedPagesSpecifyCache`). A list can have
    /// several, at the same address.
    UserMapping,
    /// A memory descriptor list with locked pages (`MmProbeAndLockPages`).
    LockedPages,
    /// A work item (`IoAllocateWorkItem`), queued or not.
    WorkItem,
    /// A timer (`ExAllocateTimer`), set or not.
    Timer,
    /// Contiguous memory or pages (`MmAllocateContiguousMemory`, `MmAllocatePagesForMdl`).
    Memory,
    /// A reference to an object (`ObReferenceObjectByHandle`).
    Reference,
    /// A thread that runs (`PsCreateSystemThread`).
    RunningThread,
    /// A timer that is set (`KeSetTimer`).
    SetTimer,
    /// A DPC that is queued (`KeInsertQueueDpc`).
    QueuedDpc,
    /// A DPC that is queued and that Windows, too, may not have run yet: of low importance, or
    /// threaded.
    DelayedDpc,
    /// A work item that is queued (`IoQueueWorkItem`).
    QueuedWorkItem,
    /// A work item whose routine runs.
    RunningWorkItem,
}

/// Where a thing comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The number of the thing, from one up; zero if no executive was attached.
    number: u64,
    /// The number of the thread, timer or work item whose routine got it; its own number, if a call
    /// of the system did.
    root: u64,
    /// The return address of the call that got it, or zero.
    caller: u64,
}

impl Origin {
    /// The place of the call that got it, as ` in code+0x1234`; empty if it is not known.
    pub(crate) fn place(&self) -> String {
        image::place(self.caller)
    }
}

/// Which of the things that are left are asked for.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All.
    All,
    /// What was got during a call, which had these numbers.
    During(Range<u64>),
    /// What was got from this number on.
    Since(u64),
}

impl Scope {
    fn contains(&self, origin: &Origin) -> bool {
        match self {
            Scope::All => true,
            Scope::During(range) => range.contains(&origin.number) && range.contains(&origin.root),
            Scope::Since(first) => origin.root >= *first,
        }
    }
}

/// The things that a driver owns.
#[derive(Debug, Default)]
pub(crate) struct Owned(Mutex<Things>);

#[derive(Debug, Default)]
struct Things {
    count: u64,
    /// By kind and address or number. An object can have several references.
    by_key: BTreeMap<(OwnedKind, usize), Vec<Origin>>,
    /// The numbers of what was reported.
    reported: BTreeSet<u64>,
}

thread_local! {
    /// The number of the thread, timer or work item whose routine runs on this thread, or zero.
    static ROUTINE: Cell<u64> = const { Cell::new(0) };
}

/// Runs the routine of a thing: what it gets has this origin.
pub(crate) fn run_routine_of<R>(origin: Origin, routine: impl FnOnce() -> R) -> R {
    let before = ROUTINE.replace(origin.root);
    let result = routine();
    ROUTINE.set(before);
    result
}

impl Owned {
    fn things(&self) -> MutexGuard<'_, Things> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_origin(&self) -> Origin {
        let mut things = self.things();
        things.count += 1;
        let (number, routine) = (things.count, ROUTINE.get());
        let root = if routine == 0 { number } else { routine };
        Origin { number, root, caller: image::last_caller() }
    }
}

/// The origin of a thing that the driver on this thread gets now.
pub(crate) fn origin() -> Origin {
    let executive = ExecutionContext::attached::<Executive>();
    executive.map_or(Origin::default(), |executive| executive.owned.next_origin())
}

/// The driver that runs on this thread owns a thing from now on.
pub(crate) fn add(kind: OwnedKind, key: usize) {
    if let Some(executive) = ExecutionContext::attached::<Executive>() {
        let origin = executive.owned.next_origin();
        let mut things = executive.owned.things();
        let origins = things.by_key.entry((kind, key)).or_default();
        if !matches!(kind, OwnedKind::Reference | OwnedKind::UserMapping) {
            origins.clear(); // The address is used again.
        }
        origins.push(origin);
    }
}

/// The driver that runs on this thread has given a thing back.
pub(crate) fn remove(kind: OwnedKind, key: usize) {
    if let Some(executive) = ExecutionContext::attached::<Executive>() {
        let mut things = executive.owned.things();
        if let Some(origins) = things.by_key.get_mut(&(kind, key)) {
            origins.pop();
            if origins.is_empty() {
                things.by_key.remove(&(kind, key));
            }
        }
    }
}

impl Executive {
    /// The number of the next thing that the driver gets.
    pub fn next_owned(&self) -> u64 {
        self.owned.things().count + 1
    }

    /// The things of a kind that the driver owns.
    pub(crate) fn owned_origins(&self, kind: OwnedKind) -> Vec<Origin> {
        let things = self.owned.things();
        let of_kind = things.by_key.iter().filter(|((known, _), _)| *known == kind);
        of_kind.flat_map(|(_, origins)| origins).copied().collect()
    }

    /// Those of the things that are in a scope and were not reported.
    pub(crate) fn unreported(&self, mut origins: Vec<Origin>, scope: &Scope) -> Vec<Origin> {
        let things = self.owned.things();
        origins.retain(|origin| {
            let numbers = [origin.number, origin.root];
            scope.contains(origin) && !numbers.iter().any(|it| things.reported.contains(it))
        });
        origins
    }

    /// Things are reported, and not left again. Returns for each the place of the call that got it,
    /// as ` in code+0x1234`, or an empty text. The oldest is first.
    pub fn report(&self, mut origins: Vec<Origin>) -> Vec<String> {
        let mut things = self.owned.things();
        // Addresses differ from run to run, the order does not.
        origins.sort_unstable();
        let numbers = origins.iter().map(|origin| origin.number).filter(|number| *number != 0);
        things.reported.extend(numbers);
        origins.into_iter().map(|origin| image::place(origin.caller)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(executive: &Executive, origins: Vec<Origin>, scope: &Scope) -> usize {
        executive.report(executive.unreported(origins, scope)).len()
    }

    fn left(executive: &Executive, kind: OwnedKind, scope: &Scope) -> usize {
        report(executive, executive.owned_origins(kind), scope)
    }

    #[test]
    fn what_is_given_back_is_not_owned() {
        let executive = Executive::new("owner");
        executive.run_driver(|| {
            add(OwnedKind::Handle, 4);
            add(OwnedKind::Handle, 8);
            add(OwnedKind::Mapping, 4);
            remove(OwnedKind::Handle, 4);
            add(OwnedKind::Reference, 4);
            add(OwnedKind::Reference, 4);
            add(OwnedKind::Reference, 4);
            remove(OwnedKind::Reference, 4);
        });
        add(OwnedKind::Handle, 12); // No driver runs.
        let count = |kind| executive.owned_origins(kind).len();
        assert_eq!((count(OwnedKind::Handle), count(OwnedKind::Mapping)), (1, 1));
        assert_eq!((count(OwnedKind::LookasideList), count(OwnedKind::Reference)), (0, 2));
    }

    #[test]
    fn a_round_reports_what_it_got_and_once() {
        let executive = Executive::new("owner");
        let round = || {
            let first = executive.next_owned();
            let key = usize::try_from(first).unwrap();
            executive.run_driver(|| add(OwnedKind::Handle, key));
            first..executive.next_owned()
        };
        let add_device = round();
        let (handle, all) = (OwnedKind::Handle, Scope::All);
        for _ in 0..2 {
            let start_device = Scope::During(round());
            executive.run_driver(|| add(handle, usize::MAX)); // After the call.
            assert_eq!(left(&executive, handle, &start_device), 1);
            assert_eq!(left(&executive, handle, &start_device), 0, "it was reported");
        }
        assert_eq!(left(&executive, handle, &Scope::During(add_device)), 1);
        assert_eq!(left(&executive, handle, &all), 1, "the one after the call");
    }

    #[test]
    fn what_a_routine_gets_is_as_old_as_the_routine() {
        let executive = Executive::new("owner");
        executive.run_driver(|| {
            let timer = origin();
            let first = executive.next_owned();
            // The timer's DPC sets it again: it is the same one.
            let again = run_routine_of(timer, origin);
            let other = origin();
            let since = Scope::Since(first);
            assert_eq!(report(&executive, vec![timer, again, other], &since), 1);
            assert_eq!(report(&executive, vec![timer], &Scope::All), 1);
            assert_eq!(report(&executive, vec![again], &Scope::All), 0, "it was reported");
        });
    }
}
