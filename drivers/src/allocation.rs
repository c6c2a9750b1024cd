//! Allocations and resources of the table driver: created, described and destroyed for the
//! adapter.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, bytes, find, free, list, list_mut, take, value};
use crate::table::Adapter;
use abi::display::{
    D3DKMDT_STANDARDALLOCATION_GDISURFACE, DXGK_ALLOCATIONINFO, DXGK_CREATEALLOCATIONFLAGS,
    DXGK_DESTROYALLOCATIONFLAGS, DXGKARG_CREATEALLOCATION, DXGKARG_DESCRIBEALLOCATION,
    DXGKARG_DESTROYALLOCATION, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_GRAPHICS_DRIVER_MISMATCH, STATUS_INVALID_PARAMETER,
    STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::ukm::D3DDDIFMT_A8;
use abi::{HANDLE, NTSTATUS};
use kernel::miniport::DriverError;
use softgpu::format::{self, DESCRIPTION_SIZE, STANDARD_RESOURCE, STANDARD_RESOURCE_SIZE};
use std::{mem, ptr};

const PAGE: u32 = 4096;

/// An allocation (`hAllocation`).
#[repr(C)]
pub(crate) struct Allocation {
    /// The adapter. It owns the allocation, which can outlive the device that created it.
    pub(crate) owner: HANDLE,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The allocation's memory on the board.
    pub(crate) memory: u64,
}

impl Kind for Allocation {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"allo");
}

/// A resource (`hResource`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Resource {
    /// The size of the private data passed at creation.
    private: u32,
}

impl Kind for Resource {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"reso");
}

/// The status of the failure.
fn status(why: DriverError) -> NTSTATUS {
    match why {
        DriverError::NoMemory => STATUS_NO_MEMORY,
        DriverError::Mismatch => STATUS_GRAPHICS_DRIVER_MISMATCH,
        _ => STATUS_INVALID_PARAMETER,
    }
}

pub(crate) unsafe extern "win64-unwind" fn create_allocation(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let before = unsafe { (*args).hResource };
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_until_failure(adapter, args) };
    if status != STATUS_SUCCESS {
        // SAFETY: The arguments come from the kernel, and the new objects are unpublished.
        unsafe { undo_create(adapter, args, before) };
    }
    status
}

/// Creates a resource and its allocations, in order, up to the first failure. The created objects
/// are in the arguments.
///
/// # Safety
///
/// As for `create_allocation`.
pub(crate) unsafe fn create_until_failure(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The kernel passes an array of this length.
    let infos = unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) };
    for info in &mut *infos {
        info.hAllocation = ptr::null_mut();
    }
    if !args.hResource.is_null() {
        // SAFETY: The handle is the resource's, and the resource outlives the call.
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
        // SAFETY: The handle is the adapter's, and the element is the kernel's.
        let status = unsafe { create_one(adapter, info) };
        if status != STATUS_SUCCESS {
            return status;
        }
    }
    STATUS_SUCCESS
}

/// Creates one allocation. If that fails after its block was allocated, the block is in `info`.
///
/// # Safety
///
/// The handle is the adapter's, and the private data is valid.
unsafe fn create_one(adapter: HANDLE, info: &mut DXGK_ALLOCATIONINFO) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    info.hAllocation = take(Allocation { owner: adapter, size: 0, memory: 0 });
    if info.hAllocation.is_null() {
        return STATUS_NO_MEMORY;
    }
    // SAFETY: The caller upholds this function's contract.
    let private = unsafe { bytes(info.pPrivateDriverData, info.PrivateDriverDataSize) };
    // The segment set is used only on a board with memory.
    let size = if known.board().has_memory() {
        format::read_allocation_info(private).map(|info| info.size)
    } else {
        format::read_description(private)
    };
    let size = match size {
        Ok(size) => size.next_multiple_of(PAGE.into()),
        Err(why) => return status(why),
    };
    let Ok(bytes) = usize::try_from(size) else { return STATUS_NO_MEMORY };
    let memory = known.board().allocate(size);
    let allocation = value::<Allocation>(info.hAllocation);
    // SAFETY: The block is new and unpublished.
    unsafe { allocation.write(Allocation { owner: adapter, size, memory }) };
    (info.Size, info.Alignment, info.PitchAlignedSize) = (bytes, PAGE, 0);
    info.SupportedReadSegmentSet = 1;
    info.SupportedWriteSegmentSet = 1;
    STATUS_SUCCESS
}

/// Destroys the objects of a failed create, last first. `before` is the older resource.
///
/// # Safety
///
/// As for `create_allocation`; the created objects are unpublished.
unsafe fn undo_create(adapter: HANDLE, args: *mut DXGKARG_CREATEALLOCATION, before: HANDLE) {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The kernel passes an array of this length.
    let infos = unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) };
    for info in infos.iter_mut().rev() {
        let created = mem::replace(&mut info.hAllocation, ptr::null_mut());
        // SAFETY: The allocation was created in this call, or is NULL.
        unsafe { destroy_one_allocation(adapter, created) };
    }
    let created = mem::replace(&mut args.hResource, before);
    if created != before {
        // SAFETY: The resource was created in this call.
        unsafe { destroy_resource(created) };
    }
}

