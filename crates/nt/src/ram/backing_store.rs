//! The bytes of system memory: an anonymous file, mapped once as a whole and in parts by views.
//!
//! No reference to the bytes is created except in [`BackingStore::with_slice`]. The C library
//! copies them, so a client may access them through a view at the same time.
//!
//! # Invariants
//!
//! 1. `base` is a mapping of the whole file, its provenance is exposed, and only `drop` unmaps it.
//! 2. A [`Span`] is inside the file: only `BackingStore::span` creates one.
//! 3. An [`AddressWindow`] is a separate mapping, and only its `drop` unmaps it; or it has the
//!    addresses of a guarded block.
#![expect(unsafe_code, reason = "owns the system memory")]

use super::PAGE;
use crate::guard::{BlockKind, GuardedBlock, Placement};
use crate::image::CallStack;
use crate::shown_memory;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The file and its mapping.
#[derive(Debug)]
pub(super) struct BackingStore {
    file: File,
    base: usize,
    size: usize,
}

/// A range of bytes inside the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    offset: usize,
    length: usize,
}

/// An address range in which spans are mapped.
#[derive(Debug)]
pub(super) struct AddressWindow {
    address: usize,
    length: usize,
    /// The guarded block that the addresses belong to.
    block: Option<GuardedBlock>,
}

impl Span {
    pub(super) fn offset(self) -> usize {
        self.offset
    }

    pub(super) fn length(self) -> usize {
        self.length
    }
}

impl BackingStore {
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Creates a file of zeros. A page takes up memory of the OS once it is accessed.
    pub(super) fn new(size: usize) -> io::Result<Self> {
        // SAFETY: The name is a C string with static lifetime.
        let file = unsafe { libc::memfd_create(c"windtunnel-ram".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The descriptor was just created, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(file) };
        file.set_len(size as u64)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let open = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: The OS chooses unused addresses.
        let base = unsafe { libc::mmap(ptr::null_mut(), size, open, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, base: base.expose_provenance(), size })
    }

    /// The span at `offset`, if it is inside the file.
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
        // SAFETY: By invariants 1 and 2 the source is mapped; `into` has at least `length` bytes.
        unsafe { libc::memcpy(into.as_mut_ptr().cast(), from, length) };
    }

    pub(super) fn write(&self, span: Span, bytes: &[u8]) {
        let (to, length) = (self.start(span), span.length.min(bytes.len()));
        // SAFETY: By invariants 1 and 2 the destination is mapped, and no reference to it exists.
        unsafe { libc::memcpy(to, bytes.as_ptr().cast(), length) };
    }

    pub(super) fn copy(&self, from: Span, to: Span) {
        let length = from.length.min(to.length);
        let (from, to) = (self.start(from), self.start(to));
        // SAFETY: By invariants 1 and 2 both spans are mapped; `memmove` lets them overlap.
        unsafe { libc::memmove(to, from, length) };
    }

