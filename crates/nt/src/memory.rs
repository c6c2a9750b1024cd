//! Raw memory that a driver and we both reach: it through a pointer, we by address.
//!
//! No reference to it is ever made, so nothing the driver does with its pointer contradicts
//! what the compiler believes. It is read and written word by word, as if by hardware.
//!
//! # Invariants
//!
//! 1. `address` was allocated with `layout`, its provenance is exposed, and only `drop` gives
//!    it back.
//! 2. The layout has a multiple of `WORD` bytes, is aligned to that at least, and every byte
//!    of it has been written.
#![expect(unsafe_code, reason = "owns the raw memory of a driver")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr;

const WORD: usize = size_of::<usize>();
const SMALL: usize = 16;
const PAGE: usize = 4096;

/// The largest block there is: more than that is a driver's arithmetic gone wrong.
const MAX_SIZE: usize = 1 << 30;

/// A piece of memory.
#[derive(Debug)]
pub(crate) struct Memory {
    address: usize,
    layout: Layout,
}

/// What new memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialContents {
    /// Zeroes.
    Zeroed,
    /// This byte, again and again: nobody should read what nobody wrote.
    Filled(u8),
}

impl Memory {
    /// At least `bytes` of memory, or none.
    ///
    /// WINDOWS: documented. A block of a page or more begins on a page, a smaller one on 16.
    pub(crate) fn new(bytes: usize, fresh: InitialContents) -> Option<Self> {
        if bytes == 0 || bytes > MAX_SIZE {
            return None;
        }
        let align = if bytes < PAGE { SMALL } else { PAGE };
        let layout = Layout::from_size_align(bytes.next_multiple_of(SMALL), align).ok()?;
        let start = match fresh {
            // SAFETY: The layout has a size, for `bytes` is not zero.
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

    /// Where it begins.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// How many bytes it really has.
    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }

    /// Writes `byte` everywhere.
    pub(crate) fn fill(&mut self, byte: u8) {
        let start: *mut u8 = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: By invariant 1 these bytes are ours, and no reference to them exists.
        unsafe { start.write_bytes(byte, self.layout.size()) };
    }

    /// Reads from an offset on. Answers whether all of it was there.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.checked_pointer(offset, into.len()) else { return false };
        // SAFETY: By invariants 1 and 2 these bytes are ours and written; `into` is elsewhere.
        unsafe { ptr::copy_nonoverlapping(from.cast_const(), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Writes from an offset on. Answers whether all of it was there.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.checked_pointer(offset, bytes.len()) else { return false };
        // SAFETY: By invariant 1 these bytes are ours; `bytes` is elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    fn checked_pointer(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.size()).then(|| ptr::with_exposed_provenance_mut(self.address + offset))
    }

    /// Whether `word` stands somewhere in it, at its natural place.
    pub(crate) fn contains_word(&self, word: usize) -> bool {
        self.words().any(|index| index == word)
    }

    /// The first byte that is not `byte`.
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
            // SAFETY: By invariants 1 and 2 the word is ours, aligned and written; volatile,
            // because a driver may have changed it behind the compiler's back.
            unsafe { word.read_volatile() }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let start: *mut u8 = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: By invariant 1 it was allocated with this layout and is given back once.
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
