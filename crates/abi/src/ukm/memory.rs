//! Residency and locks: definitions that both modes share.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::D3DGPU_VIRTUAL_ADDRESS;
use crate::D3DKMT_HANDLE;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DGPU_PHYSICAL_ADDRESS {
    pub SegmentId: u32,
    pub Padding: u32,
    pub SegmentOffset: u64,
}
layout! { D3DGPU_PHYSICAL_ADDRESS: 16 { SegmentId: 0, Padding: 4, SegmentOffset: 8 } }

#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE {
    pub Value: u64,
}
layout! { D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE: 8 { Value: 0 } }

impl D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE {
    pub const Write: u64 = 1;
    pub const Execute: u64 = 1 << 1;
    pub const Zero: u64 = 1 << 2;
    pub const NoAccess: u64 = 1 << 3;
    pub const SystemUseOnly: u64 = 1 << 4;
    pub const RESERVED: u64 = !0x1f;

    /// Whether one of these bits is set.
    pub const fn has(self, bits: u64) -> bool {
        self.Value & bits != 0
    }
}

values! { D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE {
    D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS = 0,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO = 1,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT = 2,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_MAPGPUVIRTUALADDRESS {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub hAllocation: D3DKMT_HANDLE,
    pub OffsetInPages: u64,
    pub SizeInPages: u64,
    pub Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    pub DriverProtection: u64,
    pub Reserved0: u32,
    pub Reserved1: u64,
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub PagingFenceValue: u64,
}
layout! { D3DDDI_MAPGPUVIRTUALADDRESS: 104 {
    hPagingQueue: 0, BaseAddress: 8, MinimumAddress: 16, MaximumAddress: 24, hAllocation: 32,
    OffsetInPages: 40, SizeInPages: 48, Protection: 56, DriverProtection: 64, Reserved0: 72,
    Reserved1: 80, VirtualAddress: 88, PagingFenceValue: 96,
} }

/// The first member is `hAdapter` as well, which is of the past.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_RESERVEGPUVIRTUALADDRESS {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Size: u64,
    pub ReservationType: D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE,
    pub DriverProtection: u64,
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub PagingFenceValue: u64,
}
layout! { D3DDDI_RESERVEGPUVIRTUALADDRESS: 72 {
    hPagingQueue: 0, BaseAddress: 8, MinimumAddress: 16, MaximumAddress: 24, Size: 32,
    ReservationType: 40, DriverProtection: 48, VirtualAddress: 56, PagingFenceValue: 64,
} }

values! { D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE {
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP = 0,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP = 1,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY = 2,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT = 3,
} }

/// One operation of an update. `Data` is a union: of what, its type says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION {
    pub OperationType: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE,
    /// `Map`, `MapProtect`, `Unmap` or `Copy`, eight bytes for each member: base, size and
    /// `hAllocation`, offset, size there and two protections; base, size and protection; source,
    /// size and destination.
    pub Data: [u64; 7],
}
layout! { D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION: 64 { OperationType: 0, Data: 8 } }

flags! { D3DDDICB_LOCKFLAGS {
    ReadOnly: 0,
    WriteOnly: 1,
    DonotWait: 2,
    IgnoreSync: 3,
    LockEntire: 4,
    DonotEvict: 5,
    AcquireAperture: 6,
    Discard: 7,
    NoExistingReference: 8,
    UseAlternateVA: 9,
    IgnoreReadSync: 10,
} }

flags! { D3DDDICB_LOCK2FLAGS {} }

flags! { D3DDDI_MAKERESIDENT_FLAGS { CantTrimFurther: 0, MustSucceed: 1 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_MAKERESIDENT {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub AllocationList: *const D3DKMT_HANDLE,
    pub PriorityList: *const u32,
    pub Flags: D3DDDI_MAKERESIDENT_FLAGS,
    pub PagingFenceValue: u64,
    pub NumBytesToTrim: u64,
}
layout! { D3DDDI_MAKERESIDENT: 48 {
    hPagingQueue: 0, NumAllocations: 4, AllocationList: 8, PriorityList: 16, Flags: 24,
    PagingFenceValue: 32, NumBytesToTrim: 40,
} }

flags! { D3DDDI_EVICT_FLAGS { EvictOnlyIfNecessary: 0, NotWrittenTo: 1 } }

values! { D3DDDI_PAGINGQUEUE_PRIORITY {
    D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL = -1,
    D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL = 0,
    D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL = 1,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_DESTROYPAGINGQUEUE {
    pub hPagingQueue: D3DKMT_HANDLE,
}
layout! { D3DDDI_DESTROYPAGINGQUEUE: 4 { hPagingQueue: 0 } }

values! { D3DDDI_RECLAIM_RESULT {
    D3DDDI_RECLAIM_RESULT_OK = 0, // since 2.1
    D3DDDI_RECLAIM_RESULT_DISCARDED = 1, // since 2.1
    D3DDDI_RECLAIM_RESULT_NOT_COMMITTED = 2, // since 2.1
} }

flags! { D3DDDI_TRIMRESIDENCYSET_FLAGS {
    PeriodicTrim: 0,
    RestartPeriodicTrim: 1,
    TrimToBudget: 2,
} }

flags! { D3DDDI_UPDATEALLOCPROPERTY_FLAGS {
    AccessedPhysically: 0, // since 2.1
    Unmoveable: 1, // since 2.1
} }

/// Five segments of five bits, the first one lowest, each with its direction above it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_SEGMENTPREFERENCE {
    pub Value: u32,
}
layout! { D3DDDI_SEGMENTPREFERENCE: 4 { Value: 0 } }

impl D3DDDI_SEGMENTPREFERENCE {
    /// `SegmentId0` to `SegmentId4`: segments count from 1, and 0 is none.
    pub const fn segments(self) -> [u32; 5] {
        let it = self.Value;
        [it & 31, it >> 6 & 31, it >> 12 & 31, it >> 18 & 31, it >> 24 & 31]
    }
}

// Since 2.1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_UPDATEALLOCPROPERTY {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub SupportedSegmentSet: u32,
    pub PreferredSegment: D3DDDI_SEGMENTPREFERENCE,
    pub Flags: D3DDDI_UPDATEALLOCPROPERTY_FLAGS,
    pub PagingFenceValue: u64,
    /// Which of the above are set: an integer with named bits.
    pub PropertyMaskValue: u32,
}
layout! { D3DDDI_UPDATEALLOCPROPERTY: 40 {
    hPagingQueue: 0, hAllocation: 4, SupportedSegmentSet: 8, PreferredSegment: 12, Flags: 16,
    PagingFenceValue: 24, PropertyMaskValue: 32,
} }

impl D3DDDI_UPDATEALLOCPROPERTY {
    pub const SetAccessedPhysically: u32 = 1;
    pub const SetSupportedSegmentSet: u32 = 1 << 1;
    pub const SetPreferredSegment: u32 = 1 << 2;
    pub const SetUnmoveable: u32 = 1 << 3;
}
