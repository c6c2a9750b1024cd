//! A complete display miniport driver with a function table. It breaks no rule.
//!
//! The driver is written like a driver in C: each object is a pool block, the block's address is
//! the driver handle, and there is no other state. Its hardware is a [`Board`], its private data
//! has the layout of `softgpu::format`. This module has the entries of the adapter; `context`,
//! `allocation` and `view` have the others.
//!
//! # Safety
//!
//! The table's entries are called as Microsoft documents them: a structure is valid and exclusive
//! to the driver during the call, and a handle was returned by this driver and has not been
//! destroyed.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{
    create_allocation, describe_allocation, destroy_allocation, standard_allocation,
};
use crate::block::{Kind, find, free, pointer, take};
use crate::board::Board;
use crate::context::{
    create_context, create_device, destroy_context, destroy_device, submit_command_virtual,
};
use crate::escape::escape;
use crate::tdr::{
    cancel_command, collect_dbg_info, preempt_command, query_current_fence,
    query_dependent_engine_group, query_engine_status, reset_engine, reset_from_timeout,
    restart_from_timeout,
};
use crate::umd_private_query::query_umd_private;
use crate::view::{close_allocation, open_allocation};
use abi::display::{
    DXGK_INTERRUPT_CRTC_VSYNC, DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DMA_PAGE_FAULTED,
    DXGK_INTERRUPT_TYPE, DXGK_PAGE_FAULT_FLAGS, DXGK_VIDSCHCAPS as Scheduling,
    DXGKARG_QUERYADAPTERINFO, DXGKARGCB_NOTIFY_INTERRUPT_DATA, DXGKDDI_INTERFACE_VERSION_WDDM2_0,
    DXGKQAITYPE_DRIVERCAPS, DXGKQAITYPE_UMDRIVERPRIVATE, DmaCompleted, DmaPageFaulted,
};
use abi::miniport::KSYNCHRONIZE_ROUTINE;
use abi::miniport::{
    DEVICE_POWER_STATE, DISPLAY_ADAPTER_HW_ID, DRIVER_INITIALIZATION_DATA,
    DXGK_DISPLAY_INFORMATION, DXGK_START_INFO, DXGK_SURPRISE_REMOVAL_TYPE, DXGKRNL_INTERFACE,
    POWER_ACTION, PowerDeviceD0,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
use flight::Fence;
use softgpu::NODES;
use std::ptr;

/// The driver.
pub const GOOD: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    Version: DXGKDDI_INTERFACE_VERSION_WDDM2_0,
    DxgkDdiAddDevice: Some(add_device),
    DxgkDdiStartDevice: Some(start_device),
    DxgkDdiStopDevice: Some(stop_device),
    DxgkDdiRemoveDevice: Some(remove_device),
    DxgkDdiInterruptRoutine: Some(interrupt_routine),
    DxgkDdiDpcRoutine: Some(dpc_routine),
    DxgkDdiControlInterrupt: Some(control_interrupt),
    DxgkDdiUnload: Some(unload),
    DxgkDdiSetPowerState: Some(set_power_state),
    DxgkDdiNotifySurpriseRemoval: Some(notify_surprise_removal),
    DxgkDdiStopDeviceAndReleasePostDisplayOwnership: Some(release_display),
    DxgkDdiResetDevice: Some(reset_device),
    DxgkDdiQueryAdapterInfo: Some(query_adapter_info),
    DxgkDdiCreateDevice: Some(create_device),
    DxgkDdiDestroyDevice: Some(destroy_device),
    DxgkDdiCreateAllocation: Some(create_allocation),
    DxgkDdiDestroyAllocation: Some(destroy_allocation),
    DxgkDdiDescribeAllocation: Some(describe_allocation),
    DxgkDdiGetStandardAllocationDriverData: Some(standard_allocation),
    DxgkDdiOpenAllocation: Some(open_allocation),
    DxgkDdiCloseAllocation: Some(close_allocation),
    DxgkDdiCreateContext: Some(create_context),
    DxgkDdiDestroyContext: Some(destroy_context),
    DxgkDdiSubmitCommandVirtual: Some(submit_command_virtual),
    DxgkDdiEscape: Some(escape),
    DxgkDdiPreemptCommand: Some(preempt_command),
    DxgkDdiQueryCurrentFence: Some(query_current_fence),
    DxgkDdiCancelCommand: Some(cancel_command),
    DxgkDdiQueryEngineStatus: Some(query_engine_status),
    DxgkDdiQueryDependentEngineGroup: Some(query_dependent_engine_group),
    DxgkDdiResetEngine: Some(reset_engine),
    DxgkDdiResetFromTimeout: Some(reset_from_timeout),
    DxgkDdiRestartFromTimeout: Some(restart_from_timeout),
    DxgkDdiCollectDbgInfo: Some(collect_dbg_info),
    ..DRIVER_INITIALIZATION_DATA::ZERO
};

