//! Guarded memory: each block lies between inaccessible pages.
//!
//! The addresses are reserved once for the process, and blocks follow one another in them. A block
//! touches an inaccessible page with its end or with its start, by turns. A freed block becomes
//! inaccessible, and its addresses are not used again. So an access outside of a block faults, and
//! the address tells which block was missed.
//!
//! # Invariants
//!
//! 1. `owners` has, for each page of a block, the number of its record plus one, and zero for the
//!    inaccessible pages behind each block.
//! 2. A record is complete before `owners` leads to it. Its fields are atomic, because the handler
//!    of a fault reads them.
#![expect(unsafe_code, reason = "maps memory")]

use crate::ended_locks;
use crate::image::CallStack;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;
/// The reserved addresses.
const RESERVED: usize = 16 << 30;
const PAGES: usize = RESERVED / PAGE;
/// The inaccessible pages behind each block.
const GAP: usize = 2;
const RECORDS: usize = PAGES / (1 + GAP);
/// The distance from a block that is near, however small the block is: the widest access of the
/// processor.
const NEAR: u64 = 64;
/// The system allows about 65,000 mappings: each block adds two.
const MAX_LIVE: usize = 16_384;
/// Where the addresses are reserved, if they are free: a driver may keep addresses in data that a
/// trace shows, and the same flight must have the same trace.
const BASE: usize = 0x6400_0000_0000;

/// How much memory of a driver is guarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Every block.
    Full,
    /// Every block; a pool block ends at its inaccessible page, to 8 bytes.
    Exact,
    /// One block of eight.
    Sampled,
    /// None.
    #[default]
    Off,
}

impl Guard {
    /// Whether the block with this number is guarded.
    pub(crate) fn covers(self, number: u64) -> bool {
        match self {
            Self::Full | Self::Exact => true,
            Self::Sampled => number.is_multiple_of(8),
            Self::Off => false,
        }
    }
}

/// What a guarded block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum BlockKind {
    /// Pool that the driver allocated.
    #[default]
    Pool = 0,
    /// The structure that a call passes.
    Arguments = 1,
    /// Private driver data.
    PrivateData = 2,
    /// A buffer that the driver fills for the system.
    Output = 3,
    /// An array that an argument structure points to.
    List = 4,
    /// A DMA buffer.
    DmaBuffer = 5,
    /// A structure of streaming, such as a pin or a stream header.
    StreamObject = 6,
    /// The memory of a client's lock that has ended; the tag is the number of its view.
    EndedLock = 7,
    /// The only entry of a page-table update that repeats it.
    RepeatedEntry = 8,
    /// Not a block: an address among those of guarded memory, near to no block.
    NoBlock = 9,
}

impl BlockKind {
    const ALL: [Self; 10] = [
        Self::Pool,
        Self::Arguments,
        Self::PrivateData,
        Self::Output,
        Self::List,
        Self::DmaBuffer,
        Self::StreamObject,
        Self::EndedLock,
        Self::RepeatedEntry,
        Self::NoBlock,
    ];
}

/// Where a block lies in its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// At the start of the first page.
    Start,
    /// At the end of the last page, as near as this alignment of the start allows.
    End(usize),
}

/// What a block is and who allocated it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) kind: BlockKind,
    /// The tag of a pool block.
    pub(crate) tag: u32,
    /// The functions that allocated it.
    pub(crate) allocated_by: CallStack,
    /// The number of the driver call that the block is passed to.
    pub(crate) call: u32,
}

/// The reserved addresses of the process, once memory is guarded.
static ARENA: AtomicPtr<Arena> = AtomicPtr::new(ptr::null_mut());

struct Arena {
    base: usize,
    /// One per page.
    owners: &'static [AtomicU32],
    records: &'static [Record],
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    pages: usize,
    records: usize,
    live: usize,
}

/// What is known about a block. Zero: not known.
#[derive(Default)]
struct Record {
    start: AtomicU64,
    bytes: AtomicU64,
    tag: AtomicU32,
    freed: AtomicU32,
    allocated_by: RecordedCalls,
    freed_by: RecordedCalls,
    kind: AtomicU32,
    call: AtomicU32,
}

/// A [`CallStack`] in a record.
#[derive(Default)]
struct RecordedCalls([AtomicU32; CallStack::UNKNOWN.0.len()]);

impl RecordedCalls {
    fn store(&self, stack: CallStack) {
        for (place, offset) in self.0.iter().zip(stack.0) {
            place.store(offset, Ordering::Relaxed);
        }
    }

