//! Bad drivers: accesses outside of pool blocks and to freed ones. Only guarded memory shows all of
//! them, so these drivers fly in a process of their own.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::context::create_device;
use crate::table::GOOD;
use abi::display::DXGKARG_CREATEDEVICE;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::{HANDLE, NTSTATUS};
use nt::{ExAllocatePool2, ExFreePoolWithTag, POOL_FLAG_NON_PAGED};

const TAG: u32 = u32::from_le_bytes(*b"Flaw");
const OTHER_TAG: u32 = u32::from_le_bytes(*b"Walf");
const BYTES: usize = 64;

/// Writes the byte at an offset from the start of a block of 64 bytes.
pub(crate) const fn writes_at<const OFFSET: isize>() -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateDevice: Some(create_device_touching::<OFFSET, false, false>),
        ..GOOD
    }
}

/// Reads the byte at an offset from the start of a block of 64 bytes.
pub(crate) const fn reads_at<const OFFSET: isize>() -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiCreateDevice: Some(create_device_touching::<OFFSET, true, false>),
        ..GOOD
    }
}

pub(crate) const WRITES_FREED: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateDevice: Some(create_device_touching::<8, false, true>),
    ..GOOD
};
pub(crate) const READS_FREED: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateDevice: Some(create_device_touching::<8, true, true>),
    ..GOOD
};
pub(crate) const FREES_TWICE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateDevice: Some(create_device_freeing::<true>), ..GOOD };
pub(crate) const FREES_WITH_WRONG_TAG: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateDevice: Some(create_device_freeing::<false>),
    ..GOOD
};

/// Accesses a byte at an offset from a block, then frees the block, or before that.
unsafe extern "win64-unwind" fn create_device_touching<
    const OFFSET: isize,
    const READ: bool,
    const FREED: bool,
>(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The flags and the size are valid.
    let block = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, BYTES, TAG) };
    if FREED {
        // SAFETY: The block was allocated with this tag.
        unsafe { ExFreePoolWithTag(block, TAG) };
    }
    let at = block.cast::<u8>().wrapping_offset(OFFSET);
    if READ {
        // SAFETY: None; the read is the planted bug.
        let _ = unsafe { at.read_volatile() };
    } else {
        // SAFETY: None; the write is the planted bug.
        unsafe { at.write_volatile(1) };
    }
    if !FREED {
        // SAFETY: The block was allocated with this tag.
        unsafe { ExFreePoolWithTag(block, TAG) };
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { create_device(adapter, args) }
}

/// Frees a block twice, or with a tag that it does not have.
unsafe extern "win64-unwind" fn create_device_freeing<const TWICE: bool>(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The flags and the size are valid.
    let block = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, BYTES, TAG) };
    // SAFETY: The block was allocated; another tag is the planted bug.
    unsafe { ExFreePoolWithTag(block, if TWICE { TAG } else { OTHER_TAG }) };
    if TWICE {
        // SAFETY: None; the second free is the planted bug.
        unsafe { ExFreePoolWithTag(block, TAG) };
    }
    // SAFETY: The arguments are the kernel's.
    unsafe { create_device(adapter, args) }
}
