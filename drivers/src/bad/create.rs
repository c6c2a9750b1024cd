//! Bad drivers: `DxgkDdiCreateAllocation`.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{
    create_allocation, create_until_failure, destroy_allocation, destroy_one_allocation,
};
use crate::block::{list, list_mut};
use crate::table::GOOD;
use abi::display::{
    DXGK_ALLOCATIONINFO, DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as FlagsWddm2, DXGKARG_CREATEALLOCATION,
    DXGKARG_DESTROYALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{HANDLE, NTSTATUS};
use std::ptr;

pub(crate) const LEAKS_FAILED_CREATE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(leaks_failed_create), ..GOOD };
pub(crate) const RETURNS_ILLEGAL_CREATE_STATUS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateAllocation: Some(returns_illegal_create_status),
        ..GOOD
    };
pub(crate) const RETURNS_NULL_ALLOCATION: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateAllocation: Some(without_handles),
    DxgkDdiDestroyAllocation: Some(destroy_non_null),
    ..GOOD
};
pub(crate) const REUSES_ALLOCATION_HANDLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateAllocation: Some(reuses_allocation_handle),
        DxgkDdiDestroyAllocation: Some(destroy_non_null),
        ..GOOD
    };
pub(crate) const SETS_RESERVED_ALLOCATION_FLAG: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(with_flags::<RESERVED>), ..GOOD };
pub(crate) const SETS_CACHED_WITHOUT_CPUVISIBLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateAllocation: Some(with_flags::<{ FlagsWddm2::Cached }>),
        ..GOOD
    };
pub(crate) const SETS_PROTECTED_WITH_EXISTINGSYSMEM: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateAllocation: Some(
            with_flags::<{ FlagsWddm2::Protected | FlagsWddm2::ExistingSysMem }>,
        ),
        ..GOOD
    };
pub(crate) const SETS_NOTIFICATION_WITHOUT_PHYSICAL: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateAllocation: Some(with_flags::<{ FlagsWddm2::ExplicitResidencyNotification }>),
        ..GOOD
    };
pub(crate) const SETS_HISTORYBUFFER_WITHOUT_CPUVISIBLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateAllocation: Some(with_flags::<{ FlagsWddm2::HistoryBuffer }>),
        ..GOOD
    };

pub(crate) const UNDERRUNS_PRIVATE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(underruns_private_data), ..GOOD };
pub(crate) const OVERRUNS_PRIVATE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(overruns_private_data), ..GOOD };

/// A bit of `FlagsWddm2` that is not defined.
const RESERVED: u32 = 1 << 11;

/// Does not free the created allocations when a later allocation fails.
unsafe extern "win64-unwind" fn leaks_failed_create(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_until_failure(adapter, args) }
}

/// Writes a zero past the private data of each allocation.
unsafe extern "win64-unwind" fn overruns_private_data(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for info in unsafe { list(given.pAllocationInfo, given.NumAllocations) } {
        let end = info.pPrivateDriverData.wrapping_byte_add(info.PrivateDriverDataSize as usize);
        if !info.pPrivateDriverData.is_null() {
            // SAFETY: The kernel keeps guard bytes there.
            unsafe { end.cast::<u8>().write(0) };
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_allocation(adapter, args) }
}

/// Writes a zero before the private data of each allocation.
unsafe extern "win64-unwind" fn underruns_private_data(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for info in unsafe { list(given.pAllocationInfo, given.NumAllocations) } {
        if !info.pPrivateDriverData.is_null() {
            let before = info.pPrivateDriverData.wrapping_byte_sub(1);
            // SAFETY: The kernel keeps guard bytes there.
            unsafe { before.cast::<u8>().write(0) };
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_allocation(adapter, args) }
}

/// Returns a status that the DDI does not allow when a description is invalid.
unsafe extern "win64-unwind" fn returns_illegal_create_status(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    match unsafe { create_allocation(adapter, args) } {
        STATUS_INVALID_PARAMETER => STATUS_UNSUCCESSFUL,
        status => status,
    }
}

/// Returns success without an `hAllocation`.
unsafe extern "win64-unwind" fn without_handles(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, infos) = unsafe { created(adapter, args) };
    for info in infos {
        // SAFETY: The allocation is unpublished.
        unsafe { destroy_one_allocation(adapter, info.hAllocation) };
        info.hAllocation = ptr::null_mut();
    }
    status
}

/// Returns the first `hAllocation` of a call for all its allocations.
unsafe extern "win64-unwind" fn reuses_allocation_handle(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, infos) = unsafe { created(adapter, args) };
    if let Some((first, rest)) = infos.split_first_mut() {
        for info in rest {
            // SAFETY: The allocation is unpublished.
            unsafe { destroy_one_allocation(adapter, info.hAllocation) };
            info.hAllocation = first.hAllocation;
        }
    }
    status
}

/// Sets flags that are undefined or mutually exclusive.
pub(crate) unsafe extern "win64-unwind" fn with_flags<const FLAGS: u32>(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, infos) = unsafe { created(adapter, args) };
    for info in infos {
        info.FlagsWddm2.Value |= FLAGS;
    }
    status
}

/// Destroys each distinct handle of the list once and returns success: the bug is in the create.
unsafe extern "win64-unwind" fn destroy_non_null(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for allocation in unsafe { list(args.pAllocationList, args.NumAllocations) } {
        // SAFETY: A handle that is NULL or freed is not dereferenced.
        unsafe { destroy_one_allocation(adapter, *allocation) };
    }
    args.NumAllocations = 0;
    // SAFETY: The arguments come from the kernel, except the list.
    unsafe { destroy_allocation(adapter, &raw const args) }
}

/// Creates as the good driver does. Returns the status and the elements.
///
/// # Safety
///
/// As for `create_allocation`.
pub(crate) unsafe fn created<'a>(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> (NTSTATUS, &'a mut [DXGK_ALLOCATIONINFO]) {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { create_allocation(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    let count = if status == STATUS_SUCCESS { args.NumAllocations } else { 0 };
    // SAFETY: The kernel passes an array of this length.
    (status, unsafe { list_mut(args.pAllocationInfo, count) })
}
