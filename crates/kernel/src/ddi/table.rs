//! The DDI table: every entry point of a display miniport driver that the kernel calls.
//!
//! A row declares everything about a DDI; `row.rs` defines what is generated from it.

use super::row::{Ddi, Legal, Line, ddi, gives_work};
use super::{CallDetails, Driver, no_details};
use crate::adapter::power::SetPowerArgs;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{
    CancelCommandArgs, CollectReason, CreateAllocationArgs, CreateContextArgs,
    DestroyAllocationArgs, Drain, DriverAllocation, DriverContext, DriverDevice, DriverError,
    DriverKind, DriverProcess, DriverResource, DriverResult, DriverView, EscapeArgs, Features,
    Generation, HandleSlot, Interrupt, OpenAllocationArgs, StandardAllocationArgs,
    SubmitCommandVirtualArgs, SurfaceInfo, WddmVersion,
};
use crate::ddi::mmu::{CreateProcessArgs, MapHostApertureArgs, Root, RootSize};
use crate::ddi::operation::{BuildPagingBufferArgs, SubmitPagingArgs};
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::ddi::render_args::{BufferSizes, PatchArgs, RenderArgs, SubmitCommandArgs};
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::address::AddressSpace;
use flight::{DeviceLevel, Dispatch, Fence, Passive};
use std::marker::PhantomData;
use std::sync::Arc;

