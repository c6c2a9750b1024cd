//! Display sources: their owners, and the presents that wait for them. Nothing is displayed.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_list, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_CHECKOCCLUSION, D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP, D3DKMT_GET_QUEUEDLIMIT_PRESENT,
    D3DKMT_SET_QUEUEDLIMIT_PRESENT, D3DKMT_SETQUEUEDLIMIT, D3DKMT_SETVIDPNSOURCEOWNER,
    D3DKMT_SETVIDPNSOURCEOWNER1, D3DKMT_VIDPNSOURCEOWNER_EMULATED,
    D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI,
    D3DKMT_VIDPNSOURCEOWNER_FLAGS as Flags, D3DKMT_VIDPNSOURCEOWNER_SHARED,
    D3DKMT_VIDPNSOURCEOWNER_TYPE, D3DKMT_VIDPNSOURCEOWNER_UNOWNED,
};
use abi::status::{
    STATUS_GRAPHICS_PRESENT_OCCLUDED, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED,
};
use flight::{Passive, RuleId};
use kernel::{AdapterInfo, Handle, SourceOwnership};

const SET_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTSetVidPnSourceOwner.hDevice",
    )],
    others: &[(RuleId::VIDPN_OWN_001, "D3DKMTSetVidPnSourceOwner.pType")],
};

const SET_RULES: &[ArgumentRule<D3DKMT_SETVIDPNSOURCEOWNER>] = &[ArgumentRule {
    id: RuleId::VIDPN_OWN_001,
    argument: "D3DKMTSetVidPnSourceOwner.hDevice",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| (args.hDevice == 0).then(|| "hDevice is zero".to_owned()),
}];

const CHECK_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTCheckVidPnExclusiveOwnership.hAdapter",
    )],
    others: &[],
};

const LIMIT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTSetQueuedLimit.hDevice")],
    others: &[],
};

/// Changes how a device owns display sources.
pub(crate) unsafe fn set_vidpn_source_owner(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETVIDPNSOURCEOWNER,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    // SAFETY: The caller's contract.
    unsafe { set_owner(session, &arguments) }
}

/// Changes how a device owns display sources, with flags.
pub(crate) unsafe fn set_vidpn_source_owner1(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETVIDPNSOURCEOWNER1,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    if arguments.Flags.has(Flags::RESERVED) {
        return Err(invalid("reserved bits of Flags are set"));
    }
    if arguments.Flags.has(Flags::UseNtHandles) {
        session.missing_entry("D3DKMTSetVidPnSourceOwner1.Flags.UseNtHandles");
        return Err(STATUS_NOT_SUPPORTED);
    }
    // SAFETY: The caller's contract.
    unsafe { set_owner(session, &arguments.Version0) }
}

/// Both versions.
///
/// # Safety
///
/// The lists are NULL or have `VidPnSourceCount` elements, unless the session is guarded.
unsafe fn set_owner(
    session: &Session,
    arguments: &D3DKMT_SETVIDPNSOURCEOWNER,
) -> Result<(), NTSTATUS> {
    judge_arguments(session, SET_RULES, arguments)?;
    let count = arguments.VidPnSourceCount as usize;
    // SAFETY: The caller's contract.
    let types = unsafe { read_list(arguments.pType, count) }.of_member("pType")?;
    // SAFETY: The caller's contract.
    let sources =
        unsafe { read_list(arguments.pVidPnSourceId, count) }.of_member("pVidPnSourceId")?;
    let types: Result<Vec<_>, NTSTATUS> = types.into_iter().map(ownership).collect();
    let sources: Vec<_> = sources.into_iter().zip(types?).collect();
    let device = Handle(arguments.hDevice);
    let set = session.kernel.set_source_owner(session.process, device, &sources);
    map_error(session, SET_ERROR_RULES, set)
}

/// WINDOWS: exclusive ownership for GDI is an invalid parameter (observed); its page keeps it to legacy
/// devices.
fn ownership(of: D3DKMT_VIDPNSOURCEOWNER_TYPE) -> Result<Option<SourceOwnership>, NTSTATUS> {
    match of {
        D3DKMT_VIDPNSOURCEOWNER_UNOWNED => Ok(None),
        D3DKMT_VIDPNSOURCEOWNER_SHARED => Ok(Some(SourceOwnership::Shared)),
        D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE => Ok(Some(SourceOwnership::Exclusive)),
        D3DKMT_VIDPNSOURCEOWNER_EMULATED => Ok(Some(SourceOwnership::Emulated)),
        D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI => Err(invalid(
            "a type is D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI, which is for legacy devices",
        )),
        _ => Err(invalid("a type is unknown")),
    }
}

/// Returns whether a device owns a display source exclusively.
///
/// WINDOWS: then presents are occluded (observed).
pub(crate) unsafe fn check_vidpn_exclusive_ownership(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (adapter, source) = (Handle(arguments.hAdapter), arguments.VidPnSourceId);
    let exclusive = session.kernel.is_source_exclusive(session.process, adapter, source);
    if map_error(session, CHECK_ERROR_RULES, exclusive)? {
        return Err(STATUS_GRAPHICS_PRESENT_OCCLUDED);
    }
    Ok(())
}

/// Returns whether what a window shows is occluded.
///
/// WINDOWS: without an argument or a window the parameter is invalid; while a device owns the
/// source of the only monitor exclusively, each window is occluded, and with several monitors none
/// is (all observed). Windows do not exist here: each number is one.
pub(crate) unsafe fn check_occlusion(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_CHECKOCCLUSION,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    if unsafe { read(args) }?.hWindow.is_null() {
        return Err(invalid("hWindow is NULL"));
    }
    let monitors: u32 = session.kernel.adapter_infos().iter().map(AdapterInfo::sources).sum();
    if session.kernel.is_occluded(session.process, monitors) {
        return Err(STATUS_GRAPHICS_PRESENT_OCCLUDED);
    }
    Ok(())
}

/// `D3DKMTCheckExclusiveOwnership`, which has no argument and returns a truth value: whether a device
/// owns any display source exclusively.
pub fn is_any_source_exclusive(session: &Session) -> bool {
    session.kernel.is_any_source_exclusive()
}

/// Sets or returns how many presents of a device may wait.
pub(crate) unsafe fn set_queued_limit(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_SETQUEUEDLIMIT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let (process, device) = (session.process, Handle(arguments.hDevice));
    match arguments.Type {
        D3DKMT_SET_QUEUEDLIMIT_PRESENT => {
            let limit = arguments.QueuedPresentLimit;
            let set = session.kernel.set_present_limit(process, device, limit);
            map_error(session, LIMIT_ERROR_RULES, set)
        }
        D3DKMT_GET_QUEUEDLIMIT_PRESENT => {
            let limit = session.kernel.present_limit(process, device);
            arguments.QueuedPresentLimit = map_error(session, LIMIT_ERROR_RULES, limit)?;
            // SAFETY: The caller's contract.
            unsafe { write(args, arguments) }
        }
        _ => Err(invalid("Type is unknown")),
    }
}
