//! The packets that wait for a node or for their driver.

use crate::base::id_list::{Id, Slab};
use crate::lifetime::context::Context;
use crate::schedule::dispatch::PacketPayload;
use crate::schedule::render::RenderPacket;
use std::collections::VecDeque;

/// The state of this folder.
#[derive(Default)]
pub(crate) struct ScheduleState {
    /// Packets with lists that are not done.
    pub(crate) render_packets: Slab<RenderPacket>,
    /// Contexts with a packet at the front of their queue.
    pub(crate) runnable: Vec<Id<Context>>,
    /// Packets that will never be submitted, which drivers are to be notified of.
    pub(crate) cancelled: VecDeque<(Id<Context>, PacketPayload)>,
    /// A preemption waits for its permit.
    pub(crate) held_back: bool,
    /// Contexts that are being advanced, one after the other.
    pub(crate) advancing: Vec<Id<Context>>,
}
