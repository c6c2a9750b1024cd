//! Paging operations: the commands that a driver builds (`DxgkDdiBuildPagingBuffer`).

use crate::ddi::mmu::{EntryCopy, TableUpdate};
use flight::{Fence, Run};

/// One build call for an operation: the driver writes commands and returns how far it came.
///
/// Commands that do not fit are no error: the driver returns that, keeps its position in
/// `multipass`, and is called again with the next buffer.
#[derive(Debug)]
pub struct BuildPagingBufferArgs<'a> {
    /// The operation.
    pub operation: Operation<'a>,
    /// The unused rest of the buffer.
    pub buffer: &'a mut [u8],
    /// The hardware's address of that rest.
    pub address: u64,
    /// Number of command bytes before it in the same buffer.
    pub used: u32,
    /// Output: number of bytes that the driver wrote, also if the room did not suffice.
    pub written: u32,
    /// The driver's position in the operation, until the operation is complete; initially zero.
    pub multipass: &'a mut u32,
    /// The driver's private data of this buffer.
    pub private: &'a mut [u8],
}

/// An operation. A `driver_handle` is the driver handle of the allocation: its `hAllocation`, or
/// the driver's handle of a context allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Moves bytes (`DXGK_OPERATION_TRANSFER`).
    Transfer(Transfer<'a>),
    /// Fills an allocation in memory (`DXGK_OPERATION_FILL`).
    Fill {
        /// The allocation.
        driver_handle: usize,
        /// Its segment.
        segment: u32,
        /// GPU address.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The fill pattern.
        pattern: u32,
    },
    /// The content is not needed any more (`DXGK_OPERATION_DISCARD_CONTENT`).
    Discard {
        /// The allocation.
        driver_handle: usize,
        /// Its segment.
        segment: u32,
        /// GPU address.
        address: u64,
        /// No packet uses it, and none will while the operation is built.
        idle: bool,
    },
    /// Maps pages into an aperture (`DXGK_OPERATION_MAP_APERTURE_SEGMENT`).
    MapAperture {
        /// The allocation; `None` for a buffer of the kernel.
        driver_handle: Option<usize>,
        /// The aperture.
        segment: u32,
        /// The first page in the aperture.
        page: u64,
        /// The pages, in order.
        pages: Pages<'a>,
        /// They are cached: the GPU must snoop.
        coherent: bool,
    },
    /// Unmaps pages of an aperture (`DXGK_OPERATION_UNMAP_APERTURE_SEGMENT`).
    UnmapAperture {
        /// The allocation; `None` for a buffer of the kernel.
        driver_handle: Option<usize>,
        /// The aperture.
        segment: u32,
        /// The first page in the aperture.
        page: u64,
        /// Number of pages.
        pages: u64,
        /// The system page to map instead (`DummyPage`).
        dummy: u64,
    },
    /// Initializes a context allocation (`DXGK_OPERATION_INIT_CONTEXT_RESOURCE`).
    InitContext {
        /// The context allocation.
        driver_handle: usize,
        /// Its segment and GPU address.
        location: TransferEnd<'a>,
        /// Its CPU address, if the driver requested one.
        cpu: Option<usize>,
        /// Number of bytes.
        bytes: u64,
    },
    /// Updates a context allocation (`DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION`).
    UpdateContext {
        /// The context allocation.
        driver_handle: usize,
        /// Its location.
        location: TransferEnd<'a>,
        /// Number of bytes.
        bytes: u64,
        /// The private data that the driver passed with its request.
        private: &'a [u8],
    },
    /// An allocation became resident or is about to be evicted (`DXGK_OPERATION_NOTIFY_RESIDENCY`).
    Notify {
        /// The allocation.
        driver_handle: usize,
        /// The segment it is or was in.
        segment: u32,
        /// Its address there.
        address: u64,
        /// It became resident.
        resident: bool,
    },
    /// Writes entries of a page table (`DXGK_OPERATION_UPDATE_PAGE_TABLE`). A CPU update has no
    /// buffer and is complete when the call returns.
    UpdateTable(TableUpdate<'a>),
    /// Flushes translations (`DXGK_OPERATION_FLUSH_TLB`).
    FlushTlb {
        /// The driver handle of the process.
        process: usize,
        /// The segment of its root page table, and the root's offset from the segment's base.
        root: (u32, u64),
        /// First address.
        start: u64,
        /// End address. Both are zero for a complete flush.
        end: u64,
    },
    /// Copies entries from table to table (`DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES`).
    CopyEntries(&'a [EntryCopy]),
    /// Copies bytes between addresses of the system's address space
    /// (`DXGK_OPERATION_VIRTUAL_TRANSFER`).
    VirtualTransfer {
        /// The allocation; `None` for a plain copy.
        driver_handle: Option<usize>,
        /// Offset in the allocation, for information: the addresses already include it.
        offset: u64,
        /// Source address.
        from: u64,
        /// Destination address.
        to: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Fills bytes of the system's address space (`DXGK_OPERATION_VIRTUAL_FILL`).
    VirtualFill {
        /// The allocation.
        driver_handle: Option<usize>,
        /// Offset in the allocation, for information: the addresses already include it.
        offset: u64,
        /// GPU virtual address.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The fill pattern.
        pattern: u32,
    },
}

/// A transfer of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct Transfer<'a> {
    /// The allocation; `None` for a plain copy.
    pub driver_handle: Option<usize>,
    /// Offset in the allocation.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The source.
    pub from: TransferEnd<'a>,
    /// The destination.
    pub to: TransferEnd<'a>,
    /// It is the first part of a transfer.
    pub start: bool,
    /// It is the last part.
    pub end: bool,
    /// No packet uses the allocation, and none will while the operation is built.
    pub idle: bool,
    /// It serves a lock at another address (`DXGK_OPERATION_SPECIAL_LOCK_TRANSFER`).
    pub special_lock: bool,
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd<'a> {
    /// In a segment, at a GPU address that includes the segment's base.
    Segment {
        /// The segment.
        number: u32,
        /// The address.
        address: u64,
    },
    /// In system memory (an MDL).
    System(Pages<'a>),
}

/// Pages of system memory, in the order of an allocation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages<'a> {
    /// The pieces of the whole allocation.
    pub runs: &'a [Run],
    /// The first page of the operation, within the allocation.
    pub first: u64,
    /// Number of pages of the operation.
    pub count: u64,
}

/// The size of a page.
pub const PAGE: u64 = 4096;

impl Pages<'_> {
    /// The physical addresses of these pages.
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

/// A buffer of paging commands to submit (`DxgkDdiSubmitCommand` without a context). Without
/// commands, it only ends the current context of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmitPagingArgs<'a> {
    /// The node.
    pub node: u32,
    /// Its fence on that node.
    pub fence: Fence,
    /// Address of the commands in system memory.
    pub commands: u64,
    /// Length of the commands in bytes.
    pub length: u32,
    /// The driver's private data of this buffer.
    pub private: &'a [u8],
    /// It ends the time slice of the node's current context.
    pub switch: bool,
}

/// A driver's request for a context allocation (`DXGKARGCB_CREATECONTEXTALLOCATION`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateContextAllocationArgs {
    /// The kernel's handle of the device, which the driver received when it created the device.
    pub device: usize,
    /// The kernel's handle of the context; zero if the allocation is for all contexts of the
    /// device.
    pub context: usize,
    /// For all contexts of the device.
    pub shared: bool,
    /// Size in bytes.
    pub size: u64,
    /// Alignment; zero means a page.
    pub alignment: u64,
    /// Placement requirements.
    pub requirements: crate::ddi::segment::PlacementRequirements,
    /// The driver's handle, which paging operations pass back.
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
