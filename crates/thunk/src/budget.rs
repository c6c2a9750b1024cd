//! Video memory: the budget of a process, and trim notifications.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::adapter::luid;
use crate::claims::{read, read_mut, write};
use crate::process_handle::{PROCESS_QUERY_INFORMATION, PROCESS_SET_INFORMATION, named_process};
use crate::refusal::invalid;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::kmt::{
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION, D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL,
    D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL, D3DKMT_QUERYVIDEOMEMORYINFO,
    D3DKMT_REGISTERTRIMNOTIFICATION, D3DKMT_TRIMNOTIFICATION, D3DKMT_UNREGISTERTRIMNOTIFICATION,
    PFND3DKMT_TRIMNOTIFICATIONCALLBACK,
};
use abi::status::STATUS_NOT_SUPPORTED;
use abi::ukm::D3DDDI_TRIMRESIDENCYSET_FLAGS as TrimFlags;
use abi::{LUID, NTSTATUS};
use flight::{Passive, RuleId, resume_internal_error};
use kernel::{Handle, SegmentGroup, TrimCallback};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

const QUERY_MEMORY_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTQueryVideoMemoryInfo.hAdapter",
    )],
    others: &[],
};

const RESERVE_MEMORY_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTChangeVideoMemoryReservation.hAdapter",
    )],
    others: &[],
};

const REGISTER_TRIM_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTRegisterTrimNotification.hDevice",
    )],
    others: &[],
};

/// Returns usage and budget of a process.
///
/// WINDOWS: a process that uses no adapter has no usage (our reading).
pub(crate) unsafe fn query_video_memory_info(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_QUERYVIDEOMEMORYINFO,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let of = named_process(session, arguments.hProcess, PROCESS_QUERY_INFORMATION);
    let group = segment_group(arguments.MemorySegmentGroup, arguments.PhysicalAdapterIndex);
    let broken = match (&of, &group) {
        (Err(_), _) => Some("hProcess is no handle of a process that may be asked about"),
        (Ok(_), Err(_)) => Some("there is no such segment group of the physical adapter"),
        (Ok(_), Ok(_)) => None,
    };
    let argument = "D3DKMTQueryVideoMemoryInfo.hProcess";
    session.judge(RuleId::ADAPTER_MEM_001, argument, broken.map(str::to_owned));
    let (of, group, adapter) = (of?, group?, Handle(arguments.hAdapter));
    let budget = session.kernel.budget(session.process, adapter, of.id(session), group);
    let it = map_error(session, QUERY_MEMORY_ERROR_RULES, budget)?;
    (arguments.Budget, arguments.CurrentUsage) = (it.budget, it.usage);
    (arguments.CurrentReservation, arguments.AvailableForReservation) =
        (it.reserved, it.reservable);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Reserves memory for a process.
pub(crate) unsafe fn change_video_memory_reservation(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_CHANGEVIDEOMEMORYRESERVATION,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let of = named_process(session, arguments.hProcess, PROCESS_SET_INFORMATION)?;
    let group = segment_group(arguments.MemorySegmentGroup, arguments.PhysicalAdapterIndex)?;
    let Some(of) = of.id(session) else {
        session.missing_entry("D3DKMTChangeVideoMemoryReservation of a process without an adapter");
        return Err(STATUS_NOT_SUPPORTED);
    };
    let (adapter, bytes) = (Handle(arguments.hAdapter), arguments.Reservation);
    let reserved = session.kernel.reserve_memory(session.process, adapter, of, group, bytes);
    map_error(session, RESERVE_MEMORY_ERROR_RULES, reserved)
}

/// The segment group that a call names, of the only physical adapter.
///
/// WINDOWS: an unknown group is an invalid parameter (observed).
pub(crate) fn segment_group(group: i32, physical_adapter: u32) -> Result<SegmentGroup, NTSTATUS> {
    match group {
        D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL if physical_adapter == 0 => Ok(SegmentGroup::Local),
        D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL if physical_adapter == 0 => {
            Ok(SegmentGroup::NonLocal)
        }
        _ => Err(invalid("there is no such segment group of the physical adapter")),
    }
}

/// A client's trim callback and its context.
struct Callback {
    function: PFND3DKMT_TRIMNOTIFICATIONCALLBACK,
    context: usize,
}

impl TrimCallback for Callback {
    fn trim(&self, bytes: u64) {
        let mut notification = D3DKMT_TRIMNOTIFICATION {
            Context: ptr::with_exposed_provenance_mut(self.context),
            Flags: TrimFlags { Value: TrimFlags::TrimToBudget },
            NumBytesToTrim: bytes,
        };
        let (function, notification) = (self.function, &raw mut notification);
        // SAFETY: The caller that registered the function promised that it can be called with
        // such a structure on any thread until it is unregistered. `notification` outlives the call.
        let call = || unsafe { function(notification) };
        // A panic of the client's callback ends here, because the system's thread must continue.
        // An internal error is propagated.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            drop(resume_internal_error(panic));
        }
    }
}

/// Registers a client's trim callback.
pub(crate) unsafe fn register_trim_notification(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_REGISTERTRIMNOTIFICATION,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let function = arguments.Callback.ok_or_else(|| invalid("Callback is NULL"))?;
    if session.is_remote() {
        session.missing_entry("D3DKMTRegisterTrimNotification.Callback of another process");
        return Err(STATUS_NOT_SUPPORTED);
    }
    let known = |id: LUID| (id.LowPart, id.HighPart);
    let named = known(arguments.AdapterLuid);
    if !session.kernel.adapters().into_iter().any(|adapter| known(luid(adapter)) == named) {
        return Err(invalid("AdapterLuid is not the LUID of an adapter"));
    }
    let callback = Arc::new(Callback { function, context: arguments.Context.expose_provenance() });
    let device = Handle(arguments.hDevice);
    let number = session.kernel.register_trim(session.process, device, callback);
    let number = map_error(session, REGISTER_TRIM_ERROR_RULES, number)?;
    arguments.Handle = ptr::without_provenance_mut(number as usize);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Unregisters a client's trim callback.
pub(crate) unsafe fn unregister_trim_notification(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_UNREGISTERTRIMNOTIFICATION,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args.cast_const()) }?;
    let unknown = || invalid("Handle is not that of a registered callback");
    let number = u32::try_from(arguments.Handle.addr()).map_err(|_| unknown())?;
    let was = session.kernel.unregister_trim(at, session.process, number);
    if was { Ok(()) } else { Err(unknown()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{InternalError, internal_error};

    /// The panic that leaves a trim with this callback.
    fn panic_of(function: PFND3DKMT_TRIMNOTIFICATIONCALLBACK) -> Option<InternalError> {
        let callback = Callback { function, context: 0 };
        let panic = catch_unwind(AssertUnwindSafe(|| callback.trim(4096))).err()?;
        panic.downcast_ref::<InternalError>().cloned()
    }

    #[test]
    fn an_internal_error_passes_through_a_clients_function_and_its_own_panic_does_not() {
        unsafe extern "C-unwind" fn ours(_: *mut D3DKMT_TRIMNOTIFICATION) {
            internal_error("a planted invariant");
        }
        unsafe extern "C-unwind" fn theirs(_: *mut D3DKMT_TRIMNOTIFICATION) {
            panic!("on purpose");
        }
        assert_eq!(panic_of(ours).unwrap().invariant(), "a planted invariant");
        assert_eq!(panic_of(theirs), None);
        let quiet = || Callback { function: theirs, context: 0 }.trim(4096);
        assert!(catch_unwind(AssertUnwindSafe(quiet)).is_ok());
    }
}
