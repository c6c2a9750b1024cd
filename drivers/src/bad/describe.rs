//! What goes wrong in `DxgkDdiDescribeAllocation`, and with primaries.
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

pub(crate) const CANNOT_DESCRIBE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDescribeAllocation: Some(not_supported), ..GOOD };
pub(crate) const DESCRIBES_NOTHING: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDescribeAllocation: Some(as_it_came), ..GOOD };
pub(crate) const PROTECTED_PRIMARY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(all_protected), ..GOOD };

/// Describes nothing, and says so.
unsafe extern "win64-unwind" fn not_supported(
    _adapter: HANDLE,
    _args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// Leaves the description as it came: all zero.
unsafe extern "win64-unwind" fn as_it_came(
    _adapter: HANDLE,
    _args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Sets `Protected` for everything: it does not ask whether it is a primary.
unsafe extern "win64-unwind" fn all_protected(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { create_allocation(adapter, args) };
    // SAFETY: It is a structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel gives so many elements.
    for info in unsafe { list_mut(given.pAllocationInfo, given.NumAllocations) } {
        info.FlagsWddm2.Value |= FlagsWddm2::Protected;
    }
    status
}
