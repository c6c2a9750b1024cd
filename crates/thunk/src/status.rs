//! The one table from refusals to statuses and rules.

use crate::session::Session;
use abi::NTSTATUS;
use abi::status::{
    STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_ALLOCATION_BUSY,
    STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION, STATUS_GRAPHICS_DRIVER_MISMATCH,
    STATUS_ILLEGAL_INSTRUCTION, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_USER_BUFFER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
    STATUS_PRIVILEGED_INSTRUCTION, STATUS_UNSUCCESSFUL,
};
use flight::{Kind, RuleId};
use kernel::miniport::Refusal;
use kernel::{Argument, BadHandle, Refused};

/// The low bits of a handle, and what they are in a global one.
const FORM: u32 = 0x3f;
const GLOBAL: u32 = 2;

/// What the kernel can refuse in a call, as rules: which rule each refusal breaks. A call
/// that is not refused has kept them all.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// The rule of a bad handle or wrong owner of this argument, and its place in the call.
    pub(crate) handles: &'static [(Which, RuleId, &'static str)],
    /// The rules of refusals that are not about one handle, with their places.
    pub(crate) others: &'static [(RuleId, &'static str)],
}

/// Which argument, without its place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Adapter,
    /// The device, when its handle is stale: made-up numbers break no rule.
    StaleDevice,
    /// The context, when it went with its device or before.
    StaleContext,
    /// A fence, when it went with its queue.
    StaleFence,
    /// A synchronisation object, when its name is a global one.
    GlobalSync,
    Resource,
    Share,
    Allocation,
    Keyed,
    KeyedShare,
}

/// Turns the kernel's answer into a status, and judges the rules it speaks of.
pub(crate) fn answer<T>(
    session: &Session,
    kept: Kept,
    answer: Result<T, Refused>,
) -> Result<T, NTSTATUS> {
    let refused = answer.as_ref().err();
    let broken = refused.and_then(|it| rule_of(kept, it));
    let handles = kept.handles.iter().map(|(_, rule, place)| (*rule, *place));
    for (rule, place) in handles.chain(kept.others.iter().copied()) {
        let sentence = refused.filter(|_| broken == Some((rule, place))).map(describe);
        session.judge(rule, place, sentence);
    }
    answer.map_err(|why| status(&why))
}

