//! What each kernel error means to a caller: its status, the rule it breaks, and the sentence.
//!
//! [`explain`] is the one place that says so. A call names the rules that it judges ([`Kept`]);
//! an error breaks the first of its rules that the call judges, and a call that succeeds keeps
//! them all.

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

/// What an error means to the caller.
struct Explained {
    status: NTSTATUS,
    /// The rules it breaks, of which the first that the call judges counts; and the sentence.
    breach: Option<(&'static [Breaks], String)>,
}

/// A rule that an error breaks.
#[derive(Clone, Copy)]
enum Breaks {
    /// The rule that the call has for this handle.
    Handle(Which),
    /// This rule.
    Rule(RuleId),
}

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
    let (result, broken) = match answer {
        Ok(value) => (Ok(value), None),
        Err(error) => {
            let Explained { status, breach } = explain(&error);
            let broken = breach.and_then(|(rules, sentence)| Some((kept.first(rules)?, sentence)));
            (Err(status), broken)
        }
    };
    for rule in kept.rules() {
        let sentence = match &broken {
            Some((this, sentence)) if *this == rule => Some(sentence.clone()),
            _ => None,
        };
        session.judge(rule.0, rule.1, sentence);
    }
    result
}

/// The status of an error, for calls that judge no rule on it.
pub(crate) fn status(error: &Refused) -> NTSTATUS {
    explain(error).status
}

impl Kept {
    /// The rules that the call judges, with their places.
    fn rules(self) -> impl Iterator<Item = (RuleId, &'static str)> {
        let handles = self.handles.iter().map(|(_, rule, place)| (*rule, *place));
        handles.chain(self.others.iter().copied())
    }

    /// The first of these rules that the call judges.
    fn first(self, rules: &[Breaks]) -> Option<(RuleId, &'static str)> {
        rules.iter().find_map(|breaks| match breaks {
            Breaks::Handle(which) => {
                let found = self.handles.iter().find(|(this, ..)| this == which);
                found.map(|(_, rule, place)| (*rule, *place))
            }
            Breaks::Rule(id) => {
                let other = self.others.iter().copied().find(|(rule, _)| rule == id);
                other.or_else(|| self.rules().find(|(rule, _)| rule == id))
            }
        })
    }
}

/// An error that breaks no rule.
fn plain(status: NTSTATUS) -> Explained {
    Explained { status, breach: None }
}

/// An error that breaks a rule.
fn breach(status: NTSTATUS, rules: &'static [Breaks], sentence: String) -> Explained {
    Explained { status, breach: Some((rules, sentence)) }
}

/// An invalid parameter that breaks a rule.
///
/// WINDOWS: nearly every bad argument is an invalid parameter; an `hResource` that does not
/// resolve in a create is an invalid handle (both observed; the create says so itself).
fn invalid(rules: &'static [Breaks], sentence: String) -> Explained {
    breach(STATUS_INVALID_PARAMETER, rules, sentence)
}

