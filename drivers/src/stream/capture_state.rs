//! The state of a capture source.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stream::{BagOwner, Entry, FilterId, Framing, PinId, PointerId};

/// The state of a capture source, under one lock.
#[derive(Default)]
pub(crate) struct CaptureState {
    /// The allocators, by their contexts.
    pub(crate) allocators: BTreeMap<usize, Pool>,
    /// The state of each pin.
    pub(crate) lines: BTreeMap<PinId, Line>,
    /// The number of calls of each entry.
    pub(crate) calls: BTreeMap<Entry, u32>,
    /// Numbers that a flaw keeps between calls.
    pub(crate) kept: Vec<usize>,
    /// A flaw: the last byte of every picture is wrong.
    pub(crate) delivers_wrong_picture: bool,
    /// A pointer that a flaw keeps between calls.
    pub(crate) pointer: Option<PointerId>,
    /// A closed pin that a flaw uses later.
    pub(crate) closed_pin: Option<PinId>,
    /// An object bag that the driver allocated.
    pub(crate) bag: Option<BagOwner>,
    /// The filter of the last filter call.
    pub(crate) filter: Option<FilterId>,
    /// Whether the device has no power.
    pub(crate) asleep: bool,
}

/// An allocator.
pub(crate) struct Pool {
    pub(crate) framing: Framing,
    /// The frames that are not in use.
    pub(crate) free: Vec<usize>,
}

/// The pictures of a pin.
#[derive(Default)]
pub(crate) struct Line {
    /// The clones that the hardware has to fill, in order.
    pub(crate) in_flight: VecDeque<PointerId>,
    /// The number of pictures made.
    pub(crate) pictures: u64,
    /// The total number of pictures; `None` has no end.
    pub(crate) most: Option<u64>,
}

/// Takes a lock, poisoned or not.
pub(crate) fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
