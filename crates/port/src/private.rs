//! Private driver data, as memory that a driver can reach for the time of a call.
//!
//! A copy of our own, aligned as a structure would be: what the driver does with the pointer
//! changes no vector of the kernel's, and the length cannot change.

use abi::PVOID;
use kernel::miniport::{Answer, Refusal};
use std::ptr;

/// More private data than this is a number nobody meant.
pub(crate) const MOST: u32 = 1 << 24;

/// Bytes that a driver may read and write.
pub(crate) struct Private {
    words: Vec<u64>,
    size: u32,
}

impl Private {
    /// A copy of these bytes.
    pub(crate) fn copy(bytes: &[u8]) -> Answer<Self> {
        let size = count(bytes.len())?;
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        };
        Ok(Self { words: bytes.chunks(8).map(word).collect(), size })
    }

    /// So many zeroes.
    pub(crate) fn zeroed(size: u32) -> Answer<Self> {
        if size > MOST {
            return Err(Refusal::NoMemory);
        }
        Ok(Self { words: vec![0; (size as usize).div_ceil(8)], size })
    }

    /// How many bytes there are.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Where they are: nowhere, if there are none.
    pub(crate) fn pointer(&mut self) -> PVOID {
        if self.words.is_empty() { ptr::null_mut() } else { self.words.as_mut_ptr().cast() }
    }

    /// The bytes as they are now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|it| it.to_ne_bytes()).collect();
        bytes.truncate(self.size as usize);
        bytes
    }
}

/// A driver's word, back as the pointer it was.
pub(crate) fn pointer(word: usize) -> PVOID {
    ptr::with_exposed_provenance_mut(word)
}

/// A length as a driver counts it.
pub(crate) fn count(length: usize) -> Answer<u32> {
    u32::try_from(length).map_err(|_| Refusal::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_aligned_and_has_the_same_bytes() {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut private = Private::copy(&bytes).unwrap();
            assert_eq!((private.bytes(), private.size()), (bytes, u32::from(length)));
            assert_eq!(private.pointer().is_null(), length == 0);
            assert_eq!(private.pointer().addr() % 8, 0);
        }
    }

    #[test]
    fn a_size_nobody_meant_is_refused() {
        assert_eq!(Private::zeroed(9).unwrap().bytes(), [0; 9]);
        assert_eq!(Private::zeroed(u32::MAX).err(), Some(Refusal::NoMemory));
    }
}
