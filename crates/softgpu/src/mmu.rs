//! Virtual addresses: page tables in GPU memory, and the page walk.
//!
//! An entry has eight bytes, little endian: flags in the lowest eight bits, the segment in the next
//! eight (zero is system memory), the number of a page of 4096 bytes in the rest. The format is the
//! same at every level: at level zero the entry is a page, above that a table of the next lower
//! level.
//!
//! # Invariants
//!
//! 1. An access is done completely or not at all: all its pages are found before the first byte is
//!    touched.
//! 2. An engine uses a cached translation without another walk (`tlb.rs`).

use crate::controller::{Address, Controller};
use crate::plan::{LOCAL, PAGE, VISIBLE, segment_base};
use crate::tlb::Tlb;
use flight::{Run, TableEntry, TableRoot};
use kernel::mmu::{MmuFeatures, PageTableEntry, RootSize, TableLevel, UpdateMode};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The size of an entry.
pub const ENTRY_SIZE: u64 = 8;
const ENTRY_BYTES: usize = 8;

/// How many entries are read at once.
const READ_ENTRIES: usize = 128;

/// The maximum size of one access.
const MAX_ACCESS: u64 = 1 << 30;

const VALID: u64 = 1;
const ZERO: u64 = 1 << 1;
const READ_ONLY: u64 = 1 << 2;
const NO_EXECUTE: u64 = 1 << 3;
const COHERENT: u64 = 1 << 4;
const SEGMENT_AT: u32 = 8;
const PAGE_AT: u32 = 16;

/// How a GPU translates. Every number is a property of the hardware, not of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmuPlan {
    /// The number of table levels, from two to four.
    pub levels: u32,
    /// How many address bits index a table that is not the root.
    pub index_bits: u32,
    /// How many address bits index the root.
    pub root_bits: u32,
    /// The segment of the tables.
    pub segment: u32,
    /// How the driver has tables updated.
    pub mode: UpdateMode,
    /// The size of the CPU's window into local memory, in pages.
    pub window: u32,
}

impl Default for MmuPlan {
    fn default() -> Self {
        let mode = UpdateMode::Physical;
        Self { levels: 3, index_bits: 9, root_bits: 9, segment: LOCAL, mode, window: 64 }
    }
}

impl MmuPlan {
    /// Two levels, with a root of any size up to 4096 entries.
    pub const TWO_LEVELS: Self = Self {
        levels: 2,
        index_bits: 9,
        root_bits: 12,
        segment: LOCAL,
        mode: UpdateMode::Physical,
        window: 0,
    };

    /// Three levels, in memory that the CPU sees and writes.
    pub const BY_CPU: Self = Self {
        levels: 3,
        index_bits: 9,
        root_bits: 9,
        segment: VISIBLE,
        mode: UpdateMode::Cpu,
        window: 0,
    };

    /// The same, limited to what the hardware supports.
    #[must_use]
    pub fn in_whole_pages(self) -> Self {
        Self {
            levels: self.levels.clamp(2, 4),
            index_bits: self.index_bits.clamp(1, 9),
            root_bits: self.root_bits.clamp(1, 12),
            ..self
        }
    }

    /// How many address bits index a table, by level, starting with the page level.
    pub fn bits(self) -> impl Iterator<Item = u32> {
        let below = self.levels.saturating_sub(1);
        (0..self.levels)
            .map(move |number| if number == below { self.root_bits } else { self.index_bits })
    }

    /// How many bits an address has.
    pub fn address_bits(self) -> u32 {
        12 + self.bits().sum::<u32>()
    }

    /// What the driver reports about translation.
    pub fn features(self) -> MmuFeatures {
        let level = |index_bits: u32| {
            let bytes = (ENTRY_SIZE << index_bits).next_multiple_of(PAGE);
            TableLevel {
                index_bits,
                segment: self.segment,
                // The CPU writes the tables of the system address space.
                system_segment: VISIBLE,
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                alignment: u32::try_from(PAGE).unwrap_or(u32::MAX),
            }
        };
        MmuFeatures {
            address_bits: self.address_bits(),
            levels: self.bits().map(level).collect(),
            mode: self.mode,
            read_only: true,
            no_execute: true,
            zero: true,
            invalidates: self.mode == UpdateMode::Cpu,
        }
    }

    /// The size of a root with at least this many entries, in whole pages.
    pub fn root_size(self, entries: u32) -> RootSize {
        let bytes = (u64::from(entries).max(1) * ENTRY_SIZE).next_multiple_of(PAGE);
        RootSize { entries: u32::try_from(bytes / ENTRY_SIZE).unwrap_or(u32::MAX), bytes }
    }

