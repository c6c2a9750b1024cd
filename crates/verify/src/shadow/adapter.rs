//! Shadows of adapters and nodes: the calls inside the driver, and the fences due.

use super::address::AddressSpace;
use super::memory::{ContextAllocation, Paging, Segment};
use super::tdr::{PagingCommands, Recovery};
use super::{Call, Context, DriverPointer, Process, Serial};
use flight::{Fence, Hex, Text};
use std::collections::{BTreeMap, VecDeque};

/// An adapter: its driver model, and the threads inside its driver.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Adapter {
    /// The driver model, 1 or 2; 0 before it started.
    pub generation: u32,
    /// Its nodes, while it runs.
    pub nodes: Vec<Serial<Node>>,
    /// Its segments, while it runs.
    pub segments: Vec<Serial<Segment>>,
    /// The processes that its driver knows, the system's first, with their address spaces.
    pub spaces: Vec<(Option<Serial<Process>>, Serial<AddressSpace>)>,
    /// The bytes of its segments: of each kind, local and not, for applications and in all.
    pub bytes: [[u64; 2]; 2],
    /// Its paging buffers: what was last seen in their private data.
    pub buffers: BTreeMap<u64, Hex>,
    /// The calls that have not returned.
    pub active_calls: Vec<Serial<Call>>,
    /// How many packets of its nodes are not done.
    pub in_flight: u32,
    /// How many allocations, resources, devices and contexts its driver has.
    pub owned: u32,
    /// Whether its driver declined it.
    pub declined: bool,
    /// How many pool blocks the last call allocated and has not freed.
    pub blocks_taken: usize,
    /// The same for the last call of a transfer that continues in the next call.
    pub retried: Option<usize>,
    /// The last of the calls that stop its driver, once one has returned.
    pub stopped: Option<Text>,
    /// The driver handle of the adapter.
    pub driver_handle: Option<Serial<DriverPointer>>,
    /// What its driver returned when it released POST display ownership, since the last start.
    pub released: Option<Text>,
    /// Whether it was stopped, without that release, since the last start.
    pub stop_called: bool,
    /// Whether its driver took over the display of the firmware.
    pub owns_display: bool,
    /// Whether its DPC is pending.
    pub dpc: bool,
    /// Its resets.
    pub recovery: Recovery,
}

/// A node: the fences submitted to it and not reported, once it has work.
#[derive(Debug, Default)]
pub struct Node {
    /// The fences it owes.
    pub fences: NodeFences,
    /// The context that is current on it.
    pub current: Option<Serial<Context>>,
    /// The allocation that this context saves into.
    pub saves: Vec<Serial<ContextAllocation>>,
    /// The part of a packet that its driver patched last, and its fence, until it starts.
    pub patched: Option<(Fence, u32, u32)>,
    /// Paging work that waits for one of its fences, because the driver reported it busy.
    pub paging_waits: Vec<(Fence, Serial<Paging>)>,
    /// Its adapter.
    pub adapter: Option<Serial<Adapter>>,
    /// Its paging commands.
    pub pages: PagingCommands,
}

/// The fences of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeFences {
    /// The last completed fence, once any was submitted.
    pub last_done: Option<Fence>,
    /// The submitted and not completed fences, in order.
    pub submitted: VecDeque<Fence>,
}

impl Adapter {
    /// How many bytes of a kind applications may use: those of the segments for applications, or of
    /// all if there are none.
    pub fn budget_bytes(&self, local: bool) -> u64 {
        let [targets, all] = self.bytes[usize::from(local)];
        let any = self.bytes.iter().any(|values| values[0] > 0);
        if any { targets } else { all }
    }
}

impl NodeFences {
    /// Whether a report of that fence is in order.
    pub fn is_in_order(&self, fence: Fence) -> bool {
        self.submitted.contains(&fence)
    }

    /// The last submitted fence.
    pub fn last_submitted(&self) -> Option<Fence> {
        self.submitted.back().copied().or(self.last_done)
    }

    pub(crate) fn submit(&mut self, fence: Fence) {
        self.last_done.get_or_insert(fence.previous());
        self.submitted.push_back(fence);
    }

    /// A fence completes all before it; a fence that was not submitted changes nothing.
    pub(crate) fn report(&mut self, fence: Fence) {
        if let Some(at) = self.submitted.iter().position(|it| *it == fence) {
            self.submitted.drain(..=at);
            self.last_done = Some(fence);
        }
    }

    /// Removes what was submitted after a fence.
    pub(crate) fn preempt(&mut self, last: Fence) {
        // Fences wrap, so distances are compared and never values.
        while self.submitted.back().is_some_and(|fence| !last.covers(*fence)) {
            self.submitted.pop_back();
        }
    }

    /// Completes everything up to a fence, and removes the rest.
    pub(crate) fn reset(&mut self, aborted: Fence) {
        self.submitted.clear();
        self.last_done = Some(aborted);
    }
}
