//! Callbacks of a user-mode driver: allocations, contexts and submissions.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::D3DDDI_RESIDENCYSTATUS;
use crate::ukm::{
    D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONLIST, D3DDDI_CREATECONTEXTFLAGS, D3DDDI_ESCAPEFLAGS,
    D3DDDI_MAX_BROADCAST_CONTEXT, D3DDDI_MAX_WRITTEN_PRIMARIES, D3DDDI_PATCHLOCATIONLIST,
    D3DDDICB_DESTROYALLOCATION2FLAGS, D3DDDICB_LOCK2FLAGS, D3DDDICB_LOCKFLAGS,
    D3DGPU_VIRTUAL_ADDRESS,
};
use crate::{D3DKMT_HANDLE, HANDLE};
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_ALLOCATE {
    pub pPrivateDriverData: *const c_void,
    pub PrivateDriverDataSize: u32,
    pub hResource: HANDLE,
    pub hKMResource: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub pAllocationInfo: *mut D3DDDI_ALLOCATIONINFO,
}
layout! { D3DDDICB_ALLOCATE: 40 { pPrivateDriverData: 0, PrivateDriverDataSize: 8, hResource: 16, hKMResource: 24, NumAllocations: 28, pAllocationInfo: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_DEALLOCATE {
    pub hResource: HANDLE,
    pub NumAllocations: u32,
    pub HandleList: *const D3DKMT_HANDLE,
}
layout! { D3DDDICB_DEALLOCATE: 24 { hResource: 0, NumAllocations: 8, HandleList: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_DEALLOCATE2 {
    pub hResource: HANDLE,
    pub NumAllocations: u32,
    pub HandleList: *const D3DKMT_HANDLE,
    pub Flags: D3DDDICB_DESTROYALLOCATION2FLAGS,
}
layout! { D3DDDICB_DEALLOCATE2: 32 { hResource: 0, NumAllocations: 8, HandleList: 16, Flags: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SETPRIORITY {
    pub hResource: HANDLE,
    pub NumAllocations: u32,
    pub HandleList: *const D3DKMT_HANDLE,
    pub pPriorities: *const u32,
}
layout! { D3DDDICB_SETPRIORITY: 32 { hResource: 0, NumAllocations: 8, HandleList: 16, pPriorities: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_QUERYRESIDENCY {
    pub hResource: HANDLE,
    pub NumAllocations: u32,
    pub HandleList: *const D3DKMT_HANDLE,
    pub pResidencyStatus: *mut D3DDDI_RESIDENCYSTATUS,
}
layout! { D3DDDICB_QUERYRESIDENCY: 32 { hResource: 0, NumAllocations: 8, HandleList: 16, pResidencyStatus: 24 } }

flags! { D3DDDICB_RENDERFLAGS { ResizeCommandBuffer: 0, ResizeAllocationList: 1, ResizePatchLocationList: 2, NullRendering: 3 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_RENDER {
    pub CommandLength: u32,
    pub CommandOffset: u32,
    pub NumAllocations: u32,
    pub NumPatchLocations: u32,
    pub pNewCommandBuffer: *mut c_void,
    pub NewCommandBufferSize: u32,
    pub pNewAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub NewAllocationListSize: u32,
    pub pNewPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub NewPatchLocationListSize: u32,
    pub Flags: D3DDDICB_RENDERFLAGS,
    pub hContext: HANDLE,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
    pub QueuedBufferCount: u32,
    pub NewCommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub MarkerLogType: i32,
    pub RenderCBSequence: u32,
    pub FirstAPISequenceNumberHigh: u32,
    pub CompletedAPISequenceNumberLow0Size: u32,
    pub CompletedAPISequenceNumberLow1Size: u32,
    pub BegunAPISequenceNumberLow0Size: u32,
    pub BegunAPISequenceNumberLow1Size: u32,
    pub pCompletedAPISequenceNumberLow0: *const c_void,
    pub pCompletedAPISequenceNumberLow1: *const c_void,
    pub pBegunAPISequenceNumberLow0: *const c_void,
    pub pBegunAPISequenceNumberLow1: *const c_void,
}
layout! { D3DDDICB_RENDER: 680 { CommandLength: 0, CommandOffset: 4, NumAllocations: 8, NumPatchLocations: 12, pNewCommandBuffer: 16, NewCommandBufferSize: 24, pNewAllocationList: 32, NewAllocationListSize: 40, pNewPatchLocationList: 48, NewPatchLocationListSize: 56, Flags: 60, hContext: 64, BroadcastContextCount: 72, BroadcastContext: 80, QueuedBufferCount: 592, NewCommandBuffer: 600, pPrivateDriverData: 608, PrivateDriverDataSize: 616, MarkerLogType: 620, RenderCBSequence: 624, FirstAPISequenceNumberHigh: 628, CompletedAPISequenceNumberLow0Size: 632, CompletedAPISequenceNumberLow1Size: 636, BegunAPISequenceNumberLow0Size: 640, BegunAPISequenceNumberLow1Size: 644, pCompletedAPISequenceNumberLow0: 648, pCompletedAPISequenceNumberLow1: 656, pBegunAPISequenceNumberLow0: 664, pBegunAPISequenceNumberLow1: 672 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_LOCK {
    pub hAllocation: D3DKMT_HANDLE,
    pub PrivateDriverData: u32,
    pub NumPages: u32,
    pub pPages: *const u32,
    pub pData: *mut c_void,
    pub Flags: D3DDDICB_LOCKFLAGS,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DDDICB_LOCK: 48 { hAllocation: 0, PrivateDriverData: 4, NumPages: 8, pPages: 16, pData: 24, Flags: 32, GpuVirtualAddress: 40 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_UNLOCK {
    pub NumAllocations: u32,
    pub phAllocations: *const D3DKMT_HANDLE,
}
layout! { D3DDDICB_UNLOCK: 16 { NumAllocations: 0, phAllocations: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_LOCK2 {
    pub hAllocation: D3DKMT_HANDLE,
    pub Flags: D3DDDICB_LOCK2FLAGS,
    pub pData: *mut c_void,
}
layout! { D3DDDICB_LOCK2: 16 { hAllocation: 0, Flags: 4, pData: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_UNLOCK2 {
    pub hAllocation: D3DKMT_HANDLE,
}
layout! { D3DDDICB_UNLOCK2: 4 { hAllocation: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_ESCAPE {
    pub hDevice: HANDLE,
    pub Flags: D3DDDI_ESCAPEFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: HANDLE,
}
layout! { D3DDDICB_ESCAPE: 40 { hDevice: 0, Flags: 8, pPrivateDriverData: 16, PrivateDriverDataSize: 24, hContext: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_CREATECONTEXT {
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: HANDLE,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
    pub CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DDDICB_CREATECONTEXT: 96 { NodeOrdinal: 0, EngineAffinity: 4, Flags: 8, pPrivateDriverData: 16, PrivateDriverDataSize: 24, hContext: 32, pCommandBuffer: 40, CommandBufferSize: 48, pAllocationList: 56, AllocationListSize: 64, pPatchLocationList: 72, PatchLocationListSize: 80, CommandBuffer: 88 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_CREATECONTEXTVIRTUAL {
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: HANDLE,
}
layout! { D3DDDICB_CREATECONTEXTVIRTUAL: 40 { NodeOrdinal: 0, EngineAffinity: 4, Flags: 8, pPrivateDriverData: 16, PrivateDriverDataSize: 24, hContext: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_DESTROYCONTEXT {
    pub hContext: HANDLE,
}
layout! { D3DDDICB_DESTROYCONTEXT: 8 { hContext: 0 } }

flags! { D3DDDICB_SUBMITCOMMANDFLAGS { NullRendering: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SUBMITCOMMAND {
    pub Commands: D3DGPU_VIRTUAL_ADDRESS,
    pub CommandLength: u32,
    pub Flags: D3DDDICB_SUBMITCOMMANDFLAGS,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub NumPrimaries: u32,
    pub WrittenPrimaries: [D3DKMT_HANDLE; D3DDDI_MAX_WRITTEN_PRIMARIES],
    pub MarkerLogType: i32,
    pub RenderCBSequence: u32,
    pub FirstAPISequenceNumberHigh: u32,
    pub CompletedAPISequenceNumberLow0Size: u32,
    pub CompletedAPISequenceNumberLow1Size: u32,
    pub BegunAPISequenceNumberLow0Size: u32,
    pub BegunAPISequenceNumberLow1Size: u32,
    pub pCompletedAPISequenceNumberLow0: *const c_void,
    pub pCompletedAPISequenceNumberLow1: *const c_void,
    pub pBegunAPISequenceNumberLow0: *const c_void,
    pub pBegunAPISequenceNumberLow1: *const c_void,
    pub Reserved: u32,
    pub NumHistoryBuffers: u32,
    pub HistoryBufferArray: *mut D3DKMT_HANDLE,
    pub hSyncToken: HANDLE,
    pub pReserved: *mut c_void,
}
layout! { D3DDDICB_SUBMITCOMMAND: 712 { Commands: 0, CommandLength: 8, Flags: 12, BroadcastContextCount: 16, BroadcastContext: 24, pPrivateDriverData: 536, PrivateDriverDataSize: 544, NumPrimaries: 548, WrittenPrimaries: 552, MarkerLogType: 616, RenderCBSequence: 620, FirstAPISequenceNumberHigh: 624, CompletedAPISequenceNumberLow0Size: 628, CompletedAPISequenceNumberLow1Size: 632, BegunAPISequenceNumberLow0Size: 636, BegunAPISequenceNumberLow1Size: 640, pCompletedAPISequenceNumberLow0: 648, pCompletedAPISequenceNumberLow1: 656, pBegunAPISequenceNumberLow0: 664, pBegunAPISequenceNumberLow1: 672, Reserved: 680, NumHistoryBuffers: 684, HistoryBufferArray: 688, hSyncToken: 696, pReserved: 704 } }
