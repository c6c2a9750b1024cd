//! Tables whose length depends on the interface version.
#![expect(unsafe_code, reason = "tables are copied as bytes")]

use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM1_3, D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3DDDI_DEVICECALLBACKS,
    D3DDDI_DEVICEFUNCS,
};
use core::{mem::offset_of, ptr};

/// The length of the callback table. An unlisted version has the length of the next lower listed
/// one; a version below all of them has only the entries of Windows Vista.
pub(crate) fn callbacks_length(version: u32) -> usize {
    let first = offset_of!(D3DDDI_DEVICECALLBACKS, pfnSetAsyncCallbacksCb);
    length(version, first, D3DDDI_DEVICECALLBACKS::length)
}

/// The length of the table of a driver's functions, by the same rule.
pub(crate) fn functions_length(version: u32) -> usize {
    let first = offset_of!(D3DDDI_DEVICEFUNCS, pfnLockAsync);
    length(version, first, D3DDDI_DEVICEFUNCS::length)
}

fn length(version: u32, first: usize, of: fn(u32) -> Option<usize>) -> usize {
    let known = match version {
        D3D_UMD_INTERFACE_VERSION_WDDM2_0.. => of(D3D_UMD_INTERFACE_VERSION_WDDM2_0),
        D3D_UMD_INTERFACE_VERSION_WDDM1_3.. => of(D3D_UMD_INTERFACE_VERSION_WDDM1_3),
        _ => None,
    };
    known.unwrap_or(first)
}

/// Copies the first `length` bytes of a table; the remainder comes from `rest`. `None` for NULL.
///
/// # Safety
///
/// `table` is NULL or valid for reads of `length` bytes, which together with the remainder of
/// `rest` form a valid `T`, as function tables do.
pub(crate) unsafe fn copy_table<T: Copy>(table: *const T, length: usize, rest: T) -> Option<T> {
    let mut whole = rest;
    let to = (&raw mut whole).cast::<u8>();
    // SAFETY: The caller guarantees it, and the copy does not exceed a `T`.
    (!table.is_null()).then(|| unsafe {
        ptr::copy_nonoverlapping(table.cast::<u8>(), to, length.min(size_of::<T>()));
    })?;
    Some(whole)
}

/// Writes the first `length` bytes of a table.
///
/// # Safety
///
/// `to` is valid for writes of `length` bytes.
pub(crate) unsafe fn write_table<T: Copy>(to: *mut T, length: usize, table: &T) {
    let from = ptr::from_ref(table).cast::<u8>();
    // SAFETY: The caller guarantees it, and the copy does not exceed a `T`.
    unsafe { ptr::copy_nonoverlapping(from, to.cast::<u8>(), length.min(size_of::<T>())) };
}
