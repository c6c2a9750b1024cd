//! A paging buffer, as memory that a driver can write during a call.
//!
//! The driver writes to a copy. The copy has the same offset in its page as the real buffer, so
//! that the driver sees the same alignment, and guard bytes surround it, so that an overrun is
//! detected and harms nothing.

use abi::PVOID;
use std::ops::Range;

/// The minimum number of guard bytes behind the buffer.
const GUARD: usize = 64;

/// The value of a guard byte.
const GUARD_BYTE: u8 = 0xfd;

const PAGE: usize = 4096;

/// A copy of a buffer, between guards.
pub(crate) struct GuardedBuffer {
    memory: Vec<u8>,
    buffer: Range<usize>,
}

impl GuardedBuffer {
    /// Copies the rest of a buffer, from `before` bytes after its beginning.
    pub(crate) fn copy(bytes: &[u8], before: u32) -> Self {
        let offset = before as usize % PAGE;
        let mut memory = vec![GUARD_BYTE; PAGE + offset + bytes.len() + GUARD];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(PAGE) - address + offset;
        let inside = start..start + bytes.len();
        memory[inside.clone()].copy_from_slice(bytes);
        Self { memory, buffer: inside }
    }

    /// The address of the copy.
    pub(crate) fn pointer(&mut self) -> PVOID {
        self.memory.as_mut_ptr().wrapping_add(self.buffer.start).cast()
    }

    /// The current bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.buffer.clone()]
    }

    /// The offset of a write outside of the buffer, from its beginning, if there is one.
    pub(crate) fn overrun(&self) -> Option<isize> {
        let written = |byte: &u8| *byte != GUARD_BYTE;
        let Range { start, end } = self.buffer;
        let behind = self.memory[end..].iter().position(written);
        let at = behind
            .map(|index| end + index)
            .or_else(|| self.memory[..start].iter().position(written));
        at.map(|index| index.cast_signed() - start.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lies_where_the_buffer_lies_in_its_page() {
        for before in [0, 1, 12, 4090, 4096, 10_001] {
            let bytes: Vec<u8> = (0..200).collect();
            let mut buffer = GuardedBuffer::copy(&bytes, before);
            assert_eq!(buffer.pointer().addr() % PAGE, before as usize % PAGE);
            assert_eq!((buffer.bytes(), buffer.overrun()), (&bytes[..], None));
        }
        assert_eq!(GuardedBuffer::copy(&[], 5).overrun(), None);
    }

    #[test]
    fn who_writes_around_it_is_seen() {
        let mut buffer = GuardedBuffer::copy(&[7; 20], 100);
        let Range { start, end } = buffer.buffer;
        buffer.memory[end - 1] = 1;
        assert_eq!((buffer.overrun(), buffer.bytes()[19]), (None, 1));
        buffer.memory[start - 1] = 1;
        assert_eq!(buffer.overrun(), Some(-1));
        buffer.memory[end] = 1;
        assert_eq!(buffer.overrun(), Some(20));
    }
}
