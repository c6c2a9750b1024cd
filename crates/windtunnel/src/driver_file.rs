//! A kernel-mode driver in a file: its facts, and flights of it in this process.

use crate::child_flight;
use crate::crash_place::Places;
use crate::driver::Driver;
use crate::expected_video::ExpectedVideo;
use crate::fault_here;
use crate::flight_test::NoHardware;
use crate::fly::{
    FlightResult, HostKind, ScenarioRun, judge_events, minidriver_entries, missing_needs,
};
use crate::native_umd::NativeUmd;
use crate::private_data::{self, PrivateData};
use crate::scenario::Scenario;
use flight::{
    EventKind, HardwareModel, Host, HostError, InterruptLine, Log, Passive, Subject, ThreadedHost,
};
use kernel::DriverSetup;
use kernel::miniport::{DriverKind, Miniport as _};
use nt::image::{Binding, Channel, DriverImage, Module, Number, SymbolError, Symbols};
use port::{Hardware, LoadContext, LoadError, Registered, TableDriver};
use runtime::Umd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The memory of the machine.
const MACHINE_MEMORY: u64 = 256 << 20;

/// The entry point of a user-mode driver.
pub(crate) const OPEN_ADAPTER: &str = "OpenAdapter";

const CREATE_DEVICE: &str = "DxgkDdiCreateDevice";

/// The length of the configuration space.
const CONFIG: usize = 256;

/// How flights of a file are made.
#[derive(Clone, Debug)]
pub struct FlightOptions {
    /// In this process, for a debugger; otherwise each flight has a process of its own.
    pub in_process: bool,
    /// The longest time that driver code may run without a wait; `None` for any time.
    pub deadline: Option<Duration>,
    /// The folder in which the driver finds files, if any.
    pub files: Option<PathBuf>,
    /// How much pool memory lies between inaccessible pages.
    pub guard: nt::Guard,
    /// The private data that the driver takes; `None` for what the file says.
    pub private_data: Option<PrivateData>,
}

/// A kernel-mode driver in a file.
#[derive(Debug)]
pub struct DriverFile {
    path: PathBuf,
    name: String,
    bytes: Vec<u8>,
    facts: DriverImage,
    absent: Vec<String>,
    symbols: Result<Symbols, SymbolError>,
    registration: Mutex<Option<String>>,
    registers_nothing: AtomicBool,
    pub(crate) options: FlightOptions,
}

impl DriverFile {
    /// Opens a file and checks that it can be loaded. The error is a sentence about the file.
    pub fn open(path: &Path, options: FlightOptions) -> Result<&'static Self, String> {
        let at = path.display();
        let bytes = std::fs::read(path).map_err(|why| {
            format!(
                "{at} cannot be read: {why}; expected a kernel-mode driver, an image (.sys) or a \
                 shared object (.so); '--umd FILE.so' flies a user-mode driver"
            )
        })?;
        let facts = DriverImage::parse(&bytes).map_err(|why| format!("{at} {why}"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_absent = |name: &&str| port::resolve_import(name) == Binding::Absent;
        let names = facts.import_names().into_iter();
        let absent: Vec<String> = names.filter(is_absent).map(str::to_owned).collect();
        let symbols = match &facts {
            DriverImage::Image(image) => Symbols::find(path, image),
            DriverImage::SharedObject(_) => Symbols::of_shared_object(path),
        };
        let path = path.to_owned();
        // A check flies few files, and refers to them until it ends.
        Ok(Box::leak(Box::new(Self {
            path,
            name,
            bytes,
            facts,
            absent,
            symbols,
            registration: Mutex::default(),
            registers_nothing: AtomicBool::new(false),
            options,
        })))
    }

    /// Its path, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is flown in this process.
    pub(crate) fn is_in_process(&self) -> bool {
        self.options.in_process
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    pub fn about(&self) -> &'static str {
        match (&self.facts, self.streams()) {
            (DriverImage::Image(_), false) => "a display driver image",
            (DriverImage::Image(_), true) => "an AVStream minidriver image",
            (DriverImage::SharedObject(_), false) => "a display driver as a shared object",
            (DriverImage::SharedObject(_), true) => "an AVStream minidriver as a shared object",
        }
    }

    /// The parsed file.
    pub fn image(&self) -> &DriverImage {
        &self.facts
    }

    /// The SHA-256 of the file.
    pub fn hash(&self) -> [u8; 32] {
        nt::image::hash(&self.bytes)
    }

    /// Its symbols, or why there are none.
    pub fn symbols(&self) -> Result<&Symbols, &SymbolError> {
        self.symbols.as_ref()
    }

    /// What it registered as in its last flight: the kind of driver, and the interface version.
    /// `None` before the first one, and if it registered nothing.
    pub fn registration(&self) -> Option<String> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers what it registered as. A compute-only driver is known as one in flights that
    /// start it only.
    pub(crate) fn set_registration(&self, text: String) {
        let mut known = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.contains("compute-only")) {
            *known = Some(text);
        }
    }

