//! Guarded memory that the system shows to a driver: argument structures, private data, buffers.
//!
//! Whether it is guarded is a property of the process: the one that flies a driver from a file
//! flies no other driver at the same time. Where memory is not guarded, the caller shows memory of
//! its own.

use crate::guard::{BlockKind, Guard, GuardedBlock, Origin, Placement};
use crate::memory::{Memory, OutsideByte};
use flight::CallGuard;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest block that is guarded.
const MAX_GUARDED: usize = 64 << 20;
/// The bytes with a pattern on each side of a block.
const MARGIN: usize = 64;

/// The setting: 0 is off.
static GUARD: AtomicU64 = AtomicU64::new(OFF);
const OFF: u64 = 0;
const FULL: u64 = 1;
const SAMPLED: u64 = 2;
const EXACT: u64 = 3;

/// The seed of the flight.
static SEED: AtomicU64 = AtomicU64::new(0);
/// Number of the next block.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Number of blocks that were to be guarded, but there was no room.
static UNGUARDED: AtomicU64 = AtomicU64::new(0);

/// Guards what is shown from now on, and the blocks of pools that are created from now on.
pub fn guard_memory(guard: Guard, seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    NEXT.store(seed % 1024, Ordering::Relaxed);
    let guard = match guard {
        Guard::Full => FULL,
        Guard::Exact => EXACT,
        Guard::Sampled => SAMPLED,
        Guard::Off => OFF,
    };
    GUARD.store(guard, Ordering::Relaxed);
}

/// The seed of what a driver finds in memory that the system shows; zero if memory was never
/// guarded in this process.
pub fn memory_seed() -> u64 {
    SEED.load(Ordering::Relaxed)
}

/// The setting of a new pool: its guard, and whether its first block is at the end of a page.
pub(crate) fn setting() -> (Guard, u64) {
    (guard(), NEXT.load(Ordering::Relaxed) % 2)
}

fn guard() -> Guard {
    match GUARD.load(Ordering::Relaxed) {
        FULL => Guard::Full,
        EXACT => Guard::Exact,
        SAMPLED => Guard::Sampled,
        _ => Guard::Off,
    }
}

/// The number of blocks since the last call that were to be guarded, but there was no room.
pub(crate) fn take_unguarded() -> u64 {
    UNGUARDED.swap(0, Ordering::Relaxed)
}

/// The number of the next block, if it is to be guarded.
pub(crate) fn next_guarded() -> Option<u64> {
    let guard = guard();
    if guard == Guard::Off {
        return None;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    guard.covers(number).then_some(number)
}

/// A block of a kind that is passed to the current driver call.
pub(crate) fn origin(kind: BlockKind) -> Origin {
    Origin { kind, call: current_call(), ..Origin::default() }
}

/// The number of the driver call that this thread is in; zero outside one.
pub(crate) fn current_call() -> u32 {
    CallGuard::current().map_or(0, |call| call.number)
}

/// Counts a block that was to be guarded, but there was no room.
pub(crate) fn count_unguarded() {
    UNGUARDED.fetch_add(1, Ordering::Relaxed);
}

/// Guarded memory that a driver sees. It becomes inaccessible when it drops.
#[derive(Debug)]
pub struct ShownMemory(Memory);

impl ShownMemory {
    /// A block of zero bytes whose end or start touches an inaccessible page, by turns; of an entry
    /// to repeat it is the end. Its start is aligned to 8 bytes, that of a structure of streaming
    /// to 16. `None` if it is not to be guarded, or has no bytes.
    pub fn zeroed(bytes: usize, kind: BlockKind) -> Option<Self> {
        let alignment = if kind == BlockKind::StreamObject { 16 } else { 8 };
        // A sequence without a period: calls that pass the same blocks each time take turns, too.
        let place = |number: u64| {
            let at_end = number.count_ones().is_multiple_of(2) || kind == BlockKind::RepeatedEntry;
            if at_end { Placement::End(alignment) } else { Placement::Start }
        };
        Self::placed(bytes, kind, place)
    }

    /// As [`ShownMemory::zeroed`], at the start of a page.
    pub fn page_aligned(bytes: usize, kind: BlockKind) -> Option<Self> {
        Self::placed(bytes, kind, |_| Placement::Start)
    }

    /// As [`ShownMemory::zeroed`], with these bytes.
    pub fn copy(bytes: &[u8], kind: BlockKind) -> Option<Self> {
        let memory = Self::zeroed(bytes.len(), kind)?;
        memory.write(0, bytes);
        Some(memory)
    }

    fn placed(bytes: usize, kind: BlockKind, place: impl Fn(u64) -> Placement) -> Option<Self> {
        if !(1..=MAX_GUARDED).contains(&bytes) {
            return None;
        }
        let number = next_guarded()?;
        let Some(block) = GuardedBlock::new(bytes, place(number), origin(kind)) else {
            count_unguarded();
            return None;
        };
        Some(Self(Memory::with_margin(block, bytes, MARGIN)))
    }

    /// Its first address.
    pub fn address(&self) -> usize {
        self.0.address()
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// Reads from an offset. Returns false, without an effect, if the block ends before.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        self.0.read(offset, into)
    }

    /// Writes from an offset. Returns false, without an effect, if the block ends before.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.0.write(offset, bytes)
    }

    /// The memory is passed to the current driver call.
    pub fn pass(&self) {
        let call = current_call();
        self.0.block().into_iter().for_each(|block| block.set_call(call));
    }

    /// The nearest byte next to the block that was written to: its offset from the start.
    pub fn overrun(&self) -> Option<isize> {
        let OutsideByte { distance, before } = self.0.damaged_slack()?;
        let distance = isize::try_from(distance).ok()?;
        let end = self.size().cast_signed();
        Some(if before { -distance } else { end + distance - 1 })
    }
}
