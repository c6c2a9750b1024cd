//! Loads a driver from its image: runs its `DriverEntry` and takes what it registers.
//!
//! A display miniport driver registers its table with `DxgkInitialize` or
//! `DxgkInitializeDisplayOnlyDriver`, a streaming minidriver its descriptor with
//! `KsInitializeDriver`.
#![expect(unsafe_code, reason = "runs code of an image")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::TableDriver;
use crate::callback_entry::write;
use crate::hardware::Hardware;
use crate::ks::device_calls;
use crate::ks::{FUNCTIONS, KsDriver};
use crate::table::TableError;
use abi::status::{
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_REVISION_MISMATCH,
    STATUS_SUCCESS,
};
use abi::{NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING, nt_success};
use flight::{Attachment, ExecutionContext, Host, Log};
use nt::image::{Binding, Module};
use nt::{DeviceControl, DriverObject, Executive, Pool, RequestHandler, processor};
use std::ffi::c_void;
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use stream::DescriptorError;

/// What a driver registered in its `DriverEntry`.
#[derive(Debug)]
pub enum Registered {
    /// A display miniport driver.
    Display(Arc<TableDriver>),
    /// A streaming minidriver.
    Stream(Arc<KsDriver>),
}

/// Why a driver cannot be flown after its `DriverEntry`.
#[derive(Debug)]
pub enum LoadError {
    /// `DriverEntry` failed with this status.
    Failed(NTSTATUS),
    /// It succeeded and registered nothing.
    Nothing,
    /// Its table was rejected.
    Table(TableError),
    /// Its descriptor was rejected.
    Descriptor(DescriptorError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Failed(status) => match abi::status::name(*status) {
                Some(name) => write!(f, "DriverEntry to succeed; it returned {name}"),
                None => write!(f, "DriverEntry to succeed; it returned {status:#010x}"),
            },
            LoadError::Nothing => f.write_str(
                "DriverEntry to register a display driver (DxgkInitialize) or a streaming \
                 minidriver (KsInitializeDriver)",
            ),
            LoadError::Table(why) => why.fmt(f),
            LoadError::Descriptor(DescriptorError(why)) => {
                write!(f, "a driver whose tables can be read: {why}")
            }
        }
    }
}

/// A driver whose `DriverEntry` runs.
struct LoadingDriver {
    object: usize,
    device: usize,
    pool: Arc<Pool>,
    hardware: Hardware,
    /// What it registered. The table is read at once: it may be on the driver's stack.
    driver: Mutex<Option<Result<Arc<TableDriver>, TableError>>>,
}

impl LoadingDriver {
    /// The adapter's device object, the pool and the hardware.
    fn adapter(&self) -> (usize, Arc<Pool>, Hardware) {
        (self.device, self.pool.clone(), self.hardware.clone())
    }
}

impl Attachment for LoadingDriver {
    /// A driver registers in its entry, on the thread that loads it.
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        None
    }
}

/// Finds what an imported name is bound to.
pub fn resolve_import(name: &str) -> Binding {
    let own: [(&str, *const ()); 3] = [
        ("DxgkInitialize", DxgkInitialize as *const ()),
        ("DxgkInitializeDisplayOnlyDriver", DxgkInitializeDisplayOnlyDriver as *const ()),
        ("DxgkUnInitialize", DxgkUnInitialize as *const ()),
    ];
    let function = |address: *const ()| Binding::Function {
        address: address.expose_provenance(),
        irql: nt::irql_of(name),
    };
    if let Some((_, address)) = own.iter().find(|(known, _)| *known == name) {
        return function(*address);
    }
    if let Some(import) = nt::find_import(name) {
        return if import.is_variable {
            Binding::Variable(import.address.expose_provenance())
        } else {
            function(import.address)
        };
    }
    match FUNCTIONS.iter().find(|export| export.name == name) {
        Some(export) => function(export.address),
        None => Binding::Absent,
    }
}

/// Where a driver is loaded: its pool, the host and the log of the flight, and the hardware behind
/// its adapter.
pub struct LoadContext<'a> {
    /// The host.
    pub host: &'a Arc<dyn Host>,
    /// The log.
    pub log: &'a Arc<Log>,
    /// The pool.
    pub pool: &'a Arc<Pool>,
    /// The hardware.
    pub hardware: Hardware,
    /// The name of the service.
    pub service: &'a str,
    /// The folder in which the driver finds files, if any.
    pub files: Option<PathBuf>,
}

