//! Raw memory that the driver accesses through a pointer, and the pool by address.
//!
//! No reference to the memory is ever created, so the driver's accesses through its pointer cannot
//! break Rust's aliasing rules.
//!
//! # Invariants
//!
//! 1. `whole` is memory of `backing`, its provenance is exposed, and only this value frees it. The
//!    `bytes` bytes at `address` are inside it.
//! 2. The address is aligned to `WORD`, and every byte of `whole` is initialised.
#![expect(unsafe_code, reason = "owns the raw memory of a driver")]

use crate::guard::GuardedBlock;
use crate::image::{CallStack, sanitizer};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr;

const WORD: usize = size_of::<usize>();
const SMALL: usize = 16;
const PAGE: usize = 4096;

/// The largest possible block. A larger request is most likely a driver's arithmetic error.
const MAX_SIZE: usize = 1 << 30;

/// The fill byte of the memory next to a block.
const SLACK_BYTE: u8 = 0xFD;

/// A block of memory. The memory next to it has a pattern.
#[derive(Debug)]
pub(crate) struct Memory {
    address: usize,
    /// The requested size.
    bytes: usize,
    /// The addresses of the block and of the pattern on both sides of it.
    whole: Range<usize>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Heap(Layout),
    Guarded(GuardedBlock),
    /// Guarded and freed: no access any more.
    Inaccessible,
}

/// A byte next to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutsideByte {
    /// One for the byte next to the block.
    pub(crate) distance: u64,
    /// Whether it is before the block, not behind it.
    pub(crate) before: bool,
}

/// The contents of new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialContents {
    /// All zero.
    Zeroed,
    /// Filled with this byte, so that a read of uninitialised memory is noticeable.
    Filled(u8),
}

impl Memory {
    /// Allocates at least `bytes` bytes. `None` if `bytes` is zero or too large, or if there is no
    /// memory.
    ///
    /// WINDOWS: documented. A block of a page or more is page-aligned, a smaller one is aligned to
    /// 16 bytes.
    pub(crate) fn new(bytes: usize, fresh: InitialContents) -> Option<Self> {
        if bytes == 0 || bytes > MAX_SIZE {
            return None;
        }
        // Before a page-aligned block a pattern would take a page.
        let (align, before) = if bytes < PAGE { (SMALL, SMALL) } else { (PAGE, 0) };
        let size = before + bytes.next_multiple_of(SMALL) + SMALL;
        let layout = Layout::from_size_align(size, align).ok()?;
        // SAFETY: The size of the layout is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        let start = start.expose_provenance();
        let (whole, backing) = (start..start + size, Backing::Heap(layout));
        Some(Self { address: start + before, bytes, whole, backing }.prepared(fresh))
    }

    /// The memory of a new guarded block of `bytes` bytes.
    pub(crate) fn guarded(block: GuardedBlock, bytes: usize, fresh: InitialContents) -> Self {
        let (address, whole) = (block.start(), block.pages());
        Self { address, bytes, whole, backing: Backing::Guarded(block) }.prepared(fresh)
    }

    /// The memory of a new guarded block of `bytes` bytes, with a pattern on at most `margin` bytes
    /// on each side.
    pub(crate) fn with_margin(block: GuardedBlock, bytes: usize, margin: usize) -> Self {
        let (address, pages) = (block.start(), block.pages());
        let whole = pages.start.max(address.saturating_sub(margin))
            ..pages.end.min((address + bytes).saturating_add(margin));
        let backing = Backing::Guarded(block);
        Self { address, bytes, whole, backing }.prepared(InitialContents::Zeroed)
    }

    /// The guarded block, while it is accessible.
    pub(crate) fn block(&self) -> Option<&GuardedBlock> {
        if let Backing::Guarded(block) = &self.backing { Some(block) } else { None }
    }

