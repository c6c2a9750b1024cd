//! The slots of `DRIVER_INITIALIZATION_DATA` that nothing calls yet, by what they wait for.

/// What is missing, and the DDIs that are not called for it. With the DDI table of the kernel
/// these are all slots of the table but the reserved ones.
pub const UNCALLED: &[(&str, &[&str])] = &[
    (
        "no display output",
        &[
            "DxgkDdiQueryChildRelations",
            "DxgkDdiQueryChildStatus",
            "DxgkDdiQueryDeviceDescriptor",
            "DxgkDdiGetChildContainerId",
            "DxgkDdiSetPalette",
            "DxgkDdiSetPointerPosition",
            "DxgkDdiSetPointerShape",
            "DxgkDdiIsSupportedVidPn",
            "DxgkDdiRecommendFunctionalVidPn",
            "DxgkDdiEnumVidPnCofuncModality",
            "DxgkDdiSetVidPnSourceAddress",
            "DxgkDdiSetVidPnSourceVisibility",
            "DxgkDdiCommitVidPn",
            "DxgkDdiUpdateActiveVidPnPresentPath",
            "DxgkDdiRecommendMonitorModes",
            "DxgkDdiRecommendVidPnTopology",
            "DxgkDdiQueryVidPnHWCapability",
            "DxgkDdiGetScanLine",
            "DxgkDdiStopCapture",
            "DxgkDdiControlInterrupt2",
            "DxgkDdiSetDisplayPrivateDriverFormat",
            "DxgkDdiSystemDisplayEnable",
            "DxgkDdiSystemDisplayWrite",
        ],
    ),
    (
        "no overlays",
        &[
            "DxgkDdiCreateOverlay",
            "DxgkDdiUpdateOverlay",
            "DxgkDdiFlipOverlay",
            "DxgkDdiDestroyOverlay",
            "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay",
            "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2",
            "DxgkDdiCheckMultiPlaneOverlaySupport",
            "DxgkDdiCheckMultiPlaneOverlaySupport2",
        ],
    ),
    ("no swizzling ranges", &["DxgkDdiAcquireSwizzlingRange", "DxgkDdiReleaseSwizzlingRange"]),
    (
        "no page tables of WDDM 1.x",
        &[
            "DxgkDdiDescribePageTable",
            "DxgkDdiUpdatePageTable",
            "DxgkDdiUpdatePageDirectory",
            "DxgkDdiMovePageDirectory",
        ],
    ),
    (
        "no presents, and no rendering of the kernel's own",
        &["DxgkDdiRenderKm", "DxgkDdiRenderGdi", "DxgkDdiPresent", "DxgkDdiSubmitRender"],
    ),
    (
        "no power management but of the whole adapter",
        &[
            "DxgkDdiSetPowerComponentFState",
            "DxgkDdiSetPowerPState",
            "DxgkDdiSetStablePowerState",
            "DxgkDdiPowerRuntimeControlRequest",
            "DxgkDdiPowerRuntimeSetDeviceHandle",
            "DxgkDdiNotifyAcpiEvent",
        ],
    ),
    ("no history buffers", &["DxgkDdiFormatHistoryBuffer", "DxgkDdiCalibrateGpuClock"]),
    ("nothing reads it yet", &["DxgkDdiGetNodeMetadata"]),
    (
        "nobody asks for it yet",
        &[
            "DxgkDdiDispatchIoRequest",
            "DxgkDdiQueryInterface",
            "DxgkDdiControlEtwLogging",
            "DxgkDdiLinkDevice",
            "DxgkDdiCreateAllocation2",
            "DxgkDdiSetVideoProtectedRegion",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use abi::miniport::DRIVER_INITIALIZATION_DATA;
    use kernel::ddi::NAMES;

    #[test]
    fn a_slot_is_called_or_waits_for_something() {
        let waiting: Vec<&str> = UNCALLED.iter().flat_map(|it| it.1).copied().collect();
        for slot in DRIVER_INITIALIZATION_DATA::SLOTS.iter().filter(|it| it.starts_with("Dxgk")) {
            let lines = waiting.iter().filter(|it| *it == slot).count();
            let called = NAMES.contains(slot);
            assert_eq!(lines, usize::from(!called), "{slot}, called: {called}");
        }
        for name in waiting {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(&name), "{name} is no slot");
        }
    }
}
