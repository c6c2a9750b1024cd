//! Properties of allocations: the segments that hold them, and the caches in front of them.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_mut, write};
use crate::refusal::invalid;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::D3DKMT_INVALIDATECACHE;
use abi::ukm::{D3DDDI_SEGMENTPREFERENCE, D3DDDI_UPDATEALLOCPROPERTY as Property};
use flight::{Passive, RuleId};
use kernel::segment::{SegmentPreference, SegmentSet};
use kernel::{AllocationPropertyRequest, AllocationRange, Handle};

const CACHE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTInvalidateCache.hDevice",
    )],
    others: &[],
};

const PROPERTY_ERROR_RULES: ErrorRules = ErrorRules { handles: &[], others: &[] };

/// Makes the CPU read memory again that the GPU has written. The machine's caches are coherent.
pub(crate) unsafe fn invalidate_cache(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_INVALIDATECACHE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let range = AllocationRange {
        allocation: Handle(arguments.hAllocation),
        offset: arguments.Offset as u64,
        bytes: arguments.Length as u64,
    };
    let device = Handle(arguments.hDevice);
    let checked = session.kernel.check_allocation_range(session.process, device, &range);
    map_error(session, CACHE_ERROR_RULES, checked)
}

/// All bits of `PropertyMaskValue`.
const MASK: u32 = Property::SetAccessedPhysically
    | Property::SetSupportedSegmentSet
    | Property::SetPreferredSegment
    | Property::SetUnmoveable;

/// Changes the segments of an allocation.
pub(crate) unsafe fn update_allocation_property(
    session: &Session,
    _at: &mut Passive,
    args: *mut Property,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let mask = arguments.PropertyMaskValue;
    if mask & !MASK != 0 {
        return Err(invalid("reserved bits of PropertyMaskValue are set"));
    }
    if mask & (Property::SetAccessedPhysically | Property::SetUnmoveable) != 0 {
        session.missing_entry("D3DKMTUpdateAllocationProperty.Flags");
    }
    let sets = |bit: u32| mask & bit != 0;
    let request = AllocationPropertyRequest {
        queue: Handle(arguments.hPagingQueue),
        allocation: Handle(arguments.hAllocation),
        segments: sets(Property::SetSupportedSegmentSet)
            .then_some(SegmentSet(arguments.SupportedSegmentSet)),
        preferred: sets(Property::SetPreferredSegment)
            .then(|| preferences(arguments.PreferredSegment)),
    };
    let updated = session.kernel.update_allocation_property(session.process, &request);
    arguments.PagingFenceValue = map_error(session, PROPERTY_ERROR_RULES, updated)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The five preferences of a word; segment zero is none.
fn preferences(word: D3DDDI_SEGMENTPREFERENCE) -> [Option<SegmentPreference>; 5] {
    let mut shift = 5;
    word.segments().map(|segment| {
        let from_top = word.Value >> shift & 1 != 0;
        shift += 6;
        (segment != 0).then_some(SegmentPreference { segment, from_top })
    })
}
