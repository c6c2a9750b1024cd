//! Allocations: created and described for the adapter, opened and closed for a device.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{D3DDDI_MULTISAMPLINGMETHOD, D3DDDI_RATIONAL, D3DDDI_ROTATION, D3DDDIFORMAT};
use crate::{D3DKMT_HANDLE, HANDLE, NTSTATUS};
use core::ffi::c_void;

flags! { DXGK_CREATEALLOCATIONFLAGS { Resource: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_CREATEALLOCATION {
    pub pPrivateDriverData: *const c_void,
    pub PrivateDriverDataSize: u32,
    pub NumAllocations: u32,
    pub pAllocationInfo: *mut DXGK_ALLOCATIONINFO,
    pub hResource: HANDLE,
    pub Flags: DXGK_CREATEALLOCATIONFLAGS,
}
layout! { DXGKARG_CREATEALLOCATION: 40 {
    pPrivateDriverData: 0, PrivateDriverDataSize: 8, NumAllocations: 12, pAllocationInfo: 16,
    hResource: 24, Flags: 32,
} } // one source: docs

pub type DXGKDDI_CREATEALLOCATION =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS;

flags! { DXGK_ALLOCATIONINFOFLAGS {
    CpuVisible: 0,
    PermanentSysMem: 1,
    Cached: 2,
    Protected: 3,
    ExistingSysMem: 4,
    ExistingKernelSysMem: 5,
    FromEndOfSegment: 6,
    Swizzled: 7,
    Overlay: 8,
    Capture: 9,
    UseAlternateVA: 10,
    SynchronousPaging: 11,
    LinkMirrored: 12,
    LinkInstanced: 13,
    HistoryBuffer: 14,
    AccessedPhysically: 15, // since 2.0, like the next three
    ExplicitResidencyNotification: 16,
    HardwareProtected: 17,
    CpuVisibleOnDemand: 18,
} } // docs and ReactOS

flags! { DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 {
    CpuVisible: 0,
    PermanentSysMem: 1,
    Cached: 2,
    Protected: 3,
    ExistingSysMem: 4,
    ExistingKernelSysMem: 5,
    FromEndOfSegment: 6,
    DisableLargePageMapping: 7,
    Overlay: 8,
    Capture: 9,
    CreateInVpr: 10, // since 2.1
    MapApertureCpuVisible: 13, // since 2.9
    HistoryBuffer: 14,
    AccessedPhysically: 15,
    ExplicitResidencyNotification: 16,
    HardwareProtected: 17,
    CpuVisibleOnDemand: 18,
} } // one source: ReactOS, exact

/// Four banks of seven bits, the first one lowest, each with its direction above it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SEGMENTBANKPREFERENCE {
    pub Value: u32,
}
layout! { DXGK_SEGMENTBANKPREFERENCE: 4 { Value: 0 } } // docs and ReactOS

/// Five segments of five bits, the first one lowest, each with its direction above it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SEGMENTPREFERENCE {
    pub Value: u32,
}
layout! { DXGK_SEGMENTPREFERENCE: 4 { Value: 0 } } // one source: ReactOS, exact

impl DXGK_SEGMENTPREFERENCE {
    /// `SegmentId0` to `SegmentId4`: segments count from 1, and 0 is none.
    pub const fn segments(self) -> [u32; 5] {
        let it = self.Value;
        [it & 31, it >> 6 & 31, it >> 12 & 31, it >> 18 & 31, it >> 24 & 31]
    }

    /// `Direction0` to `Direction4`: from the segment's end downwards.
    pub const fn directions(self) -> [bool; 5] {
        let it = self.Value;
        [
            it >> 5 & 1 == 1,
            it >> 11 & 1 == 1,
            it >> 17 & 1 == 1,
            it >> 23 & 1 == 1,
            it >> 29 & 1 == 1,
        ]
    }
}

