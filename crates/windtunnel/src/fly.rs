//! One flight: a driver, a scenario and a host.

use crate::driver::Driver;
use crate::driver_file::fly_file;
use crate::expected_video::ExpectedVideo;
use crate::incomplete;
use crate::needs::{Needs, OPEN_ADAPTER};
use crate::private_data::PrivateData;
use crate::rule_counts;
use crate::scenario::Scenario;
use crate::stream_testbed::StreamTestbed;
use crate::testbed::{ScenarioStopped, Testbed};
use drivers::{Listed, ListedStream};
use flight::{
    Callers, DeterministicHost, Event, FlightLimits, HostError, Log, Passive, RuleCounts, Spawner,
    ThreadedHost,
};
use kernel::miniport::DriverError;
use kernel::{DriverSetup, Kernel, LiveObjects};
use runtime::{Runtime, Umd};
use server::fault_here;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use stream::{DescriptorError, DeviceDescriptor, Entry, ReceivedFrame, Stream};
use verify::{Finding, Oracle, Severity, Verifier};

/// What each flight of this process may take.
static LIMITS: OnceLock<FlightLimits> = OnceLock::new();

/// Sets what each flight of this process may take. The first call counts, before the first flight.
pub fn set_flight_limits(limits: FlightLimits) {
    _ = LIMITS.set(limits);
}

/// What each flight of this process may take.
pub(crate) fn flight_limits() -> FlightLimits {
    LIMITS.get().copied().unwrap_or_default()
}

/// The need of a flight that was ended because of a limit.
pub(crate) const NEEDS_END: &str = "the driver to come to an end";

/// The entry point that executes packets without allocation lists.
const SUBMIT_VIRTUAL: &str = "DxgkDdiSubmitCommandVirtual";

/// The result of a flight.
pub struct FlightResult {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed, if the host is deterministic.
    pub seed: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// What the scenario needs and did not get; empty if it was flown to its end.
    pub needs: Vec<String>,
    /// Whether a step failed, and neither an error finding nor a refusal of the driver says why.
    pub incomplete: bool,
    /// The findings, including notes, in the order of events.
    pub findings: Vec<Finding>,
    /// Objects left alive at the end.
    pub live: LiveObjects,
    /// Live objects at the moments that the scenario selects.
    pub live_snapshots: Vec<(&'static str, LiveObjects)>,
    /// The frames received from a streaming minidriver.
    pub frames: Vec<ReceivedFrame>,
    /// All events.
    pub events: Vec<Event>,
    /// The functions and lines of a driver from a file that led to events of the findings, by the
    /// number of the event.
    pub callers: BTreeMap<u64, Callers>,
    /// How often each rule was evaluated.
    pub rule_counts: RuleCounts,
    /// The entry points of the driver that were called.
    pub called: BTreeSet<String>,
    /// The entry points that the driver implements.
    pub implemented: Vec<&'static str>,
    /// Functions that were used and are not implemented, with how often.
    pub missing: BTreeMap<String, u64>,
    /// What the driver printed, if it was flown in a process of its own and that was captured.
    pub printed: Vec<u8>,
    /// The deepest use of the kernel stack by a driver from a file.
    pub stack: Option<DeepestStack>,
}

/// The deepest use of the kernel stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeepestStack {
    /// The bytes that the driver used. Frames of Windtunnel are not counted.
    pub bytes: u64,
    /// The driver function that was called.
    pub function: String,
    /// The import that was called there.
    pub import: Option<String>,
}

/// The outcome of a flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The scenario was flown to its end without findings.
    Clean,
    /// There are findings.
    Findings,
    /// The scenario was flown to its end, and all findings are allowed.
    Allowed,
    /// The scenario could not be flown to its end, and there are no findings.
    NotFlown,
}

impl Outcome {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Clean => "clean",
            Outcome::Findings => "findings",
            Outcome::Allowed => "allowed",
            Outcome::NotFlown => "not-flown",
        }
    }
}

