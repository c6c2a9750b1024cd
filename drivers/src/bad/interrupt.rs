//! Bad drivers: interrupts, DPCs and vsync.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::bad::callback::{before_dpc, before_open};
use crate::block::{find, pointer};
use crate::handle_queries::indicate;
use crate::table::{
    Adapter, GOOD, control_interrupt, dpc_routine, interrupt_routine, start_device, stop_device,
};
use abi::display::{
    DXGK_INTERRUPT_CRTC_VSYNC, DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DMA_FAULTED,
    DXGK_INTERRUPT_TYPE, DXGKARG_OPENALLOCATION, DXGKARGCB_NOTIFY_INTERRUPT_DATA,
    DXGKDDI_CONTROLINTERRUPT, DmaCompleted, DmaFaulted,
};
use abi::miniport::{
    DRIVER_INITIALIZATION_DATA, DXGK_START_INFO, DXGKDDI_DPC_ROUTINE, DXGKDDI_INTERRUPT_ROUTINE,
    DXGKRNL_INTERFACE,
};
use abi::status::STATUS_SUCCESS;
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::Fence;
use nt::ke_time::KeStallExecutionProcessor;
use nt::{ExAllocatePool2, ExFreePoolWithTag, KeDelayExecutionThread, POOL_FLAG_PAGED};
use softgpu::NODES;

const TAG: u32 = u32::from_le_bytes(*b"Wtin");

const fn with_interrupt_routine(routine: DXGKDDI_INTERRUPT_ROUTINE) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiInterruptRoutine: Some(routine), ..GOOD }
}

const fn in_dpc(routine: DXGKDDI_DPC_ROUTINE) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiDpcRoutine: Some(routine), ..GOOD }
}

const fn with_control_interrupt(entry: DXGKDDI_CONTROLINTERRUPT) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiControlInterrupt: Some(entry), ..GOOD }
}

pub(crate) const INDICATES_CHILD_IN_ISR: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(indicates);
pub(crate) const CLAIMS_EVERY_INTERRUPT: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(claims);
pub(crate) const LEAVES_INTERRUPT_ASSERTED: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(leaves_interrupt_asserted);
pub(crate) const REFUSES_OWN_INTERRUPT: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(refuses_own_vsync);
pub(crate) const DISMISSES_UNCLAIMED_INTERRUPT: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(dismisses_unclaimed_interrupt);
pub(crate) const NOTIFIES_FROM_PAGED_POOL: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiStartDevice: Some(start_with_paged_block),
        DxgkDdiStopDevice: Some(stop_and_free_paged_block),
        ..with_interrupt_routine(notifies_from_paged_pool)
    };
pub(crate) const OMITS_QUEUE_DPC: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(omits_queue_dpc);
pub(crate) const OMITS_NOTIFY_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(omits_notify_dpc);
pub(crate) const REPORTS_VSYNC_BEFORE_FENCES: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(reports_vsync_before_fences);
pub(crate) const REPORTS_WRONG_ENGINE: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(reports_wrong_engine);
pub(crate) const REPORTS_MISSING_NODE: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(reports_missing_node);
pub(crate) const REPORTS_DMA_FAULTED: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(reports_dma_faulted);
pub(crate) const REPORTS_FAULT_WITHOUT_FENCE: DRIVER_INITIALIZATION_DATA =
    with_interrupt_routine(reports_fault_without_fence);
pub(crate) const NOTIFIES_DPC_AT_PASSIVE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(notifies_dpc_at_passive), ..GOOD };
pub(crate) const SYNCHRONIZES_WRONG_MESSAGE: DRIVER_INITIALIZATION_DATA =
    in_dpc(synchronizes_wrong_message);
pub(crate) const NESTS_SYNCHRONIZE_EXECUTION: DRIVER_INITIALIZATION_DATA =
    in_dpc(nests_synchronize_execution);
pub(crate) const ACCEPTS_UNKNOWN_INTERRUPT_CONTROL: DRIVER_INITIALIZATION_DATA =
    with_control_interrupt(accepts_unknown_interrupt_control);
pub(crate) const IGNORES_VSYNC_ENABLE: DRIVER_INITIALIZATION_DATA = with_control_interrupt(nothing);
pub(crate) const WAITS_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(waits_in_dpc);
pub(crate) const STALLS_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(stalls_in_dpc);
pub(crate) const POLLS_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(polls_in_dpc);

