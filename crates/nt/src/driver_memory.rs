//! Memory of the driver that the exported functions read and write.
//!
//! A driver's structure is accessed by offsets, because it may be unaligned and the driver may
//! change it at any time; no reference to it is ever created. An access to an address that does not
//! exist is a real fault, which is reported against the driver with the function that it called.
#![expect(unsafe_code, reason = "accesses the driver's memory")]

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// A type for which every bit pattern is a value.
///
/// # Safety
///
/// The type has no padding and no invalid bit pattern.
pub(crate) unsafe trait Plain: Copy {
    /// A value for a read to overwrite.
    const ZERO: Self;
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: Every bit pattern of an integer is a value.
        unsafe impl Plain for $type {
            const ZERO: Self = 0;
        }
    )*};
}

plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64);

// SAFETY: As for `u8`; an array has no padding.
unsafe impl<const N: usize> Plain for [u8; N] {
    const ZERO: Self = [0; N];
}

/// A structure in the driver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverMemory(usize);

impl DriverMemory {
    /// The structure at an address.
    ///
    /// # Safety
    ///
    /// The structure, and what its pointers point to, is valid as its documentation says while the
    /// returned value and the values that are followed from it are used.
    pub(crate) unsafe fn at<T: ?Sized>(pointer: *const T) -> Self {
        Self(pointer.cast::<u8>().expose_provenance())
    }

    /// Its address.
    pub(crate) fn address(self) -> usize {
        self.0
    }

    /// Its address as a pointer.
    pub(crate) fn pointer<T>(self) -> *mut T {
        with_exposed_provenance_mut(self.0)
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Itself, unless it is NULL.
    pub(crate) fn non_null(self) -> Option<Self> {
        (!self.is_null()).then_some(self)
    }

    /// A part of the structure.
    pub(crate) fn part(self, offset: usize) -> Self {
        Self(self.0.wrapping_add(offset))
    }

    /// What the pointer at an offset points to.
    pub(crate) fn follow(self, offset: usize) -> Self {
        Self(self.read(offset))
    }

    /// Reads a field.
    pub(crate) fn read<T: Plain>(self, offset: usize) -> T {
        let mut value = T::ZERO;
        let from = with_exposed_provenance(self.part(offset).0);
        // SAFETY: `at` was promised the field; `value` has its size and accepts every bit pattern.
        unsafe { libc::memcpy((&raw mut value).cast(), from, size_of::<T>()) };
        value
    }

    /// Writes a field.
    pub(crate) fn write<T: Plain>(self, offset: usize, value: T) {
        let to = with_exposed_provenance_mut(self.part(offset).0);
        // SAFETY: `at` was promised the field.
        unsafe { libc::memcpy(to, (&raw const value).cast(), size_of::<T>()) };
    }

    /// Writes an address into a field.
    pub(crate) fn write_pointer<T>(self, offset: usize, pointer: *const T) {
        self.write(offset, pointer.expose_provenance());
    }

    /// Reads bytes.
    pub(crate) fn read_bytes(self, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        let from = with_exposed_provenance(self.0);
        // SAFETY: `at` was promised the bytes; `into` has the same length.
        unsafe { libc::memmove(into.as_mut_ptr().cast(), from, bytes) };
        into
    }

    /// Writes bytes.
    pub(crate) fn write_bytes(self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let to = with_exposed_provenance_mut(self.0);
            // SAFETY: `at` was promised the bytes.
            unsafe { libc::memmove(to, bytes.as_ptr().cast(), bytes.len()) };
        }
    }

    /// Writes UTF-16 code units.
    pub(crate) fn write_units(self, units: &[u16]) {
        for (index, unit) in units.iter().enumerate() {
            self.write(index * 2, *unit);
        }
    }

    /// The bytes before the first NUL, at most `limit` of them.
    pub(crate) fn read_c_string(self, limit: usize) -> Vec<u8> {
        (0..limit).map(|index| self.read(index)).take_while(|byte: &u8| *byte != 0).collect()
    }

    /// The UTF-16 code units before the first NUL, at most `limit` of them.
    pub(crate) fn read_wide_string(self, limit: usize) -> Vec<u16> {
        (0..limit).map(|index| self.read(index * 2)).take_while(|unit: &u16| *unit != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written_unaligned() {
        let mut bytes = [0xEE_u8; 16];
        // SAFETY: The memory is `bytes`.
        let memory = unsafe { DriverMemory::at(&raw mut bytes) };
        memory.write(1, 0x0403_0201_u32);
        memory.part(6).write_units(&[0x61, 0]);
        assert_eq!((memory.read::<u16>(2), memory.part(6).read_wide_string(9)), (0x0302, vec![97]));
        assert_eq!(memory.read_bytes(6), [0xEE, 1, 2, 3, 4, 0xEE]);
        assert_eq!(memory.part(6).read_c_string(9), b"a");
        assert_eq!(bytes[10..], [0xEE; 6]);
    }
}
