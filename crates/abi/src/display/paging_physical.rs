//! Paging operations at physical addresses. These structures are unnamed in Windows: here each has
//! the name of its member.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::D3DGPU_VIRTUAL_ADDRESS;
use crate::{HANDLE, LARGE_INTEGER, PHYSICAL_ADDRESS};
use core::{ffi::c_void, ptr};

flags! { DXGK_TRANSFERFLAGS {
    Swizzle: 0,
    Unswizzle: 1,
    AllocationIsIdle: 2,
    TransferStart: 3,
    TransferEnd: 4,
} } // one source: docs

flags! { DXGK_DISCARDCONTENTFLAGS { AllocationIsIdle: 0 } } // one source: docs

flags! { DXGK_MAPAPERTUREFLAGS { CacheCoherent: 0 } } // one source: docs

/// Where a transfer begins or ends: a place in a segment, or system memory for segment 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingPlace {
    pub SegmentId: u32,
    /// A union with `SegmentAddress`: see [`Self::segment_address`].
    pub pMdl: *mut c_void,
}
layout! { PagingPlace: 16 { SegmentId: 0, pMdl: 8 } } // one source: docs

impl PagingPlace {
    /// The union's `SegmentAddress`.
    pub fn segment_address(&self) -> LARGE_INTEGER {
        self.pMdl.addr().cast_signed() as LARGE_INTEGER
    }

    /// A location in a segment.
    pub const fn in_segment(SegmentId: u32, address: usize) -> Self {
        Self { SegmentId, pMdl: ptr::without_provenance_mut(address) }
    }
}

/// A location in a segment. Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingAddress {
    pub SegmentId: u32,
    pub SegmentAddress: LARGE_INTEGER,
}
layout! { PagingAddress: 16 { SegmentId: 0, SegmentAddress: 8 } } // one source: docs

/// `Destination` of [`PagingInitContextResource`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingInitContextResourceDestination {
    pub SegmentId: u32,
    /// A union with `SegmentAddress`, also 64 bits, as in [`PagingPlace`].
    pub pMdl: *mut c_void,
    pub VirtualAddress: *mut c_void,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { PagingInitContextResourceDestination: 32 {
    SegmentId: 0, pMdl: 8, VirtualAddress: 16, GpuVirtualAddress: 24,
} } // one source: docs

/// `Transfer` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingTransfer {
    pub hAllocation: HANDLE,
    pub TransferOffset: u32,
    pub TransferSize: usize,
    pub Source: PagingPlace,
    pub Destination: PagingPlace,
    pub Flags: DXGK_TRANSFERFLAGS,
    pub MdlOffset: u32,
}
layout! { PagingTransfer: 64 {
    hAllocation: 0, TransferOffset: 8, TransferSize: 16, Source: 24, Destination: 40, Flags: 56,
    MdlOffset: 60,
} } // one source: docs

/// `Fill` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingFill {
    pub hAllocation: HANDLE,
    pub FillSize: usize,
    pub FillPattern: u32,
    pub Destination: PagingAddress,
}
layout! { PagingFill: 40 {
    hAllocation: 0, FillSize: 8, FillPattern: 16, Destination: 24,
} } // one source: docs

/// `DiscardContent` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingDiscardContent {
    pub hAllocation: HANDLE,
    pub Flags: DXGK_DISCARDCONTENTFLAGS,
    pub SegmentId: u32,
    pub SegmentAddress: PHYSICAL_ADDRESS,
}
layout! { PagingDiscardContent: 24 {
    hAllocation: 0, Flags: 8, SegmentId: 12, SegmentAddress: 16,
} } // one source: docs

/// `ReadPhysical` and `WritePhysical` of the union, which are alike.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingAccess {
    pub SegmentId: u32,
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}
layout! { PagingAccess: 16 { SegmentId: 0, PhysicalAddress: 8 } } // one source: docs

/// `MapApertureSegment` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingMapApertureSegment {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    pub pMdl: *mut c_void,
    pub Flags: DXGK_MAPAPERTUREFLAGS,
    pub MdlOffset: u32,
}
layout! { PagingMapApertureSegment: 56 {
    hDevice: 0, hAllocation: 8, SegmentId: 16, OffsetInPages: 24, NumberOfPages: 32, pMdl: 40,
    Flags: 48, MdlOffset: 52,
} } // one source: docs

/// `UnmapApertureSegment` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingUnmapApertureSegment {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    pub DummyPage: PHYSICAL_ADDRESS,
}
layout! { PagingUnmapApertureSegment: 48 {
    hDevice: 0, hAllocation: 8, SegmentId: 16, OffsetInPages: 24, NumberOfPages: 32, DummyPage: 40,
} } // one source: docs

/// `SpecialLockTransfer` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingSpecialLockTransfer {
    pub hAllocation: HANDLE,
    pub TransferOffset: u32,
    pub TransferSize: usize,
    pub Source: PagingPlace,
    pub Destination: PagingPlace,
    pub Flags: DXGK_TRANSFERFLAGS,
    pub SwizzlingRangeId: u32,
    pub SwizzlingRangeData: u32,
}
layout! { PagingSpecialLockTransfer: 72 {
    hAllocation: 0, TransferOffset: 8, TransferSize: 16, Source: 24, Destination: 40, Flags: 56,
    SwizzlingRangeId: 60, SwizzlingRangeData: 64,
} } // one source: docs

/// `InitContextResource` of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PagingInitContextResource {
    pub hAllocation: HANDLE,
    pub Destination: PagingInitContextResourceDestination,
}
layout! { PagingInitContextResource: 40 { hAllocation: 0, Destination: 8 } } // one source: docs
