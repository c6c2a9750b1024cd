//! The table: every kind of row, in turns with its floors.

use crate::c_library::Program;
use crate::clock::{Span, side_by_side, timed};
use crate::counting::grown;
use crate::floor::Floors;
use crate::kinds::{KINDS, Kind, Way};
use crate::ring::Ring;
use crate::site::{Part, Site};
use crate::{Extent, NotMeasured};
use abi::D3DKMT_HANDLE;
use flight::{Crew, Free, Passive, Stepped, Woken};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Duration;

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub what: &'static str,
    /// While so many others lived.
    pub live: usize,
    /// Which one died: `oldest` or `random`.
    pub dies: &'static str,
    /// On so many threads.
    pub threads: usize,
    /// A pair, in nanoseconds; on two threads the time that passes for each pair of either.
    pub pair: f64,
    /// The bare floor's pair in the same turns.
    pub bare: f64,
    /// The composite floor's.
    pub composite: f64,
    /// How many bytes each of the others takes, if the program's allocator counts.
    pub bytes: Option<f64>,
}

/// Measures the table.
pub(crate) fn measure(
    extent: &Extent,
    said: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, NotMeasured> {
    let mut rows = Vec::new();
    for live in &extent.live {
        for kind in KINDS.iter().filter(|it| extent.asks(it.what)) {
            let measured = rows_of(kind, *live, extent)?;
            measured.iter().for_each(&mut *said);
            rows.extend(measured);
        }
    }
    Ok(rows)
}

/// Who does the pairs of a row.
trait Pairs {
    /// Creates those who live.
    fn fill(&mut self) -> Result<(), NotMeasured>;

    /// So many pairs, shared among the threads.
    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, NotMeasured>;
}

/// Both rows of a kind: the oldest dies, and then a random one.
fn rows_of(kind: &Kind, live: usize, extent: &Extent) -> Result<Vec<Row>, NotMeasured> {
    let rings = (0..kind.threads).map(|_| Ring::with_room(live / kind.threads));
    let rings: Vec<Ring<D3DKMT_HANDLE>> = rings.collect();
    let run = Run { kind, live, extent };
    let log = Site::log(kind);
    let could_not = |why| NotMeasured(format!("a flight to end: {why:?}"));
    match kind.way {
        Way::Stepped => {
            let story = |host: &Arc<Stepped>, at: &mut Passive| {
                let host: Arc<dyn Crew> = host.clone();
                let site = Site::open(&host, at, &log, kind)?;
                let mut pairs = Alone { part: site.part(at)?, rings, at };
                let rows = run.rows(&mut pairs)?;
                site.close(pairs.at, &[pairs.part])?;
                Ok(rows)
            };
            Stepped::fly(0, &log, story).map_err(could_not)?
        }
        Way::Free => {
            let story = |host: &Arc<Free>, at: &mut Passive| {
                let host: Arc<dyn Crew> = host.clone();
                let site = Site::open(&host, at, &log, kind)?;
                let mut parts = Vec::new();
                for ring in rings {
                    parts.push((site.part(at)?, ring));
                }
                let mut pairs = Together { host, at, parts };
                let rows = run.rows(&mut pairs)?;
                let parts: Vec<Part> = pairs.parts.drain(..).map(|it| it.0).collect();
                site.close(pairs.at, &parts)?;
                Ok(rows)
            };
            Free::fly(&log, story).map_err(could_not)?
        }
        Way::C => {
            let mut parts = Vec::new();
            for ring in rings {
                parts.push((Program::open()?, ring));
            }
            let mut pairs = InC { parts };
            let rows = run.rows(&mut pairs)?;
            pairs.parts.into_iter().try_for_each(|it| it.0.close())?;
            Ok(rows)
        }
    }
}

/// What two rows have in common.
struct Run<'a> {
    kind: &'a Kind,
    live: usize,
    extent: &'a Extent,
}

