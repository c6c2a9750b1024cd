//! Maps each kernel error to a status, the rule that it breaks, and a sentence.
//!
//! [`explain`] is the only place with this mapping. A call lists the rules that it judges
//! ([`ErrorRules`]). An error breaks the first of its rules that the call judges; a successful call
//! holds them all.

use crate::refusal;
use crate::session::Session;
use abi::NTSTATUS;
use abi::status::{
    STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_ALLOCATION_BUSY,
    STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION, STATUS_GRAPHICS_DRIVER_MISMATCH,
    STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE, STATUS_ILLEGAL_INSTRUCTION, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_INVALID_USER_BUFFER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED,
    STATUS_NOT_SUPPORTED, STATUS_OBJECT_NAME_COLLISION, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_TYPE_MISMATCH, STATUS_PRIVILEGED_INSTRUCTION, STATUS_UNSUCCESSFUL,
};
use flight::{Kind, RuleId};
use kernel::miniport::DriverError;
use kernel::{Argument, HandleError, KernelError};

/// The mask of a handle's low bits, and their value in a global handle.
const FORM: u32 = 0x3f;
const GLOBAL: u32 = 2;

/// The explanation of an error.
struct Explained {
    status: NTSTATUS,
    /// The rules that it may break, of which the first that the call judges counts.
    rules: &'static [Breaks],
    /// `None` if the sentence of the error itself says it.
    sentence: Option<String>,
}

/// A rule that an error breaks.
#[derive(Clone, Copy)]
enum Breaks {
    /// The rule that the call has for this handle.
    Handle(HandleArgument),
    /// This rule.
    Rule(RuleId),
}

/// The rules that a call judges on kernel errors: which rule each error breaks. A successful call
/// holds them all.
#[derive(Clone, Copy)]
pub(crate) struct ErrorRules {
    /// The rule for a bad handle or wrong owner of each argument, with the argument's name.
    pub(crate) handles: &'static [(HandleArgument, RuleId, &'static str)],
    /// The rules for other errors, with their arguments.
    pub(crate) others: &'static [(RuleId, &'static str)],
}

/// The argument, without an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleArgument {
    Adapter,
    /// The device, if its handle is stale; unknown numbers break no rule.
    StaleDevice,
    /// The context, if it was destroyed, with its device or before.
    StaleContext,
    /// A fence that was destroyed with its paging queue.
    StaleFence,
    /// A synchronization object, if its handle is a global one.
    GlobalSync,
    Resource,
    SharedResource,
    Allocation,
    KeyedMutex,
    SharedKeyedMutex,
}

/// Converts the kernel's result to a status and judges the rules of the call.
#[inline]
pub(crate) fn map_error<T>(
    session: &Session,
    error_rules: ErrorRules,
    map_error: Result<T, KernelError>,
) -> Result<T, NTSTATUS> {
    match map_error {
        Ok(value) => {
            if session.log().is_enabled() {
                error_rules.rules().for_each(|(rule, _)| session.log().count_kept(rule));
            }
            Ok(value)
        }
        Err(error) => Err(judge_error(session, error_rules, &error)),
    }
}

/// Judges the rules of a call that failed, and returns its status.
#[cold]
fn judge_error(session: &Session, error_rules: ErrorRules, error: &KernelError) -> NTSTATUS {
    if matches!(error, KernelError::CrossAdapterOpen(_)) {
        session.missing_entry("D3DKMTOpenResource of a cross-adapter resource on another adapter");
    }
    let explained = explain(error);
    explained.note(error);
    let Explained { status, rules, sentence } = explained;
    let broken = error_rules.first(rules).zip(sentence);
    for rule in error_rules.rules() {
        let sentence = match &broken {
            Some((this, sentence)) if *this == rule => Some(sentence.clone()),
            _ => None,
        };
        session.judge(rule.0, rule.1, sentence);
    }
    status
}

/// The status of an error, for calls that judge no rule on it.
pub(crate) fn status(error: &KernelError) -> NTSTATUS {
    explain(error).note(error)
}

