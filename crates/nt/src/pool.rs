//! Pool: the memory a driver takes and gives back.
//!
//! A freed block is filled with a pattern and rests in a quarantine, so that a second free and
//! a write after the free are seen for what they are.
//!
//! # Invariants
//!
//! 1. `known` has every live block and every resting one, by its address, and nothing else.
//! 2. A known block's address is held in the log as a word; it is released when the block's
//!    memory is really given back.
//! 3. What happens to several blocks happens in the order in which they were taken or freed:
//!    addresses do not repeat, events do.
//! 4. Events are emitted while the lock of the change is held.

use crate::memory::{Fresh, Memory};
use flight::{Log, Subject, Text, What};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What freed memory is filled with.
const FREED: u8 = 0xDD;
/// What memory that was asked for uninitialised is filled with.
const UNWRITTEN: u8 = 0xCD;

const MOST_RESTING: usize = 4096;
const MOST_RESTING_BYTES: usize = 8 << 20;
/// How many of the blocks freed last an inspection looks at.
const INSPECTED: usize = 32;

/// A driver's pool.
pub struct Pool {
    log: Arc<Log>,
    blocks: Mutex<Blocks>,
    watch: Mutex<Option<Arc<dyn Watch>>>,
}

/// Somebody who keeps books of what a driver takes and frees, beside the pool.
pub trait Watch: Send + Sync {
    /// The driver has taken a block.
    fn taken(&self, block: usize);

    /// The driver is about to free a block. Answers whether it may: else the block stays.
    fn frees(&self, block: usize) -> bool;
}

#[derive(Default)]
struct Blocks {
    known: BTreeMap<usize, Known>,
    /// The freed blocks, oldest first.
    resting: VecDeque<Resting>,
    resting_bytes: usize,
    /// How many blocks were ever taken.
    taken: u64,
    /// How many of them before the adapter started, while it is.
    before: Option<u64>,
    /// How many more may be taken.
    left: Option<usize>,
}

/// A block of which we know the address.
enum Known {
    Live(Live),
    Resting,
}

struct Live {
    memory: Memory,
    tag: u32,
    number: u64,
    paged: bool,
}

struct Resting {
    memory: Memory,
    damaged: bool,
}

impl Blocks {
    /// The live block that an address is in, and how far.
    fn around(&self, address: usize) -> Option<(&Live, usize)> {
        let (start, known) = self.known.range(..=address).next_back()?;
        let Known::Live(it) = known else { return None };
        let offset = address - start;
        (offset < it.memory.size()).then_some((it, offset))
    }
}

thread_local! {
    /// The pool of the driver that is running on this thread.
    static INSIDE: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
}

/// Puts back the pool that was there before: also when a driver unwinds.
struct Outside(Option<Arc<Pool>>);

impl Drop for Outside {
    fn drop(&mut self) {
        let before = self.0.take();
        // A thread that is ending has no pool to put back.
        let inner = INSIDE.try_with(|it| it.replace(before));
        drop(inner);
    }
}

impl Pool {
    /// An empty pool that says to `log` what happens.
    pub fn new(log: Arc<Log>) -> Arc<Self> {
        Arc::new(Self { log, blocks: Mutex::default(), watch: Mutex::default() })
    }

    /// From now on it is told what the driver takes and frees.
    pub fn watch(&self, watch: Option<Arc<dyn Watch>>) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// Who is told. No lock is held while it is.
    pub(crate) fn watcher(&self) -> Option<Arc<dyn Watch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many bytes there are from an address on, if it is in a live block, and whether they
    /// are paged.
    pub fn extent(&self, address: usize) -> Option<(usize, bool)> {
        let blocks = self.blocks();
        let (it, offset) = blocks.around(address)?;
        Some((it.memory.size() - offset, it.paged))
    }

    /// Reads from a live block. Answers whether all of it was there.
    pub fn read(&self, address: usize, into: &mut [u8]) -> bool {
        let blocks = self.blocks();
        blocks.around(address).is_some_and(|(it, offset)| it.memory.read(offset, into))
    }

    /// Writes to a live block. Answers whether all of it was there.
    pub fn write(&self, address: usize, bytes: &[u8]) -> bool {
        let blocks = self.blocks();
        blocks.around(address).is_some_and(|(it, offset)| it.memory.write(offset, bytes))
    }

    /// How many blocks are out.
    pub fn live(&self) -> usize {
        self.blocks().known.values().filter(|it| matches!(it, Known::Live(_))).count()
    }

    /// Lets so many more blocks be taken, and then none; or, as at first, as many as are asked for.
    pub fn ration(&self, blocks: Option<usize>) {
        self.blocks().left = blocks;
    }

