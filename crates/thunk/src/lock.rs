//! Locks: map allocations for the CPU.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{ShownAccess, read, read_list, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::OfMember;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{D3DKMT_LOCK, D3DKMT_LOCK2, D3DKMT_UNLOCK, D3DKMT_UNLOCK2};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::D3DDDICB_LOCKFLAGS as Flags;
use flight::{Passive, RuleId};
use kernel::{Handle, LockRequest, LockResponse};
use std::ffi::c_void;
use std::ptr;

const INVALID: Option<NTSTATUS> = Some(STATUS_INVALID_PARAMETER);

const RULES: &[ArgumentRule<D3DKMT_LOCK>] = &[
    ArgumentRule {
        id: RuleId::ALLOC_LOCK_001,
        argument: "D3DKMTLock.Flags",
        refuses: INVALID,
        broken: |args| {
            both_flags(args, (Flags::ReadOnly, "ReadOnly"), (Flags::WriteOnly, "WriteOnly"))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_LOCK_002,
        argument: "D3DKMTLock.Flags",
        refuses: INVALID,
        broken: |args| {
            let aperture = (Flags::AcquireAperture, "AcquireAperture");
            both_flags(args, (Flags::IgnoreSync, "IgnoreSync"), aperture)
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_LOCK_003,
        argument: "D3DKMTLock.Flags.UseAlternateVA",
        refuses: INVALID,
        broken: |args| {
            (args.Flags.has(Flags::UseAlternateVA) && !args.Flags.has(Flags::AcquireAperture))
                .then(|| "UseAlternateVA is set and AcquireAperture is not".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_LOCK_016,
        argument: "D3DKMTLock.pPages",
        refuses: INVALID,
        broken: |args| {
            let (entire, pages) = (args.Flags.has(Flags::LockEntire), args.NumPages);
            let listed = !args.pPages.is_null();
            if entire {
                (pages != 0 || listed)
                    .then(|| format!("LockEntire is set, and {pages} pages are listed besides"))
            } else {
                (pages == 0 || !listed)
                    .then(|| "LockEntire is not set, and no pages are listed".to_owned())
            }
        },
    },
];

fn both_flags(it: &D3DKMT_LOCK, one: (u32, &str), other: (u32, &str)) -> Option<String> {
    (it.Flags.has(one.0) && it.Flags.has(other.0))
        .then(|| format!("{} and {} are both set", one.1, other.1))
}

const RULES_2: &[ArgumentRule<D3DKMT_LOCK2>] = &[ArgumentRule {
    id: RuleId::ALLOC_LOCK_018,
    argument: "D3DKMTLock2.Flags",
    refuses: INVALID,
    broken: |args| {
        let bits = args.Flags.Value;
        (bits != 0).then(|| format!("Flags is {bits:#x}, but every bit is reserved"))
    },
}];

const LOCK_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTLock.hDevice")],
    others: &[
        (RuleId::ALLOC_LOCK_004, "D3DKMTLock.hAllocation"),
        (RuleId::ALLOC_LOCK_007, "D3DKMTLock.Flags.UseAlternateVA"),
        (RuleId::ALLOC_LOCK_008, "D3DKMTLock.Flags.AcquireAperture"),
        (RuleId::ALLOC_LOCK_009, "D3DKMTLock.Flags.AcquireAperture"),
        (RuleId::ALLOC_LOCK_010, "D3DKMTLock.Flags"),
    ],
};

const LOCK2_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTLock2.hDevice")],
    others: &[
        (RuleId::ALLOC_LOCK_004, "D3DKMTLock2.hAllocation"),
        (RuleId::ALLOC_LOCK_007, "D3DKMTLock2.hAllocation"),
    ],
};

const UNLOCK_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTUnlock.hDevice"),
        (HandleArgument::Allocation, RuleId::ALLOC_LOCK_017, "D3DKMTUnlock.phAllocations"),
    ],
    others: &[],
};

const UNLOCK2_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTUnlock2.hDevice"),
        (HandleArgument::Allocation, RuleId::ALLOC_LOCK_017, "D3DKMTUnlock2.hAllocation"),
    ],
    others: &[],
};

