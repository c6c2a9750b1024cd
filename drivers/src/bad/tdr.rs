//! Bad drivers: preemption, TDR and engine resets.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::find;
use crate::board::Board;
use crate::memory::{MEMORY, build_paging_buffer};
use crate::table::{Adapter, GOOD, interrupt_routine, query_adapter_info};
use crate::tdr::{
    collect_dbg_info, preempt_command, query_current_fence, report_late, reset_engine,
    reset_from_timeout, restart_from_timeout,
};
use abi::display::{
    DXGK_DRIVERCAPS, DXGKARG_BUILDPAGINGBUFFER, DXGKARG_CANCELCOMMAND, DXGKARG_COLLECTDBGINFO,
    DXGKARG_PREEMPTCOMMAND, DXGKARG_QUERYADAPTERINFO, DXGKARG_QUERYCURRENTFENCE,
    DXGKARG_QUERYDEPENDENTENGINEGROUP, DXGKARG_QUERYENGINESTATUS, DXGKARG_RESETENGINE,
    DXGKQAITYPE_DRIVERCAPS,
};
use abi::miniport::{DRIVER_INITIALIZATION_DATA, DXGKDDI_INTERRUPT_ROUTINE};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::{Fence, HardwareModel as _};
use softgpu::NODES;

/// The good driver, whose reset always covers the whole adapter.
const RESETS_ALL: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiQueryAdapterInfo: Some(resets_no_engine), ..GOOD };

/// The good driver with other reports of preempted packets.
const fn reporting(routine: DXGKDDI_INTERRUPT_ROUTINE) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiInterruptRoutine: Some(routine), ..GOOD }
}

/// A good driver whose engine resets fail, which is legal.
pub(crate) const NO_ENGINE_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(fails_reset_engine), ..GOOD };
pub(crate) const FAILS_PREEMPT_COMMAND: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiPreemptCommand: Some(fails_preempt_command), ..GOOD };
pub(crate) const OMITS_IDLE_PREEMPTION_REPORT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiPreemptCommand: Some(omits_idle_preemption_report),
        ..GOOD
    };
pub(crate) const OMITS_PREEMPTION_REPORT: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryCurrentFence: Some(omits_preemption_report),
    ..reporting(isr_hiding_preemption)
};
pub(crate) const REPORTS_PREEMPTION_UNSUBMITTED_FENCE: DRIVER_INITIALIZATION_DATA =
    reporting(reports_preemption_unsubmitted_fence);
pub(crate) const REPORTS_WRONG_PREEMPTION_FENCE: DRIVER_INITIALIZATION_DATA =
    reporting(reports_wrong_preemption_fence);
pub(crate) const REPORTS_LAST_SUBMITTED: DRIVER_INITIALIZATION_DATA =
    reporting(reports_last_submitted);
pub(crate) const OMITS_QUERIED_FENCE_REPORT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiQueryCurrentFence: Some(omits_queried_fence_report),
        ..reporting(loses_even_fences)
    };
pub(crate) const NEVER_REPORTS_FENCE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryCurrentFence: None,
    ..reporting(acknowledges_silently)
};
pub(crate) const FAILS_CANCEL_COMMAND: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCancelCommand: Some(fails_cancel_command), ..GOOD };
pub(crate) const FAILS_QUERY_ENGINE_STATUS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiQueryEngineStatus: Some(fails_query_engine_status),
        ..GOOD
    };
pub(crate) const OMITS_NODE_FROM_DEPENDENCY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiQueryDependentEngineGroup: Some(omits_node_from_dependency),
        ..GOOD
    };
