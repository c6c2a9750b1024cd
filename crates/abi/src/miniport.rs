//! The life of a display miniport driver and its two tables, as in `dispmprt.h`.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

mod device;
mod init;
mod interface;

pub use device::*;
pub use init::DRIVER_INITIALIZATION_DATA;
pub use interface::DXGKRNL_INTERFACE;

use crate::{BOOLEAN, GUID, HANDLE, LUID, NTSTATUS, PDEVICE_OBJECT, PVOID};

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
