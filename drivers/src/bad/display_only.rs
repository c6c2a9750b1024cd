//! Bad drivers: display-only drivers.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::display_only::{DISPLAY_ONLY, query_adapter_info, refuse};
use abi::miniport::{DXGK_CHILD_STATUS, KMDDOD_INITIALIZATION_DATA};
use abi::status::STATUS_SUCCESS;
use abi::{BOOLEAN, NTSTATUS, PVOID};

/// Reports no smooth rotation.
pub(crate) const OMITS_SMOOTH_ROTATION: KMDDOD_INITIALIZATION_DATA = KMDDOD_INITIALIZATION_DATA {
    DxgkDdiQueryAdapterInfo: Some(query_adapter_info::<0>),
    ..DISPLAY_ONLY
};

/// Has a scan line, and cannot control vsync.
pub(crate) const HALVES_VSYNC_CONTROL: KMDDOD_INITIALIZATION_DATA =
    KMDDOD_INITIALIZATION_DATA { DxgkDdiGetScanLine: Some(refuse), ..DISPLAY_ONLY };

/// Does not say whether a display is connected.
pub(crate) const OMITS_CHILD_STATUS: KMDDOD_INITIALIZATION_DATA = KMDDOD_INITIALIZATION_DATA {
    DxgkDdiQueryChildStatus: Some(omits_child_status),
    ..DISPLAY_ONLY
};

/// Succeeds, and leaves `HotPlug.Connected` as it was.
unsafe extern "win64-unwind" fn omits_child_status(
    _context: PVOID,
    _status: *mut DXGK_CHILD_STATUS,
    _non_destructive: BOOLEAN,
) -> NTSTATUS {
    STATUS_SUCCESS
}
