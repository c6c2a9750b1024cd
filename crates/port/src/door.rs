//! The door of one adapter. A callback finds it by its handle, or as the door whose driver runs on
//! this thread.

use crate::dma_buffers::DmaBuffers;
use crate::fill::Fill;
use crate::hardware::{Hardware, HardwareState};
use crate::left_behind::AcquiredRanges;
use crate::query::judge;
use crate::registry::Registry;
use crate::system_handle::{HandleKind, describe_system_handle};
use crate::version::InterfaceVersion;
use abi::HANDLE;
use flight::{Attachment, ExecutionContext, RuleId};
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverResult};
use parking_lot::ReentrantMutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static DOORS: Registry<Door> = Registry::new();

/// The data that a callback needs about its adapter.
pub(crate) struct Door {
    key: usize,
    version: InterfaceVersion,
    services: Arc<KernelCallbacks>,
    /// From before `DxgkDdiStartDevice` until `DxgkDdiStopDevice` has returned.
    started: AtomicBool,
    /// The driver handle of the adapter, once the driver has returned it.
    context: AtomicUsize,
    physical_device: usize,
    hardware: HardwareState,
    dma_buffers: DmaBuffers,
    acquired: Mutex<AcquiredRanges>,
    /// Held by the interrupt routine, and by routines that are synchronized with it.
    interrupt: ReentrantMutex<()>,
    /// The number of the next pattern for outputs.
    fills: AtomicU64,
}

impl Door {
    /// Opens a door for callbacks to these services. It closes when dropped.
    pub(crate) fn open(
        version: InterfaceVersion,
        services: Arc<KernelCallbacks>,
        physical_device: usize,
        hardware: &Hardware,
        dma_buffers: DmaBuffers,
    ) -> Arc<Self> {
        let (started, context, acquired) = Default::default();
        let hardware = HardwareState::new(hardware);
        DOORS.insert(|key| Self {
            key,
            version,
            services,
            started,
            context,
            physical_device,
            hardware,
            dma_buffers,
            acquired,
            interrupt: ReentrantMutex::new(()),
            fills: AtomicU64::new(nt::memory_seed()),
        })
    }

    /// Runs the interrupt routine, or a routine that is synchronized with it. At this level no
    /// thread gives way to another one, so on the deterministic host no thread waits here.
    pub(crate) fn with_interrupt_held<R>(&self, body: impl FnOnce() -> R) -> R {
        let _held = self.interrupt.lock();
        body()
    }

    /// The `DeviceHandle` that the driver gets.
    pub(crate) fn handle(&self) -> HANDLE {
        HandleKind::Adapter.handle(self.key)
    }

    /// The door of a `DeviceHandle`.
    pub(crate) fn find(handle: HANDLE) -> Option<Arc<Self>> {
        DOORS.find(HandleKind::Adapter.number(handle)?)
    }

    /// What a driver passed where a handle of the system is required, for a report.
    pub(crate) fn describe(&self, handle: HANDLE) -> String {
        let address = handle.addr();
        if HandleKind::Adapter.number(handle).is_some() && Self::find(handle).is_none() {
            return "the DeviceHandle of an adapter that was removed".to_owned();
        }
        if let Some(noun) = describe_system_handle(address as u64) {
            return noun.to_owned();
        }
        match address {
            0 => "NULL".to_owned(),
            _ if address == self.device_handles().0 => {
                "the driver's own handle of the adapter (MiniportDeviceContext)".to_owned()
            }
            _ if address == self.physical_device => "the PhysicalDeviceObject".to_owned(),
            _ => {
                let text = self.services.describe_handle(address);
                text.unwrap_or_else(|| "no handle of the system".to_owned())
            }
        }
    }

    /// Judges a handle that a callback gets from the driver: it is of the required kind, or NULL.
    /// Returns its number, which the kernel judges.
    pub(crate) fn handle_number(
        &self,
        (callback, member): (&'static str, &'static str),
        handle: HANDLE,
        kind: HandleKind,
        rule: RuleId,
    ) -> DriverResult<usize> {
        if handle.is_null() {
            return Ok(0);
        }
        kind.number(handle).ok_or_else(|| {
            let (passed, expected) = (self.describe(handle), kind.noun());
            let broken =
                format!("{member} of {callback} is {passed}, where {expected} is expected");
            judge(&self.services, rule, callback, Some(broken));
            DriverError::Invalid
        })
    }

    /// The door whose driver runs on this thread, for callbacks without a handle.
    pub(crate) fn running() -> Option<Arc<Self>> {
        ExecutionContext::attached()
    }

    /// Runs code of the driver: callbacks without a handle find this door.
    pub(crate) fn run<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let _attached = ExecutionContext::attach(self.clone());
        body()
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

    /// The DMA buffers that the driver has pointers to.
    pub(crate) fn dma_buffers(&self) -> &DmaBuffers {
        &self.dma_buffers
    }

    /// What the driver got in `DxgkDdiAddDevice` and `DxgkDdiStartDevice`.
    pub(crate) fn acquired(&self) -> MutexGuard<'_, AcquiredRanges> {
        self.acquired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pattern for the outputs of the next call.
    pub(crate) fn next_fill(&self) -> Fill {
        Fill::numbered(self.fills.fetch_add(1, Ordering::Relaxed))
    }

    /// The interface version of the driver.
    pub(crate) fn version(&self) -> InterfaceVersion {
        self.version
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
