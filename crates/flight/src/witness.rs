//! Somebody who looks at the bytes that paging work moves, and can do nothing about them.

use crate::{Flushed, Machine, Ram, Run, Subject, Tabled};

/// What an operation does to an allocation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// They come from the system's memory to the GPU's address.
    Comes,
    /// They go from the GPU's address to the system's memory.
    Leaves,
    /// All become zero, at the GPU's address.
    Filled,
    /// Pages of the system's memory are shown at the GPU's address.
    Mapped,
    /// The GPU's address shows the dummy page.
    Unmapped,
    /// They are of no use any more.
    Thrown,
    /// They come from another place of the GPU's memory, to the GPU's address.
    Shifted,
}

/// An operation on an allocation.
#[derive(Clone, Copy)]
pub struct Moving<'a> {
    /// The paging work it is part of.
    pub paging: Subject,
    /// The allocation.
    pub of: Subject,
    /// What is done.
    pub movement: Movement,
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
    pub unwritten: bool,
    /// The page that apertures show where nothing is mapped.
    pub dummy: u64,
    /// The hardware.
    pub machine: &'a dyn Machine,
    /// The system's memory.
    pub ram: &'a dyn Ram,
}

/// Looks on.
pub trait Witness: Send + Sync {
    /// The driver is about to be asked for the first time.
    fn begins(&self, it: &Moving<'_>);

    /// The hardware says that it is done.
    fn ends(&self, it: &Moving<'_>);

    /// A client's work goes to the hardware: what is resident may change.
    fn works(&self);

    /// The driver is about to be asked to write entries of a page table.
    fn table_begins(&self, _it: &Tabled<'_>) {}

    /// They are written: the hardware says so, or the driver has returned where the CPU writes.
    fn table_ends(&self, _it: &Tabled<'_>) {}

    /// A table is gone, or nobody knows what is in it.
    fn table_forgotten(&self, _table: (u32, u64), _of: Subject) {}

    /// Translations are forgotten: the hardware says so.
    fn flushed(&self, _it: &Flushed<'_>) {}

    /// A client's CPU may write to an allocation, or it is gone: nothing is known of it.
    fn forget(&self, of: Subject);
}
