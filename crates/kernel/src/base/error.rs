//! Why the kernel did not do as a client asked, in plain words.

use crate::ddi::miniport::DriverError;
use crate::ddi::permit::WaitStuck;
use crate::objects::handle_table::{Handle, HandleError, TableFull};
use flight::Subject;
use std::fmt;

/// A refusal. The door turns it into a status and a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A handle was not believed.
    Handle {
        /// Which argument.
        argument: Argument,
        /// The handle.
        handle: Handle,
        /// Why not.
        why: HandleError,
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
    SharedResourceSealed(Subject),
    /// An allocation over memory that is there joins no resource: not this one.
    StandardInResource(Subject),
    /// The resource was named for destruction while the call waited.
    ResourceDestroyed(Subject),
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
    HandleTableFull,
    /// The driver described something impossible: no size, or a crooked alignment.
    BadAllocationInfo,
    /// The driver refused.
    Driver(DriverError),
    /// The adapter has no memory of which this could be asked.
    NoVideoMemory,
    /// There is no room: so many bytes would have to go.
    NoMemory {
        /// How many.
        trim: u64,
    },
    /// A view is not on its device's list of what must be resident.
    NotResident(Subject),
    /// A view is not locked.
    NotLocked(Subject),
    /// The CPU may not see it: its driver did not say so.
    NotCpuVisible(Subject),
    /// It is shared, and its lock is for the device that created it.
    NotCreator(Subject),
    /// It is locked in another way already.
    LockModeConflict(Subject),
    /// Another address is asked for, and it is shared, or locked at one or without one.
    AlternateAddressConflict(Subject),
    /// The driver's generation has no such thing.
    UnsupportedByDriverModel(Subject),
    /// An aperture is asked for, but apertures are all it can be in.
    OnlyApertures(Subject),
    /// A lock that does not wait needs an aperture, and no cache that the GPU does not see.
    IgnoreSyncNotAllowed(Subject),
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
    PrivateDataTooLarge {
        /// How many bytes.
        bytes: usize,
        /// How many it may have.
        limit: u32,
    },
    /// A packet lists an instance, and one that is newer was listed before it.
    InstanceSuperseded {
        /// The instance.
        handle: Handle,
        /// The view of what it is an instance of.
        view: Subject,
    },
    /// It is locked, and can be in no aperture.
    LockedOutsideAperture(Subject),
    /// There is no such event of the client.
    EventNotFound(u32),
    /// Only monitored fences can be used so.
    NotMonitored(Subject),
    /// The device has it without the right to do so.
    AccessDenied(Subject),
    /// The value would go back.
    FenceDecreases {
        /// The fence.
        sync: Subject,
        /// The value asked for.
        value: u64,
        /// The one it has.
        current: u64,
    },
    /// The value is too far from the last one, for a fence of 32 bits.
    FenceTooFar {
        /// The fence.
        sync: Subject,
        /// The value asked for.
        value: u64,
        /// The one it has.
        current: u64,
    },
    /// The adapter does not translate addresses, or the process has none on it.
    NoAddressSpace,
    /// No free addresses within the bounds asked for.
    NoFreeAddresses,
    /// Addresses are taken already.
    AddressesInUse {
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
    AddressesNotInUse {
        /// The first.
        start: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Addresses were freed before, by their client or with what was mapped there.
    AddressesFreed {
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
    BufferTooSmall {
        /// Whose data.
        of: Subject,
        /// How many bytes the buffer has.
        size: usize,
        /// How many bytes there are.
        required: usize,
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
    SharedResource,
    /// A queue of paging work.
    PagingQueue,
    /// A fence, or another object to wait for or to signal.
    Fence,
    /// A synchronisation object.
    Sync,
    /// The global name of a shared one.
    SharedSync,
    /// A process's name of a keyed mutex.
    KeyedMutex,
    /// The global name of a keyed mutex.
    SharedKeyedMutex,
    /// An allocation of a list, by its place.
    Allocation(usize),
}

impl From<TableFull> for KernelError {
    fn from(_: TableFull) -> Self {
        KernelError::HandleTableFull
    }
}

impl From<WaitStuck> for KernelError {
    fn from(_: WaitStuck) -> Self {
        KernelError::Stuck
    }
}

impl From<DriverError> for KernelError {
    fn from(why: DriverError) -> Self {
        KernelError::Driver(why)
    }
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandleError::Unknown => f.write_str("it was never issued"),
            HandleError::Closed(Some(object)) => write!(f, "it named {object} and is closed"),
            HandleError::Closed(None) => f.write_str("it is closed"),
            HandleError::Unpublished => f.write_str("its object is still being created"),
            HandleError::ProcessEnded => f.write_str("its process has ended"),
            HandleError::Superseded(view) => write!(f, "{view} has a newer instance"),
            HandleError::WrongKind(object) => write!(f, "it names {object}, of another type"),
        }
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::Handle { argument, handle, why } => {
                write!(f, "handle {:#x} ({argument:?}) is not valid: {why}", handle.0)
            }
            KernelError::OtherDevice { argument, handle, owner } => {
                write!(f, "handle {:#x} ({argument:?}) belongs to {owner}", handle.0)
            }
            KernelError::MixedList { first, other } => {
                let name =
                    |of: &Option<Subject>| of.map_or("no resource".to_owned(), |of| of.to_string());
                write!(f, "the list mixes members of {} and {}", name(first), name(other))
            }
            KernelError::Duplicate(handle) => {
                write!(f, "the list has handle {:#x} twice", handle.0)
            }
            KernelError::SharedMember(of) => {
                write!(f, "the list has a member of {of}, which is shared")
            }
            KernelError::OtherAdapter(of) => write!(f, "{of} is on another adapter"),
            KernelError::SharedResourceSealed(of) => {
                write!(f, "{of} is shared and takes no more members")
            }
            KernelError::StandardInResource(of) => {
                write!(f, "an allocation of existing memory cannot join {of}")
            }
            KernelError::ResourceDestroyed(of) => write!(f, "{of} was destroyed meanwhile"),
            KernelError::Removed(of) => write!(f, "{of} is lost or stopped"),
            KernelError::NoEngine { node, engine, nodes } => {
                write!(f, "there is no engine {engine:#x} on node {node} ({nodes} nodes)")
            }
            KernelError::NothingToCreate => f.write_str("the call creates nothing"),
            KernelError::HandleTableFull => f.write_str("the process has no handle left"),
            KernelError::BadAllocationInfo => {
                f.write_str("the driver gave no size, or an invalid alignment")
            }
            KernelError::Driver(why) => why.fmt(f),
            KernelError::NoVideoMemory => f.write_str("there is no video memory for this"),
            KernelError::NoMemory { trim } => write!(f, "memory is short by {trim} bytes"),
            KernelError::NotResident(of) => write!(f, "{of} was not made resident"),
            KernelError::NotLocked(of) => write!(f, "{of} is not locked"),
            KernelError::NotCpuVisible(of) => write!(f, "the CPU may not access {of}"),
            KernelError::NotCreator(of) => write!(f, "only the creator of {of} may lock it"),
            KernelError::LockModeConflict(of) => write!(f, "{of} is locked in another way"),
            KernelError::AlternateAddressConflict(of) => {
                write!(f, "{of} cannot be shown at another address")
            }
            KernelError::UnsupportedByDriverModel(of) => {
                write!(f, "the driver model of {of} has no such thing")
            }
            KernelError::OnlyApertures(of) => write!(f, "{of} can only be in apertures"),
            KernelError::IgnoreSyncNotAllowed(of) => {
                write!(f, "{of} cannot be locked without waiting")
            }
            KernelError::WouldEvict(of) => write!(f, "{of} would have to be moved"),
            KernelError::Pinned(of) => write!(f, "{of} is pinned and would have to be moved"),
            KernelError::InUse(of) => write!(f, "{of} is in use"),
            KernelError::Offered(of) => write!(f, "{of} is offered"),
            KernelError::NotOffered(of) => write!(f, "{of} is not offered"),
            KernelError::NoLists(of) => write!(f, "{of} takes packets without allocation lists"),
            KernelError::HasLists(of) => write!(f, "{of} takes packets with allocation lists"),
            KernelError::PrivateDataTooLarge { bytes, limit } => {
                write!(f, "the packet has {bytes} bytes of private data, and may have {limit}")
            }
            KernelError::InstanceSuperseded { handle, view } => {
                write!(f, "handle {:#x} is an older instance of {view} than one listed", handle.0)
            }
            KernelError::LockedOutsideAperture(of) => {
                write!(f, "{of} is locked and can be in no aperture")
            }
            KernelError::EventNotFound(number) => write!(f, "the client has no event {number}"),
            KernelError::NotMonitored(of) => write!(f, "{of} is no monitored fence"),
            KernelError::AccessDenied(of) => write!(f, "the device may not do that with {of}"),
            KernelError::FenceDecreases { sync, value, current } => {
                write!(f, "{sync} would go back from {current} to {value}")
            }
            KernelError::FenceTooFar { sync, value, current } => {
                write!(f, "{value} is too far from the value of {sync}, {current}")
            }
            KernelError::NoAddressSpace => {
                f.write_str("the process has no GPU addresses on the adapter")
            }
            KernelError::NoFreeAddresses => f.write_str("no addresses are free within the bounds"),
            KernelError::AddressesInUse { start, bytes } => {
                write!(f, "of {bytes:#x} bytes at {start:#x} some are taken")
            }
            KernelError::AddressesMixed { start, bytes } => {
                write!(f, "of {bytes:#x} bytes at {start:#x} some are free and some are not")
            }
            KernelError::AddressesNotInUse { start, bytes } => {
                write!(f, "{bytes:#x} bytes at {start:#x} are not taken")
            }
            KernelError::AddressesFreed { start, bytes } => {
                write!(f, "{bytes:#x} bytes at {start:#x} were freed before")
            }
            KernelError::OutsideAllocation { view, offset, bytes, size } => {
                write!(f, "{bytes:#x} bytes at {offset:#x} are outside {view} of {size:#x} bytes")
            }
            KernelError::OtherReservation { start } => {
                write!(f, "the range at {start:#x} is of another reservation, or of none")
            }
            KernelError::NotOwner(of) => write!(f, "{of} is not owned through this handle"),
            KernelError::BufferTooSmall { of, size: capacity, required: there } => {
                write!(f, "the buffer for the data of {of} has {capacity} bytes, and needs {there}")
            }
            KernelError::Stuck => f.write_str("a wait was given up, because nothing could end it"),
        }
    }
}

impl std::error::Error for KernelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            KernelError::Driver(why) => Some(why),
            _ => None,
        }
    }
}
