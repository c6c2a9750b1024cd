//! One flight: a driver, a scenario, and who runs it.

use crate::driver::Driver;
use crate::footage::Footage;
use crate::scenario::Scenario;
use crate::studio::Studio;
use crate::tally;
use crate::tunnel::{Stopped, Tunnel};
use drivers::{Listed, ListedStream};
use flight::{CouldNotRun, Crew, Event, Free, Log, Passive, Stepped, Tally};
use kernel::{Census, Kernel, Plugged};
use runtime::{Runtime, Umd};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use stream::{BadDescriptor, DeviceDescriptor, Entry, Picture, Stream};
use verify::{Finding, Oracle, Severity, Verifier};

/// What became of a flight.
pub struct Flown {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed, where the order is drawn from one.
    pub seed: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// What the story needed and did not get: it was not told to its end.
    pub needs: Vec<String>,
    /// What was found, notes included, in the order of events.
    pub findings: Vec<Finding>,
    /// Who was still alive when everything was over.
    pub live: Census,
    /// Who was alive at the moments the story took a look.
    pub looks: Vec<(&'static str, Census)>,
    /// The pictures that arrived, of a streaming minidriver.
    pub pictures: Vec<Picture>,
    /// Everything that happened.
    pub events: Vec<Event>,
    /// How often each rule was judged.
    pub tally: Tally,
    /// The entries that were called.
    pub called: BTreeSet<String>,
    /// The entries the driver offers.
    pub offered: Vec<&'static str>,
    /// What was used and is not there, with how often.
    pub absent: BTreeMap<String, u64>,
}

/// How a flight ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The story was told to its end, and nothing was wrong.
    Clean,
    /// Something was wrong.
    Findings,
    /// The story was told to its end, and all that was wrong is allowed.
    Allowed,
    /// The story could not be told to its end, and nothing was found.
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

impl Flown {
    /// How many findings there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|it| it.severity == severity).count()
    }
}

/// Who runs a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// One virtual thread at a time, in an order drawn from this seed.
    Stepped(u64),
    /// The same, and memory is short, buffers are small and hardware is out of turn, all drawn
    /// from this seed.
    Pressed(u64),
    /// Threads side by side, in whatever order the machine runs them.
    Free,
}

impl On {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            On::Stepped(_) => "stepped",
            On::Pressed(_) => "stepped, under pressure",
            On::Free => "free",
        }
    }

    /// The seed, where the order is drawn from one.
    pub fn seed(self) -> Option<u64> {
        match self {
            On::Stepped(seed) | On::Pressed(seed) => Some(seed),
            On::Free => None,
        }
    }

    /// The same host, so many seeds on.
    #[must_use]
    pub fn after(self, turns: u64) -> Self {
        match self {
            On::Stepped(seed) => On::Stepped(seed.wrapping_add(turns)),
            On::Pressed(seed) => On::Pressed(seed.wrapping_add(turns)),
            On::Free => On::Free,
        }
    }

    /// Flies `main` as the first virtual thread.
    pub fn fly<R>(
        self,
        log: &Arc<Log>,
        main: impl FnOnce(&Arc<dyn Crew>, &mut Passive) -> R,
    ) -> Result<R, CouldNotRun> {
        match self {
            On::Stepped(seed) | On::Pressed(seed) => Stepped::fly(seed, log, |host, at| {
                let host: Arc<dyn Crew> = host.clone();
                main(&host, at)
            }),
            On::Free => Free::fly(log, |host, at| {
                let host: Arc<dyn Crew> = host.clone();
                main(&host, at)
            }),
        }
    }
}

impl From<u64> for On {
    fn from(seed: u64) -> Self {
        On::Stepped(seed)
    }
}

/// Flies a driver through a scenario, on the host asked for; a seed alone asks for `Stepped`.
pub fn fly(
    driver: &Listed,
    scenario: &'static Scenario,
    on: impl Into<On>,
) -> Result<Flown, CouldNotRun> {
    let umd = driver.umd.map(|make| make());
    fly_with(driver.make, umd, scenario, on)
}

