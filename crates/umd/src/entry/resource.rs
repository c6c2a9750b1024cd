//! Creates, opens and destroys resources.

use super::{lock_device, read, read_list, surface_memory, write};
use crate::args::{
    CreateResourceArgs, OpenAllocationInfo, OpenResourceArgs, RuntimeResource, Surface,
};
use crate::memory::MemoryAccess;
use crate::result::{UmdResult, to_hresult};
use abi::ukm::D3DDDI_OPENALLOCATIONINFO;
use abi::umd::{
    D3DDDI_SURFACEINFO, D3DDDIARG_CREATERESOURCE, D3DDDIARG_CREATERESOURCE2, D3DDDIARG_OPENRESOURCE,
};
use abi::{HANDLE, HRESULT};

pub(super) unsafe extern "win64-unwind" fn create_resource(
    device: HANDLE,
    args: *mut D3DDDIARG_CREATERESOURCE,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let mut request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        request.hResource = unsafe { create(device, &request, 0) }?;
        // SAFETY: `args` was read before.
        unsafe { write(args, request) };
        Ok(())
    };
    to_hresult(call())
}

pub(super) unsafe extern "win64-unwind" fn create_resource2(
    device: HANDLE,
    args: *mut D3DDDIARG_CREATERESOURCE2,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let mut request = unsafe { read(args) }?;
        let first = D3DDDIARG_CREATERESOURCE {
            Format: request.Format,
            Pool: request.Pool,
            MultisampleType: request.MultisampleType,
            MultisampleQuality: request.MultisampleQuality,
            pSurfList: request.pSurfList,
            SurfCount: request.SurfCount,
            MipLevels: request.MipLevels,
            Fvf: request.Fvf,
            VidPnSourceId: request.VidPnSourceId,
            RefreshRate: request.RefreshRate,
            hResource: request.hResource,
            Flags: request.Flags,
            Rotation: request.Rotation,
        };
        // SAFETY: Guaranteed by the contract of this module.
        request.hResource = unsafe { create(device, &first, request.Flags2.Value) }?;
        // SAFETY: `args` was read before.
        unsafe { write(args, request) };
        Ok(())
    };
    to_hresult(call())
}

/// Creates a resource.
///
/// # Safety
///
/// As for this module's functions.
unsafe fn create(
    device: HANDLE,
    request: &D3DDDIARG_CREATERESOURCE,
    flags2: u32,
) -> UmdResult<HANDLE> {
    // SAFETY: The caller guarantees it.
    let surfaces = unsafe { read_list(request.pSurfList, request.SurfCount) }?;
    let driver_args = |host| CreateResourceArgs {
        runtime: RuntimeResource(request.hResource.expose_provenance()),
        format: request.Format,
        pool: request.Pool,
        surfaces: surfaces.iter().map(|info| surface(host, info)).collect(),
        samples: (request.MultisampleType, request.MultisampleQuality),
        levels: request.MipLevels,
        fvf: request.Fvf,
        source: request.VidPnSourceId,
        refresh: (request.RefreshRate.Numerator, request.RefreshRate.Denominator),
        flags: request.Flags,
        flags2,
        rotation: request.Rotation,
    };
    // SAFETY: The caller guarantees it.
    unsafe {
        lock_device(device, |it| {
            let driver_args = driver_args(it.host);
            let number = it.device.create_resource(&driver_args)?;
            Ok(it.new_handle(number, driver_args.runtime))
        })
    }
}

fn surface(host: MemoryAccess, it: &D3DDDI_SURFACEINFO) -> Surface {
    let (rows, slices) = ((it.SysMemPitch, it.Height), (it.Depth, it.SysMemSlicePitch));
    Surface {
        width: it.Width,
        height: it.Height,
        depth: it.Depth,
        memory: surface_memory(host, it.pSysMem.cast_mut(), rows, slices),
        pitch: it.SysMemPitch,
        slice_pitch: it.SysMemSlicePitch,
    }
}

pub(super) unsafe extern "win64-unwind" fn open_resource(
    device: HANDLE,
    args: *mut D3DDDIARG_OPENRESOURCE,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let mut request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let infos = unsafe { read_list(request.pOpenAllocationInfo, request.NumAllocations) }?;
        let (private, size) =
            (request.pPrivateDriverData.cast::<u8>(), request.PrivateDriverDataSize);
        // SAFETY: Guaranteed by the contract of this module.
        let private = unsafe { read_list(private, size) }?;
        let opened = |info: &D3DDDI_OPENALLOCATIONINFO| {
            let (bytes, size) = (info.pPrivateDriverData.cast::<u8>(), info.PrivateDriverDataSize);
            // SAFETY: Guaranteed by the contract of this module.
            let private = unsafe { read_list(bytes, size) }?;
            Ok(OpenAllocationInfo { allocation: info.hAllocation, private })
        };
        let driver_args = OpenResourceArgs {
            runtime: RuntimeResource(request.hResource.expose_provenance()),
            kernel: request.hKMResource,
            allocations: infos.iter().map(opened).collect::<UmdResult<Vec<_>>>()?,
            private,
            rotation: request.Rotation,
            flags: request.Flags.Value,
        };
        // SAFETY: Guaranteed by the contract of this module.
        request.hResource = unsafe {
            lock_device(device, |it| {
                let number = it.device.open_resource(&driver_args)?;
                Ok(it.new_handle(number, driver_args.runtime))
            })
        }?;
        // SAFETY: `args` was read before.
        unsafe { write(args, request) };
        Ok(())
    };
    to_hresult(call())
}

pub(super) unsafe extern "win64-unwind" fn destroy_resource(
    device: HANDLE,
    resource: HANDLE,
) -> HRESULT {
    // SAFETY: Guaranteed by the contract of this module.
    to_hresult(unsafe {
        lock_device(device, |state| {
            let found = state.find(resource)?;
            state.device.destroy_resource(found)?;
            state.resources.remove(&found.handle);
            Ok(())
        })
    })
}
