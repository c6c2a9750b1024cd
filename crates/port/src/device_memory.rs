//! Callbacks about hardware: resources, mappings, configuration space.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{
    CallbackRow, door_from_handle, door_from_handle_with_rule, read_versioned, write,
};
use crate::door::Door;
use crate::interface::row;
use crate::query::judge;
use crate::version::CHILD_STATUS;
use abi::miniport::{
    DXGK_CHILD_STATUS, DXGK_DEVICE_INFO, DXGK_WHICHSPACE_CONFIG, DXGK_WHICHSPACE_ROM,
    DXGKDDI_PROTECTED_CALLBACK, MEMORY_CACHING_TYPE,
};
use abi::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PHYSICAL_ADDRESS, PVOID};
use flight::{CallGuard, EventKind, Hex, Passive, RuleId};
use nt::DeviceRequest;
use std::{ptr, slice};

/// A bad argument or level is an invalid parameter (D-55).
const BAD_ARGUMENT: NTSTATUS = STATUS_INVALID_PARAMETER;

/// Returns the system's information about the adapter.
///
/// # Safety
///
/// `info` is null or valid for the write of a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbGetDeviceInformation(
    handle: HANDLE,
    info: *mut DXGK_DEVICE_INFO,
) -> NTSTATUS {
    let row = row::DxgkCbGetDeviceInformation;
    let door = || door_from_handle_with_rule(handle, RuleId::CB_MEM_003, row.name);
    row.answer(door, BAD_ARGUMENT, |door, _| {
        if info.is_null() {
            return BAD_ARGUMENT;
        }
        let (context, device) = door.device_handles();
        let values = DXGK_DEVICE_INFO {
            MiniportDeviceContext: ptr::with_exposed_provenance_mut(context),
            PhysicalDeviceObject: ptr::with_exposed_provenance_mut(device),
            TranslatedResourceList: door.hardware().resources(),
            ..DXGK_DEVICE_INFO::ZERO
        };
        let count = door.hardware().resource_count();
        DeviceRequest::Resources { by: row.name, count }.record();
        // SAFETY: The caller guarantees the same.
        unsafe { write(info, values) };
        STATUS_SUCCESS
    })
}

/// Maps a range of the adapter's resources for the CPU. WINDOWS: a mapping for an application is
/// the same one here, and every mapping is cached.
///
/// # Safety
///
/// `address` is null or valid for the write of an address.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbMapMemory(
    handle: HANDLE,
    start: PHYSICAL_ADDRESS,
    length: u32,
    ports: BOOLEAN,
    _for_user: BOOLEAN,
    _cache: MEMORY_CACHING_TYPE,
    address: *mut PVOID,
) -> NTSTATUS {
    let row = row::DxgkCbMapMemory;
    row.answer(
        || door_from_handle(handle, row.name),
        BAD_ARGUMENT,
        |door, _| {
            if address.is_null() {
                return BAD_ARGUMENT;
            }
            let inside = ports == 0 && door.hardware().contains(start, length);
            let (physical, bytes) = (start.cast_unsigned(), length.into());
            let (by, mapped) = (row.name, inside);
            DeviceRequest::Mapping { by, start: physical, bytes, mapped }.record();
            let broken = (!inside).then(|| {
                let space = if ports == 0 { "memory" } else { "I/O space" };
                format!(
                    "{length:#x} bytes of {space} at {start:#x} are not in the adapter's resources"
                )
            });
            if !judge(door.services(), RuleId::CB_MEM_001, row.name, broken) {
                return BAD_ARGUMENT;
            }
            let Some(mappings) = door.hardware().map(start, length) else {
                return STATUS_INSUFFICIENT_RESOURCES;
            };
            // SAFETY: The caller guarantees the same.
            unsafe { write(address, ptr::with_exposed_provenance_mut(mappings)) };
            STATUS_SUCCESS
        },
    )
}

