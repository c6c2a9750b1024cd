//! Preemption, cancellation and recovery through a driver's table.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::fill::{Fill, judge_outputs};
use crate::private_data::{PrivateData, pointer};
use crate::shown::{self, ShownList};
use crate::status::result_from_status;
use abi::display::{
    DXGK_ENGINESTATUS, DXGKARG_CANCELCOMMAND, DXGKARG_COLLECTDBGINFO, DXGKARG_COLLECTDBGINFO_EXT,
    DXGKARG_PREEMPTCOMMAND, DXGKARG_QUERYCURRENTFENCE, DXGKARG_QUERYDEPENDENTENGINEGROUP,
    DXGKARG_QUERYENGINESTATUS, DXGKARG_RESETENGINE, VIDEO_TDR_FAILURE, VIDEO_TDR_TIMEOUT_DETECTED,
};
use flight::Fence;
use kernel::miniport::{CancelCommandArgs, CollectReason, DriverError, DriverResult};

/// A reason other than the two that are about recovery: no bug check has the number zero.
const OTHER_REASON: u32 = 0;

impl TableDriver {
    pub(crate) fn call_preempt_command(&self, node: u32, preemption: Fence) -> DriverResult<()> {
        let call = self.table.DxgkDdiPreemptCommand.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let args = DXGKARG_PREEMPTCOMMAND {
            PreemptionFenceId: preemption.0,
            NodeOrdinal: node,
            ..DXGKARG_PREEMPTCOMMAND::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args`
                // outlives the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)
    }

    pub(crate) fn call_query_current_fence(&self, node: u32) -> DriverResult<Fence> {
        let call = self.table.DxgkDdiQueryCurrentFence.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let query = |fill: Fill| {
            let mut args = DXGKARG_QUERYCURRENTFENCE {
                CurrentFence: fill.value(),
                NodeOrdinal: node,
                ..DXGKARG_QUERYCURRENTFENCE::ZERO
            };
            let status = self.run_driver(&door, || {
                shown::in_out(&mut args, |args| {
                    // SAFETY: As above.
                    unsafe { call(pointer(context), args) }
                })
            });
            result_from_status(status).map(|()| args.CurrentFence)
        };
        let unset = |answer: &DriverResult<u32>, fill: Fill| match answer {
            Ok(fence) if fill.is_in(fence) => vec!["CurrentFence"],
            _ => Vec::new(),
        };
        let (answer, unset) = door.next_fill().query(query, unset);
        let fence = answer?;
        let is_set = judge_outputs(&door, "DxgkDdiQueryCurrentFence", &unset);
        Ok(Fence(if is_set { fence } else { 0 }))
    }

    pub(crate) fn call_cancel_command(&self, packet: &CancelCommandArgs<'_>) -> DriverResult<()> {
        let call = self.table.DxgkDdiCancelCommand.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut private = PrivateData::copy(packet.private)?;
        let args = DXGKARG_CANCELCOMMAND {
            hContext: pointer(packet.context.as_raw()),
            DmaBufferSize: packet.length,
            DmaBufferSubmissionEndOffset: packet.length,
            pDmaBufferPrivateData: private.pointer(),
            DmaBufferPrivateDataSize: private.size(),
            DmaBufferPrivateDataSubmissionEndOffset: private.size(),
            DmaBufferVirtualAddress: packet.commands,
            DmaBufferUmdPrivateDataSize: private.size(),
            ..DXGKARG_CANCELCOMMAND::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: As above, and `private` outlives the call, too.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)
    }

    pub(crate) fn call_query_engine_status(&self, node: u32) -> DriverResult<bool> {
        let call = self.table.DxgkDdiQueryEngineStatus.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut args =
            DXGKARG_QUERYENGINESTATUS { NodeOrdinal: node, ..DXGKARG_QUERYENGINESTATUS::ZERO };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: As above.
                unsafe { call(pointer(context), args) }
            })
        });

        let DXGK_ENGINESTATUS { Responsive: responsive, .. } = args.EngineStatus;
        result_from_status(status).map(|()| responsive != 0)
    }

    pub(crate) fn call_query_dependent_engine_group(&self, node: u32) -> DriverResult<u64> {
        let call = self.table.DxgkDdiQueryDependentEngineGroup.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let query = |fill: Fill| {
            let mut args = DXGKARG_QUERYDEPENDENTENGINEGROUP {
                NodeOrdinal: node,
                DependentNodeOrdinalMask: fill.value(),
                ..DXGKARG_QUERYDEPENDENTENGINEGROUP::ZERO
            };
            let status = self.run_driver(&door, || {
                shown::in_out(&mut args, |args| {
                    // SAFETY: As above.
                    unsafe { call(pointer(context), args) }
                })
            });
            result_from_status(status).map(|()| args.DependentNodeOrdinalMask)
        };
        let unset = |answer: &DriverResult<u64>, fill: Fill| match answer {
            Ok(mask) if fill.is_in(mask) => vec!["DependentNodeOrdinalMask"],
            _ => Vec::new(),
        };
        let (answer, unset) = door.next_fill().query(query, unset);
        let mask = answer?;
        let is_set = judge_outputs(&door, "DxgkDdiQueryDependentEngineGroup", &unset);
        // The node itself: a missing mask is one finding.
        Ok(if is_set { mask } else { 1_u64.checked_shl(node).unwrap_or(0) })
    }

    /// The last aborted fence; `None` if the driver has not set it.
    pub(crate) fn call_reset_engine(&self, node: u32) -> DriverResult<Option<Fence>> {
        let call = self.table.DxgkDdiResetEngine.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let fill = door.next_fill();
        let mut args = DXGKARG_RESETENGINE {
            NodeOrdinal: node,
            LastAbortedFenceId: fill.value(),
            ..DXGKARG_RESETENGINE::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: As above.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)?;
        // WINDOWS: the text names another member; this is the one that exists (D-44).
        let aborted = args.LastAbortedFenceId;
        Ok((!fill.is_in(&aborted)).then_some(Fence(aborted)))
    }

    pub(crate) fn call_reset_from_timeout(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiResetFromTimeout.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;

        let status = self.run_driver(&door, || {
            // SAFETY: By invariants 1 and 2 the function and `context` are valid.
            unsafe { call(pointer(context)) }
        });

        result_from_status(status)
    }

    pub(crate) fn call_restart_from_timeout(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiRestartFromTimeout.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;

        let status = self.run_driver(&door, || {
            // SAFETY: By invariants 1 and 2 the function and `context` are valid.
            unsafe { call(pointer(context)) }
        });

        result_from_status(status)
    }

    /// A driver does not return how much it wrote: it counts as the whole buffer, or as far behind
    /// it as the guard shows.
    pub(crate) fn call_collect_dbg_info(
        &self,
        reason: CollectReason,
        into: &mut [u8],
    ) -> DriverResult<usize> {
        let call = self.table.DxgkDdiCollectDbgInfo.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut notes = PrivateData::output(into)?;
        let mut extension = ShownList::new(vec![DXGKARG_COLLECTDBGINFO_EXT::ZERO]);
        let args = DXGKARG_COLLECTDBGINFO {
            Reason: match reason {
                CollectReason::Recovery => VIDEO_TDR_TIMEOUT_DETECTED,
                CollectReason::RecoveryFailed => VIDEO_TDR_FAILURE,
                CollectReason::Crash => OTHER_REASON,
            },
            pBuffer: notes.pointer(),
            BufferSize: into.len(),
            pExtension: extension.pointer(),
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        into.copy_from_slice(&notes.bytes());
        // An overrun counts also if the driver returns a failure.
        match notes.overrun() {
            Some(bytes) => Ok(into.len() + bytes),
            None => result_from_status(status).map(|()| into.len()),
        }
    }
}
