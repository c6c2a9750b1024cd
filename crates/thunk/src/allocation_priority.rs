//! Priority and residency status of allocations.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{check_writable, read, read_list, write_list};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::OfMember;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::kmt::{
    D3DKMT_ALLOCATIONRESIDENCYSTATUS, D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY, D3DKMT_GETALLOCATIONPRIORITY,
    D3DKMT_QUERYALLOCATIONRESIDENCY, D3DKMT_SETALLOCATIONPRIORITY,
};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Passive, RuleId};
use kernel::{Handle, KernelError, ResidencyStatus};

/// The target of a call: a resource or a list of allocations.
#[derive(Clone, Copy)]
struct AllocationArguments {
    device: D3DKMT_HANDLE,
    resource: D3DKMT_HANDLE,
    list: *const D3DKMT_HANDLE,
    count: u32,
}

macro_rules! allocation_arguments {
    ($request:ident) => {
        AllocationArguments {
            device: $request.hDevice,
            resource: $request.hResource,
            list: $request.phAllocationList,
            count: $request.AllocationCount,
        }
    };
}

const PRIORITY_RULES: &[ArgumentRule<AllocationArguments>] = &[ArgumentRule {
    id: RuleId::ALLOC_PRIO_001,
    argument: "D3DKMTSetAllocationPriority.phAllocationList",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: resource_and_list,
}];

const RESIDENCY_RULES: &[ArgumentRule<AllocationArguments>] = &[ArgumentRule {
    id: RuleId::ALLOC_PRIO_004,
    argument: "D3DKMTQueryAllocationResidency.phAllocationList",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: resource_and_list,
}];

fn resource_and_list(it: &AllocationArguments) -> Option<String> {
    (it.resource != 0 && (!it.list.is_null() || it.count != 0))
        .then(|| format!("hResource and a list of {} are both given", it.count))
}

const SET_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTSetAllocationPriority.hDevice",
    )],
    others: &[],
};

const GET_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTGetAllocationPriority.hDevice",
    )],
    others: &[],
};

const RESIDENCY_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTQueryAllocationResidency.hDevice",
    )],
    others: &[],
};

/// Sets priorities: one for a resource, or one for each allocation of a list.
pub(crate) unsafe fn set_allocation_priority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETALLOCATIONPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let named = allocation_arguments!(arguments);
    judge_arguments(session, PRIORITY_RULES, &named)?;
    // SAFETY: The caller's contract.
    let mut priorities = unsafe { read_list(arguments.pPriorities, named.output_count()) }
        .of_member("pPriorities")?;
    // SAFETY: The caller's contract.
    let list = unsafe { named.read(session) }?;
    let set = list.and_then(|list| {
        if let (false, [one]) = (named.resource == 0, &priorities[..]) {
            priorities = vec![*one; list.len()];
        }
        let device = Handle(named.device);
        session.kernel.set_priorities(session.process, device, &list, &priorities)
    });
    map_error(session, SET_ERROR_RULES, set)
}

/// Returns priorities. A resource has the priority of its first allocation.
pub(crate) unsafe fn get_allocation_priority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_GETALLOCATIONPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let named = allocation_arguments!(arguments);
    judge_arguments(session, PRIORITY_RULES, &named)?;
    // SAFETY: The caller's contract.
    unsafe { named.check_output(arguments.pPriorities) }?;
    // SAFETY: The caller's contract.
    let list = unsafe { named.read(session) }?;
    let device = Handle(named.device);
    let ask = |list: Vec<Handle>| session.kernel.priorities(session.process, device, &list);
    let mut priorities = map_error(session, GET_ERROR_RULES, list.and_then(ask))?;
    priorities.truncate(named.output_count());
    // SAFETY: The caller's contract.
    unsafe { write_list(arguments.pPriorities, &priorities) }.of_member("pPriorities")
}

/// Returns residency statuses. A resource has that of its farthest allocation.
pub(crate) unsafe fn query_allocation_residency(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_QUERYALLOCATIONRESIDENCY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let named = allocation_arguments!(arguments);
    judge_arguments(session, RESIDENCY_RULES, &named)?;
    // SAFETY: The caller's contract.
    unsafe { named.check_output(arguments.pResidencyStatus) }?;
    // SAFETY: The caller's contract.
    let list = unsafe { named.read(session) }?;
    let device = Handle(named.device);
    let resource = (named.resource != 0).then_some(Handle(named.resource));
    let look = |list: Vec<Handle>| {
        session.kernel.residency_status(session.process, device, resource, &list)
    };
    let all: Vec<_> = map_error(session, RESIDENCY_ERROR_RULES, list.and_then(look))?
        .into_iter()
        .map(status_of)
        .collect();
    // SAFETY: The caller's contract.
    unsafe { write_list(arguments.pResidencyStatus, &all) }.of_member("pResidencyStatus")
}

fn status_of(it: ResidencyStatus) -> D3DKMT_ALLOCATIONRESIDENCYSTATUS {
    match it {
        ResidencyStatus::GpuMemory => D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY,
        ResidencyStatus::SharedMemory => D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY,
        ResidencyStatus::NotResident => D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT,
    }
}

impl AllocationArguments {
    /// The number of priorities or results.
    fn output_count(&self) -> usize {
        if self.resource == 0 { self.count as usize } else { 1 }
    }

    /// Checks that the results can be written.
    ///
    /// # Safety
    ///
    /// Unless the session is guarded, there is room for the results.
    unsafe fn check_output<T>(&self, to: *mut T) -> Result<(), NTSTATUS> {
        // SAFETY: The caller's contract.
        unsafe { check_writable(to.cast(), self.output_count().saturating_mul(size_of::<T>())) }
    }

    /// The allocations.
    ///
    /// # Safety
    ///
    /// The list is valid for reads, unless the session is guarded.
    unsafe fn read(&self, session: &Session) -> Result<Result<Vec<Handle>, KernelError>, NTSTATUS> {
        if self.resource != 0 {
            return Ok(session.kernel.resource_members(session.process, Handle(self.resource)));
        }
        // SAFETY: The caller's contract.
        let list = unsafe { read_list(self.list, self.count as usize) }?;
        Ok(Ok(list.into_iter().map(Handle).collect()))
    }
}
