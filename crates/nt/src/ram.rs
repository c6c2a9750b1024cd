//! System memory with real bytes: the implementation of [`flight::Ram`].
//!
//! # Invariants
//!
//! 1. A thread that accesses bytes is counted in `accessors` from before it checks its permission
//!    until it is done. A thread that revokes the permission first clears it, then waits until the
//!    count is zero. After that, no thread accesses the bytes on an old permission.
//! 2. Free pages contain zeros.
//! 3. A thread that waits for the count holds no lock.
//! 4. While the state is locked, the first `visible_bytes` bytes of a view are mapped.
//! 5. No page of a view or a loan waits for its fill: a fill is deferred only while the state is
//!    locked and there is neither, and both begin by finishing the fill of their pages under that
//!    lock.
#![expect(unsafe_code, reason = "lends checked bytes")]

mod attached;
mod backing_store;
mod late_fill;
mod page_runs;
mod shared_window;

use crate::ended_locks::{self, EndedLock};
use attached::AttachedRuns;
use backing_store::{AddressWindow, BackingStore, Span, round_to_pages};
use flight::{ExistingMemory, Run};
use late_fill::LateFill;
use page_runs::{PageBits, PageRuns};
pub use shared_window::{FilePiece, SharedWindow, find_window, observe_windows, open_to_read};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

const PAGE: u64 = 4096;

/// The physical address of the first page. It does not fit into 32 bits, so that code which
/// truncates an address accesses memory that does not exist.
const BASE: u64 = 1 << 32;

/// Freed runs of at least this many bytes are returned to the OS; smaller ones are zeroed.
const RELEASE_THRESHOLD: u64 = 64 << 10;

/// System memory with real bytes, which can be mapped for clients.
#[derive(Debug)]
pub struct Ram {
    store: BackingStore,
    /// The pages that may be accessed.
    live: PageBits,
    late_fill: LateFill,
    accessors: AtomicUsize,
    /// Number of lent runs.
    loan_count: AtomicUsize,
    state: Mutex<RamState>,
    /// Memory of clients.
    attached: AttachedRuns,
}

#[derive(Debug)]
struct RamState {
    pages: PageRuns,
    loans: Vec<Run>,
    views: BTreeMap<usize, MappedView>,
}

/// An address window, and the number of its bytes that are mapped.
#[derive(Debug)]
struct MappedView {
    window: AddressWindow,
    visible_bytes: usize,
    /// The parts of the file that it shows.
    pieces: Vec<FilePiece>,
    /// The section that it shows, which has its own file.
    section: Option<Arc<dyn ExistingMemory>>,
}

impl RamState {
    fn is_lent(&self, run: Run) -> bool {
        self.loans.iter().any(|it| overlap(*it, run))
    }

    /// The view that maps all of these bytes now, and where they begin in it.
    fn visible(&self, address: usize, length: usize) -> Option<(&MappedView, usize)> {
        let (start, view) = self.views.range(..=address).next_back()?;
        let offset = address - start;
        (offset.checked_add(length)? <= view.visible_bytes).then_some((view, offset))
    }
}

/// Counts a thread that accesses bytes (invariant 1).
struct AccessGuard<'a>(&'a AtomicUsize);

