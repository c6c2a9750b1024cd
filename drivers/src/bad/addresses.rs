//! Drivers with a table that get page tables wrong.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::addresses::{VIRTUAL, build_with_tables, set_root_page_table};
use abi::display::{
    DXGK_OPERATION_UPDATE_PAGE_TABLE, DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
    DXGK_UPDATEPAGETABLEFLAGS as UpdateFlags, DXGKARG_BUILDPAGINGBUFFER, DXGKARG_SETROOTPAGETABLE,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::STATUS_SUCCESS;
use abi::{HANDLE, NTSTATUS};

pub(crate) const READS_ON: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiBuildPagingBuffer: Some(build_without_repeat), ..VIRTUAL };

pub(crate) const COUNTS_A_BUFFER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiBuildPagingBuffer: Some(build_and_count), ..VIRTUAL };

pub(crate) const ROUNDS_ENTRIES: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiSetRootPageTable: Some(set_all_entries), ..VIRTUAL };

/// Reads as many entries as it writes, also where there is one to repeat.
unsafe extern "win64-unwind" fn build_without_repeat(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the driver's for the call.
    let given = unsafe { &mut *args };
    if given.Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: The operation says which member it is.
        let about = unsafe { &mut given.About.UpdatePageTable };
        about.Flags.Value &= !UpdateFlags::Repeat;
    }
    // SAFETY: The arguments are the kernel's; behind the entry lies as much of its guard.
    unsafe { build_with_tables(adapter, args) }
}

/// Says of an update by the CPU that it wrote commands.
unsafe extern "win64-unwind" fn build_and_count(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { build_with_tables(adapter, args) };
    // SAFETY: It is a structure, and the driver's for the call.
    let given = unsafe { &mut *args };
    if status == STATUS_SUCCESS && given.Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: The operation says which member it is.
        let mode = unsafe { given.About.UpdatePageTable.UpdateMode };
        if mode == DXGK_PAGETABLEUPDATE_CPU_VIRTUAL {
            given.pDmaBuffer = given.pDmaBuffer.wrapping_byte_add(8);
        }
    }
    status
}

/// Takes it that a root has as many entries as two pages hold.
unsafe extern "win64-unwind" fn set_all_entries(
    adapter: HANDLE,
    args: *const DXGKARG_SETROOTPAGETABLE,
) {
    // SAFETY: It is a structure.
    let mut given = unsafe { args.read() };
    given.NumEntries = given.NumEntries.max(1024);
    // SAFETY: The arguments are the kernel's, but for a number.
    unsafe { set_root_page_table(adapter, &raw const given) };
}
