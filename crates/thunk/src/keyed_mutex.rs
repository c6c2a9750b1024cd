//! Keyed mutexes: create, open, acquire with a key, release to the next key.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{check_writable, copied, read, read_bytes, read_mut, write, write_bytes};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::kmt::{
    D3DKMT_ACQUIREKEYEDMUTEX, D3DKMT_ACQUIREKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX,
    D3DKMT_CREATEKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX2_FLAGS as CreateFlags,
    D3DKMT_DESTROYKEYEDMUTEX, D3DKMT_OPENKEYEDMUTEX, D3DKMT_OPENKEYEDMUTEX2,
    D3DKMT_RELEASEKEYEDMUTEX, D3DKMT_RELEASEKEYEDMUTEX2,
};
use abi::status::{
    STATUS_ABANDONED, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_TIMEOUT,
};
use abi::{LARGE_INTEGER, NTSTATUS};
use flight::{EventKind, Passive, RuleId, Subject};
use kernel::{
    AcquireKeyedMutexResponse, CreateKeyedMutexRequest, CreateKeyedMutexResponse, Handle,
    KernelError, ReleaseKeyedMutexRequest,
};
use std::ffi::c_void;

macro_rules! error_rules {
    ($($name:ident: $which:ident $rule:ident $place:literal;)+) => {
        $(const $name: ErrorRules =
            ErrorRules { handles: &[(HandleArgument::$which, RuleId::$rule, $place)], others: &[] };)+
    };
}

error_rules! {
    OPEN_ERROR_RULES: SharedKeyedMutex MUTEX_KEYED_001 "D3DKMTOpenKeyedMutex.hSharedHandle";
    OPENED2: SharedKeyedMutex MUTEX_KEYED_001 "D3DKMTOpenKeyedMutex2.hSharedHandle";
    DESTROY_ERROR_RULES: KeyedMutex MUTEX_KEYED_003 "D3DKMTDestroyKeyedMutex.hKeyedMutex";
    ACQUIRED: KeyedMutex MUTEX_KEYED_001 "D3DKMTAcquireKeyedMutex.hKeyedMutex";
    ACQUIRED2: KeyedMutex MUTEX_KEYED_001 "D3DKMTAcquireKeyedMutex2.hKeyedMutex";
    RELEASED: KeyedMutex MUTEX_KEYED_001 "D3DKMTReleaseKeyedMutex.hKeyedMutex";
    RELEASED2: KeyedMutex MUTEX_KEYED_001 "D3DKMTReleaseKeyedMutex2.hKeyedMutex";
}

/// The error rules of calls without handles.
const CREATE_ERROR_RULES: ErrorRules = ErrorRules { handles: &[], others: &[] };

/// Why a size without a buffer is refused.
pub(crate) const NO_RUNTIME_DATA: &str =
    "PrivateRuntimeDataSize is not 0, but pPrivateRuntimeData is NULL";

/// Whether the arguments are not NULL.
fn check_args<T>(session: &Session, call: &'static str, args: *const T) -> Result<(), NTSTATUS> {
    let null = args.is_null();
    let broken = null.then(|| format!("{call} was called with NULL in place of its arguments"));
    session.judge(RuleId::MUTEX_KEYED_001, call, broken);
    if null { Err(STATUS_INVALID_PARAMETER) } else { Ok(()) }
}