/// Unmaps a range.
pub(crate) extern "win64-unwind" fn DxgkCbUnmapMemory(handle: HANDLE, address: PVOID) -> NTSTATUS {
    let row = row::DxgkCbUnmapMemory;
    row.answer(
        || door_from_handle(handle, row.name),
        BAD_ARGUMENT,
        |door, _| {
            // The message does not contain the address, because it differs from run to run.
            let message =
                || "VirtualAddress was not returned by DxgkCbMapMemory, or is already unmapped";
            let broken = (!door.hardware().unmap(address.addr())).then(|| message().to_owned());
            let known = judge(door.services(), RuleId::CB_MEM_002, row.name, broken);
            if known { STATUS_SUCCESS } else { BAD_ARGUMENT }
        },
    )
}

/// Frees the DMA buffers of a stopped driver, unmaps what it still has mapped, and reports that. A write to removed hardware is
/// attributed to the current call.
pub(crate) fn end_mappings(door: &Door, stop: &'static str) {
    door.dma_buffers().clear();
    if door.hardware().is_written_after_removal() {
        CallGuard::touch();
    }
    let left = door.hardware().unmap_all();
    let message = || format!("the adapter is stopped, but {left} mappings were not unmapped");
    judge(
        door.services(),
        RuleId::CB_MEM_002,
        row::DxgkCbMapMemory.name,
        (left != 0).then(message),
    );
    let message = || format!("{stop} returned, but {left} mappings of DxgkCbMapMemory are left");
    judge(door.services(), RuleId::KMD_PNP_005, stop, (left != 0).then(message));
}

/// Reads a space of the device.
///
/// # Safety
///
/// `buffer` is null or has the given length, `count` is null or valid for the write of a number.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbReadDeviceSpace(
    handle: HANDLE,
    kind: u32,
    buffer: PVOID,
    offset: u32,
    length: u32,
    count: *mut u32,
) -> NTSTATUS {
    let copy = |config: &mut [u8], buffer: &mut [u8]| buffer.copy_from_slice(config);
    let request = DeviceSpaceAccess { kind, buffer, offset, length, count };
    // SAFETY: The caller guarantees the same.
    unsafe { request.copy(handle, (&row::DxgkCbReadDeviceSpace, false), copy) }
}

/// Writes to a space of the device.
///
/// # Safety
///
/// As for [`DxgkCbReadDeviceSpace`].
pub(crate) unsafe extern "win64-unwind" fn DxgkCbWriteDeviceSpace(
    handle: HANDLE,
    kind: u32,
    buffer: PVOID,
    offset: u32,
    length: u32,
    count: *mut u32,
) -> NTSTATUS {
    let copy = |config: &mut [u8], buffer: &mut [u8]| config.copy_from_slice(buffer);
    let request = DeviceSpaceAccess { kind, buffer, offset, length, count };
    // SAFETY: The caller guarantees the same.
    unsafe { request.copy(handle, (&row::DxgkCbWriteDeviceSpace, true), copy) }
}

/// An access to a space of the device.
struct DeviceSpaceAccess {
    kind: u32,
    buffer: PVOID,
    offset: u32,
    length: u32,
    count: *mut u32,
}

impl DeviceSpaceAccess {
    /// Copies as many bytes as the space has. WINDOWS: the spaces other than the configuration
    /// space are known and have no bytes here; writes have no effect.
    ///
    /// # Safety
    ///
    /// As for [`DxgkCbReadDeviceSpace`].
    unsafe fn copy(
        self,
        handle: HANDLE,
        (row, writes): (&CallbackRow<Passive>, bool),
        copy: impl Fn(&mut [u8], &mut [u8]),
    ) -> NTSTATUS {
        let name = row.name;
        row.answer(
            || door_from_handle(handle, name),
            BAD_ARGUMENT,
            |door, _| {
                if !judge(door.services(), RuleId::CB_MEM_004, name, self.error()) {
                    return BAD_ARGUMENT;
                }
                if door.hardware().is_surprise_removed() {
                    CallGuard::touch();
                }
                let space = (self.kind != DXGK_WHICHSPACE_CONFIG).then_some(self.kind);
                let (offset, bytes) = (self.offset, self.length);
                DeviceRequest::Space { writes, space, offset, bytes }.record();
                // Two of the four spaces have no published number, so no number is invalid.
                if ![DXGK_WHICHSPACE_CONFIG, DXGK_WHICHSPACE_ROM].contains(&self.kind) {
                    let absent = format!("{name} of space {}", Hex(self.kind));
                    let services = door.services();
                    services.log().emit(services.adapter(), || EventKind::EntryMissing {
                        name: absent.into(),
                    });
                }
                let done = door.hardware().with_config(self.offset, |config| {
                    let there = if self.kind == DXGK_WHICHSPACE_CONFIG { config.len() } else { 0 };
                    let many = there.min(self.length as usize);
                    if many != 0 {
                        // SAFETY: The buffer is not null, and the caller guarantees its bytes.
                        let buffer = unsafe { slice::from_raw_parts_mut(self.buffer.cast(), many) };
                        copy(&mut config[..many], buffer);
                    }
                    u32::try_from(many).unwrap_or(u32::MAX)
                });
                // SAFETY: The caller guarantees the same.
                unsafe { write(self.count, done) };
                STATUS_SUCCESS
            },
        )
    }

