//! The flaws of user-mode drivers.
//!
//! To add a flaw: a row here, the code where it shows (`flaw ==` finds all of them), and its name
//! in the list of drivers.
#![expect(unsafe_code, reason = "vouches for the entry points of this crate")]

use super::driver::SoftUmd;
use crate::native::RuntimeMemory;
use abi::umd::PFND3DDDI_OPENADAPTER;
use runtime::Umd;
use umd::{VisibleMemory, open_adapter};

macro_rules! flaws {
    ($($(#[doc = $doc:literal])+ $flaw:ident,)+) => {
        /// A flaw of a user-mode driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Flaw {
            $($(#[doc = $doc])+ $flaw,)+
        }

        impl Flaw {
            /// All flaws, preceded by none.
            pub const ALL: &[Self] = &[$(Self::$flaw),+];

            /// `OpenAdapter` of the driver with the flaw, for a runtime that maps memory with
            /// `window`.
            pub fn entry<S: VisibleMemory>(self) -> PFND3DDDI_OPENADAPTER {
                match self {
                    $(Self::$flaw => open_adapter::<SoftUmd<{ Flaw::$flaw as u8 }>, S>,)+
                }
            }
        }
    };
}

flaws! {
    /// None: the driver is good.
    None,
    /// Returns success from drawing functions and draws nothing.
    DrawsNothing,
    /// Releases a resource that its unsubmitted commands use.
    FreesBeforeFlush,
    /// Frees the allocations of a resource by list, and never the resource.
    FreesListLeaksResource,
    /// Releases a resource twice.
    FreesTwice,
    /// Frees an allocation that it has locked.
    FreesLocked,
    /// Frees one allocation of a resource, and no other.
    FreesOneAllocationOnly,
    /// Frees the allocations of a resource one by one, and never the resource.
    FreesAllocationsIndividually,
    /// Defers a release and forgets it.
    NeverFreesDeferred,
    /// Releases a resource and returns a failure.
    FailsAfterFree,
    /// Returns a result from a destroy that a destroy may not return.
    ReturnsIllegalDestroyError,
    /// Calls the runtime for a destroyed device.
    CallsBackAfterDestroy,
    /// Submits on a thread that it started itself.
    SubmitsOnOwnThread,
    /// Releases a resource and also lists its allocations.
    FreesResourceWithList,
    /// Releases a resource by the driver's handle instead of the runtime's.
    FreesByOwnHandle,
    /// Frees memory with `AssumeNotInUse` while the GPU uses it.
    SetsAssumeNotInUseWrongly,
    /// Leaves the runtime's handle of a resource in the output.
    ReturnsRuntimeHandle,
    /// Returns the same handle for two resources.
    ReusesResourceHandle,
    /// Locks its own memory and never unlocks it.
    LeaksLock,
    /// Fails to lock a locked resource.
    FailsSecondLock,
    /// Unlocks an unlocked resource and returns success.
    UnlocksNotLocked,
    /// Returns that the GPU is still drawing, from a lock that may wait.
    FailsWaitingLock,
    /// Continues to write into buffers that it no longer owns.
    WritesStaleCommandBuffer,
    /// Uses the memory that a lock has replaced.
    UsesStaleInstance,
    /// Fills the last surface instead of one that does not exist.
    AcceptsInvalidSubresource,
    /// Allocates memory for a resource that has memory.
    AllocatesOnOpen,
    /// Allocates each surface of a resource in a separate call.
    AllocatesSurfacesIndividually,
    /// Returns success although a callback failed.
    IgnoresCallbackError,
    /// Submits during an asynchronous lock.
    SubmitsInLockAsync,
    /// Submits without a context.
    NoContext,
    /// Queries the hardware when a device is created.
    QueriesCapsLate,
    /// Does not destroy its context with its device.
    LeaksContext,
    /// Requests to ignore the GPU and to wait for it.
    SetsIgnoreSyncWithoutDoNotWait,
    /// Creates at most four devices of an adapter.
    LimitsDevices,
    /// Keeps its data of a closed adapter.
    LeaksAdapter,
    /// Describes a shared resource with the data of the resource created before.
    VariesSharedAllocations,
    /// Fails to create system memory resources that it cannot wrap.
    FailsUnwrappableSysmem,
    /// Allocates more memory for any resource with a vertex format.
    ReadsReservedMembers,
    /// Releases later, by a handle that is dead then.
    DefersFreeByHandle,
    /// Frees the allocations of a resource by list, then the resource.
    FreesListThenResource,
    /// Repeats a failed lock at once.
    RetriesLockImmediately,
    /// Does not report the primaries that it writes.
    OmitsWrittenPrimaries,
    /// Keeps the resource being created in one location for all devices.
    SharesStateBetweenDevices,
    /// Makes the GPU wait before commands that it collected earlier.
    QueuesWaitBeforeCommands,
    /// Frees the allocations of a shared resource by list.
    FreesSharedByList,
    /// Unlocks the application's locks when it flushes.
    UnlocksApplicationLock,
    /// Renames a shared resource.
    RenamesShared,
    /// Returns a buffer's failure for a resource with four surfaces.
    ReturnsIllegalCreateError,
    /// Returns another failure than the callback's.
    ChangesCallbackError,
    /// Submits commands without their last byte.
    SubmitsTruncatedCommands,
    /// Allocates on a thread that it started itself.
    AllocatesOnOwnThread,
    /// Destroys its context twice.
    DestroysContextTwice,
    /// Submits memory that it leaves locked.
    SubmitsLocked,
    /// Not a flaw: defers every release, and releases in the reverse order.
    ReleasesInReverse,
}

impl Flaw {
    /// The flaw of an entry point's number.
    pub(super) fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::None)
    }
}

/// The user-mode driver of the built-in GPU, with a flaw or without.
pub fn with(flaw: Flaw) -> Umd {
    // SAFETY: The entry points of this crate are those of drivers in safe Rust: what they call
    // back with is good.
    unsafe { Umd::new(flaw.entry::<RuntimeMemory>()) }.counting(umd::live_objects_of)
}
