//! Adapters: enumerate, open by LUID, close.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_list_mut, read_mut, write, write_list};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error, status};
use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_ENUMADAPTERS,
    D3DKMT_ENUMADAPTERS_FILTER as Filter, D3DKMT_ENUMADAPTERS2, D3DKMT_ENUMADAPTERS3,
    D3DKMT_FLUSHHEAPTRANSITIONS, D3DKMT_OPENADAPTERFROMLUID, D3DKMT_SETSTABLEPOWERSTATE,
    MAX_ENUM_ADAPTERS,
};
use abi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER};
use abi::{LUID, NTSTATUS};
use flight::{Passive, RuleId};
use kernel::miniport::DriverKind;
use kernel::{AdapterId, AdapterInfo, Handle};

/// WINDOWS: without an array, the returned number is a fixed maximum, 34 on Windows 11 and 32
/// before (observed).
const MAX_ADAPTERS: u32 = 34;

/// Lists the adapters, each with an open handle, in an array of fixed size.
///
/// WINDOWS: adapters behind the last element are left out (documented).
pub(crate) unsafe fn enum_adapters(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ENUMADAPTERS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let mut adapters = listed(session, WITHOUT_FILTER);
    adapters.truncate(MAX_ENUM_ADAPTERS);
    let infos = open_all(session, at, &adapters)?;
    arguments.NumAdapters = u32::try_from(infos.len()).map_err(|_| STATUS_INVALID_PARAMETER)?;
    for (to, info) in arguments.Adapters.iter_mut().zip(infos) {
        *to = info;
    }
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Lists the adapters, each with an open handle.
pub(crate) unsafe fn enum_adapters2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ENUMADAPTERS2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let (room, array) = (arguments.NumAdapters, arguments.pAdapters);
    // SAFETY: The caller's contract: the array has `NumAdapters` elements.
    let listed = unsafe { enumerate(session, at, WITHOUT_FILTER, room, array) };
    if !array.is_null() {
        let is_short = listed == Err(STATUS_BUFFER_TOO_SMALL);
        let broken =
            is_short.then(|| format!("the array has {room} elements, and there are more adapters"));
        session.judge(RuleId::ADAPTER_ENUM_002, "D3DKMTEnumAdapters2.NumAdapters", broken);
    }
    arguments.NumAdapters = listed?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Lists the adapters that pass a filter, each with an open handle.
///
/// WINDOWS: the filter adds adapters that only compute or only display to the others
/// (documented). Counts and statuses are those of `D3DKMTEnumAdapters2`, and a reserved bit is an
/// invalid parameter (our reading).
pub(crate) unsafe fn enum_adapters3(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ENUMADAPTERS3,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let filter = arguments.Filter;
    if filter.has(Filter::RESERVED) {
        return Err(invalid("reserved bits of Filter are set"));
    }
    let (room, array) = (arguments.NumAdapters, arguments.pAdapters);
    // SAFETY: The caller's contract: the array has `NumAdapters` elements.
    arguments.NumAdapters = unsafe { enumerate(session, at, filter, room, array) }?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// What the calls without a filter list.
///
/// WINDOWS: adapters that only compute came with the filter (documented), while those that only
/// display were listed before it existed (our reading).
const WITHOUT_FILTER: Filter = Filter { Value: Filter::IncludeDisplayOnly };

/// The running adapters that pass a filter.
fn listed(session: &Session, filter: Filter) -> Vec<AdapterInfo> {
    let mut adapters = session.kernel.adapter_infos();
    adapters.retain(|info| match info.kind {
        DriverKind::Full => true,
        DriverKind::ComputeOnly => filter.has(Filter::IncludeComputeOnly),
        DriverKind::DisplayOnly => filter.has(Filter::IncludeDisplayOnly),
    });
    adapters
}

/// Fills an array of `room` elements with the adapters, and returns their number; without an
/// array, the maximum number.
///
/// # Safety
///
/// `array` is NULL or has `room` elements, unless the session is guarded.
unsafe fn enumerate(
    session: &Session,
    at: &mut Passive,
    filter: Filter,
    room: u32,
    array: *mut D3DKMT_ADAPTERINFO,
) -> Result<u32, NTSTATUS> {
    if array.is_null() {
        return Ok(MAX_ADAPTERS);
    }
    let adapters = listed(session, filter);
    let count = u32::try_from(adapters.len()).map_err(|_| STATUS_INVALID_PARAMETER)?;
    if room < count {
        return Err(STATUS_BUFFER_TOO_SMALL);
    }
    // SAFETY: The caller's contract: the array has `room` elements, so `count` too.
    unsafe { read_list_mut(array, adapters.len()) }.of_member("pAdapters")?;
    let list = open_all(session, at, &adapters)?;
    // SAFETY: The caller's contract, as above.
    unsafe { write_list(array, &list) }.of_member("pAdapters")?;
    Ok(count)
}

/// Opens the adapter of a LUID.
pub(crate) unsafe fn open_adapter_from_luid(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENADAPTERFROMLUID,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let same = |it: &AdapterId| {
        let it = luid(*it);
        (it.LowPart, it.HighPart) == (arguments.AdapterLuid.LowPart, arguments.AdapterLuid.HighPart)
    };
    let found = session.kernel.adapters().into_iter().find(same);
    let adapter = found.ok_or_else(|| invalid("AdapterLuid is not the LUID of an adapter"))?;
    let handle = session.kernel.open_adapter(session.process, adapter);
    arguments.hAdapter = handle.map_err(|why| status(&why))?.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Closes an adapter handle.
pub(crate) unsafe fn close_adapter(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_CLOSEADAPTER,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let closed = session.kernel.close_adapter(at, session.process, Handle(arguments.hAdapter));
    map_error(session, CLOSE_ERROR_RULES, closed)
}

/// Completes all changes of heaps that the caller's process has begun.
///
/// WINDOWS: an offer or reclaim may be done later (documented); here each is done when its call
/// returns or when its work has passed, so nothing is left to flush (our decision).
pub(crate) unsafe fn flush_heap_transitions(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_FLUSHHEAPTRANSITIONS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let adapter = Handle(unsafe { read(args) }?.hAdapter);
    let info = session.kernel.adapter_info(session.process, adapter);
    map_error(session, FLUSH_ERROR_RULES, info).map(drop)
}

/// Keeps the clocks of an adapter constant, which they are here.
pub(crate) unsafe fn set_stable_power_state(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETSTABLEPOWERSTATE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let adapter = Handle(unsafe { read(args) }?.hAdapter);
    let info = session.kernel.adapter_info(session.process, adapter);
    map_error(session, STABLE_POWER_ERROR_RULES, info).map(drop)
}

/// Opens all adapters or none.
fn open_all(
    session: &Session,
    at: &mut Passive,
    adapters: &[AdapterInfo],
) -> Result<Vec<D3DKMT_ADAPTERINFO>, NTSTATUS> {
    let mut infos: Vec<D3DKMT_ADAPTERINFO> = Vec::with_capacity(adapters.len());
    for adapter in adapters {
        match session.kernel.open_adapter(session.process, adapter.adapter) {
            Ok(handle) => infos.push(D3DKMT_ADAPTERINFO {
                hAdapter: handle.0,
                AdapterLuid: luid(adapter.adapter),
                NumOfSources: adapter.sources(),
                bPrecisePresentRegionsPreferred: 0,
            }),
            Err(why) => {
                for info in infos {
                    let handle = Handle(info.hAdapter);
                    // It was opened just now, so it can be closed.
                    let _ = session.kernel.close_adapter(at, session.process, handle);
                }
                return Err(status(&why));
            }
        }
    }
    Ok(infos)
}

const CLOSE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::Adapter, RuleId::DEV_LIFE_001, "D3DKMTCloseAdapter.hAdapter")],
    others: &[],
};

const FLUSH_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTFlushHeapTransitions.hAdapter",
    )],
    others: &[],
};

const STABLE_POWER_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTSetStablePowerState.hAdapter",
    )],
    others: &[],
};

pub(crate) fn luid(adapter: AdapterId) -> LUID {
    let number = adapter.luid();
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    LUID { LowPart: number as u32, HighPart: (number >> 32) as i32 }
}
