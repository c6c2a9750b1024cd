//! What a user-mode driver does wrong.
//!
//! To add one: a line here, the place where it shows (`flaw ==` finds them all), and its name in
//! the list of drivers.
#![expect(unsafe_code, reason = "vouches for the entry points of this crate")]

use super::driver::SoftUmd;
use crate::native::RuntimeMemory;
use abi::umd::PFND3DDDI_OPENADAPTER;
use runtime::Umd;
use umd::{VisibleMemory, open_adapter};

macro_rules! flaws {
    ($($(#[doc = $doc:literal])+ $flaw:ident,)+) => {
        /// What a user-mode driver does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Flaw {
            $($(#[doc = $doc])+ $flaw,)+
        }

        impl Flaw {
            /// All of them, and none in front.
            pub const ALL: &[Self] = &[$(Self::$flaw),+];

            /// `OpenAdapter` of the driver that does it, on a runtime that shows it memory so.
            pub fn entry<S: VisibleMemory>(self) -> PFND3DDDI_OPENADAPTER {
                match self {
                    $(Self::$flaw => open_adapter::<SoftUmd<{ Flaw::$flaw as u8 }>, S>,)+
                }
            }
        }
    };
}

flaws! {
    /// Nothing: it is good.
    None,
    /// It releases a resource that its commands, not submitted yet, use.
    FreesBeforeFlush,
    /// It frees the allocations of a resource by list, and the resource never.
    FreesListLeaksResource,
    /// It releases a resource a second time.
    FreesTwice,
    /// It frees an allocation that it has locked.
    FreesLocked,
    /// It frees one allocation of a resource, and no other.
    FreesOneAllocationOnly,
    /// It frees the allocations of a resource one by one, and the resource never.
    FreesAllocationsIndividually,
    /// It puts a release off, and forgets it.
    NeverFreesDeferred,
    /// It releases a resource, and answers that it could not.
    FailsAfterFree,
    /// It answers a destroy with what a destroy may not answer.
    ReturnsIllegalDestroyError,
    /// It calls the runtime for a device that it was told to destroy.
    CallsBackAfterDestroy,
    /// It submits on a thread that it started itself.
    SubmitsOnOwnThread,
    /// It releases a resource and lists its allocations besides.
    FreesResourceWithList,
    /// It releases a resource by the handle that it gave the runtime.
    FreesByOwnHandle,
    /// It frees what the GPU uses as if it did not.
    SetsAssumeNotInUseWrongly,
    /// It leaves the runtime's handle of a resource in its place.
    ReturnsRuntimeHandle,
    /// It gives two resources the same handle.
    ReusesResourceHandle,
    /// It locks memory of its own, and never unlocks it.
    LeaksLock,
    /// It refuses to lock what is locked.
    FailsSecondLock,
    /// It unlocks what is not locked, and says that it did.
    UnlocksNotLocked,
    /// It answers a lock that may wait that the GPU is still drawing.
    FailsWaitingLock,
    /// It writes on into buffers that are no longer its own.
    WritesStaleCommandBuffer,
    /// It uses the memory that a lock has replaced.
    UsesStaleInstance,
    /// It fills the last surface for one that there is not.
    AcceptsInvalidSubresource,
    /// It allocates memory for a resource that has some.
    AllocatesOnOpen,
    /// It allocates each surface of a resource in a call of its own.
    AllocatesSurfacesIndividually,
    /// It answers success where a callback refused.
    IgnoresCallbackError,
    /// It submits in the middle of an asynchronous lock.
    SubmitsInLockAsync,
    /// It submits without a context.
    NoContext,
    /// It asks what the hardware is when it is to make a device.
    QueriesCapsLate,
    /// It forgets its context when its device goes.
    LeaksContext,
    /// It asks to ignore the GPU, and to wait for it.
    SetsIgnoreSyncWithoutDoNotWait,
    /// It makes four devices of an adapter, and no more.
    LimitsDevices,
    /// It keeps what it has of an adapter that is closed.
    LeaksAdapter,
    /// It describes what it shares by what it has made before.
    VariesSharedAllocations,
    /// It makes nothing in system memory that it cannot wrap.
    FailsUnwrappableSysmem,
    /// It makes more room for what has a vertex format, vertices or not.
    ReadsReservedMembers,
    /// It releases later, by a handle that is dead then.
    DefersFreeByHandle,
    /// It frees the allocations of a resource by list, and the resource then.
    FreesListThenResource,
    /// It tries a lock that was refused again at once.
    RetriesLockImmediately,
    /// It does not say which primaries it writes.
    OmitsWrittenPrimaries,
    /// It keeps in one place, for all devices, what it is making.
    SharesStateBetweenDevices,
    /// It has the GPU wait ahead of commands that it collected before.
    QueuesWaitBeforeCommands,
    /// It frees the allocations of a shared resource by list.
    FreesSharedByList,
    /// It unlocks what the application has locked when it flushes.
    UnlocksApplicationLock,
    /// It has what is shared renamed.
    RenamesShared,
    /// It answers for four surfaces what is an answer for buffers.
    ReturnsIllegalCreateError,
    /// It makes another failure of what a callback answered.
    ChangesCallbackError,
    /// It submits commands without their last byte.
    SubmitsTruncatedCommands,
    /// It allocates on a thread that it started itself.
    AllocatesOnOwnThread,
    /// It destroys its context twice.
    DestroysContextTwice,
    /// It leaves locked what it submits.
    SubmitsLocked,
}

impl Flaw {
    /// The flaw of a number that an entry point has.
    pub(super) fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::None)
    }
}

/// The user-mode driver of the built-in GPU, with a flaw or with none.
pub fn with(flaw: Flaw) -> Umd {
    // SAFETY: The entry points of this crate are those of drivers in safe Rust: what they call
    // back with is good.
    unsafe { Umd::new(flaw.entry::<RuntimeMemory>()) }.counting(umd::live_objects_of)
}
