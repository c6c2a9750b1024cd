//! Adapters and devices of a user-mode driver.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    D3DDDI_ADAPTERCALLBACKS, D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICECALLBACKS, D3DDDI_DEVICEFUNCS,
};
use crate::HANDLE;
use crate::ukm::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST, D3DGPU_VIRTUAL_ADDRESS};
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_OPENADAPTER {
    pub hAdapter: HANDLE,
    pub Interface: u32,
    pub Version: u32,
    pub pAdapterCallbacks: *const D3DDDI_ADAPTERCALLBACKS,
    pub pAdapterFuncs: *mut D3DDDI_ADAPTERFUNCS,
    pub DriverVersion: u32,
}
layout! { D3DDDIARG_OPENADAPTER: 40 { hAdapter: 0, Interface: 8, Version: 12, pAdapterCallbacks: 16, pAdapterFuncs: 24, DriverVersion: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_QUERYADAPTERINFO {
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}
layout! { D3DDDICB_QUERYADAPTERINFO: 16 { pPrivateDriverData: 0, PrivateDriverDataSize: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_GETCAPS {
    pub Type: i32,
    pub pInfo: *mut c_void,
    pub pData: *mut c_void,
    pub DataSize: u32,
}
layout! { D3DDDIARG_GETCAPS: 32 { Type: 0, pInfo: 8, pData: 16, DataSize: 24 } }

flags! { D3DDDI_CREATEDEVICEFLAGS { AllowMultithreading: 0, AllowFlipBatching: 1 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_CREATEDEVICE {
    pub hDevice: HANDLE,
    pub Interface: u32,
    pub Version: u32,
    pub pCallbacks: *const D3DDDI_DEVICECALLBACKS,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
    pub pDeviceFuncs: *mut D3DDDI_DEVICEFUNCS,
    pub Flags: D3DDDI_CREATEDEVICEFLAGS,
    pub CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DDDIARG_CREATEDEVICE: 96 { hDevice: 0, Interface: 8, Version: 12, pCallbacks: 16, pCommandBuffer: 24, CommandBufferSize: 32, pAllocationList: 40, AllocationListSize: 48, pPatchLocationList: 56, PatchLocationListSize: 64, pDeviceFuncs: 72, Flags: 80, CommandBuffer: 88 } }
