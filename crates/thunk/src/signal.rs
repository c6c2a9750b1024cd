//! Signals of synchronization objects, by the CPU and by contexts.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_list};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use crate::wait::with_value;
use abi::kmt::{
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT, D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU, D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{
    D3DDDI_MAX_BROADCAST_CONTEXT, D3DDDI_MAX_OBJECT_SIGNALED, D3DDDICB_SIGNALFLAGS as Flags,
};
use abi::{HANDLE, NTSTATUS};
use flight::{Passive, RuleId};
use kernel::{Handle, SignalRequest};

const SIGNAL_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTSignalSynchronizationObjectFromCpu.hDevice",
    )],
    others: &[
        (RuleId::SYNC_FENCE_001, "D3DKMTSignalSynchronizationObjectFromCpu.ObjectHandleArray"),
        (RuleId::SYNC_FENCE_002, "D3DKMTSignalSynchronizationObjectFromCpu.FenceValueArray"),
        (RuleId::SYNC_CREATE_007, "D3DKMTSignalSynchronizationObjectFromCpu.FenceValueArray"),
    ],
};

const QUEUE_SIGNAL_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTSignalSynchronizationObjectFromGpu.hContext",
    )],
    others: &[(
        RuleId::SYNC_CREATE_007,
        "D3DKMTSignalSynchronizationObjectFromGpu.MonitoredFenceValueArray",
    )],
};

/// The number of objects to signal, and the broadcast contexts.
struct SignalCounts {
    objects: u32,
    others: u32,
    owner: u32,
    /// The calling context is also in the broadcast list.
    again: bool,
}

const RULES: &[ArgumentRule<SignalCounts>] = &[
    ArgumentRule {
        id: RuleId::SYNC_CREATE_011,
        argument: "D3DKMTSignalSynchronizationObject.ObjectCount",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            (args.objects as usize > D3DDDI_MAX_OBJECT_SIGNALED)
                .then(|| format!("{} objects are signalled, of at most 32", args.objects))
        },
    },
    ArgumentRule {
        id: RuleId::SYNC_CREATE_011,
        argument: "D3DKMTSignalSynchronizationObject.BroadcastContext",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            if args.others as usize > D3DDDI_MAX_BROADCAST_CONTEXT {
                return Some(format!("{} contexts are broadcast to, of at most 64", args.others));
            }
            args.again
                .then(|| format!("context {:#x} is broadcast to, and signals itself", args.owner))
        },
    },
];

/// Judges the counts of a call with one context.
fn check_count(session: &Session, objects: u32) -> Result<usize, NTSTATUS> {
    judge_arguments(session, RULES, &SignalCounts { objects, others: 0, owner: 0, again: false })?;
    if objects == 0 { Err(invalid("ObjectCount is 0")) } else { Ok(objects as usize) }
}

/// Signals monitored fences immediately.
pub(crate) unsafe fn signal_synchronization_object_from_cpu(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let count = check_count(session, arguments.ObjectCount)?;
    check(session, arguments.Flags)?;
    // SAFETY: The caller's contract.
    let fences =
        unsafe { read_list(arguments.ObjectHandleArray, count) }.of_member("ObjectHandleArray")?;
    // SAFETY: The caller's contract.
    let values =
        unsafe { read_list(arguments.FenceValueArray, count) }.of_member("FenceValueArray")?;
    let list: Vec<(Handle, u64)> = fences.into_iter().map(Handle).zip(values).collect();
    let (device, rewinds) =
        (Handle(arguments.hDevice), arguments.Flags.has(Flags::AllowFenceRewind));
    let signalled = session.kernel.signal_from_cpu(session.process, device, &list, rewinds);
    map_error(session, SIGNAL_ERROR_RULES, signalled)
}

/// Queues a signal of version 1 objects in a context.
pub(crate) unsafe fn signal_synchronization_object(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let count = check_count(session, arguments.ObjectCount)?;
    check(session, arguments.Flags)?;
    let list = with_value(&arguments.ObjectHandleArray[..count], 0);
    let contexts = [Handle(arguments.hContext)];
    queue(session, at, &contexts, &list, None)
}

