//! The table of pairs: every kind of row, in turns with its floors.

use crate::baseline::Baselines;
use crate::c_library::CLibraryClient;
use crate::clock::{Span, run_in_parallel, timed};
use crate::counting::bytes_added;
use crate::fixture::{Part, Site};
use crate::pair_clients::{PairClients, SharingClients};
use crate::ring::{Ring, TwoPassDriver};
use crate::row_kinds::{KINDS, Kind, Way};
use crate::{BenchSize, MeasureError};
use abi::D3DKMT_HANDLE;
use flight::{DeterministicHost, Passive, Spawner, ThreadedHost, WaitResult};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Duration;

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub what: &'static str,
    /// The number of live allocations.
    pub live: usize,
    /// Which allocation is destroyed: `oldest` or `random`.
    pub dies: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Nanoseconds per pair; on two threads, elapsed time divided by all pairs.
    pub pair: f64,
    /// The bare floor's pair in the same turns.
    pub bare: f64,
    /// The composite floor's.
    pub composite: f64,
    /// Bytes per live allocation, if the program's allocator counts.
    pub bytes: Option<f64>,
}

/// Measures the table.
pub(crate) fn measure(
    extent: &BenchSize,
    text: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, MeasureError> {
    let mut rows = Vec::new();
    for live in &extent.live {
        for kind in KINDS.iter().filter(|kind| extent.asks(kind.what)) {
            let measured = rows_of(kind, *live, extent)?;
            measured.iter().for_each(&mut *text);
            rows.extend(measured);
        }
    }
    Ok(rows)
}

/// Runs the pairs of a row.
trait PairRunner {
    /// Runs the observer, if any: the events so far and their memory are gone then.
    fn watch(&mut self) {}

    /// Creates the live allocations.
    fn fill(&mut self) -> Result<(), MeasureError>;

    /// Runs `count` pairs, shared among the threads.
    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, MeasureError>;
}

/// Both rows of a kind: destroying the oldest allocation, and a random one.
fn rows_of(kind: &Kind, live: usize, extent: &BenchSize) -> Result<Vec<Row>, MeasureError> {
    let run = Run { kind, live, extent };
    match kind.way {
        Way::Deterministic => run.alone::<Part>(),
        Way::Shared => run.alone::<SharingClients>(),
        Way::Threaded => {
            let log = Site::log(kind);
            let rings = run.rings();
            let body = |host: &Arc<ThreadedHost>, at: &mut Passive| {
                let host: Arc<dyn Spawner> = host.clone();
                let fixture = Site::open(&host, at, &log, kind)?;
                let mut clients = Vec::new();
                for ring in rings {
                    clients.push((fixture.part(at)?, ring));
                }
                let mut pairs = ParallelClients { host, at, clients };
                let rows = run.rows(&mut pairs)?;
                let parts: Vec<&Part> = pairs.clients.iter().map(|pair| &pair.0).collect();
                fixture.close(pairs.at, &parts)?;
                Ok(rows)
            };
            ThreadedHost::fly(&log, body).map_err(not_ended)?
        }
        Way::C => {
            let mut clients = Vec::new();
            for ring in run.rings() {
                clients.push((CLibraryClient::open()?, ring));
            }
            let mut pairs = CLibraryClients { clients };
            let rows = run.rows(&mut pairs)?;
            pairs.clients.into_iter().try_for_each(|pair| pair.0.close())?;
            Ok(rows)
        }
    }
}

/// What two rows have in common.
struct Run<'a> {
    kind: &'a Kind,
    live: usize,
    extent: &'a BenchSize,
}

/// The error of a flight that did not end.
fn not_ended(why: impl std::fmt::Debug) -> MeasureError {
    MeasureError(format!("a flight to end: {why:?}"))
}