ddi! {
    DxgkDdiAddDevice: Passive, Three, any {
        /// Adds the adapter. The callbacks are valid until `remove_device`.
        by_hand fn add_device(callbacks: &Arc<KernelCallbacks>);
    }
    DxgkDdiStartDevice: Passive, Three, any,
        missing "no display output: sources and children have no effect" {
        /// Starts the adapter. A driver need not implement it.
        by_hand fn start_device(), else Ok(());
    }
    DxgkDdiQueryAdapterInfo: Passive, Three or Zero, any,
        missing "driver caps, segments, page tables and user-mode private data only" {
        /// Returns the adapter's features while the adapter starts.
        system fn query_adapter_info() -> Features;
        /// Returns the hardware's capabilities to the user-mode driver
        /// (`DXGKQAITYPE_UMDRIVERPRIVATE`). The reply replaces the request's bytes, which are
        /// arbitrary. Called at any time, at threading level zero.
        process fn query_umd_private(data: &mut [u8]);
    }
    DxgkDdiQueryChildRelations: Passive, Three, any, missing "display-only drivers only" {
        /// Lists the devices that are connected to the adapter, and returns the `ChildUid` of each
        /// that is a video output.
        system fn query_child_relations() -> Vec<u32>;
    }
    DxgkDdiQueryChildStatus: Passive, Two, any,
        missing "display-only drivers only, once; nothing is displayed" {
        /// Returns whether a display is connected to a video output.
        system fn query_child_status(child: u32) -> bool;
    }
    DxgkDdiStopDevice: Passive, Three, any {
        /// Stops the adapter. A driver need not implement it.
        by_hand fn stop_device(), else Ok(());
    }
    DxgkDdiRemoveDevice: Passive, Three, any {
        /// Removes the adapter.
        system fn remove_device();
    }
    DxgkDdiUnload: Passive, Three, any {
        /// Prepares to be unloaded. A driver need not implement it.
        system fn unload(), else Ok(());
    }
    DxgkDdiSetPowerState: Passive, Three, any, missing "the adapter itself only, D0 and D3" {
        /// Changes the adapter's power, which may not fail. A driver need not implement it.
        by_hand fn set_power_state(args: SetPowerArgs), else Ok(());
    }
    DxgkDdiNotifySurpriseRemoval: Passive, Three, [], missing "removal while the system runs only" {
        /// Notifies the driver that its hardware was removed: it may not touch hardware any more.
        /// The calls that follow free the driver's memory. A driver need not implement it.
        by_hand fn notify_surprise_removal(), else Ok(());
    }
    DxgkDdiStopDeviceAndReleasePostDisplayOwnership: Passive, Three, any,
        missing "no display output: the target has no display" {
        /// Stops the adapter and returns the display mode of a target. If the target has no
        /// display, the driver returns [`DriverError::Unsupported`] and is stopped by
        /// `stop_device`.
        by_hand fn stop_device_and_release_post_display_ownership(target: u32), else Err(DriverError::Unsupported);
    }
    DxgkDdiResetDevice: DeviceLevel, None, any {
        /// Resets the hardware when the machine shuts down. It may be called at any IRQL, so it
        /// makes no callbacks. A driver need not implement it.
        by_hand fn reset_device(), else Ok(());
    }
    DxgkDdiCreateDevice: Passive, Zero, [NoMemory], missing "no flags" {
        /// Creates a device.
        by_hand fn create_device(slot: HandleSlot<'_, Device>) -> DriverDevice;
    }
    DxgkDdiDestroyDevice: Passive, Zero, any {
        /// Destroys a device.
        details fn destroy_device(device: DriverDevice);
    }
    DxgkDdiCreateContext: Passive, Zero, [NoMemory, Mismatch],
        missing "no client flags" {
        /// Creates a context, and returns the maximum size of a packet's private data
        /// (`DmaBufferPrivateDataSize`).
        by_hand fn create_context(
            device: &DriverDevice,
            args: &CreateContextArgs,
            slot: HandleSlot<'_, Context>,
        ) -> (DriverContext, u32);
        /// Creates a context whose packets have lists (without virtual addressing), and returns
        /// the sizes of its buffers.
        by_hand fn create_context_with_lists(
            device: &DriverDevice,
            args: &CreateContextArgs,
            slot: HandleSlot<'_, Context>,
        ) -> (DriverContext, BufferSizes);
    }
    DxgkDdiDestroyContext: Passive, Zero, any {
        /// Destroys a context.
        details fn destroy_context(context: DriverContext);
    }
    DxgkDdiCreateProcess: Passive, Zero, any, missing "no flags except SystemProcess" {
        /// Notifies the driver of a process that uses the adapter.
        by_hand fn create_process(
            args: CreateProcessArgs,
            slot: HandleSlot<'_, AddressSpace>,
        ) -> DriverProcess;
    }
    DxgkDdiDestroyProcess: Passive, Zero, any {
        /// Ends a process's use of the adapter.
        details fn destroy_process(process: DriverProcess);
    }
    DxgkDdiGetRootPageTableSize: Passive, Zero, any {
        /// Returns the size in bytes of a root page table with at least `entries` entries.
        process fn get_root_page_table_size(entries: u32) -> RootSize;
    }
    DxgkDdiSetRootPageTable: Passive, Zero, any {
        /// Sets the address space that a context uses.
        process fn set_root_page_table(context: &DriverContext, root: Root);
    }
    DxgkDdiMapCpuHostAperture: Passive, Zero, any,
        missing "tested when the adapter starts; not used for CPU access" {
        /// Maps pages that the CPU cannot access into the CPU host aperture.
        system fn map_cpu_host_aperture(args: MapHostApertureArgs<'_>);
    }
    DxgkDdiUnmapCpuHostAperture: Passive, Zero, any,
        missing "tested when the adapter starts; not used for CPU access" {
        /// Unmaps pages of the CPU host aperture.
        system fn unmap_cpu_host_aperture(segment: u32, aperture_pages: &[u64]);
    }
    DxgkDdiGetStandardAllocationDriverData: Passive, Zero, any, missing "GDI surfaces only" {
        /// Returns the private data of a standard allocation: called once for sizes, once for
        /// bytes.
        process fn get_standard_allocation_driver_data(args: &mut StandardAllocationArgs);
    }
    DxgkDdiCreateAllocation: Passive, Zero, [Invalid, NoMemory, Mismatch] {
        /// Describes new allocations, of one resource or standalone.
        ///
        /// After a failure none of them exists, and no destroy call follows: the driver undoes its
        /// partial work.
        details fn create_allocations(args: &mut CreateAllocationArgs<'_>) -> Option<DriverResource>;
    }
    DxgkDdiDestroyAllocation: Passive, Zero, any {
        /// Destroys allocations, and their resource with its last allocations. Returns the
        /// resource's driver handle if it changed.
        ///
        /// After a failure they are destroyed all the same: the kernel cannot retry.
        by_hand fn destroy_allocations(args: DestroyAllocationArgs<'_>) -> Option<DriverResource>;
    }
    DxgkDdiDescribeAllocation: Passive, Zero, any,
        missing "primaries only; the description is not used" {
        /// Describes a primary.
        process fn describe_allocation(allocation: &DriverAllocation) -> SurfaceInfo;
    }
    DxgkDdiOpenAllocation: Passive, Zero, [Invalid, NoMemory, Mismatch] {
        /// Opens allocations for a device, and returns a handle for each.
        details fn open_allocations(args: &mut OpenAllocationArgs<'_>);
    }
    DxgkDdiCloseAllocation: Passive, Zero, any {
        /// Closes views of a device, all allocations of a resource at once.
        details fn close_allocations(device: &DriverDevice, views: Drain<'_, DriverView>);
    }
    DxgkDdiEscape: Passive, Zero or Two,
        [Invalid, NoMemory, Mismatch, Privileged, Illegal],
        missing "no process handle: hKmdProcessHandle is NULL" {
        /// Replies to a client's private data, in place. With access to the hardware it is called
        /// at threading level two.
        by_hand fn escape(args: EscapeArgs<'_>);
    }
    DxgkDdiSubmitCommandVirtual: Dispatch, OneScheduler, [Invalid],
        missing "no presents and no history buffers" {
        /// Submits a packet to the hardware.
        by_hand fn submit_command_virtual(args: &SubmitCommandVirtualArgs<'_>);
    }
    DxgkDdiRender: Passive, Zero,
        [NoMemory, NoRoom, Privileged, Illegal, Invalid, UserMemory, Mismatch] {
        /// Translates a client's commands into hardware commands.
        process fn render(args: &mut RenderArgs<'_>);
    }
    DxgkDdiPatch: Passive, OneScheduler, [], missing "packets are not split" {
        /// Writes addresses into a packet's commands. May be called repeatedly. For paging work it
        /// has no process.
        process fn patch(args: &mut PatchArgs<'_>);
    }
    DxgkDdiBuildPagingBuffer: Passive, OneScheduler, [NoRoom, Busy],
        missing "no page-table entries are copied" {
        /// Writes the commands of a paging operation.
        ///
        /// May return [`DriverError::NoRoom`] (the buffer is full), and for moves and discards
        /// [`DriverError::Busy`] (the allocation is in use); nothing else.
        details fn build_paging_buffer(args: &mut BuildPagingBufferArgs<'_>);
    }
    DxgkDdiSubmitCommand: Dispatch, OneScheduler, [], missing "no presents and flips" {
        /// Submits paging commands to the hardware.
        by_hand fn submit_paging(args: &SubmitPagingArgs<'_>);
        /// Submits a packet with lists to the hardware.
        by_hand fn submit_command(args: &SubmitCommandArgs<'_>);
    }
    DxgkDdiPreemptCommand: Dispatch, OneScheduler, [],
        missing "a node always returns all packets it has not started" {
        /// Preempts the packets that a node has not started. The driver reports the preemption; at
        /// once if the node has no packets.
        system fn preempt_command(node: u32, preemption_fence: Fence);
    }
    DxgkDdiQueryCurrentFence: Passive, OneScheduler, any {
        /// Returns the last fence that a node completed. The driver first reports fences that it
        /// has not reported.
        system fn query_current_fence(node: u32) -> Fence;
    }
    DxgkDdiCancelCommand: Passive, OneScheduler, [] {
        /// Frees the data of a packet that will never be submitted to the hardware.
        system fn cancel_command(args: &CancelCommandArgs<'_>);
    }
    DxgkDdiQueryEngineStatus: Passive, OneScheduler, [] {
        /// Returns whether an engine responds.
        system fn query_engine_status(node: u32) -> bool;
    }
    DxgkDdiQueryDependentEngineGroup: Passive, OneScheduler, [] {
        /// Returns the nodes that a reset of this one affects, as bits.
        system fn query_dependent_engine_group(node: u32) -> u64;
    }
    DxgkDdiResetEngine: Passive, OneScheduler, any {
        /// Resets an engine and returns the last fence that the reset aborted. The node has no
        /// packets then.
        system fn reset_engine(node: u32) -> Option<Fence>;
    }
    DxgkDdiResetFromTimeout: Passive, Three, [] {
        /// Stops the GPU: when this returns, the GPU accesses no memory any more.
        system fn reset_from_timeout();
    }
    DxgkDdiRestartFromTimeout: Passive, Three, [] {
        /// Restarts the GPU after a reset.
        system fn restart_from_timeout();
    }
    DxgkDdiCollectDbgInfo: Passive, None, any, missing "called before a reset only" {
        /// Writes debug information and returns the number of bytes written.
        by_hand fn collect_dbg_info(reason: CollectReason, buffer: &mut [u8]) -> usize;
    }
    DxgkDdiInterruptRoutine: DeviceLevel, None, any {
        /// Handles an interrupt and returns whether the driver's hardware raised it.
        by_hand fn interrupt_routine() -> bool;
    }
    DxgkDdiDpcRoutine: Dispatch, None, any {
        /// Completes the interrupt's work in the DPC.
        by_hand fn dpc_routine();
    }
    DxgkDdiControlInterrupt: Passive, Zero, [Unimplemented],
        missing "vsync only; nothing is displayed" {
        /// Enables or disables an interrupt. May return [`DriverError::Unimplemented`], for all but
        /// vsync.
        system fn control_interrupt(interrupt: Interrupt, enable: bool);
    }
}

/// Generates the table of the DDIs that the kernel does not call.
macro_rules! uncalled {
    ($($why:literal { $($name:ident)* })*) => {
        /// Missing features, and the DDIs that are not called because of them. With [`TABLE`] these
        /// are all slots of `DRIVER_INITIALIZATION_DATA` except the reserved ones.
        pub const UNCALLED: &[(&str, &[&str])] = &[$(($why, &[$(stringify!($name)),*])),*];
    };
}

uncalled! {
    "no display output" {
        DxgkDdiQueryDeviceDescriptor DxgkDdiGetChildContainerId DxgkDdiSetPalette DxgkDdiSetPointerPosition
        DxgkDdiSetPointerShape DxgkDdiIsSupportedVidPn DxgkDdiRecommendFunctionalVidPn
        DxgkDdiEnumVidPnCofuncModality DxgkDdiSetVidPnSourceAddress DxgkDdiSetVidPnSourceVisibility
        DxgkDdiCommitVidPn DxgkDdiUpdateActiveVidPnPresentPath DxgkDdiRecommendMonitorModes
        DxgkDdiRecommendVidPnTopology DxgkDdiQueryVidPnHWCapability DxgkDdiGetScanLine
        DxgkDdiStopCapture DxgkDdiControlInterrupt2 DxgkDdiSetDisplayPrivateDriverFormat
        DxgkDdiSystemDisplayEnable DxgkDdiSystemDisplayWrite DxgkDdiControlModeBehavior
        DxgkDdiUpdateMonitorLinkInfo DxgkDdiCreatePeriodicFrameNotification
        DxgkDdiDestroyPeriodicFrameNotification DxgkDdiSetTimingsFromVidPn DxgkDdiSetTargetGamma
        DxgkDdiSetTargetContentType DxgkDdiSetTargetAnalogCopyProtection
        DxgkDdiSetTargetAdjustedColorimetry DxgkDdiSetTargetAdjustedColorimetry2
        DxgkDdiDisplayDetectControl DxgkDdiQueryConnectionChange DxgkDdiControlInterrupt3
        DxgkDdiSetFlipQueueLogBuffer DxgkDdiUpdateFlipQueueLog DxgkDdiCancelQueuedFlips
        DxgkDdiSetInterruptTargetPresentId DxgkDdiCancelFlips
    }
    "no overlays" {
        DxgkDdiCreateOverlay DxgkDdiUpdateOverlay DxgkDdiFlipOverlay DxgkDdiDestroyOverlay
        DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay
        DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2 DxgkDdiCheckMultiPlaneOverlaySupport
        DxgkDdiCheckMultiPlaneOverlaySupport2 DxgkDdiCheckMultiPlaneOverlaySupport3
        DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3 DxgkDdiPostMultiPlaneOverlayPresent
        DxgkDdiGetMultiPlaneOverlayCaps DxgkDdiGetPostCompositionCaps
    }
    "no hardware queues" {
        DxgkDdiCreateHwContext DxgkDdiDestroyHwContext DxgkDdiCreateHwQueue DxgkDdiDestroyHwQueue
        DxgkDdiSubmitCommandToHwQueue DxgkDdiSwitchToHwContextList DxgkDdiResetHwEngine
        DxgkDdiUpdateHwContextState DxgkDdiSetSchedulingLogBuffer DxgkDdiSetupPriorityBands
        DxgkDdiNotifyFocusPresent DxgkDdiSetContextSchedulingProperties DxgkDdiSuspendContext
        DxgkDdiResumeContext DxgkDdiResumeHwEngine DxgkDdiPresentToHwQueue DxgkDdiFlushHwQueue
        DxgkDdiCreateDoorbell DxgkDdiConnectDoorbell DxgkDdiDisconnectDoorbell
        DxgkDdiDestroyDoorbell DxgkDdiNotifyWorkSubmission
    }
    "no native fences" {
        DxgkDdiCreateNativeFence DxgkDdiDestroyNativeFence DxgkDdiUpdateMonitoredValues
        DxgkDdiNotifyCurrentValueUpdates DxgkDdiSignalMonitoredFence
    }
    "no protected sessions" { DxgkDdiCreateProtectedSession DxgkDdiDestroyProtectedSession }
    "no virtual machines" {
        DxgkDdiSetVirtualMachineData DxgkDdiBeginExclusiveAccess DxgkDdiEndExclusiveAccess
        DxgkDdiValidateSubmitCommand
    }
    "no diagnostics of the driver's" {
        DxgkDdiQueryDiagnosticTypesSupport DxgkDdiControlDiagnosticReporting
        DxgkDdiCollectDiagnosticInfo
    }
    "no update of a running driver" {
        DxgkDdiSaveMemoryForHotUpdate DxgkDdiRestoreMemoryForHotUpdate
    }
    "no swizzling ranges" { DxgkDdiAcquireSwizzlingRange DxgkDdiReleaseSwizzlingRange }
    "no page tables of WDDM 1.x" {
        DxgkDdiDescribePageTable DxgkDdiUpdatePageTable DxgkDdiUpdatePageDirectory
        DxgkDdiMovePageDirectory
    }
    "no presents, and no rendering of the kernel's own" {
        DxgkDdiRenderKm DxgkDdiRenderGdi DxgkDdiPresent DxgkDdiSubmitRender
    }
    "no power management but of the whole adapter" {
        DxgkDdiSetPowerComponentFState DxgkDdiSetPowerPState DxgkDdiSetStablePowerState
        DxgkDdiPowerRuntimeControlRequest DxgkDdiPowerRuntimeSetDeviceHandle DxgkDdiNotifyAcpiEvent
        DxgkDdiSetTrackedWorkloadPowerLevel
    }
    "no history buffers" { DxgkDdiFormatHistoryBuffer DxgkDdiCalibrateGpuClock }
    "nothing reads it yet" { DxgkDdiGetNodeMetadata DxgkDdiExchangePreStartInfo }
    "no client requests it yet" {
        DxgkDdiDispatchIoRequest DxgkDdiQueryInterface DxgkDdiControlEtwLogging DxgkDdiLinkDevice
        DxgkDdiCreateAllocation2 DxgkDdiSetVideoProtectedRegion
        DxgkDdiValidateUpdateAllocationProperty DxgkDdiSetAllocationBackingStore
        DxgkDdiCreateCpuEvent DxgkDdiDestroyCpuEvent
    }
}

/// The DDIs that a display-only driver needs.
///
/// WINDOWS: those that each public display-only driver has. The table without
/// `DxgkDdiDispatchIoRequest` is rejected as a revision mismatch (observed by one driver project).
pub const REQUIRED_DISPLAY_ONLY: &[&str] = &[
    row::DxgkDdiAddDevice.name,
    row::DxgkDdiStartDevice.name,
    row::DxgkDdiStopDevice.name,
    row::DxgkDdiRemoveDevice.name,
    "DxgkDdiDispatchIoRequest",
    row::DxgkDdiQueryChildRelations.name,
    row::DxgkDdiQueryChildStatus.name,
    "DxgkDdiQueryDeviceDescriptor",
    row::DxgkDdiSetPowerState.name,
    row::DxgkDdiUnload.name,
    row::DxgkDdiQueryAdapterInfo.name,
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiSetVidPnSourceVisibility",
    "DxgkDdiCommitVidPn",
    "DxgkDdiPresentDisplayOnly",
];

/// The DDIs that a full or compute-only driver needs, even if it accepts no work.
pub const REQUIRED: &[&str] = &[
    row::DxgkDdiAddDevice.name,
    row::DxgkDdiStartDevice.name,
    row::DxgkDdiStopDevice.name,
    row::DxgkDdiRemoveDevice.name,
    row::DxgkDdiQueryAdapterInfo.name,
    row::DxgkDdiCreateDevice.name,
    row::DxgkDdiDestroyDevice.name,
    row::DxgkDdiCreateAllocation.name,
    row::DxgkDdiDestroyAllocation.name,
    row::DxgkDdiOpenAllocation.name,
    row::DxgkDdiCloseAllocation.name,
];
