//! The bytes of the machine's memory: a file without a name, mapped once, and shown in views.
//!
//! No reference to them is made except in [`BackingStore::lend`]. Copies are done by C, as hardware
//! would: what a client does through a view at the same time contradicts nothing.
//!
//! # Invariants
//!
//! 1. `base` is a mapping of all of the file, its provenance is exposed, and only `drop` ends it.
//! 2. A [`Span`] is inside: only `BackingStore::span` makes one.
//! 3. A [`AddressWindow`] is a mapping of its own, which only its `drop` ends.
#![expect(unsafe_code, reason = "owns the memory of the machine")]

use super::PAGE;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// The bytes.
#[derive(Debug)]
pub(super) struct BackingStore {
    file: File,
    base: usize,
    size: usize,
}

/// Bytes that are inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    offset: usize,
    length: usize,
}

/// Addresses at which pieces are shown.
#[derive(Debug)]
pub(super) struct AddressWindow {
    address: usize,
    length: usize,
}

impl BackingStore {
    /// So many zeroes. They take up nothing before they are touched.
    pub(super) fn new(size: usize) -> io::Result<Self> {
        // SAFETY: The name is a string of C, and lives as long as the program.
        let file = unsafe { libc::memfd_create(c"windtunnel-ram".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: It was just made, and nobody else has it.
        let file = unsafe { File::from_raw_fd(file) };
        file.set_len(size as u64)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let open = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: The system chooses addresses at which nothing is.
        let base = unsafe { libc::mmap(ptr::null_mut(), size, open, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, base: base.expose_provenance(), size })
    }

    /// The bytes from `offset` on, if all of them are inside.
    pub(super) fn span(&self, offset: u64, length: u64) -> Option<Span> {
        let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        let inside = offset.checked_add(length)? <= self.size;
        inside.then_some(Span { offset, length })
    }

    fn start(&self, span: Span) -> *mut libc::c_void {
        ptr::with_exposed_provenance_mut(self.base + span.offset)
    }

    pub(super) fn read(&self, span: Span, into: &mut [u8]) {
        let (from, length) = (self.start(span), span.length.min(into.len()));
        // SAFETY: By invariants 1 and 2 so many bytes are there; the others are the caller's.
        unsafe { libc::memcpy(into.as_mut_ptr().cast(), from, length) };
    }

    pub(super) fn write(&self, span: Span, bytes: &[u8]) {
        let (to, length) = (self.start(span), span.length.min(bytes.len()));
        // SAFETY: As above; no reference to the written ones exists.
        unsafe { libc::memcpy(to, bytes.as_ptr().cast(), length) };
    }

    pub(super) fn copy(&self, from: Span, to: Span) {
        let length = from.length.min(to.length);
        let (from, to) = (self.start(from), self.start(to));
        // SAFETY: By invariants 1 and 2 so many bytes are at both; they may overlap.
        unsafe { libc::memmove(to, from, length) };
    }

    /// Sets the bytes, over and over to those of the pattern.
    pub(super) fn fill(&self, span: Span, pattern: u32) {
        let bytes = pattern.to_le_bytes();
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            let to = self.start(span);
            // SAFETY: By invariants 1 and 2 so many bytes are there.
            unsafe { libc::memset(to, bytes[0].into(), span.length) };
            return;
        }
        // The first ones by hand; then what is done is copied behind itself, twice as much
        // each time.
        let mut done = span.length.min(bytes.len());
        self.write(Span { length: done, ..span }, &bytes);
        while done < span.length {
            let more = done.min(span.length - done);
            let behind = Span { offset: span.offset + done, length: more };
            self.copy(Span { length: more, ..span }, behind);
            done += more;
        }
    }

    /// Zeroes, and the system has its memory back. Answers whether it took it.
    pub(super) fn release_pages(&self, span: Span) -> bool {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(offset), Ok(length)) = (span.offset.try_into(), span.length.try_into()) else {
            return false;
        };
        // SAFETY: It changes what the file holds, as a write does, and no address.
        let answer = unsafe { libc::fallocate(self.file.as_raw_fd(), how, offset, length) };
        answer == 0
    }