/// Flags that have no effect yet; their use is logged.
const WITHOUT_EFFECT: &[(u32, &str)] =
    &[(Flags::UseAlternateVA, "D3DKMTLock.Flags.UseAlternateVA")];

/// Maps an allocation for the CPU after the queued work that uses it has completed. With `Discard`,
/// maps another instance instead and returns its handle.
pub(crate) unsafe fn lock(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_LOCK,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, RULES, &arguments)?;
    // SAFETY: The caller's contract. The whole allocation is mapped; the list is only checked.
    unsafe { read_list(arguments.pPages, arguments.NumPages as usize) }.of_member("pPages")?;
    for (_, name) in WITHOUT_EFFECT.iter().filter(|(flag, _)| arguments.Flags.has(*flag)) {
        session.missing_entry(name);
    }
    let device = Handle(arguments.hDevice);
    // WINDOWS: from WDDM 2 on, allocations are not renamed (documented).
    let renames = session.kernel.pages_in_listed(session.process, device);
    if arguments.Flags.has(Flags::Discard) && !renames {
        session.missing_entry("D3DKMTLock.Flags.Discard");
    }
    let has = |flag| arguments.Flags.has(flag);
    let request = LockRequest {
        device,
        view: Handle(arguments.hAllocation),
        wait: !has(Flags::IgnoreSync),
        do_not_wait: has(Flags::DonotWait),
        do_not_evict: has(Flags::DonotEvict),
        aperture: has(Flags::AcquireAperture),
        alternate: has(Flags::UseAlternateVA),
        ignore_sync: has(Flags::IgnoreSync | Flags::IgnoreReadSync),
        discards: has(Flags::Discard),
        no_existing_reference: has(Flags::NoExistingReference),
    };
    let locked = session.kernel.lock(at, session.process, &request);
    let shown = map_error(session, LOCK_ERROR_RULES, locked)?;
    arguments.hAllocation = shown.view.0;
    arguments.pData = show_locked(session, device, &shown)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Maps an allocation for the CPU.
///
/// WINDOWS: it never waits for the GPU and is never busy: a client that wants to wait does so
/// itself (our reading; a page lists a busy status, though no flag asks for one).
pub(crate) unsafe fn lock2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_LOCK2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, RULES_2, &arguments)?;
    let (device, view) = (Handle(arguments.hDevice), Handle(arguments.hAllocation));
    let request = LockRequest { device, view, ..LockRequest::default() };
    let locked = session.kernel.lock(at, session.process, &request);
    let shown = map_error(session, LOCK2_ERROR_RULES, locked)?;
    arguments.pData = show_locked(session, device, &shown)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The address of a locked allocation for the caller. If there can be none, the lock ends.
fn show_locked(
    session: &Session,
    device: Handle,
    locked: &LockResponse,
) -> Result<*mut c_void, NTSTATUS> {
    if locked.is_clients_own {
        return Ok(ptr::with_exposed_provenance_mut(locked.address));
    }
    let shown = session.show(locked.address, ShownAccess::ReadWrite).inspect_err(|_| {
        // The lock was just acquired; a destroy on another thread may have ended it.
        _ = session.kernel.unlock(session.process, device, &[locked.view]);
    });
    shown.map(ptr::with_exposed_provenance_mut)
}

/// Unlocks each allocation once.
pub(crate) unsafe fn unlock(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_UNLOCK,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    // SAFETY: The caller's contract.
    let list = unsafe { read_list(arguments.phAllocations, arguments.NumAllocations as usize) }
        .of_member("phAllocations")?;
    let list: Vec<Handle> = list.into_iter().map(Handle).collect();
    let ended = session.kernel.unlock(session.process, Handle(arguments.hDevice), &list);
    map_error(session, UNLOCK_ERROR_RULES, ended)
}

/// Unlocks an allocation once.
pub(crate) unsafe fn unlock2(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_UNLOCK2,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (device, view) = (Handle(arguments.hDevice), Handle(arguments.hAllocation));
    map_error(session, UNLOCK2_ERROR_RULES, session.kernel.unlock(session.process, device, &[view]))
}
