//! The drivers by name.

use crate::allocation_lists::ALLOCATION_LISTS;
use crate::bad::page_tables::Flaw as Table;
use crate::bad::paging::Flaw as Paging;
use crate::bad::{
    adapter, allocation_lists, callback, context_allocation, context_allocation_callbacks, create,
    describe, destroy, device, display_only, escape, gpummu, handle, interrupt, irql, memory, pnp,
    pool, query, render, standard, submit, tdr, view,
};
use crate::faulty_driver::Fault;
use crate::free_list;
use crate::gpummu::GPUMMU;
use crate::handle_queries::HANDLE_QUERIES;
use crate::memory::{CAPTURE, MEMORY, OVERLAY};
use crate::resource_handle_changes::RESOURCE_HANDLE_CHANGES;
use crate::setup;
use crate::table::GOOD;
use crate::umd::{self, Flaw};
use flight::{Log, RuleId};
use kernel::DriverSetup;
use runtime::Umd;
use softgpu::MmuPlan;
use std::fmt;
use std::sync::Arc;

/// A driver that can be flown by its name.
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence without its full stop.
    pub about: &'static str,
    /// The rules it breaks, the one that is found first in front; none if it is good.
    pub breaks: &'static [RuleId],
    /// Makes a new one, with hardware and memory of its own.
    pub make: fn(&Arc<Log>) -> DriverSetup,
    /// The user-mode driver that belongs to it, if there is one.
    pub umd: Option<fn() -> Umd>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The driver of that name.
pub fn find(name: &str) -> Option<&'static Listed> {
    ALL.iter().find(|listed| listed.name == name)
}

macro_rules! drivers {
    (@umd) => { None };
    (@umd $umd:expr) => { Some($umd) };
    ($($name:literal $about:literal [$($rule:ident)?] $make:expr $(, $umd:expr)?;)*) => {
        &[$(Listed {
            name: $name,
            about: $about,
            breaks: &[$(RuleId::$rule)?],
            make: $make,
            umd: drivers!(@umd $($umd)?),
        }),*]
    };
}

/// Bad drivers whose fault only guarded memory shows, and that would damage the memory of a process
/// that flies other drivers. They are not in [`ALL`].
pub const GUARDED: &[Listed] = drivers! {
    "kmd-writes-pool-1-behind" "writes memory 1 byte behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<64>(), log);
    "kmd-writes-pool-1-before" "writes memory 1 byte before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<-1>(), log);
    "kmd-writes-pool-4-behind" "writes memory 4 bytes behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<67>(), log);
    "kmd-writes-pool-4-before" "writes memory 4 bytes before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<-4>(), log);
    "kmd-writes-pool-16-behind" "writes memory 16 bytes behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<79>(), log);
    "kmd-writes-pool-16-before" "writes memory 16 bytes before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<-16>(), log);
    "kmd-writes-pool-4096-behind" "writes memory 4096 bytes behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<4159>(), log);
    "kmd-writes-pool-4096-before" "writes memory 4096 bytes before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::writes_at::<-4096>(), log);
    "kmd-reads-pool-1-behind" "reads memory 1 byte behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<64>(), log);
    "kmd-reads-pool-1-before" "reads memory 1 byte before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<-1>(), log);
    "kmd-reads-pool-4-behind" "reads memory 4 bytes behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<67>(), log);
    "kmd-reads-pool-4-before" "reads memory 4 bytes before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<-4>(), log);
    "kmd-reads-pool-16-behind" "reads memory 16 bytes behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<79>(), log);
    "kmd-reads-pool-16-before" "reads memory 16 bytes before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<-16>(), log);
    "kmd-reads-pool-4096-behind" "reads memory 4096 bytes behind the end of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<4159>(), log);
    "kmd-reads-pool-4096-before" "reads memory 4096 bytes before the start of a pool block" [WT_POOL_004]
        |log| setup::table(&pool::reads_at::<-4096>(), log);
    "kmd-writes-freed-pool" "writes to a freed pool block" [WT_POOL_002]
        |log| setup::table(&pool::WRITES_FREED, log);
    "kmd-reads-freed-pool" "reads a freed pool block" [WT_POOL_002]
        |log| setup::table(&pool::READS_FREED, log);
    "kmd-frees-pool-block-twice" "frees a pool block twice" [WT_POOL_001]
        |log| setup::table(&pool::FREES_TWICE, log);
    "kmd-frees-pool-with-wrong-tag" "frees a pool block with a tag that the block does not have" [WT_POOL_001]
        |log| setup::table(&pool::FREES_WITH_WRONG_TAG, log);
};

