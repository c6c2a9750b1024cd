//! Devices, through which an application draws.
#![expect(unsafe_code, reason = "calls a driver through its tables")]

use crate::adapter::{AdapterState, call};
use crate::call_stack::{self, CallFrame};
use crate::callbacks;
use crate::driver_lock::DriverLock;
use crate::failure_injection::FailureInjection;
use crate::ledger::{Ledger, ResourceStage};
use crate::result::{self, hresult_from_status};
use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DERR_OUTOFVIDEOMEMORY, E_FAIL, E_INVALIDARG, E_NOTIMPL,
    E_OUTOFMEMORY, E_PENDING, succeeded,
};
use abi::kmt::D3DKMT_DEVICEEXECUTION_ACTIVE;
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3D9_INTERFACE, D3DDDI_CREATEDEVICEFLAGS,
    D3DDDI_DEVICEFUNCS, D3DDDIARG_CREATEDEVICE,
};
use abi::{D3DKMT_HANDLE, HANDLE, HRESULT};
use flight::{Component, EventKind, Host, Kind, Log, Passive, Ram, RuleId, Subject};
use kernel::Handle;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use thunk::Session;

/// A device of an application. Clones refer to the same device.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<DeviceState>);

/// The state of a device.
pub(crate) struct DeviceState {
    pub(crate) adapter: Arc<AdapterState>,
    /// The run's log, stored here because every callback uses it several times.
    log: Arc<Log>,
    pub(crate) subject: Subject,
    pub(crate) handle: usize,
    /// The kernel handle of the device.
    pub(crate) kernel_handle: D3DKMT_HANDLE,
    shared: bool,
    table: OnceLock<DeviceTable>,
    driver_lock: DriverLock,
    /// One plus the thread that was last in the driver for this device.
    thread: AtomicU32,
    /// Set when the device is being destroyed. `destroyed` is set when the driver has been called.
    ending: AtomicBool,
    destroyed: AtomicBool,
    /// The handle is no longer valid.
    handle_closed: AtomicBool,
    pub(crate) failure_injection: FailureInjection,
    /// The machine memory in which the driver sees its mappings.
    memory: Option<Arc<dyn Ram>>,
    ledger: Mutex<Ledger>,
}

/// What the driver returned when it created the device.
struct DeviceTable {
    driver: usize,
    functions: D3DDDI_DEVICEFUNCS,
}

impl DeviceState {
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The process, for the driver's calls.
    pub(crate) fn session(&self) -> &Session {
        self.adapter.session()
    }

