//! The errors of kernel calls.

use crate::ddi::miniport::DriverError;
use crate::ddi::permit::WaitStuck;
use crate::lifetime::ownership::SourceOwnership;
use crate::objects::handle_table::{Handle, HandleError, TableFull};
use flight::Subject;
use std::fmt;

/// Why a call failed. The door maps it to a status and a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A handle is invalid.
    Handle {
        /// The argument.
        argument: Argument,
        /// The handle.
        handle: Handle,
        /// The reason.
        why: HandleError,
    },
    /// The object belongs to another device.
    OtherDevice {
        /// The argument.
        argument: Argument,
        /// The handle.
        handle: Handle,
        /// The device it belongs to.
        owner: Subject,
    },
    /// A list mixes allocations of different resources, or allocations with and without a resource.
    MixedList {
        /// The first handle's resource.
        first: Option<Subject>,
        /// Another handle's resource.
        other: Option<Subject>,
    },
    /// A list has the same object twice.
    Duplicate(Handle),
    /// A list has an allocation of a shared resource.
    SharedMember(Subject),
    /// The shared resource is on another adapter than the device.
    OtherAdapter(Subject),
    /// The cross-adapter resource is on another adapter than the device.
    CrossAdapterOpen(Subject),
    /// No allocation can be added to a shared resource.
    SharedResourceSealed(Subject),
    /// An allocation of existing memory cannot be added to a resource.
    StandardInResource(Subject),
    /// The resource was destroyed while the call waited.
    ResourceDestroyed(Subject),
    /// The device is lost or removed, or its adapter is stopped.
    Removed(Subject),
    /// The node does not exist, or the engine does not exist on it.
    NoEngine {
        /// The requested node.
        node: u32,
        /// The requested engine, as a bit.
        engine: u32,
        /// Number of nodes.
        nodes: u32,
    },
    /// A create call without an object to create.
    NothingToCreate,
    /// The process's handle table is full.
    HandleTableFull,
    /// The driver returned an invalid description: no size, or an invalid alignment.
    BadAllocationInfo,
    /// The driver failed the call.
    Driver(DriverError),
    /// The adapter has no video memory that supports the request.
    NoVideoMemory,
    /// Memory is short by `trim` bytes.
    NoMemory {
        /// Number of missing bytes.
        trim: u64,
    },
    /// A view is not on its device's residency list.
    NotResident(Subject),
    /// A view is not locked.
    NotLocked(Subject),
    /// The CPU may not access it: its driver did not set `CpuVisible`.
    NotCpuVisible(Subject),
    /// It is shared, and only the device that created it may lock it.
    NotCreator(Subject),
    /// It is already locked in another way.
    LockModeConflict(Subject),
    /// An alternate address is requested, but it is shared, or already locked at an alternate
    /// address or without one.
    AlternateAddressConflict(Subject),
    /// The driver's WDDM generation does not support it.
    UnsupportedByDriverModel(Subject),
    /// An aperture is requested, but the object can only be in apertures.
    OnlyApertures(Subject),
    /// A lock that ignores synchronization needs an aperture and no cache that the GPU does not
    /// snoop.
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
    /// The context takes packets without allocation lists.
    NoLists(Subject),
    /// The context takes packets with allocation lists.
    HasLists(Subject),
    /// A packet has more private data than the driver requested for the context.
    PrivateDataTooLarge {
        /// Number of bytes.
        bytes: usize,
        /// Maximum number of bytes.
        limit: u32,
    },
    /// A packet lists an instance after a newer one.
    InstanceSuperseded {
        /// The instance.
        handle: Handle,
        /// The view whose instance it is.
        view: Subject,
    },
    /// It is locked, and cannot be in an aperture.
    LockedOutsideAperture(Subject),
    /// The client has no event of this number.
    EventNotFound(u32),
    /// The operation needs a monitored fence.
    NotMonitored(Subject),
    /// The device may not perform this operation on it.
    AccessDenied(Subject),
    /// The fence value would decrease.
    FenceDecreases {
        /// The fence.
        sync: Subject,
        /// The requested value.
        value: u64,
        /// The current value.
        current: u64,
    },
    /// The value is too far from the current one for a 32-bit fence.
    FenceTooFar {
        /// The fence.
        sync: Subject,
        /// The requested value.
        value: u64,
        /// The current value.
        current: u64,
    },
    /// The adapter does not translate addresses, or the process has no address space on it.
    NoAddressSpace,
    /// No free addresses within the requested bounds.
    NoFreeAddresses,
    /// Some of the addresses are in use.
    AddressesInUse {
        /// The first address.
        start: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Some of the addresses are free and others are not, or they do not exist.
    AddressesMixed {
        /// The first address.
        start: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The addresses are not in use.
    AddressesNotInUse {
        /// The first address.
        start: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The addresses were already freed, by their client or with the object mapped there.
    AddressesFreed {
        /// The first address.
        start: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The range to map is not inside the allocation.
    OutsideAllocation {
        /// The view.
        view: Subject,
        /// Offset in the allocation.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Size of the allocation.
        size: u64,
    },
    /// The ranges of one call belong to different reservations, or to none.
    OtherReservation {
        /// The address of the first range that differs.
        start: u64,
    },
    /// The keyed mutex is not owned through this handle.
    NotOwner(Subject),
    /// A buffer for the runtime's data is too small.
    BufferTooSmall {
        /// The owner of the data.
        of: Subject,
        /// Size of the buffer in bytes.
        size: usize,
        /// Required size in bytes.
        required: usize,
    },
    /// Another device owns the display source.
    SourceInUse(Subject),
    /// The desktop shares the display source, as it does every one.
    SourceOfDesktop,
    /// The device owns the display source in a way that excludes the requested one.
    SourceOwned {
        /// The device.
        device: Subject,
        /// How it owns the source.
        from: SourceOwnership,
        /// How it wants to own the source.
        to: SourceOwnership,
    },
    /// The adapter has no such display source.
    NoSource {
        /// The source.
        source: u32,
        /// Number of sources.
        sources: u32,
    },
    /// The adapter has no such segments.
    NoSegments(u32),
    /// No NT object has this NT handle.
    NtHandleNotFound,
    /// The NT handle is of another type of object.
    NtObjectType(Subject),
    /// The NT handle does not have the needed access.
    NtAccessDenied(Subject),
    /// No NT object has this name.
    NameNotFound,
    /// Another NT object has this name.
    NameInUse(Subject),
    /// The object was not created for NT handles.
    NotNtShared(Subject),
    /// These objects cannot be shared together, or not in this order.
    NotABundle {
        /// Their kinds, in order.
        kinds: Vec<&'static str>,
    },
    /// A wait was abandoned because nothing could end it.
    Stuck,
}

/// An argument of a call.
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
    /// The global handle of a shared resource.
    SharedResource,
    /// A paging queue.
    PagingQueue,
    /// A fence, or another object to wait for or to signal.
    Fence,
    /// A synchronization object.
    Sync,
    /// The global handle of a shared synchronization object.
    SharedSync,
    /// A process's handle of a keyed mutex.
    KeyedMutex,
    /// The global handle of a keyed mutex.
    SharedKeyedMutex,
    /// An allocation of a list, by its index.
    Allocation(usize),
    /// An object to share, by its index.
    Shared(usize),
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Argument::Adapter => "the adapter",
            Argument::Device => "the device",
            Argument::Context => "the context",
            Argument::Resource => "the resource",
            Argument::SharedResource => "the global handle of a resource",
            Argument::PagingQueue => "the paging queue",
            Argument::Fence => "a fence",
            Argument::Sync => "a synchronization object",
            Argument::SharedSync => "the global handle of a synchronization object",
            Argument::KeyedMutex => "the keyed mutex",
            Argument::SharedKeyedMutex => "the global handle of a keyed mutex",
            Argument::Shared(index) => return write!(f, "object {index} to share"),
            Argument::Allocation(index) => return write!(f, "allocation {index} of the list"),
        })
    }
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
    #[expect(clippy::too_many_lines, reason = "one sentence per error")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::Handle { argument, handle, why } => {
                write!(f, "handle {:#x} ({argument}) is not valid: {why}", handle.0)
            }
            KernelError::OtherDevice { argument, handle, owner } => {
                write!(f, "handle {:#x} ({argument}) belongs to {owner}", handle.0)
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
            KernelError::OtherAdapter(of) | KernelError::CrossAdapterOpen(of) => {
                write!(f, "{of} is on another adapter")
            }
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
            KernelError::NotCreator(of) => {
                write!(f, "another process created {of}, and only that process may lock it")
            }
            KernelError::LockModeConflict(of) => write!(f, "{of} is locked in another way"),
            KernelError::AlternateAddressConflict(of) => {
                write!(f, "{of} cannot be shown at another address")
            }
            KernelError::UnsupportedByDriverModel(of) => {
                write!(f, "the driver model of {of} does not support this")
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
            KernelError::SourceInUse(owner) => write!(f, "{owner} owns the display source"),
            KernelError::SourceOfDesktop => write!(f, "the desktop shares the display source"),
            KernelError::SourceOwned { device, .. } => {
                write!(f, "{device} owns the display source in another way")
            }
            KernelError::NoSource { source, sources } => {
                write!(f, "there is no display source {source}, but {sources} sources")
            }
            KernelError::NoSegments(set) => {
                write!(f, "the segments {set:#x} are not those of the allocation")
            }
            KernelError::NtHandleNotFound => f.write_str("there is no such NT handle"),
            KernelError::NtObjectType(of) => write!(f, "{of} is of another type"),
            KernelError::NtAccessDenied(of) => write!(f, "the NT handle gives no access to {of}"),
            KernelError::NameNotFound => f.write_str("no NT object has this name"),
            KernelError::NameInUse(of) => write!(f, "{of} has this name"),
            KernelError::NotNtShared(of) => write!(f, "{of} was not created for NT handles"),
            KernelError::NotABundle { kinds } => {
                write!(f, "[{}] cannot be shared by one NT handle", kinds.join(", "))
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
