//! The table that a display-only driver registers, as of WDDM 3.1.
//!
//! One source: docs. The version of the last slot is inferred.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    DRIVER_INITIALIZATION_DATA, DXGKDDI_ADD_DEVICE, DXGKDDI_DPC_ROUTINE, DXGKDDI_INTERRUPT_ROUTINE,
    DXGKDDI_NOTIFY_SURPRISE_REMOVAL, DXGKDDI_QUERY_CHILD_RELATIONS, DXGKDDI_QUERY_CHILD_STATUS,
    DXGKDDI_REMOVE_DEVICE, DXGKDDI_RESET_DEVICE, DXGKDDI_SET_POWER_STATE, DXGKDDI_START_DEVICE,
    DXGKDDI_STOP_DEVICE, DXGKDDI_STOP_DEVICE_AND_RELEASE_POST_DISPLAY_OWNERSHIP, DXGKDDI_UNLOAD,
};
use crate::UNTYPED_FN;
use crate::display::{
    DXGKDDI_COLLECTDBGINFO, DXGKDDI_CONTROLINTERRUPT, DXGKDDI_ESCAPE,
    DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKDDI_INTERFACE_VERSION_WDDM2_0,
    DXGKDDI_INTERFACE_VERSION_WDDM2_1, DXGKDDI_INTERFACE_VERSION_WDDM2_2,
    DXGKDDI_INTERFACE_VERSION_WDDM2_3, DXGKDDI_INTERFACE_VERSION_WDDM2_4,
    DXGKDDI_INTERFACE_VERSION_WDDM2_5, DXGKDDI_INTERFACE_VERSION_WDDM2_6,
    DXGKDDI_INTERFACE_VERSION_WDDM2_7, DXGKDDI_INTERFACE_VERSION_WDDM2_8,
    DXGKDDI_INTERFACE_VERSION_WDDM2_9, DXGKDDI_INTERFACE_VERSION_WDDM3_0,
    DXGKDDI_INTERFACE_VERSION_WDDM3_1, DXGKDDI_INTERFACE_VERSION_WIN8, DXGKDDI_QUERYADAPTERINFO,
};

table! { KMDDOD_INITIALIZATION_DATA: 0x150 {
    0x000 Version: u32,
} {
    0x008 DxgkDdiAddDevice: DXGKDDI_ADD_DEVICE,
    0x010 DxgkDdiStartDevice: DXGKDDI_START_DEVICE,
    0x018 DxgkDdiStopDevice: DXGKDDI_STOP_DEVICE,
    0x020 DxgkDdiRemoveDevice: DXGKDDI_REMOVE_DEVICE,
    0x028 DxgkDdiDispatchIoRequest: UNTYPED_FN,
    0x030 DxgkDdiInterruptRoutine: DXGKDDI_INTERRUPT_ROUTINE,
    0x038 DxgkDdiDpcRoutine: DXGKDDI_DPC_ROUTINE,
    0x040 DxgkDdiQueryChildRelations: DXGKDDI_QUERY_CHILD_RELATIONS,
    0x048 DxgkDdiQueryChildStatus: DXGKDDI_QUERY_CHILD_STATUS,
    0x050 DxgkDdiQueryDeviceDescriptor: UNTYPED_FN,
    0x058 DxgkDdiSetPowerState: DXGKDDI_SET_POWER_STATE,
    0x060 DxgkDdiNotifyAcpiEvent: UNTYPED_FN,
    0x068 DxgkDdiResetDevice: DXGKDDI_RESET_DEVICE,
    0x070 DxgkDdiUnload: DXGKDDI_UNLOAD,
    0x078 DxgkDdiQueryInterface: UNTYPED_FN,
    0x080 DxgkDdiControlEtwLogging: UNTYPED_FN,
    0x088 DxgkDdiQueryAdapterInfo: DXGKDDI_QUERYADAPTERINFO,
    0x090 DxgkDdiSetPalette: UNTYPED_FN,
    0x098 DxgkDdiSetPointerPosition: UNTYPED_FN,
    0x0a0 DxgkDdiSetPointerShape: UNTYPED_FN,
    0x0a8 DxgkDdiEscape: DXGKDDI_ESCAPE,
    0x0b0 DxgkDdiCollectDbgInfo: DXGKDDI_COLLECTDBGINFO,
    0x0b8 DxgkDdiIsSupportedVidPn: UNTYPED_FN,
    0x0c0 DxgkDdiRecommendFunctionalVidPn: UNTYPED_FN,
    0x0c8 DxgkDdiEnumVidPnCofuncModality: UNTYPED_FN,
    0x0d0 DxgkDdiSetVidPnSourceVisibility: UNTYPED_FN,
    0x0d8 DxgkDdiCommitVidPn: UNTYPED_FN,
    0x0e0 DxgkDdiUpdateActiveVidPnPresentPath: UNTYPED_FN,
    0x0e8 DxgkDdiRecommendMonitorModes: UNTYPED_FN,
    0x0f0 DxgkDdiGetScanLine: UNTYPED_FN,
    0x0f8 DxgkDdiQueryVidPnHWCapability: UNTYPED_FN,
    0x100 DxgkDdiPresentDisplayOnly: UNTYPED_FN,
    0x108 DxgkDdiStopDeviceAndReleasePostDisplayOwnership:
        DXGKDDI_STOP_DEVICE_AND_RELEASE_POST_DISPLAY_OWNERSHIP,
    0x110 DxgkDdiSystemDisplayEnable: UNTYPED_FN,
    0x118 DxgkDdiSystemDisplayWrite: UNTYPED_FN,
    0x120 DxgkDdiGetChildContainerId: UNTYPED_FN,
    0x128 DxgkDdiControlInterrupt: DXGKDDI_CONTROLINTERRUPT,
    0x130 DxgkDdiSetPowerComponentFState: UNTYPED_FN,
    0x138 DxgkDdiPowerRuntimeControlRequest: UNTYPED_FN,
    0x140 DxgkDdiNotifySurpriseRemoval: DXGKDDI_NOTIFY_SURPRISE_REMOVAL,
    0x148 DxgkDdiPowerRuntimeSetDeviceHandle: UNTYPED_FN,
} }

