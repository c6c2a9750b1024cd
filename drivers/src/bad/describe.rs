//! Bad drivers: `DxgkDdiDescribeAllocation` and primaries.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::create_allocation;
use crate::block::list_mut;
use crate::table::GOOD;
use abi::display::{
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as FlagsWddm2, DXGKARG_CREATEALLOCATION,
    DXGKARG_DESCRIBEALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};

pub(crate) const FAILS_DESCRIBE_PRIMARY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDescribeAllocation: Some(fails_describe_primary), ..GOOD };
pub(crate) const DESCRIBES_EMPTY_PRIMARY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDescribeAllocation: Some(describes_empty_primary), ..GOOD };
pub(crate) const SETS_PROTECTED_ON_PRIMARY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(sets_protected_on_primary), ..GOOD };

/// Returns a failure and no description.
unsafe extern "win64-unwind" fn fails_describe_primary(
    _adapter: HANDLE,
    _args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// Leaves the description as it was passed.
unsafe extern "win64-unwind" fn describes_empty_primary(
    _adapter: HANDLE,
    _args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Sets `Protected` for every allocation, primary or not.
unsafe extern "win64-unwind" fn sets_protected_on_primary(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_allocation(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for info in unsafe { list_mut(given.pAllocationInfo, given.NumAllocations) } {
        info.FlagsWddm2.Value |= FlagsWddm2::Protected;
    }
    status
}
