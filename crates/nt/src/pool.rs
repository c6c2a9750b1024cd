//! Pool: the memory that a driver allocates and frees.
//!
//! A freed block is filled with a pattern and put into a quarantine, so that a second free and a
//! write after the free are detected.
//!
//! # Invariants
//!
//! 1. `by_address` contains exactly the live blocks and the blocks in the quarantine.
//! 2. The log holds the address of each of these blocks as a driver pointer. It is released when
//!    the block's memory is returned to the system.
//! 3. Several blocks are reported in the order in which they were allocated or freed, because
//!    addresses differ from run to run and events must not.
//! 4. Events are emitted while the lock of the change is held.

use crate::Executive;
use crate::guard::{Guard, GuardedBlock, Origin, Placement};
use crate::image::CallStack;
use crate::lock_order::LockOrder;
use crate::memory::{InitialContents, Memory, OutsideByte};
use crate::paged::{self, PagedKind};
use crate::waits::call_of;
use flight::{Attachment, Component, EventKind, ExecutionContext, Log, Subject, Text};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The fill byte of freed memory.
const FREED_BYTE: u8 = 0xDD;
/// The fill byte of memory that was requested uninitialised.
const UNINITIALIZED_BYTE: u8 = 0xCD;

const PAGE: usize = 4096;
/// The alignment of a block below the size of a page.
///
/// WINDOWS: a block of a page or more is aligned to a page, a smaller one to 16 bytes on 64-bit
/// systems, whatever its size is (documented: `ExAllocatePool2`). A correct driver may rely on it, as
/// for an `SLIST_ENTRY`.
const ALIGNMENT: usize = 16;
/// The alignment of a block with `Guard::Exact`, if its size is not a multiple of 16.
///
/// WINDOWS: less than documented (our decision, for those who ask for it): a type that the compiler
/// aligns to 16 bytes has a size that is a multiple of 16, and so has that alignment here, too.
const EXACT_ALIGNMENT: usize = 8;
const MAX_QUARANTINE_BLOCKS: usize = 4096;
const MAX_QUARANTINE_BYTES: usize = 8 << 20;
/// The largest block that is guarded.
const MAX_GUARDED: usize = 64 << 20;
/// Number of the most recently freed blocks that an inspection checks.
const INSPECTED_BLOCKS: usize = 32;
/// Number of the most recently allocated live blocks that an inspection checks.
const WATCHED_BLOCKS: usize = 256;

/// A driver's pool.
pub struct Pool {
    log: Arc<Log>,
    blocks: Mutex<Blocks>,
    observer: Mutex<Option<Arc<dyn PoolObserver>>>,
    /// What else the driver's imports act on, for a driver from a file.
    executive: OnceLock<Arc<Executive>>,
    lock_order: LockOrder,
    /// Whether Windows would have stopped because of this driver.
    stopped: AtomicBool,
}

/// Observes the blocks that a driver allocates and frees.
pub trait PoolObserver: Send + Sync {
    /// The driver has allocated a block.
    fn allocated(&self, block: usize);

    /// The driver is about to free a block. If this returns false, the block is not freed.
    fn freeing(&self, block: usize) -> bool;
}

#[derive(Default)]
struct Blocks {
    by_address: BTreeMap<usize, BlockState>,
    /// The freed blocks, oldest first.
    quarantine: VecDeque<FreedBlock>,
    quarantine_bytes: usize,
    /// The bytes of all live blocks.
    live_bytes: u64,
    /// Number of blocks allocated so far.
    allocated_count: u64,
    /// Number of blocks allocated before the adapter started. `None` while it is stopped.
    allocated_before_start: Option<u64>,
    /// Number of further allocations that succeed. `None` is unlimited.
    remaining: Option<usize>,
    guard: Guard,
    /// Zero or one: whether the first block touches an inaccessible page with its end.
    guard_turn: u64,
    /// Number of blocks that were to be guarded, but there was no room.
    unguarded: u64,
    /// The blocks that are inspected while they are live: their addresses, by their numbers.
    watched: BTreeMap<u64, usize>,
}

/// The state of a known block.
enum BlockState {
    Live(LiveBlock),
    Freed,
}

