//! Raw memory that the driver accesses through a pointer, and the pool by address.
//!
//! No reference to the memory is ever created, so the driver's accesses through its pointer cannot
//! break Rust's aliasing rules.
//!
//! # Invariants
//!
//! 1. `address` was allocated with `layout`, its provenance is exposed, and only `drop` frees it.
//! 2. The size of the layout is a multiple of `WORD`, its alignment is at least `WORD`, and every
//!    byte is initialised.
#![expect(unsafe_code, reason = "owns the raw memory of a driver")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr;

const WORD: usize = size_of::<usize>();
const SMALL: usize = 16;
const PAGE: usize = 4096;

/// The largest possible block. A larger request is most likely a driver's arithmetic error.
const MAX_SIZE: usize = 1 << 30;

/// A block of memory.
#[derive(Debug)]
pub(crate) struct Memory {
    address: usize,
    layout: Layout,
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
        let align = if bytes < PAGE { SMALL } else { PAGE };
        let layout = Layout::from_size_align(bytes.next_multiple_of(SMALL), align).ok()?;
        let start = match fresh {
            // SAFETY: The size of the layout is not zero, because `bytes` is not zero.
            InitialContents::Zeroed => unsafe { alloc_zeroed(layout) },
            // SAFETY: As above.
            InitialContents::Filled(_) => unsafe { alloc(layout) },
        };
        if start.is_null() {
            return None;
        }
        let mut memory = Self { address: start.expose_provenance(), layout };
        if let InitialContents::Filled(byte) = fresh {
            memory.fill(byte);
        }
        Some(memory)
    }

    /// Its first address.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Its actual size in bytes, after rounding.
    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }

    /// Fills the block with `byte`.
    pub(crate) fn fill(&mut self, byte: u8) {
        let start: *mut u8 = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: By invariant 1 the block has this size; no reference to it exists.
        unsafe { start.write_bytes(byte, self.layout.size()) };
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
        (end <= self.size()).then(|| ptr::with_exposed_provenance_mut(self.address + offset))
    }

    /// Whether the block contains the pointer-sized value `word` at an aligned offset.
    pub(crate) fn contains_word(&self, word: usize) -> bool {
        self.words().any(|index| index == word)
    }

    /// The offset of the first byte that is not `byte`.
    pub(crate) fn first_byte_not(&self, byte: u8) -> Option<usize> {
        let pattern = [byte; WORD];
        let sound = usize::from_ne_bytes(pattern);
        let (at, word) = self.words().enumerate().find(|(_, word)| *word != sound)?;
        let within = word.to_ne_bytes().iter().position(|octet| *octet != byte)?;
        Some(at * WORD + within)
    }

    fn words(&self) -> impl Iterator<Item = usize> {
        let start: *const usize = ptr::with_exposed_provenance(self.address);
        (0..self.layout.size() / WORD).map(move |at| {
            let word = start.wrapping_add(at);
            // SAFETY: By invariants 1 and 2 the value is allocated, aligned and initialised. The
            // read is volatile because the driver may write to it at any time.
            unsafe { word.read_volatile() }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let start: *mut u8 = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: By invariant 1 the block was allocated with this layout, and is freed only here.
        unsafe { dealloc(start, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_memory_is_zero_or_the_pattern() {
        for bytes in [1, 16, 17, 4095, 4096, 10_000] {
            let zeroed = Memory::new(bytes, InitialContents::Zeroed).unwrap();
            assert_eq!(zeroed.first_byte_not(0), None, "{bytes}");
            let filled = Memory::new(bytes, InitialContents::Filled(0xCD)).unwrap();
            assert_eq!(filled.first_byte_not(0xCD), None, "{bytes}");
            assert!(zeroed.size() >= bytes && zeroed.size() < bytes + SMALL);
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
