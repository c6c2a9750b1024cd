//! Creating allocations.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{
    MAX_BYTES, read, read_bytes, read_mut, read_small_list, read_small_list_mut, write,
    write_bytes, write_list,
};
use crate::entry::{ArgumentRule, count_kept, judge_usual_arguments};
use crate::existing_memory;
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_CREATEALLOCATION, D3DKMT_CREATEALLOCATIONFLAGS as Flags,
    D3DKMT_CREATESTANDARDALLOCATION, D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP,
    D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE,
};
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER};
use abi::ukm::{
    D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO2, D3DDDI_ALLOCATIONINFO2_FLAGS as InfoFlags,
    D3DDDI_ID_NOTAPPLICABLE,
};
use flight::{ExistingMemory, Passive, RuleId};
use kernel::miniport::{CallList, PrivateData, collect_few};
use kernel::{
    Argument, CreateAllocationRequest, CreateAllocationResponse, Handle, KernelError, Sharing,
};
use std::ffi::c_void;
use std::mem::offset_of;
use std::slice;
use std::sync::Arc;

const PAGE: usize = 4096;

/// The most allocations in one call.
const MAX_ALLOCATIONS: u32 = 1024;

/// The request, from either version of the structure.
struct CreateArguments {
    args: D3DKMT_CREATEALLOCATION,
    infos: CallList<Info>,
    standard: Option<D3DKMT_CREATESTANDARDALLOCATION>,
}

/// The request of one list element.
#[derive(Clone, Copy)]
struct Info {
    system_memory: *const c_void,
    private: *mut c_void,
    private_size: u32,
    source: u32,
    flags: u32,
}

impl CreateArguments {
    fn has(&self, flag: u32) -> bool {
        self.args.Flags.has(flag)
    }

    fn any(&self, broken: impl Fn(&Info) -> bool, sentence: &str) -> Option<String> {
        let argument = self.infos.iter().position(broken)?;
        Some(format!("pAllocationInfo[{argument}]: {sentence}"))
    }
}

/// Whether these are the arguments of a usual call: allocations without a resource, or with a new
/// one, which may be shared. They break no rule.
fn is_usual(args: &D3DKMT_CREATEALLOCATION, infos: &[Info]) -> bool {
    const NEW: u32 = Flags::CreateResource;
    const SHARED: u32 = NEW | Flags::CreateShared;
    let usual = |info: &Info| info.flags == 0 && info.source == D3DDDI_ID_NOTAPPLICABLE;
    matches!(args.Flags.Value, 0 | NEW | SHARED)
        && args.hDevice != 0
        && args.NumAllocations != 0
        && infos.iter().all(usual)
}

const INVALID: Option<NTSTATUS> = Some(STATUS_INVALID_PARAMETER);