impl FlightResult {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// The host of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// One virtual thread at a time, in an order drawn from a seed.
    Deterministic {
        /// The seed of the order.
        seed: u64,
        /// Whether memory is scarce, buffers are small and the hardware completes out of order,
        /// all drawn from the seed.
        pressure: bool,
    },
    /// Parallel threads, scheduled by the machine.
    Threaded,
}

impl HostKind {
    /// A deterministic host without pressure.
    pub const fn deterministic(seed: u64) -> Self {
        HostKind::Deterministic { seed, pressure: false }
    }

    /// A deterministic host with pressure.
    pub const fn under_pressure(seed: u64) -> Self {
        HostKind::Deterministic { seed, pressure: true }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            HostKind::Deterministic { pressure: false, .. } => "deterministic",
            HostKind::Deterministic { pressure: true, .. } => "deterministic, under pressure",
            HostKind::Threaded => "threads",
        }
    }

    /// The seed, if the host is deterministic.
    pub fn seed(self) -> Option<u64> {
        match self {
            HostKind::Deterministic { seed, .. } => Some(seed),
            HostKind::Threaded => None,
        }
    }

    /// The same host with the seed advanced by this much.
    #[must_use]
    pub fn with_seed_offset(self, turns: u64) -> Self {
        match self {
            HostKind::Deterministic { seed, pressure } => {
                HostKind::Deterministic { seed: seed.wrapping_add(turns), pressure }
            }
            HostKind::Threaded => HostKind::Threaded,
        }
    }

    /// Flies `main` as the first virtual thread.
    pub fn fly<R>(
        self,
        log: &Arc<Log>,
        main: impl FnOnce(&Arc<dyn Spawner>, &mut Passive) -> R,
    ) -> Result<R, HostError> {
        match self {
            HostKind::Deterministic { seed, .. } => {
                DeterministicHost::fly(seed, log, |host, at| {
                    let host: Arc<dyn Spawner> = host.clone();
                    main(&host, at)
                })
            }
            HostKind::Threaded => ThreadedHost::fly(log, |host, at| {
                let host: Arc<dyn Spawner> = host.clone();
                main(&host, at)
            }),
        }
    }
}

impl From<u64> for HostKind {
    fn from(seed: u64) -> Self {
        HostKind::deterministic(seed)
    }
}

/// Flies a driver through a scenario. A bare seed selects [`HostKind::Deterministic`].
pub fn fly(
    driver: &Listed,
    scenario: &'static Scenario,
    on: impl Into<HostKind>,
) -> Result<FlightResult, HostError> {
    let umd = driver.umd.map(|make| make());
    fly_with_umd(driver.make, umd, scenario, on)
}

/// Flies a driver of either kind through a scenario.
pub fn fly_driver(
    driver: Driver,
    scenario: &'static Scenario,
    on: impl Into<HostKind>,
) -> Result<FlightResult, HostError> {
    match driver {
        Driver::Display(it) => fly(it, scenario, on),
        Driver::Streaming(it) => fly_builtin_stream(it, scenario, on),
        Driver::File(file) => fly_file(file, None, scenario, (on.into(), false)),
    }
}

/// Flies a built-in streaming minidriver through a streaming scenario.
pub(crate) fn fly_builtin_stream(
    driver: &ListedStream,
    scenario: &'static Scenario,
    on: impl Into<HostKind>,
) -> Result<FlightResult, HostError> {
    let (make, body) = (
        |log: &_| driver.set_up(log),
        |stream_testbed: &mut StreamTestbed<'_>| scenario.run_stream(stream_testbed),
    );
    fly_stream((make, ExpectedVideo::pattern()), scenario.name, on.into(), body)
}