    /// Whether `DriverEntry` succeeded and registered no driver: nothing can be flown.
    pub fn registers_nothing(&self) -> bool {
        self.registers_nothing.load(Ordering::Relaxed)
    }

    /// Remembers that it registered nothing.
    pub(crate) fn set_registers_nothing(&self) {
        self.registers_nothing.store(true, Ordering::Relaxed);
    }

    /// The imports that are not implemented: a call of one ends the flight.
    pub fn absent_imports(&self) -> &[String] {
        &self.absent
    }

    /// Whether it is a streaming minidriver: it imports the function that registers one.
    pub fn streams(&self) -> bool {
        self.facts.import_names().contains(&"KsInitializeDriver")
    }

    /// The private data that it takes: as the options say, or as the file says.
    pub fn private_data(&self) -> PrivateData {
        self.options.private_data.unwrap_or_else(|| PrivateData::of_file(&self.bytes))
    }

    /// The name of its service: the file's, without an extension.
    fn service(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(stem, _)| stem)
    }

    /// What `DriverEntry` finds: a machine with memory, and no device.
    fn load_context<'a>(
        &'a self,
        host: &'a Arc<dyn Host>,
        log: &'a Arc<Log>,
        pool: &'a Arc<nt::Pool>,
        ram: &Arc<nt::Ram>,
    ) -> LoadContext<'a> {
        let hardware = Hardware { memory: None, config: vec![0; CONFIG], ram: Some(ram.clone()) };
        let (service, files) = (self.service(), self.options.files.clone());
        LoadContext { host, log, pool, hardware, service, files }
    }

    /// Loads a display driver and runs its `DriverEntry`, for a kernel in this process that clients
    /// call. A fault of the driver ends the process: a server writes its report first.
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
        let context = self.load_context(&any_host, log, &pool, &ram);
        let registered = host.adopt("driver", |_| drivers::run_driver_entry(loaded, context));
        fault_here::set_entered();
        match registered {
            Ok(Registered::Display(miniport)) => {
                let hardware = Arc::new(NoDevice { ram, pool: pool.clone() });
                Ok(DriverSetup { miniport, hardware, pool })
            }
            Ok(Registered::Stream(_)) => {
                Err(format!("{at} is an AVStream minidriver: D3DKMT clients need a display driver"))
            }
            Err(why) => Err(format!("{at} needs {why}")),
        }
    }
}

/// Flies a driver file through a scenario, as its options say.
pub(crate) fn fly_file(
    file: &'static DriverFile,
    umd: Option<&NativeUmd>,
    scenario: &'static Scenario,
    (on, capture): (HostKind, bool),
) -> Result<FlightResult, HostError> {
    if !file.options.in_process {
        let driver = Driver::File(file);
        return child_flight::fly(driver, umd, &file.options, scenario, (on, capture));
    }
    fault_here::report_faults_here();
    fault_here::set_file(file);
    let log = Arc::new(Log::new());
    let umd = umd.and_then(NativeUmd::loaded);
    let flown = fly_here(file, umd, scenario, on, &log, None)?;
    if let Some(text) = flown.registration {
        file.set_registration(text);
    }
    if flown.registers_nothing {
        file.set_registers_nothing();
    }
    let events = if flown.began { log.take() } else { Vec::new() };
    let mut result = judge_events(scenario.name, events, log.rule_counts(), flown.run);
    let no_stacks = child_flight::EventStacks::default();
    for finding in &mut result.findings {
        child_flight::add_code_places(finding, file, &no_stacks);
    }
    Ok(FlightResult { seed: on.seed(), implemented: flown.implemented, ..result })
}

/// A flight with a driver from a file.
pub(crate) struct FileFlight {
    /// The driver's entry points.
    pub(crate) implemented: Vec<&'static str>,
    /// The interface version and the kind of driver.
    pub(crate) registration: Option<String>,
    /// Whether `DriverEntry` succeeded and registered no driver.
    pub(crate) registers_nothing: bool,
    /// Whether the scenario began: the driver has the entry points that it needs.
    pub(crate) began: bool,
    /// The run.
    pub(crate) run: ScenarioRun,
}

impl FileFlight {
    fn stopped(need: String) -> Self {
        let run = ScenarioRun { needs: vec![need], ..ScenarioRun::default() };
        Self { began: true, ..Self::new(Vec::new(), None, run) }
    }

    /// A flight that did not begin.
    fn new(implemented: Vec<&'static str>, registration: Option<String>, run: ScenarioRun) -> Self {
        Self { implemented, registration, registers_nothing: false, began: false, run }
    }
}

