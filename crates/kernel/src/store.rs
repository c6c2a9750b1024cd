//! Things by number: numbers rise and are never used again, so each names one thing for ever.
#![expect(clippy::disallowed_types, reason = "a map with a fixed hasher")]

use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers of things, nearly always of one: a list without the heap.
pub(crate) type Few = SmallVec<[u32; 4]>;

/// Things of one kind.
#[derive(Debug)]
pub(crate) struct Store<T> {
    last: u32,
    things: HashMap<u32, T, BuildHasherDefault<Spread>>,
}

/// Spreads small numbers over the table. Always in the same way, so runs repeat.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl<T> Store<T> {
    /// Adds a thing and answers its number, from one on.
    pub(crate) fn add(&mut self, it: T) -> u32 {
        self.last += 1;
        self.things.insert(self.last, it);
        self.last
    }

    /// The number the next thing will have.
    pub(crate) fn next(&self) -> u32 {
        self.last + 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.things.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(&number)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        self.things.remove(&number)
    }

    /// Those that are asked for, by number.
    pub(crate) fn select(&self, asked: impl Fn(&T) -> bool) -> Vec<u32> {
        let all = self.things.iter().filter(|it| asked(it.1));
        let mut all: Vec<u32> = all.map(|it| *it.0).collect();
        all.sort_unstable();
        all
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut all: Vec<(u32, &T)> =
            self.things.iter().map(|(number, it)| (*number, it)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter()
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { last: 0, things: HashMap::default() }
    }
}
