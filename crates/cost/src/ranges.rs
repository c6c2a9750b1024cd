//! The cost of placing a range in a memory and freeing another, with others placed.
//!
//! Three allocators with external metadata do the same in turns: the
//! kernel's, `offset-allocator`, and the frames of `buddy_system_allocator`. Half of the memory
//! is placed, in ranges of 4 KiB to 1 MiB; each size is as likely as its double. (The
//! buddies round a size up to a power of two, so of their memory two thirds are placed.)

use crate::memory::{MemoryRow, TIME, nanoseconds_each};
use crate::ring::splitmix64;
use crate::{BenchSize, MeasureError};
use buddy_system_allocator::FrameAllocator;
use kernel::{PlacedRange, Ranges};
use offset_allocator::{Allocation, Allocator};
use std::time::{Duration, Instant};

const ROW_NAME: &str = "a range placed, another freed";
const GRANULE: u64 = 4096;
/// Maximum and mean length of a range in granules, rounded up.
const LONGEST: f64 = 256.0;
const MEAN: usize = 47;
/// Turns are longer by this factor, because each begins with caches that the others filled.
const LONGER: usize = 10;
/// The goal: nearly as fast as the fastest alternative.
const GOAL: f64 = 1.2;

/// Measures the rows.
pub(crate) fn measure(
    extent: &BenchSize,
    said: &mut dyn FnMut(MemoryRow),
) -> Result<(), MeasureError> {
    if !extent.asks(ROW_NAME) {
        return Ok(());
    }
    for live in &extent.ranges {
        for random in [false, true] {
            said(row(*live, random, extent).ok_or(MeasureError("room for all ranges".to_owned()))?);
        }
    }
    Ok(())
}

/// Returns `None` if one allocator runs out of memory: then there is no comparison.
fn row(live: usize, random: bool, extent: &BenchSize) -> Option<MemoryRow> {
    let mut ours = Site::<Ranges>::fill(live, random)?;
    let mut offsets = Site::<Allocator>::fill(live, random)?;
    let mut buddies = Site::<Buddies>::fill(live, random)?;
    let mut times: [Vec<Duration>; 3] = Default::default();
    let pairs = extent.pairs * LONGER;
    for _ in 0..extent.turns.div_ceil(2) {
        times[0].push(ours.turn(pairs)?);
        times[1].push(offsets.turn(pairs)?);
        times[2].push(buddies.turn(pairs)?);
    }
    let [number, offset, buddy] = times.map(|durations| nanoseconds_each(durations, pairs));
    Some(MemoryRow {
        what: ROW_NAME,
        live,
        which: if random { "random" } else { "oldest" },
        number,
        unit: TIME,
        beside: vec![("offset-allocator", offset), ("buddies", buddy)],
        wanted: Some(GOAL),
        bytes: None,
    })
}

/// An allocator under test. Lengths are in granules.
trait RangeAllocator: Sized {
    type Spot;
    /// A memory of this length, for at most this many ranges.
    fn memory(length: usize, ranges: usize) -> Option<Self>;
    fn put(&mut self, length: u32) -> Option<Self::Spot>;
    fn take(&mut self, spot: Self::Spot);
}

impl RangeAllocator for Ranges {
    type Spot = PlacedRange;

    fn memory(length: usize, _: usize) -> Option<Self> {
        Some(Self::new(length as u64 * GRANULE, GRANULE))
    }

    fn put(&mut self, length: u32) -> Option<PlacedRange> {
        self.allocate(u64::from(length) * GRANULE, GRANULE)
    }

    fn take(&mut self, spot: PlacedRange) {
        self.free(spot);
    }
}

impl RangeAllocator for Allocator {
    type Spot = Allocation;

    fn memory(length: usize, ranges: usize) -> Option<Self> {
        // A free range between any two placed ones.
        let nodes = u32::try_from(2 * ranges + 8).ok()?;
        Some(Self::with_max_allocs(u32::try_from(length).ok()?, nodes))
    }

    fn put(&mut self, length: u32) -> Option<Allocation> {
        self.allocate(length)
    }

    fn take(&mut self, spot: Allocation) {
        self.free(spot);
    }
}

type Buddies = FrameAllocator<33>;

impl RangeAllocator for Buddies {
    type Spot = (usize, usize);

    fn memory(length: usize, _: usize) -> Option<Self> {
        let mut it = Self::new();
        it.insert(0..length);
        Some(it)
    }

    fn put(&mut self, length: u32) -> Option<(usize, usize)> {
        let length = length as usize;
        Some((self.alloc(length)?, length))
    }

    fn take(&mut self, (start, length): (usize, usize)) {
        self.dealloc(start, length);
    }
}

/// A half-placed memory. All allocators get the same random sequence.
struct Site<T: RangeAllocator> {
    memory: T,
    placed: Vec<T::Spot>,
    lengths: Vec<u32>,
    random: bool,
    drawn: u64,
    next: usize,
}

impl<T: RangeAllocator> Site<T> {
    fn fill(live: usize, random: bool) -> Option<Self> {
        let live = live.max(1);
        // The mean says little about few ranges.
        let memory = T::memory((live * MEAN * 2).max(1 << 14), live + 1)?;
        let placed = Vec::with_capacity(live);
        let mut it = Self { memory, placed, lengths: lengths(), random, drawn: 1, next: 0 };
        for _ in 0..live {
            let spot = it.put()?;
            it.placed.push(spot);
        }
        // Reach the steady state of fragmentation.
        it.pairs(live * 2)?;
        Some(it)
    }

    fn turn(&mut self, pairs: usize) -> Option<Duration> {
        let start = Instant::now();
        self.pairs(pairs)?;
        Some(start.elapsed())
    }

    fn pairs(&mut self, pairs: usize) -> Option<()> {
        for _ in 0..pairs {
            let spot = self.put()?;
            let at = self.victim();
            let old = std::mem::replace(&mut self.placed[at], spot);
            self.memory.take(old);
        }
        Some(())
    }

    fn put(&mut self) -> Option<T::Spot> {
        self.drawn += 1;
        let length = self.lengths[below(splitmix64(self.drawn), self.lengths.len())];
        self.memory.put(length)
    }

    fn victim(&mut self) -> usize {
        if self.random {
            return below(splitmix64(self.drawn) >> 16, self.placed.len());
        }
        self.next += 1;
        self.next % self.placed.len()
    }
}

/// Maps a random number to one below `end`.
fn below(drawn: u64, end: usize) -> usize {
    usize::try_from(drawn % end as u64).unwrap_or(0)
}

/// A random length.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 256")]
fn lengths() -> Vec<u32> {
    (0..4096).map(|value| LONGEST.powf(f64::from(value) / 4096.0) as u32).collect()
}
