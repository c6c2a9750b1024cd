//! Adapters, and the creation of devices.

use super::device::functions;
use super::{Device, DeviceState, read, write};
use crate::args::{CreateDeviceArgs, OpenAdapterArgs};
use crate::callbacks::{AdapterCallbacks, Callbacks};
use crate::driver::{UserAdapter, UserDriver};
use crate::memory::{MemoryAccess, VisibleMemory};
use crate::result::{UmdResult, to_hresult};
use crate::table::{functions_length, write_table};
use abi::hresult::E_INVALIDARG;
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3DDDI_ADAPTERFUNCS, D3DDDIARG_CREATEDEVICE,
    D3DDDIARG_GETCAPS, D3DDDIARG_OPENADAPTER,
};
use abi::{HANDLE, HRESULT};
use std::collections::BTreeMap;
use std::slice;
use std::sync::Mutex;

/// An adapter. Its handle is the address of this box.
struct Adapter {
    user: Box<dyn UserAdapter>,
    host: MemoryAccess,
}

/// The `OpenAdapter` export of a driver. The driver accesses the runtime's memory through `S`.
///
/// # Safety
///
/// `args` is NULL or as documented by Microsoft, with tables that are valid as long as any object
/// created here exists. The same holds for calls of the functions that it returns.
pub unsafe extern "win64-unwind" fn open_adapter<D: UserDriver, S: VisibleMemory>(
    args: *mut D3DDDIARG_OPENADAPTER,
) -> HRESULT {
    // SAFETY: The caller guarantees it.
    to_hresult(unsafe { open::<D>(args, MemoryAccess::new::<S>()) })
}

/// Opens an adapter.
///
/// # Safety
///
/// As for [`open_adapter`].
unsafe fn open<D: UserDriver>(
    args: *mut D3DDDIARG_OPENADAPTER,
    host: MemoryAccess,
) -> UmdResult<()> {
    // SAFETY: The caller guarantees it.
    let mut request = unsafe { read(args) }?;
    // SAFETY: The caller guarantees it.
    let callbacks = unsafe { AdapterCallbacks::new(request.hAdapter, request.pAdapterCallbacks) };
    let callbacks = callbacks.filter(|_| !request.pAdapterFuncs.is_null()).ok_or(E_INVALIDARG)?;
    let driver_args = OpenAdapterArgs { interface: request.Interface, version: request.Version };
    let user = D::open(&driver_args, callbacks)?;
    let functions = D3DDDI_ADAPTERFUNCS {
        pfnGetCaps: Some(get_caps),
        pfnCreateDevice: Some(create_device),
        pfnCloseAdapter: Some(close_adapter),
    };
    // SAFETY: The caller guarantees a valid table; the pointer is not NULL.
    unsafe { write(request.pAdapterFuncs, functions) };
    let adapter = Adapter { user, host };
    request.hAdapter = Box::into_raw(Box::new(adapter)).cast();
    request.DriverVersion = D3D_UMD_INTERFACE_VERSION_WDDM2_0;
    // SAFETY: `args` was read before.
    unsafe { write(args, request) };
    Ok(())
}

/// The adapter of a handle.
///
/// # Safety
///
/// The handle is NULL, or belongs to an adapter that is not closed.
unsafe fn adapter<'a>(handle: HANDLE) -> UmdResult<&'a Adapter> {
    // SAFETY: The caller guarantees NULL or the address of a live box, which is only ever shared.
    unsafe { handle.cast::<Adapter>().as_ref() }.ok_or(E_INVALIDARG)
}

unsafe extern "win64-unwind" fn get_caps(
    handle: HANDLE,
    args: *const D3DDDIARG_GETCAPS,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let adapter = unsafe { adapter(handle) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let request = unsafe { read(args) }?;
        let mut answer = vec![0; request.DataSize as usize];
        adapter.user.caps(request.Type, &mut answer)?;
        if !answer.is_empty() && request.pData.is_null() {
            return Err(E_INVALIDARG);
        }
        let to =
            if answer.is_empty() { std::ptr::dangling_mut() } else { request.pData.cast::<u8>() };
        // SAFETY: The contract of this module guarantees that `to` is valid for that many bytes.
        unsafe { slice::from_raw_parts_mut(to, answer.len()) }.copy_from_slice(&answer);
        Ok(())
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn create_device(
    handle: HANDLE,
    args: *mut D3DDDIARG_CREATEDEVICE,
) -> HRESULT {
    let call = || {
        // SAFETY: Guaranteed by the contract of this module.
        let adapter = unsafe { adapter(handle) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let mut request = unsafe { read(args) }?;
        // SAFETY: Guaranteed by the contract of this module.
        let callbacks = unsafe {
            Callbacks::new(request.hDevice, request.pCallbacks, request.Version, adapter.host)
        };
        let callbacks =
            callbacks.filter(|_| !request.pDeviceFuncs.is_null()).ok_or(E_INVALIDARG)?;
        let driver_args = CreateDeviceArgs {
            interface: request.Interface,
            version: request.Version,
            flags: request.Flags.Value,
        };
        let device = adapter.user.create_device(&driver_args, callbacks)?;
        let length = functions_length(request.Version);
        // SAFETY: By the contract of this module the runtime's table has the length of its version.
        unsafe { write_table(request.pDeviceFuncs, length, &functions()) };
        let host = adapter.host;
        let inside = Mutex::new(DeviceState { device, host, resources: BTreeMap::new() });
        let device = Device { state: inside };
        request.hDevice = Box::into_raw(Box::new(device)).cast();
        // SAFETY: `args` was read before.
        unsafe { write(args, request) };
        Ok(())
    };
    to_hresult(call())
}

unsafe extern "win64-unwind" fn close_adapter(handle: HANDLE) -> HRESULT {
    if handle.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: By the contract of this module the handle is a live box, used for the last time.
    let adapter = unsafe { Box::from_raw(handle.cast::<Adapter>()) };
    to_hresult(adapter.user.close())
}
