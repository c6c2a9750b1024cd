//! The state of this folder: contexts whose packets can go to a node, and packets that ended early.
//!
//! # Invariants
//!
//! 1. A context is in `runnable` at most once, and its queue records that it is. It may be there
//!    without a packet at the front of its queue; the next submission removes it then.
//! 2. `advancing` is empty unless `Kernel::advance` runs. A nested call only adds its context to
//!    the list, and the outer call advances it.
//! 3. A packet in `cancelled` has left its context's queue, and its driver has not been notified.

use crate::base::id_list::{Id, Slab};
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::objects::view::View;
use crate::schedule::dispatch::PacketPayload;
use crate::schedule::render::RenderPacket;
use crate::schedule::report::InFlightPacket;
use flight::Subject;
use std::collections::VecDeque;

/// Scheduling, of all adapters.
#[derive(Default)]
pub(crate) struct ScheduleState {
    /// The number of packets of clients that were submitted to nodes.
    pub(crate) packets_sent: u64,
    /// Packets with lists that are not done.
    pub(super) render_packets: Slab<RenderPacket>,
    /// Contexts with a packet at the front of their queue.
    pub(super) runnable: Vec<Id<Context>>,
    /// Packets that will never be submitted, which drivers are to be notified of.
    pub(super) cancelled: VecDeque<(Id<Context>, PacketPayload)>,
    /// A context was once given a priority. Until then all are equal.
    pub(super) has_priorities: bool,
    /// A preemption waits for its permit.
    pub(super) held_back: bool,
    /// The views that running calls of `D3DKMTRender` list, once per entry.
    listed_views: Vec<Id<View>>,
    /// Contexts that are being advanced, one after the other.
    pub(super) advancing: Vec<Id<Context>>,
    /// Empty, with room for the packets that one DPC completes, each with its node.
    pub(super) completed: Vec<(Subject, InFlightPacket)>,
    /// Empty, with room for their devices.
    pub(super) completed_devices: Vec<Id<Device>>,
}

impl ScheduleState {
    /// Whether a context may have a packet to submit.
    pub(crate) fn has_runnable_context(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// Whether a running call lists views.
    #[inline]
    pub(crate) fn is_listing(&self) -> bool {
        !self.listed_views.is_empty()
    }

    /// Whether a running call lists a view.
    pub(crate) fn is_listed(&self, view: Id<View>) -> bool {
        self.listed_views.contains(&view)
    }

    /// A call lists these views.
    pub(super) fn begin_listing(&mut self, views: impl Iterator<Item = Id<View>>) {
        self.listed_views.extend(views);
    }

    /// The call that listed a view is over.
    pub(super) fn end_listing(&mut self, view: Id<View>) {
        if let Some(place) = self.listed_views.iter().position(|listed| *listed == view) {
            self.listed_views.swap_remove(place);
        }
    }

    /// Whether a worker may have packets to submit or to cancel, or nodes to preempt.
    pub(crate) fn has_work(&self) -> bool {
        self.has_runnable_context() || !self.cancelled.is_empty() || self.held_back
    }
}