    /// Writes the first contents of the block, which is zero, and the pattern next to it.
    fn prepared(self, fresh: InitialContents) -> Self {
        for range in self.slack() {
            self.fill_range(range.clone(), SLACK_BYTE);
            sanitizer::poison(&range);
        }
        if let InitialContents::Filled(byte) = fresh {
            self.fill_range(self.address..self.address + self.bytes, byte);
        }
        self
    }

    /// The memory next to the block.
    fn slack(&self) -> [Range<usize>; 2] {
        [self.whole.start..self.address, self.address + self.bytes..self.whole.end]
    }

    fn fill_range(&self, range: Range<usize>, byte: u8) {
        if matches!(self.backing, Backing::Inaccessible) {
            return;
        }
        let start: *mut u8 = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: Callers pass a part of `whole`, by invariant 1; no reference to it exists.
        unsafe { start.write_bytes(byte, range.len()) };
    }

    /// The byte next to the block that was written to: the nearest one before it, or else behind
    /// it.
    pub(crate) fn damaged_slack(&self) -> Option<OutsideByte> {
        self.damaged_slack_within(usize::MAX)
    }

    /// As [`Memory::damaged_slack`], at most this many bytes from the block.
    pub(crate) fn damaged_slack_within(&self, limit: usize) -> Option<OutsideByte> {
        if matches!(self.backing, Backing::Inaccessible) {
            return None;
        }
        let [mut before, mut behind] = self.slack();
        before.start = before.start.max(before.end.saturating_sub(limit));
        behind.end = behind.end.min(behind.start.saturating_add(limit));
        let damaged = |address: &usize| {
            let at: *const u8 = ptr::with_exposed_provenance(*address);
            // SAFETY: The address is in `whole`, by invariant 1. The read is volatile because the
            // driver may write to it at any time.
            unsafe { at.read_volatile() != SLACK_BYTE }
        };
        let outside = |address: usize, from: usize| address.abs_diff(from) as u64;
        if let Some(found) = before.rev().find(damaged) {
            return Some(OutsideByte { distance: outside(found, self.address), before: true });
        }
        let end = behind.start;
        let found = behind.into_iter().find(damaged)?;
        Some(OutsideByte { distance: outside(found, end) + 1, before: false })
    }

    /// Makes the memory useless to a driver that has freed it: inaccessible if it is guarded, else
    /// filled with `byte`.
    pub(crate) fn retire(&mut self, byte: u8, freed_by: CallStack) {
        match std::mem::replace(&mut self.backing, Backing::Inaccessible) {
            Backing::Guarded(block) => block.free(freed_by),
            heap => {
                self.backing = heap;
                sanitizer::unpoison(&self.whole);
                self.fill_range(self.whole.clone(), byte);
            }
        }
    }

    /// Its pages, if it is guarded.
    pub(crate) fn guarded_pages(&self) -> Option<Range<usize>> {
        if let Backing::Guarded(block) = &self.backing { Some(block.pages()) } else { None }
    }

