//! The machine's memory, as [`flight::Ram`] has it.
//!
//! # Invariants
//!
//! 1. Whoever touches bytes is counted in `users` from before it looks whether it may, and
//!    until it is done. Whoever takes that right away says so first, then waits until the
//!    count was zero: from there on nobody touches them who may not.
//! 2. Pages on the free list are zeroes.
//! 3. Who waits for the count holds no lock.
//! 4. A view shows its first `shown` bytes for as long as the state is locked.
#![expect(unsafe_code, reason = "lends bytes it has made sure of")]

mod pages;
mod store;

use flight::Run;
use pages::{Live, Pages};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};
use store::{Span, Store, Window, whole};

const PAGE: u64 = 4096;

/// The physical address of the first page: one that does not fit into half a word, so that
/// whoever cuts an address short touches what is not there.
const BASE: u64 = 1 << 32;

/// From so many bytes on, what is given back goes back to the system; less is set to zero.
const LARGE: u64 = 64 << 10;

/// System memory with real bytes, which clients can see.
#[derive(Debug)]
pub struct Ram {
    store: Store,
    live: Live,
    users: AtomicUsize,
    /// How many runs are lent.
    lent: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pages: Pages,
    lent: Vec<Run>,
    views: BTreeMap<usize, View>,
}

/// A window, and how many of its bytes can be touched.
#[derive(Debug)]
struct View {
    window: Window,
    shown: usize,
}

impl State {
    fn is_lent(&self, run: Run) -> bool {
        self.lent.iter().any(|it| meet(*it, run))
    }

    /// Whether one view shows all of these bytes now.
    fn shows(&self, address: usize, length: usize) -> bool {
        let below = self.views.range(..=address).next_back();
        below.is_some_and(|(start, view)| {
            let end = (address - start).checked_add(length);
            end.is_some_and(|end| end <= view.shown)
        })
    }
}

