//! Frame allocators, and the requirements of pins.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    PFNALLOCATOR_ALLOCATEFRAME, PFNALLOCATOR_FREEFRAME, PFNKSDEFAULTALLOCATE, PFNKSDEFAULTFREE,
    PFNKSDELETEALLOCATOR, PFNKSPININITIALIZEALLOCATOR,
};
use crate::GUID;

/// An allocator of the minidriver (`Allocator` of [`KSPIN_DISPATCH`](super::KSPIN_DISPATCH)).
/// `InitializeAllocator` creates the context that the other functions get. `DeleteAllocator` frees
/// it, and no call with that context follows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSALLOCATOR_DISPATCH {
    pub InitializeAllocator: Option<PFNKSPININITIALIZEALLOCATOR>,
    pub DeleteAllocator: Option<PFNKSDELETEALLOCATOR>,
    pub Allocate: Option<PFNKSDEFAULTALLOCATE>,
    pub Free: Option<PFNKSDEFAULTFREE>,
}
layout! { KSALLOCATOR_DISPATCH: 32 { InitializeAllocator: 0, DeleteAllocator: 8, Allocate: 16, Free: 24 } }

/// What an allocator is created with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSALLOCATOR_FRAMING {
    /// `KSALLOCATOR_OPTIONF_*`; as a requirement, `RequirementsFlags`.
    pub OptionsFlags: u32,
    pub PoolType: POOL_TYPE,
    /// At most this many at once.
    pub Frames: u32,
    /// In bytes.
    pub FrameSize: u32,
    /// `FILE_*_ALIGNMENT`: bytes less one. Or [`frame_pitch`](Self::frame_pitch).
    pub FileAlignment: u32,
    pub Reserved: u32,
}
layout! { KSALLOCATOR_FRAMING: 24 { OptionsFlags: 0, PoolType: 4, Frames: 8, FrameSize: 12, FileAlignment: 16, Reserved: 20 } }

impl KSALLOCATOR_FRAMING {
    /// What a pin requires (`RequirementsFlags`): `KSALLOCATOR_REQUIREMENTF_*`.
    pub const fn requirements_flags(self) -> u32 {
        self.OptionsFlags
    }

    /// Bytes from row to row (`FramePitch`), with [`KSALLOCATOR_FLAG_2D_BUFFER_REQUIRED`].
    pub const fn frame_pitch(self) -> i32 {
        self.FileAlignment.cast_signed()
    }
}

pub const KSALLOCATOR_OPTIONF_COMPATIBLE: u32 = 0x0000_0001;
pub const KSALLOCATOR_OPTIONF_SYSTEM_MEMORY: u32 = 0x0000_0002;
pub const KSALLOCATOR_OPTIONF_VALID: u32 = 0x0000_0003;

pub const KSALLOCATOR_REQUIREMENTF_INPLACE_MODIFIER: u32 = 0x0000_0001;
pub const KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY: u32 = 0x0000_0002;
pub const KSALLOCATOR_REQUIREMENTF_FRAME_INTEGRITY: u32 = 0x0000_0004;
pub const KSALLOCATOR_REQUIREMENTF_MUST_ALLOCATE: u32 = 0x0000_0008;
pub const KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY_CUSTOM_ALLOCATION: u32 = 0x0000_0010;
pub const KSALLOCATOR_REQUIREMENTF_PREFERENCES_ONLY: u32 = 0x8000_0000;

pub const KSALLOCATOR_FLAG_PARTIAL_READ_SUPPORT: u32 = 0x0000_0010;
pub const KSALLOCATOR_FLAG_DEVICE_SPECIFIC: u32 = 0x0000_0020;
pub const KSALLOCATOR_FLAG_CAN_ALLOCATE: u32 = 0x0000_0040;
pub const KSALLOCATOR_FLAG_INSIST_ON_FRAMESIZE_RATIO: u32 = 0x0000_0080;
pub const KSALLOCATOR_FLAG_NO_FRAME_INTEGRITY: u32 = 0x0000_0100;
pub const KSALLOCATOR_FLAG_MULTIPLE_OUTPUT: u32 = 0x0000_0200;
pub const KSALLOCATOR_FLAG_CYCLE: u32 = 0x0000_0400;
pub const KSALLOCATOR_FLAG_ALLOCATOR_EXISTS: u32 = 0x0000_0800;
pub const KSALLOCATOR_FLAG_INDEPENDENT_RANGES: u32 = 0x0000_1000;
pub const KSALLOCATOR_FLAG_ATTENTION_STEPPING: u32 = 0x0000_2000;
pub const KSALLOCATOR_FLAG_ENABLE_CACHED_MDL: u32 = 0x0000_4000;
pub const KSALLOCATOR_FLAG_2D_BUFFER_REQUIRED: u32 = 0x0000_8000;

values! { POOL_TYPE {
    NonPagedPool = 0,
    PagedPool = 1,
    NonPagedPoolNx = 512,
} }