/// Reports each node's completed packets with `report` and queues the DPC, like the good routine.
/// Vsyncs are left to the good routine.
///
/// # Safety
///
/// As for `interrupt_routine`.
unsafe fn report_by(context: PVOID, message: u32, by: impl Fn(&Adapter, u32)) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let mut ours = 0;
    for node in 0..NODES {
        if it.board().acknowledge(node) {
            by(it, node);
            it.queue_dpc();
            ours = 1;
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    ours | unsafe { interrupt_routine(context, message) }
}

/// A report that a node has completed its last packet.
fn completed(it: &Adapter, node: u32, engine: u32) -> DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA {
        InterruptType: DXGK_INTERRUPT_DMA_COMPLETED,
        ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO
    };
    data.set_dma_completed(DmaCompleted {
        SubmissionFenceId: it.board().done(node).0,
        NodeOrdinal: node,
        EngineOrdinal: engine,
    });
    data
}

/// Reports a connected display in its interrupt routine; that is allowed only in the DPC.
unsafe extern "win64-unwind" fn indicates(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        indicate(it);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { interrupt_routine(context, message) }
}

/// Returns TRUE for every interrupt.
unsafe extern "win64-unwind" fn claims(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { interrupt_routine(context, message) };
    1
}

/// Reports a vsync without acknowledging it.
unsafe extern "win64-unwind" fn leaves_interrupt_asserted(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    if it.board().shows_vsync() {
        it.notify_vsync();
        it.queue_dpc();
        return 1;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { interrupt_routine(context, message) }
}

/// Returns FALSE for a vsync and leaves it asserted.
unsafe extern "win64-unwind" fn refuses_own_vsync(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    if it.board().shows_vsync() {
        return 0;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { interrupt_routine(context, message) }
}

/// Handles each interrupt and returns FALSE.
unsafe extern "win64-unwind" fn dismisses_unclaimed_interrupt(
    context: PVOID,
    message: u32,
) -> BOOLEAN {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let _claimed = unsafe { interrupt_routine(context, message) };
    0
}

/// Keeps an interrupt structure in paged pool, in the member where another driver has registers.
unsafe extern "win64-unwind" fn start_with_paged_block(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { start_device(context, info, interface, sources, children) };
    // SAFETY: The handle is the adapter's.
    if let Some(it) = unsafe { pointer::<Adapter>(context) } {
        let bytes = size_of::<DXGKARGCB_NOTIFY_INTERRUPT_DATA>();
        // SAFETY: The function has no requirements.
        let block = unsafe { ExAllocatePool2(POOL_FLAG_PAGED, bytes, TAG) };
        // SAFETY: The adapter exists, and no other call uses it.
        unsafe { (*it).registers = block };
    }
    status
}

unsafe extern "win64-unwind" fn stop_and_free_paged_block(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        // SAFETY: The block was created at start, and nothing reports any more.
        unsafe { ExFreePoolWithTag(it.registers, TAG) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { stop_device(context) }
}

/// Reports with the structure in paged pool.
unsafe extern "win64-unwind" fn notifies_from_paged_pool(context: PVOID, message: u32) -> BOOLEAN {
    let by = |adapter: &Adapter, node| {
        let place = adapter.registers.cast::<DXGKARGCB_NOTIFY_INTERRUPT_DATA>();
        if place.is_null() {
            return;
        }
        // SAFETY: The block is large enough, and no other code uses it.
        unsafe { place.write(completed(adapter, node, 0)) };
        // SAFETY: It was just written.
        adapter.notify(unsafe { &*place });
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Reports, and does not queue its DPC.
unsafe extern "win64-unwind" fn omits_queue_dpc(context: PVOID, _message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let mut ours = 0;
    for node in 0..NODES {
        if it.board().acknowledge(node) {
            it.notify_interrupt(node, it.board().done(node));
            ours = 1;
        }
    }
    ours
}

/// Does not call `DxgkCbNotifyDpc` in its DPC.
unsafe extern "win64-unwind" fn omits_notify_dpc(_context: PVOID) {}

/// Reports a vsync together with each completion, vsync first.
unsafe extern "win64-unwind" fn reports_vsync_before_fences(
    context: PVOID,
    message: u32,
) -> BOOLEAN {
    let by = |adapter: &Adapter, node| {
        adapter.notify_vsync();
        adapter.notify_interrupt(node, adapter.board().done(node));
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Numbers the engines of a node from one.
unsafe extern "win64-unwind" fn reports_wrong_engine(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, |it, node| it.notify(&completed(it, node, 1))) }
}

/// Reports for a node that does not exist, then for the right node.
unsafe extern "win64-unwind" fn reports_missing_node(context: PVOID, message: u32) -> BOOLEAN {
    let by = |adapter: &Adapter, node| {
        adapter.notify_interrupt(8, adapter.board().done(node));
        adapter.notify_interrupt(node, adapter.board().done(node));
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Reports every packet as faulted, in the WDDM 1.x form.
unsafe extern "win64-unwind" fn reports_dma_faulted(context: PVOID, message: u32) -> BOOLEAN {
    let by = |adapter: &Adapter, node| {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA {
            InterruptType: DXGK_INTERRUPT_DMA_FAULTED,
            ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO
        };
        data.set_dma_faulted(DmaFaulted {
            FaultedFenceId: adapter.board().done(node).0,
            Status: STATUS_SUCCESS,
            NodeOrdinal: node,
            EngineOrdinal: 0,
        });
        adapter.notify(&data);
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Reports every packet as faulted with fence zero.
unsafe extern "win64-unwind" fn reports_fault_without_fence(
    context: PVOID,
    message: u32,
) -> BOOLEAN {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, |it, node| it.notify_fault(node, Fence(0), 0)) }
}

/// Calls `DxgkCbNotifyDpc` without an interrupt.
unsafe extern "win64-unwind" fn notifies_dpc_at_passive(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let call = |adapter: &Adapter, _| {
        if let Some(call) = adapter.interface.DxgkCbNotifyDpc {
            // SAFETY: The function and its argument come from the kernel.
            unsafe { call(adapter.interface.DeviceHandle) };
        }
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { before_open(device, args, call) }
}

/// Synchronizes with an interrupt message that does not exist.
unsafe extern "win64-unwind" fn synchronizes_wrong_message(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            adapter.synchronize(synchronized_routine, context, 1);
        });
    }
}

/// Synchronizes inside a synchronized routine.
unsafe extern "win64-unwind" fn nests_synchronize_execution(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            adapter.synchronize(synchronizes, context, 0);
        });
    }
}

unsafe extern "win64-unwind" fn synchronizes(context: PVOID) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        it.synchronize(synchronized_routine, context, 0);
    }
    1
}

