//! What is remembered of resets, and of work that a node gives back.

use super::{Node, Serial};
use flight::Fence;
use std::collections::VecDeque;

/// Of an adapter: its resets.
#[derive(Debug, Default)]
pub struct Recovery {
    /// When it was reset, as long as that counts.
    pub reset_times: Vec<u64>,
    /// It was reset and has not been started again.
    pub resetting: bool,
    /// Why it has to be reset as a whole.
    pub must_reset: Option<&'static str>,
    /// A packet that was given to a node before the paging commands that it had given back.
    pub overtaken: Option<(Serial<Node>, Fence)>,
}

/// Of a node: its paging commands.
#[derive(Debug, Default)]
pub struct PagingCommands {
    /// Those it was given and has not done.
    pub submitted: VecDeque<Fence>,
    /// Those it gave back, and is given again first.
    pub returned: VecDeque<Fence>,
}

/// A minute, in units of 100 nanoseconds.
pub(crate) const TDR_LIMIT_TIME: u64 = 600_000_000;

impl Recovery {
    /// Which reset within a minute one at that time is.
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

    /// All up to a fence is done.
    pub(crate) fn done(&mut self, fence: Fence) {
        self.submitted.retain(|it| !fence.covers(*it));
    }

    /// The node does not have what was given after a fence any more. Answers whether something
    /// up to it was not done.
    pub(crate) fn end(&mut self, last: Fence) -> bool {
        let lost = self.submitted.iter().any(|fence| last.covers(*fence));
        self.done(last);
        self.returned.extend(std::mem::take(&mut self.submitted));
        lost
    }
}
