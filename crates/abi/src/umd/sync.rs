//! Callbacks of a user-mode driver: memory, addresses and synchronization.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{
    D3DDDI_EVICT_FLAGS, D3DDDI_MAX_BROADCAST_CONTEXT, D3DDDI_PAGINGQUEUE_PRIORITY,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO, D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION, D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
    D3DDDICB_SIGNALFLAGS, D3DGPU_VIRTUAL_ADDRESS,
};
use crate::{BOOL, D3DKMT_HANDLE, HANDLE};
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_CREATESYNCHRONIZATIONOBJECT {
    pub Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO,
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DDDICB_CREATESYNCHRONIZATIONOBJECT: 72 { Info: 0, hSyncObject: 68 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 {
    pub Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DDDICB_CREATESYNCHRONIZATIONOBJECT2: 88 { Info: 0, hSyncObject: 80 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT {
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT: 4 { hSyncObject: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT {
    pub hContext: HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
}
layout! { D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT: 144 { hContext: 0, ObjectCount: 8, ObjectHandleArray: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2 {
    pub hContext: HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
    pub FenceValue: u64,
}
layout! { D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2: 152 { hContext: 0, ObjectCount: 8, ObjectHandleArray: 12, FenceValue: 144 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT {
    pub hContext: HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
    pub Flags: D3DDDICB_SIGNALFLAGS,
}
layout! { D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT: 144 { hContext: 0, ObjectCount: 8, ObjectHandleArray: 12, Flags: 140 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2 {
    pub hContext: HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
    pub FenceValue: u64,
}
layout! { D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2: 416 { hContext: 0, ObjectCount: 8, ObjectHandleArray: 12, Flags: 140, BroadcastContextCount: 144, BroadcastContext: 148, FenceValue: 408 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub FenceValueArray: *const u64,
    pub hAsyncEvent: HANDLE,
    pub Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
}
layout! { D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU: 40 { ObjectCount: 0, ObjectHandleArray: 8, FenceValueArray: 16, hAsyncEvent: 24, Flags: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub FenceValueArray: *const u64,
}
layout! { D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU: 24 { ObjectCount: 0, ObjectHandleArray: 8, FenceValueArray: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
    pub hContext: HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub MonitoredFenceValueArray: [u64; 8],
}
layout! { D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU: 88 { hContext: 0, ObjectCount: 8, ObjectHandleArray: 16, MonitoredFenceValueArray: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
    pub hContext: HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub MonitoredFenceValueArray: [u64; 8],
}
layout! { D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU: 88 { hContext: 0, ObjectCount: 8, ObjectHandleArray: 16, MonitoredFenceValueArray: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastContextCount: u32,
    pub BroadcastContextArray: *const HANDLE,
    pub FenceValue: [u64; 8],
}
layout! { D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2: 96 { ObjectCount: 0, ObjectHandleArray: 8, Flags: 16, BroadcastContextCount: 20, BroadcastContextArray: 24, FenceValue: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_CREATEPAGINGQUEUE {
    pub Priority: D3DDDI_PAGINGQUEUE_PRIORITY,
    pub hPagingQueue: D3DKMT_HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
    pub FenceValueCPUVirtualAddress: *mut c_void,
    pub PhysicalAdapterIndex: u32,
}
layout! { D3DDDICB_CREATEPAGINGQUEUE: 32 { Priority: 0, hPagingQueue: 4, hSyncObject: 8, FenceValueCPUVirtualAddress: 16, PhysicalAdapterIndex: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_EVICT {
    pub NumAllocations: u32,
    pub AllocationList: *const D3DKMT_HANDLE,
    pub Flags: D3DDDI_EVICT_FLAGS,
    pub NumBytesToTrim: u64,
}
layout! { D3DDDICB_EVICT: 32 { NumAllocations: 0, AllocationList: 8, Flags: 16, NumBytesToTrim: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_OFFERALLOCATIONS {
    pub pResources: *const HANDLE,
    pub HandleList: *const D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub Priority: i32,
}
layout! { D3DDDICB_OFFERALLOCATIONS: 24 { pResources: 0, HandleList: 8, NumAllocations: 16, Priority: 20 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_RECLAIMALLOCATIONS {
    pub pResources: *const HANDLE,
    pub HandleList: *const D3DKMT_HANDLE,
    pub pDiscarded: *mut BOOL,
    pub NumAllocations: u32,
}
layout! { D3DDDICB_RECLAIMALLOCATIONS: 32 { pResources: 0, HandleList: 8, pDiscarded: 16, NumAllocations: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_RECLAIMALLOCATIONS2 {
    pub PagingQueue: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub pResources: *const HANDLE,
    pub HandleList: *const D3DKMT_HANDLE,
    pub pDiscarded: *mut BOOL,
    pub PagingFenceValue: u64,
}
layout! { D3DDDICB_RECLAIMALLOCATIONS2: 40 { PagingQueue: 0, NumAllocations: 4, pResources: 8, HandleList: 16, pDiscarded: 24, PagingFenceValue: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_FREEGPUVIRTUALADDRESS {
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Size: u64,
}
layout! { D3DDDICB_FREEGPUVIRTUALADDRESS: 16 { BaseAddress: 0, Size: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDICB_UPDATEGPUVIRTUALADDRESS {
    pub hContext: HANDLE,
    pub hFenceObject: D3DKMT_HANDLE,
    pub NumOperations: u32,
    pub Operations: *mut D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
    pub Reserved0: u32,
    pub Reserved1: u64,
    pub FenceValue: u64,
    pub Flags: u32,
}
layout! { D3DDDICB_UPDATEGPUVIRTUALADDRESS: 56 { hContext: 0, hFenceObject: 8, NumOperations: 12, Operations: 16, Reserved0: 24, Reserved1: 32, FenceValue: 40, Flags: 48 } }
