//! Small requests about contexts, devices and adapters.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{BOOL, D3DKMT_HANDLE};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    pub Priority: i32,
}
layout! { D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY: 8 { hContext: 0, Priority: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    pub Priority: i32,
}
layout! { D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY: 8 { hContext: 0, Priority: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_FLUSHHEAPTRANSITIONS {
    pub hAdapter: D3DKMT_HANDLE,
}
layout! { D3DKMT_FLUSHHEAPTRANSITIONS: 4 { hAdapter: 0 } }

/// Why a client calls its device broken (`D3DKMT_DEVICE_ERROR_REASON`).
pub const D3DKMT_DEVICE_ERROR_REASON_GENERIC: u32 = 0x8000_0000;
/// A driver's error.
pub const D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR: u32 = 0x8000_0006;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_MARKDEVICEASERROR {
    pub hDevice: D3DKMT_HANDLE,
    pub Reason: u32,
}
layout! { D3DKMT_MARKDEVICEASERROR: 8 { hDevice: 0, Reason: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETSTABLEPOWERSTATE {
    pub hAdapter: D3DKMT_HANDLE,
    pub Enabled: BOOL,
}
layout! { D3DKMT_SETSTABLEPOWERSTATE: 8 { hAdapter: 0, Enabled: 4 } }

// Since 2.0, like the next: of systems whose host runs the driver.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SHAREOBJECTWITHHOST {
    pub hDevice: D3DKMT_HANDLE,
    pub hObject: D3DKMT_HANDLE,
    pub Reserved: u64,
    pub hVailProcessNtHandle: u64,
}
layout! { D3DKMT_SHAREOBJECTWITHHOST: 24 {
    hDevice: 0, hObject: 4, Reserved: 8, hVailProcessNtHandle: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATESYNCFILE {
    pub hDevice: D3DKMT_HANDLE,
    pub hMonitoredFence: D3DKMT_HANDLE,
    pub FenceValue: u64,
    pub hSyncFile: u64,
}
layout! { D3DKMT_CREATESYNCFILE: 24 {
    hDevice: 0, hMonitoredFence: 4, FenceValue: 8, hSyncFile: 16,
} }