/// Status, rule and sentence of each kernel error.
#[expect(clippy::too_many_lines, reason = "one arm for each error, so that none is forgotten")]
fn explain(error: &Refused) -> Explained {
    use Breaks::{Handle, Rule};
    match error {
        Refused::Handle { argument, handle, why } => explain_handle(*argument, handle.0, why),
        Refused::OtherDevice { argument, handle, owner } => invalid(
            match argument {
                Argument::Resource => &[Handle(Which::Resource)],
                _ => &[Handle(Which::Allocation)],
            },
            format!("{} {:#x} belongs to {owner}, not to hDevice", named(*argument), handle.0),
        ),
        Refused::MixedList { first, other } => {
            let home = |resource: &Option<flight::Subject>| match resource {
                Some(resource) => resource.to_string(),
                None => "no resource".to_owned(),
            };
            let sentence = format!("the list mixes members of {} and {}", home(first), home(other));
            invalid(&[Rule(RuleId::ALLOC_DESTROY_005)], sentence)
        }
        Refused::Duplicate(handle) => {
            invalid(&[Handle(Which::Allocation)], format!("the list names {:#x} twice", handle.0))
        }
        Refused::SharedMember(resource) => invalid(
            &[Rule(RuleId::ALLOC_DESTROY_018)],
            format!("the list names a member of {resource}, which is shared: it ends as a whole"),
        ),
        Refused::Sealed(resource) => invalid(
            &[Rule(RuleId::ALLOC_CREATE_005)],
            format!("{resource} is shared, so it takes no more allocations"),
        ),
        Refused::NoHome(resource) => invalid(
            &[Rule(RuleId::ALLOC_CREATE_012)],
            format!(
                "an allocation over existing memory is created into {resource}, but joins none"
            ),
        ),
        Refused::NoEngine { node, engine, nodes } => invalid(
            &[Rule(RuleId::DEV_LIFE_006)],
            format!(
                "node {node}, engine mask {engine:#x} was asked for, but there are {nodes} nodes \
                 with one engine each"
            ),
        ),
        Refused::NotResident(view) => invalid(
            &[Rule(RuleId::RESID_EVICT_001)],
            format!("{view} is not on the list of what must be resident"),
        ),
        Refused::NotLocked(view) => {
            invalid(&[Rule(RuleId::ALLOC_LOCK_017)], format!("{view} is not locked"))
        }
        Refused::LockedOtherwise(view) => invalid(
            &[Rule(RuleId::ALLOC_LOCK_008)],
            format!("{view} is locked without an aperture, so it gets none now"),
        ),
        Refused::Elsewhere(view) => invalid(
            &[Rule(RuleId::ALLOC_LOCK_007)],
            format!("{view} is shared, or locked already, and another address is part of it"),
        ),
        // WINDOWS: an adapter without a feature answers so (observed for paging queues).
        Refused::FirstGeneration(device) => breach(
            STATUS_NOT_IMPLEMENTED,
            &[Rule(RuleId::PAGQ_LIFE_007)],
            format!("the driver of {device} is of WDDM 1.x, which has no paging queues"),
        ),
        Refused::NoVideoMemory | Refused::NoAddresses => plain(STATUS_NOT_IMPLEMENTED),
        Refused::OnlyApertures(view) => {
            invalid(&[Rule(RuleId::ALLOC_LOCK_009)], format!("{view} can be in apertures only"))
        }
        Refused::NotUnsynced(view) => invalid(
            &[Rule(RuleId::ALLOC_LOCK_010)],
            format!(
                "{view} can be in no aperture that shows the CPU and the GPU the same, so a lock \
                 waits"
            ),
        ),
        Refused::Offered(view) => {
            invalid(&[Rule(RuleId::ALLOC_LOCK_004)], format!("{view} is offered"))
        }
        Refused::NotOffered(view) => {
            invalid(&[Rule(RuleId::RESID_OFFER_008)], format!("{view} is not offered"))
        }
        Refused::Older { handle, view } => invalid(
            &[Rule(RuleId::SUBMIT_RENDER_006)],
            format!(
                "the packet uses instance {:#x} of {view}, but a newer one was used before it",
                handle.0
            ),
        ),
        Refused::NoEvent(event) => breach(
            STATUS_INVALID_HANDLE,
            &[Rule(RuleId::SYNC_CREATE_016)],
            format!("event {event} is none of the client's"),
        ),
        Refused::NotMonitored(sync) => invalid(
            &[Rule(RuleId::SYNC_FENCE_001)],
            format!("{sync} is no monitored fence, and the CPU signals no others"),
        ),
        Refused::Rewinds { sync, value, current } => invalid(
            &[Rule(RuleId::SYNC_FENCE_002)],
            format!("{sync} has {current} and is to go back to {value}, without AllowFenceRewind"),
        ),
        Refused::TooFar { sync, value, current } => invalid(
            &[Rule(RuleId::SYNC_CREATE_007)],
            format!(
                "{sync} has 32 bits and the value {current}: {value} is further away than \
                 UINT_MAX/2"
            ),
        ),
        Refused::NoLists(context) => invalid(
            &[Rule(RuleId::SUBMIT_CMD_001)],
            format!("{context} uses virtual addresses, so its packets come by D3DKMTSubmitCommand"),
        ),
        Refused::HasLists(context) => invalid(
            &[Rule(RuleId::SUBMIT_CMD_001)],
            format!("{context} has lists that are patched, so its packets come by D3DKMTRender"),
        ),
        Refused::LongPrivate { bytes, most } => invalid(
            &[Rule(RuleId::SUBMIT_CMD_003)],
            format!(
                "the packet has {bytes} bytes of private data, but the driver asked for {most} \
                 when the context was made"
            ),
        ),
        Refused::AddressesMixed { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_MAP_001)],
            format!(
                "{} is neither free nor taken as a whole, or not all of it can be addressed",
                span(*start, *bytes)
            ),
        ),
        Refused::AddressesTaken { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_MAP_003)],
            format!(
                "{} has parts that a map call made, and only what is free or reserved can be \
                 emptied",
                span(*start, *bytes)
            ),
        ),
        Refused::NotTaken { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_FREE_001), Rule(RuleId::GPUVA_UPDATE_002)],
            format!("{} is not all mapped or reserved", span(*start, *bytes)),
        ),
        Refused::FreedBefore { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_FREE_004)],
            format!(
                "{} was free already: its client freed it, or it went with the allocation that \
                 was mapped there",
                span(*start, *bytes)
            ),
        ),
        Refused::OtherReservation { start } => invalid(
            &[Rule(RuleId::GPUVA_UPDATE_001)],
            format!("{start:#x} is not in the reservation that the call began with"),
        ),
        Refused::OutsideAllocation { view, offset, bytes, size } => invalid(
            &[Rule(RuleId::GPUVA_MAP_006)],
            format!(
                "{bytes:#x} bytes from {offset:#x} on are mapped, but {view} has {size:#x} bytes"
            ),
        ),
        Refused::Removed(object) => plain(match object.kind {
            Kind::View | Kind::ResourceView => STATUS_INVALID_PARAMETER,
            _ => STATUS_DEVICE_REMOVED,
        }),
        Refused::ResourceEnded(_) => plain(STATUS_INVALID_HANDLE),
        Refused::Denied(_) => plain(STATUS_ACCESS_DENIED),
        // WINDOWS: the page names D3DDDIERR_CANTRENDERLOCKEDALLOCATION, whose number is not
        // published; the nearest published status is returned.
        Refused::InUse(_) | Refused::LockedAway(_) => plain(STATUS_GRAPHICS_ALLOCATION_BUSY),
        Refused::NamesFull | Refused::NoRoom { .. } | Refused::NoFreeAddresses => {
            plain(STATUS_NO_MEMORY)
        }
        Refused::Pinned(_) => plain(STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION),
        Refused::Stuck => plain(STATUS_UNSUCCESSFUL),
        Refused::Driver(why) => plain(status_of_driver(*why)),
        Refused::OtherAdapter(_)
        | Refused::NothingToCreate
        | Refused::BadShape
        | Refused::NotForCpu(_)
        | Refused::NotCreator(_)
        | Refused::WouldEvict(_)
        | Refused::NotOwner(_)
        | Refused::ShortBuffer { .. } => plain(STATUS_INVALID_PARAMETER),
    }
}

