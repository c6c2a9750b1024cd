//! Shadows of resets, and of work that a node gives back.

use super::{Node, Serial};
use flight::Fence;
use std::collections::VecDeque;

/// Of an adapter: its resets.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The times of its recent resets, as long as they count.
    pub reset_times: Vec<u64>,
    /// It was reset and has not been started again.
    pub resetting: bool,
    /// Why it has to be reset as a whole.
    pub must_reset: Option<&'static str>,
    /// A packet that was submitted to a node before the paging commands that it had given back.
    pub overtaken: Option<(Serial<Node>, Fence)>,
}

/// Of a node: its paging commands.
#[derive(Debug, Default)]
pub struct PagingCommands {
    /// The submitted commands that are not done.
    pub submitted: VecDeque<Fence>,
    /// The commands it gave back, which are submitted again first.
    pub returned: VecDeque<Fence>,
}

/// A minute, in units of 100 nanoseconds.
pub(crate) const TDR_LIMIT_TIME: u64 = 600_000_000;

impl Recovery {
    /// The ordinal of a reset at that time within a minute.
    pub fn count(&self, now: u64) -> usize {
        self.reset_times.iter().filter(|value| now.saturating_sub(**value) < TDR_LIMIT_TIME).count()
            + 1
    }
}

impl PagingCommands {
    /// The node was given commands.
    pub(crate) fn submit(&mut self, fence: Fence) {
        self.returned.retain(|it| *it != fence);
        self.submitted.push_back(fence);
    }

    /// Completes everything up to a fence.
    pub(crate) fn done(&mut self, fence: Fence) {
        self.submitted.retain(|it| !fence.covers(*it));
    }

    /// Removes what was submitted after a fence. Returns whether something up to the fence was not
    /// done.
    pub(crate) fn end(&mut self, last: Fence) -> bool {
        let lost = self.submitted.iter().any(|fence| last.covers(*fence));
        self.done(last);
        self.returned.extend(std::mem::take(&mut self.submitted));
        lost
    }
}
