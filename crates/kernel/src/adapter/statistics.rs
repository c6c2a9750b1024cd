//! What is counted of an adapter, for `D3DKMTQueryStatistics`: what exists is counted when a client
//! asks, what is over when it ends.

use crate::adapter::start::{Adapter, AdapterId};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::objects::allocation::AllocationCount;
use crate::schedule::dispatch::PacketCounts;
use crate::state::KernelState;

/// The allocations of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// All that were ever created.
    pub created: AllocationCount,
    /// Those that were destroyed.
    pub destroyed: AllocationCount,
}

/// The packets of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Of the contexts of clients.
    pub packets: PacketCounts,
    /// Paging commands that were submitted.
    pub paging_submitted: u64,
    /// Paging commands that were completed.
    pub paging_completed: u64,
}

impl Kernel {
    /// The allocations that were created and destroyed on an adapter.
    pub fn allocation_counts(&self, adapter: AdapterId) -> AllocationCounts {
        let state = self.state.lock();
        let Some(it) = state.adapters.get(adapter.0) else { return AllocationCounts::default() };
        let (destroyed, mut created) = (it.destroyed, it.destroyed);
        let live = state.allocations.iter().map(|(_, allocation)| allocation);
        live.filter(|live| live.adapter == adapter.0).for_each(|live| created.count_one(live.size));
        AllocationCounts { created, destroyed }
    }

    /// The packets of all contexts of a node, and its paging commands.
    pub fn node_counts(&self, adapter: AdapterId, node: u32) -> NodeCounts {
        let state = self.state.lock();
        let nodes = state.adapters.get(adapter.0).map(|adapter| adapter.nodes.as_slice());
        let it = nodes.and_then(|nodes| nodes.get(node as usize));
        let Some(it) = it else { return NodeCounts::default() };
        let mut packets = it.ended_packets;
        state.add_live_packets(&mut packets, adapter.0, node, |_| true);
        let (paging_submitted, paging_completed) = (it.paging_submitted, it.paging_completed);
        NodeCounts { packets, paging_submitted, paging_completed }
    }

    /// The packets of a process on a node.
    pub fn process_packet_counts(
        &self,
        adapter: AdapterId,
        node: u32,
        of: ProcessId,
    ) -> PacketCounts {
        let state = self.state.lock();
        let Some(process) = state.processes.get(of.0) else { return PacketCounts::default() };
        let ended = process.ended_packets.iter();
        let mut ended = ended.filter(|entry| (entry.0, entry.1) == (adapter.0, node as usize));
        let mut packets = ended.next().map(|entry| entry.2).unwrap_or_default();
        state
            .add_live_packets(&mut packets, adapter.0, node, |device| device.process == Some(of.0));
        packets
    }
}

impl KernelState {
    /// Adds the packets of the contexts of a node that exist.
    fn add_live_packets(
        &self,
        packets: &mut PacketCounts,
        adapter: Id<Adapter>,
        node: u32,
        counts: impl Fn(&Device) -> bool,
    ) {
        for (_, context) in self.contexts.iter().filter(|(_, it)| it.node == node as usize) {
            let device = &self.devices[context.device];
            if device.adapter == adapter && counts(device) {
                packets.add(context.queue.counts());
            }
        }
    }
}
