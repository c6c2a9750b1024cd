//! Memory of clients that has physical addresses, behind the pages of the machine.
//!
//! # Invariants
//!
//! 1. Between two runs is at least a page without memory, so that no access covers both.
//! 2. An access holds the lock for reads, and a detach for writes: no access goes on when a run is
//!    detached.

use super::PAGE;
use flight::{ExistingMemory, Run};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The runs of one machine.
#[derive(Debug)]
pub(super) struct AttachedRuns {
    /// The first physical address of such memory.
    first: u64,
    runs: RwLock<BTreeMap<u64, AttachedRun>>,
}

#[derive(Clone, Debug)]
struct AttachedRun {
    bytes: u64,
    memory: Arc<dyn ExistingMemory>,
}

impl AttachedRuns {
    pub(super) fn new(first: u64) -> Self {
        Self { first, runs: RwLock::default() }
    }

    /// Whether an address can be one of such memory.
    pub(super) fn has_address(&self, start: u64) -> bool {
        start >= self.first
    }

    /// Attaches memory at the first addresses that are free.
    pub(super) fn attach(&self, memory: Arc<dyn ExistingMemory>, bytes: u64) -> Option<Run> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || bytes > memory.bytes() {
            return None;
        }
        let mut runs = self.write();
        let mut start = self.first;
        for (other, run) in runs.iter() {
            if start.checked_add(bytes)?.checked_add(PAGE)? <= *other {
                break;
            }
            start = other + run.bytes + PAGE;
        }
        start.checked_add(bytes)?.checked_add(PAGE)?;
        runs.insert(start, AttachedRun { bytes, memory });
        Some(Run { start, bytes })
    }

    /// Detaches a run. Returns whether it was attached.
    pub(super) fn detach(&self, run: Run) -> bool {
        let mut runs = self.write();
        let is_attached = runs.get(&run.start).is_some_and(|it| it.bytes == run.bytes);
        if is_attached {
            runs.remove(&run.start);
        }
        is_attached
    }

    /// Accesses a part of a run, by the memory and the offset there. Returns whether all of it is
    /// attached.
    pub(super) fn access(
        &self,
        part: Run,
        body: impl FnOnce(&Arc<dyn ExistingMemory>, u64),
    ) -> bool {
        let runs = self.read();
        let Some((start, run)) = runs.range(..=part.start).next_back() else { return false };
        let offset = part.start - start;
        let is_inside = offset.checked_add(part.bytes).is_some_and(|end| end <= run.bytes);
        if is_inside {
            body(&run.memory, offset);
        }
        is_inside
    }

    /// The memory of a whole run.
    pub(super) fn memory_of(&self, run: Run) -> Option<Arc<dyn ExistingMemory>> {
        let runs = self.read();
        runs.get(&run.start).filter(|it| it.bytes == run.bytes).map(|it| it.memory.clone())
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, AttachedRun>> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, AttachedRun>> {
        self.runs.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills memory with a pattern.
pub(super) fn fill(memory: &Arc<dyn ExistingMemory>, offset: u64, bytes: u64, pattern: u32) {
    let page: Vec<u8> = pattern.to_le_bytes().repeat((PAGE / 4) as usize);
    for start in (0..bytes).step_by(page.len()) {
        let length = usize::try_from(bytes - start).unwrap_or(usize::MAX).min(page.len());
        memory.write(offset + start, &page[..length]);
    }
}
