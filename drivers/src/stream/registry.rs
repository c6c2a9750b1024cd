//! The streaming minidrivers, by name.

use super::bad_allocator::{AllocatorFlaw, AllocatorFlawDriver};
use super::bad_descriptors as layout;
use super::capture::{Capture, FrameSource};
use super::capture_variants::{
    self, FilterCentricCapture, InjectingCapture, PendingCapture, SynchronousCapture, Trailing,
};
use super::table_registry as tables;
use super::{bad_calls as call, bad_frames as frame};
use flight::{Log, RuleId};
use port::KsDriver;
use std::fmt;
use std::sync::Arc;
use stream::{DescriptorError, DriverSetup, Minidriver, PinFlag, SystemMemory};

/// A streaming minidriver that can be flown by name.
pub struct ListedStream {
    /// The name.
    pub name: &'static str,
    /// What the driver does, in a sentence without its full stop.
    pub about: &'static str,
    /// The rules it breaks, the first finding's rule first; empty for a good driver.
    pub breaks: &'static [RuleId],
    /// Creates the driver.
    pub make: Make,
}

/// How a streaming minidriver is created.
#[derive(Clone, Copy)]
pub enum Make {
    /// In safe Rust.
    Rust(fn() -> Arc<dyn Minidriver>),
    /// With function tables and its own pool.
    Table(fn(&Arc<Log>) -> Result<Arc<KsDriver>, DescriptorError>),
}

impl ListedStream {
    /// Creates a driver, and memory for its frames.
    pub fn set_up(&self, log: &Arc<Log>) -> Result<DriverSetup, DescriptorError> {
        match self.make {
            Make::Rust(make) => {
                Ok(DriverSetup { minidriver: make(), memory: Arc::new(SystemMemory::default()) })
            }
            Make::Table(make) => Ok(make(log)?.set_up()),
        }
    }

    /// Whether the driver has function tables.
    pub fn is_table(&self) -> bool {
        matches!(self.make, Make::Table(_))
    }
}

impl fmt::Debug for ListedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedStream").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the streaming minidriver of that name.
pub fn find(name: &str) -> Option<&'static ListedStream> {
    STREAMS.iter().copied().flatten().find(|listed_stream| listed_stream.name == name)
}

macro_rules! streams {
    ($($name:literal $about:literal [$($rule:ident)*] $make:expr;)*) => {
        &[$(ListedStream {
            name: $name,
            about: $about,
            breaks: &[$(RuleId::$rule),*],
            make: Make::Rust($make),
        }),*]
    };
}

/// Every streaming minidriver, good drivers first.
pub const STREAMS: &[&[ListedStream]] = &[GOOD, tables::GOOD, BAD, tables::BAD];

fn own(hook: super::capture::CallHook) -> Arc<dyn Minidriver> {
    Arc::new(Capture::with(FrameSource::Own, hook))
}

fn unlocking(hook: super::capture::CallHook) -> Arc<dyn Minidriver> {
    Arc::new(Capture::with(FrameSource::Own, hook).unlocking())
}

fn default(hook: super::capture::CallHook) -> Arc<dyn Minidriver> {
    Arc::new(Capture::with(FrameSource::Default, hook))
}

fn synchronous(hook: super::capture::CallHook) -> Arc<dyn Minidriver> {
    Arc::new(SynchronousCapture(Capture::with(FrameSource::Own, hook)))
}

const GOOD: &[ListedStream] = streams! {
    "capture" "a test-pattern source with its own allocator, in safe Rust" []
        || Arc::new(Capture::new());
    "capture-default-allocator" "the test-pattern source with the default allocator" [] || default(|_, _, _| Ok(()));
    "capture-synchronous" "fills frames in its process routine" [] || synchronous(|_, _, _| Ok(()));
    "capture-full-api" "uses mutexes, object bags, gates and a second filter factory" [] capture_variants::full_api_capture;
    "capture-trailing-edge" "keeps filled frames behind a trailing edge" []
        || Arc::new(Trailing::new());
    "capture-filter-centric" "processes all pins of a filter together" [] || Arc::new(FilterCentricCapture::new(false));
    "capture-frame-injection" "sends its own frames downstream" [] || Arc::new(InjectingCapture::new());
    "capture-pending-requests" "completes create and close requests later" [] || Arc::new(PendingCapture(Capture::new()));
    "capture-direct-state-changes" "its pin changes between any two states directly" [] || {
        Arc::new(Capture::new().shaped(|pin| pin.flags.push(PinFlag::DoNotUseStandardTransport)))
    };
};

