//! Entries of page tables, as `DxgkDdiBuildPagingBuffer` has them.

use crate::mmu;
use crate::operation::{bit, known, offset, small};
use crate::paging::Carried;
use crate::private::{Private, pointer};
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
use kernel::miniport::{Answer, Refusal};
use kernel::mmu::{Entry, EntryCopy, TableAt, TableUpdate};
use kernel::operation::{Operation, PAGE};
use std::ptr;
use std::sync::Arc;

/// What a byte of the guard is.
const GUARD: u8 = 0xfd;

/// A page table that the CPU sees, for the time of a call.
pub(crate) struct Seen {
    ram: Arc<dyn Ram>,
    view: usize,
    /// Where the table is in it.
    pub(crate) address: usize,
}

impl Seen {
    /// Shows a table of so many bytes.
    pub(crate) fn new(ram: &Arc<dyn Ram>, start: u64, bytes: u64) -> Option<Self> {
        let inside = start % PAGE;
        let bytes = inside.checked_add(bytes)?.checked_next_multiple_of(PAGE)?;
        let view = ram.view(&[Run { start: start - inside, bytes }])?;
        let address = view + usize::try_from(inside).ok()?;
        Some(Self { ram: ram.clone(), view, address })
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.ram.end_view(self.view);
    }
}

/// What an operation on page tables, or at virtual addresses, is about.
pub(crate) fn about(
    operation: &Operation<'_>,
    carried: &mut Carried,
    bases: &[u64],
) -> Answer<(DXGK_BUILDPAGINGBUFFER_OPERATION, About)> {
    Ok(match operation {
        Operation::UpdateTable(it) => {
            let update = update(it, carried, bases)?;
            (DXGK_OPERATION_UPDATE_PAGE_TABLE, About { UpdatePageTable: update })
        }
        Operation::FlushTlb { process, root, start, end } => {
            let flush = DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
                RootPageTableAddress: mmu::place(root.0, root.1),
                hProcess: pointer(*process),
                StartVirtualAddress: *start,
                EndVirtualAddress: *end,
            };
            (DXGK_OPERATION_FLUSH_TLB, About { FlushTlb: flush })
        }
        Operation::CopyEntries(copies) => {
            let list = carried.entries.as_mut().map_or(ptr::null_mut(), Private::pointer);
            let copy = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
                NumRanges: small(copies.len() as u64)?,
                pRanges: list.cast(),
            };
            (DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES, About { CopyPageTableEntries: copy })
        }
        Operation::VirtualTransfer { word, offset, from, to, bytes } => {
            let transfer = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
                hAllocation: known(*word),
                AllocationOffsetInBytes: *offset,
                TransferSizeInBytes: *bytes,
                SourceVirtualAddress: *from,
                DestinationVirtualAddress: *to,
                // Both ends are in the system's address space, which has all local memory.
                TransferDirection: DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL,
                ..DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL::ZERO
            };
            (DXGK_OPERATION_VIRTUAL_TRANSFER, About { TransferVirtual: transfer })
        }
        Operation::VirtualFill { word, offset, address, bytes, pattern } => {
            let fill = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
                hAllocation: known(*word),
                AllocationOffsetInBytes: *offset,
                FillSizeInBytes: *bytes,
                FillPattern: *pattern,
                DestinationVirtualAddress: *address,
            };
            (DXGK_OPERATION_VIRTUAL_FILL, About { FillVirtual: fill })
        }
        _ => return Err(Refusal::Invalid),
    })
}

/// The update, with what it points at in `carried`.
fn update(
    it: &TableUpdate<'_>,
    carried: &mut Carried,
    bases: &[u64],
) -> Answer<DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE> {
    let (address, mode) = match it.table {
        TableAt::Cpu(_) => {
            let seen = carried.seen.as_ref().ok_or(Refusal::Invalid)?;
            (Address::at(seen.address as u64), DXGK_PAGETABLEUPDATE_CPU_VIRTUAL)
        }
        TableAt::Virtual(address) => (Address::at(address), DXGK_PAGETABLEUPDATE_GPU_VIRTUAL),
        TableAt::Physical(segment, address) => {
            let physical = mmu::place(segment, offset(segment, address, bases)?);
            (Address { GpuPhysical: physical }, DXGK_PAGETABLEUPDATE_GPU_PHYSICAL)
        }
    };
    let flags = bit(it.repeat, Flags::Repeat)
        | bit(it.initial, Flags::InitialUpdate)
        | bit(it.evicts, Flags::NotifyEviction);
    let entries = carried.entries.as_mut().map_or(ptr::null_mut(), Private::pointer);
    Ok(DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
        PageTableLevel: it.level,
        hAllocation: known(it.word),
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

/// The most bytes of guard there are behind an entry that is to be repeated.
const MOST_GUARD: usize = 1 << 16;

/// The entries as bytes. Behind one that is to be repeated lies a guard: a driver that reads on
/// finds what no page is.
pub(crate) fn entries(it: &TableUpdate<'_>) -> Answer<Private> {
    let given = if it.repeat { it.entries.get(..1) } else { Some(it.entries) };
    let bytes = given.unwrap_or_default().iter().map(entry).flat_map(|it| {
        let DXGK_PTE { Flags, PageAddress } = it;
        [Flags, PageAddress].into_iter().flat_map(u64::to_ne_bytes)
    });
    let mut bytes = bytes.collect::<Vec<u8>>();
    if it.repeat {
        let all = (it.count as usize).saturating_mul(size_of::<DXGK_PTE>());
        bytes.resize(all.clamp(bytes.len(), MOST_GUARD), GUARD);
    }
    Private::copy(&bytes)
}

/// WINDOWS: an address in an entry is a page number (observed by two driver projects).
fn entry(it: &Entry) -> DXGK_PTE {
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
pub(crate) fn ranges(copies: &[EntryCopy]) -> Answer<Private> {
    let words = |it: &EntryCopy| {
        let indices = u64::from(it.from.1) | u64::from(it.to.1) << 32;
        [u64::from(it.count), it.from.0, it.to.0, indices]
    };
    let bytes: Vec<u8> = copies.iter().flat_map(words).flat_map(u64::to_le_bytes).collect();
    Private::copy(&bytes)
}
