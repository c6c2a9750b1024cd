//! Entry rules on a display-only driver: its table and its capabilities.

use abi::display::DXGK_DRIVERCAPS;
use abi::miniport::DRIVER_INITIALIZATION_DATA;

/// Entry rule: a driver controls vsync with four entries, or has neither of the first two.
pub(crate) fn vsync_error(table: &DRIVER_INITIALIZATION_DATA) -> Option<String> {
    let entries = [
        ("DxgkDdiControlInterrupt", table.DxgkDdiControlInterrupt.is_some()),
        ("DxgkDdiGetScanLine", table.DxgkDdiGetScanLine.is_some()),
        ("DxgkDdiInterruptRoutine", table.DxgkDdiInterruptRoutine.is_some()),
        ("DxgkDdiDpcRoutine", table.DxgkDdiDpcRoutine.is_some()),
    ];
    let names = |present: bool, entries: &[(&'static str, bool)]| -> Vec<&'static str> {
        entries.iter().filter(|entry| entry.1 == present).map(|entry| entry.0).collect()
    };
    let claims = names(true, &entries[..2]);
    let missing = names(false, &entries);
    (!claims.is_empty() && !missing.is_empty()).then(|| {
        format!(
            "the driver has {} and no {}: a display-only driver that controls vsync has all four \
             entries, any other one neither DxgkDdiControlInterrupt nor DxgkDdiGetScanLine",
            claims.join(" and "),
            missing.join(", no ")
        )
    })
}

/// Entry rule: the least that a display-only driver reports.
pub(crate) fn caps_error(caps: &DXGK_DRIVERCAPS) -> Option<String> {
    let members = [
        ("WDDMVersion", caps.WDDMVersion == 0),
        ("SupportNonVGA", caps.SupportNonVGA == 0),
        ("SupportSmoothRotation", caps.SupportSmoothRotation == 0),
    ];
    let missing: Vec<&str> = members.iter().filter(|pair| pair.1).map(|pair| pair.0).collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(" and ");
        format!("the capabilities of a display-only driver lack {missing}, which is zero")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::DXGKDDI_WDDMv1_2;
    use abi::{BOOLEAN, HANDLE, NTSTATUS, PVOID};

    extern "win64-unwind" fn control(_: HANDLE, _: i32, _: BOOLEAN) -> NTSTATUS {
        0
    }
    extern "win64-unwind" fn scan() -> NTSTATUS {
        0
    }
    extern "win64-unwind" fn interrupt(_: PVOID, _: u32) -> BOOLEAN {
        0
    }
    extern "win64-unwind" fn dpc(_: PVOID) {}

    #[test]
    fn vsync_control_is_all_or_nothing() {
        let all = DRIVER_INITIALIZATION_DATA {
            DxgkDdiControlInterrupt: Some(control),
            DxgkDdiGetScanLine: Some(scan),
            DxgkDdiInterruptRoutine: Some(interrupt),
            DxgkDdiDpcRoutine: Some(dpc),
            ..DRIVER_INITIALIZATION_DATA::ZERO
        };
        assert_eq!(vsync_error(&all), None);
        assert_eq!(vsync_error(&DRIVER_INITIALIZATION_DATA::ZERO), None);
        let routines = DRIVER_INITIALIZATION_DATA {
            DxgkDdiControlInterrupt: None,
            DxgkDdiGetScanLine: None,
            ..all
        };
        assert_eq!(vsync_error(&routines), None);
        let without = |change: fn(&mut DRIVER_INITIALIZATION_DATA)| {
            let mut table = all;
            change(&mut table);
            vsync_error(&table).unwrap()
        };
        let text = without(|table| table.DxgkDdiGetScanLine = None);
        assert!(
            text.starts_with("the driver has DxgkDdiControlInterrupt and no DxgkDdiGetScanLine:")
        );
        let text = without(|table| table.DxgkDdiDpcRoutine = None);
        assert!(text.contains("DxgkDdiControlInterrupt and DxgkDdiGetScanLine and no DxgkDdiDpc"));
    }

    #[test]
    fn the_least_capabilities_are_named() {
        let caps = DXGK_DRIVERCAPS {
            WDDMVersion: DXGKDDI_WDDMv1_2,
            SupportNonVGA: 1,
            SupportSmoothRotation: 1,
            ..DXGK_DRIVERCAPS::ZERO
        };
        assert_eq!(caps_error(&caps), None);
        let rotation = DXGK_DRIVERCAPS { SupportSmoothRotation: 0, ..caps };
        assert!(caps_error(&rotation).unwrap().contains("lack SupportSmoothRotation, which"));
        let all = caps_error(&DXGK_DRIVERCAPS::ZERO).unwrap();
        assert!(all.contains("lack WDDMVersion and SupportNonVGA and SupportSmoothRotation,"));
    }
}
