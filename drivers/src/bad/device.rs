//! Bad drivers: devices and contexts.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::context::{create_device, destroy_device, device_and_adapter};
use crate::memory::{MEMORY, create_context_with_area};
use crate::table::GOOD;
use abi::display::{DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_PENDING, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS, PVOID};
use nt::{KeInitializeEvent, KeWaitForSingleObject};
use std::ptr;

pub(crate) const RETURNS_NULL_DEVICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateDevice: Some(returns_null_device), ..GOOD };
pub(crate) const CREATES_DEVICE_PENDING: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateDevice: Some(creates_device_pending), ..GOOD };
pub(crate) const WAITS_FOREVER_IN_CREATE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateDevice: Some(waits_forever), ..GOOD };
pub(crate) const LEAKS_DEVICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyDevice: Some(leaks_device), ..GOOD };
pub(crate) const LEAKS_CONTEXT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyContext: Some(nothing), ..GOOD };
pub(crate) const LEAKS_REMOVED_ADAPTER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRemoveDevice: Some(nothing), ..GOOD };

pub(crate) const OMITS_DMA_BUFFER_SEGMENT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateContext: Some(with_dma_buffers_in::<0>), ..MEMORY };
pub(crate) const PUTS_DMA_BUFFERS_IN_MEMORY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateContext: Some(with_dma_buffers_in::<0b10>),
        ..MEMORY
    };

/// Creates a context with another `DmaBufferSegmentSet`.
unsafe extern "win64-unwind" fn with_dma_buffers_in<const SEGMENTS: u32>(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { create_context_with_area(device, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    unsafe { &mut *args }.ContextInfo.DmaBufferSegmentSet = SEGMENTS;
    status
}

/// Returns success and leaves `hDevice` unchanged.
unsafe extern "win64-unwind" fn returns_null_device(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut created = unsafe { args.read() };
    // SAFETY: The arguments are the kernel's, copied to another address.
    let status = unsafe { create_device(adapter, &raw mut created) };
    if status == STATUS_SUCCESS {
        // SAFETY: The device is unpublished.
        unsafe { destroy_device(created.hDevice) };
    }
    status
}

/// Creates no device and returns `STATUS_PENDING`.
unsafe extern "win64-unwind" fn creates_device_pending(
    _adapter: HANDLE,
    _args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    STATUS_PENDING
}

/// Waits for an event that nothing sets, then creates the device.
unsafe extern "win64-unwind" fn waits_forever(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    let mut event = [0_u64; 3];
    let event: PVOID = event.as_mut_ptr().cast();
    // SAFETY: The event has the size of a `KEVENT`.
    unsafe { KeInitializeEvent(event, 0, 0) };
    // SAFETY: The event is initialized, and NULL means no timeout.
    unsafe { KeWaitForSingleObject(event, 0, 0, 0, ptr::null()) };
    // SAFETY: The arguments are the kernel's.
    unsafe { create_device(adapter, args) }
}

/// Frees the device's address space and keeps its block.
unsafe extern "win64-unwind" fn leaks_device(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the device's, which is freed here.
    if let Some((device, adapter)) = unsafe { device_and_adapter(handle) } {
        adapter.board().close_space(device.space);
    }
    STATUS_SUCCESS
}

/// Frees nothing.
unsafe extern "win64-unwind" fn nothing(_handle: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}
