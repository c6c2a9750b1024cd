//! Bad table drivers: page tables and reserved addresses.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::find;
use crate::gpummu::{
    GPUMMU, build_with_tables, create_process, destroy_process, keep, kernel_handle,
    leaf_table_span, set_root_page_table,
};
use crate::table::Adapter;
use abi::display::{
    DXGK_OPERATION_UPDATE_PAGE_TABLE, DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
    DXGK_UPDATEPAGETABLEFLAGS as UpdateFlags, DXGKARG_BUILDPAGINGBUFFER, DXGKARG_CREATEPROCESS,
    DXGKARG_SETROOTPAGETABLE, DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE as Range,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};

pub(crate) const READS_REPEATED_ENTRIES: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiBuildPagingBuffer: Some(reads_repeated_entries), ..GPUMMU };

pub(crate) const OMITS_SUBMIT_COMMAND: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiSubmitCommand: None, ..GPUMMU };

pub(crate) const COUNTS_CPU_UPDATE_COMMANDS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiBuildPagingBuffer: Some(counts_cpu_update_commands),
        ..GPUMMU
    };

pub(crate) const ROUNDS_ROOT_ENTRIES: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiSetRootPageTable: Some(rounds_root_entries), ..GPUMMU };

pub(crate) const RESERVES_RANGE_AT_DESTROY: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiDestroyProcess: Some(reserves_range_at_destroy), ..GPUMMU };

pub(crate) const RESERVES_RANGE_OF_ADAPTER: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateProcess: Some(reserves_range_of_adapter), ..GPUMMU };

pub(crate) const RESERVES_SMALL_RANGE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateProcess: Some(reserves_small_range), ..GPUMMU };

pub(crate) const RESERVES_MISALIGNED_RANGE: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateProcess: Some(reserves_misaligned_range), ..GPUMMU };

/// Reserves addresses of a process that is being destroyed.
unsafe extern "win64-unwind" fn reserves_range_at_destroy(
    handle: HANDLE,
    process: HANDLE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let adapter = unsafe { find::<Adapter>(handle) };
    // SAFETY: The handle is the process's, which is freed after this.
    let name = unsafe { kernel_handle(process) };
    if let Some((adapter, name)) = adapter.zip(name) {
        // The request fails and has no effect.
        let _ = keep(adapter, reserve_args(adapter, name));
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { destroy_process(handle, process) }
}

fn reserve_args(adapter: &Adapter, process: HANDLE) -> Range {
    let span = leaf_table_span(adapter);
    let alignment = u32::try_from(span).unwrap_or(0);
    Range { hDxgkProcess: process, SizeInBytes: span, Alignment: alignment, ..Range::ZERO }
}

/// Passes the handle of the adapter where that of the process is required.
unsafe extern "win64-unwind" fn reserves_range_of_adapter(
    handle: HANDLE,
    args: *mut DXGKARG_CREATEPROCESS,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(adapter) = (unsafe { find::<Adapter>(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let adapter = adapter.interface.DeviceHandle;
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_with(handle, args, |args| args.hDxgkProcess = adapter) }
}

/// Reserves a page of a process.
unsafe extern "win64-unwind" fn reserves_small_range(
    handle: HANDLE,
    args: *mut DXGKARG_CREATEPROCESS,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_with(handle, args, |args| args.SizeInBytes = 4096) }
}

/// Requests an alignment that is not a power of two.
unsafe extern "win64-unwind" fn reserves_misaligned_range(
    handle: HANDLE,
    args: *mut DXGKARG_CREATEPROCESS,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_with(handle, args, |args| args.Alignment *= 3) }
}

/// Requests an invalid range, which fails, then continues as the good driver does.
///
/// # Safety
///
/// The arguments come from the kernel.
unsafe fn create_with(
    handle: HANDLE,
    args: *mut DXGKARG_CREATEPROCESS,
    wrong: impl FnOnce(&mut Range),
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    if let Some(adapter) = unsafe { find::<Adapter>(handle) } {
        // SAFETY: The kernel passes a valid structure that only the driver uses.
        let mut range = reserve_args(adapter, unsafe { (*args).hDxgkProcess });
        wrong(&mut range);
        let _ = keep(adapter, range);
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { create_process(handle, args) }
}

/// Reads as many entries as it writes, even if one entry is repeated.
unsafe extern "win64-unwind" fn reads_repeated_entries(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let given = unsafe { &mut *args };
    if given.Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: The operation selects the union member.
        let about = unsafe { &mut given.About.UpdatePageTable };
        about.Flags.Value &= !UpdateFlags::Repeat;
    }
    // SAFETY: The arguments come from the kernel; the guard behind the entry is long enough.
    unsafe { build_with_tables(adapter, args) }
}

/// Returns a written size for an update by the CPU.
unsafe extern "win64-unwind" fn counts_cpu_update_commands(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { build_with_tables(adapter, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let given = unsafe { &mut *args };
    if status == STATUS_SUCCESS && given.Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: The operation selects the union member.
        let mode = unsafe { given.About.UpdatePageTable.UpdateMode };
        if mode == DXGK_PAGETABLEUPDATE_CPU_VIRTUAL {
            given.pDmaBuffer = given.pDmaBuffer.wrapping_byte_add(8);
        }
    }
    status
}

/// Assumes that a root page table has as many entries as two pages hold.
unsafe extern "win64-unwind" fn rounds_root_entries(
    adapter: HANDLE,
    args: *const DXGKARG_SETROOTPAGETABLE,
) {
    // SAFETY: The kernel passes a valid structure.
    let mut given = unsafe { args.read() };
    given.NumEntries = given.NumEntries.max(1024);
    // SAFETY: The arguments come from the kernel, except one number.
    unsafe { set_root_page_table(adapter, &raw const given) };
}
