//! The functions of the driver's tables. Each converts its arguments, calls the driver, and
//! converts the result.
//!
//! # Safety
//!
//! The runtime calls them as documented by Microsoft: a structure is NULL or valid during the call,
//! with its lists; a handle of an adapter or a device is NULL, or was returned from here and is not
//! closed or destroyed. A handle of a resource may be any number.
#![expect(unsafe_code, reason = "the functions of a driver's table")]

mod adapter;
mod device;
mod resource;

pub use adapter::open_adapter;

use crate::args::{Rect, Resource, RuntimeResource};
use crate::driver::UserDevice;
use crate::memory::{Memory, MemoryAccess};
use crate::result::UmdResult;
use abi::hresult::{E_FAIL, E_INVALIDARG};
use abi::{HANDLE, RECT};
use std::collections::BTreeMap;
use std::slice;
use std::sync::{Mutex, TryLockError};

/// A device. Its handle is the address of this box.
struct Device {
    state: Mutex<DeviceState>,
}

struct DeviceState {
    device: Box<dyn UserDevice>,
    host: MemoryAccess,
    /// The resources by the runtime's handles: the addresses of the boxes.
    resources: BTreeMap<usize, Box<ResourceBox>>,
}

/// A resource. Its handle is the address of this box.
struct ResourceBox {
    number: u64,
}

impl DeviceState {
    fn find(&self, handle: HANDLE) -> UmdResult<Resource> {
        let handle = handle.addr();
        let found = self.resources.get(&handle).ok_or(E_INVALIDARG)?;
        Ok(Resource { number: found.number, handle })
    }

    /// Creates the handle of a new resource.
    fn new_handle(&mut self, number: u64, runtime: RuntimeResource) -> HANDLE {
        let boxed = Box::new(ResourceBox { number });
        let address = (&raw const *boxed).addr();
        let handle = self.device.handle_of(number, runtime, address);
        self.resources.insert(handle, boxed);
        std::ptr::without_provenance_mut(handle)
    }
}

/// Calls `call` with exclusive access to a device. Fails if another thread is in the device.
///
/// # Safety
///
/// The handle is NULL, or belongs to a device that is not destroyed.
unsafe fn lock_device<T>(
    device: HANDLE,
    call: impl FnOnce(&mut DeviceState) -> UmdResult<T>,
) -> UmdResult<T> {
    // SAFETY: The caller guarantees NULL or the address of a live box.
    let device = unsafe { device.cast::<Device>().as_ref() }.ok_or(E_INVALIDARG)?;
    match device.state.try_lock() {
        Ok(mut inside) => call(&mut inside),
        // The runtime may call a driver again after a panic.
        Err(TryLockError::Poisoned(inside)) => call(&mut inside.into_inner()),
        Err(TryLockError::WouldBlock) => Err(E_FAIL),
    }
}

/// Copies a structure of the runtime. Fails on NULL.
///
/// # Safety
///
/// `args` is NULL or valid for reads.
unsafe fn read<T: Copy>(args: *const T) -> UmdResult<T> {
    // SAFETY: The caller guarantees it.
    unsafe { args.as_ref() }.copied().ok_or(E_INVALIDARG)
}

/// Copies a list of the runtime.
///
/// # Safety
///
/// `list` is NULL or valid for reads of `count` elements.
unsafe fn read_list<T: Copy>(list: *const T, count: u32) -> UmdResult<Vec<T>> {
    match count {
        0 => Ok(Vec::new()),
        _ if list.is_null() => Err(E_INVALIDARG),
        // SAFETY: The caller guarantees it.
        _ => Ok(unsafe { slice::from_raw_parts(list, count as usize) }.to_vec()),
    }
}

/// Writes the result to a structure of the runtime that was read before.
///
/// # Safety
///
/// `to` is valid for writes.
unsafe fn write<T>(to: *mut T, answer: T) {
    // SAFETY: The caller guarantees it.
    unsafe { to.write(answer) };
}

/// The runtime's memory for a surface. Its size covers all rows.
fn surface_memory(
    host: MemoryAccess,
    address: HANDLE,
    rows: (u32, u32),
    slices: (u32, u32),
) -> Option<Memory> {
    let one = (rows.0 as usize).saturating_mul(rows.1 as usize);
    let all = match slices {
        (0 | 1, _) => one,
        (depth, pitch) => one.max(pitch as usize).saturating_mul(depth as usize),
    };
    (!address.is_null()).then(|| Memory::new(host, address.expose_provenance(), all))
}

fn area(rect: RECT) -> Rect {
    Rect { left: rect.left, top: rect.top, right: rect.right, bottom: rect.bottom }
}
