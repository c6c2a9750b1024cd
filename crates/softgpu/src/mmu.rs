//! Virtual addresses: page tables in the GPU's memory, and the walk through them.
//!
//! An entry has eight bytes, little endian: flags in the lowest eight bits, the segment in the
//! eight above (zero is the machine's memory), the number of a page of 4096 bytes in the rest. It
//! looks the same at every level: at level zero it is a page, above a table of the level below.
//!
//! # Invariants
//!
//! 1. An access is done whole or not at all: all its pages are found before the first byte.
//! 2. What engines remember of a translation they do not look up again (`tlb.rs`).

use crate::controller::{Address, Controller};
use crate::plan::{LOCAL, PAGE, VISIBLE, segment_base};
use crate::tlb::Tlb;
use flight::{Run, TableEntry, TableRoot};
use kernel::mmu::{MmuFeatures, PageTableEntry, RootSize, TableLevel, UpdateMode};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many bytes an entry has.
pub const ENTRY_SIZE: u64 = 8;
const ENTRY_BYTES: usize = 8;

/// The most bytes one access can have.
const MAX_ACCESS: u64 = 1 << 30;

const VALID: u64 = 1;
const ZERO: u64 = 1 << 1;
const READ_ONLY: u64 = 1 << 2;
const NO_EXECUTE: u64 = 1 << 3;
const COHERENT: u64 = 1 << 4;
const SEGMENT_AT: u32 = 8;
const PAGE_AT: u32 = 16;

/// How a GPU translates: every number is the hardware's, not the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmuPlan {
    /// How many levels its tables have, from two to four.
    pub levels: u32,
    /// How many bits of an address find an entry in a table that is not the root.
    pub index_bits: u32,
    /// How many find one in the root.
    pub root_bits: u32,
    /// The segment of the tables.
    pub segment: u32,
    /// How its driver has tables written.
    pub mode: UpdateMode,
    /// How many pages of local memory the CPU can have shown at once.
    pub window: u32,
}

impl Default for MmuPlan {
    fn default() -> Self {
        let mode = UpdateMode::Physical;
        Self { levels: 3, index_bits: 9, root_bits: 9, segment: LOCAL, mode, window: 64 }
    }
}

impl MmuPlan {
    /// Two levels, with a root that can have any size up to 4096 entries.
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

    /// The same within what the hardware can do.
    #[must_use]
    pub fn in_whole_pages(self) -> Self {
        Self {
            levels: self.levels.clamp(2, 4),
            index_bits: self.index_bits.clamp(1, 9),
            root_bits: self.root_bits.clamp(1, 12),
            ..self
        }
    }

    /// How many bits of an address find an entry, by level: the one with pages first.
    pub fn bits(self) -> impl Iterator<Item = u32> {
        let below = self.levels.saturating_sub(1);
        (0..self.levels)
            .map(move |number| if number == below { self.root_bits } else { self.index_bits })
    }

    /// How many bits an address has.
    pub fn address_bits(self) -> u32 {
        12 + self.bits().sum::<u32>()
    }

    /// What the driver says of it.
    pub fn features(self) -> MmuFeatures {
        let level = |index_bits: u32| {
            let bytes = (ENTRY_SIZE << index_bits).next_multiple_of(PAGE);
            TableLevel {
                index_bits,
                segment: self.segment,
                // The CPU writes those of the system.
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

    /// The size of a root of at least so many entries, in whole pages.
    pub fn root_size(self, entries: u32) -> RootSize {
        let bytes = (u64::from(entries).max(1) * ENTRY_SIZE).next_multiple_of(PAGE);
        RootSize { entries: u32::try_from(bytes / ENTRY_SIZE).unwrap_or(u32::MAX), bytes }
    }

    /// The index of an address at a level; none, if it has more bits than addresses have.
    fn index(self, address: u64, level: u32) -> Option<u64> {
        if address >> self.address_bits() != 0 {
            return None;
        }
        let below = 12 + self.index_bits * level;
        let bits = if level + 1 == self.levels { self.root_bits } else { self.index_bits };
        Some(address >> below & ((1 << bits) - 1))
    }
}

/// The bytes of an entry.
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

/// What these bytes say to an engine.
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

/// What engines know of virtual addresses.
#[derive(Debug)]
pub(crate) struct Mmu {
    plan: MmuPlan,
    tlb: Mutex<Tlb>,
    /// Which page of local memory each page of the window shows.
    window: Mutex<BTreeMap<u64, u64>>,
}

impl Mmu {
    pub(crate) fn new(plan: MmuPlan) -> Self {
        Self { plan: plan.in_whole_pages(), tlb: Mutex::default(), window: Mutex::default() }
    }

    /// Shows pages of local memory, of which there are so many, in pages of the window. All of
    /// them, or none.
    pub(crate) fn map_window(&self, pairs: &[(u64, u64)], pages: u64) -> bool {
        let there = |pair: &(u64, u64)| pair.0 < u64::from(self.plan.window) && pair.1 < pages;
        let all = pairs.iter().all(there);
        if all {
            self.window().extend(pairs.iter().copied());
        }
        all
    }

    /// Shows nothing there any more. Answers whether something was shown in each.
    pub(crate) fn unmap_window(&self, pages: &[u64]) -> bool {
        let window = &mut *self.window();
        // Each of them, also behind one that showed nothing.
        let shown = pages.iter().filter(|value| window.remove(*value).is_some());
        shown.count() == pages.len()
    }

    fn window(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tlb(&self) -> MutexGuard<'_, Tlb> {
        self.tlb.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place at virtual addresses: in which address space, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Virtual {
    pub(crate) root: Option<TableRoot>,
    pub(crate) address: u64,
}

/// A part of an access: memory, or a page that reads as zero and loses what is written.
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
    /// An entry of a table, if there is memory there.
    pub(crate) fn entry(&self, table: (u32, u64), index: u64) -> Option<TableEntry> {
        let offset = table.1.checked_add(index.checked_mul(ENTRY_SIZE)?)?;
        let mut bytes = [0; ENTRY_BYTES];
        let read = self.read(side(table.0, offset)?, &mut bytes);
        read.then(|| decode_entry(u64::from_le_bytes(bytes)))
    }

    /// What an engine finds behind an address: remembered, or by a walk.
    pub(crate) fn translate(&self, root: TableRoot, address: u64) -> Option<TableEntry> {
        let mmu = self.mmu()?;
        let top = mmu.plan.levels - 1;
        // The hardware knows how many entries the root has, whatever it remembers.
        if mmu.plan.index(address, top)? >= u64::from(root.entries) {
            return None;
        }
        let known = mmu.tlb().find((root.segment, root.offset), address / PAGE);
        known.or_else(|| self.walk(mmu.plan, root, address))
    }

    /// From the root to the entry of a page.
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

    /// The parts of an access; what is looked up for it is remembered, if an engine does it.
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

    /// Reads bytes, and leaves no trace of it.
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

    /// Copies bytes, also where the two overlap: they are read whole before the first is written.
    pub(crate) fn copy_virtual(&self, from: Virtual, to: Virtual, bytes: u64) -> FaultResult<()> {
        self.parts(from, bytes, false, true)?;
        self.parts(to, bytes, true, true)?;
        let mut all = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.read_virtual(from, &mut all)?;
        self.write_virtual(to, &all)
    }
}
