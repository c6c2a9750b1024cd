//! Typed maps of shadows: one per kind of object, keyed by serial number.

use super::table::Table;
use flight::{Kind, Subject, invariant};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// The serial number of an object of one kind. The verifier sees serial numbers only.
///
/// The number is stored plus one, so that an optional serial number has the same size.
pub struct Serial<T>(NonZeroU32, PhantomData<fn() -> T>);

/// A record that the verifier keeps for each object of one kind.
pub trait Shadowed: Sized {
    /// The kind of the objects.
    const KIND: Kind;
}

/// What names an object of one kind: its serial number, or the subject of an event.
pub trait Key<T>: Copy {
    /// The number; `None` if an object of another kind is named, or none at all.
    fn number(self) -> Option<u32>;

    /// The serial number, likewise.
    fn serial(self) -> Option<Serial<T>> {
        self.number().map(Serial::new)
    }
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
///
/// Which of them a judge reads is recorded by a search: while that is on, the table finds nothing
/// without one. So a look-up needs no check.
#[derive(Debug)]
pub(crate) struct ShadowMap<T> {
    table: Table<Shadow<T>>,
    /// Whether reads are recorded.
    recording: Cell<bool>,
    /// The trails of the shadows that were read.
    read: RefCell<Vec<Trail>>,
}

/// The numbers of an object's first event and of its last two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail {
    first: u64,
    /// The last two, counted from the first. Zero is none.
    distances: [u32; 2],
}

impl Trail {
    /// The trail of an object that begins with an event.
    #[inline]
    pub(crate) fn of(seq: u64) -> Self {
        Self { first: seq, distances: [0; 2] }
    }

    /// Adds an event.
    #[inline]
    pub(crate) fn mark(&mut self, seq: u64) {
        if self.first == 0 {
            self.first = seq;
            return;
        }
        let [_, last] = self.distances;
        // An event that is too far from the first for a distance is left out.
        let distance = u32::try_from(seq.wrapping_sub(self.first)).unwrap_or(0);
        self.distances = [last, distance];
    }

    /// The numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let first = Some(self.first).filter(|seq| *seq != 0);
        let last = self.distances.into_iter().filter(|distance| *distance != 0);
        first.into_iter().chain(last.map(|distance| self.first + u64::from(distance)))
    }
}

impl<T> Serial<T> {
    #[inline]
    pub(crate) fn new(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number), PhantomData)
    }

    #[inline]
    fn get(self) -> u32 {
        self.0.get() - 1
    }
}

impl<T: Shadowed> Serial<T> {
    /// The serial number of an object that an event names in a field for objects of this kind.
    ///
    /// # Panics
    /// With an internal error if the object is of another kind: our kernels write the events.
    #[track_caller]
    pub(crate) fn of(subject: Subject) -> Self {
        invariant(Key::<T>::serial(subject), "a field of an event names objects of one kind")
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
    pub(crate) fn get(&self, number: u32) -> Option<&Shadow<T>> {
        self.table.get_or(number, || self.find(number))
    }

    #[inline(never)]
    fn find(&self, number: u32) -> Option<&Shadow<T>> {
        let found = self.table.find(number);
        if self.recording.get() {
            self.record(found);
        }
        found
    }

    #[cold]
    fn record(&self, found: Option<&Shadow<T>>) {
        self.read.borrow_mut().extend(found.map(|shadow| shadow.trail));
        self.table.forget_last();
    }

    /// Starts to record which shadows are read.
    pub(crate) fn record_reads(&self) {
        self.recording.set(true);
        self.table.forget_last();
    }

    /// Stops that. Returns the trails of the shadows that were read.
    pub(crate) fn take_reads(&self) -> Vec<Trail> {
        self.recording.set(false);
        self.read.take()
    }

    /// The shadow of an object, without a record that it was read.
    pub(crate) fn get_unrecorded(&self, number: u32) -> Option<&Shadow<T>> {
        let found = self.table.get(number);
        if self.recording.get() {
            self.table.forget_last();
        }
        found
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Shadow<T>> {
        self.table.get_mut(number)
    }

    /// Starts the shadow of an object afresh.
    #[inline]
    pub(crate) fn insert(&mut self, number: u32, trail: Trail, known: impl FnOnce() -> T) {
        self.table.insert_with(number, || Shadow { trail, known: known() });
    }

    /// The shadow of an object that begins with the first event that names it.
    #[inline]
    pub(crate) fn first(&mut self, number: u32) -> &mut Shadow<T>
    where
        T: Default,
    {
        let new = || Shadow { trail: Trail::default(), known: T::default() };
        self.table.get_or_insert_with(number, new)
    }

    #[inline]
    pub(crate) fn remove(&mut self, number: u32) {
        self.table.remove(number, |_| ());
    }

    /// Removes the shadow of an object. Returns what the caller needs of it.
    #[inline]
    pub(crate) fn take<R>(&mut self, number: u32, read: impl FnOnce(&T) -> R) -> Option<R> {
        self.table.remove(number, |shadow| read(&shadow.known))
    }

    pub(crate) fn trail(&self, number: u32) -> Option<Trail> {
        self.get(number).map(|shadow| shadow.trail)
    }

    /// Adds an event to the trail of an object, if the object has a shadow.
    #[inline]
    pub(crate) fn mark(&mut self, number: u32, seq: u64) {
        if let Some(shadow) = self.get_mut(number) {
            shadow.trail.mark(seq);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

impl<T> Default for ShadowMap<T> {
    fn default() -> Self {
        Self { table: Table::default(), recording: Cell::default(), read: RefCell::default() }
    }
}

impl<T: Shadowed> Key<T> for Subject {
    #[inline]
    fn number(self) -> Option<u32> {
        (self.kind == T::KIND).then_some(self.number)
    }
}

impl<T> Key<T> for Serial<T> {
    #[inline]
    fn number(self) -> Option<u32> {
        Some(self.get())
    }
}

impl<T, K: Key<T>> Key<T> for Option<K> {
    #[inline]
    fn number(self) -> Option<u32> {
        self?.number()
    }
}

impl<T, K: Key<T> + Copy> Key<T> for &K {
    #[inline]
    fn number(self) -> Option<u32> {
        (*self).number()
    }
}

impl<T: Shadowed> From<Serial<T>> for Subject {
    fn from(serial: Serial<T>) -> Self {
        T::KIND.subject(serial.get())
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
        self.get().fmt(f)
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
