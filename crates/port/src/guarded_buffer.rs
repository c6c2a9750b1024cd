//! A DMA buffer, as memory that a driver can write.
//!
//! The driver writes to a copy of the buffer in the machine's memory, or of a part of it: the
//! window. Guard bytes surround the copy, and bytes of the copy that are outside the window are
//! compared, so that an overrun is detected and harms nothing. The memory does not move.
//!
//! A buffer can also be mapped: the driver then writes to the machine's memory itself, and the copy
//! is what was last seen there. If memory is guarded, the driver writes to memory between
//! inaccessible pages, mapped or not.

use abi::PVOID;
use flight::{Ram, Run};
use nt::{BlockKind, ShownMemory};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// The minimum number of guard bytes behind the buffer.
const GUARD: usize = 64;

/// The value of a guard byte.
const GUARD_BYTE: u8 = 0xfd;

const PAGE: usize = 4096;

/// A copy of a buffer, between guards. Its beginning lies in its page where the real one does.
pub(crate) struct GuardedBuffer {
    memory: Vec<u8>,
    buffer: Range<usize>,
    /// The part that the driver may write.
    window: Range<usize>,
    /// The bytes of the buffer before the window, and behind it.
    outside: (Vec<u8>, Vec<u8>),
    /// Where the driver sees `memory`, if it is mapped.
    view: Option<View>,
}

/// Where a driver sees a buffer, if that is not in `memory`.
enum View {
    /// In the machine's memory between two guard pages, mapped for the driver.
    Mapped { ram: Arc<dyn Ram>, address: usize, guards: Run },
    /// In the machine's memory between inaccessible pages.
    MappedGuarded { ram: Arc<dyn Ram>, address: usize },
    /// In guarded memory.
    Guarded(ShownMemory),
}

impl View {
    fn address(&self) -> usize {
        match self {
            Self::Mapped { address, .. } | Self::MappedGuarded { address, .. } => *address,
            Self::Guarded(memory) => memory.address(),
        }
    }

    fn read(&self, into: &mut [u8]) {
        match self {
            Self::Mapped { ram, address, .. } | Self::MappedGuarded { ram, address } => {
                ram.read_mapped(*address, into);
            }
            Self::Guarded(memory) => _ = memory.read(0, into),
        }
    }

    fn write(&self, bytes: &[u8]) {
        match self {
            Self::Mapped { ram, address, .. } => _ = ram.write_mapped(*address, bytes),
            Self::MappedGuarded { ram, address } => {
                ram.write_mapped(*address, bytes);
                ram.pass_mapped(*address);
            }
            Self::Guarded(memory) => {
                memory.write(0, bytes);
                memory.pass();
            }
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        match self {
            Self::Mapped { ram, address, guards } => {
                ram.unmap(*address);
                ram.free(*guards);
            }
            Self::MappedGuarded { ram, address } => ram.unmap(*address),
            Self::Guarded(_) => (),
        }
    }
}

impl GuardedBuffer {
    /// Copies a buffer that begins `offset` bytes behind the beginning of a page.
    pub(crate) fn copy(bytes: &[u8], offset: u32) -> Self {
        let shown = || ShownMemory::page_aligned(bytes.len(), BlockKind::DmaBuffer);
        if let Some(memory) = (offset == 0).then(shown).flatten() {
            return Self::shown(bytes, View::Guarded(memory));
        }
        let offset = offset as usize % PAGE;
        let mut memory = vec![GUARD_BYTE; PAGE + offset + bytes.len() + GUARD];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(PAGE) - address + offset;
        let inside = start..start + bytes.len();
        memory[inside.clone()].copy_from_slice(bytes);
        Self {
            memory,
            window: inside.clone(),
            buffer: inside,
            outside: Default::default(),
            view: None,
        }
    }

    /// An array of equal bytes that the driver fills.
    pub(crate) fn list(size: usize, byte: u8) -> Self {
        let bytes = vec![byte; size];
        match ShownMemory::zeroed(size, BlockKind::List) {
            Some(memory) => Self::shown(&bytes, View::Guarded(memory)),
            None => Self::copy(&bytes, 0),
        }
    }

    /// A buffer that the driver sees in a view of the same size.
    fn shown(bytes: &[u8], view: View) -> Self {
        view.write(bytes);
        let inside = 0..bytes.len();
        Self {
            memory: bytes.to_vec(),
            window: inside.clone(),
            buffer: inside,
            outside: Default::default(),
            view: Some(view),
        }
    }

    /// Maps a buffer of whole pages in the machine's memory. Fails if the pages are not allocated,
    /// or there is no memory for the guards.
    pub(crate) fn map(ram: &Arc<dyn Ram>, start: u64, size: usize) -> Option<Self> {
        let pages = size.next_multiple_of(PAGE);
        let run = Run { start, bytes: pages as u64 };
        if let Some(address) = ram.map_guarded(&[run], size) {
            let mut buffer = Self {
                memory: vec![GUARD_BYTE; pages],
                window: 0..size,
                buffer: 0..size,
                outside: Default::default(),
                view: Some(View::MappedGuarded { ram: ram.clone(), address }),
            };
            buffer.read_back();
            return Some(buffer);
        }
        let page = PAGE as u64;
        let guards = ram.allocate(2 * page)?;
        let (before, behind) = (guards.start, guards.start + page);
        let [before, behind] = [before, behind].map(|start| Run { start, bytes: page });
        let Some(address) = ram.map(&[before, run, behind]) else {
            ram.free(guards);
            return None;
        };
        let inside = PAGE..PAGE + size;
        let mut buffer = Self {
            memory: vec![GUARD_BYTE; PAGE + pages + PAGE],
            window: inside.clone(),
            buffer: inside,
            outside: Default::default(),
            view: Some(View::Mapped { ram: ram.clone(), address, guards }),
        };
        buffer.read_back();
        Some(buffer)
    }

