//! Bad drivers: callbacks at a wrong IRQL, at a wrong time or with a wrong object, and wrong
//! requests about the hardware.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{find, list};
use crate::context::device_and_adapter;
use crate::handle_queries::{
    HANDLE_QUERIES, capture, indicate, map, members, parent, registers, space, unmap,
};
use crate::table::{Adapter, GOOD, dpc_routine, remove_device, start_device, stop_device};
use crate::view::open_allocation;
use abi::display::{DXGKARG_OPENALLOCATION, DXGKARGCB_GETHANDLEDATA};
use abi::miniport::{
    DRIVER_INITIALIZATION_DATA, DXGK_START_INFO, DXGKDDI_DPC_ROUTINE, DXGKDDI_START_DEVICE,
    DXGKRNL_INTERFACE,
};
use abi::{BOOLEAN, D3DKMT_HANDLE, HANDLE, NTSTATUS, PVOID};
use std::ptr;

const fn in_dpc(routine: DXGKDDI_DPC_ROUTINE) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiDpcRoutine: Some(routine), ..GOOD }
}

const fn with_start_callback(entry: DXGKDDI_START_DEVICE) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiStartDevice: Some(entry), ..GOOD }
}

pub(crate) const ACQUIRES_HANDLE_DATA_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(acquires);
pub(crate) const QUEUES_DPC_AFTER_STOP: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiRemoveDevice: Some(queues_dpc_after_stop), ..GOOD };
pub(crate) const QUEUES_DPC_WRONG_HANDLE: DRIVER_INITIALIZATION_DATA =
    in_dpc(queues_dpc_wrong_handle);
pub(crate) const QUERIES_RESOURCE_PARENT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiOpenAllocation: Some(queries_resource_parent), ..GOOD };
pub(crate) const QUERIES_PARENT_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(queries_parent_in_dpc);
pub(crate) const ENUMERATES_CHILDREN_IN_DPC: DRIVER_INITIALIZATION_DATA =
    in_dpc(enumerates_children_in_dpc);
pub(crate) const MAPS_PAST_HARDWARE_MEMORY: DRIVER_INITIALIZATION_DATA =
    with_start_callback(and_maps_too_much);
pub(crate) const UNMAPS_REGISTERS_TWICE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiStopDevice: Some(unmaps_registers_twice),
    ..HANDLE_QUERIES
};
pub(crate) const LEAKS_REGISTER_MAPPING: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiStopDevice: Some(stop_device), ..HANDLE_QUERIES };
pub(crate) const QUERIES_DEVICE_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(queries_device_in_dpc);
pub(crate) const READS_CONFIG_IN_DPC: DRIVER_INITIALIZATION_DATA = in_dpc(reads_config_in_dpc);
pub(crate) const QUERIES_WRONG_CAPTURE_ADDRESS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiOpenAllocation: Some(queries_wrong_capture_address),
        ..GOOD
    };
pub(crate) const INDICATES_CHILD_WHILE_SYNCHRONIZED: DRIVER_INITIALIZATION_DATA = in_dpc(indicates);

/// Runs `act` with the adapter, then the good DPC.
///
/// # Safety
///
/// As for `dpc_routine`.
pub(crate) unsafe fn before_dpc(context: PVOID, body: impl FnOnce(&Adapter)) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        body(it);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// Calls `DxgkCbAcquireHandleData` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn acquires(context: PVOID) {
    let acquire = |adapter: &Adapter| {
        let (request, mut held) = (DXGKARGCB_GETHANDLEDATA::ZERO, ptr::null_mut());
        if let Some(call) = adapter.interface.DxgkCbAcquireHandleData {
            // SAFETY: The function is the kernel's, and both arguments outlive the call.
            unsafe { call(&raw const request, &raw mut held) };
        }
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { before_dpc(context, acquire) };
}

