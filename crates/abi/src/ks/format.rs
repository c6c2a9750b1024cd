//! Identifiers, data formats and data ranges.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::GUID;

/// A set and a number in it: a property, a method, an event, an interface or a medium.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSIDENTIFIER {
    pub Set: GUID,
    pub Id: u32,
    /// The operation on a property, a method or an event: `KSPROPERTY_TYPE_*` and the like.
    pub Flags: u32,
}
layout! { KSIDENTIFIER: 24 { Set: 0, Id: 16, Flags: 20 } }

pub type KSPROPERTY = KSIDENTIFIER;
pub type KSMETHOD = KSIDENTIFIER;
pub type KSEVENT = KSIDENTIFIER;
pub type KSPIN_INTERFACE = KSIDENTIFIER;
pub type KSPIN_MEDIUM = KSIDENTIFIER;

/// What frames are made of, or, as a range, could be. A longer structure may follow,
/// and attributes after it.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSDATAFORMAT {
    /// In bytes, with what follows and without attributes.
    pub FormatSize: u32,
    /// `KSDATAFORMAT_*` of a format, `KSDATARANGE_*` of a range.
    pub Flags: u32,
    /// In bytes.
    pub SampleSize: u32,
    pub Reserved: u32,
    pub MajorFormat: GUID,
    pub SubFormat: GUID,
    pub Specifier: GUID,
}
layout! { KSDATAFORMAT: 64 { FormatSize: 0, Flags: 4, SampleSize: 8, Reserved: 12, MajorFormat: 16, SubFormat: 32, Specifier: 48 } }

/// The same structure, read as a range.
pub type KSDATARANGE = KSDATAFORMAT;

/// Attributes follow the format, as a `KSMULTIPLE_ITEM`.
pub const KSDATAFORMAT_ATTRIBUTES: u32 = 1 << 1;
/// Attributes follow the range.
pub const KSDATARANGE_ATTRIBUTES: u32 = 1 << 1;
/// The attributes are required.
pub const KSDATARANGE_REQUIRED_ATTRIBUTES: u32 = 1 << 2;
/// A frame depends on other frames.
pub const KSDATAFORMAT_TEMPORAL_COMPRESSION: u32 = 1 << 0;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSATTRIBUTE {
    /// In bytes, with what follows.
    pub Size: u32,
    pub Flags: u32,
    pub Attribute: GUID,
}
layout! { KSATTRIBUTE: 24 { Size: 0, Flags: 4, Attribute: 8 } }

pub const KSATTRIBUTE_REQUIRED: u32 = 0x0000_0001;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSATTRIBUTE_LIST {
    pub Count: u32,
    pub Attributes: *mut *mut KSATTRIBUTE,
}
layout! { KSATTRIBUTE_LIST: 16 { Count: 0, Attributes: 8 } }

/// Several items follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSMULTIPLE_ITEM {
    /// In bytes, with this header.
    pub Size: u32,
    pub Count: u32,
}
layout! { KSMULTIPLE_ITEM: 8 { Size: 0, Count: 4 } }