/// Runs `DriverEntry` of a loaded driver, on a virtual thread.
///
/// # Safety
///
/// The code of the driver runs in this process, from now on.
pub unsafe fn run_driver_entry(
    module: &'static Module,
    context: LoadContext<'_>,
) -> Result<Registered, LoadError> {
    if let Ok(line) = usize::try_from(nt::image::USER_PROBE_ADDRESS) {
        nt::mm::set_user_limit(line);
    }
    let executive = Executive::new(context.service);
    executive.set_files(context.files);
    if let Some(ram) = &context.hardware.ram {
        executive.set_ram(ram.clone());
    }
    executive.set_handler(GRAPHICS_KERNEL, Arc::new(GraphicsKernel));
    context.pool.set_executive(executive.clone());
    // It is never freed: the driver keeps its address.
    let driver_object = Box::leak(Box::new(DriverObject::new(&executive)));
    let range = module.range();
    driver_object.set_image(range.start, u32::try_from(range.len()).unwrap_or(u32::MAX));
    let object = driver_object.pointer().expose_provenance();
    let loading = Arc::new(LoadingDriver {
        object,
        device: executive.physical_device().expose_provenance(),
        pool: context.pool.clone(),
        hardware: context.hardware,
        driver: Mutex::new(None),
    });
    let run = || {
        let _attached = ExecutionContext::attach(loading.clone());
        let path = driver_object.registry_path().expose_provenance();
        // SAFETY: The caller lets the code of the module run; the arguments are never freed.
        let entry = || unsafe { module.call_entry(object, path) };
        let (status, left) =
            processor::run_driver(context.host, context.log, || context.pool.run_driver(entry));
        processor::judge_control_state(context.log, "DriverEntry", left.control_breach());
        status
    };
    let (status, descriptor) = device_calls::run_driver_entry(object, run);
    let registered = loading.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
    let driver = match registered {
        Some(Err(why)) => return Err(LoadError::Table(why)),
        Some(Ok(driver)) => Some(driver),
        None => None,
    };
    if !nt_success(status) {
        return Err(LoadError::Failed(status));
    }
    module.discard_init();
    match (driver, descriptor) {
        (Some(driver), _) => Ok(Registered::Display(driver)),
        (None, Some(descriptor)) => {
            let descriptor = ptr::with_exposed_provenance(descriptor);
            // SAFETY: The driver registered the descriptor, and it is never unmapped.
            let driver = unsafe { KsDriver::new(descriptor, context.pool.clone()) };
            driver.map(Registered::Stream).map_err(LoadError::Descriptor)
        }
        (None, None) => Err(LoadError::Nothing),
    }
}

/// The device of the graphics kernel, which `displib` asks for the functions that register a driver.
///
/// WINDOWS: the control codes are observed.
struct GraphicsKernel;

impl RequestHandler for GraphicsKernel {
    fn device_control(&self, request: &DeviceControl) -> (NTSTATUS, usize) {
        const INITIALIZE: u32 = 0x0023_0047;
        const INITIALIZE_BEFORE_WINDOWS_8: u32 = 0x0023_003f;
        const INITIALIZE_DISPLAY_ONLY: u32 = 0x0023_0043;
        const UNINITIALIZE: u32 = 0x0023_004b;
        let function = match request.code {
            INITIALIZE | INITIALIZE_BEFORE_WINDOWS_8 => DxgkInitialize as *const (),
            INITIALIZE_DISPLAY_ONLY => DxgkInitializeDisplayOnlyDriver as *const (),
            UNINITIALIZE => DxgkUnInitialize as *const (),
            _ => return (STATUS_INVALID_DEVICE_REQUEST, 0),
        };
        if !request.internal || request.output_length < size_of::<usize>() {
            return (STATUS_INVALID_PARAMETER, 0);
        }
        // SAFETY: The driver passes a buffer of this length, or NULL, which is ignored.
        unsafe { write(request.output.cast(), function) };
        (STATUS_SUCCESS, size_of::<usize>())
    }
}

/// The name of the graphics kernel's device.
const GRAPHICS_KERNEL: &str = r"\Device\DxgKrnl";

/// Registers the table of a display miniport driver.
///
/// # Safety
///
/// `data` is NULL or points to a `DRIVER_INITIALIZATION_DATA` of the version that it says.
pub(crate) unsafe extern "win64-unwind" fn DxgkInitialize(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
    data: *const c_void,
) -> NTSTATUS {
    register(driver, path, data, |loading| {
        let (device, pool, hardware) = loading.adapter();
        // SAFETY: The caller's contract; the code of an image is never unmapped.
        unsafe { TableDriver::from_memory(data, device, pool, hardware) }
    })
}

/// Registers the table of a display-only driver.
///
/// # Safety
///
/// `data` is NULL or points to a `KMDDOD_INITIALIZATION_DATA` of the version that it says.
pub(crate) unsafe extern "win64-unwind" fn DxgkInitializeDisplayOnlyDriver(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
    data: *const c_void,
) -> NTSTATUS {
    register(driver, path, data, |loading| {
        let (device, pool, hardware) = loading.adapter();
        // SAFETY: The caller's contract; the code of an image is never unmapped.
        unsafe { TableDriver::display_only_from_memory(data, device, pool, hardware) }
    })
}

/// Withdraws the registration of a driver that is unloaded.
pub(crate) extern "win64-unwind" fn DxgkUnInitialize(driver: PDRIVER_OBJECT) -> NTSTATUS {
    if driver.is_null() { STATUS_INVALID_PARAMETER } else { STATUS_SUCCESS }
}

fn register(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
    data: *const c_void,
    read: impl FnOnce(&LoadingDriver) -> Result<Arc<TableDriver>, TableError>,
) -> NTSTATUS {
    let Some(loading) = ExecutionContext::attached::<LoadingDriver>() else {
        ExecutionContext::report_missing("DxgkInitialize");
        return STATUS_INVALID_PARAMETER;
    };
    if data.is_null() || path.is_null() || driver.addr() != loading.object {
        return STATUS_INVALID_PARAMETER;
    }
    let read = read(&loading);
    // WINDOWS: a version that is not known is STATUS_REVISION_MISMATCH (observed); a table without
    // an entry that every driver has is refused with the same status here.
    let status = if read.is_ok() { STATUS_SUCCESS } else { STATUS_REVISION_MISMATCH };
    *loading.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    status
}
