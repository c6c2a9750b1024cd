//! What goes wrong with save areas: context allocations that are asked for, freed and used.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::area::{Area, ask, give_back, order};
use crate::block::{find, free};
use crate::context::{create_device, device_and_adapter};
use crate::memory::{
    ANYWHERE, MEMORY, build_paging_buffer, context, create_saved_context, destroy_saved_context,
};
use crate::table::Adapter;
use abi::display::{
    DXGK_ALLOCATIONINFOFLAGS as Flags, DXGK_CREATECONTEXTALLOCATIONFLAGS as CreateFlags,
    DXGK_OPERATION_INIT_CONTEXT_RESOURCE, DXGK_SEGMENTPREFERENCE, DXGKARG_BUILDPAGINGBUFFER,
    DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE, DXGKARGCB_CREATECONTEXTALLOCATION as Order,
    DXGKARGCB_MAPCONTEXTALLOCATION, DXGKARGCB_UPDATECONTEXTALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use std::ptr;

pub(crate) const SHARES_ONE_CONTEXT: DRIVER_INITIALIZATION_DATA = orders(and_orders::<SharesOne>);
pub(crate) const SHARES_NOTHING: DRIVER_INITIALIZATION_DATA = orders(and_orders::<SharesNothing>);
pub(crate) const NAMES_ITS_DEVICE: DRIVER_INITIALIZATION_DATA = orders(and_orders::<OwnDevice>);
pub(crate) const NAMES_ITS_CONTEXT: DRIVER_INITIALIZATION_DATA = orders(and_orders::<OwnContext>);
pub(crate) const EMPTY_AREA: DRIVER_INITIALIZATION_DATA = orders(and_orders::<Empty>);
pub(crate) const PREFERS_ELSEWHERE: DRIVER_INITIALIZATION_DATA = orders(and_orders::<Elsewhere>);
pub(crate) const EVICTS_TO_MEMORY: DRIVER_INITIALIZATION_DATA = orders(and_orders::<Evicted>);
pub(crate) const SEEN_IN_MEMORY: DRIVER_INITIALIZATION_DATA = orders(and_orders::<Seen>);

pub(crate) const FREES_AREA_TWICE: DRIVER_INITIALIZATION_DATA = ends(frees_before);
pub(crate) const FREES_ITS_WORD: DRIVER_INITIALIZATION_DATA = ends(frees_its_word);
pub(crate) const FORGETS_AREA: DRIVER_INITIALIZATION_DATA = ends(forgets);
pub(crate) const MAPS_OUTSIDE: DRIVER_INITIALIZATION_DATA = ends(maps_outside);
pub(crate) const FORGETS_SHARED: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateDevice: Some(and_shares), ..MEMORY };
pub(crate) const SAVES_INTO_FREED: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiBuildPagingBuffer: Some(and_frees),
    DxgkDdiDestroyContext: Some(forgets),
    ..MEMORY
};
pub(crate) const UPDATES_WHILE_PAGING: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiBuildPagingBuffer: Some(and_updates), ..MEMORY };

/// A driver that asks for something else as well when it creates a context.
const fn orders(
    entry: unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_CREATECONTEXT) -> NTSTATUS,
) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateContext: Some(entry), ..MEMORY }
}

/// A driver that does something else when it destroys a context.
const fn ends(
    entry: unsafe extern "win64-unwind" fn(HANDLE) -> NTSTATUS,
) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyContext: Some(entry), ..MEMORY }
}

/// What is wrong with an order.
trait Wrong {
    /// Changes a good order for a context; `device` is the driver's own handle.
    fn change(order: &mut Order, device: HANDLE);
}

/// An allocation that is shared across contexts, and of one.
struct SharesOne;
/// An allocation that is neither shared nor of a context.
struct SharesNothing;
/// An allocation for a device by the driver's handle of it.
struct OwnDevice;
/// An allocation for a context by a handle of the driver's.
struct OwnContext;
/// An allocation of no bytes.
struct Empty;
/// An allocation that would best be where it may not be.
struct Elsewhere;
/// An allocation that is to be evicted to what is no aperture.
struct Evicted;
/// An allocation with an address of the CPU's, in memory.
struct Seen;

impl Wrong for SharesOne {
    fn change(order: &mut Order, _device: HANDLE) {
        order.ContextAllocationFlags = CreateFlags { Value: CreateFlags::SharedAcrossContexts };
    }
}

impl Wrong for SharesNothing {
    fn change(order: &mut Order, _device: HANDLE) {
        order.hContext = ptr::null_mut();
    }
}

impl Wrong for OwnDevice {
    fn change(order: &mut Order, device: HANDLE) {
        order.hDevice = device;
    }
}

impl Wrong for OwnContext {
    fn change(order: &mut Order, device: HANDLE) {
        order.hContext = device;
    }
}

impl Wrong for Empty {
    fn change(order: &mut Order, _device: HANDLE) {
        order.Size = 0;
    }
}

impl Wrong for Elsewhere {
    fn change(order: &mut Order, _device: HANDLE) {
        order.SupportedSegmentSet = 0b11;
        order.PreferredSegment = DXGK_SEGMENTPREFERENCE { Value: 3 };
    }
}

impl Wrong for Evicted {
    fn change(order: &mut Order, _device: HANDLE) {
        order.EvictionSegmentSet = ANYWHERE;
    }
}

