//! What allocations are worth to their client, and where they are.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_list, room_for, write_list};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::session::Session;
use crate::status::{Kept, Which, answer};
use abi::kmt::{
    D3DKMT_ALLOCATIONRESIDENCYSTATUS, D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY, D3DKMT_GETALLOCATIONPRIORITY,
    D3DKMT_QUERYALLOCATIONRESIDENCY, D3DKMT_SETALLOCATIONPRIORITY,
};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Passive, RuleId};
use kernel::{Handle, Refused, Whereabouts};

/// What a call names: a resource, or a list.
#[derive(Clone, Copy)]
struct Named {
    device: D3DKMT_HANDLE,
    resource: D3DKMT_HANDLE,
    list: *const D3DKMT_HANDLE,
    count: u32,
}

macro_rules! named {
    ($asked:ident) => {
        Named {
            device: $asked.hDevice,
            resource: $asked.hResource,
            list: $asked.phAllocationList,
            count: $asked.AllocationCount,
        }
    };
}

const PRIORITY_RULES: &[ArgumentRule<Named>] = &[ArgumentRule {
    id: RuleId::ALLOC_PRIO_001,
    place: "D3DKMTSetAllocationPriority.phAllocationList",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: both_given,
}];

const RESIDENCY_RULES: &[ArgumentRule<Named>] = &[ArgumentRule {
    id: RuleId::ALLOC_PRIO_004,
    place: "D3DKMTQueryAllocationResidency.phAllocationList",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: both_given,
}];

fn both_given(it: &Named) -> Option<String> {
    (it.resource != 0 && (!it.list.is_null() || it.count != 0))
        .then(|| format!("hResource and a list of {} are both given", it.count))
}

const SET: Kept = Kept {
    handles: &[(Which::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTSetAllocationPriority.hDevice")],
    others: &[],
};

const GOT: Kept = Kept {
    handles: &[(Which::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTGetAllocationPriority.hDevice")],
    others: &[],
};

const LOOKED: Kept = Kept {
    handles: &[(
        Which::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTQueryAllocationResidency.hDevice",
    )],
    others: &[],
};

/// Says what allocations are worth: one priority for a resource, or one for each of a list.
pub(crate) unsafe fn set_allocation_priority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_SETALLOCATIONPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let asked = unsafe { read(args) }?;
    let named = named!(asked);
    judge_arguments(session, PRIORITY_RULES, &named)?;
    // SAFETY: The caller's contract.
    let mut priorities = unsafe { read_list(asked.pPriorities, named.answers()) }?;
    // SAFETY: The caller's contract.
    let list = unsafe { named.read(session) }?;
    let set = list.and_then(|list| {
        if let (false, [one]) = (named.resource == 0, &priorities[..]) {
            priorities = vec![*one; list.len()];
        }
        let device = Handle(named.device);
        session.kernel.set_priorities(session.process, device, &list, &priorities)
    });
    answer(session, SET, set)
}

/// Says what allocations are worth. A resource is worth what its first allocation is.
pub(crate) unsafe fn get_allocation_priority(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_GETALLOCATIONPRIORITY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let asked = unsafe { read(args) }?;
    let named = named!(asked);
    judge_arguments(session, PRIORITY_RULES, &named)?;
    // SAFETY: The caller's contract.
    unsafe { named.room(asked.pPriorities) }?;
    // SAFETY: The caller's contract.
    let list = unsafe { named.read(session) }?;
    let device = Handle(named.device);
    let ask = |list: Vec<Handle>| session.kernel.priorities(session.process, device, &list);
    let mut priorities = answer(session, GOT, list.and_then(ask))?;
    priorities.truncate(named.answers());
    // SAFETY: The caller's contract.
    unsafe { write_list(asked.pPriorities, &priorities) }
}

/// Says where allocations are. A resource is where the farthest of its allocations is.
pub(crate) unsafe fn query_allocation_residency(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_QUERYALLOCATIONRESIDENCY,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let asked = unsafe { read(args) }?;
    let named = named!(asked);
    judge_arguments(session, RESIDENCY_RULES, &named)?;
    // SAFETY: The caller's contract.
    unsafe { named.room(asked.pResidencyStatus) }?;
    // SAFETY: The caller's contract.
    let list = unsafe { named.read(session) }?;
    let device = Handle(named.device);
    let resource = (named.resource != 0).then_some(Handle(named.resource));
    let look =
        |list: Vec<Handle>| session.kernel.whereabouts(session.process, device, resource, &list);
    let all: Vec<_> =
        answer(session, LOOKED, list.and_then(look))?.into_iter().map(status_of).collect();
    // SAFETY: The caller's contract.
    unsafe { write_list(asked.pResidencyStatus, &all) }
}

fn status_of(it: Whereabouts) -> D3DKMT_ALLOCATIONRESIDENCYSTATUS {
    match it {
        Whereabouts::Local => D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY,
        Whereabouts::Shared => D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY,
        Whereabouts::Away => D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT,
    }
}

impl Named {
    /// How many priorities or answers there are.
    fn answers(&self) -> usize {
        if self.resource == 0 { self.count as usize } else { 1 }
    }

    /// Makes sure that the answers can go there.
    ///
    /// # Safety
    ///
    /// In a session that trusts, there is room for them.
    unsafe fn room<T>(&self, to: *mut T) -> Result<(), NTSTATUS> {
        // SAFETY: The caller's contract.
        unsafe { room_for(to.cast(), self.answers().saturating_mul(size_of::<T>())) }
    }

    /// The allocations.
    ///
    /// # Safety
    ///
    /// The list is good for what it says, now.
    unsafe fn read(&self, session: &Session) -> Result<Result<Vec<Handle>, Refused>, NTSTATUS> {
        if self.resource != 0 {
            return Ok(session.kernel.members(session.process, Handle(self.resource)));
        }
        // SAFETY: The caller's contract.
        let list = unsafe { read_list(self.list, self.count as usize) }?;
        Ok(Ok(list.into_iter().map(Handle).collect()))
    }
}
