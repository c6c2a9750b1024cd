//! The table source whose hardware writes through scatter-gather mappings, as with DMA.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::table::{self, DEVICE, GOOD, PIN, Shape};
use abi::ks::{
    KSDEVICE, KSDEVICE_DISPATCH, KSMAPPING, KSPIN, KSPIN_DISPATCH, KSPIN_FLAG_GENERATE_MAPPINGS,
    KSSTREAM_POINTER, KSSTREAM_POINTER_STATE_LOCKED,
};
use abi::status::STATUS_SUCCESS;
use abi::{NTSTATUS, PIRP, PVOID, nt_success};
use port::ks::{
    KsDeviceRegisterAdapterObject, KsPinGetLeadingEdgeStreamPointer, KsStreamPointerAdvanceOffsets,
    KsStreamPointerClone, KsStreamPointerDelete,
};
use std::ptr;

/// The maximum size of a hardware transfer.
const MOST: u32 = 100;

/// A mapping, and the driver's data behind it.
#[repr(C)]
struct Line {
    mapping: KSMAPPING,
    own: u64,
}

/// The source that writes through mappings.
pub(crate) const SCATTER_GATHER: Shape = Shape {
    device: KSDEVICE_DISPATCH { Start: Some(start_device), ..DEVICE },
    pin: KSPIN_DISPATCH { Process: Some(process_pin), ..PIN },
    flags: KSPIN_FLAG_GENERATE_MAPPINGS,
    ..GOOD
};

#[expect(clippy::cast_possible_truncation, reason = "a mapping table's row is small")]
unsafe extern "win64-unwind" fn start_device(
    device: *mut KSDEVICE,
    _irp: PIRP,
    _translated: PVOID,
    _raw: PVOID,
) -> NTSTATUS {
    // SAFETY: The device exists; the adapter pointer is opaque to the runtime.
    unsafe {
        KsDeviceRegisterAdapterObject(device, ptr::null_mut(), MOST, size_of::<Line>() as u32);
    }
    STATUS_SUCCESS
}

/// Passes every mapping of every frame to the hardware.
unsafe extern "win64-unwind" fn process_pin(pin: *mut KSPIN) -> NTSTATUS {
    loop {
        // SAFETY: The pin is open.
        let edge = unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
        if edge.is_null() {
            return STATUS_SUCCESS;
        }
        let mut clone = ptr::null_mut();
        // SAFETY: The leading edge is valid, and the second argument can be written.
        let status = unsafe { KsStreamPointerClone(edge, None, 0, &raw mut clone) };
        if !nt_success(status) {
            return status;
        }
        // SAFETY: The clone has not been deleted and is locked.
        unsafe { scatter(clone) };
        // One mapping at a time: the hardware interrupts after each.
        loop {
            // SAFETY: The leading edge is valid.
            let left = unsafe { (*edge).OffsetOut.Remaining };
            // SAFETY: As above, and the frame is locked.
            let status = unsafe { KsStreamPointerAdvanceOffsets(edge, 0, left.min(1), 0) };
            if left <= 1 || !nt_success(status) {
                break;
            }
        }
        // SAFETY: The clone has not been deleted.
        unsafe { KsStreamPointerDelete(clone) };
    }
}

/// Simulates the hardware: the picture is written to the mappings only.
///
/// # Safety
///
/// The stream pointer is valid, locked, and at the beginning of its frame.
unsafe fn scatter(at: *mut KSSTREAM_POINTER) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::fill_in_turn(at) };
    // SAFETY: As above.
    let shown = unsafe { at.read() };
    let offset = shown.OffsetOut;
    // SAFETY: A locked pointer has a header.
    let header = unsafe { shown.StreamHeader.read() };
    let (data, used) = (header.Data.cast::<u8>(), header.DataUsed as usize);
    let mut frame = vec![0; used];
    // SAFETY: The frame has this length.
    unsafe { ptr::copy_nonoverlapping(data, frame.as_mut_ptr(), used) };
    // SAFETY: As above.
    unsafe { ptr::write_bytes(data, 0, used) };
    let mut rest = &frame[..];
    for number in 0..offset.Remaining as usize {
        let line = offset.mappings().cast::<Line>().wrapping_add(number);
        // SAFETY: The buffer has this many lines of the requested width.
        let mapping = unsafe { (*line).mapping };
        // SAFETY: As above: memory after a mapping is the driver's.
        unsafe { (*line).own = u64::MAX };
        let (now, later) = rest.split_at(rest.len().min(mapping.ByteCount as usize));
        let to = usize::try_from(mapping.PhysicalAddress).unwrap_or(0);
        let to = ptr::with_exposed_provenance_mut::<u8>(to);
        // SAFETY: This hardware uses the processor's addresses.
        unsafe { ptr::copy_nonoverlapping(now.as_ptr(), to, now.len()) };
        rest = later;
    }
}
