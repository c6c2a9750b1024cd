//! Caller memory: the one file that touches it.
//!
//! A pointer from an application is a claim. Whoever calls an entry point promises that a
//! pointer that is not NULL is good for what its structure says (see `# Safety` of each), so
//! what is checked here is what a promise cannot cover: NULL, and counts beyond reason.
#![expect(unsafe_code, reason = "reads and writes the memory of the caller")]

use abi::NTSTATUS;
use abi::status::STATUS_INVALID_PARAMETER;
use std::ffi::c_void;

/// No list or private data of an honest caller is longer: 16 Mi.
const MOST: usize = 1 << 24;

/// Reads a structure.
///
/// # Safety
///
/// A pointer that is not NULL points to a `T`, readable now.
pub(crate) unsafe fn read<T: Copy>(from: *const T) -> Result<T, NTSTATUS> {
    if from.is_null() {
        return Err(STATUS_INVALID_PARAMETER);
    }
    // SAFETY: Not NULL, so by the contract a readable `T`; it may be unaligned.
    Ok(unsafe { from.read_unaligned() })
}

/// Writes a structure back.
///
/// # Safety
///
/// A pointer that is not NULL points to a `T`, writable now.
pub(crate) unsafe fn write<T: Copy>(to: *mut T, value: T) -> Result<(), NTSTATUS> {
    if to.is_null() {
        return Err(STATUS_INVALID_PARAMETER);
    }
    // SAFETY: Not NULL, so by the contract a writable `T`; it may be unaligned.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Reads a list. NULL is good only for an empty one.
///
/// # Safety
///
/// A pointer that is not NULL points to `count` of `T`, readable now.
pub(crate) unsafe fn read_list<T: Copy>(from: *const T, count: usize) -> Result<Vec<T>, NTSTATUS> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() || count > MOST {
        return Err(STATUS_INVALID_PARAMETER);
    }
    // SAFETY: Inside the list, by the contract.
    let element = |index| unsafe { from.add(index) };
    // SAFETY: Each is an element of the list, by the contract readable.
    (0..count).map(|index| unsafe { read(element(index)) }).collect()
}

/// Writes a list back.
///
/// # Safety
///
/// A pointer that is not NULL points to as many `T` as there are values, writable now.
pub(crate) unsafe fn write_list<T: Copy>(to: *mut T, values: &[T]) -> Result<(), NTSTATUS> {
    if to.is_null() && !values.is_empty() {
        return Err(STATUS_INVALID_PARAMETER);
    }
    for (index, value) in values.iter().enumerate() {
        // SAFETY: Inside the list, by the contract.
        let element = unsafe { to.add(index) };
        // SAFETY: An element of the list, by the contract writable.
        unsafe { write(element, *value) }?;
    }
    Ok(())
}

/// Reads private data.
///
/// # Safety
///
/// A pointer that is not NULL points to `size` bytes, readable now.
pub(crate) unsafe fn read_bytes(from: *const c_void, size: u32) -> Result<Vec<u8>, NTSTATUS> {
    // SAFETY: The same contract, for bytes.
    unsafe { read_list(from.cast::<u8>(), size as usize) }
}

/// Writes private data back.
///
/// # Safety
///
/// A pointer that is not NULL points to as many bytes, writable now.
pub(crate) unsafe fn write_bytes(to: *mut c_void, bytes: &[u8]) -> Result<(), NTSTATUS> {
    // SAFETY: The same contract, for bytes.
    unsafe { write_list(to.cast::<u8>(), bytes) }
}
