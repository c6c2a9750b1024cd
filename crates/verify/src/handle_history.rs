//! The handle table of a process, followed through the events that publish and close handles.

use crate::shadow::Table;
use std::collections::VecDeque;

/// The distance between handles of one table.
pub(crate) const STEP: u32 = 0x40;

/// How many handles a new table publishes before a closed one can be reused.
///
/// WINDOWS: our reading of observations: tables grow by 1024 and keep 128 back.
pub(crate) const FRESH_HANDLES: u32 = 896;

/// How many handles are reserved before a closed slot can be reused.
pub(crate) const REUSE_DISTANCE: u64 = 128;

/// The history of a handle table.
#[derive(Debug, Default)]
pub struct HandleHistory {
    /// How many handles were reserved that had not been cancelled before.
    pub fresh_count: u32,
    /// The handle after the last of those.
    next: Option<u32>,
    /// Handles that were cancelled, the next one last.
    returned: Vec<u32>,
    /// How many handles were reserved.
    taken: u64,
    /// The slots closed last, the newest at the end.
    closed: VecDeque<u32>,
    /// The same by slot.
    closed_slots: Table<ClosedSlot>,
}

/// A slot that was closed.
#[derive(Debug, Default)]
struct ClosedSlot {
    /// How many handles had been reserved when it was closed last.
    taken: u64,
    /// How often it is among the slots closed last.
    times: u32,
}

/// The slot of a handle in its table.
pub(crate) fn slot(handle: u32) -> u32 {
    handle >> 6 & 0x00ff_ffff
}

impl HandleHistory {
    /// The handle that comes next, while it cannot be a closed one.
    pub fn expected(&self) -> Option<u32> {
        let young = self.fresh_count < FRESH_HANDLES;
        self.returned.last().copied().or(self.next).filter(|_| young)
    }

    /// How many handles were reserved since this handle's slot was closed, if that is recent.
    pub fn handles_since_closed(&self, handle: u32) -> Option<u64> {
        let closed = self.closed_slots.get(slot(handle))?;
        Some(self.taken - closed.taken)
    }

    /// Whether any handle of the table was closed yet.
    pub fn any_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// A handle is reserved.
    pub(crate) fn reserve(&mut self, handle: u32) {
        self.taken += 1;
        let returned = self.returned.len();
        self.returned.retain(|number| *number != handle);
        if returned == self.returned.len() {
            self.fresh_count = self.fresh_count.saturating_add(1);
            self.next = Some(handle.wrapping_add(STEP));
        }
    }

    /// A reserved handle is cancelled.
    pub(crate) fn cancel(&mut self, handle: u32) {
        self.returned.push(handle);
    }

    /// A handle is closed.
    pub(crate) fn close(&mut self, handle: u32) {
        let slot = slot(handle);
        self.closed.push_back(slot);
        let closed = self.closed_slots.get_or_insert_with(slot, ClosedSlot::default);
        (closed.taken, closed.times) = (self.taken, closed.times + 1);
        // A slot that was closed before this many others can be reused.
        if self.closed.len() as u64 > REUSE_DISTANCE
            && let Some(oldest) = self.closed.pop_front()
            && let Some(closed) = self.closed_slots.get_mut(oldest)
        {
            closed.times -= 1;
            if closed.times == 0 {
                self.closed_slots.remove(oldest, |_| ());
            }
        }
    }
}
