//! What a packet costs, from its submission until it is retired, and what fences cost.
//!
//! The driver and its hardware take no time (`pager.rs`), and no thread takes a turn: what is
//! left is the call, the line of the context, the driver's three calls, and the fence's way back.

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

/// So many packets are on their way at once, and whoever watches gets the events after so many.
const BATCH: usize = 64;
/// How many others live while instructions are counted.
const COUNTED: usize = 100;

/// A kind of row about packets.
struct Kind {
    what: &'static str,
    watch: Watch,
    /// So many are submitted before the hardware does them all.
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

/// As many packets as asked for, one after the other, and nothing else: to be counted.
pub(crate) fn counted(watch: Watch, count: usize) -> Result<(), MeasureError> {
    WorkFixture::fly(watch, None, |fixture, at| {
        let line = Line::new(fixture, at, COUNTED)?;
        line.packets(fixture, at, 1, count)
    })
}

/// Each of what a turn does so often, by the clock.
fn turns(
    extent: &BenchSize,
    mut turn: impl FnMut() -> Result<(), MeasureError>,
) -> Result<f64, MeasureError> {
    turn()?; // Not counted: buffers grow.
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

/// A context that works, while others of everything live.
struct Line {
    context: D3DKMT_HANDLE,
    /// Signalled when all packets are done.
    last: D3DKMT_HANDLE,
    /// All that live.
    fences: Vec<D3DKMT_HANDLE>,
}

impl Line {
    /// So many allocations, contexts with nothing to do, and fences.
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

    /// So many packets, each of them done when this returns.
    fn packets(
        &self,
        fixture: &mut WorkFixture,
        at: &mut Passive,
        batch: usize,
        count: usize,
    ) -> Result<(), MeasureError> {
        let mut left = count;
        while left > 0 {
            // Those who watch look after as many packets, in whichever way they come.
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

    /// Everything it was given is done.
    fn check(&self, fixture: &WorkFixture, at: &mut Passive) -> Result<(), MeasureError> {
        let all = [(self.last, 1)];
        let signals = fixture.client.signal_gpu(at, self.context, &all);
        wanted("D3DKMTSignalSynchronizationObjectFromGpu", signals)?;
        let gpu_wait = fixture.client.wait_cpu(at, fixture.device, &all, CpuWait::default());
        wanted("D3DKMTWaitForSynchronizationObjectFromCpu", gpu_wait)
    }

    fn submit(&self, fixture: &WorkFixture, at: &mut Passive) -> Result<(), MeasureError> {
        wanted("D3DKMTSubmitCommand", fixture.client.submit(at, self.context, &[0xa5; 32]))
    }

    /// The fence whose turn it is, with its next value.
    fn fence(&self, next: u64) -> [(D3DKMT_HANDLE, u64); 1] {
        let count = self.fences.len() as u64;
        let place = usize::try_from(next % count).unwrap_or(0);
        [(self.fences[place], 1 + next / count)]
    }

    /// The CPU signals a fence, and waits for it.
    fn signal_by_cpu(
        &self,
        fixture: &WorkFixture,
        at: &mut Passive,
        next: u64,
    ) -> Result<(), MeasureError> {
        let (fence, how) = (self.fence(next), CpuWait::default());
        signal(fixture, at, &fence)?;
        let gpu_wait = fixture.client.wait_cpu(at, fixture.device, &fence, how);
        wanted("D3DKMTWaitForSynchronizationObjectFromCpu", gpu_wait)
    }

    /// A context waits for a fence before its packet, and the CPU signals it.
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
