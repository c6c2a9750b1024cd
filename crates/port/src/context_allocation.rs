//! Memory that a driver allocates for its contexts: `DxgkCb*ContextAllocation`.
//!
//! The door checks levels, pointers and `hAdapter`; the kernel judges the other handles and
//! numbers.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{read, read_versioned, write};
use crate::door::Door;
use crate::interface::row;
use crate::placement;
use crate::private_data::MAX_SIZE;
use crate::query::judge;
use crate::status::status_from_result;
use crate::system_handle::HandleKind;
use crate::version::CREATE_CONTEXT_ALLOCATION;
use abi::display::{
    DXGK_CREATECONTEXTALLOCATIONFLAGS as CreateFlags, DXGKARGCB_CREATECONTEXTALLOCATION,
    DXGKARGCB_MAPCONTEXTALLOCATION, DXGKARGCB_UPDATECONTEXTALLOCATION,
};
use abi::{HANDLE, NTSTATUS};
use flight::RuleId;
use kernel::miniport::{DriverError, DriverResult};
use kernel::operation::CreateContextAllocationArgs;
use std::mem::offset_of;
use std::slice;
use std::sync::Arc;

/// A bad argument or level is an invalid parameter (D-55).
const BAD_ARGUMENT: DriverError = DriverError::Invalid;

/// Creates an allocation for a context, or for a whole device.
///
/// # Safety
///
/// `args` is null or points to a writable structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbCreateContextAllocation(
    args: *mut DXGKARGCB_CREATECONTEXTALLOCATION,
) -> NTSTATUS {
    let zero = DXGKARGCB_CREATECONTEXTALLOCATION::ZERO;
    // SAFETY: The caller guarantees the same.
    let given = unsafe { read_versioned(args, &CREATE_CONTEXT_ALLOCATION, zero) };
    let door = || match given {
        Some(it) => adapter_door(
            it.hAdapter,
            RuleId::CB_CTXALLOC_003,
            row::DxgkCbCreateContextAllocation.name,
        ),
        None => Door::running(),
    };
    let made = row::DxgkCbCreateContextAllocation.answer(door, Err(BAD_ARGUMENT), |door, at| {
        let Some(args) = given else { return Err(BAD_ARGUMENT) };
        let number = |member: &'static str, handle: HANDLE, kind: HandleKind| {
            let place = (row::DxgkCbCreateContextAllocation.name, member);
            door.handle_number(place, handle, kind, RuleId::CB_CTXALLOC_003)
        };
        let device = number("hDevice", args.hDevice, HandleKind::Device)?;
        let context = number("hContext", args.hContext, HandleKind::Context)?;
        let args = context_allocation_args(&args, device, context);
        door.services().create_context_allocation(at, &args)
    });
    if let (Ok(name), false) = (made, args.is_null()) {
        // The member only: the driver's structure may be shorter than this one.
        let member = offset_of!(DXGKARGCB_CREATECONTEXTALLOCATION, hAllocation);
        let to = args.wrapping_byte_add(member).cast::<HANDLE>();
        // SAFETY: The caller guarantees a writable structure, and every version of it has the
        // member.
        unsafe { write(to, HandleKind::ContextAllocation.handle(name)) };
    }
    status_from_result(made.map(|_| ()))
}

/// Destroys a context allocation.
pub(crate) extern "win64-unwind" fn DxgkCbDestroyContextAllocation(
    adapter: HANDLE,
    allocation: HANDLE,
) -> NTSTATUS {
    let door =
        || adapter_door(adapter, RuleId::CB_CTXALLOC_010, row::DxgkCbDestroyContextAllocation.name);
    status_from_result(row::DxgkCbDestroyContextAllocation.answer(
        door,
        Err(BAD_ARGUMENT),
        |door, at| {
            let name = row::DxgkCbDestroyContextAllocation.name;
            let number = context_allocation_number(door, name, allocation)?;
            door.services().destroy_context_allocation(at, number)
        },
    ))
}

