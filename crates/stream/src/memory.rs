//! The memory of frames: a trait, and an implementation for system memory.

use flight::{FastMap, Lock};

/// The kind of memory (`KS_FRAMING_ITEM.MemoryType`, `KSALLOCATOR_FRAMING.PoolType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryKind {
    /// Any: no requirement.
    #[default]
    Any,
    /// Nonpaged system memory (`KSMEMORY_TYPE_KERNEL_NONPAGED`).
    NonPaged,
    /// Paged system memory, which may be absent at dispatch level (`KSMEMORY_TYPE_KERNEL_PAGED`).
    Paged,
    /// User memory (`KSMEMORY_TYPE_USER`).
    User,
    /// Device memory.
    Device,
}

impl MemoryKind {
    /// Whether it is system memory, or may be.
    pub fn is_system(self) -> bool {
        !matches!(self, MemoryKind::Device)
    }

    /// Whether memory of this kind fulfils a requirement for `wanted`.
    pub fn satisfies(self, wanted: MemoryKind) -> bool {
        wanted == MemoryKind::Any || self == MemoryKind::Any || self == wanted
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Any => "any",
            MemoryKind::NonPaged => "non-paged",
            MemoryKind::Paged => "paged",
            MemoryKind::User => "user",
            MemoryKind::Device => "device",
        }
    }
}

/// Memory for frames. A driver handle is the address of a block.
pub trait FrameMemory: Send + Sync {
    /// Allocates a block, aligned to a mask. Returns `None` if there is no memory.
    fn allocate(&self, bytes: u32, alignment: u32, kind: MemoryKind) -> Option<usize>;

    /// Frees a block. Returns whether it existed.
    fn free(&self, driver_handle: usize) -> bool;

    /// Reads. Returns whether all of the range exists.
    fn read(&self, driver_handle: usize, offset: u32, into: &mut [u8]) -> bool;

    /// Writes. Returns whether all of the range exists; if not, nothing is written.
    fn write(&self, driver_handle: usize, offset: u32, bytes: &[u8]) -> bool;

    /// The number of bytes from this address on, and their kind; `None` if not known.
    fn extent(&self, driver_handle: usize) -> Option<(u32, MemoryKind)>;

    /// The number of blocks.
    fn allocation_count(&self) -> usize;

    /// Limits further allocations to `pieces`; `None`, the default, removes the limit.
    fn limit_allocations(&self, pieces: Option<usize>);

    /// Its driver has ended: reports what the driver leaked.
    fn close(&self) {}
}

/// System memory, at addresses that repeat from run to run.
#[derive(Debug, Default)]
pub struct SystemMemory(Lock<MemoryBlocks>);

#[derive(Debug)]
struct MemoryBlocks {
    next: usize,
    /// How many more blocks may be allocated.
    left: Option<usize>,
    blocks: FastMap<usize, (MemoryKind, Vec<u8>)>,
}

impl Default for MemoryBlocks {
    fn default() -> Self {
        Self { next: 0x1_0000, left: None, blocks: FastMap::default() }
    }
}

/// Blocks are not adjacent, so an access past the end of one touches no other.
const GUARD: usize = 64;

impl FrameMemory for SystemMemory {
    fn allocate(&self, bytes: u32, alignment: u32, kind: MemoryKind) -> Option<usize> {
        let mut pieces = self.0.lock();
        if let Some(left) = &mut pieces.left {
            *left = left.checked_sub(1)?;
        }
        let mask = alignment as usize;
        let driver_handle = pieces.next.checked_add(GUARD + mask)? & !mask;
        pieces.next = driver_handle.checked_add(bytes as usize)?;
        pieces.blocks.insert(driver_handle, (kind, vec![0; bytes as usize]));
        Some(driver_handle)
    }

    fn free(&self, driver_handle: usize) -> bool {
        self.0.lock().blocks.remove(&driver_handle).is_some()
    }

    fn read(&self, driver_handle: usize, offset: u32, into: &mut [u8]) -> bool {
        let pieces = self.0.lock();
        // A driver may pass an address or a size that is not in one block.
        let from = pieces.blocks.get(&driver_handle).and_then(|(_, it)| it.get(offset as usize..));
        let Some(from) = from.and_then(|bytes| bytes.get(..into.len())) else { return false };
        into.copy_from_slice(from);
        true
    }

    fn write(&self, driver_handle: usize, offset: u32, bytes: &[u8]) -> bool {
        let mut pieces = self.0.lock();
        // A driver may pass an address or a size that is not in one block.
        let to =
            pieces.blocks.get_mut(&driver_handle).and_then(|(_, it)| it.get_mut(offset as usize..));
        let Some(to) = to.and_then(|memory| memory.get_mut(..bytes.len())) else { return false };
        to.copy_from_slice(bytes);
        true
    }

    fn extent(&self, driver_handle: usize) -> Option<(u32, MemoryKind)> {
        let pieces = self.0.lock();
        let (kind, bytes) = pieces.blocks.get(&driver_handle)?;
        Some((u32::try_from(bytes.len()).unwrap_or(u32::MAX), *kind))
    }

    fn allocation_count(&self) -> usize {
        self.0.lock().blocks.len()
    }

    fn limit_allocations(&self, pieces: Option<usize>) {
        self.0.lock().left = pieces;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_ends_where_it_ends() {
        let memory = SystemMemory::default();
        let driver_handle = memory.allocate(100, 0xff, MemoryKind::NonPaged).unwrap();
        assert_eq!(driver_handle & 0xff, 0);
        assert!(
            memory.write(driver_handle, 96, &[1; 4]) && !memory.write(driver_handle, 97, &[1; 4])
        );
        let mut read = [0; 4];
        assert!(memory.read(driver_handle, 96, &mut read) && read == [1; 4]);
        assert!(
            memory.free(driver_handle)
                && !memory.free(driver_handle)
                && !memory.write(driver_handle, 0, &[1])
        );
    }

    #[test]
    fn memory_that_is_rationed_ends_and_comes_back() {
        let memory = SystemMemory::default();
        let make = || memory.allocate(1, 0, MemoryKind::NonPaged).is_some();
        memory.limit_allocations(Some(2));
        assert_eq!([make(), make(), make(), make()], [true, true, false, false]);
        memory.limit_allocations(None);
        assert!(make());
    }
}
