//! The functions that the runtime calls: each is in, call, out.
//!
//! # Safety
//!
//! They are called as Microsoft's pages say: a structure is NULL or there for the call, with the
//! lists it names; a handle of an adapter or a device is NULL, or one that was given here and is
//! not closed or destroyed. A handle of a resource may be any number.
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
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, TryLockError};

/// How many boxes there are that the runtime has handles of.
static LIVE_OBJECTS: AtomicUsize = AtomicUsize::new(0);

/// How many adapters, devices and resources of all drivers in this process are alive: those that
/// the runtime has a handle of. For tests, which want none at their end.
pub fn live_objects() -> usize {
    LIVE_OBJECTS.load(Relaxed)
}

/// Is counted while it lives.
struct LiveCount(());

impl LiveCount {
    fn new() -> Self {
        LIVE_OBJECTS.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for LiveCount {
    fn drop(&mut self) {
        LIVE_OBJECTS.fetch_sub(1, Relaxed);
    }
}

/// What a device's handle is the address of.
struct Device {
    state: Mutex<DeviceState>,
    _counted: LiveCount,
}

struct DeviceState {
    device: Box<dyn UserDevice>,
    host: MemoryAccess,
    /// The driver's numbers, by the handles that the runtime has: the addresses of the boxes.
    resources: BTreeMap<usize, Box<ResourceBox>>,
}

/// What a resource's handle is the address of.
struct ResourceBox {
    number: u64,
    _counted: LiveCount,
}

impl DeviceState {
    fn find(&self, handle: HANDLE) -> UmdResult<Resource> {
        let handle = handle.addr();
        let found = self.resources.get(&handle).ok_or(E_INVALIDARG)?;
        Ok(Resource { number: found.number, handle })
    }

    /// The handle of a resource that was just made.
    fn new_handle(&mut self, number: u64, runtime: RuntimeResource) -> HANDLE {
        let boxed = Box::new(ResourceBox { number, _counted: LiveCount::new() });
        let address = (&raw const *boxed).addr();
        let handle = self.device.handle_of(number, runtime, address);
        self.resources.insert(handle, boxed);
        std::ptr::without_provenance_mut(handle)
    }
}

/// Goes into a device: nobody else is inside then.
///
/// # Safety
///
/// The handle is NULL, or a device's that is not destroyed.
unsafe fn lock_device<T>(
    device: HANDLE,
    call: impl FnOnce(&mut DeviceState) -> UmdResult<T>,
) -> UmdResult<T> {
    // SAFETY: The caller's contract: it is the address of a box that is not gone.
    let device = unsafe { device.cast::<Device>().as_ref() }.ok_or(E_INVALIDARG)?;
    match device.state.try_lock() {
        Ok(mut inside) => call(&mut inside),
        // A driver that panicked is asked again, if the runtime wants that.
        Err(TryLockError::Poisoned(inside)) => call(&mut inside.into_inner()),
        Err(TryLockError::WouldBlock) => Err(E_FAIL),
    }
}

/// A copy of a structure of the runtime's.
///
/// # Safety
///
/// It is NULL, or there.
unsafe fn read<T: Copy>(args: *const T) -> UmdResult<T> {
    // SAFETY: The caller's contract.
    unsafe { args.as_ref() }.copied().ok_or(E_INVALIDARG)
}

/// A copy of a list of the runtime's.
///
/// # Safety
///
/// It is NULL, or so many are there.
unsafe fn read_list<T: Copy>(list: *const T, count: u32) -> UmdResult<Vec<T>> {
    match count {
        0 => Ok(Vec::new()),
        _ if list.is_null() => Err(E_INVALIDARG),
        // SAFETY: The caller's contract.
        _ => Ok(unsafe { slice::from_raw_parts(list, count as usize) }.to_vec()),
    }
}

/// Writes what is answered in a structure of the runtime's, which was read before.
///
/// # Safety
///
/// It is there.
unsafe fn write<T>(to: *mut T, answer: T) {
    // SAFETY: The caller's contract.
    unsafe { to.write(answer) };
}

/// Memory of the runtime's that a surface is in. Its size is how far its rows go.
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
