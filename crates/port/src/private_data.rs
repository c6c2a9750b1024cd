//! Private driver data, as memory that a driver can access during a call.
//!
//! The driver gets a copy, aligned like a structure: its writes change none of the kernel's
//! vectors, and the length cannot change. The copy is in guarded memory, or between guards, so that
//! a small overrun or underrun is detected and harms nothing.
#![expect(unsafe_code, reason = "reads what a driver wrote")]

use abi::PVOID;
use kernel::miniport::{DriverError, DriverResult};
use nt::{BlockKind, ShownMemory};
use std::ptr;

/// The maximum size of private data that is plausible.
pub(crate) const MAX_SIZE: u32 = 1 << 24;

/// The number of guard words before the bytes, and behind them.
const GUARD_WORDS: usize = 8;

/// The value of a guard byte.
const GUARD_BYTE: u8 = 0xfd;

/// Bytes that a driver may read and write.
pub(crate) struct PrivateData {
    memory: Storage,
    size: u32,
}

/// Where the bytes are.
enum Storage {
    /// Here, between guard words.
    Words(Vec<u64>),
    /// In guarded memory.
    Guarded(ShownMemory),
}

impl PrivateData {
    /// A copy of these bytes.
    pub(crate) fn copy(bytes: &[u8]) -> DriverResult<Self> {
        Self::of_kind(bytes, BlockKind::PrivateData)
    }

    /// A copy of these bytes, which the driver is to overwrite.
    pub(crate) fn output(bytes: &[u8]) -> DriverResult<Self> {
        Self::of_kind(bytes, BlockKind::Output)
    }

    /// A copy of these bytes, which are an array that another structure points to.
    pub(crate) fn list(bytes: &[u8]) -> DriverResult<Self> {
        Self::of_kind(bytes, BlockKind::List)
    }

    /// A copy of these bytes in guarded memory. `None` if it is not to be guarded.
    pub(crate) fn guarded(bytes: &[u8], kind: BlockKind) -> Option<Self> {
        let size = count(bytes.len()).ok()?;
        Some(Self { memory: Storage::Guarded(ShownMemory::copy(bytes, kind)?), size })
    }

    fn of_kind(bytes: &[u8], kind: BlockKind) -> DriverResult<Self> {
        let size = count(bytes.len())?;
        if let Some(data) = Self::guarded(bytes, kind) {
            return Ok(data);
        }
        let guard = || std::iter::repeat_n(word(&[]), GUARD_WORDS);
        let words = guard().chain(bytes.chunks(8).map(word)).chain(guard()).collect();
        Ok(Self { memory: Storage::Words(words), size })
    }

    /// `size` zero bytes, which the driver is to overwrite.
    pub(crate) fn zeroed(size: u32) -> DriverResult<Self> {
        Self::filled(size, 0)
    }

    /// `size` equal bytes, which the driver is to overwrite.
    pub(crate) fn filled(size: u32, byte: u8) -> DriverResult<Self> {
        if size > MAX_SIZE {
            return Err(DriverError::NoMemory);
        }
        Self::output(&vec![byte; size as usize])
    }

    /// Zero bytes for a `T`, which the driver is to overwrite.
    pub(crate) fn zeroed_for<T>() -> DriverResult<Self> {
        Self::zeroed(count(size_of::<T>())?)
    }