    /// Reads what the driver has written, if the buffer is mapped. A copy is always up to date.
    pub(crate) fn read_back(&mut self) {
        if let Some(view) = &self.view {
            view.read(&mut self.memory);
        }
    }

    /// The length of the buffer.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Opens the window from an offset on, with these bytes. It ends at the end of the buffer, at
    /// the latest.
    pub(crate) fn open(&mut self, offset: u32, bytes: &[u8]) {
        self.read_back();
        let Range { start, end } = self.buffer;
        let from = start.saturating_add(offset as usize).min(end);
        let to = from.saturating_add(bytes.len()).min(end);
        self.window = from..to;
        self.memory[from..to].copy_from_slice(&bytes[..to - from]);
        self.memory[..start].fill(GUARD_BYTE);
        self.memory[end..].fill(GUARD_BYTE);
        self.outside = (self.memory[start..from].to_vec(), self.memory[to..end].to_vec());
        if let Some(view) = &self.view {
            view.write(&self.memory);
        }
    }

    /// The address of the window.
    pub(crate) fn pointer(&mut self) -> PVOID {
        if let Some(view) = &self.view {
            return ptr::with_exposed_provenance_mut(view.address() + self.window.start);
        }
        self.memory.as_mut_ptr().wrapping_add(self.window.start).cast()
    }

    /// The current bytes of the window.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.window.clone()]
    }

    /// The offset of a write outside of the window, from its beginning, if there is one.
    pub(crate) fn overrun(&self) -> Option<isize> {
        let Range { start, end } = self.buffer;
        let Range { start: from, end: to } = self.window;
        let (before, behind) = (&self.outside.0, &self.outside.1);
        let differs = |at: usize, bytes: &[u8]| {
            let here = &self.memory[at..at + bytes.len()];
            here.iter().zip(bytes).position(|(one, other)| one != other).map(|index| at + index)
        };
        let written = |range: Range<usize>| {
            let at = range.start;
            self.memory[range].iter().position(|byte| *byte != GUARD_BYTE).map(|index| at + index)
        };
        let outside = || match &self.view {
            Some(View::Guarded(memory)) => memory.overrun(),
            _ => None,
        };
        let at = differs(to, behind)
            .or_else(|| written(end..self.memory.len()))
            .or_else(|| differs(start, before))
            .or_else(|| written(0..start));
        let from = from.cast_signed();
        at.map(usize::cast_signed).or_else(outside).map(|index| index - from)
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

    #[test]
    fn a_mapped_buffer_is_the_machines_memory() {
        let ram: Arc<dyn Ram> = nt::Ram::new(1 << 20).unwrap();
        let run = ram.allocate(0x2000).unwrap();
        assert!(ram.write(run.start, &[5; 0x2000]));
        let mut buffer = GuardedBuffer::map(&ram, run.start, 0x1100).unwrap();
        buffer.open(16, &[7; 0x1000]);
        let at = buffer.pointer();
        assert_eq!((at.addr() % PAGE, buffer.len()), (16, 0x1100));
        let mut seen = [0; 20];
        assert!(ram.read(run.start, &mut seen));
        assert_eq!((&seen[..16], &seen[16..]), (&[5; 16][..], &[7; 4][..]));
        // The driver writes its commands.
        assert!(ram.write_mapped(at.addr(), &[9]) && ram.read(run.start, &mut seen));
        assert_eq!(seen[16], 9);
        buffer.read_back();
        assert_eq!((buffer.bytes()[0], buffer.overrun()), (9, None));
        // Then behind the buffer, in its last page and in the guard page.
        for behind in [0x1100, 0x2000] {
            buffer.open(0, &[7; 0x1100]);
            assert_eq!(buffer.pointer().addr(), at.addr() - 16);
            assert!(ram.write_mapped(at.addr() - 16 + behind, &[1]));
            buffer.read_back();
            assert_eq!(buffer.overrun(), Some(behind.cast_signed()));
        }
        drop(buffer);
        assert!(!ram.write_mapped(at.addr(), &[1]));
        assert!(GuardedBuffer::map(&ram, run.start + 0x8_0000, 16).is_none());
        ram.free(run);
        assert_eq!(ram.allocate(1 << 20).map(|run| run.bytes), Some(1 << 20));
    }

    #[test]
    fn parts_of_a_buffer_are_contiguous_and_guarded_from_each_other() {
        let mut buffer = GuardedBuffer::copy(&[0; 100], 0);
        let first = buffer.pointer().addr();
        buffer.open(0, &[1; 100]);
        buffer.open(40, &[2; 60]);
        assert_eq!((buffer.pointer().addr(), buffer.bytes()), (first + 40, &[2; 60][..]));
        assert_eq!((buffer.overrun(), buffer.len()), (None, 100));
        let start = buffer.buffer.start;
        buffer.memory[start + 39] = 9;
        assert_eq!(buffer.overrun(), Some(-1));
        // The next call sees what is there.
        buffer.open(10, &[3; 20]);
        assert_eq!(buffer.overrun(), None);
        buffer.memory[start + 30] = 9;
        assert_eq!(buffer.overrun(), Some(20));
        // A window that is too long is cut off.
        buffer.open(90, &[4; 20]);
        assert_eq!(buffer.bytes(), [4; 10]);
    }
}
