//! Synchronization objects: create, open, destroy.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{ShownAccess, read, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::invalid;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT, D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT, D3DKMT_OPENSYNCHRONIZATIONOBJECT,
};
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::ukm::{
    D3DDDI_CPU_NOTIFICATION, D3DDDI_FENCE, D3DDDI_MONITORED_FENCE, D3DDDI_PERIODIC_MONITORED_FENCE,
    D3DDDI_SEMAPHORE, D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags,
    D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type, D3DDDI_SYNCHRONIZATIONOBJECTINFO2 as Info,
};
use flight::{EventKind, Hex, Passive, RuleId};
use kernel::{CreateSyncRequest, CreateSyncResponse, Handle, Sharing, SyncKind};

const CREATE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTCreateSynchronizationObject.hDevice",
    )],
    others: &[],
};

const CREATE2_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTCreateSynchronizationObject2.hDevice",
    )],
    others: &[(RuleId::SYNC_CREATE_016, "D3DKMTCreateSynchronizationObject2.Info.CPUNotification")],
};

const DESTROY_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::GlobalSync,
        RuleId::SYNC_CREATE_018,
        "D3DKMTDestroySynchronizationObject.hSyncObject",
    )],
    others: &[],
};

const OPEN_ERROR_RULES: ErrorRules = ErrorRules { handles: &[], others: &[] };

const RULES_1: &[ArgumentRule<D3DKMT_CREATESYNCHRONIZATIONOBJECT>] = &[ArgumentRule {
    id: RuleId::SYNC_CREATE_015,
    argument: "D3DKMTCreateSynchronizationObject.Info.Type",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| match args.Info.Type {
        D3DDDI_SYNCHRONIZATION_MUTEX | D3DDDI_SEMAPHORE if args.hDevice != 0 => None,
        D3DDDI_SYNCHRONIZATION_MUTEX | D3DDDI_SEMAPHORE => Some("hDevice is zero".to_owned()),
        other => Some(format!("type {other} is neither a mutex (1) nor a semaphore (2)")),
    },
}];

const RULES_2: &[ArgumentRule<D3DKMT_CREATESYNCHRONIZATIONOBJECT2>] = &[
    ArgumentRule {
        id: RuleId::SYNC_CREATE_016,
        argument: "D3DKMTCreateSynchronizationObject2.Info.Type",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| match args.Info.Type {
            _ if args.hDevice == 0 => Some("hDevice is zero".to_owned()),
            D3DDDI_SYNCHRONIZATION_MUTEX..=D3DDDI_PERIODIC_MONITORED_FENCE => None,
            other => Some(format!("{other} is not a type: types are 1 to 6")),
        },
    },
    ArgumentRule {
        id: RuleId::SYNC_CREATE_016,
        argument: "D3DKMTCreateSynchronizationObject2.Info.CPUNotification",
        refuses: Some(STATUS_INVALID_HANDLE),
        broken: |args| {
            let is_notification = args.Info.Type == D3DDDI_CPU_NOTIFICATION;
            (is_notification && args.Info.notification().Event.is_null())
                .then(|| "a CPU notification is to be created without an event".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::SYNC_CREATE_001,
        argument: "D3DKMTCreateSynchronizationObject2.Info.Flags",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let flags = args.Info.Flags;
            (flags.has(Flags::NtSecuritySharing) && !flags.has(Flags::Shared))
                .then(|| "NtSecuritySharing is set, but not Shared".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::SYNC_CREATE_002,
        argument: "D3DKMTCreateSynchronizationObject2.Info.Flags",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let flags = args.Info.Flags;
            let global = flags.has(Flags::Shared) && !flags.has(Flags::NtSecuritySharing);
            (is_monitored(args.Info.Type) && global).then(|| {
                "a monitored fence is to be shared by a global handle, and can be by NT handles \
                 only"
                    .to_owned()
            })
        },
    },
    ArgumentRule {
        id: RuleId::SYNC_CREATE_003,
        argument: "D3DKMTCreateSynchronizationObject2.Info.Flags",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let (flags, kind) = (args.Info.Flags, args.Info.Type);
            let special = Flags::NoSignal | Flags::NoWait | Flags::TopOfPipeline;
            if flags.has(special) && !is_monitored(kind) {
                let flags = flags.Value & special;
                return Some(format!("flags {flags:#x} are for monitored fences, not type {kind}"));
            }
            (flags.has(Flags::NoSignal) && flags.has(Flags::NoWait))
                .then(|| "NoSignal and NoWait exclude each other".to_owned())
        },
    },
];

fn is_monitored(kind: Type) -> bool {
    matches!(kind, D3DDDI_MONITORED_FENCE | D3DDDI_PERIODIC_MONITORED_FENCE)
}

/// Creates a mutex or a semaphore.
pub(crate) unsafe fn create_synchronization_object(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, RULES_1, &arguments)?;
    let (mutex, semaphore) = (arguments.Info.mutex(), arguments.Info.semaphore());
    let kind = if arguments.Info.Type == D3DDDI_SYNCHRONIZATION_MUTEX {
        SyncKind::Mutex { held: mutex.InitialState != 0 }
    } else {
        SyncKind::Semaphore { count: semaphore.InitialCount, limit: semaphore.MaxCount }
    };
    let request = CreateSyncRequest {
        device: Handle(arguments.hDevice),
        kind,
        sharing: Sharing::None,
        no_signal: false,
        no_wait: false,
        no_tdr_signal: false,
        unwait_on_last_close: false,
    };
    let made = session.kernel.create_sync(session.process, &request);
    arguments.hSyncObject = map_error(session, CREATE_ERROR_RULES, made)?.handle.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Creates a synchronization object of any type.
pub(crate) unsafe fn create_synchronization_object2(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, RULES_2, &arguments)?;
    let flags = arguments.Info.Flags;
    if flags.has(Flags::RESERVED) {
        return Err(invalid("reserved bits of Info.Flags are set"));
    }
    let unheard = [
        (Flags::CrossAdapter, "D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS.CrossAdapter"),
        (Flags::TopOfPipeline, "D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS.TopOfPipeline"),
        (Flags::SignalByKmd, "D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS.SignalByKmd"),
    ];
    for (flag, name) in unheard {
        if flags.has(flag) {
            session.missing_entry(name);
        }
    }
    let kind = kind(session, &arguments.Info)?;
    let request = |kind| CreateSyncRequest {
        device: Handle(arguments.hDevice),
        kind,
        sharing: match (flags.has(Flags::Shared), flags.has(Flags::NtSecuritySharing)) {
            (false, _) => Sharing::None,
            (true, false) => Sharing::Global,
            (true, true) => Sharing::Nt,
        },
        no_signal: flags.has(Flags::NoSignal),
        no_wait: flags.has(Flags::NoWait),
        no_tdr_signal: flags.has(Flags::NoSignalMaxValueOnTdr),
        unwait_on_last_close: flags.has(Flags::UnwaitCpuWaitersOnlyOnDestroy),
    };
    let create = |kind| session.kernel.create_sync(session.process, &request(kind));
    let made = match kind {
        SyncKind::Notification { .. } => {
            let event = arguments.Info.notification().Event;
            session.with_event(event, |event| create(SyncKind::Notification { event }))
        }
        kind => create(kind),
    };
    let CreateSyncResponse { handle, global, value, object } =
        map_error(session, CREATE2_ERROR_RULES, made)?;
    arguments.hSyncObject = handle.0;
    // WINDOWS: without a global handle the field is zero or unchanged (observed).
    if let Some(global) = global {
        arguments.Info.SharedHandle = global.0;
    }
    if is_monitored(arguments.Info.Type) {
        arguments.Info.set_value_address(show_value(session, handle, value)?);
    }
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    let global = Hex(global.map_or(0, |_| arguments.Info.SharedHandle));
    session.log().emit(object, || EventKind::SyncHandlesReturned { handle: Hex(handle.0), global });
    Ok(())
}

