//! What goes wrong with the memory of contexts.
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

/// Asks for memory in the DPC, where `DxgkCbCreateContextAllocation` may not be called.
unsafe extern "win64-unwind" fn creates_context_allocation_in_dpc(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        take(adapter, adapter.interface.DeviceHandle);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// Gives memory back in the DPC, where `DxgkCbDestroyContextAllocation` may not be called.
unsafe extern "win64-unwind" fn frees(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        free(adapter, adapter.interface.DeviceHandle);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// Takes its own word for the adapter for the kernel's, when it asks for memory.
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

/// Takes its own word for the adapter for the kernel's, when it gives memory back.
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

/// Asks for a page, and is refused.
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

/// Gives back what it does not have, and is refused.
fn free(adapter: &Adapter, handle: HANDLE) {
    let Some(call) = adapter.interface.DxgkCbDestroyContextAllocation else { return };
    // SAFETY: The function is the kernel's.
    unsafe { call(handle, std::ptr::without_provenance_mut(0x40)) };
}
