//! Video memory: where the bytes of allocations are, and the work that moves them.
//!
//! The kernel decides; it touches no byte. Its decisions become paging work ([`page`]): the
//! driver writes commands for it, the hardware does them.
//!
//! # Invariants
//!
//! 1. An extent's `place` is where it will be when all paging work planned so far is done, and
//!    `pending` counts the steps that are not.
//! 2. Paging work of an adapter goes to one node, in the order of its plan. So a range that is
//!    left may be given to the next one at once: the bytes go before others come.
//! 3. An extent is in its segment's `idle` if it is there and may be moved out: no device lists
//!    it, no lock or running context holds it; or it is offered.
//! 4. What is on the list of a device is not moved out, but by its client's own will.

pub mod address;
pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod complete;
pub(crate) mod context_allocation;
pub(crate) mod cpu;
pub(crate) mod host_aperture;
pub(crate) mod instances;
pub(crate) mod offer;
pub(crate) mod page;
pub(crate) mod place;
pub(crate) mod pressure;
pub(crate) mod priority;
pub(crate) mod queue;
pub(crate) mod reset;
pub(crate) mod residency;
pub(crate) mod step_context;

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::base::range::{PlacedRange, Ranges};
use crate::ddi::operation::PAGE;
use crate::ddi::segment::{MemoryFeatures, PagingFeatures, PlacementRequirements, SegmentInfo};
use crate::kernel::Kernel;
use crate::memory::address::AddressSpace;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::instances::InstanceRecord;
use crate::memory::pressure::Pressure;
use crate::memory::queue::PagingQueue;
use crate::objects::allocation::Allocation;
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use flight::{EventKind, Fence, Kind, Passive, Ram, Run, Subject};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A large page.
const LARGE_PAGE: u64 = 64 << 10;

/// The memory of an adapter.
pub(crate) struct Memory {
    pub(crate) ram: Arc<dyn Ram>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) paging: PagingFeatures,
    /// Paging work that is not built yet, in order.
    pub(crate) planned: VecDeque<Id<Paging>>,
    /// Somebody is building.
    pub(crate) building: bool,
    /// Buffers nobody uses.
    pub(crate) buffers: Vec<PagingBuffer>,
    /// A page that apertures show where nothing is mapped.
    pub(crate) dummy: Option<Run>,
    /// Counts uses: what was used longest ago has the lowest.
    pub(crate) use_clock: u64,
    /// What is made hard, if anything.
    pub(crate) pressure: Option<Pressure>,
    /// Buffers of packets that are over, and that a node may still read: until it has passed
    /// them.
    pub(crate) unfreed_buffers: Vec<(usize, Fence, Run)>,
    /// Where clients saw what was destroyed while they had it locked: there is nothing any more.
    pub(crate) stale_mappings: VecDeque<usize>,
    /// How it translates addresses, if it does.
    pub(crate) mmu: Option<address::Mmu>,
}

/// A part of an adapter's memory.
pub(crate) struct Segment {
    /// Its number among all, for events.
    pub(crate) subject: Subject,
    pub(crate) info: SegmentInfo,
    pub(crate) ranges: Ranges,
    /// How many bytes of it may be in use.
    pub(crate) limit: u64,
    pub(crate) committed: u64,
    /// What may be moved out, the first to go first.
    pub(crate) evictable: BTreeSet<EvictionRank>,
    /// How many bytes that is.
    pub(crate) evictable_bytes: u64,
}

/// How soon an extent goes: those offered before others, then by what they are worth, then by
/// when they were last used.
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

/// The memory of one allocation, of a client's or of a driver's for its contexts.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Extent {
    pub(crate) adapter: Id<Adapter>,
    /// The allocation it is the memory of, or the instance of one.
    pub(crate) owner: Owner,
    /// The driver's word for that.
    pub(crate) driver_handle: usize,
    /// Whole pages.
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
    pub(crate) requirements: PlacementRequirements,
    /// Pages of the system's memory for it, once it needed some.
    pub(crate) backing: Vec<Run>,
    /// Pages that were thrown away, which the GPU sees until what is pending is done.
    pub(crate) discarded_pages: Vec<Run>,
    pub(crate) location: Location,
    /// It has bytes that somebody may want again.
    pub(crate) has_content: bool,
    /// Packets that list it, and calls that make such.
    pub(crate) packet_references: u32,
    /// Steps planned and not done.
    pub(crate) pending: u32,
    /// Those of them that move or change its bytes.
    pub(crate) moving: u32,
    /// How many devices list it, and contexts that may run hold it.
    pub(crate) holds: u32,
    /// Work that may use it, from before it was let go of.
    pub(crate) uses: Vec<QueuePoint>,
    pub(crate) priority: u32,
    /// When it was last used.
    pub(crate) last_used: u64,
    /// Where it is in its segment's `idle`.
    pub(crate) rank: Option<EvictionRank>,
    pub(crate) lock: Option<CpuLock>,
    pub(crate) offer: Option<Offer>,
    /// The GPU has not written to it since it came: told by the client that let go of it last.
    pub(crate) not_written: bool,
    /// A client let go of it that did not say so.
    pub(crate) written: bool,
    /// Its bytes came from its pages of the system's memory, and the CPU has not changed them
    /// where they are now.
    pub(crate) copied: bool,
    /// Its memory is to be given back as soon as no step is pending.
    pub(crate) ending: bool,
}

