//! The table sources, by name.
#![expect(unsafe_code, reason = "vouches for the tables of this crate")]

use super::registry::{ListedStream, Make};
use super::table::{
    DEFAULT, DEVICE, FILTER, GOOD as SOURCE, PIN, Shape, driver_entry, static_tables,
};
use super::table_allocator::ALLOCATOR;
use super::table_bad as bad;
use super::table_edited_framing::EDITED_FRAMING;
use super::table_invalid_pointers::INVALID_POINTERS;
use super::table_scatter_gather::SCATTER_GATHER;
use super::table_variants::{FILTER_CENTRIC, FRAME_INJECTION, FULL_API};
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
            // SAFETY: The tables are of this crate and are never freed.
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

/// The good drivers.
pub(super) const GOOD: &[ListedStream] = tables! {
    "table-capture" "a test-pattern source with its own allocator" []
        shaped!(SOURCE);
    "table-capture-default-allocator" "the test-pattern source with the default allocator" [] shaped!(DEFAULT);
    "table-capture-driver-entry" "the test-pattern source, loaded through its DriverEntry" [] |log| {
        // SAFETY: The tables are of this crate and are never freed.
        unsafe { KsDriver::load(driver_entry, Pool::new(log.clone())) }
    };
    "table-capture-cancellable-frames" "the test-pattern source with frames that can be cancelled in flight" []
        shaped!(Shape {
            pin: KSPIN_DISPATCH { Process: Some(super::table::process_unlocking), ..PIN },
            ..SOURCE
        });
    "table-capture-full-api" "uses mutexes, object bags, gates, requests and more filter factories" []
        shaped!(FULL_API);
    "table-capture-filter-centric" "processes all pins of a filter together" [] shaped!(FILTER_CENTRIC);
    "table-capture-edited-framing" "edits its framing when a pin is created, uses a gate, and has one context block for all allocators" []
        shaped!(EDITED_FRAMING);
    "table-capture-scatter-gather" "has its hardware write through scatter-gather mappings" [] shaped!(SCATTER_GATHER);
    "table-capture-frame-injection" "sends its own frames downstream" [] shaped!(FRAME_INJECTION);
};

