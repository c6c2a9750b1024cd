//! Typed maps of shadows: one per kind of object, keyed by serial number.

use super::table::Table;
use flight::{Kind, Subject, invariant};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// The serial number of an object of one kind. The verifier sees serial numbers only.
pub struct Serial<T>(u32, PhantomData<fn() -> T>);

/// A record that the verifier keeps for each object of one kind.
pub trait Shadowed: Sized {
    /// The kind of the objects.
    const KIND: Kind;
}

/// What names an object of one kind: its serial number, or the subject of an event.
pub trait Key<T>: Copy {
    /// The serial number; `None` if an object of another kind is named, or none at all.
    fn serial(self) -> Option<Serial<T>>;
}

/// The shadow of one object.
#[derive(Debug)]
pub(crate) struct Shadow<T> {
    /// The events that determined the object's state.
    pub(crate) trail: Trail,
    /// The record of its kind.
    pub(crate) known: T,
}

/// The shadows of all objects of one kind.
#[derive(Debug)]
pub(crate) struct ShadowMap<T>(Table<Shadow<T>>);

/// The numbers of an object's first event and of its last two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail([u64; 3]);

impl Trail {
    /// Adds an event.
    pub(crate) fn mark(&mut self, seq: u64) {
        match self.0 {
            [0, ..] => self.0[0] = seq,
            [first, _, last] => self.0 = [first, last, seq],
        }
    }

    /// The numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().filter(|seq| *seq != 0)
    }
}

impl<T> Serial<T> {
    pub(crate) fn new(number: u32) -> Self {
        Self(number, PhantomData)
    }
}

impl<T: Shadowed> Serial<T> {
    /// The serial number of an object that an event names in a field for objects of this kind.
    ///
    /// # Panics
    /// With an internal error if the object is of another kind: our kernels write the events.
    #[track_caller]
    pub(crate) fn of(subject: Subject) -> Self {
        invariant(subject.serial(), "a field of an event names objects of one kind")
    }
}

impl<T: Shadowed> From<Subject> for Serial<T> {
    #[track_caller]
    fn from(subject: Subject) -> Self {
        Self::of(subject)
    }
}

impl<T> ShadowMap<T> {
    #[inline]
    pub(crate) fn get(&self, serial: Serial<T>) -> Option<&Shadow<T>> {
        self.0.get(serial.0)
    }

    pub(crate) fn get_mut(&mut self, serial: Serial<T>) -> Option<&mut Shadow<T>> {
        self.0.get_mut(serial.0)
    }

    /// Starts the shadow of an object afresh.
    pub(crate) fn insert(&mut self, serial: Serial<T>, known: T) {
        self.0.insert(serial.0, Shadow { trail: Trail::default(), known });
    }

    /// The shadow of an object that begins with the first event that names it.
    pub(crate) fn first(&mut self, serial: Serial<T>) -> &mut Shadow<T>
    where
        T: Default,
    {
        let new = || Shadow { trail: Trail::default(), known: T::default() };
        self.0.get_or_insert_with(serial.0, new)
    }

    pub(crate) fn remove(&mut self, serial: Serial<T>) {
        self.0.remove(serial.0);
    }

    pub(crate) fn trail(&self, serial: Serial<T>) -> Option<Trail> {
        self.get(serial).map(|shadow| shadow.trail)
    }

    /// Adds an event to the trail of an object, if the object has a shadow.
    pub(crate) fn mark(&mut self, serial: Serial<T>, seq: u64) {
        if let Some(shadow) = self.get_mut(serial) {
            shadow.trail.mark(seq);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> Default for ShadowMap<T> {
    fn default() -> Self {
        Self(Table::default())
    }
}

impl<T: Shadowed> Key<T> for Subject {
    fn serial(self) -> Option<Serial<T>> {
        (self.kind == T::KIND).then(|| Serial::new(self.number))
    }
}

impl<T> Key<T> for Serial<T> {
    fn serial(self) -> Option<Serial<T>> {
        Some(self)
    }
}

impl<T, K: Key<T>> Key<T> for Option<K> {
    fn serial(self) -> Option<Serial<T>> {
        self?.serial()
    }
}

impl<T, K: Key<T> + Copy> Key<T> for &K {
    fn serial(self) -> Option<Serial<T>> {
        (*self).serial()
    }
}

impl<T: Shadowed> From<Serial<T>> for Subject {
    fn from(serial: Serial<T>) -> Self {
        T::KIND.subject(serial.0)
    }
}

impl<T: Shadowed> PartialEq<Subject> for Serial<T> {
    fn eq(&self, subject: &Subject) -> bool {
        Subject::from(*self) == *subject
    }
}

impl<T: Shadowed> PartialEq<Serial<T>> for Subject {
    fn eq(&self, serial: &Serial<T>) -> bool {
        serial == self
    }
}

impl<T: Shadowed> fmt::Display for Serial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Subject::from(*self).fmt(f)
    }
}

impl<T> fmt::Debug for Serial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Clone for Serial<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Serial<T> {}

impl<T> PartialEq for Serial<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Serial<T> {}

impl<T> PartialOrd for Serial<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Serial<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Serial<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
