//! The cost of making an allocation resident and evicting it, with others live.
//!
//! The driver's paging takes no time (`paging_driver.rs`) and no other thread runs, so the cost is
//! the kernel's: calls, placement, the paging plan, the driver's calls, the interrupt and its DPC.

use crate::clock::{Span, timed};
use crate::counting::bytes_added;
use crate::memory::{MemoryRow, TIME, nanoseconds_each};
use crate::paging_driver::{self, PAGE};
use crate::residency_fixture::ResidencyFixture;
use crate::ring::splitmix64;
use crate::{BenchSize, MeasureError};
use abi::D3DKMT_HANDLE;
use flight::{DeterministicHost, Log, Passive, Spawner};
use std::sync::Arc;

/// A kind of row.
struct Kind {
    what: &'static str,
    /// Only half of the live allocations fit into memory at once.
    short: bool,
    /// An evicted allocation keeps its location until that is needed.
    lazily: bool,
}

/// The limit of live allocations: each returned page is zeroed, so more need a large machine.
const MAX_LIVE: usize = 100_000;

const KINDS: [Kind; 3] = [
    Kind { what: "MakeResident of a resident one, Evict", short: false, lazily: true },
    Kind { what: "MakeResident with paging, Evict with paging", short: false, lazily: false },
    Kind { what: "MakeResident in the place of another, Evict", short: true, lazily: true },
];

/// Measures the rows.
pub(crate) fn measure(
    extent: &BenchSize,
    text: &mut dyn FnMut(MemoryRow),
) -> Result<(), MeasureError> {
    for kind in KINDS.iter().filter(|kind| extent.asks(kind.what)) {
        let mut fewest: Option<Vec<f64>> = None;
        for live in extent.live.iter().filter(|index| **index <= MAX_LIVE) {
            let mut rows = rows_of(kind, *live, extent)?;
            if let Some(fewest) = &fewest {
                for (row, at_fewest) in rows.iter_mut().zip(fewest) {
                    row.beside = vec![("fewest live", *at_fewest)];
                }
            }
            fewest.get_or_insert_with(|| rows.iter().map(|memory_row| memory_row.number).collect());
            rows.into_iter().for_each(&mut *text);
        }
    }
    Ok(())
}

/// Both rows: allocations in order, and in random order.
fn rows_of(kind: &Kind, live: usize, extent: &BenchSize) -> Result<Vec<MemoryRow>, MeasureError> {
    let log = Arc::new(Log::silent());
    let flown = DeterministicHost::fly(0, &log, |host, at| {
        let host: Arc<dyn Spawner> = host.clone();
        let bytes = live as u64 * PAGE;
        // For the live allocations, the paging queue's fence, and buffers.
        let ram = nt::Ram::new(bytes + (16 << 20));
        let ram = ram.map_err(|why| MeasureError(format!("memory for the machine: {why}")))?;
        let place = if kind.short { (live as u64).div_ceil(2) * PAGE } else { bytes };
        let setup = paging_driver::set_up(ram, place);
        let fixture = ResidencyFixture::open(&host, at, &log, setup)?;
        let mut list = Vec::with_capacity(live.max(1));
        let (filled, bytes) = bytes_added(|| fixture.fill(at, &mut list, &[0xa5; 32], kind.lazily));
        filled?;
        #[expect(clippy::cast_precision_loss, reason = "the count is small")]
        let bytes = bytes.map(|value| value as f64 / live as f64);
        let mut rows = Vec::new();
        for random in [false, true] {
            let number = number(kind, &fixture, at, &list, random, extent)?;
            let which = if random { "random" } else { "in turn" };
            let (what, beside) = (kind.what, Vec::new());
            let row =
                MemoryRow { what, live, which, number, unit: TIME, beside, wanted: None, bytes };
            rows.push(row);
        }
        fixture.close(at);
        Ok(rows)
    });
    flown.map_err(|why| MeasureError(format!("a flight to end: {why:?}")))?
}

fn number(
    kind: &Kind,
    fixture: &ResidencyFixture,
    at: &mut Passive,
    list: &[D3DKMT_HANDLE],
    random: bool,
    extent: &BenchSize,
) -> Result<f64, MeasureError> {
    let (mut times, mut next) = (Vec::new(), 0_u64);
    for _ in 0..extent.turns.div_ceil(2) {
        let turn = timed(|| {
            for _ in 0..extent.pairs {
                let drawn = if random { splitmix64(next) } else { next };
                next += 1;
                let one = [list[usize::try_from(drawn % list.len() as u64).unwrap_or(0)]];
                fixture.make_resident(at, &one)?;
                fixture.evict(at, &one, kind.lazily)?;
            }
            Ok(())
        });
        times.push(turn.map(Span::duration)?);
    }
    Ok(nanoseconds_each(times, extent.pairs))
}
