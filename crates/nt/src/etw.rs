//! Event tracing (`EtwRegister`, `WmiTraceMessage`, …) under its Windows names.
//!
//! A driver registers its providers and writes its events. No session enables a provider: as on a
//! machine without a trace session, the functions succeed and nothing is recorded.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_at_most, judge_irql};
use crate::import_table::{import_rows, variadic};
use crate::ke_irql::APC_LEVEL;
use crate::rtl::guid_text;
use crate::status::{
    STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NOT_FOUND, STATUS_NOT_SUPPORTED,
    STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use abi::{BOOLEAN, GUID, NTSTATUS, PVOID};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

import_rows! {
    EtwActivityIdControl lacks "the identifier of the thread is always zero";
    EtwEventEnabled lacks "no provider is enabled";
    EtwProviderEnabled lacks "no provider is enabled";
    EtwRegister lacks "no provider is enabled";
    EtwSetInformation lacks "has no effect";
    EtwUnregister;
    EtwWrite lacks "no provider is enabled";
    EtwWriteEx lacks "no provider is enabled";
    EtwWriteString lacks "no provider is enabled";
    EtwWriteTransfer lacks "no provider is enabled";
    WmiQueryTraceInformation lacks "there is no trace session";
    WmiTraceMessage lacks "there is no trace session";
    WmiTraceMessageVa lacks "there is no trace session";
}

/// The registered providers of the process by handle.
static PROVIDERS: Mutex<Providers> = Mutex::new(Providers { last: 0, open: BTreeMap::new() });

struct Providers {
    last: u64,
    open: BTreeMap<u64, [u8; 16]>,
}

fn providers() -> MutexGuard<'static, Providers> {
    PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The providers that drivers of this process have registered and not unregistered, as text.
pub fn registered_providers() -> Vec<String> {
    providers().open.values().map(|provider| guid_text(*provider)).collect()
}

/// The status of a write: the handle is known, or not.
fn written(handle: u64) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        let known = providers().open.contains_key(&handle);
        if known { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
    })
}

/// Registers a provider. Its callback is not called, because no session enables it.
pub unsafe extern "win64-unwind" fn EtwRegister(
    provider: *const GUID,
    _callback: PVOID,
    _context: PVOID,
    handle: *mut u64,
) -> NTSTATUS {
    judge_irql("EtwRegister");
    // SAFETY: The caller's contract.
    let provider = unsafe { DriverMemory::at(provider) };
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    if provider.is_null() || handle.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    let provider = provider.read(0);
    let number = guarded(0, || {
        let mut providers = providers();
        providers.last += 1;
        let number = providers.last;
        providers.open.insert(number, provider);
        number
    });
    handle.write(0, number);
    STATUS_SUCCESS
}

