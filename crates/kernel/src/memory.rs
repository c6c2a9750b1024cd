//! Video memory: the locations of allocations, and the paging work that moves their bytes.
//!
//! The kernel decides but touches no byte. Its decisions become paging work ([`page`]): the driver
//! writes the commands, the hardware executes them. With a memory observer, the kernel also writes
//! over bytes that an operation has to replace ([`unseen`]).
//!
//! # Invariants
//!
//! 1. An extent's `location` is its location after all paging work planned so far; `pending` counts
//!    the steps that are not done.
//! 2. Paging work of an adapter runs on one node, in the planned order. A range that an extent
//!    leaves can be reused at once: its bytes leave before others arrive.
//! 3. An extent is in its segment's `evictable` set if it is in the segment and may be evicted: no
//!    device lists it and no lock or running context holds it; or it is offered.
//! 4. An extent on the residency list of a device is evicted only if its client requests it.
//! 5. Paging work waits for packets, but for none that is behind a wait for a synchronization
//!    object: it would hold the adapter's later paging work, of all clients. An extent that such a
//!    packet may use stays where it is.

pub mod address;
pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod complete;
pub(crate) mod context_allocation;
pub(crate) mod cpu;
pub(crate) mod existing;
pub(crate) mod fault;
pub(crate) mod host_aperture;
pub(crate) mod instances;
pub(crate) mod offer;
pub(crate) mod page;
pub(crate) mod parts;
pub(crate) mod place;
pub(crate) mod pressure;
pub(crate) mod priority;
pub(crate) mod property;
pub(crate) mod queue;
pub(crate) mod reset;
pub(crate) mod residency;
pub(crate) mod segment_use;
pub(crate) mod state;
pub(crate) mod step_context;
pub(crate) mod unseen;

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::base::range::{PlacedRange, Ranges};
use crate::ddi::operation::PAGE;
use crate::ddi::segment::{
    MemoryFeatures, PagingFeatures, PlacementRequirements, SegmentFlags, SegmentInfo, SegmentSet,
};
use crate::kernel::Kernel;
use crate::memory::address::AddressSpace;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::instances::InstanceRecord;
use crate::memory::parts::Part;
use crate::memory::pressure::Pressure;
use crate::memory::queue::PagingQueue;
use crate::memory::unseen::why_unseen;
use crate::objects::allocation::Allocation;
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use flight::{EventKind, ExistingMemory, Fence, Kind, Passive, Ram, Run, Subject};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A large page.
const LARGE_PAGE: u64 = 64 << 10;

/// The value of [`Extent::settled`] of an extent whose place is not known for certain.
pub(crate) const NOT_IN_PLACE: u64 = u64::MAX;

/// The invariant of an extent's location: the segments of an adapter are fixed while it runs.
const LOCATION_HAS_SEGMENT: &str = "a location is in a segment of its adapter";

/// The memory of an adapter.
pub(crate) struct Memory {
    pub(crate) ram: Arc<dyn Ram>,
    pub(crate) segments: Vec<Segment>,
    /// The segments that are apertures.
    pub(crate) apertures: SegmentSet,
    /// The segments with pages of 64 KiB.
    pub(crate) large_page_segments: SegmentSet,
    /// The segments that the CPU cannot access at all.
    pub(crate) hidden_segments: SegmentSet,
    pub(crate) paging: PagingFeatures,
    /// Paging work that is not built yet, in order.
    pub(crate) planned: VecDeque<Id<Paging>>,
    /// A thread is building paging work.
    pub(crate) building: bool,
    /// Unused buffers.
    pub(crate) buffers: Vec<PagingBuffer>,
    /// The page that apertures map where nothing else is mapped.
    pub(crate) dummy: Option<Run>,
    /// Counts uses: the extent used longest ago has the lowest value.
    pub(crate) use_clock: u64,
    /// The artificial memory pressure, if any.
    pub(crate) pressure: Option<Pressure>,
    /// Buffers of completed packets that a node may still read, until the node has passed them.
    pub(crate) unfreed_buffers: Vec<(usize, Fence, Run)>,
    /// Addresses of allocations that were destroyed while locked. Nothing is mapped there.
    pub(crate) stale_mappings: VecDeque<usize>,
    /// The address translation, if the adapter has one.
    pub(crate) mmu: Option<address::Mmu>,
}

/// A segment of an adapter's memory.
pub(crate) struct Segment {
    /// Its subject in events.
    pub(crate) subject: Subject,
    pub(crate) info: SegmentInfo,
    pub(crate) ranges: Ranges,
    /// Maximum number of bytes in use.
    pub(crate) limit: u64,
    pub(crate) committed: u64,
    /// Number of bytes that were ever evicted.
    pub(crate) evicted: u64,
    /// The evictable extents, in the order of eviction.
    pub(crate) evictable: BTreeSet<EvictionRank>,
    /// Number of evictable bytes.
    pub(crate) evictable_bytes: u64,
}