/// Flies a streaming minidriver through any scenario body. All streaming flights come here.
pub(crate) fn fly_stream(
    (make, expected_video): (
        impl FnOnce(&Arc<Log>) -> Result<stream::DriverSetup, DescriptorError>,
        ExpectedVideo,
    ),
    name: &'static str,
    on: HostKind,
    body: impl FnOnce(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>,
) -> Result<FlightResult, HostError> {
    let log = Arc::new(Log::new().with_limits(flight_limits()));
    fault_here::report_faults_here();
    let (offered, body) = match make(&log) {
        Ok(setup) => {
            let (offered, memory) =
                (minidriver_entries(&setup.minidriver.describe()), setup.memory.clone());
            let tell = |host: &_, at: &mut _| {
                ScenarioRun::run_stream(host, at, (&log, on), (setup, expected_video), body)
            };
            let body = ScenarioRun::unless_ended(&log, on.fly(&log, tell))?;
            memory.close();
            (offered, body)
        }
        Err(DescriptorError(why)) => {
            let needs = vec![format!("a driver whose tables can be read: {why}")];
            (Vec::new(), ScenarioRun::not_begun(needs))
        }
    };
    Ok(FlightResult { seed: on.seed(), implemented: offered, ..verify_events(name, &log, body) })
}

/// The dispatch entries that a streaming minidriver implements, without duplicates.
pub(crate) fn minidriver_entries(it: &DeviceDescriptor) -> Vec<&'static str> {
    let pins = || it.filters.iter().flat_map(|filter_descriptor| &filter_descriptor.pins);
    let mut all: Vec<Entry> = it.dispatch.clone();
    all.extend(it.filters.iter().flat_map(|filter_descriptor| &filter_descriptor.dispatch));
    all.extend(pins().flat_map(|pin_descriptor| &pin_descriptor.dispatch));
    all.extend(pins().flat_map(|pin_descriptor| pin_descriptor.allocator.iter().flatten()));
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(Entry::name).collect()
}

/// Flies a custom driver through a built-in scenario, like [`fly`].
///
/// ```
/// use windtunnel::{find_scenario, fly_setup, set_up, softgpu::SoftGpu};
///
/// let scenario = find_scenario("create-standalone").unwrap();
/// let (miniport, hardware) = SoftGpu::new();
/// let result = fly_setup(set_up(miniport, hardware), scenario, 1).unwrap();
/// result.assert_clean();
/// ```
pub fn fly_setup(
    make: impl FnOnce(&Arc<Log>) -> DriverSetup,
    scenario: &'static Scenario,
    on: impl Into<HostKind>,
) -> Result<FlightResult, HostError> {
    fly_with_umd(make, None, scenario, on)
}

/// Like [`fly_setup`], with a user-mode driver.
pub fn fly_with_umd(
    make: impl FnOnce(&Arc<Log>) -> DriverSetup,
    umd: Option<Umd>,
    scenario: &'static Scenario,
    on: impl Into<HostKind>,
) -> Result<FlightResult, HostError> {
    fly_body((make, umd), scenario.name, &scenario.needs, on.into(), |testbed| {
        scenario.run(testbed)
    })
}

