//! Definitions that user mode and kernel mode share, as in `d3dukmdt.h`.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

mod memory;
mod sync;

pub use memory::*;
pub use sync::*;

use crate::{D3DKMT_HANDLE, HANDLE};
use core::ffi::c_void;

pub type D3DGPU_VIRTUAL_ADDRESS = u64;
pub type D3DKMT_SIZE_T = usize;
pub type D3DDDI_VIDEO_PRESENT_SOURCE_ID = u32;
pub type D3DDDI_VIDEO_PRESENT_TARGET_ID = u32;

pub const D3DDDI_ID_NOTAPPLICABLE: u32 = 0;

pub const D3DDDI_MAX_BROADCAST_CONTEXT: usize = 64;
pub const D3DDDI_MAX_WRITTEN_PRIMARIES: usize = 16;

pub const D3DDDI_ALLOCATIONPRIORITY_MINIMUM: u32 = 0x2800_0000;
pub const D3DDDI_ALLOCATIONPRIORITY_LOW: u32 = 0x5000_0000;
pub const D3DDDI_ALLOCATIONPRIORITY_NORMAL: u32 = 0x7800_0000;
pub const D3DDDI_ALLOCATIONPRIORITY_HIGH: u32 = 0xA000_0000;
pub const D3DDDI_ALLOCATIONPRIORITY_MAXIMUM: u32 = 0xC800_0000;

// The formats of a display surface with plain numbers; any other is possible, too.
/// A source or target that is not known.
pub const D3DDDI_ID_UNINITIALIZED: u32 = 0xFFFF_FFFF;

values! { D3DDDIFORMAT {
    D3DDDIFMT_UNKNOWN = 0,
    D3DDDIFMT_R8G8B8 = 20,
    D3DDDIFMT_A8R8G8B8 = 21,
    D3DDDIFMT_X8R8G8B8 = 22,
    D3DDDIFMT_R5G6B5 = 23,
    D3DDDIFMT_X1R5G5B5 = 24,
    D3DDDIFMT_A1R5G5B5 = 25,
    D3DDDIFMT_A8 = 28,
    D3DDDIFMT_A2B10G10R10 = 31,
    D3DDDIFMT_A8B8G8R8 = 32,
    D3DDDIFMT_X8B8G8R8 = 33,
    D3DDDIFMT_A2R10G10B10 = 35,
    D3DDDIFMT_P8 = 41,
    D3DDDIFMT_A16B16G16R16F = 113,
} }

values! { D3DDDI_ROTATION {
    D3DDDI_ROTATION_IDENTITY = 1,
    D3DDDI_ROTATION_90 = 2,
    D3DDDI_ROTATION_180 = 3,
    D3DDDI_ROTATION_270 = 4,
} }

