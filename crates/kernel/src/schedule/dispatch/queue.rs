//! The queue of a context: its items, and what is at its front.

use crate::base::id_list::Id;
use crate::schedule::render::RenderPacket;
use crate::schedule::submit::SubmittedCommands;
use crate::sync::SyncPoints;
use crate::sync::waits::SyncPoint;
use std::collections::VecDeque;

/// The unfinished items of a context.
#[derive(Default)]
pub(crate) struct ContextQueue {
    /// Items that are not submitted, in order.
    pub(super) pending: VecDeque<QueueItem>,
    /// Items that are submitted and not done, in order.
    pub(super) submitted: VecDeque<QueueItem>,
    /// Number of packets ever queued.
    pub(crate) queued: u64,
    /// Number of packets that are over.
    pub(crate) done: u64,
    /// Number of submissions to the driver.
    pub(super) sent: u64,
    /// Number of packets that the node completed.
    pub(super) completed: u64,
    /// The context is in the list of runnable contexts.
    pub(super) runnable: bool,
    /// Scheduling priority; higher values run first.
    pub(crate) priority: i32,
    /// Priority among the contexts of the process, which has no effect.
    pub(super) in_process_priority: i32,
    /// Number of packets that will never be submitted and whose driver is not yet notified.
    pub(super) cancelling: u32,
}

/// Packets of a context or of several, since they were created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Queued by clients.
    pub queued: u64,
    /// Submitted to the driver. A packet that is preempted is submitted again.
    pub submitted: u64,
    /// Completed by the node.
    pub completed: u64,
}

impl PacketCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.queued += other.queued;
        self.submitted += other.submitted;
        self.completed += other.completed;
    }
}

/// One item of a queue.
pub(crate) enum QueueItem {
    Packet(u64, PacketPayload),
    Wait(SyncPoints),
    Signal(SyncPoints),
}

/// The contents of a packet.
#[derive(Clone)]
pub(crate) enum PacketPayload {
    /// Commands at GPU virtual addresses.
    Virtual(SubmittedCommands),
    /// Commands with lists.
    Render(Id<RenderPacket>),
}

impl ContextQueue {
    /// The packets of this context.
    pub(crate) fn counts(&self) -> PacketCounts {
        PacketCounts { queued: self.queued, submitted: self.sent, completed: self.completed }
    }

    /// A packet that counts as over was not completed: its device is lost.
    pub(crate) fn uncount_completed(&mut self) {
        self.completed -= 1;
    }

    /// Whether no item is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.submitted.is_empty() && self.cancelling == 0
    }

    /// Whether an item is not submitted yet.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn has_packet_first(&self) -> bool {
        self.first_packet().is_some()
    }

    /// The packet at the front, if there is one.
    #[inline]
    pub(super) fn first_packet(&self) -> Option<&PacketPayload> {
        self.pending.front().and_then(QueueItem::payload)
    }

    /// The submitted packet without lists at this index.
    pub(crate) fn submitted_packet(&self, place: usize) -> Option<&SubmittedCommands> {
        match self.submitted.iter().filter_map(QueueItem::payload).nth(place)? {
            PacketPayload::Virtual(it) => Some(it),
            PacketPayload::Render(_) => None,
        }
    }

    /// The wait at the front, if nothing before it is left to be done.
    pub(crate) fn blocking_wait(&self) -> Option<&SyncPoints> {
        let free = self.submitted.is_empty() && self.cancelling == 0;
        self.first_wait().filter(|_| free)
    }

    /// The waits that a packet which is not submitted is behind.
    pub(crate) fn waits_before(&self, packet: u64) -> impl Iterator<Item = &SyncPoints> {
        let is_packet =
            |item: &QueueItem| matches!(item, QueueItem::Packet(number, _) if *number == packet);
        let before = self.pending.iter().position(is_packet).unwrap_or(0);
        self.pending.iter().take(before).filter_map(|item| match item {
            QueueItem::Wait(points) => Some(points),
            QueueItem::Packet(..) | QueueItem::Signal(_) => None,
        })
    }

    /// Whether a signal of this object is queued.
    pub(crate) fn has_signal(&self, point: SyncPoint) -> bool {
        let signals = |item: &QueueItem| match item {
            QueueItem::Signal(points) => points.contains(point),
            QueueItem::Packet(..) | QueueItem::Wait(_) => false,
        };
        self.pending.iter().chain(&self.submitted).any(signals)
    }

    /// The wait at the front, if there is one.
    pub(crate) fn first_wait(&self) -> Option<&SyncPoints> {
        match self.pending.front() {
            Some(QueueItem::Wait(it)) => Some(it),
            _ => None,
        }
    }
}

impl QueueItem {
    /// The contents, if it is a packet.
    #[inline]
    fn payload(&self) -> Option<&PacketPayload> {
        match self {
            QueueItem::Packet(_, payload) => Some(payload),
            QueueItem::Wait(_) | QueueItem::Signal(_) => None,
        }
    }
}

impl PacketPayload {
    /// The packet with lists, if it is one.
    #[inline]
    pub(super) fn render_packet(&self) -> Option<Id<RenderPacket>> {
        match self {
            PacketPayload::Virtual(_) => None,
            PacketPayload::Render(packet) => Some(*packet),
        }
    }
}