impl Explained {
    /// Notes why the call is refused, and returns its status.
    fn note(&self, error: &KernelError) -> NTSTATUS {
        match error {
            // A wait that the caller did not want, or one that is a finding.
            KernelError::InUse(_) | KernelError::Stuck => refusal::reported(),
            _ => {
                let sentence = || self.sentence.clone().unwrap_or_else(|| error.to_string());
                refusal::refused_with(self.status, sentence);
            }
        }
        self.status
    }
}

impl ErrorRules {
    /// The rules that the call judges, with their arguments.
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
    Explained { status, rules: &[], sentence: None }
}

/// An error that breaks a rule.
fn breach(status: NTSTATUS, rules: &'static [Breaks], sentence: String) -> Explained {
    Explained { status, rules, sentence: Some(sentence) }
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
fn explain(error: &KernelError) -> Explained {
    use Breaks::{Handle, Rule};
    match error {
        KernelError::Handle { argument, handle, why } => explain_handle(*argument, handle.0, why),
        KernelError::OtherDevice { argument, handle, owner } => invalid(
            match argument {
                Argument::Resource => &[Handle(HandleArgument::Resource)],
                _ => &[Handle(HandleArgument::Allocation)],
            },
            format!(
                "{} {:#x} belongs to {owner}, not to hDevice",
                argument_name(*argument),
                handle.0
            ),
        ),
        KernelError::MixedList { first, other } => {
            let home = |resource: &Option<flight::Subject>| match resource {
                Some(resource) => resource.to_string(),
                None => "no resource".to_owned(),
            };
            let sentence = format!("the list mixes members of {} and {}", home(first), home(other));
            invalid(&[Rule(RuleId::ALLOC_DESTROY_005)], sentence)
        }
        KernelError::Duplicate(handle) => invalid(
            &[Handle(HandleArgument::Allocation)],
            format!("the list names {:#x} twice", handle.0),
        ),
        KernelError::SharedMember(resource) => invalid(
            &[Rule(RuleId::ALLOC_DESTROY_018)],
            format!(
                "the list names a member of {resource}, which is shared and is destroyed as a whole"
            ),
        ),
        KernelError::SharedResourceSealed(resource) => invalid(
            &[Rule(RuleId::ALLOC_CREATE_005)],
            format!("{resource} is shared, so it takes no more allocations"),
        ),
        KernelError::StandardInResource(resource) => invalid(
            &[Rule(RuleId::ALLOC_CREATE_012)],
            format!(
                "an allocation over existing memory is created into {resource}, but joins none"
            ),
        ),
        KernelError::NoEngine { node, engine, nodes } => invalid(
            &[Rule(RuleId::DEV_LIFE_006)],
            format!(
                "node {node}, engine mask {engine:#x} was requested, but the adapter has {nodes} \
                 nodes with one engine each"
            ),
        ),
        KernelError::NotResident(view) => invalid(
            &[Rule(RuleId::RESID_EVICT_001)],
            format!("{view} is not on the residency list"),
        ),
        KernelError::NotLocked(view) => {
            invalid(&[Rule(RuleId::ALLOC_LOCK_017)], format!("{view} is not locked"))
        }
        KernelError::LockModeConflict(view) => invalid(
            &[Rule(RuleId::ALLOC_LOCK_008)],
            format!("{view} is locked without an aperture, so it cannot acquire one now"),
        ),
        KernelError::AlternateAddressConflict(view) => invalid(
            &[Rule(RuleId::ALLOC_LOCK_007)],
            format!("{view} is shared, or locked already, and another address is part of it"),
        ),
        // WINDOWS: returned by an adapter without a feature (observed for paging queues).
        KernelError::UnsupportedByDriverModel(device) => breach(
            STATUS_NOT_IMPLEMENTED,
            &[Rule(RuleId::PAGQ_LIFE_007)],
            format!("{device} has a WDDM 1.x driver, which has no paging queues"),
        ),
        KernelError::NoVideoMemory | KernelError::NoAddressSpace => plain(STATUS_NOT_IMPLEMENTED),
        // `judge_error` says that it is absent.
        KernelError::CrossAdapterOpen(_) => plain(STATUS_NOT_SUPPORTED),
        KernelError::OnlyApertures(view) => {
            invalid(&[Rule(RuleId::ALLOC_LOCK_009)], format!("{view} can be in apertures only"))
        }
        KernelError::IgnoreSyncNotAllowed(view) => invalid(
            &[Rule(RuleId::ALLOC_LOCK_010)],
            format!(
                "{view} can be in no aperture that shows the CPU and the GPU the same, so a lock \
                 waits"
            ),
        ),
        KernelError::Offered(view) => {
            invalid(&[Rule(RuleId::ALLOC_LOCK_004)], format!("{view} is offered"))
        }
        KernelError::NotOffered(view) => {
            invalid(&[Rule(RuleId::RESID_OFFER_008)], format!("{view} is not offered"))
        }
        KernelError::InstanceSuperseded { handle, view } => invalid(
            &[Rule(RuleId::SUBMIT_RENDER_006)],
            format!(
                "the packet uses instance {:#x} of {view}, but a newer one was used before it",
                handle.0
            ),
        ),
        KernelError::EventNotFound(event) => breach(
            STATUS_INVALID_HANDLE,
            &[Rule(RuleId::SYNC_CREATE_016)],
            format!("event {event} is not an event of the client"),
        ),
        KernelError::NotMonitored(sync) => invalid(
            &[Rule(RuleId::SYNC_FENCE_001)],
            format!("{sync} is not a monitored fence, and the CPU can signal no other type"),
        ),
        KernelError::FenceDecreases { sync, value, current } => invalid(
            &[Rule(RuleId::SYNC_FENCE_002)],
            format!(
                "{sync} has value {current} and would go back to {value} without AllowFenceRewind"
            ),
        ),
        KernelError::FenceTooFar { sync, value, current } => invalid(
            &[Rule(RuleId::SYNC_CREATE_007)],
            format!(
                "{sync} has 32 bits and the value {current}: {value} is further away than \
                 UINT_MAX/2"
            ),
        ),
        KernelError::NoLists(context) => invalid(
            &[Rule(RuleId::SUBMIT_CMD_001)],
            format!("{context} uses virtual addresses, so its packets come by D3DKMTSubmitCommand"),
        ),
        KernelError::HasLists(context) => invalid(
            &[Rule(RuleId::SUBMIT_CMD_001)],
            format!("{context} has lists that are patched, so its packets come by D3DKMTRender"),
        ),
        KernelError::PrivateDataTooLarge { bytes, limit } => invalid(
            &[Rule(RuleId::SUBMIT_CMD_003)],
            format!(
                "the packet has {bytes} bytes of private data, but the driver requested {limit} \
                 when the context was made"
            ),
        ),
        KernelError::AddressesMixed { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_MAP_001)],
            format!(
                "{} is neither free nor taken as a whole, or not all of it can be addressed",
                span(*start, *bytes)
            ),
        ),
        KernelError::AddressesInUse { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_MAP_003)],
            format!(
                "{} has parts that a map call made, and only what is free or reserved can be \
                 emptied",
                span(*start, *bytes)
            ),
        ),
        KernelError::AddressesNotInUse { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_FREE_001), Rule(RuleId::GPUVA_UPDATE_002)],
            format!("{} is not all mapped or reserved", span(*start, *bytes)),
        ),
        KernelError::AddressesFreed { start, bytes } => invalid(
            &[Rule(RuleId::GPUVA_FREE_004)],
            format!(
                "{} was free already: its client freed it, or it went with the allocation that \
                 was mapped there",
                span(*start, *bytes)
            ),
        ),
        KernelError::OtherReservation { start } => invalid(
            &[Rule(RuleId::GPUVA_UPDATE_001)],
            format!("{start:#x} is not in the reservation that the call began with"),
        ),
        KernelError::OutsideAllocation { view, offset, bytes, size } => invalid(
            &[Rule(RuleId::GPUVA_MAP_006)],
            format!(
                "{bytes:#x} bytes from {offset:#x} on are mapped, but {view} has {size:#x} bytes"
            ),
        ),
        KernelError::Removed(object) => plain(match object.kind {
            Kind::View | Kind::ResourceView => STATUS_INVALID_PARAMETER,
            _ => STATUS_DEVICE_REMOVED,
        }),
        KernelError::ResourceDestroyed(_) | KernelError::NtHandleNotFound => {
            plain(STATUS_INVALID_HANDLE)
        }
        KernelError::AccessDenied(_) => plain(STATUS_ACCESS_DENIED),
        // WINDOWS: the page names D3DDDIERR_CANTRENDERLOCKEDALLOCATION, whose number is not
        // published; the nearest published status is returned.
        KernelError::InUse(_) | KernelError::LockedOutsideAperture(_) => {
            plain(STATUS_GRAPHICS_ALLOCATION_BUSY)
        }
        KernelError::HandleTableFull
        | KernelError::NoMemory { .. }
        | KernelError::NoFreeAddresses => plain(STATUS_NO_MEMORY),
        KernelError::Pinned(_) => plain(STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION),
        KernelError::NtObjectType(_) => plain(STATUS_OBJECT_TYPE_MISMATCH),
        KernelError::NtAccessDenied(object) => breach(
            STATUS_ACCESS_DENIED,
            &[Rule(RuleId::NTSHARE_NAME_003)],
            format!("{object} is opened by its name with access 0"),
        ),
        // A client may look for a name that no process has given yet.
        KernelError::NameNotFound => plain(STATUS_OBJECT_NAME_NOT_FOUND),
        // WINDOWS: as for the names of all other objects (our reading).
        KernelError::NameInUse(_) => plain(STATUS_OBJECT_NAME_COLLISION),
        KernelError::NotNtShared(object) => invalid(
            &[Rule(RuleId::ALLOC_SHARE_006)],
            format!("{object} was not created with sharing and NtSecuritySharing"),
        ),
        KernelError::NotABundle { kinds } => invalid(
            &[Rule(RuleId::ALLOC_SHARE_007)],
            format!(
                "hObjects are [{}]: one resource, one synchronization object, or a resource, a \
                 keyed mutex and a synchronization object can be shared",
                kinds.join(", ")
            ),
        ),
        KernelError::Stuck => plain(STATUS_UNSUCCESSFUL),
        KernelError::Driver(why) => plain(status_of_driver(*why)),
        // WINDOWS: observed.
        KernelError::SourceInUse(_) | KernelError::SourceOfDesktop => {
            plain(STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE)
        }
        // WINDOWS: observed.
        KernelError::SourceOwned { device, from, to } => invalid(
            &[Rule(RuleId::VIDPN_OWN_001)],
            format!(
                "{device} owns the display source as {}, and requests it as {}",
                from.name(),
                to.name()
            ),
        ),
        KernelError::NoSource { .. }
        | KernelError::NoSegments(_)
        | KernelError::OtherAdapter(_)
        | KernelError::NothingToCreate
        | KernelError::BadAllocationInfo
        | KernelError::NotCpuVisible(_)
        | KernelError::NotCreator(_)
        | KernelError::WouldEvict(_)
        | KernelError::NotOwner(_)
        | KernelError::BufferTooSmall { .. } => plain(STATUS_INVALID_PARAMETER),
    }
}

