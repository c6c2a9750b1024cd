//! Waits for synchronization objects, by the CPU and by contexts.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_list};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT, D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{
    D3DDDI_MAX_OBJECT_WAITED_ON, D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS as WaitFlags,
};
use flight::{Passive, RuleId};
use kernel::{Handle, WaitRequest};

pub(crate) const WAIT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (
            HandleArgument::StaleDevice,
            RuleId::DEV_LIFE_003,
            "D3DKMTWaitForSynchronizationObjectFromCpu.hDevice",
        ),
        (
            HandleArgument::StaleFence,
            RuleId::PAGQ_LIFE_004,
            "D3DKMTWaitForSynchronizationObjectFromCpu.ObjectHandleArray",
        ),
    ],
    others: &[(
        RuleId::SYNC_CREATE_007,
        "D3DKMTWaitForSynchronizationObjectFromCpu.FenceValueArray",
    )],
};

const QUEUE_WAIT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (
            HandleArgument::StaleContext,
            RuleId::DEV_LIFE_003,
            "D3DKMTWaitForSynchronizationObjectFromGpu.hContext",
        ),
        (
            HandleArgument::StaleFence,
            RuleId::PAGQ_LIFE_004,
            "D3DKMTWaitForSynchronizationObjectFromGpu.ObjectHandleArray",
        ),
    ],
    others: &[(
        RuleId::SYNC_CREATE_007,
        "D3DKMTWaitForSynchronizationObjectFromGpu.MonitoredFenceValueArray",
    )],
};

/// The number of objects to wait for.
const RULES: &[ArgumentRule<u32>] = &[ArgumentRule {
    id: RuleId::SYNC_CREATE_011,
    argument: "D3DKMTWaitForSynchronizationObject.ObjectCount",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |count| {
        (*count as usize > D3DDDI_MAX_OBJECT_WAITED_ON)
            .then(|| format!("{count} objects are waited for, of at most 32"))
    },
}];

/// Judges the number of objects to wait for: at least one.
fn check_count(session: &Session, count: u32) -> Result<usize, NTSTATUS> {
    judge_arguments(session, RULES, &count)?;
    if count == 0 { Err(invalid("ObjectCount is 0")) } else { Ok(count as usize) }
}

/// Waits until fences have values, or sets an event then.
pub(crate) unsafe fn wait_for_synchronization_object_from_cpu(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let count = check_count(session, arguments.ObjectCount)?;
    if arguments.Flags.has(WaitFlags::RESERVED) {
        return Err(invalid("reserved bits of Flags are set"));
    }
    // SAFETY: The caller's contract.
    let fences =
        unsafe { read_list(arguments.ObjectHandleArray, count) }.of_member("ObjectHandleArray")?;
    // SAFETY: The caller's contract.
    let values =
        unsafe { read_list(arguments.FenceValueArray, count) }.of_member("FenceValueArray")?;
    let list: Vec<(Handle, u64)> = fences.into_iter().map(Handle).zip(values).collect();
    let event = (!arguments.hAsyncEvent.is_null()).then_some(arguments.hAsyncEvent);
    let result = session.with_optional_event(event, |event| {
        let device = Handle(arguments.hDevice);
        let any = arguments.Flags.has(WaitFlags::WaitAny);
        let request = WaitRequest { device, list: &list, any, event };
        session.kernel.wait_from_cpu(at, session.process, &request)
    });
    map_error(session, WAIT_ERROR_RULES, result)
}

/// Queues a wait for version 1 objects in a context.
pub(crate) unsafe fn wait_for_synchronization_object(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let count = check_count(session, arguments.ObjectCount)?;
    let list = with_value(&arguments.ObjectHandleArray[..count], 0);
    queue(session, at, arguments.hContext, &list)
}

/// Queues a wait in a context, with one value for all fences.
pub(crate) unsafe fn wait_for_synchronization_object2(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let count = check_count(session, arguments.ObjectCount)?;
    let list = with_value(&arguments.ObjectHandleArray[..count], arguments.fence().FenceValue);
    queue(session, at, arguments.hContext, &list)
}

/// Queues a wait for fences in a context.
pub(crate) unsafe fn wait_for_synchronization_object_from_gpu(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let count = check_count(session, arguments.ObjectCount)?;
    // SAFETY: The caller's contract.
    let objects =
        unsafe { read_list(arguments.ObjectHandleArray, count) }.of_member("ObjectHandleArray")?;
    let handles: Vec<Handle> = objects.iter().copied().map(Handle).collect();
    let list = if session.kernel.are_fences(session.process, &handles) {
        // SAFETY: The caller's contract.
        let values = unsafe { read_list(arguments.values(), count) }
            .of_member("MonitoredFenceValueArray")?;
        handles.into_iter().zip(values).collect()
    } else {
        with_value(&objects, arguments.value())
    };
    queue(session, at, arguments.hContext, &list)
}

/// Objects that share a value.
pub(crate) fn with_value(objects: &[u32], value: u64) -> Vec<(Handle, u64)> {
    objects.iter().map(|object| (Handle(*object), value)).collect()
}

fn queue(
    session: &Session,
    at: &mut Passive,
    context: u32,
    list: &[(Handle, u64)],
) -> Result<(), NTSTATUS> {
    let queued = session.kernel.wait_from_gpu(at, session.process, Handle(context), list);
    map_error(session, QUEUE_WAIT_ERROR_RULES, queued)
}
