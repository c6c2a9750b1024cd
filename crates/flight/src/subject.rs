//! Typed numbers: the subjects of events, and fences.

use crate::line_buffer::Padded;
use std::fmt;
use std::str::FromStr;

/// The types of objects that events are about.
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
    /// A process's device on an adapter.
    Device,
    /// A stream of work of a device.
    Context,
    /// A group of allocations.
    Resource,
    /// A device's view of a resource.
    ResourceView,
    /// A piece of memory that the driver described.
    Allocation,
    /// A device's view of an allocation.
    View,
    /// The destruction of views, from the request on.
    Retirement,
    /// A driver call.
    Call,
    /// A driver pointer: a driver handle or a pool block.
    DriverPointer,
    /// A memory segment of an adapter.
    Segment,
    /// Paging work, from its plan on.
    Paging,
    /// A client's paging queue.
    PagingQueue,
    /// The fence of a paging queue, by the queue's number.
    PagingQueueFence,
    /// A context allocation of a driver.
    ContextAllocation,
    /// A synchronization object.
    Sync,
    /// A wait for synchronization objects.
    GpuWait,
    /// A client's event, through which the kernel notifies it.
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
    /// A resource of a user-mode device: a group of surfaces.
    Surfaces,
    /// An instance of a renamed allocation; the first instance is the allocation itself.
    Instance,
    /// A streaming device: a minidriver with its hardware.
    KsDevice,
    /// A filter of a streaming device, opened by a client.
    Filter,
    /// A pin of a filter.
    Pin,
    /// The allocator of a pin's frames.
    Allocator,
    /// A frame: a buffer that is filled, passed on and returned.
    Frame,
    /// A minidriver's position in a pin's queue of frames.
    StreamPointer,
    /// What NT handles refer to: one shared object, or a bundle of three.
    NtObject,
}

/// The subject of an event: the third device, the first driver pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its number, from one and never reused in a run (except driver pointers; nodes start at
    /// zero).
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
    (Kind::NtObject, "nt-object"),
];

static PREFIXES: [Padded<{ Kind::PREFIX_LENGTH }>; KINDS.len()] = {
    let mut prefixes = [Padded::new(""); KINDS.len()];
    let mut index = 0;
    while index < KINDS.len() {
        prefixes[index] = Padded::joined(KINDS[index].1, ":");
        index += 1;
    }
    prefixes
};

impl Kind {
    /// Its name in traces and reports.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// All kinds, in their order.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|(kind, _)| *kind)
    }

    /// The kind of that name.
    pub fn find(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// The most bytes of [`Kind::prefix`].
    pub(crate) const PREFIX_LENGTH: usize = 24;

    /// Its name and the colon before a number in a trace.
    #[inline]
    pub(crate) fn prefix(self) -> &'static Padded<{ Self::PREFIX_LENGTH }> {
        &PREFIXES[self as usize]
    }

    /// The subject of this kind with that number.
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

    /// Reads `kind:number`, the form without a space.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, number) = text.split_once(':').ok_or(())?;
        let kind = Kind::find(kind).ok_or(())?;
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

    /// The distance of this fence from `earlier`.
    pub fn distance_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether a node that has completed this fence has also completed `other`: `other` is not
    /// later, by less than half the number range.
    pub fn covers(self, other: Self) -> bool {
        self.distance_from(other) < 1 << 31
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