impl Wrong for Seen {
    fn change(order: &mut Order, _device: HANDLE) {
        order.Flags = Flags { Value: Flags::CpuVisible | Flags::Protected };
    }
}

/// Asks for one allocation more than it needs, and not as it should.
unsafe extern "win64-unwind" fn and_orders<W: Wrong>(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The word is the device's, which outlives the call.
    let Some((known, adapter)) = (unsafe { device_and_adapter(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: It is a structure.
    let given = unsafe { (*args).hContext };
    let mut order = order(adapter, known.kernel, given, device);
    W::change(&mut order, device);
    if let Ok(name) = ask(adapter, &mut order) {
        give_back(adapter, name);
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { create_saved_context(device, args) }
}

/// Frees the area of a context, then frees it with the rest.
unsafe extern "win64-unwind" fn frees_before(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the context's.
    if let Some((adapter, area)) = unsafe { area_of(handle) } {
        give_back(adapter, area.name);
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { destroy_saved_context(handle) }
}

/// Frees the area of a context by its own word for it, then as it should.
unsafe extern "win64-unwind" fn frees_its_word(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the context's.
    if let Some((it, _, adapter)) = unsafe { context(handle) } {
        give_back(adapter, it.area);
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { destroy_saved_context(handle) }
}

/// Destroys a context, but not its area.
unsafe extern "win64-unwind" fn forgets(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the context's.
    let Some((it, _, _)) = (unsafe { context(handle) }) else { return STATUS_INVALID_PARAMETER };
    let area = it.area;
    // SAFETY: This is the last call about both.
    unsafe { free(area) };
    // SAFETY: As above.
    unsafe { free(handle) };
    STATUS_SUCCESS
}

/// Asks where the page behind the area is.
unsafe extern "win64-unwind" fn maps_outside(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the context's.
    if let Some((adapter, area)) = unsafe { area_of(handle) }
        && let Some(call) = adapter.interface.DxgkCbMapContextAllocation
    {
        let args = DXGKARGCB_MAPCONTEXTALLOCATION {
            hAllocation: area.name,
            OffsetInPages: 1,
            SizeInPages: 1,
            ..DXGKARGCB_MAPCONTEXTALLOCATION::ZERO
        };
        // SAFETY: The kernel gave the function, and `args` outlives the call.
        unsafe { call(adapter.interface.DeviceHandle, &raw const args) };
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { destroy_saved_context(handle) }
}

/// The adapter and the area of a context.
///
/// # Safety
///
/// The handle is a context's, and does not end while the answer is used.
unsafe fn area_of<'a>(handle: HANDLE) -> Option<(&'a Adapter, &'a Area)> {
    // SAFETY: The caller promises the same.
    let (it, _, adapter) = unsafe { context(handle) }?;
    // SAFETY: An area ends with its context.
    Some((adapter, unsafe { find::<Area>(it.area) }?))
}

/// Has an allocation made for all contexts of a device, and never frees it.
unsafe extern "win64-unwind" fn and_shares(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The word is the adapter's, which outlives the call.
    if let Some(known) = unsafe { find::<Adapter>(adapter) } {
        // SAFETY: It is a structure.
        let device = unsafe { (*args).hDevice };
        let mut order = order(known, device, ptr::null_mut(), adapter);
        order.ContextAllocationFlags = CreateFlags { Value: CreateFlags::SharedAcrossContexts };
        let _forgotten = ask(known, &mut order);
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { create_device(adapter, args) }
}

/// Has an area updated while it builds what initialises it.
unsafe extern "win64-unwind" fn and_updates(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    if let Some((known, area)) = unsafe { initialises(adapter, args) }
        && let Some(call) = known.interface.DxgkCbUpdateContextAllocation
    {
        let update = DXGKARGCB_UPDATECONTEXTALLOCATION {
            hAllocation: area.name,
            ..DXGKARGCB_UPDATECONTEXTALLOCATION::ZERO
        };
        // SAFETY: The kernel gave the function, and `update` outlives the call.
        unsafe { call(known.interface.DeviceHandle, &raw const update) };
    }
    // SAFETY: As above.
    unsafe { build_paging_buffer(adapter, args) }
}

/// Frees an area as soon as it is initialised, and has engines save into it all the same.
unsafe extern "win64-unwind" fn and_frees(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { build_paging_buffer(adapter, args) };
    // SAFETY: As above.
    if let Some((known, area)) = unsafe { initialises(adapter, args) } {
        give_back(known, area.name);
    }
    status
}

/// The area that an operation initialises.
///
/// # Safety
///
/// The arguments are the kernel's, and what they name does not end while the answer is used.
unsafe fn initialises<'a>(
    adapter: HANDLE,
    args: *const DXGKARG_BUILDPAGINGBUFFER,
) -> Option<(&'a Adapter, &'a Area)> {
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    if args.Operation != DXGK_OPERATION_INIT_CONTEXT_RESOURCE {
        return None;
    }
    // SAFETY: The operation says which member it is.
    let word = unsafe { args.About.InitContextResource.hAllocation };
    // SAFETY: The word is the adapter's, which outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    // SAFETY: The word is an area's, which outlives the call.
    known.zip(unsafe { find::<Area>(word) })
}
