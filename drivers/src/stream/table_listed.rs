//! The sources with a table by name.
#![expect(unsafe_code, reason = "vouches for the tables of this crate")]

use super::listed::{ListedStream, Make};
use super::table::{
    DEFAULT, DEVICE, FILTER, GOOD as SOURCE, PIN, Shape, driver_entry, static_tables,
};
use super::table_allocator::ALLOCATOR;
use super::table_bad as bad;
use super::table_careful::EDITED_FRAMING;
use super::table_hostile::INVALID_POINTERS;
use super::table_mapped::SCATTER_GATHER;
use super::table_shapes::{FILTER_CENTRIC, FRAME_INJECTION, FULL_API};
use abi::ks::{
    KSALLOCATOR_DISPATCH, KSDEVICE_DISPATCH, KSFILTER_DISPATCH, KSPIN_DISPATCH,
    KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT,
};
use flight::RuleId;
use nt::Pool;
use port::KsDriver;

macro_rules! shaped {
    ($layout:expr) => {
        |log| {
            // SAFETY: The tables are of this crate, and stay.
            unsafe { KsDriver::new(static_tables!($layout), Pool::new(log.clone())) }
        }
    };
}

macro_rules! pin {
    ($($slot:ident $call:ident),+) => {
        shaped!(Shape { pin: KSPIN_DISPATCH { $($slot: Some(bad::$call),)+ ..PIN }, ..SOURCE })
    };
}

macro_rules! allocator {
    ($($slot:ident $call:ident),+) => {
        shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH { $($slot: Some(bad::$call),)+ ..ALLOCATOR }),
            ..SOURCE
        })
    };
}

macro_rules! device {
    ($slot:ident $call:ident) => {
        shaped!(Shape { device: KSDEVICE_DISPATCH { $slot: Some(bad::$call), ..DEVICE }, ..SOURCE })
    };
}

macro_rules! filter {
    ($slot:ident $call:ident) => {
        shaped!(Shape { filter: KSFILTER_DISPATCH { $slot: Some(bad::$call), ..FILTER }, ..SOURCE })
    };
}

macro_rules! tables {
    ($($name:literal $about:literal [$($rule:ident)*] $make:expr;)*) => {
        &[$(ListedStream {
            name: $name,
            about: $about,
            breaks: &[$(RuleId::$rule),*],
            make: Make::Table($make),
        }),*]
    };
}

/// The good ones.
pub(super) const GOOD: &[ListedStream] = tables! {
    "table-capture" "a test-pattern source with an allocator of its own" []
        shaped!(SOURCE);
    "table-capture-default" "the same, with the default allocator" [] shaped!(DEFAULT);
    "table-capture-loaded" "the same, given by its DriverEntry" [] |log| {
        // SAFETY: The tables are of this crate, and stay.
        unsafe { KsDriver::load(driver_entry, Pool::new(log.clone())) }
    };
    "table-capture-unlocking" "the same, with frames that can be cancelled in flight" []
        shaped!(Shape {
            pin: KSPIN_DISPATCH { Process: Some(super::table::process_unlocking), ..PIN },
            ..SOURCE
        });
    "table-capture-thorough" "uses mutexes, bags, gates, requests and more factories" []
        shaped!(FULL_API);
    "table-capture-centric" "processes all pins of a filter together" [] shaped!(FILTER_CENTRIC);
    "table-capture-careful" "grows its frames when a pin is made, keeps a gate, has one block for all" []
        shaped!(EDITED_FRAMING);
    "table-capture-mapped" "has its hardware write through mappings" [] shaped!(SCATTER_GATHER);
    "table-capture-injects" "sends frames of its own on" [] shaped!(FRAME_INJECTION);
};

