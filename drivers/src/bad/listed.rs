//! The driver with a table whose packets have lists, and one thing that a table alone can do
//! wrong.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::listed::{LISTED, patch, render};
use abi::display::{DXGKARG_PATCH, DXGKARG_RENDER};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};

/// Writes a byte behind the buffer it renders into.
pub(crate) const RENDERS_BEHIND: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRender: Some(render_behind), ..LISTED };

/// Renders, and leaves `pDmaBuffer` where it was.
pub(crate) const NEVER_ADVANCES: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRender: Some(render_in_place), ..LISTED };

/// Writes a byte behind the buffer it patches.
pub(crate) const PATCHES_BEHIND: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiPatch: Some(patch_behind), ..LISTED };

unsafe extern "win64-unwind" fn render_behind(
    context: HANDLE,
    args: *mut DXGKARG_RENDER,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let told = unsafe { args.read() };
    let behind = told.pDmaBuffer.cast::<u8>().wrapping_add(told.DmaSize as usize);
    // SAFETY: The door keeps a guard behind the buffer, for drivers like this one.
    unsafe { behind.write(0) };
    // SAFETY: The arguments are the kernel's.
    unsafe { render(context, args) }
}

unsafe extern "win64-unwind" fn render_in_place(
    context: HANDLE,
    args: *mut DXGKARG_RENDER,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let start = unsafe { (*args).pDmaBuffer };
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { render(context, args) };
    // SAFETY: It is a structure, and the driver's for the call.
    unsafe { (*args).pDmaBuffer = start };
    status
}

unsafe extern "win64-unwind" fn patch_behind(
    adapter: HANDLE,
    args: *const DXGKARG_PATCH,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let told = unsafe { args.read() };
    let behind = told.pDmaBuffer.cast::<u8>().wrapping_add(told.DmaBufferSize as usize);
    // SAFETY: The door keeps a guard behind the buffer, for drivers like this one.
    unsafe { behind.write(0) };
    // SAFETY: The arguments are the kernel's.
    unsafe { patch(adapter, args) }
}