const BAD: &[ListedStream] = streams! {
    "ks-omits-allocator-context" "returns no context for its allocator" [KS_ALLOC_003]
        || Arc::new(AllocatorFlawDriver::new(AllocatorFlaw::NoContext));
    "ks-shares-allocator-context" "returns one context for two allocators" [KS_ALLOC_003]
        || Arc::new(AllocatorFlawDriver::new(AllocatorFlaw::SharedContext));
    "ks-leaks-failed-allocator" "does not free memory when the creation of an allocator fails" [KS_ALLOC_004]
        || own(frame::leaks_failed_allocator);
    "ks-allocates-short-frames" "allocates frames that are smaller than requested" [KS_ALLOC_006]
        || Arc::new(AllocatorFlawDriver::new(AllocatorFlaw::Short));
    "ks-waits-in-allocate-frame" "waits before it allocates a frame" [KS_ALLOC_007]
        || own(frame::waits_in_allocate_frame);
    "ks-returns-frame-twice" "returns a frame that is already in use" [KS_ALLOC_008]
        || Arc::new(AllocatorFlawDriver::new(AllocatorFlaw::Twice));
    "ks-writes-freed-frame" "writes to a frame after its allocator was deleted" [KS_ALLOC_011]
        || synchronous(frame::writes_freed_frame);
    "ks-leaks-allocator-context" "does not free the context of a deleted allocator" [KS_ALLOC_014]
        || own(frame::leaks_allocator_context);
    "ks-frees-frames-late" "frees frames after their allocator was deleted"
        [KS_ALLOC_014 KS_ALLOC_015] || own(frame::frees_frames_late);
    "ks-omits-delete-allocator" "has an allocator without a delete routine" [KS_ALLOC_017]
        || layout::own(layout::omits_delete_allocator);
    "ks-defaults-other-memory" "uses the default allocator for memory that is not system memory" [KS_ALLOC_025]
        || layout::default(layout::defaults_other_memory);
    "ks-uses-bag-without-mutex" "uses the device's object bag without the device mutex" [KS_BAG_001]
        || own(call::uses_bag_without_mutex);
    "ks-frees-bagged-item" "frees an item that is in an object bag" [KS_BAG_003] || own(call::frees_bagged_item);
    "ks-frees-item-in-other-bag" "frees an item that is also in another object bag" [KS_BAG_004] || own(call::frees_item_in_other_bag);
    "ks-edits-descriptor-while-processing" "edits a descriptor in its process routine" [KS_BAG_005]
        || own(call::edits_descriptor_while_processing);
    "ks-leaks-bag" "never frees an object bag that it allocated" [KS_BAG_006] || own(call::leaks_bag);
    "ks-returns-pending-from-start" "returns STATUS_PENDING from its start routine" [KS_DEV_001]
        || own(call::returns_pending_from_start);
    "ks-creates-factory-without-mutex" "creates a filter factory without the device mutex" [KS_DEV_003]
        || own(call::creates_factory_without_mutex);
    "ks-completes-create-twice" "completes the create request of a filter twice" [KS_DEV_004]
        || own(call::completes_create_twice);
    "ks-leaks-device-memory" "does not free memory when its device is removed" [KS_DEV_006] || own(call::leaks_device_memory);
    "ks-maps-without-dma-adapter" "uses generated mappings without a registered DMA adapter" [KS_DEV_007]
        || layout::own(layout::maps_without_dma_adapter);
    "ks-miscounts-framing-items" "reports a framing item count that differs from the number of items" [KS_FRAMING_001]
        || layout::own(layout::miscounts_framing_items);
    "ks-reverses-framing-range" "reports a frame size range whose minimum exceeds its maximum"
        [KS_FRAMING_002] || layout::own(layout::reverses_framing_range);
    "ks-claims-missing-allocator" "sets the can-allocate framing flag without an allocator" [KS_FRAMING_003]
        || layout::own(layout::claims);
    "ks-sets-reserved-framing" "sets reserved members of its framing" [KS_FRAMING_004]
        || layout::default(layout::reserved);
    "ks-keeps-stale-framing" "accepts a format whose samples do not fit its frames" [KS_FRAMING_005]
        || Arc::new(layout::KeepsStaleFraming(Capture::new()));
    "ks-overruns-client-frame" "fills client frames as if they had the requested size" [KS_FRAMING_007]
        || synchronous(frame::overruns_client_frame);
    "ks-delivers-wrong-picture" "inverts the last byte of every frame" [WT_FRAME_001]
        || own(frame::delivers_wrong_picture);
    "ks-acquires-device-mutex-twice" "acquires the device mutex in its start routine, which is called with it" [KS_MUTEX_006]
        || own(call::acquires_device_mutex_twice);
    "ks-acquires-mutex-twice" "acquires a mutex that it already holds" [KS_MUTEX_001] || own(call::acquires_mutex_twice);
    "ks-inverts-mutex-order" "acquires the device mutex while it holds the control mutex"
        [KS_MUTEX_002] || own(call::inverts_mutex_order);
    "ks-acquires-control-while-processing" "acquires the control mutex in its process routine"
        [KS_MUTEX_003 KS_MUTEX_002] || own(call::acquires_control_while_processing);
    "ks-walks-filters-without-mutex" "enumerates its filters without the device mutex" [KS_MUTEX_004]
        || own(call::walks_filters_without_mutex);
    "ks-returns-with-mutex" "returns with a mutex held" [KS_MUTEX_005] || own(call::returns_with_mutex);
    "ks-never-completes-pending-create" "returns STATUS_PENDING from a create request and never completes it"
        [KS_PIN_002 WT_STUCK_001] || own(call::never_completes_pending_create);
    "ks-uses-closed-pin" "uses a pin after its close" [KS_PIN_004]
        || own(call::uses_closed_pin);
    "ks-returns-pending-from-format" "returns STATUS_PENDING from its set-format routine" [KS_PIN_006]
        || own(call::returns_pending_from_format);
    "ks-sets-conflicting-pin-flags" "sets mutually exclusive pin flags" [KS_PIN_010]
        || layout::own(layout::sets_conflicting_pin_flags);
    "ks-omits-process-routine" "does not initiate processing and has no process routine" [KS_PIN_011]
        || layout::own(layout::omits_process_routine);
    "ks-returns-pending-from-connect" "returns STATUS_PENDING from its connect routine" [KS_PIN_012]
        || own(call::returns_pending_from_connect);
    "ks-processes-nothing" "returns success from its process routine without processing" [KS_PROC_001 KS_PROC_002]
        || Arc::new(layout::Idle(Capture::new(), Ok(())));
    "ks-stalls-processing" "returns STATUS_PENDING from its process routine and never continues" [KS_PROC_002]
        || Arc::new(layout::Idle(Capture::new(), Err(stream::DriverError::Pending)));
    "ks-attempts-null-pin" "calls KsPinAttemptProcessing without a pin" [KS_PROC_004] || own(call::attempts_null_pin);
    "ks-sets-two-process-routines" "has a process routine in its pin and in its filter" [KS_PROC_005]
        || layout::sets_two_process_routines();
    "ks-underflows-gate" "turns off a gate that is already off" [KS_PROC_006] || own(call::underflows_gate);
    "ks-writes-unlocked-pointer" "writes through a stream pointer that is not locked" [KS_PTR_001]
        || synchronous(frame::writes_unlocked_pointer);
    "ks-ignores-failed-lock" "writes through a stream pointer after its lock failed" [KS_PTR_002]
        || unlocking(frame::ignores_failed_lock);
    "ks-deletes-leading-edge" "deletes its leading edge" [KS_PTR_003] || own(frame::deletes_edge);
    "ks-deletes-clone-twice" "deletes a clone stream pointer twice" [KS_PTR_004]
        || own(frame::deletes_twice);
    "ks-keeps-cancelled-frame-clone" "keeps a clone whose frame was cancelled" [KS_PTR_005]
        || unlocking(frame::keeps_cancelled_frame_clone);
    "ks-keeps-clone-after-cancel" "does not delete a clone in its cancel callback" [KS_PTR_007]
        || unlocking(frame::keeps_clone_after_cancel);
    "ks-advances-past-frame" "advances a stream pointer past the end of a frame" [KS_PTR_008] || own(frame::advances_past_frame);
    "ks-queries-unlocked-pointer-memory" "queries the memory of a stream pointer that is not locked" [KS_PTR_009]
        || own(frame::queries_unlocked_pointer_memory);
    "ks-requests-missing-trailing-edge" "requests a trailing edge that its pin does not have" [KS_PTR_010]
        || own(frame::requests_missing_trailing_edge);
    "ks-leaves-edge-timeout" "leaves the timeout of a stream pointer scheduled at stop" [KS_PTR_012]
        || own(frame::leaves_edge_timeout);
    "ks-moves-edge-in-filter" "moves a leading edge in its filter's process routine" [KS_PTR_013]
        || Arc::new(FilterCentricCapture::new(true));
    "ks-overstates-bytes-used" "reports more used bytes than a frame has" [KS_PTR_014 WT_FRAME_001]
        || synchronous(frame::overstates);
    "ks-rejects-direct-stop" "fails a direct change from run to stop" [KS_STATE_002]
        || layout::rejects_direct_stop();
    "ks-requires-power-before-run" "fails to run before the device power notification"
        [KS_STATE_005] || own(call::requires_power_before_run);
    "ks-programs-hardware-on-connect" "programs the hardware in its connect routine" [KS_STATE_006]
        || own(call::programs_hardware_on_connect);
    "ks-stops-with-clones" "stops with live clones and scheduled timeouts"
        [KS_PTR_005 KS_STATE_007 KS_PTR_012] || Arc::new(layout::StopsWithClones(Capture::new()));
    "ks-registers-injection-while-running" "registers for frame injection in the run state" [KS_STATE_008]
        || own(frame::registers_injection_while_running);
    "ks-injects-without-registration" "injects a frame into a pin that is not registered for injection"
        [KS_STATE_009] || own(frame::injects_without_registration);
    "ks-waits-at-dispatch" "waits at DISPATCH_LEVEL" [WT_LEVEL_001]
        || own(frame::waits_at_dispatch);
};
