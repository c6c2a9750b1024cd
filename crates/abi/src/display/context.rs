//! Devices, contexts, and work submitted to them.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{
    D3DDDI_ESCAPEFLAGS, D3DDDI_FLIPINTERVAL_TYPE, D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    D3DGPU_VIRTUAL_ADDRESS,
};
use crate::{HANDLE, NTSTATUS};
use core::{ffi::c_void, ptr};

flags! { DXGK_CREATEDEVICEFLAGS { SystemDevice: 0, GdiDevice: 1 } } // one source: docs

flags! { DXGK_DEVICEINFOFLAGS { GuaranteedDmaBufferContract: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DEVICEINFO {
    pub DmaBufferSize: u32,
    pub DmaBufferSegmentSet: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub AllocationListSize: u32,
    pub PatchLocationListSize: u32,
    pub Flags: DXGK_DEVICEINFOFLAGS,
}
layout! { DXGK_DEVICEINFO: 24 {
    DmaBufferSize: 0, DmaBufferSegmentSet: 4, DmaBufferPrivateDataSize: 8,
    AllocationListSize: 12, PatchLocationListSize: 16, Flags: 20,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_CREATEDEVICE {
    pub hDevice: HANDLE,
    /// A union with `Flags`, which go in while this comes out: see [`Self::flags`].
    pub pInfo: *mut DXGK_DEVICEINFO,
    pub Pasid: u32,
    pub hKmdProcess: HANDLE,
}
layout! { DXGKARG_CREATEDEVICE: 32 { hDevice: 0, pInfo: 8, Pasid: 16, hKmdProcess: 24 } }

impl DXGKARG_CREATEDEVICE {
    /// The union's `Flags`.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub fn flags(&self) -> DXGK_CREATEDEVICEFLAGS {
        DXGK_CREATEDEVICEFLAGS { Value: self.pInfo.addr() as u32 }
    }

    /// Writes the union's `Flags`, and zero to the rest of it.
    pub const fn set_flags(&mut self, flags: DXGK_CREATEDEVICEFLAGS) {
        self.pInfo = ptr::without_provenance_mut(flags.Value as usize);
    }
}

pub type DXGKDDI_CREATEDEVICE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_CREATEDEVICE) -> NTSTATUS;

pub type DXGKDDI_DESTROYDEVICE = unsafe extern "win64-unwind" fn(HANDLE) -> NTSTATUS;

flags! { DXGK_CREATECONTEXTFLAGS {
    SystemContext: 0,
    GdiContext: 1,
    VirtualAddressing: 2,
    SystemProtectedContext: 3, // since 2.1, inferred
    HwQueueSupported: 4, // since 2.2, inferred
} } // one source: docs

flags! { DXGK_CONTEXTINFO_CAPS {
    NoPatchingRequired: 0,
    DriverManagesResidency: 1,
    UseIoMmu: 2,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_CONTEXTINFO {
    pub DmaBufferSize: u32,
    pub DmaBufferSegmentSet: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub AllocationListSize: u32,
    pub PatchLocationListSize: u32,
    pub Reserved: u32,
    pub Caps: DXGK_CONTEXTINFO_CAPS,
    pub PagingCompanionNodeId: u32,
}
layout! { DXGK_CONTEXTINFO: 32 {
    DmaBufferSize: 0, DmaBufferSegmentSet: 4, DmaBufferPrivateDataSize: 8,
    AllocationListSize: 12, PatchLocationListSize: 16, Reserved: 20, Caps: 24,
    PagingCompanionNodeId: 28,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_CREATECONTEXT {
    pub hContext: HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: DXGK_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub ContextInfo: DXGK_CONTEXTINFO,
}
layout! { DXGKARG_CREATECONTEXT: 0x48 {
    hContext: 0, NodeOrdinal: 8, EngineAffinity: 12, Flags: 16, pPrivateDriverData: 24,
    PrivateDriverDataSize: 32, ContextInfo: 36,
} }

pub type DXGKDDI_CREATECONTEXT =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_CREATECONTEXT) -> NTSTATUS;

pub type DXGKDDI_DESTROYCONTEXT = unsafe extern "win64-unwind" fn(HANDLE) -> NTSTATUS;

flags! { DXGK_SUBMITCOMMANDFLAGS {
    Paging: 0,
    Present: 1,
    RedirectedPresent: 2,
    NullRendering: 3,
    Flip: 4,
    FlipWithNoWait: 5,
    ContextSwitch: 6,
    Resubmission: 7,
    VirtualMachineData: 8, // since 2.2, inferred
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_SUBMITCOMMANDVIRTUAL {
    pub hContext: HANDLE,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub DmaBufferUmdPrivateDataSize: u32,
    pub SubmissionFenceId: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub FlipInterval: D3DDDI_FLIPINTERVAL_TYPE,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub EngineOrdinal: u32,
    pub NodeOrdinal: u32,
}
layout! { DXGKARG_SUBMITCOMMANDVIRTUAL: 64 {
    hContext: 0, DmaBufferVirtualAddress: 8, DmaBufferSize: 16, pDmaBufferPrivateData: 24,
    DmaBufferPrivateDataSize: 32, DmaBufferUmdPrivateDataSize: 36, SubmissionFenceId: 40,
    VidPnSourceId: 44, FlipInterval: 48, Flags: 52, EngineOrdinal: 56, NodeOrdinal: 60,
} } // one source: docs

pub type DXGKDDI_SUBMITCOMMANDVIRTUAL =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_SUBMITCOMMANDVIRTUAL) -> NTSTATUS;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_ESCAPE {
    pub hDevice: HANDLE,
    pub Flags: D3DDDI_ESCAPEFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: HANDLE,
    /// Since 2.2, inferred: a driver that was built before reads up to here.
    pub hKmdProcessHandle: HANDLE,
}
layout! { DXGKARG_ESCAPE: 48 {
    hDevice: 0, Flags: 8, pPrivateDriverData: 16, PrivateDriverDataSize: 24, hContext: 32,
    hKmdProcessHandle: 40,
} } // one source: docs

pub type DXGKDDI_ESCAPE =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_ESCAPE) -> NTSTATUS;
