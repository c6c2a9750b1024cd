//! The real bytes of an allocation.

use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;

/// The bytes of one allocation, zeroes at first.
///
/// # Invariants
///
/// 1. `bytes` has `size` bytes, or none until something is written.
#[derive(Debug)]
pub struct Memory {
    size: u64,
    bytes: Mutex<Vec<u8>>,
}

impl Memory {
    /// Memory of `size` bytes. It is not committed before the first write.
    pub fn new(size: u64) -> Self {
        Self { size, bytes: Mutex::default() }
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes in `range`, or `None` if some of it is outside.
    pub fn read(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let range = self.inside(range)?;
        let bytes = self.bytes();
        if bytes.is_empty() {
            return Some(vec![0; range.len()]);
        }
        bytes.get(range).map(<[u8]>::to_vec)
    }

    /// Sets the bytes in `range` to `value`. Returns `None` and changes nothing if it is outside.
    pub fn fill(&self, range: Range<u64>, value: u8) -> Option<()> {
        self.change(range, |bytes| bytes.fill(value))
    }

    /// Writes `new` at `offset`. Returns `None` and changes nothing if it is outside.
    pub fn write(&self, offset: u64, new: &[u8]) -> Option<()> {
        let end = offset.checked_add(u64::try_from(new.len()).ok()?)?;
        self.change(offset..end, |bytes| bytes.copy_from_slice(new))
    }

    fn change(&self, range: Range<u64>, change: impl FnOnce(&mut [u8])) -> Option<()> {
        let range = self.inside(range)?;
        let mut bytes = self.bytes();
        if bytes.is_empty() {
            // Not `resize`: fresh zeroes cost nothing until they are touched.
            *bytes = vec![0; usize::try_from(self.size).ok()?];
        }
        bytes.get_mut(range).map(change)
    }

    /// The range, if all of it is inside.
    fn inside(&self, range: Range<u64>) -> Option<Range<usize>> {
        let inside = range.start <= range.end && range.end <= self.size;
        let index = |at| usize::try_from(at).ok();
        if inside { Some(index(range.start)?..index(range.end)?) } else { None }
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_memory_is_zeroes() {
        let memory = Memory::new(8);
        assert_eq!(memory.read(2..5), Some(vec![0; 3]));
        memory.fill(3..4, 7).unwrap();
        memory.write(5, &[8, 9]).unwrap();
        assert_eq!(memory.read(0..memory.size()), Some(vec![0, 0, 0, 7, 0, 8, 9, 0]));
    }

    #[test]
    fn outside_is_none_and_changes_nothing() {
        let memory = Memory::new(8);
        let backwards = Range { start: 5, end: 2 };
        for range in [8..9, 0..9, 9..9, 0..u64::MAX, backwards] {
            assert_eq!(memory.read(range.clone()), None, "{range:?}");
            assert_eq!(memory.fill(range.clone(), 1), None, "{range:?}");
        }
        assert_eq!(memory.write(7, &[1, 2]), None);
        assert_eq!(memory.write(u64::MAX, &[1, 2]), None);
        assert_eq!(memory.read(0..8), Some(vec![0; 8]));
    }

    #[test]
    fn an_empty_range_at_the_end_is_inside() {
        let memory = Memory::new(8);
        assert_eq!(memory.read(8..8), Some(Vec::new()));
        assert_eq!(memory.write(8, &[]), Some(()));
    }
}
