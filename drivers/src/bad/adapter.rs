//! Bad drivers: adapters, their interrupts and their devices.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, end, find, take, value};
use crate::context::{Device, destroy_device};
use crate::table::{Adapter, GOOD, dpc_routine, interrupt_routine, remove_device};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use flight::Fence;

pub(crate) const REPORTS_UNSUBMITTED_FENCE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiInterruptRoutine: Some(reports_unsubmitted_fence), ..GOOD };
pub(crate) const NOTIFIES_INTERRUPT_IN_DPC: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDpcRoutine: Some(notifies_interrupt_in_dpc), ..GOOD };
pub(crate) const REQUEUES_DPC_FOREVER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDpcRoutine: Some(requeues_dpc_forever), ..GOOD };
pub(crate) const LEAKS_REMOVE_DEVICE_MEMORY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRemoveDevice: Some(leaks_remove_device_memory), ..GOOD };
pub(crate) const WRITES_FREED_DEVICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyDevice: Some(writes_freed_device), ..GOOD };
pub(crate) const WRITES_BEHIND_DEVICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyDevice: Some(writes_behind_device), ..GOOD };
pub(crate) const WRITES_BEFORE_DEVICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyDevice: Some(writes_before_device), ..GOOD };

/// The distance of the false fence from the right fence.
const FENCE_OFFSET: u32 = 1 << 16;

/// Reports a fence that was not submitted, before the right fence.
unsafe extern "win64-unwind" fn reports_unsubmitted_fence(context: PVOID, message: u32) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        let Fence(done) = adapter.board().done(0);
        adapter.notify_interrupt(0, Fence(done.wrapping_add(FENCE_OFFSET)));
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { interrupt_routine(context, message) }
}

/// Queues its DPC in its DPC.
unsafe extern "win64-unwind" fn requeues_dpc_forever(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    let Some(adapter) = (unsafe { find::<Adapter>(context) }) else { return };
    if let Some(call) = adapter.interface.DxgkCbQueueDpc {
        // SAFETY: The function and its argument come from the kernel.
        unsafe { call(adapter.interface.DeviceHandle) };
    }
}

/// Reports the fence again in the DPC, where `DxgkCbNotifyInterrupt` is not allowed.
unsafe extern "win64-unwind" fn notifies_interrupt_in_dpc(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(adapter) = unsafe { find::<Adapter>(context) } {
        adapter.notify_interrupt(0, adapter.board().done(0));
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// The driver's record of its removal.
#[repr(C)]
struct DestroyLog {
    ends: u64,
}

impl Kind for DestroyLog {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"elog");
}

/// Allocates a block that is never freed.
unsafe extern "win64-unwind" fn leaks_remove_device_memory(context: PVOID) -> NTSTATUS {
    take(DestroyLog { ends: 1 });
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { remove_device(context) }
}

/// Writes to the device's block after freeing it.
unsafe extern "win64-unwind" fn writes_freed_device(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the device's.
    let status = unsafe { destroy_device(handle) };
    let device = value::<Device>(handle);
    // SAFETY: The pool keeps freed blocks mapped; the write is the planted bug.
    unsafe { (*device).space = 0 };
    status
}

/// Writes the byte behind the device's block.
unsafe extern "win64-unwind" fn writes_behind_device(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The pool has a pattern there; the write is the planted bug.
    unsafe { end::<Device>(handle).write_volatile(0) };
    // SAFETY: The handle is the device's.
    unsafe { destroy_device(handle) }
}

/// Writes four bytes before the device's block.
unsafe extern "win64-unwind" fn writes_before_device(handle: HANDLE) -> NTSTATUS {
    let before = handle.cast::<u32>().wrapping_sub(1);
    // SAFETY: The pool has a pattern there; the write is the planted bug.
    unsafe { before.write_volatile(0) };
    // SAFETY: The handle is the device's.
    unsafe { destroy_device(handle) }
}
