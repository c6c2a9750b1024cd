//! The good table driver, which also uses the callbacks about its hardware and about handles.
//!
//! A callback result that differs from the documentation fails the entry that called it.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::bad::create::with_flags;
use crate::block::{find, list, pointer};
use crate::context::device_and_adapter;
use crate::setup::BOARD_ID;
use crate::table::{Adapter, GOOD, dpc_routine, start_device, stop_device};
use crate::view::open_allocation;
use abi::display::{
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as FlagsWddm2, DXGKARG_OPENALLOCATION,
    DXGKARGCB_ENUMHANDLECHILDREN, DXGKARGCB_GETCAPTUREADDRESS,
};
use abi::miniport::{
    CM_PARTIAL_RESOURCE_DESCRIPTOR, DRIVER_INITIALIZATION_DATA, DXGK_CHILD_STATUS,
    DXGK_DEVICE_INFO, DXGK_START_INFO, DXGK_WHICHSPACE_CONFIG, DXGKRNL_INTERFACE, MmNonCached,
};
use abi::status::{STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use abi::{D3DKMT_HANDLE, HANDLE, NTSTATUS, PHYSICAL_ADDRESS, PVOID};
use std::ptr;

pub(crate) const HANDLE_QUERIES: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiStartDevice: Some(start_and_map),
    DxgkDdiStopDevice: Some(unmap_and_stop),
    DxgkDdiCreateAllocation: Some(with_flags::<{ FlagsWddm2::Capture }>),
    DxgkDdiOpenAllocation: Some(open_with_handle_queries),
    DxgkDdiDpcRoutine: Some(dpc_and_indicate),
    ..GOOD
};

/// A register that keeps the bits last written, and the bits to write.
const REGISTER: usize = 0x20;
const BITS: u32 = 0x5eed_f00d;

/// Finds its registers, maps them and writes to one; reads the vendor from configuration space.
unsafe extern "win64-unwind" fn start_and_map(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { start_device(context, info, interface, sources, children) };
    // SAFETY: The handle is the adapter's.
    let Some(adapter) = (unsafe { pointer::<Adapter>(context) }) else { return status };
    // SAFETY: The adapter exists, and no other call uses it.
    let it = unsafe { &mut *adapter };
    let mut id = [0; 4];
    let read = (config(it, 0, &mut id), id) == (4, BOARD_ID) && config(it, 254, &mut id) == 2;
    let Some((start, length)) = registers(it, context) else { return STATUS_UNSUCCESSFUL };
    let Ok(mapped) = map(it, start, length) else { return STATUS_UNSUCCESSFUL };
    it.registers = mapped;
    let register = it.registers.wrapping_byte_add(REGISTER).cast::<u32>();
    // SAFETY: The register lies inside the mapping and is aligned.
    unsafe { register.write_volatile(BITS) };
    // SAFETY: As above.
    let kept = unsafe { register.read_volatile() } == BITS;
    if read && kept { status } else { STATUS_UNSUCCESSFUL }
}

/// Unmaps the registers.
unsafe extern "win64-unwind" fn unmap_and_stop(context: PVOID) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, which is freed in `remove_device`.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        unmap(it, it.registers);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { stop_device(context) }
}