/// The eviction order of an extent: offered extents first, then by priority, then by last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictionRank {
    pub(crate) not_offered: bool,
    pub(crate) priority: u32,
    pub(crate) used: u64,
    pub(crate) extent: Id<Extent>,
}

/// A buffer for paging commands.
pub(crate) struct PagingBuffer {
    pub(crate) run: Run,
    pub(crate) private: Vec<u8>,
}

/// The memory of one allocation, of a client or of a driver's contexts.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Extent {
    pub(crate) adapter: Id<Adapter>,
    /// The allocation, instance or page table that owns the memory.
    pub(crate) owner: Owner,
    /// The driver handle of the owner.
    pub(crate) driver_handle: usize,
    /// Size in bytes, in whole pages.
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
    pub(crate) requirements: PlacementRequirements,
    /// Its pages of system memory, if it has needed any.
    pub(crate) backing: Vec<Run>,
    /// The memory of a client that its pages are.
    pub(crate) existing: Option<Arc<dyn ExistingMemory>>,
    /// Discarded pages that the GPU can access until the pending steps are done.
    pub(crate) discarded_pages: Vec<Run>,
    pub(crate) location: Location,
    /// It has content that may be needed again.
    pub(crate) has_content: bool,
    /// Number of packets that list it, and of calls that are creating them.
    pub(crate) packet_references: u32,
    /// Number of planned steps that are not done.
    pub(crate) pending: u32,
    /// Number of pending steps that move or change its bytes.
    pub(crate) moving: u32,
    /// Number of devices that list it and of running contexts that hold it.
    pub(crate) holds: u32,
    /// Work from before its eviction that may use it.
    pub(crate) uses: Vec<QueuePoint>,
    pub(crate) priority: u32,
    /// When it was last used.
    pub(crate) last_used: u64,
    /// Its entry in its segment's `evictable` set.
    pub(crate) rank: Option<EvictionRank>,
    pub(crate) lock: Option<CpuLock>,
    pub(crate) offer: Option<Offer>,
    /// The GPU has not written to it since it became resident, according to the client that evicted
    /// it last.
    pub(crate) not_written: bool,
    /// A client evicted it without that promise.
    pub(crate) written: bool,
    /// Its bytes were copied from its system pages, and the CPU has not changed them since.
    pub(crate) copied: bool,
    /// Its memory is released when no step is pending.
    pub(crate) ending: bool,
    /// The number of packets that were submitted before its last step was done: later ones find it
    /// in place. [`NOT_IN_PLACE`] if a step was abandoned.
    pub(crate) settled: u64,
    /// The number of packets that were submitted before it last began to leave its place: paging
    /// work waits for them, so they still find it there.
    pub(crate) left: u64,
}

/// The owner of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Allocation(Id<Allocation>),
    /// An instance of an allocation.
    Instance(Id<InstanceRecord>),
    /// A context allocation of a driver.
    ContextAllocation(Id<ContextAllocation>),
    /// A page table, by its serial number.
    Table(u32),
}

impl Owner {
    /// The object as the subject of an event.
    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::Allocation(id) => id.subject(),
            Self::Instance(id) => id.subject(),
            Self::ContextAllocation(id) => id.subject(),
            Self::Table(serial) => Kind::PageTable.subject(serial),
        }
    }

    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table(_))
    }
}

/// The location of an extent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// It has no memory: it never had content, or the content was discarded.
    Unbacked,
    /// In system memory.
    System,
    /// In a segment.
    Segment {
        /// Index in the adapter's list of segments.
        segment: usize,
        range: PlacedRange,
    },
}

/// A CPU mapping of an extent.
#[derive(Debug)]
pub(crate) struct CpuLock {
    pub(crate) count: u32,
    /// The client's address.
    pub(crate) address: usize,
    /// The address is that of memory of the client, and no mapping.
    pub(crate) is_clients_own: bool,
    /// It was locked through an aperture.
    pub(crate) aperture: bool,
    /// It was locked at an alternate address.
    pub(crate) alternate: bool,
}

/// An offer: the content may be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) priority: u32,
    /// The work queued before the offer is done.
    pub(crate) ready: bool,
    pub(crate) discarded: bool,
}