    /// The index of an address at a level. Returns `None` if the address has too many bits.
    fn index(self, address: u64, level: u32) -> Option<u64> {
        if address >> self.address_bits() != 0 {
            return None;
        }
        let below = 12 + self.index_bits * level;
        let bits = if level + 1 == self.levels { self.root_bits } else { self.index_bits };
        Some(address >> below & ((1 << bits) - 1))
    }
}

/// Encodes an entry.
pub fn encode_entry(it: &PageTableEntry) -> u64 {
    let bit = |set: bool, flag: u64| if set { flag } else { 0 };
    bit(it.valid, VALID)
        | bit(it.zero, ZERO)
        | bit(it.read_only, READ_ONLY)
        | bit(it.no_execute, NO_EXECUTE)
        | bit(it.coherent, COHERENT)
        | (u64::from(it.segment) & 0xff) << SEGMENT_AT
        | it.page << PAGE_AT
}

/// Decodes an entry.
fn decode_entry(bytes: u64) -> TableEntry {
    let has = |flag: u64| bytes & flag != 0;
    TableEntry {
        valid: has(VALID),
        zero: has(ZERO),
        read_only: has(READ_ONLY),
        segment: u32::from(bytes.to_le_bytes()[1]),
        page: bytes >> PAGE_AT,
    }
}

/// The state of address translation, shared by the engines.
#[derive(Debug)]
pub(crate) struct Mmu {
    plan: MmuPlan,
    tlb: Mutex<Tlb>,
    /// Which page of local memory each page of the window maps.
    window: Mutex<BTreeMap<u64, u64>>,
}

impl Mmu {
    pub(crate) fn new(plan: MmuPlan) -> Self {
        Self { plan: plan.in_whole_pages(), tlb: Mutex::default(), window: Mutex::default() }
    }

    /// Maps pages of local memory, which has `pages` pages, into the window: all of them, or none.
    pub(crate) fn map_window(&self, pairs: &[(u64, u64)], pages: u64) -> bool {
        let there = |pair: &(u64, u64)| pair.0 < u64::from(self.plan.window) && pair.1 < pages;
        let all = pairs.iter().all(there);
        if all {
            self.window().extend(pairs.iter().copied());
        }
        all
    }

    /// Unmaps these pages. Returns whether each was mapped.
    pub(crate) fn unmap_window(&self, pages: &[u64]) -> bool {
        let window = &mut *self.window();
        // All pages are unmapped, even after one that was not mapped.
        let shown = pages.iter().filter(|value| window.remove(*value).is_some());
        shown.count() == pages.len()
    }

    fn window(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.window.lock()
    }

    pub(crate) fn tlb(&self) -> MutexGuard<'_, Tlb> {
        self.tlb.lock()
    }
}

/// A virtual address and its address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Virtual {
    pub(crate) root: Option<TableRoot>,
    pub(crate) address: u64,
}

/// A part of an access: memory, or a zero page, which reads as zero and discards writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: Option<u64>,
    bytes: u64,
}

/// Where an access faulted.
pub(crate) type FaultResult<T> = Result<T, u64>;

/// Where a page of a segment is, for the hardware.
fn side(segment: u32, offset: u64) -> Option<Address> {
    match segment {
        0 => Some(Address::System(offset)),
        _ => Some(Address::Local(segment_base(segment)?.checked_add(offset)?)),
    }
}

impl Controller {
    /// An entry of a table, if the table is in existing memory.
    pub(crate) fn entry(&self, table: (u32, u64), index: u64) -> Option<TableEntry> {
        let mut bytes = [0; ENTRY_BYTES];
        self.read_table(table, index, &mut bytes)?;
        Some(decode_entry(u64::from_le_bytes(bytes)))
    }

    /// Entries of a table from `first` on, each as [`Controller::entry`].
    pub(crate) fn entries(&self, table: (u32, u64), first: u64, into: &mut [Option<TableEntry>]) {
        let mut bytes = [0; READ_ENTRIES * ENTRY_BYTES];
        let mut first = first;
        for some in into.chunks_mut(READ_ENTRIES) {
            let bytes = &mut bytes[..some.len() * ENTRY_BYTES];
            if self.read_table(table, first, bytes).is_some() {
                let (raw, _) = bytes.as_chunks();
                for (entry, raw) in some.iter_mut().zip(raw) {
                    *entry = Some(decode_entry(u64::from_le_bytes(*raw)));
                }
            } else {
                // Not all of them are in existing memory.
                for (index, entry) in (first..).zip(&mut *some) {
                    *entry = self.entry(table, index);
                }
            }
            first = first.saturating_add(some.len() as u64);
        }
    }

    /// Reads the bytes of a table from an entry on.
    fn read_table(&self, table: (u32, u64), index: u64, into: &mut [u8]) -> Option<()> {
        let offset = table.1.checked_add(index.checked_mul(ENTRY_SIZE)?)?;
        self.read(side(table.0, offset)?, into).then_some(())
    }

