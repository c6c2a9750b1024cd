//! Allocations of the driver with a table: created and described for the adapter, opened and
//! closed for a device.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, bytes, find, free, list, list_mut, take};
use crate::context::device_and_adapter;
use crate::table::Adapter;
use abi::display::{
    D3DKMDT_STANDARDALLOCATION_GDISURFACE, DXGK_ALLOCATIONINFO, DXGK_CREATEALLOCATIONFLAGS,
    DXGK_DESTROYALLOCATIONFLAGS, DXGK_HANDLE_ALLOCATION, DXGK_OPENALLOCATIONINFO,
    DXGKARG_CLOSEALLOCATION, DXGKARG_CREATEALLOCATION, DXGKARG_DESCRIBEALLOCATION,
    DXGKARG_DESTROYALLOCATION, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA, DXGKARG_OPENALLOCATION,
    DXGKARGCB_GETHANDLEDATA, DXGKARGCB_RELEASEHANDLEDATA,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_GRAPHICS_DRIVER_MISMATCH, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::ukm::D3DDDIFMT_A8;
use abi::{HANDLE, NTSTATUS};
use kernel::miniport::Refusal;
use softgpu::format::{self, DESCRIPTION_SIZE, STANDARD_RESOURCE, STANDARD_RESOURCE_SIZE};
use std::{mem, ptr};

const PAGE: u32 = 4096;

/// An allocation (`hAllocation`).
#[repr(C)]
pub(crate) struct Allocation {
    /// Whose it is: the adapter's, for it can outlive the device that asked for it.
    pub(crate) owner: HANDLE,
    /// How many bytes it has.
    pub(crate) size: u64,
    /// Its memory on the board.
    memory: u64,
}

impl Kind for Allocation {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"allo");
}

/// A resource (`hResource`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Resource {
    /// How many bytes of private data it came with.
    private: u32,
}

impl Kind for Resource {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"reso");
}

/// A device's view of an allocation (`hDeviceSpecificAllocation`).
#[repr(C)]
pub(crate) struct View {
    /// What it shows.
    pub(crate) allocation: HANDLE,
    /// The memory of that, on the board.
    memory: u64,
    /// The client's name for it.
    name: u32,
}

impl Kind for View {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"view");
}

/// The status that says why.
fn status(why: Refusal) -> NTSTATUS {
    match why {
        Refusal::NoMemory => STATUS_NO_MEMORY,
        Refusal::Mismatch => STATUS_GRAPHICS_DRIVER_MISMATCH,
        _ => STATUS_INVALID_PARAMETER,
    }
}

pub(crate) unsafe extern "win64-unwind" fn create_allocation(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let before = unsafe { (*args).hResource };
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { create_some(adapter, args) };
    if status != STATUS_SUCCESS {
        // SAFETY: The arguments are the kernel's, and nobody has seen what was made.
        unsafe { undo_create(adapter, args, before) };
    }
    status
}

/// Creates a resource and allocations, in order, up to the first that fails. What it made is in
/// the arguments.
///
/// # Safety
///
/// As of `create_allocation`.
pub(crate) unsafe fn create_some(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    // SAFETY: The kernel gives so many elements.
    let infos = unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) };
    for info in &mut *infos {
        info.hAllocation = ptr::null_mut();
    }
    if !args.hResource.is_null() {
        // SAFETY: The word is the resource's, which outlives the call.
        if unsafe { find::<Resource>(args.hResource) }.is_none() {
            return STATUS_INVALID_PARAMETER;
        }
    } else if args.Flags.has(DXGK_CREATEALLOCATIONFLAGS::Resource) {
        args.hResource = take(Resource { private: args.PrivateDriverDataSize });
        if args.hResource.is_null() {
            return STATUS_NO_MEMORY;
        }
    }
    for info in infos {
        // SAFETY: The word is the adapter's, and the element the kernel's.
        let status = unsafe { create_one(adapter, info) };
        if status != STATUS_SUCCESS {
            return status;
        }
    }
    STATUS_SUCCESS
}