    /// Fills the span with the repeated bytes of the pattern.
    pub(super) fn fill(&self, span: Span, pattern: u32) {
        let bytes = pattern.to_le_bytes();
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            let to = self.start(span);
            // SAFETY: By invariants 1 and 2 the span is mapped.
            unsafe { libc::memset(to, bytes[0].into(), span.length) };
            return;
        }
        // Write the pattern once, then copy the filled part behind itself, which doubles it each
        // time.
        let mut done = span.length.min(bytes.len());
        self.write(Span { length: done, ..span }, &bytes);
        while done < span.length {
            let more = done.min(span.length - done);
            let behind = Span { offset: span.offset + done, length: more };
            self.copy(Span { length: more, ..span }, behind);
            done += more;
        }
    }

    /// Zeroes the span by returning its memory to the OS. Returns whether that succeeded.
    pub(super) fn release_pages(&self, span: Span) -> bool {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(offset), Ok(length)) = (span.offset.try_into(), span.length.try_into()) else {
            return false;
        };
        // SAFETY: The call changes the content of the file, as a write does, and no mapping.
        let answer = unsafe { libc::fallocate(self.file.as_raw_fd(), how, offset, length) };
        answer == 0
    }

    /// Lends the bytes to `body`.
    ///
    /// # Safety
    ///
    /// While `body` runs, no other thread reads, writes or lends them through this store.
    pub(super) unsafe fn with_slice(&self, span: Span, body: &mut dyn FnMut(&mut [u8])) {
        let start = self.start(span).cast::<u8>();
        // SAFETY: By invariants 1 and 2 the span is mapped; by the caller's contract the
        // reference is exclusive.
        body(unsafe { std::slice::from_raw_parts_mut(start, span.length) });
    }

    /// Maps these spans contiguously at the start of the window, and nothing in the rest of it.
    /// Returns false if that fails; then the window maps nothing.
    pub(super) fn map_pieces(&self, window: &AddressWindow, page_spans: &[Span]) -> bool {
        let mapped = self.try_map_pieces(window, page_spans).is_some();
        if !mapped {
            self.try_map_pieces(window, &[]);
        }
        mapped
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
    /// Reserves addresses. An access to them traps.
    pub(super) fn new(length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        let address = reserve_in_order(length).or_else(|| map(ptr::null_mut(), length, None))?;
        Some(Self { address, length, block: None })
    }

    /// Reserves the addresses of a DMA buffer between inaccessible ones. `None` if memory is not
    /// guarded.
    pub(super) fn guarded(bytes: usize) -> Option<Self> {
        shown_memory::next_guarded()?;
        let origin = shown_memory::origin(BlockKind::DmaBuffer);
        let Some(block) = GuardedBlock::reserved(bytes, Placement::Start, origin) else {
            shown_memory::count_unguarded();
            return None;
        };
        let (address, length) = (block.start(), block.pages().len());
        Some(Self { address, length, block: Some(block) })
    }

    /// Maps the start of another file in the whole window. Returns whether that succeeded.
    pub(super) fn map_file(&self, file: &File) -> bool {
        let address = ptr::with_exposed_provenance_mut(self.address);
        map(address, self.length, Some((file, 0))).is_some()
    }

    /// The window is passed to the current driver call.
    pub(super) fn pass(&self) {
        let call = shown_memory::current_call();
        self.block.iter().for_each(|block| block.set_call(call));
    }

    pub(super) fn address(&self) -> usize {
        self.address
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// Reserves the addresses behind those of the last window, in a process that hosts a driver from a
/// file: such a driver may keep addresses in data that a trace shows, and the same flight must have
/// the same trace. `None` if they are in use.
fn reserve_in_order(length: usize) -> Option<usize> {
    const FIRST: usize = 0x6000_0000_0000;
    const PAGE: usize = 4096;
    static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
    if !crate::image::hosts_image() {
        return None;
    }
    let start = NEXT.fetch_add(length.next_multiple_of(PAGE) + PAGE, Ordering::Relaxed);
    let at = ptr::without_provenance_mut(start);
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: The flag lets the call fail if something is mapped there.
    let mapped = unsafe { libc::mmap(at, length, libc::PROT_NONE, flags, -1, 0) };
    (mapped != libc::MAP_FAILED).then(|| mapped.expose_provenance())
}

/// Maps a part of the file, or nothing, at an address of a window, or where the OS chooses if the
/// address is NULL.
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
    // SAFETY: By invariant 3 a fixed address belongs to a window, to which no reference exists;
    // otherwise the OS chooses unused addresses.
    let mapped = unsafe { libc::mmap(address, length, open, flags, fd, offset) };
    (mapped != libc::MAP_FAILED).then(|| mapped.expose_provenance())
}

/// Merges adjacent spans, because each span is a separate mapping.
pub(super) fn merge_adjacent(page_spans: &[Span]) -> Vec<Span> {
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
        if let Some(block) = &self.block {
            map(address, self.length, None);
            block.mark_freed(CallStack::UNKNOWN);
            return;
        }
        // SAFETY: By invariant 3 the window owns this mapping, and unmaps it only here.
        unsafe { libc::munmap(address, self.length) };
    }
}

impl Drop for BackingStore {
    fn drop(&mut self) {
        let base = ptr::with_exposed_provenance_mut(self.base);
        // SAFETY: By invariant 1 the store owns this mapping, and unmaps it only here.
        unsafe { libc::munmap(base, self.size) };
    }
}

/// Rounds up to whole pages.
pub(super) fn round_to_pages(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}
