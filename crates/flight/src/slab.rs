//! A slab of objects of one kind, found by typed ids.
//!
//! # Invariants
//!
//! 1. An [`Id`] is a slot and a serial number. Slots are reused; serial numbers start at one,
//!    rise, and are never reused in a run. Events print serial numbers only.
//! 2. A slot is either empty, reserved for an id, or holds the object of that id.
//! 3. Iteration is in the order of serial numbers, so what it shows does not depend on slots.
//!
//! Indexing and [`Slab::remove`] are for ids that must be live: a missing object there is a bug
//! of ours and ends the flight as an [`InternalError`](crate::InternalError). A handle that a
//! client or a driver passes is looked up with [`Slab::get`], and a missing object is an error
//! value.

use crate::growth::make_room;
use crate::internal::internal_error;
use crate::{Kind, Subject};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// A type of object that events are about.
pub trait Object {
    /// Its kind in events.
    const KIND: Kind;
}

/// The id of a `T` in a [`Slab<T>`].
///
/// Ids are equal, ordered and hashed by serial number.
pub struct Id<T> {
    slot: u32,
    /// The serial number plus one: never zero, so that an `Option<Id<T>>` is no larger than an id.
    key: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// An id that no slab issues, as a null handle.
    pub const NULL: Self = Self { slot: u32::MAX, key: NonZeroU32::MIN, of: PhantomData };

    /// The serial number, as events print it.
    #[inline]
    pub fn serial(self) -> u32 {
        self.key.get() - 1
    }
}

impl<T: Object> Id<T> {
    /// The object as the subject of an event.
    #[inline]
    pub fn subject(self) -> Subject {
        T::KIND.subject(self.serial())
    }
}

impl<T> Clone for Id<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.serial().hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", short_name::<T>(), self.serial())
    }
}

impl<T: Object> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.subject().fmt(f)
    }
}

impl<T: Object> From<Id<T>> for Subject {
    #[inline]
    fn from(id: Id<T>) -> Self {
        id.subject()
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    last_serial: u32,
    live: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// The key of the id that has this slot.
    key: Option<NonZeroU32>,
    object: Option<T>,
}

impl<T> Slab<T> {
    /// Takes the next id, for an object that does not exist yet.
    #[inline]
    pub fn reserve(&mut self) -> Id<T> {
        let key = self.next_key();
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize].key = Some(key);
            slot
        } else {
            self.add_slot(Slot { key: Some(key), object: None })
        };
        Id { slot, key, of: PhantomData }
    }

    /// The key of the next id.
    #[inline]
    fn next_key(&mut self) -> NonZeroU32 {
        self.last_serial += 1;
        NonZeroU32::MIN.saturating_add(self.last_serial)
    }

    /// Adds a slot behind the others.
    #[cold]
    fn add_slot(&mut self, added: Slot<T>) -> u32 {
        let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        make_room(&mut self.slots, 1);
        self.slots.push(added);
        slot
    }

    /// Puts the object of a reserved id in its place.
    #[inline]
    pub fn fill(&mut self, id: Id<T>, object: T) {
        match self.slots.get_mut(id.slot as usize) {
            Some(slot) if slot.key == Some(id.key) && slot.object.is_none() => {
                slot.object = Some(object);
                self.live += 1;
            }
            _ => filled_twice(id),
        }
    }

    /// Gives back a reserved id whose object was never created. Its serial number stays used.
    pub fn cancel(&mut self, id: Id<T>) {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.key == Some(id.key));
        let Some(slot) = slot.filter(|slot| slot.object.is_none()) else {
            internal_error(format!("{id:?} is cancelled once, while it is reserved"))
        };
        slot.key = None;
        self.free.push(id.slot);
    }

    /// Adds an object and returns its id.
    #[inline]
    pub fn insert(&mut self, object: T) -> Id<T> {
        let key = self.next_key();
        self.live += 1;
        let slot = if let Some(slot) = self.free.pop() {
            let place = &mut self.slots[slot as usize];
            place.key = Some(key);
            place.object = Some(object);
            slot
        } else {
            self.add_slot(Slot { key: Some(key), object: Some(object) })
        };
        Id { slot, key, of: PhantomData }
    }

    /// The serial number that the next object will have.
    pub fn next_serial(&self) -> u32 {
        self.last_serial + 1
    }

    /// Whether an object with this serial number ever existed, or was reserved.
    pub fn has_issued(&self, serial: u32) -> bool {
        serial != 0 && serial <= self.last_serial
    }

    /// The object, if it is live.
    #[inline]
    pub fn get(&self, id: Id<T>) -> Option<&T> {
        match self.slots.get(id.slot as usize) {
            Some(slot) if slot.key == Some(id.key) => slot.object.as_ref(),
            _ => None,
        }
    }

    /// The object, if it is live, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        match self.slots.get_mut(id.slot as usize) {
            Some(slot) if slot.key == Some(id.key) => slot.object.as_mut(),
            _ => None,
        }
    }

    /// Whether the object is live.
    #[inline]
    pub fn contains(&self, id: Id<T>) -> bool {
        self.get(id).is_some()
    }

    /// Removes an object that must be live.
    ///
    /// # Panics
    /// With an [`InternalError`](crate::InternalError) if it is not.
    #[track_caller]
    pub fn remove(&mut self, id: Id<T>) -> T {
        match self.take(id) {
            Some(object) => object,
            None => internal_error(format!("{id:?} is live when it is removed")),
        }
    }

    /// Removes an object, if it is live.
    pub fn take(&mut self, id: Id<T>) -> Option<T> {
        let object = self.slot_of_live(id)?.object.take();
        self.release_slot(id);
        object
    }

    /// Removes an object, if it is live, without moving it. Returns what `last` reads from it.
    #[inline]
    pub fn discard<R>(&mut self, id: Id<T>, last: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot_of_live(id)?;
        let result = slot.object.as_ref().map(last);
        slot.object = None;
        self.release_slot(id);
        result
    }

    #[inline]
    fn slot_of_live(&mut self, id: Id<T>) -> Option<&mut Slot<T>> {
        match self.slots.get_mut(id.slot as usize) {
            Some(slot) if slot.key == Some(id.key) && slot.object.is_some() => Some(slot),
            _ => None,
        }
    }

    /// Makes the slot of a removed object free.
    #[inline]
    fn release_slot(&mut self, id: Id<T>) {
        self.slots[id.slot as usize].key = None;
        self.free.push(id.slot);
        self.live -= 1;
    }

    /// How many objects are live.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no object is live.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The ids of the objects that satisfy the condition, in order.
    pub fn select(&self, condition: impl Fn(&T) -> bool) -> Vec<Id<T>> {
        let mut ids: Vec<Id<T>> =
            self.entries().filter(|(_, object)| condition(object)).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// The live object with this serial number. Searches the slab: not for hot paths.
    pub fn find_serial(&self, serial: u32) -> Option<Id<T>> {
        self.entries().map(|(id, _)| id).find(|id| id.serial() == serial)
    }

    /// Every live object, in the order of serial numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let mut all: Vec<(Id<T>, &T)> = self.entries().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter()
    }

    /// Every live object, in no order that an event may show.
    fn entries(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| {
            let id = Id { slot: index, key: slot.key?, of: PhantomData };
            slot.object.as_ref().map(|object| (id, object))
        })
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), last_serial: 0, live: 0 }
    }
}

