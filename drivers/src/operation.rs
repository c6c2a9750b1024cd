//! Converts the paging operations of `DXGKARG_BUILDPAGINGBUFFER` into Rust types.
#![expect(unsafe_code, reason = "reads structures of the kernel")]

use crate::block::{bytes, list};
use crate::board::Board;
use abi::display::{
    DXGK_BUILDPAGINGBUFFER_COPY_RANGE, DXGK_NOTIFYRESIDENCY_FLAGS as NotifyFlags,
    DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES, DXGK_OPERATION_DISCARD_CONTENT, DXGK_OPERATION_FILL,
    DXGK_OPERATION_FLUSH_TLB, DXGK_OPERATION_INIT_CONTEXT_RESOURCE,
    DXGK_OPERATION_MAP_APERTURE_SEGMENT, DXGK_OPERATION_NOTIFY_RESIDENCY, DXGK_OPERATION_TRANSFER,
    DXGK_OPERATION_UNMAP_APERTURE_SEGMENT, DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION,
    DXGK_OPERATION_UPDATE_PAGE_TABLE, DXGK_OPERATION_VIRTUAL_FILL, DXGK_OPERATION_VIRTUAL_TRANSFER,
    DXGK_PAGETABLEUPDATE_CPU_VIRTUAL, DXGK_PAGETABLEUPDATE_GPU_VIRTUAL, DXGK_PTE,
    DXGK_UPDATEPAGETABLEFLAGS as UpdateFlags, DXGKARG_BUILDPAGINGBUFFER, PagingPlace,
};
use abi::{HANDLE, MDL, PVOID};
use flight::Run;
use kernel::mmu::{EntryCopy, PageTableEntry, TableAddress, TableUpdate};
use kernel::operation::{Operation, PAGE, Pages, Transfer, TransferEnd};
use softgpu::AREA_SIZE;
use std::{ptr, slice};

/// The arrays that a paging operation points at, copied.
#[derive(Default)]
pub(crate) struct OperationData {
    runs: Vec<Run>,
    entries: Vec<PageTableEntry>,
    copies: Vec<EntryCopy>,
}

impl OperationData {
    /// Copies the arrays of an operation.
    ///
    /// # Safety
    ///
    /// `args` comes from the kernel, in a call of `DxgkDdiBuildPagingBuffer`.
    pub(crate) unsafe fn read(args: &DXGKARG_BUILDPAGINGBUFFER) -> Self {
        let about = &args.About;
        let pages = match args.Operation {
            DXGK_OPERATION_TRANSFER => {
                // SAFETY: The operation selects the union member.
                let it = unsafe { about.Transfer };
                let system = [it.Source, it.Destination]
                    .into_iter()
                    .find(|paging_place| paging_place.SegmentId == 0);
                // A transfer between two segments has no page list.
                system.map_or(ptr::null_mut(), |paging_place| paging_place.pMdl)
            }
            // SAFETY: As above.
            DXGK_OPERATION_MAP_APERTURE_SEGMENT => unsafe { about.MapApertureSegment.pMdl },
            DXGK_OPERATION_UPDATE_PAGE_TABLE => {
                // SAFETY: As above.
                let it = unsafe { about.UpdatePageTable };
                let count =
                    if it.Flags.has(UpdateFlags::Repeat) { 1 } else { it.NumPageTableEntries };
                // SAFETY: The array has this many entries and is valid for the call.
                let all = unsafe { list(it.pPageTableEntries, count) };
                return Self { entries: all.iter().map(entry).collect(), ..Self::default() };
            }
            DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => {
                // SAFETY: As above.
                let it = unsafe { about.CopyPageTableEntries };
                // SAFETY: The array has this many ranges and is valid for the call.
                let all = unsafe { list(it.pRanges, it.NumRanges) };
                return Self { copies: all.iter().map(copy).collect(), ..Self::default() };
            }
            _ => return Self::default(),
        };
        // SAFETY: The list is valid for the call.
        Self { runs: unsafe { runs(pages) }, ..Self::default() }
    }

