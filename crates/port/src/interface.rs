//! The table a driver gets when it starts: what is served, and a named trap in every other slot.

use crate::callbacks::{
    DxgkCbAcquireHandleData, DxgkCbGetHandleData, DxgkCbNotifyDpc, DxgkCbNotifyInterrupt,
    DxgkCbQueueDpc, DxgkCbReleaseHandleData, DxgkCbSynchronizeExecution,
};
use crate::traps::{absent, slot};
use abi::HANDLE;
use abi::miniport::DXGKRNL_INTERFACE;

macro_rules! interface {
    (served { $($served:ident)* } absent { $($absent:ident)* }) => {
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
                $($absent: Some(absent::<{ slot(stringify!($absent)) }>),)*
            })
        }
    };
}

interface! {
    served {
        DxgkCbQueueDpc DxgkCbSynchronizeExecution DxgkCbGetHandleData DxgkCbNotifyInterrupt
        DxgkCbNotifyDpc DxgkCbAcquireHandleData DxgkCbReleaseHandleData
    }
    absent {
        DxgkCbEvalAcpiMethod DxgkCbGetDeviceInformation DxgkCbIndicateChildStatus DxgkCbMapMemory
        DxgkCbQueryServices DxgkCbReadDeviceSpace DxgkCbUnmapMemory DxgkCbWriteDeviceSpace
        DxgkCbIsDevicePresent DxgkCbGetHandleParent DxgkCbEnumHandleChildren
        DxgkCbQueryVidPnInterface DxgkCbQueryMonitorInterface DxgkCbGetCaptureAddress
        DxgkCbLogEtwEvent DxgkCbExcludeAdapterAccess DxgkCbCreateContextAllocation
        DxgkCbDestroyContextAllocation DxgkCbSetPowerComponentActive DxgkCbSetPowerComponentIdle
        DxgkCbAcquirePostDisplayOwnership DxgkCbPowerRuntimeControlRequest
        DxgkCbSetPowerComponentLatency DxgkCbSetPowerComponentResidency
        DxgkCbCompleteFStateTransition DxgkCbCompletePStateTransition DxgkCbMapContextAllocation
        DxgkCbUpdateContextAllocation DxgkCbReserveGpuVirtualAddressRange
        DxgkCbHardwareContentProtectionTeardown
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
    fn a_version_with_more_slots_has_none() {
        let handle = ptr::without_provenance_mut(5);
        assert!(interface(handle, DXGKDDI_INTERFACE_VERSION_WDDM2_1).is_none());
        assert!(interface(handle, 7).is_none());
    }
}