    fn load(&self) -> CallStack {
        CallStack(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }
}

/// The block that an access missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MissedBlock {
    /// Its first address; zero if there is no block.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// The functions that allocated it.
    pub allocated_by: CallStack,
    /// The functions that freed it.
    pub freed_by: CallStack,
    /// Its tag.
    pub tag: u32,
    /// Not zero if it was freed; 2 for a lock that a destroy ended.
    pub freed: u32,
    /// The number of its [`BlockKind`].
    kind: u32,
    /// The number of the driver call that it was last passed to; zero for pool.
    pub call: u32,
}

/// A guarded block.
#[derive(Debug)]
pub(crate) struct GuardedBlock {
    start: usize,
    bytes: usize,
    record: usize,
}

impl Arena {
    /// The arena of the process, made if there is none. `None` if the addresses cannot be reserved.
    fn get() -> Option<&'static Self> {
        if let Some(arena) = Self::existing() {
            return Some(arena);
        }
        let base = reserve(BASE, RESERVED, libc::PROT_NONE)
            .or_else(|| reserve(0, RESERVED, libc::PROT_NONE))?;
        let readable = libc::PROT_READ | libc::PROT_WRITE;
        let owners = reserve(0, PAGES * size_of::<AtomicU32>(), readable)?;
        let records = reserve(0, RECORDS * size_of::<Record>(), readable)?;
        let owners = ptr::with_exposed_provenance(owners);
        // SAFETY: The mapping has this size, is zero, which is a valid value, and is never unmapped.
        let owners = unsafe { std::slice::from_raw_parts(owners, PAGES) };
        let records = ptr::with_exposed_provenance(records);
        // SAFETY: As above.
        let records = unsafe { std::slice::from_raw_parts(records, RECORDS) };
        let made = Box::into_raw(Box::new(Self { base, owners, records, used: <_>::default() }));
        // A second thread that comes here leaves its arena unused.
        let _ = ARENA.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        Self::existing()
    }

    fn existing() -> Option<&'static Self> {
        let arena = ARENA.load(Ordering::Acquire);
        // SAFETY: The pointer is null, or to an arena that is never freed.
        unsafe { arena.as_ref() }
    }

    fn contains(&self, address: u64) -> bool {
        let base = self.base as u64;
        (base..base + RESERVED as u64).contains(&address)
    }

    fn record_of_page(&self, page: usize) -> Option<&'static Record> {
        let number = self.owners.get(page)?.load(Ordering::Acquire).checked_sub(1)?;
        self.records.get(number as usize)
    }
}

/// Reserves addresses, at this one if it is not zero. `None` if there is no room.
fn reserve(at: usize, bytes: usize, protection: i32) -> Option<usize> {
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    let at = ptr::without_provenance_mut(at);
    // SAFETY: A new mapping overwrites nothing: the system chooses the address, or the call fails
    // if something is mapped there.
    let start = unsafe { libc::mmap(at, bytes, protection, flags, -1, 0) };
    (start != libc::MAP_FAILED).then(|| start.expose_provenance())
}

impl GuardedBlock {
    /// Allocates a block whose bytes are zero. `None` if there is no guarded memory left.
    pub(crate) fn new(bytes: usize, placement: Placement, origin: Origin) -> Option<Self> {
        let block = Self::reserved(bytes, placement, origin)?;
        if block.protect(libc::PROT_READ | libc::PROT_WRITE) {
            return Some(block);
        }
        block.free(CallStack::UNKNOWN);
        None
    }

    /// Reserves the addresses of a block, whose owner maps something there. `None` if there is no
    /// guarded memory left.
    pub(crate) fn reserved(bytes: usize, placement: Placement, origin: Origin) -> Option<Self> {
        let arena = Arena::get()?;
        let pages = bytes.div_ceil(PAGE);
        let (page, record) = {
            let mut used = arena.used.lock().unwrap_or_else(PoisonError::into_inner);
            let next = used.pages.checked_add(pages)?.checked_add(GAP)?;
            if next + GAP > PAGES || used.records >= RECORDS || used.live >= MAX_LIVE {
                return None;
            }
            // The first pages stay inaccessible.
            let page = used.pages + GAP;
            (used.pages, used.live) = (next, used.live + 1);
            used.records += 1;
            (page, used.records - 1)
        };
        let first = arena.base + page * PAGE;
        let start = match placement {
            Placement::Start => first,
            Placement::End(alignment) => first + pages * PAGE - bytes.next_multiple_of(alignment),
        };
        let it = &arena.records[record];
        it.start.store(start as u64, Ordering::Relaxed);
        it.bytes.store(bytes as u64, Ordering::Relaxed);
        it.tag.store(origin.tag, Ordering::Relaxed);
        it.allocated_by.store(origin.allocated_by);
        it.kind.store(origin.kind as u32, Ordering::Relaxed);
        it.call.store(origin.call, Ordering::Relaxed);
        let number = u32::try_from(record + 1).ok()?;
        for owner in &arena.owners[page..page + pages] {
            owner.store(number, Ordering::Release);
        }
        Some(Self { start, bytes, record })
    }