/// Flies a driver file in this process: from `DriverEntry` to `Unload`.
pub(crate) fn fly_here(
    file: &'static DriverFile,
    umd: Option<Umd>,
    scenario: &'static Scenario,
    on: HostKind,
    log: &Arc<Log>,
    channel: Option<&Channel>,
) -> Result<FileFlight, HostError> {
    let stopped = FileFlight::stopped;
    let loaded = match drivers::load_driver(&file.path, &file.bytes) {
        Ok(loaded) => loaded,
        Err(why) => return Ok(stopped(format!("an image that can be loaded: it {why}"))),
    };
    if let Some(channel) = channel {
        leave_numbers(channel, loaded);
        if let Err(why) = nt::image::refuse_system_calls(&loaded.range()) {
            let why = why.to_string().into();
            log.emit(Subject::RUN, || EventKind::SystemCallsUnfiltered { why });
        }
    } else {
        fault_here::set_image(loaded);
    }
    let Ok(ram) = nt::Ram::new(MACHINE_MEMORY) else {
        return Ok(stopped(format!("{MACHINE_MEMORY} bytes of memory")));
    };
    on.fly(log, |host, at| {
        let pool = nt::Pool::new(log.clone());
        // Outside of a process of its own, an access that is caught would end the command.
        if channel.is_some() {
            pool.set_guard(file.options.guard, on.seed().unwrap_or(0));
            let range = loaded.range();
            pool.set_place_names(Box::new(move |returns_to| {
                Places::of_image(file, &range).caller(returns_to)
            }));
            // The host with threads switches threads at any IRQL.
            if matches!(on, HostKind::Deterministic { .. }) && file.options.guard != nt::Guard::Off
            {
                nt::protect_paged_memory();
            }
        }
        let any_host: Arc<dyn Host> = host.clone();
        let context = file.load_context(&any_host, log, &pool, &ram);
        match drivers::run_driver_entry(loaded, context) {
            Ok(Registered::Display(miniport)) => {
                let mut implemented = miniport.entry_points();
                if umd.is_some() {
                    implemented.push(OPEN_ADAPTER);
                }
                let registration = |driver: &TableDriver| {
                    let kind = match driver.kind() {
                        DriverKind::DisplayOnly => "display-only",
                        DriverKind::ComputeOnly => "compute-only",
                        DriverKind::Full => "display miniport",
                    };
                    Some(format!("a {kind} driver of {}", driver.version()))
                };
                // A display-only driver has no devices, which nearly every client creates.
                let devices: &[&str] = match miniport.kind() {
                    DriverKind::DisplayOnly if scenario.creates_devices() => &[CREATE_DEVICE],
                    _ => &[],
                };
                let needs: Vec<&str> = scenario.needs.iter().chain(devices).copied().collect();
                let data = file.private_data();
                let mut missing = missing_needs(&needs, &implemented, miniport.generation());
                if missing.is_empty() && data == PrivateData::None {
                    missing.extend(private_data::need_of(scenario.name));
                }
                if !missing.is_empty() {
                    let run = ScenarioRun { needs: missing, ..ScenarioRun::default() };
                    let registration = registration(&miniport);
                    return FileFlight::new(implemented, registration, run);
                }
                let hardware = Arc::new(NoDevice { ram: ram.clone(), pool: pool.clone() });
                let setup =
                    DriverSetup { miniport: miniport.clone(), hardware, pool: pool.clone() };
                let run = ScenarioRun::run(host, at, (log, on), (setup, umd, data), |testbed| {
                    scenario.run(testbed)
                });
                port::judge_unload(&any_host, log, &pool);
                let registration = registration(&miniport);
                FileFlight { began: true, ..FileFlight::new(implemented, registration, run) }
            }
            Ok(Registered::Stream(driver)) => {
                let setup = driver.set_up();
                let implemented = minidriver_entries(&setup.minidriver.describe());
                let memory = setup.memory.clone();
                let expected = ExpectedVideo::pattern();
                let run =
                    ScenarioRun::run_stream(host, at, (log, on), (setup, expected), |testbed| {
                        scenario.run_stream(testbed)
                    });
                memory.close();
                port::judge_stream_unload(&any_host, log, &pool);
                let registration = Some("an AVStream minidriver".to_owned());
                FileFlight { began: true, ..FileFlight::new(implemented, registration, run) }
            }
            Err(why) => {
                let registers_nothing = matches!(why, LoadError::Nothing);
                FileFlight { registers_nothing, ..stopped(why.to_string()) }
            }
        }
    })
}

/// Leaves the addresses of the image for the report of a fault.
fn leave_numbers(channel: &Channel, loaded: &Module) {
    let (range, traps) = (loaded.range(), loaded.trap_range());
    channel.set_number(Number::ImageBase, range.start as u64);
    channel.set_number(Number::ImageSize, range.len() as u64);
    channel.set_number(Number::Traps, traps.start as u64);
    channel.set_number(Number::TrapBytes, traps.len() as u64);
}

/// A machine with memory, and no device behind the adapter.
struct NoDevice {
    ram: Arc<nt::Ram>,
    /// The driver's pool, which knows the executive.
    pool: Arc<nt::Pool>,
}

impl HardwareModel for NoDevice {
    fn idle(&self) -> bool {
        NoHardware.idle()
    }

    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        NoHardware.step(at, line);
    }

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
