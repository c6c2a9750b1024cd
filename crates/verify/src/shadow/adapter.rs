//! What is remembered of an adapter and its nodes: the calls inside its driver, and the fences
//! due.

use super::address::Space;
use super::memory::{Paging, Saved, Segment};
use super::recover::{Pages, Recovery};
use super::{Call, Context, Process, Serial, Word};
use flight::{Fence, Hex, Text};
use std::collections::{BTreeMap, VecDeque};

/// Of an adapter: its driver model, and who is inside its driver.
#[derive(Debug, Default)]
pub struct Adapter {
    /// The driver model, 1 or 2; 0 before it started.
    pub generation: u32,
    /// Its nodes, while it runs.
    pub nodes: Vec<Serial<Node>>,
    /// Its segments, while it runs.
    pub segments: Vec<Serial<Segment>>,
    /// The processes its driver has met, the system's first: with their addresses.
    pub spaces: Vec<(Option<Serial<Process>>, Serial<Space>)>,
    /// The bytes of its segments: of each kind, local and not, for applications and in all.
    pub bytes: [[u64; 2]; 2],
    /// Its buffers for paging commands: what was last seen in their private data.
    pub buffers: BTreeMap<u64, Hex>,
    /// The calls that have not returned.
    pub inside: Vec<Inside>,
    /// How many packets of its nodes are not done.
    pub flying: u32,
    /// How many allocations, resources, devices and contexts its driver has.
    pub owned: u32,
    /// Whether its driver wants nothing to do with it.
    pub declined: bool,
    /// How many pool blocks the last call took, and has not given back.
    pub kept: usize,
    /// The same of the last call for a transfer that goes on in the next one.
    pub retried: Option<usize>,
    /// The last of the calls that stop its driver, once one has returned.
    pub stopped: Option<Text>,
    /// The word its driver gave for it.
    pub word: Option<Serial<Word>>,
    /// What its driver answered when it was told to hand its display on, since it started last.
    pub released: Option<Text>,
    /// Whether it was told to stop, and nothing else, since it started last.
    pub told_to_stop: bool,
    /// Whether its DPC is pending.
    pub dpc: bool,
    /// Its resets.
    pub recovery: Recovery,
}

/// A call that has not returned.
#[derive(Debug)]
pub struct Inside {
    /// The call.
    pub call: Serial<Call>,
    /// Its DDI.
    pub name: Text,
    /// The thread it runs on.
    pub thread: u32,
    /// The exclusion it runs under.
    pub class: Text,
    /// The process it is for.
    pub process: Option<Serial<Process>>,
}

/// Of a node: the fences it was given and did not report, once it has work.
#[derive(Debug, Default)]
pub struct Node {
    /// The fences it owes.
    pub due: Due,
    /// The context that is current on it.
    pub current: Option<Serial<Context>>,
    /// What that one saves into.
    pub saves: Vec<Serial<Saved>>,
    /// The part of a packet that its driver patched last, and with which fence, until it starts.
    pub patched: Option<(Fence, u32, u32)>,
    /// Paging work that waits for a fence of it, since a driver said that it uses something.
    pub awaited: Vec<(Fence, Serial<Paging>)>,
    /// Its adapter.
    pub adapter: Option<Serial<Adapter>>,
    /// Its paging commands.
    pub pages: Pages,
}

/// The fences of a node.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The last one that is over, once it has been given any.
    pub done: Option<Fence>,
    /// Those given and not over, in order.
    pub given: VecDeque<Fence>,
}

impl Adapter {
    /// How many bytes applications may use of memory of a kind: of the segments that are for
    /// them, or of all if none is.
    pub fn most(&self, local: bool) -> u64 {
        let [targets, all] = self.bytes[usize::from(local)];
        let any = self.bytes.iter().any(|it| it[0] > 0);
        if any { targets } else { all }
    }
}

impl Due {
    /// Whether a report of that fence is in order.
    pub fn holds(&self, fence: Fence) -> bool {
        self.given.contains(&fence)
    }

    /// The last one given.
    pub fn last(&self) -> Option<Fence> {
        self.given.back().copied().or(self.done)
    }

    pub(crate) fn give(&mut self, fence: Fence) {
        self.done.get_or_insert(fence.before());
        self.given.push_back(fence);
    }

    /// A fence stands for all before it; one that was not given moves nothing.
    pub(crate) fn report(&mut self, fence: Fence) {
        if let Some(at) = self.given.iter().position(|it| *it == fence) {
            self.given.drain(..=at);
            self.done = Some(fence);
        }
    }

    /// What was given after a fence is not with the node any more.
    pub(crate) fn take_back(&mut self, last: Fence) {
        // Fences wrap, so distances are compared and never values.
        while self.given.back().is_some_and(|it| !last.covers(*it)) {
            self.given.pop_back();
        }
    }

    /// All up to a fence is over, and the rest is not with the node any more.
    pub(crate) fn reset(&mut self, aborted: Fence) {
        self.given.clear();
        self.done = Some(aborted);
    }
}
