//! Filters and the factories they come from.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    KSAUTOMATION_TABLE, KSOBJECT_BAG, KSPIN, KSPIN_DESCRIPTOR_EX, KSSTREAM_POINTER, PFNKSFILTERIRP,
    PFNKSFILTERPROCESS, PFNKSFILTERVOID,
};
use crate::{BOOLEAN, GUID, PVOID};

/// The functions of a minidriver for a filter. Each may be absent; a filter with `Process` uses
/// filter-centric processing, and its pins are not processed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSFILTER_DISPATCH {
    pub Create: Option<PFNKSFILTERIRP>,
    pub Close: Option<PFNKSFILTERIRP>,
    pub Process: Option<PFNKSFILTERPROCESS>,
    pub Reset: Option<PFNKSFILTERVOID>,
}
layout! { KSFILTER_DISPATCH: 32 { Create: 0, Close: 8, Process: 16, Reset: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSFILTER_DESCRIPTOR {
    pub Dispatch: *const KSFILTER_DISPATCH,
    pub AutomationTable: *const KSAUTOMATION_TABLE,
    /// [`KSFILTER_DESCRIPTOR_VERSION`].
    pub Version: u32,
    /// `KSFILTER_FLAG_*`.
    pub Flags: u32,
    pub ReferenceGuid: *const GUID,
    pub PinDescriptorsCount: u32,
    /// In bytes: a minidriver may append to its descriptors.
    pub PinDescriptorSize: u32,
    pub PinDescriptors: *const KSPIN_DESCRIPTOR_EX,
    pub CategoriesCount: u32,
    pub Categories: *const GUID,
    pub NodeDescriptorsCount: u32,
    /// In bytes.
    pub NodeDescriptorSize: u32,
    pub NodeDescriptors: *const KSNODE_DESCRIPTOR,
    pub ConnectionsCount: u32,
    pub Connections: *const KSTOPOLOGY_CONNECTION,
    pub ComponentId: *const KSCOMPONENTID,
}
layout! { KSFILTER_DESCRIPTOR: 104 { Dispatch: 0, AutomationTable: 8, Version: 16, Flags: 20, ReferenceGuid: 24, PinDescriptorsCount: 32, PinDescriptorSize: 36, PinDescriptors: 40, CategoriesCount: 48, Categories: 56, NodeDescriptorsCount: 64, NodeDescriptorSize: 68, NodeDescriptors: 72, ConnectionsCount: 80, Connections: 88, ComponentId: 96 } }

/// The version of [`KSFILTER_DESCRIPTOR`]. One source: mingw-w64.
pub const KSFILTER_DESCRIPTOR_VERSION: u32 = 0xFFFF_FFFF;

pub const KSFILTER_FLAG_DISPATCH_LEVEL_PROCESSING: u32 = 0x0000_0001;
pub const KSFILTER_FLAG_CRITICAL_PROCESSING: u32 = 0x0000_0002;
pub const KSFILTER_FLAG_HYPERCRITICAL_PROCESSING: u32 = 0x0000_0004;
pub const KSFILTER_FLAG_RECEIVE_ZERO_LENGTH_SAMPLES: u32 = 0x0000_0008;
pub const KSFILTER_FLAG_PRIORITIZE_REFERENCEGUID: u32 = 0x0000_0010;
pub const KSFILTER_FLAG_DENY_USERMODE_ACCESS: u32 = 0x8000_0000;

pub const KSCREATE_ITEM_SECURITYCHANGED: u32 = 0x0000_0001;
pub const KSCREATE_ITEM_WILDCARD: u32 = 0x0000_0002;
pub const KSCREATE_ITEM_NOPARAMETERS: u32 = 0x0000_0004;
pub const KSCREATE_ITEM_FREEONSTOP: u32 = 0x0000_0008;

/// The end of a connection that is a pin of the filter and not a node.
pub const KSFILTER_NODE: u32 = 0xFFFF_FFFF;

/// Makes filters. Only `Context` is the minidriver's to write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSFILTERFACTORY {
    pub FilterDescriptor: *const KSFILTER_DESCRIPTOR,
    pub Bag: KSOBJECT_BAG,
    pub Context: PVOID,
}
layout! { KSFILTERFACTORY: 24 { FilterDescriptor: 0, Bag: 8, Context: 16 } }

/// A filter, as its minidriver sees it. Only `Context` is the minidriver's to write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSFILTER {
    pub Descriptor: *const KSFILTER_DESCRIPTOR,
    pub Bag: KSOBJECT_BAG,
    pub Context: PVOID,
}
layout! { KSFILTER: 24 { Descriptor: 0, Bag: 8, Context: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSNODE_DESCRIPTOR {
    pub AutomationTable: *const KSAUTOMATION_TABLE,
    pub Type: *const GUID,
    pub Name: *const GUID,
}
layout! { KSNODE_DESCRIPTOR: 24 { AutomationTable: 0, Type: 8, Name: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSTOPOLOGY_CONNECTION {
    pub FromNode: u32,
    pub FromNodePin: u32,
    pub ToNode: u32,
    pub ToNodePin: u32,
}
layout! { KSTOPOLOGY_CONNECTION: 16 { FromNode: 0, FromNodePin: 4, ToNode: 8, ToNodePin: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSCOMPONENTID {
    pub Manufacturer: GUID,
    pub Product: GUID,
    pub Component: GUID,
    pub Name: GUID,
    pub Version: u32,
    pub Revision: u32,
}
layout! { KSCOMPONENTID: 72 { Manufacturer: 0, Product: 16, Component: 32, Name: 48, Version: 64, Revision: 68 } }

/// A pin in the processing of its filter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPROCESSPIN {
    pub Pin: *mut KSPIN,
    pub StreamPointer: *mut KSSTREAM_POINTER,
    pub InPlaceCounterpart: *mut KSPROCESSPIN,
    pub DelegateBranch: *mut KSPROCESSPIN,
    pub CopySource: *mut KSPROCESSPIN,
    pub Data: PVOID,
    /// At `Data`.
    pub BytesAvailable: u32,
    /// By the minidriver, of `BytesAvailable`.
    pub BytesUsed: u32,
    /// Of a pin that reads: the `OptionsFlags` of the frame.
    pub Flags: u32,
    /// Whether the frame ends here, however much of it is used.
    pub Terminate: BOOLEAN,
}
layout! { KSPROCESSPIN: 64 { Pin: 0, StreamPointer: 8, InPlaceCounterpart: 16, DelegateBranch: 24, CopySource: 32, Data: 40, BytesAvailable: 48, BytesUsed: 52, Flags: 56, Terminate: 60 } }

/// The instances of one pin factory of a filter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPROCESSPIN_INDEXENTRY {
    pub Pins: *mut *mut KSPROCESSPIN,
    pub Count: u32,
}
layout! { KSPROCESSPIN_INDEXENTRY: 16 { Pins: 0, Count: 8 } }

/// A gate of processing. Its count is changed through functions, at any level.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSGATE {
    /// Open while it is above zero.
    pub Count: i32,
    pub NextGate: *mut KSGATE,
}
layout! { KSGATE: 16 { Count: 0, NextGate: 8 } }