/// Updates a context allocation, and waits for the update.
///
/// # Safety
///
/// `args` is null or points to a structure whose private data has the given size.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbUpdateContextAllocation(
    adapter: HANDLE,
    args: *const DXGKARGCB_UPDATECONTEXTALLOCATION,
) -> NTSTATUS {
    // SAFETY: The caller guarantees the same.
    let args = unsafe { read(args) };
    let door =
        || adapter_door(adapter, RuleId::CB_CTXALLOC_010, row::DxgkCbUpdateContextAllocation.name);
    status_from_result(row::DxgkCbUpdateContextAllocation.answer(
        door,
        Err(BAD_ARGUMENT),
        |door, at| {
            let Some(args) = args else { return Err(BAD_ARGUMENT) };
            // SAFETY: The caller guarantees the same.
            let private =
                unsafe { copy_bytes(args.pPrivateDriverData.cast(), args.PrivateDriverDataSize) };
            let name = row::DxgkCbUpdateContextAllocation.name;
            let number = context_allocation_number(door, name, args.hAllocation)?;
            private.and_then(|bytes| door.services().update_context_allocation(at, number, &bytes))
        },
    ))
}

/// Returns the GPU virtual address of a context allocation; zero if it has none.
///
/// # Safety
///
/// `args` is null or points to a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbMapContextAllocation(
    adapter: HANDLE,
    args: *const DXGKARGCB_MAPCONTEXTALLOCATION,
) -> u64 {
    // SAFETY: The caller guarantees the same.
    let args = unsafe { read(args) };
    let door =
        || adapter_door(adapter, RuleId::CB_CTXALLOC_010, row::DxgkCbMapContextAllocation.name);
    row::DxgkCbMapContextAllocation.answer(door, 0, |door, at| {
        let Some(args) = args else { return 0 };
        let name = row::DxgkCbMapContextAllocation.name;
        let Ok(number) = context_allocation_number(door, name, args.hAllocation) else { return 0 };
        let (first, pages) = (args.OffsetInPages, args.SizeInPages);
        door.services().map_context_allocation(at, number, first, pages).unwrap_or(0)
    })
}

/// The number of a context allocation that a callback gets from the driver.
fn context_allocation_number(
    door: &Door,
    callback: &'static str,
    handle: HANDLE,
) -> DriverResult<usize> {
    let (kind, rule) = (HandleKind::ContextAllocation, RuleId::CB_CTXALLOC_009);
    door.handle_number((callback, "hAllocation"), handle, kind, rule)
}

/// The door of `hAdapter`: the `DeviceHandle` that the driver got in `DxgkDdiStartDevice`.
fn adapter_door(handle: HANDLE, rule: RuleId, name: &'static str) -> Option<Arc<Door>> {
    let found = Door::find(handle);
    let door = found.clone().or_else(Door::running)?;
    let broken = found.is_none().then(|| {
        let passed = door.describe(handle);
        format!("hAdapter of {name} is {passed}, not the DeviceHandle of DXGKRNL_INTERFACE")
    });
    judge(door.services(), rule, name, broken);
    found
}

fn context_allocation_args(
    args: &DXGKARGCB_CREATECONTEXTALLOCATION,
    device: usize,
    context: usize,
) -> CreateContextAllocationArgs {
    CreateContextAllocationArgs {
        device,
        context,
        shared: args.ContextAllocationFlags.has(CreateFlags::SharedAcrossContexts),
        size: args.Size as u64,
        alignment: args.Alignment.into(),
        requirements: placement::context_allocation_requirements(args),
        driver_handle: args.hDriverAllocation.expose_provenance(),
    }
}