struct LiveBlock {
    memory: Memory,
    tag: u32,
    number: u64,
    paged: bool,
    /// Whether it is reported that bytes next to it were written to.
    overrun: bool,
}

struct FreedBlock {
    memory: Memory,
    damaged: bool,
}

impl Blocks {
    /// The memory of a new block.
    fn memory(
        &mut self,
        bytes: usize,
        (tag, allocated_by): (u32, CallStack),
        fresh: InitialContents,
    ) -> Option<Memory> {
        let number = self.allocated_count;
        if self.guard.covers(number) && (1..=MAX_GUARDED).contains(&bytes) {
            let turn = (number + self.guard_turn).is_multiple_of(2);
            let placement = match self.guard {
                _ if bytes >= PAGE => Placement::Start,
                Guard::Exact => Placement::End(EXACT_ALIGNMENT),
                _ if turn => Placement::End(ALIGNMENT),
                _ => Placement::Start,
            };
            let origin = Origin { tag, allocated_by, ..Origin::default() };
            if let Some(block) = GuardedBlock::new(bytes, placement, origin) {
                return Some(Memory::guarded(block, bytes, fresh));
            }
            self.unguarded += 1;
        }
        Memory::new(bytes, fresh)
    }

    /// Inspects a new block from now on, and not the oldest one of too many.
    fn watch(&mut self, number: u64, address: usize) {
        self.watched.insert(number, address);
        if self.watched.len() > WATCHED_BLOCKS {
            self.watched.pop_first();
        }
    }

    /// The live block that contains the address, and the offset in it.
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
    /// Creates an empty pool that emits its events to `log`.
    pub fn new(log: Arc<Log>) -> Arc<Self> {
        let (observer, executive, lock_order) = Default::default();
        let (guard, guard_turn) = crate::shown_memory::setting();
        let blocks = Mutex::new(Blocks { guard, guard_turn, ..Blocks::default() });
        let stopped = AtomicBool::new(false);
        Arc::new(Self { log, blocks, observer, executive, lock_order, stopped })
    }

    /// The order in which the driver acquires its spin locks.
    pub(crate) fn lock_order(&self) -> &LockOrder {
        &self.lock_order
    }

    /// Records that Windows would have stopped.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether Windows would have stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Sets the observer of allocations and frees.
    pub fn set_observer(&self, watch: Option<Arc<dyn PoolObserver>>) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// The observer. It is called without a lock held.
    pub(crate) fn observer(&self) -> Option<Arc<dyn PoolObserver>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of bytes from an address to the end of its live block, and whether the block is
    /// paged. `None` if the address is in no live block.
    pub fn extent(&self, address: usize) -> Option<(usize, bool)> {
        let blocks = self.blocks();
        let (it, offset) = blocks.block_containing(address)?;
        Some((it.memory.size() - offset, it.paged))
    }