/// Finds each allocation among the members of its resource, and requests its capture address: it
/// has none, because the board has no segments.
unsafe extern "win64-unwind" fn open_with_handle_queries(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    // SAFETY: The kernel passes an array of this length.
    let infos = unsafe { list(given.pOpenAllocation, given.NumAllocations) };
    // SAFETY: The handle is the device's, and the device outlives the call.
    if let Some((_, it)) = unsafe { device_and_adapter(device) } {
        let bad_segment_set = |name: D3DKMT_HANDLE| match parent(it, name) {
            0 => false,
            resource => !members(it, resource).contains(&name),
        };
        for info in infos {
            capture(it, info.hAllocation);
        }
        if infos.iter().any(|info| bad_segment_set(info.hAllocation)) {
            return STATUS_UNSUCCESSFUL;
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { open_allocation(device, args) }
}

/// Reports a connected display in its DPC.
unsafe extern "win64-unwind" fn dpc_and_indicate(context: PVOID) {
    // SAFETY: The handle is the adapter's, and the adapter outlives its interrupts.
    if let Some(it) = unsafe { find::<Adapter>(context) } {
        indicate(it);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { dpc_routine(context) };
}

/// Returns the address of the registers, if the reported resources are correct.
pub(crate) fn registers(it: &Adapter, context: PVOID) -> Option<(PHYSICAL_ADDRESS, u32)> {
    let mut info = DXGK_DEVICE_INFO::ZERO;
    let call = it.interface.DxgkCbGetDeviceInformation?;
    // SAFETY: Both are the kernel's, and `info` outlives the call.
    let status = unsafe { call(it.interface.DeviceHandle, &raw mut info) };
    if status != STATUS_SUCCESS || info.MiniportDeviceContext != context {
        return None;
    }
    // SAFETY: The kernel passes a list of at least the stated length and keeps it.
    let list = unsafe { info.TranslatedResourceList.read_unaligned() };
    let partial = list.List.PartialResourceList;
    let CM_PARTIAL_RESOURCE_DESCRIPTOR { Start, Length, .. } = partial.PartialDescriptors;
    (partial.Count == 1).then_some((Start, Length))
}

/// Maps a range.
pub(crate) fn map(it: &Adapter, start: PHYSICAL_ADDRESS, bytes: u32) -> Result<PVOID, NTSTATUS> {
    let call = it.interface.DxgkCbMapMemory.ok_or(STATUS_UNSUCCESSFUL)?;
    let mut address = ptr::null_mut();
    let handle = it.interface.DeviceHandle;
    // SAFETY: Both are the kernel's, and `address` outlives the call.
    let status = unsafe { call(handle, start, bytes, 0, 0, MmNonCached, &raw mut address) };
    if status == STATUS_SUCCESS { Ok(address) } else { Err(status) }
}

/// Unmaps a range.
pub(crate) fn unmap(it: &Adapter, address: PVOID) {
    if let Some(call) = it.interface.DxgkCbUnmapMemory {
        // SAFETY: The function and its argument come from the kernel.
        unsafe { call(it.interface.DeviceHandle, address) };
    }
}

/// Reads configuration space. Returns the number of bytes read.
fn config(it: &Adapter, offset: u32, buffer: &mut [u8; 4]) -> u32 {
    space(it, DXGK_WHICHSPACE_CONFIG, offset, buffer)
}

/// Reads a space of the device. Returns the number of bytes read.
pub(crate) fn space(it: &Adapter, kind: u32, offset: u32, buffer: &mut [u8; 4]) -> u32 {
    let Some(call) = it.interface.DxgkCbReadDeviceSpace else { return 0 };
    let (handle, mut count) = (it.interface.DeviceHandle, 0);
    // SAFETY: Both are the kernel's; the outputs outlive the call.
    unsafe { call(handle, kind, buffer.as_mut_ptr().cast(), offset, 4, &raw mut count) };
    count
}

/// Requests the capture address of an allocation.
pub(crate) fn capture(it: &Adapter, name: D3DKMT_HANDLE) {
    let Some(call) = it.interface.DxgkCbGetCaptureAddress else { return };
    let mut request =
        DXGKARGCB_GETCAPTUREADDRESS { hAllocation: name, ..DXGKARGCB_GETCAPTUREADDRESS::ZERO };
    // SAFETY: The function is the kernel's, and `asked` outlives the call.
    unsafe { call(&raw mut request) };
}

/// Returns the resource of an allocation.
pub(crate) fn parent(it: &Adapter, name: D3DKMT_HANDLE) -> D3DKMT_HANDLE {
    let Some(call) = it.interface.DxgkCbGetHandleParent else { return 0 };
    // SAFETY: The function is the kernel's.
    unsafe { call(name) }
}

/// Returns the allocations of a resource.
pub(crate) fn members(it: &Adapter, resource: D3DKMT_HANDLE) -> Vec<D3DKMT_HANDLE> {
    let Some(call) = it.interface.DxgkCbEnumHandleChildren else { return Vec::new() };
    let member = |index| {
        let request = DXGKARGCB_ENUMHANDLECHILDREN { hObject: resource, Index: index };
        // SAFETY: The function is the kernel's, and `asked` outlives the call.
        unsafe { call(&raw const request) }
    };
    (0..u32::MAX).map(member).take_while(|number| *number != 0).collect()
}

/// Reports a connected display.
pub(crate) fn indicate(it: &Adapter) {
    let Some(call) = it.interface.DxgkCbIndicateChildStatus else { return };
    let status = DXGK_CHILD_STATUS { Type: 1, ChildUid: 0, Data: [1, 0] };
    // SAFETY: Both are the kernel's, and `status` outlives the call.
    unsafe { call(it.interface.DeviceHandle, &raw const status) };
}
