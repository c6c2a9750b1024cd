//! The table a driver gets when it starts: what is served, and a named trap in every other slot.

use crate::callbacks::{DxgkCbAcquireHandleData, DxgkCbGetHandleData, DxgkCbReleaseHandleData};
use crate::context_memory::{
    DxgkCbCreateContextAllocation, DxgkCbDestroyContextAllocation, DxgkCbMapContextAllocation,
    DxgkCbUpdateContextAllocation,
};
use crate::device_memory::{
    DxgkCbExcludeAdapterAccess, DxgkCbGetDeviceInformation, DxgkCbIndicateChildStatus,
    DxgkCbMapMemory, DxgkCbReadDeviceSpace, DxgkCbUnmapMemory, DxgkCbWriteDeviceSpace,
};
use crate::interrupt::{
    DxgkCbNotifyDpc, DxgkCbNotifyInterrupt, DxgkCbQueueDpc, DxgkCbSynchronizeExecution,
};
use crate::kept::DxgkCbReserveGpuVirtualAddressRange;
use crate::kin::{DxgkCbEnumHandleChildren, DxgkCbGetCaptureAddress, DxgkCbGetHandleParent};
use crate::traps::{absent, slot};
use abi::HANDLE;
use abi::miniport::DXGKRNL_INTERFACE;
use flight::Support;

/// A line of the callback table: a slot of `DXGKRNL_INTERFACE`, and how much is behind it.
#[derive(Clone, Copy, Debug)]
pub struct Callback {
    /// Its Windows name.
    pub name: &'static str,
    /// How much of it there is. Behind an absent one is a trap that says its name.
    pub state: Support,
}

macro_rules! interface {
    (
        served { $($served:ident $(lacks $lacks:literal)?;)* }
        absent { $($why:literal { $($absent:ident)* })* }
    ) => {
        /// Every callback of the interface: the served ones, then the traps by what they need.
        pub const CALLBACKS: &[Callback] = &[
            $(Callback {
                name: stringify!($served),
                state: Support::lacking(concat!($($lacks)?)),
            },)*
            $($(Callback { name: stringify!($absent), state: Support::Absent($why) },)*)*
        ];

        /// The interface for the door with this handle.
        ///
        /// WINDOWS: `Size` is exactly that of the driver's version: `displib` copies so many
        /// bytes (observed).
        pub(crate) fn interface(handle: HANDLE, version: u32) -> Option<DXGKRNL_INTERFACE> {
            let length = DXGKRNL_INTERFACE::length(version)?;
            // A later version has more slots than this structure.
            let fits = length <= size_of::<DXGKRNL_INTERFACE>();
            Some(DXGKRNL_INTERFACE {
                Size: u32::try_from(length).ok().filter(|_| fits)?,
                Version: version,
                DeviceHandle: handle,
                $($served: Some($served),)*
                $($($absent: Some(absent::<{ slot(stringify!($absent)) }>),)*)*
            })
        }
    };
}

interface! {
    served {
        DxgkCbQueueDpc;
        DxgkCbSynchronizeExecution lacks "one interrupt line, no messages; on threads side by side nothing is held back";
        DxgkCbGetHandleData lacks "answers NULL, as is seen at WDDM 2";
        DxgkCbNotifyInterrupt lacks "hears of work that is done, given back or at fault, and of vsync";
        DxgkCbNotifyDpc;
        DxgkCbAcquireHandleData lacks "the kind of the handle is not compared";
        DxgkCbReleaseHandleData;
        DxgkCbCreateContextAllocation
            lacks "MapGpuVirtualAddress, HintedBank and PhysicalAdapterIndex are not looked at";
        DxgkCbDestroyContextAllocation;
        DxgkCbUpdateContextAllocation;
        DxgkCbMapContextAllocation lacks "answers a physical address, whatever range is asked for";
        DxgkCbReserveGpuVirtualAddressRange
            lacks "what the driver's own page tables say there is not looked at";
        DxgkCbGetHandleParent;
        DxgkCbEnumHandleChildren;
        DxgkCbGetCaptureAddress lacks "of what is in no segment there is no address";
        DxgkCbGetDeviceInformation
            lacks "the context, the device object and one range of memory; the rest is zero";
        DxgkCbMapMemory lacks "every mapping is cached; MapToUserMode is not looked at";
        DxgkCbUnmapMemory;
        DxgkCbReadDeviceSpace lacks "the spaces besides the configuration space are empty";
        DxgkCbWriteDeviceSpace lacks "nothing comes of what is written";
        DxgkCbIndicateChildStatus lacks "nothing comes of it: no display output";
        DxgkCbExcludeAdapterAccess
            lacks "looked at and refused: adapters are not taken from their users";
    }
    absent {
        "no hardware besides the adapter's, and no ACPI" {
            DxgkCbEvalAcpiMethod DxgkCbIsDevicePresent
        }
        "no other drivers to ask" { DxgkCbQueryServices }
        "no display output" {
            DxgkCbQueryVidPnInterface DxgkCbQueryMonitorInterface
            DxgkCbAcquirePostDisplayOwnership
        }
        "no ETW" { DxgkCbLogEtwEvent }
        "no power management" {
            DxgkCbSetPowerComponentActive DxgkCbSetPowerComponentIdle
            DxgkCbPowerRuntimeControlRequest DxgkCbSetPowerComponentLatency
            DxgkCbSetPowerComponentResidency DxgkCbCompleteFStateTransition
            DxgkCbCompletePStateTransition
        }
        "no content protection" { DxgkCbHardwareContentProtectionTeardown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::{DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WDDM2_1};
    use std::ptr;

    #[test]
    fn it_has_the_length_of_its_version_and_no_empty_slot() {
        let handle = ptr::without_provenance_mut(5);
        let it = interface(handle, DXGKDDI_INTERFACE_VERSION_WDDM2_0).unwrap();
        assert_eq!((it.Size, it.Version, it.DeviceHandle), (0x138, 0x5023, handle));
        assert!(it.filled().eq(DXGKRNL_INTERFACE::SLOTS.iter().copied()));
    }

    #[test]
    fn every_slot_has_its_line() {
        let mut names: Vec<_> = CALLBACKS.iter().map(|it| it.name).collect();
        let mut slots = DXGKRNL_INTERFACE::SLOTS.to_vec();
        names.sort_unstable();
        slots.sort_unstable();
        assert_eq!(names, slots);
    }

    #[test]
    fn a_version_with_more_slots_has_none() {
        let handle = ptr::without_provenance_mut(5);
        assert!(interface(handle, DXGKDDI_INTERFACE_VERSION_WDDM2_1).is_none());
        assert!(interface(handle, 7).is_none());
    }
}