/// The same of a handle that does not resolve: the rule depends on the argument and on what is
/// wrong with the handle.
fn explain_handle(argument: Argument, handle: u32, why: &BadHandle) -> Explained {
    use Breaks::{Handle, Rule};
    let is_global = handle & FORM == GLOBAL;
    let rules: &'static [Breaks] = match (argument, why) {
        (Argument::Adapter, _) => &[Handle(Which::Adapter)],
        (Argument::Device, BadHandle::Closed(_)) => &[Handle(Which::StaleDevice)],
        (Argument::Context, BadHandle::Closed(_)) => &[Handle(Which::StaleContext)],
        (Argument::Fence, BadHandle::Closed(Some(object))) if object.kind == Kind::QueueFence => {
            &[Handle(Which::StaleFence)]
        }
        (Argument::Sync, _) if is_global => &[Handle(Which::GlobalSync)],
        (
            Argument::Device
            | Argument::Context
            | Argument::Queue
            | Argument::Fence
            | Argument::Sync
            | Argument::SharedSync,
            _,
        ) => return plain(STATUS_INVALID_PARAMETER),
        (Argument::Resource, _) => &[Handle(Which::Resource)],
        (Argument::Share, _) => &[Handle(Which::Share)],
        (Argument::Keyed, _) => &[Handle(Which::Keyed)],
        (Argument::KeyedShare, _) => &[Handle(Which::KeyedShare)],
        (Argument::Allocation(_), BadHandle::Retired(_)) => {
            &[Rule(RuleId::ALLOC_LOCK_004), Handle(Which::Allocation)]
        }
        (Argument::Allocation(_), _) => &[Handle(Which::Allocation)],
    };
    let why = match why {
        BadHandle::Unknown => match argument {
            Argument::Keyed if is_global => {
                "looks like a global handle: those open a mutex, and are no name of it".to_owned()
            }
            Argument::Share | Argument::KeyedShare if !is_global => {
                "is no global handle: those end in six bits that are 2".to_owned()
            }
            Argument::Sync if is_global => {
                "is a global handle: those are opened, and only local ones destroyed".to_owned()
            }
            _ => "was never given out".to_owned(),
        },
        BadHandle::Closed(Some(object)) => format!("is stale: it named {object}, and was closed"),
        BadHandle::Closed(None) => "is stale: it was closed long ago".to_owned(),
        BadHandle::ProcessEnded => "is of a process that has ended".to_owned(),
        BadHandle::Unfinished => "is not given out yet".to_owned(),
        BadHandle::Retired(view) => {
            format!("is retired: a lock with Discard gave {view} a newer instance")
        }
        BadHandle::WrongKind(object) => format!("names {object}"),
    };
    invalid(rules, format!("{} {handle:#x} {why}", named(argument)))
}

/// The status of a driver's failure.
fn status_of_driver(why: Refusal) -> NTSTATUS {
    match why {
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
    }
}

/// A range of addresses, in words.
fn span(start: u64, bytes: u64) -> String {
    format!("{start:#x} to {:#x}", start.saturating_add(bytes))
}

/// The member that an argument is.
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