impl<T> Index<Id<T>> for Slab<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, id: Id<T>) -> &T {
        match self.get(id) {
            Some(object) => object,
            None => missing(id),
        }
    }
}

impl<T> IndexMut<Id<T>> for Slab<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match self.get_mut(id) {
            Some(object) => object,
            None => missing(id),
        }
    }
}

#[cold]
fn filled_twice<T>(id: Id<T>) -> ! {
    internal_error(format!("{id:?} is filled once, while it is reserved"))
}

#[cold]
#[track_caller]
fn missing<T>(id: Id<T>) -> ! {
    internal_error(format!("{id:?} is live while an id of it is in use"))
}

/// The name of a type, without its path.
fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InternalError;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn serial_numbers_are_not_reused_and_slots_are() {
        let mut slab = Slab::default();
        let one = slab.insert("one");
        let two = slab.reserve();
        assert_eq!((one.serial(), two.serial(), slab.next_serial()), (1, 2, 3));
        assert!(!slab.contains(two) && slab.has_issued(2));
        assert!(!slab.has_issued(3) && !slab.has_issued(0));
        assert_eq!(slab.remove(one), "one");
        let three = slab.insert("three");
        assert_eq!((three.slot, three.serial()), (one.slot, 3));
        slab.fill(two, "two");
        assert!(slab.iter().eq([(two, &"two"), (three, &"three")]));
        assert_eq!(slab.select(|text| text.len() > 3), [three]);
        assert_eq!(slab.get(one), None, "a reused slot does not answer an old id");
        assert_eq!((slab.len(), slab.find_serial(3)), (2, Some(three)));
    }

    #[test]
    fn a_cancelled_id_frees_its_slot_and_keeps_its_number() {
        let mut slab = Slab::default();
        let first = slab.reserve();
        slab.cancel(first);
        let second = slab.insert(2);
        assert_eq!((second.slot, second.serial()), (first.slot, 2));
        assert!(!slab.contains(first));
    }

    #[test]
    fn a_dangling_id_is_an_internal_error() {
        let mut slab = Slab::default();
        let id = slab.insert(7_u8);
        slab.remove(id);
        let panic = catch_unwind(AssertUnwindSafe(|| slab[id])).unwrap_err();
        let error = panic.downcast_ref::<InternalError>().unwrap();
        assert!(error.invariant().contains("u8 1 is live"), "{}", error.invariant());
        assert!(catch_unwind(AssertUnwindSafe(|| slab.remove(id))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| slab.fill(id, 8))).is_err());
    }
}
