//! Callbacks for interrupts: what a driver reports in its interrupt routine and in its DPC, under
//! their Windows names.
//!
//! There is one interrupt line, and no message-signaled interrupt: a message number is zero.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{Below, door_from_handle, read, write};
use crate::door::Door;
use crate::interface::row;
use crate::query::judge;
use abi::display::{
    DXGK_INTERRUPT_CRTC_VSYNC, DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY,
    DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS, DXGK_INTERRUPT_DISPLAYONLY_VSYNC,
    DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DMA_FAULTED, DXGK_INTERRUPT_DMA_PAGE_FAULTED,
    DXGK_INTERRUPT_DMA_PREEMPTED, DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE,
    DXGK_PAGE_FAULT_FENCE_INVALID, DXGKARGCB_NOTIFY_INTERRUPT_DATA,
};
use abi::miniport::KSYNCHRONIZE_ROUTINE;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::{DeviceLevel, EventKind, Fence, RuleId, Text, resume_internal_error};
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::Generation;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

macro_rules! named {
    ($($name:ident)*) => { &[$(($name, stringify!($name))),*] };
}

/// Interrupt types that the kernel does not handle yet.
const UNHANDLED_INTERRUPTS: &[(i32, &str)] = named! {
    DXGK_INTERRUPT_DISPLAYONLY_VSYNC DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY
    DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE
};

/// Queues the DPC, at any level.
pub(crate) extern "win64-unwind" fn DxgkCbQueueDpc(handle: HANDLE) -> BOOLEAN {
    let row = row::DxgkCbQueueDpc;
    row.answer(
        || door_from_handle(handle, row.name),
        0,
        |door, _| door.services().queue_dpc().into(),
    )
}

/// Reports the reason for an interrupt.
///
/// # Safety
///
/// `data` is null or points to a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbNotifyInterrupt(
    handle: HANDLE,
    data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA,
) {
    let row = row::DxgkCbNotifyInterrupt;
    let address = data.addr();
    // SAFETY: The caller guarantees the same.
    let data = unsafe { read(data) };
    row.answer(
        || door_from_handle(handle, row.name),
        (),
        |door, at| {
            let (services, name) = (door.services(), row.name);
            let Some(data) = data else { return };
            // Other accesses of the routine are invisible; the kernel reads this structure at its
            // level.
            let paged = services.pool().is_paged(address).then(|| {
                format!("{name} was given a structure in paged pool, but is called at device")
            });
            judge(services, RuleId::KMD_ISR_003, name, paged);
            complete_submissions(door, &data);
            notify_kernel(services, at, &data);
        },
    );
}

/// Records the fence that a driver reports as its last completed one.
fn complete_submissions(door: &Door, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
    let (node, fence) = match data.InterruptType {
        DXGK_INTERRUPT_DMA_COMPLETED => {
            let done = data.dma_completed();
            (done.NodeOrdinal, done.SubmissionFenceId)
        }
        DXGK_INTERRUPT_DMA_PREEMPTED => {
            let done = data.dma_preempted();
            (done.NodeOrdinal, done.LastCompletedFenceId)
        }
        _ => return,
    };
    door.dma_buffers().complete(node, Fence(fence));
}

/// Notifies the kernel of what a driver reports.
fn notify_kernel(
    services: &KernelCallbacks,
    at: &mut DeviceLevel,
    data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA,
) {
    match data.InterruptType {
        DXGK_INTERRUPT_DMA_COMPLETED => {
            let done = data.dma_completed();
            judge_engine(services, done.EngineOrdinal);
            services.notify_interrupt(at, done.NodeOrdinal, Fence(done.SubmissionFenceId));
        }
        DXGK_INTERRUPT_DMA_PREEMPTED => {
            let it = data.dma_preempted();
            judge_engine(services, it.EngineOrdinal);
            let (preemption, done) = (Fence(it.PreemptionFenceId), Fence(it.LastCompletedFenceId));
            services.notify_preempted(at, it.NodeOrdinal, preemption, done);
        }
        // WINDOWS: reserved in the enumeration, described in the structure: it is for WDDM 1.x
        // drivers (D-43).
        DXGK_INTERRUPT_DMA_FAULTED => {
            let fault = data.dma_faulted();
            let reserved = services.generation() == Some(Generation::Two);
            let broken = reserved.then(|| {
                "the driver reported DXGK_INTERRUPT_DMA_FAULTED, which is reserved: a fault is \
                 reported as DXGK_INTERRUPT_DMA_PAGE_FAULTED"
                    .to_owned()
            });
            judge_fault(services, "DxgkCbNotifyInterrupt.InterruptType", broken);
            judge_engine(services, fault.EngineOrdinal);
            let fence = Fence(fault.FaultedFenceId);
            services.notify_fault(at, fault.NodeOrdinal, fence, None);
        }
        // WINDOWS: the fault has an address, and no allocation.
        DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
            let fault = data.dma_page_faulted();
            let (fence, node) = (fault.FaultedFenceId, fault.NodeOrdinal);
            let unknown = fault.PageFaultFlags & DXGK_PAGE_FAULT_FENCE_INVALID != 0;
            let broken = match (unknown, fence) {
                (true, 1..) => Some(format!(
                    "FaultedFenceId is {fence}, but DXGK_PAGE_FAULT_FENCE_INVALID says that it \
                     is not known: then it is zero"
                )),
                (false, 0) => Some(
                    "FaultedFenceId is 0, but DXGK_PAGE_FAULT_FENCE_INVALID does not say that it \
                     is not known"
                        .to_owned(),
                ),
                _ => None,
            };
            judge_fault(services, "DxgkCbNotifyInterrupt.DmaPageFaulted", broken);
            judge_engine(services, fault.EngineOrdinal);
            if unknown || fence == 0 {
                services.notify_unknown_fault(at, node);
            } else {
                let address = fault.FaultedVirtualAddress;
                services.notify_page_fault(at, node, Fence(fence), address);
            }
        }
        DXGK_INTERRUPT_CRTC_VSYNC | DXGK_INTERRUPT_DISPLAYONLY_VSYNC => services.notify_vsync(at),
        other => {
            let name = interrupt_name(other);
            services.log().emit(services.adapter(), || EventKind::EntryMissing { name });
        }
    }
}

