//! Why the kernel did not do as a client asked, in plain words.

use crate::gate::Stuck;
use crate::handle::{BadHandle, Handle, TableFull};
use crate::miniport::Refusal;
use flight::Subject;

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