    /// Returns the operation.
    ///
    /// # Safety
    ///
    /// As for [`OperationData::read`]. The result is used only during the call.
    pub(crate) unsafe fn operation<'a>(
        &'a self,
        args: &'a DXGKARG_BUILDPAGINGBUFFER,
    ) -> Option<Operation<'a>> {
        let about = &args.About;
        let pages = |first: u32, count: usize| Pages {
            runs: &self.runs,
            first: first.into(),
            count: count as u64,
        };
        Some(match args.Operation {
            DXGK_OPERATION_TRANSFER => {
                // SAFETY: The operation selects the union member.
                let it = unsafe { about.Transfer };
                let pages = pages(it.MdlOffset, it.TransferSize / 4096);
                Operation::Transfer(Transfer {
                    driver_handle: non_null(it.hAllocation),
                    offset: it.TransferOffset.into(),
                    bytes: it.TransferSize as u64,
                    from: end(&it.Source, pages),
                    to: end(&it.Destination, pages),
                    start: false,
                    end: false,
                    idle: false,
                    special_lock: false,
                })
            }
            DXGK_OPERATION_FILL => {
                // SAFETY: As above.
                let it = unsafe { about.Fill };
                Operation::Fill {
                    driver_handle: it.hAllocation.addr(),
                    segment: it.Destination.SegmentId,
                    address: it.Destination.SegmentAddress.cast_unsigned(),
                    bytes: it.FillSize as u64,
                    pattern: it.FillPattern,
                }
            }
            DXGK_OPERATION_DISCARD_CONTENT => {
                // SAFETY: As above.
                let it = unsafe { about.DiscardContent };
                let address = it.SegmentAddress.cast_unsigned();
                let driver_handle = it.hAllocation.addr();
                Operation::Discard { driver_handle, segment: it.SegmentId, address, idle: true }
            }
            DXGK_OPERATION_MAP_APERTURE_SEGMENT => {
                // SAFETY: As above.
                let it = unsafe { about.MapApertureSegment };
                Operation::MapAperture {
                    driver_handle: non_null(it.hAllocation),
                    segment: it.SegmentId,
                    page: it.OffsetInPages as u64,
                    pages: pages(it.MdlOffset, it.NumberOfPages),
                    coherent: false,
                }
            }
            DXGK_OPERATION_UNMAP_APERTURE_SEGMENT => {
                // SAFETY: As above.
                let it = unsafe { about.UnmapApertureSegment };
                Operation::UnmapAperture {
                    driver_handle: non_null(it.hAllocation),
                    segment: it.SegmentId,
                    page: it.OffsetInPages as u64,
                    pages: it.NumberOfPages as u64,
                    dummy: it.DummyPage.cast_unsigned(),
                }
            }
            DXGK_OPERATION_INIT_CONTEXT_RESOURCE => {
                // SAFETY: As above.
                let it = unsafe { about.InitContextResource };
                let to = it.Destination;
                let place =
                    TransferEnd::Segment { number: to.SegmentId, address: to.pMdl.addr() as u64 };
                let driver_handle = it.hAllocation.addr();
                Operation::InitContext {
                    driver_handle,
                    location: place,
                    cpu: None,
                    bytes: AREA_SIZE,
                }
            }
            DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION => {
                // SAFETY: As above.
                let it = unsafe { about.UpdateContextAllocation };
                let place = TransferEnd::Segment { number: 1, address: it.ContextAllocation };
                // SAFETY: The private data is valid for the call.
                let private = unsafe { bytes(it.pDriverPrivateData, it.DriverPrivateDataSize) };
                Operation::UpdateContext {
                    driver_handle: 0,
                    location: place,
                    bytes: it.ContextAllocationSize,
                    private,
                }
            }
            DXGK_OPERATION_NOTIFY_RESIDENCY => {
                // SAFETY: As above.
                let it = unsafe { about.NotifyResidency };
                Operation::Notify {
                    driver_handle: it.hAllocation.addr(),
                    segment: it.PhysicalAddress.SegmentId,
                    address: it.PhysicalAddress.SegmentOffset,
                    resident: it.Flags.has(NotifyFlags::Resident),
                }
            }
            _ => {
                // SAFETY: The caller upholds this function's contract.
                return unsafe { self.at_addresses(args) };
            }
        })
    }

    /// The operations on page tables and at virtual addresses.
    ///
    /// # Safety
    ///
    /// As for [`OperationData::read`].
    unsafe fn at_addresses<'a>(
        &'a self,
        args: &'a DXGKARG_BUILDPAGINGBUFFER,
    ) -> Option<Operation<'a>> {
        let about = &args.About;
        Some(match args.Operation {
            DXGK_OPERATION_UPDATE_PAGE_TABLE => {
                // SAFETY: The operation selects the union member.
                let it = unsafe { about.UpdatePageTable };
                let place = it.PageTableAddress.GpuPhysical;
                let table = match it.UpdateMode {
                    DXGK_PAGETABLEUPDATE_CPU_VIRTUAL => {
                        TableAddress::Cpu(it.PageTableAddress.gpu_virtual())
                    }
                    DXGK_PAGETABLEUPDATE_GPU_VIRTUAL => {
                        TableAddress::Virtual(it.PageTableAddress.gpu_virtual())
                    }
                    _ => {
                        let base = softgpu::segment_base(place.SegmentId)?;
                        TableAddress::Physical(place.SegmentId, base + place.SegmentOffset)
                    }
                };
                Operation::UpdateTable(TableUpdate {
                    process: it.hProcess.addr(),
                    level: it.PageTableLevel,
                    table,
                    first: it.StartIndex,
                    count: it.NumPageTableEntries,
                    entries: &self.entries,
                    repeat: it.Flags.has(UpdateFlags::Repeat),
                    initial: false,
                    evicts: false,
                    address: it.FirstPteVirtualAddress,
                    driver_handle: None,
                    offset: 0,
                    protection: it.DriverProtection,
                })
            }
            DXGK_OPERATION_FLUSH_TLB => {
                // SAFETY: As above.
                let it = unsafe { about.FlushTlb };
                let root = it.RootPageTableAddress;
                Operation::FlushTlb {
                    process: it.hProcess.addr(),
                    root: (root.SegmentId, root.SegmentOffset),
                    start: it.StartVirtualAddress,
                    end: it.EndVirtualAddress,
                }
            }
            DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => Operation::CopyEntries(&self.copies),
            DXGK_OPERATION_VIRTUAL_TRANSFER => {
                // SAFETY: As above.
                let it = unsafe { about.TransferVirtual };
                Operation::VirtualTransfer {
                    driver_handle: non_null(it.hAllocation),
                    offset: it.AllocationOffsetInBytes,
                    from: it.SourceVirtualAddress,
                    to: it.DestinationVirtualAddress,
                    bytes: it.TransferSizeInBytes,
                }
            }
            DXGK_OPERATION_VIRTUAL_FILL => {
                // SAFETY: As above.
                let it = unsafe { about.FillVirtual };
                Operation::VirtualFill {
                    driver_handle: non_null(it.hAllocation),
                    offset: it.AllocationOffsetInBytes,
                    address: it.DestinationVirtualAddress,
                    bytes: it.FillSizeInBytes,
                    pattern: it.FillPattern,
                }
            }
            _ => return None,
        })
    }
}

