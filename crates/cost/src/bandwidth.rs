//! Paging bandwidth through the whole path, compared with a plain copy of the same size.
//!
//! Uses the built-in driver with memory, whose hardware copies. The memory oracle is off.

use crate::clock::{Span, timed};
use crate::memory::{MemoryRow, SPEED, nanoseconds_each};
use crate::residency_fixture::ResidencyFixture;
use crate::{BenchSize, MeasureError};
use flight::{DeterministicHost, Log, Passive, Spawner};
use kernel::DriverSetup;
use softgpu::{LOCAL, MemoryPlan, SoftGpu, format};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nearly as fast as a plain copy.
const GOAL: f64 = 0.8;
const PAGE: usize = 4096;
/// The number of bytes paged in and out in a turn.
const ALL: usize = 32 << 20;
/// The number of bytes in a call.
const CALL: usize = 4 << 20;
/// The rows: name and size of an allocation.
const KINDS: [(&str, usize); 3] = [
    ("paging bandwidth, 64 of 64 KiB a call", 64 << 10),
    ("paging bandwidth, 4 of 1 MiB a call", 1 << 20),
    ("paging bandwidth, one of 4 MiB a call", 4 << 20),
];

/// Measures the rows.
pub(crate) fn measure(
    extent: &BenchSize,
    said: &mut dyn FnMut(MemoryRow),
) -> Result<(), MeasureError> {
    for (what, size) in KINDS.into_iter().filter(|pair| extent.asks(pair.0)) {
        let live = ALL / size;
        let (number, copied) = numbers(size, live, extent)?;
        let beside = vec![("memcpy", copied)];
        let (which, unit, wanted, bytes) = ("in turn", SPEED, Some(GOAL), None);
        said(MemoryRow { what, live, which, number, unit, beside, wanted, bytes });
    }
    Ok(())
}

/// The bandwidth of the path and of a plain copy.
fn numbers(size: usize, live: usize, extent: &BenchSize) -> Result<(f64, f64), MeasureError> {
    let log = Arc::new(Log::silent());
    let flown = DeterministicHost::fly(0, &log, |host, at| {
        let host: Arc<dyn Spawner> = host.clone();
        let ram = nt::Ram::new(4 * ALL as u64);
        let ram =
            ram.map_err(|reason| MeasureError(format!("memory for the machine: {reason}")))?;
        let plan = MemoryPlan { local: ALL as u64, visible: 1, ..MemoryPlan::default() };
        let (miniport, machine) = SoftGpu::with_memory(ram, plan);
        let gpu = machine.clone();
        let setup = DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) };
        let fixture = ResidencyFixture::open(&host, at, &log, setup)?;
        let mut requirements = format::only_in(&[LOCAL]);
        requirements.flags.cpu_visible = false;
        let mut list = Vec::with_capacity(live);
        fixture.fill(at, &mut list, &format::describe_in(size as u64, 0, &requirements), false)?;
        let turn = |at: &mut Passive| {
            timed(|| {
                for some in list.chunks(CALL / size) {
                    fixture.make_resident(at, some)?;
                    fixture.evict(at, some, false)?;
                }
                Ok(())
            })
        };
        let mut copies = Copies::new(size);
        turn(at)?;
        copies.turn();
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..extent.turns.div_ceil(4) {
            plain.push(copies.turn());
            ours.push(turn(at).map(Span::duration)?);
        }
        fixture.close(at);
        if gpu.faults() != 0 {
            return Err(MeasureError("hardware that does not fault".to_owned()));
        }
        // Bytes per nanosecond are GB/s; each byte is paged out and in.
        let speed = |durations| 1.0 / nanoseconds_each(durations, 2 * ALL);
        Ok((speed(ours), speed(plain)))
    });
    flown.map_err(|reason| MeasureError(format!("a flight to end: {reason:?}")))?
}

/// The plain copy: the same number of bytes, copied one call at a time, out and back. A new
/// allocation gets the location of the previous one, so the kernel uses no more GPU memory either.
struct Copies {
    size: usize,
    system: Vec<u8>,
    local: Vec<u8>,
}

impl Copies {
    fn new(size: usize) -> Self {
        Self { size, system: vec![1; ALL + PAGE], local: vec![2; CALL + PAGE] }
    }

    fn turn(&mut self) -> Duration {
        let start = Instant::now();
        let local = whole_pages(&mut self.local, CALL);
        for system in whole_pages(&mut self.system, ALL).chunks_exact_mut(CALL) {
            copy(local, system, self.size);
            copy(system, local, self.size);
        }
        start.elapsed()
    }
}

/// The first `length` bytes from a page boundary: misaligned copies are slower.
fn whole_pages(block: &mut [u8], length: usize) -> &mut [u8] {
    let start = block.as_ptr().align_offset(PAGE).min(PAGE);
    &mut block[start..start + length]
}

fn copy(to: &mut [u8], from: &[u8], size: usize) {
    for (to, from) in to.chunks_exact_mut(size).zip(from.chunks_exact(size)) {
        to.copy_from_slice(std::hint::black_box(from));
    }
}