/// Unregisters a provider.
pub unsafe extern "win64-unwind" fn EtwUnregister(handle: u64) -> NTSTATUS {
    judge_irql("EtwUnregister");
    let removed = guarded(false, || providers().open.remove(&handle).is_some());
    if removed { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
}

/// Writes an event.
pub unsafe extern "win64-unwind" fn EtwWrite(
    handle: u64,
    _event: PVOID,
    _activity: *const GUID,
    _count: u32,
    _data: PVOID,
) -> NTSTATUS {
    written(handle)
}

/// Writes an event with a filter and related activities.
pub unsafe extern "win64-unwind" fn EtwWriteEx(
    handle: u64,
    _event: PVOID,
    _filter: u64,
    _flags: u32,
    _activity: *const GUID,
    _related: *const GUID,
    _count: u32,
    _data: PVOID,
) -> NTSTATUS {
    written(handle)
}

/// Writes an event that relates two activities.
pub unsafe extern "win64-unwind" fn EtwWriteTransfer(
    handle: u64,
    _event: PVOID,
    _activity: *const GUID,
    _related: *const GUID,
    _count: u32,
    _data: PVOID,
) -> NTSTATUS {
    written(handle)
}

/// Writes a text.
pub unsafe extern "win64-unwind" fn EtwWriteString(
    handle: u64,
    _level: u8,
    _keyword: u64,
    _activity: *const GUID,
    _text: *const u16,
) -> NTSTATUS {
    written(handle)
}

/// Whether an event is enabled: none is.
pub unsafe extern "win64-unwind" fn EtwEventEnabled(_handle: u64, _event: PVOID) -> BOOLEAN {
    0
}

/// Whether a provider is enabled for a level and keywords: none is.
pub unsafe extern "win64-unwind" fn EtwProviderEnabled(
    _handle: u64,
    _level: u8,
    _keyword: u64,
) -> BOOLEAN {
    0
}

/// Gets, sets or creates the identifier of an activity.
pub unsafe extern "win64-unwind" fn EtwActivityIdControl(code: u32, id: *mut GUID) -> NTSTATUS {
    /// `EVENT_ACTIVITY_CTRL_GET_ID` to `EVENT_ACTIVITY_CTRL_CREATE_SET_ID`.
    const GET: u32 = 1;
    const SET: u32 = 2;
    const CREATE: u32 = 3;
    const GET_SET: u32 = 4;
    const CREATE_SET: u32 = 5;
    // SAFETY: The caller's contract.
    let memory = unsafe { DriverMemory::at(id) };
    if memory.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    if code != CREATE {
        judge_at_most("EtwActivityIdControl", "EtwActivityIdControl", APC_LEVEL);
    }
    match code {
        GET | GET_SET | CREATE_SET => memory.write(0, 0_u128),
        SET => {}
        CREATE => crate::ex_misc::create_uuid(memory),
        _ => return STATUS_INVALID_PARAMETER,
    }
    STATUS_SUCCESS
}

/// Sets information about a provider.
pub unsafe extern "win64-unwind" fn EtwSetInformation(
    handle: u64,
    _class: u32,
    _information: PVOID,
    _length: u32,
) -> NTSTATUS {
    written(handle)
}

variadic! {
    /// Writes a message of the WPP preprocessor: there is no session with this handle.
    WmiTraceMessage -> message_without_session;
}

/// `WmiTraceMessage(LoggerHandle, MessageFlags, MessageGuid, MessageNumber, …)`.
unsafe extern "win64-unwind" fn message_without_session(_slots: *const u64) -> NTSTATUS {
    STATUS_INVALID_HANDLE
}

/// Writes a message of the WPP preprocessor: there is no session with this handle.
pub unsafe extern "win64-unwind" fn WmiTraceMessageVa(
    _logger: u64,
    _flags: u32,
    _message: *const GUID,
    _number: u16,
    _arguments: *const u64,
) -> NTSTATUS {
    STATUS_INVALID_HANDLE
}

/// Returns information about tracing: there is no session.
///
/// WINDOWS: WPP's start-up code asks for the addresses of the tracing functions
/// (`TraceHandleByNameClass` and others, undocumented) and goes on without them.
pub unsafe extern "win64-unwind" fn WmiQueryTraceInformation(
    class: u32,
    _information: PVOID,
    _length: u32,
    needed: *mut u32,
    _buffer: PVOID,
) -> NTSTATUS {
    /// `TraceHandleByNameClass`: the session with a name.
    const HANDLE_BY_NAME: u32 = 6;
    // SAFETY: The caller's contract.
    if let Some(needed) = unsafe { DriverMemory::at(needed) }.non_null() {
        needed.write(0, 0_u32);
    }
    if class == HANDLE_BY_NAME { STATUS_NOT_FOUND } else { STATUS_NOT_SUPPORTED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, count, fly};
    use std::ptr::{null, null_mut};

    #[test]
    fn a_provider_is_registered_once_and_not_enabled() {
        let guid = GUID { Data1: 0x1234_5678, Data2: 1, Data3: 2, Data4: [4; 8] };
        let text = "{12345678-0001-0002-0404-040404040404}".to_owned();
        fly(|| {
            let mut handle = 0;
            let register = |guid, handle| call!(EtwRegister, guid, null_mut(), null_mut(), handle);
            assert_eq!(register(null(), &raw mut handle), STATUS_INVALID_PARAMETER);
            assert_eq!(register(&raw const guid, &raw mut handle), 0);
            assert!(handle != 0 && registered_providers().contains(&text));
            let enabled = call!(EtwProviderEnabled, handle, 5, u64::MAX);
            assert_eq!((enabled, call!(EtwEventEnabled, handle, null_mut())), (0, 0));
            let (none, data) = (null(), null_mut());
            assert_eq!(call!(EtwWrite, handle, null_mut(), none, 0, data), 0);
            assert_eq!(call!(EtwWriteEx, handle, null_mut(), 0, 0, none, none, 0, data), 0);
            assert_eq!(call!(EtwWriteTransfer, handle, null_mut(), none, none, 0, data), 0);
            assert_eq!(call!(EtwWriteString, handle, 0, 0, none, null()), 0);
            assert_eq!(call!(EtwSetInformation, handle, 2, data, 0), 0);
            assert_eq!(call!(EtwUnregister, handle), 0);
            assert_eq!(call!(EtwUnregister, handle), STATUS_INVALID_HANDLE);
            let written = call!(EtwWrite, handle, null_mut(), none, 0, data);
            assert_eq!(written, STATUS_INVALID_HANDLE);
            assert!(!registered_providers().contains(&text));
        });
    }

    #[test]
    fn registration_is_for_passive_level() {
        let events = fly(|| {
            crate::KeRaiseIrqlToDpcLevel();
            call!(EtwUnregister, 0);
            call!(EtwWrite, 0, null_mut(), null(), 0, null_mut());
            crate::KeLowerIrql(0);
        });
        assert_eq!(count(&events, "rule.broken"), 1, "events are written at any level");
    }

    #[test]
    fn activities_have_identifiers() {
        let mut id = GUID { Data1: 7, Data2: 0, Data3: 0, Data4: [0; 8] };
        fly(|| {
            assert_eq!(call!(EtwActivityIdControl, 1, &raw mut id), 0);
            assert_eq!(id.Data1, 0);
            assert_eq!(call!(EtwActivityIdControl, 3, &raw mut id), 0);
            assert_eq!(id.Data3 >> 12, 4, "a new one");
            assert_eq!(call!(EtwActivityIdControl, 9, &raw mut id), STATUS_INVALID_PARAMETER);
        });
    }

    #[test]
    fn there_is_no_trace_session() {
        type Message = unsafe extern "win64-unwind" fn(u64, u32, *const GUID, u16, u64) -> NTSTATUS;
        // SAFETY: On x64 a call with these arguments is one of a variadic function.
        let message: Message = unsafe { std::mem::transmute(WmiTraceMessage as *const ()) };
        assert_eq!(call!(message, 1, 0, null(), 10, 0), STATUS_INVALID_HANDLE);
        assert_eq!(call!(WmiTraceMessageVa, 1, 0, null(), 10, null()), STATUS_INVALID_HANDLE);
        let mut needed = 7;
        let query = call!(WmiQueryTraceInformation, 6, null_mut(), 0, &raw mut needed, null_mut());
        assert_eq!((query, needed), (STATUS_NOT_FOUND, 0));
    }
}
