//! Memory of somebody else's that a driver may look at.
#![expect(unsafe_code, reason = "the memory is the runtime's")]

use core::ptr;

/// Bytes at an address: what is locked, or the runtime's own memory of a surface.
///
/// Only the doors make one, and they know that it is there: for as long as the runtime says, that
/// is until the unlock, or until the resource is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    address: usize,
    length: usize,
}

impl Memory {
    /// Memory that somebody vouches for. See the type.
    pub(crate) fn new(address: usize, length: usize) -> Self {
        Self { address, length: if address == 0 { 0 } else { length } }
    }

    /// Where it is, for whoever wants to hand it on.
    pub fn address(&self) -> usize {
        self.address
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes out; whether they are inside.
    #[must_use]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(from) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: `at` says that so many bytes are inside, and the doors that they are there. Who
        // writes them at the same time gets what an application of Windows would.
        unsafe { ptr::copy(from, bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    /// Copies bytes in; whether they fit.
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: As in `read`; and no reference of Rust's leads there.
        unsafe { ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// A number of eight bytes that others write at any time: a fence's value.
    pub fn value(&self) -> Option<u64> {
        let from = ptr::with_exposed_provenance::<u64>(self.address);
        let inside = self.length >= size_of::<u64>() && from.is_aligned();
        // SAFETY: As in `read`; it is looked at once.
        inside.then(|| unsafe { from.read_volatile() })
    }

    fn at(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        inside.then(|| ptr::with_exposed_provenance_mut::<u8>(self.address).wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_inside_is_touched() {
        let mut bytes = [1_u8, 2, 3, 4];
        let memory = Memory::new(bytes.as_mut_ptr().expose_provenance(), 3);
        let mut seen = [0; 2];
        assert!(memory.read(1, &mut seen));
        assert_eq!(seen, [2, 3]);
        assert!(memory.write(0, &[7]) && memory.write(3, &[]));
        assert!(!memory.write(2, &[8, 8]) && !memory.read(usize::MAX, &mut seen));
        assert_eq!((bytes, memory.value()), ([7, 2, 3, 4], None));
        assert!(Memory::new(0, 8).is_empty());
    }
}