values! { D3DDDI_FLIPINTERVAL_TYPE {
    D3DDDI_FLIPINTERVAL_IMMEDIATE = 0,
    D3DDDI_FLIPINTERVAL_ONE = 1,
    D3DDDI_FLIPINTERVAL_TWO = 2,
    D3DDDI_FLIPINTERVAL_THREE = 3,
    D3DDDI_FLIPINTERVAL_FOUR = 4,
    D3DDDI_FLIPINTERVAL_IMMEDIATE_ALLOW_TEARING = 5,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_RATIONAL {
    pub Numerator: u32,
    pub Denominator: u32,
}
layout! { D3DDDI_RATIONAL: 8 { Numerator: 0, Denominator: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_MULTISAMPLINGMETHOD {
    pub NumSamples: u32,
    pub NumQualityLevels: u32,
}
layout! { D3DDDI_MULTISAMPLINGMETHOD: 8 { NumSamples: 0, NumQualityLevels: 4 } }

// The low five bits: WriteOperation, DoNotRetireInstance, OfferPriority (three).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_ALLOCATIONLIST {
    pub hAllocation: D3DKMT_HANDLE,
    pub Value: u32,
}
layout! { D3DDDI_ALLOCATIONLIST: 8 { hAllocation: 0, Value: 4 } }

// Of `Value`, SlotId is the low 24 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_PATCHLOCATIONLIST {
    pub AllocationIndex: u32,
    pub Value: u32,
    pub DriverId: u32,
    pub AllocationOffset: u32,
    pub PatchOffset: u32,
    pub SplitOffset: u32,
}
layout! { D3DDDI_PATCHLOCATIONLIST: 24 {
    AllocationIndex: 0, Value: 4, DriverId: 8, AllocationOffset: 12, PatchOffset: 16,
    SplitOffset: 20,
} }

flags! { D3DDDI_ESCAPEFLAGS {
    HardwareAccess: 0,
    DeviceStatusQuery: 1,
    ChangeFrameLatency: 2,
    NoAdapterSynchronization: 3, // since 2.0
    VirtualMachineData: 5,       // since 2.2
    DriverKnownEscape: 6,        // since 2.5
    DriverCommonEscape: 7,       // since 2.5
} }

flags! { D3DDDI_CREATECONTEXTFLAGS {
    NullRendering: 0,
    InitialData: 1,
    DisableGpuTimeout: 2,
    SynchronizationOnly: 3,
    HwQueueSupported: 4, // since 2.3, like the next
    NoKmdAccess: 5,
} }

// Unnamed in Windows: a union inside the struct.
flags! { D3DDDI_ALLOCATIONINFO_FLAGS { Primary: 0, Stereo: 1 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_ALLOCATIONINFO {
    pub hAllocation: D3DKMT_HANDLE,
    pub pSystemMem: *const c_void,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub Flags: D3DDDI_ALLOCATIONINFO_FLAGS,
}
layout! { D3DDDI_ALLOCATIONINFO: 40 {
    hAllocation: 0, pSystemMem: 8, pPrivateDriverData: 16, PrivateDriverDataSize: 24,
    VidPnSourceId: 28, Flags: 32,
} }

// Unnamed in Windows: a union inside the struct. `OverridePriority` since 2.2.
flags! { D3DDDI_ALLOCATIONINFO2_FLAGS { Primary: 0, Stereo: 1, OverridePriority: 2 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_ALLOCATIONINFO2 {
    pub hAllocation: D3DKMT_HANDLE,
    /// A union with `hSection`: see [`Self::section`].
    pub pSystemMem: *const c_void,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub Flags: D3DDDI_ALLOCATIONINFO2_FLAGS,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// A union with `Priority`: see [`Self::priority`], since 2.2.
    pub Unused: usize,
    pub Reserved: [usize; 5],
}
layout! { D3DDDI_ALLOCATIONINFO2: 96 {
    hAllocation: 0, pSystemMem: 8, pPrivateDriverData: 16, PrivateDriverDataSize: 24,
    VidPnSourceId: 28, Flags: 32, GpuVirtualAddress: 40, Unused: 48, Reserved: 56,
} }

impl D3DDDI_ALLOCATIONINFO2 {
    /// The union's `hSection`.
    pub const fn section(&self) -> HANDLE {
        self.pSystemMem.cast_mut()
    }

    /// The union's `Priority`.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn priority(&self) -> u32 {
        self.Unused as u32
    }
}

flags! { D3DDDICB_DESTROYALLOCATION2FLAGS {
    AssumeNotInUse: 0,
    SynchronousDestroy: 1,
    SystemUseOnly: 31,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_OPENALLOCATIONINFO {
    pub hAllocation: D3DKMT_HANDLE,
    pub pPrivateDriverData: *const c_void,
    pub PrivateDriverDataSize: u32,
}
layout! { D3DDDI_OPENALLOCATIONINFO: 24 {
    hAllocation: 0, pPrivateDriverData: 8, PrivateDriverDataSize: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_OPENALLOCATIONINFO2 {
    pub hAllocation: D3DKMT_HANDLE,
    pub pPrivateDriverData: *const c_void,
    pub PrivateDriverDataSize: u32,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Reserved: [usize; 6],
}
layout! { D3DDDI_OPENALLOCATIONINFO2: 80 {
    hAllocation: 0, pPrivateDriverData: 8, PrivateDriverDataSize: 16, GpuVirtualAddress: 24,
    Reserved: 32,
} }