/// The rule a refusal is about, of those the call judges.
fn rule_of(kept: Kept, refused: &Refused) -> Option<(RuleId, &'static str)> {
    let handle = |which: Which| {
        let found = kept.handles.iter().find(|(it, ..)| *it == which);
        found.map(|(_, rule, place)| (*rule, *place))
    };
    let handles = kept.handles.iter().map(|(_, rule, place)| (*rule, *place));
    let all = kept.others.iter().copied().chain(handles);
    let other = |rule: RuleId| all.clone().find(|(it, _)| *it == rule);
    match refused {
        Refused::Handle { argument, handle: name, why } => match (argument, why) {
            (Argument::Adapter, _) => handle(Which::Adapter),
            (Argument::Device, BadHandle::Closed(_)) => handle(Which::StaleDevice),
            (Argument::Context, BadHandle::Closed(_)) => handle(Which::StaleContext),
            (Argument::Fence, BadHandle::Closed(Some(it))) if it.kind == Kind::QueueFence => {
                handle(Which::StaleFence)
            }
            (Argument::Sync, _) if name.0 & FORM == GLOBAL => handle(Which::GlobalSync),
            (
                Argument::Device
                | Argument::Context
                | Argument::Queue
                | Argument::Fence
                | Argument::Sync
                | Argument::SharedSync,
                _,
            ) => None,
            (Argument::Resource, _) => handle(Which::Resource),
            (Argument::Share, _) => handle(Which::Share),
            (Argument::Keyed, _) => handle(Which::Keyed),
            (Argument::KeyedShare, _) => handle(Which::KeyedShare),
            (Argument::Allocation(_), BadHandle::Retired(_)) => {
                other(RuleId::ALLOC_LOCK_004).or_else(|| handle(Which::Allocation))
            }
            (Argument::Allocation(_), _) => handle(Which::Allocation),
        },
        Refused::OtherDevice { argument: Argument::Resource, .. } => handle(Which::Resource),
        Refused::OtherDevice { .. } | Refused::Duplicate(_) => handle(Which::Allocation),
        Refused::MixedList { .. } => other(RuleId::ALLOC_DESTROY_005),
        Refused::SharedMember(_) => other(RuleId::ALLOC_DESTROY_018),
        Refused::Sealed(_) => other(RuleId::ALLOC_CREATE_005),
        Refused::NoHome(_) => other(RuleId::ALLOC_CREATE_012),
        Refused::NoEngine { .. } => other(RuleId::DEV_LIFE_006),
        Refused::NotResident(_) => other(RuleId::RESID_EVICT_001),
        Refused::NotLocked(_) => other(RuleId::ALLOC_LOCK_017),
        Refused::LockedOtherwise(_) => other(RuleId::ALLOC_LOCK_008),
        Refused::Elsewhere(_) => other(RuleId::ALLOC_LOCK_007),
        Refused::FirstGeneration(_) => other(RuleId::PAGQ_LIFE_007),
        Refused::OnlyApertures(_) => other(RuleId::ALLOC_LOCK_009),
        Refused::NotUnsynced(_) => other(RuleId::ALLOC_LOCK_010),
        Refused::Offered(_) => other(RuleId::ALLOC_LOCK_004),
        Refused::Older { .. } => other(RuleId::SUBMIT_RENDER_006),
        Refused::NotOffered(_) => other(RuleId::RESID_OFFER_008),
        Refused::NoEvent(_) => other(RuleId::SYNC_CREATE_016),
        Refused::NotMonitored(_) => other(RuleId::SYNC_FENCE_001),
        Refused::Rewinds { .. } => other(RuleId::SYNC_FENCE_002),
        Refused::TooFar { .. } => other(RuleId::SYNC_CREATE_007),
        Refused::AddressesMixed { .. } => other(RuleId::GPUVA_MAP_001),
        Refused::AddressesTaken { .. } => other(RuleId::GPUVA_MAP_003),
        Refused::OutsideAllocation { .. } => other(RuleId::GPUVA_MAP_006),
        Refused::NotTaken { .. } => {
            other(RuleId::GPUVA_FREE_001).or_else(|| other(RuleId::GPUVA_UPDATE_002))
        }
        Refused::FreedBefore { .. } => other(RuleId::GPUVA_FREE_004),
        Refused::OtherReservation { .. } => other(RuleId::GPUVA_UPDATE_001),
        Refused::NoLists(_) | Refused::HasLists(_) => other(RuleId::SUBMIT_CMD_001),
        Refused::LongPrivate { .. } => other(RuleId::SUBMIT_CMD_003),
        Refused::Denied(_)
        | Refused::ResourceEnded(_)
        | Refused::OtherAdapter(_)
        | Refused::Removed(_)
        | Refused::NothingToCreate
        | Refused::NamesFull
        | Refused::BadShape
        | Refused::Driver(_)
        | Refused::NoVideoMemory
        | Refused::NoRoom { .. }
        | Refused::NotForCpu(_)
        | Refused::NotCreator(_)
        | Refused::WouldEvict(_)
        | Refused::Pinned(_)
        | Refused::InUse(_)
        | Refused::LockedAway(_)
        | Refused::NoAddresses
        | Refused::NoFreeAddresses
        | Refused::NotOwner(_)
        | Refused::ShortBuffer { .. }
        | Refused::Stuck => None,
    }
}

