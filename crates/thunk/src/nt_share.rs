//! Sharing objects by NT handles, and getting NT handles by name.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{check_writable, read, read_list, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::nt_attributes::{NtAttributes, access, read_attributes};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, map_error};
use abi::kmt::{
    D3DKMT_MAX_OBJECTS_PER_HANDLE, D3DKMT_OPENNTHANDLEFROMNAME,
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME, D3DKMT_SHAREOBJECTS,
};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::{HANDLE, NTSTATUS, OBJECT_ATTRIBUTES};
use flight::{Passive, RuleId};
use kernel::{Handle, NtObjectKind, ShareObjectsRequest};

const SHARE: &str = "D3DKMTShareObjects.hObjects";

const SHARE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[],
    others: &[
        (RuleId::ALLOC_SHARE_006, SHARE),
        (RuleId::ALLOC_SHARE_007, SHARE),
        (RuleId::NTSHARE_LIFE_003, SHARE),
    ],
};

const SHARE_RULES: &[ArgumentRule<D3DKMT_SHAREOBJECTS>] = &[ArgumentRule {
    id: RuleId::ALLOC_SHARE_007,
    argument: "D3DKMTShareObjects.cObjects",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| {
        let count = args.ObjectCount;
        (count == 0 || count > D3DKMT_MAX_OBJECTS_PER_HANDLE)
            .then(|| format!("{count} objects are to be shared by one NT handle, which has one to {D3DKMT_MAX_OBJECTS_PER_HANDLE}"))
    },
}];

/// The arguments of an open by name.
struct NameArguments {
    has_attributes: bool,
}

macro_rules! name_rules {
    ($($rules:ident $errors:ident $call:literal;)+) => {$(
        const $errors: ErrorRules = ErrorRules {
            handles: &[],
            others: &[(RuleId::NTSHARE_NAME_003, concat!($call, ".dwDesiredAccess"))],
        };
        const $rules: &[ArgumentRule<NameArguments>] = &[ArgumentRule {
            id: RuleId::NTSHARE_NAME_003,
            argument: concat!($call, ".pObjAttrib"),
            refuses: Some(STATUS_INVALID_PARAMETER),
            broken: |args| {
                (!args.has_attributes).then(|| "pObjAttrib is NULL, so there is no name".to_owned())
            },
        }];
    )+};
}

name_rules! {
    NAME_RULES NAME_ERROR_RULES "D3DKMTOpenNtHandleFromName";
    SYNC_NAME_RULES SYNC_NAME_ERROR_RULES "D3DKMTOpenSyncObjectNtHandleFromName";
}

/// Shares objects by an NT handle. The arguments are in a structure.
pub(crate) unsafe fn share_objects(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_SHAREOBJECTS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args.cast_const()) }?;
    // SAFETY: The caller's contract.
    unsafe { share(session, at, &arguments) }
}

/// `D3DKMTShareObjects` with its arguments one by one, as a client in C passes them.
///
/// # Safety
///
/// As for [`D3DKMTShareObjects`](crate::D3DKMTShareObjects), for the pointers of the structure.
pub unsafe fn share_objects_by_value(
    session: &Session,
    at: &mut Passive,
    arguments: D3DKMT_SHAREOBJECTS,
) -> NTSTATUS {
    session.call("D3DKMTShareObjects", || {
        // SAFETY: The caller's contract.
        unsafe { share(session, at, &arguments) }
    })
}

/// Both forms.
///
/// WINDOWS: without attributes the NT object has no name and the handle is not inherited (our
/// reading).
///
/// # Safety
///
/// The pointers in the arguments are NULL or valid for reads and writes, unless the session is
/// guarded. They never point to memory of this library.
unsafe fn share(
    session: &Session,
    at: &mut Passive,
    arguments: &D3DKMT_SHAREOBJECTS,
) -> Result<(), NTSTATUS> {
    judge_arguments(session, SHARE_RULES, arguments)?;
    let count = arguments.ObjectCount as usize;
    // SAFETY: The caller's contract.
    let objects =
        unsafe { read_list(arguments.ObjectHandleArray, count) }.of_member("ObjectHandleArray")?;
    let objects: Vec<Handle> = objects.into_iter().map(Handle).collect();
    let to = arguments.pSharedNtHandle;
    if to.is_null() {
        return Err(invalid("pSharedNtHandle is NULL"));
    }
    // SAFETY: The caller's contract.
    unsafe { check_writable(to.cast(), size_of::<HANDLE>()) }.of_member("pSharedNtHandle")?;
    let attributes = if arguments.pObjectAttributes.is_null() {
        NtAttributes::default()
    } else {
        // SAFETY: The caller's contract.
        unsafe { read_attributes(session, arguments.pObjectAttributes) }?
    };
    // A name may be free since an NT handle was closed.
    session.collect_closed_nt_handles(at);
    let request = ShareObjectsRequest {
        objects: &objects,
        name: attributes.name.as_deref(),
        access: access(arguments.DesiredAccess),
        owned: session.owns_nt_handles(),
    };
    let shared = session.kernel.share_objects(session.process, &request);
    let shared = map_error(session, SHARE_ERROR_RULES, shared)?;
    let handle = session.publish_nt_handle(at, shared, attributes.inherit)?;
    // SAFETY: The caller's contract.
    unsafe { write(to, handle) }.of_member("pSharedNtHandle")
}

/// Gets an NT handle of a resource by its name.
pub(crate) unsafe fn open_nt_handle_from_name(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENNTHANDLEFROMNAME,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let open = OpenName {
        kind: NtObjectKind::Resource,
        mask: arguments.dwDesiredAccess,
        attributes: arguments.pObjAttrib,
        rules: NAME_RULES,
        error_rules: NAME_ERROR_RULES,
    };
    // SAFETY: The caller's contract.
    arguments.hNtHandle = unsafe { open_name(session, at, &open) }?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Gets an NT handle of a synchronization object by its name.
pub(crate) unsafe fn open_sync_object_nt_handle_from_name(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let open = OpenName {
        kind: NtObjectKind::Sync,
        mask: arguments.dwDesiredAccess,
        attributes: arguments.pObjAttrib,
        rules: SYNC_NAME_RULES,
        error_rules: SYNC_NAME_ERROR_RULES,
    };
    // SAFETY: The caller's contract.
    arguments.hNtHandle = unsafe { open_name(session, at, &open) }?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// An open by name, of either type.
struct OpenName {
    kind: NtObjectKind,
    mask: u32,
    attributes: *const OBJECT_ATTRIBUTES,
    rules: &'static [ArgumentRule<NameArguments>],
    error_rules: ErrorRules,
}

/// Both types.
///
/// # Safety
///
/// The attributes are NULL or valid for reads, unless the session is guarded.
unsafe fn open_name(
    session: &Session,
    at: &mut Passive,
    open: &OpenName,
) -> Result<HANDLE, NTSTATUS> {
    let has_attributes = !open.attributes.is_null();
    judge_arguments(session, open.rules, &NameArguments { has_attributes })?;
    // SAFETY: The caller's contract.
    let attributes = unsafe { read_attributes(session, open.attributes) }?;
    session.collect_closed_nt_handles(at);
    let name = attributes.name.unwrap_or_default();
    let (process, rights, owned) = (session.process, access(open.mask), session.owns_nt_handles());
    let opened = session.kernel.open_nt_name(process, open.kind, &name, rights, owned);
    let opened = map_error(session, open.error_rules, opened)?;
    session.publish_nt_handle(at, opened, attributes.inherit)
}
