//! Pageable memory at a raised IRQL: paged pool, and the sections of an image whose names begin with
//! `PAGE`. While driver code runs at `DISPATCH_LEVEL` or above, these pages are inaccessible, as they
//! can be on Windows, so that each access faults.
//!
//! The protection belongs to the process and the IRQL to a thread. So this is for a host that runs
//! one thread at a time, and never switches threads at a raised IRQL.
//!
//! # Invariants
//!
//! 1. A slot with a start has its other fields. They are atomic, because the handler of a fault
//!    reads them.
//! 2. Slots change under the lock; the pages of all slots have the state of `CLOSED`, but those that
//!    were added while it was set.
#![expect(unsafe_code, reason = "protects memory")]

use crate::ke_irql::{DISPATCH_LEVEL, KIRQL};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of ranges. Each costs a call of the system at each change of the IRQL;
/// further blocks stay accessible.
const SLOTS: usize = 256;

/// Whether pageable memory is protected in this process.
static ENABLED: AtomicBool = AtomicBool::new(false);

/// Whether the pages are inaccessible now.
static CLOSED: AtomicBool = AtomicBool::new(false);

static RANGES: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];

static CHANGES: Mutex<()> = Mutex::new(());

/// A range of pageable memory. Its start is zero while it is free.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    rights: AtomicI32,
    is_pool: AtomicBool,
}

/// What pageable memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagedKind {
    Pool,
    Section,
}

impl Slot {
    const fn free() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            rights: AtomicI32::new(0),
            is_pool: AtomicBool::new(false),
        }
    }

    fn range(&self) -> Range<usize> {
        self.start.load(Ordering::Acquire)..self.end.load(Ordering::Relaxed)
    }

    fn protect(&self, rights: i32) {
        let range = self.range();
        let at = ptr::with_exposed_provenance_mut(range.start);
        if range.start != 0 {
            // SAFETY: The pages are a driver's, and no reference of ours points into them.
            unsafe { libc::mprotect(at, range.len(), rights) };
        }
    }

    fn open(&self) {
        self.protect(self.rights.load(Ordering::Relaxed));
    }
}

/// Protects pageable memory from now on. The host runs one thread at a time.
pub fn protect_paged_memory() {
    ENABLED.store(true, Ordering::SeqCst);
}

/// Whether pageable memory is protected.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Memory is pageable from now on. The range is of whole pages with these rights.
pub(crate) fn add(kind: PagedKind, range: &Range<usize>, rights: i32) {
    let _locked = changes();
    let Some(slot) = RANGES.iter().find(|slot| slot.range().start == 0) else { return };
    slot.end.store(range.end, Ordering::Relaxed);
    slot.rights.store(rights, Ordering::Relaxed);
    slot.is_pool.store(kind == PagedKind::Pool, Ordering::Relaxed);
    slot.start.store(range.start, Ordering::Release);
}

/// Memory is not pageable any more: it is freed, or locked.
pub(crate) fn remove(range: &Range<usize>) {
    let _locked = changes();
    let overlaps = |slot: &&Slot| {
        let other = slot.range();
        other.start != 0 && other.start < range.end && range.start < other.end
    };
    for slot in RANGES.iter().filter(overlaps) {
        slot.open();
        slot.start.store(0, Ordering::Release);
    }
}

/// Driver code runs at this IRQL from now on, or none runs (`PASSIVE_LEVEL`).
pub(crate) fn irql_changed(to: KIRQL) {
    let close = to >= DISPATCH_LEVEL;
    if !is_enabled() || CLOSED.load(Ordering::Relaxed) == close {
        return;
    }
    let _locked = changes();
    CLOSED.store(close, Ordering::SeqCst);
    for slot in &RANGES {
        if close { slot.protect(libc::PROT_NONE) } else { slot.open() }
    }
}

/// What is at an address, if it is inaccessible because of the IRQL. Makes it accessible again. A
/// signal handler may call this.
pub(crate) fn touched(address: u64) -> Option<PagedKind> {
    let address = usize::try_from(address).ok()?;
    if !CLOSED.load(Ordering::SeqCst) {
        return None;
    }
    let slot = RANGES.iter().find(|slot| slot.range().contains(&address))?;
    RANGES.iter().for_each(Slot::open);
    let is_pool = slot.is_pool.load(Ordering::Relaxed);
    Some(if is_pool { PagedKind::Pool } else { PagedKind::Section })
}

fn changes() -> MutexGuard<'static, ()> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}
