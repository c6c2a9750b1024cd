//! Adapters: opened through a driver's entry point.
#![expect(unsafe_code, reason = "calls a driver through its tables")]

use crate::callbacks;
use crate::called::{self, Frame, InFunction};
use crate::device::{Device, Inner};
use crate::result::{self, BROKEN};
use crate::umd::Umd;
use abi::hresult::{E_INVALIDARG, E_NOTIMPL, succeeded};
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3D9_INTERFACE, D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICEFUNCS,
    D3DDDIARG_OPENADAPTER,
};
use abi::{D3DKMT_HANDLE, HANDLE, HRESULT};
use flight::{Hex, Host, Kind, Log, Passive, RuleId, Subject, What, Who, pass_on};
use kernel::Kernel;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use thunk::{Client, Session};

/// The Direct3D runtime of a run: it counts what it makes. Clones are the same.
#[derive(Clone)]
pub struct Runtime(Arc<Run>);

/// What a runtime has.
pub(crate) struct Run {
    kernel: Arc<Kernel>,
    adapters: AtomicU32,
    pub(crate) devices: AtomicU32,
    pub(crate) surfaces: AtomicU32,
    /// What drivers said of shared resources, by what they were asked for.
    pub(crate) shared: Mutex<BTreeMap<Vec<u8>, Shared>>,
}

/// What a driver said of a shared resource, first.
pub(crate) struct Shared {
    /// The device that it was made for.
    pub(crate) device: usize,
    pub(crate) said: Vec<Vec<u8>>,
    /// Whether it said the same again for that device, once it could.
    pub(crate) steady: Option<bool>,
}

/// An adapter that is open, for an application.
#[derive(Clone)]
pub struct Adapter(pub(crate) Arc<Opened>);

/// Why an adapter could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOpened {
    /// What the driver answered, or what the runtime answers for it.
    pub result: HRESULT,
    /// Why.
    pub why: String,
}

/// What is known of an adapter that is open.
pub(crate) struct Opened {
    pub(crate) run: Arc<Run>,
    pub(crate) umd: Umd,
    /// The application's process.
    pub(crate) client: Client,
    /// The same, for what the driver does in it.
    session: Session,
    pub(crate) subject: Subject,
    pub(crate) handle: usize,
    pub(crate) kernel: D3DKMT_HANDLE,
    table: OnceLock<Table>,
    pub(crate) devices: AtomicU32,
    /// Somebody closes it.
    pub(crate) closing: AtomicBool,
    /// Whether the driver has asked its miniport what the hardware can do.
    pub(crate) asked: AtomicBool,
}

/// What a driver gave when it was opened.
struct Table {
    driver: usize,
    functions: D3DDDI_ADAPTERFUNCS,
    version: u32,
}

impl Run {
    pub(crate) fn log(&self) -> &Arc<Log> {
        self.kernel.log()
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &**self.kernel.host()
    }
}

impl Runtime {
    /// A runtime on a kernel.
    pub fn new(kernel: &Arc<Kernel>) -> Self {
        let count = AtomicU32::default;
        let run = Run {
            kernel: kernel.clone(),
            adapters: count(),
            devices: count(),
            surfaces: count(),
            shared: Mutex::default(),
        };
        Self(Arc::new(run))
    }

    /// Opens an adapter of a process through a user-mode driver.
    pub fn open(
        &self,
        client: &Client,
        kernel: D3DKMT_HANDLE,
        umd: &Umd,
    ) -> Result<Adapter, NotOpened> {
        let mut session = client.session().on_behalf_of(Who::Umd);
        if !umd.trusted {
            session = session.doubting();
        }
        let number = self.0.adapters.fetch_add(1, Relaxed) + 1;
        let opened = Arc::new(Opened {
            run: self.0.clone(),
            umd: umd.clone(),
            client: client.clone(),
            session,
            subject: Kind::UserAdapter.nr(number),
            handle: called::handle(),
            kernel,
            table: OnceLock::new(),
            devices: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            asked: AtomicBool::new(false),
        });
        called::keep_adapter(opened.handle, &opened);
        let answer = opened.open();
        if answer.is_err() {
            called::forget_adapter(opened.handle);
        }
        answer.map(|()| Adapter(opened))
    }
}

