//! A table of records by serial number: a few instructions to find one, and memory for as many as are
//! there at once.
//!
//! Numbers are looked up many times for each event. So the index is a plain array of pairs: a number
//! is searched from its own place on, and removing one closes the gap. Neighbours have places far
//! apart, because neighbours live at the same time and would be searched one behind the other.
//!
//! # Invariants
//!
//! 1. The size of the index is a power of two, at least twice the number of records.
//! 2. From the first place of a number to its entry, no place is free.

/// An entry of the index: a serial number, and one plus the slot of its record. Zero is a free place.
type Entry = (u32, u32);

/// The place of a number in an index with this mask.
#[inline]
fn own_place(serial: u32, mask: usize) -> usize {
    // The upper half of the product depends on every bit of the number.
    (u64::from(serial).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

/// The smallest index.
const SMALLEST: usize = 8;

/// Records of one kind of object by their serial numbers.
#[derive(Debug)]
pub(crate) struct Table<T> {
    index: Vec<Entry>,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { index: Vec::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn get(&self, serial: u32) -> Option<&T> {
        let place = self.find(serial)?;
        self.slots.get(self.index[place].1 as usize - 1)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, serial: u32) -> Option<&mut T> {
        let place = self.find(serial)?;
        self.slots.get_mut(self.index[place].1 as usize - 1)?.as_mut()
    }

    /// Adds a record, or replaces it.
    pub(crate) fn insert(&mut self, serial: u32, record: T) {
        if let Some(known) = self.get_mut(serial) {
            *known = record;
            return;
        }
        self.add(serial, record);
    }

    /// The record of a number, which is made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, serial: u32, make: impl FnOnce() -> T) -> &mut T {
        let slot = match self.find(serial) {
            Some(place) => self.index[place].1 as usize - 1,
            None => self.add(serial, make()),
        };
        flight::invariant(self.slots[slot].as_mut(), "an entry of the index has a record")
    }

    /// Removes a record, if there is one.
    pub(crate) fn remove(&mut self, serial: u32) {
        let Some(mut gap) = self.find(serial) else { return };
        let slot = self.index[gap].1 - 1;
        self.slots[slot as usize] = None;
        self.free.push(slot);
        // Entries behind the gap move into it, unless their first place is behind the gap.
        let mask = self.index.len() - 1;
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let (number, slot) = self.index[place];
            if slot == 0 {
                break;
            }
            let first = own_place(number, mask);
            if place.wrapping_sub(first) & mask >= place.wrapping_sub(gap) & mask {
                self.index[gap] = (number, slot);
                gap = place;
            }
        }
        self.index[gap] = (0, 0);
    }

    /// The place of a number in the index.
    #[inline]
    fn find(&self, serial: u32) -> Option<usize> {
        let mask = self.index.len().wrapping_sub(1);
        let mut place = own_place(serial, mask);
        loop {
            let (number, slot) = *self.index.get(place)?;
            if slot == 0 {
                return None;
            }
            if number == serial {
                return Some(place);
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds a record of a new number. Returns its slot.
    fn add(&mut self, serial: u32, record: T) -> usize {
        if self.index.len() < 2 * (self.len() + 1) {
            self.grow();
        }
        let slot = if let Some(slot) = self.free.pop() {
            slot as usize
        } else {
            self.slots.push(None);
            self.slots.len() - 1
        };
        self.slots[slot] = Some(record);
        let entry = (serial, u32::try_from(slot + 1).unwrap_or(u32::MAX));
        Self::put(&mut self.index, entry);
        slot
    }

    fn grow(&mut self) {
        let mut larger = vec![(0, 0); (self.index.len() * 2).max(SMALLEST)];
        for entry in self.index.drain(..).filter(|entry| entry.1 != 0) {
            Self::put(&mut larger, entry);
        }
        self.index = larger;
    }

    /// Puts an entry at the first free place.
    fn put(index: &mut [Entry], entry: Entry) {
        let mask = index.len() - 1;
        let mut place = own_place(entry.0, mask);
        while index[place].1 != 0 {
            place = (place + 1) & mask;
        }
        index[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_agrees_with_an_ordered_map() {
        let (mut table, mut map) = (Table::default(), BTreeMap::new());
        let mut random = 7_u64;
        for step in 0..20_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = u32::try_from(random >> 40).unwrap();
            // Rising numbers, old ones, and some that meet at one place of the index.
            let serial = match draw % 4 {
                0 => step,
                1 => draw % 64,
                2 => (draw % 16) * 1024,
                _ => u32::MAX - draw % 8,
            };
            if draw & 0x100 == 0 {
                table.insert(serial, step);
                map.insert(serial, step);
            } else if draw & 0x200 == 0 {
                table.remove(serial);
                map.remove(&serial);
            } else {
                let new = table.get_or_insert_with(serial, || step);
                assert_eq!(new, map.entry(serial).or_insert(step));
            }
            assert_eq!(table.get(serial), map.get(&serial));
            assert_eq!(table.len(), map.len());
        }
        for (serial, value) in map {
            assert_eq!(table.get_mut(serial), Some(&mut value.clone()));
        }
    }

    #[test]
    fn memory_is_for_what_is_there_at_once() {
        let mut table = Table::default();
        for serial in 0..100_000_u32 {
            table.insert(serial, serial);
            if serial >= 100 {
                table.remove(serial - 100);
            }
        }
        assert_eq!(table.len(), 100);
        assert!(table.index.len() <= 512 && table.slots.len() <= 128, "{}", table.index.len());
    }
}