unsafe extern "win64-unwind" fn synchronized_routine(_context: PVOID) -> BOOLEAN {
    1
}

/// Returns success for every interrupt type.
unsafe extern "win64-unwind" fn accepts_unknown_interrupt_control(
    adapter: HANDLE,
    kind: DXGK_INTERRUPT_TYPE,
    on: BOOLEAN,
) -> NTSTATUS {
    if kind != DXGK_INTERRUPT_CRTC_VSYNC {
        return STATUS_SUCCESS;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { control_interrupt(adapter, kind, on) }
}

/// Returns success for vsync and does not switch it.
unsafe extern "win64-unwind" fn nothing(
    adapter: HANDLE,
    kind: DXGK_INTERRUPT_TYPE,
    on: BOOLEAN,
) -> NTSTATUS {
    if kind == DXGK_INTERRUPT_CRTC_VSYNC {
        return STATUS_SUCCESS;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { control_interrupt(adapter, kind, on) }
}

/// Waits for its hardware at an IRQL where waiting is not allowed.
unsafe extern "win64-unwind" fn waits_in_dpc(context: PVOID) {
    let moment = -10_i64;
    // SAFETY: `moment` outlives the call.
    unsafe { KeDelayExecutionThread(0, 0, &raw const moment) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

unsafe extern "win64-unwind" fn stalls_in_dpc(context: PVOID) {
    for _ in 0..3 {
        KeStallExecutionProcessor(40);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

unsafe extern "win64-unwind" fn polls_in_dpc(_context: PVOID) {
    loop {
        KeStallExecutionProcessor(50);
    }
}
