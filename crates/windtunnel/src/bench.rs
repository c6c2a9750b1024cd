//! What a pair costs: one stand-alone allocation created and opened, one closed and destroyed,
//! while others live.
//!
//! Every row is measured in turns with a floor (`floor.rs`), in the same process and the same
//! moment; what is reported is the median turn. Rows say their goals, and nothing here fails
//! because of time.

mod floor;
mod idle;

use crate::tunnel::{Bench, Stopped};
use abi::D3DKMT_HANDLE;
use flight::{Crew, Free, Log, Passive, Stepped, Woken};
use floor::{Floor, Name};
use kernel::{Kernel, Plugged};
use softgpu::format;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thunk::{Client, Create, Destroy};
use verify::Verifier;

/// How many bytes of private data an allocation has; the table driver's form has 16.
const PRIVATE: usize = 32;
/// After so many pairs the observers get the events.
const BATCH: usize = 64;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Extent {
    /// How many others live, for each part of the table.
    pub live: Vec<usize>,
    /// How many pairs a turn has.
    pub pairs: usize,
    /// How many turns there are.
    pub turns: usize,
}

impl Extent {
    /// Enough to see that it runs.
    pub fn quick() -> Self {
        Self { live: vec![10], pairs: 20, turns: 1 }
    }

    /// A thousand and a hundred thousand others. A turn is short, so that most turns are not
    /// interrupted by what else the machine does.
    pub fn usual() -> Self {
        Self { live: vec![1_000, 100_000], pairs: 500, turns: 101 }
    }

    /// A million others besides.
    pub fn full() -> Self {
        Self { live: vec![1_000, 100_000, 1_000_000], ..Self::usual() }
    }
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was measured.
    pub what: &'static str,
    /// While so many others lived.
    pub live: usize,
    /// Which one died: `oldest` or `random`.
    pub dies: &'static str,
    /// On so many threads.
    pub threads: usize,
    /// A pair, in nanoseconds.
    pub pair: f64,
    /// The floor's pair in the same turns.
    pub floor: f64,
    /// What it is compared with, and how often that it takes.
    pub ratio: (&'static str, f64),
    /// How often that it should take at most.
    pub goal: Option<f64>,
}

impl Measured {
    /// Whether it is as fast as it should be.
    pub fn met(&self) -> Option<bool> {
        self.goal.map(|goal| self.ratio.1 <= goal)
    }
}

/// Who watches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Nobody,
    Verifier,
    Trace,
}

/// What a row measures.
struct Kind {
    what: &'static str,
    watch: Watch,
    table: bool,
    threads: usize,
    /// Compared with the first row instead of the floor.
    with_off: bool,
    goal: Option<f64>,
}

const OFF: &str = "trait driver, checks off";

const KINDS: &[Kind] = &[
    Kind {
        what: OFF,
        watch: Watch::Nobody,
        table: false,
        threads: 1,
        with_off: false,
        goal: Some(6.0),
    },
    Kind {
        what: "trait driver, verifier on",
        watch: Watch::Verifier,
        table: false,
        threads: 1,
        with_off: true,
        goal: Some(2.0),
    },
    Kind {
        what: "trait driver, trace text on",
        watch: Watch::Trace,
        table: false,
        threads: 1,
        with_off: true,
        goal: Some(1.5),
    },
    Kind {
        what: "table driver, checks off",
        watch: Watch::Nobody,
        table: true,
        threads: 1,
        with_off: true,
        goal: None,
    },
    Kind {
        what: "trait driver, two threads side by side",
        watch: Watch::Nobody,
        table: false,
        threads: 2,
        with_off: false,
        goal: None,
    },
];

