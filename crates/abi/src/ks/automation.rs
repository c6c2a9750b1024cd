//! Properties, methods and events of a minidriver.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    KSIDENTIFIER, KSPROPERTY, PFNKSADDEVENT, PFNKSFASTHANDLER, PFNKSHANDLER, PFNKSREMOVEEVENT,
};
use crate::GUID;
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSAUTOMATION_TABLE {
    pub PropertySetsCount: u32,
    /// In bytes: a minidriver may append to its items.
    pub PropertyItemSize: u32,
    pub PropertySets: *const KSPROPERTY_SET,
    pub MethodSetsCount: u32,
    /// In bytes.
    pub MethodItemSize: u32,
    pub MethodSets: *const KSMETHOD_SET,
    pub EventSetsCount: u32,
    /// In bytes.
    pub EventItemSize: u32,
    pub EventSets: *const KSEVENT_SET,
}
layout! { KSAUTOMATION_TABLE: 48 { PropertySetsCount: 0, PropertyItemSize: 4, PropertySets: 8, MethodSetsCount: 16, MethodItemSize: 20, MethodSets: 24, EventSetsCount: 32, EventItemSize: 36, EventSets: 40 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPROPERTY_SET {
    pub Set: *const GUID,
    pub PropertiesCount: u32,
    pub PropertyItem: *const KSPROPERTY_ITEM,
    pub FastIoCount: u32,
    pub FastIoTable: *const KSFASTPROPERTY_ITEM,
}
layout! { KSPROPERTY_SET: 40 { Set: 0, PropertiesCount: 8, PropertyItem: 16, FastIoCount: 24, FastIoTable: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPROPERTY_ITEM {
    pub PropertyId: u32,
    /// Or `GetSupported`, where the set's owner handles the request.
    pub GetPropertyHandler: Option<PFNKSHANDLER>,
    /// In bytes, of the request.
    pub MinProperty: u32,
    /// In bytes, of the result.
    pub MinData: u32,
    /// Or `SetSupported`, where the set's owner handles the request.
    pub SetPropertyHandler: Option<PFNKSHANDLER>,
    pub Values: *const KSPROPERTY_VALUES,
    pub RelationsCount: u32,
    pub Relations: *const KSPROPERTY,
    pub SupportHandler: Option<PFNKSHANDLER>,
    pub SerializedSize: u32,
}
layout! { KSPROPERTY_ITEM: 72 { PropertyId: 0, GetPropertyHandler: 8, MinProperty: 16, MinData: 20, SetPropertyHandler: 24, Values: 32, RelationsCount: 40, Relations: 48, SupportHandler: 56, SerializedSize: 64 } }

impl KSPROPERTY_ITEM {
    /// Whether it can be read (`GetSupported`).
    pub const fn get_supported(self) -> bool {
        self.GetPropertyHandler.is_some()
    }

    /// Whether it can be written (`SetSupported`).
    pub const fn set_supported(self) -> bool {
        self.SetPropertyHandler.is_some()
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPROPERTY_VALUES {
    pub PropTypeSet: KSIDENTIFIER,
    pub MembersListCount: u32,
    pub MembersList: *const KSPROPERTY_MEMBERSLIST,
}
layout! { KSPROPERTY_VALUES: 40 { PropTypeSet: 0, MembersListCount: 24, MembersList: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSPROPERTY_MEMBERSHEADER {
    pub MembersFlags: u32,
    pub MembersSize: u32,
    pub MembersCount: u32,
    pub Flags: u32,
}
layout! { KSPROPERTY_MEMBERSHEADER: 16 { MembersFlags: 0, MembersSize: 4, MembersCount: 8, Flags: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSPROPERTY_MEMBERSLIST {
    pub MembersHeader: KSPROPERTY_MEMBERSHEADER,
    pub Members: *const c_void,
}
layout! { KSPROPERTY_MEMBERSLIST: 24 { MembersHeader: 0, Members: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSFASTPROPERTY_ITEM {
    pub PropertyId: u32,
    pub GetPropertyHandler: Option<PFNKSFASTHANDLER>,
    pub SetPropertyHandler: Option<PFNKSFASTHANDLER>,
    pub Reserved: u32,
}
layout! { KSFASTPROPERTY_ITEM: 32 { PropertyId: 0, GetPropertyHandler: 8, SetPropertyHandler: 16, Reserved: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSMETHOD_SET {
    pub Set: *const GUID,
    pub MethodsCount: u32,
    pub MethodItem: *const KSMETHOD_ITEM,
    pub FastIoCount: u32,
    pub FastIoTable: *const KSFASTMETHOD_ITEM,
}
layout! { KSMETHOD_SET: 40 { Set: 0, MethodsCount: 8, MethodItem: 16, FastIoCount: 24, FastIoTable: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSMETHOD_ITEM {
    pub MethodId: u32,
    pub MethodHandler: Option<PFNKSHANDLER>,
    pub MinMethod: u32,
    pub MinData: u32,
    pub SupportHandler: Option<PFNKSHANDLER>,
    pub Flags: u32,
}
layout! { KSMETHOD_ITEM: 40 { MethodId: 0, MethodHandler: 8, MinMethod: 16, MinData: 20, SupportHandler: 24, Flags: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSFASTMETHOD_ITEM {
    pub MethodId: u32,
    pub MethodHandler: Option<PFNKSFASTHANDLER>,
}
layout! { KSFASTMETHOD_ITEM: 16 { MethodId: 0, MethodHandler: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSEVENT_SET {
    pub Set: *const GUID,
    pub EventsCount: u32,
    pub EventItem: *const KSEVENT_ITEM,
}
layout! { KSEVENT_SET: 24 { Set: 0, EventsCount: 8, EventItem: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSEVENT_ITEM {
    pub EventId: u32,
    pub DataInput: u32,
    pub ExtraEntryData: u32,
    pub AddHandler: Option<PFNKSADDEVENT>,
    pub RemoveHandler: Option<PFNKSREMOVEEVENT>,
    pub SupportHandler: Option<PFNKSHANDLER>,
}
layout! { KSEVENT_ITEM: 40 { EventId: 0, DataInput: 4, ExtraEntryData: 8, AddHandler: 16, RemoveHandler: 24, SupportHandler: 32 } }

pub const KSPROPERTY_TYPE_GET: u32 = 0x0000_0001;
pub const KSPROPERTY_TYPE_SET: u32 = 0x0000_0002;
pub const KSPROPERTY_TYPE_GETPAYLOADSIZE: u32 = 0x0000_0004;
pub const KSPROPERTY_TYPE_SETSUPPORT: u32 = 0x0000_0100;
pub const KSPROPERTY_TYPE_BASICSUPPORT: u32 = 0x0000_0200;
pub const KSPROPERTY_TYPE_RELATIONS: u32 = 0x0000_0400;
pub const KSPROPERTY_TYPE_SERIALIZESET: u32 = 0x0000_0800;
pub const KSPROPERTY_TYPE_UNSERIALIZESET: u32 = 0x0000_1000;
pub const KSPROPERTY_TYPE_SERIALIZERAW: u32 = 0x0000_2000;
pub const KSPROPERTY_TYPE_UNSERIALIZERAW: u32 = 0x0000_4000;
pub const KSPROPERTY_TYPE_SERIALIZESIZE: u32 = 0x0000_8000;
pub const KSPROPERTY_TYPE_DEFAULTVALUES: u32 = 0x0001_0000;
pub const KSPROPERTY_TYPE_HIGHPRIORITY: u32 = 0x0800_0000;
pub const KSPROPERTY_TYPE_TOPOLOGY: u32 = 0x1000_0000;
pub const KSPROPERTY_TYPE_FSFILTERSCOPE: u32 = 0x4000_0000;
pub const KSPROPERTY_TYPE_COPYPAYLOAD: u32 = 0x8000_0000;
pub const KSEVENT_TYPE_ENABLE: u32 = 0x0000_0001;
pub const KSEVENT_TYPE_ONESHOT: u32 = 0x0000_0002;
pub const KSEVENT_TYPE_ENABLEBUFFERED: u32 = 0x0000_0004;
pub const KSEVENT_TYPE_SETSUPPORT: u32 = 0x0000_0100;
pub const KSEVENT_TYPE_BASICSUPPORT: u32 = 0x0000_0200;
pub const KSEVENT_TYPE_QUERYBUFFER: u32 = 0x0000_0400;
pub const KSEVENT_TYPE_TOPOLOGY: u32 = 0x1000_0000;

values! { KSPROPERTY_CONNECTION {
    KSPROPERTY_CONNECTION_STATE = 0,
    KSPROPERTY_CONNECTION_PRIORITY = 1,
    KSPROPERTY_CONNECTION_DATAFORMAT = 2,
    KSPROPERTY_CONNECTION_ALLOCATORFRAMING = 3,
    KSPROPERTY_CONNECTION_PROPOSEDATAFORMAT = 4,
    KSPROPERTY_CONNECTION_ACQUIREORDERING = 5,
    KSPROPERTY_CONNECTION_ALLOCATORFRAMING_EX = 6,
    KSPROPERTY_CONNECTION_STARTAT = 7,
} }

values! { KSPROPERTY_STREAM {
    KSPROPERTY_STREAM_ALLOCATOR = 0,
    KSPROPERTY_STREAM_QUALITY = 1,
    KSPROPERTY_STREAM_DEGRADATION = 2,
    KSPROPERTY_STREAM_MASTERCLOCK = 3,
    KSPROPERTY_STREAM_TIMEFORMAT = 4,
    KSPROPERTY_STREAM_PRESENTATIONTIME = 5,
    KSPROPERTY_STREAM_PRESENTATIONEXTENT = 6,
    KSPROPERTY_STREAM_FRAMETIME = 7,
    KSPROPERTY_STREAM_RATECAPABILITY = 8,
    KSPROPERTY_STREAM_RATE = 9,
    KSPROPERTY_STREAM_PIPE_ID = 10,
} }

values! { KSPROPERTY_PIN {
    KSPROPERTY_PIN_CINSTANCES = 0,
    KSPROPERTY_PIN_CTYPES = 1,
    KSPROPERTY_PIN_DATAFLOW = 2,
    KSPROPERTY_PIN_DATARANGES = 3,
    KSPROPERTY_PIN_DATAINTERSECTION = 4,
    KSPROPERTY_PIN_INTERFACES = 5,
    KSPROPERTY_PIN_MEDIUMS = 6,
    KSPROPERTY_PIN_COMMUNICATION = 7,
    KSPROPERTY_PIN_GLOBALCINSTANCES = 8,
    KSPROPERTY_PIN_NECESSARYINSTANCES = 9,
    KSPROPERTY_PIN_PHYSICALCONNECTION = 10,
    KSPROPERTY_PIN_CATEGORY = 11,
    KSPROPERTY_PIN_NAME = 12,
    KSPROPERTY_PIN_CONSTRAINEDDATARANGES = 13,
    KSPROPERTY_PIN_PROPOSEDATAFORMAT = 14,
} }

values! { KSEVENT_CONNECTION {
    KSEVENT_CONNECTION_POSITIONUPDATE = 0,
    KSEVENT_CONNECTION_DATADISCONTINUITY = 1,
    KSEVENT_CONNECTION_TIMEDISCONTINUITY = 2,
    KSEVENT_CONNECTION_PRIORITY = 3,
    KSEVENT_CONNECTION_ENDOFSTREAM = 4,
} }

pub const IOCTL_KS_PROPERTY: u32 = 0x002F_0003;
pub const IOCTL_KS_ENABLE_EVENT: u32 = 0x002F_0007;
pub const IOCTL_KS_DISABLE_EVENT: u32 = 0x002F_000B;
pub const IOCTL_KS_METHOD: u32 = 0x002F_000F;
pub const IOCTL_KS_RESET_STATE: u32 = 0x002F_001B;
pub const IOCTL_KS_HANDSHAKE: u32 = 0x002F_001F;
pub const IOCTL_KS_READ_STREAM: u32 = 0x002F_4017;
pub const IOCTL_KS_WRITE_STREAM: u32 = 0x002F_8013;
