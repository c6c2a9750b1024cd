//! The bad table sources: one entry each.
#![expect(unsafe_code, reason = "drivers written against the C interface")]

use super::pattern::BYTES;
use super::table::{
    Device, create_pin, delete_clones, fill, grow, locked_then, own, process_how, process_pin,
    process_with, release_clock, set_format, set_state, timed_out,
};
use super::table_allocator::{
    Allocator, allocate, delete, first_free_frame, free_frame, free_frames, initialize,
};
use crate::block::{Kind, find, take, value};
use abi::ks::{
    KSALLOCATOR_FRAMING, KSATTRIBUTE_LIST, KSDATAFORMAT, KSDATARANGE, KSDEVICE, KSFILTER,
    KSMULTIPLE_ITEM, KSPIN, KSSTATE, KSSTATE_ACQUIRE, KSSTATE_PAUSE, KSSTATE_RUN, KSSTATE_STOP,
    KSSTREAM_POINTER, KSSTREAM_POINTER_STATE_LOCKED,
};
use abi::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST, STATUS_PENDING, STATUS_SUCCESS,
};
use abi::{NTSTATUS, PIRP, PVOID};
use nt::{ExAllocatePool2, ExFreePool, KeDelayExecutionThread, POOL_FLAG_NON_PAGED};
use port::ks::{
    KsAcquireControl, KsAcquireDevice, KsCreateDefaultAllocatorEx, KsGetDevice, KsGetFirstChild,
    KsPinAttemptProcessing, KsPinGetLeadingEdgeStreamPointer, KsStreamPointerAdvanceOffsets,
    KsStreamPointerDelete, KsStreamPointerUnlock,
};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

const TAG: u32 = u32::from_le_bytes(*b"WtBa");

/// Frees the frames and keeps the context.
pub(crate) unsafe extern "win64-unwind" fn leaks_allocator_context(context: PVOID) {
    // SAFETY: The context is this allocator's, which has not been deleted.
    unsafe { free_frames(context) };
}

/// Does nothing yet.
pub(crate) unsafe extern "win64-unwind" fn defers_delete(_context: PVOID) {}

/// Deletes the allocator when the pin is closed.
pub(crate) unsafe extern "win64-unwind" fn closes_and_deletes(
    pin: *mut KSPIN,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    if let Some(own) = unsafe { own(pin) } {
        let context = own.allocator.swap(ptr::null_mut(), SeqCst);
        if !context.is_null() {
            // SAFETY: The allocator was not deleted.
            unsafe { delete(context) };
        }
    }
    STATUS_SUCCESS
}

/// Writes to the context of a deleted allocator.
pub(crate) unsafe extern "win64-unwind" fn closes_and_writes(
    pin: *mut KSPIN,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    if let Some(own) = unsafe { own(pin) } {
        let context = own.allocator.load(SeqCst);
        if !context.is_null() {
            let first = value::<Allocator>(context).cast::<u32>();
            // SAFETY: The pool keeps freed blocks writable.
            unsafe { first.write_unaligned(7) };
        }
    }
    STATUS_SUCCESS
}

/// Stops with frames in flight.
pub(crate) unsafe extern "win64-unwind" fn stops_with_clones(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    if to == KSSTATE_STOP {
        // SAFETY: The pin is open.
        unsafe { release_clock(pin) };
        return STATUS_SUCCESS;
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_state(pin, to, from) }
}

/// Stops and keeps its clock.
pub(crate) unsafe extern "win64-unwind" fn keeps_closed_pin_clock(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    if to == KSSTATE_STOP {
        // SAFETY: The pin is open.
        unsafe { delete_clones(pin) };
        return STATUS_SUCCESS;
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_state(pin, to, from) }
}

/// Requires single steps between states, although its pin jumps.
pub(crate) unsafe extern "win64-unwind" fn rejects_direct_stop(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { set_state(pin, to, from) };
    let jumps = to == KSSTATE_STOP && from == KSSTATE_RUN;
    if jumps { STATUS_INVALID_DEVICE_REQUEST } else { status }
}

