//! Bad drivers: `DxgkDdiGetStandardAllocationDriverData`.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::standard_allocation;
use crate::table::GOOD;
use abi::display::DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};

pub(crate) const EDITS_STANDARD_SURFACE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiGetStandardAllocationDriverData: Some(edits_standard_surface_data),
        ..GOOD
    };
pub(crate) const OMITS_STANDARD_PRIVATE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiGetStandardAllocationDriverData: Some(omits_standard_private_data),
        ..GOOD
    };
pub(crate) const CHANGES_STANDARD_PRIVATE_SIZE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiGetStandardAllocationDriverData: Some(changes_standard_private_size),
        ..GOOD
    };
pub(crate) const REJECTS_OWN_PRIVATE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiGetStandardAllocationDriverData: Some(rejects_own_private_data),
        ..GOOD
    };

/// Queries sizes as the good driver does. Returns the status and whether the call is complete.
///
/// # Safety
///
/// As for `standard_allocation`.
unsafe fn query_sizes(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> (NTSTATUS, bool) {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { standard_allocation(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    (status, args.pAllocationPrivateDriverData.is_null())
}

/// Writes into the description when only sizes are queried.
unsafe extern "win64-unwind" fn edits_standard_surface_data(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, sizes) = unsafe { query_sizes(adapter, args) };
    if sizes {
        // SAFETY: The kernel passes a valid structure.
        let surface = unsafe { (*args).gdi() };
        // SAFETY: The type says that the union is a pointer to this structure.
        unsafe { (*surface).Pitch = 64 };
    }
    status
}

/// Reports that it has no private data and returns none.
unsafe extern "win64-unwind" fn omits_standard_private_data(
    _adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure, and the members are outputs.
    let args = unsafe { &mut *args };
    (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize) = (0, 0);
    abi::status::STATUS_SUCCESS
}

/// Returns another size when it fills in the data.
unsafe extern "win64-unwind" fn changes_standard_private_size(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, sizes) = unsafe { query_sizes(adapter, args) };
    if !sizes {
        // SAFETY: The kernel passes a valid structure, and the member is an output.
        unsafe { (*args).AllocationPrivateDriverDataSize += 1 };
    }
    status
}

/// Fills in a description that its own create rejects.
unsafe extern "win64-unwind" fn rejects_own_private_data(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, sizes) = unsafe { query_sizes(adapter, args) };
    if !sizes {
        // SAFETY: The kernel passes a valid structure.
        let data = unsafe { (*args).pAllocationPrivateDriverData };
        // SAFETY: The good entry has just filled in the data.
        unsafe { data.cast::<u8>().write(0) };
    }
    status
}
