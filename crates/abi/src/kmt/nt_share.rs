//! Sharing by NT handles.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{
    D3DDDI_OPENALLOCATIONINFO2, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, D3DGPU_VIRTUAL_ADDRESS,
};
use crate::{D3DKMT_HANDLE, HANDLE, LUID, OBJECT_ATTRIBUTES};
use core::ffi::c_void;

/// How many objects one NT handle can have.
pub const D3DKMT_MAX_OBJECTS_PER_HANDLE: u32 = 3;

/// Access: the shared allocations can be written.
pub const SHARED_ALLOCATION_WRITE: u32 = 1;
/// Access: everything.
pub const SHARED_ALLOCATION_ALL_ACCESS: u32 = 0xF_0001;

/// Of `OBJECT_ATTRIBUTES.Attributes`: child processes get the handle.
pub const OBJ_INHERIT: u32 = 0x2;
/// Of `OBJECT_ATTRIBUTES.Attributes`: the name is compared without regard to case.
pub const OBJ_CASE_INSENSITIVE: u32 = 0x40;
/// The defined bits of `OBJECT_ATTRIBUTES.Attributes`.
pub const OBJ_VALID_ATTRIBUTES: u32 = 0x1FF2;

/// Access: the security descriptor can be read.
pub const STANDARD_RIGHTS_READ: u32 = 0x2_0000;
/// As [`STANDARD_RIGHTS_READ`].
pub const STANDARD_RIGHTS_WRITE: u32 = 0x2_0000;
pub const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
pub const GENERIC_ALL: u32 = 0x1000_0000;
pub const GENERIC_EXECUTE: u32 = 0x2000_0000;
pub const GENERIC_WRITE: u32 = 0x4000_0000;
pub const GENERIC_READ: u32 = 0x8000_0000;

/// The arguments of `D3DKMTShareObjects`, which takes them one by one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SHAREOBJECTS {
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub pObjectAttributes: *mut OBJECT_ATTRIBUTES,
    pub DesiredAccess: u32,
    pub pSharedNtHandle: *mut HANDLE,
}
layout! { D3DKMT_SHAREOBJECTS: 40 {
    ObjectCount: 0, ObjectHandleArray: 8, pObjectAttributes: 16, DesiredAccess: 24,
    pSharedNtHandle: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENNTHANDLEFROMNAME {
    pub dwDesiredAccess: u32,
    pub pObjAttrib: *mut OBJECT_ATTRIBUTES,
    pub hNtHandle: HANDLE,
}
layout! { D3DKMT_OPENNTHANDLEFROMNAME: 24 { dwDesiredAccess: 0, pObjAttrib: 8, hNtHandle: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME {
    pub dwDesiredAccess: u32,
    pub pObjAttrib: *mut OBJECT_ATTRIBUTES,
    pub hNtHandle: HANDLE,
}
layout! { D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME: 24 {
    dwDesiredAccess: 0, pObjAttrib: 8, hNtHandle: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE {
    pub hDevice: D3DKMT_HANDLE,
    pub hNtHandle: HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub TotalPrivateDriverDataSize: u32,
    pub ResourcePrivateDriverDataSize: u32,
    pub NumAllocations: u32,
}
layout! { D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE: 40 {
    hDevice: 0, hNtHandle: 8, pPrivateRuntimeData: 16, PrivateRuntimeDataSize: 24,
    TotalPrivateDriverDataSize: 28, ResourcePrivateDriverDataSize: 32, NumAllocations: 36,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENRESOURCEFROMNTHANDLE {
    pub hDevice: D3DKMT_HANDLE,
    pub hNtHandle: HANDLE,
    pub NumAllocations: u32,
    pub pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2,
    pub PrivateRuntimeDataSize: u32,
    pub pPrivateRuntimeData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub TotalPrivateDriverDataBufferSize: u32,
    pub pTotalPrivateDriverDataBuffer: *mut c_void,
    pub hResource: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pKeyedMutexPrivateRuntimeData: *mut c_void,
    pub KeyedMutexPrivateRuntimeDataSize: u32,
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DKMT_OPENRESOURCEFROMNTHANDLE: 104 {
    hDevice: 0, hNtHandle: 8, NumAllocations: 16, pOpenAllocationInfo2: 24,
    PrivateRuntimeDataSize: 32, pPrivateRuntimeData: 40, ResourcePrivateDriverDataSize: 48,
    pResourcePrivateDriverData: 56, TotalPrivateDriverDataBufferSize: 64,
    pTotalPrivateDriverDataBuffer: 72, hResource: 80, hKeyedMutex: 84,
    pKeyedMutexPrivateRuntimeData: 88, KeyedMutexPrivateRuntimeDataSize: 96, hSyncObject: 100,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE {
    pub hNtHandle: HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DKMT_OPENSYNCOBJECTFROMNTHANDLE: 16 { hNtHandle: 0, hSyncObject: 8 } }

/// Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENEDMONITOREDFENCE_INFO {
    pub FenceValueCPUVirtualAddress: *mut c_void,
    pub FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub EngineAffinity: u32,
    pub Padding: u32,
}
layout! { D3DKMT_OPENEDMONITOREDFENCE_INFO: 24 {
    FenceValueCPUVirtualAddress: 0, FenceValueGPUVirtualAddress: 8, EngineAffinity: 16,
    Padding: 20,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
    pub hNtHandle: HANDLE,
    pub hDevice: D3DKMT_HANDLE,
    pub Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    pub hSyncObject: D3DKMT_HANDLE,
    /// By type. A union with `MonitoredFence`: see [`Self::monitored`].
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2: 88 {
    hNtHandle: 0, hDevice: 8, Flags: 12, hSyncObject: 16, Reserved: 24,
} }

impl D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
    /// The union's `MonitoredFence`.
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    pub const fn monitored(&self) -> D3DKMT_OPENEDMONITOREDFENCE_INFO {
        D3DKMT_OPENEDMONITOREDFENCE_INFO {
            FenceValueCPUVirtualAddress: core::ptr::without_provenance_mut(
                self.Reserved[0] as usize,
            ),
            FenceValueGPUVirtualAddress: self.Reserved[1],
            EngineAffinity: self.Reserved[2] as u32,
            Padding: (self.Reserved[2] >> 32) as u32,
        }
    }

    /// Sets the union's `FenceValueCPUVirtualAddress`.
    pub const fn set_value_address(&mut self, address: usize) {
        self.Reserved[0] = address as u64;
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE {
    pub hNtHandle: HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}
layout! { D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE: 32 {
    hNtHandle: 0, hKeyedMutex: 8, pPrivateRuntimeData: 16, PrivateRuntimeDataSize: 24,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETSHAREDRESOURCEADAPTERLUID {
    pub hGlobalShare: D3DKMT_HANDLE,
    pub hNtHandle: HANDLE,
    pub AdapterLuid: LUID,
}
layout! { D3DKMT_GETSHAREDRESOURCEADAPTERLUID: 24 {
    hGlobalShare: 0, hNtHandle: 8, AdapterLuid: 16,
} }
