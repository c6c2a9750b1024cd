//! Locks of resources.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::HANDLE;
use crate::ukm::D3DGPU_VIRTUAL_ADDRESS;
use core::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIBOX {
    pub Left: u32,
    pub Top: u32,
    pub Right: u32,
    pub Bottom: u32,
    pub Front: u32,
    pub Back: u32,
}
layout! { D3DDDIBOX: 24 { Left: 0, Top: 4, Right: 8, Bottom: 12, Front: 16, Back: 20 } }

flags! { D3DDDI_LOCKFLAGS { ReadOnly: 0, WriteOnly: 1, NoOverwrite: 2, Discard: 3, RangeValid: 4, AreaValid: 5, BoxValid: 6, NotifyOnly: 7, MightDrawFromLocked: 8, DoNotWait: 9 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_LOCK {
    pub hResource: HANDLE,
    pub SubResourceIndex: u32,
    pub Box: D3DDDIBOX,
    pub pSurfData: *mut c_void,
    pub Pitch: u32,
    pub SlicePitch: u32,
    pub Flags: D3DDDI_LOCKFLAGS,
}
layout! { D3DDDIARG_LOCK: 64 { hResource: 0, SubResourceIndex: 8, Box: 12, pSurfData: 40, Pitch: 48, SlicePitch: 52, Flags: 56 } }

flags! { D3DDDI_UNLOCKFLAGS { NotifyOnly: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_UNLOCK {
    pub hResource: HANDLE,
    pub SubResourceIndex: u32,
    pub Flags: D3DDDI_UNLOCKFLAGS,
}
layout! { D3DDDIARG_UNLOCK: 16 { hResource: 0, SubResourceIndex: 8, Flags: 12 } }

flags! { D3DDDI_LOCKASYNCFLAGS { NoOverwrite: 0, Discard: 1, RangeValid: 2, AreaValid: 3, BoxValid: 4, NoExistingReferences: 5, NotifyOnly: 6 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_LOCKASYNC {
    pub hResource: HANDLE,
    pub SubResourceIndex: u32,
    pub Flags: D3DDDI_LOCKASYNCFLAGS,
    pub Box: D3DDDIBOX,
    pub hCookie: HANDLE,
    pub pSurfData: *mut c_void,
    pub Pitch: u32,
    pub SlicePitch: u32,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DDDIARG_LOCKASYNC: 72 { hResource: 0, SubResourceIndex: 8, Flags: 12, Box: 16, hCookie: 40, pSurfData: 48, Pitch: 56, SlicePitch: 60, GpuVirtualAddress: 64 } }

flags! { D3DDDI_UNLOCKASYNCFLAGS { NotifyOnly: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_UNLOCKASYNC {
    pub hResource: HANDLE,
    pub SubResourceIndex: u32,
    pub Flags: D3DDDI_UNLOCKASYNCFLAGS,
}
layout! { D3DDDIARG_UNLOCKASYNC: 16 { hResource: 0, SubResourceIndex: 8, Flags: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDIARG_RENAME {
    pub hResource: HANDLE,
    pub SubResourceIndex: u32,
    pub hCookie: HANDLE,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DDDIARG_RENAME: 32 { hResource: 0, SubResourceIndex: 8, hCookie: 16, GpuVirtualAddress: 24 } }
