//! The DDI table: every entry of a display miniport driver that the kernel calls.
//!
//! A row is all that is said about a DDI; `row.rs` says what is made from it.

use super::row::{Ddi, Legal, Line, ddi};
use super::{CallDetails, Driver, no_details};
use crate::adapter::power::SetPowerArgs;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{
    CancelCommandArgs, CollectReason, CreateAllocationArgs, CreateContextArgs, CreatedAllocations,
    DestroyAllocationArgs, DriverAllocation, DriverContext, DriverDevice, DriverError,
    DriverProcess, DriverResource, DriverResult, DriverView, EscapeArgs, Features, Generation,
    HandleSlot, Interrupt, OpenAllocationArgs, StandardAllocationArgs, SubmitCommandVirtualArgs,
    SurfaceInfo,
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
use std::vec::Drain;

ddi! {
    DxgkDdiAddDevice: Passive, Three, any {
        /// Meets its adapter. The services are good until `remove_device`.
        by_hand fn add_device(services: &Arc<KernelCallbacks>);
    }
    DxgkDdiStartDevice: Passive, Three, any,
        missing "no display output: sources and children have no effect" {
        /// Starts the adapter. A driver need not implement it.
        by_hand fn start_device(), else Ok(());
    }
    DxgkDdiQueryAdapterInfo: Passive, Three or Zero, any,
        missing "driver caps, segments, page tables and questions of user mode only" {
        /// Returns what the adapter has, while it starts.
        system fn query_adapter() -> Features;
        /// Tells the user-mode driver what the hardware can do (`DXGKQAITYPE_UMDRIVERPRIVATE`), in
        /// place of the bytes that were sent, which may be any. Called at any time, at threading
        /// level zero.
        process fn tell_user_mode(data: &mut [u8]);
    }
    DxgkDdiStopDevice: Passive, Three, any {
        /// Stops the adapter. A driver need not implement it.
        by_hand fn stop_device(), else Ok(());
    }
    DxgkDdiRemoveDevice: Passive, Three, any {
        /// Forgets the adapter.
        system fn remove_device();
    }
    DxgkDdiUnload: Passive, Three, any {
        /// Prepares to be unloaded. A driver need not implement it.
        system fn unload(), else Ok(());
    }
    DxgkDdiSetPowerState: Passive, Three, any, missing "the adapter itself only, D0 and D3" {
        /// Changes its power, which may not fail. A driver need not implement it.
        by_hand fn set_power(order: SetPowerArgs), else Ok(());
    }
    DxgkDdiNotifySurpriseRemoval: Passive, Three, [], missing "live removals only" {
        /// Learns that its hardware was removed: it does not touch hardware any more. The calls
        /// that follow free what it has in memory. A driver need not implement it.
        by_hand fn pulled_out(), else Ok(());
    }
    DxgkDdiStopDeviceAndReleasePostDisplayOwnership: Passive, Three, any,
        missing "no display output: the target has no display" {
        /// Stops the adapter and hands on what a target shows. If the target has no display, it
        /// returns [`DriverError::Unsupported`] and is stopped by `stop_device`.
        by_hand fn stop_and_release(target: u32), else Err(DriverError::Unsupported);
    }
    DxgkDdiResetDevice: DeviceLevel, None, any {
        /// Resets the hardware as the machine goes down. It may be called at any level, so it
        /// calls nothing back. A driver need not implement it.
        by_hand fn reset_device(), else Ok(());
    }
    DxgkDdiCreateDevice: Passive, Zero, [NoMemory], missing "no flags" {
        /// Creates a device.
        by_hand fn create_device(word: HandleSlot<'_, Device>) -> DriverDevice;
    }
    DxgkDdiDestroyDevice: Passive, Zero, any {
        /// Destroys a device.
        details fn destroy_device(device: DriverDevice);
    }
    DxgkDdiCreateContext: Passive, Zero, [NoMemory, Mismatch],
        missing "no flags of the client's" {
        /// Creates a context, and returns the maximum size of a packet's private data
        /// (`DmaBufferPrivateDataSize`).
        by_hand fn create_context(
            device: &DriverDevice,
            order: &CreateContextArgs,
            word: HandleSlot<'_, Context>,
        ) -> (DriverContext, u32);
        /// Creates a context whose packets have lists (without virtual addressing), and returns
        /// the sizes of its buffers.
        by_hand fn create_listed_context(
            device: &DriverDevice,
            order: &CreateContextArgs,
            word: HandleSlot<'_, Context>,
        ) -> (DriverContext, BufferSizes);
    }
    DxgkDdiDestroyContext: Passive, Zero, any {
        /// Destroys a context.
        details fn destroy_context(context: DriverContext);
    }
    DxgkDdiCreateProcess: Passive, Zero, any, missing "no flags but the system's" {
        /// Meets a process that uses the adapter.
        by_hand fn create_process(order: CreateProcessArgs, word: HandleSlot<'_, AddressSpace>) -> DriverProcess;
    }
    DxgkDdiDestroyProcess: Passive, Zero, any {
        /// Forgets a process.
        details fn destroy_process(process: DriverProcess);
    }
    DxgkDdiGetRootPageTableSize: Passive, Zero, any {
        /// Returns the size in bytes of a root page table with at least so many entries.
        process fn root_size(entries: u32) -> RootSize;
    }
    DxgkDdiSetRootPageTable: Passive, Zero, any {
        /// Sets the address space that a context uses.
        process fn set_root(context: &DriverContext, root: Root);
    }
    DxgkDdiMapCpuHostAperture: Passive, Zero, any,
        missing "tried when the adapter starts; nothing is seen through it" {
        /// Maps pages that the CPU does not see into the aperture.
        system fn map_window(map: MapHostApertureArgs<'_>);
    }
    DxgkDdiUnmapCpuHostAperture: Passive, Zero, any,
        missing "tried when the adapter starts; nothing is seen through it" {
        /// Unmaps pages of the aperture.
        system fn unmap_window(segment: u32, window: &[u64]);
    }
    DxgkDdiGetStandardAllocationDriverData: Passive, Zero, any, missing "GDI surfaces only" {
        /// Returns the private data of a standard allocation: called once for sizes, once for
        /// bytes.
        process fn standard_data(standard: &mut StandardAllocationArgs);
    }
    DxgkDdiCreateAllocation: Passive, Zero, [Invalid, NoMemory, Mismatch] {
        /// Describes new allocations, of one resource or standalone.
        ///
        /// After a failure none of them exists, and nothing is destroyed: the driver undoes
        /// what it did.
        details fn create_allocations(births: CreateAllocationArgs<'_>) -> CreatedAllocations;
    }
    DxgkDdiDestroyAllocation: Passive, Zero, any {
        /// Destroys allocations, and with the last of them their resource. Returns the resource's
        /// handle if that changed.
        ///
        /// After a failure they are destroyed all the same: nothing is left to retry with.
        by_hand fn destroy_allocations(doomed: DestroyAllocationArgs<'_>) -> Option<DriverResource>;
    }
    DxgkDdiDescribeAllocation: Passive, Zero, any,
        missing "primaries only, and nothing reads the description" {
        /// Describes a primary.
        process fn describe_allocation(allocation: &DriverAllocation) -> SurfaceInfo;
    }
    DxgkDdiOpenAllocation: Passive, Zero, [Invalid, NoMemory, Mismatch] {
        /// Opens allocations for a device, and returns a handle for each.
        details fn open_allocations(opening: OpenAllocationArgs<'_>) -> Vec<DriverView>;
    }
    DxgkDdiCloseAllocation: Passive, Zero, any {
        /// Closes views of a device, all members of a resource at once.
        details fn close_allocations(device: &DriverDevice, views: Drain<'_, DriverView>);
    }
    DxgkDdiEscape: Passive, Zero or Two,
        [Invalid, NoMemory, Mismatch, Privileged, Illegal],
        missing "no process handle: hKmdProcessHandle is NULL" {
        /// Answers a client's private data, in its place. With access to the hardware it is called
        /// at threading level two.
        by_hand fn escape(escape: EscapeArgs<'_>);
    }
    DxgkDdiSubmitCommandVirtual: Dispatch, OneScheduler, [Invalid],
        missing "no GPU addresses: commands travel as private driver data" {
        /// Takes a packet for the hardware.
        by_hand fn submit(packet: &SubmitCommandVirtualArgs<'_>);
    }
    DxgkDdiRender: Passive, Zero,
        [NoMemory, NoRoom, Privileged, Illegal, Invalid, UserMemory, Mismatch] {
        /// Writes commands for the hardware in place of a client's.
        process fn render(rendering: &mut RenderArgs<'_>);
    }
    DxgkDdiPatch: Passive, OneScheduler, [], missing "no packet is cut in parts" {
        /// Writes addresses into a packet's commands, as often as it is called. For paging work it
        /// is called for no process.
        process fn patch(patching: &mut PatchArgs<'_>);
    }
    DxgkDdiBuildPagingBuffer: Passive, OneScheduler, [NoRoom, Busy],
        missing "no page-table entries are copied" {
        /// Writes the commands of a paging operation.
        ///
        /// May return [`DriverError::NoRoom`] (the buffer is full), and for moves and discards
        /// [`DriverError::Busy`] (the allocation is in use); nothing else.
        details fn build_paging(building: &mut BuildPagingBufferArgs<'_>);
    }
    DxgkDdiSubmitCommand: Dispatch, OneScheduler, [], missing "no presents and flips" {
        /// Takes paging commands for the hardware.
        by_hand fn submit_paging(packet: &SubmitPagingArgs<'_>);
        /// Takes a packet with lists for the hardware.
        by_hand fn submit_listed(packet: &SubmitCommandArgs<'_>);
    }
    DxgkDdiPreemptCommand: Dispatch, OneScheduler, [],
        missing "a node gives back all it has not begun" {
        /// Takes back what a node has not begun. It reports when that is done: at once if the node
        /// has nothing.
        system fn preempt(node: u32, preemption: Fence);
    }
    DxgkDdiQueryCurrentFence: Passive, OneScheduler, any {
        /// Returns the last fence that a node completed. What it did not report, it reports first.
        system fn current_fence(node: u32) -> Fence;
    }
    DxgkDdiCancelCommand: Passive, OneScheduler, [] {
        /// Frees what belongs to a packet that will never go to the hardware.
        system fn cancel(packet: &CancelCommandArgs<'_>);
    }
    DxgkDdiQueryEngineStatus: Passive, OneScheduler, [] {
        /// Returns whether an engine responds.
        system fn engine_answers(node: u32) -> bool;
    }
    DxgkDdiQueryDependentEngineGroup: Passive, OneScheduler, [] {
        /// Returns the nodes that a reset of this one affects, as bits.
        system fn dependent_nodes(node: u32) -> u64;
    }
    DxgkDdiResetEngine: Passive, OneScheduler, any {
        /// Resets an engine, and returns the last fence that is aborted by it; nothing is left on
        /// the node then.
        system fn reset_engine(node: u32) -> Fence;
    }
    DxgkDdiResetFromTimeout: Passive, Three, [] {
        /// Stops the GPU: when this returns, the GPU accesses no memory any more.
        system fn reset();
    }
    DxgkDdiRestartFromTimeout: Passive, Three, [] {
        /// Has the GPU work again.
        system fn restart();
    }
    DxgkDdiCollectDbgInfo: Passive, None, any, missing "asked before a reset only" {
        /// Writes what may help to find the cause, and returns how many bytes it wrote.
        by_hand fn collect(reason: CollectReason, into: &mut [u8]) -> usize;
    }
    DxgkDdiInterruptRoutine: DeviceLevel, None, any {
        /// Handles an interrupt, and returns whether its hardware asked for it.
        by_hand fn interrupt() -> bool;
    }
    DxgkDdiDpcRoutine: Dispatch, None, any {
        /// Does the rest of the interrupt's work.
        by_hand fn dpc();
    }
    DxgkDdiControlInterrupt: Passive, Zero, [Unimplemented],
        missing "vsync only, and nothing is shown at one" {
        /// Enables or disables an interrupt. May return [`DriverError::Unimplemented`], for all but
        /// vsync.
        system fn control_interrupt(of: Interrupt, on: bool);
    }
}

/// Makes the table of the DDIs that nothing calls yet.
macro_rules! uncalled {
    ($($why:literal { $($name:ident)* })*) => {
        /// What is missing, and the DDIs that are not called for it. With [`TABLE`] these are all
        /// slots of `DRIVER_INITIALIZATION_DATA` but the reserved ones.
        pub const UNCALLED: &[(&str, &[&str])] = &[$(($why, &[$(stringify!($name)),*])),*];
    };
}

uncalled! {
    "no display output" {
        DxgkDdiQueryChildRelations DxgkDdiQueryChildStatus DxgkDdiQueryDeviceDescriptor
        DxgkDdiGetChildContainerId DxgkDdiSetPalette DxgkDdiSetPointerPosition
        DxgkDdiSetPointerShape DxgkDdiIsSupportedVidPn DxgkDdiRecommendFunctionalVidPn
        DxgkDdiEnumVidPnCofuncModality DxgkDdiSetVidPnSourceAddress DxgkDdiSetVidPnSourceVisibility
        DxgkDdiCommitVidPn DxgkDdiUpdateActiveVidPnPresentPath DxgkDdiRecommendMonitorModes
        DxgkDdiRecommendVidPnTopology DxgkDdiQueryVidPnHWCapability DxgkDdiGetScanLine
        DxgkDdiStopCapture DxgkDdiControlInterrupt2 DxgkDdiSetDisplayPrivateDriverFormat
        DxgkDdiSystemDisplayEnable DxgkDdiSystemDisplayWrite
    }
    "no overlays" {
        DxgkDdiCreateOverlay DxgkDdiUpdateOverlay DxgkDdiFlipOverlay DxgkDdiDestroyOverlay
        DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay
        DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2 DxgkDdiCheckMultiPlaneOverlaySupport
        DxgkDdiCheckMultiPlaneOverlaySupport2
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
    }
    "no history buffers" { DxgkDdiFormatHistoryBuffer DxgkDdiCalibrateGpuClock }
    "nothing reads it yet" { DxgkDdiGetNodeMetadata }
    "nobody asks for it yet" {
        DxgkDdiDispatchIoRequest DxgkDdiQueryInterface DxgkDdiControlEtwLogging DxgkDdiLinkDevice
        DxgkDdiCreateAllocation2 DxgkDdiSetVideoProtectedRegion
    }
}

/// The DDIs without which no driver is flown: those that a driver needs that takes no work.
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