/// Creates one allocation. If that fails and a block was taken, it is in `info`.
///
/// # Safety
///
/// The handle is the adapter's, and the private data there.
unsafe fn create_one(adapter: HANDLE, info: &mut DXGK_ALLOCATIONINFO) -> NTSTATUS {
    // SAFETY: The caller promises the same.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    info.hAllocation = take(Allocation { owner: adapter, size: 0, memory: 0 });
    if info.hAllocation.is_null() {
        return STATUS_NO_MEMORY;
    }
    // SAFETY: The caller promises the same.
    let private = unsafe { bytes(info.pPrivateDriverData, info.PrivateDriverDataSize) };
    let size = match format::read_description(private) {
        Ok(size) => size.next_multiple_of(PAGE.into()),
        Err(why) => return status(why),
    };
    let Ok(bytes) = usize::try_from(size) else { return STATUS_NO_MEMORY };
    let memory = known.board().allocate(size);
    let allocation = crate::block::value::<Allocation>(info.hAllocation);
    // SAFETY: The block is new, and nobody has seen it.
    unsafe { allocation.write(Allocation { owner: adapter, size, memory }) };
    (info.Size, info.Alignment, info.PitchAlignedSize) = (bytes, PAGE, 0);
    info.SupportedReadSegmentSet = 1;
    info.SupportedWriteSegmentSet = 1;
    STATUS_SUCCESS
}

/// Ends what a create has made, the last first. `before` is the resource that was there.
///
/// # Safety
///
/// As of `create_allocation`, and nobody has seen what was made.
unsafe fn undo_create(adapter: HANDLE, args: *mut DXGKARG_CREATEALLOCATION, before: HANDLE) {
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    // SAFETY: The kernel gives so many elements.
    let infos = unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) };
    for info in infos.iter_mut().rev() {
        let made = mem::replace(&mut info.hAllocation, ptr::null_mut());
        // SAFETY: The allocation is this call's own, or none.
        unsafe { end_allocation(adapter, made) };
    }
    let made = mem::replace(&mut args.hResource, before);
    if made != before {
        // SAFETY: The resource is this call's own.
        unsafe { end_resource(made) };
    }
}

/// Ends an allocation. Answers whether it was one.
///
/// # Safety
///
/// The handles are the adapter's and an allocation's, which is not used afterwards.
pub(crate) unsafe fn end_allocation(adapter: HANDLE, handle: HANDLE) -> bool {
    // SAFETY: The caller promises the same.
    let known = unsafe { find::<Adapter>(adapter) };
    // SAFETY: The caller promises the same.
    let allocation = unsafe { find::<Allocation>(handle) };
    let (Some(known), Some(allocation)) = (known, allocation) else { return false };
    known.board().release(allocation.memory);
    // SAFETY: The caller promises the same.
    unsafe { free(handle) };
    true
}

/// Ends a resource. Answers whether it was one.
///
/// # Safety
///
/// The handle is a resource's, which is not used afterwards.
unsafe fn end_resource(handle: HANDLE) -> bool {
    // SAFETY: The caller promises the same.
    let known = unsafe { find::<Resource>(handle) }.is_some();
    if known {
        // SAFETY: The caller promises the same.
        unsafe { free(handle) };
    }
    known
}

