//! Scheduling priorities of contexts.
#![expect(unsafe_code, reason = "reads what callers point at")]

use crate::claims::{read, read_mut, write};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY, D3DKMT_GETCONTEXTSCHEDULINGPRIORITY,
    D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY, D3DKMT_SETCONTEXTSCHEDULINGPRIORITY,
};
use flight::{Passive, RuleId};
use kernel::Handle;

const SET_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTSetContextSchedulingPriority.hContext",
    )],
    others: &[],
};

const GET_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTGetContextSchedulingPriority.hContext",
    )],
    others: &[],
};

/// Sets the scheduling priority of a context.
///
/// WINDOWS: no fact says which numbers are valid; all are accepted (our reading).
pub(crate) unsafe fn set_context_scheduling_priority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (context, priority) = (Handle(arguments.hContext), arguments.Priority);
    map_error(
        session,
        SET_ERROR_RULES,
        session.kernel.set_priority(session.process, context, priority),
    )
}

/// Returns the scheduling priority of a context.
pub(crate) unsafe fn get_context_scheduling_priority(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_GETCONTEXTSCHEDULINGPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let priority = session.kernel.priority(session.process, Handle(arguments.hContext));
    arguments.Priority = map_error(session, GET_ERROR_RULES, priority)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

const SET_IN_PROCESS_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTSetContextInProcessSchedulingPriority.hContext",
    )],
    others: &[],
};

const GET_IN_PROCESS_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTGetContextInProcessSchedulingPriority.hContext",
    )],
    others: &[],
};

/// Sets the priority of a context among those of its process.
pub(crate) unsafe fn set_context_in_process_scheduling_priority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (context, priority) = (Handle(arguments.hContext), arguments.Priority);
    let set = session.kernel.set_in_process_priority(session.process, context, priority);
    map_error(session, SET_IN_PROCESS_ERROR_RULES, set)
}

/// Returns the priority of a context among those of its process.
pub(crate) unsafe fn get_context_in_process_scheduling_priority(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let priority = session.kernel.in_process_priority(session.process, Handle(arguments.hContext));
    arguments.Priority = map_error(session, GET_IN_PROCESS_ERROR_RULES, priority)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}
