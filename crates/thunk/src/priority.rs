//! How important contexts are: who overtakes whom.
#![expect(unsafe_code, reason = "reads what callers point at")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::claims::{read, read_mut, write};
use crate::session::Session;
use crate::status::{Kept, Which, answer};
use abi::NTSTATUS;
use abi::kmt::{D3DKMT_GETCONTEXTSCHEDULINGPRIORITY, D3DKMT_SETCONTEXTSCHEDULINGPRIORITY};
use flight::{Passive, RuleId};
use kernel::Handle;

const SET: Kept = Kept {
    handles: &[(
        Which::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTSetContextSchedulingPriority.hContext",
    )],
    others: &[],
};

const TOLD: Kept = Kept {
    handles: &[(
        Which::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTGetContextSchedulingPriority.hContext",
    )],
    others: &[],
};

/// Says how important a context is.
///
/// WINDOWS: which numbers are taken is in none of our facts: all are.
///
/// # Safety
///
/// In a session that trusts, a pointer that is not NULL is good for what its structure says,
/// now; in one that guards, what can be written there is none of ours.
pub unsafe fn D3DKMTSetContextSchedulingPriority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY,
) -> NTSTATUS {
    session.call("D3DKMTSetContextSchedulingPriority", || {
        // SAFETY: The caller's contract.
        let asked = unsafe { read(args) }?;
        let (context, priority) = (Handle(asked.hContext), asked.Priority);
        answer(session, SET, session.kernel.set_priority(session.process, context, priority))
    })
}

/// Answers how important a context is.
///
/// # Safety
///
/// In a session that trusts, a pointer that is not NULL is good for what its structure says,
/// now; in one that guards, what can be written there is none of ours.
pub unsafe fn D3DKMTGetContextSchedulingPriority(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_GETCONTEXTSCHEDULINGPRIORITY,
) -> NTSTATUS {
    session.call("D3DKMTGetContextSchedulingPriority", || {
        // SAFETY: The caller's contract.
        let mut asked = unsafe { read_mut(args) }?;
        let told = session.kernel.priority(session.process, Handle(asked.hContext));
        asked.Priority = answer(session, TOLD, told)?;
        // SAFETY: The caller's contract.
        unsafe { write(args, asked) }
    })
}
