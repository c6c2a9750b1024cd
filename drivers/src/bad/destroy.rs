//! Bad drivers: `DxgkDdiDestroyAllocation` and its consequences.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::create::created;
use crate::allocation::{Allocation, destroy_allocation};
use crate::block::{Kind, find, free, list, pointer, take, value};
use crate::context::{Device, destroy_device};
use crate::table::{Adapter, GOOD};
use abi::display::{
    DXGK_DESTROYALLOCATIONFLAGS, DXGKARG_CREATEALLOCATION, DXGKARG_DESTROYALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
use std::panic::resume_unwind;
use std::ptr;

pub(crate) const FREES_POOL_TWICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyAllocation: Some(frees_pool_twice), ..GOOD };
pub(crate) const LEAKS_DESTROYED_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiDestroyAllocation: Some(leaks_destroyed_allocation),
        ..GOOD
    };
pub(crate) const IGNORES_DESTROYRESOURCE_FLAG: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiDestroyAllocation: Some(ignores_destroyresource_flag),
        ..GOOD
    };
pub(crate) const LEAKS_EMPTY_RESOURCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyAllocation: Some(leaks_empty_resource), ..GOOD };
pub(crate) const FREES_RESOURCE_WITH_MEMBERS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiDestroyAllocation: Some(frees_resource_with_members),
        ..GOOD
    };
pub(crate) const CRASHES_IN_DESTROY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyAllocation: Some(crashes_in_destroy), ..GOOD };
pub(crate) const WRITES_DESTROYED_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiAddDevice: Some(add_device_with_list),
        DxgkDdiCreateAllocation: Some(create_and_record),
        DxgkDdiDestroyDevice: Some(writes_destroyed_allocation),
        ..GOOD
    };

/// Frees each allocation's block twice.
unsafe extern "win64-unwind" fn frees_pool_twice(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { destroy_allocation(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for allocation in unsafe { list(args.pAllocationList, args.NumAllocations) } {
        // SAFETY: The block is not used; the pool does not dereference its argument.
        unsafe { free(*allocation) };
    }
    status
}

/// Frees the destroyed resource, and none of its allocations.
pub(crate) unsafe extern "win64-unwind" fn leaks_destroyed_allocation(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut args = unsafe { args.read() };
    args.NumAllocations = 0;
    // SAFETY: The arguments come from the kernel, except the list.
    unsafe { destroy_allocation(adapter, &raw const args) }
}

/// Frees the allocations and ignores `DestroyResource` if the list is not empty.
unsafe extern "win64-unwind" fn ignores_destroyresource_flag(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut args = unsafe { args.read() };
    if args.NumAllocations > 0 {
        args.Flags.Value = 0;
    }
    // SAFETY: The arguments come from the kernel, except the flag.
    unsafe { destroy_allocation(adapter, &raw const args) }
}

/// Does nothing for an empty list, even if an empty resource is destroyed.
unsafe extern "win64-unwind" fn leaks_empty_resource(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    if unsafe { (*args).NumAllocations } == 0 {
        return STATUS_SUCCESS;
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_allocation(adapter, args) }
}

/// Destroys any `hResource` it gets, even if only members are destroyed.
unsafe extern "win64-unwind" fn frees_resource_with_members(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut args = unsafe { args.read() };
    if !args.hResource.is_null() {
        args.Flags.Value |= DXGK_DESTROYALLOCATIONFLAGS::DestroyResource;
    }
    // SAFETY: The arguments come from the kernel, except the flag.
    unsafe { destroy_allocation(adapter, &raw const args) }
}

/// Unwinds.
unsafe extern "win64-unwind" fn crashes_in_destroy(
    _adapter: HANDLE,
    _args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // Unwinds without the message that a panic prints.
    resume_unwind(Box::new("this driver destroys nothing"));
}

/// An adapter that records an allocation. Its first member is the `Adapter` that good entries
/// expect.
#[repr(C)]
struct KeptAllocations {
    adapter: Adapter,
    /// The last created allocation.
    kept: HANDLE,
}

impl Kind for KeptAllocations {
    const SIGNATURE: u32 = Adapter::SIGNATURE;
}

unsafe extern "win64-unwind" fn add_device_with_list(
    device: PDEVICE_OBJECT,
    context: *mut PVOID,
) -> NTSTATUS {
    let adapter = take(KeptAllocations { adapter: Adapter::new(device), kept: ptr::null_mut() });
    // SAFETY: The argument points at a writable pointer.
    unsafe { context.write(adapter) };
    if adapter.is_null() { STATUS_NO_MEMORY } else { STATUS_SUCCESS }
}

/// Records the last created allocation and never forgets it.
unsafe extern "win64-unwind" fn create_and_record(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let (status, infos) = unsafe { created(adapter, args) };
    // SAFETY: The handle is the adapter's, created in `add_device_with_list`.
    let keeping = unsafe { pointer::<KeptAllocations>(adapter) };
    if let (Some(keeping), Some(newest)) = (keeping, infos.last()) {
        // SAFETY: The adapter exists; calls that use this member never run concurrently.
        unsafe { (*keeping).kept = newest.hAllocation };
    }
    status
}

/// Writes to the last created allocation, which may have been destroyed.
unsafe extern "win64-unwind" fn writes_destroyed_allocation(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the device's, which is freed in the call below.
    let Some(device) = (unsafe { find::<Device>(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The adapter was created in `add_device_with_list` and outlives its devices.
    let keeping = unsafe { pointer::<KeptAllocations>(device.adapter) };
    // SAFETY: As above.
    let kept = keeping
        .map(|kept_allocations| unsafe { (*kept_allocations).kept })
        .filter(|c_void| !c_void.is_null());
    if let Some(kept) = kept {
        let kept = value::<Allocation>(kept);
        // SAFETY: The allocation may have been freed. The pool keeps freed blocks mapped; the write
        // is the planted bug.
        unsafe { (*kept).size = 0 };
    }
    // SAFETY: The handle is the device's.
    unsafe { destroy_device(handle) }
}
