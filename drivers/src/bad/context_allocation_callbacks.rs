//! Bad drivers: callbacks for context allocations.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::find;
use crate::context::create_device;
use crate::table::{Adapter, GOOD, dpc_routine};
use abi::display::{DXGKARG_CREATEDEVICE, DXGKARGCB_CREATECONTEXTALLOCATION};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS, PVOID};

pub(crate) const CREATES_CONTEXT_ALLOCATION_IN_DPC: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiDpcRoutine: Some(creates_context_allocation_in_dpc),
        ..GOOD
    };
pub(crate) const DESTROYS_CONTEXT_ALLOCATION_IN_DPC: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDpcRoutine: Some(frees), ..GOOD };
pub(crate) const PASSES_WRONG_ADAPTER_HANDLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateDevice: Some(passes_wrong_adapter_handle), ..GOOD };
pub(crate) const FREES_WITH_WRONG_ADAPTER_HANDLE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateDevice: Some(frees_with_wrong_adapter_handle),
        ..GOOD
    };

/// Calls `DxgkCbCreateContextAllocation` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn creates_context_allocation_in_dpc(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        take(adapter, adapter.interface.DeviceHandle);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// Calls `DxgkCbDestroyContextAllocation` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn frees(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        free(adapter, adapter.interface.DeviceHandle);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// Passes its own adapter handle instead of the kernel's when it creates a context allocation.
unsafe extern "win64-unwind" fn passes_wrong_adapter_handle(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(known) = unsafe { find::<Adapter>(adapter) } {
        take(known, adapter);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_device(adapter, args) }
}

/// Passes its own adapter handle instead of the kernel's when it destroys a context allocation.
unsafe extern "win64-unwind" fn frees_with_wrong_adapter_handle(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(known) = unsafe { find::<Adapter>(adapter) } {
        free(known, adapter);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_device(adapter, args) }
}

/// Requests a page. The request fails.
fn take(adapter: &Adapter, handle: HANDLE) {
    let Some(call) = adapter.interface.DxgkCbCreateContextAllocation else { return };
    let mut args = DXGKARGCB_CREATECONTEXTALLOCATION {
        hAdapter: handle,
        Size: 0x1000,
        SupportedSegmentSet: 1,
        ..DXGKARGCB_CREATECONTEXTALLOCATION::ZERO
    };
    // SAFETY: The function is the kernel's, and `args` outlives the call.
    unsafe { call(&raw mut args) };
}

/// Destroys a context allocation that it does not have. The call fails.
fn free(adapter: &Adapter, handle: HANDLE) {
    let Some(call) = adapter.interface.DxgkCbDestroyContextAllocation else { return };
    // SAFETY: The function is the kernel's.
    unsafe { call(handle, std::ptr::without_provenance_mut(0x40)) };
}
