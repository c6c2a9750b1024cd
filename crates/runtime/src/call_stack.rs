//! Tracks which driver function the current thread executes, and maps the runtime's handles to
//! devices.
//!
//! A driver calls back with only a handle, so the map is global to the process. Handles of
//! destroyed devices are remembered for a while, so that a late callback can be attributed to its
//! device.

use crate::adapter::AdapterState;
use crate::device::DeviceState;
use flight::{Log, Subject};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How many handles of destroyed devices are remembered.
const MAX_DESTROYED: usize = 1024;

/// Distance between handles, so that a handle does not look like an index.
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

/// What is remembered of a destroyed device.
#[derive(Clone)]
pub(crate) struct DestroyedDevice {
    handle: usize,
    pub(crate) log: Weak<Log>,
    pub(crate) subject: Subject,
}

/// A call into a driver on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallFrame {
    /// The handle of the device or adapter that the call is for.
    pub(crate) handle: usize,
    /// The name of the function.
    pub(crate) name: &'static str,
    /// The resource that the call is about.
    pub(crate) resource: Option<usize>,
}

thread_local! {
    /// The driver functions that this thread executes, innermost last. Each has its device, if the
    /// call is for one, so that a callback with this device's handle needs no lookup.
    static FRAMES: RefCell<Vec<(CallFrame, Option<Arc<DeviceState>>)>> = const { RefCell::new(Vec::new()) };
}

/// Marks this thread as executing a driver function until dropped.
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

/// The driver function that this thread executes.
pub(crate) fn current_frame() -> Option<CallFrame> {
    FRAMES.with_borrow(|pairs| pairs.last().map(|(frame, _)| *frame))
}

/// The device of a handle, if this thread executes a driver function for that device.
pub(crate) fn device_in_call(handle: usize) -> Option<Arc<DeviceState>> {
    FRAMES.with_borrow(|pairs| {
        let (frame, device) = pairs.last()?;
        let device =
            device.as_ref().filter(|state| frame.handle == handle && !state.is_handle_closed())?;
        Some(device.clone())
    })
}

/// The device whose driver function this thread executes.
pub(crate) fn current_device() -> Option<Arc<DeviceState>> {
    FRAMES.with_borrow(|pairs| pairs.last().and_then(|(_, device)| device.clone()))
}

/// Returns a handle that was never used before.
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
    let devices = &mut handles().devices;
    // A device that its application never destroyed keeps its memory as long as it is listed.
    devices.retain(|_, device| device.strong_count() > 0);
    devices.insert(handle, Arc::downgrade(device));
}

/// Invalidates the handle of a device.
pub(crate) fn unregister_device(device: &DeviceState) {
    let (handle, log, subject) = (device.handle, device.log(), device.subject);
    let known = &mut *handles();
    device.close_handle();
    known.devices.remove(&handle);
    // A log without a flight gets no finding, and would keep its memory.
    known.destroyed.retain(|device| device.log.strong_count() > 0);
    if known.destroyed.len() == MAX_DESTROYED {
        known.destroyed.pop_front();
    }
    known.destroyed.push_back(DestroyedDevice { handle, log: Arc::downgrade(log), subject });
}

pub(crate) fn device(handle: usize) -> Option<Arc<DeviceState>> {
    handles().devices.get(&handle).and_then(Weak::upgrade)
}

/// All live devices.
pub(crate) fn devices() -> Vec<Arc<DeviceState>> {
    handles().devices.values().filter_map(Weak::upgrade).collect()
}

/// The destroyed device that had this handle, if it is still remembered.
pub(crate) fn destroyed_device(handle: usize) -> Option<DestroyedDevice> {
    handles()
        .destroyed
        .iter()
        .rev()
        .find(|destroyed_device| destroyed_device.handle == handle)
        .cloned()
}
