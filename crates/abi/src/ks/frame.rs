//! Frames and the stream pointers that walk over them.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{KSPIN, KSTIME};
use crate::{PHYSICAL_ADDRESS, PVOID};
use core::ffi::c_void;

/// A frame. More may follow, as `Size` says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSSTREAM_HEADER {
    /// In bytes, with what follows.
    pub Size: u32,
    pub TypeSpecificFlags: u32,
    /// Counts with [`KSSTREAM_HEADER_OPTIONSF_TIMEVALID`].
    pub PresentationTime: KSTIME,
    /// In units of `PresentationTime`; counts with [`KSSTREAM_HEADER_OPTIONSF_DURATIONVALID`].
    pub Duration: i64,
    /// How many bytes are at `Data`.
    pub FrameExtent: u32,
    /// How many of them are filled.
    pub DataUsed: u32,
    pub Data: PVOID,
    /// `KSSTREAM_HEADER_OPTIONSF_*`.
    pub OptionsFlags: u32,
    pub Reserved: u32,
}
layout! { KSSTREAM_HEADER: 56 { Size: 0, TypeSpecificFlags: 4, PresentationTime: 8, Duration: 24, FrameExtent: 32, DataUsed: 36, Data: 40, OptionsFlags: 48, Reserved: 52 } }

pub const KSSTREAM_HEADER_OPTIONSF_SPLICEPOINT: u32 = 0x0000_0001;
pub const KSSTREAM_HEADER_OPTIONSF_PREROLL: u32 = 0x0000_0002;
pub const KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY: u32 = 0x0000_0004;
pub const KSSTREAM_HEADER_OPTIONSF_TYPECHANGED: u32 = 0x0000_0008;
pub const KSSTREAM_HEADER_OPTIONSF_TIMEVALID: u32 = 0x0000_0010;
pub const KSSTREAM_HEADER_OPTIONSF_TIMEDISCONTINUITY: u32 = 0x0000_0040;
pub const KSSTREAM_HEADER_OPTIONSF_FLUSHONPAUSE: u32 = 0x0000_0080;
pub const KSSTREAM_HEADER_OPTIONSF_DURATIONVALID: u32 = 0x0000_0100;
pub const KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM: u32 = 0x0000_0200;
pub const KSSTREAM_HEADER_OPTIONSF_BUFFEREDTRANSFER: u32 = 0x0000_0400;
pub const KSSTREAM_HEADER_OPTIONSF_VRAM_DATA_TRANSFER: u32 = 0x0000_0800;
pub const KSSTREAM_HEADER_OPTIONSF_METADATA: u32 = 0x0000_1000;
pub const KSSTREAM_HEADER_OPTIONSF_ENDOFPHOTOSEQUENCE: u32 = 0x0000_2000;
pub const KSSTREAM_HEADER_OPTIONSF_FRAMEINFO: u32 = 0x0000_4000;
pub const KSSTREAM_HEADER_OPTIONSF_PERSIST_SAMPLE: u32 = 0x0000_8000;
pub const KSSTREAM_HEADER_OPTIONSF_SAMPLE_PERSISTED: u32 = 0x0001_0000;
pub const KSSTREAM_HEADER_TRACK_COMPLETION_NUMBERS: u32 = 0x0002_0000;
pub const KSSTREAM_HEADER_OPTIONSF_SECUREBUFFERTRANSFER: u32 = 0x0004_0000;
pub const KSSTREAM_HEADER_OPTIONSF_LOOPEDDATA: u32 = 0x8000_0000;

/// A piece of memory that is contiguous for the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSMAPPING {
    pub PhysicalAddress: PHYSICAL_ADDRESS,
    /// From `PhysicalAddress`.
    pub ByteCount: u32,
    pub Alignment: u32,
}
layout! { KSMAPPING: 16 { PhysicalAddress: 0, ByteCount: 8, Alignment: 12 } }

/// How far a stream pointer is in its frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSSTREAM_POINTER_OFFSET {
    /// The next byte. Or `Mappings`, [`mappings`](Self::mappings).
    pub Data: *mut u8,
    /// Bytes of the frame, or mappings.
    pub Count: u32,
    /// Of `Count`.
    pub Remaining: u32,
}
layout! { KSSTREAM_POINTER_OFFSET: 16 { Data: 0, Count: 8, Remaining: 12 } }

impl KSSTREAM_POINTER_OFFSET {
    /// The next mapping (`Mappings`), of a pin with
    /// [`KSPIN_FLAG_GENERATE_MAPPINGS`](super::KSPIN_FLAG_GENERATE_MAPPINGS).
    pub const fn mappings(self) -> *mut KSMAPPING {
        self.Data.cast::<c_void>().cast()
    }
}

/// A reference to a frame of a queue. `Context` of a clone points behind the structure, to the
/// requested number of bytes; an edge has none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSSTREAM_POINTER {
    pub Context: PVOID,
    pub Pin: *mut KSPIN,
    /// Of the frame; while the pointer is locked.
    pub StreamHeader: *mut KSSTREAM_HEADER,
    /// `OffsetIn` or `OffsetOut`, as the data of the pin flows.
    pub Offset: *mut KSSTREAM_POINTER_OFFSET,
    pub OffsetIn: KSSTREAM_POINTER_OFFSET,
    pub OffsetOut: KSSTREAM_POINTER_OFFSET,
}
layout! { KSSTREAM_POINTER: 64 { Context: 0, Pin: 8, StreamHeader: 16, Offset: 24, OffsetIn: 32, OffsetOut: 48 } }

values! { KSSTREAM_POINTER_STATE {
    KSSTREAM_POINTER_STATE_UNLOCKED = 0,
    KSSTREAM_POINTER_STATE_LOCKED = 1,
} }
