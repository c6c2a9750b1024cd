//! Devices of a minidriver.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    KSFILTER_DESCRIPTOR, PFNKSDEVICE, PFNKSDEVICECREATE, PFNKSDEVICEIRP, PFNKSDEVICEIRPVOID,
    PFNKSDEVICEPNPSTART, PFNKSDEVICEQUERYCAPABILITIES, PFNKSDEVICEQUERYPOWER, PFNKSDEVICESETPOWER,
};
use crate::miniport::DEVICE_POWER_STATE;
use crate::{BOOLEAN, PDEVICE_OBJECT, PVOID};

/// The functions of a minidriver for Plug and Play and power. Each may be absent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSDEVICE_DISPATCH {
    pub Add: Option<PFNKSDEVICECREATE>,
    pub Start: Option<PFNKSDEVICEPNPSTART>,
    pub PostStart: Option<PFNKSDEVICE>,
    pub QueryStop: Option<PFNKSDEVICEIRP>,
    pub CancelStop: Option<PFNKSDEVICEIRPVOID>,
    pub Stop: Option<PFNKSDEVICEIRPVOID>,
    pub QueryRemove: Option<PFNKSDEVICEIRP>,
    pub CancelRemove: Option<PFNKSDEVICEIRPVOID>,
    pub Remove: Option<PFNKSDEVICEIRPVOID>,
    pub QueryCapabilities: Option<PFNKSDEVICEQUERYCAPABILITIES>,
    pub SurpriseRemoval: Option<PFNKSDEVICEIRPVOID>,
    pub QueryPower: Option<PFNKSDEVICEQUERYPOWER>,
    pub SetPower: Option<PFNKSDEVICESETPOWER>,
    pub QueryInterface: Option<PFNKSDEVICEIRP>,
}
layout! { KSDEVICE_DISPATCH: 112 { Add: 0, Start: 8, PostStart: 16, QueryStop: 24, CancelStop: 32, Stop: 40, QueryRemove: 48, CancelRemove: 56, Remove: 64, QueryCapabilities: 72, SurpriseRemoval: 80, QueryPower: 88, SetPower: 96, QueryInterface: 104 } }

/// A device with its filters, as `KsInitializeDriver` takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSDEVICE_DESCRIPTOR {
    pub Dispatch: *const KSDEVICE_DISPATCH,
    pub FilterDescriptorsCount: u32,
    pub FilterDescriptors: *const *const KSFILTER_DESCRIPTOR,
    /// [`KSDEVICE_DESCRIPTOR_VERSION`], [`KSDEVICE_DESCRIPTOR_VERSION_2`], or zero before both.
    pub Version: u32,
    /// `KSDEVICE_FLAG_*`, of the second version. One source for its place: `ReactOS`.
    pub Flags: u32,
}
layout! { KSDEVICE_DESCRIPTOR: 32 { Dispatch: 0, FilterDescriptorsCount: 8, FilterDescriptors: 16, Version: 24, Flags: 28 } } // one source: mingw-w64

/// The version that has `QueryInterface`.
pub const KSDEVICE_DESCRIPTOR_VERSION: u32 = 0x0000_0100;
/// The version that has `Flags`.
pub const KSDEVICE_DESCRIPTOR_VERSION_2: u32 = 0x0000_0110;
pub const KSDEVICE_FLAG_ENABLE_REMOTE_WAKEUP: u32 = 0x0000_0001;
pub const KSDEVICE_FLAG_LOWPOWER_PASSTHROUGH: u32 = 0x0000_0002;
pub const KSDEVICE_FLAG_ENABLE_QUERYINTERFACE: u32 = 0x0000_0004;

/// A device, as its minidriver sees it. Only `Context` is the minidriver's to write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSDEVICE {
    pub Descriptor: *const KSDEVICE_DESCRIPTOR,
    pub Bag: KSOBJECT_BAG,
    pub Context: PVOID,
    pub FunctionalDeviceObject: PDEVICE_OBJECT,
    pub PhysicalDeviceObject: PDEVICE_OBJECT,
    pub NextDeviceObject: PDEVICE_OBJECT,
    /// Whether `Start` has succeeded and no stop has come since.
    pub Started: BOOLEAN,
    pub SystemPowerState: SYSTEM_POWER_STATE,
    pub DevicePowerState: DEVICE_POWER_STATE,
}
layout! { KSDEVICE: 64 { Descriptor: 0, Bag: 8, Context: 16, FunctionalDeviceObject: 24, PhysicalDeviceObject: 32, NextDeviceObject: 40, Started: 48, SystemPowerState: 52, DevicePowerState: 56 } }

values! { SYSTEM_POWER_STATE {
    PowerSystemUnspecified = 0,
    PowerSystemWorking = 1,
    PowerSystemSleeping1 = 2,
    PowerSystemSleeping2 = 3,
    PowerSystemSleeping3 = 4,
    PowerSystemHibernate = 5,
    PowerSystemShutdown = 6,
    PowerSystemMaximum = 7,
} }

values! { KSOBJECTTYPE {
    KsObjectTypeDevice = 0,
    KsObjectTypeFilterFactory = 1,
    KsObjectTypeFilter = 2,
    KsObjectTypePin = 3,
} }

/// The objects that are freed with an object. It is a handle, and no address.
pub type KSOBJECT_BAG = PVOID;
