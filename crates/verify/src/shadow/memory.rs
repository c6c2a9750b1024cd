//! Shadows of memory: segments, their content, and the work that moves it.

use super::address::Mapping;
use super::rare::Usual;
use super::{Adapter, Context, Device, DriverPointer, Node, Serial};
use flight::{Hex, Subject, Text};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Of a segment.
#[derive(Debug)]
pub struct Segment {
    /// Its base in the GPU's address space.
    pub base: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Whether it is an aperture, without memory of its own.
    pub aperture: bool,
    /// What paging operations have placed in it: by address, the end and the object.
    pub contents: BTreeMap<u64, (u64, Subject)>,
    /// The entries of page tables that lead to it.
    pub mappings: Vec<Mapping>,
}

/// The memory of an allocation or a context allocation.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Memory {
    /// The driver's requirements.
    pub requirements: MemoryRequirements,
    /// The assigned location.
    pub location: Option<SegmentAddress>,
    /// The segment where paging work has brought it.
    pub segment: Option<Serial<Segment>>,
    /// Whether it is mapped into an aperture.
    pub mapped: bool,
    /// The residency notifications to its driver.
    pub notice: ResidencyNotice,
    /// Whether system memory has its current bytes.
    pub backed: bool,
    /// Whether a client promised that the GPU has not written to it since it became resident.
    pub not_written: bool,
    /// Whether another client evicted it without that promise.
    pub written: bool,
    /// How many devices list it as resident.
    pub resident_devices: u32,
    /// Whether the last eviction may leave it there until the memory is needed.
    pub evict_if_necessary: bool,
    /// Its offer, while there is one.
    pub offer: Option<Offer>,
    /// Whether the last requested lock forbids moving it.
    pub do_not_evict: bool,
    /// How often it is locked.
    pub locks: u32,
    /// Whether it was not in a segment when it was locked.
    pub outside: bool,
    /// Whether paging work has brought it to a memory segment.
    pub local: bool,
    /// Whether the CPU's mapping points there.
    pub cpu_view_current: bool,
    /// Whether it was reclaimed, and its pages are to be mapped into an aperture.
    pub reclaimed: bool,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many instances of it its driver allows, if it reports that.
    pub instance_limit: Option<u32>,
}

impl Memory {
    const UNUSED: Self = Self {
        requirements: MemoryRequirements {
            cpu_visible: false,
            cached: false,
            pinned: false,
            notified: false,
            mappable: false,
        },
        location: None,
        segment: None,
        mapped: false,
        notice: ResidencyNotice::None,
        backed: false,
        not_written: false,
        written: false,
        resident_devices: 0,
        evict_if_necessary: false,
        offer: None,
        do_not_evict: false,
        locks: 0,
        outside: false,
        local: false,
        cpu_view_current: false,
        reclaimed: false,
        bytes: 0,
        instance_limit: None,
    };
}

impl Usual for Memory {
    const USUAL: &'static Self = &Self::UNUSED;

    fn usual() -> Self {
        Self::UNUSED
    }
}

/// The last residency notification to a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidencyNotice {
    /// Nothing.
    #[default]
    None,
    /// It became resident.
    Resident,
    /// It is evicted.
    Evicted,
}

/// The driver's requirements for an allocation's memory.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct MemoryRequirements {
    /// The CPU may lock it.
    pub cpu_visible: bool,
    /// The CPU's view is cached.
    pub cached: bool,
    /// It never moves.
    pub pinned: bool,
    /// The driver is notified when it becomes resident or is evicted.
    pub notified: bool,
    /// It can be in an aperture.
    pub mappable: bool,
}

/// A location in a segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentAddress {
    /// The segment.
    pub segment: Serial<Segment>,
    /// The GPU address.
    pub address: u64,
}

/// An offer that was not reclaimed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// The work before it is done.
    pub ready: bool,
    /// Its bytes were discarded.
    pub discarded: bool,
}

/// Of paging work.
#[derive(Debug)]
pub struct Paging {
    /// The adapter.
    pub adapter: Serial<Adapter>,
    /// The operation that is partly built.
    pub open: Option<PartialOperation>,
    /// How many nodes must complete work before that operation is built again, because the driver
    /// reported its allocation busy.
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
    /// The driver reported its allocation busy.
    pub busy: bool,
}

/// Of a queue of paging work.
#[derive(Debug)]
pub struct PagingQueue {
    /// The waits for it.
    pub waits: super::sync::WaitList,
    /// Its device.
    pub device: Serial<Device>,
    /// The last value that its work will signal.
    pub last_assigned: u64,
    /// The last one signalled.
    pub signalled: u64,
    /// How many views were counted for it since its last residency request.
    pub counted: u32,
    /// How many of its handles, its own and its fence's, are open.
    pub handles: u32,
}

/// A context allocation.
#[derive(Debug)]
pub struct ContextAllocation {
    /// The device it is for.
    pub device: Serial<Device>,
    /// The context, unless it is for all of the device.
    pub context: Option<Serial<Context>>,
    /// The driver handle.
    pub driver_handle: Serial<DriverPointer>,
    /// Its memory.
    pub memory: Memory,
    /// Whether its first bytes were written.
    pub initialised: bool,
    /// Whether it is resident where an engine can save into it.
    pub ready: bool,
    /// The digest of the driver's update data, until the update is done.
    pub updating: Option<Hex>,
    /// Whether it counts for its owner: not after its handle is closed.
    pub counts: bool,
    /// The nodes on which a context is current that saves into it.
    pub on: SmallVec<[Serial<Node>; 2]>,
}

/// The context allocations of an owner.
#[derive(Debug, Default)]
pub struct ContextAllocationList {
    /// The allocations.
    pub all: SmallVec<[Serial<ContextAllocation>; 1]>,
    /// How many of them are not where an engine can save into them.
    pub unready: u32,
    /// How many of them never got their first bytes.
    pub uninitialised: u32,
}

impl Memory {
    /// Whether paging work has brought it to its assigned location.
    pub fn is_resident(&self) -> bool {
        self.location.is_some_and(|it| self.segment == Some(it.segment))
    }
}

impl Segment {
    /// The object that overlaps this range.
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