/// Measures the table.
pub fn bench(extent: &Extent, mut said: impl FnMut(&Measured)) -> Result<Vec<Measured>, Stopped> {
    let mut rows = Vec::new();
    for live in &extent.live {
        for random in [false, true] {
            let mut off = 0.0;
            for kind in KINDS {
                let (pair, floor) = measure(kind, *live, random, extent)?;
                if kind.what == OFF {
                    off = pair;
                }
                let with = if kind.with_off {
                    ("checks off", pair / off)
                } else {
                    ("floor", pair / floor)
                };
                let row = Measured {
                    what: kind.what,
                    live: *live,
                    dies: if random { "random" } else { "oldest" },
                    threads: kind.threads,
                    pair,
                    floor,
                    ratio: with,
                    goal: kind.goal,
                };
                said(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// Threads have to be started for a turn: they do so much more in so many fewer turns.
const LONGER: usize = 20;

/// The median pair of a row and of its floor, in nanoseconds.
fn measure(kind: &Kind, live: usize, random: bool, extent: &Extent) -> Result<(f64, f64), Stopped> {
    let longer = if kind.threads == 1 { 1 } else { LONGER };
    let (pairs, turns) = (extent.pairs * longer, extent.turns.div_ceil(longer));
    let extent = &Extent { live: Vec::new(), pairs, turns };
    let log = Arc::new(if kind.watch == Watch::Nobody { Log::silent() } else { Log::new() });
    let plugged = match drivers::find("table").filter(|_| kind.table) {
        Some(listed) => (listed.make)(&log),
        None => idle::plug(),
    };
    let floors = Floor::default();
    let flown = if kind.threads == 1 {
        Stepped::fly(0, &log, |host, at| {
            let host: Arc<dyn Crew> = host.clone();
            let mut site = Site::open(&host, at, plugged, &log, kind)?;
            let mut ring = Ring::fill(live, random, || site.create(at))?;
            let mut names = Ring::fill(live, random, || Ok(floors.create()))?;
            site.watch();
            let mut times = Times::default();
            for _ in 0..extent.turns {
                times.floor.push(timed(|| {
                    names.floor(&floors, extent.pairs);
                    Ok(())
                })?);
                times.pair.push(timed(|| ring.pairs(&mut site, at, extent.pairs))?);
            }
            site.close(at)?;
            Ok(times)
        })
    } else {
        Free::fly(&log, |host, at| {
            let host: Arc<dyn Crew> = host.clone();
            let site = Site::open(&host, at, plugged, &log, kind)?;
            side_by_side(&host, at, &site, kind.threads, live, random, extent)
        })
    };
    let times = flown.map_err(|why| Stopped(format!("a flight to end: {why:?}")))??;
    let per_pair = |turns: Vec<Duration>| {
        #[expect(clippy::cast_precision_loss, reason = "there are not that many pairs")]
        let pairs = extent.pairs as f64;
        median(turns).as_secs_f64() * 1e9 / pairs
    };
    Ok((per_pair(times.pair), per_pair(times.floor)))
}

/// The turns of a row.
#[derive(Default)]
struct Times {
    pair: Vec<Duration>,
    floor: Vec<Duration>,
}

/// Several threads on one kernel, then on one floor; each does its part of the pairs with
/// allocations of its own.
fn side_by_side(
    host: &Arc<dyn Crew>,
    at: &mut Passive,
    site: &Site,
    threads: usize,
    live: usize,
    random: bool,
    extent: &Extent,
) -> Result<Times, Stopped> {
    let mut parts = Vec::new();
    for _ in 0..threads {
        let client = Client::new(&site.kernel);
        let part = site.another(Bench::open(client, at)?);
        let ring = Ring::fill(live / threads, random, || part.create(at))?;
        parts.push((part, ring));
    }
    let floor = Floor::default();
    let mut names = Vec::new();
    for _ in 0..threads {
        names.push(Ring::fill(live / threads, random, || Ok(floor.create()))?);
    }
    let pairs = extent.pairs / threads;
    let mut times = Times::default();
    for _ in 0..extent.turns {
        times.floor.push(timed(|| {
            std::thread::scope(|scope| {
                for ring in &mut names {
                    let floor = &floor;
                    scope.spawn(move || ring.floor(floor, pairs));
                }
            });
            Ok(())
        })?);
        let done = Arc::new(Mutex::new(Vec::new()));
        times.pair.push(timed(|| {
            let mut ends = Vec::new();
            for (mut part, mut ring) in parts.drain(..) {
                let done = done.clone();
                ends.push(host.spawn("client", move |at| {
                    let told = ring.pairs(&mut part, at, pairs);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push(told.map(|()| (part, ring)));
                }));
            }
            for end in &ends {
                if let Woken::Stuck(graph) = host.park(at, end, None) {
                    return Err(Stopped(format!("its threads to end: {graph}")));
                }
            }
            Ok(())
        })?);
        let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
        parts = done.into_iter().collect::<Result<_, _>>()?;
    }
    for (part, _) in &parts {
        part.bench.client.kill(at);
    }
    site.close(at)?;
    Ok(times)
}

/// How long it takes.
fn timed(body: impl FnOnce() -> Result<(), Stopped>) -> Result<Duration, Stopped> {
    let start = Instant::now();
    body()?;
    Ok(start.elapsed())
}

fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns.get(turns.len() / 2).copied().unwrap_or_default()
}

/// A kernel with a driver in it, a client with a device, and who watches.
struct Site {
    kernel: Arc<Kernel>,
    adapter: kernel::AdapterId,
    bench: Bench,
    order: Create,
    log: Arc<Log>,
    watch: Watch,
    verifier: Verifier,
    text: Vec<u8>,
}

impl Site {
    fn open(
        host: &Arc<dyn Crew>,
        at: &mut Passive,
        plugged: Plugged,
        log: &Arc<Log>,
        kind: &Kind,
    ) -> Result<Self, Stopped> {
        let kernel = Kernel::new(host.clone(), log.clone());
        let adapter = kernel
            .add_adapter(at, plugged)
            .map_err(|why| Stopped(format!("a driver that starts: {}", why.entry)))?;
        let bench = Bench::open(Client::new(&kernel), at)?;
        let private = if kind.table { format::describe(4096) } else { vec![0xa5; PRIVATE] };
        let order = Create::on(bench.device, vec![private]);
        let (log, watch, verifier) = (log.clone(), kind.watch, Verifier::new());
        Ok(Self { kernel, adapter, bench, order, log, watch, verifier, text: Vec::new() })
    }

    /// The same kernel, for another client.
    fn another(&self, bench: Bench) -> Self {
        let (kernel, log) = (self.kernel.clone(), self.log.clone());
        let order = Create { device: bench.device, ..self.order.clone() };
        let (adapter, watch, verifier) = (self.adapter, self.watch, Verifier::new());
        Self { kernel, adapter, bench, order, log, watch, verifier, text: Vec::new() }
    }

    fn create(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, Stopped> {
        let made = self.bench.make(at, &self.order)?;
        made.allocations.first().copied().ok_or(Stopped("a handle".to_owned()))
    }

    fn destroy(&self, at: &mut Passive, handle: D3DKMT_HANDLE) -> Result<(), Stopped> {
        let order = Destroy { device: self.bench.device, list: vec![handle], ..Destroy::default() };
        self.bench.destroy(at, &order)
    }

    /// Whoever watches gets what has happened.
    fn watch(&mut self) {
        match self.watch {
            Watch::Nobody => (),
            Watch::Verifier => {
                for event in &self.log.take() {
                    self.verifier.observe(event);
                }
            }
            Watch::Trace => {
                self.text.clear();
                let _ = trace::write(&self.log.take(), &mut self.text); // Memory takes it all.
            }
        }
    }

    /// Ends everything; a watched run that was not clean is no measurement.
    fn close(&self, at: &mut Passive) -> Result<(), Stopped> {
        self.bench.client.kill(at);
        self.kernel.remove_adapter(at, self.adapter);
        match self.verifier.findings().first() {
            Some(finding) => Err(Stopped(format!("no finding; {}", finding.message))),
            None => Ok(()),
        }
    }
}

/// Those who live, and which of them dies next.
struct Ring<T> {
    live: Vec<T>,
    random: bool,
    next: u64,
}

impl<T: Copy> Ring<T> {
    fn fill(
        count: usize,
        random: bool,
        mut create: impl FnMut() -> Result<T, Stopped>,
    ) -> Result<Self, Stopped> {
        let live = (0..count.max(1)).map(|_| create()).collect::<Result<_, _>>()?;
        Ok(Self { live, random, next: 0 })
    }

    /// One comes, and one goes, whom this answers.
    fn turn(&mut self, new: T) -> T {
        let draw = if self.random {
            // An additive walk, mixed: repeats, and is everywhere equally often.
            let mixed = (self.next ^ (self.next >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 29)
        } else {
            self.next
        };
        self.next =
            if self.random { self.next.wrapping_add(0x9e37_79b9_7f4a_7c15) } else { self.next + 1 };
        let place = usize::try_from(draw % self.live.len() as u64).unwrap_or(0);
        std::mem::replace(&mut self.live[place], new)
    }
}

impl Ring<Name> {
    fn floor(&mut self, floor: &Floor, count: usize) {
        for _ in 0..count {
            let old = self.turn(floor.create());
            floor.destroy(old);
        }
    }
}

impl Ring<D3DKMT_HANDLE> {
    fn pairs(&mut self, site: &mut Site, at: &mut Passive, count: usize) -> Result<(), Stopped> {
        for number in 1..=count {
            let old = self.turn(site.create(at)?);
            site.destroy(at, old)?;
            if number % BATCH == 0 {
                site.watch();
            }
        }
        site.watch();
        Ok(())
    }
}
