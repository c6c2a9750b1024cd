//! The tables have the lengths and slots their version says.

use crate::display::{DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WDDM3_1};
use crate::miniport::{DRIVER_INITIALIZATION_DATA, DXGKRNL_INTERFACE, KMDDOD_INITIALIZATION_DATA};
use crate::{HANDLE, NTSTATUS, status};

#[test]
fn a_table_is_as_long_as_its_version_says() {
    let version = DXGKDDI_INTERFACE_VERSION_WDDM3_1;
    let init = size_of::<DRIVER_INITIALIZATION_DATA>();
    let interface = size_of::<DXGKRNL_INTERFACE>();
    assert_eq!(DRIVER_INITIALIZATION_DATA::length(version), Some(init));
    assert_eq!(DXGKRNL_INTERFACE::length(version), Some(interface));
    let display_only = size_of::<KMDDOD_INITIALIZATION_DATA>();
    assert_eq!(KMDDOD_INITIALIZATION_DATA::length(version), Some(display_only));
    assert_eq!(8 + 8 * KMDDOD_INITIALIZATION_DATA::SLOTS.len(), display_only);
    assert_eq!(8 + 8 * DRIVER_INITIALIZATION_DATA::SLOTS.len(), init);
    assert_eq!(16 + 8 * DXGKRNL_INTERFACE::SLOTS.len(), interface);
    assert_eq!(DRIVER_INITIALIZATION_DATA::length(0x5022), None);
}

#[test]
fn a_later_version_is_never_shorter() {
    let init = DRIVER_INITIALIZATION_DATA::LENGTHS;
    for lengths in [init, DXGKRNL_INTERFACE::LENGTHS, KMDDOD_INITIALIZATION_DATA::LENGTHS] {
        assert!(lengths.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert!(lengths.iter().map(|row| row.0).eq(init.iter().map(|row| row.0)));
    }
}

#[test]
fn a_version_has_the_slots_within_its_length() {
    extern "win64-unwind" fn function() -> NTSTATUS {
        status::STATUS_SUCCESS
    }
    let table = DRIVER_INITIALIZATION_DATA {
        DxgkDdiSetVideoProtectedRegion: Some(function),
        DxgkDdiCheckMultiPlaneOverlaySupport3: Some(function),
        ..DRIVER_INITIALIZATION_DATA::ZERO
    };
    let last = "DxgkDdiSetVideoProtectedRegion";
    assert!(table.up_to(DXGKDDI_INTERFACE_VERSION_WDDM2_0).filled().eq([last]));
    let both = [last, "DxgkDdiCheckMultiPlaneOverlaySupport3"];
    assert!(table.up_to(DXGKDDI_INTERFACE_VERSION_WDDM3_1).filled().eq(both));
}

#[test]
fn a_display_only_table_is_a_full_one_without_its_present() {
    extern "win64-unwind" fn function() -> NTSTATUS {
        status::STATUS_SUCCESS
    }
    let table = KMDDOD_INITIALIZATION_DATA {
        Version: DXGKDDI_INTERFACE_VERSION_WDDM2_0,
        DxgkDdiCommitVidPn: Some(function),
        DxgkDdiPresentDisplayOnly: Some(function),
        ..KMDDOD_INITIALIZATION_DATA::ZERO
    };
    let full = table.as_full_table();
    assert_eq!(full.Version, DXGKDDI_INTERFACE_VERSION_WDDM2_0);
    assert!(full.filled().eq(["DxgkDdiCommitVidPn"]));
    let names = DRIVER_INITIALIZATION_DATA::SLOTS;
    let alone = KMDDOD_INITIALIZATION_DATA::SLOTS.iter().filter(|slot| !names.contains(slot));
    assert!(alone.eq(&["DxgkDdiPresentDisplayOnly"]));
}

#[test]
fn filled_slots_are_named_in_order() {
    extern "win64-unwind" fn unload() {}
    extern "win64-unwind" fn destroy(_: HANDLE) -> NTSTATUS {
        status::STATUS_SUCCESS
    }
    let table = DRIVER_INITIALIZATION_DATA {
        DxgkDdiDestroyDevice: Some(destroy),
        DxgkDdiUnload: Some(unload),
        ..DRIVER_INITIALIZATION_DATA::ZERO
    };
    assert!(table.filled().eq(["DxgkDdiUnload", "DxgkDdiDestroyDevice"]));
    assert_eq!(DRIVER_INITIALIZATION_DATA::ZERO.filled().count(), 0);
}
