//! Pins.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    KSALLOCATOR_DISPATCH, KSALLOCATOR_FRAMING_EX, KSAUTOMATION_TABLE, KSCLOCK_DISPATCH,
    KSDATAFORMAT, KSDATARANGE, KSMULTIPLE_ITEM, KSOBJECT_BAG, KSPIN_INTERFACE, KSPIN_MEDIUM,
    KSPROPERTY, PFNKSINTERSECTHANDLEREX, PFNKSPIN, PFNKSPINIRP, PFNKSPINSETDATAFORMAT,
    PFNKSPINSETDEVICESTATE, PFNKSPINVOID,
};
use crate::{BOOLEAN, GUID, HANDLE, PVOID};

values! { KSSTATE {
    KSSTATE_STOP = 0,
    KSSTATE_ACQUIRE = 1,
    KSSTATE_PAUSE = 2,
    KSSTATE_RUN = 3,
} }

values! { KSRESET {
    KSRESET_BEGIN = 0,
    KSRESET_END = 1,
} }

values! { KSPIN_DATAFLOW {
    KSPIN_DATAFLOW_IN = 1,
    KSPIN_DATAFLOW_OUT = 2,
} }

values! { KSPIN_COMMUNICATION {
    KSPIN_COMMUNICATION_NONE = 0,
    KSPIN_COMMUNICATION_SINK = 1,
    KSPIN_COMMUNICATION_SOURCE = 2,
    KSPIN_COMMUNICATION_BOTH = 3,
    KSPIN_COMMUNICATION_BRIDGE = 4,
} }

values! { KSINTERFACE_STANDARD {
    KSINTERFACE_STANDARD_STREAMING = 0,
    KSINTERFACE_STANDARD_LOOPED_STREAMING = 1,
    KSINTERFACE_STANDARD_CONTROL = 2,
} }

/// The number of the standard medium ([`KSMEDIUMSETID_Standard`](super::KSMEDIUMSETID_Standard)).
pub const KSMEDIUM_STANDARD_DEVIO: u32 = 0;

/// Of a pin factory. Windows also calls the last two members `Reserved`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPIN_DESCRIPTOR {
    pub InterfacesCount: u32,
    pub Interfaces: *const KSPIN_INTERFACE,
    pub MediumsCount: u32,
    pub Mediums: *const KSPIN_MEDIUM,
    pub DataRangesCount: u32,
    pub DataRanges: *const *const KSDATARANGE,
    pub DataFlow: KSPIN_DATAFLOW,
    pub Communication: KSPIN_COMMUNICATION,
    pub Category: *const GUID,
    pub Name: *const GUID,
    pub ConstrainedDataRangesCount: u32,
    pub ConstrainedDataRanges: *mut *mut KSDATARANGE,
}
layout! { KSPIN_DESCRIPTOR: 88 { InterfacesCount: 0, Interfaces: 8, MediumsCount: 16, Mediums: 24, DataRangesCount: 32, DataRanges: 40, DataFlow: 48, Communication: 52, Category: 56, Name: 64, ConstrainedDataRangesCount: 72, ConstrainedDataRanges: 80 } }

/// A pin factory with its minidriver.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPIN_DESCRIPTOR_EX {
    pub Dispatch: *const KSPIN_DISPATCH,
    pub AutomationTable: *const KSAUTOMATION_TABLE,
    pub PinDescriptor: KSPIN_DESCRIPTOR,
    /// `KSPIN_FLAG_*`.
    pub Flags: u32,
    /// At most this many pins at once on a filter; [`KSINSTANCE_INDETERMINATE`] is no limit.
    pub InstancesPossible: u32,
    /// At least this many, for the filter to work.
    pub InstancesNecessary: u32,
    pub AllocatorFraming: *const KSALLOCATOR_FRAMING_EX,
    pub IntersectHandler: Option<PFNKSINTERSECTHANDLEREX>,
}
layout! { KSPIN_DESCRIPTOR_EX: 136 { Dispatch: 0, AutomationTable: 8, PinDescriptor: 16, Flags: 104, InstancesPossible: 108, InstancesNecessary: 112, AllocatorFraming: 120, IntersectHandler: 128 } }

/// Of `InstancesPossible`: no limit.
pub const KSINSTANCE_INDETERMINATE: u32 = 0xFFFF_FFFF;

pub const KSPIN_FLAG_DISPATCH_LEVEL_PROCESSING: u32 = 0x0000_0001;
pub const KSPIN_FLAG_CRITICAL_PROCESSING: u32 = 0x0000_0002;
pub const KSPIN_FLAG_HYPERCRITICAL_PROCESSING: u32 = 0x0000_0004;
pub const KSPIN_FLAG_ASYNCHRONOUS_PROCESSING: u32 = 0x0000_0008;
pub const KSPIN_FLAG_DO_NOT_INITIATE_PROCESSING: u32 = 0x0000_0010;
pub const KSPIN_FLAG_INITIATE_PROCESSING_ON_EVERY_ARRIVAL: u32 = 0x0000_0020;
pub const KSPIN_FLAG_FRAMES_NOT_REQUIRED_FOR_PROCESSING: u32 = 0x0000_0040;
pub const KSPIN_FLAG_ENFORCE_FIFO: u32 = 0x0000_0080;
pub const KSPIN_FLAG_GENERATE_MAPPINGS: u32 = 0x0000_0100;
pub const KSPIN_FLAG_DISTINCT_TRAILING_EDGE: u32 = 0x0000_0200;
pub const KSPIN_FLAG_PROCESS_IN_RUN_STATE_ONLY: u32 = 0x0001_0000;
pub const KSPIN_FLAG_SPLITTER: u32 = 0x0002_0000;
pub const KSPIN_FLAG_USE_STANDARD_TRANSPORT: u32 = 0x0004_0000;
pub const KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT: u32 = 0x0008_0000;
pub const KSPIN_FLAG_FIXED_FORMAT: u32 = 0x0010_0000;
pub const KSPIN_FLAG_GENERATE_EOS_EVENTS: u32 = 0x0020_0000;
pub const KSPIN_FLAG_IMPLEMENT_CLOCK: u32 = 0x0040_0000;
pub const KSPIN_FLAG_SOME_FRAMES_REQUIRED_FOR_PROCESSING: u32 = 0x0080_0000;
pub const KSPIN_FLAG_PROCESS_IF_ANY_IN_RUN_STATE: u32 = 0x0100_0000;
pub const KSPIN_FLAG_DENY_USERMODE_ACCESS: u32 = 0x8000_0000;
pub const KSPIN_FLAG_RENDERER: u32 =
    KSPIN_FLAG_PROCESS_IN_RUN_STATE_ONLY | KSPIN_FLAG_GENERATE_EOS_EVENTS;

