//! The machine's memory, as [`flight::Ram`] has it.
//!
//! # Invariants
//!
//! 1. Whoever touches bytes is counted in `accessors` from before it looks whether it may, and
//!    until it is done. Whoever takes that right away says so first, then waits until the
//!    count was zero: from there on nobody touches them who may not.
//! 2. Pages on the free list are zeroes.
//! 3. Who waits for the count holds no lock.
//! 4. A view shows its first `visible_bytes` bytes for as long as the state is locked.
#![expect(unsafe_code, reason = "lends bytes it has made sure of")]

mod backing_store;
mod page_runs;

use backing_store::{AddressWindow, BackingStore, Span, round_to_pages};
use flight::Run;
use page_runs::{LivePages, PageRuns};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

const PAGE: u64 = 4096;

/// The physical address of the first page: one that does not fit into half a word, so that
/// whoever cuts an address short touches what is not there.
const BASE: u64 = 1 << 32;

/// From so many bytes on, what is given back goes back to the system; less is set to zero.
const RELEASE_THRESHOLD: u64 = 64 << 10;

/// System memory with real bytes, which clients can see.
#[derive(Debug)]
pub struct Ram {
    store: BackingStore,
    live: LivePages,
    accessors: AtomicUsize,
    /// How many runs are lent.
    loan_count: AtomicUsize,
    state: Mutex<RamState>,
}

#[derive(Debug)]
struct RamState {
    pages: PageRuns,
    loans: Vec<Run>,
    views: BTreeMap<usize, MappedView>,
}

/// A window, and how many of its bytes can be touched.
#[derive(Debug)]
struct MappedView {
    window: AddressWindow,
    visible_bytes: usize,
}

impl RamState {
    fn is_lent(&self, run: Run) -> bool {
        self.loans.iter().any(|it| overlap(*it, run))
    }

    /// Whether one view shows all of these bytes now.
    fn is_visible(&self, address: usize, length: usize) -> bool {
        let below = self.views.range(..=address).next_back();
        below.is_some_and(|(start, view)| {
            let end = (address - start).checked_add(length);
            end.is_some_and(|end| end <= view.visible_bytes)
        })
    }
}

/// Counts one who touches bytes (invariant 1).
struct AccessGuard<'a>(&'a AtomicUsize);

impl Drop for AccessGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends a loan, also when the one who has it unwinds.
struct LoanGuard<'a>(&'a Ram, Run);

