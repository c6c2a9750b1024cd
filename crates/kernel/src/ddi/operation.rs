//! Paging operations: what a driver is asked to write commands for (`DxgkDdiBuildPagingBuffer`).

use crate::ddi::mmu::{EntryCopy, TableUpdate};
use flight::{Fence, Run};

/// A driver's turn at an operation: it writes commands, and says how far it came.
///
/// What does not fit is no error: the driver says so, keeps where it was in `multipass`, and is
/// asked again with the next buffer.
#[derive(Debug)]
pub struct BuildPagingBufferArgs<'a> {
    /// What the commands must do.
    pub operation: Operation<'a>,
    /// Where they go: the rest of the buffer.
    pub buffer: &'a mut [u8],
    /// Where the buffer's rest begins, for the hardware.
    pub address: u64,
    /// How many bytes of commands lie before it in the same buffer.
    pub used: u32,
    /// How many bytes the driver wrote: its answer, also when there was not enough room.
    pub written: u32,
    /// What the driver wants to remember until the operation is done; zero at first.
    pub multipass: &'a mut u32,
    /// The driver's own bytes of this buffer.
    pub private: &'a mut [u8],
}

/// What to do. A `word` is the driver's for the allocation: its `hAllocation`, or what it gave
/// for an allocation of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Moves bytes (`DXGK_OPERATION_TRANSFER`).
    Transfer(Transfer<'a>),
    /// Fills an allocation in memory (`DXGK_OPERATION_FILL`).
    Fill {
        /// Which.
        driver_handle: usize,
        /// Its segment.
        segment: u32,
        /// Where, in the GPU's addresses.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// With what.
        pattern: u32,
    },
    /// The bytes are of no use any more (`DXGK_OPERATION_DISCARD_CONTENT`).
    Discard {
        /// Which.
        driver_handle: usize,
        /// Its segment.
        segment: u32,
        /// Where, in the GPU's addresses.
        address: u64,
        /// No packet uses it, and none will while this is built.
        idle: bool,
    },
    /// Makes pages visible in an aperture (`DXGK_OPERATION_MAP_APERTURE_SEGMENT`).
    MapAperture {
        /// Which; none is a buffer of the kernel's own.
        driver_handle: Option<usize>,
        /// The aperture.
        segment: u32,
        /// The first page in it.
        page: u64,
        /// The pages, in order.
        pages: Pages<'a>,
        /// They are cached: the GPU must snoop.
        coherent: bool,
    },
    /// Takes pages out of an aperture (`DXGK_OPERATION_UNMAP_APERTURE_SEGMENT`).
    UnmapAperture {
        /// Which; none is a buffer of the kernel's own.
        driver_handle: Option<usize>,
        /// The aperture.
        segment: u32,
        /// The first page in it.
        page: u64,
        /// How many.
        pages: u64,
        /// What to show instead: a page of the machine's memory.
        dummy: u64,
    },
    /// Gives an allocation of a context its first bytes (`DXGK_OPERATION_INIT_CONTEXT_RESOURCE`).
    InitContext {
        /// Which.
        driver_handle: usize,
        /// Where, in the GPU's addresses, and in which segment.
        location: TransferEnd<'a>,
        /// Where the CPU sees it, if it was asked for so.
        cpu: Option<usize>,
        /// How many bytes.
        bytes: u64,
    },
    /// Brings an allocation of a context up to date (`DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION`).
    UpdateContext {
        /// Which.
        driver_handle: usize,
        /// Where.
        location: TransferEnd<'a>,
        /// How many bytes.
        bytes: u64,
        /// What the driver gave when it asked.
        private: &'a [u8],
    },
    /// An allocation has come or is about to go (`DXGK_OPERATION_NOTIFY_RESIDENCY`).
    Notify {
        /// Which.
        driver_handle: usize,
        /// Where it is, or was, in the GPU's addresses.
        segment: u32,
        /// Its address there.
        address: u64,
        /// It has come.
        resident: bool,
    },
    /// Writes entries of a page table (`DXGK_OPERATION_UPDATE_PAGE_TABLE`). One that the CPU
    /// writes has no buffer, and is done when the call returns.
    UpdateTable(TableUpdate<'a>),
    /// Forgets what was translated (`DXGK_OPERATION_FLUSH_TLB`).
    FlushTlb {
        /// The driver's word for the process.
        process: usize,
        /// The segment of its root, and where the root is there, counted from its base.
        root: (u32, u64),
        /// From this address on.
        start: u64,
        /// Up to this one; both are zero for all there is.
        end: u64,
    },
    /// Copies entries from table to table (`DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES`).
    CopyEntries(&'a [EntryCopy]),
    /// Moves bytes between addresses of the system's address space
    /// (`DXGK_OPERATION_VIRTUAL_TRANSFER`).
    VirtualTransfer {
        /// The allocation; none is a plain copy.
        driver_handle: Option<usize>,
        /// Where in the allocation: for who wants to know, it is counted already.
        offset: u64,
        /// From where.
        from: u64,
        /// To where.
        to: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Fills bytes of the system's address space (`DXGK_OPERATION_VIRTUAL_FILL`).
    VirtualFill {
        /// The allocation.
        driver_handle: Option<usize>,
        /// Where in the allocation: for who wants to know, it is counted already.
        offset: u64,
        /// Where.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// With what.
        pattern: u32,
    },
}

/// Bytes to move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Transfer<'a> {
    /// The allocation; none is a plain copy.
    pub driver_handle: Option<usize>,
    /// Where in the allocation.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Where they are.
    pub from: TransferEnd<'a>,
    /// Where they go.
    pub to: TransferEnd<'a>,
    /// It is the first part of a move.
    pub start: bool,
    /// It is the last part.
    pub end: bool,
    /// No packet uses the allocation, and none will while this is built.
    pub idle: bool,
    /// It serves a lock with another address (`DXGK_OPERATION_SPECIAL_LOCK_TRANSFER`).
    pub special_lock: bool,
}

/// An end of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd<'a> {
    /// In a segment, at an address of the GPU's that counts the segment's base.
    Segment {
        /// Which segment.
        number: u32,
        /// Where.
        address: u64,
    },
    /// In the machine's memory (an MDL).
    System(Pages<'a>),
}

/// Pages of the machine's memory, in the order of an allocation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages<'a> {
    /// The pieces that make up the whole allocation.
    pub runs: &'a [Run],
    /// Which page of the allocation is meant first.
    pub first: u64,
    /// How many are meant.
    pub count: u64,
}

/// The size of a page.
pub const PAGE: u64 = 4096;

impl Pages<'_> {
    /// The physical addresses of the pages meant.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        let all =
            self.runs.iter().flat_map(|run| (0..run.bytes / PAGE).map(|n| run.start + n * PAGE));
        let (skip, take) = (usize::try_from(self.first), usize::try_from(self.count));
        all.skip(skip.unwrap_or(usize::MAX)).take(take.unwrap_or(usize::MAX))
    }
}