/// The functions of a minidriver for a pin. Each may be absent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPIN_DISPATCH {
    pub Create: Option<PFNKSPINIRP>,
    pub Close: Option<PFNKSPINIRP>,
    pub Process: Option<PFNKSPIN>,
    pub Reset: Option<PFNKSPINVOID>,
    pub SetDataFormat: Option<PFNKSPINSETDATAFORMAT>,
    pub SetDeviceState: Option<PFNKSPINSETDEVICESTATE>,
    pub Connect: Option<PFNKSPIN>,
    pub Disconnect: Option<PFNKSPINVOID>,
    pub Clock: *const KSCLOCK_DISPATCH,
    pub Allocator: *const KSALLOCATOR_DISPATCH,
}
layout! { KSPIN_DISPATCH: 80 { Create: 0, Close: 8, Process: 16, Reset: 24, SetDataFormat: 32, SetDeviceState: 40, Connect: 48, Disconnect: 56, Clock: 64, Allocator: 72 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSPRIORITY {
    pub PriorityClass: u32,
    pub PrioritySubClass: u32,
}
layout! { KSPRIORITY: 8 { PriorityClass: 0, PrioritySubClass: 4 } }

pub const KSPRIORITY_LOW: u32 = 0x0000_0001;
pub const KSPRIORITY_NORMAL: u32 = 0x4000_0000;
pub const KSPRIORITY_HIGH: u32 = 0x8000_0000;
pub const KSPRIORITY_EXCLUSIVE: u32 = 0xFFFF_FFFF;

/// A pin, as its minidriver sees it. Only `Context` and `StreamHeaderSize` are the minidriver's
/// to write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPIN {
    pub Descriptor: *const KSPIN_DESCRIPTOR_EX,
    pub Bag: KSOBJECT_BAG,
    pub Context: PVOID,
    /// The number of its factory.
    pub Id: u32,
    pub Communication: KSPIN_COMMUNICATION,
    /// Whether the other end does not know the handshake of two such pins.
    pub ConnectionIsExternal: BOOLEAN,
    pub ConnectionInterface: KSPIN_INTERFACE,
    pub ConnectionMedium: KSPIN_MEDIUM,
    pub ConnectionPriority: KSPRIORITY,
    pub ConnectionFormat: *mut KSDATAFORMAT,
    pub AttributeList: *mut KSMULTIPLE_ITEM,
    /// In bytes, set while it is created; left alone, nothing follows a header.
    pub StreamHeaderSize: u32,
    pub DataFlow: KSPIN_DATAFLOW,
    /// The requested state, which the pin may not have reached.
    pub DeviceState: KSSTATE,
    /// [`KSRESET_END`] at first.
    pub ResetState: KSRESET,
    /// The state it is in: set just before `SetDeviceState`, and back if that fails.
    pub ClientState: KSSTATE,
}
layout! { KSPIN: 136 { Descriptor: 0, Bag: 8, Context: 16, Id: 24, Communication: 28, ConnectionIsExternal: 32, ConnectionInterface: 40, ConnectionMedium: 64, ConnectionPriority: 88, ConnectionFormat: 96, AttributeList: 104, StreamHeaderSize: 112, DataFlow: 116, DeviceState: 120, ResetState: 124, ClientState: 128 } }

/// What a pin is created with. A [`KSDATAFORMAT`](super::KSDATAFORMAT) follows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPIN_CONNECT {
    pub Interface: KSPIN_INTERFACE,
    pub Medium: KSPIN_MEDIUM,
    pub PinId: u32,
    pub PinToHandle: HANDLE,
    pub Priority: KSPRIORITY,
}
layout! { KSPIN_CONNECT: 72 { Interface: 0, Medium: 24, PinId: 48, PinToHandle: 56, Priority: 64 } }

/// A property of a pin factory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSP_PIN {
    pub Property: KSPROPERTY,
    pub PinId: u32,
    /// `Flags`, of some properties.
    pub Reserved: u32,
}
layout! { KSP_PIN: 32 { Property: 0, PinId: 24, Reserved: 28 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSPIN_CINSTANCES {
    pub PossibleCount: u32,
    pub CurrentCount: u32,
}
layout! { KSPIN_CINSTANCES: 8 { PossibleCount: 0, CurrentCount: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSHANDSHAKE {
    pub ProtocolId: GUID,
    pub Argument1: PVOID,
    pub Argument2: PVOID,
}
layout! { KSHANDSHAKE: 32 { ProtocolId: 0, Argument1: 16, Argument2: 24 } }
