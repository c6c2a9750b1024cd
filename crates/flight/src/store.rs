//! Things by number: numbers rise and are never used again, so each names one thing for ever.

use crate::ByNumber;

/// Things of one kind.
#[derive(Debug)]
pub struct Store<T> {
    last: u32,
    things: ByNumber<u32, T>,
}

impl<T> Store<T> {
    /// Takes a number for a thing that is not there yet.
    pub fn reserve(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Puts the thing of a reserved number in its place.
    pub fn put(&mut self, number: u32, it: T) {
        self.things.insert(number, it);
    }

    /// Adds a thing and answers its number, from one on.
    pub fn add(&mut self, it: T) -> u32 {
        let number = self.reserve();
        self.put(number, it);
        number
    }

    /// The number the next thing will have.
    pub fn next(&self) -> u32 {
        self.last + 1
    }

    /// Whether there was ever one of this number.
    pub fn was(&self, number: u32) -> bool {
        number != 0 && number <= self.last
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// The one of that number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.things.get(&number)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(&number)
    }

    /// Takes it out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        self.things.remove(&number)
    }

    /// The numbers of those that are asked for, in order.
    pub fn select(&self, asked: impl Fn(&T) -> bool) -> Vec<u32> {
        let all = self.things.iter().filter(|it| asked(it.1));
        let mut all: Vec<u32> = all.map(|it| *it.0).collect();
        all.sort_unstable();
        all
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let all = self.things.iter().map(|(number, it)| (*number, it));
        let mut all: Vec<(u32, &T)> = all.collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter()
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { last: 0, things: ByNumber::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_thing_for_ever() {
        let mut store = Store::default();
        let (one, early) = (store.add("one"), store.reserve());
        assert_eq!((one, early, store.next()), (1, 2, 3));
        assert!(store.get(early).is_none() && store.was(early) && !store.was(3) && !store.was(0));
        store.put(early, "two");
        let three = store.add("three");
        assert_eq!(store.remove(one), Some("one"));
        assert_eq!((store.remove(one), store.next()), (None, 4));
        assert!(store.iter().eq([(early, &"two"), (three, &"three")]));
        assert_eq!(store.select(|it| it.len() > 3), [three]);
        assert!(!store.is_empty());
    }
}