/// Returns `STATUS_PENDING`.
pub(crate) unsafe extern "win64-unwind" fn returns_pending_from_state(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { set_state(pin, to, from) };
    if to == KSSTATE_PAUSE { STATUS_PENDING } else { status }
}

/// Allocates a context and fails without freeing it.
pub(crate) unsafe extern "win64-unwind" fn leaks_failed_allocator(
    pin: *mut KSPIN,
    framing: *mut KSALLOCATOR_FRAMING,
    context: *mut PVOID,
) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let _made = unsafe { initialize(pin, framing, context) };
    STATUS_INSUFFICIENT_RESOURCES
}

/// Returns success without a context.
pub(crate) unsafe extern "win64-unwind" fn omits_allocator_context(
    _pin: *mut KSPIN,
    _framing: *mut KSALLOCATOR_FRAMING,
    _context: *mut PVOID,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Allocates frames of half the required size.
pub(crate) unsafe extern "win64-unwind" fn short_frame(_context: PVOID) -> PVOID {
    // SAFETY: The function has no requirements.
    unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, BYTES as usize / 2, TAG) }
}

/// Allocates frames that are large enough for all its formats.
pub(crate) unsafe extern "win64-unwind" fn roomy_frame(_context: PVOID) -> PVOID {
    // SAFETY: The function has no requirements.
    unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, BYTES as usize * 8, TAG) }
}

/// Frees these frames.
pub(crate) unsafe extern "win64-unwind" fn free_short(_context: PVOID, frame: PVOID) {
    // SAFETY: No other component uses the frame.
    unsafe { ExFreePool(frame) };
}

/// Returns the same frame every time.
pub(crate) unsafe extern "win64-unwind" fn same_frame(context: PVOID) -> PVOID {
    // SAFETY: The context is this allocator's, which has not been deleted.
    let frame = unsafe { allocate(context) };
    // SAFETY: As above. The output is kept.
    unsafe { free_frame(context, frame) };
    frame
}

/// Frees the one frame of [`same_frame`], which is cached all the time, with its allocator.
pub(crate) unsafe extern "win64-unwind" fn free_same_frame(_context: PVOID, _frame: PVOID) {}

/// Waits at `DISPATCH_LEVEL`.
pub(crate) unsafe extern "win64-unwind" fn process_and_wait(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(waits)) }
}

unsafe extern "win64-unwind" fn waits(clone: *mut KSSTREAM_POINTER) {
    let interval = -10_i64;
    // SAFETY: The pointer is valid for a number.
    unsafe { KeDelayExecutionThread(0, 0, &raw const interval) };
    // SAFETY: The clone has not been deleted.
    unsafe { timed_out(clone) };
}

/// Calls `KsGetDevice` at `DISPATCH_LEVEL`.
pub(crate) unsafe extern "win64-unwind" fn process_querying_device(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(asks)) }
}

unsafe extern "win64-unwind" fn asks(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    let pin = unsafe { (*clone).Pin };
    // SAFETY: The function validates the pin.
    unsafe { KsGetDevice(pin.cast()) };
    // SAFETY: The clone has not been deleted.
    unsafe { timed_out(clone) };
}

/// Acquires the device mutex at `DISPATCH_LEVEL`.
pub(crate) unsafe extern "win64-unwind" fn process_and_lock(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(locks)) }
}

unsafe extern "win64-unwind" fn locks(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    let pin = unsafe { (*clone).Pin };
    // SAFETY: The function validates its arguments.
    unsafe { KsAcquireControl(pin.cast()) };
    // SAFETY: The clone has not been deleted.
    unsafe { timed_out(clone) };
}

/// Completes a frame twice.
pub(crate) unsafe extern "win64-unwind" fn process_twice(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(deletes_twice)) }
}

unsafe extern "win64-unwind" fn deletes_twice(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    unsafe { timed_out(clone) };
    // SAFETY: The function validates its arguments.
    unsafe { KsStreamPointerDelete(clone) };
}

/// Reports more used bytes than a frame has.
pub(crate) unsafe extern "win64-unwind" fn process_too_much(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(overstates)) }
}