/// Entry rule: there are no linked adapters here, so a node has one engine.
fn judge_engine(services: &KernelCallbacks, engine: u32) {
    let text = || format!("EngineOrdinal is {engine}, but the adapter is in no link: it is 0");
    let place = "DxgkCbNotifyInterrupt.EngineOrdinal";
    judge(services, RuleId::KMD_ISR_009, place, (engine != 0).then(text));
}

fn judge_fault(services: &KernelCallbacks, place: &'static str, broken: Option<String>) {
    judge(services, RuleId::KMD_ISR_010, place, broken);
}

/// Reports that the DPC has run, so that the kernel processes the reported interrupts.
pub(crate) extern "win64-unwind" fn DxgkCbNotifyDpc(handle: HANDLE) {
    let row = row::DxgkCbNotifyDpc;
    row.answer(
        || door_from_handle(handle, row.name),
        (),
        |door, at| {
            door.services().notify_dpc(at);
            door.dma_buffers().end_completed();
        },
    );
}

/// Runs a routine of the driver while the interrupt is held off.
///
/// # Safety
///
/// The routine may be called with `context`, and `value` is null or valid for the write of its
/// result.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbSynchronizeExecution(
    handle: HANDLE,
    routine: Option<KSYNCHRONIZE_ROUTINE>,
    context: PVOID,
    message: u32,
    value: *mut BOOLEAN,
) -> NTSTATUS {
    let row = row::DxgkCbSynchronizeExecution;
    let mut panicked = None;
    let status = row.answer(
        || door_from_handle(handle, row.name),
        STATUS_INVALID_PARAMETER,
        |door, at| {
            let services = door.services();
            let text = || format!("MessageNumber is {message}, but a line interrupt has 0");
            let place = "DxgkCbSynchronizeExecution.MessageNumber";
            if !judge(services, RuleId::KMD_ISR_013, place, (message != 0).then(text)) {
                return STATUS_INVALID_PARAMETER;
            }
            let Some(routine) = routine else { return STATUS_INVALID_PARAMETER };
            let run = || {
                // SAFETY: The caller guarantees the same.
                nt::processor::run_nested(&**services.host(), || unsafe { routine(context) })
            };
            let guarded = || catch_unwind(AssertUnwindSafe(run)).map_err(resume_internal_error);
            services.begin_synchronized();
            let ran = door.with_interrupt_held(|| at_device_level(at, guarded));
            services.end_synchronized();
            match ran {
                Ok(answer) => {
                    // SAFETY: The caller guarantees the same.
                    unsafe { write(value, answer) };
                    STATUS_SUCCESS
                }
                Err(why) => {
                    panicked = Some(why);
                    STATUS_UNSUCCESSFUL
                }
            }
        },
    );
    // The panic is the driver's: it propagates to the caller of the driver.
    if let Some(why) = panicked {
        resume_unwind(why);
    }
    status
}

/// Runs `body` at device level.
fn at_device_level<R>(at: Below<'_>, body: impl FnOnce() -> R) -> R {
    match at {
        Below::Passive(at) => at.raised(|_: &mut DeviceLevel| body()),
        Below::Dispatch(at) => at.raised(|_| body()),
    }
}

fn interrupt_name(kind: i32) -> Text {
    let known = UNHANDLED_INTERRUPTS.iter().find(|pair| pair.0 == kind);
    known.map_or_else(|| format!("interrupt type {kind}").into(), |(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn an_interrupt_that_is_not_heard_has_a_name() {
        let name = interrupt_name(DXGK_INTERRUPT_DISPLAYONLY_VSYNC);
        assert_eq!(name, "DXGK_INTERRUPT_DISPLAYONLY_VSYNC");
        assert_eq!(interrupt_name(-7), "interrupt type -7");
        let heard = [DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_CRTC_VSYNC];
        assert!(UNHANDLED_INTERRUPTS.iter().all(|pair| !heard.contains(&pair.0)));
    }

    #[test]
    fn what_comes_for_no_door_is_answered_with_nothing() {
        let unknown = ptr::without_provenance_mut(usize::MAX);
        assert_eq!(DxgkCbQueueDpc(unknown), 0);
        DxgkCbNotifyDpc(unknown);
        // SAFETY: Null is allowed.
        unsafe { DxgkCbNotifyInterrupt(unknown, ptr::null()) };
        let null = ptr::null_mut();
        // SAFETY: The routine is `None`, and null is allowed.
        let status = unsafe { DxgkCbSynchronizeExecution(unknown, None, null, 0, null.cast()) };
        assert_eq!(status, STATUS_INVALID_PARAMETER);
    }
}
