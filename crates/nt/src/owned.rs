//! What a driver got from the executive and has to give back before it is unloaded: handles,
//! lookaside lists, mappings of physical addresses, locked pages. Pool, contiguous memory, threads,
//! timers, DPCs and work items are counted elsewhere.

use crate::Executive;
use crate::image;
use flight::ExecutionContext;
use std::collections::BTreeMap;
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
    /// A memory descriptor list with locked pages (`MmProbeAndLockPages`).
    LockedPages,
}

/// The things that a driver owns: what each is, its address or number, and the return address of
/// the call that made it.
#[derive(Debug, Default)]
pub(crate) struct Owned(Mutex<Things>);

#[derive(Debug, Default)]
struct Things {
    count: u64,
    /// With the number of the thing: addresses differ from run to run, the order does not.
    by_key: BTreeMap<(OwnedKind, usize), (u64, u64)>,
}

impl Owned {
    fn things(&self) -> MutexGuard<'_, Things> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver that runs on this thread owns a thing from now on.
pub(crate) fn add(kind: OwnedKind, key: usize) {
    if let Some(executive) = ExecutionContext::attached::<Executive>() {
        let mut things = executive.owned.things();
        things.count += 1;
        let number = things.count;
        things.by_key.insert((kind, key), (number, image::last_caller()));
    }
}

/// The driver that runs on this thread has given a thing back.
pub(crate) fn remove(kind: OwnedKind, key: usize) {
    if let Some(executive) = ExecutionContext::attached::<Executive>() {
        executive.owned.things().by_key.remove(&(kind, key));
    }
}

impl Executive {
    /// The things of a kind that the driver owns: for each the place of the call that made it, as
    /// ` in code+0x1234`, or an empty text. The oldest is first.
    pub fn owned_things(&self, kind: OwnedKind) -> Vec<String> {
        let things = self.owned.things();
        let of_kind = things.by_key.iter().filter(|((known, _), _)| *known == kind);
        let mut places: Vec<(u64, u64)> = of_kind.map(|(_, origin)| *origin).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, caller)| image::place(caller)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_not_owned() {
        let executive = Executive::new("owner");
        executive.run_driver(|| {
            add(OwnedKind::Handle, 4);
            add(OwnedKind::Handle, 8);
            add(OwnedKind::Mapping, 4);
            remove(OwnedKind::Handle, 4);
        });
        add(OwnedKind::Handle, 12); // No driver runs.
        let count = |kind| executive.owned_things(kind).len();
        assert_eq!((count(OwnedKind::Handle), count(OwnedKind::Mapping)), (1, 1));
        assert_eq!(count(OwnedKind::LookasideList), 0);
    }
}
