//! The allocator of the table source: frames of pool memory, cached until it is deleted.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::table::own;
use crate::block::{Kind, free, pointer, take};
use abi::ks::{KSALLOCATOR_DISPATCH, KSALLOCATOR_FRAMING, KSPIN};
use abi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS};
use abi::{NTSTATUS, PVOID};
use nt::{ExAllocatePool2, ExFreePoolWithTag, POOL_FLAG_NON_PAGED};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

const TAG: u32 = u32::from_le_bytes(*b"WtFr");
/// The number of cached frames.
const MOST: usize = 8;

/// The allocator's context.
#[repr(C)]
pub(crate) struct Allocator {
    bytes: u32,
    kept: [PVOID; MOST],
}

impl Kind for Allocator {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kall");
}

pub(crate) const ALLOCATOR: KSALLOCATOR_DISPATCH = KSALLOCATOR_DISPATCH {
    InitializeAllocator: Some(initialize),
    DeleteAllocator: Some(delete),
    Allocate: Some(allocate),
    Free: Some(free_frame),
};

pub(crate) unsafe extern "win64-unwind" fn initialize(
    pin: *mut KSPIN,
    framing: *mut KSALLOCATOR_FRAMING,
    context: *mut PVOID,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let bytes = unsafe { (*framing).FrameSize };
    let created = take(Allocator { bytes, kept: [ptr::null_mut(); MOST] });
    if created.is_null() {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    // SAFETY: The pin is open.
    if let Some(own) = unsafe { own(pin) } {
        own.allocator.store(created, SeqCst);
    }
    // SAFETY: The argument points at a writable pointer.
    unsafe { context.write(created) };
    STATUS_SUCCESS
}

/// Returns a cached frame, or a new one.
pub(crate) unsafe extern "win64-unwind" fn allocate(context: PVOID) -> PVOID {
    // SAFETY: The context is this allocator's, which has not been deleted.
    let Some(it) = (unsafe { pointer::<Allocator>(context) }) else { return ptr::null_mut() };
    for at in 0..MOST {
        // SAFETY: As above, and no other call runs.
        let place = unsafe { &raw mut (*it).kept[at] };
        // SAFETY: As above.
        let kept = unsafe { place.replace(ptr::null_mut()) };
        if !kept.is_null() {
            return kept;
        }
    }
    // SAFETY: As above.
    let bytes = unsafe { (*it).bytes };
    // SAFETY: The function has no requirements.
    unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, bytes as usize, TAG) }
}

/// Caches a frame.
pub(crate) unsafe extern "win64-unwind" fn free_frame(context: PVOID, frame: PVOID) {
    // SAFETY: The context is this allocator's, which has not been deleted.
    let Some(it) = (unsafe { pointer::<Allocator>(context) }) else { return };
    for at in 0..MOST {
        // SAFETY: As above, and no other call runs.
        let place = unsafe { &raw mut (*it).kept[at] };
        // SAFETY: As above.
        if unsafe { place.read() }.is_null() {
            // SAFETY: As above.
            unsafe { place.write(frame) };
            return;
        }
    }
    // SAFETY: No other component uses the frame.
    unsafe { ExFreePoolWithTag(frame, TAG) };
}

/// Returns a cached frame, or NULL.
///
/// # Safety
///
/// The context is NULL or an allocator's, live or freed.
pub(crate) unsafe fn first_free_frame(context: PVOID) -> PVOID {
    // SAFETY: The caller upholds this function's contract.
    let Some(it) = (unsafe { pointer::<Allocator>(context) }) else { return ptr::null_mut() };
    // SAFETY: As above, and no other call runs.
    let kept = unsafe { (*it).kept };
    kept.into_iter().find(|c_void| !c_void.is_null()).unwrap_or(ptr::null_mut())
}

/// Frees the cached frames.
///
/// # Safety
///
/// The context is that of a live allocator.
pub(crate) unsafe fn free_frames(context: PVOID) {
    loop {
        // SAFETY: The caller upholds this function's contract.
        let Some(it) = (unsafe { pointer::<Allocator>(context) }) else { return };
        // SAFETY: As above, and no other call runs.
        let kept = unsafe { (*it).kept };
        let Some(at) = kept.iter().position(|frame| !frame.is_null()) else { return };
        // SAFETY: As above.
        unsafe { (*it).kept[at] = ptr::null_mut() };
        // SAFETY: No other component uses the frame.
        unsafe { ExFreePoolWithTag(kept[at], TAG) };
    }
}

/// Frees everything that the allocator has.
pub(crate) unsafe extern "win64-unwind" fn delete(context: PVOID) {
    // SAFETY: The context is this allocator's, which has not been deleted.
    unsafe { free_frames(context) };
    // SAFETY: No later call uses the block.
    unsafe { free(context) };
}