/// Flies a driver of either kind through a scenario.
pub fn fly_driver(
    driver: Driver,
    scenario: &'static Scenario,
    on: impl Into<On>,
) -> Result<Flown, CouldNotRun> {
    match driver {
        Driver::Display(it) => fly(it, scenario, on),
        Driver::Streaming(it) => fly_listed(it, scenario, on),
    }
}

/// Flies a built-in streaming minidriver through a scenario for such.
pub(crate) fn fly_listed(
    driver: &ListedStream,
    scenario: &'static Scenario,
    on: impl Into<On>,
) -> Result<Flown, CouldNotRun> {
    let (make, story) = (|log: &_| driver.plug(log), |it: &mut Studio<'_>| scenario.stream(it));
    fly_stream((make, Footage::pattern()), scenario.name, on.into(), story)
}

/// Flies a streaming minidriver through any story: the one path of such flights.
pub(crate) fn fly_stream(
    (make, footage): (impl FnOnce(&Arc<Log>) -> Result<stream::Plugged, BadDescriptor>, Footage),
    name: &'static str,
    on: On,
    story: impl FnOnce(&mut Studio<'_>) -> Result<(), Stopped>,
) -> Result<Flown, CouldNotRun> {
    let log = Arc::new(Log::new());
    let (offered, story) = match make(&log) {
        Ok(plugged) => {
            let (offered, memory) =
                (entries(&plugged.minidriver.describe()), plugged.memory.clone());
            let tell = |host: &_, at: &mut _| {
                Story::stream(host, at, (&log, on), (plugged, footage), story)
            };
            let story = on.fly(&log, tell)?;
            memory.close();
            (offered, story)
        }
        Err(BadDescriptor(why)) => {
            let needs = vec![format!("a driver whose tables can be read: {why}")];
            (Vec::new(), Story { needs, ..Story::default() })
        }
    };
    Ok(Flown { seed: on.seed(), offered, ..judge(name, &log, story) })
}

/// The entries that a streaming minidriver has, each once.
fn entries(it: &DeviceDescriptor) -> Vec<&'static str> {
    let pins = || it.filters.iter().flat_map(|it| &it.pins);
    let mut all: Vec<Entry> = it.dispatch.clone();
    all.extend(it.filters.iter().flat_map(|it| &it.dispatch));
    all.extend(pins().flat_map(|it| &it.dispatch));
    all.extend(pins().flat_map(|it| it.allocator.iter().flatten()));
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(Entry::name).collect()
}

/// Flies a driver of one's own through a scenario of ours, as [`fly`] does.
///
/// ```
/// use windtunnel::{find_scenario, fly_plugged, plug, softgpu::SoftGpu};
///
/// let scenario = find_scenario("alone").unwrap();
/// let (miniport, machine) = SoftGpu::new();
/// let flown = fly_plugged(plug(miniport, machine), scenario, 1).unwrap();
/// flown.assert_clean();
/// ```
pub fn fly_plugged(
    make: impl FnOnce(&Arc<Log>) -> Plugged,
    scenario: &'static Scenario,
    on: impl Into<On>,
) -> Result<Flown, CouldNotRun> {
    fly_with(make, None, scenario, on)
}

/// The same, with a user-mode driver that belongs to it.
pub fn fly_with(
    make: impl FnOnce(&Arc<Log>) -> Plugged,
    umd: Option<Umd>,
    scenario: &'static Scenario,
    on: impl Into<On>,
) -> Result<Flown, CouldNotRun> {
    fly_story((make, umd), scenario.name, scenario.needs, on.into(), |it| scenario.tell(it))
}

/// Flies a driver through any story: the one path of every flight.
pub(crate) fn fly_story(
    (make, umd): (impl FnOnce(&Arc<Log>) -> Plugged, Option<Umd>),
    name: &'static str,
    needs: &[&'static str],
    on: On,
    story: impl FnOnce(&mut Tunnel<'_>) -> Result<(), Stopped>,
) -> Result<Flown, CouldNotRun> {
    let log = Arc::new(Log::new());
    let plugged = make(&log);
    let mut offered = plugged.miniport.offers();
    if umd.is_some() {
        offered.push("OpenAdapter");
    }
    let lacks: Vec<String> = needs
        .iter()
        .filter(|it| !offered.contains(it))
        .map(|it| format!("a driver with {it}"))
        .collect();
    let story = if lacks.is_empty() {
        on.fly(&log, |host, at| Story::tell(host, at, (&log, on), (plugged, umd), story))?
    } else {
        Story { needs: lacks, ..Story::default() }
    };
    Ok(Flown { seed: on.seed(), offered, ..judge(name, &log, story) })
}

/// What came of telling a story.
#[derive(Default)]
struct Story {
    needs: Vec<String>,
    live: Census,
    looks: Vec<(&'static str, Census)>,
    pictures: Vec<Picture>,
}

impl Story {
    /// Tells the story of a streaming minidriver, and ends everything.
    fn stream(
        host: &Arc<dyn Crew>,
        at: &mut Passive,
        (log, on): (&Arc<Log>, On),
        (plugged, footage): (stream::Plugged, Footage),
        story: impl FnOnce(&mut Studio<'_>) -> Result<(), Stopped>,
    ) -> Self {
        let stream = Stream::new(host.clone(), log.clone());
        stream.attend(host);
        if let On::Pressed(seed) = on {
            stream.press(seed);
        }
        let mut studio = Studio {
            host,
            at,
            stream,
            log: log.clone(),
            on,
            plugged,
            footage,
            device: None,
            graphics: None,
            video: None,
            pictures: Vec::new(),
            looks: Vec::new(),
        };
        let told = story(&mut studio);
        studio.end();
        let needs = told.err().map(|Stopped(why)| why).into_iter().collect();
        let live = studio.census();
        Self { needs, live, looks: studio.looks, pictures: studio.pictures }
    }

    /// Starts the driver, tells the story, and ends everything.
    fn tell(
        host: &Arc<dyn Crew>,
        at: &mut Passive,
        (log, on): (&Arc<Log>, On),
        (plugged, umd): (Plugged, Option<Umd>),
        story: impl FnOnce(&mut Tunnel<'_>) -> Result<(), Stopped>,
    ) -> Self {
        let kernel = Kernel::new(host.clone(), log.clone());
        kernel.watch_bytes(Oracle::new(log.clone()));
        if let On::Pressed(seed) = on {
            kernel.press(seed);
        }
        let (worker, bell) = (kernel.clone(), kernel.bell());
        host.serve("system", bell, move |at| worker.work(at));
        let adapter = match kernel.add_adapter(at, plugged) {
            Ok(adapter) => adapter,
            Err(why) => {
                let needs =
                    format!("a driver that starts: {} answered {}", why.entry, why.why.name());
                return Self { needs: vec![needs], live: kernel.census(), ..Self::default() };
            }
        };
        kernel.attend(host, adapter);
        let (runtime, clients, looks) = (Runtime::new(&kernel), Vec::new(), Vec::new());
        let mut tunnel = Tunnel { host, at, kernel, adapter, runtime, umd, clients, looks };
        let told = story(&mut tunnel);
        let Tunnel { at, kernel, clients, looks, .. } = tunnel;
        // What a story that stopped has left is not its client's fault.
        for client in clients {
            client.kill(at);
        }
        kernel.remove_adapter(at, adapter);
        host.quiet(at);
        let needs = told.err().map(|Stopped(why)| why).into_iter().collect();
        Self { needs, live: kernel.census(), looks, pictures: Vec::new() }
    }
}

/// Lets the verifier watch what happened.
fn judge(scenario: &'static str, log: &Log, story: Story) -> Flown {
    let events = log.take();
    let mut verifier = Verifier::new();
    for event in &events {
        verifier.observe(event);
    }
    let mut tally = log.judged();
    tally.add(verifier.tally());
    tally::keep(&tally);
    let findings = verifier.findings().to_vec();
    let outcome = if findings.iter().any(|it| it.severity > Severity::Note) {
        Outcome::Findings
    } else if story.needs.is_empty() {
        Outcome::Clean
    } else {
        Outcome::NotFlown
    };
    Flown {
        scenario,
        seed: None,
        outcome,
        needs: story.needs,
        findings,
        live: story.live,
        looks: story.looks,
        pictures: story.pictures,
        called: verifier.called().clone(),
        absent: verifier.absent().clone(),
        events,
        tally,
        offered: Vec::new(),
    }
}
