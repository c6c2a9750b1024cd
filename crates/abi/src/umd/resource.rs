//! Resources, and drawing.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{
    D3DDDI_OPENALLOCATIONINFO, D3DDDI_RATIONAL, D3DDDI_ROTATION, D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    D3DDDIFORMAT,
};
use crate::{D3DKMT_HANDLE, HANDLE, RECT};
use core::ffi::c_void;

values! { D3DDDI_POOL { D3DDDIPOOL_SYSTEMMEM = 1, D3DDDIPOOL_VIDEOMEMORY = 2, D3DDDIPOOL_LOCALVIDMEM = 3, D3DDDIPOOL_NONLOCALVIDMEM = 4, D3DDDIPOOL_STAGINGMEM = 5 } }

flags! { D3DDDI_RESOURCEFLAGS { RenderTarget: 0, ZBuffer: 1, Dynamic: 2, HintStatic: 3, AutogenMipmap: 4, DMap: 5, WriteOnly: 6, NotLockable: 7, Points: 8, RtPatches: 9, NPatches: 10, SharedResource: 11, DiscardRenderTarget: 12, Video: 13, CaptureBuffer: 14, Primary: 15, Texture: 16, CubeMap: 17, Volume: 18, VertexBuffer: 19, IndexBuffer: 20, DecodeRenderTarget: 21, DecodeCompressedBuffer: 22, VideoProcessRenderTarget: 23, CpuOptimized: 24, MightDrawFromLocked: 25, Overlay: 26, MatchGdiPrimary: 27, InterlacedRefresh: 28, TextApi: 29, RestrictedContent: 30, RestrictSharedAccess: 31 } }

flags! { D3DDDI_RESOURCEFLAGS2 { VideoEncoder: 0, UserMemory: 1, CrossAdapter: 2, IsDisplayable: 3 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_SURFACEINFO {
    pub Width: u32,
    pub Height: u32,
    pub Depth: u32,
    pub pSysMem: *const c_void,
    pub SysMemPitch: u32,
    pub SysMemSlicePitch: u32,
}
layout! { D3DDDI_SURFACEINFO: 32 { Width: 0, Height: 4, Depth: 8, pSysMem: 16, SysMemPitch: 24, SysMemSlicePitch: 28 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_CREATERESOURCE {
    pub Format: D3DDDIFORMAT,
    pub Pool: D3DDDI_POOL,
    pub MultisampleType: i32,
    pub MultisampleQuality: u32,
    pub pSurfList: *const D3DDDI_SURFACEINFO,
    pub SurfCount: u32,
    pub MipLevels: u32,
    pub Fvf: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub RefreshRate: D3DDDI_RATIONAL,
    pub hResource: HANDLE,
    pub Flags: D3DDDI_RESOURCEFLAGS,
    pub Rotation: D3DDDI_ROTATION,
}
layout! { D3DDDIARG_CREATERESOURCE: 64 { Format: 0, Pool: 4, MultisampleType: 8, MultisampleQuality: 12, pSurfList: 16, SurfCount: 24, MipLevels: 28, Fvf: 32, VidPnSourceId: 36, RefreshRate: 40, hResource: 48, Flags: 56, Rotation: 60 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_CREATERESOURCE2 {
    pub Format: D3DDDIFORMAT,
    pub Pool: D3DDDI_POOL,
    pub MultisampleType: i32,
    pub MultisampleQuality: u32,
    pub pSurfList: *const D3DDDI_SURFACEINFO,
    pub SurfCount: u32,
    pub MipLevels: u32,
    pub Fvf: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub RefreshRate: D3DDDI_RATIONAL,
    pub hResource: HANDLE,
    pub Flags: D3DDDI_RESOURCEFLAGS,
    pub Rotation: D3DDDI_ROTATION,
    pub Flags2: D3DDDI_RESOURCEFLAGS2,
}
layout! { D3DDDIARG_CREATERESOURCE2: 72 { Format: 0, Pool: 4, MultisampleType: 8, MultisampleQuality: 12, pSurfList: 16, SurfCount: 24, MipLevels: 28, Fvf: 32, VidPnSourceId: 36, RefreshRate: 40, hResource: 48, Flags: 56, Rotation: 60, Flags2: 64 } }

flags! { D3DDDI_OPENRESOURCEFLAGS { Fullscreen: 0, AlphaOverride: 1 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_OPENRESOURCE {
    pub NumAllocations: u32,
    pub pOpenAllocationInfo: *mut D3DDDI_OPENALLOCATIONINFO,
    pub hKMResource: D3DKMT_HANDLE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hResource: HANDLE,
    pub Rotation: D3DDDI_ROTATION,
    pub Flags: D3DDDI_OPENRESOURCEFLAGS,
}
layout! { D3DDDIARG_OPENRESOURCE: 56 { NumAllocations: 0, pOpenAllocationInfo: 8, hKMResource: 16, pPrivateDriverData: 24, PrivateDriverDataSize: 32, hResource: 40, Rotation: 48, Flags: 52 } }

flags! { D3DDDI_BLTFLAGS { Point: 0, Linear: 1, SrcColorKey: 2, DstColorKey: 3, MirrorLeftRight: 4, MirrorUpDown: 5, LinearToSrgb: 6, Rotate: 7, BeginPresentToDwm: 8, ContinuePresentToDwm: 9, EndPresentToDwm: 10, Discard: 11, NoOverwrite: 12, Tileable: 13 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_BLT {
    pub hSrcResource: HANDLE,
    pub SrcSubResourceIndex: u32,
    pub SrcRect: RECT,
    pub hDstResource: HANDLE,
    pub DstSubResourceIndex: u32,
    pub DstRect: RECT,
    pub ColorKey: u32,
    pub Flags: D3DDDI_BLTFLAGS,
}
layout! { D3DDDIARG_BLT: 72 { hSrcResource: 0, SrcSubResourceIndex: 8, SrcRect: 12, hDstResource: 32, DstSubResourceIndex: 40, DstRect: 44, ColorKey: 60, Flags: 64 } }

flags! { D3DDDI_COLORFILLFLAGS { PresentToDwm: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_COLORFILL {
    pub hResource: HANDLE,
    pub SubResourceIndex: u32,
    pub DstRect: RECT,
    pub Color: u32,
    pub Flags: D3DDDI_COLORFILLFLAGS,
}
layout! { D3DDDIARG_COLORFILL: 40 { hResource: 0, SubResourceIndex: 8, DstRect: 12, Color: 28, Flags: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_SETPRIORITY {
    pub hResource: HANDLE,
    pub Priority: u32,
}
layout! { D3DDDIARG_SETPRIORITY: 16 { hResource: 0, Priority: 8 } }

values! { D3DDDI_RESIDENCYSTATUS { D3DDDI_RESIDENCYSTATUS_RESIDENTINGPUMEMORY = 0, D3DDDI_RESIDENCYSTATUS_RESIDENTINSHAREDMEMORY = 1, D3DDDI_RESIDENCYSTATUS_NOTRESIDENT = 2 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_QUERYRESOURCERESIDENCY {
    pub pHandleList: *const HANDLE,
    pub NumResources: u32,
}
layout! { D3DDDIARG_QUERYRESOURCERESIDENCY: 16 { pHandleList: 0, NumResources: 8 } }
