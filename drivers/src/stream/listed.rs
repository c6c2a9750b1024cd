//! The streaming minidrivers by name.

use super::bad_allocator::{AllocatorFlaw, Crooked};
use super::bad_shapes as layout;
use super::capture::{Capture, FrameSource};
use super::shapes::{
    self, FilterCentricCapture, InjectingCapture, PendingCapture, SynchronousCapture, Trailing,
};
use super::table_listed as tables;
use super::{bad_calls as call, bad_frames as frame};
use flight::{Log, RuleId};
use port::KsDriver;
use std::fmt;
use std::sync::Arc;
use stream::{DescriptorError, DriverSetup, Minidriver, PinFlag, SystemMemory};

/// A streaming minidriver that can be flown by its name.
pub struct ListedStream {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence without its full stop.
    pub about: &'static str,
    /// The rules it breaks, the one that is found first in front; none if it is good.
    pub breaks: &'static [RuleId],
    /// Makes a new one.
    pub make: Make,
}

/// How a streaming minidriver is made.
#[derive(Clone, Copy)]
pub enum Make {
    /// In safe Rust.
    Rust(fn() -> Arc<dyn Minidriver>),
    /// As a table, with a pool of its own.
    Table(fn(&Arc<Log>) -> Result<Arc<KsDriver>, DescriptorError>),
}

impl ListedStream {
    /// A new one, and memory for its frames.
    pub fn plug(&self, log: &Arc<Log>) -> Result<DriverSetup, DescriptorError> {
        match self.make {
            Make::Rust(make) => {
                Ok(DriverSetup { minidriver: make(), memory: Arc::new(SystemMemory::default()) })
            }
            Make::Table(make) => Ok(make(log)?.set_up()),
        }
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.make, Make::Table(_))
    }
}

impl fmt::Debug for ListedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedStream").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The streaming minidriver of that name.
pub fn find(name: &str) -> Option<&'static ListedStream> {
    STREAMS.iter().copied().flatten().find(|it| it.name == name)
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

/// Every streaming minidriver: the good ones first.
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
    "capture" "a test-pattern source with an allocator of its own, in safe Rust" []
        || Arc::new(Capture::new());
    "capture-default" "the same, with the default allocator" [] || default(|_, _, _| Ok(()));
    "capture-at-once" "fills frames in its process routine" [] || synchronous(|_, _, _| Ok(()));
    "capture-thorough" "uses mutexes, bags, gates and another factory" [] shapes::full_api_capture;
    "capture-trailing" "keeps what it filled behind a trailing edge" []
        || Arc::new(Trailing::new());
    "capture-centric" "processes all pins of a filter together" [] || Arc::new(FilterCentricCapture::new(false));
    "capture-injects" "sends frames of its own on" [] || Arc::new(InjectingCapture::new());
    "capture-later" "answers creates and closes later" [] || Arc::new(PendingCapture(Capture::new()));
    "capture-jumps" "its pin goes from state to state at once" [] || {
        Arc::new(Capture::new().shaped(|pin| pin.flags.push(PinFlag::DoNotUseStandardTransport)))
    };
};

