//! An unordered map for lookups.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// An unordered map; sort before iterating.
pub type FastMap<K, T> = HashMap<K, T, BuildHasherDefault<FastHasher>>;

/// Hashes numbers, addresses and handles, which are often multiples of a number. The hash is the
/// same in every run, so runs repeat.
#[derive(Clone, Debug, Default)]
pub struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The upper half is well mixed, and the table uses the lower half first.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
