//! A table of records by serial number: a few instructions to find one, and memory for as many as are
//! there at once.
//!
//! Numbers are looked up many times for each event. So the index is a plain array of slots: a number
//! is searched from its own place on, and removing one closes the gap. Neighbours have places far
//! apart, because neighbours live at the same time and would be searched one behind the other.
//!
//! The number that was found last is found again without the index: most look-ups for an event are
//! about the same objects as those before.
//!
//! A table that never had more than a few records at once has no index: its numbers are searched one
//! by one. Most kinds of objects, such as adapters and driver calls, are so few.
//!
//! # Invariants
//!
//! 1. The size of the index is zero, or a power of two that is at least twice the number of slots.
//! 2. From the first place of a number to its entry, no place is free.
//! 3. The record of the number that was found last is in its slot, or nowhere if that is [`NOWHERE`].

use flight::make_room;
use std::cell::Cell;

/// An entry of the index: one plus the slot of a record. Zero is a free place.
type Entry = u32;

/// The place of a number in an index of `1 << (64 - shift)` entries.
#[expect(clippy::cast_possible_truncation, reason = "a place of the index, which is in memory")]
#[inline]
fn own_place(serial: u32, shift: u32) -> usize {
    // The upper bits of the product depend on every bit of the number.
    (u64::from(serial).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// No serial number.
const NO_NUMBER: u64 = u64::MAX;

/// No slot.
const NOWHERE: u32 = u32::MAX;

/// The maximum number of slots without an index.
const FEW: usize = 8;

/// The shift of the smallest index.
const SMALLEST: u32 = 59;

/// Records of one kind of object by their serial numbers.
#[derive(Debug)]
pub(crate) struct Table<T> {
    index: Vec<Entry>,
    /// See [`own_place`].
    shift: u32,
    slots: Vec<Option<T>>,
    /// The number of the record in each slot.
    numbers: Vec<u32>,
    free: Vec<u32>,
    /// The number that was found last, or [`NO_NUMBER`], and its slot.
    last: Cell<(u64, u32)>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            index: Vec::new(),
            shift: SMALLEST,
            slots: Vec::new(),
            numbers: Vec::new(),
            free: Vec::new(),
            last: Cell::new((NO_NUMBER, NOWHERE)),
        }
    }
}

impl<T> Table<T> {
    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[expect(clippy::inline_always, reason = "an event leads to several look-ups")]
    #[inline(always)]
    pub(crate) fn get(&self, serial: u32) -> Option<&T> {
        self.get_or(serial, || self.find(serial))
    }

