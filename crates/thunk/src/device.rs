//! Devices and contexts.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_bytes, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid, refused};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_CREATECONTEXTVIRTUAL, D3DKMT_CREATEDEVICE, D3DKMT_DESTROYCONTEXT, D3DKMT_DESTROYDEVICE,
    D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR, D3DKMT_DEVICE_ERROR_REASON_GENERIC,
    D3DKMT_DEVICEEXECUTION_ACTIVE, D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT,
    D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT, D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY,
    D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET, D3DKMT_DEVICEEXECUTION_STOPPED,
    D3DKMT_DEVICESTATE_EXECUTION, D3DKMT_GETDEVICESTATE, D3DKMT_MARKDEVICEASERROR,
    D3DKMT_SHAREOBJECTWITHHOST,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use flight::{Passive, RuleId};
use kernel::miniport::CreateContextArgs;
use kernel::{DeviceLoss, Handle};

/// A handle argument of a device call; `None` without a structure.
type OptionalHandle = Option<u32>;

const CREATE_RULES: &[ArgumentRule<OptionalHandle>] = &[ArgumentRule {
    id: RuleId::DEV_LIFE_013,
    argument: "D3DKMTCreateDevice.hAdapter",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |given| missing_handle(*given, "hAdapter"),
}];

const DESTROY_RULES: &[ArgumentRule<OptionalHandle>] = &[ArgumentRule {
    id: RuleId::DEV_LIFE_013,
    argument: "D3DKMTDestroyDevice.hDevice",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |given| missing_handle(*given, "hDevice"),
}];

fn missing_handle(given: OptionalHandle, name: &str) -> Option<String> {
    match given {
        None => Some("there is no argument structure".to_owned()),
        Some(0) => Some(format!("{name} is zero")),
        Some(_) => None,
    }
}

const CREATE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::Adapter, RuleId::DEV_LIFE_001, "D3DKMTCreateDevice.hAdapter")],
    others: &[],
};

const DESTROY_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTDestroyDevice.hDevice")],
    others: &[],
};

const STATE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTGetDeviceState.hDevice")],
    others: &[],
};

const CREATE_CONTEXT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTCreateContextVirtual.hDevice",
    )],
    others: &[(RuleId::DEV_LIFE_006, "D3DKMTCreateContextVirtual.NodeOrdinal")],
};

const DESTROY_CONTEXT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTDestroyContext.hContext",
    )],
    others: &[],
};

/// Creates a device.
pub(crate) unsafe fn create_device(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATEDEVICE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read_mut(args) };
    judge_arguments(session, CREATE_RULES, &arguments.ok().map(|args| args.hAdapter))?;
    let mut arguments = arguments?;
    if arguments.Flags.Value != 0 {
        session.missing_entry("D3DKMTCreateDevice.Flags");
    }
    let handle = Handle(arguments.hAdapter);
    let made = session.kernel.create_device(at, session.process, handle);
    arguments.hDevice = map_error(session, CREATE_ERROR_RULES, made)?.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Destroys a device with all its objects.
pub(crate) unsafe fn destroy_device(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_DESTROYDEVICE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) };
    judge_arguments(session, DESTROY_RULES, &arguments.ok().map(|args| args.hDevice))?;
    let handle = Handle(arguments?.hDevice);
    map_error(
        session,
        DESTROY_ERROR_RULES,
        session.kernel.destroy_device(at, session.process, handle),
    )
}

/// Returns the execution state of a device.
pub(crate) unsafe fn get_device_state(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_GETDEVICESTATE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let state = session.kernel.device_state(session.process, Handle(arguments.hDevice));
    let state = map_error(session, STATE_ERROR_RULES, state)?;
    if arguments.StateType != D3DKMT_DEVICESTATE_EXECUTION {
        session.missing_entry("D3DKMTGetDeviceState of another state than the execution state");
        return Err(STATUS_NOT_SUPPORTED);
    }
    // WINDOWS: the state after a rejected packet is our reading: a fault of its commands.
    arguments.set_execution_state(match state {
        None => D3DKMT_DEVICEEXECUTION_ACTIVE,
        Some(DeviceLoss::TimedOut) => D3DKMT_DEVICEEXECUTION_HUNG,
        Some(DeviceLoss::Reset) => D3DKMT_DEVICEEXECUTION_RESET,
        // So is, by the number of its reason, what a client says of its driver.
        Some(DeviceLoss::SubmitFailed | DeviceLoss::MarkedForDriver) => {
            D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT
        }
        Some(DeviceLoss::OutOfMemory) => D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY,
        Some(DeviceLoss::PageFault) => D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT,
        Some(DeviceLoss::AdapterRemoved | DeviceLoss::Marked) => D3DKMT_DEVICEEXECUTION_STOPPED,
    });
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

const MARK_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTMarkDeviceAsError.hDevice",
    )],
    others: &[],
};

/// Marks a device as broken: its work ends, and later calls on it fail.
pub(crate) unsafe fn mark_device_as_error(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_MARKDEVICEASERROR,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let why = match arguments.Reason {
        D3DKMT_DEVICE_ERROR_REASON_GENERIC => DeviceLoss::Marked,
        D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR => DeviceLoss::MarkedForDriver,
        _ => return Err(invalid("Reason is unknown")),
    };
    let device = Handle(arguments.hDevice);
    let marked = session.kernel.mark_device_as_error(session.process, device, why);
    map_error(session, MARK_ERROR_RULES, marked)
}

/// Gives an object to the host of a virtual machine, which this is not.
///
/// WINDOWS: the page names no status for a client outside of a virtual machine; not supported is our
/// reading.
pub(crate) unsafe fn share_object_with_host(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_SHAREOBJECTWITHHOST,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read_mut(args) }?;
    let state = session.kernel.device_state(session.process, Handle(arguments.hDevice));
    map_error(session, SHARE_WITH_HOST_ERROR_RULES, state)?;
    Err(refused(STATUS_NOT_SUPPORTED, "there is no host that objects can be shared with"))
}

const SHARE_WITH_HOST_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTShareObjectWithHost.hDevice",
    )],
    others: &[],
};

/// Creates a context.
pub(crate) unsafe fn create_context_virtual(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATECONTEXTVIRTUAL,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    if arguments.Flags.Value != 0 {
        session.missing_entry("D3DKMTCreateContextVirtual.Flags");
    }
    let (from, size) = (arguments.pPrivateDriverData.cast_const(), arguments.PrivateDriverDataSize);
    // SAFETY: The caller's contract.
    let private = unsafe { read_bytes(from, size) }.of_member("pPrivateDriverData")?;
    let (node, engine) = (arguments.NodeOrdinal, arguments.EngineAffinity);
    let request = CreateContextArgs { node, engine, system: false, private };
    let handle = Handle(arguments.hDevice);
    let made = session.kernel.create_context(at, session.process, handle, &request);
    arguments.hContext = map_error(session, CREATE_CONTEXT_ERROR_RULES, made)?.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Destroys a context after its work has completed.
pub(crate) unsafe fn destroy_context(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_DESTROYCONTEXT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let handle = Handle(unsafe { read(args) }?.hContext);
    let ended = session.kernel.destroy_context(at, session.process, handle);
    map_error(session, DESTROY_CONTEXT_ERROR_RULES, ended)
}
