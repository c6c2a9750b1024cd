//! Paging operations on page tables.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::HANDLE;
use crate::ukm::{D3DGPU_PHYSICAL_ADDRESS, D3DGPU_VIRTUAL_ADDRESS};

/// Above the named bits are `PhysicalAdapterIndex` (six bits) and `PageTablePageSize` (two).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_PTE {
    pub Flags: u64,
    /// A union with `PageTableAddress`, also 64 bits.
    pub PageAddress: u64,
}
layout! { DXGK_PTE: 16 { Flags: 0, PageAddress: 8 } }

impl DXGK_PTE {
    pub const Valid: u64 = 1;
    pub const Zero: u64 = 1 << 1;
    pub const CacheCoherent: u64 = 1 << 2;
    pub const ReadOnly: u64 = 1 << 3;
    pub const NoExecute: u64 = 1 << 4;
    pub const LargePage: u64 = 1 << 10;

    /// `Segment` of the bits.
    pub const fn segment(&self) -> u64 {
        self.Flags >> 5 & 31
    }

    /// The bits of a `Segment`.
    pub const fn of_segment(segment: u32) -> u64 {
        (segment as u64 & 31) << 5
    }
}

/// Which member counts, the `UpdateMode` beside it says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_PAGETABLEUPDATEADDRESS {
    /// In a union with `CpuVirtual` and `GpuVirtual`, which are its first eight bytes.
    pub GpuPhysical: D3DGPU_PHYSICAL_ADDRESS,
}
layout! { DXGK_PAGETABLEUPDATEADDRESS: 16 { GpuPhysical: 0 } } // one source: docs

impl DXGK_PAGETABLEUPDATEADDRESS {
    /// The union, written as `CpuVirtual` or `GpuVirtual`.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    pub const fn at(address: u64) -> Self {
        let (low, high) = (address as u32, (address >> 32) as u32);
        let zero = D3DGPU_PHYSICAL_ADDRESS::ZERO;
        Self { GpuPhysical: D3DGPU_PHYSICAL_ADDRESS { SegmentId: low, Padding: high, ..zero } }
    }

    /// The union's `GpuVirtual`, or the number of its `CpuVirtual`.
    pub const fn gpu_virtual(&self) -> D3DGPU_VIRTUAL_ADDRESS {
        (self.GpuPhysical.Padding as u64) << 32 | self.GpuPhysical.SegmentId as u64
    }
}

values! { DXGK_PAGETABLEUPDATEMODE {
    DXGK_PAGETABLEUPDATE_CPU_VIRTUAL = 0,
    DXGK_PAGETABLEUPDATE_GPU_VIRTUAL = 1,
    DXGK_PAGETABLEUPDATE_GPU_PHYSICAL = 2,
} }

flags! { DXGK_UPDATEPAGETABLEFLAGS {
    Repeat: 0,
    InitialUpdate: 1,
    NotifyEviction: 2,
    Use64KBPages: 3,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    pub PageTableLevel: u32,
    pub hAllocation: HANDLE,
    pub PageTableAddress: DXGK_PAGETABLEUPDATEADDRESS,
    pub pPageTableEntries: *mut DXGK_PTE,
    pub StartIndex: u32,
    pub NumPageTableEntries: u32,
    pub Reserved0: u32,
    pub Flags: DXGK_UPDATEPAGETABLEFLAGS,
    pub DriverProtection: u64,
    pub AllocationOffsetInBytes: u64,
    pub hProcess: HANDLE,
    pub UpdateMode: DXGK_PAGETABLEUPDATEMODE,
    pub pPageTableEntries64KB: *mut DXGK_PTE,
    pub FirstPteVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE: 104 {
    PageTableLevel: 0, hAllocation: 8, PageTableAddress: 16, pPageTableEntries: 32, StartIndex: 40,
    NumPageTableEntries: 44, Reserved0: 48, Flags: 52, DriverProtection: 56,
    AllocationOffsetInBytes: 64, hProcess: 72, UpdateMode: 80, pPageTableEntries64KB: 88,
    FirstPteVirtualAddress: 96,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
    pub RootPageTableAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub hProcess: HANDLE,
    pub StartVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub EndVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { DXGK_BUILDPAGINGBUFFER_FLUSHTLB: 40 {
    RootPageTableAddress: 0, hProcess: 16, StartVirtualAddress: 24, EndVirtualAddress: 32,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
    pub NumPageTableEntries: u32,
    pub SrcPageTableAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DstPageTableAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SrcStartPteIndex: u32,
    pub DstStartPteIndex: u32,
}
layout! { DXGK_BUILDPAGINGBUFFER_COPY_RANGE: 32 {
    NumPageTableEntries: 0, SrcPageTableAddress: 8, DstPageTableAddress: 16, SrcStartPteIndex: 24,
    DstStartPteIndex: 28,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
    pub NumRanges: u32,
    pub pRanges: *mut DXGK_BUILDPAGINGBUFFER_COPY_RANGE,
}
layout! { DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES: 16 {
    NumRanges: 0, pRanges: 8,
} } // one source: docs
