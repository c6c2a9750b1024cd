//! Numbers with types: what an event is about, and fences.

use std::fmt;
use std::str::FromStr;

/// The kinds of things events are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The run itself.
    Run,
    /// A client process.
    Process,
    /// An adapter: a driver with its hardware.
    Adapter,
    /// An engine's queue.
    Node,
    /// A process's link to an adapter.
    Device,
    /// A stream of work of a device.
    Context,
    /// A group of allocations.
    Resource,
    /// A device's view of a resource.
    ResourceView,
    /// A piece of memory the driver described.
    Allocation,
    /// A device's view of an allocation.
    View,
    /// The end of views, from the request on.
    Retirement,
    /// A call of a driver.
    Call,
    /// A driver's word: a pointer it gave, or a pool block it took.
    DriverPointer,
    /// A part of an adapter's memory.
    Segment,
    /// Paging work, from its plan on.
    Paging,
    /// A client's queue of paging work.
    PagingQueue,
    /// The fence of such a queue, by its number.
    PagingQueueFence,
    /// An allocation that a driver made for its contexts.
    ContextAllocation,
    /// A synchronisation object.
    Sync,
    /// A wait for such objects.
    GpuWait,
    /// A client's event: what it is told through.
    Event,
    /// A process on an adapter, with its addresses.
    AddressSpace,
    /// A page table.
    PageTable,
    /// A keyed mutex.
    KeyedMutex,
    /// An adapter that is open through a user-mode driver.
    UserAdapter,
    /// A device of an application, through a user-mode driver.
    UserDevice,
    /// A resource of such a device: a group of surfaces.
    Surfaces,
    /// An instance of an allocation that was renamed; the first is the allocation itself.
    Instance,
    /// A streaming device: a minidriver with its hardware.
    KsDevice,
    /// A filter of such a device, opened by a client.
    Filter,
    /// A pin of a filter.
    Pin,
    /// Where a pin's frames come from.
    Allocator,
    /// A frame: a buffer that is filled, handed on and comes back.
    Frame,
    /// A minidriver's place in a pin's queue of frames.
    StreamPointer,
}

/// What an event is about: the third device, the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its number, from one on and never used again in a run (words excepted; nodes from zero).
    pub number: u32,
}

/// In the order of the kinds.
const KINDS: &[(Kind, &str)] = &[
    (Kind::Run, "run"),
    (Kind::Process, "process"),
    (Kind::Adapter, "adapter"),
    (Kind::Node, "node"),
    (Kind::Device, "device"),
    (Kind::Context, "context"),
    (Kind::Resource, "resource"),
    (Kind::ResourceView, "resource-view"),
    (Kind::Allocation, "allocation"),
    (Kind::View, "view"),
    (Kind::Retirement, "retirement"),
    (Kind::Call, "call"),
    (Kind::DriverPointer, "driver-pointer"),
    (Kind::Segment, "segment"),
    (Kind::Paging, "paging"),
    (Kind::PagingQueue, "paging-queue"),
    (Kind::PagingQueueFence, "paging-queue-fence"),
    (Kind::ContextAllocation, "context-allocation"),
    (Kind::Sync, "sync"),
    (Kind::GpuWait, "gpu-wait"),
    (Kind::Event, "event"),
    (Kind::AddressSpace, "address-space"),
    (Kind::PageTable, "page-table"),
    (Kind::KeyedMutex, "keyed-mutex"),
    (Kind::UserAdapter, "user-adapter"),
    (Kind::UserDevice, "user-device"),
    (Kind::Surfaces, "surfaces"),
    (Kind::Instance, "instance"),
    (Kind::KsDevice, "ks-device"),
    (Kind::Filter, "filter"),
    (Kind::Pin, "pin"),
    (Kind::Allocator, "allocator"),
    (Kind::Frame, "frame"),
    (Kind::StreamPointer, "stream-pointer"),
];

impl Kind {
    /// Its name in traces and reports.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// The `number`th of this kind.
    pub const fn subject(self, number: u32) -> Subject {
        Subject { kind: self, number }
    }
}

impl Subject {
    /// The run itself.
    pub const RUN: Subject = Kind::Run.subject(0);
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.number)
    }
}

impl FromStr for Subject {
    type Err = ();

    /// Reads `kind:number`, the form that has no space in it.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, number) = text.split_once(':').ok_or(())?;
        let (kind, _) = KINDS.iter().find(|(_, name)| *name == kind).ok_or(())?;
        Ok(kind.subject(number.parse().map_err(|_| ())?))
    }
}

/// The number of a packet on its node (`SubmissionFenceId`). It wraps, so fences are compared
/// by distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fence(pub u32);

impl Fence {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The one before.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// How many after `earlier` this one is.
    pub fn distance_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether a node that has done this one has done `other` too: it is not later, by
    /// less than half the circle.
    pub fn covers(self, other: Self) -> bool {
        self.distance_from(other) < 1 << 31
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
