//! Bad drivers: `DxgkDdiOpenAllocation` and `DxgkDdiCloseAllocation`.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::destroy::leaks_destroyed_allocation;
use crate::allocation::{Allocation, destroy_one_allocation};
use crate::block::{find, list, list_mut, pointer};
use crate::context::Device;
use crate::table::GOOD;
use crate::view::{View, close_allocation, end_view, open_allocation};
use abi::display::{DXGK_OPENALLOCATIONINFO, DXGKARG_CLOSEALLOCATION, DXGKARG_OPENALLOCATION};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use std::ptr;

pub(crate) const FREES_ALLOCATION_ON_CLOSE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCloseAllocation: Some(frees_allocation_on_close),
        DxgkDdiDestroyAllocation: Some(leaks_destroyed_allocation),
        ..GOOD
    };
pub(crate) const KEEPS_CLOSED_DEVICE_POINTER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(keeps_closed_device_pointer), ..GOOD };
pub(crate) const RETURNS_NULL_VIEW: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiOpenAllocation: Some(without_handles),
    DxgkDdiCloseAllocation: Some(nothing),
    ..GOOD
};

pub(crate) const WRITES_RESOURCE_DATA_ON_OPEN: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiOpenAllocation: Some(writes_resource_data_on_open),
        ..GOOD
    };

/// Writes into the resource's private data.
unsafe extern "win64-unwind" fn writes_resource_data_on_open(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes a buffer of this length.
    let common =
        unsafe { list_mut(given.pPrivateDriverData.cast::<u8>(), given.PrivateDriverSize) };
    if let Some(byte) = common.last_mut() {
        *byte ^= 0xff;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Frees the allocation with the view instead of in the destroy.
unsafe extern "win64-unwind" fn frees_allocation_on_close(
    device: HANDLE,
    args: *const DXGKARG_CLOSEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The handle is the device's, and the device outlives the call.
    let Some(known) = (unsafe { find::<Device>(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for view in unsafe { list(given.pOpenHandleList, given.NumAllocations) } {
        // SAFETY: The handle is the view's, which is freed in the call below.
        let Some(view) = (unsafe { find::<View>(*view) }) else { continue };
        // SAFETY: This driver does not use the block again; a freed block is not dereferenced.
        unsafe { destroy_one_allocation(known.adapter, view.allocation) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { close_allocation(device, args) }
}

/// Makes the device the owner of the allocation, and keeps that when the view is closed.
unsafe extern "win64-unwind" fn keeps_closed_device_pointer(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, infos) = unsafe { opened(device, args) };
    for info in infos {
        // SAFETY: The good entry has just created the view.
        let view = unsafe { find::<View>(info.hDeviceSpecificAllocation) };
        // SAFETY: An allocation outlives its views.
        let allocation = view.and_then(|view| unsafe { pointer::<Allocation>(view.allocation) });
        if let Some(allocation) = allocation {
            // SAFETY: The object exists, and this driver uses the member nowhere else.
            unsafe { (*allocation).owner = device };
        }
    }
    status
}

/// Returns success without an `hDeviceSpecificAllocation`.
unsafe extern "win64-unwind" fn without_handles(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, infos) = unsafe { opened(device, args) };
    for info in infos {
        // SAFETY: The view is unpublished.
        unsafe { end_view(device, info.hDeviceSpecificAllocation) };
        info.hDeviceSpecificAllocation = ptr::null_mut();
    }
    status
}

/// Closes nothing because there are no views: the bug is in the open.
unsafe extern "win64-unwind" fn nothing(
    _device: HANDLE,
    _args: *const DXGKARG_CLOSEALLOCATION,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Opens as the good driver does. Returns the status and the elements.
///
/// # Safety
///
/// As for `open_allocation`.
unsafe fn opened<'a>(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> (NTSTATUS, &'a mut [DXGK_OPENALLOCATIONINFO]) {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { open_allocation(device, args) };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    let count = if status == STATUS_SUCCESS { args.NumAllocations } else { 0 };
    // SAFETY: The kernel passes an array of this length.
    (status, unsafe { list_mut(args.pOpenAllocation, count) })
}
