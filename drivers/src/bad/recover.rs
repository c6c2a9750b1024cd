//! What goes wrong when work is to be given back, and when a GPU does not move.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::find;
use crate::board::Board;
use crate::memory::{MEMORY, build_paging_buffer};
use crate::recover::{
    collect_dbg_info, preempt_command, query_current_fence, report_late, reset_engine,
    reset_from_timeout, restart_from_timeout,
};
use crate::table::{Adapter, GOOD, interrupt_routine, query_adapter_info};
use abi::display::{
    DXGK_DRIVERCAPS, DXGKARG_BUILDPAGINGBUFFER, DXGKARG_CANCELCOMMAND, DXGKARG_COLLECTDBGINFO,
    DXGKARG_PREEMPTCOMMAND, DXGKARG_QUERYADAPTERINFO, DXGKARG_QUERYCURRENTFENCE,
    DXGKARG_QUERYDEPENDENTENGINEGROUP, DXGKARG_QUERYENGINESTATUS, DXGKARG_RESETENGINE,
    DXGKQAITYPE_DRIVERCAPS,
};
use abi::miniport::{DRIVER_INITIALIZATION_DATA, DXGKDDI_INTERRUPT_ROUTINE};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::{Fence, Machine as _};
use softgpu::NODES;

/// The good driver, which resets all of its hardware or nothing.
const RESETS_ALL: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiQueryAdapterInfo: Some(resets_no_engine), ..GOOD };

/// The good driver, with other reports of what was given back.
const fn reporting(routine: DXGKDDI_INTERRUPT_ROUTINE) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiInterruptRoutine: Some(routine), ..GOOD }
}

/// A good driver, whose resets of engines fail: it may say so.
pub(crate) const UNABLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(cannot_reset_engine), ..GOOD };
pub(crate) const REFUSES_PREEMPTION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiPreemptCommand: Some(does_not_preempt), ..GOOD };
pub(crate) const IGNORES_IDLE_PREEMPTION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiPreemptCommand: Some(unless_idle), ..GOOD };
pub(crate) const HIDES_PREEMPTION: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryCurrentFence: Some(and_hides_preempted),
    ..reporting(hides_preempted)
};
pub(crate) const PREEMPTED_AFTER_NOTHING: DRIVER_INITIALIZATION_DATA = reporting(with_wrong_last);
pub(crate) const PREEMPTED_BY_ANOTHER: DRIVER_INITIALIZATION_DATA = reporting(with_wrong_fence);
pub(crate) const HIDES_FENCE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryCurrentFence: Some(says_and_does_not_report),
    ..reporting(takes_no_interrupt)
};
pub(crate) const REFUSES_CANCEL: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCancelCommand: Some(does_not_cancel), ..GOOD };
pub(crate) const NO_ENGINE_STATUS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiQueryEngineStatus: Some(knows_no_status), ..GOOD };
pub(crate) const GROUP_WITHOUT_ITSELF: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiQueryDependentEngineGroup: Some(only_others), ..GOOD };
pub(crate) const RESET_LEAVES_WORK: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(resets_nothing), ..GOOD };
pub(crate) const ABORTS_TOO_MUCH: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetEngine: Some(and_aborts_more), ..GOOD };
pub(crate) const ABORTS_IDLE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryDependentEngineGroup: Some(all_nodes),
    DxgkDdiResetEngine: Some(and_aborts_idle),
    ..GOOD
};
pub(crate) const REFUSES_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetFromTimeout: Some(does_not_reset), ..RESETS_ALL };
pub(crate) const RESETS_IN_NAME: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetFromTimeout: Some(says_it_is_reset), ..RESETS_ALL };
pub(crate) const REFUSES_RESTART: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRestartFromTimeout: Some(does_not_reset), ..RESETS_ALL };
pub(crate) const NO_RESTART: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRestartFromTimeout: None, ..RESETS_ALL };
pub(crate) const LATE_INTERRUPT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRestartFromTimeout: Some(and_reports_again), ..RESETS_ALL };
pub(crate) const OLD_FENCES: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetFromTimeout: Some(keeps_fences), ..RESETS_ALL };
pub(crate) const NOTES_TOO_MUCH: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCollectDbgInfo: Some(and_a_byte_more), ..RESETS_ALL };
pub(crate) const TOUCHES_WHILE_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiBuildPagingBuffer: Some(and_counts_packets), ..MEMORY };

