//! What goes wrong in `DxgkDdiGetStandardAllocationDriverData`.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::standard_allocation;
use crate::table::GOOD;
use abi::display::DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};

pub(crate) const EDITS_SURFACE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiGetStandardAllocationDriverData: Some(with_a_pitch),
    ..GOOD
};
pub(crate) const NO_PRIVATE_DATA: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiGetStandardAllocationDriverData: Some(without_bytes),
    ..GOOD
};
pub(crate) const TWO_SIZES: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiGetStandardAllocationDriverData: Some(one_size_more),
    ..GOOD
};
pub(crate) const REFUSES_ITS_OWN: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiGetStandardAllocationDriverData: Some(and_spoil), ..GOOD };

/// Asks for sizes as the good driver does; with the status, whether that was all.
///
/// # Safety
///
/// As of `standard_allocation`.
unsafe fn asked(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> (NTSTATUS, bool) {
    // SAFETY: The caller promises the same.
    let status = unsafe { standard_allocation(adapter, args) };
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    (status, args.pAllocationPrivateDriverData.is_null())
}

/// Writes into the description where only sizes are asked for.
unsafe extern "win64-unwind" fn with_a_pitch(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let (status, sizes) = unsafe { asked(adapter, args) };
    if sizes {
        // SAFETY: It is a structure.
        let surface = unsafe { (*args).gdi() };
        // SAFETY: By its type the union is a pointer to this structure.
        unsafe { (*surface).Pitch = 64 };
    }
    status
}

/// Says that it has no private data, and gives none.
unsafe extern "win64-unwind" fn without_bytes(
    _adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the members are the driver's to write.
    let args = unsafe { &mut *args };
    (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize) = (0, 0);
    abi::status::STATUS_SUCCESS
}

/// Answers another size when it fills the data in.
unsafe extern "win64-unwind" fn one_size_more(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let (status, sizes) = unsafe { asked(adapter, args) };
    if !sizes {
        // SAFETY: It is a structure, and the member is the driver's to write.
        unsafe { (*args).AllocationPrivateDriverDataSize += 1 };
    }
    status
}

/// Fills in a description that its own create does not take.
unsafe extern "win64-unwind" fn and_spoil(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let (status, sizes) = unsafe { asked(adapter, args) };
    if !sizes {
        // SAFETY: It is a structure.
        let data = unsafe { (*args).pAllocationPrivateDriverData };
        // SAFETY: The good entry has just filled it in.
        unsafe { data.cast::<u8>().write(0) };
    }
    status
}
