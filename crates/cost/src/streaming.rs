//! The cost of a frame through a pin, compared with a bare queue of the same frames.
//!
//! A driver fills a frame; the client receives, reads and returns it. No other thread runs: the
//! client does the class driver's work itself (see `residency_fixture.rs`).

use crate::clock::{Span, timed};
use crate::fixture::{EventWatcher, log};
use crate::memory::nanoseconds_each;
use crate::row_kinds::Watch;
use crate::test_camera::{FRAMES, TestCamera, draw};
use crate::{BenchSize, MeasureError};
use flight::{DeterministicHost, Passive};
use std::collections::VecDeque;
use std::fmt;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::{DriverSetup, FramingRequest, Graph, PinState, Stream, SystemMemory};

/// The goal: the cost of a frame divided by that of the bare queue.
const TIMES: f64 = 5.0;

/// A row of the table of streams.
#[derive(Clone, Debug)]
pub struct StreamRow {
    /// What was measured.
    pub what: &'static str,
    /// The size of a frame in bytes.
    pub bytes: u32,
    /// Nanoseconds per frame.
    pub number: f64,
    /// Nanoseconds per frame of the bare queue, in the same turns.
    pub bare: f64,
    /// The goal, as a multiple of the bare queue.
    pub wanted: Option<f64>,
}

impl StreamRow {
    /// The cost divided by that of the bare queue.
    pub fn times(&self) -> f64 {
        self.number / self.bare
    }

    /// Whether the goal is met; `None` without a goal.
    pub fn met(&self) -> Option<bool> {
        self.wanted.map(|value| self.times() <= value)
    }
}

/// A kind of row.
struct Kind {
    what: &'static str,
    watch: Watch,
    bytes: u32,
    /// The number of frames completed before the client receives them.
    batch: u32,
    wanted: Option<f64>,
}

const KINDS: [Kind; 8] = [
    kind("a frame streamed, one at a time, checks off", Watch::Off, 64, 1, Some(TIMES)),
    kind("a frame streamed, one at a time, checks off", Watch::Off, 4 << 10, 1, Some(TIMES)),
    kind("a frame streamed, 8 at a time, checks off", Watch::Off, 64, FRAMES, Some(TIMES)),
    kind("a frame streamed, 8 at a time, checks off", Watch::Off, 4 << 10, FRAMES, Some(TIMES)),
    kind("a frame streamed, 8 at a time, checks off", Watch::Off, 64 << 10, FRAMES, Some(TIMES)),
    kind("a frame streamed, one at a time, verifier on", Watch::Verifier, 4 << 10, 1, None),
    kind("a frame streamed, 8 at a time, verifier on", Watch::Verifier, 4 << 10, FRAMES, None),
    kind("a frame streamed, 8 at a time, verifier on", Watch::Verifier, 64 << 10, FRAMES, None),
];

const fn kind(
    what: &'static str,
    watch: Watch,
    bytes: u32,
    batch: u32,
    wanted: Option<f64>,
) -> Kind {
    Kind { what, watch, bytes, batch, wanted }
}

