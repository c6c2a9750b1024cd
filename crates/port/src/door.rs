//! The door of one adapter, as callbacks find it: by its handle, or as the one whose driver
//! is running on this thread.

use crate::hardware::{Hardware, HardwareState};
use crate::registry::Registry;
use abi::HANDLE;
use flight::{Attachment, ExecutionContext};
use kernel::callbacks::KernelCallbacks;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static DOORS: Registry<Door> = Registry::new();

/// What a callback needs of its adapter.
pub(crate) struct Door {
    key: usize,
    services: Arc<KernelCallbacks>,
    /// From before `DxgkDdiStartDevice` until `DxgkDdiStopDevice` has returned.
    started: AtomicBool,
    /// The driver's word for the adapter, once it gave one.
    context: AtomicUsize,
    physical_device: usize,
    hardware: HardwareState,
}

impl Door {
    /// A door for callbacks to these services, until it is dropped.
    pub(crate) fn open(
        services: Arc<KernelCallbacks>,
        physical_device: usize,
        hardware: &Hardware,
    ) -> Arc<Self> {
        let (started, context) = Default::default();
        let hardware = HardwareState::new(hardware);
        DOORS.insert(|key| Self { key, services, started, context, physical_device, hardware })
    }

    /// The `DeviceHandle` the driver is given.
    pub(crate) fn handle(&self) -> HANDLE {
        ptr::without_provenance_mut(self.key)
    }

    /// The door a driver means by a `DeviceHandle`.
    pub(crate) fn find(handle: HANDLE) -> Option<Arc<Self>> {
        DOORS.find(handle.addr())
    }

    /// The door whose driver is running on this thread, for callbacks that name none.
    pub(crate) fn running() -> Option<Arc<Self>> {
        ExecutionContext::attached()
    }

    /// Runs code of the driver: callbacks without a handle come to this door.
    pub(crate) fn run<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let _attached = ExecutionContext::attach(self.clone());
        body()
    }

    /// Whether the driver may call.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    /// Says from where to where the driver may call.
    pub(crate) fn set_started(&self, started: bool) {
        self.started.store(started, Ordering::SeqCst);
    }

    /// Says the driver's word for the adapter.
    pub(crate) fn set_context(&self, context: usize) {
        self.context.store(context, Ordering::SeqCst);
    }

    /// The driver's word for the adapter, and the system's.
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

impl Attachment for Door {
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        Some(self)
    }
}
