//! Drivers that put the blocks of destroyed objects on a free list instead of freeing them: of
//! allocations, which the page of `DXGKARG_DESTROYALLOCATION` forbids, or of views, which no page
//! forbids.
//!
//! The list is a member of the adapter. Its slots are atomic, because create and destroy calls run
//! in parallel.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{Allocation, create_allocation, destroy_allocation};
use crate::block::{Kind, find, free, list, list_mut, take, value};
use crate::context::Device;
use crate::table::{Adapter, GOOD, stop_device};
use crate::view::{View, open_allocation};
use abi::display::{
    DXGKARG_CLOSEALLOCATION, DXGKARG_CREATEALLOCATION, DXGKARG_DESTROYALLOCATION,
    DXGKARG_OPENALLOCATION,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire};

/// New allocations get the blocks of destroyed ones; the rest is freed in `DxgkDdiStopDevice`.
pub(crate) const REUSES_BLOCKS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(create_from_list), ..FREES_AT_STOP };

/// The blocks of destroyed allocations are freed in `DxgkDdiStopDevice`.
pub(crate) const FREES_AT_STOP: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiAddDevice: Some(add_device_with_list),
    DxgkDdiDestroyAllocation: Some(destroy_to_list),
    DxgkDdiStopDevice: Some(stop_and_free_list),
    ..GOOD
};

/// New views get the blocks of closed ones; the rest is freed in `DxgkDdiStopDevice`.
pub(crate) const REUSES_VIEWS: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiAddDevice: Some(add_device_with_list),
    DxgkDdiOpenAllocation: Some(open_from_list),
    DxgkDdiCloseAllocation: Some(close_to_list),
    DxgkDdiStopDevice: Some(stop_and_free_list),
    ..GOOD
};

/// How many blocks the list holds. Further blocks are freed at once.
const SLOTS: usize = 64;

/// An adapter with a free list. Its first member is the `Adapter` that good entries expect.
#[repr(C)]
struct AdapterWithList {
    adapter: Adapter,
    slots: [AtomicPtr<c_void>; SLOTS],
}

impl Kind for AdapterWithList {
    const SIGNATURE: u32 = Adapter::SIGNATURE;
}

impl AdapterWithList {
    /// Takes a block from the list, if there is one.
    fn pop(&self) -> Option<HANDLE> {
        let taken = self.slots.iter().map(|slot| slot.swap(ptr::null_mut(), AcqRel));
        taken.into_iter().find(|block| !block.is_null())
    }

    /// Puts a block on the list. Returns false if the list is full.
    fn push(&self, block: HANDLE) -> bool {
        let put = |slot: &AtomicPtr<c_void>| {
            slot.compare_exchange(ptr::null_mut(), block, AcqRel, Acquire).is_ok()
        };
        self.slots.iter().any(put)
    }
}

unsafe extern "win64-unwind" fn add_device_with_list(
    device: PDEVICE_OBJECT,
    context: *mut PVOID,
) -> NTSTATUS {
    let slots = [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];
    let adapter = take(AdapterWithList { adapter: Adapter::new(device), slots });
    // SAFETY: The argument points at a writable pointer.
    unsafe { context.write(adapter) };
    if adapter.is_null() { STATUS_NO_MEMORY } else { STATUS_SUCCESS }
}

/// Creates as the good driver does, then moves each allocation into a block of the list.
unsafe extern "win64-unwind" fn create_from_list(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_allocation(adapter, args) };
    // SAFETY: The handle is the adapter's, created in `add_device_with_list`.
    let known = unsafe { find::<AdapterWithList>(adapter) };
    let Some(known) = known.filter(|_| status == STATUS_SUCCESS) else { return status };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for info in unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) } {
        let Some(block) = known.pop() else { break };
        let (from, to) = (value::<Allocation>(info.hAllocation), value::<Allocation>(block));
        // SAFETY: Both blocks hold an allocation; the one of the list belongs to no object.
        unsafe { to.copy_from_nonoverlapping(from, 1) };
        // SAFETY: The new block is unpublished and not used again.
        unsafe { free(info.hAllocation) };
        info.hAllocation = block;
    }
    STATUS_SUCCESS
}

/// Releases the memory of each allocation and keeps its block.
unsafe extern "win64-unwind" fn destroy_to_list(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let mut args = unsafe { args.read() };
    // SAFETY: The handle is the adapter's, created in `add_device_with_list`.
    if let Some(known) = unsafe { find::<AdapterWithList>(adapter) } {
        // SAFETY: The kernel passes an array of this length.
        for handle in unsafe { list(args.pAllocationList, args.NumAllocations) } {
            // SAFETY: The handle is the allocation's, which ends here.
            let Some(allocation) = (unsafe { find::<Allocation>(*handle) }) else { continue };
            known.adapter.board().release(allocation.memory);
            if !known.push(*handle) {
                // SAFETY: No later call uses the block.
                unsafe { free(*handle) };
            }
        }
    }
    args.NumAllocations = 0;
    // SAFETY: The arguments come from the kernel, except the list.
    unsafe { destroy_allocation(adapter, &raw const args) }
}

/// Opens as the good driver does, then moves each view into a block of the list.
unsafe extern "win64-unwind" fn open_from_list(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { open_allocation(device, args) };
    // SAFETY: The handle is the device's, and the device outlives the call.
    let known = unsafe { find::<Device>(device) };
    // SAFETY: The adapter was created in `add_device_with_list` and outlives its devices.
    let known = known.and_then(|it| unsafe { find::<AdapterWithList>(it.adapter) });
    let Some(known) = known.filter(|_| status == STATUS_SUCCESS) else { return status };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    for info in unsafe { list_mut(args.pOpenAllocation, args.NumAllocations) } {
        let Some(block) = known.pop() else { break };
        let (from, to) = (value::<View>(info.hDeviceSpecificAllocation), value::<View>(block));
        // SAFETY: Both blocks hold a view; the one of the list belongs to no object.
        unsafe { to.copy_from_nonoverlapping(from, 1) };
        // SAFETY: The new block is unpublished and not used again.
        unsafe { free(info.hDeviceSpecificAllocation) };
        info.hDeviceSpecificAllocation = block;
    }
    STATUS_SUCCESS
}

/// Ends each view and keeps its block.
unsafe extern "win64-unwind" fn close_to_list(
    device: HANDLE,
    args: *const DXGKARG_CLOSEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The handle is the device's, and the device outlives the call.
    let Some(device) = (unsafe { find::<Device>(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The adapter was created in `add_device_with_list` and outlives its devices.
    let Some(known) = (unsafe { find::<AdapterWithList>(device.adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes an array of this length.
    for handle in unsafe { list(args.pOpenHandleList, args.NumAllocations) } {
        // SAFETY: The handle is the view's, which ends here.
        let Some(view) = (unsafe { find::<View>(*handle) }) else { continue };
        known.adapter.board().unmap(device.space, view.name, view.memory);
        if !known.push(*handle) {
            // SAFETY: No later call uses the block.
            unsafe { free(*handle) };
        }
    }
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn stop_and_free_list(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, created in `add_device_with_list`.
    if let Some(known) = unsafe { find::<AdapterWithList>(context) } {
        while let Some(block) = known.pop() {
            // SAFETY: The block belongs to no object.
            unsafe { free(block) };
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { stop_device(context) }
}
