//! Bad table drivers with allocation lists: bugs that only a driver with a table can have.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation_lists::{ALLOCATION_LISTS, patch, render};
use abi::display::{DXGKARG_PATCH, DXGKARG_RENDER};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};

/// Writes a byte past the end of the buffer it renders into.
pub(crate) const OVERRUNS_DMA_BUFFER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRender: Some(overruns_dma_buffer), ..ALLOCATION_LISTS };

/// Renders and does not advance `pDmaBuffer`.
pub(crate) const LEAVES_DMA_POINTER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRender: Some(leaves_dma_pointer), ..ALLOCATION_LISTS };

/// Writes a byte past the end of the buffer it patches.
pub(crate) const PATCHES_PAST_DMA_BUFFER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiPatch: Some(patches_past_dma_buffer), ..ALLOCATION_LISTS };

unsafe extern "win64-unwind" fn overruns_dma_buffer(
    context: HANDLE,
    args: *mut DXGKARG_RENDER,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let raw = unsafe { args.read() };
    let behind = raw.pDmaBuffer.cast::<u8>().wrapping_add(raw.DmaSize as usize);
    // SAFETY: The port keeps guard bytes behind the buffer; the write is the planted bug.
    unsafe { behind.write(0) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { render(context, args) }
}

unsafe extern "win64-unwind" fn leaves_dma_pointer(
    context: HANDLE,
    args: *mut DXGKARG_RENDER,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let start = unsafe { (*args).pDmaBuffer };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { render(context, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    unsafe { (*args).pDmaBuffer = start };
    status
}

unsafe extern "win64-unwind" fn patches_past_dma_buffer(
    adapter: HANDLE,
    args: *const DXGKARG_PATCH,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let raw = unsafe { args.read() };
    let behind = raw.pDmaBuffer.cast::<u8>().wrapping_add(raw.DmaBufferSize as usize);
    // SAFETY: The port keeps guard bytes behind the buffer; the write is the planted bug.
    unsafe { behind.write(0) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { patch(adapter, args) }
}
