//! Page tables for whoever looks at them: what an entry says, and what must have been written.

use crate::{HardwareModel, Subject};

/// The root of an address space, as hardware is given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableRoot {
    /// The segment it is in, from one on.
    pub segment: u32,
    /// Where, counted from the segment's base.
    pub offset: u64,
    /// How many entries it has: an address behind the last one faults.
    pub entries: u32,
}

/// What an entry of a page table says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEntry {
    /// Something is behind it.
    pub valid: bool,
    /// Reads are zero, writes are lost.
    pub zero: bool,
    /// Not to be written.
    pub read_only: bool,
    /// The segment of the page or table; zero is the machine's memory.
    pub segment: u32,
    /// Its number of 4096 bytes from there on.
    pub page: u64,
}

/// Entries of a page table that a driver was asked to write.
#[derive(Clone, Copy)]
pub struct PageTableWrite<'a> {
    /// The paging work it is part of.
    pub paging: Subject,
    /// The address space, or the process it is of.
    pub of: Subject,
    /// The process whose address space it is; none is the system.
    pub process: Option<Subject>,
    /// The level of the table: zero holds entries of pages.
    pub level: u32,
    /// The segment of the table, from one on, and where it is, counted from the segment's base.
    pub table: (u32, u64),
    /// The first entry.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// What they must say: one for each, or a single one for all (`repeat`).
    pub entries: &'a [TableEntry],
    /// The driver was given a single entry for all.
    pub repeat: bool,
    /// The CPU writes them: they are there when the driver returns.
    pub by_cpu: bool,
    /// The first address that they translate.
    pub address: u64,
    /// The hardware.
    pub hardware: &'a dyn HardwareModel,
}

/// Translations that a driver was asked to have forgotten.
#[derive(Clone, Copy)]
pub struct TlbFlush<'a> {
    /// The paging work it is part of.
    pub paging: Subject,
    /// The address space, or the process it is of.
    pub of: Subject,
    /// The process whose address space it is; none is the system.
    pub process: Option<Subject>,
    /// Its root.
    pub root: TableRoot,
    /// How many bits of an address find an entry, by level: the one with pages first.
    pub index_bits: &'a [u32],
    /// From this address on, up to before `end`; both are zero for all there is.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// The hardware.
    pub hardware: &'a dyn HardwareModel,
}

impl TableEntry {
    /// Whether two entries mean the same to an engine: what is behind one that is not valid, or
    /// reads as zero, does not matter.
    pub fn same(&self, other: &TableEntry) -> bool {
        match (self.valid, self.zero) {
            _ if self.valid != other.valid => false,
            (false, _) => true,
            _ if self.zero != other.zero => false,
            (_, true) => true,
            _ => self == other,
        }
    }
}
