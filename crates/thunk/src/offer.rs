//! Offer and reclaim of allocations.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{MAX_ELEMENTS, check_writable, read, read_list, read_mut, write, write_list};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::kmt::{
    D3DKMT_OFFER_PRIORITY_AUTO, D3DKMT_OFFER_PRIORITY_LOW, D3DKMT_OFFERALLOCATIONS,
    D3DKMT_RECLAIMALLOCATIONS, D3DKMT_RECLAIMALLOCATIONS2,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_PENDING};
use abi::ukm::{D3DDDI_RECLAIM_RESULT, D3DDDI_RECLAIM_RESULT_DISCARDED, D3DDDI_RECLAIM_RESULT_OK};
use abi::{BOOL, D3DKMT_HANDLE, NTSTATUS};
use flight::{Passive, RuleId};
use kernel::{Handle, KernelError, Residency};

/// The handle lists of a call: resources or allocations.
#[derive(Clone, Copy)]
struct HandleLists {
    resources: *const D3DKMT_HANDLE,
    allocations: *const D3DKMT_HANDLE,
    count: u32,
}

/// The allocations of a call, with their number for each handle.
struct ResolvedHandles {
    list: Vec<Handle>,
    member_counts: Vec<usize>,
}

/// An offer's arguments.
struct OfferArguments {
    lists: HandleLists,
    priority: i32,
}

const OFFER_RULES: &[ArgumentRule<OfferArguments>] = &[
    ArgumentRule {
        id: RuleId::RESID_OFFER_001,
        argument: "D3DKMTOfferAllocations.pResources",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| exactly_one_list(args.lists),
    },
    ArgumentRule {
        id: RuleId::RESID_OFFER_002,
        argument: "D3DKMTOfferAllocations.Priority",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let priority = args.priority;
            let known = D3DKMT_OFFER_PRIORITY_LOW..=D3DKMT_OFFER_PRIORITY_AUTO;
            (!known.contains(&priority)).then(|| format!("{priority} is not an offer priority"))
        },
    },
];

const RECLAIM_RULES: &[ArgumentRule<HandleLists>] = &[ArgumentRule {
    id: RuleId::RESID_OFFER_008,
    argument: "D3DKMTReclaimAllocations.pResources",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| exactly_one_list(*args),
}];

fn exactly_one_list(lists: HandleLists) -> Option<String> {
    match (lists.resources.is_null(), lists.allocations.is_null()) {
        (false, false) => Some("pResources and HandleList are both given".to_owned()),
        (true, true) => Some("neither pResources nor HandleList is given".to_owned()),
        _ => None,
    }
}

const OFFER_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTOfferAllocations.hDevice",
    )],
    others: &[],
};

const RECLAIM_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTReclaimAllocations.hDevice",
    )],
    others: &[(RuleId::RESID_OFFER_008, "D3DKMTReclaimAllocations.HandleList")],
};

/// Offers allocations: the kernel may discard their content under memory pressure.
pub(crate) unsafe fn offer_allocations(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_OFFERALLOCATIONS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let lists = HandleLists {
        resources: arguments.pResources.cast_const(),
        allocations: arguments.HandleList,
        count: arguments.NumAllocations,
    };
    judge_arguments(session, OFFER_RULES, &OfferArguments { lists, priority: arguments.Priority })?;
    if arguments.Flags.Value != 0 {
        session.missing_entry("D3DKMTOfferAllocations.Flags");
    }
    // SAFETY: The caller's contract.
    let named = unsafe { resolve_lists(session, lists) }?;
    let (device, priority) = (Handle(arguments.hDevice), arguments.Priority.cast_unsigned());
    let offer = |resolved_handles: ResolvedHandles| {
        session.kernel.offer(session.process, device, &resolved_handles.list, priority)
    };
    map_error(session, OFFER_ERROR_RULES, named.and_then(offer))
}

/// Reclaims offered allocations.
pub(crate) unsafe fn reclaim_allocations(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_RECLAIMALLOCATIONS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let lists = HandleLists {
        resources: arguments.pResources.cast_const(),
        allocations: arguments.HandleList,
        count: arguments.NumAllocations,
    };
    let to = arguments.pDiscarded;
    // SAFETY: The caller's contract.
    let (gone, _) = unsafe { reclaim(session, Some(arguments.hDevice), None, lists, to) }?;
    let gone: Vec<BOOL> = gone.into_iter().map(BOOL::from).collect();
    // SAFETY: The caller's contract.
    if to.is_null() { Ok(()) } else { unsafe { write_list(to, &gone) } }
}