/// How the size of a frame changes: times `RatioNumerator` / `RatioDenominator`, and a margin.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KS_COMPRESSION {
    pub RatioNumerator: u32,
    pub RatioDenominator: u32,
    /// In bytes.
    pub RatioConstantMargin: u32,
}
layout! { KS_COMPRESSION: 12 { RatioNumerator: 0, RatioDenominator: 4, RatioConstantMargin: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KS_FRAMING_RANGE {
    /// In bytes.
    pub MinFrameSize: u32,
    /// In bytes.
    pub MaxFrameSize: u32,
    /// In bytes, from one legal size to the next.
    pub Stepping: u32,
}
layout! { KS_FRAMING_RANGE: 12 { MinFrameSize: 0, MaxFrameSize: 4, Stepping: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KS_FRAMING_RANGE_WEIGHTED {
    pub Range: KS_FRAMING_RANGE,
    pub InPlaceWeight: u32,
    pub NotInPlaceWeight: u32,
}
layout! { KS_FRAMING_RANGE_WEIGHTED: 20 { Range: 0, InPlaceWeight: 12, NotInPlaceWeight: 16 } }

/// A pin's requirements for memory of one type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KS_FRAMING_ITEM {
    /// `KSMEMORY_TYPE_*`.
    pub MemoryType: GUID,
    pub BusType: GUID,
    pub MemoryFlags: u32,
    pub BusFlags: u32,
    /// `KSALLOCATOR_REQUIREMENTF_*` and `KSALLOCATOR_FLAG_*`.
    pub Flags: u32,
    pub Frames: u32,
    /// `FILE_*_ALIGNMENT`: bytes less one. Or [`frame_pitch`](Self::frame_pitch).
    pub FileAlignment: u32,
    pub MemoryTypeWeight: u32,
    pub PhysicalRange: KS_FRAMING_RANGE,
    pub FramingRange: KS_FRAMING_RANGE_WEIGHTED,
}
layout! { KS_FRAMING_ITEM: 88 { MemoryType: 0, BusType: 16, MemoryFlags: 32, BusFlags: 36, Flags: 40, Frames: 44, FileAlignment: 48, MemoryTypeWeight: 52, PhysicalRange: 56, FramingRange: 68 } }

impl KS_FRAMING_ITEM {
    /// Bytes from row to row (`FramePitch`), with [`KSALLOCATOR_FLAG_2D_BUFFER_REQUIRED`].
    pub const fn frame_pitch(self) -> i32 {
        self.FileAlignment.cast_signed()
    }
}

/// A pin's requirements for an allocator: `CountItems` items, of which this has the first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSALLOCATOR_FRAMING_EX {
    pub CountItems: u32,
    pub PinFlags: u32,
    pub OutputCompression: KS_COMPRESSION,
    pub PinWeight: u32,
    pub FramingItem: [KS_FRAMING_ITEM; 1],
}
layout! { KSALLOCATOR_FRAMING_EX: 112 { CountItems: 0, PinFlags: 4, OutputCompression: 8, PinWeight: 20, FramingItem: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSSTREAMALLOCATOR_STATUS {
    pub Framing: KSALLOCATOR_FRAMING,
    pub AllocatedFrames: u32,
    pub Reserved: u32,
}
layout! { KSSTREAMALLOCATOR_STATUS: 32 { Framing: 0, AllocatedFrames: 24, Reserved: 28 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSSTREAMALLOCATOR_STATUS_EX {
    pub Framing: KSALLOCATOR_FRAMING_EX,
    pub AllocatedFrames: u32,
    pub Reserved: u32,
}
layout! { KSSTREAMALLOCATOR_STATUS_EX: 120 { Framing: 0, AllocatedFrames: 112, Reserved: 116 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSSTREAMALLOCATOR_FUNCTIONTABLE {
    pub AllocateFrame: Option<PFNALLOCATOR_ALLOCATEFRAME>,
    pub FreeFrame: Option<PFNALLOCATOR_FREEFRAME>,
}
layout! { KSSTREAMALLOCATOR_FUNCTIONTABLE: 16 { AllocateFrame: 0, FreeFrame: 8 } }

values! { KSPROPERTY_STREAMALLOCATOR {
    KSPROPERTY_STREAMALLOCATOR_FUNCTIONTABLE = 0,
    KSPROPERTY_STREAMALLOCATOR_STATUS = 1,
} }

values! { KSMETHOD_STREAMALLOCATOR {
    KSMETHOD_STREAMALLOCATOR_ALLOC = 0,
    KSMETHOD_STREAMALLOCATOR_FREE = 1,
} }

values! { KSEVENT_STREAMALLOCATOR {
    KSEVENT_STREAMALLOCATOR_INTERNAL_FREEFRAME = 0,
    KSEVENT_STREAMALLOCATOR_FREEFRAME = 1,
} }
