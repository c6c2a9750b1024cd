//! Tables whose length depends on a version.
#![expect(unsafe_code, reason = "tables are copied as bytes")]

use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM1_3, D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3DDDI_DEVICECALLBACKS,
    D3DDDI_DEVICEFUNCS,
};
use core::{mem::offset_of, ptr};

/// A version that is not listed is as the listed one below it. Before all of them, only what
/// Windows Vista had is believed to be there.
pub(crate) fn callbacks_length(version: u32) -> usize {
    let first = offset_of!(D3DDDI_DEVICECALLBACKS, pfnSetAsyncCallbacksCb);
    length(version, first, D3DDDI_DEVICECALLBACKS::length)
}

/// The same, of the functions that a driver has.
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

/// The first bytes of a table, and the rest of `rest`. Nothing of NULL.
///
/// # Safety
///
/// `table` is NULL, or so many bytes are there; and what they are is a `T` with the rest of
/// `rest`, as tables of functions are.
pub(crate) unsafe fn copy_table<T: Copy>(table: *const T, length: usize, rest: T) -> Option<T> {
    let mut whole = rest;
    let to = (&raw mut whole).cast::<u8>();
    // SAFETY: The caller's contract; and no more is copied than there is room for.
    (!table.is_null()).then(|| unsafe {
        ptr::copy_nonoverlapping(table.cast::<u8>(), to, length.min(size_of::<T>()));
    })?;
    Some(whole)
}

/// Writes the first bytes of a table.
///
/// # Safety
///
/// So many bytes can be written at `to`.
pub(crate) unsafe fn write_table<T: Copy>(to: *mut T, length: usize, table: &T) {
    let from = ptr::from_ref(table).cast::<u8>();
    // SAFETY: The caller's contract; and no more is copied than there is.
    unsafe { ptr::copy_nonoverlapping(from, to.cast::<u8>(), length.min(size_of::<T>())) };
}