    /// The block is passed to this driver call.
    pub(crate) fn set_call(&self, call: u32) {
        if let Some(arena) = Arena::existing() {
            arena.records[self.record].call.store(call, Ordering::Relaxed);
        }
    }

    /// Its first address.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The addresses of its pages.
    pub(crate) fn pages(&self) -> Range<usize> {
        self.start / PAGE * PAGE..(self.start + self.bytes).next_multiple_of(PAGE)
    }

    /// Makes it inaccessible, for as long as the process runs.
    pub(crate) fn free(&self, freed_by: CallStack) {
        let pages = self.pages();
        self.protect(libc::PROT_NONE);
        let at = ptr::with_exposed_provenance_mut(pages.start);
        // SAFETY: The pages are this block's own, and no one may use them any more.
        unsafe { libc::madvise(at, pages.len(), libc::MADV_DONTNEED) };
        self.mark_freed(freed_by);
    }

    /// Records that it is freed: its owner has made its addresses inaccessible.
    pub(crate) fn mark_freed(&self, freed_by: CallStack) {
        let Some(arena) = Arena::existing() else { return };
        let it = &arena.records[self.record];
        it.freed_by.store(freed_by);
        it.freed.store(1, Ordering::Release);
        let mut used = arena.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.live = used.live.saturating_sub(1);
    }

    fn protect(&self, protection: i32) -> bool {
        let pages = self.pages();
        let at = ptr::with_exposed_provenance_mut(pages.start);
        // SAFETY: The pages are this block's own, and no reference points into them.
        unsafe { libc::mprotect(at, pages.len(), protection) == 0 }
    }
}

impl MissedBlock {
    /// No block.
    pub(crate) const NONE: Self = Self {
        start: 0,
        bytes: 0,
        allocated_by: CallStack::UNKNOWN,
        freed_by: CallStack::UNKNOWN,
        tag: 0,
        freed: 0,
        kind: 0,
        call: 0,
    };

    /// What it is.
    pub fn kind(&self) -> BlockKind {
        let is_own = |kind: &BlockKind| *kind as u32 == self.kind;
        BlockKind::ALL.into_iter().find(is_own).unwrap_or_default()
    }

    /// The memory of a lock that has ended, as text, if an address is in it.
    pub fn ended_lock_text(&self, address: u64) -> Option<String> {
        let offset = address.checked_sub(self.start)?;
        if self.kind() != BlockKind::EndedLock {
            return None;
        }
        let (view, bytes) = (self.tag, self.bytes);
        let ended = if self.freed == 2 { "a destroy" } else { "an unlock" };
        Some(format!(
            "offset {offset} of the memory of a lock of view:{view} ({bytes} bytes), which {ended} \
             had ended,"
        ))
    }

    /// The block that an access missed, whose operand was made from these pointers; or the lock that
    /// has ended there.
    ///
    /// It is the block that contains the address, or else one of the pointers. A block that is only
    /// the nearest one was missed if it is no farther than its own length, at least [`NEAR`] and at
    /// most a page: an index is wrong by that much. A farther address says nothing about a block.
    pub(crate) fn of(address: u64, pointers: [u64; 2]) -> Option<Self> {
        if !Arena::existing().is_some_and(|arena| arena.contains(address)) {
            return Self::ended_lock(address);
        }
        let nearest = Self::near_guarded(address);
        if let Some(block) = nearest
            && (block.contains(address) || block.freed == 0 && block.has_in_pages(address))
        {
            return nearest;
        }
        let containing =
            |pointer| Self::near_guarded(pointer).filter(|block: &Self| block.contains(pointer));
        let is_near = |block: &Self| {
            let reach = block.bytes.clamp(NEAR, PAGE as u64);
            block.start.saturating_sub(address) <= reach
                && address.saturating_sub(block.start + block.bytes) < reach
        };
        let missed = pointers.into_iter().find_map(containing).or(nearest.filter(is_near));
        Some(missed.unwrap_or(Self { kind: BlockKind::NoBlock as u32, ..Self::NONE }))
    }

    /// Whether an address is in it.
    fn contains(&self, address: u64) -> bool {
        (self.start..self.start + self.bytes).contains(&address)
    }

    /// Whether an address is in its pages.
    fn has_in_pages(&self, address: u64) -> bool {
        let page = PAGE as u64;
        (self.start / page..(self.start + self.bytes).div_ceil(page)).contains(&(address / page))
    }

    /// The lock that has ended at an address.
    fn ended_lock(address: u64) -> Option<Self> {
        let lock = ended_locks::find(address)?;
        Some(Self {
            start: lock.start,
            bytes: lock.bytes,
            tag: lock.view,
            freed: if lock.destroyed { 2 } else { 1 },
            kind: BlockKind::EndedLock as u32,
            ..Self::NONE
        })
    }

