//! Bad drivers: context allocations (save areas) that are created, freed and used.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{find, free};
use crate::context::{create_device, destroy_device, device_and_adapter};
use crate::memory::{
    ALL_SEGMENTS, MEMORY, build_paging_buffer, context, create_context_with_area,
    destroy_context_with_area,
};
use crate::save_area::{Area, ask, create_context_allocation_args, give_back};
use crate::table::Adapter;
use abi::display::{
    DXGK_ALLOCATIONINFOFLAGS as Flags, DXGK_CREATECONTEXTALLOCATIONFLAGS as CreateFlags,
    DXGK_OPERATION_INIT_CONTEXT_RESOURCE, DXGK_SEGMENTPREFERENCE, DXGKARG_BUILDPAGINGBUFFER,
    DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE, DXGKARGCB_CREATECONTEXTALLOCATION as CreateArgs,
    DXGKARGCB_MAPCONTEXTALLOCATION, DXGKARGCB_UPDATECONTEXTALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, PoisonError};

pub(crate) const SHARES_PER_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<SharedPerContext>);
pub(crate) const OMITS_CONTEXT_ALLOCATION_OWNER: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<NoOwner>);
pub(crate) const PASSES_WRONG_DEVICE_HANDLE: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<WrongDeviceHandle>);
pub(crate) const PASSES_WRONG_CONTEXT_HANDLE: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<WrongContextHandle>);
pub(crate) const PASSES_CONTEXT_AS_DEVICE: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<ContextAsDevice>);
pub(crate) const PASSES_DESTROYED_CONTEXT: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateContext: Some(keeps_context_handle),
        DxgkDdiDestroyDevice: Some(passes_destroyed_context),
        ..MEMORY
    };
pub(crate) const PASSES_ADAPTER_AS_CONTEXT: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<AdapterAsContext>);
pub(crate) const FREES_DEVICE_AS_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    ends(frees_device_as_allocation);
pub(crate) const REQUESTS_EMPTY_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<EmptyAllocation>);
pub(crate) const PREFERS_ELSEWHERE: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<Elsewhere>);
pub(crate) const EVICTS_TO_MEMORY: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<Evicted>);
pub(crate) const REQUESTS_VISIBLE_CONTEXT_MEMORY: DRIVER_INITIALIZATION_DATA =
    with_create_args(create_with_bad_args::<Seen>);

pub(crate) const FREES_CONTEXT_ALLOCATION_TWICE: DRIVER_INITIALIZATION_DATA =
    ends(frees_context_allocation_twice);
pub(crate) const FREES_WRONG_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    ends(frees_wrong_context_allocation);
pub(crate) const LEAKS_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    ends(leaks_context_allocation);
pub(crate) const MAPS_PAST_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    ends(maps_past_context_allocation);
pub(crate) const LEAKS_SHARED_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateDevice: Some(leaks_shared_context_allocation),
        ..MEMORY
    };
pub(crate) const USES_FREED_CONTEXT_ALLOCATION: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiBuildPagingBuffer: Some(uses_freed_context_allocation),
        DxgkDdiDestroyContext: Some(leaks_context_allocation),
        ..MEMORY
    };
pub(crate) const UPDATES_CONTEXT_WHILE_PAGING: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiBuildPagingBuffer: Some(updates_context_while_paging),
        ..MEMORY
    };

/// A driver that requests an additional context allocation when it creates a context.
const fn with_create_args(
    entry: unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_CREATECONTEXT) -> NTSTATUS,
) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateContext: Some(entry), ..MEMORY }
}

/// A driver with another `DxgkDdiDestroyContext`.
const fn ends(
    entry: unsafe extern "win64-unwind" fn(HANDLE) -> NTSTATUS,
) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyContext: Some(entry), ..MEMORY }
}

/// What is wrong with a request.
trait BadCreateArgs {
    /// Changes a valid request for a context; `device` is the driver's own handle.
    fn change(args: &mut CreateArgs, device: HANDLE);
}