pub(crate) unsafe extern "win64-unwind" fn destroy_allocation(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel gives so many elements.
    let doomed = unsafe { list(args.pAllocationList, args.NumAllocations) };
    let mut known = true;
    for allocation in doomed {
        // SAFETY: The words are the adapter's and an allocation's, which ends here.
        known &= unsafe { end_allocation(adapter, *allocation) };
    }
    if args.Flags.has(DXGK_DESTROYALLOCATIONFLAGS::DestroyResource) {
        // SAFETY: The word is the resource's, which ends here.
        known &= unsafe { end_resource(args.hResource) };
    }
    if known { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

pub(crate) unsafe extern "win64-unwind" fn describe_allocation(
    _adapter: HANDLE,
    args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    // SAFETY: The word is the allocation's, which outlives the call.
    let Some(allocation) = (unsafe { find::<Allocation>(args.hAllocation) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let Ok(width) = u32::try_from(allocation.size) else { return STATUS_INVALID_PARAMETER };
    let described = DXGKARG_DESCRIBEALLOCATION {
        hAllocation: args.hAllocation,
        Width: width,
        Height: 1,
        Format: D3DDDIFMT_A8,
        Flags: args.Flags,
        ..DXGKARG_DESCRIBEALLOCATION::ZERO
    };
    *args = described;
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn standard_allocation(
    _adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    if args.StandardAllocationType != D3DKMDT_STANDARDALLOCATION_GDISURFACE {
        return STATUS_NOT_SUPPORTED;
    }
    // SAFETY: By its type the union is a pointer to this structure.
    let surface = unsafe { args.gdi().read() };
    if surface.Format != D3DDDIFMT_A8 {
        return STATUS_NOT_SUPPORTED;
    }
    let (allocation, resource) =
        (args.pAllocationPrivateDriverData, args.pResourcePrivateDriverData);
    if allocation.is_null() && resource.is_null() {
        args.AllocationPrivateDriverDataSize = DESCRIPTION_SIZE;
        args.ResourcePrivateDriverDataSize = STANDARD_RESOURCE_SIZE;
        return STATUS_SUCCESS;
    }
    if args.AllocationPrivateDriverDataSize < DESCRIPTION_SIZE
        || args.ResourcePrivateDriverDataSize < STANDARD_RESOURCE_SIZE
    {
        return STATUS_BUFFER_TOO_SMALL;
    }
    let description = format::describe(u64::from(surface.Width) * u64::from(surface.Height));
    // SAFETY: The place is the kernel's, and large enough.
    let place = unsafe { list_mut(allocation.cast(), DESCRIPTION_SIZE) };
    place.copy_from_slice(&description);
    // SAFETY: As above.
    let place = unsafe { list_mut(resource.cast(), STANDARD_RESOURCE_SIZE) };
    place.copy_from_slice(&STANDARD_RESOURCE);
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn open_allocation(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel gives so many elements.
    let infos = unsafe { list_mut(args.pOpenAllocation, args.NumAllocations) };
    for at in 0..infos.len() {
        // SAFETY: The word is the device's, and the element the kernel's.
        let status = unsafe { open_one(device, &mut infos[at]) };
        if status != STATUS_SUCCESS {
            for info in infos[..at].iter_mut().rev() {
                let made = mem::replace(&mut info.hDeviceSpecificAllocation, ptr::null_mut());
                // SAFETY: The view is this call's own.
                unsafe { end_view(device, made) };
            }
            return status;
        }
    }
    STATUS_SUCCESS
}

/// Opens one view.
///
/// # Safety
///
/// The handle is the device's.
unsafe fn open_one(device: HANDLE, info: &mut DXGK_OPENALLOCATIONINFO) -> NTSTATUS {
    // SAFETY: The caller promises the same.
    let Some((known, adapter)) = (unsafe { device_and_adapter(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let handle = handle_data(adapter, info.hAllocation);
    // SAFETY: The word is the allocation's, which outlives the call.
    let Some(allocation) = (unsafe { find::<Allocation>(handle) }) else {
        return STATUS_INVALID_HANDLE;
    };
    let (name, memory) = (info.hAllocation, allocation.memory);
    let view = take(View { allocation: handle, memory, name });
    if view.is_null() {
        return STATUS_NO_MEMORY;
    }
    adapter.board().map(known.space, name, memory);
    info.hDeviceSpecificAllocation = view;
    STATUS_SUCCESS
}

/// This driver's handle of the allocation that a process calls `name`, or NULL.
fn handle_data(adapter: &Adapter, name: u32) -> HANDLE {
    let it = &adapter.interface;
    let (Some(acquire), Some(release)) = (it.DxgkCbAcquireHandleData, it.DxgkCbReleaseHandleData)
    else {
        return ptr::null_mut();
    };
    let asked = DXGKARGCB_GETHANDLEDATA {
        hObject: name,
        Type: DXGK_HANDLE_ALLOCATION,
        ..DXGKARGCB_GETHANDLEDATA::ZERO
    };
    let mut held = ptr::null_mut();
    // SAFETY: The kernel gave the function, and both places outlive the call.
    let handle = unsafe { acquire(&raw const asked, &raw mut held) };
    if !handle.is_null() {
        let held =
            DXGKARGCB_RELEASEHANDLEDATA { ReleaseHandle: held, Type: DXGK_HANDLE_ALLOCATION };
        // SAFETY: The kernel gave the function, and what is released was acquired.
        unsafe { release(held) };
    }
    handle
}

pub(crate) unsafe extern "win64-unwind" fn close_allocation(
    device: HANDLE,
    args: *const DXGKARG_CLOSEALLOCATION,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel gives so many elements.
    let views = unsafe { list(args.pOpenHandleList, args.NumAllocations) };
    let mut known = true;
    for view in views {
        // SAFETY: The words are the device's and a view's, which ends here.
        known &= unsafe { end_view(device, *view) };
    }
    if known { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

/// Ends a view. Answers whether it was one.
///
/// # Safety
///
/// The handles are the device's and a view's, which is not used afterwards.
pub(crate) unsafe fn end_view(device: HANDLE, handle: HANDLE) -> bool {
    // SAFETY: The caller promises the same.
    let known = unsafe { device_and_adapter(device) };
    // SAFETY: The caller promises the same.
    let view = unsafe { find::<View>(handle) };
    let (Some((device, adapter)), Some(view)) = (known, view) else { return false };
    adapter.board().unmap(device.space, view.name, view.memory);
    // SAFETY: The caller promises the same.
    unsafe { free(handle) };
    true
}