    /// The bytes themselves.
    ///
    /// # Safety
    ///
    /// While `body` runs, nobody else reads, writes or lends them through this store.
    pub(super) unsafe fn with_slice(&self, span: Span, body: &mut dyn FnMut(&mut [u8])) {
        let start = self.start(span).cast::<u8>();
        // SAFETY: By invariants 1 and 2 they are there, and the caller vouches for the rest.
        body(unsafe { std::slice::from_raw_parts_mut(start, span.length) });
    }

    /// Shows these pieces in the window, one behind the other, and nothing in what is left of
    /// it. Where that fails, nothing is shown.
    pub(super) fn map_pieces(&self, window: &AddressWindow, page_spans: &[Span]) -> bool {
        let visible_bytes = self.try_map_pieces(window, page_spans).is_some();
        if !visible_bytes {
            self.try_map_pieces(window, &[]);
        }
        visible_bytes
    }

    fn try_map_pieces(&self, window: &AddressWindow, page_spans: &[Span]) -> Option<()> {
        let mut at = 0_usize;
        for piece in merge_adjacent(page_spans) {
            let end = at.checked_add(piece.length).filter(|index| *index <= window.length)?;
            let address = ptr::with_exposed_provenance_mut(window.address + at);
            map(address, piece.length, Some((&self.file, piece.offset)))?;
            at = end;
        }
        if at < window.length {
            let address = ptr::with_exposed_provenance_mut(window.address + at);
            map(address, window.length - at, None)?;
        }
        Some(())
    }
}

impl AddressWindow {
    /// Sets addresses aside. Whoever touches them traps.
    pub(super) fn new(length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        let address = map(ptr::null_mut(), length, None)?;
        Some(Self { address, length })
    }

    pub(super) fn address(&self) -> usize {
        self.address
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// Maps a piece of the file, or nothing: at addresses of a window, or wherever the system likes.
fn map(address: *mut libc::c_void, length: usize, file: Option<(&File, usize)>) -> Option<usize> {
    let fixed = if address.is_null() { 0 } else { libc::MAP_FIXED };
    let (open, kind, fd, offset) = match file {
        Some((file, offset)) => {
            let open = libc::PROT_READ | libc::PROT_WRITE;
            (open, libc::MAP_SHARED, file.as_raw_fd(), offset.try_into().ok()?)
        }
        None => (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    let flags = kind | fixed | libc::MAP_NORESERVE;
    // SAFETY: By invariant 3 fixed addresses are a window's, of which no reference is made;
    // other ones are the system's choice, at which nothing is.
    let mapped = unsafe { libc::mmap(address, length, open, flags, fd, offset) };
    (mapped != libc::MAP_FAILED).then(|| mapped.expose_provenance())
}

/// The same pieces, with neighbours as one: each is a mapping of its own.
fn merge_adjacent(page_spans: &[Span]) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for piece in page_spans.iter().filter(|span| span.length != 0) {
        match all.last_mut() {
            Some(last) if last.offset + last.length == piece.offset => last.length += piece.length,
            _ => all.push(*piece),
        }
    }
    all
}

impl Drop for AddressWindow {
    fn drop(&mut self) {
        let address = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: By invariant 3 these addresses are ours, and they end once.
        unsafe { libc::munmap(address, self.length) };
    }
}

impl Drop for BackingStore {
    fn drop(&mut self) {
        let base = ptr::with_exposed_provenance_mut(self.base);
        // SAFETY: By invariant 1 it is ours, and ends once.
        unsafe { libc::munmap(base, self.size) };
    }
}

/// Whole pages.
pub(super) fn round_to_pages(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}
