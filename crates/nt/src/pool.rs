//! Pool: the memory a driver takes and gives back.
//!
//! A freed block is filled with a pattern and rests in a quarantine, so that a second free and
//! a write after the free are seen for what they are.
//!
//! # Invariants
//!
//! 1. `by_address` has every live block and every resting one, by its address, and nothing else.
//! 2. A known block's address is held in the log as a word; it is released when the block's
//!    memory is really given back.
//! 3. What happens to several blocks happens in the order in which they were taken or freed:
//!    addresses do not repeat, events do.
//! 4. Events are emitted while the lock of the change is held.

use crate::memory::{InitialContents, Memory};
use flight::{Attachment, EventKind, ExecutionContext, Log, Subject, Text};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What freed memory is filled with.
const FREED_BYTE: u8 = 0xDD;
/// What memory that was asked for uninitialised is filled with.
const UNINITIALIZED_BYTE: u8 = 0xCD;

const MAX_QUARANTINE_BLOCKS: usize = 4096;
const MAX_QUARANTINE_BYTES: usize = 8 << 20;
/// How many of the blocks freed last an inspection looks at.
const INSPECTED_BLOCKS: usize = 32;

/// A driver's pool.
pub struct Pool {
    log: Arc<Log>,
    blocks: Mutex<Blocks>,
    observer: Mutex<Option<Arc<dyn PoolObserver>>>,
}

/// Somebody who keeps books of what a driver takes and frees, beside the pool.
pub trait PoolObserver: Send + Sync {
    /// The driver has taken a block.
    fn allocated(&self, block: usize);

    /// The driver is about to free a block. Answers whether it may: else the block stays.
    fn freeing(&self, block: usize) -> bool;
}

#[derive(Default)]
struct Blocks {
    by_address: BTreeMap<usize, BlockState>,
    /// The freed blocks, oldest first.
    quarantine: VecDeque<FreedBlock>,
    quarantine_bytes: usize,
    /// How many blocks were ever taken.
    allocated_count: u64,
    /// How many of them before the adapter started, while it is.
    allocated_before_start: Option<u64>,
    /// How many more may be taken.
    remaining: Option<usize>,
}

/// A block of which we know the address.
enum BlockState {
    Live(LiveBlock),
    Freed,
}

struct LiveBlock {
    memory: Memory,
    tag: u32,
    number: u64,
    paged: bool,
}

struct FreedBlock {
    memory: Memory,
    damaged: bool,
}

impl Blocks {
    /// The live block that an address is in, and how far.
    fn block_containing(&self, address: usize) -> Option<(&LiveBlock, usize)> {
        let (start, by_address) = self.by_address.range(..=address).next_back()?;
        let BlockState::Live(it) = by_address else { return None };
        let offset = address - start;
        (offset < it.memory.size()).then_some((it, offset))
    }
}

impl Attachment for Pool {
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        Some(self)
    }
}

impl Pool {
    /// An empty pool that says to `log` what happens.
    pub fn new(log: Arc<Log>) -> Arc<Self> {
        Arc::new(Self { log, blocks: Mutex::default(), observer: Mutex::default() })
    }

    /// From now on it is told what the driver takes and frees.
    pub fn set_observer(&self, watch: Option<Arc<dyn PoolObserver>>) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// Who is told. No lock is held while it is.
    pub(crate) fn observer(&self) -> Option<Arc<dyn PoolObserver>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many bytes there are from an address on, if it is in a live block, and whether they
    /// are paged.
    pub fn extent(&self, address: usize) -> Option<(usize, bool)> {
        let blocks = self.blocks();
        let (it, offset) = blocks.block_containing(address)?;
        Some((it.memory.size() - offset, it.paged))
    }

