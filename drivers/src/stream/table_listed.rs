//! The sources with a table by name.
#![expect(unsafe_code, reason = "vouches for the tables of this crate")]

use super::table::{DEFAULT, DEVICE, FILTER, GOOD, PIN, Shape, driver_entry, laid};
use super::table_allocator::ALLOCATOR;
use super::table_bad as bad;
use super::table_hostile::HOSTILE;
use super::table_shapes::{CENTRIC, INJECTS, THOROUGH};
use abi::ks::{
    KSALLOCATOR_DISPATCH, KSDEVICE_DISPATCH, KSFILTER_DISPATCH, KSPIN_DISPATCH,
    KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT,
};
use flight::{Log, RuleId};
use nt::Pool;
use port::KsDriver;
use std::fmt;
use std::sync::Arc;
use stream::BadDescriptor;

/// A streaming minidriver with a table that can be flown by its name.
pub struct ListedTable {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence without its full stop.
    pub about: &'static str,
    /// The rules it breaks, the one that is found first in front; none if it is good.
    pub breaks: &'static [RuleId],
    /// Makes a new one, with a pool of its own.
    pub make: fn(&Arc<Log>) -> Result<Arc<KsDriver>, BadDescriptor>,
}

impl fmt::Debug for ListedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedTable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The one of that name.
pub fn find_table(name: &str) -> Option<&'static ListedTable> {
    TABLES.iter().find(|it| it.name == name)
}

macro_rules! shaped {
    ($shape:expr) => {
        |log| {
            // SAFETY: The tables are of this crate, and stay.
            unsafe { KsDriver::new(laid!($shape), Pool::new(log.clone())) }
        }
    };
}

macro_rules! pin {
    ($($slot:ident $call:ident),+) => {
        shaped!(Shape { pin: KSPIN_DISPATCH { $($slot: Some(bad::$call),)+ ..PIN }, ..GOOD })
    };
}

macro_rules! allocator {
    ($($slot:ident $call:ident),+) => {
        shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH { $($slot: Some(bad::$call),)+ ..ALLOCATOR }),
            ..GOOD
        })
    };
}

macro_rules! device {
    ($slot:ident $call:ident) => {
        shaped!(Shape { device: KSDEVICE_DISPATCH { $slot: Some(bad::$call), ..DEVICE }, ..GOOD })
    };
}

macro_rules! filter {
    ($slot:ident $call:ident) => {
        shaped!(Shape { filter: KSFILTER_DISPATCH { $slot: Some(bad::$call), ..FILTER }, ..GOOD })
    };
}

macro_rules! tables {
    ($($name:literal $about:literal [$($rule:ident)*] $make:expr;)*) => {
        /// Every streaming minidriver with a table: the good ones first.
        pub const TABLES: &[ListedTable] = &[$(ListedTable {
            name: $name,
            about: $about,
            breaks: &[$(RuleId::$rule),*],
            make: $make,
        }),*];
    };
}

