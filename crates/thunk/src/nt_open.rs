//! Opening the objects of NT handles.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::adapter::luid;
use crate::claims::{
    check_writable, copied, read_list_mut, read_mut, write, write_bytes, write_list,
};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::keyed_mutex::NO_RUNTIME_DATA;
use crate::refusal::{OfMember, invalid, refused};
use crate::session::Session;
use crate::share::{OpenSizes, size_rules, to_u32, wrong_size};
use crate::status::{ErrorRules, HandleArgument, map_error};
use crate::sync::show_value;
use abi::kmt::{
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID, D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE,
    D3DKMT_OPENRESOURCEFROMNTHANDLE, D3DKMT_OPENSYNCOBJECTFROMNTHANDLE,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2, D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
};
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};
use abi::ukm::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags;
use abi::{HANDLE, NTSTATUS};
use flight::{EventKind, Hex, Passive, RuleId};
use kernel::{Argument, Handle, KernelError, NtHandleId, OpenNtSyncRequest, OpenSyncResponse};

const QUERY: &str = "D3DKMTQueryResourceInfoFromNtHandle";
const OPEN: &str = "D3DKMTOpenResourceFromNtHandle";
const OPEN_SYNC: &str = "D3DKMTOpenSyncObjectFromNtHandle";
const OPEN_SYNC2: &str = "D3DKMTOpenSyncObjectFromNtHandle2";
const OPEN_KEYED_MUTEX: &str = "D3DKMTOpenKeyedMutexFromNtHandle";

macro_rules! device_rules {
    ($($rules:ident $place:literal;)+) => {$(
        const $rules: ErrorRules = ErrorRules {
            handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, $place)],
            others: &[],
        };
    )+};
}

device_rules! {
    QUERY_ERROR_RULES "D3DKMTQueryResourceInfoFromNtHandle.hDevice";
    OPEN_ERROR_RULES "D3DKMTOpenResourceFromNtHandle.hDevice";
    OPEN_SYNC2_ERROR_RULES "D3DKMTOpenSyncObjectFromNtHandle2.hDevice";
}

/// The error rules of calls without a device.
const NO_ERROR_RULES: ErrorRules = ErrorRules { handles: &[], others: &[] };

const LUID_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::SharedResource,
        RuleId::ALLOC_SHARE_010,
        "D3DKMTGetSharedResourceAdapterLuid.hGlobalShare",
    )],
    others: &[],
};

const MUTEX_RULES: &[ArgumentRule<D3DKMT_OPENRESOURCEFROMNTHANDLE>] = &[ArgumentRule {
    id: RuleId::ALLOC_SHARE_009,
    argument: "D3DKMTOpenResourceFromNtHandle.KeyedMutexPrivateRuntimeDataSize",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| {
        let size = args.KeyedMutexPrivateRuntimeDataSize;
        (size != 0 && args.pKeyedMutexPrivateRuntimeData.is_null()).then(|| {
            format!("room for {size} bytes of the keyed mutex's data is given at a NULL pointer")
        })
    },
}];

const RULES: &[ArgumentRule<OpenSizes>] = size_rules!("D3DKMTOpenResourceFromNtHandle");

/// Emits why a call with an NT handle fails because of its device or its NT handle.
fn log_failure<T>(
    session: &Session,
    call: &'static str,
    handle: Option<NtHandleId>,
    opened: &Result<T, KernelError>,
) {
    let Err(why) = opened else { return };
    let device = !matches!(
        why,
        KernelError::Handle { argument: Argument::Device, .. } | KernelError::Removed(_)
    );
    let handle = match (handle, why) {
        (None, _) => "invalid",
        (Some(_), KernelError::NtObjectType(_)) => "another-type",
        (Some(_), _) => "good",
    };
    if device && handle == "good" {
        return;
    }
    let status = Hex(crate::status::status(why).cast_unsigned());
    session.log().emit(session.process.subject(), || EventKind::NtOpenFailed {
        call: call.into(),
        device,
        handle: handle.into(),
        status,
    });
}

