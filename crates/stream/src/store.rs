//! Things by number: numbers rise and are never used again, so each names one thing for ever.
//!
//! A table with open places: a thing is at the home of its number or, where others are there, in
//! the first place behind that is free. Finding one takes a few instructions however many there
//! are, and every run finds them in the same places.
//!
//! # Invariants
//!
//! 1. There are as many places as a power of two, and half of them are free at least.
//! 2. No place is free between the home of a thing's number and the thing.

/// The fewest places there are, if there are any.
const FEWEST: usize = 8;

/// Things of one kind.
#[derive(Debug)]
pub(crate) struct Store<T> {
    last: u32,
    live: usize,
    places: Vec<Option<(u32, T)>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { last: 0, live: 0, places: Vec::new() }
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
        if let Some(old) = self.get_mut(number) {
            *old = it;
            return;
        }
        if self.places.len() < (self.live + 1) * 2 {
            self.grow();
        }
        self.live += 1;
        self.settle(number, it);
    }

    /// Adds a thing and answers its number, from one on.
    pub(crate) fn add(&mut self, it: T) -> u32 {
        let number = self.reserve();
        self.put(number, it);
        number
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let mut place = self.home(number);
        loop {
            let (other, it) = self.places.get(place)?.as_ref()?;
            if *other == number {
                return Some(it);
            }
            place = self.behind(place);
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let place = self.find(number)?;
        self.places[place].as_mut().map(|(_, it)| it)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let mut gap = self.find(number)?;
        let (_, it) = self.places[gap].take()?;
        self.live -= 1;
        // Who is behind moves up, unless that is before its home.
        let mut next = self.behind(gap);
        while let Some((other, _)) = &self.places[next] {
            let home = self.home(*other);
            if self.distance(home, next) >= self.distance(gap, next) {
                self.places.swap(gap, next);
                gap = next;
            }
            next = self.behind(next);
        }
        Some(it)
    }

    /// Whether there was ever one of this number.
    pub(crate) fn was(&self, number: u32) -> bool {
        number != 0 && number <= self.last
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let all = self.places.iter().flatten();
        let mut all: Vec<(u32, &T)> = all.map(|(number, it)| (*number, it)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter()
    }

    #[inline]
    fn find(&self, number: u32) -> Option<usize> {
        let mut place = self.home(number);
        while self.places.get(place)?.as_ref()?.0 != number {
            place = self.behind(place);
        }
        Some(place)
    }

    /// Where the thing of a number is, if nobody else is there. With no places: nowhere.
    #[inline]
    fn home(&self, number: u32) -> usize {
        // Those that follow each other are far from each other.
        let spread = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread as usize & self.mask()
    }

    #[inline]
    fn behind(&self, place: usize) -> usize {
        (place + 1) & self.mask()
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.mask()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(FEWEST);
        let mut places = Vec::new();
        places.resize_with(count, || None);
        let old = std::mem::replace(&mut self.places, places);
        for (number, it) in old.into_iter().flatten() {
            self.settle(number, it);
        }
    }

    /// Puts a thing into the first place that is free.
    fn settle(&mut self, number: u32, it: T) {
        let mut place = self.home(number);
        while self.places[place].is_some() {
            place = self.behind(place);
        }
        self.places[place] = Some((number, it));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_an_ordered_map_holds() {
        let (mut store, mut map, mut random) = (Store::default(), BTreeMap::new(), 1_u32);
        assert!(store.get(1).is_none() && store.remove(1).is_none());
        for turn in 0..4000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // It grows, and then shrinks.
            let adds = random >> 16 & 3 < if turn < 2000 { 3 } else { 1 };
            if adds {
                map.insert(store.add(turn), turn);
            } else {
                let number = random % (store.last + 2);
                assert_eq!(store.remove(number), map.remove(&number));
            }
            let number = random >> 8 & 0x7ff;
            assert_eq!(store.get(number), map.get(&number));
            assert_eq!(store.get_mut(number), map.get_mut(&number));
        }
        assert!(store.iter().eq(map.iter().map(|(number, it)| (*number, it))));
        assert!(map.len() > 10 && store.places.len() >= store.live * 2);
    }
}
