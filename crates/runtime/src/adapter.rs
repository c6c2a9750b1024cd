//! Adapters: opened through a driver's entry point.
#![expect(unsafe_code, reason = "calls a driver through its tables")]

use crate::call_stack::{self, CallFrame, CallGuard};
use crate::callbacks;
use crate::device::{Device, DeviceState};
use crate::result::{self, DRIVER_CRASHED};
use crate::umd::Umd;
use abi::hresult::{E_INVALIDARG, E_NOTIMPL, succeeded};
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3D9_INTERFACE, D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICEFUNCS,
    D3DDDIARG_OPENADAPTER,
};
use abi::{D3DKMT_HANDLE, HANDLE, HRESULT};
use flight::{
    Component, EventKind, Hex, Host, Kind, Log, Passive, RuleId, Subject, resume_internal_error,
};
use kernel::Kernel;
use nt::image::UserModeCode;
use nt::keep_control_state;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use thunk::{Client, Session};

/// The Direct3D runtime of one run. It counts the objects it creates. Clones share one runtime.
#[derive(Clone)]
pub struct Runtime(Arc<RuntimeState>);

/// The state of a runtime.
pub(crate) struct RuntimeState {
    kernel: Arc<Kernel>,
    adapters: AtomicU32,
    pub(crate) devices: AtomicU32,
    pub(crate) surfaces: AtomicU32,
    /// How drivers described shared resources, by the description that the application requested.
    pub(crate) shared_descriptions: Mutex<BTreeMap<Vec<u8>, SharedDescription>>,
}

/// A driver's first description of a shared resource.
pub(crate) struct SharedDescription {
    /// The device that the resource was created for.
    pub(crate) device: usize,
    pub(crate) private_data: Vec<Vec<u8>>,
    /// Whether the driver repeated the description for that device. `None` until it has had to.
    pub(crate) repeatable: Option<bool>,
}

/// An open adapter of an application.
#[derive(Clone)]
pub struct Adapter(pub(crate) Arc<AdapterState>);

/// Why an adapter could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// The result of the driver, or the result that the runtime returns in its place.
    pub result: HRESULT,
    /// The reason.
    pub reason: String,
}

/// The state of an open adapter.
pub(crate) struct AdapterState {
    pub(crate) run: Arc<RuntimeState>,
    pub(crate) umd: Umd,
    /// The application's process.
    pub(crate) client: Client,
    /// The same process, for the driver's calls.
    session: Session,
    pub(crate) subject: Subject,
    pub(crate) handle: usize,
    pub(crate) kernel_handle: D3DKMT_HANDLE,
    table: OnceLock<AdapterTable>,
    pub(crate) devices: AtomicU32,
    /// The adapter is being closed.
    pub(crate) closing: AtomicBool,
    /// Whether the driver has queried the miniport's capabilities.
    pub(crate) caps_queried: AtomicBool,
}

/// What the driver returned from `OpenAdapter`.
struct AdapterTable {
    driver: usize,
    functions: D3DDDI_ADAPTERFUNCS,
    version: u32,
}

impl RuntimeState {
    pub(crate) fn log(&self) -> &Arc<Log> {
        self.kernel.log()
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &**self.kernel.host()
    }
}

impl Runtime {
    /// Creates a runtime on a kernel.
    pub fn new(kernel: &Arc<Kernel>) -> Self {
        let count = AtomicU32::default;
        let run = RuntimeState {
            kernel: kernel.clone(),
            adapters: count(),
            devices: count(),
            surfaces: count(),
            shared_descriptions: Mutex::default(),
        };
        Self(Arc::new(run))
    }

    /// Opens an adapter for a process through a user-mode driver.
    pub fn open(
        &self,
        client: &Client,
        kernel: D3DKMT_HANDLE,
        umd: &Umd,
    ) -> Result<Adapter, OpenError> {
        let mut session = client.session().for_component(Component::Umd);
        if !umd.trusted {
            session = session.guarded_copy();
        }
        let number = self.0.adapters.fetch_add(1, Relaxed) + 1;
        let opened = Arc::new(AdapterState {
            run: self.0.clone(),
            umd: umd.clone(),
            client: client.clone(),
            session,
            subject: Kind::UserAdapter.subject(number),
            handle: call_stack::new_handle(),
            kernel_handle: kernel,
            table: OnceLock::new(),
            devices: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            caps_queried: AtomicBool::new(false),
        });
        call_stack::register_adapter(opened.handle, &opened);
        let answer = opened.open();
        if answer.is_err() {
            call_stack::unregister_adapter(opened.handle);
        }
        answer.map(|()| Adapter(opened))
    }
}

