//! The drivers by name.

use crate::addresses::GPUMMU;
use crate::asking::HANDLE_QUERIES;
use crate::bad::paging::Flaw as Paging;
use crate::bad::tables::Flaw as Table;
use crate::bad::{
    adapter, addresses, callback, context_memory, create, describe, destroy, device, escape,
    handle, interrupt, level, listed, memory, pnp, query, recover, render, saved, standard, submit,
    view,
};
use crate::listed::ALLOCATION_LISTS;
use crate::memory::MEMORY;
use crate::moving::RESOURCE_HANDLE_CHANGES;
use crate::plug;
use crate::table::GOOD;
use crate::umd::{self, Flaw};
use crate::wrapped::Fault;
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
    ALL.iter().find(|it| it.name == name)
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

/// Every driver: the good ones first.
pub const ALL: &[Listed] = drivers! {
    "softgpu" "the built-in driver, in safe Rust" [] plug::softgpu;
    "table" "a driver with a table, as one in C has it" [] |log| plug::table(&GOOD, log);
    "table-moves-resource" "changes hResource where it may" []
        |log| plug::table(&RESOURCE_HANDLE_CHANGES, log);
    "table-memory" "the driver with a table, on hardware with memory" []
        |log| plug::table_memory(&MEMORY, log);
    "softgpu-memory" "the built-in driver, on hardware with memory" [] plug::softgpu_memory,
        || umd::with(Flaw::None);
    "softgpu-virtual" "the built-in driver, on hardware with virtual addresses" []
        |log| plug::softgpu_gpummu(MmuPlan::default(), log), || umd::with(Flaw::None);
    "softgpu-two-levels" "the same, with page tables of two levels" []
        |log| plug::softgpu_gpummu(MmuPlan::TWO_LEVELS, log);
    "softgpu-cpu-tables" "the same, with page tables that the CPU writes" []
        |log| plug::softgpu_gpummu(MmuPlan::BY_CPU, log);
    "table-virtual" "the driver with a table, on hardware with virtual addresses" []
        |log| plug::table_gpummu(&GPUMMU, log), || umd::with(Flaw::None);
    "softgpu-changing" "changes the save areas of contexts that run" [] plug::changing;
 "softgpu-blunt" "the built-in driver with memory, which ends all that an engine has in a reset" []
        plug::blunt;
    "table-unable" "the driver with a table, whose engines cannot be reset by themselves" []
        |log| plug::table(&recover::NO_ENGINE_RESET, log);
    "table-locks" "destroys under a spin lock, and takes its time to create" []
        |log| plug::table(&level::SPIN_LOCK_DESTROY, log);

    "table-listed" "the driver with a table, and packets with lists besides" []
        |log| plug::table_memory(&ALLOCATION_LISTS, log), || umd::with(Flaw::None);
    "softgpu-listed" "the built-in driver as one of WDDM 1.x: packets have lists" []
        plug::softgpu_allocation_lists, || umd::with(Flaw::None);
    "softgpu-guarantees" "the same, and what fits into a client's buffer fits into its own" []
        |log| plug::render_flaw(render::Flaw::None, log);

    "table-asks" "maps its registers, and asks for the members of resources" []
        |log| plug::table(&HANDLE_QUERIES, log);

    "null-allocation" "creates allocations without an hAllocation" [KMD_ALLOC_001]
        |log| plug::table(&create::RETURNS_NULL_ALLOCATION, log);
    "same-allocation" "gives all allocations of a call the same hAllocation" [KMD_ALLOC_001]
        |log| plug::table(&create::REUSES_ALLOCATION_HANDLE, log);
    "zero-size" "creates allocations of no bytes" [KMD_ALLOC_002]
        |log| plug::faulty(Fault::ReturnsZeroSize, log);
    "small-pitch" "gives a PitchAlignedSize below the Size" [KMD_ALLOC_003]
        |log| plug::faulty(Fault::ReturnsSmallPitchAlignedSize, log);
    "reserved-flags" "sets a flag of an allocation that has no name" [KMD_ALLOC_008]
        |log| plug::table(&create::SETS_RESERVED_ALLOCATION_FLAG, log);
    "cached-unseen" "creates cached allocations that the CPU does not see" [KMD_FLAGS_001]
        |log| plug::table(&create::SETS_CACHED_WITHOUT_CPUVISIBLE, log);
    "two-memories" "creates allocations that are protected and of existing memory"
        [KMD_FLAGS_002] |log| plug::table(&create::SETS_PROTECTED_WITH_EXISTINGSYSMEM, log);
    "notified-virtual" "wants residency notifications for what is not accessed physically"
        [KMD_FLAGS_006] |log| plug::table(&create::SETS_NOTIFICATION_WITHOUT_PHYSICAL, log);
    "hidden-history" "creates history buffers that the CPU does not see" [KMD_FLAGS_007]
        |log| plug::table(&create::SETS_HISTORYBUFFER_WITHOUT_CPUVISIBLE, log);
    "points-at-device" "leaves the device's address in an allocation it has closed"
        [KMD_ALLOC_009] |log| plug::table(&view::KEEPS_CLOSED_DEVICE_POINTER, log);
    "leaks-failed-create" "keeps what it had made when a create fails" [KMD_ALLOC_011]
        |log| plug::table(&create::LEAKS_FAILED_CREATE, log);
    "ends-with-nul" "writes a byte behind the private data of an allocation" [KMD_ALLOC_012]
        |log| plug::table(&create::OVERRUNS_PRIVATE_DATA, log);
    "illegal-status" "answers a bad description with STATUS_UNSUCCESSFUL" [GATE_STATUS_002]
        |log| plug::table(&create::RETURNS_ILLEGAL_CREATE_STATUS, log);

    "cannot-describe" "does not say what a primary looks like" [KMD_STD_001]
        |log| plug::table(&describe::FAILS_DESCRIBE_PRIMARY, log);
    "describes-nothing" "describes a primary without a width and a format" [KMD_STD_001]
        |log| plug::table(&describe::DESCRIBES_EMPTY_PRIMARY, log);
    "protected-primary" "protects every allocation, also a primary" [KMD_FLAGS_003]
        |log| plug::table(&describe::SETS_PROTECTED_ON_PRIMARY, log);
    "edits-surface" "changes a surface's description where only sizes are asked for"
        [KMD_STD_002] |log| plug::table(&standard::EDITS_STANDARD_SURFACE_DATA, log);
    "no-private-data" "has no private data for a standard allocation" [KMD_STD_003]
        |log| plug::table(&standard::OMITS_STANDARD_PRIVATE_DATA, log);
    "two-sizes" "answers another size of private data when it fills it in" [KMD_STD_004]
        |log| plug::table(&standard::CHANGES_STANDARD_PRIVATE_SIZE, log);
    "refuses-its-own" "refuses the private data it gave a standard allocation" [KMD_STD_004]
        |log| plug::table(&standard::REJECTS_OWN_PRIVATE_DATA, log);

    "null-device" "makes devices without an hDevice" [KMD_DEV_001]
        |log| plug::table(&device::RETURNS_NULL_DEVICE, log);
    "leaks-device" "does not free a device that it is told to destroy" [KMD_DEV_002]
        |log| plug::table(&device::LEAKS_DEVICE, log);
    "fails-device-end" "destroys a device, and answers that it is busy" [KMD_DEV_002]
        |log| plug::faulty(Fault::FailsDestroyDevice, log);
    "one-device" "has one device at a time" [KMD_DEV_004]
        |log| plug::faulty(Fault::OneDevice, log);
    "refuses-contexts" "does not make contexts" [KMD_CTX_001]
        |log| plug::faulty(Fault::FailsCreateContext, log);
    "leaks-context" "does not free a context that it is told to destroy" [KMD_CTX_006]
        |log| plug::table(&device::LEAKS_CONTEXT, log);
    "leaks-at-add" "takes a block when it meets its adapter and never frees it" [KMD_PNP_003]
        |log| plug::table(&pnp::LEAKS_ADD_DEVICE_MEMORY, log);
    "counts-nothing" "starts, and sets neither of its counts" [KMD_PNP_004]
        |log| plug::table(&pnp::OMITS_START_COUNTS, log);
    "leaks-at-start" "takes a block when it starts and never frees it" [KMD_PNP_005]
        |log| plug::table(&pnp::LEAKS_START_DEVICE_MEMORY, log);
    "releases-no-display" "hands a display on that is not there" [KMD_PNP_007]
        |log| plug::table(&pnp::RELEASES_MISSING_POST_DISPLAY, log);
    "resets-loudly" "asks for its DPC in DxgkDdiResetDevice" [KMD_PNP_008]
        |log| plug::table(&pnp::QUEUES_DPC_IN_RESET, log);
    "fails-power" "changes its power, and says that it did not" [KMD_PNP_009]
        |log| plug::table(&pnp::FAILS_SET_POWER, log);
    "touches-pulled" "resets its hardware when it stops, though that was pulled out"
        [KMD_PNP_010] |log| plug::table(&pnp::TOUCHES_REMOVED_HARDWARE, log);
    "writes-pulled" "writes to a register when it stops, though that was pulled out"
        [KMD_PNP_010] |log| plug::table(&pnp::WRITES_REMOVED_REGISTER, log);
    "fails-removal" "does not want to hear that its hardware was pulled out" [KMD_PNP_011]
        |log| plug::table(&pnp::FAILS_SURPRISE_REMOVAL, log);
    "keeps-adapter" "does not free its adapter when it is removed" [KMD_PNP_003]
        |log| plug::table(&device::LEAKS_REMOVED_ADAPTER, log);

    "touches-in-escape" "reads its hardware in an escape without HardwareAccess" [DEV_LIFE_011]
        |log| plug::table(&escape::READS_HARDWARE_IN_ESCAPE, log);
    "wants-process" "takes it that an escape has an hKmdProcessHandle" [DEV_LIFE_012]
        |log| plug::table(&escape::ASSUMES_ESCAPE_PROCESS, log);

    "signs-resource" "writes into a resource's private data when it opens" [KMD_OPEN_003]
        |log| plug::table(&view::WRITES_RESOURCE_DATA_ON_OPEN, log);
    "asks-to-open" "opens with DxgkCbGetHandleData, as at WDDM 1.x" [KMD_OPEN_004]
        |log| plug::table(&handle::CALLS_GETHANDLEDATA_ON_OPEN, log);
    "asks-the-old-way" "calls DxgkCbGetHandleData, which is for WDDM 1.x" [CB_HANDLE_004]
        |log| plug::table(&handle::CALLS_GETHANDLEDATA, log);
    "asks-for-resource" "asks for what a device has of a resource" [CB_HANDLE_002]
        |log| plug::table(&handle::ACQUIRES_DEVICE_SPECIFIC_RESOURCE, log);
    "releases-twice" "lets go twice of the data behind a handle" [CB_HANDLE_005]
        |log| plug::table(&handle::RELEASES_HANDLE_DATA_TWICE, log);
    "never-releases" "never lets go of the data behind a handle" [CB_HANDLE_007]
        |log| plug::table(&handle::LEAKS_HANDLE_DATA, log);
    "null-view" "opens allocations without an hDeviceSpecificAllocation" [KMD_OPEN_001]
        |log| plug::table(&view::RETURNS_NULL_VIEW, log);
    "edits-on-open" "changes private data when a second device opens it" [KMD_OPEN_002]
        |log| plug::faulty(Fault::EditsPrivateDataOnOpen, log);
    "only-its-maker" "opens nothing for a device that did not create it" [KMD_OPEN_006]
        |log| plug::faulty(Fault::RejectsSecondDeviceOpen, log);
    "frees-early" "frees an allocation when its view is closed" [KMD_OPEN_007]
        |log| plug::table(&view::FREES_ALLOCATION_ON_CLOSE, log);

    "leaks-on-destroy" "does not free what it is told to destroy" [KMD_DESTROY_002]
        |log| plug::table(&destroy::LEAKS_DESTROYED_ALLOCATION, log);
    "keeps-handle" "writes to an allocation that it has destroyed" [KMD_DESTROY_003]
        |log| plug::table(&destroy::WRITES_DESTROYED_ALLOCATION, log);
    "ignores-destroy-resource" "does not free a resource that goes with its last allocations"
        [KMD_DESTROY_004] |log| plug::table(&destroy::IGNORES_DESTROYRESOURCE_FLAG, log);
    "frees-resource-early" "frees a resource when only members of it go" [KMD_DESTROY_005]
        |log| plug::table(&destroy::FREES_RESOURCE_WITH_MEMBERS, log);
    "keeps-empty-resource" "does not free a resource that has no allocations left"
        [KMD_DESTROY_007] |log| plug::table(&destroy::LEAKS_EMPTY_RESOURCE, log);
    "polls-in-destroy" "gives the GPU a millisecond before it destroys" [KMD_DESTROY_008]
        |log| plug::table(&level::POLLS_GPU_IN_DESTROY, log);
    "stale-table" "finds destroyed allocations in its table of handles" [KMD_DESTROY_012]
        |log| plug::faulty(Fault::KeepsDestroyedHandles, log);
    "fails-destroy" "destroys everything, and answers that it is busy" [KMD_DESTROY_009]
        |log| plug::faulty(Fault::FailsDestroyAllocation, log);

    "fetches-twice" "checks a client's commands, and reads them again to translate them"
        [KMD_RENDER_001] |log| plug::render_flaw(render::Flaw::ReadsUserCommandsTwice, log);
    "runs-anything" "gives a client's own commands to the hardware" [KMD_RENDER_002]
        |log| plug::render_flaw(render::Flaw::CopiesUnvalidatedCommands, log);
    "renders-beyond" "says it wrote more commands than the buffer has room for" [KMD_RENDER_003]
        |log| plug::render_flaw(render::Flaw::OverstatesDmaSize, log);
    "renders-behind" "writes a byte behind the buffer it renders into" [KMD_RENDER_003]
        |log| plug::table_memory(&listed::OVERRUNS_DMA_BUFFER, log);
    "never-advances" "renders, and leaves pDmaBuffer where it was" [KMD_RENDER_003]
        |log| plug::table_memory(&listed::LEAVES_DMA_POINTER, log);
    "never-prepatches" "leaves addresses to be patched that it was told" [KMD_RENDER_004]
        |log| plug::render_flaw(render::Flaw::SkipsPrepatch, log);
    "forgets-a-patch" "lists no patch location for what it has the address of" [KMD_RENDER_005]
        |log| plug::render_flaw(render::Flaw::OmitsPatchLocation, log);
    "renders-nothing" "wants another buffer for each packet, for ever" [KMD_CTX_005]
        |log| plug::render_flaw(render::Flaw::NeverFitsDmaBuffer, log);
    "begins-again" "wants another buffer, and forgets how far it came" [KMD_RENDER_006]
        |log| plug::render_flaw(render::Flaw::RestartsSplitRender, log);
    "breaks-guarantee" "guarantees that a buffer is enough, and wants another" [KMD_RENDER_007]
        |log| plug::render_flaw(render::Flaw::BreaksGuaranteedDmaBuffer, log);
    "splits-backwards" "lists the patch locations of a packet in the wrong order"
        [KMD_RENDER_009] |log| plug::render_flaw(render::Flaw::MisordersPatchLocations, log);
    "fails-patch" "patches, and answers that something is busy" [KMD_SUBMIT_001]
        |log| plug::render_flaw(render::Flaw::FailsPatch, log);
    "patches-outside" "writes behind the part of a packet that is submitted" [KMD_SUBMIT_002]
        |log| plug::render_flaw(render::Flaw::PatchesOutsideSubmission, log);
    "patches-behind" "writes a byte behind the buffer it patches" [KMD_SUBMIT_002]
        |log| plug::table_memory(&listed::PATCHES_PAST_DMA_BUFFER, log);
    "patches-once" "adds addresses to what is there, so that it can patch once" [KMD_SUBMIT_003]
        |log| plug::render_flaw(render::Flaw::PatchesByAdding, log);
    "patches-with-context" "takes it that what is patched has a context" [KMD_SUBMIT_004]
        |log| plug::render_flaw(render::Flaw::AssumesPatchContext, log);
    "renders-null" "does the commands of packets that are not to be rendered" [KMD_SUBMIT_011]
        |log| plug::render_flaw(render::Flaw::RunsNullRendering, log);

    "wrong-byte" "moves an allocation in, and gets one byte wrong" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::CorruptsPageInByte, log);
    "page-short" "moves a page less than it was asked to" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::TransfersOnePageLess, log);
    "moves-twice" "moves everything twice, the second time to behind it" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::Twice, log);
    "wrong-segment" "moves to another segment than it was told" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::TransfersToWrongSegment, log);
    "off-by-a-page" "moves to a page behind where it was told" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::TransfersOnePageOff, log);
    "loses-multipass" "skips a page with every new buffer" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::SkipsMultipassPage, log);
    "early-success" "reports paging done that its hardware never got" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::CompletesPagingUnsubmitted, log);
    "skips-fill" "does not fill what it is told to fill" [WT_BYTES_001]
        |log| plug::paging_flaw(Paging::SkipsFill, log);
    "maps-backwards" "maps pages into its aperture in the wrong order" [KMD_PAGING_012]
        |log| plug::paging_flaw(Paging::ReversesAperturePages, log);
    "keeps-mapping" "leaves pages in its aperture that it was told to unmap" [KMD_PAGING_013]
        |log| plug::paging_flaw(Paging::KeepsApertureMapping, log);

    "in-a-line" "takes pages of the system's memory to lie one behind the other" [KMD_PAGING_029]
        |log| plug::paging_flaw(Paging::AssumesContiguousPages, log);
    "turns-around" "moves allocations out with their last page first" [KMD_PAGING_017]
        |log| plug::paging_flaw(Paging::ReversesPagedOutPages, log);

    "maps-nothing" "has an aperture, and no operation that maps pages into it" [KMD_SEG_008]
        |log| plug::paging_flaw(Paging::OmitsMapAperture, log);
    "starts-again" "takes a pool block for a transfer whenever it is told to start one"
        [KMD_PAGING_008] plug::leaks_on_transfer_start;

    "never-flushes" "forgets no translation that it is told to forget" [WT_TABLES_001]
        |log| plug::tables(MmuPlan::default(), Table::IgnoresTlbFlush, log);
    "flushes-a-page" "forgets one page where it is told to forget several" [WT_TABLES_001]
        |log| plug::tables(MmuPlan::default(), Table::FlushesOneTlbPage, log);
    "flushes-nothing" "takes a flush from zero to zero for one of nothing" [KMD_PAGING_024]
        |log| plug::tables(MmuPlan::default(), Table::IgnoresFullTlbFlush, log);
    "writes-addresses" "writes addresses into page tables where page numbers belong"
        [WT_TABLES_001] |log| plug::tables(MmuPlan::default(), Table::WritesPageAddressEntries, log);
    "entry-short" "writes an entry of a page table less than it should" [WT_TABLES_001]
        |log| plug::tables(MmuPlan::default(), Table::WritesOneEntryLess, log);
    "entry-more" "writes an entry of a page table more than it should" [WT_TABLES_001]
        |log| plug::tables(MmuPlan::default(), Table::WritesOneEntryMore, log);
    "wrong-table" "writes entries of pages to a table above" [WT_TABLES_001]
        |log| plug::tables(MmuPlan::default(), Table::WritesParentPageTable, log);
    "writes-once" "writes an entry once that it should repeat" [KMD_PAGING_021]
        |log| plug::tables(MmuPlan::default(), Table::IgnoresEntryRepeat, log);
    "reads-on" "reads as many entries of a page table as it writes, also with Repeat"
        [KMD_PAGING_021] |log| plug::table_gpummu(&addresses::READS_REPEATED_ENTRIES, log);
    "counts-a-buffer" "says that it wrote commands for page tables that the CPU writes"
        [KMD_PAGING_020] |log| plug::table_gpummu(&addresses::COUNTS_CPU_UPDATE_COMMANDS, log);
    "rounds-entries" "takes root page tables to have more entries than it was told"
        [KMD_PT_003] |log| plug::table_gpummu(&addresses::ROUNDS_ROOT_ENTRIES, log);
    "keeps-late" "reserves addresses of a process when it is over"
        [KMD_PROC_003] |log| plug::table_gpummu(&addresses::RESERVES_RANGE_AT_DESTROY, log);
    "keeps-a-page" "reserves addresses of less than a leaf page table"
        [KMD_PROC_004] |log| plug::table_gpummu(&addresses::RESERVES_SMALL_RANGE, log);
    "keeps-crooked" "reserves addresses aligned to what is no power of two"
        [KMD_PROC_004] |log| plug::table_gpummu(&addresses::RESERVES_MISALIGNED_RANGE, log);
    "writes-later" "leaves page tables unwritten that the CPU has to write" [KMD_PAGING_020]
        |log| plug::tables(MmuPlan::BY_CPU, Table::DefersCpuTableUpdate, log);
    "adds-offset" "adds the allocation's offset to the ends of virtual transfers"
        [KMD_PAGING_027] |log| plug::tables(MmuPlan::default(), Table::AddsOffsetVirtualTransfer, log);
    "keeps-root" "runs every context with the root that was set first" [KMD_SUBMIT_014]
        |log| plug::tables(MmuPlan::default(), Table::KeepsFirstRootTable, log);
    "all-entries" "takes every root page table for a full one" [KMD_PT_003]
        |log| plug::tables(MmuPlan::TWO_LEVELS, Table::AssumesFullRootTable, log);
    "odd-root" "does not round the size of root page tables to whole pages" [KMD_PT_002]
        |log| plug::tables(MmuPlan::TWO_LEVELS, Table::ReturnsUnroundedRootSize, log);
    "fewer-entries" "gives a root page table fewer entries than it was asked for" [KMD_PT_002]
        |log| plug::tables(MmuPlan::TWO_LEVELS, Table::ReturnsFewerRootEntries, log);
    "leaks-process" "does not free a process that it is told to forget" [KMD_PROC_002]
        |log| plug::tables(MmuPlan::default(), Table::LeaksProcess, log);
    "needs-allocation" "maps nothing for the CPU that is not an allocation's" [KMD_PT_004]
        |log| plug::tables(MmuPlan::default(), Table::RequiresHostApertureAllocation, log);

    "preempts-one-engine" "claims preemption, and knows of one engine only" [KMD_CAPS_001]
        |log| plug::table(&query::CLAIMS_PREEMPTION_SINGLE_ENGINE, log);
    "patches-nothing" "claims NoDmaPatching alone" [KMD_CAPS_002]
        |log| plug::table(&query::CLAIMS_NODMAPATCHING_ALONE, log);
    "cancels-one-engine" "claims to cancel commands, and knows of one engine only"
        [KMD_CAPS_003] |log| plug::table(&query::CLAIMS_CANCEL_SINGLE_ENGINE, log);
    "resets-nothing" "claims to reset engines, and has no entry for it" [KMD_CAPS_004]
        |log| plug::table(&query::CLAIMS_MISSING_ENGINE_RESET, log);
    "two-mmus" "claims both kinds of virtual addresses" [KMD_CAPS_005]
        |log| plug::table(&query::CLAIMS_GPUMMU_AND_IOMMU, log);
    "writes-behind-caps" "writes a byte behind its caps" [KMD_CAPS_008]
        |log| plug::table(&query::OVERRUNS_DRIVER_CAPS, log);
    "writes-behind-answer" "tells user mode more than there is room for" [KMD_CAPS_008]
        |log| plug::table(&query::OVERRUNS_UMD_QUERY, log);
    "believes-questions" "takes a byte that user mode sent for a node of its own" [KMD_CAPS_008]
        |log| plug::table(&query::TRUSTS_UMD_QUERY_NODE, log);
    "fills-while-counting" "says how it pages where only the number of segments is asked for"
        [KMD_SEG_002] |log| plug::table(&query::FILLS_SEGMENT_COUNT_QUERY, log);
    "forgets-a-segment" "describes one segment less than it announced" [KMD_SEG_003]
        |log| plug::table(&query::OMITS_SEGMENT_DESCRIPTOR, log);
    "ignores-stride" "takes segment descriptors to lie one behind the other" [KMD_SEG_004]
        |log| plug::table(&query::IGNORES_SEGMENT_STRIDE, log);

    "takes-context-memory-in-dpc" "calls DxgkCbCreateContextAllocation from its DPC"
        [CB_CTXALLOC_001] |log| plug::table(&context_memory::CREATES_CONTEXT_ALLOCATION_IN_DPC, log);
    "takes-by-its-own-word" "asks for context memory with its own word for the adapter"
        [CB_CTXALLOC_003] |log| plug::table(&context_memory::PASSES_WRONG_ADAPTER_HANDLE, log);
    "frees-by-its-own-word" "gives context memory back with its own word for the adapter"
        [CB_CTXALLOC_010] |log| plug::table(&context_memory::FREES_WITH_WRONG_ADAPTER_HANDLE, log);
    "frees-context-memory-in-dpc" "calls DxgkCbDestroyContextAllocation from its DPC"
        [CB_CTXALLOC_011] |log| plug::table(&context_memory::DESTROYS_CONTEXT_ALLOCATION_IN_DPC, log);

    "shares-one-context" "asks for context memory that is shared and of one context"
        [CB_CTXALLOC_002] |log| plug::table_memory(&saved::SHARES_PER_CONTEXT_ALLOCATION, log);
    "shares-nothing" "asks for context memory that is neither shared nor of a context"
        [CB_CTXALLOC_002] |log| plug::table_memory(&saved::OMITS_CONTEXT_ALLOCATION_OWNER, log);
    "names-its-device" "asks for context memory with its own handle of the device"
        [CB_CTXALLOC_003] |log| plug::table_memory(&saved::PASSES_WRONG_DEVICE_HANDLE, log);
    "names-its-context" "asks for context memory with a handle of its own for the context"
        [CB_CTXALLOC_003] |log| plug::table_memory(&saved::PASSES_WRONG_CONTEXT_HANDLE, log);
    "empty-area" "asks for context memory of no bytes" [CB_CTXALLOC_004]
        |log| plug::table_memory(&saved::REQUESTS_EMPTY_CONTEXT_ALLOCATION, log);
    "area-prefers-elsewhere" "prefers a segment for context memory that it does not allow"
        [CB_CTXALLOC_004] |log| plug::table_memory(&saved::PREFERS_ELSEWHERE, log);
    "area-evicts-to-memory" "has context memory evicted to a segment that is no aperture"
        [CB_CTXALLOC_004] |log| plug::table_memory(&saved::EVICTS_TO_MEMORY, log);
    "seen-in-memory" "wants to see context memory that may be in no aperture" [CB_CTXALLOC_005]
        |log| plug::table_memory(&saved::REQUESTS_VISIBLE_CONTEXT_MEMORY, log);
    "frees-area-twice" "frees the memory of a context twice" [CB_CTXALLOC_009]
        |log| plug::table_memory(&saved::FREES_CONTEXT_ALLOCATION_TWICE, log);
    "frees-its-word" "frees the memory of a context by its own word for it" [CB_CTXALLOC_009]
        |log| plug::table_memory(&saved::FREES_WRONG_CONTEXT_ALLOCATION, log);
    "forgets-area" "does not free the memory of a context that it destroys" [CB_CTXALLOC_013]
        |log| plug::table_memory(&saved::LEAKS_CONTEXT_ALLOCATION, log);
    "forgets-shared" "never frees the memory that it made for a device's contexts"
        [CB_CTXALLOC_013] |log| plug::table_memory(&saved::LEAKS_SHARED_CONTEXT_ALLOCATION, log);
    "maps-outside" "asks where the page behind a context's memory is" [CB_CTXALLOC_015]
        |log| plug::table_memory(&saved::MAPS_PAST_CONTEXT_ALLOCATION, log);
    "saves-into-freed" "has engines save contexts into memory that it has freed"
        [CB_CTXALLOC_014] |log| plug::table_memory(&saved::USES_FREED_CONTEXT_ALLOCATION, log);
    "updates-while-paging" "waits for paging work inside DxgkDdiBuildPagingBuffer"
        [CB_CTXALLOC_017] |log| plug::table_memory(&saved::UPDATES_CONTEXT_WHILE_PAGING, log);
    "acquires-in-dpc" "calls DxgkCbAcquireHandleData from its DPC" [CB_IRQL_001]
        |log| plug::table(&callback::ACQUIRES_HANDLE_DATA_IN_DPC, log);
    "calls-after-stop" "asks for its DPC when it is removed" [CB_IRQL_002]
        |log| plug::table(&callback::QUEUES_DPC_AFTER_STOP, log);
    "queues-by-its-own-word" "asks for its DPC with its own word for the adapter" [CB_IRQL_002]
        |log| plug::table(&callback::QUEUES_DPC_WRONG_HANDLE, log);
    "parent-of-resource" "asks for the parent of a resource" [CB_HANDLE_008]
        |log| plug::table(&callback::QUERIES_RESOURCE_PARENT, log);
    "parent-in-dpc" "calls DxgkCbGetHandleParent from its DPC" [CB_HANDLE_008]
        |log| plug::table(&callback::QUERIES_PARENT_IN_DPC, log);
    "members-in-dpc" "calls DxgkCbEnumHandleChildren from its DPC" [CB_HANDLE_009]
        |log| plug::table(&callback::ENUMERATES_CHILDREN_IN_DPC, log);
    "maps-too-much" "maps a page more than its hardware has" [CB_MEM_001]
        |log| plug::table(&callback::MAPS_PAST_HARDWARE_MEMORY, log);
    "unmaps-twice" "gives its registers back twice" [CB_MEM_002]
        |log| plug::table(&callback::UNMAPS_REGISTERS_TWICE, log);
    "stays-mapped" "stops, and leaves its registers mapped" [CB_MEM_002]
        |log| plug::table(&callback::LEAKS_REGISTER_MAPPING, log);
    "device-in-dpc" "calls DxgkCbGetDeviceInformation from its DPC" [CB_MEM_003]
        |log| plug::table(&callback::QUERIES_DEVICE_IN_DPC, log);
    "space-in-dpc" "reads its configuration space from its DPC" [CB_MEM_004]
        |log| plug::table(&callback::READS_CONFIG_IN_DPC, log);
    "captures-anything" "asks where video is captured into any allocation" [CB_MEM_010]
        |log| plug::table(&callback::QUERIES_WRONG_CAPTURE_ADDRESS, log);
    "indicates-held-back" "calls DxgkCbIndicateChildStatus while its interrupt is held back"
        [CB_MEM_007] |log| plug::table(&callback::INDICATES_CHILD_WHILE_SYNCHRONIZED, log);

    "leaves-raised" "opens, and leaves at DISPATCH_LEVEL" [KMD_LEVEL_008]
        |log| plug::table(&level::RETURNS_AT_DISPATCH_LEVEL, log);
    "keeps-spin-lock" "leaves with a spin lock that it took" [KMD_LEVEL_008]
        |log| plug::table(&level::RETURNS_WITH_SPIN_LOCK, log);
    "false-fence" "reports a fence it was not given" [KMD_ISR_008]
        |log| plug::table(&adapter::REPORTS_UNSUBMITTED_FENCE, log);
    "never-completes" "never reports a fence" [KMD_SUBMIT_008]
        |log| plug::faulty(Fault::NeverReportsFence, log);
    "endless-dpc" "asks for its DPC in its DPC, for ever" [WT_CRASH_001]
        |log| plug::table(&adapter::REQUEUES_DPC_FOREVER, log);
    "wrong-level" "calls DxgkCbNotifyInterrupt from its DPC" [KMD_ISR_005]
        |log| plug::table(&adapter::NOTIFIES_INTERRUPT_IN_DPC, log);
    "waits-in-dpc" "waits a moment in its DPC" [WT_LEVEL_001]
        |log| plug::table(&interrupt::WAITS_IN_DPC, log);

    "indicates-in-interrupt" "calls DxgkCbIndicateChildStatus from its interrupt routine"
        [KMD_ISR_001] |log| plug::table(&interrupt::INDICATES_CHILD_IN_ISR, log);
    "claims-every-interrupt" "answers TRUE to every interrupt" [KMD_ISR_002]
        |log| plug::table(&interrupt::CLAIMS_EVERY_INTERRUPT, log);
    "claims-softgpu" "the driver in Rust, which claims every interrupt" [KMD_ISR_002]
        |log| plug::faulty(Fault::ClaimsEveryInterrupt, log);
    "leaves-asserted" "reports a vsync, and does not acknowledge it" [KMD_ISR_002]
        |log| plug::table(&interrupt::LEAVES_INTERRUPT_ASSERTED, log);
    "reports-from-paged-pool" "reports interrupts with a structure in paged pool" [KMD_ISR_003]
        |log| plug::table(&interrupt::NOTIFIES_FROM_PAGED_POOL, log);
    "queues-no-dpc" "reports in its interrupt routine, and does not ask for its DPC"
        [KMD_ISR_006] |log| plug::table(&interrupt::OMITS_QUEUE_DPC, log);
    "forgets-dpc" "is called in its DPC, and does not call DxgkCbNotifyDpc" [KMD_ISR_006]
        |log| plug::table(&interrupt::OMITS_NOTIFY_DPC, log);
    "idle-dpc" "the driver in Rust, which does nothing in its DPC" [KMD_ISR_006]
        |log| plug::faulty(Fault::OmitsNotifyDpc, log);
    "vsync-first" "reports a vsync before what its nodes have done" [KMD_ISR_007]
        |log| plug::table(&interrupt::REPORTS_VSYNC_BEFORE_FENCES, log);
    "second-engine" "reports for the second engine of a node" [KMD_ISR_009]
        |log| plug::table(&interrupt::REPORTS_WRONG_ENGINE, log);
    "ninth-node" "reports for a node that it does not have" [KMD_ISR_009]
        |log| plug::table(&interrupt::REPORTS_MISSING_NODE, log);
    "faults-the-old-way" "reports DXGK_INTERRUPT_DMA_FAULTED, which is for WDDM 1.x"
        [KMD_ISR_010] |log| plug::table(&interrupt::REPORTS_DMA_FAULTED, log);
    "fault-of-nothing" "reports a fault of fence zero, and does not say that it is not known"
        [KMD_ISR_010] |log| plug::table(&interrupt::REPORTS_FAULT_WITHOUT_FENCE, log);
    "dpc-at-passive" "calls DxgkCbNotifyDpc when it opens allocations" [KMD_ISR_011]
        |log| plug::table(&interrupt::NOTIFIES_DPC_AT_PASSIVE, log);
    "wrong-message" "synchronizes with a message of a line interrupt" [KMD_ISR_013]
        |log| plug::table(&interrupt::SYNCHRONIZES_WRONG_MESSAGE, log);
    "synchronizes-twice" "synchronizes while its interrupt is held back" [KMD_ISR_013]
        |log| plug::table(&interrupt::NESTS_SYNCHRONIZE_EXECUTION, log);
    "switches-anything" "answers success to whatever interrupt it is to switch" [KMD_ISR_014]
        |log| plug::table(&interrupt::ACCEPTS_UNKNOWN_INTERRUPT_CONTROL, log);
    "shows-no-vsync" "answers that vsync is switched on, and reports none" [KMD_ISR_014]
        |log| plug::table(&interrupt::IGNORES_VSYNC_ENABLE, log);

    "fails-submit" "takes paging work, and answers STATUS_UNSUCCESSFUL" [KMD_SUBMIT_005]
        |log| plug::table_memory(&submit::FAILS_SUBMIT_PAGING, log);
    "acquires-in-submit" "calls DxgkCbAcquireHandleData when it is given a packet"
        [KMD_SUBMIT_006] |log| plug::table(&submit::ACQUIRES_HANDLE_DATA_IN_SUBMIT, log);
    "waits-in-submit" "waits a moment when it is given a packet" [KMD_SUBMIT_006]
        |log| plug::table(&submit::WAITS_IN_SUBMIT, log);
    "paged-in-submit" "takes paged pool when it is given a packet" [KMD_SUBMIT_006]
        |log| plug::table(&submit::ALLOCATES_PAGED_IN_SUBMIT, log);
    "no-memory-in-submit" "answers a packet with STATUS_NO_MEMORY" [KMD_SUBMIT_013]
        |log| plug::table(&submit::RETURNS_NO_MEMORY_SUBMIT, log);

    "refuses-preemption" "answers DxgkDdiPreemptCommand with STATUS_UNSUCCESSFUL" [KMD_PREEMPT_001]
        |log| plug::table(&recover::FAILS_PREEMPT_COMMAND, log);
    "ignores-idle-preemption" "does not report that a node without work gave nothing back"
        [KMD_PREEMPT_002] |log| plug::table(&recover::OMITS_IDLE_PREEMPTION_REPORT, log);
    "hides-preemption" "never reports that a node gave packets back" [KMD_PREEMPT_002]
        |log| plug::table(&recover::OMITS_PREEMPTION_REPORT, log);
    "preempted-after-nothing" "reports a preemption behind a fence that was not given"
        [KMD_PREEMPT_003] |log| plug::table(&recover::REPORTS_PREEMPTION_UNSUBMITTED_FENCE, log);
    "preempted-by-another" "reports a preemption by another fence than it was told"
        [KMD_PREEMPT_003] |log| plug::table(&recover::REPORTS_WRONG_PREEMPTION_FENCE, log);
    "hides-fence" "says what is done when it is asked, and does not report it" [KMD_PREEMPT_005]
        |log| plug::table(&recover::OMITS_QUERIED_FENCE_REPORT, log);
    "refuses-cancel" "answers DxgkDdiCancelCommand with STATUS_UNSUCCESSFUL" [KMD_SUBMIT_015]
        |log| plug::table(&recover::FAILS_CANCEL_COMMAND, log);
    "no-engine-status" "does not know whether an engine answers" [KMD_TDR_011]
        |log| plug::table(&recover::FAILS_QUERY_ENGINE_STATUS, log);
    "group-without-itself" "lists the nodes that a reset hits without the one that is reset"
        [KMD_TDR_011] |log| plug::table(&recover::OMITS_NODE_FROM_DEPENDENCY, log);
    "reset-leaves-work" "answers that an engine is reset, and leaves its work there" [KMD_TDR_006]
        |log| plug::table(&recover::KEEPS_WORK_AFTER_RESET, log);
    "aborts-too-much" "says that a reset ended a packet that was not given" [KMD_TDR_007]
        |log| plug::table(&recover::REPORTS_UNSUBMITTED_ABORTED_FENCE, log);
    "aborts-idle" "says that a reset ended a packet of a node without work" [KMD_TDR_008]
        |log| plug::table(&recover::REPORTS_ABORT_ON_IDLE, log);
    "refuses-reset" "answers DxgkDdiResetFromTimeout with STATUS_UNSUCCESSFUL" [KMD_TDR_001]
        |log| plug::table(&recover::FAILS_RESET_FROM_TIMEOUT, log);
    "resets-in-name" "answers that its hardware is reset, and lets it go on" [KMD_TDR_001]
        |log| plug::table(&recover::SKIPS_RESET_FROM_TIMEOUT, log);
    "refuses-restart" "answers DxgkDdiRestartFromTimeout with STATUS_UNSUCCESSFUL" [KMD_TDR_005]
        |log| plug::table(&recover::FAILS_RESTART_FROM_TIMEOUT, log);
    "no-restart" "has no DxgkDdiRestartFromTimeout" [KMD_TDR_005]
        |log| plug::table(&recover::OMITS_RESTART_FROM_TIMEOUT, log);
    "late-interrupt" "reports after a reset what was over before it" [KMD_ISR_008]
        |log| plug::table(&recover::REPORTS_FENCE_AFTER_RESET, log);
    "old-fences" "does not count what a reset ended" [KMD_TDR_010]
        |log| plug::table(&recover::KEEPS_FENCE_AFTER_RESET, log);
    "notes-too-much" "writes a byte behind the buffer of DxgkDdiCollectDbgInfo" [KMD_TDR_012]
        |log| plug::table(&recover::OVERRUNS_DEBUG_INFO, log);
    "touches-while-reset" "looks at its hardware between a reset and the restart" [KMD_TDR_004]
        |log| plug::table_memory(&recover::TOUCHES_HARDWARE_DURING_RESET, log);

    "frees-twice" "frees each allocation twice" [WT_POOL_001]
        |log| plug::table(&destroy::FREES_POOL_TWICE, log);
    "writes-freed-device" "writes to a device that it has freed" [WT_POOL_002]
        |log| plug::table(&adapter::WRITES_FREED_DEVICE, log);
    "leaks-adapter" "takes a block when it is removed and never frees it" [WT_POOL_003]
        |log| plug::table(&adapter::LEAKS_REMOVE_DEVICE_MEMORY, log);
    "crashes" "unwinds when it is told to destroy" [WT_CRASH_001]
        |log| plug::table(&destroy::CRASHES_IN_DESTROY, log);

    "overlapping-segments" "has two segments at the same addresses" [KMD_SEG_005]
        |log| plug::faulty_memory(memory::OVERLAPS_SEGMENTS, log);
    "commits-too-little" "has a memory segment that is not to be filled" [KMD_SEG_006]
        |log| plug::faulty_memory(memory::LIMITS_MEMORY_COMMIT, log);
    "agp-and-more" "has an AGP aperture with other flags besides" [KMD_SEG_007]
        |log| plug::faulty_memory(memory::COMBINES_AGP_FLAGS, log);
    "coherent-memory" "has memory that is coherent with the CPU's caches" [KMD_SEG_009]
        |log| plug::faulty_memory(memory::CLAIMS_CACHE_COHERENT_MEMORY, log);
    "two-windows" "has memory that the CPU sees, and a host aperture for it" [KMD_SEG_010]
        |log| plug::faulty_memory(memory::COMBINES_CPUVISIBLE_HOST_APERTURE, log);
    "kept-in-part" "keeps memory in hibernation that it loses in standby" [KMD_SEG_011]
        |log| plug::faulty_memory(memory::PRESERVES_HIBERNATE_ONLY, log);
    "falling-banks" "has banks that do not rise" [KMD_SEG_012]
        |log| plug::faulty_memory(memory::MISORDERS_BANKS, log);
    "buffers-in-memory" "wants paging buffers in memory that is no aperture" [KMD_SEG_013]
        |log| plug::faulty_memory(memory::PLACES_PAGING_BUFFER_WRONG, log);
    "memory-first" "has memory for its first segment" [GATE_SEG_001]
        |log| plug::faulty_memory(memory::REPORTS_MEMORY_SEGMENT_FIRST, log);
    "large-pages" "aligns allocations to 4 KiB in a segment with larger pages" [KMD_SEG_015]
        |log| plug::faulty_memory(memory::ALIGNS_BELOW_PAGE_SIZE, log);
    "prefers-elsewhere" "prefers a segment that an allocation cannot be in" [KMD_ALLOC_004]
        |log| plug::faulty_memory(memory::PREFERS_ELSEWHERE, log);
    "nowhere" "creates allocations that can be in no segment" [KMD_ALLOC_005]
        |log| plug::faulty_memory(memory::OMITS_SEGMENT_SET, log);
    "evicts-to-memory" "lists memory to evict to" [KMD_ALLOC_006]
        |log| plug::faulty_memory(memory::EVICTS_TO_MEMORY, log);
    "worthless" "creates allocations of priority zero" [ALLOC_PRIO_002]
        |log| plug::faulty_memory(memory::SETS_ZERO_PRIORITY, log);
    "out-of-sight" "creates allocations for the CPU where it does not see them" [ALLOC_LOCK_020]
        |log| plug::faulty_memory(memory::PLACES_CPUVISIBLE_INVISIBLY, log);
    "paging-status" "fails paging operations with STATUS_INVALID_PARAMETER" [KMD_PAGING_001]
        |log| plug::faulty_memory(memory::RETURNS_ILLEGAL_PAGING_STATUS, log);
    "beyond-the-buffer" "writes more paging commands than there is room for" [KMD_PAGING_002]
        |log| plug::faulty_memory(memory::OVERRUNS_PAGING_BUFFER, log);
    "gets-nowhere" "wants another buffer for each paging operation, for ever" [KMD_PAGING_003]
        |log| plug::faulty_memory(memory::NEVER_FITS_PAGING_BUFFER, log);
    "always-busy" "says that an allocation is busy that nobody has used" [KMD_PAGING_005]
        |log| plug::faulty_memory(memory::REPORTS_UNUSED_ALLOCATION_BUSY, log);

    "umd-releases-before-flush" "releases a resource that its commands, not submitted yet, use" [UMD_DESTROY_001]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesBeforeFlush);
    "umd-frees-the-list-only" "frees the allocations of a resource by list, and the resource never" [UMD_DESTROY_006]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesListLeaksResource);
    "umd-frees-twice" "releases a resource a second time" [UMD_DESTROY_010]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesTwice);
    "umd-frees-locked" "frees an allocation that it has locked" [UMD_DESTROY_011]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesLocked);
    "umd-frees-one-of-group" "frees one allocation of a resource, and no other" [UMD_DESTROY_005]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesOneAllocationOnly);
    "umd-frees-one-by-one" "frees the allocations of a resource one by one, and the resource never" [UMD_DESTROY_007]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesAllocationsIndividually);
    "umd-defers-forever" "puts a release off, and forgets it" [UMD_DESTROY_002]
        plug::softgpu_allocation_lists, || umd::with(Flaw::NeverFreesDeferred);
    "umd-frees-and-fails" "releases a resource, and answers that it could not" [UMD_DESTROY_024]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FailsAfterFree);
    "umd-fails-oddly" "answers a destroy with what a destroy may not answer" [UMD_ERR_004]
        plug::softgpu_allocation_lists, || umd::with(Flaw::ReturnsIllegalDestroyError);
    "umd-calls-after-device" "calls the runtime for a device that it was told to destroy" [UMD_DESTROY_013]
        plug::softgpu_allocation_lists, || umd::with(Flaw::CallsBackAfterDestroy);
    "umd-wrong-thread" "submits on a thread that it started itself" [UMD_SUBMIT_004]
        plug::softgpu_allocation_lists, || umd::with(Flaw::SubmitsOnOwnThread);
    "umd-resource-and-list" "releases a resource and lists its allocations besides" [UMD_DESTROY_023]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesResourceWithList);
    "umd-frees-by-own-handle" "releases a resource by the handle that it gave the runtime" [UMD_DESTROY_010]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesByOwnHandle);
    "umd-keeps-its-handle" "leaves the runtime's handle of a resource in its place" [UMD_RES_001]
        plug::softgpu_allocation_lists, || umd::with(Flaw::ReturnsRuntimeHandle);
    "umd-handles-twice" "gives two resources the same handle" [UMD_RES_001]
        plug::softgpu_allocation_lists, || umd::with(Flaw::ReusesResourceHandle);
    "umd-forgets-to-unlock" "locks memory of its own, and never unlocks it" [UMD_LOCK_003]
        plug::softgpu_allocation_lists, || umd::with(Flaw::LeaksLock);
    "umd-refuses-second-lock" "refuses to lock what is locked" [UMD_LOCK_001]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FailsSecondLock);
    "umd-unlocks-anything" "unlocks what is not locked, and says that it did" [UMD_LOCK_002]
        plug::softgpu_allocation_lists, || umd::with(Flaw::UnlocksNotLocked);
    "umd-never-waits" "answers a lock that may wait that the GPU is still drawing" [UMD_LOCK_008]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FailsWaitingLock);
    "umd-keeps-old-buffers" "writes on into buffers that are no longer its own" [UMD_SUBMIT_001]
        plug::softgpu_allocation_lists, || umd::with(Flaw::WritesStaleCommandBuffer);
    "umd-keeps-old-instance" "uses the memory that a lock has replaced" [UMD_LOCK_005]
        plug::softgpu_allocation_lists, || umd::with(Flaw::UsesStaleInstance);
    "umd-takes-any-index" "fills the last surface for one that there is not" [UMD_RES_002]
        plug::softgpu_allocation_lists, || umd::with(Flaw::AcceptsInvalidSubresource);
    "umd-allocates-on-open" "allocates memory for a resource that has some" [UMD_RES_009]
        plug::softgpu_allocation_lists, || umd::with(Flaw::AllocatesOnOpen);
    "umd-allocates-each" "allocates each surface of a resource in a call of its own" [UMD_RES_003]
        plug::softgpu_allocation_lists, || umd::with(Flaw::AllocatesSurfacesIndividually);
    "umd-swallows-errors" "answers success where a callback refused" [UMD_ERR_003]
        plug::softgpu_allocation_lists, || umd::with(Flaw::IgnoresCallbackError);
    "umd-flushes-in-lock-async" "submits in the middle of an asynchronous lock" [UMD_LOCK_010]
        plug::softgpu_allocation_lists, || umd::with(Flaw::SubmitsInLockAsync);
    "umd-no-context" "submits without a context" [UMD_ADAPTER_004]
        plug::softgpu_allocation_lists, || umd::with(Flaw::NoContext);
    "umd-asks-late" "asks what the hardware is when it is to make a device" [UMD_ADAPTER_003]
        plug::softgpu_allocation_lists, || umd::with(Flaw::QueriesCapsLate);
    "umd-leaves-context" "forgets its context when its device goes" [UMD_DESTROY_013]
        plug::softgpu_allocation_lists, || umd::with(Flaw::LeaksContext);
    "umd-ignores-sync-alone" "asks to ignore the GPU, and to wait for it" [UMD_LOCK_007]
        plug::softgpu_allocation_lists, || umd::with(Flaw::SetsIgnoreSyncWithoutDoNotWait);
    "umd-limits-devices" "makes four devices of an adapter, and no more" [UMD_ADAPTER_005]
        plug::softgpu_allocation_lists, || umd::with(Flaw::LimitsDevices);
    "umd-keeps-adapter" "keeps what it has of an adapter that is closed" [UMD_ADAPTER_002]
        plug::softgpu_allocation_lists, || umd::with(Flaw::LeaksAdapter);
    "umd-shares-differently" "describes what it shares by what it has made before" [UMD_RES_005]
        plug::softgpu_allocation_lists, || umd::with(Flaw::VariesSharedAllocations);
    "umd-wraps-or-fails" "makes nothing in system memory that it cannot wrap" [UMD_RES_007]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FailsUnwrappableSysmem);
    "umd-reads-reserved" "makes more room for what has a vertex format, vertices or not" [UMD_RES_008]
        plug::softgpu_allocation_lists, || umd::with(Flaw::ReadsReservedMembers);
    "umd-defers-by-own-handle" "releases later, by a handle that is dead then" [UMD_DESTROY_003]
        plug::softgpu_allocation_lists, || umd::with(Flaw::DefersFreeByHandle);
    "umd-frees-by-list-first" "frees the allocations of a resource by list, and the resource then" [UMD_DESTROY_008]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesListThenResource);
    "umd-assumes-not-in-use" "frees what the GPU uses as if it did not" [UMD_DESTROY_012]
        plug::softgpu_memory, || umd::with(Flaw::SetsAssumeNotInUseWrongly);
    "umd-retries-at-once" "tries a lock that was refused again at once" [UMD_LOCK_006]
        plug::softgpu_allocation_lists, || umd::with(Flaw::RetriesLockImmediately);
    "umd-hides-primaries" "does not say which primaries it writes" [UMD_SUBMIT_007]
        plug::softgpu_memory, || umd::with(Flaw::OmitsWrittenPrimaries);
    "umd-mixes-devices" "keeps in one place, for all devices, what it is making" [UMD_THREAD_002]
        plug::softgpu_allocation_lists, || umd::with(Flaw::SharesStateBetweenDevices);
    "umd-waits-ahead" "has the GPU wait ahead of commands that it collected before" [SYNC_CREATE_013]
        |log| plug::softgpu_gpummu(MmuPlan::default(), log), || umd::with(Flaw::QueuesWaitBeforeCommands);
    "umd-frees-shared-by-list" "frees the allocations of a shared resource by list" [UMD_DESTROY_009]
        plug::softgpu_allocation_lists, || umd::with(Flaw::FreesSharedByList);
    "umd-unlocks-behind" "unlocks what the application has locked when it flushes" [UMD_LOCK_004]
        plug::softgpu_allocation_lists, || umd::with(Flaw::UnlocksApplicationLock);
    "umd-renames-shared" "has what is shared renamed" [UMD_RES_004]
        plug::softgpu_allocation_lists, || umd::with(Flaw::RenamesShared);
    "umd-refuses-oddly" "answers for four surfaces what is an answer for buffers" [UMD_RES_006]
        plug::softgpu_allocation_lists, || umd::with(Flaw::ReturnsIllegalCreateError);
    "umd-changes-errors" "makes another failure of what a callback answered" [UMD_RES_010]
        plug::softgpu_allocation_lists, || umd::with(Flaw::ChangesCallbackError);
    "umd-submits-half" "submits commands without their last byte" [UMD_SUBMIT_002]
        plug::softgpu_allocation_lists, || umd::with(Flaw::SubmitsTruncatedCommands);
    "umd-allocates-elsewhere" "allocates on a thread that it started itself" [UMD_SUBMIT_005]
        plug::softgpu_allocation_lists, || umd::with(Flaw::AllocatesOnOwnThread);
    "umd-ends-context-twice" "destroys its context twice" [UMD_SUBMIT_006]
        plug::softgpu_allocation_lists, || umd::with(Flaw::DestroysContextTwice);
    "umd-submits-locked" "leaves locked what it submits" [UMD_SUBMIT_003]
        plug::softgpu_allocation_lists, || umd::with(Flaw::SubmitsLocked);
};