// Unnamed in Windows: a union inside the struct.
flags! { DXGK_ALLOCATIONUSAGEINFO1_FLAGS {
    PrivateFormat: 0,
    Swizzled: 1,
    MipMap: 2,
    Cube: 3,
    Volume: 4,
    Vertex: 5,
    Index: 6,
} } // docs and ReactOS

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_ALLOCATIONUSAGEINFO1 {
    pub Flags: DXGK_ALLOCATIONUSAGEINFO1_FLAGS,
    /// A union with `PrivateFormat`, also 32 bits.
    pub Format: D3DDDIFORMAT,
    pub SwizzledFormat: u32,
    pub ByteOffset: u32,
    pub Width: u32,
    pub Height: u32,
    pub Pitch: u32,
    pub Depth: u32,
    pub SlicePitch: u32,
}
layout! { DXGK_ALLOCATIONUSAGEINFO1: 36 {
    Flags: 0, Format: 4, SwizzledFormat: 8, ByteOffset: 12, Width: 16, Height: 20, Pitch: 24,
    Depth: 28, SlicePitch: 32,
} } // docs and ReactOS

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_ALLOCATIONUSAGEHINT {
    pub Version: u32,
    pub v1: DXGK_ALLOCATIONUSAGEINFO1,
}
layout! { DXGK_ALLOCATIONUSAGEHINT: 40 { Version: 0, v1: 4 } } // docs and ReactOS

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_ALLOCATIONINFO {
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub Alignment: u32,
    pub Size: usize,
    pub PitchAlignedSize: usize,
    pub HintedBank: DXGK_SEGMENTBANKPREFERENCE,
    pub PreferredSegment: DXGK_SEGMENTPREFERENCE,
    pub SupportedReadSegmentSet: u32,
    pub SupportedWriteSegmentSet: u32,
    pub EvictionSegmentSet: u32,
    /// A union with `PhysicalAdapterIndex`: see [`Self::physical_adapter_index`].
    pub MaximumRenamingListLength: u32,
    pub hAllocation: HANDLE,
    /// A union with the `Flags` of older drivers: see [`Self::flags`].
    pub FlagsWddm2: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0,
    pub pAllocationUsageHint: *mut DXGK_ALLOCATIONUSAGEHINT,
    pub AllocationPriority: u32,
}
layout! { DXGK_ALLOCATIONINFO: 88 {
    pPrivateDriverData: 0, PrivateDriverDataSize: 8, Alignment: 12, Size: 16,
    PitchAlignedSize: 24, HintedBank: 32, PreferredSegment: 36, SupportedReadSegmentSet: 40,
    SupportedWriteSegmentSet: 44, EvictionSegmentSet: 48, MaximumRenamingListLength: 52,
    hAllocation: 56, FlagsWddm2: 64, pAllocationUsageHint: 72, AllocationPriority: 80,
} } // docs and ReactOS

impl DXGK_ALLOCATIONINFO {
    /// The union's `Flags`.
    pub const fn flags(&self) -> DXGK_ALLOCATIONINFOFLAGS {
        DXGK_ALLOCATIONINFOFLAGS { Value: self.FlagsWddm2.Value }
    }

    /// The union's `PhysicalAdapterIndex`.
    pub const fn physical_adapter_index(&self) -> u32 {
        self.MaximumRenamingListLength
    }
}

flags! { DXGK_DESTROYALLOCATIONFLAGS { DestroyResource: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_DESTROYALLOCATION {
    pub NumAllocations: u32,
    pub pAllocationList: *const HANDLE,
    pub hResource: HANDLE,
    pub Flags: DXGK_DESTROYALLOCATIONFLAGS,
}
layout! { DXGKARG_DESTROYALLOCATION: 32 {
    NumAllocations: 0, pAllocationList: 8, hResource: 16, Flags: 24,
} } // one source: docs

pub type DXGKDDI_DESTROYALLOCATION =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_DESTROYALLOCATION) -> NTSTATUS;

flags! { DXGK_DESCRIBEALLOCATIONFLAGS { CheckDisplayMode: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_DESCRIBEALLOCATION {
    pub hAllocation: HANDLE,
    pub Width: u32,
    pub Height: u32,
    pub Format: D3DDDIFORMAT,
    pub MultisampleMethod: D3DDDI_MULTISAMPLINGMETHOD,
    pub RefreshRate: D3DDDI_RATIONAL,
    pub PrivateDriverFormatAttribute: u32,
    pub Flags: DXGK_DESCRIBEALLOCATIONFLAGS,
    pub Rotation: D3DDDI_ROTATION,
}
layout! { DXGKARG_DESCRIBEALLOCATION: 48 {
    hAllocation: 0, Width: 8, Height: 12, Format: 16, MultisampleMethod: 20, RefreshRate: 28,
    PrivateDriverFormatAttribute: 36, Flags: 40, Rotation: 44,
} } // one source: docs

pub type DXGKDDI_DESCRIBEALLOCATION =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_DESCRIBEALLOCATION) -> NTSTATUS;

flags! { DXGK_OPENALLOCATIONFLAGS { Create: 0, ReadOnly: 1 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_OPENALLOCATIONINFO {
    pub hAllocation: D3DKMT_HANDLE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hDeviceSpecificAllocation: HANDLE,
}
layout! { DXGK_OPENALLOCATIONINFO: 32 {
    hAllocation: 0, pPrivateDriverData: 8, PrivateDriverDataSize: 16,
    hDeviceSpecificAllocation: 24,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_OPENALLOCATION {
    pub NumAllocations: u32,
    pub pOpenAllocation: *mut DXGK_OPENALLOCATIONINFO,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverSize: u32,
    pub Flags: DXGK_OPENALLOCATIONFLAGS,
    pub SubresourceIndex: u32,
    pub SubresourceOffset: usize,
    pub Pitch: u32,
}
layout! { DXGKARG_OPENALLOCATION: 56 {
    NumAllocations: 0, pOpenAllocation: 8, pPrivateDriverData: 16, PrivateDriverSize: 24,
    Flags: 28, SubresourceIndex: 32, SubresourceOffset: 40, Pitch: 48,
} } // one source: docs

pub type DXGKDDI_OPENALLOCATIONINFO =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_OPENALLOCATION) -> NTSTATUS;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_CLOSEALLOCATION {
    pub NumAllocations: u32,
    pub pOpenHandleList: *const HANDLE,
}
layout! { DXGKARG_CLOSEALLOCATION: 16 {
    NumAllocations: 0, pOpenHandleList: 8,
} } // one source: docs

pub type DXGKDDI_CLOSEALLOCATION =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS;
