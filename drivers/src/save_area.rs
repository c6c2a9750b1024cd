//! Save areas of contexts, as context allocations, of the table driver with memory.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, find, free, take, value};
use crate::memory::ALL_SEGMENTS;
use crate::table::Adapter;
use abi::display::DXGKARGCB_CREATECONTEXTALLOCATION;
use abi::status::{STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use softgpu::AREA_SIZE;
use std::ptr;

/// A save area (`hDriverAllocation`).
#[repr(C)]
pub(crate) struct Area {
    /// The kernel's handle (`hAllocation`).
    pub(crate) name: HANDLE,
    /// The area's number on the board.
    pub(crate) number: u64,
}

impl Kind for Area {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"area");
}

/// Creates a save area for a context; both handles are the kernel's.
pub(crate) fn create_area(
    adapter: &Adapter,
    device: HANDLE,
    context: HANDLE,
) -> Result<HANDLE, NTSTATUS> {
    let number = adapter.board().state().next();
    let area = take(Area { name: ptr::null_mut(), number });
    if area.is_null() {
        return Err(STATUS_NO_MEMORY);
    }
    area.expose_provenance(); // A paging operation comes with its address.
    match ask(adapter, &mut create_context_allocation_args(adapter, device, context, area)) {
        Ok(name) => {
            // SAFETY: The block is new and unpublished.
            unsafe { (*value::<Area>(area)).name = name };
            Ok(area)
        }
        Err(status) => {
            // SAFETY: The object is unpublished.
            unsafe { free(area) };
            Err(status)
        }
    }
}

/// The request for an area.
pub(crate) fn create_context_allocation_args(
    adapter: &Adapter,
    device: HANDLE,
    context: HANDLE,
    area: HANDLE,
) -> DXGKARGCB_CREATECONTEXTALLOCATION {
    DXGKARGCB_CREATECONTEXTALLOCATION {
        hAdapter: adapter.interface.DeviceHandle,
        hDevice: device,
        hContext: context,
        hDriverAllocation: area,
        Size: usize::try_from(AREA_SIZE).unwrap_or(0),
        SupportedSegmentSet: ALL_SEGMENTS,
        ..DXGKARGCB_CREATECONTEXTALLOCATION::ZERO
    }
}

/// Calls `DxgkCbCreateContextAllocation`. Returns the kernel's handle, or the failure.
pub(crate) fn ask(
    adapter: &Adapter,
    args: &mut DXGKARGCB_CREATECONTEXTALLOCATION,
) -> Result<HANDLE, NTSTATUS> {
    let call = adapter.interface.DxgkCbCreateContextAllocation.ok_or(STATUS_NOT_SUPPORTED)?;
    // SAFETY: The function is the kernel's, and `args` outlives the call.
    match unsafe { call(&raw mut *args) } {
        STATUS_SUCCESS => Ok(args.hAllocation),
        status => Err(status),
    }
}

/// Calls `DxgkCbDestroyContextAllocation`.
pub(crate) fn give_back(adapter: &Adapter, name: HANDLE) {
    if let Some(call) = adapter.interface.DxgkCbDestroyContextAllocation {
        // SAFETY: The function and its argument come from the kernel.
        unsafe { call(adapter.interface.DeviceHandle, name) };
    }
}

/// Destroys a save area.
///
/// # Safety
///
/// The handle is that of an area, live or freed, and is not used afterwards.
pub(crate) unsafe fn free_area(adapter: &Adapter, area: HANDLE) {
    // SAFETY: The caller upholds this function's contract.
    let Some(known) = (unsafe { find::<Area>(area) }) else { return };
    give_back(adapter, known.name);
    adapter.board().release(known.number);
    // SAFETY: The caller upholds this function's contract.
    unsafe { free(area) };
}