/// The bad drivers.
pub(super) const BAD: &[ListedStream] = tables! {
    "table-ks-leaks-allocator-context" "does not free the context of a deleted allocator" [KS_ALLOC_014]
        allocator!(DeleteAllocator leaks_allocator_context);
    "table-ks-frees-frames-late" "frees frames after their allocator was deleted"
        [KS_ALLOC_014 KS_ALLOC_015] shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH {
                DeleteAllocator: Some(bad::defers_delete),
                ..ALLOCATOR
            }),
            pin: KSPIN_DISPATCH { Close: Some(bad::closes_and_deletes), ..PIN },
            ..SOURCE
        });
    "table-ks-writes-deleted-allocator" "writes to the context of a deleted allocator" [WT_POOL_002]
        pin!(Close closes_and_writes);
    "table-ks-leaks-failed-allocator" "does not free memory when the creation of an allocator fails" [KS_ALLOC_004]
        allocator!(InitializeAllocator leaks_failed_allocator);
    "table-ks-omits-allocator-context" "returns no context for its allocator" [KS_ALLOC_003 WT_POOL_001]
        allocator!(InitializeAllocator omits_allocator_context);
    "table-ks-omits-every-allocator-context" "returns no context for any allocator and frees it nevertheless"
        [KS_ALLOC_003] shaped!(Shape {
            allocator: Some(KSALLOCATOR_DISPATCH {
                InitializeAllocator: Some(bad::omits_allocator_context),
                Allocate: Some(bad::roomy_frame),
                Free: Some(bad::free_short),
                DeleteAllocator: Some(bad::defers_delete),
            }),
            ..SOURCE
        });
    "table-ks-allocates-short-frames" "allocates frames that are smaller than requested" [KS_ALLOC_006]
        allocator!(Allocate short_frame, Free free_short);
    "table-ks-returns-frame-twice" "returns a frame that is already in use" [KS_ALLOC_008]
        allocator!(Allocate same_frame, Free free_same_frame);
    "table-ks-writes-freed-frame" "writes to a frame after its free routine" [KS_ALLOC_011]
        pin!(SetDataFormat writes_freed_frame);
    "table-ks-omits-delete-allocator" "has an allocator without a delete routine" [KS_ALLOC_017] shaped!(Shape {
        allocator: Some(KSALLOCATOR_DISPATCH { DeleteAllocator: None, ..ALLOCATOR }),
        ..SOURCE
    });
    "table-ks-sets-partial-default-allocator" "requests a default allocator with a free routine but no allocate routine"
        [KS_ALLOC_023] pin!(Create half_default);
    "table-ks-frees-bagged-item" "frees an item that is in an object bag" [KS_BAG_003] pin!(Close frees_bagged_item);
    "table-ks-overstates-copied-framing" "reports more framing items than it copied" [KS_BAG_005]
        pin!(SetDataFormat overstates_copied_framing);
    "table-ks-returns-pending-from-start" "returns STATUS_PENDING from its start routine" [KS_DEV_001]
        device!(PostStart returns_pending_from_start);
    "table-ks-leaks-device-memory" "does not free memory when its device is removed" [KS_DEV_006] device!(Add adds_more);
    "table-ks-claims-missing-allocator" "sets the can-allocate framing flag without an allocator" [KS_FRAMING_003]
        shaped!(Shape { allocator: None, ..SOURCE });
    "table-ks-walks-filters-without-mutex" "enumerates its filters without the device mutex" [KS_MUTEX_004]
        device!(PostStart walks_filters_without_mutex);
    "table-ks-returns-with-mutex" "returns with a mutex held" [KS_MUTEX_005] device!(PostStart returns_with_mutex);
    "table-ks-acquires-mutex-at-dispatch" "acquires a mutex at DISPATCH_LEVEL" [KS_MUTEX_005]
        pin!(Process process_and_lock);
    "table-ks-uses-closed-pin" "uses a pin after its close" [KS_PIN_004]
        filter!(Close uses_closed_pin);
    "table-ks-writes-closed-pin" "writes to the KSPIN of a closed pin" [KS_PIN_004]
        filter!(Close writes_closed_pin);
    "table-ks-keeps-closed-pin-clock" "keeps the reference clock of a closed pin" [KS_PIN_004]
        pin!(SetDeviceState keeps_closed_pin_clock);
    "table-ks-writes-pin-state" "changes DeviceState in its KSPIN" [KS_PIN_007] pin!(Process writes_state);
    "table-ks-writes-connection-format" "changes its connection format in place" [KS_PIN_007]
        pin!(Process writes_format);
    "table-ks-returns-pending-from-state" "returns STATUS_PENDING from its set-state routine" [KS_PIN_012]
        pin!(SetDeviceState returns_pending_from_state);
    "table-ks-attempts-null-pin" "calls KsPinAttemptProcessing without a pin" [KS_PROC_004] pin!(Process attempts_null_pin);
    "table-ks-writes-unlocked-pointer" "writes a header through a stream pointer that is not locked" [KS_PTR_001]
        pin!(Process process_unlocked);
    "table-ks-deletes-leading-edge" "deletes its leading edge" [KS_PTR_003] pin!(Process deletes_edge);
    "table-ks-deletes-clone-twice" "deletes a clone stream pointer twice" [KS_PTR_004]
        pin!(Process process_twice);
    "table-ks-keeps-clone-after-cancel" "does not delete a clone in its cancel callback" [KS_PTR_007]
        pin!(Process process_cancellable);
    "table-ks-advances-past-frame" "advances a stream pointer past the end of a frame" [KS_PTR_008] pin!(Process process_too_far);
    "table-ks-overstates-bytes-used" "reports more used bytes than a frame has" [KS_PTR_014]
        pin!(Process process_too_much);
    "table-ks-rejects-direct-stop" "fails a direct change from run to stop" [KS_STATE_002] shaped!(Shape {
        pin: KSPIN_DISPATCH { SetDeviceState: Some(bad::rejects_direct_stop), ..PIN },
        flags: KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT,
        ..SOURCE
    });
    "table-ks-stops-with-clones" "stops with live clones and scheduled timeouts"
        [KS_PTR_005 KS_STATE_007 KS_PTR_012] pin!(SetDeviceState stops_with_clones);
    "table-ks-waits-at-dispatch" "waits at DISPATCH_LEVEL" [WT_LEVEL_001]
        pin!(Process process_and_wait);
    "table-ks-queries-device-at-dispatch" "calls KsGetDevice at DISPATCH_LEVEL" [WT_LEVEL_001]
        pin!(Process process_querying_device);
    "table-ks-passes-invalid-pointers" "calls every export with invalid pointers"
        [KS_DEV_004 KS_BAG_001 KS_PIN_002 KS_PIN_004 KS_PROC_004 KS_PTR_004 WT_LEVEL_001]
        shaped!(INVALID_POINTERS);
};