unsafe extern "win64-unwind" fn overstates(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted and is locked.
    unsafe { fill(clone) };
    // SAFETY: As above.
    let header = unsafe { (*clone).StreamHeader };
    // SAFETY: A locked pointer has a header.
    unsafe { (*header).DataUsed = BYTES + 1 };
    // SAFETY: As above.
    unsafe { KsStreamPointerDelete(clone) };
}

/// Writes a header through a stream pointer that it has unlocked.
pub(crate) unsafe extern "win64-unwind" fn process_unlocked(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_with(pin, Some(writes_unlocked)) }
}

unsafe extern "win64-unwind" fn writes_unlocked(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone has not been deleted.
    let header = unsafe { (*clone).StreamHeader };
    // SAFETY: As above.
    unsafe { fill(clone) };
    // SAFETY: As above.
    unsafe { KsStreamPointerUnlock(clone, 0) };
    // SAFETY: The header of a frame stays valid, but is not the driver's any more.
    unsafe { (*header).DataUsed = 1 };
    // SAFETY: As above.
    unsafe { KsStreamPointerDelete(clone) };
}

/// Advances past the end of a frame.
pub(crate) unsafe extern "win64-unwind" fn process_too_far(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    let edge = unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
    if !edge.is_null() {
        // SAFETY: The leading edge is valid.
        unsafe { KsStreamPointerAdvanceOffsets(edge, 0, BYTES + 1, 0) };
    }
    // SAFETY: The pin is open.
    unsafe { process_pin(pin) }
}

/// Deletes its leading edge.
pub(crate) unsafe extern "win64-unwind" fn deletes_edge(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    let edge = unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
    if !edge.is_null() {
        // SAFETY: The leading edge is valid.
        unsafe { KsStreamPointerDelete(edge) };
    }
    // SAFETY: The pin is open.
    unsafe { process_pin(pin) }
}

/// Attempts processing without a pin.
pub(crate) unsafe extern "win64-unwind" fn attempts_null_pin(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The function validates its arguments.
    unsafe { KsPinAttemptProcessing(ptr::null_mut(), 1) };
    // SAFETY: The pin is open.
    unsafe { process_pin(pin) }
}

/// Changes the state of its pin itself.
pub(crate) unsafe extern "win64-unwind" fn writes_state(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { (*pin).DeviceState = KSSTATE_ACQUIRE };
    // SAFETY: As above.
    unsafe { process_pin(pin) }
}

/// Changes the format of its pin in place.
pub(crate) unsafe extern "win64-unwind" fn writes_format(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format.
    unsafe { (*format).SampleSize = 1 };
    // SAFETY: As above.
    unsafe { process_pin(pin) }
}

/// Edits its framing and reports more items than it copied.
pub(crate) unsafe extern "win64-unwind" fn overstates_copied_framing(
    pin: *mut KSPIN,
    first_instance: *mut KSDATAFORMAT,
    attributes: *mut KSMULTIPLE_ITEM,
    range: *const KSDATARANGE,
    list: *const KSATTRIBUTE_LIST,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format. A larger format needs larger frames.
    let usual = unsafe { (*format).SampleSize } <= BYTES;
    // SAFETY: The pin is open.
    if usual && unsafe { grow(pin, BYTES) } == STATUS_SUCCESS {
        // SAFETY: As above.
        let descriptor = unsafe { (*pin).Descriptor };
        // SAFETY: The copy is the driver's.
        let framing = unsafe { (*descriptor).AllocatorFraming }.cast_mut();
        // SAFETY: As above.
        unsafe { (*framing).CountItems = 1000 };
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_format(pin, first_instance, attributes, range, list) }
}

/// Returns the last closed pin.
///
/// # Safety
///
/// The filter is open.
unsafe fn last_pin(filter: *mut KSFILTER) -> *mut KSPIN {
    // SAFETY: The caller upholds this function's contract.
    let context = unsafe { (*filter).Context };
    // SAFETY: The context is the device's, which has not been removed.
    let device = unsafe { find::<Device>(context) };
    device.map_or(ptr::null_mut(), |device| device.last.load(SeqCst))
}