impl KMDDOD_INITIALIZATION_DATA {
    /// The length in bytes for each interface version.
    pub const LENGTHS: &[(u32, usize)] = &[
        (DXGKDDI_INTERFACE_VERSION_WIN8, 0x148),
        (DXGKDDI_INTERFACE_VERSION_WDDM1_3, 0x148),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_0, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_1, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_2, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_3, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_4, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_5, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_6, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_7, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_8, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM2_9, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM3_0, 0x150),
        (DXGKDDI_INTERFACE_VERSION_WDDM3_1, 0x150),
    ];

    /// The same functions in the table of a full driver, which has a slot for each of them except
    /// `DxgkDdiPresentDisplayOnly`.
    #[must_use]
    pub const fn as_full_table(&self) -> DRIVER_INITIALIZATION_DATA {
        DRIVER_INITIALIZATION_DATA {
            Version: self.Version,
            DxgkDdiAddDevice: self.DxgkDdiAddDevice,
            DxgkDdiStartDevice: self.DxgkDdiStartDevice,
            DxgkDdiStopDevice: self.DxgkDdiStopDevice,
            DxgkDdiRemoveDevice: self.DxgkDdiRemoveDevice,
            DxgkDdiDispatchIoRequest: self.DxgkDdiDispatchIoRequest,
            DxgkDdiInterruptRoutine: self.DxgkDdiInterruptRoutine,
            DxgkDdiDpcRoutine: self.DxgkDdiDpcRoutine,
            DxgkDdiQueryChildRelations: self.DxgkDdiQueryChildRelations,
            DxgkDdiQueryChildStatus: self.DxgkDdiQueryChildStatus,
            DxgkDdiQueryDeviceDescriptor: self.DxgkDdiQueryDeviceDescriptor,
            DxgkDdiSetPowerState: self.DxgkDdiSetPowerState,
            DxgkDdiNotifyAcpiEvent: self.DxgkDdiNotifyAcpiEvent,
            DxgkDdiResetDevice: self.DxgkDdiResetDevice,
            DxgkDdiUnload: self.DxgkDdiUnload,
            DxgkDdiQueryInterface: self.DxgkDdiQueryInterface,
            DxgkDdiControlEtwLogging: self.DxgkDdiControlEtwLogging,
            DxgkDdiQueryAdapterInfo: self.DxgkDdiQueryAdapterInfo,
            DxgkDdiSetPalette: self.DxgkDdiSetPalette,
            DxgkDdiSetPointerPosition: self.DxgkDdiSetPointerPosition,
            DxgkDdiSetPointerShape: self.DxgkDdiSetPointerShape,
            DxgkDdiEscape: self.DxgkDdiEscape,
            DxgkDdiCollectDbgInfo: self.DxgkDdiCollectDbgInfo,
            DxgkDdiIsSupportedVidPn: self.DxgkDdiIsSupportedVidPn,
            DxgkDdiRecommendFunctionalVidPn: self.DxgkDdiRecommendFunctionalVidPn,
            DxgkDdiEnumVidPnCofuncModality: self.DxgkDdiEnumVidPnCofuncModality,
            DxgkDdiSetVidPnSourceVisibility: self.DxgkDdiSetVidPnSourceVisibility,
            DxgkDdiCommitVidPn: self.DxgkDdiCommitVidPn,
            DxgkDdiUpdateActiveVidPnPresentPath: self.DxgkDdiUpdateActiveVidPnPresentPath,
            DxgkDdiRecommendMonitorModes: self.DxgkDdiRecommendMonitorModes,
            DxgkDdiGetScanLine: self.DxgkDdiGetScanLine,
            DxgkDdiQueryVidPnHWCapability: self.DxgkDdiQueryVidPnHWCapability,
            DxgkDdiStopDeviceAndReleasePostDisplayOwnership: self
                .DxgkDdiStopDeviceAndReleasePostDisplayOwnership,
            DxgkDdiSystemDisplayEnable: self.DxgkDdiSystemDisplayEnable,
            DxgkDdiSystemDisplayWrite: self.DxgkDdiSystemDisplayWrite,
            DxgkDdiGetChildContainerId: self.DxgkDdiGetChildContainerId,
            DxgkDdiControlInterrupt: self.DxgkDdiControlInterrupt,
            DxgkDdiSetPowerComponentFState: self.DxgkDdiSetPowerComponentFState,
            DxgkDdiPowerRuntimeControlRequest: self.DxgkDdiPowerRuntimeControlRequest,
            DxgkDdiNotifySurpriseRemoval: self.DxgkDdiNotifySurpriseRemoval,
            DxgkDdiPowerRuntimeSetDeviceHandle: self.DxgkDdiPowerRuntimeSetDeviceHandle,
            ..DRIVER_INITIALIZATION_DATA::ZERO
        }
    }
}