    /// Reads from a live block. Returns false, without an effect, if not all bytes are in one.
    pub fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let blocks = self.blocks();
        blocks.block_containing(address).is_some_and(|(it, offset)| it.memory.read(offset, into))
    }

    /// Writes to a live block. Returns false, without an effect, if not all bytes are in one.
    pub fn write(&self, address: usize, bytes: &[u8]) -> bool {
        let blocks = self.blocks();
        blocks.block_containing(address).is_some_and(|(it, offset)| it.memory.write(offset, bytes))
    }

    /// Number of live blocks.
    pub fn live_blocks(&self) -> usize {
        self.blocks()
            .by_address
            .values()
            .filter(|state| matches!(state, BlockState::Live(_)))
            .count()
    }

    /// Limits the number of further allocations that succeed. `None`, the default, is unlimited.
    pub fn limit_allocations(&self, blocks: Option<usize>) {
        self.blocks().remaining = blocks;
    }

    /// Guards the blocks that are allocated from now on. The seed determines which of them touch
    /// an inaccessible page with their end, and which with their start. The same holds for the
    /// memory that the system shows to the driver, in this process.
    pub fn set_guard(&self, guard: Guard, seed: u64) {
        let mut blocks = self.blocks();
        (blocks.guard, blocks.guard_turn) = (guard, seed % 2);
        crate::shown_memory::guard_memory(guard, seed);
    }

    /// Sets the executive of the driver that owns this pool. The first one stays.
    pub fn set_executive(&self, executive: Arc<Executive>) {
        let _ = self.executive.set(executive);
    }

    /// The executive that was set.
    pub fn executive(&self) -> Option<&Arc<Executive>> {
        self.executive.get()
    }

    /// Runs code of the driver that owns this pool: its imports act on this pool, and on the
    /// executive that was set.
    pub fn run_driver<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let _attached = ExecutionContext::attach(self.clone());
        match self.executive.get() {
            Some(executive) => executive.run_driver(body),
            None => body(),
        }
    }

    /// The pool of the driver that is running on this thread. If none is running, the call of
    /// `import` is reported.
    pub(crate) fn current(import: &'static str) -> Option<Arc<Self>> {
        let pool = ExecutionContext::attached();
        if pool.is_none() {
            ExecutionContext::report_missing(import);
        }
        pool
    }

    /// Allocates a block. `None` if the tag is zero, the limit is reached or there is no memory.
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
        self.note_memory(bytes);
        let fresh = if zeroed {
            InitialContents::Zeroed
        } else {
            InitialContents::Filled(UNINITIALIZED_BYTE)
        };
        let allocated_by = CallStack::of_import();
        let mut blocks = self.blocks();
        if let Some(left) = &mut blocks.remaining {
            *left = left.checked_sub(1)?;
        }
        let memory = blocks.memory(bytes, (tag, allocated_by), fresh)?;
        let address = memory.address();
        if let (true, Some(pages)) = (paged && paged::is_enabled(), memory.guarded_pages()) {
            paged::add(PagedKind::Pool, &pages, libc::PROT_READ | libc::PROT_WRITE);
        }
        blocks.live_bytes += bytes as u64;
        let number = blocks.allocated_count;
        blocks.allocated_count += 1;
        blocks.by_address.insert(
            address,
            BlockState::Live(LiveBlock { memory, tag, number, paged, overrun: false }),
        );
        if blocks.guard != Guard::Off {
            blocks.watch(number, address);
        }
        let word = self.log.acquire_pointer(address);
        self.log.emit(word, || EventKind::PoolAllocated {
            bytes: bytes as u64,
            tag: tag_text(tag),
            caller: allocated_by.callers(),
        });
        Some(address)
    }

    /// Ends a flight whose driver requests more memory than a flight may take.
    fn note_memory(&self, bytes: usize) {
        let live = self.blocks().live_bytes;
        let call = || call_of("an allocation from pool");
        self.log.note_call(Component::Driver, call);
        self.log.note_memory_of_driver(live.saturating_add(bytes as u64), call);
    }

    /// Frees a block. A tag of zero matches any tag (`ExFreePool`).
    pub(crate) fn free_tagged(&self, address: usize, tag: u32) {
        let freed_by = CallStack::of_import();
        let mut blocks = self.blocks();
        let word = self.log.pointer_subject(address);
        let judge_bad_free = |why: &'static str| {
            let caller = freed_by.callers();
            self.log.emit(word, || EventKind::PoolBadFree { why: why.into(), caller });
        };
        let live = match blocks.by_address.get_mut(&address) {
            None => return judge_bad_free("no block starts there"),
            Some(BlockState::Freed) => return judge_bad_free("it was freed before"),
            Some(by_address) => std::mem::replace(by_address, BlockState::Freed),
        };
        let BlockState::Live(live) = live else { return };
        let LiveBlock { mut memory, tag: own, paged, number, overrun } = live;
        blocks.watched.remove(&number);
        if paged && paged::is_enabled() {
            paged::remove(&(address..address + 1));
        }
        if tag != 0 && tag != own {
            judge_bad_free("it has another tag");
        }
        if !overrun {
            self.judge_overrun(&memory, memory.damaged_slack(), "free");
        }
        self.log.emit(word, || EventKind::PoolFreed { caller: freed_by.callers() });
        self.lock_order.forget(&(address..address.saturating_add(memory.size())));
        blocks.live_bytes -= memory.size() as u64;
        memory.retire(FREED_BYTE, freed_by);
        blocks.quarantine_bytes += memory.size();
        blocks.quarantine.push_back(FreedBlock { memory, damaged: false });
        while blocks.quarantine.len() > MAX_QUARANTINE_BLOCKS
            || blocks.quarantine_bytes > MAX_QUARANTINE_BYTES
        {
            self.release_oldest(&mut blocks);
        }
    }

    /// Reports that bytes next to a block were written to.
    /// Returns whether they were.
    fn judge_overrun(
        &self,
        memory: &Memory,
        written: Option<OutsideByte>,
        found: &'static str,
    ) -> bool {
        let Some(OutsideByte { distance, before }) = written else { return false };
        let word = self.log.pointer_subject(memory.address());
        self.log.emit(word, || EventKind::PoolOverrun { distance, before, found: found.into() });
        true
    }

    /// Reports that bytes nearest to live blocks were written to. `call` has returned.
    fn inspect_live_blocks(&self, blocks: &mut Blocks, call: &'static str) {
        let Blocks { watched, by_address, .. } = blocks;
        watched.retain(|_, address| {
            let Some(BlockState::Live(it)) = by_address.get_mut(address) else { return false };
            // Paged memory may be inaccessible now.
            if !it.paged || !paged::is_enabled() {
                let written = it.memory.damaged_slack_within(ALIGNMENT);
                it.overrun = self.judge_overrun(&it.memory, written, call);
            }
            !it.overrun
        });
    }

    /// Returns the oldest block in the quarantine to the system.
    fn release_oldest(&self, blocks: &mut Blocks) {
        let Some(mut oldest) = blocks.quarantine.pop_front() else { return };
        self.judge_freed_block(&mut oldest);
        blocks.quarantine_bytes -= oldest.memory.size();
        blocks.by_address.remove(&oldest.memory.address());
        self.log.release_pointer(oldest.memory.address());
    }

    /// Reports, once per block, that a freed block was written to.
    fn judge_freed_block(&self, block: &mut FreedBlock) {
        if block.damaged {
            return;
        }
        if let Some(offset) = block.memory.first_byte_not(FREED_BYTE) {
            block.damaged = true;
            let word = self.log.pointer_subject(block.memory.address());
            self.log.emit(word, || EventKind::PoolCorrupted { offset: offset as u64 });
        }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // No driver code runs under the lock, and no step under it leaves an inconsistent state.
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

    fn inspect(&self, call: &'static str) {
        let mut blocks = self.blocks();
        self.inspect_live_blocks(&mut blocks, call);
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
            self.log.emit(self.log.pointer_subject(address), || EventKind::PoolHeldAfterStop {});
        }
    }

    fn close(&self) {
        let mut blocks = self.blocks();
        while !blocks.quarantine.is_empty() {
            self.release_oldest(&mut blocks);
        }
        let by_address = std::mem::take(&mut blocks.by_address).into_values();
        let live = |state| if let BlockState::Live(live) = state { Some(live) } else { None };
        let unguarded =
            std::mem::take(&mut blocks.unguarded) + crate::shown_memory::take_unguarded();
        if unguarded > 0 {
            self.log.emit(Subject::RUN, || EventKind::PoolUnguarded { blocks: unguarded });
        }
        let left_out = self.lock_order.take_left_out();
        if left_out > 0 {
            self.log.emit(Subject::RUN, || EventKind::LockOrderLeftOut { acquisitions: left_out });
        }
        let mut left: Vec<LiveBlock> = by_address.filter_map(live).collect();
        left.sort_by_key(|live_block| live_block.number);
        for LiveBlock { memory, overrun, .. } in left {
            if !overrun {
                self.judge_overrun(&memory, memory.damaged_slack(), "unload");
            }
            self.log.emit(self.log.pointer_subject(memory.address()), || EventKind::PoolLeaked {});
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

/// A tag as text: its first letter is its lowest byte.
fn tag_text(tag: u32) -> Text {
    let letter = |byte: u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' };
    tag.to_le_bytes().into_iter().map(letter).collect::<String>().into()
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