impl AdapterState {
    /// The process, for the driver's calls.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    fn open(&self) -> Result<(), OpenError> {
        let mut functions = D3DDDI_ADAPTERFUNCS::ZERO;
        let mut args = D3DDDIARG_OPENADAPTER {
            hAdapter: ptr::without_provenance_mut(self.handle),
            Interface: D3D9_INTERFACE,
            Version: D3D_UMD_INTERFACE_VERSION_WDDM2_0,
            pAdapterCallbacks: &raw const callbacks::ADAPTER,
            pAdapterFuncs: &raw mut functions,
            DriverVersion: 0,
        };
        let entry = self.umd.entry;
        // SAFETY: The creator of the `Umd` vouches for its entry point; `args` outlives the call.
        let answer = self.call("OpenAdapter", || unsafe { entry(&raw mut args) });
        if !succeeded(answer) {
            let why = format!("OpenAdapter returned {}", result::hresult_name(answer));
            return Err(OpenError { result: answer, reason: why });
        }
        let (version, driver) = (args.DriverVersion, args.hAdapter.addr());
        let _ = self.table.set(AdapterTable { driver, functions, version }); // Never set before.
        self.run
            .log()
            .emit(self.subject, || EventKind::UserAdapterOpened { version: Hex(version) });
        let why = if D3DDDI_DEVICEFUNCS::length(version).is_none() {
            let known = D3DDDI_DEVICEFUNCS::LENGTHS.iter().map(|pair| format!("{:#x}", pair.0));
            let known: Vec<String> = known.collect();
            let known = known.join(" and ");
            format!("its DriverVersion is {version:#x}; this runtime supports {known}")
        } else if functions.pfnCreateDevice.is_none() {
            "pfnCreateDevice is NULL".to_owned()
        } else {
            return Ok(());
        };
        self.close();
        Err(OpenError { result: E_INVALIDARG, reason: why })
    }

    /// The interface version that the driver supports.
    pub(crate) fn version(&self) -> u32 {
        self.table.get().map_or(0, |adapter_table| adapter_table.version)
    }

    pub(crate) fn functions(&self) -> Option<&D3DDDI_ADAPTERFUNCS> {
        self.table.get().map(|adapter_table| &adapter_table.functions)
    }

    /// The driver's handle for the adapter.
    pub(crate) fn driver(&self) -> HANDLE {
        let driver = self.table.get().map_or(0, |adapter_table| adapter_table.driver);
        ptr::with_exposed_provenance_mut(driver)
    }

    /// Calls a function of the driver for the adapter.
    pub(crate) fn call(&self, name: &'static str, body: impl FnOnce() -> HRESULT) -> HRESULT {
        let frame = CallFrame { handle: self.handle, name, resource: None };
        call(self, self.subject, (frame, None), body)
    }

    /// Closes the adapter in the driver.
    fn close(&self) {
        let close = self.functions().and_then(|raw| raw.pfnCloseAdapter);
        let driver = self.driver();
        let answer = self.call("pfnCloseAdapter", || match close {
            // SAFETY: The driver supplied both the function and its handle.
            Some(close) => unsafe { close(driver) },
            None => E_NOTIMPL,
        });
        let _ = answer; // A failed close has no remedy.
        self.run.log().emit(self.subject, || EventKind::UserAdapterClosed {});
    }
}

impl AdapterState {
    /// Judges that a driver which counts its objects has none left after the adapter is closed.
    fn judge_freed(&self) {
        let Some(live_objects) = self.umd.live_objects else { return };
        let left = live_objects(self.handle);
        let broken = (left > 0)
            .then(|| format!("the adapter is closed, and {left} objects of the driver are left"));
        self.judge(RuleId::UMD_ADAPTER_002, Component::Umd, "pfnCloseAdapter", broken);
    }
}

/// Calls a function of a driver: logs the call, and catches a panic.
pub(crate) fn call(
    adapter: &AdapterState,
    subject: Subject,
    (frame, device): (CallFrame, Option<Arc<DeviceState>>),
    body: impl FnOnce() -> HRESULT,
) -> HRESULT {
    let (name, log) = (frame.name, adapter.run.log());
    let is_from_file = adapter.umd.is_from_file();
    log.emit(subject, || EventKind::UmdCall { name: name.into() });
    let inside = CallGuard::enter(frame, device);
    let code = UserModeCode::begin(name);
    let body = || nt::image::returning(body);
    let run = AssertUnwindSafe(|| keep_control_state(is_from_file, body));
    let answer = catch_unwind(run).map_err(resume_internal_error);
    drop(code);
    drop(inside);
    let broken = answer.is_err().then(|| format!("{name} panicked"));
    log.judge(RuleId::WT_CRASH_001, Component::Umd, subject, name, broken);
    let (answer, change) = answer.unwrap_or((DRIVER_CRASHED, None));
    if is_from_file {
        let broken = change.map(|change| change.breach("the user-mode driver"));
        log.judge(RuleId::WT_REGISTER_001, Component::Umd, subject, name, broken);
    }
    let result = Hex(answer.cast_unsigned());
    log.emit(subject, || EventKind::UmdReturn { name: name.into(), result });
    answer
}

impl Adapter {
    /// Creates a device that only one thread uses at a time.
    pub fn create_device(&self, at: &mut Passive) -> Result<Device, HRESULT> {
        Device::create(&self.0, at, false)
    }

    /// Creates a device that several threads may use. The runtime serializes calls to the driver.
    pub fn create_shared_device(&self, at: &mut Passive) -> Result<Device, HRESULT> {
        Device::create(&self.0, at, true)
    }

    /// The process that opened the adapter.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Closes the adapter. Fails while the adapter has devices.
    pub fn close(&self) -> Result<(), HRESULT> {
        // The second closer closes nothing. `devices` is incremented before `closing` is read.
        let again = self.0.closing.swap(true, SeqCst);
        let devices = self.0.devices.load(SeqCst);
        let broken = (devices > 0).then(|| format!("it has {devices} live devices"));
        let place = "CloseAdapter.hAdapter";
        let kept = self.0.judge(RuleId::UMD_ADAPTER_001, Component::Client, place, broken);
        if again {
            return Err(E_INVALIDARG);
        }
        if !kept {
            self.0.closing.store(false, SeqCst);
            return Err(E_INVALIDARG);
        }
        self.0.close();
        call_stack::unregister_adapter(self.0.handle);
        self.0.judge_freed();
        Ok(())
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adapter").field(&self.0.subject).finish()
    }
}

impl fmt::Debug for AdapterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.subject).finish()
    }
}
