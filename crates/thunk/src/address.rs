//! GPU virtual addresses: map, reserve, free, update.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read, read_list, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_FREEGPUVIRTUALADDRESS, D3DKMT_UPDATEGPUVIRTUALADDRESS,
    D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS as UpdateFlags,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_PENDING};
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS, D3DDDI_RESERVEGPUVIRTUALADDRESS,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY, D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT, D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP, D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT, D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO,
};
use flight::{Passive, RuleId};
use kernel::{
    Access, AddressUpdate, Handle, MapAddressRequest, MapSource, ReserveAddressRequest, Residency,
    UpdateAddressRequest,
};

const PAGE: u64 = 4096;
const LARGE: u64 = 64 << 10;

/// The sentence for the first number that is not a multiple of the page size.
fn misaligned(numbers: &[(&str, u64)], of: u64) -> Option<String> {
    let found = numbers.iter().find(|number| !number.1.is_multiple_of(of));
    found.map(|(name, it)| format!("{name} is {it:#x}, which is not a multiple of {of:#x}"))
}

const MAP_RULES: &[ArgumentRule<D3DDDI_MAPGPUVIRTUALADDRESS>] = &[
    ArgumentRule {
        id: RuleId::GPUVA_MAP_001,
        argument: "D3DKMTMapGpuVirtualAddress.BaseAddress",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| misaligned(&[("BaseAddress", args.BaseAddress)], PAGE),
    },
    ArgumentRule {
        id: RuleId::GPUVA_MAP_002,
        argument: "D3DKMTMapGpuVirtualAddress.hAllocation",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let empty = args.Protection.has(Protection::Zero | Protection::NoAccess);
            (empty && args.hAllocation != 0).then(|| {
                format!(
                    "hAllocation is {:#x}, but nothing is to be behind Zero or NoAccess",
                    args.hAllocation
                )
            })
        },
    },
    ArgumentRule {
        id: RuleId::GPUVA_MAP_004,
        argument: "D3DKMTMapGpuVirtualAddress.MinimumAddress",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let bounds =
                [("MinimumAddress", args.MinimumAddress), ("MaximumAddress", args.MaximumAddress)];
            // WINDOWS: with a base they are ignored (documented).
            if args.BaseAddress == 0 { misaligned(&bounds, PAGE) } else { None }
        },
    },
    ArgumentRule {
        id: RuleId::GPUVA_MAP_008,
        argument: "D3DKMTMapGpuVirtualAddress.Protection",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let bits = args.Protection.Value & (Protection::RESERVED | Protection::SystemUseOnly);
            if bits != 0 {
                Some(format!("Protection has reserved bits {bits:#x} set"))
            } else if args.Reserved0 != 0 || args.Reserved1 != 0 {
                Some("a reserved member is not zero".to_owned())
            } else {
                None
            }
        },
    },
];

const MAP_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[],
    others: &[
        (RuleId::GPUVA_MAP_001, "D3DKMTMapGpuVirtualAddress.BaseAddress"),
        (RuleId::GPUVA_MAP_003, "D3DKMTMapGpuVirtualAddress.Protection"),
        (RuleId::GPUVA_MAP_006, "D3DKMTMapGpuVirtualAddress.OffsetInPages"),
    ],
};

const RESERVE_RULES: &[ArgumentRule<D3DDDI_RESERVEGPUVIRTUALADDRESS>] = &[ArgumentRule {
    id: RuleId::GPUVA_RESERVE_001,
    argument: "D3DKMTReserveGpuVirtualAddress",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| {
        let all = [
            ("BaseAddress", args.BaseAddress),
            ("MinimumAddress", args.MinimumAddress),
            ("MaximumAddress", args.MaximumAddress),
            ("Size", args.Size),
        ];
        misaligned(&all, LARGE)
    },
}];

const FREE_RULES: &[ArgumentRule<D3DKMT_FREEGPUVIRTUALADDRESS>] = &[ArgumentRule {
    id: RuleId::GPUVA_FREE_001,
    argument: "D3DKMTFreeGpuVirtualAddress.BaseAddress",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| misaligned(&[("BaseAddress", args.BaseAddress), ("Size", args.Size)], PAGE),
}];

