//! Packets with lists: what a driver is given to render, to patch and to start (WDDM 1.x).
//!
//! A client writes commands that name allocations of a list. The driver writes commands for the
//! hardware instead (`DxgkDdiRender`), and says at which places of them addresses are. The kernel
//! has the allocations in place, the driver writes where they are (`DxgkDdiPatch`), and the
//! hardware gets the buffer (`DxgkDdiSubmitCommand`).

use crate::ddi::miniport::DriverContext;
use flight::Fence;
use std::cell::RefCell;
use std::ops::Range;

/// How large the buffers of a context are (`DXGK_CONTEXTINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSizes {
    /// How many bytes the commands have, the client's and the hardware's.
    pub commands: u32,
    /// How many bytes of its own the driver keeps with each buffer.
    pub private: u32,
    /// How many allocations a packet names at most.
    pub allocation_list: u32,
    /// At how many places of its commands, at most.
    pub patches: u32,
    /// What fits into the client's buffer always fits into the hardware's
    /// (`GuaranteedDmaBufferContract`, which a driver says of a device).
    pub guaranteed: bool,
}

/// A driver's turn at a client's commands (`DxgkDdiRender`).
///
/// What does not fit is no error: the driver says so, keeps where it was in `multipass`, and is
/// asked again with another buffer. Each buffer becomes a packet.
pub struct RenderArgs<'a> {
    /// The context they are of.
    pub context: &'a DriverContext,
    /// The client's commands. It can change them at any time.
    pub commands: &'a UserMemory<u8>,
    /// What they use.
    pub allocation_list: &'a [AllocationListEntry],
    /// Where the client's commands name it. The client can change that, too.
    pub patch_locations: &'a UserMemory<PatchLocation>,
    /// Where the hardware's commands go.
    pub buffer: &'a mut [u8],
    /// Where that is, for the hardware.
    pub address: u64,
    /// The driver's own bytes of this buffer.
    pub private: &'a mut [u8],
    /// How many bytes the driver wrote: its answer, also when there was not enough room.
    pub written: u32,
    /// Where addresses are in them: its answer, in the order of the commands.
    pub patches: Vec<PatchLocation>,
    /// How many those may be.
    pub max_patches: u32,
    /// What the driver wants to remember until it is through; zero at first.
    pub multipass: &'a mut u32,
}

/// An allocation that a packet uses (`DXGK_ALLOCATIONLIST`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationListEntry {
    /// The driver's word for the view (`hDeviceSpecificAllocation`).
    pub view_handle: usize,
    /// The packet writes to it.
    pub write: bool,
    /// The segment it is in; zero: it is in none, and its address is not known yet.
    pub segment: u32,
    /// Where, in the GPU's addresses.
    pub address: u64,
}

/// A place of a packet's commands where an address is (`D3DDDI_PATCHLOCATIONLIST`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchLocation {
    /// Of which allocation, by its place in the list.
    pub allocation_index: u32,
    /// The driver's number of the use.
    pub slot_id: u32,
    /// The driver's own.
    pub driver_id: u32,
    /// How far into the allocation.
    pub allocation_offset: u32,
    /// Where in the commands.
    pub patch_offset: u32,
    /// Where the commands can be cut so that this one comes behind.
    pub split_offset: u32,
}

/// A driver's turn at the addresses of a packet (`DxgkDdiPatch`).
pub struct PatchArgs<'a> {
    /// The context it is of; none: it is paging work, and has no lists.
    pub context: Option<&'a DriverContext>,
    /// What it uses, and where that is now.
    pub allocation_list: &'a [AllocationListEntry],
    /// Where its commands say so.
    pub patches: &'a [PatchLocation],
    /// The whole buffer.
    pub buffer: &'a mut [u8],
    /// Where that is, for the hardware.
    pub address: u64,
    /// The part of it that is submitted: only there the driver writes.
    pub submitted: Range<u32>,
    /// The driver's own bytes of this buffer.
    pub private: &'a mut [u8],
    /// The packet's number on its node.
    pub fence: Fence,
    /// Its commands are not to be done (`NullRendering`).
    pub null: bool,
}

/// A packet with lists, on its way to the hardware (`DxgkDdiSubmitCommand`).
#[derive(Clone)]
pub struct SubmitCommandArgs<'a> {
    /// The context it is of.
    pub context: &'a DriverContext,
    /// The node it goes to.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Where its buffer is, in the machine's memory.
    pub address: u64,
    /// How many bytes that has.
    pub size: u32,
    /// The part of it that is submitted.
    pub submitted: Range<u32>,
    /// The driver's own bytes of this buffer.
    pub private: &'a [u8],
    /// Its commands are not to be done, but its fence is (`NullRendering`).
    pub null: bool,
}

/// A client's memory: whoever looks twice may see two things, and does.
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

    /// How much there is.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Reads a part of it, or nothing where some of it is outside. What was read before is
    /// another thing by now.
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

    /// The first that was read twice.
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
    fn who_looks_twice_sees_two_things() {
        let memory = UserMemory::commands(vec![1, 2, 3, 4]);
        assert_eq!((memory.fetch(0..2), memory.read_twice()), (Some(vec![1, 2]), None));
        assert_eq!((memory.fetch(2..4), memory.read_twice()), (Some(vec![3, 4]), None));
        assert_eq!(memory.fetch(3..5), None);
        assert_eq!((memory.fetch(1..2), memory.read_twice()), (Some(vec![!2]), Some(1)));
    }
}
