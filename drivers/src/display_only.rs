//! A display-only driver with a function table: the good driver's Plug and Play functions, one
//! child, and no vsync control.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::table::{GOOD, start_device};
use abi::display::{
    DXGK_DRIVERCAPS, DXGKARG_QUERYADAPTERINFO, DXGKDDI_INTERFACE_VERSION_WIN8, DXGKDDI_WDDMv1_2,
    DXGKQAITYPE_DRIVERCAPS,
};
use abi::miniport::{
    DXGK_CHILD_DESCRIPTOR, DXGK_CHILD_STATUS, DXGK_DISPLAY_INFORMATION, DXGK_START_INFO,
    DXGKRNL_INTERFACE, KMDDOD_INITIALIZATION_DATA, TypeVideoOutput,
};
use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};
use std::ptr;

/// The id of the one child.
const CHILD: u32 = 1;

/// The functions that every display-only driver has. Those of mode setting refuse.
pub(crate) const DISPLAY_ONLY: KMDDOD_INITIALIZATION_DATA = KMDDOD_INITIALIZATION_DATA {
    Version: DXGKDDI_INTERFACE_VERSION_WIN8,
    DxgkDdiAddDevice: GOOD.DxgkDdiAddDevice,
    DxgkDdiStartDevice: Some(start_with_display),
    DxgkDdiStopDevice: GOOD.DxgkDdiStopDevice,
    DxgkDdiRemoveDevice: GOOD.DxgkDdiRemoveDevice,
    DxgkDdiDispatchIoRequest: Some(refuse),
    DxgkDdiInterruptRoutine: GOOD.DxgkDdiInterruptRoutine,
    DxgkDdiDpcRoutine: GOOD.DxgkDdiDpcRoutine,
    DxgkDdiQueryChildRelations: Some(query_child_relations),
    DxgkDdiQueryChildStatus: Some(query_child_status),
    DxgkDdiQueryDeviceDescriptor: Some(refuse),
    DxgkDdiSetPowerState: GOOD.DxgkDdiSetPowerState,
    DxgkDdiUnload: GOOD.DxgkDdiUnload,
    DxgkDdiQueryAdapterInfo: Some(query_adapter_info::<1>),
    DxgkDdiIsSupportedVidPn: Some(refuse),
    DxgkDdiEnumVidPnCofuncModality: Some(refuse),
    DxgkDdiSetVidPnSourceVisibility: Some(refuse),
    DxgkDdiCommitVidPn: Some(refuse),
    DxgkDdiPresentDisplayOnly: Some(refuse),
    ..KMDDOD_INITIALIZATION_DATA::ZERO
};

/// A function of mode setting, which is not called.
pub(crate) unsafe extern "win64-unwind" fn refuse() -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// Takes over the display that is on, and counts one source and one child.
unsafe extern "win64-unwind" fn start_with_display(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { start_device(context, info, interface, sources, children) };
    if status != STATUS_SUCCESS {
        return status;
    }
    // SAFETY: As above.
    let interface = unsafe { interface.read() };
    let Some(acquire) = interface.DxgkCbAcquirePostDisplayOwnership else {
        return STATUS_UNSUCCESSFUL;
    };
    let mut display = DXGK_DISPLAY_INFORMATION::ZERO;
    // SAFETY: The handle is the interface's, and `display` outlives the call.
    let status = unsafe { acquire(interface.DeviceHandle, &raw mut display) };
    // SAFETY: As above.
    unsafe { sources.write(1) };
    // SAFETY: As above.
    unsafe { children.write(1) };
    status
}

unsafe extern "win64-unwind" fn query_child_relations(
    _context: PVOID,
    list: *mut DXGK_CHILD_DESCRIPTOR,
    _size: u32,
) -> NTSTATUS {
    let child = DXGK_CHILD_DESCRIPTOR {
        ChildDeviceType: TypeVideoOutput,
        ChildUid: CHILD,
        ..DXGK_CHILD_DESCRIPTOR::ZERO
    };
    // SAFETY: The list has room for the child and for the end of the list.
    unsafe { list.write(child) };
    STATUS_SUCCESS
}

/// The display is connected.
unsafe extern "win64-unwind" fn query_child_status(
    _context: PVOID,
    status: *mut DXGK_CHILD_STATUS,
    _non_destructive: BOOLEAN,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { (*status).Data[0] = 1 };
    STATUS_SUCCESS
}

/// Writes as many bytes of the capabilities as the version has.
pub(crate) unsafe extern "win64-unwind" fn query_adapter_info<const ROTATION: BOOLEAN>(
    _adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let args = unsafe { args.read() };
    if args.Type != DXGKQAITYPE_DRIVERCAPS {
        return STATUS_NOT_SUPPORTED;
    }
    let caps = DXGK_DRIVERCAPS {
        WDDMVersion: DXGKDDI_WDDMv1_2,
        SupportNonVGA: 1,
        SupportSmoothRotation: ROTATION,
        ..DXGK_DRIVERCAPS::ZERO
    };
    let length = size_of_val(&caps).min(args.OutputDataSize as usize);
    // SAFETY: Neither the capabilities nor the output is shorter.
    unsafe { ptr::copy_nonoverlapping((&raw const caps).cast(), args.pOutputData, length) };
    STATUS_SUCCESS
}
