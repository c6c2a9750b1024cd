//! The functions of a device, except those that create and destroy resources.

use super::resource::{create_resource, create_resource2, destroy_resource, open_resource};
use super::{Device, area, lock_device, read, read_list, write};
use crate::args::{
    BltArgs, ColorFillArgs, LockArgs, LockAsyncArgs, RenameArgs, ResidencyStatus, Resource,
    UnlockArgs, Volume,
};
use crate::result::{UmdResult, to_hresult};
use abi::hresult::{E_INVALIDARG, S_NOT_RESIDENT, S_OK, S_RESIDENT_IN_SHARED_MEMORY};
use abi::umd::{
    D3DDDI_DEVICEFUNCS, D3DDDI_UNLOCKASYNCFLAGS, D3DDDI_UNLOCKFLAGS, D3DDDIARG_BLT,
    D3DDDIARG_COLORFILL, D3DDDIARG_LOCK, D3DDDIARG_LOCKASYNC, D3DDDIARG_QUERYRESOURCERESIDENCY,
    D3DDDIARG_RENAME, D3DDDIARG_SETPRIORITY, D3DDDIARG_UNLOCK, D3DDDIARG_UNLOCKASYNC, D3DDDIBOX,
};
use abi::{HANDLE, HRESULT};
use std::ptr;
use std::sync::PoisonError;

/// The table: every method of the trait, and no other function.
pub(super) fn functions() -> D3DDDI_DEVICEFUNCS {
    D3DDDI_DEVICEFUNCS {
        pfnCreateResource: Some(create_resource),
        pfnCreateResource2: Some(create_resource2),
        pfnOpenResource: Some(open_resource),
        pfnDestroyResource: Some(destroy_resource),
        pfnLock: Some(lock),
        pfnUnlock: Some(unlock),
        pfnLockAsync: Some(lock_async),
        pfnUnlockAsync: Some(unlock_async),
        pfnRename: Some(rename),
        pfnBlt: Some(blt),
        pfnColorFill: Some(color_fill),
        pfnFlush: Some(flush),
        pfnFlush1: Some(flush1),
        pfnSetPriority: Some(set_priority),
        pfnQueryResourceResidency: Some(query_residency),
        pfnDestroyDevice: Some(destroy_device),
        ..D3DDDI_DEVICEFUNCS::ZERO
    }
}

fn volume(it: D3DDDIBOX) -> Volume {
    Volume { from: [it.Left, it.Top, it.Front], to: [it.Right, it.Bottom, it.Back] }
}

unsafe extern "win64-unwind" fn lock(device: HANDLE, args: *mut D3DDDIARG_LOCK) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let mut request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let locked = unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                let (index, part) = (request.SubResourceIndex, volume(request.Box));
                state.device.lock(&LockArgs { resource, index, volume: part, flags: request.Flags })
            })
        }?;
        request.pSurfData = ptr::with_exposed_provenance_mut(locked.address);
        (request.Pitch, request.SlicePitch) = (locked.pitch, locked.slice_pitch);
        // SAFETY: `args` was read before.
        unsafe { write(args, request) };
        Ok(())
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn unlock(device: HANDLE, args: *const D3DDDIARG_UNLOCK) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        let notify_only = request.Flags.has(D3DDDI_UNLOCKFLAGS::NotifyOnly);
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                state.device.unlock(&UnlockArgs {
                    resource,
                    index: request.SubResourceIndex,
                    notify_only,
                })
            })
        }
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn lock_async(
    device: HANDLE,
    args: *mut D3DDDIARG_LOCKASYNC,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let mut request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let locked = unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                let (index, part) = (request.SubResourceIndex, volume(request.Box));
                state.device.lock_async(&LockAsyncArgs {
                    resource,
                    index,
                    volume: part,
                    flags: request.Flags,
                })
            })
        }?;
        request.pSurfData = ptr::with_exposed_provenance_mut(locked.locked.address);
        (request.Pitch, request.SlicePitch) = (locked.locked.pitch, locked.locked.slice_pitch);
        request.hCookie = ptr::without_provenance_mut(locked.cookie);
        request.GpuVirtualAddress = locked.gpu;
        // SAFETY: `args` was read before.
        unsafe { write(args, request) };
        Ok(())
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn unlock_async(
    device: HANDLE,
    args: *const D3DDDIARG_UNLOCKASYNC,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        let (index, notify_only) =
            (request.SubResourceIndex, request.Flags.has(D3DDDI_UNLOCKASYNCFLAGS::NotifyOnly));
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                state.device.unlock_async(&UnlockArgs { resource, index, notify_only })
            })
        }
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn rename(device: HANDLE, args: *const D3DDDIARG_RENAME) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                let (index, cookie) = (request.SubResourceIndex, request.hCookie.addr());
                let gpu = request.GpuVirtualAddress;
                state.device.rename(&RenameArgs { resource, index, cookie, gpu })
            })
        }
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn blt(device: HANDLE, args: *const D3DDDIARG_BLT) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let driver_args = BltArgs {
                    from: state.find(request.hSrcResource)?,
                    from_index: request.SrcSubResourceIndex,
                    from_area: area(request.SrcRect),
                    to: state.find(request.hDstResource)?,
                    to_index: request.DstSubResourceIndex,
                    to_area: area(request.DstRect),
                    key: request.ColorKey,
                    flags: request.Flags,
                };
                state.device.blt(&driver_args)
            })
        }
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn color_fill(
    device: HANDLE,
    args: *const D3DDDIARG_COLORFILL,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                let (index, color) = (request.SubResourceIndex, request.Color);
                state.device.color_fill(&ColorFillArgs {
                    resource,
                    index,
                    area: area(request.DstRect),
                    color,
                })
            })
        }
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn flush(device: HANDLE) -> HRESULT {
    // SAFETY: Guaranteed by the contract of this module.
    to_hresult(unsafe { lock_device(device, |state| state.device.flush()) })
}

unsafe extern "win64-unwind" fn flush1(device: HANDLE, _flags: u32) -> HRESULT {
    // SAFETY: Guaranteed by the contract of this module.
    to_hresult(unsafe { lock_device(device, |state| state.device.flush()) })
}

unsafe extern "win64-unwind" fn set_priority(
    device: HANDLE,
    args: *const D3DDDIARG_SETPRIORITY,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let resource = state.find(request.hResource)?;
                state.device.set_priority(resource, request.Priority)
            })
        }
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn query_residency(
    device: HANDLE,
    args: *const D3DDDIARG_QUERYRESOURCERESIDENCY,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let handles = unsafe { read_list(request.pHandleList, request.NumResources) }?;
        // SAFETY: Guaranteed by the contract of this module.
        unsafe {
            lock_device(device, |state| {
                let found: UmdResult<Vec<Resource>> =
                    handles.iter().map(|one| state.find(*one)).collect();
                state.device.query_residency(&found?)
            })
        }
    };
    match call() {
        Ok(ResidencyStatus::GpuMemory) => S_OK,
        Ok(ResidencyStatus::SharedMemory) => S_RESIDENT_IN_SHARED_MEMORY,
        Ok(ResidencyStatus::NotResident) => S_NOT_RESIDENT,
        Err(failure) => failure,
    }
}

unsafe extern "win64-unwind" fn destroy_device(device: HANDLE) -> HRESULT {
    if device.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: By the contract of this module the handle is a live box, used for the last time.
    let device = unsafe { Box::from_raw(device.cast::<Device>()) };
    let mut inside = device.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    to_hresult(inside.device.end())
}
