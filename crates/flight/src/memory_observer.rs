//! The memory observer: checks the bytes that paging work moves, without any effect on them.
//!
//! Hardware without a model cannot be asked for its bytes. The observer then gets the memory that the
//! CPU sees, and of a transfer out of other memory the pattern that its destination had before.

use crate::{HardwareModel, PageTableWrite, Ram, RuleId, Run, Subject, TlbFlush};

/// The effect of a paging operation on an allocation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingMovement {
    /// Copied from system memory to the GPU address.
    PageIn,
    /// Copied from the GPU address to system memory.
    PageOut,
    /// Zeroed at the GPU address.
    Fill,
    /// Pages of system memory are mapped at the GPU address.
    Map,
    /// The dummy page is mapped at the GPU address.
    Unmap,
    /// Discarded.
    Thrown,
    /// Moved from another GPU address to this one.
    Relocate,
}

/// Memory of the GPU that the CPU sees at physical addresses (`CpuTranslatedAddress`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuVisibleMemory {
    /// The first GPU address.
    pub address: u64,
    /// Its physical address.
    pub physical: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl CpuVisibleMemory {
    /// The physical address of a range of GPU addresses, if all of it is in this memory.
    pub fn physical_address(&self, address: u64, bytes: u64) -> Option<u64> {
        let offset = address.checked_sub(self.address)?;
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then(|| self.physical.checked_add(offset))?
    }
}

/// A paging operation on an allocation.
#[derive(Clone, Copy)]
pub struct PagingMove<'a> {
    /// The paging work it belongs to.
    pub paging: Subject,
    /// The allocation.
    pub of: Subject,
    /// The effect.
    pub movement: PagingMovement,
    /// The GPU address.
    pub address: u64,
    /// The source address of a relocation.
    pub from: Option<u64>,
    /// The start of the part that is moved at virtual addresses, if it is.
    pub part: Option<u64>,
    /// The allocation's pages in system memory.
    pub runs: &'a [Run],
    /// Number of bytes.
    pub bytes: u64,
    /// The pages are memory of a client, which may change the bytes at any time.
    pub is_clients: bool,
    /// The CPU may access the bytes, and they are linear (`CpuVisible` without `Swizzled`).
    pub linear: bool,
    /// They are discarded because a client reported that the GPU has not written to them: system
    /// memory has a copy.
    pub not_written: bool,
    /// The page that apertures map where nothing else is mapped.
    pub dummy: u64,
    /// The hardware.
    pub hardware: &'a dyn HardwareModel,
    /// The memory of hardware without a model that the CPU sees.
    pub visible: &'a [CpuVisibleMemory],
    /// The pattern of 32 bits that the pages in system memory are filled with, if this transfer out
    /// must overwrite it.
    pub pattern: Option<u32>,
    /// System memory.
    pub ram: &'a dyn Ram,
}

/// A packet of a client that is done, and that ran alone: no other packet ran since it was submitted.
#[derive(Clone, Copy)]
pub struct FinishedPacket<'a> {
    /// Its context.
    pub context: Subject,
    /// All commands of the client that it has.
    pub commands: &'a [u8],
    /// Its allocation list.
    pub uses: &'a [PacketUse],
    /// The rule on the addresses in the packet, and the argument that it is about.
    pub rule: (RuleId, &'static str),
    /// The memory of hardware without a model that the CPU sees.
    pub visible: &'a [CpuVisibleMemory],
    /// System memory.
    pub ram: &'a dyn Ram,
}

/// An allocation that a packet can use.
#[derive(Clone, Debug)]
pub struct PacketUse {
    /// The allocation, or an instance of it.
    pub of: Subject,
    /// The client's handle of it.
    pub handle: u32,
    /// Number of bytes; zero if nothing is known of them.
    pub bytes: u64,
    /// The GPU address.
    pub address: u64,
    /// The pages that an aperture maps there.
    pub pages: Vec<Run>,
}

/// Observes memory content.
pub trait MemoryObserver: Send + Sync {
    /// The driver is about to be called for the operation for the first time.
    fn paging_started(&self, it: &PagingMove<'_>);

    /// The hardware has completed the operation.
    fn paging_finished(&self, it: &PagingMove<'_>);

    /// A client's packet is submitted to the hardware: resident content may change.
    fn packet_ran(&self);

    /// A packet with an allocation list is done, on hardware without a model.
    fn packet_finished(&self, _it: &FinishedPacket<'_>) {}

    /// The driver is about to be called to write page-table entries.
    fn table_write_started(&self, _it: &PageTableWrite<'_>) {}

    /// The entries are written: the hardware has completed them, or the driver has returned if the
    /// CPU writes.
    fn table_write_finished(&self, _it: &PageTableWrite<'_>) {}

    /// A table is destroyed, or its content is unknown.
    fn table_forgotten(&self, _table: (u32, u64), _of: Subject) {}

    /// Translations are flushed: the hardware has completed it.
    fn tlb_flushed(&self, _it: &TlbFlush<'_>) {}

    /// The content of an allocation is unknown: a client's CPU may write to it, or it is destroyed.
    fn forget(&self, of: Subject);
}
