//! Adapters: enumerate, open, close.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::claims::{read, read_list_mut, read_mut, write, write_list};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error, status};
use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_ENUMADAPTERS_FILTER, D3DKMT_ENUMADAPTERS2,
    D3DKMT_ENUMADAPTERS3, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME, D3DKMT_OPENADAPTERFROMLUID,
};
use abi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_UNSUCCESSFUL};
use abi::{LUID, NTSTATUS};
use flight::{Passive, RuleId};
use kernel::{AdapterId, Handle};

/// WINDOWS: without an array, the returned number is a fixed maximum, 34 on Windows 11 and 32
/// before (observed).
const MAX_ADAPTERS: u32 = 34;

/// Lists the adapters, each with an open handle.
pub(crate) unsafe fn enum_adapters2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ENUMADAPTERS2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    // SAFETY: The caller's contract: the array has `NumAdapters` elements.
    arguments.NumAdapters =
        unsafe { enumerate(session, at, arguments.NumAdapters, arguments.pAdapters) }?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Lists the adapters that pass a filter, each with an open handle.
///
/// WINDOWS: the filter adds adapters that only compute or only display to the others
/// (documented). Here no adapter is of these, so it changes nothing. Counts and statuses are
/// those of `D3DKMTEnumAdapters2`, and a reserved bit is an invalid parameter (our reading).
pub(crate) unsafe fn enum_adapters3(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ENUMADAPTERS3,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    if arguments.Filter.has(D3DKMT_ENUMADAPTERS_FILTER::RESERVED) {
        return Err(STATUS_INVALID_PARAMETER);
    }
    // SAFETY: The caller's contract: the array has `NumAdapters` elements.
    arguments.NumAdapters =
        unsafe { enumerate(session, at, arguments.NumAdapters, arguments.pAdapters) }?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
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
    room: u32,
    array: *mut D3DKMT_ADAPTERINFO,
) -> Result<u32, NTSTATUS> {
    if array.is_null() {
        return Ok(MAX_ADAPTERS);
    }
    let adapters = session.kernel.adapters();
    let count = u32::try_from(adapters.len()).map_err(|_| STATUS_INVALID_PARAMETER)?;
    if room < count {
        return Err(STATUS_BUFFER_TOO_SMALL);
    }
    // SAFETY: The caller's contract: the array has `room` elements, so `count` too.
    let mut list = unsafe { read_list_mut(array, adapters.len()) }?;
    let handles = open_all(session, at, &adapters)?;
    for ((info, adapter), handle) in list.iter_mut().zip(adapters).zip(handles) {
        let (hAdapter, AdapterLuid) = (handle.0, luid(adapter));
        *info = D3DKMT_ADAPTERINFO { hAdapter, AdapterLuid, ..D3DKMT_ADAPTERINFO::ZERO };
    }
    // SAFETY: The caller's contract, as above.
    unsafe { write_list(array, &list) }?;
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
    let adapter = found.ok_or(STATUS_INVALID_PARAMETER)?;
    let handle = session.kernel.open_adapter(session.process, adapter);
    arguments.hAdapter = handle.map_err(|why| status(&why))?.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The name of the only display.
const DISPLAY: &str = r"\\.\DISPLAY1";

/// Opens the adapter of a display.
///
/// WINDOWS: the name of an attached display opens with a fresh handle and the adapter's LUID;
/// NULL, an empty name and the name of a display that is not attached are unsuccessful (observed:
/// ADAPTER-OPEN-001). Any other name is taken for a display that is not attached (our reading).
/// That the one attached display is the first adapter's, at source 0, is our decision: adapters
/// have no displays here.
pub(crate) unsafe fn open_adapter_from_gdi_display_name(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME,
) -> Result<(), NTSTATUS> {
    if args.is_null() {
        return Err(STATUS_UNSUCCESSFUL);
    }
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let name = arguments.DeviceName.split(|unit| *unit == 0).next().unwrap_or_default();
    if !name.iter().copied().eq(DISPLAY.encode_utf16()) {
        return Err(STATUS_UNSUCCESSFUL);
    }
    let adapter = *session.kernel.adapters().first().ok_or(STATUS_UNSUCCESSFUL)?;
    let handle = session.kernel.open_adapter(session.process, adapter);
    arguments.hAdapter = handle.map_err(|error| status(&error))?.0;
    (arguments.AdapterLuid, arguments.VidPnSourceId) = (luid(adapter), 0);
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

/// Opens all adapters or none.
fn open_all(
    session: &Session,
    at: &mut Passive,
    adapters: &[AdapterId],
) -> Result<Vec<Handle>, NTSTATUS> {
    let mut handles = Vec::with_capacity(adapters.len());
    for adapter in adapters {
        match session.kernel.open_adapter(session.process, *adapter) {
            Ok(handle) => handles.push(handle),
            Err(why) => {
                for handle in handles {
                    // It was opened just now, so it can be closed.
                    let _ = session.kernel.close_adapter(at, session.process, handle);
                }
                return Err(status(&why));
            }
        }
    }
    Ok(handles)
}

const CLOSE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::Adapter, RuleId::DEV_LIFE_001, "D3DKMTCloseAdapter.hAdapter")],
    others: &[],
};

pub(crate) fn luid(adapter: AdapterId) -> LUID {
    let number = adapter.luid();
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    LUID { LowPart: number as u32, HighPart: (number >> 32) as i32 }
}