impl Run<'_> {
    fn rows(&self, pairs: &mut impl Pairs) -> Result<Vec<Row>, NotMeasured> {
        let (filled, bytes) = grown(|| pairs.fill());
        filled?;
        let mut floors = Floors::new(self.live, self.kind.threads)?;
        [false, true].into_iter().map(|it| self.row(pairs, &mut floors, it, bytes)).collect()
    }

    fn row(
        &self,
        pairs: &mut impl Pairs,
        floors: &mut Floors,
        random: bool,
        bytes: Option<isize>,
    ) -> Result<Row, NotMeasured> {
        // What starts threads for each turn has longer turns.
        let longer = self.kind.way != Way::Stepped;
        let extent = if longer { self.extent.longer() } else { self.extent.clone() };
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..extent.turns {
            let [bare, composite] = floors.turn(random, extent.pairs)?;
            let pair = pairs.turn(random, extent.pairs)?;
            times.iter_mut().zip([pair, bare, composite]).for_each(|(all, it)| all.push(it));
        }
        #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
        let (per_pair, live) = (extent.pairs as f64, self.live as f64);
        let [pair, bare, composite] = times.map(|it| median(it).as_secs_f64() * 1e9 / per_pair);
        let Kind { what, threads, .. } = *self.kind;
        let dies = if random { "random" } else { "oldest" };
        #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
        let bytes = bytes.map(|it| it as f64 / live);
        Ok(Row { what, live: self.live, dies, threads, pair, bare, composite, bytes })
    }
}

pub(crate) fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns.get(turns.len() / 2).copied().unwrap_or_default()
}

/// One client, on the thread that measures.
struct Alone<'a> {
    part: Part,
    rings: Vec<Ring<D3DKMT_HANDLE>>,
    at: &'a mut Passive,
}

impl Pairs for Alone<'_> {
    fn fill(&mut self) -> Result<(), NotMeasured> {
        self.rings.iter_mut().try_for_each(|it| it.fill(&mut self.part, self.at))
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, NotMeasured> {
        let (part, at) = (&mut self.part, &mut *self.at);
        let mut rings = self.rings.iter_mut();
        timed(|| rings.try_for_each(|it| it.pairs(part, at, random, pairs))).map(Span::took)
    }
}

/// Clients on one kernel, each on a virtual thread of its own with allocations of its own.
struct Together<'a> {
    host: Arc<dyn Crew>,
    at: &'a mut Passive,
    parts: Vec<(Part, Ring<D3DKMT_HANDLE>)>,
}

impl Pairs for Together<'_> {
    fn fill(&mut self) -> Result<(), NotMeasured> {
        self.parts.iter_mut().try_for_each(|(part, ring)| ring.fill(part, self.at))
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, NotMeasured> {
        let each = pairs / self.parts.len();
        let done = Arc::new(Mutex::new(Vec::new()));
        let together = Arc::new(Barrier::new(self.parts.len()));
        let mut ends = Vec::new();
        for (mut part, mut ring) in self.parts.drain(..) {
            let (done, together) = (done.clone(), together.clone());
            ends.push(self.host.spawn("client", move |at| {
                together.wait(); // Starting them is not counted.
                let told = timed(|| ring.pairs(&mut part, at, random, each));
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.push(told.map(|span| (span, (part, ring))));
            }));
        }
        for end in &ends {
            if let Woken::Stuck(graph) = self.host.park(self.at, end, None) {
                return Err(NotMeasured(format!("its threads to end: {graph}")));
            }
        }
        let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
        let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (spans, parts): (Vec<Span>, _) = done.into_iter().unzip();
        self.parts = parts;
        Ok(Span::of_all(&spans))
    }
}

/// Clients of the C library, each on a thread of the program.
struct InC {
    parts: Vec<(Program, Ring<D3DKMT_HANDLE>)>,
}

impl Pairs for InC {
    fn fill(&mut self) -> Result<(), NotMeasured> {
        self.parts.iter_mut().try_for_each(|(part, ring)| ring.fill(part, &mut ()))
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, NotMeasured> {
        let each = pairs / self.parts.len();
        side_by_side(&mut self.parts, |(part, ring)| ring.pairs(part, &mut (), random, each))
    }
}
