//! A pin: its pool block, format, state, and the reference clock it holds while not stopped.
//!
//! # Safety
//!
//! As for the module of the tables.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::device_calls::Device;
use super::frames::delete_clones;
use crate::block::{Kind, find, free, take};
use crate::stream::pattern::BYTES;
use abi::ks::{
    IKsReferenceClock, KSALLOCATOR_FRAMING_EX, KSATTRIBUTE_LIST, KSDATAFORMAT, KSDATARANGE,
    KSMULTIPLE_ITEM, KSPIN, KSPIN_DESCRIPTOR_EX, KSSTATE, KSSTATE_ACQUIRE, KSSTATE_STOP,
    MEDIASUBTYPE_RGB32,
};
use abi::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_NO_MATCH, STATUS_SUCCESS,
};
use abi::{NTSTATUS, PIRP, nt_success};
use port::ks::{_KsEdit, KsAddItemToObjectBag, KsGetDevice, KsPinGetReferenceClockInterface};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

const TAG: u32 = u32::from_le_bytes(*b"WtKs");

/// A pin (`KSPIN.Context`).
#[repr(C)]
#[derive(Default)]
pub(crate) struct Pin {
    /// The number of pictures begun, and the number the format requests: zero means no end.
    pub(crate) pictures: AtomicU64,
    pub(crate) frame_limit: AtomicU64,
    /// The number of frames that the hardware has.
    pub(crate) in_flight: AtomicU32,
    clock: AtomicPtr<IKsReferenceClock>,
    /// The context of the pin's allocator. A good driver does not use it.
    pub(crate) allocator: AtomicPtr<std::ffi::c_void>,
}

impl Kind for Pin {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kpin");
}

/// Returns the driver's data of a pin.
///
/// # Safety
///
/// The pin is open.
pub(crate) unsafe fn own<'a>(pin: *mut KSPIN) -> Option<&'a Pin> {
    // SAFETY: The caller upholds this function's contract.
    let context = unsafe { (*pin).Context };
    // SAFETY: The context is the pin's block, which lives as long as the pin.
    unsafe { find::<Pin>(context) }
}

/// The context of a pin is in the pin's object bag, so closing the pin frees it.
pub(crate) unsafe extern "win64-unwind" fn create_pin(pin: *mut KSPIN, _irp: PIRP) -> NTSTATUS {
    let context = take(Pin::default());
    if context.is_null() {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    // SAFETY: The structure is valid.
    let bag = unsafe { (*pin).Bag };
    // SAFETY: The pointer is pool memory and needs no free routine.
    let status = unsafe { KsAddItemToObjectBag(bag, context, None) };
    if !nt_success(status) {
        // SAFETY: No other component uses it.
        unsafe { free(context) };
        return status;
    }
    // SAFETY: The context is the driver's.
    unsafe { (*pin).Context = context };
    // SAFETY: The pin is open.
    unsafe { count_frames(pin) };
    STATUS_SUCCESS
}

/// Reads the number of pictures that the format requests, which follows the format.
///
/// # Safety
///
/// The pin is open and has its context.
unsafe fn count_frames(pin: *mut KSPIN) {
    // SAFETY: The caller upholds this function's contract.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format.
    let size = unsafe { (*format).FormatSize } as usize;
    let block = format.wrapping_add(1).cast::<u32>();
    let more = size >= size_of::<KSDATAFORMAT>() + size_of::<u32>();
    // SAFETY: The buffer has this length.
    let frame_limit = if more { unsafe { block.read_unaligned() } } else { 0 };
    // SAFETY: The caller upholds this function's contract.
    if let Some(own) = unsafe { own(pin) } {
        own.frame_limit.store(frame_limit.into(), SeqCst);
    }
}

pub(crate) unsafe extern "win64-unwind" fn close_pin(pin: *mut KSPIN, _irp: PIRP) -> NTSTATUS {
    // SAFETY: The caller knows the structure.
    let device = unsafe { KsGetDevice(pin.cast()) };
    if let Some(device) = (!device.is_null()).then_some(device) {
        // SAFETY: The pointer is valid.
        let context = unsafe { (*device).Context };
        // SAFETY: The context is the device's, which has not been removed.
        if let Some(it) = unsafe { find::<Device>(context) } {
            it.last.store(pin, SeqCst);
        }
    }
    STATUS_SUCCESS
}

pub(super) unsafe extern "win64-unwind" fn connect_pin(_pin: *mut KSPIN) -> NTSTATUS {
    STATUS_SUCCESS
}

pub(super) unsafe extern "win64-unwind" fn disconnect_pin(_pin: *mut KSPIN) {}

/// Accepts pictures of four bytes per pixel. For larger pictures it enlarges the frames.
pub(crate) unsafe extern "win64-unwind" fn set_format(
    pin: *mut KSPIN,
    _old: *mut KSDATAFORMAT,
    _attributes: *mut KSMULTIPLE_ITEM,
    _range: *const KSDATARANGE,
    _list: *const KSATTRIBUTE_LIST,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format.
    let format = unsafe { format.read() };
    if format.SubFormat != MEDIASUBTYPE_RGB32 {
        return STATUS_NO_MATCH;
    }
    if format.SampleSize <= BYTES {
        return STATUS_SUCCESS;
    }
    // SAFETY: The pin is open.
    unsafe { grow(pin, format.SampleSize) }
}

/// Enlarges the frames of one pin, in a copy of its descriptor (`KsEdit`).
///
/// # Safety
///
/// The pin is open.
#[expect(clippy::cast_possible_truncation, reason = "Windows structures are small")]
pub(crate) unsafe fn grow(pin: *mut KSPIN, bytes: u32) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let bag = unsafe { (*pin).Bag };
    let size = size_of::<KSPIN_DESCRIPTOR_EX>() as u32;
    // SAFETY: The output can hold a pointer, and the descriptor has this length.
    let place = unsafe { &raw mut (*pin).Descriptor };
    // SAFETY: As above.
    let status = unsafe { _KsEdit(bag, place.cast(), size, size, TAG) };
    if !nt_success(status) {
        return status;
    }
    // SAFETY: The copy is the driver's.
    let descriptor = unsafe { (*pin).Descriptor }.cast_mut();
    let size = size_of::<KSALLOCATOR_FRAMING_EX>() as u32;
    // SAFETY: As above.
    let place = unsafe { &raw mut (*descriptor).AllocatorFraming };
    // SAFETY: As above.
    let status = unsafe { _KsEdit(bag, place.cast(), size, size, TAG) };
    if !nt_success(status) {
        return status;
    }
    // SAFETY: The copy is the driver's.
    let framing = unsafe { (*descriptor).AllocatorFraming }.cast_mut();
    // SAFETY: As above.
    let item = unsafe { &raw mut (*framing).FramingItem[0] };
    // SAFETY: As above.
    unsafe { (*item).FramingRange.Range.MaxFrameSize = bytes };
    STATUS_SUCCESS
}

