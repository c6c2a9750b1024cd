//! Things by number, in no order: a map for what is looked up and not gone through.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Things by a number of theirs. Who goes through them brings them into an order first.
pub type FastMap<K, T> = HashMap<K, T, BuildHasherDefault<FastHasher>>;

/// Spreads numbers, addresses and handles over the table: some are multiples of something.
/// Always in the same way, so runs repeat.
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
        // The upper half is mixed well, and the table looks at the lower one first.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
