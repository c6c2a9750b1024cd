//! The way back: what a driver calls in `DXGKRNL_INTERFACE`, under the Windows names.
//!
//! A callback finds its door, says that it was called, looks at the level it finds itself at,
//! and asks the kernel. What a driver points at is copied first.
#![expect(unsafe_code, reason = "a driver calls these, with pointers of its own")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::door::Door;
use crate::gate::{at_level, called, of, read, write};
use crate::query::judge;
use abi::display::{
    DXGK_INTERRUPT_CRTC_VSYNC, DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY,
    DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS, DXGK_INTERRUPT_DISPLAYONLY_VSYNC,
    DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DMA_FAULTED, DXGK_INTERRUPT_DMA_PAGE_FAULTED,
    DXGK_INTERRUPT_DMA_PREEMPTED, DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE,
    DXGKARG_RELEASE_HANDLE, DXGKARGCB_GETHANDLEDATA, DXGKARGCB_NOTIFY_INTERRUPT_DATA,
    DXGKARGCB_RELEASEHANDLEDATA, DXGKCB_GETHANDLEDATAFLAGS,
};
use abi::miniport::KSYNCHRONIZE_ROUTINE;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::{At, DeviceLevel, Fence, Host, RuleId, Text, What};
use kernel::handle::Handle;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

macro_rules! named {
    ($($name:ident)*) => { &[$(($name, stringify!($name))),*] };
}

/// What a driver may interrupt for, and the kernel does not listen to yet.
const UNHEARD: &[(i32, &str)] = named! {
    DXGK_INTERRUPT_DMA_PREEMPTED DXGK_INTERRUPT_CRTC_VSYNC DXGK_INTERRUPT_DMA_FAULTED
    DXGK_INTERRUPT_DISPLAYONLY_VSYNC DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY
    DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE
};

/// The rule on levels that are too high, where the callback has none of its own.
const CEILING: RuleId = RuleId::CB_IRQL_001;

/// The rule on levels that are too low, where the callback has none of its own.
const FLOOR: RuleId = RuleId::WT_LEVEL_001;

/// Asks for the DPC, at any level.
pub(crate) extern "win64-unwind" fn DxgkCbQueueDpc(handle: HANDLE) -> BOOLEAN {
    const NAME: &str = "DxgkCbQueueDpc";
    called(|| of(handle, NAME), NAME, 0, |services| services.queue_dpc().into())
}

/// Reports what an interrupt was for.
///
/// # Safety
///
/// `data` points to a structure, or is null.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbNotifyInterrupt(
    handle: HANDLE,
    data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA,
) {
    const NAME: &str = "DxgkCbNotifyInterrupt";
    // SAFETY: The caller promises the same.
    let data = unsafe { read(data) };
    at_level(
        || of(handle, NAME),
        NAME,
        FLOOR,
        (),
        |services, at| {
            let At::Device(at) = at else { return Err("device") };
            match data {
                Some(data) if data.InterruptType == DXGK_INTERRUPT_DMA_COMPLETED => {
                    let done = data.dma_completed();
                    let fence = Fence(done.SubmissionFenceId);
                    services.notify_interrupt(at, done.NodeOrdinal, fence);
                }
                // WINDOWS: the fault has an address, and no allocation.
                Some(data) if data.InterruptType == DXGK_INTERRUPT_DMA_PAGE_FAULTED => {
                    let fault = data.dma_page_faulted();
                    let fence = Fence(fault.FaultedFenceId);
                    let address = fault.FaultedVirtualAddress;
                    services.notify_page_fault(at, fault.NodeOrdinal, fence, address);
                }
                Some(data) => {
                    let name = interrupt_name(data.InterruptType);
                    services.log().emit(services.adapter(), What::Absent { name });
                }
                None => {}
            }
            Ok(())
        },
    );
}

/// Says that the interrupt's work is done, so that the kernel acts on what was reported.
pub(crate) extern "win64-unwind" fn DxgkCbNotifyDpc(handle: HANDLE) {
    const NAME: &str = "DxgkCbNotifyDpc";
    at_level(
        || of(handle, NAME),
        NAME,
        CEILING,
        (),
        |services, at| {
            let low = matches!(at, At::Passive(_));
            let said = || format!("{NAME} was called at passive, but needs dispatch");
            judge(services, FLOOR, NAME, low.then(said));
            match at {
                At::Passive(_) => {}
                At::Dispatch(at) => services.notify_dpc(at),
                At::Device(_) => return Err("dispatch"),
            }
            Ok(())
        },
    );
}

