//! Bad drivers: adapters that start, sleep, are surprise-removed, reset, stopped and removed.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, find, pointer, take};
use crate::handle_queries::{HANDLE_QUERIES, unmap};
use crate::table::{
    Adapter, GOOD, add_device, notify_surprise_removal, remove_device, reset_device,
    set_power_state, start_device, stop_device,
};
use abi::miniport::{
    DEVICE_POWER_STATE, DRIVER_INITIALIZATION_DATA, DXGK_DISPLAY_INFORMATION, DXGK_START_INFO,
    DXGK_SURPRISE_REMOVAL_TYPE, DXGKRNL_INTERFACE, POWER_ACTION,
};
use abi::status::{STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{NTSTATUS, PDEVICE_OBJECT, PVOID};
use std::cell::Cell;

pub(crate) const LEAKS_ADD_DEVICE_MEMORY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiAddDevice: Some(leaks_add_device_memory), ..GOOD };
pub(crate) const FAILS_START_DEVICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiStartDevice: Some(fails_start_device), ..GOOD };
pub(crate) const OMITS_ADAPTER_CONTEXT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiAddDevice: Some(omits_adapter_context), ..GOOD };
pub(crate) const OMITS_START_COUNTS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiStartDevice: Some(omits_start_counts), ..GOOD };
pub(crate) const LEAKS_START_DEVICE_MEMORY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiStartDevice: Some(leaks_start_device_memory), ..GOOD };
pub(crate) const RELEASES_MISSING_POST_DISPLAY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiStopDeviceAndReleasePostDisplayOwnership: Some(releases_missing_post_display),
        ..GOOD
    };
pub(crate) const QUEUES_DPC_IN_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiResetDevice: Some(queues_dpc_in_reset), ..GOOD };
pub(crate) const FAILS_SET_POWER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiSetPowerState: Some(fails_set_power), ..GOOD };
pub(crate) const TOUCHES_REMOVED_HARDWARE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiStopDevice: Some(touches_removed_hardware), ..GOOD };
pub(crate) const WRITES_REMOVED_REGISTER: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiStopDevice: Some(writes_removed_register),
    ..HANDLE_QUERIES
};
pub(crate) const FAILS_SURPRISE_REMOVAL: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiNotifySurpriseRemoval: Some(fails_surprise_removal),
    ..GOOD
};

pub(crate) const KEEPS_VSYNC_AFTER_STOP: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiStopDevice: Some(keeps_vsync_after_stop), ..GOOD };
pub(crate) const QUEUES_DPC_AFTER_REMOVE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiRemoveDevice: Some(keeps_interface_after_remove),
    DxgkDdiUnload: Some(queues_dpc_in_unload),
    ..GOOD
};
pub(crate) const LEAKS_UNLOAD_MEMORY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiUnload: Some(leaks_unload_memory), ..GOOD };
pub(crate) const OMITS_CONTROL_INTERRUPT: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiStartDevice: Some(reports_one_source),
    DxgkDdiControlInterrupt: None,
    ..GOOD
};

thread_local! {
    /// What `DxgkDdiRemoveDevice` leaves for `DxgkDdiUnload`, which has no argument.
    static INTERFACE_AFTER_REMOVE: Cell<Option<DXGKRNL_INTERFACE>> = const { Cell::new(None) };
}

/// Stops without a reset of the board, so that vsync interrupts stay enabled.
unsafe extern "win64-unwind" fn keeps_vsync_after_stop(_context: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Keeps the kernel's functions for later.
unsafe extern "win64-unwind" fn keeps_interface_after_remove(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed below.
    let interface = unsafe { find::<Adapter>(context) }.map(|adapter| adapter.interface);
    INTERFACE_AFTER_REMOVE.set(interface);
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { remove_device(context) }
}

/// Queues the DPC of an adapter that is removed.
unsafe extern "win64-unwind" fn queues_dpc_in_unload() {
    if let Some(interface) = INTERFACE_AFTER_REMOVE.take()
        && let Some(call) = interface.DxgkCbQueueDpc
    {
        // SAFETY: The function and its argument came from the kernel.
        unsafe { call(interface.DeviceHandle) };
    }
}

/// Allocates a block at unload that is never freed.
unsafe extern "win64-unwind" fn leaks_unload_memory() {
    take(LeakedBlock { times: 1 });
}

/// Reports a video present source.
unsafe extern "win64-unwind" fn reports_one_source(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { start_device(context, info, interface, sources, children) };
    // SAFETY: The output can hold a number.
    unsafe { sources.write(1) };
    // SAFETY: As above.
    unsafe { children.write(1) };
    status
}

/// The driver's records.
#[repr(C)]
struct LeakedBlock {
    times: u64,
}

impl Kind for LeakedBlock {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"note");
}