    pub(crate) fn host(&self) -> &dyn Host {
        self.adapter.run.host()
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic in our code leaves the ledger consistent.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory in which the driver sees its mappings.
    pub(crate) fn memory(&self) -> Option<&dyn Ram> {
        self.memory.as_deref()
    }

    /// Invalidates the handle.
    pub(crate) fn close_handle(&self) {
        self.handle_closed.store(true, Relaxed);
    }

    /// Whether the handle is no longer valid.
    pub(crate) fn is_handle_closed(&self) -> bool {
        self.handle_closed.load(Relaxed)
    }

    /// The thread that was last in the driver for this device.
    pub(crate) fn last_thread(&self) -> Option<u32> {
        self.thread.load(Relaxed).checked_sub(1)
    }

    /// The driver's handle for the device.
    pub(crate) fn driver(&self) -> HANDLE {
        ptr::with_exposed_provenance_mut(
            self.table.get().map_or(0, |device_table| device_table.driver),
        )
    }

    /// Calls a function of the driver for the device, with no other thread in the driver.
    pub(crate) fn call<F>(
        &self,
        at: &mut Passive,
        (name, resource): (&'static str, Option<usize>),
        slot: impl FnOnce(&D3DDDI_DEVICEFUNCS) -> Option<F>,
        body: impl FnOnce(F, HANDLE) -> HRESULT,
    ) -> HRESULT {
        match self.enter(at, (name, resource)) {
            Ok(inside) => inside.call(at, slot, body),
            Err(error) => error,
        }
    }

    /// Waits until no other thread is in the driver for the device. If this fails, the driver is
    /// not called, so it has returned nothing.
    pub(crate) fn enter(
        &self,
        at: &mut Passive,
        (name, resource): (&'static str, Option<usize>),
    ) -> Result<DriverCallGuard, HRESULT> {
        let device = call_stack::device(self.handle).ok_or(E_INVALIDARG)?; // Destroyed.
        let other = self.driver_lock.enter(self.host(), at).map_err(|graph| {
            let component = Component::Driver;
            self.log().emit(self.subject, || EventKind::WaitStuck { component, graph });
            E_FAIL
        })?;
        let inside = DriverCallGuard { device, name, resource };
        let broken = other.filter(|_| !self.shared).map(|other| {
            let me = flight::current_thread();
            format!(
                "threads {other} and {me} use a single-threaded device at once: {name} \
                 has to wait"
            )
        });
        self.judge_client(RuleId::UMD_THREAD_001, name, broken);
        // After a wait, check again: the driver's handles may be invalid. No new call is started on
        // a device that is being destroyed.
        let ends = matches!(name, "pfnDestroyResource" | "pfnDestroyDevice");
        let ending = self.ending.load(Relaxed) && !ends;
        let gone = ending || self.destroyed.load(Relaxed);
        if gone || resource.is_some_and(|index| self.is_destroyed(index)) {
            return Err(E_INVALIDARG);
        }
        self.thread.store(flight::current_thread() + 1, Relaxed);
        self.ledger().callback_errors.clear();
        Ok(inside)
    }

    fn is_destroyed(&self, resource: usize) -> bool {
        let ledger = self.ledger();
        ledger
            .resources
            .get(&resource)
            .is_none_or(|resource_entry| resource_entry.stage == ResourceStage::Destroyed)
    }

    /// Judges that a call in which a callback returned "device removed" returns it, too.
    fn judge_removed(&self, name: &'static str, answer: HRESULT) {
        let removed = self.ledger().callback_errors.contains(&D3DDDIERR_DEVICEREMOVED);
        let broken = (removed && answer != D3DDDIERR_DEVICEREMOVED).then(|| {
            let answer = result::hresult_name(answer);
            format!("a callback returned device removed, but {name} returns {answer}")
        });
        if removed {
            self.judge(RuleId::UMD_ERR_003, name, broken);
        }
    }
}

/// The exclusive right to call the driver for a device. Everything about a call is recorded and
/// judged while the guard exists; after it, another thread's call may intervene.
pub(crate) struct DriverCallGuard {
    device: Arc<DeviceState>,
    name: &'static str,
    resource: Option<usize>,
}

impl DriverCallGuard {
    /// Calls a function of the driver.
    pub(crate) fn call<F>(
        &self,
        at: &mut Passive,
        slot: impl FnOnce(&D3DDDI_DEVICEFUNCS) -> Option<F>,
        body: impl FnOnce(F, HANDLE) -> HRESULT,
    ) -> HRESULT {
        let (device, name) = (&self.device, self.name);
        let Some(table) = device.table.get() else { return E_FAIL };
        let Some(function) = slot(&table.functions) else {
            device.log().emit(device.subject, || EventKind::EntryMissing { name: name.into() });
            return E_NOTIMPL;
        };
        device.host().yield_point(at);
        let frame = CallFrame { handle: device.handle, name, resource: self.resource };
        let frame = (frame, Some(device.clone()));
        let answer =
            call(&device.adapter, device.subject, frame, || body(function, device.driver()));
        device.judge_removed(name, answer);
        answer
    }

    /// The errors that callbacks returned in this call. A pending result is not an error.
    pub(crate) fn callback_errors(&self) -> Vec<HRESULT> {
        let ledger = self.device.ledger();
        ledger.callback_errors.iter().copied().filter(|value| *value != E_PENDING).collect()
    }

    /// Whether a result forwards a "device removed" result of a callback, from this call or an
    /// earlier one. Every driver function may return it.
    pub(crate) fn reports_removal(&self, answer: HRESULT) -> bool {
        answer == D3DDDIERR_DEVICEREMOVED && self.device.ledger().removed
    }
}

impl Drop for DriverCallGuard {
    fn drop(&mut self) {
        self.device.driver_lock.leave(self.device.host());
    }
}

impl Device {
    pub(crate) fn create(
        adapter: &Arc<AdapterState>,
        at: &mut Passive,
        shared: bool,
    ) -> Result<Self, HRESULT> {
        // From here on the adapter cannot be closed.
        adapter.devices.fetch_add(1, SeqCst);
        let kernel = if adapter.closing.load(SeqCst) {
            Err(E_INVALIDARG)
        } else {
            adapter.client.create_device(at, adapter.kernel_handle).map_err(hresult_from_status)
        };
        let kernel = kernel.inspect_err(|_| {
            adapter.devices.fetch_sub(1, SeqCst);
        })?;
        let session = adapter.session();
        let memory = session.kernel().memory_of_device(session.process(), Handle(kernel));
        let number = adapter.run.devices.fetch_add(1, Relaxed) + 1;
        let inner = Arc::new(DeviceState {
            adapter: adapter.clone(),
            log: adapter.run.log().clone(),
            subject: Kind::UserDevice.subject(number),
            handle: call_stack::new_handle(),
            kernel_handle: kernel,
            shared,
            table: OnceLock::new(),
            driver_lock: DriverLock::default(),
            thread: AtomicU32::new(0),
            ending: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            handle_closed: AtomicBool::new(false),
            failure_injection: FailureInjection::default(),
            memory,
            ledger: Mutex::default(),
        });
        let of = adapter.subject;
        inner.log().emit(inner.subject, || EventKind::UserDeviceCreated { adapter: of });
        call_stack::register_device(inner.handle, &inner);
        let device = Self(inner);
        let made = device.call_create_device(shared);
        device.judge_device_limit(made.as_ref().err().copied());
        match made {
            Ok(table) => {
                let _ = device.0.table.set(table); // Never set before.
                Ok(device)
            }
            Err(answer) => {
                device.end(at, "pfnCreateDevice");
                Err(answer)
            }
        }
    }

    /// Calls the driver to create the device.
    fn call_create_device(&self, shared: bool) -> Result<DeviceTable, HRESULT> {
        let (inner, adapter) = (&self.0, &self.0.adapter);
        let mut functions = D3DDDI_DEVICEFUNCS::ZERO;
        let flags = if shared { D3DDDI_CREATEDEVICEFLAGS::AllowMultithreading } else { 0 };
        let mut args = D3DDDIARG_CREATEDEVICE {
            hDevice: ptr::without_provenance_mut(inner.handle),
            Interface: D3D9_INTERFACE,
            Version: D3D_UMD_INTERFACE_VERSION_WDDM2_0,
            pCallbacks: &raw const callbacks::DEVICE,
            pDeviceFuncs: &raw mut functions,
            Flags: D3DDDI_CREATEDEVICEFLAGS { Value: flags },
            ..D3DDDIARG_CREATEDEVICE::ZERO
        };
        let broken = (!adapter.caps_queried.load(Relaxed)).then(|| {
            "a device is created before the driver has queried with pfnQueryAdapterInfoCb what the \
             hardware can do"
                .to_owned()
        });
        inner.judge(RuleId::UMD_ADAPTER_003, "OpenAdapter.pfnQueryAdapterInfoCb", broken);
        let create = adapter.functions().and_then(|raw| raw.pfnCreateDevice).ok_or(E_NOTIMPL)?;
        let frame = CallFrame { handle: inner.handle, name: "pfnCreateDevice", resource: None };
        let answer = call(&inner.adapter, inner.subject, (frame, Some(inner.clone())), || {
            // SAFETY: The driver supplied the function and its handle; `args` outlives the call.
            unsafe { create(adapter.driver(), &raw mut args) }
        });
        if !succeeded(answer) {
            return Err(answer);
        }
        functions = functions.up_to(adapter.version());
        Ok(DeviceTable { driver: args.hDevice.addr(), functions })
    }

    /// Judges that a driver that has created devices can create another while memory lasts.
    /// Judges the content of a surface that the application has drawn and read: `wrong` says what
    /// differs. After another breach the content is not judged, because the breach may be its
    /// cause.
    pub fn judge_content(&self, wrong: Option<String>) {
        let wrong = wrong.filter(|_| !self.0.log().has_breach());
        self.0.judge(RuleId::WT_DRAW_001, "pfnColorFill, pfnBlt", wrong);
    }

    fn judge_device_limit(&self, answer: Option<HRESULT>) {
        const ALLOWED: [HRESULT; 3] =
            [E_OUTOFMEMORY, D3DERR_OUTOFVIDEOMEMORY, D3DDDIERR_DEVICEREMOVED];
        let others = self.0.adapter.devices.load(Relaxed).saturating_sub(1);
        let error = answer.filter(|value| !ALLOWED.contains(value) && others > 0);
        // A driver whose own callback failed forwards that error.
        let error = error.filter(|_| self.0.ledger().callback_errors.is_empty());
        let broken = error.map(|it| {
            let it = result::hresult_name(it);
            format!("the adapter has {others} devices, and creating the next one returns {it}")
        });
        self.0.judge(RuleId::UMD_ADAPTER_005, "pfnCreateDevice", broken);
    }

    /// Makes the driver's next call of a callback for this device fail, once, with this result and
    /// without any effect.
    pub fn fail_next(&self, callback: &'static str, result: HRESULT) {
        self.0.failure_injection.arm(callback, result);
    }

    /// Cancels the injected failure. Returns whether the callback has failed.
    pub fn cancel_failure(&self) -> bool {
        self.0.failure_injection.disarm()
    }

    /// Destroys the device (`DestroyDevice`). Objects that the driver has not freed by then are
    /// leaks.
    pub fn destroy(&self, at: &mut Passive) -> Result<(), HRESULT> {
        const NAME: &str = "pfnDestroyDevice";
        if call_stack::device(self.0.handle).is_none() || self.0.ending.swap(true, Relaxed) {
            return Err(E_INVALIDARG);
        }
        // A thread in the driver may still receive a resource: it is destroyed with the others.
        if self.0.driver_lock.enter(self.0.host(), at).is_ok() {
            self.0.driver_lock.leave(self.0.host());
        }
        self.destroy_all_resources(at);
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnDestroyDevice;
        let answer = self.0.call(at, (NAME, None), slot, |destroy, driver| {
            self.0.destroyed.store(true, Relaxed); // No other thread is in the driver.
            // SAFETY: The driver supplied the function and its handle.
            unsafe { destroy(driver) }
        });
        self.end(at, NAME);
        if succeeded(answer) { Ok(()) } else { Err(answer) }
    }

    /// Destroys the resources that the application has not destroyed.
    ///
    /// WINDOWS: an application's device releases its resources when it is destroyed (our reading:
    /// the page of `DestroyDevice` has the driver free what is left).
    fn destroy_all_resources(&self, at: &mut Passive) {
        let live: Vec<usize> = {
            let ledger = self.0.ledger();
            let live = ledger.resources.iter().filter(|(_, it)| it.is_application_owned());
            live.map(|(handle, _)| *handle).collect()
        };
        for handle in live {
            // A resource that fails here stays with the driver: it is judged below.
            let _ = self.destroy_resource(at, crate::Resource(handle));
        }
    }

    /// The driver has destroyed the device: judges leaks, and destroys the kernel's device.
    fn end(&self, at: &mut Passive, name: &'static str) {
        let inner = &self.0;
        let state = inner.adapter.client.device_state(at, inner.kernel_handle);
        // The objects of a lost device are destroyed with it: the driver need not free them.
        if state == Ok(D3DKMT_DEVICEEXECUTION_ACTIVE) {
            inner.judge_leaks(name);
        }
        call_stack::unregister_device(inner);
        inner.adapter.devices.fetch_sub(1, Relaxed);
        // The driver's leaks are already reported; the application is not blamed for them.
        let mut locked: Vec<(D3DKMT_HANDLE, u32)> =
            inner.ledger().allocations.iter().map(|(handle, it)| (*handle, it.locks)).collect();
        locked.sort_unstable();
        for (allocation, locks) in locked {
            for _ in 0..locks {
                let _ = inner.adapter.client.unlock(at, inner.kernel_handle, &[allocation]);
            }
        }
        // The remaining objects are destroyed with the device.
        let _ = inner.adapter.client.destroy_device(at, inner.kernel_handle);
        inner.log().emit(inner.subject, || EventKind::UserDeviceDestroyed {});
    }

    /// How many objects the driver has for the device: resources, allocations, contexts, paging
    /// queues and synchronization objects. Zero after a correct driver has destroyed it.
    pub fn live_objects(&self) -> usize {
        let it = self.0.ledger();
        let objects = it.contexts.len() + it.queues.len() + it.objects.len();
        it.resources.len() + it.allocations.len() + objects
    }

    /// The process that owns the device.
    pub fn client(&self) -> &thunk::Client {
        &self.0.adapter.client
    }

    /// The kernel handle of the device.
    pub fn kernel_handle(&self) -> D3DKMT_HANDLE {
        self.0.kernel_handle
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.0.subject).finish()
    }
}

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inner").field(&self.subject).finish()
    }
}