/// Returns the buffer sizes that an opener of an NT handle's resource needs.
pub(crate) unsafe fn query_resource_info_from_nt_handle(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
) -> Result<(), NTSTATUS> {
    let before = copied();
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let handle = session.find_nt_handle(at, arguments.hNtHandle);
    let there = session.kernel.nt_share_info(session.process, Handle(arguments.hDevice), handle);
    log_failure(session, QUERY, handle, &there);
    let there = map_error(session, QUERY_ERROR_RULES, there)?;
    // WINDOWS: sizes only; the runtime's data is never copied, with or without a buffer (observed).
    arguments.PrivateRuntimeDataSize = to_u32(there.runtime)?;
    arguments.TotalPrivateDriverDataSize = to_u32(there.total)?;
    arguments.ResourcePrivateDriverDataSize = to_u32(there.private)?;
    arguments.NumAllocations = to_u32(there.members)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    let (runtime, total) = (there.runtime as u64, there.total as u64);
    let copied = copied() - before;
    session.log().emit(there.resource, || EventKind::ShareQueried { runtime, total, copied });
    Ok(())
}

/// Opens the objects of an NT handle of a resource for a device.
///
/// WINDOWS: the buffer for the keyed mutex's data is checked and not written, as
/// `D3DKMTOpenKeyedMutex2` does it (our reading).
pub(crate) unsafe fn open_resource_from_nt_handle(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENRESOURCEFROMNTHANDLE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let handle = session.find_nt_handle(at, arguments.hNtHandle);
    let device = Handle(arguments.hDevice);
    let there = session.kernel.nt_share_info(session.process, device, handle);
    log_failure(session, OPEN, handle, &there);
    let there = map_error(session, OPEN_ERROR_RULES, there)?;
    judge_arguments(session, MUTEX_RULES, &arguments)?;
    let list = arguments.pOpenAllocationInfo2;
    let total = arguments.pTotalPrivateDriverDataBuffer;
    let sizes = OpenSizes {
        info: there,
        allocations: (arguments.NumAllocations, !list.is_null()),
        runtime: (arguments.PrivateRuntimeDataSize, !arguments.pPrivateRuntimeData.is_null()),
        private: arguments.ResourcePrivateDriverDataSize,
        total: (arguments.TotalPrivateDriverDataBufferSize, !total.is_null()),
    };
    judge_arguments(session, RULES, &sizes)?;
    // SAFETY: The caller's contract.
    let mut elements =
        unsafe { read_list_mut(list, there.members) }.of_member("pOpenAllocationInfo")?;
    // SAFETY: The caller's contract.
    unsafe { check_writable(total, there.total) }.of_member("pTotalPrivateDriverDataBuffer")?;
    // SAFETY: The caller's contract.
    unsafe { check_writable(arguments.pPrivateRuntimeData, there.runtime) }
        .of_member("pPrivateRuntimeData")?;
    let room = arguments.KeyedMutexPrivateRuntimeDataSize as usize;
    let opened = session.kernel.open_nt_resource(at, session.process, device, handle, room);
    let opened = map_error(session, OPEN_ERROR_RULES, opened)?;
    let resource = opened.resource;
    let (mut written, before) = (0, copied());
    for ((element, handle), private) in
        elements.iter_mut().zip(&resource.allocations).zip(&resource.privates)
    {
        // WINDOWS: driver data is delivered in the total buffer only, and the size fields are
        // updated (observed); that the pointer then leads there is our reading.
        element.hAllocation = handle.0;
        element.pPrivateDriverData = total.cast::<u8>().wrapping_add(written).cast();
        element.PrivateDriverDataSize = to_u32(private.len())?;
        written += private.len();
    }
    let privates: Vec<u8> = resource.privates.iter().flatten().copied().collect();
    // SAFETY: The caller's contract.
    unsafe { write_bytes(total, &privates) }.of_member("pTotalPrivateDriverDataBuffer")?;
    // SAFETY: The caller's contract.
    unsafe { write_bytes(arguments.pPrivateRuntimeData, &resource.runtime) }
        .of_member("pPrivateRuntimeData")?;
    // SAFETY: The caller's contract.
    unsafe { write_list(list, &elements) }.of_member("pOpenAllocationInfo")?;
    arguments.TotalPrivateDriverDataBufferSize = to_u32(written)?;
    arguments.hResource = resource.resource.0;
    // Without a bundle there is neither of them.
    arguments.hKeyedMutex = opened.keyed_mutex.unwrap_or_default().0;
    arguments.hSyncObject = opened.sync.unwrap_or_default().0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    let copied = copied() - before;
    // WINDOWS: as for an open by a global handle.
    if !arguments.pResourcePrivateDriverData.is_null() {
        // SAFETY: The caller's contract.
        unsafe { write_bytes(arguments.pResourcePrivateDriverData, &resource.private) }
            .of_member("pResourcePrivateDriverData")?;
    }
    session
        .log()
        .emit(there.resource, || EventKind::ShareOpened { written: written as u64, copied });
    Ok(())
}

