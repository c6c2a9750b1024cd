//! Private driver data, as memory that a driver can access during a call.
//!
//! The driver gets a copy, aligned like a structure: its writes change none of the kernel's
//! vectors, and the length cannot change. A guard follows the copy, so that a small overrun is
//! detected and harms nothing.
#![expect(unsafe_code, reason = "reads what a driver wrote")]

use abi::PVOID;
use kernel::miniport::{DriverError, DriverResult};
use std::ptr;

/// The maximum size of private data that is plausible.
pub(crate) const MAX_SIZE: u32 = 1 << 24;

/// The number of guard words behind the bytes.
const GUARD_WORDS: usize = 8;

/// The value of a guard byte.
const GUARD_BYTE: u8 = 0xfd;

/// Bytes that a driver may read and write.
pub(crate) struct PrivateData {
    words: Vec<u64>,
    size: u32,
}

impl PrivateData {
    /// A copy of these bytes.
    pub(crate) fn copy(bytes: &[u8]) -> DriverResult<Self> {
        let size = count(bytes.len())?;
        let driver_handle = |chunk: &[u8]| {
            let mut driver_handle = [GUARD_BYTE; 8];
            driver_handle[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(driver_handle)
        };
        let guard = std::iter::repeat_n(u64::from_ne_bytes([GUARD_BYTE; 8]), GUARD_WORDS);
        Ok(Self { words: bytes.chunks(8).map(driver_handle).chain(guard).collect(), size })
    }

    /// `size` zero bytes.
    pub(crate) fn zeroed(size: u32) -> DriverResult<Self> {
        if size > MAX_SIZE {
            return Err(DriverError::NoMemory);
        }
        Self::copy(&vec![0; size as usize])
    }

    /// Zero bytes for a `T`.
    pub(crate) fn zeroed_for<T>() -> DriverResult<Self> {
        Self::zeroed(count(size_of::<T>())?)
    }

    /// Replaces the bytes, in place. A longer slice is cut off.
    pub(crate) fn overwrite(&mut self, bytes: &[u8]) {
        let all = PrivateData::copy(&bytes[..bytes.len().min(self.size as usize)]);
        let Ok(all) = all else { return };
        let whole = all.words.len() - GUARD_WORDS;
        self.words[..whole].copy_from_slice(&all.words[..whole]);
    }

    /// The number of bytes.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The address of the bytes; null if there are none.
    pub(crate) fn pointer(&mut self) -> PVOID {
        if self.size == 0 { ptr::null_mut() } else { self.words.as_mut_ptr().cast() }
    }

    /// The current bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.all();
        bytes.truncate(self.size as usize);
        bytes
    }

    /// The bytes as a structure. Members behind the last byte are those of `zero`: the structure may
    /// be longer than the driver's version of it.
    ///
    /// # Safety
    ///
    /// Any bytes are a valid `T`.
    pub(crate) unsafe fn prefix<T: Copy>(&self, zero: T) -> T {
        // SAFETY: The caller guarantees the same.
        unsafe { prefix(&self.bytes(), zero) }
    }

    /// How far behind the bytes the driver has written, if it has.
    pub(crate) fn overrun(&self) -> Option<usize> {
        let behind = &self.all()[self.size as usize..];
        behind.iter().rposition(|it| *it != GUARD_BYTE).map(|last| last + 1)
    }

    /// The bytes with their guard.
    fn all(&self) -> Vec<u8> {
        self.words.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }
}

/// The structure that begins with these bytes. Members behind the last byte are those of `zero`.
///
/// # Safety
///
/// Any bytes are a valid `T`.
pub(crate) unsafe fn prefix<T: Copy>(bytes: &[u8], zero: T) -> T {
    let mut value = zero;
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: Neither the bytes nor the structure is shorter, and they do not overlap.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast(), length) };
    value
}

/// Converts a driver handle back to the driver's pointer.
pub(crate) fn pointer(driver_handle: usize) -> PVOID {
    ptr::with_exposed_provenance_mut(driver_handle)
}

/// A length as a `UINT`.
pub(crate) fn count(length: usize) -> DriverResult<u32> {
    u32::try_from(length).map_err(|_| DriverError::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_aligned_and_has_the_same_bytes() {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut private = PrivateData::copy(&bytes).unwrap();
            assert_eq!((private.bytes(), private.size()), (bytes, u32::from(length)));
            assert_eq!(private.pointer().is_null(), length == 0);
            assert_eq!(private.pointer().addr() % 8, 0);
        }
    }

    #[test]
    fn bytes_are_replaced_in_place() {
        let mut private = PrivateData::copy(&[1; 11]).unwrap();
        let at = private.pointer();
        private.overwrite(&[2; 11]);
        assert_eq!((private.pointer(), private.bytes()), (at, vec![2; 11]));
        private.overwrite(&[3; 20]);
        assert_eq!((private.bytes(), private.overrun()), (vec![3; 11], None));
    }

    #[test]
    fn a_structure_that_is_longer_than_the_bytes_ends_with_zeros() {
        let private = PrivateData::copy(&[1, 0, 0, 0, 2, 0]).unwrap();
        // SAFETY: Any bytes are three numbers.
        assert_eq!(unsafe { private.prefix([7_u32; 3]) }, [1, 2, 7]);
        // SAFETY: Any bytes are a number.
        assert_eq!(unsafe { private.prefix(0_u32) }, 1);
    }

    #[test]
    fn who_writes_too_far_is_seen() {
        for length in [1, 3, 8, 9] {
            let mut private = PrivateData::copy(&vec![7; length]).unwrap();
            assert_eq!(private.overrun(), None, "{length}");
            let (driver_handle, byte) = (length / 8, length % 8);
            private.words[driver_handle] ^=
                u64::from_ne_bytes(std::array::from_fn(|at| (at == byte).into()));
            assert_eq!((private.overrun(), private.bytes()), (Some(1), vec![7; length]));
        }
    }

    #[test]
    fn a_size_nobody_meant_is_refused() {
        assert_eq!(PrivateData::zeroed(9).unwrap().bytes(), [0; 9]);
        assert_eq!(PrivateData::zeroed(u32::MAX).err(), Some(DriverError::NoMemory));
    }
}