    /// The record of a number, if that was found last; else the result of a search.
    #[expect(clippy::inline_always, reason = "an event leads to several look-ups")]
    #[inline(always)]
    pub(crate) fn get_or<'a>(
        &'a self,
        serial: u32,
        search: impl FnOnce() -> Option<&'a T>,
    ) -> Option<&'a T> {
        let (last, slot) = self.last.get();
        if last == u64::from(serial) { self.slots.get(slot as usize)?.as_ref() } else { search() }
    }

    /// Forgets which number was found last.
    pub(crate) fn forget_last(&self) {
        self.last.set((NO_NUMBER, NOWHERE));
    }

    #[expect(clippy::inline_always, reason = "an event leads to several look-ups")]
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, serial: u32) -> Option<&mut T> {
        let (last, slot) = self.last.get();
        if last == u64::from(serial) {
            self.slots.get_mut(slot as usize)?.as_mut()
        } else {
            self.find_mut(serial)
        }
    }

    /// Adds a record, or replaces it. It is made where it will be.
    #[inline]
    pub(crate) fn insert_with(&mut self, serial: u32, make: impl FnOnce() -> T) {
        let slot = self.empty_slot(serial);
        // Nothing is dropped, since the slot is empty: a check would need the record elsewhere.
        std::mem::forget(slot.replace(make()));
    }

    /// The slot of a number, without a record.
    #[inline]
    fn empty_slot(&mut self, serial: u32) -> &mut Option<T> {
        // A table of short-lived records is often empty.
        if self.index.is_empty()
            && self.len() == 0
            && let Some(slot) = self.free.pop()
        {
            self.numbers[slot as usize] = serial;
            self.last.set((u64::from(serial), slot));
            return &mut self.slots[slot as usize];
        }
        self.find_empty_slot(serial)
    }

    #[inline(never)]
    fn find_empty_slot(&mut self, serial: u32) -> &mut Option<T> {
        let slot = self.find_or_add_slot(serial);
        let record = &mut self.slots[slot];
        *record = None;
        record
    }

    /// The record of a number, which is made if there is none.
    #[expect(clippy::inline_always, reason = "an event leads to several look-ups")]
    #[inline(always)]
    pub(crate) fn get_or_insert_with(&mut self, serial: u32, make: impl FnOnce() -> T) -> &mut T {
        let (last, slot) = self.last.get();
        if last == u64::from(serial) && (slot as usize) < self.slots.len() {
            let record = self.slots[slot as usize].as_mut();
            return flight::invariant(record, "the slot of a number has its record");
        }
        self.find_or_insert(serial, make)
    }

    /// The same for a number that was not found last.
    #[inline(never)]
    fn find_or_insert(&mut self, serial: u32, make: impl FnOnce() -> T) -> &mut T {
        let slot = self.find_or_add_slot(serial);
        self.slots[slot].get_or_insert_with(make)
    }

    /// Removes a record, if there is one. Returns what the caller needs of it.
    #[inline]
    pub(crate) fn remove<R>(&mut self, serial: u32, read: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot(serial);
        let record = self.slots.get_mut(slot as usize)?;
        let known = record.as_ref().map(read);
        *record = None;
        self.free.push(slot);
        self.last.set((u64::from(serial), NOWHERE));
        if !self.index.is_empty() {
            self.remove_entry(slot);
        }
        known
    }

    /// Removes the entry of a slot from the index.
    #[inline(never)]
    fn remove_entry(&mut self, slot: u32) {
        let (index, numbers) = (&mut self.index[..], &self.numbers[..]);
        let mask = index.len() - 1;
        let mut gap = own_place(numbers[slot as usize], self.shift) & mask;
        while index[gap] != slot + 1 {
            gap = (gap + 1) & mask;
        }
        // Entries behind the gap move into it, unless their first place is behind the gap.
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let entry = index[place];
            let Some(slot) = entry.checked_sub(1) else { break };
            let first = own_place(numbers[slot as usize], self.shift);
            if place.wrapping_sub(first) & mask >= place.wrapping_sub(gap) & mask {
                index[gap] = entry;
                gap = place;
            }
        }
        index[gap] = 0;
    }

    /// The slot of a number, which is not a slot if there is no record.
    #[expect(clippy::inline_always, reason = "an event leads to several look-ups")]
    #[inline(always)]
    fn slot(&self, serial: u32) -> u32 {
        let (last, slot) = self.last.get();
        if last == u64::from(serial) { slot } else { self.search(serial) }
    }

    /// A record that is not the one that was found last. A caller of `get` needs fewer registers if
    /// this returns the record and not its slot.
    #[inline]
    pub(crate) fn find(&self, serial: u32) -> Option<&T> {
        self.slots.get(self.search(serial) as usize)?.as_ref()
    }

    #[inline(never)]
    fn find_mut(&mut self, serial: u32) -> Option<&mut T> {
        let slot = self.search(serial);
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The slot of a number, searched.
    #[inline]
    fn search(&self, serial: u32) -> u32 {
        let slot = if self.index.is_empty() {
            let mut slots = self.numbers.iter().zip(&self.slots).zip(0..);
            let found = slots.find(|((number, record), _)| **number == serial && record.is_some());
            found.map_or(NOWHERE, |(_, slot)| slot)
        } else {
            let mask = self.index.len() - 1;
            let mut place = own_place(serial, self.shift) & mask;
            loop {
                match self.index[place].checked_sub(1) {
                    None => break NOWHERE,
                    Some(slot) if self.numbers[slot as usize] == serial => break slot,
                    Some(_) => place = (place + 1) & mask,
                }
            }
        };
        self.last.set((u64::from(serial), slot));
        slot
    }

    /// The slot of a number, which is added if there is none. The index is searched once.
    #[inline]
    fn find_or_add_slot(&mut self, serial: u32) -> usize {
        if self.index.is_empty() {
            let slot = self.slot(serial) as usize;
            return if slot < self.slots.len() { slot } else { self.add_slot(serial) };
        }
        let mask = self.index.len() - 1;
        let mut place = own_place(serial, self.shift) & mask;
        while let Some(slot) = self.index[place].checked_sub(1) {
            if self.numbers[slot as usize] == serial {
                self.last.set((u64::from(serial), slot));
                return slot as usize;
            }
            place = (place + 1) & mask;
        }
        let Some(slot) = self.free.pop() else { return self.add_slot(serial) };
        self.index[place] = slot + 1;
        self.numbers[slot as usize] = serial;
        self.last.set((u64::from(serial), slot));
        slot as usize
    }

    /// Adds a slot for a new number. The caller writes the record.
    #[inline(never)]
    fn add_slot(&mut self, serial: u32) -> usize {
        let slot = if let Some(slot) = self.free.pop() {
            self.numbers[slot as usize] = serial;
            slot
        } else {
            make_room(&mut self.slots, 1);
            make_room(&mut self.numbers, 1);
            self.slots.push(None);
            self.numbers.push(serial);
            u32::try_from(self.slots.len() - 1).unwrap_or(NOWHERE - 1)
        };
        if self.slots.len() > FEW {
            self.add_entry(serial, slot);
        }
        self.last.set((u64::from(serial), slot));
        slot as usize
    }

    /// Adds the entry of a new record to the index.
    #[inline]
    fn add_entry(&mut self, serial: u32, slot: u32) {
        if self.index.len() < 2 * self.slots.len() {
            self.grow();
        } else {
            Self::put(&mut self.index, self.shift, serial, slot + 1);
        }
    }

    /// Makes an index of twice the size, for all records: a slot was added, since no slot was free.
    #[cold]
    fn grow(&mut self) {
        if !self.index.is_empty() {
            self.shift -= 1;
        }
        self.index = vec![0; 1 << (64 - self.shift)];
        for (number, entry) in self.numbers.iter().zip(1..) {
            Self::put(&mut self.index, self.shift, *number, entry);
        }
    }

    /// Puts the entry of a number at the first free place.
    #[inline]
    fn put(index: &mut [Entry], shift: u32, serial: u32, entry: Entry) {
        let mask = index.len() - 1;
        let mut place = own_place(serial, shift) & mask;
        while index[place] != 0 {
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
                table.insert_with(serial, || step);
                map.insert(serial, step);
            } else if draw & 0x200 == 0 {
                table.remove(serial, |_| ());
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
            table.insert_with(serial, || serial);
            if serial >= 100 {
                table.remove(serial - 100, |_| ());
            }
        }
        assert_eq!(table.len(), 100);
        assert!(table.index.len() <= 512 && table.slots.len() <= 128, "{}", table.index.len());
    }
}