/// The address of a fence's value for the caller. If there can be none, the new handle is closed.
pub(crate) fn show_value(
    session: &Session,
    handle: Handle,
    value: usize,
) -> Result<usize, NTSTATUS> {
    session.show(value, ShownAccess::Read).inspect_err(|_| {
        // The handle is new; the process may have ended.
        _ = session.kernel.destroy_sync(session.process, handle);
    })
}

/// The requested type.
fn kind(session: &Session, info: &Info) -> Result<SyncKind, NTSTATUS> {
    Ok(match info.Type {
        D3DDDI_SYNCHRONIZATION_MUTEX => SyncKind::Mutex { held: info.mutex().InitialState != 0 },
        D3DDDI_SEMAPHORE => {
            let it = info.semaphore();
            SyncKind::Semaphore { count: it.InitialCount, limit: it.MaxCount }
        }
        D3DDDI_FENCE => SyncKind::Fence { value: info.fence().FenceValue },
        // The caller has its event.
        D3DDDI_CPU_NOTIFICATION => SyncKind::Notification { event: 0 },
        D3DDDI_MONITORED_FENCE => SyncKind::Monitored { value: info.monitored().InitialFenceValue },
        D3DDDI_PERIODIC_MONITORED_FENCE => {
            session.missing_entry("D3DDDI_PERIODIC_MONITORED_FENCE");
            return Err(STATUS_NOT_SUPPORTED);
        }
        _ => return Err(invalid("Info.Type is unknown")),
    })
}

/// Opens a synchronization object by its global handle.
pub(crate) unsafe fn open_synchronization_object(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENSYNCHRONIZATIONOBJECT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let opened = session.kernel.open_sync(session.process, Handle(arguments.hSharedHandle));
    arguments.hSyncObject = map_error(session, OPEN_ERROR_RULES, opened)?.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Destroys a local handle of a synchronization object.
pub(crate) unsafe fn destroy_synchronization_object(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let handle = Handle(unsafe { read(args) }?.hSyncObject);
    map_error(session, DESTROY_ERROR_RULES, session.kernel.destroy_sync(session.process, handle))
}
