//! The buffers of a WDDM 1.x context: the command buffer, the allocation list and the patch
//! location list.

use crate::memory::{Memory, MemoryAccess};
use abi::D3DKMT_HANDLE;
use abi::ukm::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use core::ffi::c_void;

/// A context's buffers, which the runtime owns.
///
/// Every [`Callbacks::render`](crate::Callbacks::render) replaces them. A driver that keeps a clone
/// keeps the old buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextBuffers {
    commands: Memory,
    allocations: Memory,
    patches: Memory,
    counts: (u32, u32, u32),
}

impl ContextBuffers {
    pub(crate) fn new(
        host: MemoryAccess,
        commands: (*mut c_void, u32),
        list: (*mut D3DDDI_ALLOCATIONLIST, u32),
        patches: (*mut D3DDDI_PATCHLOCATIONLIST, u32),
    ) -> Self {
        let entries = |count: u32, size: usize| (count as usize).saturating_mul(size);
        let (lists, patched) = (
            entries(list.1, size_of::<D3DDDI_ALLOCATIONLIST>()),
            entries(patches.1, size_of::<D3DDDI_PATCHLOCATIONLIST>()),
        );
        Self {
            commands: Memory::new(host, commands.0.expose_provenance(), commands.1 as usize),
            allocations: Memory::new(host, list.0.expose_provenance(), lists),
            patches: Memory::new(host, patches.0.expose_provenance(), patched),
            counts: if commands.0.is_null() { (0, 0, 0) } else { (commands.1, list.1, patches.1) },
        }
    }

    /// The size of the command buffer in bytes (`CommandBufferSize`).
    pub fn command_capacity(&self) -> u32 {
        self.counts.0
    }

    /// The number of entries in the allocation list (`AllocationListSize`).
    pub fn allocation_capacity(&self) -> u32 {
        self.counts.1
    }

    /// The number of entries in the patch location list (`PatchLocationListSize`).
    pub fn patch_capacity(&self) -> u32 {
        self.counts.2
    }

    /// Writes commands. Returns whether they fit.
    #[must_use]
    pub fn write(&self, offset: u32, bytes: &[u8]) -> bool {
        self.commands.write(offset as usize, bytes)
    }

    /// Adds an allocation to the list, and whether it is written. Returns whether there is room.
    #[must_use]
    pub fn add_allocation(&self, index: u32, allocation: D3DKMT_HANDLE, write_table: bool) -> bool {
        let words = [allocation, write_table.into()];
        write_entry(&self.allocations, index, size_of::<D3DDDI_ALLOCATIONLIST>(), &words)
    }

    /// Adds a patch location: the entry in the allocation list, the offset in that allocation, and
    /// the offset in the commands. Returns whether there is room.
    #[must_use]
    pub fn add_patch_location(&self, index: u32, entry: u32, offset: u32, place: u32) -> bool {
        let words = [entry, 0, 0, offset, place, place];
        write_entry(&self.patches, index, size_of::<D3DDDI_PATCHLOCATIONLIST>(), &words)
    }
}

fn write_entry(to: &Memory, index: u32, size: usize, words: &[u32]) -> bool {
    let bytes: Vec<u8> = words.iter().flat_map(|number| number.to_ne_bytes()).collect();
    to.write((index as usize).saturating_mul(size), &bytes)
}