/// Creates a keyed mutex that any process can open.
pub(crate) unsafe fn create_keyed_mutex(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_CREATEKEYEDMUTEX,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTCreateKeyedMutex", args)?;
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let request = CreateKeyedMutexRequest {
        key: arguments.InitialValue,
        ..CreateKeyedMutexRequest::default()
    };
    (arguments.hKeyedMutex, arguments.hSharedHandle) = create(session, request)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Creates a keyed mutex with the runtime's data.
pub(crate) unsafe fn create_keyed_mutex2(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_CREATEKEYEDMUTEX2,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTCreateKeyedMutex2", args)?;
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    // WINDOWS: our reading, as for undefined flags of other calls.
    if arguments.Flags.has(CreateFlags::RESERVED) {
        return Err(invalid("reserved bits of Flags are set"));
    }
    let (data, size) = (arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize);
    // SAFETY: The caller's contract.
    let runtime = unsafe { read_bytes(data, size) }.of_member("pPrivateRuntimeData")?;
    let nt = arguments.Flags.has(CreateFlags::NtSecuritySharing);
    let request = CreateKeyedMutexRequest { key: arguments.InitialValue, runtime, nt };
    (arguments.hKeyedMutex, arguments.hSharedHandle) = create(session, request)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The creator's handle and the global handle, which is zero for NT sharing.
fn create(session: &Session, request: CreateKeyedMutexRequest) -> Result<(u32, u32), NTSTATUS> {
    let made = session.kernel.create_keyed_mutex(session.process, request);
    let CreateKeyedMutexResponse { handle, global } = map_error(session, CREATE_ERROR_RULES, made)?;
    Ok((handle.0, global.unwrap_or_default().0))
}

/// Opens a keyed mutex.
pub(crate) unsafe fn open_keyed_mutex(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENKEYEDMUTEX,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTOpenKeyedMutex", args)?;
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let global = Handle(arguments.hSharedHandle);
    let opened = session.kernel.open_keyed_mutex(session.process, global, 0);
    arguments.hKeyedMutex = map_error(session, OPEN_ERROR_RULES, opened)?.1.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Opens a keyed mutex. Does not return the runtime's data.
///
/// WINDOWS: a buffer has to be big enough, if there is one, and is not written (observed). A size
/// without a buffer fails: our reading.
pub(crate) unsafe fn open_keyed_mutex2(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENKEYEDMUTEX2,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTOpenKeyedMutex2", args)?;
    let before = copied();
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let capacity = arguments.PrivateRuntimeDataSize;
    if capacity != 0 && arguments.pPrivateRuntimeData.is_null() {
        return Err(invalid(NO_RUNTIME_DATA));
    }
    let global = Handle(arguments.hSharedHandle);
    let opened = session.kernel.open_keyed_mutex(session.process, global, capacity as usize);
    let subject = match &opened {
        Ok((it, _)) | Err(KernelError::BufferTooSmall { of: it, .. }) => Some(*it),
        Err(_) => None,
    };
    let opened = map_error(session, OPENED2, opened).and_then(|(_, handle)| {
        arguments.hKeyedMutex = handle.0;
        // SAFETY: The caller's contract.
        unsafe { write(args, arguments) }
    });
    if let Some(subject) = subject {
        let size = arguments.PrivateRuntimeDataSize.into();
        session.log().emit(subject, || EventKind::KeyedMutexOpenReturned {
            capacity: capacity.into(),
            size,
            copied: copied() - before,
        });
    }
    opened
}

/// Destroys a handle of a keyed mutex.
pub(crate) unsafe fn destroy_keyed_mutex(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_DESTROYKEYEDMUTEX,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let handle = Handle(unsafe { read(args) }?.hKeyedMutex);
    map_error(
        session,
        DESTROY_ERROR_RULES,
        session.kernel.destroy_keyed_mutex(session.process, handle),
    )
}

/// An acquire, of either version.
struct AcquireArguments {
    handle: Handle,
    key: u64,
    timeout: *const LARGE_INTEGER,
    runtime_size: u32,
}

/// The result of an acquire.
struct AcquireResult {
    subject: Subject,
    outcome: &'static str,
    status: Result<(), NTSTATUS>,
    /// The new `FenceValue`.
    fence: u64,
    runtime: Vec<u8>,
}

impl AcquireResult {
    /// Emits the result of the acquire. Returns the status.
    fn finish(
        self,
        session: &Session,
        arguments: u64,
        key: u64,
        fence: u64,
    ) -> Result<(), NTSTATUS> {
        session.log().emit(self.subject, || EventKind::KeyedMutexAcquireReturned {
            result: self.outcome.into(),
            requested: arguments,
            key,
            fence,
        });
        self.status
    }
}

/// Waits for a key.
///
/// WINDOWS: a time-out and an abandoned mutex set `FenceValue` to zero (observed).
///
/// # Safety
///
/// The pointers are NULL or valid for reads, unless the session is guarded.
unsafe fn acquire(
    session: &Session,
    at: &mut Passive,
    error_rules: ErrorRules,
    ask: &AcquireArguments,
) -> Result<AcquireResult, NTSTATUS> {
    // SAFETY: The caller's contract.
    let timeout = unsafe { timeout_ticks(session, ask.timeout) }?;
    let capacity = ask.runtime_size as usize;
    let ended = session.kernel.acquire_keyed_mutex(
        at,
        session.process,
        ask.handle,
        ask.key,
        timeout,
        capacity,
    );
    let (subject, ended) = map_error(session, error_rules, ended)?;
    let (outcome, status, fence, runtime) = match ended {
        AcquireKeyedMutexResponse::Owned { fence, runtime } => ("acquired", Ok(()), fence, runtime),
        AcquireKeyedMutexResponse::TimedOut => ("timed-out", Err(STATUS_TIMEOUT), 0, Vec::new()),
        AcquireKeyedMutexResponse::Abandoned => ("abandoned", Err(STATUS_ABANDONED), 0, Vec::new()),
    };
    Ok(AcquireResult { subject, outcome, status, fence, runtime })
}

/// The timeout in units of 100 ns. Relative times are negative; without a timeout the wait is
/// infinite.
///
/// # Safety
///
/// The pointer is NULL or valid for reads, unless the session is guarded.
unsafe fn timeout_ticks(
    session: &Session,
    timeout: *const LARGE_INTEGER,
) -> Result<Option<u64>, NTSTATUS> {
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: The caller's contract.
    let timeout = unsafe { read(timeout) }.of_member("pTimeout")?;
    if timeout > 0 {
        session.missing_entry("D3DKMTAcquireKeyedMutex until a date");
        return Err(STATUS_NOT_SUPPORTED);
    }
    Ok(Some(timeout.unsigned_abs()))
}

/// Waits until a keyed mutex is free for a key, and owns it.
pub(crate) unsafe fn acquire_keyed_mutex(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ACQUIREKEYEDMUTEX,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTAcquireKeyedMutex", args)?;
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let (handle, key) = (Handle(arguments.hKeyedMutex), arguments.Key);
    let ask = AcquireArguments { handle, key, timeout: arguments.pTimeout, runtime_size: 0 };
    // SAFETY: The caller's contract.
    let ended = unsafe { acquire(session, at, ACQUIRED, &ask) }?;
    arguments.FenceValue = ended.fence;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    ended.finish(session, key, arguments.Key, arguments.FenceValue)
}

/// Waits until a keyed mutex is free for a key, owns it and gets the runtime's data.
///
/// WINDOWS: that the data is copied is documented; that a buffer which is too small fails the
/// call, as it does for an open, is our reading.
pub(crate) unsafe fn acquire_keyed_mutex2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_ACQUIREKEYEDMUTEX2,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTAcquireKeyedMutex2", args)?;
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let (data, capacity): (*mut c_void, u32) =
        (arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize);
    if capacity != 0 && data.is_null() {
        return Err(invalid(NO_RUNTIME_DATA));
    }
    // SAFETY: The caller's contract.
    unsafe { check_writable(data, capacity as usize) }.of_member("pPrivateRuntimeData")?;
    let (handle, key) = (Handle(arguments.hKeyedMutex), arguments.Key);
    let ask = AcquireArguments { handle, key, timeout: arguments.pTimeout, runtime_size: capacity };
    // SAFETY: The caller's contract.
    let ended = unsafe { acquire(session, at, ACQUIRED2, &ask) }?;
    arguments.FenceValue = ended.fence;
    // SAFETY: The caller's contract; there is room for all of it, or it is empty.
    unsafe { write_bytes(data, &ended.runtime) }.of_member("pPrivateRuntimeData")?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    ended.finish(session, key, arguments.Key, arguments.FenceValue)
}

/// Releases a keyed mutex to the next key.
pub(crate) unsafe fn release_keyed_mutex(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_RELEASEKEYEDMUTEX,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTReleaseKeyedMutex", args)?;
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args.cast_const()) }?;
    let release =
        ReleaseKeyedMutexRequest { key: arguments.Key, fence: arguments.FenceValue, runtime: None };
    let handle = Handle(arguments.hKeyedMutex);
    let released = session.kernel.release_keyed_mutex(session.process, handle, release);
    map_error(session, RELEASED, released)
}

/// Releases a keyed mutex to the next key, with new data of the runtime.
///
/// WINDOWS: that the data replaces the mutex's data is documented; that an empty buffer leaves the
/// old data is our reading.
pub(crate) unsafe fn release_keyed_mutex2(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_RELEASEKEYEDMUTEX2,
) -> Result<(), NTSTATUS> {
    check_args(session, "D3DKMTReleaseKeyedMutex2", args)?;
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args.cast_const()) }?;
    let (data, size) = (arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize);
    // SAFETY: The caller's contract.
    let runtime = unsafe { read_bytes(data, size) }.of_member("pPrivateRuntimeData")?;
    let runtime = (size != 0).then_some(runtime);
    let release =
        ReleaseKeyedMutexRequest { key: arguments.Key, fence: arguments.FenceValue, runtime };
    let handle = Handle(arguments.hKeyedMutex);
    let released = session.kernel.release_keyed_mutex(session.process, handle, release);
    map_error(session, RELEASED2, released)
}
