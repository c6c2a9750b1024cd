//! Pool blocks: the table driver's objects and their handles.
//!
//! A block begins with a signature, and its address is the object's handle. A handle that is
//! NULL, freed or of another kind is not dereferenced.
//!
//! # Invariants
//!
//! 1. A handle is NULL or the address of a block that `take` allocated. Its memory stays readable
//!    after the block is freed, with another pattern in place of the signature.
#![expect(unsafe_code, reason = "a driver's structures are pool blocks, as in C")]

use abi::HANDLE;
use nt::{ExAllocatePool2, ExFreePoolWithTag, POOL_FLAG_NON_PAGED};
use std::ffi::c_void;
use std::mem::offset_of;
use std::{ptr, slice};

const TAG: u32 = u32::from_le_bytes(*b"Wtdr");

/// The kind of object in a block.
pub(crate) trait Kind {
    /// The signature at the beginning of the block.
    const SIGNATURE: u32;
}

/// The layout of a block.
#[repr(C)]
struct Block<T> {
    signature: u32,
    value: T,
}

/// Allocates a block for `value`. Returns its handle, or NULL.
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
/// The block's value is not used afterwards, except by a driver with a planted bug.
pub(crate) unsafe fn free(handle: HANDLE) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { ExFreePoolWithTag(handle, TAG) };
}

/// Returns a pointer to the value of a handle, if the handle is that of a live block of this kind.
///
/// # Safety
///
/// Invariant 1 holds for the handle.
pub(crate) unsafe fn pointer<T: Kind>(handle: HANDLE) -> Option<*mut T> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: By invariant 1 the block exists, and a block begins with a number.
    let signature = unsafe { handle.cast::<u32>().read_volatile() };
    (signature == T::SIGNATURE).then(|| value(handle))
}

/// Returns a pointer to the value of a handle's block, live or not.
pub(crate) fn value<T>(handle: HANDLE) -> *mut T {
    handle.wrapping_byte_add(offset_of!(Block<T>, value)).cast()
}

/// The address behind the block of a handle.
pub(crate) fn end<T>(handle: HANDLE) -> *mut u8 {
    handle.cast::<u8>().wrapping_add(size_of::<Block<T>>())
}

/// Returns the value of a handle, if the handle is that of a live block of this kind.
///
/// # Safety
///
/// Invariant 1 holds for the handle, and the block is not freed while the result is used.
pub(crate) unsafe fn find<'a, T: Kind>(handle: HANDLE) -> Option<&'a T> {
    // SAFETY: The caller upholds this function's contract.
    let value = unsafe { pointer(handle) }?;
    // SAFETY: The signature is that of a `T`, so `take` wrote one there. Values change only in
    // calls that run exclusively.
    Some(unsafe { &*value })
}

/// The elements of a kernel's list. `start` may be NULL if there are none.
///
/// # Safety
///
/// There are `count` elements, and they do not change while the result is used.
pub(crate) unsafe fn list<'a, T>(start: *const T, count: u32) -> &'a [T] {
    let start = if count == 0 { ptr::dangling() } else { start };
    // SAFETY: The caller provides the elements; without any the pointer is aligned.
    unsafe { slice::from_raw_parts(start, count as usize) }
}

/// As [`list`], mutable.
///
/// # Safety
///
/// As for [`list`], and no other code uses the elements.
pub(crate) unsafe fn list_mut<'a, T>(start: *mut T, count: u32) -> &'a mut [T] {
    let start = if count == 0 { ptr::dangling_mut() } else { start };
    // SAFETY: The caller provides the elements; without any the pointer is aligned.
    unsafe { slice::from_raw_parts_mut(start, count as usize) }
}

/// Private data as a slice.
///
/// # Safety
///
/// As for [`list`], with bytes as elements.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, size: u32) -> &'a [u8] {
    // SAFETY: The caller upholds this function's contract.
    unsafe { list(start.cast(), size) }
}
