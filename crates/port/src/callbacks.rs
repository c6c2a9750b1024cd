//! Callbacks of `DXGKRNL_INTERFACE` about handles, under their Windows names.
//!
//! A callback finds its door, logs the call, checks its IRQL, and calls the kernel. Structures of
//! the driver are copied first.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{read, write};
use crate::door::Door;
use crate::interface::row;
use crate::system_handle::HandleKind;
use abi::PVOID;
use abi::display::{
    DXGKARG_RELEASE_HANDLE, DXGKARGCB_GETHANDLEDATA, DXGKARGCB_RELEASEHANDLEDATA,
    DXGKCB_GETHANDLEDATAFLAGS,
};
use flight::RuleId;
use kernel::handle_table::Handle;
use kernel::miniport::Generation;
use std::ptr;

/// Returns the driver handle behind a client's handle to a driver of WDDM 1.x. The kernel keeps the
/// object for the duration of the call only.
///
/// WINDOWS: at WDDM 2 this callback does not return a driver's data (observed by two projects).
/// Whether the slot is empty or the result is NULL is not documented; our reading is the latter
/// (D-58).
///
/// # Safety
///
/// `data` is null or points to a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbGetHandleData(
    data: *const DXGKARGCB_GETHANDLEDATA,
) -> PVOID {
    // SAFETY: The caller guarantees the same.
    let data = unsafe { read(data) };
    let driver_handle = row::DxgkCbGetHandleData.answer(Door::running, None, |door, at| {
        let data = data.filter(|_| door.version().generation() == Generation::One)?;
        let of_device = data.Flags.has(DXGKCB_GETHANDLEDATAFLAGS::DeviceSpecific);
        let (services, kind) = (door.services(), data.Type.cast_unsigned());
        let (driver_handle, number) =
            services.acquire_handle_data(at, Handle(data.hObject), of_device, kind)?;
        services.release_handle_data(at, number as usize, kind);
        Some(driver_handle)
    });
    driver_handle.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Returns the driver handle behind a client's handle, and a number for the release.
///
/// WINDOWS: our reading. Any allocation or resource handle is accepted, and the type that the
/// driver passes is not checked, because its values are not published.
///
/// # Safety
///
/// `data` is null or points to a structure, and `release` is null or valid for the write of a
/// handle.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbAcquireHandleData(
    data: *const DXGKARGCB_GETHANDLEDATA,
    release: *mut DXGKARG_RELEASE_HANDLE,
) -> PVOID {
    // SAFETY: The caller guarantees the same.
    let data = unsafe { read(data) };
    let driver_handle = row::DxgkCbAcquireHandleData.answer(Door::running, None, |door, at| {
        let data = data?;
        let of_device = data.Flags.has(DXGKCB_GETHANDLEDATAFLAGS::DeviceSpecific);
        let kind = data.Type.cast_unsigned();
        door.services().acquire_handle_data(at, Handle(data.hObject), of_device, kind)
    });
    let (driver_handle, number) = driver_handle
        .map_or((None, 0), |(driver_handle, number)| (Some(driver_handle), number as usize));
    // SAFETY: The caller guarantees the same.
    unsafe { write(release, HandleKind::AcquiredData.handle(number)) };
    driver_handle.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Releases what `DxgkCbAcquireHandleData` acquired.
pub(crate) extern "win64-unwind" fn DxgkCbReleaseHandleData(data: DXGKARGCB_RELEASEHANDLEDATA) {
    let row = row::DxgkCbReleaseHandleData;
    row.answer(Door::running, (), |door, at| {
        let (place, kind) = ((row.name, "ReleaseHandle"), HandleKind::AcquiredData);
        let number = door.handle_number(place, data.ReleaseHandle, kind, RuleId::CB_HANDLE_005);
        if let Ok(number) = number {
            door.services().release_handle_data(at, number, data.Type.cast_unsigned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_for_no_door_is_answered_with_nothing() {
        // SAFETY: Null is allowed.
        assert!(unsafe { DxgkCbGetHandleData(ptr::null()) }.is_null());
        let mut release = ptr::without_provenance_mut(1);
        // SAFETY: Null is allowed, and the other pointer is valid for the write of a handle.
        let data = unsafe { DxgkCbAcquireHandleData(ptr::null(), &raw mut release) };
        assert!(data.is_null() && release.is_null());
    }
}