const FREE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTFreeGpuVirtualAddress.hAdapter",
    )],
    others: &[
        (RuleId::GPUVA_FREE_001, "D3DKMTFreeGpuVirtualAddress.BaseAddress"),
        (RuleId::GPUVA_FREE_004, "D3DKMTFreeGpuVirtualAddress.BaseAddress"),
    ],
};

const UPDATE_RULES: &[ArgumentRule<Vec<AddressUpdate>>] = &[
    ArgumentRule {
        id: RuleId::GPUVA_UPDATE_002,
        argument: "D3DKMTUpdateGpuVirtualAddress.Operations",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |changes| {
            changes.iter().enumerate().find_map(|(argument, change)| {
                let message = match *change {
                    AddressUpdate::Map { base, bytes, offset, piece, .. } => misaligned(
                        &[
                            ("BaseAddress", base),
                            ("SizeInBytes", bytes),
                            ("AllocationOffsetInBytes", offset),
                            ("AllocationSizeInBytes", piece),
                        ],
                        PAGE,
                    ),
                    AddressUpdate::Unmap { base, bytes, .. } => {
                        misaligned(&[("BaseAddress", base), ("SizeInBytes", bytes)], PAGE)
                    }
                    AddressUpdate::Copy { from, to, bytes } => misaligned(
                        &[("SourceAddress", from), ("DestAddress", to), ("SizeInBytes", bytes)],
                        PAGE,
                    ),
                };
                message.map(|sentence| format!("operation {argument}: {sentence}"))
            })
        },
    },
    ArgumentRule {
        id: RuleId::GPUVA_UPDATE_003,
        argument: "D3DKMTUpdateGpuVirtualAddress.AllocationSizeInBytes",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |changes| {
            changes.iter().enumerate().find_map(|(argument, change)| match *change {
                // WINDOWS: one as long as the addresses is harmless (our decision).
                AddressUpdate::Map { bytes, piece, .. }
                    if piece != 0 && (piece > bytes || !bytes.is_multiple_of(piece)) =>
                {
                    Some(format!(
                        "operation {argument}: {piece:#x} bytes of the allocation do not repeat \
                         evenly in {bytes:#x} bytes of addresses"
                    ))
                }
                _ => None,
            })
        },
    },
];

const UPDATE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTUpdateGpuVirtualAddress.hDevice",
    )],
    others: &[
        (RuleId::GPUVA_UPDATE_001, "D3DKMTUpdateGpuVirtualAddress.Operations"),
        (RuleId::GPUVA_UPDATE_002, "D3DKMTUpdateGpuVirtualAddress.Operations"),
    ],
};

/// The access that a mapping allows.
fn access(protection: Protection, driver: u64) -> Access {
    Access {
        write: protection.has(Protection::Write),
        execute: protection.has(Protection::Execute),
        driver,
    }
}

/// Maps an allocation at addresses that the client or the kernel chooses.
pub(crate) unsafe fn map_gpu_virtual_address(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DDDI_MAPGPUVIRTUALADDRESS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, MAP_RULES, &arguments)?;
    let whole = |pages: u64| {
        let bytes = pages.checked_mul(PAGE);
        bytes.ok_or_else(|| invalid("OffsetInPages or SizeInPages is beyond 64 bits of bytes"))
    };
    let (offset, bytes) = (whole(arguments.OffsetInPages)?, whole(arguments.SizeInPages)?);
    if bytes == 0 {
        return Err(invalid("SizeInPages is 0"));
    }
    let behind = if arguments.Protection.has(Protection::Zero) {
        MapSource::Zero
    } else if arguments.Protection.has(Protection::NoAccess) {
        MapSource::NoAccess
    } else {
        let access = access(arguments.Protection, arguments.DriverProtection);
        MapSource::Allocation { view: Handle(arguments.hAllocation), offset, access }
    };
    let request = MapAddressRequest {
        queue: Handle(arguments.hPagingQueue),
        base: arguments.BaseAddress,
        minimum: arguments.MinimumAddress,
        maximum: arguments.MaximumAddress,
        bytes,
        source: behind,
    };
    let mapped = session.kernel.map_addresses(at, session.process, &request);
    let mapped = map_error(session, MAP_ERROR_RULES, mapped)?;
    (arguments.VirtualAddress, arguments.PagingFenceValue) =
        (mapped.address, mapped.residency.value());
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    residency_status(mapped.residency)
}

