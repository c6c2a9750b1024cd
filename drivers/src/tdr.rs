//! Preemption, cancellation and recovery of the table driver.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::find;
use crate::table::Adapter;
use abi::display::{
    DXGK_INTERRUPT_DMA_PREEMPTED, DXGKARG_CANCELCOMMAND, DXGKARG_COLLECTDBGINFO,
    DXGKARG_PREEMPTCOMMAND, DXGKARG_QUERYCURRENTFENCE, DXGKARG_QUERYDEPENDENTENGINEGROUP,
    DXGKARG_QUERYENGINESTATUS, DXGKARG_RESETENGINE, DXGKARGCB_NOTIFY_INTERRUPT_DATA, DmaPreempted,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::Fence;
use softgpu::NODES;

impl Adapter {
    /// Reports that a node has preempted the packets it had not begun.
    pub(crate) fn notify_preempted(&self, node: u32, preemption: Fence, last: Fence) {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA {
            InterruptType: DXGK_INTERRUPT_DMA_PREEMPTED,
            ..DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO
        };
        data.set_dma_preempted(DmaPreempted {
            PreemptionFenceId: preemption.0,
            LastCompletedFenceId: last.0,
            NodeOrdinal: node,
            EngineOrdinal: 0,
        });
        self.notify(&data);
    }

    /// Reports completed and preempted packets of all nodes. Returns whether there were any.
    pub(crate) fn report(&self) -> bool {
        let mut ours = false;
        for node in 0..NODES {
            if self.board().acknowledge(node) {
                let (faults, done) = (self.board().faulted(node), self.board().done(node));
                // A report covers all earlier packets.
                for (fence, address) in &faults {
                    self.notify_fault_at(node, *fence, 0, *address);
                }
                if faults.last().map(|pair| pair.0) != Some(done) {
                    self.notify_interrupt(node, done);
                }
                ours = true;
            }
            // The preemption is a node's last report.
            if let Some(preemption) = self.board().preempted(node) {
                self.notify_preempted(node, preemption, self.board().done(node));
                ours = true;
            }
        }
        ours
    }
}

/// Reports what ended since the last report, synchronized with the interrupt.
pub(crate) unsafe extern "win64-unwind" fn report_late(context: PVOID) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    let text = adapter.report();
    if text {
        adapter.queue_dpc();
    }
    text.into()
}

pub(crate) unsafe extern "win64-unwind" fn preempt_command(
    adapter: HANDLE,
    args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // The hardware interrupts after the preemption even if the node had no packets.
    known.board().gpu.preempt(args.NodeOrdinal, Fence(args.PreemptionFenceId));
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn query_current_fence(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYCURRENTFENCE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let status = known.synchronize(report_late, adapter, 0);
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    args.CurrentFence = known.board().done(args.NodeOrdinal).0;
    status
}

/// Does nothing: the driver keeps nothing for a packet before the hardware has it.
pub(crate) unsafe extern "win64-unwind" fn cancel_command(
    _adapter: HANDLE,
    args: *const DXGKARG_CANCELCOMMAND,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if args.hContext.is_null() { STATUS_INVALID_PARAMETER } else { STATUS_SUCCESS }
}

pub(crate) unsafe extern "win64-unwind" fn query_engine_status(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYENGINESTATUS,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    args.EngineStatus.Responsive = known.board().gpu.is_responsive(args.NodeOrdinal).into();
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn query_dependent_engine_group(
    _adapter: HANDLE,
    args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    args.DependentNodeOrdinalMask = 1_u64.checked_shl(args.NodeOrdinal).unwrap_or(0);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn reset_engine(
    adapter: HANDLE,
    args: *mut DXGKARG_RESETENGINE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // A completed packet is not lost by the reset.
    let status = known.synchronize(report_late, adapter, 0);
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    args.LastAbortedFenceId = known.board().reset_node(args.NodeOrdinal).0;
    status
}

pub(crate) unsafe extern "win64-unwind" fn reset_from_timeout(adapter: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // An interrupt routine that has begun must not report a fence after the reset.
    known.synchronize(reset_nodes, adapter, 0)
}

/// Runs synchronized with the interrupt routine.
unsafe extern "win64-unwind" fn reset_nodes(context: PVOID) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else { return 0 };
    adapter.board().reset_nodes();
    1
}

/// Does nothing: the engines accept packets again without a restart.
pub(crate) unsafe extern "win64-unwind" fn restart_from_timeout(adapter: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    if known.is_some() { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

pub(crate) unsafe extern "win64-unwind" fn collect_dbg_info(
    adapter: HANDLE,
    args: *const DXGKARG_COLLECTDBGINFO,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    let room = args.BufferSize / size_of::<u32>();
    for (node, at) in (0..NODES).zip(0..room) {
        let place = args.pBuffer.cast::<u32>().wrapping_add(at);
        // SAFETY: The buffer has this length.
        unsafe { place.write_unaligned(known.board().done(node).0) };
    }
    STATUS_SUCCESS
}
