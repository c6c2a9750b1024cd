//! Ownership of display sources, and limits on presents.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::D3DDDI_VIDEO_PRESENT_SOURCE_ID;
use crate::{D3DKMT_HANDLE, HANDLE};

values! { D3DKMT_VIDPNSOURCEOWNER_TYPE {
    D3DKMT_VIDPNSOURCEOWNER_UNOWNED = 0,
    D3DKMT_VIDPNSOURCEOWNER_SHARED = 1,
    D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE = 2,
    D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI = 3,
    D3DKMT_VIDPNSOURCEOWNER_EMULATED = 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETVIDPNSOURCEOWNER {
    pub hDevice: D3DKMT_HANDLE,
    pub pType: *const D3DKMT_VIDPNSOURCEOWNER_TYPE,
    pub pVidPnSourceId: *const D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub VidPnSourceCount: u32,
}
layout! { D3DKMT_SETVIDPNSOURCEOWNER: 32 {
    hDevice: 0, pType: 8, pVidPnSourceId: 16, VidPnSourceCount: 24,
} }

flags! { D3DKMT_VIDPNSOURCEOWNER_FLAGS {
    AllowOutputDuplication: 0,
    DisableDWMVirtualMode: 1,
    UseNtHandles: 2,
} }

// Since 1.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETVIDPNSOURCEOWNER1 {
    pub Version0: D3DKMT_SETVIDPNSOURCEOWNER,
    pub Flags: D3DKMT_VIDPNSOURCEOWNER_FLAGS,
}
layout! { D3DKMT_SETVIDPNSOURCEOWNER1: 40 { Version0: 0, Flags: 32 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP {
    pub hAdapter: D3DKMT_HANDLE,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
}
layout! { D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP: 8 { hAdapter: 0, VidPnSourceId: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CHECKOCCLUSION {
    pub hWindow: HANDLE,
}
layout! { D3DKMT_CHECKOCCLUSION: 8 { hWindow: 0 } }

values! { D3DKMT_QUEUEDLIMIT_TYPE {
    D3DKMT_SET_QUEUEDLIMIT_PRESENT = 1,
    D3DKMT_GET_QUEUEDLIMIT_PRESENT = 2,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETQUEUEDLIMIT {
    pub hDevice: D3DKMT_HANDLE,
    pub Type: D3DKMT_QUEUEDLIMIT_TYPE,
    /// A union with `VidPnSourceId`: see [`Self::source`], for pending flips.
    pub QueuedPresentLimit: u32,
    pub QueuedPendingFlipLimit: u32,
}
layout! { D3DKMT_SETQUEUEDLIMIT: 16 {
    hDevice: 0, Type: 4, QueuedPresentLimit: 8, QueuedPendingFlipLimit: 12,
} }

impl D3DKMT_SETQUEUEDLIMIT {
    /// The union's `VidPnSourceId`.
    pub const fn source(&self) -> D3DDDI_VIDEO_PRESENT_SOURCE_ID {
        self.QueuedPresentLimit
    }
}
