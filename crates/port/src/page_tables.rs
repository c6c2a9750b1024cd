//! Page table entries, as `DxgkDdiBuildPagingBuffer` gets them.

use crate::mmu;
use crate::operation::{bit, handle_or_null, segment_offset, to_u32};
use crate::paging::OperationData;
use crate::private_data::{PrivateData, pointer};
use abi::display::{
    DXGK_BUILDPAGINGBUFFER_ABOUT as About, DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES,
    DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL, DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    DXGK_BUILDPAGINGBUFFER_OPERATION, DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL,
    DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES, DXGK_OPERATION_FLUSH_TLB,
    DXGK_OPERATION_UPDATE_PAGE_TABLE, DXGK_OPERATION_VIRTUAL_FILL, DXGK_OPERATION_VIRTUAL_TRANSFER,
    DXGK_PAGETABLEUPDATE_CPU_VIRTUAL, DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
    DXGK_PAGETABLEUPDATE_GPU_VIRTUAL, DXGK_PAGETABLEUPDATEADDRESS as Address, DXGK_PTE,
    DXGK_UPDATEPAGETABLEFLAGS as Flags,
};
use flight::{Ram, Run};
use kernel::miniport::{DriverError, DriverResult};
use kernel::mmu::{EntryCopy, PageTableEntry, TableAddress, TableUpdate};
use kernel::operation::{Operation, PAGE};
use nt::BlockKind;
use std::ptr;
use std::sync::Arc;

/// The value of a guard byte.
const GUARD: u8 = 0xfd;

/// A page table that is mapped for the CPU during a call.
pub(crate) struct MappedPageTable {
    ram: Arc<dyn Ram>,
    view: usize,
    /// The address of the table in the mapping.
    pub(crate) address: usize,
}

impl MappedPageTable {
    /// Maps a table of `bytes` bytes.
    pub(crate) fn map(ram: &Arc<dyn Ram>, start: u64, bytes: u64) -> Option<Self> {
        let inside = start % PAGE;
        let bytes = inside.checked_add(bytes)?.checked_next_multiple_of(PAGE)?;
        let view = ram.map(&[Run { start: start - inside, bytes }])?;
        let address = view + usize::try_from(inside).ok()?;
        Some(Self { ram: ram.clone(), view, address })
    }
}

impl Drop for MappedPageTable {
    fn drop(&mut self) {
        self.ram.unmap(self.view);
    }
}

/// The arguments of an operation on page tables or at virtual addresses.
pub(crate) fn table_operation_args(
    operation: &Operation<'_>,
    data: &mut OperationData,
    bases: &[u64],
) -> DriverResult<(DXGK_BUILDPAGINGBUFFER_OPERATION, About)> {
    Ok(match operation {
        Operation::UpdateTable(it) => {
            let update = update(it, data, bases)?;
            (DXGK_OPERATION_UPDATE_PAGE_TABLE, About { UpdatePageTable: update })
        }
        Operation::FlushTlb { process, root, start, end } => {
            let flush = DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
                RootPageTableAddress: mmu::segment_address(root.0, root.1),
                hProcess: pointer(*process),
                StartVirtualAddress: *start,
                EndVirtualAddress: *end,
            };
            (DXGK_OPERATION_FLUSH_TLB, About { FlushTlb: flush })
        }
        Operation::CopyEntries(copies) => {
            let list = data.entries.as_mut().map_or(ptr::null_mut(), PrivateData::pointer);
            let copy = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
                NumRanges: to_u32(copies.len() as u64)?,
                pRanges: list.cast(),
            };
            (DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES, About { CopyPageTableEntries: copy })
        }
        Operation::VirtualTransfer { driver_handle, offset, from, to, bytes } => {
            let transfer = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
                hAllocation: handle_or_null(*driver_handle),
                AllocationOffsetInBytes: *offset,
                TransferSizeInBytes: *bytes,
                SourceVirtualAddress: *from,
                DestinationVirtualAddress: *to,
                // Both ends are in the system's address space, which contains all local memory.
                TransferDirection: DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL,
                ..DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL::ZERO
            };
            (DXGK_OPERATION_VIRTUAL_TRANSFER, About { TransferVirtual: transfer })
        }
        Operation::VirtualFill { driver_handle, offset, address, bytes, pattern } => {
            let fill = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
                hAllocation: handle_or_null(*driver_handle),
                AllocationOffsetInBytes: *offset,
                FillSizeInBytes: *bytes,
                FillPattern: *pattern,
                DestinationVirtualAddress: *address,
            };
            (DXGK_OPERATION_VIRTUAL_FILL, About { FillVirtual: fill })
        }
        _ => return Err(DriverError::Invalid),
    })
}

