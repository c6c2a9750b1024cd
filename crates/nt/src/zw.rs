//! Handles and the loading of drivers (`ZwClose`, `ZwLoadDriver`), under their Windows names.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::entry::{guarded, judge_irql};
use crate::handles;
use crate::import_table::import_rows;
use crate::rtl_string::CountedString;
use crate::status::{
    STATUS_IMAGE_ALREADY_LOADED, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_HANDLE,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use abi::{HANDLE, NTSTATUS, PVOID};

import_rows! {
    ZwClose;
    ZwLoadDriver lacks "knows the graphics kernel only";
    ZwUnloadDriver lacks "knows the graphics kernel only";
}

/// The end of the service key of the graphics kernel.
const GRAPHICS_KERNEL: &str = r"\SERVICES\DXGKRNL";

/// Closes a handle.
pub unsafe extern "win64-unwind" fn ZwClose(handle: HANDLE) -> NTSTATUS {
    judge_irql("ZwClose");
    let closed = guarded(false, || handles::close(handle.addr()));
    if closed { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
}

/// Loads a driver by its service key. The graphics kernel is loaded; there is no other driver.
pub unsafe extern "win64-unwind" fn ZwLoadDriver(service: PVOID) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let service = unsafe { CountedString::at(service) };
    name_status("ZwLoadDriver", service, STATUS_IMAGE_ALREADY_LOADED)
}

/// Unloads a driver. The graphics kernel cannot be unloaded; there is no other driver.
pub unsafe extern "win64-unwind" fn ZwUnloadDriver(service: PVOID) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let service = unsafe { CountedString::at(service) };
    name_status("ZwUnloadDriver", service, STATUS_INVALID_DEVICE_REQUEST)
}

fn name_status(import: &'static str, service: CountedString, known: NTSTATUS) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql(import);
        let graphics = service.text().to_uppercase().ends_with(GRAPHICS_KERNEL);
        if graphics { known } else { STATUS_OBJECT_NAME_NOT_FOUND }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{TestString, call, count, fly};

    #[test]
    fn the_graphics_kernel_is_loaded_already() {
        let events = fly(|| {
            let services = r"\Registry\Machine\System\CurrentControlSet\Services\";
            let load = |name: &str| {
                let mut path = TestString::new(&format!("{services}{name}"));
                call!(ZwLoadDriver, path.pointer())
            };
            assert_eq!(load("DXGKrnl"), STATUS_IMAGE_ALREADY_LOADED);
            assert_eq!(load("Other"), STATUS_OBJECT_NAME_NOT_FOUND);
            let mut path = TestString::new(&format!("{services}DXGKrnl"));
            let status = call!(ZwUnloadDriver, path.pointer());
            assert_eq!(status, STATUS_INVALID_DEVICE_REQUEST);
        });
        assert_eq!(count(&events, "rule.broken"), 0);
    }

    #[test]
    fn a_handle_is_closed_once() {
        let handle = handles::open(std::sync::Arc::new(7_u8));
        let handle: HANDLE = std::ptr::without_provenance_mut(handle);
        assert_eq!(call!(ZwClose, handle), STATUS_SUCCESS);
        assert_eq!(call!(ZwClose, handle), STATUS_INVALID_HANDLE);
    }
}