/// Opens the synchronization object of an NT handle for the process.
pub(crate) unsafe fn open_sync_object_from_nt_handle(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let (handle, request) = (arguments.hNtHandle, OpenNtSyncRequest::default());
    let opened = open_sync(session, at, (OPEN_SYNC, NO_ERROR_RULES), handle, &request)?;
    arguments.hSyncObject = opened.handle.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Opens the synchronization object of an NT handle for a device.
pub(crate) unsafe fn open_sync_object_from_nt_handle2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let flags = arguments.Flags;
    // WINDOWS: our reading, as for undefined flags of other calls.
    if flags.has(Flags::RESERVED) {
        return Err(invalid("reserved bits of Flags are set"));
    }
    let request = OpenNtSyncRequest {
        device: Some(Handle(arguments.hDevice)),
        no_signal: flags.has(Flags::NoSignal),
        no_wait: flags.has(Flags::NoWait),
    };
    let call = (OPEN_SYNC2, OPEN_SYNC2_ERROR_RULES);
    let opened = open_sync(session, at, call, arguments.hNtHandle, &request)?;
    arguments.hSyncObject = opened.handle.0;
    if opened.is_monitored {
        arguments.set_value_address(show_value(session, opened.handle, opened.value)?);
    }
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Both versions.
fn open_sync(
    session: &Session,
    at: &mut Passive,
    (call, error_rules): (&'static str, ErrorRules),
    handle: HANDLE,
    request: &OpenNtSyncRequest,
) -> Result<OpenSyncResponse, NTSTATUS> {
    let handle = session.find_nt_handle(at, handle);
    let opened = session.kernel.open_nt_sync(session.process, handle, request);
    log_failure(session, call, handle, &opened);
    map_error(session, error_rules, opened)
}

/// Opens the keyed mutex of an NT handle.
///
/// WINDOWS: a buffer is checked and not written, as `D3DKMTOpenKeyedMutex2` does it (our reading).
pub(crate) unsafe fn open_keyed_mutex_from_nt_handle(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let room = arguments.PrivateRuntimeDataSize;
    if room != 0 && arguments.pPrivateRuntimeData.is_null() {
        return Err(invalid(NO_RUNTIME_DATA));
    }
    let handle = session.find_nt_handle(at, arguments.hNtHandle);
    let opened = session.kernel.open_nt_keyed_mutex(session.process, handle, room as usize);
    log_failure(session, OPEN_KEYED_MUTEX, handle, &opened);
    arguments.hKeyedMutex = map_error(session, NO_ERROR_RULES, opened)?.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Returns the LUID of the adapter that a shared resource is on.
///
/// WINDOWS: the NT handle counts, if there is one (our reading).
pub(crate) unsafe fn get_shared_resource_adapter_luid(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_GETSHAREDRESOURCEADAPTERLUID,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let handle = session.find_nt_handle(at, arguments.hNtHandle);
    if handle.is_none() && !arguments.hNtHandle.is_null() {
        return Err(refused(STATUS_INVALID_HANDLE, "hNtHandle is no NT handle of an object"));
    }
    let global = Handle(arguments.hGlobalShare);
    let adapter = session.kernel.shared_resource_adapter(global, handle);
    arguments.AdapterLuid = luid(map_error(session, LUID_ERROR_RULES, adapter)?);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}
