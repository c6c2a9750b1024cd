//! Bad drivers: `DxgkDdiGetStandardAllocationDriverData`.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::standard_allocation;
use crate::block::list_mut;
use crate::table::GOOD;
use abi::display::DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};
use softgpu::format::{LONG_DESCRIPTION_SIZE, anywhere, describe_in};
use std::ops::Range;

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
pub(crate) const RELIES_ON_CLEARED_PRIVATE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiGetStandardAllocationDriverData: Some(relies_on_cleared_private_data),
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

/// The flags in a long description. All are clear in those that the driver makes.
const FLAGS: Range<usize> = 36..40;

/// Fills in a description, but not the flags in it: the driver assumes that its buffer is cleared.
unsafe extern "win64-unwind" fn relies_on_cleared_private_data(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, sizes) = unsafe { query_sizes(adapter, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    if sizes {
        args.AllocationPrivateDriverDataSize = LONG_DESCRIPTION_SIZE;
        return status;
    }
    // SAFETY: The type says that the union is a pointer to this structure.
    let surface = unsafe { args.gdi().read() };
    let size = u64::from(surface.Width) * u64::from(surface.Height);
    let description = describe_in(size, 0, &anywhere());
    let data = args.pAllocationPrivateDriverData;
    // SAFETY: The kernel's buffer has the size that the driver asked for.
    let data = unsafe { list_mut(data.cast::<u8>(), LONG_DESCRIPTION_SIZE) };
    data[..FLAGS.start].copy_from_slice(&description[..FLAGS.start]);
    data[FLAGS.end..].copy_from_slice(&description[FLAGS.end..]);
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
