//! Bad drivers: the data behind a client's handle.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::context::{create_context, device_and_adapter};
use crate::table::{Adapter, GOOD};
use crate::view::open_allocation;
use abi::display::{
    DXGK_HANDLE_ALLOCATION, DXGK_HANDLE_RESOURCE, DXGKARG_CREATECONTEXT, DXGKARG_OPENALLOCATION,
    DXGKARGCB_GETHANDLEDATA, DXGKARGCB_RELEASEHANDLEDATA, DXGKCB_GETHANDLEDATAFLAGS,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{D3DKMT_HANDLE, HANDLE, NTSTATUS};
use std::ptr;

pub(crate) const CALLS_GETHANDLEDATA_ON_OPEN: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(calls_gethandledata_on_open), ..GOOD };
pub(crate) const CALLS_GETHANDLEDATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateContext: Some(calls_gethandledata), ..GOOD };
pub(crate) const ACQUIRES_DEVICE_SPECIFIC_RESOURCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiOpenAllocation: Some(acquires_device_specific_resource),
        ..GOOD
    };
pub(crate) const LEAKS_HANDLE_DATA: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(leaks_handle_data), ..GOOD };
pub(crate) const RELEASES_ADAPTER_HANDLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(releases_adapter_handle), ..GOOD };
pub(crate) const RELEASES_HANDLE_DATA_TWICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(releases_handle_data_twice), ..GOOD };

/// Handles are consecutive; a new resource's handle comes first.
const STEP: D3DKMT_HANDLE = 0x40;

/// Gets each allocation's data as in WDDM 1.x, before it does so correctly.
unsafe extern "win64-unwind" fn calls_gethandledata_on_open(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { each(device, args, get) }
}

/// Gets data as in WDDM 1.x (`DxgkCbGetHandleData`).
unsafe extern "win64-unwind" fn calls_gethandledata(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The handle is the device's, and the device outlives the call.
    if let Some((_, adapter)) = unsafe { device_and_adapter(device) } {
        get(adapter, 0);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_context(device, args) }
}

/// Requests device-specific data of the resource, which does not exist.
unsafe extern "win64-unwind" fn acquires_device_specific_resource(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let ask = |adapter: &Adapter, name: D3DKMT_HANDLE| {
        let request = DXGKARGCB_GETHANDLEDATA {
            hObject: name.wrapping_sub(STEP),
            Type: DXGK_HANDLE_RESOURCE,
            Flags: DXGKCB_GETHANDLEDATAFLAGS { Value: DXGKCB_GETHANDLEDATAFLAGS::DeviceSpecific },
        };
        release(adapter, acquire(adapter, &request), DXGK_HANDLE_RESOURCE);
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { each(device, args, ask) }
}

/// Acquires each allocation's data again and never releases it.
unsafe extern "win64-unwind" fn leaks_handle_data(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        each(device, args, |adapter, name| {
            acquire(adapter, &of_allocation(name));
        })
    }
}

/// Releases each allocation's data twice.
unsafe extern "win64-unwind" fn releases_handle_data_twice(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let twice = |adapter: &Adapter, name: D3DKMT_HANDLE| {
        let held = acquire(adapter, &of_allocation(name));
        release(adapter, held, DXGK_HANDLE_ALLOCATION);
        release(adapter, held, DXGK_HANDLE_ALLOCATION);
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { each(device, args, twice) }
}

/// Releases the handle of the adapter as if it were acquired data.
unsafe extern "win64-unwind" fn releases_adapter_handle(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let wrong = |adapter: &Adapter, _: D3DKMT_HANDLE| {
        release(adapter, adapter.interface.DeviceHandle, DXGK_HANDLE_ALLOCATION);
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { each(device, args, wrong) }
}

/// Runs a function with the kernel handle of each allocation, then the good driver's open.
///
/// # Safety
///
/// As for `open_allocation`.
unsafe fn each(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
    body: impl Fn(&Adapter, D3DKMT_HANDLE),
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The handle is the device's, and the device outlives the call.
    if let Some((_, adapter)) = unsafe { device_and_adapter(device) } {
        // SAFETY: The kernel passes an array of this length.
        let infos = unsafe { crate::block::list(given.pOpenAllocation, given.NumAllocations) };
        for info in infos {
            body(adapter, info.hAllocation);
        }
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { open_allocation(device, args) }
}

fn of_allocation(name: D3DKMT_HANDLE) -> DXGKARGCB_GETHANDLEDATA {
    DXGKARGCB_GETHANDLEDATA {
        hObject: name,
        Type: DXGK_HANDLE_ALLOCATION,
        ..DXGKARGCB_GETHANDLEDATA::ZERO
    }
}

/// Calls `DxgkCbGetHandleData`, which returns nothing.
fn get(adapter: &Adapter, name: D3DKMT_HANDLE) {
    let request = of_allocation(name);
    if let Some(call) = adapter.interface.DxgkCbGetHandleData {
        // SAFETY: The function is the kernel's, and `asked` outlives the call.
        unsafe { call(&raw const request) };
    }
}

/// Acquires data. Returns the value to release it with, NULL if nothing was acquired.
fn acquire(adapter: &Adapter, request: &DXGKARGCB_GETHANDLEDATA) -> HANDLE {
    let mut held = ptr::null_mut();
    if let Some(call) = adapter.interface.DxgkCbAcquireHandleData {
        // SAFETY: The function is the kernel's, and both arguments outlive the call.
        unsafe { call(request, &raw mut held) };
    }
    held
}

/// Releases acquired data.
fn release(adapter: &Adapter, held: HANDLE, kind: i32) {
    if let Some(call) = adapter.interface.DxgkCbReleaseHandleData.filter(|_| !held.is_null()) {
        // SAFETY: The function is the kernel's and dereferences no argument.
        unsafe { call(DXGKARGCB_RELEASEHANDLEDATA { ReleaseHandle: held, Type: kind }) };
    }
}
