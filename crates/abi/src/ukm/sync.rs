//! Synchronization objects: definitions that both modes share.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::D3DGPU_VIRTUAL_ADDRESS;
use crate::{BOOL, D3DKMT_HANDLE, HANDLE};
use core::ffi::c_void;

pub const D3DDDI_MAX_OBJECT_WAITED_ON: usize = 32;
pub const D3DDDI_MAX_OBJECT_SIGNALED: usize = 32;

values! { D3DDDI_SYNCHRONIZATIONOBJECT_TYPE {
    D3DDDI_SYNCHRONIZATION_MUTEX = 1,
    D3DDDI_SEMAPHORE = 2,
    D3DDDI_FENCE = 3,
    D3DDDI_CPU_NOTIFICATION = 4,
    D3DDDI_MONITORED_FENCE = 5,
    D3DDDI_PERIODIC_MONITORED_FENCE = 6, // since 2.2
} }

flags! { D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    Shared: 0,
    NtSecuritySharing: 1,
    CrossAdapter: 2,
    TopOfPipeline: 3,
    NoSignal: 4,
    NoWait: 5,
    NoSignalMaxValueOnTdr: 6,
    NoGPUAccess: 7,
    SignalByKmd: 8, // since 3.1
    UnwaitCpuWaitersOnlyOnDestroy: 10, // since 3.2
} }

flags! { D3DDDICB_SIGNALFLAGS {
    SignalAtSubmission: 0,
    EnqueueCpuEvent: 1,
    AllowFenceRewind: 2,
} }

flags! { D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS { WaitAny: 0 } }

/// Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_SYNCHRONIZATIONMUTEX_INFO {
    pub InitialState: BOOL,
}
layout! { D3DDDI_SYNCHRONIZATIONMUTEX_INFO: 4 { InitialState: 0 } }

/// Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_SEMAPHORE_INFO {
    pub MaxCount: u32,
    pub InitialCount: u32,
}
layout! { D3DDDI_SEMAPHORE_INFO: 8 { MaxCount: 0, InitialCount: 4 } }

/// Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_FENCE_INFO {
    pub FenceValue: u64,
}
layout! { D3DDDI_FENCE_INFO: 8 { FenceValue: 0 } }

/// Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_CPUNOTIFICATION_INFO {
    pub Event: HANDLE,
}
layout! { D3DDDI_CPUNOTIFICATION_INFO: 8 { Event: 0 } }

/// Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_MONITOREDFENCE_INFO {
    pub InitialFenceValue: u64,
    pub FenceValueCPUVirtualAddress: *mut c_void,
    pub FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub EngineAffinity: u32,
    pub Padding: u32,
}
layout! { D3DDDI_MONITOREDFENCE_INFO: 32 {
    InitialFenceValue: 0, FenceValueCPUVirtualAddress: 8, FenceValueGPUVirtualAddress: 16,
    EngineAffinity: 24, Padding: 28,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO {
    pub Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
    /// By type. A union with `SynchronizationMutex`: see [`Self::mutex`]. A union with
    /// `Semaphore`: see [`Self::semaphore`].
    pub Reserved: [u32; 16],
}
layout! { D3DDDI_SYNCHRONIZATIONOBJECTINFO: 68 { Type: 0, Reserved: 4 } }

impl D3DDDI_SYNCHRONIZATIONOBJECTINFO {
    /// The union's `SynchronizationMutex`.
    pub const fn mutex(&self) -> D3DDDI_SYNCHRONIZATIONMUTEX_INFO {
        D3DDDI_SYNCHRONIZATIONMUTEX_INFO { InitialState: self.Reserved[0].cast_signed() }
    }

    /// The union's `Semaphore`.
    pub const fn semaphore(&self) -> D3DDDI_SEMAPHORE_INFO {
        D3DDDI_SEMAPHORE_INFO { MaxCount: self.Reserved[0], InitialCount: self.Reserved[1] }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
    pub Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
    pub Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    /// By type. A union with `SynchronizationMutex`: see [`Self::mutex`]. A union with
    /// `Semaphore`: see [`Self::semaphore`]. A union with `Fence`: see [`Self::fence`]. A union
    /// with `CPUNotification`: see [`Self::notification`]. A union with `MonitoredFence`: see
    /// [`Self::monitored`].
    pub Reserved: [u64; 8],
    pub SharedHandle: D3DKMT_HANDLE,
}
layout! { D3DDDI_SYNCHRONIZATIONOBJECTINFO2: 80 {
    Type: 0, Flags: 4, Reserved: 8, SharedHandle: 72,
} }

impl D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
    /// The union's `SynchronizationMutex`.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn mutex(&self) -> D3DDDI_SYNCHRONIZATIONMUTEX_INFO {
        D3DDDI_SYNCHRONIZATIONMUTEX_INFO { InitialState: (self.Reserved[0] as u32).cast_signed() }
    }

    /// The union's `Semaphore`.
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    pub const fn semaphore(&self) -> D3DDDI_SEMAPHORE_INFO {
        let both = self.Reserved[0];
        D3DDDI_SEMAPHORE_INFO { MaxCount: both as u32, InitialCount: (both >> 32) as u32 }
    }

    /// The union's `Fence`.
    pub const fn fence(&self) -> D3DDDI_FENCE_INFO {
        D3DDDI_FENCE_INFO { FenceValue: self.Reserved[0] }
    }

    /// The union's `CPUNotification`.
    pub const fn notification(&self) -> D3DDDI_CPUNOTIFICATION_INFO {
        D3DDDI_CPUNOTIFICATION_INFO { Event: pointer(self.Reserved[0]) }
    }

    /// The union's `MonitoredFence`.
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    pub const fn monitored(&self) -> D3DDDI_MONITOREDFENCE_INFO {
        D3DDDI_MONITOREDFENCE_INFO {
            InitialFenceValue: self.Reserved[0],
            FenceValueCPUVirtualAddress: pointer(self.Reserved[1]),
            FenceValueGPUVirtualAddress: self.Reserved[2],
            EngineAffinity: self.Reserved[3] as u32,
            Padding: (self.Reserved[3] >> 32) as u32,
        }
    }

    /// Sets the union's `FenceValueCPUVirtualAddress`.
    pub const fn set_value_address(&mut self, address: usize) {
        self.Reserved[1] = address as u64;
    }
}

/// A number in a union as the pointer that it stands for: it is never dereferenced here.
#[expect(clippy::cast_possible_truncation, reason = "these are the layouts of 64-bit Windows")]
const fn pointer(number: u64) -> *mut c_void {
    core::ptr::without_provenance_mut(number as usize)
}
