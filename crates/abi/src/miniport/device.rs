//! Callbacks about the hardware of an adapter.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{
    BOOLEAN, HANDLE, LARGE_INTEGER, NTSTATUS, PDEVICE_OBJECT, PHYSICAL_ADDRESS, PVOID, SIZE_T,
    UNICODE_STRING,
};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DEVICE_INFO {
    pub MiniportDeviceContext: PVOID,
    pub PhysicalDeviceObject: PDEVICE_OBJECT,
    pub DeviceRegistryPath: UNICODE_STRING,
    pub TranslatedResourceList: *mut CM_RESOURCE_LIST,
    pub SystemMemorySize: LARGE_INTEGER,
    pub HighestPhysicalAddress: PHYSICAL_ADDRESS,
    pub AgpApertureBase: PHYSICAL_ADDRESS,
    pub AgpApertureSize: SIZE_T,
    pub DockingState: i32,
}
layout! { DXGK_DEVICE_INFO: 80 {
    MiniportDeviceContext: 0, PhysicalDeviceObject: 8, DeviceRegistryPath: 16,
    TranslatedResourceList: 32, SystemMemorySize: 40, HighestPhysicalAddress: 48,
    AgpApertureBase: 56, AgpApertureSize: 64, DockingState: 72,
} } // one source: docs

/// The resources of a device: `Count` lists, of which this has one, of one resource.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub struct CM_RESOURCE_LIST {
    pub Count: u32,
    pub List: CM_FULL_RESOURCE_DESCRIPTOR,
}
layout! { CM_RESOURCE_LIST: 40 { Count: 0, List: 4 } }

#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub struct CM_FULL_RESOURCE_DESCRIPTOR {
    pub InterfaceType: i32,
    pub BusNumber: u32,
    pub PartialResourceList: CM_PARTIAL_RESOURCE_LIST,
}
layout! { CM_FULL_RESOURCE_DESCRIPTOR: 36 {
    InterfaceType: 0, BusNumber: 4, PartialResourceList: 8,
} }

#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub struct CM_PARTIAL_RESOURCE_LIST {
    pub Version: u16,
    pub Revision: u16,
    pub Count: u32,
    pub PartialDescriptors: CM_PARTIAL_RESOURCE_DESCRIPTOR,
}
layout! { CM_PARTIAL_RESOURCE_LIST: 28 {
    Version: 0, Revision: 2, Count: 4, PartialDescriptors: 8,
} }

/// A resource; of the union, which is unnamed in Windows, `Memory`.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub struct CM_PARTIAL_RESOURCE_DESCRIPTOR {
    pub Type: u8,
    pub ShareDisposition: u8,
    pub Flags: u16,
    pub Start: PHYSICAL_ADDRESS,
    pub Length: u32,
    pub Padding: u32,
}
layout! { CM_PARTIAL_RESOURCE_DESCRIPTOR: 20 {
    Type: 0, ShareDisposition: 1, Flags: 2, Start: 4, Length: 12, Padding: 16,
} }

/// `Type` of a range of memory.
pub const CmResourceTypeMemory: u8 = 3;

/// `ShareDisposition` of a resource of one device.
pub const CmResourceShareDeviceExclusive: u8 = 1;

/// `InterfaceType` of a device on a PCI bus.
pub const PCIBus: i32 = 5;

values! { MEMORY_CACHING_TYPE {
    MmNonCached = 0,
    MmCached = 1,
    MmWriteCombined = 2,
} }

// The documentation names two more without numbers.
pub const DXGK_WHICHSPACE_CONFIG: u32 = 0;
pub const DXGK_WHICHSPACE_ROM: u32 = 0x5269_6350;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_CHILD_STATUS {
    pub Type: i32,
    pub ChildUid: u32,
    /// The union of the data of each type, unnamed in Windows, as 32-bit words.
    pub Data: [u32; 2],
}
layout! { DXGK_CHILD_STATUS: 16 { Type: 0, ChildUid: 4, Data: 8 } } // one source: docs

values! { DXGK_CHILD_STATUS_TYPE {
    StatusUninitialized = 0,
    StatusConnection = 1,
    StatusRotation = 2,
    StatusMiracastConnection = 3,
} } // one source: docs

