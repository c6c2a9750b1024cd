//! Context allocations: memory that a driver allocates for its own use.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{DXGK_ALLOCATIONINFOFLAGS, DXGK_SEGMENTBANKPREFERENCE, DXGK_SEGMENTPREFERENCE};
use crate::ukm::{D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE, D3DGPU_VIRTUAL_ADDRESS};
use crate::{HANDLE, NTSTATUS, PVOID};

flags! { DXGK_CREATECONTEXTALLOCATIONFLAGS {
    SharedAcrossContexts: 0,
    MapGpuVirtualAddress: 1,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_CREATECONTEXTALLOCATION {
    pub ContextAllocationFlags: DXGK_CREATECONTEXTALLOCATIONFLAGS,
    pub hAdapter: HANDLE,
    pub hDevice: HANDLE,
    pub hContext: HANDLE,
    pub hDriverAllocation: HANDLE,
    pub Size: usize,
    pub Alignment: u32,
    pub SupportedSegmentSet: u32,
    pub EvictionSegmentSet: u32,
    pub PreferredSegment: DXGK_SEGMENTPREFERENCE,
    pub HintedBank: DXGK_SEGMENTBANKPREFERENCE,
    pub Flags: DXGK_ALLOCATIONINFOFLAGS,
    pub hAllocation: HANDLE,
    pub PhysicalAdapterIndex: u32,
}
layout! { DXGKARGCB_CREATECONTEXTALLOCATION: 88 {
    ContextAllocationFlags: 0, hAdapter: 8, hDevice: 16, hContext: 24, hDriverAllocation: 32,
    Size: 40, Alignment: 48, SupportedSegmentSet: 52, EvictionSegmentSet: 56, PreferredSegment: 60,
    HintedBank: 64, Flags: 68, hAllocation: 72, PhysicalAdapterIndex: 80,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_UPDATECONTEXTALLOCATION {
    pub hAllocation: HANDLE,
    pub pPrivateDriverData: PVOID,
    pub PrivateDriverDataSize: u32,
}
layout! { DXGKARGCB_UPDATECONTEXTALLOCATION: 24 {
    hAllocation: 0, pPrivateDriverData: 8, PrivateDriverDataSize: 16,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_MAPCONTEXTALLOCATION {
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub hAllocation: HANDLE,
    pub OffsetInPages: u64,
    pub SizeInPages: u64,
    pub Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    pub DriverProtection: u64,
}
layout! { DXGKARGCB_MAPCONTEXTALLOCATION: 64 {
    BaseAddress: 0, MinimumAddress: 8, MaximumAddress: 16, hAllocation: 24, OffsetInPages: 32,
    SizeInPages: 40, Protection: 48, DriverProtection: 56,
} } // one source: docs

pub type DXGKCB_CREATECONTEXTALLOCATION =
    unsafe extern "win64-unwind" fn(*mut DXGKARGCB_CREATECONTEXTALLOCATION) -> NTSTATUS;

pub type DXGKCB_DESTROYCONTEXTALLOCATION =
    unsafe extern "win64-unwind" fn(hAdapter: HANDLE, hAllocation: HANDLE) -> NTSTATUS;

/// Returns the address, or zero.
pub type DXGKCB_MAPCONTEXTALLOCATION = unsafe extern "win64-unwind" fn(
    hAdapter: HANDLE,
    *const DXGKARGCB_MAPCONTEXTALLOCATION,
) -> D3DGPU_VIRTUAL_ADDRESS;

pub type DXGKCB_UPDATECONTEXTALLOCATION = unsafe extern "win64-unwind" fn(
    hAdapter: HANDLE,
    *const DXGKARGCB_UPDATECONTEXTALLOCATION,
) -> NTSTATUS;