/// Counts one who touches bytes (invariant 1).
struct User<'a>(&'a AtomicUsize);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends a loan, also when the one who has it unwinds.
struct Loan<'a>(&'a Ram, Run);

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(at) = state.lent.iter().position(|it| *it == self.1) {
            state.lent.swap_remove(at);
            self.0.lent.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Ram {
    /// Memory of at most so many bytes; they take up nothing before they are touched.
    pub fn new(bytes: u64) -> io::Result<Arc<Self>> {
        let size = whole(bytes).and_then(|it| usize::try_from(it).ok());
        let size = size.filter(|it| *it != 0).ok_or(io::ErrorKind::InvalidInput)?;
        let store = Store::new(size)?;
        let pages = Pages::new(size as u64);
        let state = State { pages, lent: Vec::new(), views: BTreeMap::new() };
        let (users, lent) = Default::default();
        let live = Live::new(size as u64);
        Ok(Arc::new(Self { store, live, users, lent, state: Mutex::new(state) }))
    }

    /// How many bytes of it are taken.
    pub fn taken(&self) -> u64 {
        self.state().pages.taken()
    }

    /// The bytes, if all of them are taken.
    fn find(&self, run: Run) -> Option<Span> {
        let offset = run.start.checked_sub(BASE)?;
        let span = self.store.span(offset, run.bytes)?;
        self.live.covers(offset, run.bytes).then_some(span)
    }

    /// Touches bytes that are not lent, if they are there.
    fn touch(&self, runs: &[Run], body: impl FnOnce() -> Option<()>) -> bool {
        self.users.fetch_add(1, Ordering::SeqCst);
        let _user = User(&self.users);
        let lent = || runs.iter().any(|it| self.state().is_lent(*it));
        let barred = self.lent.load(Ordering::SeqCst) != 0 && lent();
        !barred && body().is_some()
    }

    /// Waits until nobody is left who touches bytes on the ground of what was true before.
    fn quiesce(&self) {
        while self.users.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }

    /// These pieces as whole pages that are taken.
    fn pieces(&self, runs: &[Run]) -> Option<Vec<Span>> {
        let whole = |it: &Run| it.bytes != 0 && (it.start | it.bytes).is_multiple_of(PAGE);
        let piece = |it: &Run| if whole(it) { self.find(*it) } else { None };
        runs.iter().map(piece).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl flight::Ram for Ram {
    fn take(&self, bytes: u64) -> Option<Run> {
        let bytes = whole(bytes).filter(|it| *it != 0)?;
        let offset = self.state().pages.take(bytes)?;
        self.live.set(offset, bytes, true);
        Some(Run { start: BASE + offset, bytes })
    }

    fn give_back(&self, run: Run) {
        let Some(offset) = run.start.checked_sub(BASE) else { return };
        {
            let mut state = self.state();
            if state.is_lent(run) || !state.pages.end(offset, run.bytes) {
                return;
            }
            self.live.set(offset, run.bytes, false);
        }
        self.quiesce();
        if let Some(span) = self.store.span(offset, run.bytes)
            && !(run.bytes >= LARGE && self.store.punch(span))
        {
            self.store.fill(span, 0);
        }
        self.state().pages.free(offset, run.bytes);
    }

    fn read(&self, start: u64, into: &mut [u8]) -> bool {
        let run = Run { start, bytes: into.len() as u64 };
        self.touch(&[run], || self.find(run).map(|it| self.store.read(it, into)))
    }

    fn write(&self, start: u64, bytes: &[u8]) -> bool {
        let run = Run { start, bytes: bytes.len() as u64 };
        self.touch(&[run], || self.find(run).map(|it| self.store.write(it, bytes)))
    }

    fn fill(&self, run: Run, pattern: u32) -> bool {
        self.touch(&[run], || self.find(run).map(|it| self.store.fill(it, pattern)))
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> bool {
        let runs = [from, to].map(|start| Run { start, bytes });
        let spans = || self.find(runs[0]).zip(self.find(runs[1]));
        self.touch(&runs, || spans().map(|(from, to)| self.store.copy(from, to)))
    }

    fn lend(&self, run: Run, body: &mut dyn FnMut(&mut [u8])) -> bool {
        let (span, loan) = {
            let mut state = self.state();
            let Some(span) = self.find(run).filter(|_| !state.is_lent(run)) else { return false };
            state.lent.push(run);
            self.lent.fetch_add(1, Ordering::SeqCst);
            (span, Loan(self, run))
        };
        self.quiesce();
        // SAFETY: By invariant 1 nobody reads or writes what is lent, no two loans meet, nobody
        // gives it back, and it is lent until `loan` ends.
        unsafe { self.store.lend(span, body) };
        drop(loan);
        true
    }

    fn view(&self, runs: &[Run]) -> Option<usize> {
        let pieces = self.pieces(runs).filter(|it| !it.is_empty())?;
        let window = Window::new(runs.iter().map(|it| it.bytes).sum())?;
        if !self.store.show(&window, &pieces) {
            return None;
        }
        let (address, shown) = (window.address(), window.length());
        self.state().views.insert(address, View { window, shown });
        Some(address)
    }

    fn aim(&self, view: usize, runs: &[Run]) -> bool {
        let Some(pieces) = self.pieces(runs) else { return false };
        let mut state = self.state();
        let Some(View { window, shown }) = state.views.get_mut(&view) else { return false };
        let bytes: u64 = runs.iter().map(|it| it.bytes).sum();
        let fits = runs.is_empty() || bytes == window.length() as u64;
        if !fits {
            return false;
        }
        let done = self.store.show(window, &pieces);
        *shown = if done && !runs.is_empty() { window.length() } else { 0 };
        done
    }

    fn end_view(&self, view: usize) {
        let ended = self.state().views.remove(&view);
        drop(ended);
    }

    fn read_view(&self, address: usize, into: &mut [u8]) -> bool {
        let state = self.state();
        let shows = state.shows(address, into.len());
        if shows {
            let from = std::ptr::with_exposed_provenance(address);
            // SAFETY: By invariant 4 so many bytes are there while the state is locked; the
            // others are the caller's.
            unsafe { libc::memcpy(into.as_mut_ptr().cast(), from, into.len()) };
        }
        drop(state);
        shows
    }

    fn write_view(&self, address: usize, bytes: &[u8]) -> bool {
        let state = self.state();
        let shows = state.shows(address, bytes.len());
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
fn meet(one: Run, other: Run) -> bool {
    let end = |it: Run| it.start.saturating_add(it.bytes);
    one.start < end(other) && other.start < end(one)
}

#[cfg(test)]
#[path = "ram_tests.rs"]
mod tests;