/// Reclaims offered allocations, and pages in those that must be resident.
pub(crate) unsafe fn reclaim_allocations2(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_RECLAIMALLOCATIONS2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let lists = HandleLists {
        resources: arguments.pResources.cast_const(),
        allocations: arguments.HandleList,
        count: arguments.NumAllocations,
    };
    let to = arguments.results();
    // SAFETY: The caller's contract.
    let (gone, residency) =
        unsafe { reclaim(session, None, Some(arguments.hPagingQueue), lists, to) }?;
    let result = |gone: bool| -> D3DDDI_RECLAIM_RESULT {
        if gone { D3DDDI_RECLAIM_RESULT_DISCARDED } else { D3DDDI_RECLAIM_RESULT_OK }
    };
    let results: Vec<_> = gone.into_iter().map(result).collect();
    if !to.is_null() {
        // SAFETY: The caller's contract.
        unsafe { write_list(to, &results) }.of_member("pDiscarded or pResults")?;
    }
    arguments.PagingFenceValue = match residency {
        Residency::Resident => 0,
        Residency::Pending(value) => value,
    };
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    if residency == Residency::Resident { Ok(()) } else { Err(STATUS_PENDING) }
}

/// Both versions. Returns for each handle whether its content was discarded, and when the rest is
/// resident. `to` is the address of the results, four bytes each.
///
/// # Safety
///
/// The lists are valid, unless the session is guarded.
unsafe fn reclaim(
    session: &Session,
    device: Option<D3DKMT_HANDLE>,
    queue: Option<D3DKMT_HANDLE>,
    lists: HandleLists,
    to: *mut i32,
) -> Result<(Vec<bool>, Residency), NTSTATUS> {
    judge_arguments(session, RECLAIM_RULES, &lists)?;
    // SAFETY: The caller's contract.
    let named = unsafe { resolve_lists(session, lists) }?;
    if !to.is_null() {
        // SAFETY: The caller's contract: one result for each handle.
        unsafe {
            check_writable(to.cast(), size_of::<i32>().saturating_mul(lists.count as usize))
        }?;
    }
    let (device, queue) = (device.map(Handle), queue.map(Handle));
    let back = |resolved_handles: ResolvedHandles| {
        let back =
            session.kernel.reclaim(session.process, device, queue, &resolved_handles.list)?;
        Ok((resolved_handles.member_counts, back))
    };
    let (member_counts, back) = map_error(session, RECLAIM_ERROR_RULES, named.and_then(back))?;
    let mut all = back.discarded.into_iter();
    let gone = |count| all.by_ref().take(count).fold(false, |any, it| any | it);
    Ok((member_counts.into_iter().map(gone).collect(), back.residency))
}

/// The allocations of a call, by either list.
///
/// # Safety
///
/// The lists are valid, unless the session is guarded.
unsafe fn resolve_lists(
    session: &Session,
    lists: HandleLists,
) -> Result<Result<ResolvedHandles, KernelError>, NTSTATUS> {
    let by_resource = !lists.resources.is_null();
    let from = if by_resource { lists.resources } else { lists.allocations };
    // SAFETY: The caller's contract.
    let handles =
        unsafe { read_list(from, lists.count as usize) }.of_member("pResources or HandleList")?;
    if !by_resource {
        let list: Vec<Handle> = handles.into_iter().map(Handle).collect();
        return Ok(Ok(ResolvedHandles { member_counts: vec![1; list.len()], list }));
    }
    let mut resolved = ResolvedHandles { list: Vec::new(), member_counts: Vec::new() };
    for handle in handles {
        match session.kernel.resource_members(session.process, Handle(handle)) {
            Ok(members) => resolved.add(&members)?,
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(resolved))
}

impl ResolvedHandles {
    /// Adds the members of a resource. All of them together are a list of the call, too: a resource
    /// that is named often has its members as often.
    fn add(&mut self, members: &[Handle]) -> Result<(), NTSTATUS> {
        if self.list.len() + members.len() > MAX_ELEMENTS {
            return Err(invalid("the resources have more members than a list may have elements"));
        }
        self.member_counts.push(members.len());
        self.list.extend(members);
        Ok(())
    }
}
