//! Residency: make resident and evict.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read_list, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::D3DKMT_EVICT;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_PENDING};
use abi::ukm::{
    D3DDDI_EVICT_FLAGS as EvictFlags, D3DDDI_MAKERESIDENT, D3DDDI_MAKERESIDENT_FLAGS as MakeFlags,
};
use flight::{Passive, RuleId};
use kernel::{EvictRequest, Handle, KernelError, MakeResidentRequest, Residency};

const MAKE_RULES: &[ArgumentRule<D3DDDI_MAKERESIDENT>] = &[ArgumentRule {
    id: RuleId::RESID_MAKE_006,
    argument: "D3DKMTMakeResident.Flags",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| {
        let bits = args.Flags.Value & MakeFlags::RESERVED;
        let lone =
            args.Flags.has(MakeFlags::MustSucceed) && !args.Flags.has(MakeFlags::CantTrimFurther);
        if bits != 0 {
            Some(format!("reserved bits {bits:#x} are set"))
        } else {
            lone.then(|| "MustSucceed is set and CantTrimFurther is not".to_owned())
        }
    },
}];

const MAKE_RESIDENT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Allocation,
        RuleId::RESID_MAKE_001,
        "D3DKMTMakeResident.AllocationList",
    )],
    others: &[],
};

const EVICT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTEvict.hDevice"),
        (HandleArgument::Allocation, RuleId::RESID_EVICT_001, "D3DKMTEvict.AllocationList"),
    ],
    others: &[],
};

/// Adds allocations to the residency list: all of them, or none.
///
/// WINDOWS: pages disagree on the statuses; success, pending and no memory are our reading, with
/// all of the allocations counted or none.
pub(crate) unsafe fn make_resident(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DDDI_MAKERESIDENT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, MAKE_RULES, &arguments)?;
    // SAFETY: The caller's contract.
    let list = unsafe { read_list(arguments.AllocationList, arguments.NumAllocations as usize) }
        .of_member("AllocationList")?;
    if !arguments.PriorityList.is_null() {
        session.missing_entry("D3DKMTMakeResident.PriorityList");
    }
    let request = MakeResidentRequest {
        queue: Handle(arguments.hPagingQueue),
        list: list.into_iter().map(Handle).collect(),
        must_succeed: arguments.Flags.has(MakeFlags::MustSucceed),
    };
    let made = session.kernel.make_resident(session.process, &request);
    (arguments.PagingFenceValue, arguments.NumBytesToTrim) = (0, 0);
    match &made {
        Ok(Residency::Resident) => (),
        Ok(Residency::Pending(value)) => arguments.PagingFenceValue = *value,
        Err(KernelError::NoMemory { trim }) => {
            (arguments.NumBytesToTrim, arguments.NumAllocations) = (*trim, 0);
        }
        Err(_) => arguments.NumAllocations = 0,
    }
    let made = map_error(session, MAKE_RESIDENT_ERROR_RULES, made);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    match made? {
        Residency::Resident => Ok(()),
        // A success other than STATUS_SUCCESS.
        Residency::Pending(_) => Err(STATUS_PENDING),
    }
}

/// Removes allocations from the residency list, once each.
pub(crate) unsafe fn evict(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_EVICT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    if arguments.Flags.has(EvictFlags::RESERVED) {
        return Err(invalid("reserved bits of Flags are set"));
    }
    // SAFETY: The caller's contract.
    let list = unsafe { read_list(arguments.AllocationList, arguments.NumAllocations as usize) }
        .of_member("AllocationList")?;
    let request = EvictRequest {
        device: Handle(arguments.hDevice),
        list: list.into_iter().map(Handle).collect(),
        only_if_necessary: arguments.Flags.has(EvictFlags::EvictOnlyIfNecessary),
        not_written: arguments.Flags.has(EvictFlags::NotWrittenTo),
    };
    let evicted = session.kernel.evict(session.process, &request);
    arguments.NumBytesToTrim = map_error(session, EVICT_ERROR_RULES, evicted)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}
