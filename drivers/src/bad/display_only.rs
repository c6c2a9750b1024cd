//! Bad drivers: display-only drivers.

use crate::display_only::{DISPLAY_ONLY, query_adapter_info, refuse};
use abi::miniport::KMDDOD_INITIALIZATION_DATA;

/// Reports no smooth rotation.
pub(crate) const OMITS_SMOOTH_ROTATION: KMDDOD_INITIALIZATION_DATA = KMDDOD_INITIALIZATION_DATA {
    DxgkDdiQueryAdapterInfo: Some(query_adapter_info::<0>),
    ..DISPLAY_ONLY
};

/// Has a scan line, and cannot control vsync.
pub(crate) const HALVES_VSYNC_CONTROL: KMDDOD_INITIALIZATION_DATA =
    KMDDOD_INITIALIZATION_DATA { DxgkDdiGetScanLine: Some(refuse), ..DISPLAY_ONLY };