/// The update, which points to `carried`.
fn update(
    it: &TableUpdate<'_>,
    data: &mut OperationData,
    bases: &[u64],
) -> DriverResult<DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE> {
    let (address, mode) = match it.table {
        TableAddress::Cpu(_) => {
            let seen = data.seen.as_ref().ok_or(DriverError::Invalid)?;
            (Address::at(seen.address as u64), DXGK_PAGETABLEUPDATE_CPU_VIRTUAL)
        }
        TableAddress::Virtual(address) => (Address::at(address), DXGK_PAGETABLEUPDATE_GPU_VIRTUAL),
        TableAddress::Physical(segment, address) => {
            let physical = mmu::segment_address(segment, segment_offset(segment, address, bases)?);
            (Address { GpuPhysical: physical }, DXGK_PAGETABLEUPDATE_GPU_PHYSICAL)
        }
    };
    let flags = bit(it.repeat, Flags::Repeat)
        | bit(it.initial, Flags::InitialUpdate)
        | bit(it.evicts, Flags::NotifyEviction);
    let entries = data.entries.as_mut().map_or(ptr::null_mut(), PrivateData::pointer);
    Ok(DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
        PageTableLevel: it.level,
        hAllocation: handle_or_null(it.driver_handle),
        PageTableAddress: address,
        pPageTableEntries: entries.cast(),
        StartIndex: it.first,
        NumPageTableEntries: it.count,
        Flags: Flags { Value: flags },
        DriverProtection: it.protection,
        AllocationOffsetInBytes: it.offset,
        hProcess: pointer(it.process),
        UpdateMode: mode,
        FirstPteVirtualAddress: it.address,
        ..DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::ZERO
    })
}

/// The maximum number of guard bytes behind a repeated entry.
const MAX_GUARD: usize = 1 << 16;

/// The entries as bytes. Behind an entry that is to be repeated is an inaccessible page if memory
/// is guarded, else guard bytes: a driver that reads beyond the entry finds an invalid page.
pub(crate) fn entry_bytes(it: &TableUpdate<'_>) -> DriverResult<PrivateData> {
    let given = if it.repeat { it.entries.get(..1) } else { Some(it.entries) };
    let bytes = given.unwrap_or_default().iter().map(page_table_entry).flat_map(|raw| {
        let DXGK_PTE { Flags, PageAddress } = raw;
        [Flags, PageAddress].into_iter().flat_map(u64::to_ne_bytes)
    });
    let mut bytes = bytes.collect::<Vec<u8>>();
    if it.repeat {
        if let Some(entry) = PrivateData::guarded(&bytes, BlockKind::RepeatedEntry) {
            return Ok(entry);
        }
        let all = (it.count as usize).saturating_mul(size_of::<DXGK_PTE>());
        bytes.resize(all.clamp(bytes.len(), MAX_GUARD), GUARD);
    }
    PrivateData::list(&bytes)
}

/// WINDOWS: an address in an entry is a page number (observed by two driver projects).
fn page_table_entry(it: &PageTableEntry) -> DXGK_PTE {
    let flag = |set: bool, flag: u64| if set { flag } else { 0 };
    DXGK_PTE {
        Flags: flag(it.valid, DXGK_PTE::Valid)
            | flag(it.zero, DXGK_PTE::Zero)
            | flag(it.coherent, DXGK_PTE::CacheCoherent)
            | flag(it.read_only, DXGK_PTE::ReadOnly)
            | flag(it.no_execute, DXGK_PTE::NoExecute)
            | DXGK_PTE::of_segment(it.segment),
        PageAddress: it.page,
    }
}