pub(crate) const KEEPS_WORK_AFTER_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(keeps_work_after_reset), ..GOOD };
pub(crate) const OMITS_CURRENT_FENCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiQueryCurrentFence: Some(omits_current_fence), ..GOOD };
pub(crate) const OMITS_DEPENDENT_NODES: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryDependentEngineGroup: Some(omits_dependent_nodes),
    ..GOOD
};
pub(crate) const OMITS_ABORTED_FENCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(omits_aborted_fence), ..GOOD };
pub(crate) const REPORTS_ZERO_ABORTED_FENCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(reports_zero_aborted_fence), ..GOOD };
pub(crate) const REPORTS_UNSUBMITTED_ABORTED_FENCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiResetEngine: Some(reports_unsubmitted_aborted_fence),
        ..GOOD
    };
pub(crate) const REPORTS_ABORT_ON_IDLE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryDependentEngineGroup: Some(reports_all_nodes_dependent),
    DxgkDdiResetEngine: Some(reports_abort_on_idle),
    ..GOOD
};
pub(crate) const FAILS_RESET_FROM_TIMEOUT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetFromTimeout: Some(does_not_reset), ..RESETS_ALL };
pub(crate) const SKIPS_RESET_FROM_TIMEOUT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiResetFromTimeout: Some(skips_reset_from_timeout),
        ..RESETS_ALL
    };
pub(crate) const FAILS_RESTART_FROM_TIMEOUT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRestartFromTimeout: Some(does_not_reset), ..RESETS_ALL };
pub(crate) const OMITS_RESTART_FROM_TIMEOUT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRestartFromTimeout: None, ..RESETS_ALL };
pub(crate) const REPORTS_FENCE_AFTER_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiRestartFromTimeout: Some(reports_fence_after_reset),
        ..RESETS_ALL
    };
pub(crate) const KEEPS_FENCE_AFTER_RESET: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiResetFromTimeout: Some(keeps_fence_after_reset),
    ..RESETS_ALL
};
pub(crate) const OVERRUNS_DEBUG_INFO: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCollectDbgInfo: Some(overruns_debug_info), ..RESETS_ALL };
pub(crate) const TOUCHES_HARDWARE_DURING_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiBuildPagingBuffer: Some(touches_hardware_during_reset),
        ..MEMORY
    };

