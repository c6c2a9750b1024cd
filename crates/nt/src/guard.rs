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
/// The system allows about 65,000 mappings: each block adds two.
const MAX_LIVE: usize = 16_384;
/// A block below the size of a page is aligned to this.
const ALIGNMENT: usize = 16;

/// How much memory of a driver is guarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Every block.
    Full,
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
            Self::Full => true,
            Self::Sampled => number.is_multiple_of(8),
            Self::Off => false,
        }
    }
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
    allocated_by: AtomicU64,
    freed_by: AtomicU64,
}

/// The block that an access missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MissedBlock {
    /// Its first address; zero if there is no block.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// The return address of the call that allocated it.
    pub allocated_by: u64,
    /// The return address of the call that freed it.
    pub freed_by: u64,
    /// Its tag.
    pub tag: u32,
    /// Not zero if it was freed.
    pub freed: u32,
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
        let base = reserve(RESERVED, libc::PROT_NONE)?;
        let readable = libc::PROT_READ | libc::PROT_WRITE;
        let owners = reserve(PAGES * size_of::<AtomicU32>(), readable)?;
        let records = reserve(RECORDS * size_of::<Record>(), readable)?;
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

    fn record_of_page(&self, page: usize) -> Option<&'static Record> {
        let number = self.owners.get(page)?.load(Ordering::Acquire).checked_sub(1)?;
        self.records.get(number as usize)
    }
}

/// Reserves addresses. `None` if there is no room.
fn reserve(bytes: usize, protection: i32) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: A new mapping at an address that the system chooses overwrites nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (start != libc::MAP_FAILED).then(|| start.expose_provenance())
}

impl GuardedBlock {
    /// Allocates a block whose bytes are zero. `None` if there is no guarded memory left.
    pub(crate) fn new(bytes: usize, tag: u32, allocated_by: u64, at_end: bool) -> Option<Self> {
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
        // WINDOWS: a block of a page or more is page-aligned (documented).
        let at_end = at_end && bytes < PAGE;
        let start = if at_end { first + PAGE - bytes.next_multiple_of(ALIGNMENT) } else { first };
        let block = Self { start, bytes, record };
        if !block.protect(libc::PROT_READ | libc::PROT_WRITE) {
            return None;
        }
        let it = &arena.records[record];
        it.start.store(start as u64, Ordering::Relaxed);
        it.bytes.store(bytes as u64, Ordering::Relaxed);
        it.tag.store(tag, Ordering::Relaxed);
        it.allocated_by.store(allocated_by, Ordering::Relaxed);
        let number = u32::try_from(record + 1).ok()?;
        for owner in &arena.owners[page..page + pages] {
            owner.store(number, Ordering::Release);
        }
        Some(block)
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
    pub(crate) fn free(&self, freed_by: u64) {
        let Some(arena) = Arena::existing() else { return };
        let it = &arena.records[self.record];
        it.freed_by.store(freed_by, Ordering::Relaxed);
        it.freed.store(1, Ordering::Release);
        let pages = self.pages();
        self.protect(libc::PROT_NONE);
        let at = ptr::with_exposed_provenance_mut(pages.start);
        // SAFETY: The pages are this block's own, and no one may use them any more.
        unsafe { libc::madvise(at, pages.len(), libc::MADV_DONTNEED) };
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
    pub(crate) const NONE: Self =
        Self { start: 0, bytes: 0, allocated_by: 0, freed_by: 0, tag: 0, freed: 0 };

    /// The block at an address, or nearest to it.
    pub(crate) fn near(address: u64) -> Option<Self> {
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
            allocated_by: record.allocated_by.load(Ordering::Relaxed),
            freed_by: record.freed_by.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_touches_an_inaccessible_page() {
        for bytes in [1, 15, 16, 60, 4095, 4096, 4097, 10_000] {
            let at_end = GuardedBlock::new(bytes, 1, 0, true).unwrap();
            let at_start = GuardedBlock::new(bytes, 1, 0, false).unwrap();
            assert_eq!(at_start.start() % PAGE, 0, "{bytes}");
            let alignment = if bytes < PAGE { ALIGNMENT } else { PAGE };
            assert_eq!(at_end.start() % alignment, 0, "{bytes}");
            if bytes < PAGE {
                let behind = at_end.start() + bytes.next_multiple_of(ALIGNMENT);
                assert_eq!(behind % PAGE, 0, "{bytes}");
            }
            at_end.free(0);
            at_start.free(0);
        }
    }

    #[test]
    fn an_address_leads_to_its_block() {
        let block = GuardedBlock::new(64, 0x6e75_7457, 0x1000, true).unwrap();
        let start = block.start() as u64;
        for address in [start, start + 63, start + 64, start + 200] {
            let near = MissedBlock::near(address).unwrap();
            assert_eq!((near.start, near.bytes, near.tag), (start, 64, 0x6e75_7457));
            assert_eq!((near.allocated_by, near.freed), (0x1000, 0));
        }
        block.free(0x2000);
        let near = MissedBlock::near(start + 8).unwrap();
        assert_eq!((near.freed, near.freed_by), (1, 0x2000));
        assert_eq!(MissedBlock::near(8), None);
    }
}
