//! Keyed mutexes.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{D3DKMT_HANDLE, LARGE_INTEGER};
use core::ffi::c_void;

flags! { D3DKMT_CREATEKEYEDMUTEX2_FLAGS { NtSecuritySharing: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATEKEYEDMUTEX {
    pub InitialValue: u64,
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
}
layout! { D3DKMT_CREATEKEYEDMUTEX: 16 { InitialValue: 0, hSharedHandle: 8, hKeyedMutex: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATEKEYEDMUTEX2 {
    pub InitialValue: u64,
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *const c_void,
    pub PrivateRuntimeDataSize: u32,
    pub Flags: D3DKMT_CREATEKEYEDMUTEX2_FLAGS,
}
layout! { D3DKMT_CREATEKEYEDMUTEX2: 32 {
    InitialValue: 0, hSharedHandle: 8, hKeyedMutex: 12, pPrivateRuntimeData: 16,
    PrivateRuntimeDataSize: 24, Flags: 28,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENKEYEDMUTEX {
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
}
layout! { D3DKMT_OPENKEYEDMUTEX: 8 { hSharedHandle: 0, hKeyedMutex: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENKEYEDMUTEX2 {
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}
layout! { D3DKMT_OPENKEYEDMUTEX2: 24 {
    hSharedHandle: 0, hKeyedMutex: 4, pPrivateRuntimeData: 8, PrivateRuntimeDataSize: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DESTROYKEYEDMUTEX {
    pub hKeyedMutex: D3DKMT_HANDLE,
}
layout! { D3DKMT_DESTROYKEYEDMUTEX: 4 { hKeyedMutex: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ACQUIREKEYEDMUTEX {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub pTimeout: *const LARGE_INTEGER,
    pub FenceValue: u64,
}
layout! { D3DKMT_ACQUIREKEYEDMUTEX: 32 { hKeyedMutex: 0, Key: 8, pTimeout: 16, FenceValue: 24 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ACQUIREKEYEDMUTEX2 {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub pTimeout: *const LARGE_INTEGER,
    pub FenceValue: u64,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}
layout! { D3DKMT_ACQUIREKEYEDMUTEX2: 48 {
    hKeyedMutex: 0, Key: 8, pTimeout: 16, FenceValue: 24, pPrivateRuntimeData: 32,
    PrivateRuntimeDataSize: 40,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_RELEASEKEYEDMUTEX {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub FenceValue: u64,
}
layout! { D3DKMT_RELEASEKEYEDMUTEX: 24 { hKeyedMutex: 0, Key: 8, FenceValue: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_RELEASEKEYEDMUTEX2 {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub FenceValue: u64,
    pub pPrivateRuntimeData: *const c_void,
    pub PrivateRuntimeDataSize: u32,
}
layout! { D3DKMT_RELEASEKEYEDMUTEX2: 40 {
    hKeyedMutex: 0, Key: 8, FenceValue: 16, pPrivateRuntimeData: 24, PrivateRuntimeDataSize: 32,
} }
