//! What a source keeps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stream::{BagOwner, Entry, FilterId, Framing, PinId, PointerId};

/// What a source keeps, under one lock of its own.
#[derive(Default)]
pub(crate) struct CaptureState {
    /// Its allocators, by their contexts.
    pub(crate) allocators: BTreeMap<usize, Pool>,
    /// What it does for each of its pins.
    pub(crate) lines: BTreeMap<PinId, Line>,
    /// How often each of its entries was called.
    pub(crate) calls: BTreeMap<Entry, u32>,
    /// Numbers that a flaw keeps from one call to the next.
    pub(crate) kept: Vec<usize>,
    /// The same for a pointer.
    pub(crate) pointer: Option<PointerId>,
    /// A pin that was closed, which a flaw uses later.
    pub(crate) closed_pin: Option<PinId>,
    /// A bag that it made itself.
    pub(crate) bag: Option<BagOwner>,
    /// The filter that it was told of last.
    pub(crate) filter: Option<FilterId>,
    /// Whether its device has no power.
    pub(crate) asleep: bool,
}

/// An allocator.
pub(crate) struct Pool {
    pub(crate) framing: Framing,
    /// Its frames that are not out.
    pub(crate) free: Vec<usize>,
}

/// The pictures of a pin.
#[derive(Default)]
pub(crate) struct Line {
    /// What the hardware has to fill: clones, in their order.
    pub(crate) in_flight: VecDeque<PointerId>,
    /// How many pictures it has made.
    pub(crate) pictures: u64,
    /// How many there are in all; none is no end.
    pub(crate) most: Option<u64>,
}

/// Takes a lock, whoever crashed with it.
pub(crate) fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