/// Reserves addresses for later mappings.
pub(crate) unsafe fn reserve_gpu_virtual_address(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DDDI_RESERVEGPUVIRTUALADDRESS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    judge_arguments(session, RESERVE_RULES, &arguments)?;
    let known =
        (0..=D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT).contains(&arguments.ReservationType);
    if arguments.Size == 0 || !known {
        return Err(invalid("Size is 0, or ReservationType is unknown"));
    }
    let request = ReserveAddressRequest {
        queue: Handle(arguments.hPagingQueue),
        base: arguments.BaseAddress,
        minimum: arguments.MinimumAddress,
        maximum: arguments.MaximumAddress,
        bytes: arguments.Size,
        zero: arguments.ReservationType == D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO,
    };
    let error_rules = ErrorRules { handles: &[], others: &[] };
    let mapped = session.kernel.reserve_addresses(at, session.process, &request);
    let mapped = map_error(session, error_rules, mapped)?;
    (arguments.VirtualAddress, arguments.PagingFenceValue) =
        (mapped.address, mapped.residency.value());
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    residency_status(mapped.residency)
}

/// Returns `STATUS_PENDING` (a success) if the paging work is not complete.
fn residency_status(when: Residency) -> Result<(), NTSTATUS> {
    match when {
        Residency::Resident => Ok(()),
        Residency::Pending(_) => Err(STATUS_PENDING),
    }
}

/// Frees whole address ranges or parts of them.
pub(crate) unsafe fn free_gpu_virtual_address(
    session: &Session,
    _at: &mut Passive,
    args: *const D3DKMT_FREEGPUVIRTUALADDRESS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    judge_arguments(session, FREE_RULES, &arguments)?;
    let (adapter, base, bytes) =
        (Handle(arguments.hAdapter), arguments.BaseAddress, arguments.Size);
    let freed = session.kernel.free_addresses(session.process, adapter, base, bytes);
    map_error(session, FREE_ERROR_RULES, freed)
}

/// Updates the mappings of reserved addresses, operation by operation.
pub(crate) unsafe fn update_gpu_virtual_address(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_UPDATEGPUVIRTUALADDRESS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let flags = arguments.Flags;
    if flags.has(UpdateFlags::RESERVED) || arguments.Reserved0 != 0 || arguments.Reserved1 != 0 {
        return Err(invalid("reserved bits of Flags, Reserved0 or Reserved1 are set"));
    }
    // SAFETY: The caller's contract.
    let list = unsafe { read_list(arguments.Operations, arguments.NumOperations as usize) }
        .of_member("Operations")?;
    let operations: Option<Vec<AddressUpdate>> = list.iter().map(read_operation).collect();
    let operations = operations.ok_or_else(|| invalid("an OperationType is unknown"))?;
    judge_arguments(session, UPDATE_RULES, &operations)?;
    let waits = !flags.has(UpdateFlags::DoNotWait);
    let fence = waits.then_some((Handle(arguments.hFenceObject), arguments.FenceValue));
    let request = UpdateAddressRequest { device: Handle(arguments.hDevice), operations, fence };
    let updated = session.kernel.update_addresses(at, session.process, &request);
    map_error(session, UPDATE_ERROR_RULES, updated)
}

/// Converts an operation of the caller's list.
fn read_operation(it: &D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION) -> Option<AddressUpdate> {
    let [first, bytes, third, offset, piece, protection, driver] = it.Data;
    // WINDOWS: a plain map may be read, written and executed (our reading: it says nothing).
    let plain = Protection { Value: Protection::Write | Protection::Execute };
    let map = |protection, driver| {
        // A handle of four bytes and four bytes of padding.
        let view = Handle(u32::try_from(third & u64::from(u32::MAX)).unwrap_or_default());
        let access = access(protection, driver);
        AddressUpdate::Map { base: first, bytes, view, offset, piece, access }
    };
    Some(match it.OperationType {
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP => map(plain, 0),
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT => map(Protection { Value: protection }, driver),
        D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP => {
            let zero = Protection { Value: third }.has(Protection::Zero);
            AddressUpdate::Unmap { base: first, bytes, zero }
        }
        D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY => {
            AddressUpdate::Copy { from: first, to: third, bytes }
        }
        _ => return None,
    })
}