/// Explains a handle that does not resolve: the rule depends on the argument and on what is wrong
/// with the handle.
fn explain_handle(argument: Argument, handle: u32, why: &HandleError) -> Explained {
    use Breaks::{Handle, Rule};
    let is_global = handle & FORM == GLOBAL;
    let rules: &'static [Breaks] = match (argument, why) {
        (Argument::Adapter, _) => &[Handle(HandleArgument::Adapter)],
        (Argument::Device, HandleError::Closed(_)) => &[Handle(HandleArgument::StaleDevice)],
        (Argument::Context, HandleError::Closed(_)) => &[Handle(HandleArgument::StaleContext)],
        (Argument::Fence, HandleError::Closed(Some(object)))
            if object.kind == Kind::PagingQueueFence =>
        {
            &[Handle(HandleArgument::StaleFence)]
        }
        (Argument::Sync, _) if is_global => &[Handle(HandleArgument::GlobalSync)],
        (Argument::Shared(_), HandleError::Closed(_)) => &[Rule(RuleId::NTSHARE_LIFE_003)],
        (
            Argument::Device
            | Argument::Context
            | Argument::PagingQueue
            | Argument::Fence
            | Argument::Sync
            | Argument::SharedSync
            | Argument::Shared(_),
            _,
        ) => &[],
        (Argument::Resource, _) => &[Handle(HandleArgument::Resource)],
        (Argument::SharedResource, _) => &[Handle(HandleArgument::SharedResource)],
        (Argument::KeyedMutex, _) => &[Handle(HandleArgument::KeyedMutex)],
        (Argument::SharedKeyedMutex, _) => &[Handle(HandleArgument::SharedKeyedMutex)],
        (Argument::Allocation(_), HandleError::Superseded(_)) => {
            &[Rule(RuleId::ALLOC_LOCK_004), Handle(HandleArgument::Allocation)]
        }
        (Argument::Allocation(_), _) => &[Handle(HandleArgument::Allocation)],
    };
    let why = match why {
        HandleError::Unknown => match argument {
            Argument::KeyedMutex if is_global => {
                "is a global handle: it opens a mutex and cannot be used in its place".to_owned()
            }
            Argument::SharedResource | Argument::SharedKeyedMutex if !is_global => {
                "is not a global handle: the low six bits of a global handle are 2".to_owned()
            }
            Argument::Sync if is_global => {
                "is a global handle: only local handles can be destroyed".to_owned()
            }
            _ => "was never published".to_owned(),
        },
        HandleError::Closed(Some(object)) => {
            format!("is stale: it was a handle of {object} and is closed")
        }
        HandleError::Closed(None) => "is stale: it was closed long ago".to_owned(),
        HandleError::ProcessEnded => "belongs to a process that has ended".to_owned(),
        HandleError::Unpublished => "is not published yet".to_owned(),
        HandleError::Superseded(view) => {
            format!("is retired: a lock with Discard gave {view} a newer instance")
        }
        HandleError::WrongKind(object) => format!("names {object}"),
    };
    invalid(rules, format!("{} {handle:#x} {why}", argument_name(argument)))
}

