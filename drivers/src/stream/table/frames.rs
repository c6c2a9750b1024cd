//! The frames of a pin: queued, filled by the hardware, cancelled, or completed.
//!
//! # Safety
//!
//! As for the module of the tables.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::pin_calls::{Pin, now, own};
use crate::stream::pattern::{BYTES, INTERVAL, picture};
use abi::ks::{
    KSPIN, KSSTREAM_HEADER, KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY,
    KSSTREAM_HEADER_OPTIONSF_DURATIONVALID, KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM,
    KSSTREAM_HEADER_OPTIONSF_TIMEVALID, KSSTREAM_POINTER, KSSTREAM_POINTER_STATE_LOCKED, KSTIME,
    PFNKSSTREAMPOINTER,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{NTSTATUS, nt_success};
use port::ks::{
    KsPinGetFirstCloneStreamPointer, KsPinGetLeadingEdgeStreamPointer, KsStreamPointerAdvance,
    KsStreamPointerClone, KsStreamPointerDelete, KsStreamPointerLock,
    KsStreamPointerScheduleTimeout, KsStreamPointerUnlock,
};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

/// # Safety
///
/// The pin is open.
pub(crate) unsafe fn delete_clones(pin: *mut KSPIN) {
    loop {
        // SAFETY: The caller upholds this function's contract.
        let clone = unsafe { KsPinGetFirstCloneStreamPointer(pin) };
        if clone.is_null() {
            break;
        }
        // SAFETY: The pointer is valid.
        unsafe { KsStreamPointerDelete(clone) };
    }
    // SAFETY: The caller upholds this function's contract.
    if let Some(own) = unsafe { own(pin) } {
        own.in_flight.store(0, SeqCst);
    }
}

pub(crate) unsafe extern "win64-unwind" fn reset_pin(pin: *mut KSPIN) {
    // SAFETY: The pin is open.
    unsafe { delete_clones(pin) };
}

/// Passes every frame in the queue to the hardware.
pub(crate) unsafe extern "win64-unwind" fn process_pin(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(timed_out)) }
}

/// As above, with another routine for a full frame.
///
/// # Safety
///
/// The pin is open, and the routine accepts a clone of its leading edge.
pub(crate) unsafe fn process_with(pin: *mut KSPIN, full: Option<PFNKSSTREAMPOINTER>) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    unsafe { process_how(pin, full, Some(cancelled), false) }
}

/// As above, with another routine for a cancelled frame. Clones may be locked while they wait or
/// not.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn process_how(
    pin: *mut KSPIN,
    full: Option<PFNKSSTREAMPOINTER>,
    cancel: Option<PFNKSSTREAMPOINTER>,
    unlocks_clones: bool,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    let Some(own) = (unsafe { own(pin) }) else { return STATUS_INVALID_PARAMETER };
    loop {
        // SAFETY: As above.
        let edge = unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
        if edge.is_null() {
            return STATUS_SUCCESS;
        }
        let mut clone = ptr::null_mut();
        // SAFETY: The leading edge is valid, and the second argument can be written.
        let status = unsafe { KsStreamPointerClone(edge, cancel, 0, &raw mut clone) };
        if !nt_success(status) {
            return status;
        }
        let before = u64::from(own.in_flight.fetch_add(1, SeqCst)) + 1;
        // SAFETY: The clone has not been deleted.
        unsafe { KsStreamPointerScheduleTimeout(clone, full, before * INTERVAL) };
        if unlocks_clones {
            // SAFETY: As above.
            unsafe { KsStreamPointerUnlock(clone, 0) };
        }
        // SAFETY: The leading edge is valid.
        if !nt_success(unsafe { KsStreamPointerAdvance(edge) }) {
            return STATUS_SUCCESS; // The last frame: the edge is not locked any more.
        }
    }
}

/// Passes frames to the hardware that can be cancelled there.
pub(crate) unsafe extern "win64-unwind" fn process_unlocking(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_how(pin, Some(locked_then), Some(cancelled_in_flight), true) }
}

/// Completes the frame of a clone, if it was not cancelled.
pub(crate) unsafe extern "win64-unwind" fn locked_then(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    if nt_success(unsafe { KsStreamPointerLock(clone) }) {
        // SAFETY: The memory is locked now.
        unsafe { fill(clone) };
    }
    // SAFETY: The clone has not been deleted.
    unsafe { KsStreamPointerDelete(clone) };
}

/// Decrements the number of frames that the hardware has.
unsafe extern "win64-unwind" fn cancelled_in_flight(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    let pin = unsafe { (*clone).Pin };
    // SAFETY: A stream pointer has a pin.
    if let Some(own) = unsafe { own(pin) } {
        own.in_flight.fetch_update(SeqCst, SeqCst, |number| number.checked_sub(1)).ok();
    }
    // SAFETY: The clone has not been deleted.
    unsafe { cancelled(clone) };
}

/// The cancel callback of a clone.
pub(crate) unsafe extern "win64-unwind" fn cancelled(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    unsafe { KsStreamPointerDelete(clone) };
}

/// The callback for a full frame.
pub(crate) unsafe extern "win64-unwind" fn timed_out(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    unsafe { fill(clone) };
    // SAFETY: As above.
    unsafe { KsStreamPointerDelete(clone) };
}

/// Simulates the hardware. Returns what it wrote.
///
/// # Safety
///
/// The stream pointer is valid and locked.
pub(crate) unsafe fn fill(at: *mut KSSTREAM_POINTER) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { fill_at(at, |own, _| now(own)) };
}

/// As above, synchronously: each picture is one interval later than the previous, whatever the
/// time.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn fill_in_turn(at: *mut KSSTREAM_POINTER) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { fill_at(at, |_, number| in_turn(number)) };
}

/// The time of a picture that took no time to make.
pub(crate) fn in_turn(number: u64) -> i64 {
    i64::try_from(number.saturating_add(1).saturating_mul(INTERVAL)).unwrap_or(i64::MAX)
}

/// # Safety
///
/// As above.
unsafe fn fill_at(at: *mut KSSTREAM_POINTER, time: impl FnOnce(&Pin, u64) -> i64) {
    // SAFETY: The caller upholds this function's contract.
    let pin = unsafe { (*at).Pin };
    // SAFETY: A stream pointer has a pin.
    let Some(own) = (unsafe { own(pin) }) else { return };
    // SAFETY: The caller upholds this function's contract.
    let header = unsafe { (*at).StreamHeader };
    if header.is_null() {
        return;
    }
    own.in_flight.fetch_update(SeqCst, SeqCst, |number| number.checked_sub(1)).ok();
    let number = own.pictures.fetch_add(1, SeqCst);
    // SAFETY: A frame has its header.
    let raw = unsafe { header.read() };
    let bytes = picture(number);
    let used = raw.FrameExtent.min(BYTES);
    let data = raw.Data.cast::<u8>();
    // SAFETY: The frame has this length, and no other component uses it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data, used as usize) };
    let last = own.frame_limit.load(SeqCst) == number + 1;
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    let header_now = KSSTREAM_HEADER {
        PresentationTime: KSTIME { Time: time(own, number), Numerator: 1, Denominator: 1 },
        Duration: i64::try_from(INTERVAL).unwrap_or(0),
        DataUsed: used,
        OptionsFlags: KSSTREAM_HEADER_OPTIONSF_TIMEVALID
            | KSSTREAM_HEADER_OPTIONSF_DURATIONVALID
            | flag(number == 0, KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY)
            | flag(last, KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM),
        ..raw
    };
    // SAFETY: A frame has its header.
    unsafe { header.write(header_now) };
}
