//! The cost of a packet from submission to retirement, and of fences.
//!
//! The driver and its hardware take no time (`paging_driver.rs`), and no other thread runs, so the
//! cost is that of the call, the context's queue, the driver's three calls, and the completion.

use crate::clock::{Span, timed};
use crate::goals::PACKET;
use crate::memory::nanoseconds_each;
use crate::row_kinds::Watch;
use crate::work::{WorkRow, rows};
use crate::work_fixture::WorkFixture;
use crate::{BenchSize, MeasureError, wanted};
use abi::D3DKMT_HANDLE;
use flight::Passive;
use thunk::CpuWait;

/// The number of packets in flight at once, and between two runs of the observer.
pub(crate) const BATCH: usize = 64;
/// The number of live objects while instructions are counted.
const COUNTED: usize = 100;

/// A kind of packet row.
struct Kind {
    what: &'static str,
    watch: Watch,
    /// The number of packets submitted before the hardware executes them.
    batch: usize,
    /// In nanoseconds.
    wanted: Option<f64>,
}

const KINDS: [Kind; 4] = [
    kind("a packet, one at a time, checks off", Watch::Off, 1, Some(PACKET)),
    kind("a packet, 64 at a time, checks off", Watch::Off, BATCH, Some(PACKET)),
    kind("a packet, one at a time, verifier on", Watch::Verifier, 1, None),
    kind("a packet, 64 at a time, verifier on", Watch::Verifier, BATCH, None),
];

const fn kind(what: &'static str, watch: Watch, batch: usize, wanted: Option<f64>) -> Kind {
    Kind { what, watch, batch, wanted }
}

/// Measures the rows.
pub(crate) fn measure(
    extent: &BenchSize,
    text: &mut dyn FnMut(WorkRow),
) -> Result<(), MeasureError> {
    for kind in &KINDS {
        let number = |live| {
            WorkFixture::fly(kind.watch, None, |fixture, at| {
                let line = Line::new(fixture, at, live)?;
                turns(extent, || line.packets(fixture, at, kind.batch, extent.pairs))
            })
        };
        rows(extent, kind.what, kind.wanted, number, text)?;
    }
    let number = |live| fences(extent, live, Line::signal_by_cpu);
    rows(extent, "a fence signalled and waited for by the CPU", None, number, text)?;
    let number = |live| fences(extent, live, Line::released);
    rows(extent, "a packet behind a fence that the CPU signals", None, number, text)
}

/// Runs `count` packets and nothing else, `batch` at a time, for instruction counts.
pub(crate) fn counted(watch: Watch, batch: usize, count: usize) -> Result<(), MeasureError> {
    WorkFixture::fly(watch, None, |fixture, at| {
        let line = Line::new(fixture, at, COUNTED)?;
        line.packets(fixture, at, batch, count)
    })
}

/// Nanoseconds per operation of a turn.
fn turns(
    extent: &BenchSize,
    mut turn: impl FnMut() -> Result<(), MeasureError>,
) -> Result<f64, MeasureError> {
    turn()?; // Not measured: buffers grow.
    let times: Result<Vec<_>, _> =
        (0..extent.turns).map(|_| timed(&mut turn).map(Span::duration)).collect();
    Ok(nanoseconds_each(times?, extent.pairs))
}

fn fences(
    extent: &BenchSize,
    live: usize,
    one: impl Fn(&Line, &WorkFixture, &mut Passive, u64) -> Result<(), MeasureError> + Send + Sync,
) -> Result<f64, MeasureError> {
    WorkFixture::fly(Watch::Off, None, |fixture, at| {
        let line = Line::new(fixture, at, live)?;
        let mut next = 0;
        turns(extent, || {
            for _ in 0..extent.pairs {
                next += 1;
                one(&line, fixture, at, next)?;
            }
            line.check(fixture, at)
        })
    })
}