impl Opened {
    /// The process, for what the driver does in it.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    fn open(&self) -> Result<(), NotOpened> {
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
        // SAFETY: Whoever made the `Umd` vouches for its entry point; the arguments live here.
        let answer = self.call("OpenAdapter", || unsafe { entry(&raw mut args) });
        if !succeeded(answer) {
            let why = format!("OpenAdapter answered {}", result::name(answer));
            return Err(NotOpened { result: answer, why });
        }
        let (version, driver) = (args.DriverVersion, args.hAdapter.addr());
        let _ = self.table.set(Table { driver, functions, version }); // It is the first.
        self.run.log().emit(self.subject, What::UserAdapterOpened { version: Hex(version) });
        let why = if D3DDDI_DEVICEFUNCS::length(version).is_none() {
            format!(
                "its DriverVersion is {version:#x}; this runtime knows {:#x?}",
                D3DDDI_DEVICEFUNCS::LENGTHS.iter().map(|it| it.0).collect::<Vec<_>>()
            )
        } else if functions.pfnCreateDevice.is_none() {
            "it has no pfnCreateDevice".to_owned()
        } else {
            return Ok(());
        };
        self.close();
        Err(NotOpened { result: E_INVALIDARG, why })
    }

    /// The version of the interface that the driver has.
    pub(crate) fn version(&self) -> u32 {
        self.table.get().map_or(0, |it| it.version)
    }

    pub(crate) fn functions(&self) -> Option<&D3DDDI_ADAPTERFUNCS> {
        self.table.get().map(|it| &it.functions)
    }

    /// The driver's own handle.
    pub(crate) fn driver(&self) -> HANDLE {
        let driver = self.table.get().map_or(0, |it| it.driver);
        ptr::with_exposed_provenance_mut(driver)
    }

    /// Calls a function of the driver for the adapter.
    pub(crate) fn call(&self, name: &'static str, body: impl FnOnce() -> HRESULT) -> HRESULT {
        let frame = Frame { of: self.handle, name, resource: None };
        call(self.run.log(), self.subject, (frame, None), body)
    }

    /// Closes it at the driver.
    fn close(&self) {
        let close = self.functions().and_then(|it| it.pfnCloseAdapter);
        let driver = self.driver();
        let answer = self.call("pfnCloseAdapter", || match close {
            // SAFETY: The driver gave the function, and its handle.
            Some(close) => unsafe { close(driver) },
            None => E_NOTIMPL,
        });
        let _ = answer; // Nothing is left that could be done about it.
        self.run.log().emit(self.subject, What::UserAdapterClosed {});
    }
}

impl Opened {
    /// A driver that counts what it has of an adapter has nothing when that is closed.
    fn judge_freed(&self) {
        let Some(counts) = self.umd.counts else { return };
        let left = counts(self.handle);
        let broken = (left > 0).then(|| {
            format!(
                "the adapter is closed, and {left} objects that the driver made for it are left"
            )
        });
        self.judge(RuleId::UMD_ADAPTER_002, Who::Umd, "pfnCloseAdapter", broken);
    }
}

/// Calls a function of a driver: says so, and catches a panic.
pub(crate) fn call(
    log: &Log,
    subject: Subject,
    (frame, device): (Frame, Option<Arc<Inner>>),
    body: impl FnOnce() -> HRESULT,
) -> HRESULT {
    let name = frame.name;
    log.emit(subject, What::UmdCall { name: name.into() });
    let inside = InFunction::enter(frame, device);
    let answer = catch_unwind(AssertUnwindSafe(body)).map_err(pass_on);
    drop(inside);
    let broken = answer.is_err().then(|| format!("{name} panicked"));
    log.judge(RuleId::WT_CRASH_001, Who::Umd, subject, name, broken);
    let answer = answer.unwrap_or(BROKEN);
    let result = Hex(answer.cast_unsigned());
    log.emit(subject, What::UmdReturn { name: name.into(), result });
    answer
}

impl Adapter {
    /// Makes a device, which no two threads use at once.
    pub fn create_device(&self, at: &mut Passive) -> Result<Device, HRESULT> {
        Device::create(&self.0, at, false)
    }

    /// Makes a device that several threads may use: the runtime lets one in at a time.
    pub fn create_shared_device(&self, at: &mut Passive) -> Result<Device, HRESULT> {
        Device::create(&self.0, at, true)
    }

    /// The process that it is open for.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Closes it. One that has devices is not closed.
    pub fn close(&self) -> Result<(), HRESULT> {
        // Who comes second closes nothing; and a device is counted before it is looked here.
        let again = self.0.closing.swap(true, SeqCst);
        let devices = self.0.devices.load(SeqCst);
        let broken = (devices > 0).then(|| format!("{devices} devices of it are alive"));
        let place = "CloseAdapter.hAdapter";
        let kept = self.0.judge(RuleId::UMD_ADAPTER_001, Who::Client, place, broken);
        if again {
            return Err(E_INVALIDARG);
        }
        if !kept {
            self.0.closing.store(false, SeqCst);
            return Err(E_INVALIDARG);
        }
        self.0.close();
        called::forget_adapter(self.0.handle);
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

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.subject).finish()
    }
}