    /// Translates an address: from the cache, or by a page walk.
    pub(crate) fn translate(&self, root: TableRoot, address: u64) -> Option<TableEntry> {
        let mmu = self.mmu()?;
        let top = mmu.plan.levels - 1;
        // The hardware knows the size of the root, whatever is cached.
        if mmu.plan.index(address, top)? >= u64::from(root.entries) {
            return None;
        }
        let known = mmu.tlb().find((root.segment, root.offset), address / PAGE);
        known.or_else(|| self.walk(mmu.plan, root, address))
    }

    /// Walks from the root to the entry of a page.
    fn walk(&self, plan: MmuPlan, root: TableRoot, address: u64) -> Option<TableEntry> {
        let mut table = (root.segment, root.offset);
        for level in (0..plan.levels).rev() {
            let entry = self.entry(table, plan.index(address, level)?)?;
            if !entry.valid || level == 0 {
                return Some(entry).filter(|table_entry| table_entry.valid);
            }
            table = (entry.segment, entry.page.checked_mul(PAGE)?);
        }
        None
    }

    /// The parts of an access. An engine's access caches the translations.
    fn parts(&self, at: Virtual, bytes: u64, write: bool, engine: bool) -> FaultResult<Vec<Part>> {
        let Virtual { root: Some(root), address } = at else { return Err(at.address) };
        let end = address.checked_add(bytes).filter(|_| bytes <= MAX_ACCESS).ok_or(address)?;
        let (mut parts, mut at): (Vec<Part>, u64) = (Vec::new(), address);
        while at < end {
            let entry = self.translate(root, at).ok_or(at)?;
            if let Some(mmu) = self.mmu().filter(|_| engine) {
                mmu.tlb().remember((root.segment, root.offset), at / PAGE, entry);
            }
            if write && entry.read_only {
                return Err(at);
            }
            let bytes = (PAGE - at % PAGE).min(end - at);
            if entry.zero {
                parts.push(Part { start: None, bytes });
            } else {
                let start =
                    entry.page.checked_mul(PAGE).and_then(|value| value.checked_add(at % PAGE));
                let side = start.and_then(|value| side(entry.segment, value)).ok_or(at)?;
                let runs = self.resident_pieces(side, bytes).ok_or(at)?;
                parts.extend(runs.iter().map(|it| Part { start: Some(it.start), bytes: it.bytes }));
            }
            at += bytes;
        }
        Ok(parts)
    }

    /// Reads bytes as an engine does.
    pub(crate) fn read_virtual(&self, from: Virtual, into: &mut [u8]) -> FaultResult<()> {
        self.read_virtual_as(from, into, true)
    }

    /// Reads bytes without caching translations.
    pub(crate) fn peek_virtual(&self, from: Virtual, into: &mut [u8]) -> bool {
        self.read_virtual_as(from, into, false).is_ok()
    }

    fn read_virtual_as(&self, from: Virtual, into: &mut [u8], engine: bool) -> FaultResult<()> {
        let parts = self.parts(from, into.len() as u64, false, engine)?;
        let mut rest = into;
        for part in parts {
            let length = usize::try_from(part.bytes).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(length);
            match part.start {
                None => now.fill(0),
                Some(start) if !self.ram().read(start, now) => return Err(from.address),
                Some(_) => (),
            }
            rest = later;
        }
        Ok(())
    }

    pub(crate) fn write_virtual(&self, to: Virtual, bytes: &[u8]) -> FaultResult<()> {
        let parts = self.parts(to, bytes.len() as u64, true, true)?;
        let mut rest = bytes;
        for part in parts {
            let length = usize::try_from(part.bytes).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(length);
            if part.start.is_some_and(|value| !self.ram().write(value, now)) {
                return Err(to.address);
            }
            rest = later;
        }
        Ok(())
    }

    pub(crate) fn fill_virtual(&self, to: Virtual, bytes: u64, pattern: u32) -> FaultResult<()> {
        let mut turned = pattern;
        for Part { start, bytes } in self.parts(to, bytes, true, true)? {
            if start.is_some_and(|start| !self.ram().fill(Run { start, bytes }, turned)) {
                return Err(to.address);
            }
            turned = turned.rotate_right(8 * u32::try_from(bytes % 4).unwrap_or(0));
        }
        Ok(())
    }

    /// Copies bytes. All are read before the first is written, so the ranges may overlap.
    pub(crate) fn copy_virtual(&self, from: Virtual, to: Virtual, bytes: u64) -> FaultResult<()> {
        self.parts(from, bytes, false, true)?;
        self.parts(to, bytes, true, true)?;
        let mut all = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.read_virtual(from, &mut all)?;
        self.write_virtual(to, &all)
    }
}
