//! What is remembered of memory: segments, what is in them, and the work that moves it.

use super::address::Mapping;
use super::{Adapter, Context, Device, DriverPointer, Node, Serial};
use flight::{Hex, Subject, Text};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Of a segment.
#[derive(Debug)]
pub struct Segment {
    /// Where it begins in the GPU's addresses.
    pub base: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Whether it has no memory of its own.
    pub aperture: bool,
    /// What has been built to be in it: by its address, where it ends and what it is.
    pub contents: BTreeMap<u64, (u64, Subject)>,
    /// The entries of page tables that lead to it.
    pub mappings: Vec<Mapping>,
}

/// Of the memory of an allocation, a client's or one for contexts.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Memory {
    /// What its driver says of it.
    pub requirements: MemoryRequirements,
    /// The place it was given.
    pub location: Option<SegmentAddress>,
    /// The segment where paging work has brought it.
    pub segment: Option<Serial<Segment>>,
    /// Whether it is mapped into an aperture.
    pub mapped: bool,
    /// What its driver was told of it since it came.
    pub notice: ResidencyNotice,
    /// Whether the system's memory has its bytes as they were when it came.
    pub backed: bool,
    /// Whether a client said that the GPU has not written to it since it came.
    pub not_written: bool,
    /// Whether another let go of it and did not say so.
    pub written: bool,
    /// How many devices list it as what must be resident.
    pub resident_devices: u32,
    /// Whether the last to let go of it would leave it there until the memory is needed.
    pub evict_if_necessary: bool,
    /// Its offer, while there is one.
    pub offer: Option<Offer>,
    /// Whether the last lock asked for may not have it moved.
    pub do_not_evict: bool,
    /// How often it is locked.
    pub locks: u32,
    /// Whether it was not in a segment when it was locked.
    pub outside: bool,
    /// Whether paging work has brought it to a memory segment.
    pub local: bool,
    /// Whether the CPU's view of it is aimed there.
    pub cpu_view_current: bool,
    /// Whether it was taken back, and its pages are to be mapped into an aperture for that.
    pub reclaimed: bool,
    /// How many bytes it has.
    pub bytes: u64,
}

/// What a driver was told of an allocation since it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidencyNotice {
    /// Nothing.
    #[default]
    None,
    /// That it has come.
    Resident,
    /// That it leaves.
    Evicted,
}

/// What a driver says of an allocation's memory.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct MemoryRequirements {
    /// The CPU may lock it.
    pub cpu_visible: bool,
    /// The CPU's view is cached.
    pub cached: bool,
    /// It never moves.
    pub pinned: bool,
    /// The driver is told when it comes and goes.
    pub notified: bool,
    /// It can be in an aperture.
    pub mappable: bool,
}

/// A place in a segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentAddress {
    /// The segment.
    pub segment: Serial<Segment>,
    /// Where in the GPU's addresses.
    pub address: u64,
}

/// An offer that was not taken back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// The work before it is done.
    pub ready: bool,
    /// Its bytes were thrown away.
    pub discarded: bool,
}

/// Of paging work.
#[derive(Debug)]
pub struct Paging {
    /// The adapter.
    pub adapter: Serial<Adapter>,
    /// The operation that is built in part.
    pub open: Option<PartialOperation>,
    /// How many nodes have work to pass before that operation is built again, since the driver
    /// said that its allocation is busy.
    pub waits: u32,
}

/// An operation that a driver has written in part.
#[derive(Debug)]
pub struct PartialOperation {
    /// Its name.
    pub operation: Text,
    /// The allocation.
    pub of: Subject,
    /// The last buffer it was written to.
    pub pass: u32,
    /// The driver said that its allocation is busy.
    pub busy: bool,
}

/// Of a queue of paging work.
#[derive(Debug)]
pub struct PagingQueue {
    /// Who waits for it.
    pub waits: super::sync::WaitList,
    /// Its device.
    pub device: Serial<Device>,
    /// The last value that work of it will signal.
    pub last_assigned: u64,
    /// The last one signalled.
    pub signalled: u64,
    /// How many views were counted for it since it was last asked for residency.
    pub counted: u32,
    /// How many of its names, its own and its fence's, are open.
    pub handles: u32,
}

/// Of an allocation that a driver made for its contexts.
#[derive(Debug)]
pub struct ContextAllocation {
    /// The device it is for.
    pub device: Serial<Device>,
    /// The context, unless it is for all of the device.
    pub context: Option<Serial<Context>>,
    /// The driver's word for it.
    pub driver_handle: Serial<DriverPointer>,
    /// Its memory.
    pub memory: Memory,
    /// Whether it was given its first bytes.
    pub initialised: bool,
    /// Whether it is where an engine can save into it.
    pub ready: bool,
    /// The digest of what its driver gave to bring it up to date, until that is done.
    pub updating: Option<Hex>,
    /// Whether it counts for its owner: not any more when its name is gone.
    pub counts: bool,
    /// The nodes on which a context is current that saves into it.
    pub on: SmallVec<[Serial<Node>; 2]>,
}

/// What an owner has of such allocations.
#[derive(Debug, Default)]
pub struct ContextAllocationList {
    /// The allocations.
    pub all: SmallVec<[Serial<ContextAllocation>; 1]>,
    /// How many of them are not where an engine can save into them.
    pub unready: u32,
    /// How many of them were never given bytes.
    pub uninitialised: u32,
}

impl Memory {
    /// Whether paging work has brought it to where it should be.
    pub fn is_resident(&self) -> bool {
        self.location.is_some_and(|it| self.segment == Some(it.segment))
    }
}

impl Segment {
    /// What is in the way of so many bytes at an address.
    pub fn overlapping(&self, of: Subject, address: u64, bytes: u64) -> Option<Subject> {
        let end = address.saturating_add(bytes);
        let before = self.contents.range(..end).next_back();
        before.filter(|(_, (to, it))| *to > address && *it != of).map(|(_, (_, it))| *it)
    }

    /// Whether an address is in it.
    pub fn has(&self, address: u64) -> bool {
        address >= self.base && address - self.base < self.size
    }
}