/// The driver with the entry points that every driver needs, and no others.
pub(crate) const MINIMAL: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    Version: DXGKDDI_INTERFACE_VERSION_WDDM2_0,
    DxgkDdiAddDevice: Some(add_device),
    DxgkDdiStartDevice: Some(start_device),
    DxgkDdiStopDevice: Some(stop_device),
    DxgkDdiRemoveDevice: Some(remove_device),
    DxgkDdiQueryAdapterInfo: Some(query_minimal),
    DxgkDdiCreateDevice: Some(create_device),
    DxgkDdiDestroyDevice: Some(destroy_device),
    DxgkDdiCreateAllocation: Some(create_allocation),
    DxgkDdiDestroyAllocation: Some(destroy_allocation),
    DxgkDdiOpenAllocation: Some(open_allocation),
    DxgkDdiCloseAllocation: Some(close_allocation),
    ..DRIVER_INITIALIZATION_DATA::ZERO
};

/// Offset of `GpuEngineTopology.NbAsymetricProcessingNodes` in `DXGK_DRIVERCAPS`.
const NODE_COUNT: usize = 76;

/// Offset of `SchedulingCaps`.
const SCHEDULING: usize = 64;

/// Offset of `SupportPerEngineTDR`.
const RESETS_ENGINES: usize = 538;

/// The scheduling capabilities beyond accepting packets.
const CLAIMS: u32 =
    Scheduling::MultiEngineAware | Scheduling::PreemptionAware | Scheduling::CancelCommandAware;

/// An adapter (`MiniportDeviceContext`, `hAdapter`).
#[repr(C)]
pub(crate) struct Adapter {
    /// The adapter's hardware.
    board: *const Board,
    /// The kernel's callbacks; all zero before `DxgkDdiStartDevice`.
    pub(crate) interface: DXGKRNL_INTERFACE,
    /// Where the registers are mapped, in a driver that uses them.
    pub(crate) registers: PVOID,
    /// The hardware was surprise-removed and is not touched any more.
    surprise_removed: bool,
}

impl Kind for Adapter {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"adap");
}

impl Adapter {
    /// Creates the adapter of a physical device, which is a board.
    pub(crate) fn new(device: PDEVICE_OBJECT) -> Self {
        let board = device.cast_const().cast();
        let (interface, registers) = (DXGKRNL_INTERFACE::ZERO, ptr::null_mut());
        Self { board, interface, registers, surprise_removed: false }
    }

    /// The adapter's hardware.
    pub(crate) fn board(&self) -> &Board {
        // SAFETY: The address came as the physical device, which the setup keeps alive.
        unsafe { &*self.board }
    }

    /// Reports that a node has completed a packet.
    pub(crate) fn notify_interrupt(&self, node: u32, fence: Fence) {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA {
            InterruptType: DXGK_INTERRUPT_DMA_COMPLETED,
            ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO
        };
        data.set_dma_completed(DmaCompleted {
            SubmissionFenceId: fence.0,
            NodeOrdinal: node,
            EngineOrdinal: 0,
        });
        self.notify(&data);
    }

    /// Reports a vsync.
    pub(crate) fn notify_vsync(&self) {
        self.notify(&DXGKARGCB_NOTIFY_INTERRUPT_DATA {
            InterruptType: DXGK_INTERRUPT_CRTC_VSYNC,
            ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO
        });
    }

