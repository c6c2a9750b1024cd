//! A kernel-mode driver in a file: its facts, and flights of it in this process.

use crate::child_flight;
use crate::driver::Driver;
use crate::expected_video::ExpectedVideo;
use crate::fly::{
    FlightResult, HostKind, ScenarioRun, flight_limits, judge_events, minidriver_entries,
};
use crate::native_umd::NativeUmd;
use crate::needs::OPEN_ADAPTER;
use crate::private_data::PrivateData;
use crate::scenario::Scenario;
use crate::testbed::Testbed;
use flight::{Event, EventKind, EventSink, Host, HostError, Log, Subject};
use kernel::DriverSetup;
use kernel::miniport::{DriverKind, Miniport as _};
use nt::image::{Channel, DriverImage, Module, Number, SymbolError, Symbols};
use port::{LoadError, Registered, TableDriver};
use runtime::Umd;
use server::crash_place::name_code;
use server::driver_file::{MACHINE_MEMORY, NoDevice};
use server::{OpenedFile, fault_here};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    opened: OpenedFile,
    registration: Mutex<Option<String>>,
    registers_nothing: AtomicBool,
    pub(crate) options: FlightOptions,
}

impl DriverFile {
    /// Opens a file and checks that it can be loaded. The error is a sentence about the file.
    pub fn open(path: &Path, options: FlightOptions) -> Result<&'static Self, String> {
        let opened = OpenedFile::open(path)?;
        // A check flies few files, and refers to them until it ends.
        Ok(Box::leak(Box::new(Self {
            opened,
            registration: Mutex::default(),
            registers_nothing: AtomicBool::new(false),
            options,
        })))
    }

    /// The file itself.
    pub(crate) fn opened(&self) -> &OpenedFile {
        &self.opened
    }

    /// Its path, as given.
    pub fn path(&self) -> &Path {
        self.opened.path()
    }

    /// Whether it is flown in this process.
    pub(crate) fn is_in_process(&self) -> bool {
        self.options.in_process
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        self.opened.name()
    }

    /// What it is.
    pub fn about(&self) -> &'static str {
        match (self.image(), self.streams()) {
            (DriverImage::Image(_), false) => "a display driver image",
            (DriverImage::Image(_), true) => "an AVStream minidriver image",
            (DriverImage::SharedObject(_), false) => "a display driver as a shared object",
            (DriverImage::SharedObject(_), true) => "an AVStream minidriver as a shared object",
        }
    }

    /// The parsed file.
    pub fn image(&self) -> &DriverImage {
        self.opened.image()
    }

    /// The SHA-256 of the file.
    pub fn hash(&self) -> [u8; 32] {
        nt::image::hash(self.opened.bytes())
    }

    /// Its symbols, or why there are none.
    pub fn symbols(&self) -> Result<&Symbols, &SymbolError> {
        self.opened.symbols()
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
        self.opened.absent_imports()
    }

    /// Whether it is a streaming minidriver: it imports the function that registers one.
    pub fn streams(&self) -> bool {
        self.image().import_names().contains(&"KsInitializeDriver")
    }

    /// The private data that it takes: as the options say, or as the file says.
    pub fn private_data(&self) -> PrivateData {
        self.options.private_data.unwrap_or_else(|| PrivateData::of_file(self.opened.bytes()))
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
    fault_here::set_file(file.opened());
    let log = Arc::new(Log::with_sink(EndHere(file.opened())).with_limits(flight_limits()));
    let umd = umd.and_then(NativeUmd::loaded);
    let flown = fly_here(file, umd, scenario, on, &log, None)?;
    if let Some(text) = flown.registration {
        file.set_registration(text);
    }
    if flown.registers_nothing {
        file.set_registers_nothing();
    }
    let events = if flown.run.began { log.take() } else { Vec::new() };
    let mut result = judge_events(scenario.name, events, log.rule_counts(), flown.run);
    let no_stacks = child_flight::EventStacks::default();
    child_flight::name_places(&mut result, file, &no_stacks);
    Ok(FlightResult { seed: on.seed(), implemented: flown.implemented, ..result })
}

/// Ends this process if the flight of a driver from a file goes beyond a limit: frames of the driver
/// cannot be unwound.
struct EndHere(&'static OpenedFile);

impl EventSink for EndHere {
    fn event(&self, _: &Event) {}

    fn flight_over(&self, message: &str) {
        nt::image::end_for_limit(&name_code(self.0, message));
    }
}

/// A flight with a driver from a file.
pub(crate) struct FileFlight {
    /// The driver's entry points.
    pub(crate) implemented: Vec<&'static str>,
    /// The interface version and the kind of driver.
    pub(crate) registration: Option<String>,
    /// Whether `DriverEntry` succeeded and registered no driver.
    pub(crate) registers_nothing: bool,
    /// The run.
    pub(crate) run: ScenarioRun,
}

impl FileFlight {
    fn stopped(need: String) -> Self {
        let run = ScenarioRun { began: true, ..ScenarioRun::not_begun(vec![need]) };
        Self::new(Vec::new(), None, run)
    }

    fn new(implemented: Vec<&'static str>, registration: Option<String>, run: ScenarioRun) -> Self {
        Self { implemented, registration, registers_nothing: false, run }
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
    let loaded = match drivers::load_driver(file.path(), file.opened.bytes()) {
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
            // The host with threads switches threads at any IRQL.
            if matches!(on, HostKind::Deterministic { .. }) && file.options.guard != nt::Guard::Off
            {
                nt::protect_paged_memory();
            }
        }
        let any_host: Arc<dyn Host> = host.clone();
        let files = file.options.files.clone();
        let context = file.opened.load_context(&any_host, log, &pool, &ram, files);
        match drivers::run_driver_entry(loaded, context) {
            Ok(Registered::Display(miniport)) => {
                let start = loaded.range().start;
                let offset = |(name, address): (_, usize)| (name, address.wrapping_sub(start));
                let entries = miniport.entry_addresses().into_iter().map(offset);
                child_flight::set_entry_points(entries.collect());
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
                let data = file.private_data();
                let kind = (miniport.kind(), miniport.generation());
                let missing = scenario.needs.missing(&implemented, kind, data);
                if !missing.is_empty() {
                    let run = ScenarioRun::not_begun(missing);
                    return FileFlight::new(implemented, registration(&miniport), run);
                }
                let hardware = Arc::new(NoDevice::new(ram.clone(), pool.clone()));
                let setup =
                    DriverSetup { miniport: miniport.clone(), hardware, pool: pool.clone() };
                let nodes = |nodes| scenario.needs.missing_nodes(nodes);
                let flown = (setup, umd, data);
                let body = |testbed: &mut Testbed<'_>| scenario.run(testbed);
                let run = ScenarioRun::run(host, at, (log, on), flown, nodes, body);
                port::judge_unload(&any_host, log, &pool);
                let registration = registration(&miniport);
                FileFlight::new(implemented, registration, run)
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
                FileFlight::new(implemented, registration, run)
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