    /// Reads from a live block. Answers whether all of it was there.
    pub fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let blocks = self.blocks();
        blocks.block_containing(address).is_some_and(|(it, offset)| it.memory.read(offset, into))
    }

    /// Writes to a live block. Answers whether all of it was there.
    pub fn write(&self, address: usize, bytes: &[u8]) -> bool {
        let blocks = self.blocks();
        blocks.block_containing(address).is_some_and(|(it, offset)| it.memory.write(offset, bytes))
    }

    /// How many blocks are out.
    pub fn live_blocks(&self) -> usize {
        self.blocks()
            .by_address
            .values()
            .filter(|state| matches!(state, BlockState::Live(_)))
            .count()
    }

    /// Lets so many more blocks be taken, and then none; or, as at first, as many as are asked for.
    pub fn limit_allocations(&self, blocks: Option<usize>) {
        self.blocks().remaining = blocks;
    }

    /// Runs code of the driver whose pool this is: what it imports acts on this pool.
    pub fn run_driver<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let _attached = ExecutionContext::attach(self.clone());
        body()
    }

    /// The pool of the driver that is running on this thread. Where none is running, the call of
    /// `import` is reported.
    pub(crate) fn current(import: &'static str) -> Option<Arc<Self>> {
        let pool = ExecutionContext::attached();
        if pool.is_none() {
            ExecutionContext::report_missing(import);
        }
        pool
    }

    /// Takes a block, zeroed or not. A tag of zero takes nothing.
    pub(crate) fn allocate_tagged(
        &self,
        bytes: usize,
        tag: u32,
        zeroed: bool,
        paged: bool,
    ) -> Option<usize> {
        if tag == 0 {
            return None;
        }
        let fresh = if zeroed {
            InitialContents::Zeroed
        } else {
            InitialContents::Filled(UNINITIALIZED_BYTE)
        };
        let memory = Memory::new(bytes, fresh)?;
        let address = memory.address();
        let mut blocks = self.blocks();
        if let Some(left) = &mut blocks.remaining {
            *left = left.checked_sub(1)?;
        }
        let number = blocks.allocated_count;
        blocks.allocated_count += 1;
        blocks
            .by_address
            .insert(address, BlockState::Live(LiveBlock { memory, tag, number, paged }));
        let word = self.log.acquire_pointer(address);
        self.log.emit(word, EventKind::PoolAllocated { bytes: bytes as u64, tag: tag_text(tag) });
        Some(address)
    }

    /// Gives a block back. A tag of zero is not compared (`ExFreePool`).
    pub(crate) fn free_tagged(&self, address: usize, tag: u32) {
        let mut blocks = self.blocks();
        let word = self.log.pointer_subject(address);
        let live = match blocks.by_address.get_mut(&address) {
            None => return self.judge_bad_free(word, "no block starts there"),
            Some(BlockState::Freed) => return self.judge_bad_free(word, "it was freed before"),
            Some(by_address) => std::mem::replace(by_address, BlockState::Freed),
        };
        let BlockState::Live(LiveBlock { mut memory, tag: own, .. }) = live else { return };
        if tag != 0 && tag != own {
            self.judge_bad_free(word, "it has another tag");
        }
        self.log.emit(word, EventKind::PoolFreed {});
        memory.fill(FREED_BYTE);
        blocks.quarantine_bytes += memory.size();
        blocks.quarantine.push_back(FreedBlock { memory, damaged: false });
        while blocks.quarantine.len() > MAX_QUARANTINE_BLOCKS
            || blocks.quarantine_bytes > MAX_QUARANTINE_BYTES
        {
            self.release_oldest(&mut blocks);
        }
    }

    fn judge_bad_free(&self, word: Subject, why: &'static str) {
        self.log.emit(word, EventKind::PoolBadFree { why: why.into() });
    }

    /// Ends the rest of the oldest freed block.
    fn release_oldest(&self, blocks: &mut Blocks) {
        let Some(mut oldest) = blocks.quarantine.pop_front() else { return };
        self.judge_freed_block(&mut oldest);
        blocks.quarantine_bytes -= oldest.memory.size();
        blocks.by_address.remove(&oldest.memory.address());
        self.log.release_pointer(oldest.memory.address());
    }

    /// Says, once, that a freed block was written to.
    fn judge_freed_block(&self, block: &mut FreedBlock) {
        if block.damaged {
            return;
        }
        if let Some(offset) = block.memory.first_byte_not(FREED_BYTE) {
            block.damaged = true;
            let word = self.log.pointer_subject(block.memory.address());
            self.log.emit(word, EventKind::PoolCorrupted { offset: offset as u64 });
        }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // No code of a driver runs under the lock, so a panic would be ours, between whole steps.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl flight::Pool for Pool {
    fn allocate_pool(&self, bytes: usize, tag: u32) -> Option<usize> {
        self.allocate_tagged(bytes, tag, true, false)
    }

    fn free(&self, block: usize, tag: u32) {
        self.free_tagged(block, tag);
    }

    fn refers_to(&self, block: usize, word: usize) -> bool {
        let blocks = self.blocks();
        match (blocks.by_address.get(&block), blocks.by_address.get(&word)) {
            (Some(BlockState::Live(from)), Some(BlockState::Live(_))) => {
                from.memory.contains_word(word)
            }
            _ => false,
        }
    }

    fn is_paged(&self, address: usize) -> bool {
        let blocks = self.blocks();
        match blocks.by_address.range(..=address).next_back() {
            Some((start, BlockState::Live(it))) => it.paged && address - start < it.memory.size(),
            _ => false,
        }
    }

    fn inspect(&self) {
        let mut blocks = self.blocks();
        let old = blocks.quarantine.len().saturating_sub(INSPECTED_BLOCKS);
        for block in blocks.quarantine.iter_mut().skip(old) {
            self.judge_freed_block(block);
        }
    }

    fn adapter_started(&self) {
        let mut blocks = self.blocks();
        blocks.allocated_before_start = Some(blocks.allocated_count);
    }

    fn adapter_stopped(&self) {
        let mut blocks = self.blocks();
        let Some(before) = blocks.allocated_before_start.take() else { return };
        let kept = |state: &BlockState| match state {
            BlockState::Live(state) if state.number >= before => {
                Some((state.number, state.memory.address()))
            }
            BlockState::Live(_) | BlockState::Freed => None,
        };
        let mut kept: Vec<(u64, usize)> = blocks.by_address.values().filter_map(kept).collect();
        kept.sort_unstable();
        for (_, address) in kept {
            self.log.emit(self.log.pointer_subject(address), EventKind::PoolHeldAfterStop {});
        }
    }

    fn close(&self) {
        let mut blocks = self.blocks();
        while !blocks.quarantine.is_empty() {
            self.release_oldest(&mut blocks);
        }
        let by_address = std::mem::take(&mut blocks.by_address).into_values();
        let live = |state| if let BlockState::Live(live) = state { Some(live) } else { None };
        let mut left: Vec<LiveBlock> = by_address.filter_map(live).collect();
        left.sort_by_key(|live_block| live_block.number);
        for LiveBlock { memory, .. } in left {
            self.log.emit(self.log.pointer_subject(memory.address()), EventKind::PoolLeaked {});
            self.log.release_pointer(memory.address());
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.blocks();
        let (by_address, quarantine) = (blocks.by_address.len(), blocks.quarantine.len());
        f.debug_struct("Pool").field("known", &by_address).field("resting", &quarantine).finish()
    }
}

/// A tag as people write it: its first letter is its lowest byte.
fn tag_text(tag: u32) -> Text {
    let letter = |byte: u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' };
    tag.to_le_bytes().into_iter().map(letter).collect::<String>().into()
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
