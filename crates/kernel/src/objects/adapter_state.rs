//! Queries about the state of an adapter: whether it runs, the progress of its nodes, and its
//! memory.

use crate::adapter::start::{Adapter, AdapterState};
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::Memory;
use crate::schedule::report::{InFlightPacket, Node, QueuePoint};
use crate::state::KernelState;
use flight::invariant;
use std::sync::Arc;

impl Adapter {
    /// Whether its driver can be called.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.state == AdapterState::Running && !self.fatal
    }

    /// The driver, if the adapter accepts work.
    pub(crate) fn running_driver(&self) -> Option<Arc<Driver>> {
        (self.is_running() && !self.fatal).then(|| self.driver.clone())
    }
}

impl KernelState {
    /// The memory of an adapter; `None` if its driver describes none.
    #[inline]
    pub(crate) fn adapter_memory(&self, adapter: Id<Adapter>) -> Option<&Memory> {
        self.adapters.get(adapter)?.memory.as_ref()
    }

    /// The queued work of a device that is not done.
    #[inline]
    pub(crate) fn outstanding_work(&self, device: Id<Device>) -> Vec<QueuePoint> {
        let it = &self.devices[device];
        let waits = |context: &Id<Context>| {
            Some(QueuePoint::Context(*context, self.contexts.get(*context)?.queue.queued))
        };
        it.busy.iter().filter_map(waits).collect()
    }

    /// Whether work is done.
    pub(crate) fn is_work_done(&self, adapter: Id<Adapter>, work: QueuePoint) -> bool {
        match work {
            QueuePoint::Context(context, packet) => {
                self.contexts.get(context).is_none_or(|context| context.queue.done >= packet)
            }
            QueuePoint::Node(node, fence) => {
                let nodes = self.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
                // A stopped adapter has no nodes: its work is done or lost.
                let Some(it) = nodes.unwrap_or_default().get(node) else { return true };
                it.passed.covers(fence)
                    || it.queue.iter().all(|in_flight_packet| in_flight_packet.fence != fence)
            }
        }
    }

    /// Whether the context is current on a node, or is about to be.
    pub(crate) fn is_current(&self, adapter: Id<Adapter>, context: Id<Context>) -> bool {
        let nodes =
            self.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice()).unwrap_or_default();
        nodes.iter().any(|node| node.may_save(|other, _| other == context))
            || self
                .contexts
                .get(context)
                .is_some_and(|context| context.in_flight > 0 || context.active_calls > 0)
    }
}

impl Node {
    /// Whether a matching context is current on this node, or may become current without having
    /// work.
    pub(crate) fn may_save(&self, mine: impl Fn(Id<Context>, Id<Device>) -> bool) -> bool {
        let lost = self.lost_packets.iter().filter_map(|in_flight_packet| in_flight_packet.of);
        let mut all = self.current.into_iter().chain(self.interrupted.iter().copied()).chain(lost);
        all.any(|(context, device)| mine(context, device))
    }

    /// Whether its oldest packet is a paging buffer that the driver has rejected.
    #[inline]
    pub(crate) fn has_rejected_first(&self) -> bool {
        let batch = self.queue.front().and_then(|packet| packet.batch.as_ref());
        batch.is_some_and(|batch| batch.refused)
    }

    /// Whether packets can be submitted to it now.
    pub(crate) fn accepts_packets(&self) -> bool {
        self.preemption.is_none() && self.resubmit.is_empty()
    }
}

impl InFlightPacket {
    /// Its context, if it is a client's packet.
    pub(crate) fn context(&self) -> Option<Id<Context>> {
        self.of.map(|(context, _)| context)
    }

    /// Its device, if it is a client's packet.
    pub(crate) fn device(&self) -> Option<Id<Device>> {
        self.of.map(|(_, device)| device)
    }

    /// The context and the device of a client's packet.
    pub(crate) fn client(&self) -> (Id<Context>, Id<Device>) {
        invariant(self.of, "a packet without paging work belongs to a context")
    }
}