/// Flies a display driver through any scenario body. All flights of display drivers come here.
pub(crate) fn fly_body(
    (make, umd): (impl FnOnce(&Arc<Log>) -> DriverSetup, Option<Umd>),
    name: &'static str,
    needs: &Needs,
    on: HostKind,
    body: impl FnOnce(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Result<FlightResult, HostError> {
    let log = Arc::new(Log::new().with_limits(flight_limits()));
    fault_here::report_faults_here();
    let (implemented, run) = run_body(&log, (make, umd), needs, on, body)?;
    Ok(FlightResult { seed: on.seed(), implemented, ..verify_events(name, &log, run) })
}

/// Flies a display driver through any scenario body, with events in the given log. Returns its entry
/// points and the run.
pub(crate) fn run_body(
    log: &Arc<Log>,
    (make, umd): (impl FnOnce(&Arc<Log>) -> DriverSetup, Option<Umd>),
    needs: &Needs,
    on: HostKind,
    body: impl FnOnce(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Result<(Vec<&'static str>, ScenarioRun), HostError> {
    let setup = make(log);
    let mut offered = setup.miniport.entry_points();
    if umd.is_some() {
        offered.push(OPEN_ADAPTER);
    }
    let data = PrivateData::BuiltIn;
    let kind = (setup.miniport.kind(), setup.miniport.generation());
    let missing = needs.missing(&offered, kind, data);
    let run = if missing.is_empty() {
        let nodes = |nodes| needs.missing_nodes(nodes);
        let flown = (setup, umd, data);
        let run = |host: &_, at: &mut _| ScenarioRun::run(host, at, (log, on), flown, nodes, body);
        ScenarioRun::unless_ended(log, on.fly(log, run))?
    } else {
        ScenarioRun::not_begun(missing)
    };
    Ok((offered, run))
}

/// The state of a scenario run.
#[derive(Default)]
pub(crate) struct ScenarioRun {
    pub(crate) needs: Vec<String>,
    pub(crate) live: LiveObjects,
    pub(crate) live_snapshots: Vec<(&'static str, LiveObjects)>,
    pub(crate) frames: Vec<ReceivedFrame>,
    /// Whether the scenario began. If not, the events before are those of a start, and not judged.
    pub(crate) began: bool,
}

impl ScenarioRun {
    /// A scenario that did not begin, because the driver does not have what it needs.
    pub(crate) fn not_begun(needs: Vec<String>) -> Self {
        Self { needs, ..Self::default() }
    }

    /// A run, or what is left of one that was ended because of a limit.
    fn unless_ended(log: &Log, run: Result<Self, HostError>) -> Result<Self, HostError> {
        if log.is_ended() {
            let needs = vec![NEEDS_END.to_owned()];
            return Ok(Self { began: true, ..Self::not_begun(needs) });
        }
        run
    }

    /// Runs the scenario of a streaming minidriver, then removes the device.
    pub(crate) fn run_stream(
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        (log, on): (&Arc<Log>, HostKind),
        (setup, expected_video): (stream::DriverSetup, ExpectedVideo),
        body: impl FnOnce(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> Self {
        let stream = Stream::new(host.clone(), log.clone());
        stream.start_workers(host);
        if let HostKind::Deterministic { seed, pressure: true } = on {
            stream.set_pressure(seed);
        }
        let mut testbed = StreamTestbed {
            host,
            at,
            stream,
            log: log.clone(),
            host_kind: on,
            setup,
            expected_video,
            device: None,
            graphics: None,
            video: None,
            frames: Vec::new(),
            live_snapshots: Vec::new(),
        };
        let needs = body(&mut testbed).err().map(|stopped| stopped.into_need(log));
        testbed.end();
        let needs = needs.into_iter().collect();
        let live = testbed.live_objects();
        let (live_snapshots, frames) = (testbed.live_snapshots, testbed.frames);
        Self { needs, live, live_snapshots, frames, began: true }
    }

    /// Starts the driver, runs the scenario, then ends clients, adapter and driver.
    pub(crate) fn run(
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        (log, on): (&Arc<Log>, HostKind),
        (setup, umd, private_data): (DriverSetup, Option<Umd>, PrivateData),
        missing_nodes: impl FnOnce(u32) -> Option<String>,
        body: impl FnOnce(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> Self {
        let kernel = Kernel::new(host.clone(), log.clone());
        let hardware = setup.hardware.clone();
        let models_hardware = hardware.models_hardware();
        let takes_packets = setup.miniport.entry_points().contains(&SUBMIT_VIRTUAL);
        kernel.set_observer(Oracle::with_commands(log.clone(), private_data.decoder()));
        if let HostKind::Deterministic { seed, pressure: true } = on {
            kernel.set_pressure(seed);
        }
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter = match kernel.add_adapter(at, setup) {
            Ok(adapter) => adapter,
            Err(why) => {
                // Without a model of the hardware, a start can fail because no device answers.
                let no_device = !models_hardware && why.entry == "DxgkDdiStartDevice";
                let needs = if no_device && why.reported.is_none() {
                    needs_device_model(why.entry, why.why, hardware.last_request())
                } else {
                    format!("a driver that starts: {}", why.reason())
                };
                let live = kernel.live_objects();
                return Self { live, began: true, ..Self::not_begun(vec![needs]) };
            }
        };
        if let Some(missing) = missing_nodes(kernel.node_count(adapter)) {
            kernel.remove_adapter(at, adapter);
            return Self::not_begun(vec![missing]);
        }
        kernel.start_workers(host, adapter);
        let (runtime, clients, looks) = (Runtime::new(&kernel), Vec::new(), Vec::new());
        let mut testbed = Testbed {
            host,
            at,
            kernel,
            adapter,
            runtime,
            umd,
            private_data,
            takes_packets,
            clients,
            live_snapshots: looks,
        };
        let needs = body(&mut testbed).err().map(|stopped| stopped.into_need(log));
        let Testbed { at, kernel, clients, live_snapshots: looks, .. } = testbed;
        // Objects left by a stopped scenario are not the client's fault.
        for client in clients {
            client.kill(at);
        }
        kernel.remove_adapter(at, adapter);
        host.run_until_idle(at);
        let needs = needs.into_iter().collect();
        let (live, frames) = (kernel.live_objects(), Vec::new());
        Self { needs, live, live_snapshots: looks, frames, began: true }
    }
}

/// What a driver needs that fails to start without a model of its device, with what it asked the
/// device for last.
fn needs_device_model(entry: &str, error: DriverError, request: Option<String>) -> String {
    let status = port::status_name(error);
    let after = match request {
        Some(request) => format!("after it {request}"),
        None => "and had asked for no register or resource".to_owned(),
    };
    format!("a device model: {entry} returned {status} {after}")
}

/// The need of a scenario. A function that is NULL was not called: the runtime's result for it is
/// not an answer of the driver.
fn explain_null(need: String, missing: &BTreeMap<String, u64>) -> String {
    let stop = " to succeed; it returned E_NOTIMPL";
    match need.strip_suffix(stop).filter(|function| missing.contains_key(*function)) {
        Some(function) => format!("a user-mode driver with {function}, which is NULL here"),
        None => need,
    }
}

/// Runs the verifier over the events and builds the result.
fn verify_events(scenario: &'static str, log: &Log, body: ScenarioRun) -> FlightResult {
    let events = if body.began { log.take() } else { Vec::new() };
    judge_events(scenario, events, log.rule_counts(), body)
}

/// As above, with events and counts from elsewhere.
pub(crate) fn judge_events(
    scenario: &'static str,
    events: Vec<Event>,
    mut tally: RuleCounts,
    body: ScenarioRun,
) -> FlightResult {
    let mut verifier = Verifier::new();
    verifier.observe_all(&events);
    tally.add(verifier.rule_counts());
    rule_counts::add_to_file(&tally);
    let findings = verifier.findings().to_vec();
    let outcome = if findings.iter().any(|finding| finding.severity > Severity::Note) {
        Outcome::Findings
    } else if body.needs.is_empty() {
        Outcome::Clean
    } else {
        Outcome::NotFlown
    };
    let mut needs: Vec<String> =
        body.needs.into_iter().map(|need| explain_null(need, verifier.missing())).collect();
    let unexplained = incomplete::explain(&events, &findings);
    if let (Some(why), Some(need)) = (&unexplained, needs.first_mut()) {
        *need += why;
    }
    FlightResult {
        callers: BTreeMap::new(),
        scenario,
        seed: None,
        outcome,
        needs,
        incomplete: unexplained.is_some(),
        findings,
        live: body.live,
        live_snapshots: body.live_snapshots,
        frames: body.frames,
        called: verifier.called().clone(),
        missing: verifier.missing().clone(),
        stack: None,
        events,
        rule_counts: tally,
        implemented: Vec::new(),
        printed: Vec::new(),
    }
}
