//! Callbacks about a client's handle: its parent, its children, its capture address.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{read, write};
use crate::door::Door;
use crate::interface::row;
use crate::status::status_from_result;
use abi::display::{DXGKARGCB_ENUMHANDLECHILDREN, DXGKARGCB_GETCAPTUREADDRESS};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use kernel::handle_table::Handle;
use kernel::miniport::DriverError;

/// Returns the handle of the resource of an allocation; zero for an allocation without a resource.
pub(crate) extern "win64-unwind" fn DxgkCbGetHandleParent(
    allocation: D3DKMT_HANDLE,
) -> D3DKMT_HANDLE {
    row::DxgkCbGetHandleParent.answer(Door::running, 0, |door, at| {
        door.services().parent_of(at, Handle(allocation)).map_or(0, |handle| handle.0)
    })
}

/// Returns the handle of a member of a resource; zero after the last.
///
/// # Safety
///
/// `data` is null or points to a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbEnumHandleChildren(
    data: *const DXGKARGCB_ENUMHANDLECHILDREN,
) -> D3DKMT_HANDLE {
    // SAFETY: The caller guarantees the same.
    let data = unsafe { read(data) };
    row::DxgkCbEnumHandleChildren.answer(Door::running, 0, |door, at| {
        let child =
            data.and_then(|args| door.services().child_of(at, Handle(args.hObject), args.Index));
        child.map_or(0, |handle| handle.0)
    })
}

/// Returns the address of an allocation that video is captured into.
///
/// # Safety
///
/// `data` is null or points to a writable structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbGetCaptureAddress(
    data: *mut DXGKARGCB_GETCAPTUREADDRESS,
) -> NTSTATUS {
    let wrong = Err(DriverError::Invalid);
    // SAFETY: The caller guarantees the same.
    let given = unsafe { read(data) };
    let found = row::DxgkCbGetCaptureAddress.answer(Door::running, wrong, |door, at| {
        let Some(given) = given else { return wrong };
        door.services().capture_address(at, Handle(given.hAllocation))
    });
    if let (Ok((segment, address)), Some(given)) = (found, given) {
        let PhysicalAddress = address.cast_signed();
        let text = DXGKARGCB_GETCAPTUREADDRESS { SegmentId: segment, PhysicalAddress, ..given };
        // SAFETY: The caller guarantees the same.
        unsafe { write(data, text) };
    }
    status_from_result(found.map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn outside_a_driver_there_is_no_kin() {
        assert_eq!(DxgkCbGetHandleParent(0x4000_0040), 0);
        // SAFETY: Null is allowed.
        assert_eq!(unsafe { DxgkCbEnumHandleChildren(ptr::null()) }, 0);
    }
}
