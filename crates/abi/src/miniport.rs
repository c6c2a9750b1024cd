//! Initialization of a display miniport driver and its tables, as in `dispmprt.h`.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]
#![expect(non_upper_case_globals, reason = "Windows's names")]

mod device;
mod display_only;
mod init;
mod interface;

pub use device::*;
pub use display_only::KMDDOD_INITIALIZATION_DATA;
pub use init::DRIVER_INITIALIZATION_DATA;
pub use interface::DXGKRNL_INTERFACE;

use crate::{BOOLEAN, GUID, HANDLE, LUID, NTSTATUS, PDEVICE_OBJECT, PHYSICAL_ADDRESS, PVOID};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_START_INFO {
    pub RequiredDmaQueueEntry: u32,
    pub AdapterGuid: GUID,
    pub AdapterLuid: LUID,
}
layout! { DXGK_START_INFO: 28 {
    RequiredDmaQueueEntry: 0, AdapterGuid: 4, AdapterLuid: 20,
} } // one source: docs

pub type DXGKDDI_ADD_DEVICE =
    unsafe extern "win64-unwind" fn(PDEVICE_OBJECT, *mut PVOID) -> NTSTATUS;

pub type DXGKDDI_START_DEVICE = unsafe extern "win64-unwind" fn(
    MiniportDeviceContext: PVOID,
    DxgkStartInfo: *mut DXGK_START_INFO,
    DxgkInterface: *mut DXGKRNL_INTERFACE,
    NumberOfVideoPresentSources: *mut u32,
    NumberOfChildren: *mut u32,
) -> NTSTATUS;

pub type DXGKDDI_STOP_DEVICE = unsafe extern "win64-unwind" fn(PVOID) -> NTSTATUS;

/// The mode of a display: what the system or the driver has left on the screen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DISPLAY_INFORMATION {
    pub Width: u32,
    pub Height: u32,
    pub Pitch: u32,
    pub ColorFormat: i32,
    pub PhysicAddress: PHYSICAL_ADDRESS,
    pub TargetId: u32,
    pub AcpiId: u32,
}
layout! { DXGK_DISPLAY_INFORMATION: 32 {
    Width: 0, Height: 4, Pitch: 8, ColorFormat: 12, PhysicAddress: 16, TargetId: 24, AcpiId: 28,
} }

pub type DXGKCB_ACQUIRE_POST_DISPLAY_OWNERSHIP =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGK_DISPLAY_INFORMATION) -> NTSTATUS;

pub type DXGKDDI_STOP_DEVICE_AND_RELEASE_POST_DISPLAY_OWNERSHIP =
    unsafe extern "win64-unwind" fn(
        MiniportDeviceContext: PVOID,
        TargetId: u32,
        DisplayInfo: *mut DXGK_DISPLAY_INFORMATION,
    ) -> NTSTATUS;

values! { DEVICE_POWER_STATE {
    PowerDeviceUnspecified = 0,
    PowerDeviceD0 = 1,
    PowerDeviceD1 = 2,
    PowerDeviceD2 = 3,
    PowerDeviceD3 = 4,
} }

values! { POWER_ACTION {
    PowerActionNone = 0,
    PowerActionReserved = 1,
    PowerActionSleep = 2,
    PowerActionHibernate = 3,
    PowerActionShutdown = 4,
} }

values! { DXGK_SURPRISE_REMOVAL_TYPE {
    DxgkRemovalHibernation = 0,
    DxgkRemovalPnPNotify = 1,
} }

/// `DeviceUid` of the adapter itself. One source: the `video.h` of w32api, in the public domain.
pub const DISPLAY_ADAPTER_HW_ID: u32 = 0xFFFF_FFFF;

pub type DXGKDDI_SET_POWER_STATE = unsafe extern "win64-unwind" fn(
    MiniportDeviceContext: PVOID,
    DeviceUid: u32,
    DevicePowerState: DEVICE_POWER_STATE,
    ActionType: POWER_ACTION,
) -> NTSTATUS;

pub type DXGKDDI_NOTIFY_SURPRISE_REMOVAL =
    unsafe extern "win64-unwind" fn(PVOID, DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS;

pub type DXGKDDI_RESET_DEVICE = unsafe extern "win64-unwind" fn(PVOID);

pub type DXGKDDI_REMOVE_DEVICE = unsafe extern "win64-unwind" fn(PVOID) -> NTSTATUS;

pub type DXGKDDI_UNLOAD = unsafe extern "win64-unwind" fn();

pub type DXGKDDI_INTERRUPT_ROUTINE =
    unsafe extern "win64-unwind" fn(PVOID, MessageNumber: u32) -> BOOLEAN;

pub type DXGKDDI_DPC_ROUTINE = unsafe extern "win64-unwind" fn(PVOID);

pub type DXGKCB_QUEUE_DPC = unsafe extern "win64-unwind" fn(HANDLE) -> BOOLEAN;

pub type KSYNCHRONIZE_ROUTINE = unsafe extern "win64-unwind" fn(PVOID) -> BOOLEAN;

pub type DXGKCB_SYNCHRONIZE_EXECUTION = unsafe extern "win64-unwind" fn(
    DeviceHandle: HANDLE,
    SynchronizeRoutine: Option<KSYNCHRONIZE_ROUTINE>,
    Context: PVOID,
    MessageNumber: u32,
    ReturnValue: *mut BOOLEAN,
) -> NTSTATUS;