impl Extent {
    pub(crate) fn new(
        adapter: Id<Adapter>,
        owner: Owner,
        driver_handle: usize,
        bytes: u64,
        alignment: u64,
        requirements: PlacementRequirements,
    ) -> Self {
        Self {
            adapter,
            owner,
            driver_handle,
            // An absurd size finds no location, and placing it fails.
            bytes: bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX / PAGE * PAGE),
            alignment: alignment.max(PAGE),
            requirements,
            backing: Vec::new(),
            existing: None,
            discarded_pages: Vec::new(),
            location: Location::Unbacked,
            has_content: false,
            packet_references: 0,
            pending: 0,
            moving: 0,
            holds: 0,
            uses: Vec::new(),
            priority: requirements.priority,
            last_used: 0,
            rank: None,
            lock: None,
            offer: None,
            not_written: false,
            written: false,
            copied: false,
            ending: false,
            settled: 0,
            left: 0,
        }
    }

    /// Records work that may use the extent. Keeps only the last work of each context.
    pub(crate) fn add_uses(&mut self, work: Vec<QueuePoint>) {
        for work in work {
            let same = |queue_point: &&mut QueuePoint| match (**queue_point, work) {
                (QueuePoint::Context(one, _), QueuePoint::Context(other, _)) => one == other,
                (QueuePoint::Node(one, _), QueuePoint::Node(other, _)) => one == other,
                _ => false,
            };
            match self.uses.iter_mut().find(same) {
                // Work that is queued later completes later.
                Some(it) => *it = work,
                None => self.uses.push(work),
            }
        }
    }

    /// The segment it is in, by index in the adapter's list.
    pub(crate) fn segment(&self) -> Option<usize> {
        match self.location {
            Location::Segment { segment, .. } => Some(segment),
            Location::Unbacked | Location::System => None,
        }
    }
}

impl Memory {
    /// The segment with this driver number.
    pub(crate) fn segment_numbered(&self, number: u32) -> Option<&Segment> {
        self.segments.get(segment_index(number)?)
    }

    /// The GPU address of an extent.
    pub(crate) fn address(&self, extent: &Extent) -> Option<u64> {
        match &extent.location {
            Location::Segment { segment, range } => {
                Some(self.segments.get(*segment)?.info.base + range.start())
            }
            Location::Unbacked | Location::System => None,
        }
    }
}

impl Kernel {
    /// Records the memory of an adapter.
    pub(crate) fn add_memory(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        features: MemoryFeatures,
        ram: Arc<dyn Ram>,
    ) {
        let (mut segments, mut pressure) = (Vec::new(), state.memory.pressure);
        // A flight may have no observer.
        let observed = self.observer.get().is_some();
        let modeled = state.adapters[adapter].driver.hardware.models_hardware();
        for (number, info) in (1..).zip(features.segments) {
            state.memory.last_segment += 1;
            let subject = Kind::Segment.subject(state.memory.last_segment);
            let (base, size, aperture) = (info.base, info.size, info.flags.aperture);
            let target = info.flags.application_target;
            self.log.emit(subject, || EventKind::SegmentFound {
                adapter: adapter.subject(),
                number,
                base,
                size,
                aperture,
                target,
            });
            let unseen = why_unseen(&info, &*ram).filter(|_| observed && !modeled);
            if let Some(why) = unseen {
                self.log.emit(subject, || EventKind::BytesNotSeen { number, why: why.into() });
            }
            let limit = pressure.as_mut().map(|pressure| pressure.limit(info.usable_bytes()));
            let limit = limit.unwrap_or(info.usable_bytes());
            let granule = if info.flags.large_pages { LARGE_PAGE } else { PAGE };
            let ranges = Ranges::new(size, granule);
            let idle = BTreeSet::new();
            let (committed, evictable_bytes) = (0, 0);
            let segment = Segment {
                subject,
                info,
                ranges,
                limit,
                evicted: 0,
                committed,
                evictable: idle,
                evictable_bytes,
            };
            segments.push(segment);
        }
        let dummy = ram.allocate(PAGE);
        let with = |is: fn(SegmentFlags) -> bool| {
            let numbered = (1..).zip(&segments).filter(|(_, segment)| is(segment.info.flags));
            SegmentSet::of(&numbered.map(|(number, _)| number).collect::<Vec<u32>>())
        };
        let memory = Memory {
            ram,
            apertures: with(|flags| flags.aperture),
            large_page_segments: with(|flags| flags.large_pages),
            hidden_segments: with(|flags| {
                !flags.aperture && !flags.cpu_visible && !flags.host_aperture
            }),
            segments,
            paging: features.paging,
            planned: VecDeque::new(),
            building: false,
            buffers: Vec::new(),
            dummy,
            use_clock: 0,
            pressure,
            unfreed_buffers: Vec::new(),
            stale_mappings: VecDeque::new(),
            mmu: None,
        };
        state.adapters[adapter].memory = Some(memory);
    }