/// A context allocation that is both shared across contexts and of one context.
struct SharedPerContext;
/// A context allocation that is neither shared nor of a context.
struct NoOwner;
/// A context allocation for a device, named by the driver's handle.
struct WrongDeviceHandle;
/// A context allocation for a context, named by the driver's handle.
struct WrongContextHandle;
/// A context allocation for a device, named by the kernel's handle of the context.
struct ContextAsDevice;
/// A context allocation for a context, named by the kernel's handle of the adapter.
struct AdapterAsContext;
/// A context allocation of zero bytes.
struct EmptyAllocation;
/// A context allocation whose preferred segment is not in its segment set.
struct Elsewhere;
/// A context allocation with an eviction segment that is not an aperture.
struct Evicted;
/// A context allocation with a CPU address, in a memory segment.
struct Seen;

impl BadCreateArgs for SharedPerContext {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.ContextAllocationFlags = CreateFlags { Value: CreateFlags::SharedAcrossContexts };
    }
}

impl BadCreateArgs for NoOwner {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.hContext = ptr::null_mut();
    }
}

impl BadCreateArgs for WrongDeviceHandle {
    fn change(args: &mut CreateArgs, device: HANDLE) {
        args.hDevice = device;
    }
}

impl BadCreateArgs for WrongContextHandle {
    fn change(args: &mut CreateArgs, device: HANDLE) {
        args.hContext = device;
    }
}

impl BadCreateArgs for ContextAsDevice {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.hDevice = args.hContext;
    }
}

impl BadCreateArgs for AdapterAsContext {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.hContext = args.hAdapter;
    }
}

impl BadCreateArgs for EmptyAllocation {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.Size = 0;
    }
}

impl BadCreateArgs for Elsewhere {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.SupportedSegmentSet = 0b11;
        args.PreferredSegment = DXGK_SEGMENTPREFERENCE { Value: 3 };
    }
}

impl BadCreateArgs for Evicted {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.EvictionSegmentSet = ALL_SEGMENTS;
    }
}

impl BadCreateArgs for Seen {
    fn change(args: &mut CreateArgs, _device: HANDLE) {
        args.Flags = Flags { Value: Flags::CpuVisible | Flags::Protected };
    }
}