/// Queues a signal in several contexts, with one value for all fences; or sets an event.
pub(crate) unsafe fn signal_synchronization_object2(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (objects, others) = (arguments.ObjectCount, arguments.BroadcastContextCount);
    let broadcast = arguments.BroadcastContext.get(..others as usize).unwrap_or_default();
    let owner = arguments.hContext;
    let again = broadcast.contains(&owner);
    judge_arguments(session, RULES, &SignalCounts { objects, others, owner, again })?;
    check(session, arguments.Flags)?;
    let enqueues_event = arguments.Flags.has(Flags::EnqueueCpuEvent);
    if objects == 0 && !enqueues_event {
        return Err(invalid("ObjectCount is 0, and EnqueueCpuEvent is not set"));
    }
    let value = if enqueues_event { 0 } else { arguments.fence().FenceValue };
    let list = with_value(&arguments.ObjectHandleArray[..objects as usize], value);
    let contexts: Vec<Handle> = [owner].iter().chain(broadcast).copied().map(Handle).collect();
    queue(session, at, &contexts, &list, enqueues_event.then(|| arguments.event()))
}

/// Queues a signal of fences in a context.
pub(crate) unsafe fn signal_synchronization_object_from_gpu(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
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
        with_value(&objects, 0)
    };
    let contexts = [Handle(arguments.hContext)];
    queue(session, at, &contexts, &list, None)
}

/// Queues a signal in several contexts, or sets an event.
pub(crate) unsafe fn signal_synchronization_object_from_gpu2(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (objects, others) = (arguments.ObjectCount, arguments.BroadcastContextCount);
    // A list that is too long is not read: its length fails the call.
    let few = others as usize <= D3DDDI_MAX_BROADCAST_CONTEXT;
    let length = if few { others as usize } else { 0 };
    // SAFETY: The caller's contract.
    let contexts = unsafe { read_list(arguments.BroadcastContextArray, length) }
        .of_member("BroadcastContextArray")?;
    let owner = contexts.first().copied().unwrap_or_default();
    let again = contexts.iter().skip(1).any(|context| *context == owner);
    judge_arguments(session, RULES, &SignalCounts { objects, others, owner, again })?;
    check(session, arguments.Flags)?;
    let enqueues_event = arguments.Flags.has(Flags::EnqueueCpuEvent);
    if contexts.is_empty() || (objects == 0 && !enqueues_event) {
        return Err(invalid("no context or no object is listed"));
    }
    // SAFETY: The caller's contract.
    let names = unsafe { read_list(arguments.ObjectHandleArray, objects as usize) }
        .of_member("ObjectHandleArray")?;
    let handles: Vec<Handle> = names.iter().copied().map(Handle).collect();
    let list = if enqueues_event {
        with_value(&names, 0)
    } else if session.kernel.are_fences(session.process, &handles) {
        // SAFETY: The caller's contract.
        let values = unsafe { read_list(arguments.values(), names.len()) }
            .of_member("MonitoredFenceValueArray")?;
        handles.into_iter().zip(values).collect()
    } else {
        with_value(&names, arguments.value())
    };
    let contexts: Vec<Handle> = contexts.into_iter().map(Handle).collect();
    queue(session, at, &contexts, &list, enqueues_event.then(|| arguments.event()))
}

/// Flags of a signal.
fn check(session: &Session, flags: Flags) -> Result<(), NTSTATUS> {
    if flags.has(Flags::RESERVED) {
        return Err(invalid("reserved bits of Flags are set"));
    }
    if flags.has(Flags::SignalAtSubmission) {
        session.missing_entry("D3DDDICB_SIGNALFLAGS.SignalAtSubmission");
    }
    Ok(())
}

fn queue(
    session: &Session,
    at: &mut Passive,
    contexts: &[Handle],
    list: &[(Handle, u64)],
    event: Option<HANDLE>,
) -> Result<(), NTSTATUS> {
    let queued = session.with_optional_event(event, |event| {
        let request = SignalRequest { contexts, list, event };
        session.kernel.signal_from_gpu(at, session.process, &request)
    });
    map_error(session, QUEUE_SIGNAL_ERROR_RULES, queued)
}