/// A working context, with other live objects of every kind.
struct Line {
    context: D3DKMT_HANDLE,
    /// Signaled when all packets are completed.
    last: D3DKMT_HANDLE,
    /// All live fences.
    fences: Vec<D3DKMT_HANDLE>,
}

impl Line {
    /// Creates `count` allocations, idle contexts and fences.
    fn new(fixture: &mut WorkFixture, at: &mut Passive, live: usize) -> Result<Self, MeasureError> {
        let mut fences = Vec::new();
        for number in 0..live.max(1) {
            fences.push(fixture.fence(at)?);
            fixture.allocation(at)?;
            fixture.context(at)?;
            if number.is_multiple_of(BATCH) {
                fixture.watch();
            }
        }
        let (context, last) = (fixture.context(at)?, fixture.fence(at)?);
        fixture.watch();
        Ok(Self { context, last, fences })
    }

    /// Submits `count` packets and waits until all are completed.
    fn packets(
        &self,
        fixture: &mut WorkFixture,
        at: &mut Passive,
        batch: usize,
        count: usize,
    ) -> Result<(), MeasureError> {
        let mut left = count;
        while left > 0 {
            // The observer runs after the same number of packets in every row.
            for _ in 0..BATCH.div_ceil(batch) {
                let some = batch.min(left);
                left -= some;
                for _ in 0..some {
                    self.submit(fixture, at)?;
                }
                if some > 0 && !fixture.kernel.run_hardware_turn(at, fixture.id) {
                    return Err(MeasureError("hardware that does packets".to_owned()));
                }
            }
            fixture.watch();
        }
        self.check(fixture, at)
    }

    /// Waits until all submitted packets are completed.
    fn check(&self, fixture: &WorkFixture, at: &mut Passive) -> Result<(), MeasureError> {
        let all = [(self.last, 1)];
        let signals = fixture.client.signal_gpu(at, self.context, &all);
        wanted("D3DKMTSignalSynchronizationObjectFromGpu", signals)?;
        let waited = fixture.client.wait_cpu(at, fixture.device, &all, CpuWait::default());
        wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
    }

    fn submit(&self, fixture: &WorkFixture, at: &mut Passive) -> Result<(), MeasureError> {
        wanted("D3DKMTSubmitCommand", fixture.client.submit(at, self.context, &[0xa5; 32]))
    }

    /// The next fence, with its next value.
    fn fence(&self, next: u64) -> [(D3DKMT_HANDLE, u64); 1] {
        let count = self.fences.len() as u64;
        let place = usize::try_from(next % count).unwrap_or(0);
        [(self.fences[place], 1 + next / count)]
    }

    /// Signals a fence from the CPU and waits for it.
    fn signal_by_cpu(
        &self,
        fixture: &WorkFixture,
        at: &mut Passive,
        next: u64,
    ) -> Result<(), MeasureError> {
        let (fence, how) = (self.fence(next), CpuWait::default());
        signal(fixture, at, &fence)?;
        let waited = fixture.client.wait_cpu(at, fixture.device, &fence, how);
        wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
    }

    /// Lets a context wait for a fence before its packet, and signals it from the CPU.
    fn released(
        &self,
        fixture: &WorkFixture,
        at: &mut Passive,
        next: u64,
    ) -> Result<(), MeasureError> {
        let fence = self.fence(next);
        let waits = fixture.client.wait_gpu(at, self.context, &fence);
        wanted("D3DKMTWaitForSynchronizationObjectFromGpu", waits)?;
        self.submit(fixture, at)?;
        signal(fixture, at, &fence)?;
        if fixture.kernel.run_pending_work(at) && fixture.kernel.run_hardware_turn(at, fixture.id) {
            return Ok(());
        }
        Err(MeasureError("a signal that releases a packet".to_owned()))
    }
}

fn signal(
    fixture: &WorkFixture,
    at: &mut Passive,
    fence: &[(D3DKMT_HANDLE, u64)],
) -> Result<(), MeasureError> {
    let signalled = fixture.client.signal_cpu(at, fixture.device, fence, 0);
    wanted("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
}