/// Holds a clock while not stopped, and has no frame in flight when stopped.
pub(crate) unsafe extern "win64-unwind" fn set_state(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    let Some(own) = (unsafe { own(pin) }) else { return STATUS_INVALID_PARAMETER };
    if to == KSSTATE_ACQUIRE && from == KSSTATE_STOP {
        let mut clock = ptr::null_mut();
        // SAFETY: The argument points at a writable pointer.
        if nt_success(unsafe { KsPinGetReferenceClockInterface(pin, &raw mut clock) }) {
            own.clock.store(clock, SeqCst);
        }
    }
    if to == KSSTATE_STOP {
        // SAFETY: The pin is open.
        unsafe { delete_clones(pin) };
        // SAFETY: As above.
        unsafe { release_clock(pin) };
    }
    STATUS_SUCCESS
}

/// # Safety
///
/// The pin is open.
pub(crate) unsafe fn release_clock(pin: *mut KSPIN) {
    // SAFETY: The caller upholds this function's contract.
    let Some(own) = (unsafe { own(pin) }) else { return };
    let clock = own.clock.swap(ptr::null_mut(), SeqCst);
    // SAFETY: The clock was acquired and has not been released.
    unsafe { release(clock) };
}

/// # Safety
///
/// The clock is NULL, or was acquired and has not been released.
pub(crate) unsafe fn release(clock: *mut IKsReferenceClock) {
    if clock.is_null() {
        return;
    }
    // SAFETY: The caller upholds this function's contract.
    let table = unsafe { (*clock).lpVtbl };
    // SAFETY: A clock has its table.
    if let Some(call) = unsafe { (*table).Release } {
        // SAFETY: As above.
        unsafe { call(clock) };
    }
}

/// Returns the time of the pin's clock.
pub(super) fn now(own: &Pin) -> i64 {
    let clock = own.clock.load(SeqCst);
    if clock.is_null() {
        return 0;
    }
    // SAFETY: The clock is released only when the pin stops, and nothing is filled after that.
    let table = unsafe { (*clock).lpVtbl };
    // SAFETY: A clock has its table.
    let call = unsafe { (*table).GetTime };
    // SAFETY: As above.
    call.map_or(0, |call| unsafe { call(clock) })
}
