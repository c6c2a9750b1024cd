//! How fast bytes come and go: through the whole path, beside a plain copy of as many.
//!
//! The built-in driver with memory, whose hardware copies: nobody looks at the bytes meanwhile.

use crate::clock::{Span, timed};
use crate::holder::Holder;
use crate::memory::{MemoryRow, SPEED, each};
use crate::{Extent, NotMeasured};
use flight::{Crew, Log, Passive, Stepped};
use kernel::Plugged;
use softgpu::{LOCAL, MemoryPlan, SoftGpu, format};
use std::sync::Arc;

/// So many bytes come and go in a turn.
const ALL: usize = 32 << 20;
/// A row for each: what it is called, how long an allocation is, and the goal.
const KINDS: [(&str, usize, Option<f64>); 3] = [
    ("paging bandwidth, 64 KiB each", 64 << 10, None),
    ("paging bandwidth, 1 MiB each", 1 << 20, None),
    ("paging bandwidth, 4 MiB each", 4 << 20, Some(0.8)),
];

/// Measures the rows.
pub(crate) fn measure(extent: &Extent, said: &mut dyn FnMut(MemoryRow)) -> Result<(), NotMeasured> {
    for (what, size, wanted) in KINDS.into_iter().filter(|it| extent.asks(it.0)) {
        let live = ALL / size;
        let (number, copied) = numbers(size, live, extent)?;
        let beside = vec![("memcpy", copied)];
        let (which, unit, bytes) = ("in turn", SPEED, None);
        said(MemoryRow { what, live, which, number, unit, beside, wanted, bytes });
    }
    Ok(())
}

/// How fast the path is, and how fast a plain copy.
fn numbers(size: usize, live: usize, extent: &Extent) -> Result<(f64, f64), NotMeasured> {
    let log = Arc::new(Log::silent());
    let flown = Stepped::fly(0, &log, |host, at| {
        let host: Arc<dyn Crew> = host.clone();
        let ram = nt::Ram::new(4 * ALL as u64);
        let ram = ram.map_err(|why| NotMeasured(format!("memory for the machine: {why}")))?;
        let plan = MemoryPlan { local: ALL as u64, visible: 1, ..MemoryPlan::default() };
        let (miniport, machine) = SoftGpu::with_memory(ram, plan);
        let plugged = Plugged { miniport, machine, pool: nt::Pool::new(log.clone()) };
        let holder = Holder::open(&host, at, &log, plugged)?;
        let mut wants = format::only_in(&[LOCAL]);
        wants.flags.cpu_visible = false;
        let mut list = Vec::with_capacity(live);
        holder.fill(at, &mut list, &format::describe_in(size as u64, 0, &wants))?;
        let turn = |at: &mut Passive| {
            timed(|| {
                for one in &list {
                    holder.come(at, &[*one])?;
                    holder.go(at, &[*one], false)?;
                }
                Ok(())
            })
        };
        let mut copies = Copies::new(size);
        turn(at)?;
        copies.turn();
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..extent.turns.div_ceil(4) {
            plain.push(timed(|| Ok(copies.turn())).map(Span::took)?);
            ours.push(turn(at).map(Span::took)?);
        }
        holder.close(at);
        // Bytes a nanosecond are billions a second; each goes out and comes in.
        let speed = |it| 1.0 / each(it, 2 * ALL);
        Ok((speed(ours), speed(plain)))
    });
    flown.map_err(|why| NotMeasured(format!("a flight to end: {why:?}")))?
}

/// As many bytes at two places, which are copied to and fro.
struct Copies {
    size: usize,
    one: Vec<u8>,
    other: Vec<u8>,
}

impl Copies {
    fn new(size: usize) -> Self {
        Self { size, one: vec![1; ALL], other: vec![2; ALL] }
    }

    fn turn(&mut self) {
        let pieces = self.one.chunks_exact_mut(self.size);
        for (one, other) in pieces.zip(self.other.chunks_exact_mut(self.size)) {
            one.copy_from_slice(std::hint::black_box(other));
            other.copy_from_slice(std::hint::black_box(one));
        }
    }
}