/// Runs a routine of the driver's with the interrupt held back.
///
/// # Safety
///
/// The routine may be called with `context`, and `value` points to a place for its answer, or
/// is null.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbSynchronizeExecution(
    handle: HANDLE,
    routine: Option<KSYNCHRONIZE_ROUTINE>,
    context: PVOID,
    _message: u32,
    value: *mut BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbSynchronizeExecution";
    let mut panicked = None;
    let status = at_level(
        || of(handle, NAME),
        NAME,
        CEILING,
        STATUS_INVALID_PARAMETER,
        |services, at| {
            let Some(routine) = routine else { return Ok(STATUS_INVALID_PARAMETER) };
            let run = || {
                // SAFETY: The caller promises the same.
                unsafe { routine(context) }
            };
            let guarded = || catch_unwind(AssertUnwindSafe(run));
            match at_device(&**services.host(), at, guarded)? {
                Ok(answer) => {
                    // SAFETY: The caller promises the same.
                    unsafe { write(value, answer) };
                    Ok(STATUS_SUCCESS)
                }
                Err(why) => {
                    panicked = Some(why);
                    Ok(STATUS_UNSUCCESSFUL)
                }
            }
        },
    );
    // The panic is the driver's: it goes on to where the driver was called.
    if let Some(why) = panicked {
        resume_unwind(why);
    }
    status
}

/// Answers nothing: at WDDM 2 this is no way to a driver's data.
///
/// WINDOWS: observed, by two projects. Whether the slot is empty or the answer is, nobody says;
/// our reading is the latter (D-58).
pub(crate) extern "win64-unwind" fn DxgkCbGetHandleData(
    _: *const DXGKARGCB_GETHANDLEDATA,
) -> PVOID {
    at_level(Door::running, "DxgkCbGetHandleData", CEILING, ptr::null_mut(), |_, at| {
        let At::Passive(_) = at else { return Err("passive") };
        Ok(ptr::null_mut())
    })
}

/// Answers the driver's word behind a client's handle, and a number to let it go with.
///
/// WINDOWS: our reading. Any allocation or resource handle will do, and the kind that the
/// driver says is not compared, for its numbers are not published.
///
/// # Safety
///
/// `data` points to a structure, and `release` to a place for a handle; either may be null.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbAcquireHandleData(
    data: *const DXGKARGCB_GETHANDLEDATA,
    release: *mut DXGKARG_RELEASE_HANDLE,
) -> PVOID {
    // SAFETY: The caller promises the same.
    let data = unsafe { read(data) };
    let name = "DxgkCbAcquireHandleData";
    let word = at_level(Door::running, name, CEILING, None, |services, at| {
        let At::Passive(at) = at else { return Err("passive") };
        let Some(data) = data else { return Ok(None) };
        let of_device = data.Flags.has(DXGKCB_GETHANDLEDATAFLAGS::DeviceSpecific);
        let kind = data.Type.cast_unsigned();
        Ok(services.acquire(at, Handle(data.hObject), of_device, kind))
    });
    let (word, number) = word.map_or((None, 0), |(word, number)| (Some(word), number as usize));
    // SAFETY: The caller promises the same.
    unsafe { write(release, ptr::without_provenance_mut(number)) };
    word.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Lets go of what was acquired.
pub(crate) extern "win64-unwind" fn DxgkCbReleaseHandleData(data: DXGKARGCB_RELEASEHANDLEDATA) {
    at_level(Door::running, "DxgkCbReleaseHandleData", CEILING, (), |services, at| {
        let At::Passive(at) = at else { return Err("passive") };
        services.release(at, data.ReleaseHandle.addr(), data.Type.cast_unsigned());
        Ok(())
    });
}

/// Runs `body` at the device's level, from any level below it.
fn at_device<R>(host: &dyn Host, at: At<'_>, body: impl FnOnce() -> R) -> Result<R, &'static str> {
    match at {
        At::Passive(at) => Ok(at.raised(host, |_: &mut DeviceLevel| body())),
        At::Dispatch(at) => Ok(at.raised(host, |_| body())),
        At::Device(_) => Err("passive or dispatch"),
    }
}

fn interrupt_name(kind: i32) -> Text {
    let known = UNHEARD.iter().find(|it| it.0 == kind);
    known.map_or_else(|| format!("interrupt type {kind}").into(), |(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_that_is_not_heard_has_a_name() {
        assert_eq!(interrupt_name(DXGK_INTERRUPT_CRTC_VSYNC), "DXGK_INTERRUPT_CRTC_VSYNC");
        assert_eq!(interrupt_name(-7), "interrupt type -7");
        let heard = [DXGK_INTERRUPT_DMA_COMPLETED, DXGK_INTERRUPT_DMA_PAGE_FAULTED];
        assert!(UNHEARD.iter().all(|it| !heard.contains(&it.0)));
    }

    #[test]
    fn what_comes_for_no_door_is_answered_with_nothing() {
        let nobody = ptr::without_provenance_mut(usize::MAX);
        assert_eq!(DxgkCbQueueDpc(nobody), 0);
        DxgkCbNotifyDpc(nobody);
        assert!(DxgkCbGetHandleData(ptr::null()).is_null());
        let mut release = ptr::without_provenance_mut(1);
        // SAFETY: Null is allowed, and the other is a place for a handle.
        let data = unsafe { DxgkCbAcquireHandleData(ptr::null(), &raw mut release) };
        assert!(data.is_null() && release.is_null());
        // SAFETY: Null is allowed.
        unsafe { DxgkCbNotifyInterrupt(nobody, ptr::null()) };
        let null = ptr::null_mut();
        // SAFETY: There is no routine, and null is allowed.
        let status = unsafe { DxgkCbSynchronizeExecution(nobody, None, null, 0, null.cast()) };
        assert_eq!(status, STATUS_INVALID_PARAMETER);
    }
}