/// Copies `size` bytes of the driver.
///
/// # Safety
///
/// `from` is null or valid for reads of `size` bytes.
unsafe fn copy_bytes(from: *const u8, size: u32) -> DriverResult<Vec<u8>> {
    match (from.is_null(), size) {
        (_, 0) => Ok(Vec::new()),
        (true, _) => Err(BAD_ARGUMENT),
        (false, MAX_SIZE..) => Err(DriverError::NoMemory),
        // SAFETY: The pointer is not null, so the caller guarantees the bytes.
        (false, size) => Ok(unsafe { slice::from_raw_parts(from, size as usize) }.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::{DXGK_ALLOCATIONINFOFLAGS, DXGK_SEGMENTPREFERENCE};
    use abi::status::STATUS_INVALID_PARAMETER;
    use kernel::segment::{SegmentPreference, SegmentSet};
    use std::ptr;

    #[test]
    fn what_a_driver_asks_for_is_what_the_kernel_hears() {
        let handle = |address| ptr::without_provenance_mut(address);
        let args = DXGKARGCB_CREATECONTEXTALLOCATION {
            ContextAllocationFlags: CreateFlags { Value: CreateFlags::SharedAcrossContexts },
            hAdapter: handle(1),
            hDriverAllocation: handle(0xd00d),
            Size: 12_288,
            Alignment: 8192,
            SupportedSegmentSet: 0b11,
            EvictionSegmentSet: 0b10,
            PreferredSegment: DXGK_SEGMENTPREFERENCE { Value: 2 },
            Flags: DXGK_ALLOCATIONINFOFLAGS { Value: DXGK_ALLOCATIONINFOFLAGS::CpuVisible },
            ..DXGKARGCB_CREATECONTEXTALLOCATION::ZERO
        };
        let created = context_allocation_args(&args, 0x40, 0x80);
        assert_eq!((created.device, created.context, created.shared), (0x40, 0x80, true));
        assert_eq!(
            (created.size, created.alignment, created.driver_handle),
            (12_288, 8192, 0xd00d)
        );
        assert_eq!(created.requirements.segments, SegmentSet::of(&[1, 2]));
        assert_eq!(created.requirements.evict, SegmentSet::of(&[2]));
        assert_eq!(
            created.requirements.preferred[0],
            Some(SegmentPreference { segment: 2, from_top: false })
        );
        assert!(created.requirements.flags.cpu_visible);
    }

    #[test]
    fn private_data_is_copied_or_refused() {
        // SAFETY: The pointer is null or valid for three bytes.
        assert_eq!(unsafe { copy_bytes([1, 2, 3].as_ptr(), 3) }, Ok(vec![1, 2, 3]));
        // SAFETY: As above.
        assert_eq!(unsafe { copy_bytes(ptr::null(), 0) }, Ok(vec![]));
        // SAFETY: As above.
        assert_eq!(unsafe { copy_bytes(ptr::null(), 4) }, Err(DriverError::Invalid));
        // SAFETY: The bytes are not read.
        assert_eq!(unsafe { copy_bytes([1].as_ptr(), u32::MAX) }, Err(DriverError::NoMemory));
    }

    #[test]
    fn what_comes_for_no_door_is_refused() {
        let unknown = ptr::without_provenance_mut(usize::MAX);
        let mut args = DXGKARGCB_CREATECONTEXTALLOCATION::ZERO;
        args.hAdapter = unknown;
        // SAFETY: `args` is a valid structure.
        let error = unsafe { DxgkCbCreateContextAllocation(&raw mut args) };
        assert_eq!((error, args.hAllocation), (STATUS_INVALID_PARAMETER, ptr::null_mut()));
        // SAFETY: Null is allowed.
        let error = unsafe { DxgkCbCreateContextAllocation(ptr::null_mut()) };
        assert_eq!(error, STATUS_INVALID_PARAMETER);
        assert_eq!(DxgkCbDestroyContextAllocation(unknown, unknown), STATUS_INVALID_PARAMETER);
        // SAFETY: Null is allowed.
        let error = unsafe { DxgkCbUpdateContextAllocation(unknown, ptr::null()) };
        assert_eq!(error, STATUS_INVALID_PARAMETER);
        // SAFETY: Null is allowed.
        assert_eq!(unsafe { DxgkCbMapContextAllocation(unknown, ptr::null()) }, 0);
    }
}
