//! A pin: its pool block, its format, its state, and the clock it has while it is not stopped.
//!
//! # Safety
//!
//! As the module of the tables says.
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
    /// How many pictures were begun, and how many the format asks for: zero is no end.
    pub(crate) pictures: AtomicU64,
    pub(crate) frame_limit: AtomicU64,
    /// How many frames the hardware has.
    pub(crate) in_flight: AtomicU32,
    clock: AtomicPtr<IKsReferenceClock>,
    /// The context of its allocator: a good driver does not look at it.
    pub(crate) allocator: AtomicPtr<std::ffi::c_void>,
}

impl Kind for Pin {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kpin");
}

/// The driver's own of a pin.
///
/// # Safety
///
/// The pin is there.
pub(crate) unsafe fn own<'a>(pin: *mut KSPIN) -> Option<&'a Pin> {
    // SAFETY: The caller upholds this function's contract.
    let context = unsafe { (*pin).Context };
    // SAFETY: The context is the pin's block, which lives as long as the pin.
    unsafe { find::<Pin>(context) }
}

/// The context of a pin is in its bag: who closes the pin frees it.
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

/// Reads how many pictures the format asks for: they follow it.
///
/// # Safety
///
/// The pin is there, with its context.
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

/// Takes pictures of four bytes for a pixel; for larger ones its frames grow, too.
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

/// Makes the frames of one pin larger, on a copy of its descriptor (`KsEdit`).
///
/// # Safety
///
/// The pin is there.
#[expect(clippy::cast_possible_truncation, reason = "structures of Windows's are small")]
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

/// Has a clock while it is not stopped, and nothing in flight when it is.
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
/// The pin is there.
pub(crate) unsafe fn release_clock(pin: *mut KSPIN) {
    // SAFETY: The caller upholds this function's contract.
    let Some(own) = (unsafe { own(pin) }) else { return };
    let clock = own.clock.swap(ptr::null_mut(), SeqCst);
    // SAFETY: It was given, and not released.
    unsafe { release(clock) };
}

/// # Safety
///
/// It is NULL, or a clock that was given and not released.
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

/// What time it is, by the pin's clock.
pub(super) fn now(own: &Pin) -> i64 {
    let clock = own.clock.load(SeqCst);
    if clock.is_null() {
        return 0;
    }
    // SAFETY: It was given, and is released when the pin stops: nothing is filled after that.
    let table = unsafe { (*clock).lpVtbl };
    // SAFETY: A clock has its table.
    let call = unsafe { (*table).GetTime };
    // SAFETY: As above.
    call.map_or(0, |call| unsafe { call(clock) })
}