/// The bad ones.
pub(super) const BAD: &[ListedStream] = tables! {
    "table-capture-leaks-context" "keeps the context of an allocator that is deleted" [KS_ALLOC_014]
        allocator!(DeleteAllocator leaks_allocator_context);
    "table-capture-frees-late" "frees frames of an allocator after it was deleted"
        [KS_ALLOC_014 KS_ALLOC_015] shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH {
                DeleteAllocator: Some(bad::defers_delete),
                ..ALLOCATOR
            }),
            pin: KSPIN_DISPATCH { Close: Some(bad::closes_and_deletes), ..PIN },
            ..SOURCE
        });
    "table-capture-uses-deleted" "writes to the context of an allocator that was deleted" [WT_POOL_002]
        pin!(Close closes_and_writes);
    "table-capture-fails-untidily" "keeps memory of an allocator it could not make" [KS_ALLOC_004]
        allocator!(InitializeAllocator leaks_failed_allocator);
    "table-capture-no-context" "gives its allocator no context" [KS_ALLOC_003 WT_POOL_001]
        allocator!(InitializeAllocator omits_allocator_context);
    "table-capture-one-context" "has no context for any of its allocators, and frees all the same"
        [KS_ALLOC_003] shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH {
                InitializeAllocator: Some(bad::omits_allocator_context),
                Allocate: Some(bad::roomy_frame),
                Free: Some(bad::free_short),
                DeleteAllocator: Some(bad::defers_delete),
            }),
            ..SOURCE
        });
    "table-capture-short-frames" "allocates frames that are too short" [KS_ALLOC_006]
        allocator!(Allocate short_frame, Free free_short);
    "table-capture-frame-twice" "hands a frame out that is out" [KS_ALLOC_008 WT_POOL_001]
        allocator!(Allocate same_frame);
    "table-capture-writes-freed" "writes to a frame that it was told to free" [KS_ALLOC_011]
        pin!(SetDataFormat writes_freed_frame);
    "table-capture-half-allocator" "has an allocator without an end" [KS_ALLOC_017] shaped!(Shape {
        allocator: Some(KSALLOCATOR_DISPATCH { DeleteAllocator: None, ..ALLOCATOR }),
        ..SOURCE
    });
    "table-capture-half-default" "asks for a default allocator that frees what it does not allocate"
        [KS_ALLOC_023] pin!(Create half_default);
    "table-capture-frees-bagged" "frees what is in a bag" [KS_BAG_003] pin!(Close frees_bagged_item);
    "table-capture-short-copy" "says that its framing has more items than it copied" [KS_BAG_005]
        pin!(SetDataFormat overstates_copied_framing);
    "table-capture-pending-start" "answers that its start is pending" [KS_DEV_001]
        device!(PostStart returns_pending_from_start);
    "table-capture-leaks" "keeps memory when its device is removed" [KS_DEV_006] device!(Add adds_more);
    "table-capture-claims" "says that it can allocate, and has no allocator" [KS_FRAMING_003]
        shaped!(Shape { allocator: None, ..SOURCE });
    "table-capture-walks-unlocked" "walks its filters without the device mutex" [KS_MUTEX_004]
        device!(PostStart walks_filters_without_mutex);
    "table-capture-keeps-mutex" "returns with a mutex" [KS_MUTEX_005] device!(PostStart returns_with_mutex);
    "table-capture-locks-high" "takes a mutex at dispatch level" [KS_MUTEX_005]
        pin!(Process process_and_lock);
    "table-capture-uses-closed" "uses its pin after that was closed" [KS_PIN_004]
        filter!(Close uses_closed_pin);
    "table-capture-writes-closed" "writes to the structure of a pin that was closed" [KS_PIN_004]
        filter!(Close writes_closed_pin);
    "table-capture-keeps-clock" "keeps a reference clock of a pin that was closed" [KS_PIN_004]
        pin!(SetDeviceState keeps_closed_pin_clock);
    "table-capture-writes-state" "changes the state in its KSPIN" [KS_PIN_007] pin!(Process writes_state);
    "table-capture-writes-format" "changes its connection format in place" [KS_PIN_007]
        pin!(Process writes_format);
    "table-capture-pending-state" "answers that a state is pending" [KS_PIN_012]
        pin!(SetDeviceState returns_pending_from_state);
    "table-capture-no-pin" "attempts to process no pin" [KS_PROC_004] pin!(Process attempts_null_pin);
    "table-capture-unlocked" "writes a header through a pointer that is not locked" [KS_PTR_001]
        pin!(Process process_unlocked);
    "table-capture-deletes-edge" "deletes its leading edge" [KS_PTR_003] pin!(Process deletes_edge);
    "table-capture-deletes-twice" "completes a frame twice: deletes its clone again" [KS_PTR_004]
        pin!(Process process_twice);
    "table-capture-keeps-cancelled" "leaves a clone in its cancel callback" [KS_PTR_007]
        pin!(Process process_cancellable);
    "table-capture-too-far" "advances beyond the end of a frame" [KS_PTR_008] pin!(Process process_too_far);
    "table-capture-overstates" "says that it used more bytes than a frame has" [KS_PTR_014]
        pin!(Process process_too_much);
    "table-capture-refuses-jump" "refuses to go from run to stop at once" [KS_STATE_002] shaped!(Shape {
        pin: KSPIN_DISPATCH { SetDeviceState: Some(bad::rejects_direct_stop), ..PIN },
        flags: KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT,
        ..SOURCE
    });
    "table-capture-keeps-clones" "stops with clones alive, and their timeouts"
        [KS_STATE_007 KS_PTR_005 KS_PTR_012] pin!(SetDeviceState stops_with_clones);
    "table-capture-waits-at-dispatch" "waits at dispatch level" [WT_LEVEL_001]
        pin!(Process process_and_wait);
    "table-capture-asks-high" "asks for its device at dispatch level" [WT_LEVEL_001]
        pin!(Process process_querying_device);
    "table-capture-hostile" "calls everything with pointers that mean nothing"
        [KS_DEV_004 KS_BAG_001 KS_PIN_002 KS_PIN_004 KS_PROC_004 KS_PTR_004 WT_LEVEL_001]
        shaped!(INVALID_POINTERS);
};
