//! Frame memory for drivers that use pointers: allocated from the pool of one of them.

use flight::Pool as _;
use nt::Pool;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::{FrameMemory, MemoryKind};

const TAG: u32 = u32::from_le_bytes(*b"KsFr");
/// The alignment of pool blocks, as a mask.
const SMALL: usize = 15;
const PAGE: usize = 4095;

/// A pool, as frame memory.
pub struct PoolMemory {
    pool: Arc<Pool>,
    /// The pieces that begin inside their block, and their kinds.
    pieces: Mutex<BTreeMap<usize, (usize, MemoryKind)>>,
}

impl PoolMemory {
    /// Frame memory in this pool.
    pub fn new(pool: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self { pool, pieces: Mutex::default() })
    }

    fn aligned_pieces(&self) -> MutexGuard<'_, BTreeMap<usize, (usize, MemoryKind)>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameMemory for PoolMemory {
    fn allocate(&self, bytes: u32, alignment: u32, kind: MemoryKind) -> Option<usize> {
        let (bytes, mask) = (bytes as usize, alignment as usize);
        let natural = if bytes > PAGE { PAGE } else { SMALL };
        let more = if mask > natural { mask } else { 0 };
        let block = self.pool.allocate_pool(bytes.checked_add(more)?, TAG)?;
        let driver_handle = block.checked_add(more)? & !mask;
        let driver_handle = if more == 0 { block } else { driver_handle };
        self.aligned_pieces().insert(driver_handle, (block, kind));
        Some(driver_handle)
    }

    fn free(&self, driver_handle: usize) -> bool {
        // A block that the driver allocated is not one of our pieces, and begins at its address.
        let block =
            self.aligned_pieces().remove(&driver_handle).map_or(driver_handle, |(block, _)| block);
        let there = self.pool.extent(block).is_some();
        if there {
            self.pool.free(block, 0);
        }
        there
    }

    fn read(&self, driver_handle: usize, offset: u32, into: &mut [u8]) -> bool {
        driver_handle.checked_add(offset as usize).is_some_and(|index| self.pool.read(index, into))
    }

    fn write(&self, driver_handle: usize, offset: u32, bytes: &[u8]) -> bool {
        driver_handle
            .checked_add(offset as usize)
            .is_some_and(|index| self.pool.write(index, bytes))
    }

    fn extent(&self, driver_handle: usize) -> Option<(u32, MemoryKind)> {
        let (bytes, paged) = self.pool.extent(driver_handle)?;
        let kind = self.aligned_pieces().get(&driver_handle).map(|(_, kind)| *kind);
        let plain = if paged { MemoryKind::Paged } else { MemoryKind::NonPaged };
        Some((u32::try_from(bytes).unwrap_or(u32::MAX), kind.unwrap_or(plain)))
    }

    fn allocation_count(&self) -> usize {
        self.pool.live_blocks()
    }

    fn limit_allocations(&self, pieces: Option<usize>) {
        self.pool.limit_allocations(pieces);
    }

    fn close(&self) {
        self.pool.close();
    }
}

impl fmt::Debug for PoolMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolMemory")
            .field("pieces", &self.aligned_pieces().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::Log;

    #[test]
    fn pieces_are_aligned_and_end_where_their_block_ends() {
        let pool = Pool::new(Arc::new(Log::silent()));
        let memory = PoolMemory::new(pool.clone());
        for (bytes, mask) in [(64, 15), (100, 255), (5000, 63), (64, 0), (64, 8191)] {
            let driver_handle = memory.allocate(bytes, mask, MemoryKind::NonPaged).unwrap();
            assert_eq!(driver_handle & mask as usize, 0);
            assert!(
                memory.write(driver_handle, bytes - 4, &[7; 4])
                    && !memory.write(driver_handle, u32::MAX, &[1])
            );
            let mut read = [0; 4];
            assert!(memory.read(driver_handle, bytes - 4, &mut read) && read == [7; 4]);
            assert!(memory.extent(driver_handle).unwrap().0 >= bytes);
            assert!(memory.free(driver_handle) && !memory.free(driver_handle));
        }
        assert_eq!(memory.allocation_count(), 0);
    }
}