/// What an extent is the memory of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Allocation(Id<Allocation>),
    /// An instance of an allocation.
    Instance(Id<InstanceRecord>),
    /// A driver's allocation for its contexts.
    Saved(Id<ContextAllocation>),
    /// A page table, by its serial number.
    Table(u32),
}

impl Owner {
    /// The object as the subject of an event.
    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::Allocation(id) => id.subject(),
            Self::Instance(id) => id.subject(),
            Self::Saved(id) => id.subject(),
            Self::Table(serial) => Kind::PageTable.subject(serial),
        }
    }

    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table(_))
    }
}

/// Where an extent is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Nowhere: it never had bytes, or they were thrown away.
    Unbacked,
    /// In the system's memory.
    System,
    /// In a segment.
    Segment {
        /// Its place in the adapter's list of segments.
        segment: usize,
        range: PlacedRange,
    },
}

/// The CPU sees it.
#[derive(Debug)]
pub(crate) struct CpuLock {
    pub(crate) count: u32,
    /// Where, for clients.
    pub(crate) address: usize,
    /// By which kind of lock.
    pub(crate) aperture: bool,
    /// At an address of its own.
    pub(crate) alternate: bool,
}

/// It may be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) priority: u32,
    /// The work before the offer is done.
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
            driver_handle: driver_handle,
            // One of absurd size finds no place, and is refused there.
            bytes: bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX / PAGE * PAGE),
            alignment: alignment.max(PAGE),
            requirements: requirements,
            backing: Vec::new(),
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
        }
    }

    /// Work that may use it: of each context the last.
    pub(crate) fn add_uses(&mut self, work: Vec<QueuePoint>) {
        for work in work {
            let same = |queue_point: &&mut QueuePoint| match (**queue_point, work) {
                (QueuePoint::Context(one, _), QueuePoint::Context(other, _)) => one == other,
                (QueuePoint::Node(one, _), QueuePoint::Node(other, _)) => one == other,
                _ => false,
            };
            match self.uses.iter_mut().find(same) {
                // What is queued later is over later.
                Some(it) => *it = work,
                None => self.uses.push(work),
            }
        }
    }

    /// The segment it is in, by its place in the adapter's list.
    pub(crate) fn segment(&self) -> Option<usize> {
        match self.location {
            Location::Segment { segment, .. } => Some(segment),
            Location::Unbacked | Location::System => None,
        }
    }
}

impl Memory {
    /// The segment that has that number for its driver.
    pub(crate) fn segment_numbered(&self, number: u32) -> Option<&Segment> {
        self.segments.get(segment_index(number)?)
    }