    /// Notifies the kernel of an interrupt (`DxgkCbNotifyInterrupt`).
    pub(crate) fn notify(&self, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
        let Some(call) = self.interface.DxgkCbNotifyInterrupt else { return };
        // SAFETY: The function and the handle come from the kernel; `data` outlives the call.
        unsafe { call(self.interface.DeviceHandle, ptr::from_ref(data)) };
    }

    /// Reports a faulted packet of a node.
    pub(crate) fn notify_fault(&self, node: u32, fence: Fence, flags: DXGK_PAGE_FAULT_FLAGS) {
        self.notify_fault_at(node, fence, flags, 0);
    }

    /// Reports a faulted packet of a node, with the virtual address of the fault.
    pub(crate) fn notify_fault_at(
        &self,
        node: u32,
        fence: Fence,
        flags: DXGK_PAGE_FAULT_FLAGS,
        address: u64,
    ) {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA {
            InterruptType: DXGK_INTERRUPT_DMA_PAGE_FAULTED,
            ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO
        };
        data.set_dma_page_faulted(DmaPageFaulted {
            FaultedFenceId: fence.0,
            PageFaultFlags: flags,
            FaultedVirtualAddress: address,
            NodeOrdinal: node,
            ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO.dma_page_faulted()
        });
        self.notify(&data);
    }

    /// Runs a routine synchronized with the interrupt (`DxgkCbSynchronizeExecution`).
    pub(crate) fn synchronize(
        &self,
        routine: KSYNCHRONIZE_ROUTINE,
        context: PVOID,
        message: u32,
    ) -> NTSTATUS {
        let Some(call) = self.interface.DxgkCbSynchronizeExecution else {
            return STATUS_NOT_SUPPORTED;
        };
        let (handle, mut answer) = (self.interface.DeviceHandle, 0);
        // SAFETY: Both are the kernel's; the routine expects `context`; `answer` outlives the call.
        unsafe { call(handle, Some(routine), context, message, &raw mut answer) }
    }

    /// Queues the adapter's DPC.
    pub(crate) fn queue_dpc(&self) {
        if let Some(call) = self.interface.DxgkCbQueueDpc {
            // SAFETY: The function and its argument come from the kernel.
            unsafe { call(self.interface.DeviceHandle) };
        }
    }
}

pub(crate) unsafe extern "win64-unwind" fn add_device(
    device: PDEVICE_OBJECT,
    context: *mut PVOID,
) -> NTSTATUS {
    let adapter = take(Adapter::new(device));
    // SAFETY: The argument points at a writable pointer.
    unsafe { context.write(adapter) };
    if adapter.is_null() { STATUS_NO_MEMORY } else { STATUS_SUCCESS }
}

