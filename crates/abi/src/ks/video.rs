//! Video: its format, its range, and the header of a frame, as in `ksmedia.h`.
//!
//! One source: the `windows-sys` crate.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::KSDATAFORMAT;
use crate::{BOOL, GUID, HANDLE, RECT};

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SIZE {
    pub cx: i32,
    pub cy: i32,
}
layout! { SIZE: 8 { cx: 0, cy: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KS_BITMAPINFOHEADER {
    /// Of this structure, in bytes.
    pub biSize: u32,
    pub biWidth: i32,
    /// Rows. Upside down where it is above zero and there is no compression.
    pub biHeight: i32,
    pub biPlanes: u16,
    /// Bits of a pixel.
    pub biBitCount: u16,
    /// [`KS_BI_RGB`], or four letters.
    pub biCompression: u32,
    /// In bytes.
    pub biSizeImage: u32,
    pub biXPelsPerMeter: i32,
    pub biYPelsPerMeter: i32,
    pub biClrUsed: u32,
    pub biClrImportant: u32,
}
layout! { KS_BITMAPINFOHEADER: 40 { biSize: 0, biWidth: 4, biHeight: 8, biPlanes: 12, biBitCount: 14, biCompression: 16, biSizeImage: 20, biXPelsPerMeter: 24, biYPelsPerMeter: 28, biClrUsed: 32, biClrImportant: 36 } }

pub const KS_BI_RGB: u32 = 0x0000_0000;
pub const KS_BI_BITFIELDS: u32 = 0x0000_0003;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KS_VIDEOINFOHEADER {
    pub rcSource: RECT,
    pub rcTarget: RECT,
    /// Bits a second.
    pub dwBitRate: u32,
    pub dwBitErrorRate: u32,
    /// In 100 nanoseconds.
    pub AvgTimePerFrame: i64,
    pub bmiHeader: KS_BITMAPINFOHEADER,
}
layout! { KS_VIDEOINFOHEADER: 88 { rcSource: 0, rcTarget: 16, dwBitRate: 32, dwBitErrorRate: 36, AvgTimePerFrame: 40, bmiHeader: 48 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KS_VIDEO_STREAM_CONFIG_CAPS {
    pub guid: GUID,
    pub VideoStandard: u32,
    pub InputSize: SIZE,
    pub MinCroppingSize: SIZE,
    pub MaxCroppingSize: SIZE,
    pub CropGranularityX: i32,
    pub CropGranularityY: i32,
    pub CropAlignX: i32,
    pub CropAlignY: i32,
    pub MinOutputSize: SIZE,
    pub MaxOutputSize: SIZE,
    pub OutputGranularityX: i32,
    pub OutputGranularityY: i32,
    pub StretchTapsX: i32,
    pub StretchTapsY: i32,
    pub ShrinkTapsX: i32,
    pub ShrinkTapsY: i32,
    /// In 100 nanoseconds.
    pub MinFrameInterval: i64,
    /// In 100 nanoseconds.
    pub MaxFrameInterval: i64,
    pub MinBitsPerSecond: i32,
    pub MaxBitsPerSecond: i32,
}
layout! { KS_VIDEO_STREAM_CONFIG_CAPS: 128 { guid: 0, VideoStandard: 16, InputSize: 20, MinCroppingSize: 28, MaxCroppingSize: 36, CropGranularityX: 44, CropGranularityY: 48, CropAlignX: 52, CropAlignY: 56, MinOutputSize: 60, MaxOutputSize: 68, OutputGranularityX: 76, OutputGranularityY: 80, StretchTapsX: 84, StretchTapsY: 88, ShrinkTapsX: 92, ShrinkTapsY: 96, MinFrameInterval: 104, MaxFrameInterval: 112, MinBitsPerSecond: 120, MaxBitsPerSecond: 124 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KS_DATAFORMAT_VIDEOINFOHEADER {
    pub DataFormat: KSDATAFORMAT,
    pub VideoInfoHeader: KS_VIDEOINFOHEADER,
}
layout! { KS_DATAFORMAT_VIDEOINFOHEADER: 152 { DataFormat: 0, VideoInfoHeader: 64 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KS_DATARANGE_VIDEO {
    pub DataRange: KSDATAFORMAT,
    pub bFixedSizeSamples: BOOL,
    pub bTemporalCompression: BOOL,
    pub StreamDescriptionFlags: u32,
    pub MemoryAllocationFlags: u32,
    pub ConfigCaps: KS_VIDEO_STREAM_CONFIG_CAPS,
    pub VideoInfoHeader: KS_VIDEOINFOHEADER,
}
layout! { KS_DATARANGE_VIDEO: 296 { DataRange: 0, bFixedSizeSamples: 64, bTemporalCompression: 68, StreamDescriptionFlags: 72, MemoryAllocationFlags: 76, ConfigCaps: 80, VideoInfoHeader: 208 } }

/// Follows the stream header of a frame of video.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KS_FRAME_INFO {
    /// Of this structure, in bytes.
    pub ExtendedHeaderSize: u32,
    /// `KS_VIDEO_FLAG_*`.
    pub dwFrameFlags: u32,
    /// Counts frames, those that were dropped as well.
    pub PictureNumber: i64,
    /// How many were dropped.
    pub DropCount: i64,
    pub hDirectDraw: HANDLE,
    pub hSurfaceHandle: HANDLE,
    pub DirectDrawRect: RECT,
    /// Or `Reserved1`.
    pub lSurfacePitch: i32,
    pub Reserved2: u32,
    pub Reserved3: u32,
    pub Reserved4: u32,
}
layout! { KS_FRAME_INFO: 72 { ExtendedHeaderSize: 0, dwFrameFlags: 4, PictureNumber: 8, DropCount: 16, hDirectDraw: 24, hSurfaceHandle: 32, DirectDrawRect: 40, lSurfacePitch: 56, Reserved2: 60, Reserved3: 64, Reserved4: 68 } }

pub const KS_VIDEO_FLAG_FRAME: u32 = 0x0000_0000;
pub const KS_VIDEO_FLAG_FIELD1: u32 = 0x0000_0001;
pub const KS_VIDEO_FLAG_FIELD2: u32 = 0x0000_0002;
