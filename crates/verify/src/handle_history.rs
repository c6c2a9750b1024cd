//! The handle table of a process, followed through the events that publish and close handles.

use flight::EventKind;
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
    /// The slots closed last, and how many handles had been reserved then; the newest at the end.
    closed: VecDeque<(u32, u64)>,
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
        let closed = self.closed.iter().rev().find(|(closed, _)| *closed == slot(handle))?;
        Some(self.taken - closed.1)
    }

    /// Whether any handle of the table was closed yet.
    pub fn any_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    pub(crate) fn follow(&mut self, what: &EventKind) {
        match what {
            EventKind::HandleReserved { handle } => {
                self.taken += 1;
                let returned = self.returned.len();
                self.returned.retain(|number| *number != handle.0);
                if returned == self.returned.len() {
                    self.fresh_count = self.fresh_count.saturating_add(1);
                    self.next = Some(handle.0.wrapping_add(STEP));
                }
            }
            EventKind::HandleCancelled { handle } => self.returned.push(handle.0),
            EventKind::HandleClosed { handle, .. } => {
                self.closed.push_back((slot(handle.0), self.taken));
                // A slot that was closed before this many others can be reused.
                if self.closed.len() as u64 > REUSE_DISTANCE {
                    self.closed.pop_front();
                }
            }
            _ => (),
        }
    }
}
