//! A paging buffer, as memory that a driver can write for the time of a call.
//!
//! A copy of our own. It lies in its page where the real one lies in its, so that a driver sees
//! how its commands are aligned, and marked bytes surround it, so that one that writes too far
//! is seen and harms nothing.

use abi::PVOID;
use std::ops::Range;

/// How many bytes of guard there are behind the buffer, at least.
const GUARD: usize = 64;

/// What a byte of the guard is.
const MARK: u8 = 0xfd;

const PAGE: usize = 4096;

/// A copy of a buffer.
pub(crate) struct Sheet {
    memory: Vec<u8>,
    inside: Range<usize>,
}

impl Sheet {
    /// A copy of what is left of a buffer, so many bytes from its beginning.
    pub(crate) fn copy(bytes: &[u8], before: u32) -> Self {
        let offset = before as usize % PAGE;
        let mut memory = vec![MARK; PAGE + offset + bytes.len() + GUARD];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(PAGE) - address + offset;
        let inside = start..start + bytes.len();
        memory[inside.clone()].copy_from_slice(bytes);
        Self { memory, inside }
    }

    /// Where it is.
    pub(crate) fn pointer(&mut self) -> PVOID {
        self.memory.as_mut_ptr().wrapping_add(self.inside.start).cast()
    }

    /// The bytes as they are now.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.inside.clone()]
    }

    /// Where outside of the buffer the driver has written, if it has: from its beginning.
    pub(crate) fn outside(&self) -> Option<isize> {
        let written = |it: &u8| *it != MARK;
        let Range { start, end } = self.inside;
        let behind = self.memory[end..].iter().position(written);
        let at =
            behind.map(|it| end + it).or_else(|| self.memory[..start].iter().position(written));
        at.map(|it| it.cast_signed() - start.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lies_where_the_buffer_lies_in_its_page() {
        for before in [0, 1, 12, 4090, 4096, 10_001] {
            let bytes: Vec<u8> = (0..200).collect();
            let mut sheet = Sheet::copy(&bytes, before);
            assert_eq!(sheet.pointer().addr() % PAGE, before as usize % PAGE);
            assert_eq!((sheet.bytes(), sheet.outside()), (&bytes[..], None));
        }
        assert_eq!(Sheet::copy(&[], 5).outside(), None);
    }

    #[test]
    fn who_writes_around_it_is_seen() {
        let mut sheet = Sheet::copy(&[7; 20], 100);
        let Range { start, end } = sheet.inside;
        sheet.memory[end - 1] = 1;
        assert_eq!((sheet.outside(), sheet.bytes()[19]), (None, 1));
        sheet.memory[start - 1] = 1;
        assert_eq!(sheet.outside(), Some(-1));
        sheet.memory[end] = 1;
        assert_eq!(sheet.outside(), Some(20));
    }
}
