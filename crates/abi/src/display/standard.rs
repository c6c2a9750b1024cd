//! Standard allocations: surfaces that the kernel describes.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{D3DDDI_RATIONAL, D3DDDI_VIDEO_PRESENT_SOURCE_ID, D3DDDIFORMAT};
use crate::{HANDLE, NTSTATUS};
use core::ffi::c_void;

values! { D3DKMDT_STANDARDALLOCATION_TYPE {
    D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE = 1,
    D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE = 2,
    D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE = 3,
    D3DKMDT_STANDARDALLOCATION_GDISURFACE = 4,
    D3DKMDT_STANDARDALLOCATION_VGPU = 5, // since 2.1
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMDT_SHAREDPRIMARYSURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Format: D3DDDIFORMAT,
    pub RefreshRate: D3DDDI_RATIONAL,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
}
layout! { D3DKMDT_SHAREDPRIMARYSURFACEDATA: 24 {
    Width: 0, Height: 4, Format: 8, RefreshRate: 12, VidPnSourceId: 20,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMDT_SHADOWSURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Format: D3DDDIFORMAT,
    pub Pitch: u32,
}
layout! { D3DKMDT_SHADOWSURFACEDATA: 16 { Width: 0, Height: 4, Format: 8, Pitch: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMDT_STAGINGSURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Pitch: u32,
}
layout! { D3DKMDT_STAGINGSURFACEDATA: 12 { Width: 0, Height: 4, Pitch: 8 } }

values! { D3DKMDT_GDISURFACETYPE {
    D3DKMDT_GDISURFACE_INVALID = 0,
    D3DKMDT_GDISURFACE_TEXTURE = 1,
    D3DKMDT_GDISURFACE_STAGING_CPUVISIBLE = 2,
    D3DKMDT_GDISURFACE_STAGING = 3,
    D3DKMDT_GDISURFACE_LOOKUPTABLE = 4,
    D3DKMDT_GDISURFACE_EXISTINGSYSMEM = 5,
    D3DKMDT_GDISURFACE_TEXTURE_CPUVISIBLE = 6,
    D3DKMDT_GDISURFACE_TEXTURE_CROSSADAPTER = 7,
    D3DKMDT_GDISURFACE_TEXTURE_CPUVISIBLE_CROSSADAPTER = 8,
} }

flags! { D3DKMDT_GDISURFACEFLAGS {} }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_GDISURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Format: D3DDDIFORMAT,
    pub Type: D3DKMDT_GDISURFACETYPE,
    pub Flags: D3DKMDT_GDISURFACEFLAGS,
    pub Pitch: u32,
}
layout! { D3DKMDT_GDISURFACEDATA: 24 {
    Width: 0, Height: 4, Format: 8, Type: 12, Flags: 16, Pitch: 20,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
    pub StandardAllocationType: D3DKMDT_STANDARDALLOCATION_TYPE,
    /// A union of pointers, one for each type: the methods name them.
    pub pCreateData: *mut c_void,
    pub pAllocationPrivateDriverData: *mut c_void,
    pub AllocationPrivateDriverDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub PhysicalAdapterIndex: u32, // inferred; padding before 2.0
}
layout! { DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA: 48 {
    StandardAllocationType: 0, pCreateData: 8, pAllocationPrivateDriverData: 16,
    AllocationPrivateDriverDataSize: 24, pResourcePrivateDriverData: 32,
    ResourcePrivateDriverDataSize: 40, PhysicalAdapterIndex: 44,
} } // one source: docs

impl DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
    /// The union's `pCreateSharedPrimarySurfaceData`.
    pub const fn shared_primary(&self) -> *mut D3DKMDT_SHAREDPRIMARYSURFACEDATA {
        self.pCreateData.cast()
    }

    /// The union's `pCreateShadowSurfaceData`.
    pub const fn shadow(&self) -> *mut D3DKMDT_SHADOWSURFACEDATA {
        self.pCreateData.cast()
    }

    /// The union's `pCreateStagingSurfaceData`.
    pub const fn staging(&self) -> *mut D3DKMDT_STAGINGSURFACEDATA {
        self.pCreateData.cast()
    }

    /// The union's `pCreateGdiSurfaceData`.
    pub const fn gdi(&self) -> *mut D3DKMDT_GDISURFACEDATA {
        self.pCreateData.cast()
    }
}

pub type DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA = unsafe extern "win64-unwind" fn(
    HANDLE,
    *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS;
