//! Destroying allocations and resources.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_small_list};
use crate::entry::{ArgumentRule, judge_usual_arguments};
use crate::refusal::OfMember;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{D3DKMT_DESTROYALLOCATION, D3DKMT_DESTROYALLOCATION2};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::D3DDDICB_DESTROYALLOCATION2FLAGS as Flags;
use flight::{Passive, RuleId};
use kernel::miniport::collect_few;
use kernel::{DestroyAllocationRequest, DestroyTarget, Handle};

const RULES: &[ArgumentRule<D3DKMT_DESTROYALLOCATION2>] = &[
    ArgumentRule {
        id: RuleId::ALLOC_DESTROY_012,
        argument: "D3DKMTDestroyAllocation2.Flags",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let bits = args.Flags.Value & !(Flags::AssumeNotInUse | Flags::SynchronousDestroy);
            (bits != 0).then(|| format!("reserved bits {bits:#x} are set"))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_DESTROY_024,
        argument: "D3DKMTDestroyAllocation2.phAllocationList",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let bare = args.hResource == 0 && args.phAllocationList.is_null();
            (bare && args.AllocationCount > 0).then(|| {
                format!("AllocationCount is {}, but there is no list", args.AllocationCount)
            })
        },
    },
    // WINDOWS: the page requires a NULL list with a resource. Windows ignores the list when the
    // count is zero, and fails a count with a list (both observed); a count without a list has
    // no meaning (documented).
    ArgumentRule {
        id: RuleId::ALLOC_DESTROY_003,
        argument: "D3DKMTDestroyAllocation2.phAllocationList",
        refuses: None,
        broken: |args| {
            let listed = !args.phAllocationList.is_null() && args.AllocationCount == 0;
            (args.hResource != 0 && listed)
                .then(|| "a list pointer stands beside hResource; it is not read".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_DESTROY_004,
        argument: "D3DKMTDestroyAllocation2.AllocationCount",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let listed = !args.phAllocationList.is_null() && args.AllocationCount > 0;
            (args.hResource != 0 && listed)
                .then(|| format!("hResource and a list of {} are both given", args.AllocationCount))
        },
    },
];

const ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTDestroyAllocation2.hDevice"),
        (HandleArgument::Resource, RuleId::ALLOC_DESTROY_001, "D3DKMTDestroyAllocation2.hResource"),
        (
            HandleArgument::Allocation,
            RuleId::ALLOC_DESTROY_001,
            "D3DKMTDestroyAllocation2.phAllocationList",
        ),
    ],
    others: &[
        (RuleId::ALLOC_DESTROY_005, "D3DKMTDestroyAllocation2.phAllocationList"),
        (RuleId::ALLOC_DESTROY_018, "D3DKMTDestroyAllocation2.phAllocationList"),
    ],
};

/// Destroys a resource or a list of allocations.
pub(crate) unsafe fn destroy_allocation2(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_DESTROYALLOCATION2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    // SAFETY: The caller's contract.
    unsafe { destroy(session, at, &arguments) }
}

/// Destroys a resource or a list of allocations, like version 2 without flags.
pub(crate) unsafe fn destroy_allocation(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_DESTROYALLOCATION,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let arguments = D3DKMT_DESTROYALLOCATION2 {
        hDevice: arguments.hDevice,
        hResource: arguments.hResource,
        phAllocationList: arguments.phAllocationList,
        AllocationCount: arguments.AllocationCount,
        ..D3DKMT_DESTROYALLOCATION2::ZERO
    };
    // SAFETY: The caller's contract.
    unsafe { destroy(session, at, &arguments) }
}

/// # Safety
///
/// The list of `arguments` is valid, unless the session is guarded.
unsafe fn destroy(
    session: &Session,
    at: &mut Passive,
    arguments: &D3DKMT_DESTROYALLOCATION2,
) -> Result<(), NTSTATUS> {
    let of_clients = Flags::AssumeNotInUse | Flags::SynchronousDestroy;
    let usual = arguments.hResource == 0
        && !arguments.phAllocationList.is_null()
        && arguments.Flags.Value & !of_clients == 0;
    judge_usual_arguments(session, RULES, arguments, usual)?;
    let target = match (arguments.hResource, arguments.AllocationCount) {
        (0, 0) => DestroyTarget::Nothing,
        // SAFETY: The caller's contract.
        (0, 1) => DestroyTarget::Allocation(Handle(
            unsafe { read(arguments.phAllocationList) }.of_member("phAllocationList")?,
        )),
        (0, count) => {
            // SAFETY: The caller's contract.
            let list =
                unsafe { read_small_list::<_, 4>(arguments.phAllocationList, count as usize) }
                    .of_member("phAllocationList")?;
            DestroyTarget::List(collect_few(list.into_iter().map(Handle)))
        }
        (resource, _) => DestroyTarget::Resource(Handle(resource)),
    };
    let request = DestroyAllocationRequest {
        device: Handle(arguments.hDevice),
        target,
        assume_not_in_use: arguments.Flags.has(Flags::AssumeNotInUse),
        synchronous: arguments.Flags.has(Flags::SynchronousDestroy),
    };
    map_error(session, ERROR_RULES, session.kernel.destroy(at, session.process, &request))
}
