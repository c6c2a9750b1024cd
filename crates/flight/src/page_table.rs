//! Page-table operations as the memory observer sees them: entries and flushes.

use crate::{HardwareModel, Subject};

/// The root page table of an address space, as the hardware receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableRoot {
    /// Its one-based segment.
    pub segment: u32,
    /// Offset from the segment's base.
    pub offset: u64,
    /// Number of entries. An address past the last one faults.
    pub entries: u32,
}

/// An entry of a page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEntry {
    /// The entry is valid.
    pub valid: bool,
    /// Reads return zero, writes are lost.
    pub zero: bool,
    /// Writes are forbidden.
    pub read_only: bool,
    /// The segment of the page or table; zero is system memory.
    pub segment: u32,
    /// The number of the 4096-byte page in the segment.
    pub page: u64,
}

/// Page-table entries that a driver was called to write.
#[derive(Clone, Copy)]
pub struct PageTableWrite<'a> {
    /// The paging work it belongs to.
    pub paging: Subject,
    /// The address space, or its process.
    pub of: Subject,
    /// The process of the address space; `None` is the system.
    pub process: Option<Subject>,
    /// The level of the table: zero is the leaf level.
    pub level: u32,
    /// The one-based segment of the table, and its offset from the segment's base.
    pub table: (u32, u64),
    /// The first entry.
    pub first: u32,
    /// Number of entries.
    pub count: u32,
    /// The required entries: one each, or a single one for all (`repeat`).
    pub entries: &'a [TableEntry],
    /// The driver received a single entry for all.
    pub repeat: bool,
    /// The CPU writes them: they are written when the driver returns.
    pub by_cpu: bool,
    /// The first address that they translate.
    pub address: u64,
    /// The hardware.
    pub hardware: &'a dyn HardwareModel,
}

/// Translations that a driver was called to flush.
#[derive(Clone, Copy)]
pub struct TlbFlush<'a> {
    /// The paging work it belongs to.
    pub paging: Subject,
    /// The address space, or its process.
    pub of: Subject,
    /// The process of the address space; `None` is the system.
    pub process: Option<Subject>,
    /// Its root.
    pub root: TableRoot,
    /// Number of address bits that index a table, by level, leaf level first.
    pub index_bits: &'a [u32],
    /// The first address; `end` is exclusive. Both are zero for a complete flush.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// The hardware.
    pub hardware: &'a dyn HardwareModel,
}

impl TableEntry {
    /// Whether two entries mean the same to an engine: the target of an invalid or zero entry does
    /// not matter.
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