impl Drop for AccessGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends a loan, also when the borrower unwinds.
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
    /// Creates memory of at least `bytes` bytes. A page takes up memory of the OS once it is
    /// accessed.
    pub fn new(bytes: u64) -> io::Result<Arc<Self>> {
        let size = round_to_pages(bytes).and_then(|value| usize::try_from(value).ok());
        let size = size.filter(|index| *index != 0).ok_or(io::ErrorKind::InvalidInput)?;
        let store = BackingStore::new(size)?;
        let pages = PageRuns::new(size as u64);
        let state = RamState { pages, loans: Vec::new(), views: BTreeMap::new() };
        let (accessors, lent) = Default::default();
        let live = PageBits::new(size as u64);
        let late_fill = LateFill::new(size as u64);
        let state = Mutex::new(state);
        // An access past the last page is none to the memory of a client.
        let attached = AttachedRuns::new(BASE + size as u64 + PAGE);
        let loan_count = lent;
        let ram = Arc::new(Self { store, live, late_fill, accessors, loan_count, state, attached });
        shared_window::add_ram(&ram);
        Ok(ram)
    }

    /// Number of allocated bytes.
    pub fn allocated_bytes(&self) -> u64 {
        self.state().pages.allocated_bytes()
    }

    /// The bytes of the run, if all of them are allocated, for an access to them.
    fn allocated_span(&self, run: Run) -> Option<Span> {
        let (offset, span) = self.allocated_offset(run)?;
        self.late_fill.finish(&self.store, offset, run.bytes);
        Some(span)
    }

    fn allocated_offset(&self, run: Run) -> Option<(u64, Span)> {
        let offset = run.start.checked_sub(BASE)?;
        let span = self.store.span(offset, run.bytes)?;
        self.live.covers(offset, run.bytes).then_some((offset, span))
    }

    /// Defers the fill of a large run of pages until each is accessed. Returns false if the caller
    /// has to fill it.
    fn defer_fill(&self, run: Run, pattern: u32) -> bool {
        let whole = (run.start | run.bytes).is_multiple_of(PAGE);
        if !whole || run.bytes < RELEASE_THRESHOLD {
            return false;
        }
        let state = self.state();
        let Some((offset, _)) = self.allocated_offset(run) else { return false };
        // A view shows the bytes without asking.
        let unseen = state.views.is_empty() && state.loans.is_empty();
        unseen && self.late_fill.defer(offset, run.bytes, pattern)
    }

    /// Counts the caller as an accessor and calls `body`, which checks and accesses the runs.
    /// Returns false if a run is lent or `body` returns `None`.
    fn with_span(&self, runs: &[Run], body: impl FnOnce() -> Option<()>) -> bool {
        self.accessors.fetch_add(1, Ordering::SeqCst);
        let _user = AccessGuard(&self.accessors);
        let lent = || runs.iter().any(|run| self.state().is_lent(*run));
        let barred = self.loan_count.load(Ordering::SeqCst) != 0 && lent();
        !barred && body().is_some()
    }

    /// Waits until no thread accesses bytes on an old permission (invariant 1).
    fn wait_for_accessors(&self) {
        while self.accessors.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }

    /// The spans of the runs. `None` unless every run consists of whole, allocated pages.
    fn page_spans(&self, runs: &[Run]) -> Option<Vec<Span>> {
        let whole = |run: &Run| run.bytes != 0 && (run.start | run.bytes).is_multiple_of(PAGE);
        let piece = |run: &Run| if whole(run) { self.allocated_span(*run) } else { None };
        runs.iter().map(piece).collect()
    }

    /// Maps runs of whole, allocated pages in a new window.
    fn map_in(
        &self,
        runs: &[Run],
        window: impl FnOnce() -> Option<AddressWindow>,
    ) -> Option<usize> {
        let mut state = self.state();
        let pieces = self.page_spans(runs).filter(|spans| !spans.is_empty())?;
        let window = window()?;
        if !self.store.map_pieces(&window, &pieces) {
            return None;
        }
        let (address, visible_bytes) = (window.address(), window.length());
        let pieces = shared_window::file_pieces(&pieces);
        let section = None;
        state.views.insert(address, MappedView { window, visible_bytes, pieces, section });
        drop(state);
        Some(address)
    }

    /// Maps a section in a new window. Memory of this process is where it is, and is not mapped
    /// again: that of another process cannot be mapped.
    fn map_attached(&self, run: Run) -> Option<usize> {
        let section = self.attached.memory_of(run)?;
        if let Some(address) = section.address_here() {
            return Some(address);
        }
        let window = AddressWindow::new(run.bytes)?;
        if !window.map_file(section.file()?) {
            return None;
        }
        let (address, visible_bytes) = (window.address(), window.length());
        let pieces = vec![FilePiece { offset: 0, length: visible_bytes }];
        let view = MappedView { window, visible_bytes, pieces, section: Some(section) };
        self.state().views.insert(address, view);
        Some(address)
    }

    /// Copies bytes if one side is memory of a client. All are read first: both sides may be the
    /// same memory.
    fn copy_attached(&self, from: u64, to: u64, bytes: u64) -> bool {
        let exists = |start| {
            let run = Run { start, bytes };
            if self.attached.has_address(start) {
                self.attached.access(run, |_, _| ())
            } else {
                self.allocated_offset(run).is_some()
            }
        };
        let Ok(length) = usize::try_from(bytes) else { return false };
        if !exists(from) || !exists(to) {
            return false;
        }
        let mut all = vec![0; length];
        flight::Ram::read(self, from, &mut all) && flight::Ram::write(self, to, &all)
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

    fn attach(&self, memory: Arc<dyn ExistingMemory>, bytes: u64) -> Option<Run> {
        self.attached.attach(memory, bytes)
    }

    fn free(&self, run: Run) {
        if self.attached.has_address(run.start) {
            self.attached.detach(run);
            return;
        }
        let Some(offset) = run.start.checked_sub(BASE) else { return };
        {
            let mut state = self.state();
            if state.is_lent(run) || !state.pages.end(offset, run.bytes) {
                return;
            }
            self.live.set(offset, run.bytes, false);
            self.late_fill.forget(offset, run.bytes);
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
        if self.attached.has_address(start) {
            return self.attached.access(run, |memory, offset| memory.read(offset, into));
        }
        self.with_span(&[run], || self.allocated_span(run).map(|span| self.store.read(span, into)))
    }

    fn write(&self, start: u64, bytes: &[u8]) -> bool {
        let run = Run { start, bytes: bytes.len() as u64 };
        if self.attached.has_address(start) {
            return self.attached.access(run, |memory, offset| memory.write(offset, bytes));
        }
        self.with_span(&[run], || {
            self.allocated_span(run).map(|span| self.store.write(span, bytes))
        })
    }

    fn fill(&self, run: Run, pattern: u32) -> bool {
        if self.attached.has_address(run.start) {
            return self.attached.access(run, |memory, offset| {
                attached::fill(memory, offset, run.bytes, pattern);
            });
        }
        self.with_span(&[run], || {
            let deferred = self.defer_fill(run, pattern);
            deferred
                .then_some(())
                .or_else(|| self.allocated_span(run).map(|span| self.store.fill(span, pattern)))
        })
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> bool {
        if self.attached.has_address(from) || self.attached.has_address(to) {
            return self.copy_attached(from, to, bytes);
        }
        let runs = [from, to].map(|start| Run { start, bytes });
        let spans = || self.allocated_span(runs[0]).zip(self.allocated_span(runs[1]));
        self.with_span(&runs, || spans().map(|(from, to)| self.store.copy(from, to)))
    }

    fn with_slice(&self, run: Run, body: &mut dyn FnMut(&mut [u8])) -> bool {
        if self.attached.has_address(run.start) {
            // A client's memory cannot be lent: the bytes are copied out and back.
            let exists = self.attached.access(run, |_, _| ());
            let Some(length) = usize::try_from(run.bytes).ok().filter(|_| exists) else {
                return false;
            };
            let mut bytes = vec![0; length];
            self.read(run.start, &mut bytes);
            body(&mut bytes);
            return self.write(run.start, &bytes);
        }
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
        // SAFETY: The run stays lent until `loan` drops. By invariant 1 no other thread reads or
        // writes lent bytes; loans do not overlap, and a lent run is not freed.
        unsafe { self.store.with_slice(span, body) };
        drop(loan);
        true
    }

    fn map(&self, runs: &[Run]) -> Option<usize> {
        if let [run] = runs
            && self.attached.has_address(run.start)
        {
            return self.map_attached(*run);
        }
        let length = runs.iter().map(|run| run.bytes).sum();
        self.map_in(runs, || AddressWindow::new(length))
    }

    fn map_guarded(&self, runs: &[Run], bytes: usize) -> Option<usize> {
        self.map_in(runs, || AddressWindow::guarded(bytes))
    }

    fn lock_ended(&self, view: usize, locked: u32, destroyed: bool) {
        let bytes = self.state().views.get(&view).map_or(0, |view| view.window.length());
        let (start, bytes) = (view as u64, bytes as u64);
        ended_locks::remember(EndedLock { start, bytes, view: locked, destroyed });
    }

    fn pass_mapped(&self, view: usize) {
        self.state().views.get(&view).into_iter().for_each(|view| view.window.pass());
    }

    fn remap(&self, view: usize, runs: &[Run]) -> bool {
        let mut state = self.state();
        let Some(MappedView { window, visible_bytes, pieces: shown, section }) =
            state.views.get_mut(&view)
        else {
            return false;
        };
        // The bytes of a section do not move.
        if section.is_some() && !runs.is_empty() {
            return *visible_bytes != 0;
        }
        let Some(pieces) = self.page_spans(runs) else { return false };
        let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
        let fits = runs.is_empty() || bytes == window.length() as u64;
        if !fits {
            return false;
        }
        let done = self.store.map_pieces(window, &pieces);
        *visible_bytes = if done && !runs.is_empty() { window.length() } else { 0 };
        let now = shared_window::file_pieces(&pieces);
        let is_hidden = *shown != now;
        *shown = now;
        drop(state);
        if is_hidden {
            shared_window::hide(view);
        }
        done
    }

    fn unmap(&self, view: usize) {
        let ended = self.state().views.remove(&view);
        drop(ended);
        shared_window::hide(view);
    }

    fn read_mapped(&self, address: usize, into: &mut [u8]) -> bool {
        let state = self.state();
        let Some((view, offset)) = state.visible(address, into.len()) else { return false };
        if let Some(section) = &view.section {
            // A client may truncate the file, and an access to the mapping would trap.
            section.read(offset as u64, into);
            return true;
        }
        let from = std::ptr::with_exposed_provenance(address);
        // SAFETY: By invariant 4 the source is mapped while the state is locked; `into` has the
        // same length.
        unsafe { libc::memcpy(into.as_mut_ptr().cast(), from, into.len()) };
        drop(state);
        true
    }

    fn write_mapped(&self, address: usize, bytes: &[u8]) -> bool {
        let state = self.state();
        let Some((view, offset)) = state.visible(address, bytes.len()) else { return false };
        if let Some(section) = &view.section {
            section.write(offset as u64, bytes);
            return true;
        }
        let to = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: By invariant 4 the destination is mapped while the state is locked, and no
        // reference to it exists.
        unsafe { libc::memcpy(to, bytes.as_ptr().cast(), bytes.len()) };
        drop(state);
        true
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
