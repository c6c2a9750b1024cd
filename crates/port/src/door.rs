//! The door of one adapter. A callback finds it by its handle, or as the door whose driver runs on
//! this thread.

use crate::hardware::{Hardware, HardwareState};
use crate::registry::Registry;
use abi::HANDLE;
use kernel::callbacks::KernelCallbacks;
use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static DOORS: Registry<Door> = Registry::new();

thread_local! {
    /// The door whose driver runs on this thread.
    static RUNNING: RefCell<Option<Arc<Door>>> = const { RefCell::new(None) };
}

/// The data that a callback needs about its adapter.
pub(crate) struct Door {
    key: usize,
    services: Arc<KernelCallbacks>,
    /// From before `DxgkDdiStartDevice` until `DxgkDdiStopDevice` has returned.
    started: AtomicBool,
    /// The driver handle of the adapter, once the driver has returned it.
    context: AtomicUsize,
    physical_device: usize,
    hardware: HardwareState,
}

impl Door {
    /// Opens a door for callbacks to these services. It closes when dropped.
    pub(crate) fn open(
        services: Arc<KernelCallbacks>,
        physical_device: usize,
        hardware: &Hardware,
    ) -> Arc<Self> {
        let (started, context) = Default::default();
        let hardware = HardwareState::new(hardware);
        DOORS.insert(|key| Self { key, services, started, context, physical_device, hardware })
    }

    /// The `DeviceHandle` that the driver gets.
    pub(crate) fn handle(&self) -> HANDLE {
        ptr::without_provenance_mut(self.key)
    }

    /// The door of a `DeviceHandle`.
    pub(crate) fn find(handle: HANDLE) -> Option<Arc<Self>> {
        DOORS.find(handle.addr())
    }

    /// The door whose driver runs on this thread, for callbacks without a handle.
    pub(crate) fn running() -> Option<Arc<Self>> {
        RUNNING.try_with(|door| door.borrow().clone()).ok().flatten()
    }

    /// Runs code of the driver: callbacks without a handle find this door.
    pub(crate) fn run<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let back = DoorGuard(RUNNING.replace(Some(self.clone())));
        let answer = body();
        drop(back);
        answer
    }

    /// Whether the driver may call back.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    /// Sets whether the driver may call back.
    pub(crate) fn set_started(&self, started: bool) {
        self.started.store(started, Ordering::SeqCst);
    }

    /// Sets the driver handle of the adapter.
    pub(crate) fn set_context(&self, context: usize) {
        self.context.store(context, Ordering::SeqCst);
    }

    /// The driver handle of the adapter, and the system's handle.
    pub(crate) fn device_handles(&self) -> (usize, usize) {
        (self.context.load(Ordering::SeqCst), self.physical_device)
    }

    /// The hardware of the adapter.
    pub(crate) fn hardware(&self) -> &HardwareState {
        &self.hardware
    }

    pub(crate) fn services(&self) -> &Arc<KernelCallbacks> {
        &self.services
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        DOORS.remove(self.key);
    }
}

/// Restores the previous door, also when a driver unwinds.
struct DoorGuard(Option<Arc<Door>>);

impl Drop for DoorGuard {
    fn drop(&mut self) {
        let before = self.0.take();
        // A thread that is ending has no door to restore.
        let inner = RUNNING.try_with(|door| door.replace(before));
        drop(inner);
    }
}