/// Requests one more context allocation than needed, with an invalid request.
unsafe extern "win64-unwind" fn create_with_bad_args<W: BadCreateArgs>(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The handle is the device's, and the device outlives the call.
    let Some((known, adapter)) = (unsafe { device_and_adapter(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { (*args).hContext };
    let mut create_args = create_context_allocation_args(adapter, known.kernel, given, device);
    W::change(&mut create_args, device);
    if let Ok(name) = ask(adapter, &mut create_args) {
        give_back(adapter, name);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_context_with_area(device, args) }
}

/// The kernel's handle of the last context of each device, by the driver's handle of the device.
static LAST_CONTEXTS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Keeps the kernel's handle of a context beyond its end.
unsafe extern "win64-unwind" fn keeps_context_handle(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let name = unsafe { (*args).hContext };
    let mut contexts = LAST_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    contexts.insert(device.addr(), name.addr());
    drop(contexts);
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_context_with_area(device, args) }
}

/// Requests a context allocation for a context of the device, all of which are destroyed.
unsafe extern "win64-unwind" fn passes_destroyed_context(device: HANDLE) -> NTSTATUS {
    let mut contexts = LAST_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let name = contexts.remove(&device.addr());
    drop(contexts);
    // SAFETY: The handle is the device's, and the device outlives the call.
    if let (Some((known, adapter)), Some(name)) = (unsafe { device_and_adapter(device) }, name) {
        let name = ptr::without_provenance_mut(name);
        let mut args = create_context_allocation_args(adapter, known.kernel, name, device);
        let _ = ask(adapter, &mut args);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_device(device) }
}

/// Frees the area of a context twice.
unsafe extern "win64-unwind" fn frees_context_allocation_twice(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's.
    if let Some((adapter, area)) = unsafe { area_of(handle) } {
        give_back(adapter, area.name);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_context_with_area(handle) }
}

/// Frees the area of a context by the kernel's handle of the device, then by that of the area.
unsafe extern "win64-unwind" fn frees_device_as_allocation(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's.
    if let Some((_, device, adapter)) = unsafe { context(handle) } {
        give_back(adapter, device.kernel);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_context_with_area(handle) }
}

/// Frees the area of a context by the driver's own handle, then by the kernel's handle.
unsafe extern "win64-unwind" fn frees_wrong_context_allocation(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's.
    if let Some((it, _, adapter)) = unsafe { context(handle) } {
        give_back(adapter, it.area);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_context_with_area(handle) }
}

/// Destroys a context without freeing its area.
unsafe extern "win64-unwind" fn leaks_context_allocation(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's.
    let Some((it, _, _)) = (unsafe { context(handle) }) else { return STATUS_INVALID_PARAMETER };
    let area = it.area;
    // SAFETY: No later call uses either block.
    unsafe { free(area) };
    // SAFETY: As above.
    unsafe { free(handle) };
    STATUS_SUCCESS
}

/// Requests the address of the page after the area.
unsafe extern "win64-unwind" fn maps_past_context_allocation(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's.
    if let Some((adapter, area)) = unsafe { area_of(handle) }
        && let Some(call) = adapter.interface.DxgkCbMapContextAllocation
    {
        let args = DXGKARGCB_MAPCONTEXTALLOCATION {
            hAllocation: area.name,
            OffsetInPages: 1,
            SizeInPages: 1,
            ..DXGKARGCB_MAPCONTEXTALLOCATION::ZERO
        };
        // SAFETY: The function is the kernel's, and `args` outlives the call.
        unsafe { call(adapter.interface.DeviceHandle, &raw const args) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_context_with_area(handle) }
}

/// Returns the adapter and the area of a context.
///
/// # Safety
///
/// The handle is a context's, and the context outlives the result.
unsafe fn area_of<'a>(handle: HANDLE) -> Option<(&'a Adapter, &'a Area)> {
    // SAFETY: The caller upholds this function's contract.
    let (it, _, adapter) = unsafe { context(handle) }?;
    // SAFETY: An area is freed with its context.
    Some((adapter, unsafe { find::<Area>(it.area) }?))
}

/// Creates an allocation for all contexts of a device and never frees it.
unsafe extern "win64-unwind" fn leaks_shared_context_allocation(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(known) = unsafe { find::<Adapter>(adapter) } {
        // SAFETY: The kernel passes a valid structure.
        let device = unsafe { (*args).hDevice };
        let mut create_args =
            create_context_allocation_args(known, device, ptr::null_mut(), adapter);
        create_args.ContextAllocationFlags =
            CreateFlags { Value: CreateFlags::SharedAcrossContexts };
        let _forgotten = ask(known, &mut create_args);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_device(adapter, args) }
}

/// Updates an area while it builds the operation that initialises the area.
unsafe extern "win64-unwind" fn updates_context_while_paging(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    if let Some((known, area)) = unsafe { initialises(adapter, args) }
        && let Some(call) = known.interface.DxgkCbUpdateContextAllocation
    {
        let update = DXGKARGCB_UPDATECONTEXTALLOCATION {
            hAllocation: area.name,
            ..DXGKARGCB_UPDATECONTEXTALLOCATION::ZERO
        };
        // SAFETY: The function is the kernel's, and `update` outlives the call.
        unsafe { call(known.interface.DeviceHandle, &raw const update) };
    }
    // SAFETY: As above.
    unsafe { build_paging_buffer(adapter, args) }
}

/// Frees an area once it is initialised, although engines still save into it.
unsafe extern "win64-unwind" fn uses_freed_context_allocation(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { build_paging_buffer(adapter, args) };
    // SAFETY: As above.
    if let Some((known, area)) = unsafe { initialises(adapter, args) } {
        give_back(known, area.name);
    }
    status
}

/// Returns the area that an operation initialises.
///
/// # Safety
///
/// The arguments come from the kernel; their objects outlive the result.
unsafe fn initialises<'a>(
    adapter: HANDLE,
    args: *const DXGKARG_BUILDPAGINGBUFFER,
) -> Option<(&'a Adapter, &'a Area)> {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if args.Operation != DXGK_OPERATION_INIT_CONTEXT_RESOURCE {
        return None;
    }
    // SAFETY: The operation selects the union member.
    let driver_handle = unsafe { args.About.InitContextResource.hAllocation };
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    // SAFETY: The handle is an area's, and the area outlives the call.
    known.zip(unsafe { find::<Area>(driver_handle) })
}
