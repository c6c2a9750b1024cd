//! Work submitted at physical addresses: paging, and drivers that patch.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::DXGK_SUBMITCOMMANDFLAGS;
use crate::ukm::{
    D3DDDI_FLIPINTERVAL_TYPE, D3DDDI_PATCHLOCATIONLIST, D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    D3DGPU_VIRTUAL_ADDRESS,
};
use crate::{HANDLE, NTSTATUS, PHYSICAL_ADDRESS};
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_SUBMITCOMMAND {
    /// A union with `hDevice`, for a driver without contexts.
    pub hContext: HANDLE,
    pub DmaBufferSegmentId: u32,
    pub DmaBufferPhysicalAddress: PHYSICAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub DmaBufferSubmissionStartOffset: u32,
    pub DmaBufferSubmissionEndOffset: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub DmaBufferPrivateDataSubmissionStartOffset: u32,
    pub DmaBufferPrivateDataSubmissionEndOffset: u32,
    pub SubmissionFenceId: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub FlipInterval: D3DDDI_FLIPINTERVAL_TYPE,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub EngineOrdinal: u32,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub NodeOrdinal: u32,
}
layout! { DXGKARG_SUBMITCOMMAND: 96 {
    hContext: 0, DmaBufferSegmentId: 8, DmaBufferPhysicalAddress: 16, DmaBufferSize: 24,
    DmaBufferSubmissionStartOffset: 28, DmaBufferSubmissionEndOffset: 32, pDmaBufferPrivateData: 40,
    DmaBufferPrivateDataSize: 48, DmaBufferPrivateDataSubmissionStartOffset: 52,
    DmaBufferPrivateDataSubmissionEndOffset: 56, SubmissionFenceId: 60, VidPnSourceId: 64,
    FlipInterval: 68, Flags: 72, EngineOrdinal: 76, DmaBufferVirtualAddress: 80, NodeOrdinal: 88,
} }

flags! { DXGK_PATCHFLAGS {
    Paging: 0,
    Present: 1,
    RedirectedPresent: 2,
    NullRendering: 3,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_ALLOCATIONLIST {
    pub hDeviceSpecificAllocation: HANDLE,
    /// `WriteOperation` is the lowest bit, `SegmentId` the five above it.
    pub Value: u32,
    /// A union with `VirtualAddress`, also 64 bits.
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}
layout! { DXGK_ALLOCATIONLIST: 24 { hDeviceSpecificAllocation: 0, Value: 8, PhysicalAddress: 16 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_RENDER {
    pub pCommand: *const c_void,
    pub CommandLength: u32,
    pub pDmaBuffer: *mut c_void,
    pub DmaSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub pAllocationList: *mut DXGK_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationListIn: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListInSize: u32,
    pub pPatchLocationListOut: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListOutSize: u32,
    pub MultipassOffset: u32,
    pub DmaBufferSegmentId: u32,
    pub DmaBufferPhysicalAddress: PHYSICAL_ADDRESS,
}
layout! { DXGKARG_RENDER: 112 {
    pCommand: 0, CommandLength: 8, pDmaBuffer: 16, DmaSize: 24, pDmaBufferPrivateData: 32,
    DmaBufferPrivateDataSize: 40, pAllocationList: 48, AllocationListSize: 56,
    pPatchLocationListIn: 64, PatchLocationListInSize: 72, pPatchLocationListOut: 80,
    PatchLocationListOutSize: 88, MultipassOffset: 92, DmaBufferSegmentId: 96,
    DmaBufferPhysicalAddress: 104,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_PATCH {
    /// A union with `hDevice`, for a driver without contexts.
    pub hContext: HANDLE,
    pub DmaBufferSegmentId: u32,
    pub DmaBufferPhysicalAddress: PHYSICAL_ADDRESS,
    pub pDmaBuffer: *mut c_void,
    pub DmaBufferSize: u32,
    pub DmaBufferSubmissionStartOffset: u32,
    pub DmaBufferSubmissionEndOffset: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub DmaBufferPrivateDataSubmissionStartOffset: u32,
    pub DmaBufferPrivateDataSubmissionEndOffset: u32,
    pub pAllocationList: *const DXGK_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *const D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
    pub PatchLocationListSubmissionStart: u32,
    pub PatchLocationListSubmissionLength: u32,
    pub SubmissionFenceId: u32,
    pub Flags: DXGK_PATCHFLAGS,
    pub EngineOrdinal: u32,
}
layout! { DXGKARG_PATCH: 120 {
    hContext: 0, DmaBufferSegmentId: 8, DmaBufferPhysicalAddress: 16, pDmaBuffer: 24, DmaBufferSize: 32,
    DmaBufferSubmissionStartOffset: 36, DmaBufferSubmissionEndOffset: 40, pDmaBufferPrivateData: 48,
    DmaBufferPrivateDataSize: 56, DmaBufferPrivateDataSubmissionStartOffset: 60,
    DmaBufferPrivateDataSubmissionEndOffset: 64, pAllocationList: 72, AllocationListSize: 80,
    pPatchLocationList: 88, PatchLocationListSize: 96, PatchLocationListSubmissionStart: 100,
    PatchLocationListSubmissionLength: 104, SubmissionFenceId: 108, Flags: 112, EngineOrdinal: 116,
} } // one source: docs

impl DXGK_ALLOCATIONLIST {
    /// `WriteOperation` of the bits.
    pub const fn write_operation(&self) -> bool {
        self.Value & 1 != 0
    }

    /// `SegmentId` of the bits.
    pub const fn segment_id(&self) -> u32 {
        self.Value >> 1 & 31
    }
}

pub type DXGKDDI_SUBMITCOMMAND =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_SUBMITCOMMAND) -> NTSTATUS;

pub type DXGKDDI_RENDER = unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_RENDER) -> NTSTATUS;

pub type DXGKDDI_PATCH = unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_PATCH) -> NTSTATUS;
