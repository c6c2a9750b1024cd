//! What a paging operation is about, in the union of `DXGKARG_BUILDPAGINGBUFFER`.

use crate::mdl::List;
use crate::paging::Carried;
use crate::private::{Private, pointer};
use crate::tables;
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
use kernel::miniport::{Answer, Refusal};
use kernel::operation::{End, Operation, Pages, Transfer};
use std::ptr;

/// The operation's number, and what it is about. What it points at is `carried`; `bases` is
/// where segments begin.
///
/// WINDOWS: an operation on an aperture names the device, too; the kernel does not say it yet,
/// and drivers have to take null (documented for primaries).
pub(crate) fn about(
    operation: &Operation<'_>,
    carried: &mut Carried,
    bases: &[u64],
) -> Answer<(DXGK_BUILDPAGINGBUFFER_OPERATION, About)> {
    let list = carried.list.as_mut().map_or(ptr::null_mut(), List::pointer);
    Ok(match operation {
        Operation::Transfer(it) if it.special => {
            (DXGK_OPERATION_SPECIAL_LOCK_TRANSFER, special(it, list)?)
        }
        Operation::Transfer(it) => (DXGK_OPERATION_TRANSFER, transfer(it, list)?),
        Operation::Fill { word, segment, address, bytes, pattern } => {
            let to = PagingAddress { SegmentId: *segment, SegmentAddress: address.cast_signed() };
            let fill = PagingFill {
                hAllocation: pointer(*word),
                FillSize: small(*bytes)?,
                FillPattern: *pattern,
                Destination: to,
            };
            (DXGK_OPERATION_FILL, About { Fill: fill })
        }
        Operation::Discard { word, segment, address, idle } => {
            let discard = PagingDiscardContent {
                hAllocation: pointer(*word),
                Flags: DiscardFlags { Value: bit(*idle, DiscardFlags::AllocationIsIdle) },
                SegmentId: *segment,
                SegmentAddress: address.cast_signed(),
            };
            (DXGK_OPERATION_DISCARD_CONTENT, About { DiscardContent: discard })
        }
        Operation::MapAperture { word, segment, page, pages, coherent } => {
            let map = PagingMapApertureSegment {
                hDevice: ptr::null_mut(),
                hAllocation: known(*word),
                SegmentId: *segment,
                OffsetInPages: small(*page)?,
                NumberOfPages: small(pages.count)?,
                pMdl: list,
                Flags: MapFlags { Value: bit(*coherent, MapFlags::CacheCoherent) },
                MdlOffset: small(pages.first)?,
            };
            (DXGK_OPERATION_MAP_APERTURE_SEGMENT, About { MapApertureSegment: map })
        }
        Operation::UnmapAperture { word, segment, page, pages, dummy } => {
            let unmap = PagingUnmapApertureSegment {
                hDevice: ptr::null_mut(),
                hAllocation: known(*word),
                SegmentId: *segment,
                OffsetInPages: small(*page)?,
                NumberOfPages: small(*pages)?,
                DummyPage: dummy.cast_signed(),
            };
            (DXGK_OPERATION_UNMAP_APERTURE_SEGMENT, About { UnmapApertureSegment: unmap })
        }
        Operation::InitContext { word, place, cpu, .. } => {
            let PagingPlace { SegmentId, pMdl } = self::place(place, list)?;
            let to = PagingInitContextResourceDestination {
                SegmentId,
                pMdl,
                VirtualAddress: known(*cpu),
                GpuVirtualAddress: 0,
            };
            let init = PagingInitContextResource { hAllocation: pointer(*word), Destination: to };
            (DXGK_OPERATION_INIT_CONTEXT_RESOURCE, About { InitContextResource: init })
        }
        Operation::UpdateContext { place, bytes, .. } => {
            // It has an address of the GPU's, and no place for a list.
            let End::Segment { address, .. } = place else { return Err(Refusal::Invalid) };
            let private = carried.private.as_mut();
            let update = DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
                ContextAllocation: *address,
                ContextAllocationSize: *bytes,
                DriverPrivateDataSize: private.as_ref().map_or(0, |it| it.size()),
                pDriverPrivateData: private.map_or(ptr::null_mut(), Private::pointer),
            };
            (DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION, About { UpdateContextAllocation: update })
        }
        Operation::Notify { word, segment, address, resident } => {
            let notify = DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
                hAllocation: pointer(*word),
                PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS {
                    SegmentId: *segment,
                    SegmentOffset: offset(*segment, *address, bases)?,
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
        | Operation::VirtualFill { .. } => return tables::about(operation, carried, bases),
    })
}

fn transfer(it: &Transfer<'_>, list: PVOID) -> Answer<About> {
    let transfer = PagingTransfer {
        hAllocation: known(it.word),
        TransferOffset: small(it.offset)?,
        TransferSize: small(it.bytes)?,
        Source: place(&it.from, list)?,
        Destination: place(&it.to, list)?,
        Flags: transfer_flags(it),
        MdlOffset: [it.from, it.to].iter().find_map(pages).map_or(Ok(0), |it| small(it.first))?,
    };
    Ok(About { Transfer: transfer })
}

/// WINDOWS: this one has no `MdlOffset`: its list begins where the allocation does.
fn special(it: &Transfer<'_>, list: PVOID) -> Answer<About> {
    let transfer = PagingSpecialLockTransfer {
        hAllocation: known(it.word),
        TransferOffset: small(it.offset)?,
        TransferSize: small(it.bytes)?,
        Source: place(&it.from, list)?,
        Destination: place(&it.to, list)?,
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

/// An end: segment zero is a list, any other an address that counts its base.
fn place(end: &End<'_>, list: PVOID) -> Answer<PagingPlace> {
    match end {
        // A segment zero would be taken for a list.
        End::Segment { number: 0, .. } => Err(Refusal::Invalid),
        End::Segment { number, address } => Ok(PagingPlace::in_segment(*number, small(*address)?)),
        End::System(_) => Ok(PagingPlace { SegmentId: 0, pMdl: list }),
    }
}

fn pages<'a>(end: &End<'a>) -> Option<Pages<'a>> {
    match end {
        End::System(pages) => Some(*pages),
        End::Segment { .. } => None,
    }
}

/// How far into its segment an address is.
pub(crate) fn offset(segment: u32, address: u64, bases: &[u64]) -> Answer<u64> {
    let at = segment.checked_sub(1).ok_or(Refusal::Invalid)?;
    let base = bases.get(at as usize).ok_or(Refusal::Invalid)?;
    address.checked_sub(*base).ok_or(Refusal::Invalid)
}

pub(crate) fn known(word: Option<usize>) -> HANDLE {
    word.map_or(ptr::null_mut(), pointer)
}

pub(crate) fn bit(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

/// A number that Windows has fewer bits for.
pub(crate) fn small<T: TryFrom<u64>>(it: u64) -> Answer<T> {
    T::try_from(it).map_err(|_| Refusal::Invalid)
}