    /// Where an extent is in the GPU's addresses.
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
    /// Enters the memory an adapter has.
    pub(crate) fn add_memory(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        features: MemoryFeatures,
        ram: Arc<dyn Ram>,
    ) {
        let (mut segments, mut pressure) = (Vec::new(), state.pressure);
        for (number, info) in (1..).zip(features.segments) {
            state.last_segment += 1;
            let subject = Kind::Segment.subject(state.last_segment);
            let (base, size, aperture) = (info.base, info.size, info.flags.aperture);
            let target = info.flags.application_target;
            let found = EventKind::SegmentFound {
                adapter: adapter.subject(),
                number,
                base,
                size,
                aperture,
                target,
            };
            self.log.emit(subject, found);
            let limit = pressure.as_mut().map(|pressure| pressure.limit(info.commit_limit));
            let limit = limit.unwrap_or(info.commit_limit);
            let granule = if info.flags.large_pages { LARGE_PAGE } else { PAGE };
            let ranges = Ranges::new(size, granule);
            let idle = BTreeSet::new();
            let (committed, evictable_bytes) = (0, 0);
            let segment = Segment {
                subject,
                info: info,
                ranges,
                limit,
                committed,
                evictable: idle,
                evictable_bytes,
            };
            segments.push(segment);
        }
        let dummy = ram.allocate(PAGE);
        let memory = Memory {
            ram,
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
        if let Some(it) = state.adapters.get_mut(adapter) {
            it.memory = Some(memory);
        }
    }

    /// Waits until an adapter has no paging work. What nothing could end is given up. Answers
    /// whether none is left.
    pub(crate) fn drain_paging(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        let number = adapter;
        let over = |state: &KernelState| state.is_paging_idle(number);
        let what = |_: &KernelState| format!("the paging work of {adapter}");
        while !self.wait_until(at, adapter.subject(), what, over) {
            if !self.fail_paging(number) {
                return false; // It was lost before, and that did not help: nothing more can.
            }
        }
        true
    }

    /// Waits until an adapter's memory is empty, then gives back what the kernel took for it.
    pub(crate) fn end_memory(&self, at: &mut Passive, adapter: Id<Adapter>) {
        self.drain_paging(at, adapter);
        self.abandon_memory(adapter);
    }

    /// Gives back what the kernel took for an adapter's memory.
    pub(crate) fn abandon_memory(&self, number: Id<Adapter>) {
        let mut state = self.state.lock();
        let memory = state.adapters.get_mut(number).and_then(|adapter| adapter.memory.as_mut());
        if let Some(memory) = memory {
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
    /// Whether an adapter has no paging work: none is planned, built or on its way.
    pub(crate) fn is_paging_idle(&self, adapter: Id<Adapter>) -> bool {
        let memory = self.memory(adapter).map(|pair| pair.1);
        memory.is_none_or(|memory| memory.planned.is_empty() && !memory.building)
            && self.pagings.iter().all(|(_, it)| it.adapter != adapter)
    }

    /// Whether paging work of an adapter waits for packets that are not over.
    pub(crate) fn pages_after_packets(&self, adapter: Id<Adapter>) -> bool {
        let open = |queue_point: &QueuePoint| {
            matches!(queue_point, QueuePoint::Context(..))
                && !self.is_work_done(adapter, *queue_point)
        };
        self.pagings.iter().any(|(_, it)| it.adapter == adapter && it.waits.iter().any(open))
    }
}

/// The place, in an adapter's list, of the segment that has that number for its driver.
pub(crate) fn segment_index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

/// The driver's number of a segment.
pub(crate) fn segment_number(segment: usize) -> u32 {
    u32::try_from(segment + 1).unwrap_or(u32::MAX)
}

/// Paging work: steps that are done in order.
pub(crate) struct Paging {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) steps: VecDeque<PagingStep>,
    /// Work of nodes that has to pass first.
    pub(crate) waits: Vec<QueuePoint>,
    /// Buffers that were submitted and are not done.
    pub(crate) in_flight: u32,
    /// All its steps are built.
    pub(crate) built: bool,
    /// The queue it signals when it is done, and with what.
    pub(crate) signals: Option<(Id<PagingQueue>, u64)>,
    /// A node on which no context is to be current any more.
    pub(crate) switch: Option<usize>,
}

/// A step of paging work.
#[derive(Debug)]
pub(crate) struct PagingStep {
    pub(crate) extent: Id<Extent>,
    pub(crate) operation: PagingOperation,
    pub(crate) location: SegmentLocation,
    pub(crate) multipass: u32,
    /// Buffers it took so far.
    pub(crate) passes: u32,
    /// No packet uses the extent.
    pub(crate) idle: bool,
}

/// What a step does, at an address of the GPU's in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagingOperation {
    Fill,
    PageIn,
    PageOut,
    /// To here, from another place of its segment: all of it, or a part at addresses of the
    /// system's space, by where it begins and how many bytes it has.
    Relocate {
        from: u64,
        part: Option<(u64, u64)>,
    },
    /// Its bytes are of no use, or the system's memory has them: nobody has written to it since
    /// it came.
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
    /// Has translations of a space forgotten, on behalf of these extents.
    Flush {
        space: Id<AddressSpace>,
        start: u64,
        end: u64,
        of: Vec<Id<Extent>>,
    },
}

/// Where a step takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentLocation {
    pub(crate) segment: usize,
    pub(crate) offset: u64,
}

/// The steps that a submitted buffer ends.
pub(crate) struct PagingBatch {
    pub(crate) paging: Id<Paging>,
    pub(crate) done: Vec<PagingStep>,
    pub(crate) buffer: Option<PagingBuffer>,
    /// How many bytes of commands are in it.
    pub(crate) length: u32,
    pub(crate) switch: bool,
    /// The driver did not take it.
    pub(crate) refused: bool,
}
