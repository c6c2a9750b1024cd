//! Preemption, cancellation, and recovery from a GPU hang.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::DXGK_ALLOCATIONLIST;
use crate::ukm::{D3DDDI_PATCHLOCATIONLIST, D3DGPU_VIRTUAL_ADDRESS};
use crate::{HANDLE, NTSTATUS, PVOID};
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_PREEMPTCOMMAND {
    pub PreemptionFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    /// No bit is defined.
    pub Flags: u32,
}
layout! { DXGKARG_PREEMPTCOMMAND: 16 {
    PreemptionFenceId: 0, NodeOrdinal: 4, EngineOrdinal: 8, Flags: 12,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_QUERYCURRENTFENCE {
    pub CurrentFence: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}
layout! { DXGKARG_QUERYCURRENTFENCE: 12 {
    CurrentFence: 0, NodeOrdinal: 4, EngineOrdinal: 8,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_CANCELCOMMAND {
    pub hContext: HANDLE,
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
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferUmdPrivateDataSize: u32,
}
layout! { DXGKARG_CANCELCOMMAND: 112 {
    hContext: 0, pDmaBuffer: 8, DmaBufferSize: 16, DmaBufferSubmissionStartOffset: 20,
    DmaBufferSubmissionEndOffset: 24, pDmaBufferPrivateData: 32, DmaBufferPrivateDataSize: 40,
    DmaBufferPrivateDataSubmissionStartOffset: 44, DmaBufferPrivateDataSubmissionEndOffset: 48,
    pAllocationList: 56, AllocationListSize: 64, pPatchLocationList: 72, PatchLocationListSize: 80,
    PatchLocationListSubmissionStart: 84, PatchLocationListSubmissionLength: 88,
    DmaBufferVirtualAddress: 96, DmaBufferUmdPrivateDataSize: 104,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_ENGINESTATUS {
    /// A union with `Value`.
    pub Responsive: u32,
    pub Reserved: u32,
}
layout! { DXGK_ENGINESTATUS: 8 { Responsive: 0, Reserved: 4 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_QUERYENGINESTATUS {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub EngineStatus: DXGK_ENGINESTATUS,
}
layout! { DXGKARG_QUERYENGINESTATUS: 16 {
    NodeOrdinal: 0, EngineOrdinal: 4, EngineStatus: 8,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_QUERYDEPENDENTENGINEGROUP {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub DependentNodeOrdinalMask: u64,
}
layout! { DXGKARG_QUERYDEPENDENTENGINEGROUP: 16 {
    NodeOrdinal: 0, EngineOrdinal: 4, DependentNodeOrdinalMask: 8,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_RESETENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub LastAbortedFenceId: u32,
}
layout! { DXGKARG_RESETENGINE: 12 {
    NodeOrdinal: 0, EngineOrdinal: 4, LastAbortedFenceId: 8,
} } // one source: docs

/// A reason of `DXGKARG_COLLECTDBGINFO`: the system stops, because the GPU could not be reset. It
/// is the number of the bug check.
pub const VIDEO_TDR_FAILURE: u32 = 0x116;
/// A reason of `DXGKARG_COLLECTDBGINFO`: the GPU hangs, and is about to be reset.
pub const VIDEO_TDR_TIMEOUT_DETECTED: u32 = 0x117;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_COLLECTDBGINFO {
    pub Reason: u32,
    pub pBuffer: PVOID,
    pub BufferSize: usize,
    pub pExtension: *mut DXGKARG_COLLECTDBGINFO_EXT,
}
layout! { DXGKARG_COLLECTDBGINFO: 32 {
    Reason: 0, pBuffer: 8, BufferSize: 16, pExtension: 24,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_COLLECTDBGINFO_EXT {
    pub BucketingKey: u32,
    pub CurrentDmaBufferOffset: u32,
    pub Reserved2: u32,
    pub Reserved3: u32,
    pub Reserved4: u32,
    pub Reserved5: u32,
    pub Reserved6: u32,
    pub Reserved7: u32,
}
layout! { DXGKARG_COLLECTDBGINFO_EXT: 32 {
    BucketingKey: 0, CurrentDmaBufferOffset: 4, Reserved2: 8, Reserved3: 12, Reserved4: 16,
    Reserved5: 20, Reserved6: 24, Reserved7: 28,
} } // one source: docs

pub type DXGKDDI_PREEMPTCOMMAND =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_PREEMPTCOMMAND) -> NTSTATUS;

pub type DXGKDDI_QUERYCURRENTFENCE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_QUERYCURRENTFENCE) -> NTSTATUS;

pub type DXGKDDI_CANCELCOMMAND =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_CANCELCOMMAND) -> NTSTATUS;

pub type DXGKDDI_QUERYENGINESTATUS =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_QUERYENGINESTATUS) -> NTSTATUS;

pub type DXGKDDI_QUERYDEPENDENTENGINEGROUP =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_QUERYDEPENDENTENGINEGROUP) -> NTSTATUS;

pub type DXGKDDI_RESETENGINE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_RESETENGINE) -> NTSTATUS;

pub type DXGKDDI_RESETFROMTIMEOUT = unsafe extern "win64-unwind" fn(HANDLE) -> NTSTATUS;

pub type DXGKDDI_RESTARTFROMTIMEOUT = unsafe extern "win64-unwind" fn(HANDLE) -> NTSTATUS;

pub type DXGKDDI_COLLECTDBGINFO =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS;