/// Queues its DPC when it is removed, after it was stopped.
unsafe extern "win64-unwind" fn queues_dpc_after_stop(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed at the end of this call.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        queue(it, it.interface.DeviceHandle);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { remove_device(context) }
}

/// Passes its own adapter handle instead of the kernel's.
unsafe extern "win64-unwind" fn queues_dpc_wrong_handle(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { before_dpc(context, |adapter| queue(adapter, context)) };
}

fn queue(it: &Adapter, handle: HANDLE) {
    if let Some(call) = it.interface.DxgkCbQueueDpc {
        // SAFETY: The function is the kernel's and dereferences no argument.
        unsafe { call(handle) };
    }
}

/// Runs a function with the kernel handle of each allocation, then the good driver's open.
///
/// # Safety
///
/// As for `open_allocation`.
pub(crate) unsafe fn before_open(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
    body: impl Fn(&Adapter, D3DKMT_HANDLE),
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    let infos = unsafe { list(given.pOpenAllocation, given.NumAllocations) };
    // SAFETY: The handle is the device's, and the device outlives the call.
    if let Some((_, it)) = unsafe { device_and_adapter(device) } {
        for info in infos {
            body(it, info.hAllocation);
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Requests the parent of a resource as if the resource were an allocation.
unsafe extern "win64-unwind" fn queries_resource_parent(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let ask = |adapter: &Adapter, name| match parent(adapter, name) {
        0 => {}
        resource => {
            parent(adapter, resource);
        }
    };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { before_open(device, args, ask) }
}

/// Requests the capture address of an allocation that was not created for capture.
unsafe extern "win64-unwind" fn queries_wrong_capture_address(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { before_open(device, args, capture) }
}

/// Calls `DxgkCbGetHandleParent` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn queries_parent_in_dpc(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            parent(adapter, 0);
        });
    }
}

/// Calls `DxgkCbEnumHandleChildren` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn enumerates_children_in_dpc(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            members(adapter, 0);
        });
    }
}

/// Calls `DxgkCbGetDeviceInformation` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn queries_device_in_dpc(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            registers(adapter, context);
        });
    }
}

/// Calls `DxgkCbReadDeviceSpace` in the DPC, where that is not allowed.
unsafe extern "win64-unwind" fn reads_config_in_dpc(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            space(adapter, 0, 0, &mut [0; 4]);
        });
    }
}

/// Reports a connected display while synchronized with its interrupt, instead of in its DPC.
unsafe extern "win64-unwind" fn indicates(context: PVOID) {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe {
        before_dpc(context, |adapter| {
            adapter.synchronize(indicate_synchronized, context, 0);
        });
    }
}

unsafe extern "win64-unwind" fn indicate_synchronized(context: PVOID) -> BOOLEAN {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        indicate(it);
    }
    1
}

/// Unmaps its registers twice.
unsafe extern "win64-unwind" fn unmaps_registers_twice(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        unmap(it, it.registers);
        unmap(it, it.registers);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { stop_device(context) }
}

macro_rules! starts {
    ($(#[doc = $doc:literal] $name:ident $body:expr;)*) => {$(
        #[doc = $doc]
        unsafe extern "win64-unwind" fn $name(
            context: PVOID,
            info: *mut DXGK_START_INFO,
            interface: *mut DXGKRNL_INTERFACE,
            sources: *mut u32,
            children: *mut u32,
        ) -> NTSTATUS {
            // SAFETY: The arguments come from the kernel and are valid for the call.
            let status = unsafe { start_device(context, info, interface, sources, children) };
            // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
            if let Some(it) = unsafe { find::<Adapter>(context) } {
                let body: fn(&Adapter, PVOID) = $body;
                body(it, context);
            }
            status
        }
    )*};
}

starts! {
    /// Maps one page more than it has.
    and_maps_too_much |it, context| {
        if let Some((start, length)) = registers(it, context) {
            let _refused = map(it, start, length + 0x1000);
        }
    };
}
