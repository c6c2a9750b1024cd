//! Shadows of devices and contexts: what they own, and their work.

use super::address::PageTable;
use super::memory::ContextAllocationList;
use super::sync::{GpuWait, SyncObject};
use super::{Adapter, Process, Serial};
use flight::Text;
use std::collections::VecDeque;

/// Of a device: what it owns, and its work.
#[derive(Debug, Default)]
pub struct Device {
    /// Its process.
    pub process: Option<Serial<Process>>,
    /// Its adapter.
    pub adapter: Option<Serial<Adapter>>,
    /// Whether it is lost.
    pub lost: bool,
    /// The event that lost it.
    pub lost_at: u64,
    /// Why it is lost.
    pub why: Option<Text>,
    /// How many contexts it has.
    pub contexts: u32,
    /// How many views it has open.
    pub views: u32,
    /// How many views assumed not to be in use are not idle yet.
    pub hasty: u32,
    /// Its work that is not done, in the order it was queued.
    pub packets: VecDeque<Packet>,
    /// The context allocations for all its contexts.
    pub saves: ContextAllocationList,
    /// How many queues of paging work it has.
    pub queues: u32,
    /// Whether a residency request that had to succeed failed.
    pub failed: bool,
    /// The fences it could signal that are below their maximum.
    pub low: Vec<Serial<SyncObject>>,
    /// Whether paging of its memory was lost in a reset.
    pub hit: bool,
}

/// A packet that is not done.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The event that queued it.
    pub queued: u64,
    /// Its context.
    pub context: Serial<Context>,
    /// Its number there.
    pub packet: u64,
}

/// Of a context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub device: Serial<Device>,
    /// How many of its packets are not done.
    pub in_flight: u32,
    /// The context allocations for it.
    pub saves: ContextAllocationList,
    /// The buffer sizes that its driver requests for packets with lists, if it has them.
    pub buffer: Option<u32>,
    /// The last of its packets that was submitted.
    pub sent: u64,
    /// The wait at which its queue stops, and the last packet before it.
    pub gpu_wait: Option<(Serial<GpuWait>, u64)>,
    /// Whether its adapter translates addresses.
    pub translates: bool,
    /// The root of its addresses.
    pub root: Option<Serial<PageTable>>,
}
