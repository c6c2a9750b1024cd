//! The way back: what a driver asks about handles in `DXGKRNL_INTERFACE`, under the Windows names.
//!
//! A callback finds its door, says that it was called, looks at the level it finds itself at,
//! and asks the kernel. What a driver points at is copied first.
#![expect(unsafe_code, reason = "a driver calls these, with pointers of its own")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{read, write};
use crate::door::Door;
use crate::interface::row;
use abi::PVOID;
use abi::display::{
    DXGKARG_RELEASE_HANDLE, DXGKARGCB_GETHANDLEDATA, DXGKARGCB_RELEASEHANDLEDATA,
    DXGKCB_GETHANDLEDATAFLAGS,
};
use kernel::handle_table::Handle;
use std::ptr;

/// Answers nothing: at WDDM 2 this is no way to a driver's data.
///
/// WINDOWS: observed, by two projects. Whether the slot is empty or the answer is, nobody says;
/// our reading is the latter (D-58).
pub(crate) extern "win64-unwind" fn DxgkCbGetHandleData(
    _: *const DXGKARGCB_GETHANDLEDATA,
) -> PVOID {
    row::DxgkCbGetHandleData.answer(Door::running, ptr::null_mut(), |_, _| ptr::null_mut())
}

/// Answers the driver's word behind a client's handle, and a number to let it go with.
///
/// WINDOWS: our reading. Any allocation or resource handle will do, and the kind that the
/// driver says is not compared, for its numbers are not published.
///
/// # Safety
///
/// `data` points to a structure, and `release` to a place for a handle; either may be null.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbAcquireHandleData(
    data: *const DXGKARGCB_GETHANDLEDATA,
    release: *mut DXGKARG_RELEASE_HANDLE,
) -> PVOID {
    // SAFETY: The caller promises the same.
    let data = unsafe { read(data) };
    let driver_handle = row::DxgkCbAcquireHandleData.answer(Door::running, None, |door, at| {
        let data = data?;
        let of_device = data.Flags.has(DXGKCB_GETHANDLEDATAFLAGS::DeviceSpecific);
        let kind = data.Type.cast_unsigned();
        door.services().acquire_handle_data(at, Handle(data.hObject), of_device, kind)
    });
    let (driver_handle, number) = driver_handle
        .map_or((None, 0), |(driver_handle, number)| (Some(driver_handle), number as usize));
    // SAFETY: The caller promises the same.
    unsafe { write(release, ptr::without_provenance_mut(number)) };
    driver_handle.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Lets go of what was acquired.
pub(crate) extern "win64-unwind" fn DxgkCbReleaseHandleData(data: DXGKARGCB_RELEASEHANDLEDATA) {
    row::DxgkCbReleaseHandleData.answer(Door::running, (), |door, at| {
        door.services().release_handle_data(
            at,
            data.ReleaseHandle.addr(),
            data.Type.cast_unsigned(),
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_for_no_door_is_answered_with_nothing() {
        assert!(DxgkCbGetHandleData(ptr::null()).is_null());
        let mut release = ptr::without_provenance_mut(1);
        // SAFETY: Null is allowed, and the other is a place for a handle.
        let data = unsafe { DxgkCbAcquireHandleData(ptr::null(), &raw mut release) };
        assert!(data.is_null() && release.is_null());
    }
}
