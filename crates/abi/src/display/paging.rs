//! Paging: the operations of `DxgkDdiBuildPagingBuffer`.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES, DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, PagingAccess, PagingDiscardContent, PagingFill,
    PagingInitContextResource, PagingMapApertureSegment, PagingSpecialLockTransfer, PagingTransfer,
    PagingUnmapApertureSegment,
};
use crate::macros::Zero;
use crate::ukm::{D3DGPU_PHYSICAL_ADDRESS, D3DGPU_VIRTUAL_ADDRESS};
use crate::{HANDLE, NTSTATUS};
use core::{ffi::c_void, fmt};

values! { DXGK_BUILDPAGINGBUFFER_OPERATION {
    DXGK_OPERATION_TRANSFER = 0,
    DXGK_OPERATION_FILL = 1,
    DXGK_OPERATION_DISCARD_CONTENT = 2,
    DXGK_OPERATION_READ_PHYSICAL = 3,
    DXGK_OPERATION_WRITE_PHYSICAL = 4,
    DXGK_OPERATION_MAP_APERTURE_SEGMENT = 5,
    DXGK_OPERATION_UNMAP_APERTURE_SEGMENT = 6,
    DXGK_OPERATION_SPECIAL_LOCK_TRANSFER = 7,
    DXGK_OPERATION_VIRTUAL_TRANSFER = 8,
    DXGK_OPERATION_VIRTUAL_FILL = 9,
    DXGK_OPERATION_INIT_CONTEXT_RESOURCE = 10,
    DXGK_OPERATION_UPDATE_PAGE_TABLE = 11,
    DXGK_OPERATION_FLUSH_TLB = 12,
    DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION = 13,
    DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES = 14,
    DXGK_OPERATION_NOTIFY_RESIDENCY = 15,
    DXGK_OPERATION_SIGNAL_MONITORED_FENCE = 16, // since 2.2
    DXGK_OPERATION_MAP_APERTURE_SEGMENT2 = 17, // since 3.0
} } // one source: docs

values! { DXGK_MEMORY_TRANSFER_DIRECTION {
    DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM = 0,
    DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL = 1,
    DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL = 2,
} } // one source: docs

// The 32 bits are called `Flags` there.
flags! { DXGK_TRANSFERVIRTUALFLAGS { Src64KBPages: 0, Dst64KBPages: 1 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
    pub hAllocation: HANDLE,
    pub AllocationOffsetInBytes: u64,
    pub TransferSizeInBytes: u64,
    pub SourceVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DestinationVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SourcePageTable: D3DGPU_VIRTUAL_ADDRESS,
    pub TransferDirection: DXGK_MEMORY_TRANSFER_DIRECTION,
    pub Flags: DXGK_TRANSFERVIRTUALFLAGS,
    pub DestinationPageTable: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL: 64 {
    hAllocation: 0, AllocationOffsetInBytes: 8, TransferSizeInBytes: 16, SourceVirtualAddress: 24,
    DestinationVirtualAddress: 32, SourcePageTable: 40, TransferDirection: 48, Flags: 52,
    DestinationPageTable: 56,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
    pub hAllocation: HANDLE,
    pub AllocationOffsetInBytes: u64,
    pub FillSizeInBytes: u64,
    pub FillPattern: u32,
    pub DestinationVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL: 40 {
    hAllocation: 0, AllocationOffsetInBytes: 8, FillSizeInBytes: 16, FillPattern: 24,
    DestinationVirtualAddress: 32,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
    pub ContextAllocation: D3DGPU_VIRTUAL_ADDRESS,
    pub ContextAllocationSize: u64,
    pub pDriverPrivateData: *mut c_void,
    pub DriverPrivateDataSize: u32,
}
layout! { DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION: 32 {
    ContextAllocation: 0, ContextAllocationSize: 8, pDriverPrivateData: 16,
    DriverPrivateDataSize: 24,
} } // one source: docs

// Unnamed in Windows: a union inside the struct.
flags! { DXGK_NOTIFYRESIDENCY_FLAGS { Resident: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
    pub hAllocation: HANDLE,
    pub PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub Flags: DXGK_NOTIFYRESIDENCY_FLAGS,
}
layout! { DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY: 32 { hAllocation: 0, PhysicalAddress: 8, Flags: 24 } }

/// The arguments of a paging operation, by [`DXGK_BUILDPAGINGBUFFER_OPERATION`]. The later members
/// `SignalMonitoredFence` and `MapApertureSegment2` are not here.
///
/// The only real union in this crate: it has members with pointers, whose provenance integers would
/// lose. Writing a member is safe; reading one requires a check of the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_BUILDPAGINGBUFFER_ABOUT {
    pub Transfer: PagingTransfer,
    pub Fill: PagingFill,
    pub DiscardContent: PagingDiscardContent,
    pub ReadPhysical: PagingAccess,
    pub WritePhysical: PagingAccess,
    pub MapApertureSegment: PagingMapApertureSegment,
    pub UnmapApertureSegment: PagingUnmapApertureSegment,
    pub SpecialLockTransfer: PagingSpecialLockTransfer,
    pub InitContextResource: PagingInitContextResource,
    pub TransferVirtual: DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    pub FillVirtual: DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    pub UpdatePageTable: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE,
    pub FlushTlb: DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    pub CopyPageTableEntries: DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES,
    pub UpdateContextAllocation: DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION,
    pub NotifyResidency: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY,
    pub Reserved: [u32; 64],
}
const _: () = assert!(size_of::<DXGK_BUILDPAGINGBUFFER_ABOUT>() == 256);

impl Zero for DXGK_BUILDPAGINGBUFFER_ABOUT {
    const ZERO: Self = Self { Reserved: [0; 64] };
}

impl fmt::Debug for DXGK_BUILDPAGINGBUFFER_ABOUT {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DXGK_BUILDPAGINGBUFFER_ABOUT")
    }
}

// `DmaBufferWriteOffset` is since 2.2 (a driver that was built before reads up to there).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_BUILDPAGINGBUFFER {
    pub pDmaBuffer: *mut c_void,
    pub DmaSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub Operation: DXGK_BUILDPAGINGBUFFER_OPERATION,
    pub MultipassOffset: u32,
    /// A union without a name in Windows: what the operation is about.
    pub About: DXGK_BUILDPAGINGBUFFER_ABOUT,
    pub hSystemContext: HANDLE,
    pub DmaBufferGpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferWriteOffset: u32,
}
layout! { DXGKARG_BUILDPAGINGBUFFER: 320 {
    pDmaBuffer: 0, DmaSize: 8, pDmaBufferPrivateData: 16, DmaBufferPrivateDataSize: 24,
    Operation: 28, MultipassOffset: 32, About: 40, hSystemContext: 296, DmaBufferGpuVirtualAddress: 304,
    DmaBufferWriteOffset: 312,
} } // one source: docs

pub type DXGKDDI_BUILDPAGINGBUFFER =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS;
