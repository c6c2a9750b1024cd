//! The table a driver gets when it starts.
//!
//! One source: docs, which also infer the types from `DxgkCbMapContextAllocation` on.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{DXGKCB_QUEUE_DPC, DXGKCB_SYNCHRONIZE_EXECUTION};
use crate::display::{
    DXGKCB_ACQUIREHANDLEDATA, DXGKCB_CREATECONTEXTALLOCATION, DXGKCB_DESTROYCONTEXTALLOCATION,
    DXGKCB_GETHANDLEDATA, DXGKCB_MAPCONTEXTALLOCATION, DXGKCB_NOTIFY_DPC, DXGKCB_NOTIFY_INTERRUPT,
    DXGKCB_RELEASEHANDLEDATA, DXGKCB_UPDATECONTEXTALLOCATION, DXGKDDI_INTERFACE_VERSION_WDDM1_3,
    DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WDDM2_1,
    DXGKDDI_INTERFACE_VERSION_WDDM2_2, DXGKDDI_INTERFACE_VERSION_WDDM2_3,
    DXGKDDI_INTERFACE_VERSION_WDDM2_4, DXGKDDI_INTERFACE_VERSION_WDDM2_5,
    DXGKDDI_INTERFACE_VERSION_WDDM2_6, DXGKDDI_INTERFACE_VERSION_WDDM2_7,
    DXGKDDI_INTERFACE_VERSION_WDDM2_8, DXGKDDI_INTERFACE_VERSION_WDDM2_9,
    DXGKDDI_INTERFACE_VERSION_WDDM3_0, DXGKDDI_INTERFACE_VERSION_WDDM3_1,
    DXGKDDI_INTERFACE_VERSION_WIN8,
};
use crate::{HANDLE, UNCROSSED};

table! { DXGKRNL_INTERFACE: 0x138 {
    0x000 Size: u32,
    0x004 Version: u32,
    0x008 DeviceHandle: HANDLE,
} {
    0x010 DxgkCbEvalAcpiMethod: UNCROSSED,
    0x018 DxgkCbGetDeviceInformation: UNCROSSED,
    0x020 DxgkCbIndicateChildStatus: UNCROSSED,
    0x028 DxgkCbMapMemory: UNCROSSED,
    0x030 DxgkCbQueueDpc: DXGKCB_QUEUE_DPC,
    0x038 DxgkCbQueryServices: UNCROSSED,
    0x040 DxgkCbReadDeviceSpace: UNCROSSED,
    0x048 DxgkCbSynchronizeExecution: DXGKCB_SYNCHRONIZE_EXECUTION,
    0x050 DxgkCbUnmapMemory: UNCROSSED,
    0x058 DxgkCbWriteDeviceSpace: UNCROSSED,
    0x060 DxgkCbIsDevicePresent: UNCROSSED,
    0x068 DxgkCbGetHandleData: DXGKCB_GETHANDLEDATA,
    0x070 DxgkCbGetHandleParent: UNCROSSED,
    0x078 DxgkCbEnumHandleChildren: UNCROSSED,
    0x080 DxgkCbNotifyInterrupt: DXGKCB_NOTIFY_INTERRUPT,
    0x088 DxgkCbNotifyDpc: DXGKCB_NOTIFY_DPC,
    0x090 DxgkCbQueryVidPnInterface: UNCROSSED,
    0x098 DxgkCbQueryMonitorInterface: UNCROSSED,
    0x0a0 DxgkCbGetCaptureAddress: UNCROSSED,
    0x0a8 DxgkCbLogEtwEvent: UNCROSSED,
    0x0b0 DxgkCbExcludeAdapterAccess: UNCROSSED,
    0x0b8 DxgkCbCreateContextAllocation: DXGKCB_CREATECONTEXTALLOCATION,
    0x0c0 DxgkCbDestroyContextAllocation: DXGKCB_DESTROYCONTEXTALLOCATION,
    0x0c8 DxgkCbSetPowerComponentActive: UNCROSSED,
    0x0d0 DxgkCbSetPowerComponentIdle: UNCROSSED,
    0x0d8 DxgkCbAcquirePostDisplayOwnership: UNCROSSED,
    0x0e0 DxgkCbPowerRuntimeControlRequest: UNCROSSED,
    0x0e8 DxgkCbSetPowerComponentLatency: UNCROSSED,
    0x0f0 DxgkCbSetPowerComponentResidency: UNCROSSED,
    0x0f8 DxgkCbCompleteFStateTransition: UNCROSSED,
    0x100 DxgkCbCompletePStateTransition: UNCROSSED,
    0x108 DxgkCbMapContextAllocation: DXGKCB_MAPCONTEXTALLOCATION,
    0x110 DxgkCbUpdateContextAllocation: DXGKCB_UPDATECONTEXTALLOCATION,
    0x118 DxgkCbReserveGpuVirtualAddressRange: UNCROSSED,
    0x120 DxgkCbAcquireHandleData: DXGKCB_ACQUIREHANDLEDATA,
    0x128 DxgkCbReleaseHandleData: DXGKCB_RELEASEHANDLEDATA,
    0x130 DxgkCbHardwareContentProtectionTeardown: UNCROSSED,
} }

impl DXGKRNL_INTERFACE {
    /// The length in bytes for each interface version.
    pub const LENGTHS: &[(u32, usize)] = &[
        (DXGKDDI_INTERFACE_VERSION_WIN8, 0x100),
        (DXGKDDI_INTERFACE_VERSION_WDDM1_3, 0x108),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_0, 0x138),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_1, 0x148),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_2, 0x168),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_3, 0x170),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_4, 0x1c8),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_5, 0x1d0),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_6, 0x1e0),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_7, 0x1e0),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_8, 0x1e8),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_9, 0x238),
        (DXGKDDI_INTERFACE_VERSION_WDDM3_0, 0x238),
        (DXGKDDI_INTERFACE_VERSION_WDDM3_1, 0x240),
    ];
}