/// Requests the leading edge of a closed pin.
pub(crate) unsafe extern "win64-unwind" fn uses_closed_pin(
    filter: *mut KSFILTER,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The filter is open.
    let pin = unsafe { last_pin(filter) };
    // SAFETY: The function validates its arguments.
    unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
    STATUS_SUCCESS
}

/// Writes to the structure of a closed pin.
pub(crate) unsafe extern "win64-unwind" fn writes_closed_pin(
    filter: *mut KSFILTER,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The filter is open.
    let pin = unsafe { last_pin(filter) };
    if !pin.is_null() {
        // SAFETY: The structure of a closed pin stays writable.
        unsafe { (*pin).Context = ptr::null_mut() };
    }
    STATUS_SUCCESS
}

/// Frees its context, which is in the object bag of its pin.
pub(crate) unsafe extern "win64-unwind" fn frees_bagged_item(
    pin: *mut KSPIN,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    let context = unsafe { (*pin).Context };
    // SAFETY: The pointer is not used afterwards.
    unsafe { ExFreePool(context) };
    STATUS_SUCCESS
}

/// When a format is set, writes to a frame that it had to free.
pub(crate) unsafe extern "win64-unwind" fn writes_freed_frame(
    pin: *mut KSPIN,
    first_instance: *mut KSDATAFORMAT,
    attributes: *mut KSMULTIPLE_ITEM,
    range: *const KSDATARANGE,
    list: *const KSATTRIBUTE_LIST,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    if let Some(own) = unsafe { own(pin) } {
        // SAFETY: The context is that of an allocator that has not been deleted.
        let frame = unsafe { first_free_frame(own.allocator.load(SeqCst)) };
        if !frame.is_null() {
            // SAFETY: The frame is the driver's memory.
            unsafe { frame.cast::<u8>().write(0x5a) };
        }
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_format(pin, first_instance, attributes, range, list) }
}

/// Acquires its device's mutex and keeps it.
pub(crate) unsafe extern "win64-unwind" fn returns_with_mutex(device: *mut KSDEVICE) -> NTSTATUS {
    // SAFETY: The device has not been removed.
    unsafe { KsAcquireDevice(device) };
    STATUS_SUCCESS
}

/// Enumerates its filters without the mutex.
pub(crate) unsafe extern "win64-unwind" fn walks_filters_without_mutex(
    device: *mut KSDEVICE,
) -> NTSTATUS {
    // SAFETY: The device has not been removed.
    let factory = unsafe { KsGetFirstChild(device.cast()) };
    // SAFETY: The function validates its arguments.
    unsafe { KsGetFirstChild(factory) };
    STATUS_SUCCESS
}

/// Allocates a block that it does not need.
struct Idle;

impl Kind for Idle {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kidl");
}

/// Returns `STATUS_PENDING` from its start routine.
pub(crate) unsafe extern "win64-unwind" fn returns_pending_from_start(
    _device: *mut KSDEVICE,
) -> NTSTATUS {
    STATUS_PENDING
}

/// Keeps a clone when its frame is cancelled.
pub(crate) unsafe extern "win64-unwind" fn process_cancellable(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is open.
    unsafe { process_how(pin, Some(locked_then), Some(keeps_clone_after_cancel), true) }
}

unsafe extern "win64-unwind" fn keeps_clone_after_cancel(_clone: *mut KSSTREAM_POINTER) {}

/// Allocates memory when its device is added and never frees it.
pub(crate) unsafe extern "win64-unwind" fn adds_more(device: *mut KSDEVICE) -> NTSTATUS {
    let _kept = take(Idle);
    // SAFETY: The caller upholds this function's contract.
    unsafe { super::table::add_device(device) }
}

/// Requests a default allocator with a free routine but no allocate routine.
pub(crate) unsafe extern "win64-unwind" fn half_default(pin: *mut KSPIN, irp: PIRP) -> NTSTATUS {
    // SAFETY: The function validates its arguments and calls nothing.
    unsafe { KsCreateDefaultAllocatorEx(irp, ptr::null_mut(), None, Some(free_short), None, None) };
    // SAFETY: The caller upholds this function's contract.
    unsafe { create_pin(pin, irp) }
}