tables! {
    "table-capture" "a test-pattern source with an allocator of its own, as a table" []
        shaped!(GOOD);
    "table-capture-default" "the same, with the default allocator" [] shaped!(DEFAULT);
    "table-capture-loaded" "the same, given by its DriverEntry" [] |log| {
        // SAFETY: The tables are of this crate, and stay.
        unsafe { KsDriver::load(driver_entry, Pool::new(log.clone())) }
    };
    "table-capture-unlocking" "the same, with frames that can be cancelled in flight" []
        shaped!(Shape {
            pin: KSPIN_DISPATCH { Process: Some(super::table::process_unlocking), ..PIN },
            ..GOOD
        });
    "table-capture-thorough" "uses mutexes, bags, gates, requests and more factories" []
        shaped!(THOROUGH);
    "table-capture-centric" "processes all pins of a filter together" [] shaped!(CENTRIC);
    "table-capture-injects" "sends frames of its own on" [] shaped!(INJECTS);
    "table-leaks-context" "keeps the context of an allocator that is deleted" [KS_ALLOC_014]
        allocator!(DeleteAllocator leaks_context);
    "table-frees-late" "frees frames of an allocator after it was deleted"
        [KS_ALLOC_014 KS_ALLOC_015] shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH {
                DeleteAllocator: Some(bad::deletes_later),
                ..ALLOCATOR
            }),
            pin: KSPIN_DISPATCH { Close: Some(bad::closes_and_deletes), ..PIN },
            ..GOOD
        });
    "table-uses-deleted" "writes to the context of an allocator that was deleted" [WT_POOL_002]
        pin!(Close closes_and_writes);
    "table-fails-untidily" "keeps memory of an allocator it could not make" [KS_ALLOC_004]
        allocator!(InitializeAllocator fails_untidily);
    "table-no-context" "gives its allocator no context" [KS_ALLOC_003]
        allocator!(InitializeAllocator no_context);
    "table-short-frames" "allocates frames that are too short" [KS_ALLOC_006]
        allocator!(Allocate short_frame, Free free_short);
    "table-frame-twice" "hands a frame out that is out" [KS_ALLOC_008]
        allocator!(Allocate same_frame);
    "table-writes-freed" "writes to a frame that it was told to free" [KS_ALLOC_011]
        pin!(SetDataFormat writes_freed);
    "table-half-allocator" "has an allocator without an end" [KS_ALLOC_017] shaped!(Shape {
        allocator: Some(KSALLOCATOR_DISPATCH { DeleteAllocator: None, ..ALLOCATOR }),
        ..GOOD
    });
    "table-half-default" "asks for a default allocator that frees what it does not allocate"
        [KS_ALLOC_023] pin!(Create half_default);
    "table-frees-bagged" "frees what is in a bag" [KS_BAG_003] pin!(Close frees_bagged);
    "table-pending-start" "answers that its start is pending" [KS_DEV_001]
        device!(PostStart pends_start);
    "table-leaks" "keeps memory when its device is removed" [KS_DEV_006] device!(Add adds_more);
    "table-claims" "says that it can allocate, and has no allocator" [KS_FRAMING_003]
        shaped!(Shape { allocator: None, ..GOOD });
    "table-walks-unlocked" "walks its filters without the device mutex" [KS_MUTEX_004]
        device!(PostStart walks_unlocked);
    "table-keeps-mutex" "returns with a mutex" [KS_MUTEX_005] device!(PostStart keeps_mutex);
    "table-locks-high" "takes a mutex at dispatch level" [KS_MUTEX_005]
        pin!(Process process_and_lock);
    "table-uses-closed" "uses its pin after that was closed" [KS_PIN_004]
        filter!(Close uses_closed);
    "table-writes-closed" "writes to the structure of a pin that was closed" [KS_PIN_004]
        filter!(Close writes_closed);
    "table-keeps-clock" "keeps a reference clock of a pin that was closed" [KS_PIN_004]
        pin!(SetDeviceState keeps_clock);
    "table-writes-state" "changes the state in its KSPIN" [KS_PIN_007] pin!(Process writes_state);
    "table-writes-format" "changes its connection format in place" [KS_PIN_007]
        pin!(Process writes_format);
    "table-pending-state" "answers that a state is pending" [KS_PIN_012]
        pin!(SetDeviceState pends_state);
    "table-no-pin" "attempts to process no pin" [KS_PROC_004] pin!(Process attempts_nothing);
    "table-unlocked" "writes a header through a pointer that is not locked" [KS_PTR_001]
        pin!(Process process_unlocked);
    "table-deletes-edge" "deletes its leading edge" [KS_PTR_003] pin!(Process deletes_edge);
    "table-deletes-twice" "completes a frame twice: deletes its clone again" [KS_PTR_004]
        pin!(Process process_twice);
    "table-keeps-cancelled" "leaves a clone in its cancel callback" [KS_PTR_007]
        pin!(Process process_cancellable);
    "table-too-far" "advances beyond the end of a frame" [KS_PTR_008] pin!(Process process_too_far);
    "table-overstates" "says that it used more bytes than a frame has" [KS_PTR_014]
        pin!(Process process_too_much);
    "table-refuses-jump" "refuses to go from run to stop at once" [KS_STATE_002] shaped!(Shape {
        pin: KSPIN_DISPATCH { SetDeviceState: Some(bad::refuses_jumps), ..PIN },
        flags: KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT,
        ..GOOD
    });
    "table-keeps-clones" "stops with clones alive, and their timeouts"
        [KS_STATE_007 KS_PTR_005 KS_PTR_012] pin!(SetDeviceState keeps_clones);
    "table-waits-at-dispatch" "waits at dispatch level" [WT_LEVEL_001]
        pin!(Process process_and_wait);
    "table-asks-high" "asks for its device at dispatch level" [WT_LEVEL_001]
        pin!(Process process_and_ask);
    "table-hostile" "calls everything with pointers that mean nothing" [KS_DEV_004]
        shaped!(HOSTILE);
}
