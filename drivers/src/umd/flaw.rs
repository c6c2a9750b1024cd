//! What a user-mode driver does wrong, and the list of them.
//!
//! To add one: a line here, and the place where it shows (`flaw ==` finds them all).
#![forbid(unsafe_code)]

use super::soft::Soft;
use abi::umd::PFND3DDDI_OPENADAPTER;
use std::fmt;
use umd::open_adapter;

/// A user-mode driver that can be flown by its name.
pub struct ListedUmd {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence without its full stop.
    pub about: &'static str,
    /// What it does wrong.
    pub flaw: Flaw,
    /// Its `OpenAdapter`.
    pub open: PFND3DDDI_OPENADAPTER,
}

impl fmt::Debug for ListedUmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedUmd").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! umds {
    ($($flaw:ident $name:literal $about:literal;)+) => {
        /// What a user-mode driver does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Flaw {
            $(#[doc = $about] $flaw,)+
        }

        impl Flaw {
            const ALL: &[Self] = &[$(Self::$flaw),+];
        }

        /// Every user-mode driver: the good one first.
        pub const UMDS: &[ListedUmd] = &[$(ListedUmd {
            name: $name,
            about: $about,
            flaw: Flaw::$flaw,
            open: open_adapter::<Soft<{ Flaw::$flaw as u8 }>>,
        }),+];
    };
}

umds! {
    None "umd-soft" "the built-in GPU's user-mode driver, in safe Rust";
    ReleasesBeforeFlush "umd-releases-before-flush"
        "releases a resource that its commands, not submitted yet, use";
    FreesTheListOnly "umd-frees-the-list-only"
        "frees the allocations of a resource by list, and the resource never";
    FreesTwice "umd-frees-twice" "releases a resource a second time";
    FreesLocked "umd-frees-locked" "frees an allocation that it has locked";
    FreesOneOfGroup "umd-frees-one-of-group" "frees one allocation of a resource, and no other";
    FreesOneByOne "umd-frees-one-by-one"
        "frees the allocations of a resource one by one, and the resource never";
    DefersForever "umd-defers-forever" "puts a release off, and forgets it";
    FreesAndFails "umd-frees-and-fails" "releases a resource, and answers that it could not";
    FailsOddly "umd-fails-oddly" "answers a destroy with what a destroy may not answer";
    CallsAfterDevice "umd-calls-after-device"
        "calls the runtime for a device that it was told to destroy";
    WrongThread "umd-wrong-thread" "submits on a thread that it started itself";
    ResourceAndList "umd-resource-and-list" "releases a resource and lists its allocations besides";
    FreesByOwnHandle "umd-frees-by-own-handle"
        "releases a resource by the handle that it gave the runtime";
    AssumesNotInUse "umd-assumes-not-in-use" "frees what the GPU uses as if it did not";
    KeepsItsHandle "umd-keeps-its-handle" "leaves the runtime's handle of a resource in its place";
    HandlesTwice "umd-handles-twice" "gives two resources the same handle";
    ForgetsToUnlock "umd-forgets-to-unlock" "never unlocks what it has locked";
    RefusesSecondLock "umd-refuses-second-lock" "refuses to lock what is locked";
    UnlocksAnything "umd-unlocks-anything" "unlocks what is not locked, and says that it did";
    NeverWaits "umd-never-waits" "answers a lock that may wait that the GPU is still drawing";
    KeepsOldBuffers "umd-keeps-old-buffers" "writes on into buffers that are no longer its own";
    KeepsOldInstance "umd-keeps-old-instance" "uses the memory that a lock has replaced";
    TakesAnyIndex "umd-takes-any-index" "fills the last surface for one that there is not";
    AllocatesOnOpen "umd-allocates-on-open" "allocates memory for a resource that has some";
    AllocatesEach "umd-allocates-each" "allocates each surface of a resource in a call of its own";
    SwallowsErrors "umd-swallows-errors" "answers success where a callback refused";
    FlushesInLockAsync "umd-flushes-in-lock-async" "submits in the middle of an asynchronous lock";
    NoContext "umd-no-context" "submits without a context";
    AsksLate "umd-asks-late" "asks what the hardware is when it is to make a device";
    LeavesContext "umd-leaves-context" "forgets its context when its device goes";
    IgnoresSyncAlone "umd-ignores-sync-alone" "asks to ignore the GPU, and to wait for it";
}

impl Flaw {
    /// The flaw of a number that an entry point has.
    pub(super) fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::None)
    }
}