    /// Runs code of the driver whose pool this is: what it imports acts on this pool.
    pub fn inside<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let back = Outside(INSIDE.replace(Some(self.clone())));
        let answer = body();
        drop(back);
        answer
    }

    /// The pool of the driver that is running on this thread.
    pub(crate) fn current() -> Option<Arc<Self>> {
        INSIDE.try_with(|it| it.borrow().clone()).ok().flatten()
    }

    /// Takes a block, zeroed or not. A tag of zero takes nothing.
    pub(crate) fn allocate(
        &self,
        bytes: usize,
        tag: u32,
        zeroed: bool,
        paged: bool,
    ) -> Option<usize> {
        if tag == 0 {
            return None;
        }
        let fresh = if zeroed { Fresh::Zeroed } else { Fresh::Filled(UNWRITTEN) };
        let memory = Memory::new(bytes, fresh)?;
        let address = memory.address();
        let mut blocks = self.blocks();
        if let Some(left) = &mut blocks.left {
            *left = left.checked_sub(1)?;
        }
        let number = blocks.taken;
        blocks.taken += 1;
        blocks.known.insert(address, Known::Live(Live { memory, tag, number, paged }));
        let word = self.log.hold_word(address);
        self.log.emit(word, What::PoolTaken { bytes: bytes as u64, tag: letters(tag) });
        Some(address)
    }

    /// Gives a block back. A tag of zero is not compared (`ExFreePool`).
    pub(crate) fn give_back(&self, address: usize, tag: u32) {
        let mut blocks = self.blocks();
        let word = self.log.word(address);
        let live = match blocks.known.get_mut(&address) {
            None => return self.misfreed(word, "no block starts there"),
            Some(Known::Resting) => return self.misfreed(word, "it was freed before"),
            Some(known) => std::mem::replace(known, Known::Resting),
        };
        let Known::Live(Live { mut memory, tag: own, .. }) = live else { return };
        if tag != 0 && tag != own {
            self.misfreed(word, "it has another tag");
        }
        self.log.emit(word, What::PoolFreed {});
        memory.fill(FREED);
        blocks.resting_bytes += memory.size();
        blocks.resting.push_back(Resting { memory, damaged: false });
        while blocks.resting.len() > MOST_RESTING || blocks.resting_bytes > MOST_RESTING_BYTES {
            self.let_go_of_the_oldest(&mut blocks);
        }
    }

    fn misfreed(&self, word: Subject, why: &'static str) {
        self.log.emit(word, What::PoolMisfreed { why: why.into() });
    }

    /// Ends the rest of the oldest freed block.
    fn let_go_of_the_oldest(&self, blocks: &mut Blocks) {
        let Some(mut oldest) = blocks.resting.pop_front() else { return };
        self.look_at(&mut oldest);
        blocks.resting_bytes -= oldest.memory.size();
        blocks.known.remove(&oldest.memory.address());
        self.log.release_word(oldest.memory.address());
    }

    /// Says, once, that a freed block was written to.
    fn look_at(&self, block: &mut Resting) {
        if block.damaged {
            return;
        }
        if let Some(offset) = block.memory.first_other_than(FREED) {
            block.damaged = true;
            let word = self.log.word(block.memory.address());
            self.log.emit(word, What::PoolDamaged { offset: offset as u64 });
        }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // No code of a driver runs under the lock, so a panic would be ours, between whole steps.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl flight::Pool for Pool {
    fn take(&self, bytes: usize, tag: u32) -> Option<usize> {
        self.allocate(bytes, tag, true, false)
    }

    fn free(&self, block: usize, tag: u32) {
        self.give_back(block, tag);
    }

    fn refers(&self, block: usize, word: usize) -> bool {
        let blocks = self.blocks();
        match (blocks.known.get(&block), blocks.known.get(&word)) {
            (Some(Known::Live(from)), Some(Known::Live(_))) => from.memory.holds(word),
            _ => false,
        }
    }

    fn is_paged(&self, address: usize) -> bool {
        let blocks = self.blocks();
        match blocks.known.range(..=address).next_back() {
            Some((start, Known::Live(it))) => it.paged && address - start < it.memory.size(),
            _ => false,
        }
    }

    fn inspect(&self) {
        let mut blocks = self.blocks();
        let old = blocks.resting.len().saturating_sub(INSPECTED);
        for block in blocks.resting.iter_mut().skip(old) {
            self.look_at(block);
        }
    }

    fn begin(&self) {
        let mut blocks = self.blocks();
        blocks.before = Some(blocks.taken);
    }

    fn end(&self) {
        let mut blocks = self.blocks();
        let Some(before) = blocks.before.take() else { return };
        let kept = |it: &Known| match it {
            Known::Live(it) if it.number >= before => Some((it.number, it.memory.address())),
            Known::Live(_) | Known::Resting => None,
        };
        let mut kept: Vec<(u64, usize)> = blocks.known.values().filter_map(kept).collect();
        kept.sort_unstable();
        for (_, address) in kept {
            self.log.emit(self.log.word(address), What::PoolKept {});
        }
    }

    fn close(&self) {
        let mut blocks = self.blocks();
        while !blocks.resting.is_empty() {
            self.let_go_of_the_oldest(&mut blocks);
        }
        let known = std::mem::take(&mut blocks.known).into_values();
        let live = |it| if let Known::Live(live) = it { Some(live) } else { None };
        let mut left: Vec<Live> = known.filter_map(live).collect();
        left.sort_by_key(|it| it.number);
        for Live { memory, .. } in left {
            self.log.emit(self.log.word(memory.address()), What::PoolLeft {});
            self.log.release_word(memory.address());
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.blocks();
        let (known, resting) = (blocks.known.len(), blocks.resting.len());
        f.debug_struct("Pool").field("known", &known).field("resting", &resting).finish()
    }
}

/// A tag as people write it: its first letter is its lowest byte.
fn letters(tag: u32) -> Text {
    let letter = |byte: u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' };
    tag.to_le_bytes().into_iter().map(letter).collect::<String>().into()
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
