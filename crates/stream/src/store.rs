//! Things by number: numbers rise and are never used again, so each names one thing for ever.

use std::collections::BTreeMap;

/// Things of one kind.
#[derive(Debug)]
pub(crate) struct Store<T> {
    last: u32,
    things: BTreeMap<u32, T>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { last: 0, things: BTreeMap::new() }
    }
}

impl<T> Store<T> {
    /// Takes the next number, for a thing that is about to be built.
    pub(crate) fn reserve(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Puts the thing of a reserved number in its place.
    pub(crate) fn put(&mut self, number: u32, it: T) {
        self.things.insert(number, it);
    }

    /// Adds a thing and answers its number, from one on.
    pub(crate) fn add(&mut self, it: T) -> u32 {
        let number = self.reserve();
        self.put(number, it);
        number
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

    /// Whether there was ever one of this number.
    pub(crate) fn was(&self, number: u32) -> bool {
        number != 0 && number <= self.last
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.things.iter().map(|(number, it)| (*number, it))
    }
}