    /// The guarded block at an address, or nearest to it.
    pub(crate) fn near_guarded(address: u64) -> Option<Self> {
        let arena = Arena::existing()?;
        let offset = usize::try_from(address).ok()?.checked_sub(arena.base)?;
        let page = offset / PAGE;
        if page >= PAGES {
            return None;
        }
        let known = |page: Option<usize>| arena.record_of_page(page?);
        let record = known(Some(page)).or_else(|| {
            let before = (1..=GAP).find_map(|pages| known(page.checked_sub(pages)));
            let behind = (1..=GAP).find_map(|pages| known(page.checked_add(pages)));
            match (before, behind) {
                (Some(before), Some(behind)) => {
                    let end =
                        before.start.load(Ordering::Relaxed) + before.bytes.load(Ordering::Relaxed);
                    let start = behind.start.load(Ordering::Relaxed);
                    let nearer = address.saturating_sub(end) <= start.saturating_sub(address);
                    Some(if nearer { before } else { behind })
                }
                (before, behind) => before.or(behind),
            }
        })?;
        Some(Self {
            start: record.start.load(Ordering::Relaxed),
            bytes: record.bytes.load(Ordering::Relaxed),
            tag: record.tag.load(Ordering::Relaxed),
            freed: record.freed.load(Ordering::Relaxed),
            allocated_by: record.allocated_by.load(),
            freed_by: record.freed_by.load(),
            kind: record.kind.load(Ordering::Relaxed),
            call: record.call.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_touches_an_inaccessible_page() {
        for bytes in [1, 15, 16, 60, 4095, 4096, 4097, 10_000] {
            let at_start = GuardedBlock::new(bytes, Placement::Start, Origin::default()).unwrap();
            assert_eq!(at_start.start() % PAGE, 0, "{bytes}");
            at_start.free(CallStack::UNKNOWN);
            for alignment in [1, 8, 16] {
                let placement = Placement::End(alignment);
                let at_end = GuardedBlock::new(bytes, placement, Origin::default()).unwrap();
                assert_eq!(at_end.start() % alignment, 0, "{bytes}");
                let behind = at_end.start() + bytes.next_multiple_of(alignment);
                assert_eq!(behind % PAGE, 0, "{bytes}");
                at_end.free(CallStack::UNKNOWN);
            }
        }
    }

    #[test]
    fn an_address_leads_to_its_block() {
        let kind = BlockKind::PrivateData;
        let (allocated_by, freed_by) = (CallStack([0x1000, 0x1100, 0, 0]), CallStack([1, 2, 3, 4]));
        let origin = Origin { kind, tag: 0x6e75_7457, allocated_by, call: 3 };
        let block = GuardedBlock::new(64, Placement::End(16), origin).unwrap();
        let start = block.start() as u64;
        for address in [start, start + 63, start + 64, start + 127] {
            let near = MissedBlock::of(address, [0; 2]).unwrap();
            assert_eq!((near.start, near.bytes, near.tag), (start, 64, 0x6e75_7457));
            assert_eq!((near.allocated_by, near.freed), (allocated_by, 0));
            assert_eq!((near.kind(), near.call), (kind, 3));
        }
        block.set_call(4);
        block.free(freed_by);
        let near = MissedBlock::of(start + 8, [0; 2]).unwrap();
        assert_eq!((near.freed, near.freed_by, near.call), (1, freed_by, 4));
        assert_eq!(MissedBlock::of(8, [0; 2]), None);
    }

    /// Nothing is known of a far address, unless it was made from a pointer to a block.
    #[test]
    fn a_far_address_leads_to_the_block_of_its_pointer() {
        let block = GuardedBlock::new(4, Placement::End(16), Origin::default()).unwrap();
        let start = block.start() as u64;
        let found = |address: u64, pointers| {
            let found = MissedBlock::of(address, pointers).unwrap();
            (found.kind(), found.start)
        };
        let (own, none) = ((BlockKind::Pool, start), (BlockKind::NoBlock, 0));
        assert_eq!(found(start + 67, [0; 2]), own);
        // Other tests have no block in these pages.
        for far in [start + 3868, start - 3868 - 4096] {
            assert_eq!(found(far, [0, far]), none, "{far:#x}");
            assert_eq!(found(far, [0, start + 3]), own, "{far:#x}");
            assert_eq!(found(far, [start + 4, 0]), none, "{far:#x}");
        }
        block.free(CallStack::UNKNOWN);
        assert_eq!((found(start, [0; 2]), found(start - 3868, [0; 2])), (own, none));
        assert_eq!(found(start - 3868, [start, 0]), own);
    }
}