    fn error(&self) -> Option<String> {
        if self.count.is_null() {
            return Some("there is no place for the count of bytes".to_owned());
        }
        let missing = self.buffer.is_null() && self.length != 0;
        missing.then(|| format!("Buffer is NULL, and Length is {}", self.length))
    }
}

/// Receives the status of a child. It has no effect, because there is no display output.
///
/// # Safety
///
/// `status` is null or points to a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbIndicateChildStatus(
    handle: HANDLE,
    status: *const DXGK_CHILD_STATUS,
) -> NTSTATUS {
    let row = row::DxgkCbIndicateChildStatus;
    // SAFETY: The caller guarantees the same.
    let status = unsafe { read_versioned(status, &CHILD_STATUS, DXGK_CHILD_STATUS::ZERO) };
    let known = if status.is_some() { STATUS_SUCCESS } else { BAD_ARGUMENT };
    row.answer(|| door_from_handle(handle, row.name), BAD_ARGUMENT, |_, _| known)
}

/// Fails: access to an adapter is never excluded.
pub(crate) extern "win64-unwind" fn DxgkCbExcludeAdapterAccess(
    handle: HANDLE,
    _attributes: u32,
    _callback: Option<DXGKDDI_PROTECTED_CALLBACK>,
    _context: PVOID,
) -> NTSTATUS {
    let row = row::DxgkCbExcludeAdapterAccess;
    row.answer(
        || door_from_handle(handle, row.name),
        BAD_ARGUMENT,
        |door, _| {
            let services = door.services();
            services
                .log()
                .emit(services.adapter(), || EventKind::EntryMissing { name: row.name.into() });
            STATUS_NOT_SUPPORTED
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_for_no_door_is_refused() {
        let (unknown, null) = (ptr::without_provenance_mut(usize::MAX), ptr::null_mut());
        assert_eq!(DxgkCbUnmapMemory(unknown, null), BAD_ARGUMENT);
        assert_eq!(DxgkCbExcludeAdapterAccess(unknown, 0, None, null), BAD_ARGUMENT);
        let mut at = ptr::without_provenance_mut(7);
        // SAFETY: The pointer is valid for the write of an address.
        let status = unsafe { DxgkCbMapMemory(unknown, 0, 1, 0, 0, 0, &raw mut at) };
        assert_eq!((status, at.addr()), (BAD_ARGUMENT, 7));
        // SAFETY: Null is allowed.
        assert_eq!(unsafe { DxgkCbGetDeviceInformation(unknown, ptr::null_mut()) }, BAD_ARGUMENT);
        // SAFETY: Null is allowed.
        assert_eq!(unsafe { DxgkCbIndicateChildStatus(unknown, ptr::null()) }, BAD_ARGUMENT);
    }

    #[test]
    fn a_space_has_places() {
        let mut count = 0;
        let request = |kind, length, count| {
            DeviceSpaceAccess { kind, buffer: ptr::null_mut(), offset: 0, length, count }.error()
        };
        let count = &raw mut count;
        assert_eq!(request(DXGK_WHICHSPACE_ROM, 0, count), None);
        assert!(request(0, 4, count).unwrap().starts_with("Buffer is NULL"));
        assert!(request(0, 0, ptr::null_mut()).unwrap().starts_with("there is no place"));
    }
}