const RULES: &[ArgumentRule<CreateArguments>] = &[
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_023,
        argument: "D3DKMTCreateAllocation.hDevice",
        refuses: INVALID,
        broken: |arguments| (arguments.args.hDevice == 0).then(|| "hDevice is zero".to_owned()),
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_001,
        argument: "D3DKMTCreateAllocation.Flags.CreateShared",
        refuses: INVALID,
        broken: |arguments| {
            (arguments.has(Flags::CreateShared) && !arguments.has(Flags::CreateResource))
                .then(|| "CreateShared is set and CreateResource is not".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_002,
        argument: "D3DKMTCreateAllocation.Flags.NtSecuritySharing",
        refuses: INVALID,
        broken: |arguments| {
            (arguments.has(Flags::NtSecuritySharing) && !arguments.has(Flags::CreateShared))
                .then(|| "NtSecuritySharing is set and CreateShared is not".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_004,
        argument: "D3DKMTCreateAllocation.Flags",
        refuses: INVALID,
        broken: |arguments| {
            let alone = !arguments.has(Flags::CreateResource) && arguments.args.hResource == 0;
            (arguments.has(Flags::CreateShared) && alone)
                .then(|| "allocations are shared, but belong to no resource".to_owned())
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_006,
        argument: "D3DKMTCreateAllocation.NumAllocations",
        refuses: INVALID,
        broken: |arguments| {
            (arguments.args.NumAllocations == 0).then(|| {
                "NumAllocations is zero: the page calls an empty resource valid, Windows \
                 refuses it"
                    .to_owned()
            })
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_016,
        argument: "D3DKMTCreateAllocation.Flags",
        refuses: INVALID,
        broken: |arguments| {
            let bits = arguments.args.Flags.Value & (Flags::RESERVED | Flags::OpenCrossAdapter);
            (bits != 0).then(|| format!("reserved bits {bits:#x} are set"))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_009,
        argument: "D3DKMTCreateAllocation.Flags.StandardAllocation",
        refuses: INVALID,
        broken: |arguments| {
            let (memory, section) =
                (arguments.has(Flags::ExistingSysMem), arguments.has(Flags::ExistingSection));
            let standard = arguments.has(Flags::StandardAllocation);
            ((memory && section) || standard != (memory || section)).then(|| {
                format!(
                    "StandardAllocation is {standard}, ExistingSysMem {memory}, ExistingSection \
                     {section}: a standard allocation has exactly one of the two, others none"
                )
            })
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_010,
        argument: "D3DKMTCreateAllocation.NumAllocations",
        refuses: INVALID,
        broken: |arguments| {
            let count = arguments.args.NumAllocations;
            (arguments.has(Flags::StandardAllocation) && count != 1).then(|| {
                format!("a standard allocation comes alone, but NumAllocations is {count}")
            })
        },
    },
    // WINDOWS: the page requires both flags; Windows succeeds without them (observed), so this is
    // only a note.
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_011,
        argument: "D3DKMTCreateAllocation.Flags.StandardAllocation",
        refuses: None,
        broken: |arguments| {
            let both = arguments.has(Flags::CreateShared) && arguments.has(Flags::CrossAdapter);
            (arguments.has(Flags::StandardAllocation) && !both).then(|| {
                "the page wants CreateShared and CrossAdapter with StandardAllocation".to_owned()
            })
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_022,
        argument: "D3DKMTCreateAllocation.pStandardAllocation.Type",
        refuses: INVALID,
        broken: |arguments| {
            let known = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP
                ..=D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE;
            let kind = arguments.standard.map(|standard| standard.Type)?;
            (!known.contains(&kind))
                .then(|| format!("type {kind} is not a standard allocation type"))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_013,
        argument: "D3DKMTCreateAllocation.pSystemMem",
        refuses: INVALID,
        broken: |arguments| {
            let size = arguments.standard.map_or(0, |standard| standard.ExistingHeapData.Size);
            let is_sized = arguments.standard.is_some();
            let bad_size = is_sized && (size == 0 || size % PAGE != 0);
            if arguments.has(Flags::ExistingSection) {
                return bad_size.then(|| format!("{size:#x} bytes of a section are not pages"));
            }
            if !arguments.has(Flags::ExistingSysMem) {
                return None;
            }
            let start = arguments.infos.first()?.system_memory.addr();
            (start == 0 || start % PAGE != 0 || bad_size)
                .then(|| format!("{size:#x} bytes at {start:#x} are not whole pages"))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_018,
        argument: "D3DKMTCreateAllocation.VidPnSourceId",
        refuses: None,
        broken: |arguments| {
            let stray = |info: &Info| {
                info.flags & InfoFlags::Primary == 0 && info.source != D3DDDI_ID_NOTAPPLICABLE
            };
            arguments.any(stray, "VidPnSourceId is set, but it is no primary")
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_CREATE_019,
        argument: "D3DKMTCreateAllocation.Flags.Stereo",
        refuses: INVALID,
        broken: |arguments| {
            let stereo = |info: &Info| info.flags & InfoFlags::Stereo != 0;
            let odd = |info: &Info| stereo(info) && info.flags & InfoFlags::Primary == 0;
            arguments.any(odd, "Stereo is set and Primary is not")
        },
    },
];

const ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTCreateAllocation.hDevice"),
        (HandleArgument::Resource, RuleId::ALLOC_CREATE_003, "D3DKMTCreateAllocation.hResource"),
    ],
    others: &[
        (RuleId::ALLOC_CREATE_005, "D3DKMTCreateAllocation.hResource"),
        (RuleId::ALLOC_CREATE_012, "D3DKMTCreateAllocation.hResource"),
    ],
};

/// Flags that have no effect yet; their use is logged.
const WITHOUT_EFFECT: &[(u32, &str)] = &[
    (Flags::CreateProtected, "D3DKMTCreateAllocation.Flags.CreateProtected"),
    (Flags::RestrictSharedAccess, "D3DKMTCreateAllocation.Flags.RestrictSharedAccess"),
    (Flags::ReadOnly, "D3DKMTCreateAllocation.Flags.ReadOnly"),
    (Flags::PartialSharedCreation, "D3DKMTCreateAllocation.Flags.PartialSharedCreation"),
    (Flags::WriteWatch, "D3DKMTCreateAllocation.Flags.WriteWatch"),
    (Flags::PhysicallyContiguous, "D3DKMTCreateAllocation.Flags.PhysicallyContiguous"),
    (Flags::SharedDisplayable, "D3DKMTCreateAllocation.Flags.SharedDisplayable"),
];

/// Creates allocations.
pub(crate) unsafe fn create_allocation(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATEALLOCATION,
) -> Result<(), NTSTATUS> {
    let list = |args: &D3DKMT_CREATEALLOCATION| args.pAllocationInfo;
    // SAFETY: The caller's contract.
    unsafe { create(session, at, args, list) }
}

/// Creates allocations.
pub(crate) unsafe fn create_allocation2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATEALLOCATION,
) -> Result<(), NTSTATUS> {
    let list = D3DKMT_CREATEALLOCATION::allocation_info2;
    // SAFETY: The caller's contract.
    unsafe { create(session, at, args, list) }
}

/// Both versions: in, call, out. `list` is the address of the elements.
///
/// # Safety
///
/// `args` and the pointers in it are NULL or valid for reads and writes, unless the session is
/// guarded. They never point to memory of this library.
unsafe fn create<E: Element>(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATEALLOCATION,
    list: impl Fn(&D3DKMT_CREATEALLOCATION) -> *mut E,
) -> Result<(), NTSTATUS> {
    if args.is_null() {
        // WINDOWS: the caller faults (observed).
        let sentence = "there is no argument structure: the call faults on Windows".to_owned();
        session.judge(RuleId::ALLOC_CREATE_023, "D3DKMTCreateAllocation.hDevice", Some(sentence));
        return Err(STATUS_INVALID_PARAMETER);
    }
    // SAFETY: The caller's contract.
    let arguments = unsafe { read_mut(args) }?;
    let list = list(&arguments);
    if arguments.NumAllocations == 1 && is_plain(&arguments) {
        // SAFETY: The caller's contract.
        let info = unsafe { read_mut(list) }.of_member("pAllocationInfo")?.info();
        if is_usual(&arguments, slice::from_ref(&info)) {
            // SAFETY: The caller's contract.
            return unsafe { create_one(session, at, args, &arguments, (list, info)) };
        }
    }
    // SAFETY: The caller's contract.
    let mut elements =
        unsafe { read_small_list_mut::<_, 1>(list, check_count(session, &arguments)?) }
            .of_member("pAllocationInfo")?;
    let infos = collect_few(elements.iter().map(E::info));
    // SAFETY: The caller's contract.
    let made = unsafe { create_objects(session, at, arguments, infos) }?;
    for (element, handle) in elements.iter_mut().zip(&made.allocations) {
        element.name(*handle);
        if let Some(priority) = element.priority() {
            let device = Handle(arguments.hDevice);
            // An adapter without memory has no use for priorities.
            let _ = session.kernel.set_priorities(session.process, device, &[*handle], &[priority]);
        }
    }
    // SAFETY: The caller's contract.
    unsafe { write_list(list, &elements) }.of_member("pAllocationInfo")?;
    // SAFETY: The caller's contract.
    unsafe { write(args, fill_output(arguments, made.resource, made.global)) }
}

/// Whether allocations are created without a resource, flags, or data for the whole call.
fn is_plain(args: &D3DKMT_CREATEALLOCATION) -> bool {
    args.Flags.Value == 0
        && args.hResource == 0
        && args.PrivateRuntimeDataSize == 0
        && args.PrivateDriverDataSize == 0
}

/// Creates one allocation whose arguments are usual, without lists.
///
/// # Safety
///
/// As for [`create`].
unsafe fn create_one<E: Element>(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATEALLOCATION,
    arguments: &D3DKMT_CREATEALLOCATION,
    (list, info): (*mut E, Info),
) -> Result<(), NTSTATUS> {
    count_kept(session, RULES, || {
        let infos = CallList::from_buf([info]);
        let arguments = CreateArguments { args: *arguments, infos, standard: None };
        RULES.iter().all(|rule| (rule.broken)(&arguments).is_none())
    });
    let (data, size) = (info.private.cast::<u8>(), info.private_size as usize);
    // SAFETY: The caller's contract.
    let mut private: PrivateData =
        unsafe { read_small_list_mut(data, size) }.of_member("pPrivateDriverData")?;
    let device = Handle(arguments.hDevice);
    let made = session.kernel.create_allocation(at, session.process, device, &mut private);
    let handle = map_error(session, ERROR_RULES, made)?;
    if size > 0 {
        // SAFETY: The caller's contract: as many bytes as were read.
        unsafe { write_bytes(info.private, &private) }.of_member("pPrivateDriverData")?;
    }
    // Only the members that change: to write a member and then to copy the structure around it
    // makes the processor wait.
    let allocation = list.wrapping_byte_add(E::HANDLE).cast::<u32>();
    // SAFETY: The caller's contract.
    unsafe { write(allocation, handle.0) }?;
    let global = offset_of!(D3DKMT_CREATEALLOCATION, hGlobalShare);
    // SAFETY: The caller's contract. Nothing is shared, as in `fill_output`.
    unsafe { write(args.wrapping_byte_add(global).cast::<u32>(), 0) }
}

/// An element of the list, of either version.
trait Element: Copy {
    /// The offset of the handle.
    const HANDLE: usize;
    /// The request.
    fn info(&self) -> Info;
    /// Writes the results.
    fn name(&mut self, handle: Handle);
    /// The eviction priority, if it is not the driver's (`OverridePriority`).
    fn priority(&self) -> Option<u32>;
}

macro_rules! element {
    ($($type:ty: $priority:expr),* $(,)?) => {$(
        impl Element for $type {
            const HANDLE: usize = offset_of!($type, hAllocation);
            fn info(&self) -> Info {
                Info {
                    system_memory: self.pSystemMem,
                    private: self.pPrivateDriverData,
                    private_size: self.PrivateDriverDataSize,
                    source: self.VidPnSourceId,
                    flags: self.Flags.Value,
                }
            }
            fn name(&mut self, handle: Handle) {
                self.hAllocation = handle.0;
            }
            fn priority(&self) -> Option<u32> {
                $priority(self)
            }
        }
    )*};
}

element! {
    D3DDDI_ALLOCATIONINFO: |_| None,
    D3DDDI_ALLOCATIONINFO2: |info: &D3DDDI_ALLOCATIONINFO2| {
        info.Flags.has(InfoFlags::OverridePriority).then(|| info.priority())
    },
}

/// The number of elements, if it is plausible.
fn check_count(session: &Session, arguments: &D3DKMT_CREATEALLOCATION) -> Result<usize, NTSTATUS> {
    if arguments.NumAllocations > MAX_ALLOCATIONS {
        session.missing_entry("D3DKMTCreateAllocation of more than 1024 allocations in one call");
        return Err(STATUS_INVALID_PARAMETER);
    }
    Ok(arguments.NumAllocations as usize)
}

/// Checks that the private data of all allocations together is no longer than that of one may be: the
/// call has a copy of all of it.
///
/// WINDOWS: our decision.
fn check_private_data(session: &Session, arguments: &CreateArguments) -> Result<(), NTSTATUS> {
    let sizes = arguments.infos.iter().map(|info| info.private_size as usize);
    if sizes.sum::<usize>() > MAX_BYTES {
        session.missing_entry(
            "D3DKMTCreateAllocation of more than 16 MiB of private data in one call",
        );
        return Err(STATUS_INVALID_PARAMETER);
    }
    Ok(())
}

/// Checks the arguments, calls the kernel, and returns private data.
///
/// # Safety
///
/// The pointers of `args` and `infos` are valid, unless the session is guarded.
unsafe fn create_objects(
    session: &Session,
    at: &mut Passive,
    args: D3DKMT_CREATEALLOCATION,
    infos: CallList<Info>,
) -> Result<CreateAllocationResponse, NTSTATUS> {
    let standard = args.Flags.has(Flags::StandardAllocation);
    // SAFETY: The caller's contract: with the flag the union holds this pointer.
    let standard = standard.then(|| unsafe { read(args.standard_allocation().cast_const()) });
    let arguments = CreateArguments { args, infos, standard: standard.transpose()? };
    let usual = is_usual(&arguments.args, &arguments.infos);
    judge_usual_arguments(session, RULES, &arguments, usual)?;
    // WINDOWS: a standard allocation has no private data of its resource (observed); the union
    // holds its description instead.
    if arguments.standard.is_some() && args.PrivateDriverDataSize != 0 {
        return Err(invalid("PrivateDriverDataSize is not 0 beside StandardAllocation"));
    }
    if args.Flags.Value != 0 {
        // Existing memory that is read only need not be writable.
        let has_effect = |flag| flag == Flags::ReadOnly && arguments.standard.is_some();
        for (flag, name) in WITHOUT_EFFECT {
            if arguments.has(*flag) && !has_effect(*flag) {
                session.missing_entry(name);
            }
        }
    }
    check_private_data(session, &arguments)?;
    // SAFETY: The caller's contract.
    let mut request = unsafe { create_request(&arguments) }?;
    request.existing = find_existing(session, &arguments)?;
    let made = session.kernel.create_allocations(at, session.process, request);
    let lost_resource = made.as_ref().err().is_some_and(|why| {
        matches!(
            why,
            KernelError::Handle { argument: Argument::Resource, .. }
                | KernelError::OtherDevice { .. }
        )
    });
    // WINDOWS: an hResource that does not resolve is an invalid handle here (observed).
    let made = map_error(session, ERROR_RULES, made)
        .map_err(|status| if lost_resource { STATUS_INVALID_HANDLE } else { status })?;
    if arguments.standard.is_none() {
        for (info, bytes) in arguments.infos.iter().zip(&made.privates) {
            if info.private_size > 0 {
                // SAFETY: The caller's contract: as many bytes as were read.
                unsafe { write_bytes(info.private, bytes) }.of_member("pPrivateDriverData")?;
            }
        }
    }
    Ok(made)
}

/// Builds the kernel's request.
///
/// # Safety
///
/// The pointers of `arguments` are valid, unless the session is guarded.
unsafe fn create_request(arguments: &CreateArguments) -> Result<CreateAllocationRequest, NTSTATUS> {
    let args = &arguments.args;
    let mut allocations = CallList::with_capacity(arguments.infos.len());
    for info in &arguments.infos {
        let (private, size) = (info.private.cast::<u8>(), info.private_size as usize);
        // Private data of a standard allocation is not returned.
        let bytes: Result<PrivateData, NTSTATUS> = match arguments.standard {
            // SAFETY: The caller's contract.
            Some(_) => unsafe { read_small_list(private.cast_const(), size) }
                .of_member("pPrivateDriverData"),
            // SAFETY: The caller's contract.
            None => unsafe { read_small_list_mut(private, size) }.of_member("pPrivateDriverData"),
        };
        allocations.push(bytes?);
    }
    let private = match arguments.standard {
        // The union holds the description instead.
        Some(_) => Vec::new(),
        // SAFETY: The caller's contract.
        None => unsafe { read_bytes(args.pPrivateDriverData, args.PrivateDriverDataSize) }
            .of_member("pPrivateDriverData")?,
    };
    // SAFETY: The caller's contract.
    let runtime = unsafe { read_bytes(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize) }
        .of_member("pPrivateRuntimeData")?;
    let sharing =
        match (arguments.has(Flags::CreateShared), arguments.has(Flags::NtSecuritySharing)) {
            (false, _) => Sharing::None,
            (true, false) => Sharing::Global,
            (true, true) => Sharing::Nt,
        };
    let primary = |info: &(usize, &Info)| info.1.flags & InfoFlags::Primary != 0;
    let primaries = arguments.infos.iter().enumerate().filter(primary).map(|info| info.0).collect();
    Ok(CreateAllocationRequest {
        device: Handle(args.hDevice),
        resource: (args.hResource != 0).then_some(Handle(args.hResource)),
        new_resource: arguments.has(Flags::CreateResource),
        sharing,
        runtime,
        private,
        allocations,
        primaries,
        standard: arguments.standard.map(|standard| standard.ExistingHeapData.Size as u64),
        existing: None,
        cross_adapter: arguments.has(Flags::CrossAdapter),
    })
}

/// The caller's memory that a standard allocation uses.
fn find_existing(
    session: &Session,
    arguments: &CreateArguments,
) -> Result<Option<Arc<dyn ExistingMemory>>, NTSTATUS> {
    let (Some(standard), Some(info)) = (arguments.standard, arguments.infos.first()) else {
        return Ok(None);
    };
    let bytes = standard.ExistingHeapData.Size;
    let read_only = arguments.has(Flags::ReadOnly);
    let address = info.system_memory.addr();
    // The address is a union with `hSection`.
    if arguments.has(Flags::ExistingSection) {
        return existing_memory::of_section(session, address, bytes, read_only).map(Some);
    }
    existing_memory::at_address(session, address, bytes, read_only).map(Some)
}

/// The structure with the results. Sizes stay unchanged.
fn fill_output(
    mut args: D3DKMT_CREATEALLOCATION,
    resource: Option<Handle>,
    global: Option<Handle>,
) -> D3DKMT_CREATEALLOCATION {
    if let Some(resource) = resource {
        args.hResource = resource.0;
    }
    // WINDOWS: zero if nothing is shared, and if it is shared for NT handles only (observed).
    args.hGlobalShare = global.map_or(0, |handle| handle.0);
    args
}
