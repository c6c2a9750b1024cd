//! Packets with allocation lists: the arguments to render, patch and submit them (WDDM 1.x).
//!
//! A client writes commands that refer to allocations of a list. The driver translates them into
//! hardware commands (`DxgkDdiRender`) and returns the patch locations of addresses. The kernel
//! makes the allocations resident, the driver writes their addresses (`DxgkDdiPatch`), and the
//! hardware gets the buffer (`DxgkDdiSubmitCommand`).

use crate::ddi::miniport::DriverContext;
use flight::Fence;
use std::cell::RefCell;
use std::ops::Range;

/// The buffer sizes of a context (`DXGK_CONTEXTINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSizes {
    /// Size in bytes of the command buffer and of the DMA buffer.
    pub commands: u32,
    /// Size in bytes of the driver's private data of each buffer.
    pub private: u32,
    /// Maximum number of allocations of a packet.
    pub allocation_list: u32,
    /// Maximum number of patch locations.
    pub patches: u32,
    /// Commands that fit into the client's buffer always fit into the DMA buffer
    /// (`GuaranteedDmaBufferContract`, which a driver declares for a device).
    pub guaranteed: bool,
}

/// One render call for a client's commands (`DxgkDdiRender`).
///
/// Commands that do not fit are no error: the driver returns that, keeps its position in
/// `multipass`, and is called again with another buffer. Each buffer becomes a packet.
pub struct RenderArgs<'a> {
    /// The context.
    pub context: &'a DriverContext,
    /// The client's commands. The client can change them at any time.
    pub commands: &'a UserMemory<u8>,
    /// The allocations that they use.
    pub allocation_list: &'a [AllocationListEntry],
    /// The client's patch locations. The client can change them, too.
    pub patch_locations: &'a UserMemory<PatchLocation>,
    /// The DMA buffer for the hardware commands.
    pub buffer: &'a mut [u8],
    /// The hardware's address of the DMA buffer.
    pub address: u64,
    /// The driver's private data of this buffer.
    pub private: &'a mut [u8],
    /// Output: number of bytes that the driver wrote, also if the room did not suffice.
    pub written: u32,
    /// Output: the patch locations, in the order of the commands.
    pub patches: Vec<PatchLocation>,
    /// Maximum number of patch locations.
    pub max_patches: u32,
    /// The driver's position in the commands, until it is done; initially zero.
    pub multipass: &'a mut u32,
}

/// An allocation that a packet uses (`DXGK_ALLOCATIONLIST`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationListEntry {
    /// The driver handle of the view (`hDeviceSpecificAllocation`).
    pub view_handle: usize,
    /// The packet writes to it.
    pub write: bool,
    /// The segment it is in; zero: it is in none, and its address is not known yet.
    pub segment: u32,
    /// GPU address.
    pub address: u64,
}

/// A location in a packet's commands that holds an address (`D3DDDI_PATCHLOCATIONLIST`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchLocation {
    /// The allocation, by its index in the list.
    pub allocation_index: u32,
    /// The driver's number of the use.
    pub slot_id: u32,
    /// For the driver's use.
    pub driver_id: u32,
    /// Offset in the allocation.
    pub allocation_offset: u32,
    /// Offset in the commands.
    pub patch_offset: u32,
    /// Offset at which the commands can be split before this location.
    pub split_offset: u32,
}

/// One patch call for a packet (`DxgkDdiPatch`).
pub struct PatchArgs<'a> {
    /// The context; `None` for paging work, which has no lists.
    pub context: Option<&'a DriverContext>,
    /// The allocations it uses, with their current locations.
    pub allocation_list: &'a [AllocationListEntry],
    /// The patch locations.
    pub patches: &'a [PatchLocation],
    /// The whole buffer.
    pub buffer: &'a mut [u8],
    /// The hardware's address of the buffer.
    pub address: u64,
    /// The submitted part. The driver writes only there.
    pub submitted: Range<u32>,
    /// The driver's private data of this buffer.
    pub private: &'a mut [u8],
    /// The packet's fence on its node.
    pub fence: Fence,
    /// The commands are not executed (`NullRendering`).
    pub null: bool,
}

/// A packet with lists to submit to the hardware (`DxgkDdiSubmitCommand`).
#[derive(Clone)]
pub struct SubmitCommandArgs<'a> {
    /// The context.
    pub context: &'a DriverContext,
    /// The node it goes to.
    pub node: u32,
    /// Its fence on that node.
    pub fence: Fence,
    /// Address of its buffer in system memory.
    pub address: u64,
    /// Size of the buffer in bytes.
    pub size: u32,
    /// The submitted part of the buffer.
    pub submitted: Range<u32>,
    /// The driver's private data of this buffer.
    pub private: &'a [u8],
    /// The commands are not executed, but the fence is signaled (`NullRendering`).
    pub null: bool,
}

/// User-mode memory: a driver that reads it twice gets two different values.
#[derive(Debug)]
pub struct UserMemory<T> {
    items: Vec<T>,
    corrupt: fn(T) -> T,
    reads: RefCell<ReadTracker>,
}

#[derive(Debug, Default)]
struct ReadTracker {
    read: Vec<bool>,
    read_twice: Option<usize>,
}

impl<T: Copy> UserMemory<T> {
    fn new(items: Vec<T>, corrupt: fn(T) -> T) -> Self {
        let once = vec![false; items.len()];
        Self { items, corrupt, reads: RefCell::new(ReadTracker { read: once, read_twice: None }) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Reads a part of it, or returns `None` if the range is out of bounds. The elements change
    /// after each read.
    pub fn fetch(&self, range: Range<usize>) -> Option<Vec<T>> {
        let items = self.items.get(range.clone())?;
        let mut seen = self.reads.borrow_mut();
        let mut found = Vec::with_capacity(items.len());
        for (at, item) in range.zip(items) {
            let before = seen.read.get_mut(at).is_some_and(|flag| std::mem::replace(flag, true));
            if before && seen.read_twice.is_none() {
                seen.read_twice = Some(at);
            }
            found.push(if before { (self.corrupt)(*item) } else { *item });
        }
        Some(found)
    }

    /// The first element that was read twice.
    pub(crate) fn read_twice(&self) -> Option<usize> {
        self.reads.borrow().read_twice
    }
}

impl UserMemory<u8> {
    /// A client's commands.
    pub fn commands(bytes: Vec<u8>) -> Self {
        Self::new(bytes, |byte| !byte)
    }
}

impl UserMemory<PatchLocation> {
    /// A client's patch locations.
    pub fn locations(list: Vec<PatchLocation>) -> Self {
        Self::new(list, |patch_location| PatchLocation {
            allocation_index: !patch_location.allocation_index,
            ..patch_location
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_read_returns_another_value() {
        let memory = UserMemory::commands(vec![1, 2, 3, 4]);
        assert_eq!((memory.fetch(0..2), memory.read_twice()), (Some(vec![1, 2]), None));
        assert_eq!((memory.fetch(2..4), memory.read_twice()), (Some(vec![3, 4]), None));
        assert_eq!(memory.fetch(3..5), None);
        assert_eq!((memory.fetch(1..2), memory.read_twice()), (Some(vec![!2]), Some(1)));
    }
}