impl Run<'_> {
    /// A ring for each thread.
    fn rings<N: Copy>(&self) -> Vec<Ring<N>> {
        let threads = self.kind.threads;
        (0..threads).map(|_| Ring::with_room(self.live / threads)).collect()
    }

    /// The rows of clients that run on the thread that measures.
    fn alone<C: PairClients>(&self) -> Result<Vec<Row>, MeasureError> {
        let log = Site::log(self.kind);
        let body = |host: &Arc<DeterministicHost>, at: &mut Passive| {
            let host: Arc<dyn Spawner> = host.clone();
            let fixture = Site::open(&host, at, &log, self.kind)?;
            let mut pairs = Alone { clients: C::open(&fixture, at)?, rings: self.rings(), at };
            let rows = self.rows(&mut pairs)?;
            fixture.close(pairs.at, &pairs.clients.parts())?;
            Ok(rows)
        };
        DeterministicHost::fly(0, &log, body).map_err(not_ended)?
    }

    fn rows(&self, pairs: &mut impl PairRunner) -> Result<Vec<Row>, MeasureError> {
        pairs.watch();
        let (filled, bytes) = bytes_added(|| pairs.fill());
        filled?;
        let mut floors = Baselines::new(self.live, self.kind.threads)?;
        [false, true].into_iter().map(|flag| self.row(pairs, &mut floors, flag, bytes)).collect()
    }

    fn row(
        &self,
        pairs: &mut impl PairRunner,
        floors: &mut Baselines,
        random: bool,
        bytes: Option<isize>,
    ) -> Result<Row, MeasureError> {
        // Rows that start threads for each turn have longer turns.
        let longer = !matches!(self.kind.way, Way::Deterministic | Way::Shared);
        let extent = if longer { self.extent.with_more_pairs() } else { self.extent.clone() };
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..extent.turns {
            let [bare, composite] = floors.turn(random, extent.pairs)?;
            let pair = pairs.turn(random, extent.pairs)?;
            times.iter_mut().zip([pair, bare, composite]).for_each(|(all, it)| all.push(it));
        }
        #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
        let (per_pair, live) = (extent.pairs as f64, self.live as f64);
        let [pair, bare, composite] =
            times.map(|durations| median(durations).as_secs_f64() * 1e9 / per_pair);
        let Kind { what, threads, .. } = *self.kind;
        let dies = if random { "random" } else { "oldest" };
        #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
        let bytes = bytes.map(|value| value as f64 / live);
        Ok(Row { what, live: self.live, dies, threads, pair, bare, composite, bytes })
    }
}

pub(crate) fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns.get(turns.len() / 2).copied().unwrap_or_default()
}

/// Clients on the thread that measures.
struct Alone<'a, C: PairClients> {
    clients: C,
    rings: Vec<Ring<C::Name>>,
    at: &'a mut Passive,
}

impl<C: PairClients> PairRunner for Alone<'_, C> {
    fn watch(&mut self) {
        self.clients.watch();
    }

    fn fill(&mut self) -> Result<(), MeasureError> {
        self.rings.iter_mut().try_for_each(|ring| ring.fill(&mut self.clients, self.at))
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, MeasureError> {
        let (clients, at) = (&mut self.clients, &mut *self.at);
        let mut rings = self.rings.iter_mut();
        timed(|| rings.try_for_each(|ring| ring.pairs(clients, at, random, pairs)))
            .map(Span::duration)
    }
}

/// Clients of one kernel, each on its own virtual thread with its own allocations.
struct ParallelClients<'a> {
    host: Arc<dyn Spawner>,
    at: &'a mut Passive,
    clients: Vec<(Part, Ring<D3DKMT_HANDLE>)>,
}

impl PairRunner for ParallelClients<'_> {
    fn watch(&mut self) {
        self.clients.iter_mut().for_each(|(part, _)| part.watch());
    }

    fn fill(&mut self) -> Result<(), MeasureError> {
        self.clients.iter_mut().try_for_each(|(part, ring)| ring.fill(part, self.at))
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, MeasureError> {
        let each = pairs / self.clients.len();
        let done = Arc::new(Mutex::new(Vec::new()));
        let together = Arc::new(Barrier::new(self.clients.len()));
        let mut ends = Vec::new();
        for (mut part, mut ring) in self.clients.drain(..) {
            let (done, together) = (done.clone(), together.clone());
            ends.push(self.host.spawn("client", move |at| {
                together.wait(); // Thread start is not measured.
                let told = timed(|| ring.pairs(&mut part, at, random, each));
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.push(told.map(|span| (span, (part, ring))));
            }));
        }
        for end in &ends {
            if let WaitResult::Stuck(graph) = self.host.park(self.at, end, None) {
                return Err(MeasureError(format!("its threads to end: {graph}")));
            }
        }
        let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
        let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (spans, clients): (Vec<Span>, _) = done.into_iter().unzip();
        self.clients = clients;
        Ok(Span::union(&spans))
    }
}

/// Clients of the C library, each on a thread of the program.
struct CLibraryClients {
    clients: Vec<(CLibraryClient, Ring<D3DKMT_HANDLE>)>,
}

impl PairRunner for CLibraryClients {
    fn fill(&mut self) -> Result<(), MeasureError> {
        self.clients.iter_mut().try_for_each(|(part, ring)| ring.fill(part, &mut ()))
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, MeasureError> {
        let each = pairs / self.clients.len();
        run_in_parallel(&mut self.clients, |(part, ring)| ring.pairs(part, &mut (), random, each))
    }
}