/// Every driver: the good ones first.
pub const ALL: &[Listed] = drivers! {
    "softgpu" "the built-in driver in safe Rust" [] setup::softgpu;
    "table" "the built-in driver with a C function table" [] |log| setup::table(&GOOD, log);
    "table-resource-handle-changes" "changes hResource in calls where the documentation allows it" []
        |log| setup::table(&RESOURCE_HANDLE_CHANGES, log);
    "table-memory" "the table driver on hardware with memory segments" []
        |log| setup::table_memory(&MEMORY, log);
    "table-memory-overlay" "the table driver with memory, whose allocations are overlays and never move" []
        |log| setup::table_memory(&OVERLAY, log);
    "table-memory-capture" "the table driver with memory, whose allocations are capture buffers and never move" []
        |log| setup::table_memory(&CAPTURE, log);
    "softgpu-memory" "the built-in driver on hardware with memory segments" [] setup::softgpu_memory,
        || umd::with(Flaw::None);
    "softgpu-gpummu" "the built-in driver on hardware with GPU virtual addresses" []
        |log| setup::softgpu_gpummu(MmuPlan::default(), log), || umd::with(Flaw::None);
    "softgpu-gpummu-two-levels" "the GpuMmu driver with page tables of two levels" []
        |log| setup::softgpu_gpummu(MmuPlan::TWO_LEVELS, log);
    "softgpu-gpummu-cpu-updates" "the GpuMmu driver with page tables that the CPU writes" []
        |log| setup::softgpu_gpummu(MmuPlan::BY_CPU, log);
    "table-gpummu" "the table driver on hardware with GPU virtual addresses" []
        |log| setup::table_gpummu(&GPUMMU, log), || umd::with(Flaw::None);
    "softgpu-context-allocation-updates" "updates the context allocations of running contexts" [] setup::changing;
 "softgpu-whole-engine-reset" "the built-in driver with memory, whose engine reset aborts all packets of the engine" []
        setup::whole_engine_reset;
    "table-no-engine-reset" "the table driver whose engines cannot be reset individually" []
        |log| setup::table(&tdr::NO_ENGINE_RESET, log);
    "table-spin-lock-destroy" "destroys allocations under a spin lock and delays their creation" []
        |log| setup::table(&irql::SPIN_LOCK_DESTROY, log);

    "table-allocation-lists" "the table driver that also accepts packets with allocation lists" []
        |log| setup::table_memory(&ALLOCATION_LISTS, log), || umd::with(Flaw::None);
    "softgpu-allocation-lists" "the built-in driver as a WDDM 1.x driver: packets have allocation lists" []
        setup::softgpu_allocation_lists, || umd::with(Flaw::None);
    "softgpu-guaranteed-dma-buffer" "the WDDM 1.x driver with the guaranteed DMA buffer contract" []
        |log| setup::render_flaw(render::Flaw::None, log);

    "table-handle-queries" "maps its registers and queries the members of resources" []
        |log| setup::table(&HANDLE_QUERIES, log);

    "kmd-returns-null-allocation" "creates allocations with a NULL hAllocation" [KMD_ALLOC_001]
        |log| setup::table(&create::RETURNS_NULL_ALLOCATION, log);
    "kmd-reuses-allocation-handle" "returns one hAllocation for all allocations of a create call" [KMD_ALLOC_001]
        |log| setup::table(&create::REUSES_ALLOCATION_HANDLE, log);
    "kmd-returns-zero-size" "creates allocations with a Size of zero" [KMD_ALLOC_002]
        |log| setup::faulty(Fault::ReturnsZeroSize, log);
    "kmd-returns-small-pitch-aligned-size" "returns a PitchAlignedSize below the Size" [KMD_ALLOC_003]
        |log| setup::faulty(Fault::ReturnsSmallPitchAlignedSize, log);
    "kmd-returns-overflowing-size" "returns a Size that overflows when it is rounded up to pages" [WT_ALLOC_001]
        |log| setup::faulty(Fault::ReturnsOverflowingSize, log);
    "kmd-returns-odd-alignment" "returns an Alignment that is not a power of two" [WT_ALLOC_001]
        |log| setup::faulty(Fault::ReturnsOddAlignment, log);
    "kmd-sets-reserved-allocation-flag" "sets a reserved allocation flag" [KMD_ALLOC_008]
        |log| setup::table(&create::SETS_RESERVED_ALLOCATION_FLAG, log);
    "kmd-sets-cached-without-cpuvisible" "sets Cached without CpuVisible" [KMD_FLAGS_001]
        |log| setup::table(&create::SETS_CACHED_WITHOUT_CPUVISIBLE, log);
    "kmd-sets-protected-with-existingsysmem" "sets Protected and ExistingSysMem for one allocation"
        [KMD_FLAGS_002] |log| setup::table(&create::SETS_PROTECTED_WITH_EXISTINGSYSMEM, log);
    "kmd-sets-notification-without-physical" "sets ExplicitResidencyNotification without AccessedPhysically"
        [KMD_FLAGS_006] |log| setup::table(&create::SETS_NOTIFICATION_WITHOUT_PHYSICAL, log);
    "kmd-sets-historybuffer-without-cpuvisible" "sets HistoryBuffer without CpuVisible" [KMD_FLAGS_007]
        |log| setup::table(&create::SETS_HISTORYBUFFER_WITHOUT_CPUVISIBLE, log);
    "kmd-keeps-closed-device-pointer" "keeps the device's address in an allocation whose view is closed"
        [KMD_ALLOC_009] |log| setup::table(&view::KEEPS_CLOSED_DEVICE_POINTER, log);
    "kmd-leaks-failed-create" "does not free the allocations created before a create call fails" [KMD_ALLOC_011]
        |log| setup::table(&create::LEAKS_FAILED_CREATE, log);
    "kmd-overruns-private-data" "writes one byte past the private data of an allocation" [KMD_ALLOC_012]
        |log| setup::table(&create::OVERRUNS_PRIVATE_DATA, log);
    "kmd-underruns-private-data" "writes one byte before the private data of an allocation" [KMD_ALLOC_012]
        |log| setup::table(&create::UNDERRUNS_PRIVATE_DATA, log);
    "kmd-returns-illegal-create-status" "fails DxgkDdiCreateAllocation with STATUS_UNSUCCESSFUL" [GATE_STATUS_002]
        |log| setup::table(&create::RETURNS_ILLEGAL_CREATE_STATUS, log);

    "kmd-fails-describe-primary" "fails DxgkDdiDescribeAllocation for a primary" [KMD_STD_001]
        |log| setup::table(&describe::FAILS_DESCRIBE_PRIMARY, log);
    "kmd-describes-empty-primary" "describes a primary without setting width, height and format" [KMD_STD_001]
        |log| setup::table(&describe::DESCRIBES_EMPTY_PRIMARY, log);
    "kmd-sets-protected-on-primary" "sets Protected for every allocation, also for a primary" [KMD_FLAGS_003]
        |log| setup::table(&describe::SETS_PROTECTED_ON_PRIMARY, log);
    "kmd-edits-standard-surface-data" "changes the surface data when only the private data sizes are queried"
        [KMD_STD_002] |log| setup::table(&standard::EDITS_STANDARD_SURFACE_DATA, log);
    "kmd-omits-standard-private-data" "returns no private data for a standard allocation" [KMD_STD_003]
        |log| setup::table(&standard::OMITS_STANDARD_PRIVATE_DATA, log);
    "kmd-changes-standard-private-size" "returns a different private data size in the second call for a standard allocation" [KMD_STD_004]
        |log| setup::table(&standard::CHANGES_STANDARD_PRIVATE_SIZE, log);
    "kmd-relies-on-cleared-private-data" "leaves a member of the private data of a standard allocation unset, which it then rejects" [KMD_STD_004]
        |log| setup::table(&standard::RELIES_ON_CLEARED_PRIVATE_DATA, log);
    "kmd-rejects-own-private-data" "fails to create a standard allocation from its own private data" [KMD_STD_004]
        |log| setup::table(&standard::REJECTS_OWN_PRIVATE_DATA, log);

    "kmd-returns-null-device" "creates devices with a NULL hDevice" [KMD_DEV_001]
        |log| setup::table(&device::RETURNS_NULL_DEVICE, log);
    "kmd-leaks-device" "does not free a device in DxgkDdiDestroyDevice" [KMD_DEV_002]
        |log| setup::table(&device::LEAKS_DEVICE, log);
    "kmd-fails-destroy-device" "destroys a device and returns a busy status" [KMD_DEV_002]
        |log| setup::faulty(Fault::FailsDestroyDevice, log);
    "kmd-limits-devices" "supports only one device at a time" [KMD_DEV_004]
        |log| setup::faulty(Fault::OneDevice, log);
    "kmd-fails-create-context" "fails DxgkDdiCreateContext" [KMD_CTX_001]
        |log| setup::faulty(Fault::FailsCreateContext, log);
    "kmd-leaks-context" "does not free a context in DxgkDdiDestroyContext" [KMD_CTX_006]
        |log| setup::table(&device::LEAKS_CONTEXT, log);
    "kmd-omits-dma-buffer-segment" "returns no DmaBufferSegmentSet for a context with virtual addressing"
        [KMD_CTX_002] |log| setup::table_memory(&device::OMITS_DMA_BUFFER_SEGMENT, log);
    "kmd-puts-dma-buffers-in-memory" "returns a memory segment in the DmaBufferSegmentSet of a context"
        [KMD_CTX_002] |log| setup::table_memory(&device::PUTS_DMA_BUFFERS_IN_MEMORY, log);
    "kmd-leaks-add-device-memory" "allocates pool memory in DxgkDdiAddDevice and never frees it" [KMD_PNP_003]
        |log| setup::table(&pnp::LEAKS_ADD_DEVICE_MEMORY, log);
    "kmd-fails-start-device" "fails DxgkDdiStartDevice with STATUS_UNSUCCESSFUL" [WT_START_001]
        |log| setup::table(&pnp::FAILS_START_DEVICE, log);
    "kmd-omits-smooth-rotation" "is display-only and does not report SupportSmoothRotation" [GATE_CAPS_002]
        |log| setup::display_only(&display_only::OMITS_SMOOTH_ROTATION, log);
    "kmd-halves-vsync-control" "is display-only and has DxgkDdiGetScanLine without DxgkDdiControlInterrupt"
        [GATE_TABLE_006] |log| setup::display_only(&display_only::HALVES_VSYNC_CONTROL, log);
    "kmd-omits-child-status" "is display-only and does not set HotPlug.Connected in DxgkDdiQueryChildStatus"
        [WT_BUFFER_002] |log| setup::display_only(&display_only::OMITS_CHILD_STATUS, log);
    "kmd-omits-adapter-context" "does not set MiniportDeviceContext in DxgkDdiAddDevice" [WT_BUFFER_002]
        |log| setup::table(&pnp::OMITS_ADAPTER_CONTEXT, log);
    "kmd-omits-start-counts" "does not set the source and child counts in DxgkDdiStartDevice" [KMD_PNP_004]
        |log| setup::table(&pnp::OMITS_START_COUNTS, log);
    "kmd-leaks-start-device-memory" "allocates pool memory in DxgkDdiStartDevice and never frees it" [KMD_PNP_005]
        |log| setup::table(&pnp::LEAKS_START_DEVICE_MEMORY, log);
    "kmd-releases-missing-post-display" "returns success when it releases POST display ownership of a target without a display" [KMD_PNP_007]
        |log| setup::table(&pnp::RELEASES_MISSING_POST_DISPLAY, log);
    "kmd-queues-dpc-in-reset" "calls DxgkCbQueueDpc in DxgkDdiResetDevice" [KMD_PNP_008]
        |log| setup::table(&pnp::QUEUES_DPC_IN_RESET, log);
    "kmd-fails-set-power" "changes the power state and returns a failure" [KMD_PNP_009]
        |log| setup::table(&pnp::FAILS_SET_POWER, log);
    "kmd-touches-removed-hardware" "resets its hardware in DxgkDdiStopDevice after surprise removal"
        [KMD_PNP_010] |log| setup::table(&pnp::TOUCHES_REMOVED_HARDWARE, log);
    "kmd-writes-removed-register" "writes a register in DxgkDdiStopDevice after surprise removal"
        [KMD_PNP_010] |log| setup::table(&pnp::WRITES_REMOVED_REGISTER, log);
    "kmd-fails-surprise-removal" "fails DxgkDdiNotifySurpriseRemoval" [KMD_PNP_011]
        |log| setup::table(&pnp::FAILS_SURPRISE_REMOVAL, log);
    "kmd-leaks-removed-adapter" "does not free its adapter in DxgkDdiRemoveDevice" [KMD_PNP_003]
        |log| setup::table(&device::LEAKS_REMOVED_ADAPTER, log);

    "kmd-reads-hardware-in-escape" "reads its hardware in an escape without HardwareAccess" [DEV_LIFE_011]
        |log| setup::table(&escape::READS_HARDWARE_IN_ESCAPE, log);
    "kmd-writes-behind-escape-data" "writes one byte behind the private data of an escape" [WT_BUFFER_001]
        |log| setup::table(&escape::WRITES_BEHIND_ESCAPE_DATA, log);
    "kmd-assumes-escape-process" "assumes that an escape has an hKmdProcessHandle" [DEV_LIFE_012]
        |log| setup::table(&escape::ASSUMES_ESCAPE_PROCESS, log);

    "kmd-writes-resource-data-on-open" "writes to the resource's private data in DxgkDdiOpenAllocation" [KMD_OPEN_003]
        |log| setup::table(&view::WRITES_RESOURCE_DATA_ON_OPEN, log);
    "kmd-calls-gethandledata-on-open" "opens allocations with DxgkCbGetHandleData, as a WDDM 1.x driver does" [KMD_OPEN_004]
        |log| setup::table(&handle::CALLS_GETHANDLEDATA_ON_OPEN, log);
    "kmd-calls-gethandledata" "calls DxgkCbGetHandleData, which is for WDDM 1.x drivers" [CB_HANDLE_004]
        |log| setup::table(&handle::CALLS_GETHANDLEDATA, log);
    "kmd-acquires-device-specific-resource" "queries device-specific data of a resource handle" [CB_HANDLE_002]
        |log| setup::table(&handle::ACQUIRES_DEVICE_SPECIFIC_RESOURCE, log);
    "kmd-releases-handle-data-twice" "releases acquired handle data twice" [CB_HANDLE_005]
        |log| setup::table(&handle::RELEASES_HANDLE_DATA_TWICE, log);
    "kmd-releases-adapter-handle" "passes the system's handle of the adapter to DxgkCbReleaseHandleData" [CB_HANDLE_005]
        |log| setup::table(&handle::RELEASES_ADAPTER_HANDLE, log);
    "kmd-leaks-handle-data" "never releases acquired handle data" [CB_HANDLE_007]
        |log| setup::table(&handle::LEAKS_HANDLE_DATA, log);
    "kmd-returns-null-view" "opens allocations with a NULL hDeviceSpecificAllocation" [KMD_OPEN_001]
        |log| setup::table(&view::RETURNS_NULL_VIEW, log);
    "kmd-edits-private-data-on-open" "changes private data when a second device opens the allocation" [KMD_OPEN_002]
        |log| setup::faulty(Fault::EditsPrivateDataOnOpen, log);
    "kmd-rejects-second-device-open" "opens allocations only for the device that created them" [KMD_OPEN_006]
        |log| setup::faulty(Fault::RejectsSecondDeviceOpen, log);
    "kmd-frees-allocation-on-close" "frees an allocation in DxgkDdiCloseAllocation" [KMD_OPEN_007]
        |log| setup::table(&view::FREES_ALLOCATION_ON_CLOSE, log);

    "kmd-leaks-destroyed-allocation" "does not free an allocation in DxgkDdiDestroyAllocation" [KMD_DESTROY_002]
        |log| setup::table(&destroy::LEAKS_DESTROYED_ALLOCATION, log);
    "kmd-reuses-free-list-block" "keeps the blocks of destroyed allocations on a free list and uses them again" [KMD_DESTROY_002]
        |log| setup::table(&free_list::REUSES_BLOCKS, log);
    "kmd-frees-list-at-stop" "keeps the blocks of destroyed allocations until DxgkDdiStopDevice" [KMD_DESTROY_002]
        |log| setup::table(&free_list::FREES_AT_STOP, log);
    "kmd-writes-destroyed-allocation" "writes to an allocation that it has destroyed" [KMD_DESTROY_003]
        |log| setup::table(&destroy::WRITES_DESTROYED_ALLOCATION, log);
    "kmd-ignores-destroyresource-flag" "does not free a resource when DestroyResource is set"
        [KMD_DESTROY_004] |log| setup::table(&destroy::IGNORES_DESTROYRESOURCE_FLAG, log);
    "kmd-frees-resource-with-members" "frees a resource when only some of its members are destroyed" [KMD_DESTROY_005]
        |log| setup::table(&destroy::FREES_RESOURCE_WITH_MEMBERS, log);
    "kmd-leaks-empty-resource" "does not free a resource that has no allocations"
        [KMD_DESTROY_007] |log| setup::table(&destroy::LEAKS_EMPTY_RESOURCE, log);
    "kmd-polls-gpu-in-destroy" "waits a millisecond for the GPU in DxgkDdiDestroyAllocation" [KMD_DESTROY_008]
        |log| setup::table(&irql::POLLS_GPU_IN_DESTROY, log);
    "kmd-keeps-destroyed-handles" "keeps destroyed allocations in its own handle table" [KMD_DESTROY_012]
        |log| setup::faulty(Fault::KeepsDestroyedHandles, log);
    "kmd-fails-destroy-allocation" "destroys the allocations and returns a busy status" [KMD_DESTROY_009]
        |log| setup::faulty(Fault::FailsDestroyAllocation, log);

    "kmd-reads-user-commands-twice" "validates the user commands and reads them again to translate them"
        [KMD_RENDER_001] |log| setup::render_flaw(render::Flaw::ReadsUserCommandsTwice, log);
    "kmd-copies-unvalidated-commands" "copies the user commands to the hardware without validation" [KMD_RENDER_002]
        |log| setup::render_flaw(render::Flaw::CopiesUnvalidatedCommands, log);
    "kmd-overstates-dma-size" "returns more DMA commands than the DMA buffer holds" [KMD_RENDER_003]
        |log| setup::render_flaw(render::Flaw::OverstatesDmaSize, log);
    "kmd-overruns-dma-buffer" "writes one byte past the DMA buffer in DxgkDdiRender" [KMD_RENDER_003]
        |log| setup::table_memory(&allocation_lists::OVERRUNS_DMA_BUFFER, log);
    "kmd-leaves-dma-pointer" "renders and does not advance pDmaBuffer" [KMD_RENDER_003]
        |log| setup::table_memory(&allocation_lists::LEAVES_DMA_POINTER, log);
    "kmd-skips-prepatch" "does not prepatch allocations whose SegmentId is set" [KMD_RENDER_004]
        |log| setup::render_flaw(render::Flaw::SkipsPrepatch, log);
    "kmd-omits-patch-location" "omits the patch location of an allocation that it uses" [KMD_RENDER_005]
        |log| setup::render_flaw(render::Flaw::OmitsPatchLocation, log);
    "kmd-never-fits-dma-buffer" "requests another DMA buffer for each packet without end" [KMD_CTX_005]
        |log| setup::render_flaw(render::Flaw::NeverFitsDmaBuffer, log);
    "kmd-restarts-split-render" "requests another DMA buffer and ignores MultipassOffset" [KMD_RENDER_006]
        |log| setup::render_flaw(render::Flaw::RestartsSplitRender, log);
    "kmd-breaks-guaranteed-dma-buffer" "declares the guaranteed DMA buffer contract and requests another buffer" [KMD_RENDER_007]
        |log| setup::render_flaw(render::Flaw::BreaksGuaranteedDmaBuffer, log);
    "kmd-misorders-patch-locations" "lists the patch locations of a packet in the wrong order"
        [KMD_RENDER_009] |log| setup::render_flaw(render::Flaw::MisordersPatchLocations, log);
    "kmd-fails-patch" "patches and returns a busy status" [KMD_SUBMIT_001]
        |log| setup::render_flaw(render::Flaw::FailsPatch, log);
    "kmd-patches-outside-submission" "patches outside the submitted range of the DMA buffer" [KMD_SUBMIT_002]
        |log| setup::render_flaw(render::Flaw::PatchesOutsideSubmission, log);
    "kmd-patches-past-dma-buffer" "writes one byte past the DMA buffer in DxgkDdiPatch" [KMD_SUBMIT_002]
        |log| setup::table_memory(&allocation_lists::PATCHES_PAST_DMA_BUFFER, log);
    "kmd-patches-by-adding" "adds addresses to the buffer contents, so that a second patch is wrong" [KMD_SUBMIT_003]
        |log| setup::render_flaw(render::Flaw::PatchesByAdding, log);
    "kmd-assumes-patch-context" "assumes that every DxgkDdiPatch call has a context" [KMD_SUBMIT_004]
        |log| setup::render_flaw(render::Flaw::AssumesPatchContext, log);
    "kmd-runs-null-rendering" "executes the commands of NullRendering packets" [KMD_SUBMIT_011]
        |log| setup::render_flaw(render::Flaw::RunsNullRendering, log);

    "kmd-corrupts-page-in-byte" "pages an allocation in with one wrong byte" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::CorruptsPageInByte, log);
    "kmd-transfers-one-page-less" "transfers one page less than requested" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::TransfersOnePageLess, log);
    "kmd-transfers-twice" "transfers everything twice, the second time past the destination" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::Twice, log);
    "kmd-transfers-to-wrong-segment" "transfers to another segment than requested" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::TransfersToWrongSegment, log);
    "kmd-transfers-one-page-off" "transfers to the page after the requested destination" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::TransfersOnePageOff, log);
    "kmd-ignores-transfer-offset" "transfers each part of an allocation from its start" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::IgnoresTransferOffset, log);
    "kmd-ignores-mdl-offset" "transfers each part of an allocation with the first pages of its list" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::IgnoresMdlOffset, log);
    "kmd-skips-multipass-page" "skips one page with every new paging buffer" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::SkipsMultipassPage, log);
    "kmd-completes-paging-unsubmitted" "reports paging work complete that its hardware never got" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::CompletesPagingUnsubmitted, log);
    "kmd-skips-fill" "does not execute fill operations" [WT_BYTES_001]
        |log| setup::paging_flaw(Paging::SkipsFill, log);
    "kmd-reverses-aperture-pages" "maps pages into its aperture in reverse order" [KMD_PAGING_012]
        |log| setup::paging_flaw(Paging::ReversesAperturePages, log);
    "kmd-keeps-aperture-mapping" "does not unmap pages from its aperture" [KMD_PAGING_013]
        |log| setup::paging_flaw(Paging::KeepsApertureMapping, log);

    "kmd-assumes-contiguous-pages" "assumes that system memory pages are contiguous" [KMD_PAGING_029]
        |log| setup::paging_flaw(Paging::AssumesContiguousPages, log);
    "kmd-reverses-paged-out-pages" "pages allocations out with the last page first" [KMD_PAGING_017]
        |log| setup::paging_flaw(Paging::ReversesPagedOutPages, log);

    "kmd-omits-map-aperture" "reports an aperture segment and fails the map aperture operation" [KMD_SEG_008]
        |log| setup::paging_flaw(Paging::OmitsMapAperture, log);
    "kmd-leaks-on-transfer-start" "allocates pool memory at every TransferStart of one transfer"
        [KMD_PAGING_008] setup::leaks_on_transfer_start;

    "kmd-reports-one-table-level" "describes page tables of one level" [KMD_SEG_016]
        |log| setup::faulty_gpummu(memory::REPORTS_ONE_TABLE_LEVEL, log);
    "kmd-hides-page-tables" "has the CPU write page tables in a segment that the CPU cannot access" [KMD_SEG_017]
        |log| setup::faulty_gpummu(memory::HIDES_PAGE_TABLES, log);
    "kmd-omits-submit-command" "reports GPU virtual addresses and has no DxgkDdiSubmitCommand" [WT_ENTRY_002]
        |log| setup::table_gpummu(&gpummu::OMITS_SUBMIT_COMMAND, log);
    "kmd-omits-control-interrupt" "reports a video present source and has no DxgkDdiControlInterrupt" [WT_ENTRY_001]
        |log| setup::table(&pnp::OMITS_CONTROL_INTERRUPT, log);
    "kmd-creates-device-pending" "returns STATUS_PENDING from DxgkDdiCreateDevice without a device" [GATE_STATUS_002]
        |log| setup::table(&device::CREATES_DEVICE_PENDING, log);
    "kmd-keeps-vsync-after-stop" "leaves vsync interrupts enabled in DxgkDdiStopDevice" [KMD_PNP_005]
        |log| setup::table(&pnp::KEEPS_VSYNC_AFTER_STOP, log);
    "kmd-queues-dpc-after-remove" "calls DxgkCbQueueDpc in DxgkDdiUnload" [CB_IRQL_002]
        |log| setup::table(&pnp::QUEUES_DPC_AFTER_REMOVE, log);
    "kmd-leaks-unload-memory" "allocates pool memory in DxgkDdiUnload and never frees it" [WT_POOL_003]
        |log| setup::table(&pnp::LEAKS_UNLOAD_MEMORY, log);
    "kmd-refuses-own-interrupt" "returns FALSE for a vsync of its own hardware" [KMD_ISR_002]
        |log| setup::table(&interrupt::REFUSES_OWN_INTERRUPT, log);
    "kmd-dismisses-unclaimed-interrupt" "handles an interrupt and returns FALSE" [KMD_ISR_002]
        |log| setup::table(&interrupt::DISMISSES_UNCLAIMED_INTERRUPT, log);

    "kmd-ignores-tlb-flush" "ignores all TLB flushes" [WT_TABLES_001]
        |log| setup::tables(MmuPlan::default(), Table::IgnoresTlbFlush, log);
    "kmd-flushes-one-tlb-page" "flushes one page of a TLB flush range" [WT_TABLES_001]
        |log| setup::tables(MmuPlan::default(), Table::FlushesOneTlbPage, log);
    "kmd-ignores-full-tlb-flush" "treats a TLB flush from zero to zero as empty" [KMD_PAGING_024]
        |log| setup::tables(MmuPlan::default(), Table::IgnoresFullTlbFlush, log);
    "kmd-writes-page-address-entries" "writes page addresses into page table entries instead of page numbers"
        [WT_TABLES_001] |log| setup::tables(MmuPlan::default(), Table::WritesPageAddressEntries, log);
    "kmd-writes-one-entry-less" "writes one page table entry less than requested" [WT_TABLES_001]
        |log| setup::tables(MmuPlan::default(), Table::WritesOneEntryLess, log);
    "kmd-writes-one-entry-more" "writes one page table entry more than requested" [WT_TABLES_001]
        |log| setup::tables(MmuPlan::default(), Table::WritesOneEntryMore, log);
    "kmd-writes-parent-page-table" "writes page entries into the parent page table" [WT_TABLES_001]
        |log| setup::tables(MmuPlan::default(), Table::WritesParentPageTable, log);
    "kmd-ignores-entry-repeat" "writes a page table entry once when Repeat is set" [KMD_PAGING_021]
        |log| setup::tables(MmuPlan::default(), Table::IgnoresEntryRepeat, log);
    "kmd-reads-repeated-entries" "reads as many source entries as it writes when Repeat is set"
        [KMD_PAGING_021] |log| setup::table_gpummu(&gpummu::READS_REPEATED_ENTRIES, log);
    "kmd-counts-cpu-update-commands" "returns paging commands for page tables that the CPU updates"
        [KMD_PAGING_020] |log| setup::table_gpummu(&gpummu::COUNTS_CPU_UPDATE_COMMANDS, log);
    "kmd-rounds-root-entries" "rounds the number of root page table entries up"
        [KMD_PT_003] |log| setup::table_gpummu(&gpummu::ROUNDS_ROOT_ENTRIES, log);
    "kmd-reserves-range-at-destroy" "reserves addresses in DxgkDdiDestroyProcess"
        [KMD_PROC_003] |log| setup::table_gpummu(&gpummu::RESERVES_RANGE_AT_DESTROY, log);
    "kmd-reserves-range-of-adapter" "passes the system's handle of the adapter as hDxgkProcess to DxgkCbReserveGpuVirtualAddressRange"
        [KMD_PROC_003] |log| setup::table_gpummu(&gpummu::RESERVES_RANGE_OF_ADAPTER, log);
    "kmd-reserves-small-range" "reserves a range smaller than a leaf page table covers"
        [KMD_PROC_004] |log| setup::table_gpummu(&gpummu::RESERVES_SMALL_RANGE, log);
    "kmd-reserves-misaligned-range" "reserves a range whose alignment is not a power of two"
        [KMD_PROC_004] |log| setup::table_gpummu(&gpummu::RESERVES_MISALIGNED_RANGE, log);
    "kmd-defers-cpu-table-update" "does not write page tables that the CPU has to update" [KMD_PAGING_020]
        |log| setup::tables(MmuPlan::BY_CPU, Table::DefersCpuTableUpdate, log);
    "kmd-adds-offset-virtual-transfer" "adds the allocation offset to the end of virtual transfers"
        [KMD_PAGING_027] |log| setup::tables(MmuPlan::default(), Table::AddsOffsetVirtualTransfer, log);
    "kmd-keeps-first-root-table" "runs every context with the root page table that was set first" [KMD_SUBMIT_014]
        |log| setup::tables(MmuPlan::default(), Table::KeepsFirstRootTable, log);
    "kmd-assumes-full-root-table" "assumes that every root page table is full" [KMD_PT_003]
        |log| setup::tables(MmuPlan::TWO_LEVELS, Table::AssumesFullRootTable, log);
    "kmd-returns-unrounded-root-size" "does not round the root page table size to whole pages" [KMD_PT_002]
        |log| setup::tables(MmuPlan::TWO_LEVELS, Table::ReturnsUnroundedRootSize, log);
    "kmd-returns-fewer-root-entries" "returns fewer root page table entries than requested" [KMD_PT_002]
        |log| setup::tables(MmuPlan::TWO_LEVELS, Table::ReturnsFewerRootEntries, log);
    "kmd-leaks-process" "does not free a process in DxgkDdiDestroyProcess" [KMD_PROC_002]
        |log| setup::tables(MmuPlan::default(), Table::LeaksProcess, log);
    "kmd-requires-host-aperture-allocation" "fails to map the CPU host aperture without an allocation" [KMD_PT_004]
        |log| setup::tables(MmuPlan::default(), Table::RequiresHostApertureAllocation, log);

    "kmd-claims-preemption-single-engine" "sets PreemptionAware without MultiEngineAware" [KMD_CAPS_001]
        |log| setup::table(&query::CLAIMS_PREEMPTION_SINGLE_ENGINE, log);
    "kmd-claims-nodmapatching-alone" "sets NoDmaPatching without PreemptionAware and MultiEngineAware" [KMD_CAPS_002]
        |log| setup::table(&query::CLAIMS_NODMAPATCHING_ALONE, log);
    "kmd-claims-cancel-single-engine" "sets CancelCommandAware without MultiEngineAware"
        [KMD_CAPS_003] |log| setup::table(&query::CLAIMS_CANCEL_SINGLE_ENGINE, log);
    "kmd-claims-missing-engine-reset" "claims per-engine reset without DxgkDdiResetEngine" [KMD_CAPS_004]
        |log| setup::table(&query::CLAIMS_MISSING_ENGINE_RESET, log);
    "kmd-claims-gpummu-and-iommu" "sets GpuMmuSupported and IoMmuSupported" [KMD_CAPS_005]
        |log| setup::table(&query::CLAIMS_GPUMMU_AND_IOMMU, log);
    "kmd-overruns-driver-caps" "writes one byte past DXGK_DRIVERCAPS" [KMD_CAPS_008]
        |log| setup::table(&query::OVERRUNS_DRIVER_CAPS, log);
    "kmd-overruns-umd-query" "writes past the output buffer of a UMDRIVERPRIVATE query" [KMD_CAPS_008]
        |log| setup::table(&query::OVERRUNS_UMD_QUERY, log);
    "kmd-trusts-umd-query-node" "uses a node number from user mode without validation" [KMD_CAPS_008]
        |log| setup::table(&query::TRUSTS_UMD_QUERY_NODE, log);
    "kmd-fills-segment-count-query" "sets other members when only the number of segments is queried"
        [KMD_SEG_002] |log| setup::table(&query::FILLS_SEGMENT_COUNT_QUERY, log);
    "kmd-omits-segment-descriptor" "describes one segment less than it reported" [KMD_SEG_003]
        |log| setup::table(&query::OMITS_SEGMENT_DESCRIPTOR, log);
    "kmd-ignores-segment-stride" "ignores SegmentDescriptorStride" [KMD_SEG_004]
        |log| setup::table(&query::IGNORES_SEGMENT_STRIDE, log);

    "kmd-creates-context-allocation-in-dpc" "calls DxgkCbCreateContextAllocation in its DPC"
        [CB_CTXALLOC_001] |log| setup::table(&context_allocation_callbacks::CREATES_CONTEXT_ALLOCATION_IN_DPC, log);
    "kmd-passes-wrong-adapter-handle" "passes its own adapter handle to DxgkCbCreateContextAllocation"
        [CB_CTXALLOC_003] |log| setup::table(&context_allocation_callbacks::PASSES_WRONG_ADAPTER_HANDLE, log);
    "kmd-frees-with-wrong-adapter-handle" "passes its own adapter handle to DxgkCbDestroyContextAllocation"
        [CB_CTXALLOC_010] |log| setup::table(&context_allocation_callbacks::FREES_WITH_WRONG_ADAPTER_HANDLE, log);
    "kmd-destroys-context-allocation-in-dpc" "calls DxgkCbDestroyContextAllocation in its DPC"
        [CB_CTXALLOC_011] |log| setup::table(&context_allocation_callbacks::DESTROYS_CONTEXT_ALLOCATION_IN_DPC, log);

    "kmd-shares-per-context-allocation" "requests a context allocation that is shared and for one context"
        [CB_CTXALLOC_002] |log| setup::table_memory(&context_allocation::SHARES_PER_CONTEXT_ALLOCATION, log);
    "kmd-omits-context-allocation-owner" "requests a context allocation that is neither shared nor for a context"
        [CB_CTXALLOC_002] |log| setup::table_memory(&context_allocation::OMITS_CONTEXT_ALLOCATION_OWNER, log);
    "kmd-passes-wrong-device-handle" "passes its own device handle to DxgkCbCreateContextAllocation"
        [CB_CTXALLOC_003] |log| setup::table_memory(&context_allocation::PASSES_WRONG_DEVICE_HANDLE, log);
    "kmd-passes-wrong-context-handle" "passes its own context handle to DxgkCbCreateContextAllocation"
        [CB_CTXALLOC_003] |log| setup::table_memory(&context_allocation::PASSES_WRONG_CONTEXT_HANDLE, log);
    "kmd-passes-context-as-device" "passes the system's handle of a context as hDevice to DxgkCbCreateContextAllocation"
        [CB_CTXALLOC_003] |log| setup::table_memory(&context_allocation::PASSES_CONTEXT_AS_DEVICE, log);
    "kmd-passes-destroyed-context" "passes the system's handle of a destroyed context to DxgkCbCreateContextAllocation"
        [CB_CTXALLOC_003] |log| setup::table_memory(&context_allocation::PASSES_DESTROYED_CONTEXT, log);
    "kmd-passes-adapter-as-context" "passes the system's handle of the adapter as hContext to DxgkCbCreateContextAllocation"
        [CB_CTXALLOC_003] |log| setup::table_memory(&context_allocation::PASSES_ADAPTER_AS_CONTEXT, log);
    "kmd-requests-empty-context-allocation" "requests a context allocation of zero bytes" [CB_CTXALLOC_004]
        |log| setup::table_memory(&context_allocation::REQUESTS_EMPTY_CONTEXT_ALLOCATION, log);
    "kmd-prefers-unsupported-context-segment" "prefers a segment for a context allocation that it does not support"
        [CB_CTXALLOC_004] |log| setup::table_memory(&context_allocation::PREFERS_ELSEWHERE, log);
    "kmd-evicts-context-to-memory" "lists a memory segment as eviction segment of a context allocation"
        [CB_CTXALLOC_004] |log| setup::table_memory(&context_allocation::EVICTS_TO_MEMORY, log);
    "kmd-requests-visible-context-memory" "requests a CPU-visible context allocation that can be in no aperture" [CB_CTXALLOC_005]
        |log| setup::table_memory(&context_allocation::REQUESTS_VISIBLE_CONTEXT_MEMORY, log);
    "kmd-frees-context-allocation-twice" "destroys a context allocation twice" [CB_CTXALLOC_009]
        |log| setup::table_memory(&context_allocation::FREES_CONTEXT_ALLOCATION_TWICE, log);
    "kmd-frees-device-as-context-allocation" "destroys a context allocation by the system's handle of the device"
        [CB_CTXALLOC_009] |log| setup::table_memory(&context_allocation::FREES_DEVICE_AS_ALLOCATION, log);
    "kmd-frees-wrong-context-allocation" "destroys a context allocation by its own handle" [CB_CTXALLOC_009]
        |log| setup::table_memory(&context_allocation::FREES_WRONG_CONTEXT_ALLOCATION, log);
    "kmd-leaks-context-allocation" "does not destroy the context allocation of a destroyed context" [CB_CTXALLOC_013]
        |log| setup::table_memory(&context_allocation::LEAKS_CONTEXT_ALLOCATION, log);
    "kmd-leaks-shared-context-allocation" "does not destroy the shared context allocation of a device"
        [CB_CTXALLOC_013] |log| setup::table_memory(&context_allocation::LEAKS_SHARED_CONTEXT_ALLOCATION, log);
    "kmd-maps-past-context-allocation" "maps the page past the end of a context allocation" [CB_CTXALLOC_015]
        |log| setup::table_memory(&context_allocation::MAPS_PAST_CONTEXT_ALLOCATION, log);
    "kmd-uses-freed-context-allocation" "keeps a destroyed context allocation in use by the engines"
        [CB_CTXALLOC_014] |log| setup::table_memory(&context_allocation::USES_FREED_CONTEXT_ALLOCATION, log);
    "kmd-updates-context-while-paging" "waits for paging work inside DxgkDdiBuildPagingBuffer"
        [CB_CTXALLOC_017] |log| setup::table_memory(&context_allocation::UPDATES_CONTEXT_WHILE_PAGING, log);
    "kmd-acquires-handle-data-in-dpc" "calls DxgkCbAcquireHandleData in its DPC" [CB_IRQL_001]
        |log| setup::table(&callback::ACQUIRES_HANDLE_DATA_IN_DPC, log);
    "kmd-queues-dpc-after-stop" "calls DxgkCbQueueDpc in DxgkDdiRemoveDevice" [CB_IRQL_002]
        |log| setup::table(&callback::QUEUES_DPC_AFTER_STOP, log);
    "kmd-queues-dpc-wrong-handle" "passes its own adapter handle to DxgkCbQueueDpc" [CB_IRQL_002]
        |log| setup::table(&callback::QUEUES_DPC_WRONG_HANDLE, log);
    "kmd-queries-resource-parent" "calls DxgkCbGetHandleParent for a resource" [CB_HANDLE_008]
        |log| setup::table(&callback::QUERIES_RESOURCE_PARENT, log);
    "kmd-queries-parent-in-dpc" "calls DxgkCbGetHandleParent in its DPC" [CB_HANDLE_008]
        |log| setup::table(&callback::QUERIES_PARENT_IN_DPC, log);
    "kmd-enumerates-children-in-dpc" "calls DxgkCbEnumHandleChildren in its DPC" [CB_HANDLE_009]
        |log| setup::table(&callback::ENUMERATES_CHILDREN_IN_DPC, log);
    "kmd-maps-past-hardware-memory" "maps one page more than its hardware has" [CB_MEM_001]
        |log| setup::table(&callback::MAPS_PAST_HARDWARE_MEMORY, log);
    "kmd-unmaps-registers-twice" "unmaps its registers twice" [CB_MEM_002]
        |log| setup::table(&callback::UNMAPS_REGISTERS_TWICE, log);
    "kmd-leaks-register-mapping" "leaves its registers mapped in DxgkDdiStopDevice" [CB_MEM_002]
        |log| setup::table(&callback::LEAKS_REGISTER_MAPPING, log);
    "kmd-queries-device-in-dpc" "calls DxgkCbGetDeviceInformation in its DPC" [CB_MEM_003]
        |log| setup::table(&callback::QUERIES_DEVICE_IN_DPC, log);
    "kmd-reads-config-in-dpc" "calls DxgkCbReadDeviceSpace in its DPC" [CB_MEM_004]
        |log| setup::table(&callback::READS_CONFIG_IN_DPC, log);
    "kmd-queries-wrong-capture-address" "calls DxgkCbGetCaptureAddress for an allocation without the Capture flag" [CB_MEM_010]
        |log| setup::table(&callback::QUERIES_WRONG_CAPTURE_ADDRESS, log);
    "kmd-indicates-child-while-synchronized" "calls DxgkCbIndicateChildStatus inside DxgkCbSynchronizeExecution"
        [CB_MEM_007] |log| setup::table(&callback::INDICATES_CHILD_WHILE_SYNCHRONIZED, log);

    "kmd-returns-at-dispatch-level" "returns from DxgkDdiOpenAllocation at DISPATCH_LEVEL" [KMD_LEVEL_008]
        |log| setup::table(&irql::RETURNS_AT_DISPATCH_LEVEL, log);
    "kmd-returns-with-spin-lock" "returns from a DDI with a spin lock held" [KMD_LEVEL_008]
        |log| setup::table(&irql::RETURNS_WITH_SPIN_LOCK, log);
    "kmd-releases-free-spin-lock" "releases a spin lock that it does not hold" [WT_MISUSE_001]
        |log| setup::table(&irql::RELEASES_FREE_SPIN_LOCK, log);
    "kmd-reports-unsubmitted-fence" "reports a fence that was not submitted" [KMD_ISR_008]
        |log| setup::table(&adapter::REPORTS_UNSUBMITTED_FENCE, log);
    "kmd-never-reports-fence" "acknowledges interrupts and never reports a completed fence" [KMD_SUBMIT_008]
        |log| setup::table(&tdr::NEVER_REPORTS_FENCE, log);
    "kmd-requeues-dpc-forever" "queues its DPC in its DPC without end" [WT_CRASH_001]
        |log| setup::table(&adapter::REQUEUES_DPC_FOREVER, log);
    "kmd-notifies-interrupt-in-dpc" "calls DxgkCbNotifyInterrupt in its DPC" [KMD_ISR_005]
        |log| setup::table(&adapter::NOTIFIES_INTERRUPT_IN_DPC, log);
    "kmd-waits-in-dpc" "waits in its DPC" [WT_LEVEL_001]
        |log| setup::table(&interrupt::WAITS_IN_DPC, log);
    "kmd-stalls-in-dpc" "stalls for 120 microseconds in its DPC" [WT_TIME_002]
        |log| setup::table(&interrupt::STALLS_IN_DPC, log);
    "kmd-polls-in-dpc" "polls in its DPC without an end" [WT_TIME_003]
        |log| setup::table(&interrupt::POLLS_IN_DPC, log);
    "kmd-fails-assertion" "fails an assertion of its own" [WT_ASSERT_001]
        |log| setup::table(&irql::FAILS_ASSERTION, log);
    "kmd-waits-forever-in-create" "waits in DxgkDdiCreateDevice for an event that nothing sets"
        [WT_STUCK_001] |log| setup::table(&device::WAITS_FOREVER_IN_CREATE, log);
    "kmd-stalls-too-long" "calls KeStallExecutionProcessor for 60 microseconds" [WT_TIME_001]
        |log| setup::table(&irql::STALLS_TOO_LONG, log);
    "kmd-acquires-spin-lock-twice" "acquires a spin lock that its thread holds" [WT_LOCK_001]
        |log| setup::table(&irql::ACQUIRES_SPIN_LOCK_TWICE, log);
    "kmd-inverts-lock-order" "acquires two spin locks in both orders" [WT_LOCK_002]
        |log| setup::table(&irql::INVERTS_LOCK_ORDER, log);
    "kmd-waits-with-spin-lock" "waits while it holds a spin lock" [WT_LOCK_003]
        |log| setup::table(&irql::WAITS_WITH_SPIN_LOCK, log);

    "kmd-indicates-child-in-isr" "calls DxgkCbIndicateChildStatus in its interrupt routine"
        [KMD_ISR_001] |log| setup::table(&interrupt::INDICATES_CHILD_IN_ISR, log);
    "kmd-claims-every-interrupt" "returns TRUE for every interrupt" [KMD_ISR_002]
        |log| setup::table(&interrupt::CLAIMS_EVERY_INTERRUPT, log);
    "kmd-softgpu-claims-every-interrupt" "the driver in Rust that returns true for every interrupt" [KMD_ISR_002]
        |log| setup::faulty(Fault::ClaimsEveryInterrupt, log);
    "kmd-leaves-interrupt-asserted" "reports a vsync and does not acknowledge the interrupt" [KMD_ISR_002]
        |log| setup::table(&interrupt::LEAVES_INTERRUPT_ASSERTED, log);
    "kmd-notifies-from-paged-pool" "passes interrupt data in paged pool to DxgkCbNotifyInterrupt" [KMD_ISR_003]
        |log| setup::table(&interrupt::NOTIFIES_FROM_PAGED_POOL, log);
    "kmd-omits-queue-dpc" "notifies an interrupt and does not call DxgkCbQueueDpc"
        [KMD_ISR_006] |log| setup::table(&interrupt::OMITS_QUEUE_DPC, log);
    "kmd-omits-notify-dpc" "does not call DxgkCbNotifyDpc in its DPC" [KMD_ISR_006]
        |log| setup::table(&interrupt::OMITS_NOTIFY_DPC, log);
    "kmd-softgpu-omits-notify-dpc" "the driver in Rust that does nothing in its DPC" [KMD_ISR_006]
        |log| setup::faulty(Fault::OmitsNotifyDpc, log);
    "kmd-reports-vsync-before-fences" "reports a vsync before the completed fences of its nodes" [KMD_ISR_007]
        |log| setup::table(&interrupt::REPORTS_VSYNC_BEFORE_FENCES, log);
    "kmd-reports-wrong-engine" "reports an interrupt for the second engine of a node" [KMD_ISR_009]
        |log| setup::table(&interrupt::REPORTS_WRONG_ENGINE, log);
    "kmd-reports-missing-node" "reports an interrupt for a node that it does not have" [KMD_ISR_009]
        |log| setup::table(&interrupt::REPORTS_MISSING_NODE, log);
    "kmd-reports-dma-faulted" "reports DXGK_INTERRUPT_DMA_FAULTED, which is for WDDM 1.x"
        [KMD_ISR_010] |log| setup::table(&interrupt::REPORTS_DMA_FAULTED, log);
    "kmd-reports-fault-without-fence" "reports a page fault with fence zero without the flag for an unknown fence"
        [KMD_ISR_010] |log| setup::table(&interrupt::REPORTS_FAULT_WITHOUT_FENCE, log);
    "kmd-notifies-dpc-at-passive" "calls DxgkCbNotifyDpc in DxgkDdiOpenAllocation" [KMD_ISR_011]
        |log| setup::table(&interrupt::NOTIFIES_DPC_AT_PASSIVE, log);
    "kmd-synchronizes-wrong-message" "synchronizes with a message number of a line-based interrupt" [KMD_ISR_013]
        |log| setup::table(&interrupt::SYNCHRONIZES_WRONG_MESSAGE, log);
    "kmd-nests-synchronize-execution" "calls DxgkCbSynchronizeExecution inside DxgkCbSynchronizeExecution" [KMD_ISR_013]
        |log| setup::table(&interrupt::NESTS_SYNCHRONIZE_EXECUTION, log);
    "kmd-accepts-unknown-interrupt-control" "returns success for every interrupt type in DxgkDdiControlInterrupt" [KMD_ISR_014]
        |log| setup::table(&interrupt::ACCEPTS_UNKNOWN_INTERRUPT_CONTROL, log);
    "kmd-ignores-vsync-enable" "returns success when vsync is enabled and reports no vsync" [KMD_ISR_014]
        |log| setup::table(&interrupt::IGNORES_VSYNC_ENABLE, log);

    "kmd-fails-submit-paging" "accepts paging work and returns STATUS_UNSUCCESSFUL" [KMD_SUBMIT_005]
        |log| setup::table_memory(&submit::FAILS_SUBMIT_PAGING, log);
    "kmd-acquires-handle-data-in-submit" "calls DxgkCbAcquireHandleData in DxgkDdiSubmitCommand"
        [KMD_SUBMIT_006] |log| setup::table(&submit::ACQUIRES_HANDLE_DATA_IN_SUBMIT, log);
    "kmd-waits-in-submit" "waits in DxgkDdiSubmitCommand" [KMD_SUBMIT_006]
        |log| setup::table(&submit::WAITS_IN_SUBMIT, log);
    "kmd-allocates-paged-in-submit" "allocates paged pool in DxgkDdiSubmitCommand" [KMD_SUBMIT_006]
        |log| setup::table(&submit::ALLOCATES_PAGED_IN_SUBMIT, log);
    "kmd-returns-no-memory-submit" "fails DxgkDdiSubmitCommand with STATUS_NO_MEMORY" [KMD_SUBMIT_013]
        |log| setup::table(&submit::RETURNS_NO_MEMORY_SUBMIT, log);

    "kmd-fails-preempt-command" "fails DxgkDdiPreemptCommand with STATUS_UNSUCCESSFUL" [KMD_PREEMPT_001]
        |log| setup::table(&tdr::FAILS_PREEMPT_COMMAND, log);
    "kmd-omits-idle-preemption-report" "does not report the preemption of an idle node"
        [KMD_PREEMPT_002] |log| setup::table(&tdr::OMITS_IDLE_PREEMPTION_REPORT, log);
    "kmd-omits-preemption-report" "never reports a preemption" [KMD_PREEMPT_002]
        |log| setup::table(&tdr::OMITS_PREEMPTION_REPORT, log);
    "kmd-reports-preemption-unsubmitted-fence" "reports a preemption after a fence that was not submitted"
        [KMD_PREEMPT_003] |log| setup::table(&tdr::REPORTS_PREEMPTION_UNSUBMITTED_FENCE, log);
    "kmd-reports-wrong-preemption-fence" "reports a preemption with another preemption fence than requested"
        [KMD_PREEMPT_003] |log| setup::table(&tdr::REPORTS_WRONG_PREEMPTION_FENCE, log);
    "kmd-reports-last-submitted" "reports a preemption with the last submitted fence as LastCompletedFenceId"
        [KMD_PREEMPT_003] |log| setup::table(&tdr::REPORTS_LAST_SUBMITTED, log);
    "kmd-omits-queried-fence-report" "returns a completed fence from DxgkDdiQueryCurrentFence and does not report it" [KMD_PREEMPT_005]
        |log| setup::table(&tdr::OMITS_QUERIED_FENCE_REPORT, log);
    "kmd-fails-cancel-command" "fails DxgkDdiCancelCommand with STATUS_UNSUCCESSFUL" [KMD_SUBMIT_015]
        |log| setup::table(&tdr::FAILS_CANCEL_COMMAND, log);
    "kmd-fails-query-engine-status" "fails DxgkDdiQueryEngineStatus" [KMD_TDR_011]
        |log| setup::table(&tdr::FAILS_QUERY_ENGINE_STATUS, log);
    "kmd-omits-node-from-dependency" "lists the nodes affected by an engine reset without the node itself"
        [KMD_TDR_011] |log| setup::table(&tdr::OMITS_NODE_FROM_DEPENDENCY, log);
    "kmd-keeps-work-after-reset" "returns success from DxgkDdiResetEngine and keeps the packets of the engine" [KMD_TDR_006]
        |log| setup::table(&tdr::KEEPS_WORK_AFTER_RESET, log);
    "kmd-reports-unsubmitted-aborted-fence" "returns an aborted fence that was not submitted" [KMD_TDR_007]
        |log| setup::table(&tdr::REPORTS_UNSUBMITTED_ABORTED_FENCE, log);
    "kmd-reports-zero-aborted-fence" "leaves LastAbortedFenceId zero in DxgkDdiResetEngine" [KMD_TDR_007]
        |log| setup::table(&tdr::REPORTS_ZERO_ABORTED_FENCE, log);
    "kmd-omits-current-fence" "does not set CurrentFence in DxgkDdiQueryCurrentFence" [WT_BUFFER_002]
        |log| setup::table(&tdr::OMITS_CURRENT_FENCE, log);
    "kmd-omits-dependent-nodes" "does not set the mask in DxgkDdiQueryDependentEngineGroup" [WT_BUFFER_002]
        |log| setup::table(&tdr::OMITS_DEPENDENT_NODES, log);
    "kmd-omits-aborted-fence" "does not set LastAbortedFenceId in DxgkDdiResetEngine" [KMD_TDR_007]
        |log| setup::table(&tdr::OMITS_ABORTED_FENCE, log);
    "kmd-reports-abort-on-idle" "returns an aborted fence for an idle node" [KMD_TDR_008]
        |log| setup::table(&tdr::REPORTS_ABORT_ON_IDLE, log);
    "kmd-fails-reset-from-timeout" "fails DxgkDdiResetFromTimeout with STATUS_UNSUCCESSFUL" [KMD_TDR_001]
        |log| setup::table(&tdr::FAILS_RESET_FROM_TIMEOUT, log);
    "kmd-skips-reset-from-timeout" "returns success from DxgkDdiResetFromTimeout without a reset" [KMD_TDR_001]
        |log| setup::table(&tdr::SKIPS_RESET_FROM_TIMEOUT, log);
    "kmd-fails-restart-from-timeout" "fails DxgkDdiRestartFromTimeout with STATUS_UNSUCCESSFUL" [KMD_TDR_005]
        |log| setup::table(&tdr::FAILS_RESTART_FROM_TIMEOUT, log);
    "kmd-omits-restart-from-timeout" "does not implement DxgkDdiRestartFromTimeout" [KMD_TDR_005]
        |log| setup::table(&tdr::OMITS_RESTART_FROM_TIMEOUT, log);
    "kmd-reports-fence-after-reset" "reports a fence after a reset that was complete before it" [KMD_ISR_008]
        |log| setup::table(&tdr::REPORTS_FENCE_AFTER_RESET, log);
    "kmd-keeps-fence-after-reset" "does not advance the last completed fence after a reset" [KMD_TDR_010]
        |log| setup::table(&tdr::KEEPS_FENCE_AFTER_RESET, log);
    "kmd-overruns-debug-info" "writes one byte past the buffer of DxgkDdiCollectDbgInfo" [KMD_TDR_012]
        |log| setup::table(&tdr::OVERRUNS_DEBUG_INFO, log);
    "kmd-touches-hardware-during-reset" "accesses its hardware between reset and restart" [KMD_TDR_004]
        |log| setup::table_memory(&tdr::TOUCHES_HARDWARE_DURING_RESET, log);

    "kmd-frees-pool-twice" "frees the pool memory of each allocation twice" [WT_POOL_001]
        |log| setup::table(&destroy::FREES_POOL_TWICE, log);
    "kmd-writes-freed-device" "writes to a device that it has freed" [WT_POOL_002]
        |log| setup::table(&adapter::WRITES_FREED_DEVICE, log);
    "kmd-writes-behind-device" "writes one byte behind the block of a device" [WT_POOL_004]
        |log| setup::table(&adapter::WRITES_BEHIND_DEVICE, log);
    "kmd-writes-before-device" "writes four bytes before the block of a device" [WT_POOL_004]
        |log| setup::table(&adapter::WRITES_BEFORE_DEVICE, log);
    "kmd-leaks-remove-device-memory" "allocates pool memory in DxgkDdiRemoveDevice and never frees it" [WT_POOL_003]
        |log| setup::table(&adapter::LEAKS_REMOVE_DEVICE_MEMORY, log);
    "kmd-crashes-in-destroy" "panics in DxgkDdiDestroyAllocation" [WT_CRASH_001]
        |log| setup::table(&destroy::CRASHES_IN_DESTROY, log);

    "kmd-overlaps-segments" "reports two segments with overlapping addresses" [KMD_SEG_005]
        |log| setup::faulty_memory(memory::OVERLAPS_SEGMENTS, log);
    "kmd-limits-memory-commit" "reports a CommitLimit below the size of a memory segment" [KMD_SEG_006]
        |log| setup::faulty_memory(memory::LIMITS_MEMORY_COMMIT, log);
    "kmd-combines-agp-flags" "reports an AGP aperture with additional flags" [KMD_SEG_007]
        |log| setup::faulty_memory(memory::COMBINES_AGP_FLAGS, log);
    "kmd-claims-cache-coherent-memory" "reports a memory segment as cache-coherent" [KMD_SEG_009]
        |log| setup::faulty_memory(memory::CLAIMS_CACHE_COHERENT_MEMORY, log);
    "kmd-combines-cpuvisible-host-aperture" "reports a CPU-visible memory segment with a CPU host aperture" [KMD_SEG_010]
        |log| setup::faulty_memory(memory::COMBINES_CPUVISIBLE_HOST_APERTURE, log);
    "kmd-preserves-hibernate-only" "preserves a segment during hibernation but not during standby" [KMD_SEG_011]
        |log| setup::faulty_memory(memory::PRESERVES_HIBERNATE_ONLY, log);
    "kmd-misorders-banks" "reports segment banks that are not ascending" [KMD_SEG_012]
        |log| setup::faulty_memory(memory::MISORDERS_BANKS, log);
    "kmd-places-paging-buffer-wrong" "reports a paging buffer segment that is not an aperture" [KMD_SEG_013]
        |log| setup::faulty_memory(memory::PLACES_PAGING_BUFFER_WRONG, log);
    "kmd-places-paging-buffer-nowhere" "reports a paging buffer segment that does not exist" [KMD_SEG_013]
        |log| setup::faulty_memory(memory::PLACES_PAGING_BUFFER_NOWHERE, log);
    "kmd-reports-memory-segment-first" "reports a memory segment as its first segment" [GATE_SEG_001]
        |log| setup::faulty_memory(memory::REPORTS_MEMORY_SEGMENT_FIRST, log);
    "kmd-aligns-below-page-size" "aligns allocations to 4 KiB in a segment with larger pages" [KMD_SEG_015]
        |log| setup::faulty_memory(memory::ALIGNS_BELOW_PAGE_SIZE, log);
    "kmd-prefers-unsupported-segment" "prefers a segment outside the supported segment set" [KMD_ALLOC_004]
        |log| setup::faulty_memory(memory::PREFERS_ELSEWHERE, log);
    "kmd-omits-segment-set" "creates allocations with an empty segment set" [KMD_ALLOC_005]
        |log| setup::faulty_memory(memory::OMITS_SEGMENT_SET, log);
    "kmd-evicts-to-memory-segment" "lists a memory segment in the eviction segment set" [KMD_ALLOC_006]
        |log| setup::faulty_memory(memory::EVICTS_TO_MEMORY, log);
    "kmd-sets-zero-priority" "creates allocations with an AllocationPriority of zero" [ALLOC_PRIO_002]
        |log| setup::faulty_memory(memory::SETS_ZERO_PRIORITY, log);
    "kmd-places-cpuvisible-invisibly" "creates CPU-visible allocations in a segment that the CPU cannot access" [ALLOC_LOCK_020]
        |log| setup::faulty_memory(memory::PLACES_CPUVISIBLE_INVISIBLY, log);
    "kmd-returns-illegal-paging-status" "fails paging operations with STATUS_INVALID_PARAMETER" [KMD_PAGING_001]
        |log| setup::faulty_memory(memory::RETURNS_ILLEGAL_PAGING_STATUS, log);
    "kmd-overruns-paging-buffer" "writes more paging commands than the paging buffer holds" [KMD_PAGING_002]
        |log| setup::faulty_memory(memory::OVERRUNS_PAGING_BUFFER, log);
    "kmd-never-fits-paging-buffer" "requests another paging buffer for each operation without end" [KMD_PAGING_003]
        |log| setup::faulty_memory(memory::NEVER_FITS_PAGING_BUFFER, log);
    "kmd-reports-unused-allocation-busy" "returns a busy status for an allocation that is not in use" [KMD_PAGING_005]
        |log| setup::faulty_memory(memory::REPORTS_UNUSED_ALLOCATION_BUSY, log);

    "umd-frees-before-flush" "frees a resource that its unsubmitted commands use" [UMD_DESTROY_001]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesBeforeFlush);
    "umd-frees-list-leaks-resource" "frees the allocations of a resource by list and never the resource" [UMD_DESTROY_006]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesListLeaksResource);
    "umd-frees-twice" "frees a resource twice" [UMD_DESTROY_010]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesTwice);
    "umd-frees-locked" "frees an allocation that it has locked" [UMD_DESTROY_011]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesLocked);
    "umd-frees-one-allocation-only" "frees only one allocation of a resource" [UMD_DESTROY_005]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesOneAllocationOnly);
    "umd-frees-allocations-individually" "frees the allocations of a resource one by one and never the resource" [UMD_DESTROY_007]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesAllocationsIndividually);
    "umd-never-frees-deferred" "defers a free and never performs it" [UMD_DESTROY_002]
        setup::softgpu_allocation_lists, || umd::with(Flaw::NeverFreesDeferred);
    "umd-fails-after-free" "frees a resource and returns a failure" [UMD_DESTROY_024]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FailsAfterFree);
    "umd-returns-illegal-destroy-error" "returns an HRESULT that pfnDestroyResource may not return" [UMD_ERR_004]
        setup::softgpu_allocation_lists, || umd::with(Flaw::ReturnsIllegalDestroyError);
    "umd-calls-back-after-destroy" "calls the runtime for a device that it has destroyed" [UMD_DESTROY_013]
        setup::softgpu_allocation_lists, || umd::with(Flaw::CallsBackAfterDestroy);
    "umd-submits-on-own-thread" "submits on a thread that it has created" [UMD_SUBMIT_004]
        setup::softgpu_allocation_lists, || umd::with(Flaw::SubmitsOnOwnThread);
    "umd-frees-resource-with-list" "frees a resource and lists its allocations in the same call" [UMD_DESTROY_023]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesResourceWithList);
    "umd-frees-by-own-handle" "frees a resource by its own handle instead of the runtime's" [UMD_DESTROY_010]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesByOwnHandle);
    "umd-returns-runtime-handle" "leaves the runtime's handle in hResource" [UMD_RES_001]
        setup::softgpu_allocation_lists, || umd::with(Flaw::ReturnsRuntimeHandle);
    "umd-reuses-resource-handle" "returns one handle for two resources" [UMD_RES_001]
        setup::softgpu_allocation_lists, || umd::with(Flaw::ReusesResourceHandle);
    "umd-leaks-lock" "locks its own memory and never unlocks it" [UMD_LOCK_003]
        setup::softgpu_allocation_lists, || umd::with(Flaw::LeaksLock);
    "umd-fails-second-lock" "fails to lock a surface that is already locked" [UMD_LOCK_001]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FailsSecondLock);
    "umd-unlocks-not-locked" "returns success when it unlocks a surface that is not locked" [UMD_LOCK_002]
        setup::softgpu_allocation_lists, || umd::with(Flaw::UnlocksNotLocked);
    "umd-fails-waiting-lock" "returns a still-drawing error for a lock without DoNotWait" [UMD_LOCK_008]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FailsWaitingLock);
    "umd-writes-stale-command-buffer" "writes to the command buffer that a submission has replaced" [UMD_SUBMIT_001]
        setup::softgpu_allocation_lists, || umd::with(Flaw::WritesStaleCommandBuffer);
    "umd-uses-stale-instance" "uses the memory that a discarding lock has replaced" [UMD_LOCK_005]
        setup::softgpu_allocation_lists, || umd::with(Flaw::UsesStaleInstance);
    "umd-accepts-invalid-subresource" "uses the last surface for an index that does not exist" [UMD_RES_002]
        setup::softgpu_allocation_lists, || umd::with(Flaw::AcceptsInvalidSubresource);
    "umd-allocates-on-open" "allocates memory in pfnOpenResource" [UMD_RES_009]
        setup::softgpu_allocation_lists, || umd::with(Flaw::AllocatesOnOpen);
    "umd-allocates-surfaces-individually" "allocates each surface of a resource in a separate call" [UMD_RES_003]
        setup::softgpu_allocation_lists, || umd::with(Flaw::AllocatesSurfacesIndividually);
    "umd-ignores-callback-error" "returns success when a callback failed" [UMD_ERR_003]
        setup::softgpu_allocation_lists, || umd::with(Flaw::IgnoresCallbackError);
    "umd-submits-in-lock-async" "submits commands inside an asynchronous lock" [UMD_LOCK_010]
        setup::softgpu_allocation_lists, || umd::with(Flaw::SubmitsInLockAsync);
    "umd-submits-without-context" "submits without a context" [UMD_ADAPTER_004]
        setup::softgpu_allocation_lists, || umd::with(Flaw::NoContext);
    "umd-queries-caps-late" "queries the adapter in pfnCreateDevice instead of OpenAdapter" [UMD_ADAPTER_003]
        setup::softgpu_allocation_lists, || umd::with(Flaw::QueriesCapsLate);
    "umd-leaks-context" "does not destroy its context in pfnDestroyDevice" [UMD_DESTROY_013]
        setup::softgpu_allocation_lists, || umd::with(Flaw::LeaksContext);
    "umd-sets-ignoresync-without-donotwait" "locks with IgnoreSync without DonotWait" [UMD_LOCK_007]
        setup::softgpu_allocation_lists, || umd::with(Flaw::SetsIgnoreSyncWithoutDoNotWait);
    "umd-limits-devices" "creates no more than four devices of an adapter" [UMD_ADAPTER_005]
        setup::softgpu_allocation_lists, || umd::with(Flaw::LimitsDevices);
    "umd-leaks-adapter" "does not free an adapter in pfnCloseAdapter" [UMD_ADAPTER_002]
        setup::softgpu_allocation_lists, || umd::with(Flaw::LeaksAdapter);
    "umd-varies-shared-allocations" "allocates a shared resource differently in each process" [UMD_RES_005]
        setup::softgpu_allocation_lists, || umd::with(Flaw::VariesSharedAllocations);
    "umd-fails-unwrappable-sysmem" "fails to create a system memory resource that it cannot wrap" [UMD_RES_007]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FailsUnwrappableSysmem);
    "umd-reads-reserved-members" "uses the vertex format of a resource that is not a vertex buffer" [UMD_RES_008]
        setup::softgpu_allocation_lists, || umd::with(Flaw::ReadsReservedMembers);
    "umd-defers-free-by-handle" "frees a resource later by a handle that is already destroyed" [UMD_DESTROY_003]
        setup::softgpu_allocation_lists, || umd::with(Flaw::DefersFreeByHandle);
    "umd-frees-list-then-resource" "frees the allocations of a resource by list and then the resource" [UMD_DESTROY_008]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesListThenResource);
    "umd-sets-assumenotinuse-wrongly" "frees with AssumeNotInUse a resource that the GPU uses" [UMD_DESTROY_012]
        setup::softgpu_memory, || umd::with(Flaw::SetsAssumeNotInUseWrongly);
    "umd-retries-lock-immediately" "retries a failed lock immediately" [UMD_LOCK_006]
        setup::softgpu_allocation_lists, || umd::with(Flaw::RetriesLockImmediately);
    "umd-omits-written-primaries" "does not list the primaries that its commands write" [UMD_SUBMIT_007]
        setup::softgpu_memory, || umd::with(Flaw::OmitsWrittenPrimaries);
    "umd-shares-state-between-devices" "keeps creation state in one place for all devices" [UMD_THREAD_002]
        setup::softgpu_allocation_lists, || umd::with(Flaw::SharesStateBetweenDevices);
    "umd-queues-wait-before-commands" "queues a GPU wait ahead of commands that it collected before" [SYNC_CREATE_013]
        |log| setup::softgpu_gpummu(MmuPlan::default(), log), || umd::with(Flaw::QueuesWaitBeforeCommands);
    "umd-frees-shared-by-list" "frees the allocations of a shared resource by list" [UMD_DESTROY_009]
        setup::softgpu_allocation_lists, || umd::with(Flaw::FreesSharedByList);
    "umd-unlocks-application-lock" "unlocks a surface at flush that the application has locked" [UMD_LOCK_004]
        setup::softgpu_allocation_lists, || umd::with(Flaw::UnlocksApplicationLock);
    "umd-renames-shared" "locks a shared resource with Discard" [UMD_RES_004]
        setup::softgpu_allocation_lists, || umd::with(Flaw::RenamesShared);
    "umd-returns-illegal-create-error" "returns a not-available error for surfaces, which is for buffers only" [UMD_RES_006]
        setup::softgpu_allocation_lists, || umd::with(Flaw::ReturnsIllegalCreateError);
    "umd-changes-callback-error" "returns another error than its callback returned" [UMD_RES_010]
        setup::softgpu_allocation_lists, || umd::with(Flaw::ChangesCallbackError);
    "umd-submits-truncated-commands" "submits commands without their last byte" [UMD_SUBMIT_002]
        setup::softgpu_allocation_lists, || umd::with(Flaw::SubmitsTruncatedCommands);
    "umd-allocates-on-own-thread" "allocates on a thread that it has created" [UMD_SUBMIT_005]
        setup::softgpu_allocation_lists, || umd::with(Flaw::AllocatesOnOwnThread);
    "umd-destroys-context-twice" "destroys its context twice" [UMD_SUBMIT_006]
        setup::softgpu_allocation_lists, || umd::with(Flaw::DestroysContextTwice);
    "umd-draws-nothing" "returns success from pfnColorFill and draws nothing" [WT_DRAW_001]
        setup::softgpu_allocation_lists, || umd::with(Flaw::DrawsNothing);
    "umd-submits-locked" "submits commands that use a locked allocation" [UMD_SUBMIT_003]
        setup::softgpu_allocation_lists, || umd::with(Flaw::SubmitsLocked);
};
