//! Bad drivers: escapes.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::escape::{answer, escape};
use crate::table::GOOD;
use abi::display::DXGKARG_ESCAPE;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};

pub(crate) const READS_HARDWARE_IN_ESCAPE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiEscape: Some(reads_hardware_in_escape), ..GOOD };
pub(crate) const ASSUMES_ESCAPE_PROCESS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiEscape: Some(assumes_escape_process), ..GOOD };
pub(crate) const WRITES_BEHIND_ESCAPE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiEscape: Some(writes_behind_escape_data), ..GOOD };

/// Writes the byte behind the private data of an escape.
unsafe extern "win64-unwind" fn writes_behind_escape_data(
    adapter: HANDLE,
    args: *const DXGKARG_ESCAPE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    if !given.pPrivateDriverData.is_null() {
        let end = given.pPrivateDriverData.cast::<u8>();
        let end = end.wrapping_add(given.PrivateDriverDataSize as usize);
        // SAFETY: Guard bytes are there; the write is the planted bug.
        unsafe { end.write_volatile(0) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { escape(adapter, args) }
}

/// Accesses the hardware whatever the flags are.
unsafe extern "win64-unwind" fn reads_hardware_in_escape(
    adapter: HANDLE,
    args: *const DXGKARG_ESCAPE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { answer(adapter, &args, true) }
}

/// Assumes that there is a process handle. It unwinds where a driver in C would fault.
unsafe extern "win64-unwind" fn assumes_escape_process(
    adapter: HANDLE,
    args: *const DXGKARG_ESCAPE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    if unsafe { args.read() }.hKmdProcessHandle.is_null() {
        std::panic::resume_unwind(Box::new("a process handle that is NULL"));
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { escape(adapter, args) }
}
