//! Windows of system memory that another process maps, too.
//!
//! A window is found by its address, which is unique in this process. An observer is told when a
//! window shows its bytes no more, so that the other process does not see them either.

use super::Ram;
use super::backing_store::{Span, merge_adjacent};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A part of the file of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// Where it begins in the file.
    pub offset: usize,
    /// Its bytes.
    pub length: usize,
}

/// A window: what another process needs to map the same bytes.
#[derive(Debug)]
pub struct SharedWindow {
    /// Its address in this process.
    pub start: usize,
    /// Its bytes.
    pub length: usize,
    /// The parts of the file that it shows, in order.
    pub pieces: Vec<FilePiece>,
    /// The file, for reads and writes.
    pub file: File,
}

/// The memories of this process.
static MEMORIES: Mutex<Vec<Weak<Ram>>> = Mutex::new(Vec::new());

/// Told the start of each window that is hidden.
static OBSERVER: OnceLock<fn(start: usize)> = OnceLock::new();

/// Calls `observer` for each window that shows its bytes no more. Only the first one is used.
pub fn observe_windows(observer: fn(start: usize)) {
    // Another one is there already.
    _ = OBSERVER.set(observer);
}

/// Finds the window that an address is in.
pub fn find_window(address: usize) -> Option<SharedWindow> {
    let memories = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    memories.iter().filter_map(Weak::upgrade).find_map(|ram| ram.window_at(address))
}

/// The same file, for reads only: it cannot be mapped for writes.
pub fn open_to_read(file: &File) -> Option<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

pub(super) fn add_ram(ram: &Arc<Ram>) {
    let mut memories = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    memories.retain(|ram| ram.strong_count() > 0);
    memories.push(Arc::downgrade(ram));
}

pub(super) fn hide(window: usize) {
    OBSERVER.get().into_iter().for_each(|observer| observer(window));
}

pub(super) fn file_pieces(spans: &[Span]) -> Vec<FilePiece> {
    // A window of one run is usual.
    if let [span] = spans {
        return vec![FilePiece { offset: span.offset(), length: span.length() }];
    }
    let merged = merge_adjacent(spans).into_iter();
    merged.map(|span| FilePiece { offset: span.offset(), length: span.length() }).collect()
}

impl Ram {
    fn window_at(&self, address: usize) -> Option<SharedWindow> {
        let state = self.state();
        let (start, view) = state.views.range(..=address).next_back()?;
        let (start, length) = (*start, view.window.length());
        if address - start >= view.visible_bytes {
            return None;
        }
        let section = view.section.as_ref().and_then(|section| section.file());
        let file = section.unwrap_or(self.store.file()).try_clone().ok()?;
        Some(SharedWindow { start, length, pieces: view.pieces.clone(), file })
    }
}