const BAD: &[ListedStream] = streams! {
    "capture-no-context" "gives its allocator no context" [KS_ALLOC_003]
        || Arc::new(Crooked::new(AllocatorFlaw::NoContext));
    "capture-shares-context" "gives two allocators the same context" [KS_ALLOC_003]
        || Arc::new(Crooked::new(AllocatorFlaw::SharedContext));
    "capture-fails-untidily" "keeps memory of an allocator it could not make" [KS_ALLOC_004]
        || own(frame::leaks_failed_allocator);
    "capture-short-frames" "allocates frames that are too short" [KS_ALLOC_006]
        || Arc::new(Crooked::new(AllocatorFlaw::Short));
    "capture-waits-for-memory" "waits before it allocates a frame" [KS_ALLOC_007]
        || own(frame::waits_in_allocate_frame);
    "capture-frame-twice" "hands a frame out that is out" [KS_ALLOC_008]
        || Arc::new(Crooked::new(AllocatorFlaw::Twice));
    "capture-writes-freed" "writes to a frame when its allocator is deleted" [KS_ALLOC_011]
        || synchronous(frame::writes_freed_frame);
    "capture-leaks-context" "keeps the context of an allocator that is deleted" [KS_ALLOC_014]
        || own(frame::leaks_allocator_context);
    "capture-frees-late" "frees memory of an allocator after it was deleted"
        [KS_ALLOC_014 KS_ALLOC_015] || own(frame::frees_frames_late);
    "capture-half-allocator" "has an allocator without an end" [KS_ALLOC_017]
        || layout::own(layout::omits_delete_allocator);
    "capture-not-system" "uses the default allocator for other memory" [KS_ALLOC_025]
        || layout::default(layout::defaults_other_memory);
    "capture-bag-unlocked" "uses its device's bag without the device mutex" [KS_BAG_001]
        || own(call::uses_bag_without_mutex);
    "capture-frees-bagged" "frees what is in a bag" [KS_BAG_003] || own(call::frees_bagged_item);
    "capture-frees-shared" "frees what another bag has" [KS_BAG_004] || own(call::frees_item_in_other_bag);
    "capture-edits-unlocked" "edits a descriptor while it processes" [KS_BAG_005]
        || own(call::edits_descriptor_while_processing);
    "capture-forgets-bag" "forgets a bag that it made" [KS_BAG_006] || own(call::leaks_bag);
    "capture-pending-start" "answers that its start is pending" [KS_DEV_001]
        || own(call::returns_pending_from_start);
    "capture-factory-unlocked" "makes a factory without the device mutex" [KS_DEV_003]
        || own(call::creates_factory_without_mutex);
    "capture-completes-twice" "completes the create of a filter twice" [KS_DEV_004]
        || own(call::completes_create_twice);
    "capture-leaks" "keeps memory when its device is removed" [KS_DEV_006] || own(call::leaks_device_memory);
    "capture-no-dma" "has frames mapped for hardware without a DMA adapter" [KS_DEV_007]
        || layout::own(layout::maps_without_dma_adapter);
    "capture-miscounts" "has another count of framing items than items" [KS_FRAMING_001]
        || layout::own(layout::miscounts_framing_items);
    "capture-turned-range" "has a range of frame sizes that ends before it begins"
        [KS_FRAMING_002] || layout::own(layout::reverses_framing_range);
    "capture-claims" "says that it can allocate, and has no allocator" [KS_FRAMING_003]
        || layout::own(layout::claims);
    "capture-reserved" "sets what is reserved in its framing" [KS_FRAMING_004]
        || layout::default(layout::reserved);
    "capture-stale-framing" "takes a format that its frames have no room for" [KS_FRAMING_005]
        || Arc::new(layout::KeepsStaleFraming(Capture::new()));
    "capture-overruns" "fills frames of a client as if they were its own" [KS_FRAMING_007]
        || synchronous(frame::overruns_client_frame);
    "capture-locks-twice" "takes a mutex that it has" [KS_MUTEX_001] || own(call::acquires_mutex_twice);
    "capture-locks-backwards" "takes the device mutex with the control mutex held"
        [KS_MUTEX_002] || own(call::inverts_mutex_order);
    "capture-controls" "takes the control mutex in its process routine"
        [KS_MUTEX_003 KS_MUTEX_002] || own(call::acquires_control_while_processing);
    "capture-walks-unlocked" "walks its filters without the device mutex" [KS_MUTEX_004]
        || own(call::walks_filters_without_mutex);
    "capture-keeps-mutex" "returns with a mutex" [KS_MUTEX_005] || own(call::returns_with_mutex);
    "capture-unmarked" "answers that a create is pending, and does nothing about it"
        [KS_PIN_002 WT_STUCK_001] || own(call::never_completes_pending_create);
    "capture-uses-closed" "uses its pin after that was closed" [KS_PIN_004]
        || own(call::uses_closed_pin);
    "capture-pending-format" "answers that a format is pending" [KS_PIN_006]
        || own(call::returns_pending_from_format);
    "capture-opposites" "has flags that exclude each other" [KS_PIN_010]
        || layout::own(layout::sets_conflicting_pin_flags);
    "capture-unprocessed" "starts no processing, and has no routine for it" [KS_PIN_011]
        || layout::own(layout::omits_process_routine);
    "capture-pending-connect" "answers that a connection is pending" [KS_PIN_012]
        || own(call::returns_pending_from_connect);
    "capture-idles" "answers success without doing anything" [KS_PROC_001 KS_PROC_002]
        || Arc::new(layout::Idle(Capture::new(), Ok(())));
    "capture-stalls" "waits, and never goes on" [KS_PROC_002]
        || Arc::new(layout::Idle(Capture::new(), Err(stream::DriverError::Pending)));
    "capture-no-pin" "attempts to process no pin" [KS_PROC_004] || own(call::attempts_null_pin);
    "capture-two-routines" "has a process routine at its pin and at its filter" [KS_PROC_005]
        || layout::sets_two_process_routines();
    "capture-gate" "turns off a gate that is off" [KS_PROC_006] || own(call::underflows_gate);
    "capture-unlocked" "writes through a pointer that is not locked" [KS_PTR_001]
        || synchronous(frame::writes_unlocked_pointer);
    "capture-ignores-lock" "writes although a lock has failed" [KS_PTR_002]
        || unlocking(frame::ignores_failed_lock);
    "capture-deletes-edge" "deletes its leading edge" [KS_PTR_003] || own(frame::deletes_edge);
    "capture-deletes-twice" "completes a frame twice: deletes its clone again" [KS_PTR_004]
        || own(frame::deletes_twice);
    "capture-keeps-empty" "keeps a clone whose frame was cancelled" [KS_PTR_005]
        || unlocking(frame::keeps_cancelled_frame_clone);
    "capture-keeps-cancelled" "leaves a clone in its cancel callback" [KS_PTR_007]
        || unlocking(frame::keeps_clone_after_cancel);
    "capture-too-far" "advances beyond the end of a frame" [KS_PTR_008] || own(frame::advances_past_frame);
    "capture-asks-unlocked" "asks for the memory of a pointer that is not locked" [KS_PTR_009]
        || own(frame::queries_unlocked_pointer_memory);
    "capture-no-trailing" "asks for a trailing edge that it has not" [KS_PTR_010]
        || own(frame::requests_missing_trailing_edge);
    "capture-forgets-timeout" "leaves a timeout of an edge when it stops" [KS_PTR_012]
        || own(frame::leaves_edge_timeout);
    "capture-meddles" "moves an edge in its filter's process routine" [KS_PTR_013]
        || Arc::new(FilterCentricCapture::new(true));
    "capture-overstates" "says that it used more bytes than a frame has" [KS_PTR_014]
        || synchronous(frame::overstates);
    "capture-refuses-jump" "refuses to go from run to stop at once" [KS_STATE_002]
        || layout::rejects_direct_stop();
    "capture-needs-power" "refuses to run before it is told that its device has power"
        [KS_STATE_005] || own(call::requires_power_before_run);
    "capture-programs-early" "programs the hardware when it is connected" [KS_STATE_006]
        || own(call::programs_hardware_on_connect);
    "capture-keeps-clones" "stops with clones alive, and their timeouts"
        [KS_STATE_007 KS_PTR_005 KS_PTR_012] || Arc::new(layout::StopsWithClones(Capture::new()));
    "capture-injects-late" "wants to inject frames while it runs" [KS_STATE_008]
        || own(frame::registers_injection_while_running);
    "capture-injects-uninvited" "injects a frame into a pin that does not inject"
        [KS_STATE_009] || own(frame::injects_without_registration);
    "capture-waits-at-dispatch" "waits at dispatch level" [WT_LEVEL_001]
        || own(frame::waits_at_dispatch);
};
