//! Residency, locks, budgets and offers of a client.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{
    D3DDDI_EVICT_FLAGS, D3DDDI_PAGINGQUEUE_PRIORITY, D3DDDI_RECLAIM_RESULT,
    D3DDDI_TRIMRESIDENCYSET_FLAGS, D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION, D3DDDICB_LOCK2FLAGS,
    D3DDDICB_LOCKFLAGS, D3DGPU_VIRTUAL_ADDRESS, D3DKMT_SIZE_T,
};
use crate::{BOOL, D3DKMT_HANDLE, HANDLE, LUID};
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_LOCK {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub PrivateDriverData: u32,
    pub NumPages: u32,
    pub pPages: *const u32,
    pub pData: *mut c_void,
    pub Flags: D3DDDICB_LOCKFLAGS,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DKMT_LOCK: 48 {
    hDevice: 0, hAllocation: 4, PrivateDriverData: 8, NumPages: 12, pPages: 16, pData: 24,
    Flags: 32, GpuVirtualAddress: 40,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_UNLOCK {
    pub hDevice: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub phAllocations: *const D3DKMT_HANDLE,
}
layout! { D3DKMT_UNLOCK: 16 { hDevice: 0, NumAllocations: 4, phAllocations: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_LOCK2 {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub Flags: D3DDDICB_LOCK2FLAGS,
    pub pData: *mut c_void,
}
layout! { D3DKMT_LOCK2: 24 { hDevice: 0, hAllocation: 4, Flags: 8, pData: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_UNLOCK2 {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
}
layout! { D3DKMT_UNLOCK2: 8 { hDevice: 0, hAllocation: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_EVICT {
    pub hDevice: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub AllocationList: *const D3DKMT_HANDLE,
    pub Flags: D3DDDI_EVICT_FLAGS,
    pub NumBytesToTrim: u64,
}
layout! { D3DKMT_EVICT: 32 {
    hDevice: 0, NumAllocations: 4, AllocationList: 8, Flags: 16, NumBytesToTrim: 24,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATEPAGINGQUEUE {
    pub hDevice: D3DKMT_HANDLE,
    pub Priority: D3DDDI_PAGINGQUEUE_PRIORITY,
    pub hPagingQueue: D3DKMT_HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
    pub FenceValueCPUVirtualAddress: *mut c_void,
    pub PhysicalAdapterIndex: u32,
}
layout! { D3DKMT_CREATEPAGINGQUEUE: 32 {
    hDevice: 0, Priority: 4, hPagingQueue: 8, hSyncObject: 12, FenceValueCPUVirtualAddress: 16,
    PhysicalAdapterIndex: 24,
} }

flags! { D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS { DoNotWait: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_UPDATEGPUVIRTUALADDRESS {
    pub hDevice: D3DKMT_HANDLE,
    pub hContext: D3DKMT_HANDLE,
    pub hFenceObject: D3DKMT_HANDLE,
    pub NumOperations: u32,
    pub Operations: *const D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
    pub Reserved0: u64,
    pub Reserved1: u64,
    pub FenceValue: u64,
    pub Flags: D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS,
}
layout! { D3DKMT_UPDATEGPUVIRTUALADDRESS: 56 {
    hDevice: 0, hContext: 4, hFenceObject: 8, NumOperations: 12, Operations: 16, Reserved0: 24,
    Reserved1: 32, FenceValue: 40, Flags: 48,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_FREEGPUVIRTUALADDRESS {
    pub hAdapter: D3DKMT_HANDLE,
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Size: u64,
}
layout! { D3DKMT_FREEGPUVIRTUALADDRESS: 24 { hAdapter: 0, BaseAddress: 8, Size: 16 } }

values! { D3DKMT_OFFER_PRIORITY {
    D3DKMT_OFFER_PRIORITY_LOW = 1,
    D3DKMT_OFFER_PRIORITY_NORMAL = 2,
    D3DKMT_OFFER_PRIORITY_HIGH = 3,
    D3DKMT_OFFER_PRIORITY_AUTO = 4,
} }

flags! { D3DKMT_OFFER_FLAGS { OfferImmediately: 0, AllowDecommit: 1 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OFFERALLOCATIONS {
    pub hDevice: D3DKMT_HANDLE,
    pub pResources: *mut D3DKMT_HANDLE,
    pub HandleList: *const D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub Priority: D3DKMT_OFFER_PRIORITY,
    pub Flags: D3DKMT_OFFER_FLAGS,
}
layout! { D3DKMT_OFFERALLOCATIONS: 40 {
    hDevice: 0, pResources: 8, HandleList: 16, NumAllocations: 24, Priority: 28, Flags: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_RECLAIMALLOCATIONS {
    pub hDevice: D3DKMT_HANDLE,
    pub pResources: *mut D3DKMT_HANDLE,
    pub HandleList: *const D3DKMT_HANDLE,
    pub pDiscarded: *mut BOOL,
    pub NumAllocations: u32,
}
layout! { D3DKMT_RECLAIMALLOCATIONS: 40 {
    hDevice: 0, pResources: 8, HandleList: 16, pDiscarded: 24, NumAllocations: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_RECLAIMALLOCATIONS2 {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub pResources: *mut D3DKMT_HANDLE,
    pub HandleList: *const D3DKMT_HANDLE,
    /// A union with `pResults`: see [`Self::results`].
    pub pDiscarded: *mut BOOL,
    pub PagingFenceValue: u64,
}
layout! { D3DKMT_RECLAIMALLOCATIONS2: 40 {
    hPagingQueue: 0, NumAllocations: 4, pResources: 8, HandleList: 16, pDiscarded: 24,
    PagingFenceValue: 32,
} }

impl D3DKMT_RECLAIMALLOCATIONS2 {
    /// The union's `pResults`, since 2.1.
    pub const fn results(&self) -> *mut D3DDDI_RECLAIM_RESULT {
        self.pDiscarded.cast()
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETALLOCATIONPRIORITY {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *const D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub pPriorities: *const u32,
}
layout! { D3DKMT_SETALLOCATIONPRIORITY: 32 {
    hDevice: 0, hResource: 4, phAllocationList: 8, AllocationCount: 16, pPriorities: 24,
} }

// Since 2.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETALLOCATIONPRIORITY {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *const D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub pPriorities: *mut u32,
}
layout! { D3DKMT_GETALLOCATIONPRIORITY: 32 {
    hDevice: 0, hResource: 4, phAllocationList: 8, AllocationCount: 16, pPriorities: 24,
} }

values! { D3DKMT_ALLOCATIONRESIDENCYSTATUS {
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY = 1,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY = 2,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT = 3,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYALLOCATIONRESIDENCY {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *const D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub pResidencyStatus: *mut D3DKMT_ALLOCATIONRESIDENCYSTATUS,
}
layout! { D3DKMT_QUERYALLOCATIONRESIDENCY: 32 {
    hDevice: 0, hResource: 4, phAllocationList: 8, AllocationCount: 16, pResidencyStatus: 24,
} }

values! { D3DKMT_MEMORY_SEGMENT_GROUP {
    D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL = 0,
    D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL = 1,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYVIDEOMEMORYINFO {
    pub hProcess: HANDLE,
    pub hAdapter: D3DKMT_HANDLE,
    pub MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
    pub Budget: u64,
    pub CurrentUsage: u64,
    pub CurrentReservation: u64,
    pub AvailableForReservation: u64,
    pub PhysicalAdapterIndex: u32,
}
layout! { D3DKMT_QUERYVIDEOMEMORYINFO: 56 {
    hProcess: 0, hAdapter: 8, MemorySegmentGroup: 12, Budget: 16, CurrentUsage: 24,
    CurrentReservation: 32, AvailableForReservation: 40, PhysicalAdapterIndex: 48,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CHANGEVIDEOMEMORYRESERVATION {
    pub hProcess: HANDLE,
    pub hAdapter: D3DKMT_HANDLE,
    pub MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
    pub Reservation: u64,
    pub PhysicalAdapterIndex: u32,
}
layout! { D3DKMT_CHANGEVIDEOMEMORYRESERVATION: 32 {
    hProcess: 0, hAdapter: 8, MemorySegmentGroup: 12, Reservation: 16, PhysicalAdapterIndex: 24,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_TRIMNOTIFICATION {
    pub Context: *mut c_void,
    pub Flags: D3DDDI_TRIMRESIDENCYSET_FLAGS,
    pub NumBytesToTrim: u64,
}
layout! { D3DKMT_TRIMNOTIFICATION: 24 { Context: 0, Flags: 8, NumBytesToTrim: 16 } }

/// A function of the client, with the calling convention of its compiler. It may unwind.
pub type PFND3DKMT_TRIMNOTIFICATIONCALLBACK =
    unsafe extern "C-unwind" fn(*mut D3DKMT_TRIMNOTIFICATION);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_REGISTERTRIMNOTIFICATION {
    pub AdapterLuid: LUID,
    pub hDevice: D3DKMT_HANDLE,
    pub Callback: Option<PFND3DKMT_TRIMNOTIFICATIONCALLBACK>,
    pub Context: *mut c_void,
    pub Handle: *mut c_void,
}
layout! { D3DKMT_REGISTERTRIMNOTIFICATION: 40 {
    AdapterLuid: 0, hDevice: 8, Callback: 16, Context: 24, Handle: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_UNREGISTERTRIMNOTIFICATION {
    pub Handle: *mut c_void,
    pub Callback: Option<PFND3DKMT_TRIMNOTIFICATIONCALLBACK>,
}
layout! { D3DKMT_UNREGISTERTRIMNOTIFICATION: 16 { Handle: 0, Callback: 8 } }

// Unnamed in Windows: a union inside the struct.
flags! { D3DKMT_EVICTION_CRITERIA_FLAGS { Primary: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_EVICTION_CRITERIA {
    pub MinimumSize: u64,
    pub MaximumSize: u64,
    pub Flags: D3DKMT_EVICTION_CRITERIA_FLAGS,
}
layout! { D3DKMT_EVICTION_CRITERIA: 24 { MinimumSize: 0, MaximumSize: 8, Flags: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_INVALIDATECACHE {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub Offset: D3DKMT_SIZE_T,
    pub Length: D3DKMT_SIZE_T,
}
layout! { D3DKMT_INVALIDATECACHE: 24 { hDevice: 0, hAllocation: 4, Offset: 8, Length: 16 } }
