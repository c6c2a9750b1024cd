//! Why the kernel did not do as a client asked, in plain words.

use crate::gate::Stuck;
use crate::handle::{BadHandle, Handle, TableFull};
use crate::miniport::Refusal;
use flight::Subject;
use std::fmt;

/// A refusal. The door turns it into a status and a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A handle was not believed.
    Handle {
        /// Which argument.
        argument: Argument,
        /// The handle.
        handle: Handle,
        /// Why not.
        why: BadHandle,
    },
    /// What is named belongs to another device.
    OtherDevice {
        /// Which argument.
        argument: Argument,
        /// The handle.
        handle: Handle,
        /// The device it belongs to.
        owner: Subject,
    },
    /// A list names members of different resources, or members and others.
    MixedList {
        /// The first handle's resource.
        first: Option<Subject>,
        /// Another handle's.
        other: Option<Subject>,
    },
    /// A list names the same thing twice.
    Duplicate(Handle),
    /// A list names a member of a shared resource.
    SharedMember(Subject),
    /// The shared resource is on another adapter than the device.
    OtherAdapter(Subject),
    /// A shared resource takes no more members.
    Sealed(Subject),
    /// An allocation over memory that is there joins no resource: not this one.
    NoHome(Subject),
    /// The resource was named for destruction while the call waited.
    ResourceEnded(Subject),
    /// The device cannot work any more, or its adapter is stopped.
    Removed(Subject),
    /// There is no such node, or no such engine on it.
    NoEngine {
        /// The node asked for.
        node: u32,
        /// The engine asked for, as a bit.
        engine: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// A create call that creates nothing.
    NothingToCreate,
    /// The process has no name left.
    NamesFull,
    /// The driver described something impossible: no size, or a crooked alignment.
    BadShape,
    /// The driver refused.
    Driver(Refusal),
    /// The adapter has no memory of which this could be asked.
    NoVideoMemory,
    /// There is no room: so many bytes would have to go.
    NoRoom {
        /// How many.
        trim: u64,
    },
    /// A view is not on its device's list of what must be resident.
    NotResident(Subject),
    /// A view is not locked.
    NotLocked(Subject),
    /// The CPU may not see it: its driver did not say so.
    NotForCpu(Subject),
    /// It is shared, and its lock is for the device that created it.
    NotCreator(Subject),
    /// It is locked in another way already.
    LockedOtherwise(Subject),
    /// Another address is asked for, and it is shared, or locked at one or without one.
    Elsewhere(Subject),
    /// The driver's generation has no such thing.
    FirstGeneration(Subject),
    /// An aperture is asked for, but apertures are all it can be in.
    OnlyApertures(Subject),
    /// A lock that does not wait needs an aperture, and no cache that the GPU does not see.
    NotUnsynced(Subject),
    /// It would have to be moved.
    WouldEvict(Subject),
    /// It would have to be moved, and is pinned.
    Pinned(Subject),
    /// Work uses it, and the client does not want to wait.
    InUse(Subject),
    /// It is offered.
    Offered(Subject),
    /// It is not offered.
    NotOffered(Subject),
    /// The context has no lists: its packets are of another kind.
    NoLists(Subject),
    /// The context has lists: its packets are of another kind.
    HasLists(Subject),
    /// A packet has more private data than its context's driver asked for.
    LongPrivate {
        /// How many bytes.
        bytes: usize,
        /// How many it may have.
        most: u32,
    },
    /// A packet lists an instance, and one that is newer was listed before it.
    Older {
        /// The instance.
        handle: Handle,
        /// The view of what it is an instance of.
        view: Subject,
    },
    /// It is locked, and can be in no aperture.
    LockedAway(Subject),
    /// There is no such event of the client.
    NoEvent(u32),
    /// Only monitored fences can be used so.
    NotMonitored(Subject),
    /// The device has it without the right to do so.
    Denied(Subject),
    /// The value would go back.
    Rewinds {
        /// The fence.
        sync: Subject,
        /// The value asked for.
        value: u64,
        /// The one it has.
        current: u64,
    },
    /// The value is too far from the last one, for a fence of 32 bits.
    TooFar {
        /// The fence.
        sync: Subject,
        /// The value asked for.
        value: u64,
        /// The one it has.
        current: u64,
    },
    /// The adapter does not translate addresses, or the process has none on it.
    NoAddresses,
    /// No free addresses within the bounds asked for.
    NoFreeAddresses,
    /// Addresses are taken already.
    AddressesTaken {
        /// The first.
        start: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Some of the addresses are free and others are not, or there are no such.
    AddressesMixed {
        /// The first.
        start: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Addresses are not taken.
    NotTaken {
        /// The first.
        start: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Addresses were freed before, by their client or with what was mapped there.
    FreedBefore {
        /// The first.
        start: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// What is to be mapped is not inside the allocation.
    OutsideAllocation {
        /// Its view.
        view: Subject,
        /// From where on.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// How many it has.
        size: u64,
    },
    /// The ranges of one call come from different reservations, or from none.
    OtherReservation {
        /// The address of the one that does not fit.
        start: u64,
    },
    /// It is not owned through the name it is released by.
    NotOwner(Subject),
    /// A buffer for the runtime's data is too small.
    ShortBuffer {
        /// Whose data.
        of: Subject,
        /// How many bytes the buffer has.
        room: usize,
        /// How many bytes there are.
        there: usize,
    },
    /// A wait that nothing could end was given up.
    Stuck,
}

/// Which argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The adapter.
    Adapter,
    /// The device.
    Device,
    /// The context.
    Context,
    /// The resource.
    Resource,
    /// The global name of a shared resource.
    Share,
    /// A queue of paging work.
    Queue,
    /// A fence, or another object to wait for or to signal.
    Fence,
    /// A synchronisation object.
    Sync,
    /// The global name of a shared one.
    SharedSync,
    /// A process's name of a keyed mutex.
    Keyed,
    /// The global name of a keyed mutex.
    KeyedShare,
    /// An allocation of a list, by its place.
    Allocation(usize),
}

impl From<TableFull> for Refused {
    fn from(_: TableFull) -> Self {
        Refused::NamesFull
    }
}

impl From<Stuck> for Refused {
    fn from(_: Stuck) -> Self {
        Refused::Stuck
    }
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Refused::Driver(why)
    }
}

impl fmt::Display for BadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHandle::Unknown => f.write_str("it was never issued"),
            BadHandle::Closed(Some(object)) => write!(f, "it named {object} and is closed"),
            BadHandle::Closed(None) => f.write_str("it is closed"),
            BadHandle::Unfinished => f.write_str("its object is still being created"),
            BadHandle::ProcessEnded => f.write_str("its process has ended"),
            BadHandle::Retired(view) => write!(f, "{view} has a newer instance"),
            BadHandle::WrongKind(object) => write!(f, "it names {object}, of another type"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Handle { argument, handle, why } => {
                write!(f, "handle {:#x} ({argument:?}) is not valid: {why}", handle.0)
            }
            Refused::OtherDevice { argument, handle, owner } => {
                write!(f, "handle {:#x} ({argument:?}) belongs to {owner}", handle.0)
            }
            Refused::MixedList { first, other } => {
                let name =
                    |of: &Option<Subject>| of.map_or("no resource".to_owned(), |of| of.to_string());
                write!(f, "the list mixes members of {} and {}", name(first), name(other))
            }
            Refused::Duplicate(handle) => write!(f, "the list has handle {:#x} twice", handle.0),
            Refused::SharedMember(of) => {
                write!(f, "the list has a member of {of}, which is shared")
            }
            Refused::OtherAdapter(of) => write!(f, "{of} is on another adapter"),
            Refused::Sealed(of) => write!(f, "{of} is shared and takes no more members"),
            Refused::NoHome(of) => write!(f, "an allocation of existing memory cannot join {of}"),
            Refused::ResourceEnded(of) => write!(f, "{of} was destroyed meanwhile"),
            Refused::Removed(of) => write!(f, "{of} is lost or stopped"),
            Refused::NoEngine { node, engine, nodes } => {
                write!(f, "there is no engine {engine:#x} on node {node} ({nodes} nodes)")
            }
            Refused::NothingToCreate => f.write_str("the call creates nothing"),
            Refused::NamesFull => f.write_str("the process has no handle left"),
            Refused::BadShape => f.write_str("the driver gave no size, or an invalid alignment"),
            Refused::Driver(why) => why.fmt(f),
            Refused::NoVideoMemory => f.write_str("there is no video memory for this"),
            Refused::NoRoom { trim } => write!(f, "memory is short by {trim} bytes"),
            Refused::NotResident(of) => write!(f, "{of} was not made resident"),
            Refused::NotLocked(of) => write!(f, "{of} is not locked"),
            Refused::NotForCpu(of) => write!(f, "the CPU may not access {of}"),
            Refused::NotCreator(of) => write!(f, "only the creator of {of} may lock it"),
            Refused::LockedOtherwise(of) => write!(f, "{of} is locked in another way"),
            Refused::Elsewhere(of) => write!(f, "{of} cannot be shown at another address"),
            Refused::FirstGeneration(of) => write!(f, "the driver model of {of} has no such thing"),
            Refused::OnlyApertures(of) => write!(f, "{of} can only be in apertures"),
            Refused::NotUnsynced(of) => write!(f, "{of} cannot be locked without waiting"),
            Refused::WouldEvict(of) => write!(f, "{of} would have to be moved"),
            Refused::Pinned(of) => write!(f, "{of} is pinned and would have to be moved"),
            Refused::InUse(of) => write!(f, "{of} is in use"),
            Refused::Offered(of) => write!(f, "{of} is offered"),
            Refused::NotOffered(of) => write!(f, "{of} is not offered"),
            Refused::NoLists(of) => write!(f, "{of} takes packets without allocation lists"),
            Refused::HasLists(of) => write!(f, "{of} takes packets with allocation lists"),
            Refused::LongPrivate { bytes, most } => {
                write!(f, "the packet has {bytes} bytes of private data, and may have {most}")
            }
            Refused::Older { handle, view } => {
                write!(f, "handle {:#x} is an older instance of {view} than one listed", handle.0)
            }
            Refused::LockedAway(of) => write!(f, "{of} is locked and can be in no aperture"),
            Refused::NoEvent(number) => write!(f, "the client has no event {number}"),
            Refused::NotMonitored(of) => write!(f, "{of} is no monitored fence"),
            Refused::Denied(of) => write!(f, "the device may not do that with {of}"),
            Refused::Rewinds { sync, value, current } => {
                write!(f, "{sync} would go back from {current} to {value}")
            }
            Refused::TooFar { sync, value, current } => {
                write!(f, "{value} is too far from the value of {sync}, {current}")
            }
            Refused::NoAddresses => f.write_str("the process has no GPU addresses on the adapter"),
            Refused::NoFreeAddresses => f.write_str("no addresses are free within the bounds"),
            Refused::AddressesTaken { start, bytes } => {
                write!(f, "of {bytes:#x} bytes at {start:#x} some are taken")
            }
            Refused::AddressesMixed { start, bytes } => {
                write!(f, "of {bytes:#x} bytes at {start:#x} some are free and some are not")
            }
            Refused::NotTaken { start, bytes } => {
                write!(f, "{bytes:#x} bytes at {start:#x} are not taken")
            }
            Refused::FreedBefore { start, bytes } => {
                write!(f, "{bytes:#x} bytes at {start:#x} were freed before")
            }
            Refused::OutsideAllocation { view, offset, bytes, size } => {
                write!(f, "{bytes:#x} bytes at {offset:#x} are outside {view} of {size:#x} bytes")
            }
            Refused::OtherReservation { start } => {
                write!(f, "the range at {start:#x} is of another reservation, or of none")
            }
            Refused::NotOwner(of) => write!(f, "{of} is not owned through this handle"),
            Refused::ShortBuffer { of, room, there } => {
                write!(f, "the buffer for the data of {of} has {room} bytes, and needs {there}")
            }
            Refused::Stuck => f.write_str("a wait was given up, because nothing could end it"),
        }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Refused::Driver(why) => Some(why),
            _ => None,
        }
    }
}
