//! The two tables have the lengths and slots their version says.

use crate::display::DXGKDDI_INTERFACE_VERSION_WDDM2_0;
use crate::miniport::{DRIVER_INITIALIZATION_DATA, DXGKRNL_INTERFACE};
use crate::{HANDLE, NTSTATUS, status};

#[test]
fn a_table_is_as_long_as_its_version_says() {
    let version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    let init = size_of::<DRIVER_INITIALIZATION_DATA>();
    let interface = size_of::<DXGKRNL_INTERFACE>();
    assert_eq!(DRIVER_INITIALIZATION_DATA::length(version), Some(init));
    assert_eq!(DXGKRNL_INTERFACE::length(version), Some(interface));
    assert_eq!(8 + 8 * DRIVER_INITIALIZATION_DATA::SLOTS.len(), init);
    assert_eq!(16 + 8 * DXGKRNL_INTERFACE::SLOTS.len(), interface);
    assert_eq!(DRIVER_INITIALIZATION_DATA::length(0x5022), None);
}

#[test]
fn a_later_version_is_never_shorter() {
    for lengths in [DRIVER_INITIALIZATION_DATA::LENGTHS, DXGKRNL_INTERFACE::LENGTHS] {
        assert!(lengths.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
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