/// The sentence of a refusal.
fn describe(refused: &Refused) -> String {
    match refused {
        Refused::Handle { argument, handle, why } => {
            let what = named(*argument);
            let why = match why {
                BadHandle::Unknown if *argument == Argument::Keyed && handle.0 & 0x3f == 2 => {
                    "looks like a global handle: those open a mutex, and are no name of it"
                        .to_owned()
                }
                BadHandle::Unknown
                    if matches!(argument, Argument::Share | Argument::KeyedShare)
                        && handle.0 & 0x3f != 2 =>
                {
                    "is no global handle: those end in six bits that are 2".to_owned()
                }
                BadHandle::Unknown if *argument == Argument::Sync && handle.0 & FORM == GLOBAL => {
                    "is a global handle: those are opened, and only local ones destroyed".to_owned()
                }
                BadHandle::Unknown => "was never given out".to_owned(),
                BadHandle::Closed(Some(it)) => format!("is stale: it named {it}, and was closed"),
                BadHandle::Closed(None) => "is stale: it was closed long ago".to_owned(),
                BadHandle::ProcessEnded => "is of a process that has ended".to_owned(),
                BadHandle::Unfinished => "is not given out yet".to_owned(),
                BadHandle::Retired(it) => {
                    format!("is retired: a lock with Discard gave {it} a newer instance")
                }
                BadHandle::WrongKind(it) => format!("names {it}"),
            };
            format!("{what} {:#x} {why}", handle.0)
        }
        Refused::OtherDevice { argument, handle, owner } => {
            format!("{} {:#x} belongs to {owner}, not to hDevice", named(*argument), handle.0)
        }
        Refused::MixedList { first, other } => {
            let home = |it: &Option<flight::Subject>| {
                it.map_or_else(|| "no resource".to_owned(), |it| it.to_string())
            };
            format!("the list mixes members of {} and {}", home(first), home(other))
        }
        Refused::Duplicate(handle) => format!("the list names {:#x} twice", handle.0),
        Refused::SharedMember(it) => {
            format!("the list names a member of {it}, which is shared: it ends as a whole")
        }
        Refused::Sealed(it) => format!("{it} is shared, so it takes no more allocations"),
        Refused::NoHome(it) => {
            format!("an allocation over existing memory is created into {it}, but joins none")
        }
        Refused::NoEngine { node, engine, nodes } => format!(
            "node {node}, engine mask {engine:#x} was asked for, but there are {nodes} nodes \
             with one engine each"
        ),
        Refused::NotResident(it) => format!("{it} is not on the list of what must be resident"),
        Refused::NotLocked(it) => format!("{it} is not locked"),
        Refused::LockedOtherwise(it) => {
            format!("{it} is locked without an aperture, so it gets none now")
        }
        Refused::Elsewhere(it) => {
            format!("{it} is shared, or locked already, and another address is part of it")
        }
        Refused::FirstGeneration(it) => {
            format!("the driver of {it} is of WDDM 1.x, which has no paging queues")
        }
        Refused::OnlyApertures(it) => format!("{it} can be in apertures only"),
        Refused::NotUnsynced(it) => format!(
            "{it} can be in no aperture that shows the CPU and the GPU the same, so a lock waits"
        ),
        Refused::Offered(it) => format!("{it} is offered"),
        Refused::NotOffered(it) => format!("{it} is not offered"),
        Refused::Older { handle, view } => format!(
            "the packet uses instance {:#x} of {view}, but a newer one was used before it",
            handle.0
        ),
        Refused::NoEvent(it) => format!("event {it} is none of the client's"),
        Refused::NotMonitored(it) => {
            format!("{it} is no monitored fence, and the CPU signals no others")
        }
        Refused::Rewinds { sync, value, current } => {
            format!("{sync} has {current} and is to go back to {value}, without AllowFenceRewind")
        }
        Refused::TooFar { sync, value, current } => format!(
            "{sync} has 32 bits and the value {current}: {value} is further away than UINT_MAX/2"
        ),
        Refused::NoLists(it) => {
            format!("{it} uses virtual addresses, so its packets come by D3DKMTSubmitCommand")
        }
        Refused::HasLists(it) => {
            format!("{it} has lists that are patched, so its packets come by D3DKMTRender")
        }
        Refused::LongPrivate { bytes, most } => format!(
            "the packet has {bytes} bytes of private data, but the driver asked for {most} when \
             the context was made"
        ),
        Refused::AddressesMixed { .. }
        | Refused::AddressesTaken { .. }
        | Refused::NotTaken { .. }
        | Refused::FreedBefore { .. }
        | Refused::OtherReservation { .. }
        | Refused::OutsideAllocation { .. } => describe_addresses(refused),
        other => format!("{other:?}"),
    }
}

/// The sentence of a refusal that is about addresses.
fn describe_addresses(refused: &Refused) -> String {
    let span =
        |start: &u64, bytes: &u64| format!("{start:#x} to {:#x}", start.saturating_add(*bytes));
    match refused {
        Refused::AddressesMixed { start, bytes } => format!(
            "{} is neither free nor taken as a whole, or not all of it can be addressed",
            span(start, bytes)
        ),
        Refused::AddressesTaken { start, bytes } => format!(
            "{} has parts that a map call made, and only what is free or reserved can be emptied",
            span(start, bytes)
        ),
        Refused::NotTaken { start, bytes } => {
            format!("{} is not all mapped or reserved", span(start, bytes))
        }
        Refused::FreedBefore { start, bytes } => format!(
            "{} was free already: its client freed it, or it went with the allocation that was \
             mapped there",
            span(start, bytes)
        ),
        Refused::OtherReservation { start } => {
            format!("{start:#x} is not in the reservation that the call began with")
        }
        Refused::OutsideAllocation { view, offset, bytes, size } => format!(
            "{bytes:#x} bytes from {offset:#x} on are mapped, but {view} has {size:#x} bytes"
        ),
        other => format!("{other:?}"),
    }
}