impl Drop for LoanGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(at) = state.loans.iter().position(|run| *run == self.1) {
            state.loans.swap_remove(at);
            self.0.loan_count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Ram {
    /// Memory of at most so many bytes; they take up nothing before they are touched.
    pub fn new(bytes: u64) -> io::Result<Arc<Self>> {
        let size = round_to_pages(bytes).and_then(|value| usize::try_from(value).ok());
        let size = size.filter(|index| *index != 0).ok_or(io::ErrorKind::InvalidInput)?;
        let store = BackingStore::new(size)?;
        let pages = PageRuns::new(size as u64);
        let state = RamState { pages, loans: Vec::new(), views: BTreeMap::new() };
        let (accessors, lent) = Default::default();
        let live = LivePages::new(size as u64);
        Ok(Arc::new(Self { store, live, accessors, loan_count: lent, state: Mutex::new(state) }))
    }

    /// How many bytes of it are taken.
    pub fn allocated_bytes(&self) -> u64 {
        self.state().pages.allocated_bytes()
    }

    /// The bytes, if all of them are taken.
    fn allocated_span(&self, run: Run) -> Option<Span> {
        let offset = run.start.checked_sub(BASE)?;
        let span = self.store.span(offset, run.bytes)?;
        self.live.covers(offset, run.bytes).then_some(span)
    }

    /// Touches bytes that are not lent, if they are there.
    fn with_span(&self, runs: &[Run], body: impl FnOnce() -> Option<()>) -> bool {
        self.accessors.fetch_add(1, Ordering::SeqCst);
        let _user = AccessGuard(&self.accessors);
        let lent = || runs.iter().any(|run| self.state().is_lent(*run));
        let barred = self.loan_count.load(Ordering::SeqCst) != 0 && lent();
        !barred && body().is_some()
    }

    /// Waits until nobody is left who touches bytes on the ground of what was true before.
    fn wait_for_accessors(&self) {
        while self.accessors.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }

    /// These pieces as whole pages that are taken.
    fn page_spans(&self, runs: &[Run]) -> Option<Vec<Span>> {
        let whole = |run: &Run| run.bytes != 0 && (run.start | run.bytes).is_multiple_of(PAGE);
        let piece = |run: &Run| if whole(run) { self.allocated_span(*run) } else { None };
        runs.iter().map(piece).collect()
    }

    fn state(&self) -> MutexGuard<'_, RamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl flight::Ram for Ram {
    fn allocate(&self, bytes: u64) -> Option<Run> {
        let bytes = round_to_pages(bytes).filter(|value| *value != 0)?;
        let offset = self.state().pages.allocate(bytes)?;
        self.live.set(offset, bytes, true);
        Some(Run { start: BASE + offset, bytes })
    }

    fn free(&self, run: Run) {
        let Some(offset) = run.start.checked_sub(BASE) else { return };
        {
            let mut state = self.state();
            if state.is_lent(run) || !state.pages.end(offset, run.bytes) {
                return;
            }
            self.live.set(offset, run.bytes, false);
        }
        self.wait_for_accessors();
        if let Some(span) = self.store.span(offset, run.bytes)
            && !(run.bytes >= RELEASE_THRESHOLD && self.store.release_pages(span))
        {
            self.store.fill(span, 0);
        }
        self.state().pages.free(offset, run.bytes);
    }

    fn read(&self, start: u64, into: &mut [u8]) -> bool {
        let run = Run { start, bytes: into.len() as u64 };
        self.with_span(&[run], || self.allocated_span(run).map(|span| self.store.read(span, into)))
    }

    fn write(&self, start: u64, bytes: &[u8]) -> bool {
        let run = Run { start, bytes: bytes.len() as u64 };
        self.with_span(&[run], || {
            self.allocated_span(run).map(|span| self.store.write(span, bytes))
        })
    }

    fn fill(&self, run: Run, pattern: u32) -> bool {
        self.with_span(&[run], || {
            self.allocated_span(run).map(|span| self.store.fill(span, pattern))
        })
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> bool {
        let runs = [from, to].map(|start| Run { start, bytes });
        let spans = || self.allocated_span(runs[0]).zip(self.allocated_span(runs[1]));
        self.with_span(&runs, || spans().map(|(from, to)| self.store.copy(from, to)))
    }

    fn with_slice(&self, run: Run, body: &mut dyn FnMut(&mut [u8])) -> bool {
        let (span, loan) = {
            let mut state = self.state();
            let Some(span) = self.allocated_span(run).filter(|_| !state.is_lent(run)) else {
                return false;
            };
            state.loans.push(run);
            self.loan_count.fetch_add(1, Ordering::SeqCst);
            (span, LoanGuard(self, run))
        };
        self.wait_for_accessors();
        // SAFETY: By invariant 1 nobody reads or writes what is lent, no two loans meet, nobody
        // gives it back, and it is lent until `loan` ends.
        unsafe { self.store.with_slice(span, body) };
        drop(loan);
        true
    }

    fn map(&self, runs: &[Run]) -> Option<usize> {
        let pieces = self.page_spans(runs).filter(|spans| !spans.is_empty())?;
        let window = AddressWindow::new(runs.iter().map(|run| run.bytes).sum())?;
        if !self.store.map_pieces(&window, &pieces) {
            return None;
        }
        let (address, visible_bytes) = (window.address(), window.length());
        self.state().views.insert(address, MappedView { window, visible_bytes });
        Some(address)
    }

    fn remap(&self, view: usize, runs: &[Run]) -> bool {
        let Some(pieces) = self.page_spans(runs) else { return false };
        let mut state = self.state();
        let Some(MappedView { window, visible_bytes }) = state.views.get_mut(&view) else {
            return false;
        };
        let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
        let fits = runs.is_empty() || bytes == window.length() as u64;
        if !fits {
            return false;
        }
        let done = self.store.map_pieces(window, &pieces);
        *visible_bytes = if done && !runs.is_empty() { window.length() } else { 0 };
        done
    }

    fn unmap(&self, view: usize) {
        let ended = self.state().views.remove(&view);
        drop(ended);
    }

    fn read_mapped(&self, address: usize, into: &mut [u8]) -> bool {
        let state = self.state();
        let shows = state.is_visible(address, into.len());
        if shows {
            let from = std::ptr::with_exposed_provenance(address);
            // SAFETY: By invariant 4 so many bytes are there while the state is locked; the
            // others are the caller's.
            unsafe { libc::memcpy(into.as_mut_ptr().cast(), from, into.len()) };
        }
        drop(state);
        shows
    }

    fn write_mapped(&self, address: usize, bytes: &[u8]) -> bool {
        let state = self.state();
        let shows = state.is_visible(address, bytes.len());
        if shows {
            let to = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: As above; no reference leads to what a view shows.
            unsafe { libc::memcpy(to, bytes.as_ptr().cast(), bytes.len()) };
        }
        drop(state);
        shows
    }
}

/// Whether two runs have a byte in common.
fn overlap(one: Run, other: Run) -> bool {
    let end = |run: Run| run.start.saturating_add(run.bytes);
    one.start < end(other) && other.start < end(one)
}

#[cfg(test)]
#[path = "ram_tests.rs"]
mod tests;
