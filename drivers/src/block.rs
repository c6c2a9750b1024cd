//! Pool blocks: what the driver with a table remembers of each thing, and what names it.
//!
//! A block begins with a signature, and its address is the thing's handle. A handle that is
//! NULL, freed or of another kind is not followed.
//!
//! # Invariants
//!
//! 1. A handle is NULL, or the address of a block that `take` made. Its memory stays readable
//!    while the block rests after it was freed, with another pattern in place of the signature.
#![expect(unsafe_code, reason = "a driver's structures are pool blocks, as in C")]

use abi::HANDLE;
use nt::{ExAllocatePool2, ExFreePoolWithTag, POOL_FLAG_NON_PAGED};
use std::ffi::c_void;
use std::mem::offset_of;
use std::{ptr, slice};

const TAG: u32 = u32::from_le_bytes(*b"Wtdr");

/// What a block is of.
pub(crate) trait Kind {
    /// What its block begins with.
    const SIGNATURE: u32;
}

/// A block, as it lies in memory.
#[repr(C)]
struct Block<T> {
    signature: u32,
    value: T,
}

/// Takes a block for `value` and answers its handle, or NULL.
pub(crate) fn take<T: Kind>(value: T) -> HANDLE {
    // SAFETY: The function has no requirements.
    let handle = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, size_of::<Block<T>>(), TAG) };
    if !handle.is_null() {
        let block = Block { signature: T::SIGNATURE, value };
        // SAFETY: The memory is new, large enough, and aligned for any structure of ours.
        unsafe { handle.cast::<Block<T>>().write(block) };
    }
    handle
}

/// Frees the block of a handle.
///
/// # Safety
///
/// Nothing that the block holds is used afterwards, except by a driver that is to be caught.
pub(crate) unsafe fn free(handle: HANDLE) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { ExFreePoolWithTag(handle, TAG) };
}

/// Where the value behind a handle is, if the handle is of a live block of that kind.
///
/// # Safety
///
/// Invariant 1 holds of the handle.
pub(crate) unsafe fn pointer<T: Kind>(handle: HANDLE) -> Option<*mut T> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: By invariant 1 the block exists, and a block begins with a number.
    let signature = unsafe { handle.cast::<u32>().read_volatile() };
    (signature == T::SIGNATURE).then(|| value(handle))
}

/// Where the value of a handle's block is, whether or not it is live.
pub(crate) fn value<T>(handle: HANDLE) -> *mut T {
    handle.wrapping_byte_add(offset_of!(Block<T>, value)).cast()
}

/// The value behind a handle, if the handle is of a live block of that kind.
///
/// # Safety
///
/// Invariant 1 holds of the handle, and the block is not freed while the answer is used.
pub(crate) unsafe fn find<'a, T: Kind>(handle: HANDLE) -> Option<&'a T> {
    // SAFETY: The caller upholds this function's contract.
    let value = unsafe { pointer(handle) }?;
    // SAFETY: The signature is that of a `T`, so `take` wrote one there; nobody writes to it
    // while another looks, for what changes does so in calls that run alone.
    Some(unsafe { &*value })
}

/// The elements of a list that the kernel gives: `start` may be NULL if there are none.
///
/// # Safety
///
/// There are `count` of them, and nobody changes them while the answer is used.
pub(crate) unsafe fn list<'a, T>(start: *const T, count: u32) -> &'a [T] {
    let start = if count == 0 { ptr::dangling() } else { start };
    // SAFETY: The caller promises the elements, and without any the pointer is aligned.
    unsafe { slice::from_raw_parts(start, count as usize) }
}

/// As [`list`], to be written to.
///
/// # Safety
///
/// As of [`list`], and nobody else looks at them.
pub(crate) unsafe fn list_mut<'a, T>(start: *mut T, count: u32) -> &'a mut [T] {
    let start = if count == 0 { ptr::dangling_mut() } else { start };
    // SAFETY: The caller promises the elements, and without any the pointer is aligned.
    unsafe { slice::from_raw_parts_mut(start, count as usize) }
}

/// Private data.
///
/// # Safety
///
/// As of [`list`], of bytes.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, size: u32) -> &'a [u8] {
    // SAFETY: The caller upholds this function's contract.
    unsafe { list(start.cast(), size) }
}