/// Returns the good driver's capabilities without per-engine reset.
unsafe extern "win64-unwind" fn resets_no_engine(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { query_adapter_info(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if status == STATUS_SUCCESS && args.Type == DXGKQAITYPE_DRIVERCAPS {
        // SAFETY: The buffer has this length at WDDM 2.0, and only the driver uses it.
        let caps = unsafe { &mut *args.pOutputData.cast::<DXGK_DRIVERCAPS>() };
        caps.SupportPerEngineTDR = 0;
    }
    status
}

/// Returns an adapter's hardware.
///
/// # Safety
///
/// The handle is the adapter's, and the adapter outlives the result.
unsafe fn board<'a>(adapter: HANDLE) -> Option<&'a Board> {
    // SAFETY: The caller upholds this function's contract.
    unsafe { find::<Adapter>(adapter) }.map(Adapter::board)
}

/// Returns a failure.
unsafe extern "win64-unwind" fn fails_preempt_command(
    _adapter: HANDLE,
    _args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Reports nothing for a node without work.
unsafe extern "win64-unwind" fn omits_idle_preemption_report(
    adapter: HANDLE,
    args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let node = unsafe { (*args).NodeOrdinal };
    // SAFETY: The handle is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    if board.holds_work(Some(node)) == Some(false) {
        return STATUS_SUCCESS;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { preempt_command(adapter, args) }
}

/// Reports preemptions with `report`, and everything else as the good driver does.
///
/// # Safety
///
/// As for `interrupt_routine`.
unsafe fn report_by(
    context: PVOID,
    message: u32,
    by: impl Fn(&Adapter, u32, Fence, Fence),
) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let mut ours = 0;
    for node in 0..NODES {
        if it.board().acknowledge(node) {
            it.notify_interrupt(node, it.board().done(node));
            it.queue_dpc();
            ours = 1;
        }
        if let Some(preemption) = it.board().preempted(node) {
            by(it, node, preemption, it.board().done(node));
            it.queue_dpc();
            ours = 1;
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    ours | unsafe { interrupt_routine(context, message) }
}

/// Does not report that a node was preempted.
unsafe extern "win64-unwind" fn isr_hiding_preemption(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, |_, _, _, _| ()) }
}

/// Does not report the preemption here, either.
unsafe extern "win64-unwind" fn omits_preemption_report(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYCURRENTFENCE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    if let Some(board) = unsafe { board(adapter) } {
        for node in 0..NODES {
            board.preempted(node);
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { query_current_fence(adapter, args) }
}

/// Reports a last completed fence beyond the node's submitted packets.
unsafe extern "win64-unwind" fn reports_preemption_unsubmitted_fence(
    context: PVOID,
    message: u32,
) -> BOOLEAN {
    let by = |adapter: &Adapter, node, preemption, last: Fence| {
        adapter.notify_preempted(node, preemption, Fence(last.0.wrapping_add(100)));
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Reports its own count of preemptions as the preemption fence.
unsafe extern "win64-unwind" fn reports_wrong_preemption_fence(
    context: PVOID,
    message: u32,
) -> BOOLEAN {
    let by = |adapter: &Adapter, node, preemption: Fence, last| {
        adapter.notify_preempted(node, preemption.next(), last);
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Reports the last submitted fence of a preempted node as the last completed one.
unsafe extern "win64-unwind" fn reports_last_submitted(context: PVOID, message: u32) -> BOOLEAN {
    let by = |adapter: &Adapter, node, preemption, _| {
        adapter.notify_preempted(node, preemption, adapter.board().gpu.last_submitted(node));
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { report_by(context, message, by) }
}

/// Acknowledges completed packets without a report.
unsafe extern "win64-unwind" fn acknowledges_silently(context: PVOID, _message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let gpu = &adapter.board().gpu;
    let taken: Vec<_> = (0..NODES).flat_map(|node| gpu.take_completions(node)).collect();
    let vsync = adapter.board().acknowledge_vsync();
    if vsync {
        adapter.notify_vsync();
        adapter.queue_dpc();
    }
    BOOLEAN::from(vsync || !taken.is_empty())
}

/// Reports completed packets, except if the last one has an even fence: that interrupt is lost.
unsafe extern "win64-unwind" fn loses_even_fences(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(it) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let mut ours = 0;
    for node in 0..NODES {
        if it.board().acknowledge(node) {
            ours = 1;
            let done = it.board().done(node);
            if done.0 % 2 == 1 {
                it.notify_interrupt(node, done);
                it.queue_dpc();
            }
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    ours | unsafe { interrupt_routine(context, message) }
}

/// Returns the last completed fence without reporting it.
unsafe extern "win64-unwind" fn omits_queried_fence_report(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYCURRENTFENCE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    args.CurrentFence = board.gpu.done(args.NodeOrdinal).0;
    STATUS_SUCCESS
}

/// Returns a failure.
unsafe extern "win64-unwind" fn fails_cancel_command(
    _adapter: HANDLE,
    _args: *const DXGKARG_CANCELCOMMAND,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Returns an unsuccessful query.
unsafe extern "win64-unwind" fn fails_query_engine_status(
    _adapter: HANDLE,
    _args: *mut DXGKARG_QUERYENGINESTATUS,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Lists the nodes affected by the reset besides the reset node: none.
unsafe extern "win64-unwind" fn omits_node_from_dependency(
    _adapter: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure, and the member is an output.
    unsafe { (*args).DependentNodeOrdinalMask = 0 };
    STATUS_SUCCESS
}

/// Reports that the reset affects all nodes.
unsafe extern "win64-unwind" fn reports_all_nodes_dependent(
    _adapter: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure, and the member is an output.
    unsafe { (*args).DependentNodeOrdinalMask = (1 << NODES) - 1 };
    STATUS_SUCCESS
}

/// Returns that the hardware does not support the call.
unsafe extern "win64-unwind" fn fails_reset_engine(
    _adapter: HANDLE,
    _args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Reports the first packet as aborted and leaves it in the node.
unsafe extern "win64-unwind" fn keeps_work_after_reset(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    args.LastAbortedFenceId = board.gpu.done(args.NodeOrdinal).next().0;
    STATUS_SUCCESS
}

/// Reports an aborted fence beyond the node's submitted packets.
unsafe extern "win64-unwind" fn reports_unsubmitted_aborted_fence(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { reset_engine(adapter, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    unsafe { (*args).LastAbortedFenceId += 100 };
    status
}

/// Reports fences as the good driver does, and does not return the last one.
unsafe extern "win64-unwind" fn omits_current_fence(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYCURRENTFENCE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut copy = unsafe { args.read() };
    // SAFETY: The handle comes from the kernel, and `copy` outlives the call.
    unsafe { query_current_fence(adapter, &raw mut copy) }
}

/// Succeeds without a mask of nodes.
unsafe extern "win64-unwind" fn omits_dependent_nodes(
    _adapter: HANDLE,
    _args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Resets the engine and does not write the last aborted fence.
unsafe extern "win64-unwind" fn omits_aborted_fence(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut copy = unsafe { args.read() };
    // SAFETY: The handle comes from the kernel, and `copy` outlives the call.
    unsafe { reset_engine(adapter, &raw mut copy) }
}

/// Resets the engine and returns zero as the last aborted fence.
unsafe extern "win64-unwind" fn reports_zero_aborted_fence(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { reset_engine(adapter, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    unsafe { (*args).LastAbortedFenceId = 0 };
    status
}

/// Reports an aborted packet for a node without work.
unsafe extern "win64-unwind" fn reports_abort_on_idle(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let node = unsafe { (*args).NodeOrdinal };
    // SAFETY: The handle is the adapter's.
    let idle =
        unsafe { board(adapter) }.is_some_and(|board| board.holds_work(Some(node)) == Some(false));
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { reset_engine(adapter, args) };
    if idle {
        // SAFETY: The kernel passes a valid structure that only the driver uses.
        unsafe { (*args).LastAbortedFenceId += 1 };
    }
    status
}

/// Returns a failure.
unsafe extern "win64-unwind" fn does_not_reset(_adapter: HANDLE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Returns success and does nothing.
unsafe extern "win64-unwind" fn skips_reset_from_timeout(_adapter: HANDLE) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Reports the last fence from before the reset again.
unsafe extern "win64-unwind" fn reports_fence_after_reset(adapter: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(it) = unsafe { find::<Adapter>(adapter) } {
        it.synchronize(report_old_fence, adapter, 0);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { restart_from_timeout(adapter) }
}

unsafe extern "win64-unwind" fn report_old_fence(context: PVOID) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        it.notify_interrupt(0, it.board().done(0));
        it.queue_dpc();
    }
    // SAFETY: As above.
    unsafe { report_late(context) }
}

/// Resets its hardware and keeps the fences from before the reset.
unsafe extern "win64-unwind" fn keeps_fence_after_reset(adapter: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    let before: Vec<Fence> = (0..NODES).map(|node| board.done(node)).collect();
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { reset_from_timeout(adapter) };
    for (node, fence) in (0..NODES).zip(before) {
        board.set_last_fence(node, fence);
    }
    status
}

/// Ends its debug report with a NUL for which the buffer has no room.
unsafe extern "win64-unwind" fn overruns_debug_info(
    adapter: HANDLE,
    args: *const DXGKARG_COLLECTDBGINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    let end = given.pBuffer.cast::<u8>().wrapping_add(given.BufferSize);
    // SAFETY: The write is out of bounds: the planted bug. Guard bytes lie there.
    unsafe { end.write(0) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { collect_dbg_info(adapter, args) }
}

/// Accesses its hardware whenever it builds a paging buffer.
unsafe extern "win64-unwind" fn touches_hardware_during_reset(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    if let Some(board) = unsafe { board(adapter) } {
        board.packets();
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { build_paging_buffer(adapter, args) }
}