fn named(argument: Argument) -> String {
    match argument {
        Argument::Adapter => "hAdapter".to_owned(),
        Argument::Device => "hDevice".to_owned(),
        Argument::Context => "hContext".to_owned(),
        Argument::Resource => "hResource".to_owned(),
        Argument::Share => "hGlobalShare".to_owned(),
        Argument::Keyed => "hKeyedMutex".to_owned(),
        Argument::KeyedShare | Argument::SharedSync => "hSharedHandle".to_owned(),
        Argument::Queue => "hPagingQueue".to_owned(),
        Argument::Fence | Argument::Sync => "hSyncObject".to_owned(),
        Argument::Allocation(place) => format!("phAllocationList[{place}]"),
    }
}

/// The one table from refusals to statuses.
///
/// WINDOWS: nearly every bad argument is an invalid parameter; an `hResource` that does not
/// resolve in a create is an invalid handle (both observed; the create says so itself).
pub(crate) fn status(refused: &Refused) -> NTSTATUS {
    match refused {
        Refused::Removed(it) if it.kind == Kind::View || it.kind == Kind::ResourceView => {
            STATUS_INVALID_PARAMETER
        }
        Refused::Removed(_) => STATUS_DEVICE_REMOVED,
        Refused::ResourceEnded(_) | Refused::NoEvent(_) => STATUS_INVALID_HANDLE,
        Refused::Denied(_) => STATUS_ACCESS_DENIED,
        // WINDOWS: the page names D3DDDIERR_CANTRENDERLOCKEDALLOCATION, of which no number is
        // published; the nearest status that is, is answered.
        Refused::InUse(_) | Refused::LockedAway(_) => STATUS_GRAPHICS_ALLOCATION_BUSY,
        Refused::NamesFull | Refused::NoRoom { .. } | Refused::NoFreeAddresses => STATUS_NO_MEMORY,
        // WINDOWS: an adapter that has no such thing answers so (observed for paging queues).
        Refused::NoVideoMemory | Refused::FirstGeneration(_) | Refused::NoAddresses => {
            STATUS_NOT_IMPLEMENTED
        }
        Refused::Pinned(_) => STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION,
        Refused::Stuck => STATUS_UNSUCCESSFUL,
        Refused::Driver(why) => match why {
            Refusal::Absent | Refusal::Unsupported | Refusal::Declined => STATUS_NOT_SUPPORTED,
            Refusal::Unimplemented => STATUS_NOT_IMPLEMENTED,
            Refusal::Invalid => STATUS_INVALID_PARAMETER,
            Refusal::NoMemory => STATUS_NO_MEMORY,
            Refusal::Mismatch => STATUS_GRAPHICS_DRIVER_MISMATCH,
            Refusal::Busy => STATUS_GRAPHICS_ALLOCATION_BUSY,
            Refusal::NoHandle => STATUS_INVALID_HANDLE,
            Refusal::Privileged => STATUS_PRIVILEGED_INSTRUCTION,
            Refusal::Illegal => STATUS_ILLEGAL_INSTRUCTION,
            Refusal::UserMemory => STATUS_INVALID_USER_BUFFER,
            Refusal::NoRoom | Refusal::Crashed => STATUS_UNSUCCESSFUL,
            // Only streaming minidrivers return these.
            Refusal::NotReady | Refusal::NoMatch | Refusal::Pending | Refusal::Deadlock => {
                STATUS_UNSUCCESSFUL
            }
            Refusal::Other(number) => number.cast_signed(),
        },
        Refused::Handle { .. }
        | Refused::OtherDevice { .. }
        | Refused::MixedList { .. }
        | Refused::Duplicate(_)
        | Refused::SharedMember(_)
        | Refused::Sealed(_)
        | Refused::NoHome(_)
        | Refused::NoEngine { .. }
        | Refused::OtherAdapter(_)
        | Refused::NothingToCreate
        | Refused::NoLists(_)
        | Refused::HasLists(_)
        | Refused::LongPrivate { .. }
        | Refused::BadShape
        | Refused::NotResident(_)
        | Refused::NotLocked(_)
        | Refused::NotForCpu(_)
        | Refused::NotCreator(_)
        | Refused::LockedOtherwise(_)
        | Refused::Elsewhere(_)
        | Refused::OnlyApertures(_)
        | Refused::NotUnsynced(_)
        | Refused::WouldEvict(_)
        | Refused::Offered(_)
        | Refused::Older { .. }
        | Refused::NotOffered(_)
        | Refused::NotMonitored(_)
        | Refused::Rewinds { .. }
        | Refused::TooFar { .. }
        | Refused::AddressesMixed { .. }
        | Refused::AddressesTaken { .. }
        | Refused::NotTaken { .. }
        | Refused::FreedBefore { .. }
        | Refused::OtherReservation { .. }
        | Refused::OutsideAllocation { .. }
        | Refused::NotOwner(_)
        | Refused::ShortBuffer { .. } => STATUS_INVALID_PARAMETER,
    }
}
