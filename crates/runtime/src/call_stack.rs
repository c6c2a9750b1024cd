//! Which function of a driver this thread is in, and what the handles mean that a driver has.
//!
//! A driver calls back with a handle and no more; so what handles mean is kept for the whole
//! process. Those of devices that are gone are remembered for a while: who calls back with one is
//! named.

use crate::adapter::AdapterState;
use crate::device::DeviceState;
use flight::{Log, Subject};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How many handles are remembered that mean nothing any more.
const MAX_DESTROYED: usize = 1024;

/// A step that keeps a handle from looking like an index.
const STEP: usize = 16;

static LAST_HANDLE: AtomicUsize = AtomicUsize::new(STEP);

static HANDLES: Mutex<HandleRegistry> = Mutex::new(HandleRegistry {
    adapters: BTreeMap::new(),
    devices: BTreeMap::new(),
    destroyed: VecDeque::new(),
});

struct HandleRegistry {
    adapters: BTreeMap<usize, Weak<AdapterState>>,
    devices: BTreeMap<usize, Weak<DeviceState>>,
    destroyed: VecDeque<DestroyedDevice>,
}

/// A device that is gone, as far as it is remembered.
#[derive(Clone)]
pub(crate) struct DestroyedDevice {
    handle: usize,
    pub(crate) log: Weak<Log>,
    pub(crate) subject: Subject,
}

/// A function of a driver that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallFrame {
    /// The device it is called for, or the adapter.
    pub(crate) handle: usize,
    /// Its name.
    pub(crate) name: &'static str,
    /// The resource it is about.
    pub(crate) resource: Option<usize>,
}

thread_local! {
    /// The functions that this thread is in, the last one behind; each with its device, if it is
    /// called for one: who calls back with its handle need not look it up.
    static FRAMES: RefCell<Vec<(CallFrame, Option<Arc<DeviceState>>)>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread is in a function of a driver.
pub(crate) struct CallGuard(());

impl CallGuard {
    pub(crate) fn enter(frame: CallFrame, device: Option<Arc<DeviceState>>) -> Self {
        FRAMES.with_borrow_mut(|pairs| pairs.push((frame, device)));
        Self(())
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(Vec::pop);
    }
}

/// The function that this thread is in.
pub(crate) fn current_frame() -> Option<CallFrame> {
    FRAMES.with_borrow(|pairs| pairs.last().map(|(frame, _)| *frame))
}

/// The device that a handle means, if this thread is in a function of the driver for it.
pub(crate) fn device_in_call(handle: usize) -> Option<Arc<DeviceState>> {
    FRAMES.with_borrow(|pairs| {
        let (frame, device) = pairs.last()?;
        let device =
            device.as_ref().filter(|state| frame.handle == handle && !state.is_handle_closed())?;
        Some(device.clone())
    })
}

/// The device that this thread is in a function of the driver for.
pub(crate) fn current_device() -> Option<Arc<DeviceState>> {
    FRAMES.with_borrow(|pairs| pairs.last().and_then(|(_, device)| device.clone()))
}

/// A handle that was never given.
pub(crate) fn new_handle() -> usize {
    LAST_HANDLE.fetch_add(STEP, Ordering::Relaxed)
}

fn handles() -> MutexGuard<'static, HandleRegistry> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn register_adapter(handle: usize, adapter: &Arc<AdapterState>) {
    handles().adapters.insert(handle, Arc::downgrade(adapter));
}

pub(crate) fn unregister_adapter(handle: usize) {
    handles().adapters.remove(&handle);
}

pub(crate) fn adapter(handle: usize) -> Option<Arc<AdapterState>> {
    handles().adapters.get(&handle).and_then(Weak::upgrade)
}

pub(crate) fn register_device(handle: usize, device: &Arc<DeviceState>) {
    handles().devices.insert(handle, Arc::downgrade(device));
}

/// The handle means nothing from now on.
pub(crate) fn unregister_device(device: &DeviceState) {
    let (handle, log, subject) = (device.handle, device.log(), device.subject);
    let known = &mut *handles();
    device.close_handle();
    known.devices.remove(&handle);
    if known.destroyed.len() == MAX_DESTROYED {
        known.destroyed.pop_front();
    }
    known.destroyed.push_back(DestroyedDevice { handle, log: Arc::downgrade(log), subject });
}

pub(crate) fn device(handle: usize) -> Option<Arc<DeviceState>> {
    handles().devices.get(&handle).and_then(Weak::upgrade)
}

/// Every device that there is.
pub(crate) fn devices() -> Vec<Arc<DeviceState>> {
    handles().devices.values().filter_map(Weak::upgrade).collect()
}

/// A device that there was.
pub(crate) fn destroyed_device(handle: usize) -> Option<DestroyedDevice> {
    handles()
        .destroyed
        .iter()
        .rev()
        .find(|destroyed_device| destroyed_device.handle == handle)
        .cloned()
}
