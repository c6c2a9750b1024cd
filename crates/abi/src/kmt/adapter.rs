//! Ways to enumerate and to open adapters, besides those by LUID.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::D3DKMT_ADAPTERINFO;
use crate::ukm::D3DDDI_VIDEO_PRESENT_SOURCE_ID;
use crate::{D3DKMT_HANDLE, HANDLE, LUID, WCHAR};

pub const MAX_ENUM_ADAPTERS: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ENUMADAPTERS {
    pub NumAdapters: u32,
    pub Adapters: [D3DKMT_ADAPTERINFO; MAX_ENUM_ADAPTERS],
}
layout! { D3DKMT_ENUMADAPTERS: 324 { NumAdapters: 0, Adapters: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME {
    pub DeviceName: [WCHAR; 32],
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
}
layout! { D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME: 80 {
    DeviceName: 0, hAdapter: 64, AdapterLuid: 68, VidPnSourceId: 76,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENADAPTERFROMDEVICENAME {
    pub pDeviceName: *const WCHAR,
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
}
layout! { D3DKMT_OPENADAPTERFROMDEVICENAME: 24 { pDeviceName: 0, hAdapter: 8, AdapterLuid: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENADAPTERFROMHDC {
    pub hDc: HANDLE,
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
}
layout! { D3DKMT_OPENADAPTERFROMHDC: 24 {
    hDc: 0, hAdapter: 8, AdapterLuid: 12, VidPnSourceId: 20,
} }
