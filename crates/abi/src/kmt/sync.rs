//! Synchronization objects of a client.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::{
    D3DDDI_FENCE_INFO, D3DDDI_MAX_BROADCAST_CONTEXT, D3DDDI_MAX_OBJECT_SIGNALED,
    D3DDDI_MAX_OBJECT_WAITED_ON, D3DDDI_SYNCHRONIZATIONOBJECTINFO,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2, D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
    D3DDDICB_SIGNALFLAGS,
};
use crate::{D3DKMT_HANDLE, HANDLE};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATESYNCHRONIZATIONOBJECT {
    pub hDevice: D3DKMT_HANDLE,
    pub Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO,
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DKMT_CREATESYNCHRONIZATIONOBJECT: 76 { hDevice: 0, Info: 4, hSyncObject: 72 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
    pub hDevice: D3DKMT_HANDLE,
    pub Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DKMT_CREATESYNCHRONIZATIONOBJECT2: 96 { hDevice: 0, Info: 8, hSyncObject: 88 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DESTROYSYNCHRONIZATIONOBJECT {
    pub hSyncObject: D3DKMT_HANDLE,
}
layout! { D3DKMT_DESTROYSYNCHRONIZATIONOBJECT: 4 { hSyncObject: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENSYNCHRONIZATIONOBJECT {
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_OPENSYNCHRONIZATIONOBJECT: 72 { hSharedHandle: 0, hSyncObject: 4, Reserved: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_SIGNALED],
    pub Flags: D3DDDICB_SIGNALFLAGS,
}
layout! { D3DKMT_SIGNALSYNCHRONIZATIONOBJECT: 140 {
    hContext: 0, ObjectCount: 4, ObjectHandleArray: 8, Flags: 136,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_SIGNALED],
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
    /// By flags. A union with `Fence`: see [`Self::fence`]. A union with `CpuEventHandle`: see
    /// [`Self::event`].
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2: 464 {
    hContext: 0, ObjectCount: 4, ObjectHandleArray: 8, Flags: 136, BroadcastContextCount: 140,
    BroadcastContext: 144, Reserved: 400,
} }

impl D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
    /// The union's `Fence`.
    pub const fn fence(&self) -> D3DDDI_FENCE_INFO {
        D3DDDI_FENCE_INFO { FenceValue: self.Reserved[0] }
    }

    /// The union's `CpuEventHandle`.
    pub const fn event(&self) -> HANDLE {
        handle(self.Reserved[0])
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_WAITED_ON],
}
layout! { D3DKMT_WAITFORSYNCHRONIZATIONOBJECT: 136 {
    hContext: 0, ObjectCount: 4, ObjectHandleArray: 8,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_WAITED_ON],
    /// A union with `Fence`: see [`Self::fence`].
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2: 200 {
    hContext: 0, ObjectCount: 4, ObjectHandleArray: 8, Reserved: 136,
} }

impl D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
    /// The union's `Fence`.
    pub const fn fence(&self) -> D3DDDI_FENCE_INFO {
        D3DDDI_FENCE_INFO { FenceValue: self.Reserved[0] }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
    pub hDevice: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub FenceValueArray: *const u64,
    pub Flags: D3DDDICB_SIGNALFLAGS,
}
layout! { D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU: 32 {
    hDevice: 0, ObjectCount: 4, ObjectHandleArray: 8, FenceValueArray: 16, Flags: 24,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
    pub hDevice: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub FenceValueArray: *const u64,
    pub hAsyncEvent: HANDLE,
    pub Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
}
layout! { D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU: 40 {
    hDevice: 0, ObjectCount: 4, ObjectHandleArray: 8, FenceValueArray: 16, hAsyncEvent: 24,
    Flags: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    /// A union with `MonitoredFenceValueArray`: see [`Self::values`].
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU: 80 {
    hContext: 0, ObjectCount: 4, ObjectHandleArray: 8, Reserved: 16,
} }

impl D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
    /// The union's `MonitoredFenceValueArray`.
    pub fn values(&self) -> *const u64 {
        address(self.Reserved[0])
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastContextCount: u32,
    pub BroadcastContextArray: *const D3DKMT_HANDLE,
    /// By flags and types. A union with `FenceValue`: see [`Self::value`]. A union with
    /// `CpuEventHandle`: see [`Self::event`]. A union with `MonitoredFenceValueArray`: see
    /// [`Self::values`].
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2: 96 {
    ObjectCount: 0, ObjectHandleArray: 8, Flags: 16, BroadcastContextCount: 20,
    BroadcastContextArray: 24, Reserved: 32,
} }

impl D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
    /// The union's `FenceValue`.
    pub const fn value(&self) -> u64 {
        self.Reserved[0]
    }

    /// The union's `CpuEventHandle`.
    pub const fn event(&self) -> HANDLE {
        handle(self.Reserved[0])
    }

    /// The union's `MonitoredFenceValueArray`.
    pub fn values(&self) -> *const u64 {
        address(self.Reserved[0])
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *const D3DKMT_HANDLE,
    /// By types. A union with `MonitoredFenceValueArray`: see [`Self::values`]. A union with
    /// `FenceValue`: see [`Self::value`].
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU: 80 {
    hContext: 0, ObjectCount: 4, ObjectHandleArray: 8, Reserved: 16,
} }

impl D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
    /// The union's `MonitoredFenceValueArray`.
    pub fn values(&self) -> *const u64 {
        address(self.Reserved[0])
    }

    /// The union's `FenceValue`.
    pub const fn value(&self) -> u64 {
        self.Reserved[0]
    }
}

/// A number in a union as the handle that it stands for: it is never dereferenced.
#[expect(clippy::cast_possible_truncation, reason = "these are the layouts of 64-bit Windows")]
const fn handle(number: u64) -> HANDLE {
    core::ptr::without_provenance_mut(number as usize)
}

/// A number of a union as the pointer it stands for.
#[expect(clippy::cast_possible_truncation, reason = "these are the layouts of 64-bit Windows")]
fn address(number: u64) -> *const u64 {
    core::ptr::with_exposed_provenance(number as usize)
}
