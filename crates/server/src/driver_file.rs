//! A kernel-mode driver in a file: its facts, and its start for a kernel that clients call.

use crate::{driver_kind, fault_here};
use flight::{HardwareModel, Host, InterruptLine, Log, Passive, ThreadedHost};
use kernel::DriverSetup;
use nt::image::{Binding, DriverImage, SymbolError, Symbols};
use port::{Hardware, LoadContext, Registered};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The memory of the machine of a driver from a file.
pub const MACHINE_MEMORY: u64 = 256 << 20;

/// The length of the configuration space.
const CONFIG: usize = 256;

/// A kernel-mode driver file that was read and can be loaded.
#[derive(Debug)]
pub struct OpenedFile {
    path: PathBuf,
    name: String,
    bytes: Vec<u8>,
    facts: DriverImage,
    absent: Vec<String>,
    /// Read when they are needed first: the process of a flight does not need them.
    symbols: OnceLock<Result<Symbols, SymbolError>>,
}

impl OpenedFile {
    /// Opens a file and checks that it can be loaded. The error is a sentence about the file.
    ///
    /// # Errors
    ///
    /// Why the file cannot be read or loaded.
    pub fn open(path: &Path) -> Result<Self, String> {
        let at = path.display();
        let bytes = std::fs::read(path).map_err(|why| {
            format!(
                "{at} cannot be read: {why}; expected a kernel-mode driver, an image (.sys) or a \
                 shared object (.so); '--umd FILE.so' flies a user-mode driver"
            )
        })?;
        let facts = DriverImage::parse(&bytes).map_err(|why| format!("{at} {why}"))?;
        if let DriverImage::Image(image) = &facts
            && let Some(why) = driver_kind::other_kind(image)
        {
            return Err(format!("{at} {why}"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_absent = |name: &&str| port::resolve_import(name) == Binding::Absent;
        let names = facts.import_names().into_iter();
        let absent: Vec<String> = names.filter(is_absent).map(str::to_owned).collect();
        let (path, symbols) = (path.to_owned(), OnceLock::new());
        Ok(Self { path, name, bytes, facts, absent, symbols })
    }

    /// Its path, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The parsed file.
    pub fn image(&self) -> &DriverImage {
        &self.facts
    }

    /// Its symbols, or why there are none.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn symbols(&self) -> Result<&Symbols, &SymbolError> {
        let symbols = self.symbols.get_or_init(|| match &self.facts {
            DriverImage::Image(image) => Symbols::find(&self.path, image),
            DriverImage::SharedObject(object) => {
                Symbols::of_shared_object(&self.path, object.entry)
            }
        });
        symbols.as_ref()
    }

    /// The imports that are not implemented: a call of one ends the flight.
    pub fn absent_imports(&self) -> &[String] {
        &self.absent
    }

    /// The name of its service: the file's, without an extension.
    fn service(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(stem, _)| stem)
    }

    /// What `DriverEntry` finds: a machine with memory, and no device. The driver finds files that it
    /// opens in the folder `files`.
    pub fn load_context<'a>(
        &'a self,
        host: &'a Arc<dyn Host>,
        log: &'a Arc<Log>,
        pool: &'a Arc<nt::Pool>,
        ram: &Arc<nt::Ram>,
        files: Option<PathBuf>,
    ) -> LoadContext<'a> {
        let hardware = Hardware { memory: None, config: vec![0; CONFIG], ram: Some(ram.clone()) };
        LoadContext { host, log, pool, hardware, service: self.service(), files }
    }

    /// Loads a display driver and runs its `DriverEntry`, for a kernel in this process that clients
    /// call. A fault of the driver ends the process: a server, and a client with a report, write the
    /// report first.
    ///
    /// # Errors
    ///
    /// Why it cannot be used: a sentence about the file.
    pub fn set_up(
        &'static self,
        host: &Arc<ThreadedHost>,
        log: &Arc<Log>,
    ) -> Result<DriverSetup, String> {
        let at = self.path.display();
        fault_here::report_faults_here();
        fault_here::set_file(self);
        let loaded = drivers::load_driver(&self.path, &self.bytes);
        let loaded = loaded.map_err(|why| format!("{at} {why}"))?;
        fault_here::set_image(loaded);
        let ram = nt::Ram::new(MACHINE_MEMORY).map_err(|why| format!("no memory: {why}"))?;
        let pool = nt::Pool::new(log.clone());
        let any_host: Arc<dyn Host> = host.clone();
        let context = self.load_context(&any_host, log, &pool, &ram, None);
        let registered = host.adopt("driver", |_| drivers::run_driver_entry(loaded, context));
        fault_here::set_entered();
        match registered {
            Ok(Registered::Display(miniport)) => {
                let hardware = Arc::new(NoDevice::new(ram, pool.clone()));
                Ok(DriverSetup { miniport, hardware, pool })
            }
            Ok(Registered::Stream(_)) => {
                Err(format!("{at} is an AVStream minidriver: D3DKMT clients need a display driver"))
            }
            Err(why) => Err(format!("{at} needs {why}")),
        }
    }
}

/// A machine with memory, and no device behind the adapter.
pub struct NoDevice {
    ram: Arc<nt::Ram>,
    /// The driver's pool, which knows the executive.
    pool: Arc<nt::Pool>,
}

impl NoDevice {
    /// The machine of a driver with this pool.
    pub fn new(ram: Arc<nt::Ram>, pool: Arc<nt::Pool>) -> Self {
        Self { ram, pool }
    }
}

impl HardwareModel for NoDevice {
    fn idle(&self) -> bool {
        true
    }

    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}

    fn models_hardware(&self) -> bool {
        false
    }

    fn last_request(&self) -> Option<String> {
        Some(self.pool.executive()?.last_device_request()?.to_string())
    }

    fn ram(&self) -> Option<Arc<dyn flight::Ram>> {
        Some(self.ram.clone())
    }
}
