//! Paging operations as the union of `DXGKARG_BUILDPAGINGBUFFER`.

use crate::mdl::Mdl;
use crate::page_tables;
use crate::paging::OperationData;
use crate::private_data::{PrivateData, pointer};
use abi::display::{
    DXGK_BUILDPAGINGBUFFER_ABOUT as About, DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY,
    DXGK_BUILDPAGINGBUFFER_OPERATION, DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION,
    DXGK_DISCARDCONTENTFLAGS as DiscardFlags, DXGK_MAPAPERTUREFLAGS as MapFlags,
    DXGK_NOTIFYRESIDENCY_FLAGS as NotifyFlags, DXGK_OPERATION_DISCARD_CONTENT, DXGK_OPERATION_FILL,
    DXGK_OPERATION_INIT_CONTEXT_RESOURCE, DXGK_OPERATION_MAP_APERTURE_SEGMENT,
    DXGK_OPERATION_NOTIFY_RESIDENCY, DXGK_OPERATION_SPECIAL_LOCK_TRANSFER, DXGK_OPERATION_TRANSFER,
    DXGK_OPERATION_UNMAP_APERTURE_SEGMENT, DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION,
    DXGK_TRANSFERFLAGS as TransferFlags, PagingAddress, PagingDiscardContent, PagingFill,
    PagingInitContextResource, PagingInitContextResourceDestination, PagingMapApertureSegment,
    PagingPlace, PagingSpecialLockTransfer, PagingTransfer, PagingUnmapApertureSegment,
};
use abi::ukm::D3DGPU_PHYSICAL_ADDRESS;
use abi::{HANDLE, PVOID};
use kernel::miniport::{DriverError, DriverResult};
use kernel::operation::{Operation, Pages, Transfer, TransferEnd};
use std::ptr;

/// The operation's number and its arguments. They point to `carried`; `bases` has the base
/// addresses of the segments.
///
/// WINDOWS: an operation on an aperture contains the device, too; the kernel does not pass it yet,
/// and drivers must accept NULL (documented for primaries).
pub(crate) fn operation_args(
    operation: &Operation<'_>,
    data: &mut OperationData,
    bases: &[u64],
) -> DriverResult<(DXGK_BUILDPAGINGBUFFER_OPERATION, About)> {
    let list = data.list.as_mut().map_or(ptr::null_mut(), Mdl::pointer);
    Ok(match operation {
        Operation::Transfer(it) if it.special_lock => {
            (DXGK_OPERATION_SPECIAL_LOCK_TRANSFER, special_lock_args(it, list)?)
        }
        Operation::Transfer(it) => (DXGK_OPERATION_TRANSFER, transfer_args(it, list)?),
        Operation::Fill { driver_handle, segment, address, bytes, pattern } => {
            let to = PagingAddress { SegmentId: *segment, SegmentAddress: address.cast_signed() };
            let fill = PagingFill {
                hAllocation: pointer(*driver_handle),
                FillSize: to_u32(*bytes)?,
                FillPattern: *pattern,
                Destination: to,
            };
            (DXGK_OPERATION_FILL, About { Fill: fill })
        }
        Operation::Discard { driver_handle, segment, address, idle } => {
            let discard = PagingDiscardContent {
                hAllocation: pointer(*driver_handle),
                Flags: DiscardFlags { Value: bit(*idle, DiscardFlags::AllocationIsIdle) },
                SegmentId: *segment,
                SegmentAddress: address.cast_signed(),
            };
            (DXGK_OPERATION_DISCARD_CONTENT, About { DiscardContent: discard })
        }
        Operation::MapAperture { driver_handle, segment, page, pages, coherent } => {
            let map = PagingMapApertureSegment {
                hDevice: ptr::null_mut(),
                hAllocation: handle_or_null(*driver_handle),
                SegmentId: *segment,
                OffsetInPages: to_u32(*page)?,
                NumberOfPages: to_u32(pages.count)?,
                pMdl: list,
                Flags: MapFlags { Value: bit(*coherent, MapFlags::CacheCoherent) },
                MdlOffset: to_u32(pages.first)?,
            };
            (DXGK_OPERATION_MAP_APERTURE_SEGMENT, About { MapApertureSegment: map })
        }
        Operation::UnmapAperture { driver_handle, segment, page, pages, dummy } => {
            let unmap = PagingUnmapApertureSegment {
                hDevice: ptr::null_mut(),
                hAllocation: handle_or_null(*driver_handle),
                SegmentId: *segment,
                OffsetInPages: to_u32(*page)?,
                NumberOfPages: to_u32(*pages)?,
                DummyPage: dummy.cast_signed(),
            };
            (DXGK_OPERATION_UNMAP_APERTURE_SEGMENT, About { UnmapApertureSegment: unmap })
        }
        Operation::InitContext { driver_handle, location: place, cpu, .. } => {
            let PagingPlace { SegmentId, pMdl } = transfer_end(place, list)?;
            let to = PagingInitContextResourceDestination {
                SegmentId,
                pMdl,
                VirtualAddress: handle_or_null(*cpu),
                GpuVirtualAddress: 0,
            };
            let init =
                PagingInitContextResource { hAllocation: pointer(*driver_handle), Destination: to };
            (DXGK_OPERATION_INIT_CONTEXT_RESOURCE, About { InitContextResource: init })
        }
        Operation::UpdateContext { location: place, bytes, .. } => {
            // It has a GPU address, and no member for a list.
            let TransferEnd::Segment { address, .. } = place else {
                return Err(DriverError::Invalid);
            };
            let private = data.private.as_mut();
            let update = DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
                ContextAllocation: *address,
                ContextAllocationSize: *bytes,
                DriverPrivateDataSize: private
                    .as_ref()
                    .map_or(0, |private_data| private_data.size()),
                pDriverPrivateData: private.map_or(ptr::null_mut(), PrivateData::pointer),
            };
            (DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION, About { UpdateContextAllocation: update })
        }
        Operation::Notify { driver_handle, segment, address, resident } => {
            let notify = DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
                hAllocation: pointer(*driver_handle),
                PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS {
                    SegmentId: *segment,
                    SegmentOffset: segment_offset(*segment, *address, bases)?,
                    ..D3DGPU_PHYSICAL_ADDRESS::ZERO
                },
                Flags: NotifyFlags { Value: bit(*resident, NotifyFlags::Resident) },
            };
            (DXGK_OPERATION_NOTIFY_RESIDENCY, About { NotifyResidency: notify })
        }
        Operation::UpdateTable(_)
        | Operation::FlushTlb { .. }
        | Operation::CopyEntries(_)
        | Operation::VirtualTransfer { .. }
        | Operation::VirtualFill { .. } => {
            return page_tables::table_operation_args(operation, data, bases);
        }
    })
}