    /// Replaces the bytes, in place, for the current call. A longer slice is cut off.
    pub(crate) fn overwrite(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.size as usize)];
        match &mut self.memory {
            Storage::Words(words) => {
                for (to, from) in words[GUARD_WORDS..].iter_mut().zip(bytes.chunks(8)) {
                    *to = word(from);
                }
            }
            Storage::Guarded(memory) => {
                memory.write(0, bytes);
                memory.pass();
            }
        }
    }

    /// The number of bytes.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The address of the bytes; null if there are none.
    pub(crate) fn pointer(&mut self) -> PVOID {
        match &mut self.memory {
            _ if self.size == 0 => ptr::null_mut(),
            Storage::Words(words) => words.as_mut_ptr().wrapping_add(GUARD_WORDS).cast(),
            Storage::Guarded(memory) => ptr::with_exposed_provenance_mut(memory.address()),
        }
    }

    /// The current bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let size = self.size as usize;
        match &self.memory {
            Storage::Words(words) => {
                let bytes = words[GUARD_WORDS..].iter().flat_map(|value| value.to_ne_bytes());
                bytes.take(size).collect()
            }
            Storage::Guarded(memory) => {
                let mut bytes = vec![0; size];
                memory.read(0, &mut bytes);
                bytes
            }
        }
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
        let size = self.size as usize;
        match &self.memory {
            Storage::Words(words) if is_intact(&words[GUARD_WORDS..], size) => None,
            Storage::Words(words) => {
                let first = GUARD_WORDS + size / 8;
                let behind = words[first..].iter().flat_map(|value| value.to_ne_bytes());
                let behind = behind.skip(size % 8);
                let written = behind.enumerate().filter(|(_, byte)| *byte != GUARD_BYTE);
                written.last().map(|(at, _)| at + 1)
            }
            Storage::Guarded(memory) => {
                let at = usize::try_from(memory.overrun()?).ok()?;
                Some((at + 1).saturating_sub(size))
            }
        }
    }

    /// How far before the bytes the driver has written, if it has.
    pub(crate) fn underrun(&self) -> Option<usize> {
        match &self.memory {
            Storage::Words(words) => {
                let before = words[..GUARD_WORDS].iter().flat_map(|value| value.to_ne_bytes());
                let first = before.enumerate().find(|(_, byte)| *byte != GUARD_BYTE);
                first.map(|(at, _)| GUARD_WORDS * 8 - at)
            }
            Storage::Guarded(memory) => {
                let at = memory.overrun()?;
                (at < 0).then(|| at.unsigned_abs())
            }
        }
    }

    /// What the driver has written outside of the bytes, in words.
    pub(crate) fn written_outside(&self) -> Option<String> {
        let behind = self.overrun().map(|bytes| format!("up to {bytes} bytes behind it"));
        let before = || self.underrun().map(|bytes| format!("up to {bytes} bytes before it"));
        behind.or_else(before).map(|place| format!("{place} were written"))
    }
}

/// Whether nothing was written behind the first `size` bytes.
fn is_intact(words: &[u64], size: usize) -> bool {
    let (bytes, guard) = words.split_at(size.div_ceil(8));
    let is_guard = |byte: &u8| *byte == GUARD_BYTE;
    let rest = bytes.last().filter(|_| !size.is_multiple_of(8));
    guard.iter().all(|word| *word == u64::from_ne_bytes([GUARD_BYTE; 8]))
        && rest.is_none_or(|word| word.to_ne_bytes()[size % 8..].iter().all(is_guard))
}

/// Eight bytes, or fewer and guard bytes.
fn word(chunk: &[u8]) -> u64 {
    let mut word = [GUARD_BYTE; 8];
    word[..chunk.len()].copy_from_slice(chunk);
    u64::from_ne_bytes(word)
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
            let Storage::Words(words) = &mut private.memory else { panic!("not guarded") };
            words[GUARD_WORDS + driver_handle] ^=
                u64::from_ne_bytes(std::array::from_fn(|at| (at == byte).into()));
            assert_eq!((private.overrun(), private.bytes()), (Some(1), vec![7; length]));
            assert_eq!(private.underrun(), None);
            let text = "up to 1 bytes behind it were written";
            assert_eq!(private.written_outside().as_deref(), Some(text));
        }
    }

    #[test]
    fn a_write_before_the_bytes_is_seen() {
        let mut private = PrivateData::copy(&[7; 9]).unwrap();
        let Storage::Words(words) = &mut private.memory else { panic!("not guarded") };
        words[GUARD_WORDS - 1] = u64::from_ne_bytes([0xfd, 0xfd, 0xfd, 0xfd, 0xfd, 1, 0xfd, 0xfd]);
        assert_eq!((private.overrun(), private.underrun()), (None, Some(3)));
        let text = "up to 3 bytes before it were written";
        assert_eq!(private.written_outside().as_deref(), Some(text));
    }

    #[test]
    fn a_size_nobody_meant_is_refused() {
        assert_eq!(PrivateData::zeroed(9).unwrap().bytes(), [0; 9]);
        assert_eq!(PrivateData::zeroed(u32::MAX).err(), Some(DriverError::NoMemory));
    }
}
