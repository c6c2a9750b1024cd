//! Bad drivers: submission to the hardware.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::find;
use crate::context::{Context, device_and_adapter, submit_command_virtual};
use crate::memory::{MEMORY, submit_paging};
use crate::table::GOOD;
use abi::display::{
    DXGKARG_SUBMITCOMMAND, DXGKARG_SUBMITCOMMANDVIRTUAL, DXGKARGCB_GETHANDLEDATA,
    DXGKDDI_SUBMITCOMMANDVIRTUAL,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_NO_MEMORY, STATUS_UNSUCCESSFUL};
use abi::{HANDLE, NTSTATUS};
use nt::{ExAllocatePool2, ExFreePoolWithTag, KeDelayExecutionThread, POOL_FLAG_PAGED};
use std::ptr;

const TAG: u32 = u32::from_le_bytes(*b"Wtsu");

const fn with_submit_command_virtual(
    entry: DXGKDDI_SUBMITCOMMANDVIRTUAL,
) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiSubmitCommandVirtual: Some(entry), ..GOOD }
}

pub(crate) const FAILS_SUBMIT_PAGING: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiSubmitCommand: Some(fails_submit_paging), ..MEMORY };
pub(crate) const ACQUIRES_HANDLE_DATA_IN_SUBMIT: DRIVER_INITIALIZATION_DATA =
    with_submit_command_virtual(acquires);
pub(crate) const WAITS_IN_SUBMIT: DRIVER_INITIALIZATION_DATA = with_submit_command_virtual(waits);
pub(crate) const ALLOCATES_PAGED_IN_SUBMIT: DRIVER_INITIALIZATION_DATA =
    with_submit_command_virtual(allocates_paged_in_submit);
pub(crate) const RETURNS_NO_MEMORY_SUBMIT: DRIVER_INITIALIZATION_DATA =
    with_submit_command_virtual(returns_no_memory_submit);

/// Submits paging work and returns a failure.
unsafe extern "win64-unwind" fn fails_submit_paging(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMAND,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { submit_paging(adapter, args) };
    STATUS_UNSUCCESSFUL
}

/// Submits a packet and returns `STATUS_NO_MEMORY`.
unsafe extern "win64-unwind" fn returns_no_memory_submit(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { submit_command_virtual(adapter, args) };
    STATUS_NO_MEMORY
}

/// Calls `DxgkCbAcquireHandleData` while it submits a packet, where that is not allowed.
unsafe extern "win64-unwind" fn acquires(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The handle is the context's, and the context outlives the call.
    let context = unsafe { find::<Context>(given.hContext) };
    // SAFETY: A device outlives its contexts.
    let known = context.and_then(|context| unsafe { device_and_adapter(context.device) });
    if let Some(call) = known.and_then(|(_, it)| it.interface.DxgkCbAcquireHandleData) {
        let (request, mut held) = (DXGKARGCB_GETHANDLEDATA::ZERO, ptr::null_mut());
        // SAFETY: The function is the kernel's, and both arguments outlive the call.
        unsafe { call(&raw const request, &raw mut held) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { submit_command_virtual(adapter, args) }
}

/// Waits before it submits a packet.
unsafe extern "win64-unwind" fn waits(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    let moment = -10_i64;
    // SAFETY: `moment` outlives the call.
    unsafe { KeDelayExecutionThread(0, 0, &raw const moment) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { submit_command_virtual(adapter, args) }
}

/// Allocates paged pool while it submits a packet.
unsafe extern "win64-unwind" fn allocates_paged_in_submit(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: The function has no requirements.
    let block = unsafe { ExAllocatePool2(POOL_FLAG_PAGED, 64, TAG) };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { submit_command_virtual(adapter, args) };
    if !block.is_null() {
        // SAFETY: No other code uses it.
        unsafe { ExFreePoolWithTag(block, TAG) };
    }
    status
}
