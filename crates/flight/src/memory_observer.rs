//! Somebody who looks at the bytes that paging work moves, and can do nothing about them.

use crate::{HardwareModel, PageTableWrite, Ram, Run, Subject, TlbFlush};

/// What an operation does to an allocation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingMovement {
    /// They come from the system's memory to the GPU's address.
    PageIn,
    /// They go from the GPU's address to the system's memory.
    PageOut,
    /// All become zero, at the GPU's address.
    Fill,
    /// Pages of the system's memory are shown at the GPU's address.
    Map,
    /// The GPU's address shows the dummy page.
    Unmap,
    /// They are of no use any more.
    Thrown,
    /// They come from another place of the GPU's memory, to the GPU's address.
    Relocate,
}

/// An operation on an allocation.
#[derive(Clone, Copy)]
pub struct PagingMove<'a> {
    /// The paging work it is part of.
    pub paging: Subject,
    /// The allocation.
    pub of: Subject,
    /// What is done.
    pub movement: PagingMovement,
    /// The GPU's address.
    pub address: u64,
    /// The one they come from, where they are shifted.
    pub from: Option<u64>,
    /// Where the part begins that is moved at virtual addresses, if it is moved there.
    pub part: Option<u64>,
    /// Its pages in the system's memory.
    pub runs: &'a [Run],
    /// How many bytes.
    pub bytes: u64,
    /// The CPU may look at them, and they lie in a line (`CpuVisible` without `Swizzled`).
    pub linear: bool,
    /// They are thrown away since a client said that the GPU has not written to them: the
    /// system's memory has them.
    pub not_written: bool,
    /// The page that apertures show where nothing is mapped.
    pub dummy: u64,
    /// The hardware.
    pub hardware: &'a dyn HardwareModel,
    /// The system's memory.
    pub ram: &'a dyn Ram,
}

/// Looks on.
pub trait MemoryObserver: Send + Sync {
    /// The driver is about to be asked for the first time.
    fn paging_started(&self, it: &PagingMove<'_>);

    /// The hardware says that it is done.
    fn paging_finished(&self, it: &PagingMove<'_>);

    /// A client's work goes to the hardware: what is resident may change.
    fn packet_ran(&self);

    /// The driver is about to be asked to write entries of a page table.
    fn table_write_started(&self, _it: &PageTableWrite<'_>) {}

    /// They are written: the hardware says so, or the driver has returned where the CPU writes.
    fn table_write_finished(&self, _it: &PageTableWrite<'_>) {}

    /// A table is gone, or nobody knows what is in it.
    fn table_forgotten(&self, _table: (u32, u64), _of: Subject) {}

    /// Translations are forgotten: the hardware says so.
    fn tlb_flushed(&self, _it: &TlbFlush<'_>) {}

    /// A client's CPU may write to an allocation, or it is gone: nothing is known of it.
    fn forget(&self, of: Subject);
}
