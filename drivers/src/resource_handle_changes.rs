//! A good table driver that changes `hResource` wherever that is allowed. A kernel that keeps using
//! a resource's first handle fails with it.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{Resource, create_allocation, destroy_allocation};
use crate::block::{find, free, take};
use crate::table::GOOD;
use abi::display::{
    DXGK_DESTROYALLOCATIONFLAGS, DXGKARG_CREATEALLOCATION, DXGKARG_DESTROYALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::STATUS_SUCCESS;
use abi::{HANDLE, NTSTATUS};

pub(crate) const RESOURCE_HANDLE_CHANGES: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateAllocation: Some(create_and_change_handle),
    DxgkDdiDestroyAllocation: Some(destroy_and_change_handle),
    ..GOOD
};

/// Changes the handle of a resource that new allocations joined.
unsafe extern "win64-unwind" fn create_and_change_handle(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let joined = unsafe { (*args).hResource };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_allocation(adapter, args) };
    if status == STATUS_SUCCESS && !joined.is_null() {
        // SAFETY: The handle is the resource's, and the kernel uses the new handle from here on.
        let resource = unsafe { moved(joined) };
        // SAFETY: The kernel passes a valid structure, and the member is an output.
        unsafe { (*args).hResource = resource };
    }
    status
}

/// Changes the handle of a resource that stays.
unsafe extern "win64-unwind" fn destroy_and_change_handle(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { destroy_allocation(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    let stays = !given.Flags.has(DXGK_DESTROYALLOCATIONFLAGS::DestroyResource);
    if stays && !given.hResource.is_null() {
        let args = args.cast_mut();
        // SAFETY: The handle is the resource's, and the kernel uses the new handle from here on.
        let resource = unsafe { moved(given.hResource) };
        // SAFETY: The member is documented as in and out, although the parameter is const.
        unsafe { (*args).hResource = resource };
    }
    status
}

/// Moves a resource to another block, if a block can be allocated.
///
/// # Safety
///
/// The handle is a resource's and is not used afterwards.
unsafe fn moved(resource: HANDLE) -> HANDLE {
    // SAFETY: The caller upholds this function's contract.
    let Some(known) = (unsafe { find::<Resource>(resource) }) else { return resource };
    let new = take(*known);
    if new.is_null() {
        return resource;
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { free(resource) };
    new
}
