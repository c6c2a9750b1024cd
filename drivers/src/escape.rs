//! Escapes of the table driver.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{find, list_mut};
use crate::table::Adapter;
use abi::display::DXGKARG_ESCAPE;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::ukm::D3DDDI_ESCAPEFLAGS;
use abi::{HANDLE, NTSTATUS};
use softgpu::format;

/// Handles its own escapes and fails others. The process handle is not used.
pub(crate) unsafe extern "win64-unwind" fn escape(
    adapter: HANDLE,
    args: *const DXGKARG_ESCAPE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The caller upholds this function's contract.
    unsafe { answer(adapter, &args, args.Flags.has(D3DDDI_ESCAPEFLAGS::HardwareAccess)) }
}

/// Handles an escape, with or without hardware access.
///
/// # Safety
///
/// As for the entry, whose structure was read.
pub(crate) unsafe fn answer(adapter: HANDLE, args: &DXGKARG_ESCAPE, hardware: bool) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(adapter) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The private data is valid for the call, and only the driver uses it.
    let private = unsafe { list_mut(args.pPrivateDriverData.cast(), args.PrivateDriverDataSize) };
    match format::answer_escape(private, hardware, || adapter.board().packets()) {
        Ok(()) => STATUS_SUCCESS,
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}
