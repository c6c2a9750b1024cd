//! Views of the table driver: allocations opened and closed for a device.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::Allocation;
use crate::block::{Kind, find, free, list, list_mut, take};
use crate::context::device_and_adapter;
use crate::table::Adapter;
use abi::display::{
    DXGK_HANDLE_ALLOCATION, DXGK_OPENALLOCATIONINFO, DXGKARG_CLOSEALLOCATION,
    DXGKARG_OPENALLOCATION, DXGKARGCB_GETHANDLEDATA, DXGKARGCB_RELEASEHANDLEDATA,
};
use abi::status::{
    STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_SUCCESS,
};
use abi::{HANDLE, NTSTATUS};
use std::{mem, ptr};

/// A device's view of an allocation (`hDeviceSpecificAllocation`).
#[repr(C)]
pub(crate) struct View {
    /// The allocation.
    pub(crate) allocation: HANDLE,
    /// The allocation's memory on the board.
    pub(crate) memory: u64,
    /// The client's handle of the allocation.
    pub(crate) name: u32,
}

impl Kind for View {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"view");
}

pub(crate) unsafe extern "win64-unwind" fn open_allocation(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    let infos = unsafe { list_mut(args.pOpenAllocation, args.NumAllocations) };
    for at in 0..infos.len() {
        // SAFETY: The handle is the device's, and the element is the kernel's.
        let status = unsafe { open_one(device, &mut infos[at]) };
        if status != STATUS_SUCCESS {
            for info in infos[..at].iter_mut().rev() {
                let created = mem::replace(&mut info.hDeviceSpecificAllocation, ptr::null_mut());
                // SAFETY: The view was created in this call.
                unsafe { end_view(device, created) };
            }
            return status;
        }
    }
    STATUS_SUCCESS
}

/// Opens one view.
///
/// # Safety
///
/// The handle is the device's.
unsafe fn open_one(device: HANDLE, info: &mut DXGK_OPENALLOCATIONINFO) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let Some((known, adapter)) = (unsafe { device_and_adapter(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let handle = handle_data(adapter, info.hAllocation);
    // SAFETY: The handle is the allocation's, and the allocation outlives the call.
    let Some(allocation) = (unsafe { find::<Allocation>(handle) }) else {
        return STATUS_INVALID_HANDLE;
    };
    let (name, memory) = (info.hAllocation, allocation.memory);
    let view = take(View { allocation: handle, memory, name });
    if view.is_null() {
        return STATUS_NO_MEMORY;
    }
    adapter.board().map(known.space, name, memory);
    info.hDeviceSpecificAllocation = view;
    STATUS_SUCCESS
}

/// Returns this driver's handle of the allocation with the process's handle `name`, or NULL.
fn handle_data(adapter: &Adapter, name: u32) -> HANDLE {
    let it = &adapter.interface;
    let (Some(acquire), Some(release)) = (it.DxgkCbAcquireHandleData, it.DxgkCbReleaseHandleData)
    else {
        return ptr::null_mut();
    };
    let request = DXGKARGCB_GETHANDLEDATA {
        hObject: name,
        Type: DXGK_HANDLE_ALLOCATION,
        ..DXGKARGCB_GETHANDLEDATA::ZERO
    };
    let mut held = ptr::null_mut();
    // SAFETY: The function is the kernel's, and both arguments outlive the call.
    let handle = unsafe { acquire(&raw const request, &raw mut held) };
    if !handle.is_null() {
        let held =
            DXGKARGCB_RELEASEHANDLEDATA { ReleaseHandle: held, Type: DXGK_HANDLE_ALLOCATION };
        // SAFETY: The function is the kernel's, and the released data was acquired.
        unsafe { release(held) };
    }
    handle
}

pub(crate) unsafe extern "win64-unwind" fn close_allocation(
    device: HANDLE,
    args: *const DXGKARG_CLOSEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    let views = unsafe { list(args.pOpenHandleList, args.NumAllocations) };
    let mut known = true;
    for view in views {
        // SAFETY: The handles are the device's and that of a view, which is freed here.
        known &= unsafe { end_view(device, *view) };
    }
    if known { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

/// Closes a view. Returns whether the handle was a view's.
///
/// # Safety
///
/// The handles are the device's and a view's, which is not used afterwards.
pub(crate) unsafe fn end_view(device: HANDLE, handle: HANDLE) -> bool {
    // SAFETY: The caller upholds this function's contract.
    let known = unsafe { device_and_adapter(device) };
    // SAFETY: The caller upholds this function's contract.
    let view = unsafe { find::<View>(handle) };
    let (Some((device, adapter)), Some(view)) = (known, view) else { return false };
    adapter.board().unmap(device.space, view.name, view.memory);
    // SAFETY: The caller upholds this function's contract.
    unsafe { free(handle) };
    true
}