values! { DXGK_CHILD_DEVICE_TYPE {
    TypeUninitialized = 0,
    TypeVideoOutput = 1,
    TypeOther = 2,
    TypeIntegratedDisplay = 3,
} } // one source: docs

values! { DXGK_CHILD_DEVICE_HPD_AWARENESS {
    HpdAwarenessUninitialized = 0,
    HpdAwarenessAlwaysConnected = 1,
    HpdAwarenessNone = 2,
    HpdAwarenessPolled = 3,
    HpdAwarenessInterruptible = 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_CHILD_CAPABILITIES {
    /// The union of the data of each type, as 32-bit words.
    pub Type: [u32; 3],
    pub HpdAwareness: DXGK_CHILD_DEVICE_HPD_AWARENESS,
}
layout! { DXGK_CHILD_CAPABILITIES: 16 { Type: 0, HpdAwareness: 12 } } // one source: docs

/// A device that is connected to an adapter. `TypeUninitialized` ends a list of them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_CHILD_DESCRIPTOR {
    pub ChildDeviceType: DXGK_CHILD_DEVICE_TYPE,
    pub ChildCapabilities: DXGK_CHILD_CAPABILITIES,
    pub AcpiUid: u32,
    pub ChildUid: u32,
}
layout! { DXGK_CHILD_DESCRIPTOR: 28 {
    ChildDeviceType: 0, ChildCapabilities: 4, AcpiUid: 20, ChildUid: 24,
} } // one source: docs

pub type DXGKDDI_QUERY_CHILD_RELATIONS = unsafe extern "win64-unwind" fn(
    MiniportDeviceContext: PVOID,
    ChildRelations: *mut DXGK_CHILD_DESCRIPTOR,
    ChildRelationsSize: u32,
) -> NTSTATUS;

pub type DXGKDDI_QUERY_CHILD_STATUS = unsafe extern "win64-unwind" fn(
    MiniportDeviceContext: PVOID,
    ChildStatus: *mut DXGK_CHILD_STATUS,
    NonDestructiveOnly: BOOLEAN,
) -> NTSTATUS;

pub type DXGKCB_GET_DEVICE_INFORMATION =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGK_DEVICE_INFO) -> NTSTATUS;

pub type DXGKCB_MAP_MEMORY = unsafe extern "win64-unwind" fn(
    DeviceHandle: HANDLE,
    TranslatedAddress: PHYSICAL_ADDRESS,
    Length: u32,
    InIoSpace: BOOLEAN,
    MapToUserMode: BOOLEAN,
    CacheType: MEMORY_CACHING_TYPE,
    VirtualAddress: *mut PVOID,
) -> NTSTATUS;

pub type DXGKCB_UNMAP_MEMORY = unsafe extern "win64-unwind" fn(HANDLE, PVOID) -> NTSTATUS;

/// `DxgkCbReadDeviceSpace` and `DxgkCbWriteDeviceSpace` have the same arguments.
pub type DXGKCB_READ_DEVICE_SPACE = unsafe extern "win64-unwind" fn(
    DeviceHandle: HANDLE,
    DataType: u32,
    Buffer: PVOID,
    Offset: u32,
    Length: u32,
    BytesRead: *mut u32,
) -> NTSTATUS;

pub type DXGKCB_WRITE_DEVICE_SPACE = DXGKCB_READ_DEVICE_SPACE;

pub type DXGKCB_INDICATE_CHILD_STATUS =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGK_CHILD_STATUS) -> NTSTATUS;

pub type DXGKDDI_PROTECTED_CALLBACK =
    unsafe extern "win64-unwind" fn(PVOID, ProtectedCallbackContext: PVOID, NTSTATUS);

pub type DXGKCB_EXCLUDE_ADAPTER_ACCESS = unsafe extern "win64-unwind" fn(
    DeviceHandle: HANDLE,
    Attributes: u32,
    DxgkProtectedCallback: Option<DXGKDDI_PROTECTED_CALLBACK>,
    ProtectedCallbackContext: PVOID,
) -> NTSTATUS;