/// Destroys an allocation. Returns whether the handle was an allocation's.
///
/// # Safety
///
/// The handles are an adapter's and an allocation's, which is not used afterwards.
pub(crate) unsafe fn destroy_one_allocation(adapter: HANDLE, handle: HANDLE) -> bool {
    // SAFETY: The caller upholds this function's contract.
    let known = unsafe { find::<Adapter>(adapter) };
    // SAFETY: The caller upholds this function's contract.
    let allocation = unsafe { find::<Allocation>(handle) };
    let (Some(known), Some(allocation)) = (known, allocation) else { return false };
    known.board().release(allocation.memory);
    // SAFETY: The caller upholds this function's contract.
    unsafe { free(handle) };
    true
}

/// Destroys a resource. Returns whether the handle was a resource's.
///
/// # Safety
///
/// The handle is a resource's, which is not used afterwards.
unsafe fn destroy_resource(handle: HANDLE) -> bool {
    // SAFETY: The caller upholds this function's contract.
    let known = unsafe { find::<Resource>(handle) }.is_some();
    if known {
        // SAFETY: The caller upholds this function's contract.
        unsafe { free(handle) };
    }
    known
}

pub(crate) unsafe extern "win64-unwind" fn destroy_allocation(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    let allocations = unsafe { list(args.pAllocationList, args.NumAllocations) };
    let mut known = true;
    for allocation in allocations {
        // SAFETY: The handles are the adapter's and that of an allocation, which is freed here.
        known &= unsafe { destroy_one_allocation(adapter, *allocation) };
    }
    if args.Flags.has(DXGK_DESTROYALLOCATIONFLAGS::DestroyResource) {
        // SAFETY: The handle is the resource's, which is freed here.
        known &= unsafe { destroy_resource(args.hResource) };
    }
    if known { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

pub(crate) unsafe extern "win64-unwind" fn describe_allocation(
    _adapter: HANDLE,
    args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The handle is the allocation's, and the allocation outlives the call.
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
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    if args.StandardAllocationType != D3DKMDT_STANDARDALLOCATION_GDISURFACE {
        return STATUS_NOT_SUPPORTED;
    }
    // SAFETY: The type says that the union is a pointer to this structure.
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
    // SAFETY: The kernel's buffer is large enough.
    let place = unsafe { list_mut(allocation.cast(), DESCRIPTION_SIZE) };
    place.copy_from_slice(&description);
    // SAFETY: As above.
    let place = unsafe { list_mut(resource.cast(), STANDARD_RESOURCE_SIZE) };
    place.copy_from_slice(&STANDARD_RESOURCE);
    STATUS_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::D3DKMDT_GDISURFACEDATA;
    use flight::Log;
    use nt::Pool;
    use std::sync::Arc;

    #[test]
    fn an_allocation_is_described_as_a_row_of_bytes() {
        Pool::new(Arc::new(Log::new())).run_driver(|| {
            let handle = take(Allocation { owner: ptr::null_mut(), size: 8192, memory: 1 });
            let describe = |handle| {
                let mut args = DXGKARG_DESCRIBEALLOCATION {
                    hAllocation: handle,
                    ..DXGKARG_DESCRIBEALLOCATION::ZERO
                };
                // SAFETY: The structure is valid, and the handle is NULL or a block's address.
                let status = unsafe { describe_allocation(ptr::null_mut(), &raw mut args) };
                (status, args.Width, args.Height)
            };
            assert_eq!(describe(handle), (STATUS_SUCCESS, 8192, 1));
            assert_eq!(describe(ptr::null_mut()).0, STATUS_INVALID_PARAMETER);
            // SAFETY: The handle is only looked up, never dereferenced.
            unsafe { free(handle) };
            assert_eq!(describe(handle).0, STATUS_INVALID_PARAMETER, "a freed handle is rejected");
        });
    }

    #[test]
    fn a_standard_allocation_is_sized_first_and_filled_then() {
        let mut surface = D3DKMDT_GDISURFACEDATA {
            Width: 64,
            Height: 2,
            Format: D3DDDIFMT_A8,
            ..D3DKMDT_GDISURFACEDATA::ZERO
        };
        let mut args = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
            StandardAllocationType: D3DKMDT_STANDARDALLOCATION_GDISURFACE,
            pCreateData: (&raw mut surface).cast(),
            ..DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA::ZERO
        };
        let ask = |args: &mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA| {
            // SAFETY: The structure and all its pointers are valid.
            unsafe { standard_allocation(ptr::null_mut(), args) }
        };
        assert_eq!(ask(&mut args), STATUS_SUCCESS);
        let sizes = (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize);
        assert_eq!(sizes, (16, 8));
        let (mut allocation, mut resource) = ([0; 16], [0; 8]);
        args.pAllocationPrivateDriverData = allocation.as_mut_ptr().cast();
        args.pResourcePrivateDriverData = resource.as_mut_ptr().cast();
        assert_eq!(ask(&mut args), STATUS_SUCCESS);
        assert_eq!((format::read_description(&allocation), resource), (Ok(128), STANDARD_RESOURCE));
        args.ResourcePrivateDriverDataSize = 7;
        assert_eq!(ask(&mut args), STATUS_BUFFER_TOO_SMALL);
    }
}