fn entry(it: &DXGK_PTE) -> PageTableEntry {
    let has = |flag: u64| it.Flags & flag != 0;
    PageTableEntry {
        valid: has(DXGK_PTE::Valid),
        zero: has(DXGK_PTE::Zero),
        coherent: has(DXGK_PTE::CacheCoherent),
        read_only: has(DXGK_PTE::ReadOnly),
        no_execute: has(DXGK_PTE::NoExecute),
        segment: u32::try_from(it.segment()).unwrap_or(0),
        page: it.PageAddress,
    }
}

fn copy(it: &DXGK_BUILDPAGINGBUFFER_COPY_RANGE) -> EntryCopy {
    EntryCopy {
        from: (it.SrcPageTableAddress, it.SrcStartPteIndex),
        to: (it.DstPageTableAddress, it.DstStartPteIndex),
        count: it.NumPageTableEntries,
    }
}

/// A location that an operation fills or empties.
pub(crate) struct Relocation {
    /// The driver handle of the object.
    pub(crate) driver_handle: usize,
    /// The GPU address.
    pub(crate) address: u64,
    /// Whether the object is now at the address; otherwise it has left the address.
    pub(crate) arrives: bool,
}

/// Returns the object that an operation moves, with its address. `None` if it moves none.
pub(crate) fn moved(operation: &Operation<'_>, board: &Board) -> Option<Relocation> {
    let mapped = |segment: u32, page: u64| {
        let segments = &board.features.as_ref()?.segments;
        let at = usize::try_from(segment).ok()?.checked_sub(1)?;
        Some(segments.get(at)?.base + page * PAGE)
    };
    let (driver_handle, address, arrives) = match *operation {
        Operation::Transfer(ref it) => match (it.from, it.to) {
            (_, TransferEnd::Segment { address, .. }) => (it.driver_handle?, address, true),
            (TransferEnd::Segment { address, .. }, _) => (it.driver_handle?, address, false),
            _ => return None,
        },
        Operation::Fill { driver_handle, address, .. }
        | Operation::InitContext {
            driver_handle,
            location: TransferEnd::Segment { address, .. },
            ..
        } => (driver_handle, address, true),
        Operation::VirtualFill { driver_handle, address, .. } => {
            (driver_handle?, board.physical(address)?, true)
        }
        Operation::VirtualTransfer { driver_handle, offset, to, .. } => {
            (driver_handle?, board.physical(to.checked_sub(offset)?)?, true)
        }
        Operation::Discard { driver_handle, address, .. } => (driver_handle, address, false),
        Operation::MapAperture { driver_handle, segment, page, .. } => {
            (driver_handle?, mapped(segment, page)?, true)
        }
        Operation::UnmapAperture { driver_handle, segment, page, .. } => {
            (driver_handle?, mapped(segment, page)?, false)
        }
        _ => return None,
    };
    Some(Relocation { driver_handle, address, arrives })
}

fn non_null(handle: HANDLE) -> Option<usize> {
    (!handle.is_null()).then(|| handle.addr())
}

fn end<'a>(place: &PagingPlace, pages: Pages<'a>) -> TransferEnd<'a> {
    match place.SegmentId {
        0 => TransferEnd::System(pages),
        number => TransferEnd::Segment { number, address: place.segment_address().cast_unsigned() },
    }
}

/// Returns the pages of an MDL as runs of one page each.
///
/// # Safety
///
/// `list` is NULL or a valid MDL.
unsafe fn runs(list: PVOID) -> Vec<Run> {
    if list.is_null() {
        return Vec::new();
    }
    let list = list.cast::<MDL>();
    // SAFETY: The caller passes a valid MDL.
    let count = unsafe { (*list).ByteCount } as usize / 4096;
    let first = list.wrapping_add(1).cast::<u64>();
    // SAFETY: The page numbers follow the MDL.
    let pages = unsafe { slice::from_raw_parts(first, count) };
    pages.iter().map(|value| Run { start: value * PAGE, bytes: PAGE }).collect()
}