/// Measures the table.
pub(crate) fn measure(
    extent: &BenchSize,
    said: &mut dyn FnMut(&StreamRow),
) -> Result<Vec<StreamRow>, MeasureError> {
    let mut rows = Vec::new();
    for kind in KINDS.iter().filter(|kind| extent.asks(kind.what)) {
        let (number, bare) = fly(kind, extent)?;
        let Kind { what, bytes, wanted, .. } = *kind;
        let row = StreamRow { what, bytes, number, bare, wanted };
        said(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// Runs `count` frames one after the other and nothing else, for instruction counts.
pub(crate) fn counted(watch: Watch, count: usize) -> Result<(), MeasureError> {
    let one = kind("counted", watch, 64, 1, None);
    flown(&one, |way, at| way.frames(at, count))
}

/// A flight of several turns, each with a turn of the bare queue.
fn fly(kind: &Kind, extent: &BenchSize) -> Result<(f64, f64), MeasureError> {
    let [number, bare] = flown(kind, |way, at| {
        let mut bare = BareQueues::new(kind.bytes);
        let mut times = [const { Vec::new() }; 2];
        for turn in 0..=extent.turns {
            let queue = timed(|| bare.frames(kind.batch, extent.pairs))?;
            let pin = timed(|| way.frames(at, extent.pairs))?;
            // The first turn is not measured: buffers grow.
            if turn > 0 {
                times
                    .iter_mut()
                    .zip([pin, queue])
                    .for_each(|(all, it)| all.push(Span::duration(it)));
            }
        }
        Ok(times.map(|durations| nanoseconds_each(durations, extent.pairs)))
    })?;
    Ok((number, bare))
}

/// Runs `body` with a running pin, then closes the pin.
fn flown<T>(
    kind: &Kind,
    body: impl FnOnce(&mut Way<'_>, &mut Passive) -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    let log = log(kind.watch);
    let flown = DeterministicHost::fly(0, &log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let watcher = EventWatcher::of(kind.watch, &log);
        let memory = Arc::new(SystemMemory::default());
        let minidriver = Arc::new(TestCamera::new(kind.bytes));
        let device = done("a device", stream.add_device(at, DriverSetup { minidriver, memory }))?;
        let request = FramingRequest::default();
        let graph = Graph::open(&stream, at, device, &TestCamera::format(), &request);
        let graph = done("a graph", graph)?;
        done("a pin that runs", stream.set_state(at, graph.pin, PinState::Run))?;
        let sink = Sink::new(kind.bytes);
        let mut way = Way { stream: &stream, graph: &graph, watcher, batch: kind.batch, sink };
        let answer = body(&mut way, at)?;
        let watcher = way.watcher;
        done("a graph that stops", graph.stop(at))?;
        done("a graph that closes", graph.close(at))?;
        done("a device that is removed", stream.remove_device(at, device))?;
        if let Some(mut watcher) = watcher {
            watcher.end()?;
        }
        Ok(answer)
    });
    flown.map_err(|reason| MeasureError(format!("a flight to end: {reason:?}")))?
}

/// Frames through a pin to a client.
struct Way<'a> {
    stream: &'a Stream,
    graph: &'a Graph,
    watcher: Option<EventWatcher>,
    /// The number of frames completed before the client receives them.
    batch: u32,
    sink: Sink,
}

impl Way<'_> {
    fn frames(&mut self, at: &mut Passive, count: usize) -> Result<(), MeasureError> {
        let mut left = count;
        while left > 0 {
            while self.stream.run_pending_work(at) {}
            let some = left.min(self.batch as usize);
            left -= some;
            for _ in 0..some {
                let taken = done("a frame", self.stream.take_frame(at, self.graph.pin, None))?;
                let read = self.stream.read_frame(taken.frame, 0, &mut self.sink.picture);
                done("a readable frame", read)?;
                self.sink.look()?;
                done("a frame back", self.stream.return_frame(at, taken.frame))?;
            }
            if let Some(watcher) = &mut self.watcher {
                watcher.look();
            }
        }
        Ok(())
    }
}

/// A client that reads every frame.
struct Sink {
    picture: Vec<u8>,
    last: u64,
}

impl Sink {
    fn new(bytes: u32) -> Self {
        Self { picture: vec![0; bytes as usize], last: 0 }
    }

    /// Checks that the frame follows the last one.
    fn look(&mut self) -> Result<(), MeasureError> {
        let number = black_box(&self.picture).first_chunk().copied().map(u64::from_le_bytes);
        self.last += 1;
        let right = number == Some(self.last);
        let last = self.last;
        // The message is built only on failure: formatting takes longer than the bare queue.
        right.then_some(()).ok_or_else(|| MeasureError(format!("frame {last}, not {number:?}")))
    }
}

/// Two locked queues with the same frames: filled, passed on, read, returned.
struct BareQueues {
    free: Mutex<VecDeque<Vec<u8>>>,
    full: Mutex<VecDeque<Vec<u8>>>,
    picture: Vec<u8>,
    number: u64,
    sink: Sink,
}

impl BareQueues {
    fn new(bytes: u32) -> Self {
        let frames = (0..FRAMES).map(|_| vec![0; bytes as usize]).collect();
        Self {
            free: Mutex::new(frames),
            full: Mutex::default(),
            picture: vec![0xa5; bytes as usize],
            number: 0,
            sink: Sink::new(bytes),
        }
    }

    fn frames(&mut self, batch: u32, count: usize) -> Result<(), MeasureError> {
        let mut left = count;
        while left > 0 {
            let some = left.min(batch as usize);
            left -= some;
            for _ in 0..some {
                let mut frame = taken(&self.free)?;
                draw(&mut self.picture, &mut self.number);
                frame.copy_from_slice(black_box(&self.picture));
                lock(&self.full).push_back(frame);
            }
            for _ in 0..some {
                let frame = taken(&self.full)?;
                self.sink.picture.copy_from_slice(black_box(&frame));
                self.sink.look()?;
                lock(&self.free).push_back(frame);
            }
        }
        Ok(())
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken(queue: &Mutex<VecDeque<Vec<u8>>>) -> Result<Vec<u8>, MeasureError> {
    lock(queue).pop_front().ok_or_else(|| MeasureError("a frame in the queue".to_owned()))
}

/// Returns the value of a successful call.
fn done<T, E: fmt::Debug>(what: &str, answer: Result<T, E>) -> Result<T, MeasureError> {
    answer.map_err(|reason| MeasureError(format!("{what}; it failed: {reason:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_compared_with_the_bare_queue() {
        let row = |number, wanted| StreamRow { what: "it", bytes: 64, number, bare: 10.0, wanted };
        assert_eq!((row(40.0, Some(5.0)).times(), row(40.0, Some(5.0)).met()), (4.0, Some(true)));
        assert_eq!((row(60.0, Some(5.0)).met(), row(60.0, None).met()), (Some(false), None));
    }
}