impl Operation<'_> {
    /// Its name in events and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Transfer(it) if it.special_lock => "special-lock-transfer",
            Operation::Transfer(_) => "transfer",
            Operation::Fill { .. } => "fill",
            Operation::Discard { .. } => "discard",
            Operation::MapAperture { .. } => "map-aperture",
            Operation::UnmapAperture { .. } => "unmap-aperture",
            Operation::InitContext { .. } => "init-context",
            Operation::UpdateContext { .. } => "update-context",
            Operation::Notify { .. } => "notify-residency",
            Operation::UpdateTable(_) => "update-page-table",
            Operation::FlushTlb { .. } => "flush-tlb",
            Operation::CopyEntries(_) => "copy-page-table-entries",
            Operation::VirtualTransfer { .. } => "virtual-transfer",
            Operation::VirtualFill { .. } => "virtual-fill",
        }
    }
}

/// A buffer of paging commands on its way to the hardware (`DxgkDdiSubmitCommand` with no
/// context). Without commands it asks only that no context be current on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmitPagingArgs<'a> {
    /// The node.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Where the commands are, in the machine's memory.
    pub commands: u64,
    /// How many bytes of them.
    pub length: u32,
    /// The driver's own bytes of this buffer.
    pub private: &'a [u8],
    /// It ends the time of the context that is current on the node.
    pub switch: bool,
}

/// An allocation a driver makes for its contexts (`DXGKARGCB_CREATECONTEXTALLOCATION`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateContextAllocationArgs {
    /// The kernel's name for the device, which a driver is given when it makes one.
    pub device: usize,
    /// The kernel's name for the context; zero when it is for all of the device's.
    pub context: usize,
    /// For all contexts of the device.
    pub shared: bool,
    /// How many bytes.
    pub size: u64,
    /// Its alignment; zero is a page.
    pub alignment: u64,
    /// Where it should be.
    pub requirements: crate::ddi::segment::PlacementRequirements,
    /// The driver's word for it, which comes back in operations.
    pub driver_handle: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_on_from_run_to_run() {
        let runs = [Run { start: 0x10000, bytes: 2 * PAGE }, Run { start: 0x40000, bytes: PAGE }];
        let pages = Pages { runs: &runs, first: 1, count: 2 };
        assert_eq!(pages.addresses().collect::<Vec<_>>(), [0x11000, 0x40000]);
    }
}
