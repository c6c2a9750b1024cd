//! Frames in video memory, as in `ksmedia.h`.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::KSPROPERTY;

/// Where a frame is captured to. `DataUsed` of such a frame is the size of this structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VRAM_SURFACE_INFO {
    /// Identifies the surface, and only while the request lasts.
    pub hSurface: usize,
    pub VramPhysicalAddress: i64,
    /// In bytes.
    pub cbCaptured: u32,
    /// In pixels.
    pub dwWidth: u32,
    /// In pixels.
    pub dwHeight: u32,
    /// In bytes, of a surface that has no rows.
    pub dwLinearSize: u32,
    /// Bytes from row to row.
    pub lPitch: i32,
    /// The minidriver's own.
    pub ullReserved: [u64; 16],
}
layout! { VRAM_SURFACE_INFO: 168 { hSurface: 0, VramPhysicalAddress: 8, cbCaptured: 16, dwWidth: 20, dwHeight: 24, dwLinearSize: 28, lPitch: 32, ullReserved: 40 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VRAM_SURFACE_INFO_PROPERTY_S {
    pub Property: KSPROPERTY,
    pub pVramSurfaceInfo: *mut VRAM_SURFACE_INFO,
}
layout! { VRAM_SURFACE_INFO_PROPERTY_S: 32 { Property: 0, pVramSurfaceInfo: 24 } }

values! { KSPROPERTY_VIDMEM_TRANSPORT {
    KSPROPERTY_DISPLAY_ADAPTER_GUID = 1,
    KSPROPERTY_PREFERRED_CAPTURE_SURFACE = 2,
    KSPROPERTY_CURRENT_CAPTURE_SURFACE = 3,
    KSPROPERTY_MAP_CAPTURE_HANDLE_TO_VRAM_ADDRESS = 4,
} }