    /// Its first address.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes
    }

    /// Reads from an offset. Returns false, without an effect, if the block ends before.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.checked_pointer(offset, into.len()) else { return false };
        // SAFETY: By invariants 1 and 2 these bytes are allocated and initialised; `into` does not
        // overlap them.
        unsafe { ptr::copy_nonoverlapping(from.cast_const(), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Writes from an offset. Returns false, without an effect, if the block ends before.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.checked_pointer(offset, bytes.len()) else { return false };
        // SAFETY: By invariant 1 these bytes are allocated; `bytes` does not overlap them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    fn checked_pointer(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        let accessible = !matches!(self.backing, Backing::Inaccessible);
        (accessible && end <= self.size())
            .then(|| ptr::with_exposed_provenance_mut(self.address + offset))
    }

    /// Whether the block contains the pointer-sized value `word` at an aligned offset.
    pub(crate) fn contains_word(&self, word: usize) -> bool {
        self.words().any(|index| index == word)
    }

    /// The offset of the first byte that is not `byte`.
    pub(crate) fn first_byte_not(&self, byte: u8) -> Option<usize> {
        let pattern = [byte; WORD];
        let sound = usize::from_ne_bytes(pattern);
        // The words first: blocks are mostly sound.
        let words = self.words().take_while(|word| *word == sound).count() * WORD;
        let mut rest = [byte; WORD];
        let rest = &mut rest[..WORD.min(self.bytes - words)];
        if !self.read(words, rest) {
            return None;
        }
        Some(words + rest.iter().position(|octet| *octet != byte)?)
    }

    /// The whole words of the block.
    fn words(&self) -> impl Iterator<Item = usize> {
        let start: *const usize = ptr::with_exposed_provenance(self.address);
        let accessible = !matches!(self.backing, Backing::Inaccessible);
        let count = if accessible { self.bytes / WORD } else { 0 };
        (0..count).map(move |at| {
            let word = start.wrapping_add(at);
            // SAFETY: By invariants 1 and 2 the value is allocated, aligned and initialised. The
            // read is volatile because the driver may write to it at any time.
            unsafe { word.read_volatile() }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.backing {
            Backing::Heap(layout) => {
                sanitizer::unpoison(&self.whole);
                let start: *mut u8 = ptr::with_exposed_provenance_mut(self.whole.start);
                // SAFETY: By invariant 1 the block was allocated with this layout, and is freed
                // only here.
                unsafe { dealloc(start, *layout) };
            }
            Backing::Guarded(block) => block.free(CallStack::UNKNOWN),
            Backing::Inaccessible => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{Origin, Placement};

    #[test]
    fn new_memory_is_zero_or_the_pattern() {
        for bytes in [1, 16, 17, 4095, 4096, 10_000] {
            let zeroed = Memory::new(bytes, InitialContents::Zeroed).unwrap();
            assert_eq!(zeroed.first_byte_not(0), None, "{bytes}");
            let filled = Memory::new(bytes, InitialContents::Filled(0xCD)).unwrap();
            assert_eq!(filled.first_byte_not(0xCD), None, "{bytes}");
            assert_eq!((zeroed.size(), zeroed.damaged_slack()), (bytes, None));
            assert_eq!(zeroed.damaged_slack_within(16), None);
        }
    }

    #[test]
    fn a_write_next_to_a_block_is_found() {
        let write = |address: usize| {
            let at: *mut u8 = ptr::with_exposed_provenance_mut(address);
            // SAFETY: The address is within the pattern of a live block.
            unsafe { at.write(1) };
        };
        let blocks = [60, 64].map(|bytes| Memory::new(bytes, InitialContents::Zeroed).unwrap());
        let guarded = GuardedBlock::new(60, Placement::End(16), Origin::default()).unwrap();
        let guarded = Memory::guarded(guarded, 60, InitialContents::Zeroed);
        for mut memory in blocks.into_iter().chain([guarded]) {
            write(memory.address() + memory.size() - 1);
            assert_eq!(memory.damaged_slack(), None, "the last byte is the driver's");
            write(memory.address() + memory.size());
            let behind = OutsideByte { distance: 1, before: false };
            assert_eq!(memory.damaged_slack(), Some(behind));
            write(memory.address() - 4);
            let before = OutsideByte { distance: 4, before: true };
            assert_eq!(memory.damaged_slack(), Some(before));
            memory.retire(0xDD, CallStack::UNKNOWN);
            assert!([None, Some(0)].contains(&memory.first_byte_not(0)));
        }
    }

    #[test]
    fn a_page_or_more_begins_on_a_page() {
        let small = Memory::new(4095, InitialContents::Zeroed).unwrap();
        let large = Memory::new(4096, InitialContents::Zeroed).unwrap();
        assert_eq!((small.address() % SMALL, large.address() % PAGE), (0, 0));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        for bytes in [0, MAX_SIZE + 1, usize::MAX - 7, usize::MAX] {
            assert!(Memory::new(bytes, InitialContents::Zeroed).is_none(), "{bytes}");
        }
    }
}
