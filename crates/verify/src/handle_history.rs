//! The handle table of a process, followed through the events that publish and close handles.

use flight::EventKind;
use std::collections::VecDeque;

/// How far handles of one table are apart.
pub(crate) const STEP: u32 = 0x40;

/// How many names a new table gives before one that was closed can come again.
///
/// WINDOWS: our reading of what was observed: tables grow by 1024 and keep 128 back.
pub(crate) const FRESH_HANDLES: u32 = 896;

/// How many names are given before a closed slot can come again.
pub(crate) const REUSE_DISTANCE: u64 = 128;

/// What is remembered of a handle table.
#[derive(Debug, Default)]
pub struct HandleHistory {
    /// How many names were taken that had not been returned before.
    pub fresh_count: u32,
    /// The name after the last such one.
    next: Option<u32>,
    /// Names that were returned, the next one last.
    returned: Vec<u32>,
    /// How many names were taken.
    taken: u64,
    /// The slots closed last, and how many names had been taken then; the newest at the end.
    closed: VecDeque<(u32, u64)>,
}

/// The slot of a handle in its table.
pub(crate) fn slot(handle: u32) -> u32 {
    handle >> 6 & 0x00ff_ffff
}

impl HandleHistory {
    /// The name that comes next, while a closed one cannot be it.
    pub fn expected(&self) -> Option<u32> {
        let young = self.fresh_count < FRESH_HANDLES;
        self.returned.last().copied().or(self.next).filter(|_| young)
    }

    /// How many names were taken since this handle's slot was closed, if that is not long ago.
    pub fn handles_since_closed(&self, handle: u32) -> Option<u64> {
        let closed = self.closed.iter().rev().find(|(closed, _)| *closed == slot(handle))?;
        Some(self.taken - closed.1)
    }

    /// Whether any name of the table was closed yet.
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
                // What was closed before so many others has rested long enough.
                if self.closed.len() as u64 > REUSE_DISTANCE {
                    self.closed.pop_front();
                }
            }
            _ => (),
        }
    }
}