/// Succeeds and does not return a context.
unsafe extern "win64-unwind" fn omits_adapter_context(
    _device: PDEVICE_OBJECT,
    _context: *mut PVOID,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Allocates a block in `DxgkDdiAddDevice` that is never freed.
unsafe extern "win64-unwind" fn leaks_add_device_memory(
    device: PDEVICE_OBJECT,
    context: *mut PVOID,
) -> NTSTATUS {
    take(LeakedBlock { times: 1 });
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { add_device(device, context) }
}

/// Starts its hardware and fails.
unsafe extern "win64-unwind" fn fails_start_device(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { start_device(context, info, interface, sources, children) };
    STATUS_UNSUCCESSFUL
}

/// Leaves the numbers of sources and children unset.
unsafe extern "win64-unwind" fn omits_start_counts(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    _sources: *mut u32,
    _children: *mut u32,
) -> NTSTATUS {
    let (mut sources, mut children) = (0, 0);
    let (sources, children) = (&raw mut sources, &raw mut children);
    // SAFETY: The arguments are the kernel's and two outputs that outlive the call.
    unsafe { start_device(context, info, interface, sources, children) }
}

/// Allocates a block at start that is never freed.
unsafe extern "win64-unwind" fn leaks_start_device_memory(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    take(LeakedBlock { times: 1 });
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { start_device(context, info, interface, sources, children) }
}

/// Returns a post display that does not exist.
unsafe extern "win64-unwind" fn releases_missing_post_display(
    context: PVOID,
    _target: u32,
    _display: *mut DXGK_DISPLAY_INFORMATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { stop_device(context) }
}

/// Queues its DPC at shutdown.
unsafe extern "win64-unwind" fn queues_dpc_in_reset(context: PVOID) {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    if let Some(it) = unsafe { find::<Adapter>(context) }
        && let Some(call) = it.interface.DxgkCbQueueDpc
    {
        // SAFETY: The function and its argument come from the kernel.
        unsafe { call(it.interface.DeviceHandle) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { reset_device(context) };
}

/// Changes its power state and returns a failure.
unsafe extern "win64-unwind" fn fails_set_power(
    context: PVOID,
    device: u32,
    state: DEVICE_POWER_STATE,
    action: POWER_ACTION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { set_power_state(context, device, state, action) };
    STATUS_UNSUCCESSFUL
}

/// Resets its board when it stops, even after surprise removal.
unsafe extern "win64-unwind" fn touches_removed_hardware(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        it.board().reset();
    }
    STATUS_SUCCESS
}

/// Clears a register when it stops, even after surprise removal.
unsafe extern "win64-unwind" fn writes_removed_register(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's.
    if let Some(it) = unsafe { pointer::<Adapter>(context) } {
        // SAFETY: The adapter exists, and no other call uses it.
        let it = unsafe { &*it };
        let register = it.registers.cast::<u32>();
        if !register.is_null() {
            // SAFETY: The registers are mapped until the next line, and aligned.
            unsafe { register.write_volatile(0) };
        }
        unmap(it, it.registers);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { stop_device(context) }
}

/// Records its surprise removal and returns a failure.
unsafe extern "win64-unwind" fn fails_surprise_removal(
    context: PVOID,
    kind: DXGK_SURPRISE_REMOVAL_TYPE,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { notify_surprise_removal(context, kind) };
    STATUS_UNSUCCESSFUL
}