/// The status of a driver's failure.
fn status_of_driver(why: DriverError) -> NTSTATUS {
    match why {
        DriverError::NoEntryPoint | DriverError::Unsupported | DriverError::Declined => {
            STATUS_NOT_SUPPORTED
        }
        DriverError::Unimplemented => STATUS_NOT_IMPLEMENTED,
        DriverError::Invalid => STATUS_INVALID_PARAMETER,
        DriverError::NoMemory => STATUS_NO_MEMORY,
        DriverError::Mismatch => STATUS_GRAPHICS_DRIVER_MISMATCH,
        DriverError::Busy => STATUS_GRAPHICS_ALLOCATION_BUSY,
        DriverError::NoHandle => STATUS_INVALID_HANDLE,
        DriverError::Privileged => STATUS_PRIVILEGED_INSTRUCTION,
        DriverError::Illegal => STATUS_ILLEGAL_INSTRUCTION,
        DriverError::UserMemory => STATUS_INVALID_USER_BUFFER,
        // Only streaming minidrivers return the last four.
        DriverError::NoRoom
        | DriverError::Crashed
        | DriverError::NotReady
        | DriverError::NoMatch
        | DriverError::Pending
        | DriverError::Deadlock => STATUS_UNSUCCESSFUL,
        DriverError::Other(number) => number.cast_signed(),
    }
}

/// A range of addresses, as text.
fn span(start: u64, bytes: u64) -> String {
    format!("{start:#x} to {:#x}", start.saturating_add(bytes))
}

/// The structure member of an argument.
fn argument_name(argument: Argument) -> String {
    match argument {
        Argument::Adapter => "hAdapter".to_owned(),
        Argument::Device => "hDevice".to_owned(),
        Argument::Context => "hContext".to_owned(),
        Argument::Resource => "hResource".to_owned(),
        Argument::SharedResource => "hGlobalShare".to_owned(),
        Argument::KeyedMutex => "hKeyedMutex".to_owned(),
        Argument::SharedKeyedMutex | Argument::SharedSync => "hSharedHandle".to_owned(),
        Argument::PagingQueue => "hPagingQueue".to_owned(),
        Argument::Fence | Argument::Sync => "hSyncObject".to_owned(),
        Argument::Allocation(place) => format!("phAllocationList[{place}]"),
        Argument::Shared(place) => format!("hObjects[{place}]"),
    }
}