pub(crate) unsafe extern "win64-unwind" fn start_device(
    context: PVOID,
    _info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    let Some(adapter) = (unsafe { pointer::<Adapter>(context) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The structure has the length of the version that the kernel flies.
    let given = unsafe { interface.read() };
    // SAFETY: The adapter exists, and no other call uses it.
    unsafe { (*adapter).interface = given };
    // SAFETY: As above.
    unsafe { (*adapter).board() }.reset();
    // SAFETY: The output can hold a number. There is no display output.
    unsafe { sources.write(0) };
    // SAFETY: As above.
    unsafe { children.write(0) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn stop_device(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    if !adapter.surprise_removed {
        adapter.board().reset();
    }
    STATUS_SUCCESS
}

/// The board loses its memory without power and comes up empty.
pub(crate) unsafe extern "win64-unwind" fn set_power_state(
    context: PVOID,
    device: u32,
    state: DEVICE_POWER_STATE,
    _action: POWER_ACTION,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    let adapter = unsafe { find::<Adapter>(context) };
    // The adapter has no children, so a removed child needs no work.
    if let Some(adapter) = adapter.filter(|_| device == DISPLAY_ADAPTER_HW_ID) {
        if state == PowerDeviceD0 {
            adapter.board().wake();
        } else {
            adapter.board().lose_power();
        }
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn notify_surprise_removal(
    context: PVOID,
    _kind: DXGK_SURPRISE_REMOVAL_TYPE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    if let Some(adapter) = unsafe { pointer::<Adapter>(context) } {
        // SAFETY: The adapter exists, and no other call uses it.
        unsafe { (*adapter).surprise_removed = true };
    }
    STATUS_SUCCESS
}

/// No target has a display.
unsafe extern "win64-unwind" fn release_display(
    _context: PVOID,
    _target: u32,
    _display: *mut DXGK_DISPLAY_INFORMATION,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

pub(crate) unsafe extern "win64-unwind" fn reset_device(context: PVOID) {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        adapter.board().reset();
    }
}

pub(crate) unsafe extern "win64-unwind" fn remove_device(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and no later call uses it.
    unsafe { free(context) };
    STATUS_SUCCESS
}

/// Does nothing: the driver has no global state.
unsafe extern "win64-unwind" fn unload() {}

pub(crate) unsafe extern "win64-unwind" fn query_adapter_info(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if args.Type == DXGKQAITYPE_UMDRIVERPRIVATE {
        // SAFETY: The caller upholds this function's contract.
        return unsafe { query_umd_private(adapter, &args, false) };
    }
    if args.Type != DXGKQAITYPE_DRIVERCAPS {
        return STATUS_NOT_SUPPORTED;
    }
    if (args.OutputDataSize as usize) <= RESETS_ENGINES {
        return STATUS_BUFFER_TOO_SMALL;
    }
    let nodes = args.pOutputData.wrapping_byte_add(NODE_COUNT).cast::<u32>();
    // SAFETY: The address lies inside the output buffer.
    unsafe { nodes.write_unaligned(NODES) };
    let scheduling = args.pOutputData.wrapping_byte_add(SCHEDULING).cast::<u32>();
    // SAFETY: As above.
    unsafe { scheduling.write_unaligned(CLAIMS) };
    let resets = args.pOutputData.wrapping_byte_add(RESETS_ENGINES).cast::<u8>();
    // SAFETY: As above.
    unsafe { resets.write(1) };
    STATUS_SUCCESS
}

/// Reports its nodes, and no other capability.
unsafe extern "win64-unwind" fn query_minimal(
    _adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if args.Type != DXGKQAITYPE_DRIVERCAPS {
        return STATUS_NOT_SUPPORTED;
    }
    if (args.OutputDataSize as usize) < NODE_COUNT + size_of::<u32>() {
        return STATUS_BUFFER_TOO_SMALL;
    }
    let nodes = args.pOutputData.wrapping_byte_add(NODE_COUNT).cast::<u32>();
    // SAFETY: The address lies inside the output buffer.
    unsafe { nodes.write_unaligned(NODES) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn interrupt_routine(
    context: PVOID,
    _message: u32,
) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let mut ours = BOOLEAN::from(adapter.report());
    if adapter.board().acknowledge_vsync() {
        adapter.notify_vsync();
        ours = 1;
    }
    if ours == 1 {
        adapter.queue_dpc();
    }
    ours
}

pub(crate) unsafe extern "win64-unwind" fn control_interrupt(
    adapter: HANDLE,
    kind: DXGK_INTERRUPT_TYPE,
    on: BOOLEAN,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    if kind != DXGK_INTERRUPT_CRTC_VSYNC {
        return STATUS_NOT_IMPLEMENTED;
    }
    it.synchronize(if on == 0 { vsync_off } else { vsync_on }, adapter, 0)
}

/// Runs synchronized with the interrupt routine, because that reads the display state, too.
unsafe extern "win64-unwind" fn vsync_on(adapter: PVOID) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    unsafe { set_vsync(adapter, true) }
}

unsafe extern "win64-unwind" fn vsync_off(adapter: PVOID) -> BOOLEAN {
    // SAFETY: As above.
    unsafe { set_vsync(adapter, false) }
}

/// # Safety
///
/// The handle is the adapter's, and the adapter outlives the call.
unsafe fn set_vsync(adapter: PVOID, on: bool) -> BOOLEAN {
    // SAFETY: The caller upholds this function's contract.
    let Some(adapter) = (unsafe { find::<Adapter>(adapter) }) else { return 0 };
    adapter.board().set_vsync(on);
    1
}

pub(crate) unsafe extern "win64-unwind" fn dpc_routine(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else { return };
    if let Some(call) = adapter.interface.DxgkCbNotifyDpc {
        // SAFETY: The function and its argument come from the kernel.
        unsafe { call(adapter.interface.DeviceHandle) };
    }
}