    /// Waits until an adapter has no paging work. Abandons work that cannot end. Returns whether no
    /// work is left.
    pub(crate) fn drain_paging(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        let number = adapter;
        let over = |state: &KernelState| state.is_paging_idle(number);
        let what = |_: &KernelState| format!("the paging work of {adapter}");
        while !self.wait_until(at, adapter.subject(), what, over) {
            if !self.fail_paging(number) {
                return false; // The work was already abandoned once.
            }
        }
        true
    }

    /// Waits until an adapter's memory is empty, then releases the kernel's objects for it.
    pub(crate) fn end_memory(&self, at: &mut Passive, adapter: Id<Adapter>) {
        self.drain_paging(at, adapter);
        self.abandon_memory(adapter);
    }

    /// Releases the kernel's objects for an adapter's memory.
    pub(crate) fn abandon_memory(&self, number: Id<Adapter>) {
        let mut state = self.state.lock();
        if let Some(memory) = state.adapters[number].memory.as_mut() {
            let buffers = memory.buffers.drain(..).map(|paging_buffer| paging_buffer.run);
            let late = memory.unfreed_buffers.drain(..).map(|entry| entry.2);
            for run in buffers.chain(late).chain(memory.dummy.take()) {
                memory.ram.free(run);
            }
            for address in memory.stale_mappings.drain(..) {
                memory.ram.unmap(address);
            }
        }
    }
}

impl KernelState {
    /// Whether an adapter has no paging work: none planned, built or submitted.
    pub(crate) fn is_paging_idle(&self, adapter: Id<Adapter>) -> bool {
        let memory = self.adapter_memory(adapter);
        memory.is_none_or(|memory| memory.planned.is_empty() && !memory.building)
            && !self.memory.has_paging_work_of(adapter)
    }

    /// Whether an adapter's paging work waits for packets that are not done.
    pub(crate) fn pages_after_packets(&self, adapter: Id<Adapter>) -> bool {
        let open = |queue_point: &QueuePoint| {
            matches!(queue_point, QueuePoint::Context(..))
                && !self.is_work_done(adapter, *queue_point)
        };
        self.memory.pagings.iter().any(|(_, it)| it.adapter == adapter && it.waits.iter().any(open))
    }
}

/// The index, in an adapter's list, of the segment with this driver number.
pub(crate) fn segment_index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

/// The driver's number of a segment.
pub(crate) fn segment_number(segment: usize) -> u32 {
    u32::try_from(segment + 1).unwrap_or(u32::MAX)
}

/// Paging work: steps that are executed in order.
pub(crate) struct Paging {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) steps: VecDeque<PagingStep>,
    /// Work of nodes that must complete first.
    pub(crate) waits: Vec<QueuePoint>,
    /// Number of buffers that are submitted and not done.
    pub(crate) in_flight: u32,
    /// All its steps are built.
    pub(crate) built: bool,
    /// The queue that it signals when it is done, and the value.
    pub(crate) signals: Option<(Id<PagingQueue>, u64)>,
    /// A node that must not have a current context any more.
    pub(crate) switch: Option<usize>,
}

/// A step of paging work.
#[derive(Clone, Debug)]
pub(crate) struct PagingStep {
    pub(crate) extent: Id<Extent>,
    pub(crate) operation: PagingOperation,
    pub(crate) location: SegmentLocation,
    pub(crate) multipass: u32,
    /// Number of buffers it has used so far.
    pub(crate) passes: u32,
    /// No packet uses the extent.
    pub(crate) idle: bool,
    /// The part of the extent that it moves; `None` is all of it.
    pub(crate) part: Option<Part>,
}

/// The operation of a step, at a GPU address in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagingOperation {
    Fill,
    PageIn,
    PageOut,
    /// Moves the extent here from another location of its segment, at addresses of the system's
    /// space if it moves in parts.
    Relocate {
        from: u64,
    },
    /// The content is not needed, or system memory has a copy: the extent has not been written
    /// since it became resident.
    Discard {
        not_written: bool,
    },
    Map,
    Unmap,
    Init,
    Update(Arc<[u8]>),
    NotifyResident,
    NotifyEvicted,
    /// Writes entries of a page table.
    Table(Arc<address::step::TableWrite>),
    /// Flushes translations of an address space on behalf of these extents.
    Flush {
        space: Id<AddressSpace>,
        start: u64,
        end: u64,
        of: Vec<Id<Extent>>,
    },
}

/// The location of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentLocation {
    pub(crate) segment: usize,
    pub(crate) offset: u64,
}

/// The steps that a submitted buffer completes.
pub(crate) struct PagingBatch {
    pub(crate) paging: Id<Paging>,
    pub(crate) done: Vec<PagingStep>,
    pub(crate) buffer: Option<PagingBuffer>,
    /// Number of command bytes in the buffer.
    pub(crate) length: u32,
    pub(crate) switch: bool,
    /// The driver rejected it.
    pub(crate) refused: bool,
}