fn transfer_args(it: &Transfer<'_>, list: PVOID) -> DriverResult<About> {
    let transfer = PagingTransfer {
        hAllocation: handle_or_null(it.driver_handle),
        TransferOffset: to_u32(it.offset)?,
        TransferSize: to_u32(it.bytes)?,
        Source: transfer_end(&it.from, list)?,
        Destination: transfer_end(&it.to, list)?,
        Flags: transfer_flags(it),
        MdlOffset: [it.from, it.to]
            .iter()
            .find_map(pages)
            .map_or(Ok(0), |pages| to_u32(pages.first))?,
    };
    Ok(About { Transfer: transfer })
}

/// WINDOWS: this operation has no `MdlOffset`: its list begins where the allocation does.
fn special_lock_args(it: &Transfer<'_>, list: PVOID) -> DriverResult<About> {
    let transfer = PagingSpecialLockTransfer {
        hAllocation: handle_or_null(it.driver_handle),
        TransferOffset: to_u32(it.offset)?,
        TransferSize: to_u32(it.bytes)?,
        Source: transfer_end(&it.from, list)?,
        Destination: transfer_end(&it.to, list)?,
        Flags: transfer_flags(it),
        ..PagingSpecialLockTransfer::ZERO
    };
    Ok(About { SpecialLockTransfer: transfer })
}

fn transfer_flags(it: &Transfer<'_>) -> TransferFlags {
    let value = bit(it.idle, TransferFlags::AllocationIsIdle)
        | bit(it.start, TransferFlags::TransferStart)
        | bit(it.end, TransferFlags::TransferEnd);
    TransferFlags { Value: value }
}

/// An end of a transfer: segment 0 is a list, any other an address that includes its base.
fn transfer_end(end: &TransferEnd<'_>, list: PVOID) -> DriverResult<PagingPlace> {
    match end {
        // Segment 0 would be taken for a list.
        TransferEnd::Segment { number: 0, .. } => Err(DriverError::Invalid),
        TransferEnd::Segment { number, address } => {
            Ok(PagingPlace::in_segment(*number, to_u32(*address)?))
        }
        TransferEnd::System(_) => Ok(PagingPlace { SegmentId: 0, pMdl: list }),
    }
}

fn pages<'a>(end: &TransferEnd<'a>) -> Option<Pages<'a>> {
    match end {
        TransferEnd::System(pages) => Some(*pages),
        TransferEnd::Segment { .. } => None,
    }
}

/// The offset of an address in its segment.
pub(crate) fn segment_offset(segment: u32, address: u64, bases: &[u64]) -> DriverResult<u64> {
    let at = segment.checked_sub(1).ok_or(DriverError::Invalid)?;
    let base = bases.get(at as usize).ok_or(DriverError::Invalid)?;
    address.checked_sub(*base).ok_or(DriverError::Invalid)
}

pub(crate) fn handle_or_null(driver_handle: Option<usize>) -> HANDLE {
    driver_handle.map_or(ptr::null_mut(), pointer)
}

pub(crate) fn bit(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

/// Converts a number to a type that has fewer bits on Windows.
pub(crate) fn to_u32<T: TryFrom<u64>>(it: u64) -> DriverResult<T> {
    T::try_from(it).map_err(|_| DriverError::Invalid)
}