/// Ranges of entries to copy, as an array of `DXGK_BUILDPAGINGBUFFER_COPY_RANGE`.
pub(crate) fn copy_ranges(copies: &[EntryCopy]) -> DriverResult<PrivateData> {
    let words = |entry_copy: &EntryCopy| {
        let indices = u64::from(entry_copy.from.1) | u64::from(entry_copy.to.1) << 32;
        [u64::from(entry_copy.count), entry_copy.from.0, entry_copy.to.0, indices]
    };
    let bytes: Vec<u8> = copies.iter().flat_map(words).flat_map(u64::to_le_bytes).collect();
    PrivateData::list(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::DXGK_BUILDPAGINGBUFFER_COPY_RANGE;

    fn update(entries: &[PageTableEntry], repeat: bool, count: u32) -> TableUpdate<'_> {
        TableUpdate {
            process: 1,
            level: 0,
            table: TableAddress::Physical(2, 0x1_0000),
            first: 3,
            count,
            entries,
            repeat,
            initial: true,
            evicts: false,
            address: 0x3000,
            driver_handle: None,
            offset: 0,
            protection: 0,
        }
    }

    #[test]
    fn an_entry_to_repeat_has_a_guard_behind_it() {
        let all = [PageTableEntry {
            valid: true,
            read_only: true,
            segment: 3,
            page: 7,
            ..PageTableEntry::default()
        }];
        let bytes = entry_bytes(&update(&all, true, 4)).unwrap().bytes();
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
        let guard = u64::from_ne_bytes([GUARD; 8]);
        assert_eq!(words[..2], [0b1001 | 3 << 5, 7]);
        assert_eq!(words[2..], [guard; 6]);
        assert_eq!(entry_bytes(&update(&all, false, 1)).unwrap().size(), 16);
        assert!(entry_bytes(&update(&all, true, u32::MAX)).unwrap().size() <= 1 << 16);
    }

    #[test]
    fn an_update_says_where_its_table_is() {
        let mut data = OperationData { list: None, private: None, entries: None, seen: None };
        let physical = update(&[], false, 0);
        let text = super::update(&physical, &mut data, &[0, 0xf000]).unwrap();
        let place = text.PageTableAddress.GpuPhysical;
        assert_eq!((place.SegmentId, place.SegmentOffset), (2, 0x1000), "from its base on");
        assert_eq!(text.Flags.Value, Flags::InitialUpdate);
        let table = TableAddress::Virtual(0x12_3456_7000);
        let text = super::update(&TableUpdate { table, ..physical }, &mut data, &[]).unwrap();
        assert_eq!(text.PageTableAddress.gpu_virtual(), 0x12_3456_7000);
        let table = TableAddress::Cpu(0x1000);
        let unseen = super::update(&TableUpdate { table, ..physical }, &mut data, &[]);
        assert_eq!(unseen.err(), Some(DriverError::Invalid), "the CPU does not see it");
    }

    #[test]
    fn ranges_lie_as_the_structure_does() {
        let copy = EntryCopy { from: (0x1000, 2), to: (0x2000, 5), count: 7 };
        let bytes = copy_ranges(&[copy, copy]).unwrap().bytes();
        assert_eq!(bytes.len(), 2 * size_of::<DXGK_BUILDPAGINGBUFFER_COPY_RANGE>());
        assert_eq!((bytes[0], bytes[9], bytes[17], bytes[24], bytes[28]), (7, 0x10, 0x20, 2, 5));
    }

    #[test]
    fn a_table_is_seen_where_it_is() {
        let ram = nt::Ram::new(16 * PAGE).unwrap();
        let run = ram.allocate(2 * PAGE).unwrap();
        let ram: Arc<dyn Ram> = ram;
        let seen = MappedPageTable::map(&ram, run.start + PAGE + 64, 8).unwrap();
        assert_eq!(seen.address % 4096, 64);
        drop(seen);
        assert!(MappedPageTable::map(&ram, run.start + 64 * PAGE, PAGE).is_none());
    }
}