/// Answers as the good driver does, but does not reset single engines.
unsafe extern "win64-unwind" fn resets_no_engine(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { query_adapter_info(adapter, args) };
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    if status == STATUS_SUCCESS && args.Type == DXGKQAITYPE_DRIVERCAPS {
        // SAFETY: So many bytes are there at WDDM 2.0, and nobody else uses them now.
        let caps = unsafe { &mut *args.pOutputData.cast::<DXGK_DRIVERCAPS>() };
        caps.SupportPerEngineTDR = 0;
    }
    status
}

/// The hardware behind an adapter.
///
/// # Safety
///
/// The word is the adapter's, which outlives the answer.
unsafe fn board<'a>(adapter: HANDLE) -> Option<&'a Board> {
    // SAFETY: The caller promises the same.
    unsafe { find::<Adapter>(adapter) }.map(Adapter::board)
}

/// Says no.
unsafe extern "win64-unwind" fn does_not_preempt(
    _adapter: HANDLE,
    _args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Thinks that there is nothing to say of a node without work.
unsafe extern "win64-unwind" fn unless_idle(
    adapter: HANDLE,
    args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let node = unsafe { (*args).NodeOrdinal };
    // SAFETY: The word is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    if board.holds(Some(node)) == Some(false) {
        return STATUS_SUCCESS;
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { preempt_command(adapter, args) }
}

/// Reports what was given back in its own way, and the rest as the good driver does.
///
/// # Safety
///
/// As of `interrupt_routine`.
unsafe fn report_by(
    context: PVOID,
    message: u32,
    by: impl Fn(&Adapter, u32, Fence, Fence),
) -> BOOLEAN {
    // SAFETY: The word is the adapter's, which lives while its hardware runs.
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
    // SAFETY: The arguments are the kernel's.
    ours | unsafe { interrupt_routine(context, message) }
}

/// Keeps to itself that a node gave something back.
unsafe extern "win64-unwind" fn hides_preempted(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The arguments are the kernel's.
    unsafe { report_by(context, message, |_, _, _, _| ()) }
}

/// Keeps it to itself here, too.
unsafe extern "win64-unwind" fn and_hides_preempted(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYCURRENTFENCE,
) -> NTSTATUS {
    // SAFETY: The word is the adapter's.
    if let Some(board) = unsafe { board(adapter) } {
        for node in 0..NODES {
            board.preempted(node);
        }
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { query_current_fence(adapter, args) }
}

/// Says that more is done than the node was given.
unsafe extern "win64-unwind" fn with_wrong_last(context: PVOID, message: u32) -> BOOLEAN {
    let by = |it: &Adapter, node, preemption, last: Fence| {
        it.notify_preempted(node, preemption, Fence(last.0.wrapping_add(100)));
    };
    // SAFETY: The arguments are the kernel's.
    unsafe { report_by(context, message, by) }
}

/// Counts preemptions for itself.
unsafe extern "win64-unwind" fn with_wrong_fence(context: PVOID, message: u32) -> BOOLEAN {
    let by = |it: &Adapter, node, preemption: Fence, last| {
        it.notify_preempted(node, preemption.next(), last);
    };
    // SAFETY: The arguments are the kernel's.
    unsafe { report_by(context, message, by) }
}

/// Takes every interrupt for somebody else's.
unsafe extern "win64-unwind" fn takes_no_interrupt(_context: PVOID, _message: u32) -> BOOLEAN {
    0
}

/// Says what is done without reporting it.
unsafe extern "win64-unwind" fn says_and_does_not_report(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYCURRENTFENCE,
) -> NTSTATUS {
    // SAFETY: The word is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    args.CurrentFence = board.gpu.done(args.NodeOrdinal).0;
    STATUS_SUCCESS
}

/// Says no.
unsafe extern "win64-unwind" fn does_not_cancel(
    _adapter: HANDLE,
    _args: *const DXGKARG_CANCELCOMMAND,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Does not know.
unsafe extern "win64-unwind" fn knows_no_status(
    _adapter: HANDLE,
    _args: *mut DXGKARG_QUERYENGINESTATUS,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Lists the nodes that a reset hits besides the one that is reset: none.
unsafe extern "win64-unwind" fn only_others(
    _adapter: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the member is the driver's to write.
    unsafe { (*args).DependentNodeOrdinalMask = 0 };
    STATUS_SUCCESS
}

/// Says that a reset hits all nodes.
unsafe extern "win64-unwind" fn all_nodes(
    _adapter: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the member is the driver's to write.
    unsafe { (*args).DependentNodeOrdinalMask = (1 << NODES) - 1 };
    STATUS_SUCCESS
}

/// Its hardware does not do such things.
unsafe extern "win64-unwind" fn cannot_reset_engine(
    _adapter: HANDLE,
    _args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Says that what is first is over, and leaves it there.
unsafe extern "win64-unwind" fn resets_nothing(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The word is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    args.LastAbortedFenceId = board.gpu.done(args.NodeOrdinal).next().0;
    STATUS_SUCCESS
}

/// Says that more is over than the node was given.
unsafe extern "win64-unwind" fn and_aborts_more(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { reset_engine(adapter, args) };
    // SAFETY: It is a structure, and the driver's for the call.
    unsafe { (*args).LastAbortedFenceId += 100 };
    status
}

/// Says of a node without work that a packet of it is over.
unsafe extern "win64-unwind" fn and_aborts_idle(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let node = unsafe { (*args).NodeOrdinal };
    // SAFETY: The word is the adapter's.
    let idle = unsafe { board(adapter) }.is_some_and(|it| it.holds(Some(node)) == Some(false));
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { reset_engine(adapter, args) };
    if idle {
        // SAFETY: It is a structure, and the driver's for the call.
        unsafe { (*args).LastAbortedFenceId += 1 };
    }
    status
}

/// Says no.
unsafe extern "win64-unwind" fn does_not_reset(_adapter: HANDLE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// Says yes, and does nothing.
unsafe extern "win64-unwind" fn says_it_is_reset(_adapter: HANDLE) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Reports once more what was over before the reset.
unsafe extern "win64-unwind" fn and_reports_again(adapter: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the adapter's, which outlives the call.
    if let Some(it) = unsafe { find::<Adapter>(adapter) } {
        it.synchronize(reports_again, adapter, 0);
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { restart_from_timeout(adapter) }
}

unsafe extern "win64-unwind" fn reports_again(context: PVOID) -> BOOLEAN {
    // SAFETY: The word is the adapter's, which outlives the call.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        it.notify_interrupt(0, it.board().done(0));
        it.queue_dpc();
    }
    // SAFETY: As above.
    unsafe { report_late(context) }
}

/// Resets its hardware, and remembers fences from before.
unsafe extern "win64-unwind" fn keeps_fences(adapter: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the adapter's.
    let Some(board) = (unsafe { board(adapter) }) else { return STATUS_INVALID_PARAMETER };
    let before: Vec<Fence> = (0..NODES).map(|node| board.done(node)).collect();
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { reset_from_timeout(adapter) };
    for (node, fence) in (0..NODES).zip(before) {
        board.remember(node, fence);
    }
    status
}

/// Ends its notes with a NUL, for which there is no room.
unsafe extern "win64-unwind" fn and_a_byte_more(
    adapter: HANDLE,
    args: *const DXGKARG_COLLECTDBGINFO,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let given = unsafe { args.read() };
    let end = given.pBuffer.cast::<u8>().wrapping_add(given.BufferSize);
    // SAFETY: It is not: that is the fault. A guard lies there.
    unsafe { end.write(0) };
    // SAFETY: The arguments are the kernel's.
    unsafe { collect_dbg_info(adapter, args) }
}

/// Looks at its hardware whenever it is to page.
unsafe extern "win64-unwind" fn and_counts_packets(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The word is the adapter's.
    if let Some(board) = unsafe { board(adapter) } {
        board.packets();
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { build_paging_buffer(adapter, args) }
}
