//! The table driver on a board with virtual addresses: processes, root page tables, page tables.
//! Everything else is the table driver with memory.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, find, free, list, take};
use crate::memory::{ContextWithArea, MEMORY, build_paging_buffer, context, query_memory};
use crate::operation::OperationData;
use crate::table::Adapter;
use abi::display::{
    DXGK_DRIVERCAPS, DXGK_GPUMMUCAPS, DXGK_GPUMMUCAPS_FLAGS as Caps,
    DXGK_OPERATION_UPDATE_PAGE_TABLE, DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
    DXGK_PAGETABLEUPDATE_GPU_PHYSICAL, DXGK_PAGETABLEUPDATE_GPU_VIRTUAL,
    DXGK_QUERYPAGETABLELEVELDESCIN, DXGK_VIDMMCAPS_FLAGS as Memory, DXGKARG_BUILDPAGINGBUFFER,
    DXGKARG_CREATEPROCESS, DXGKARG_GETROOTPAGETABLESIZE, DXGKARG_MAPCPUHOSTAPERTURE,
    DXGKARG_QUERYADAPTERINFO, DXGKARG_SETROOTPAGETABLE, DXGKARG_UNMAPCPUHOSTAPERTURE,
    DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE,
    DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE_FLAGS as RangeFlags, DXGKQAITYPE_DRIVERCAPS,
    DXGKQAITYPE_GPUMMUCAPS, DXGKQAITYPE_PAGETABLELEVELDESC,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{
    STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::{HANDLE, NTSTATUS};
use flight::TableRoot;
use kernel::mmu::{TableAddress, UpdateMode};
use kernel::operation::Operation;
use softgpu::{LOCAL, MmuPlan, encode_entry};
use std::ptr;

/// The driver.
pub(crate) const GPUMMU: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryAdapterInfo: Some(query_tables),
    DxgkDdiCreateProcess: Some(create_process),
    DxgkDdiDestroyProcess: Some(destroy_process),
    DxgkDdiGetRootPageTableSize: Some(root_page_table_size),
    DxgkDdiSetRootPageTable: Some(set_root_page_table),
    DxgkDdiMapCpuHostAperture: Some(map_cpu_host_aperture),
    DxgkDdiUnmapCpuHostAperture: Some(unmap_cpu_host_aperture),
    DxgkDdiBuildPagingBuffer: Some(build_with_tables),
    ..MEMORY
};

/// A process (`hKmdProcess`).
#[repr(C)]
struct Process {
    /// The kernel's handle of the process.
    kernel: HANDLE,
}

impl Kind for Process {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"proc");
}

unsafe extern "win64-unwind" fn query_tables(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let request = unsafe { args.read() };
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    let Some(features) = known.and_then(|adapter| adapter.board().mmu).map(MmuPlan::features)
    else {
        return STATUS_NOT_SUPPORTED;
    };
    match request.Type {
        DXGKQAITYPE_GPUMMUCAPS => {
            let caps = DXGK_GPUMMUCAPS {
                Flags: Caps {
                    Value: Caps::ReadOnlyMemorySupported
                        | Caps::NoExecuteMemorySupported
                        | Caps::ZeroInPteSupported,
                },
                PageTableUpdateMode: match features.mode {
                    UpdateMode::Cpu => DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
                    UpdateMode::Virtual => DXGK_PAGETABLEUPDATE_GPU_VIRTUAL,
                    UpdateMode::Physical => DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
                },
                VirtualAddressBitCount: features.address_bits,
                PageTableLevelCount: u32::try_from(features.levels.len()).unwrap_or(0),
                ..DXGK_GPUMMUCAPS::ZERO
            };
            // SAFETY: The output buffer is that structure, and only the driver uses it.
            unsafe { request.pOutputData.cast::<DXGK_GPUMMUCAPS>().write(caps) };
            STATUS_SUCCESS
        }
        DXGKQAITYPE_PAGETABLELEVELDESC => {
            let input = request.pInputData.cast::<DXGK_QUERYPAGETABLELEVELDESCIN>();
            // SAFETY: The input buffer is that structure.
            let level = usize::from(unsafe { (*input).LevelIndex });
            let Some(level) = features.levels.get(level) else { return STATUS_INVALID_PARAMETER };
            let text = DXGK_PAGE_TABLE_LEVEL_DESC {
                PageTableIndexBitCount: level.index_bits,
                PageTableSegmentId: level.segment,
                PagingProcessPageTableSegmentId: level.system_segment,
                PageTableSizeInBytes: level.bytes,
                PageTableAlignmentInBytes: level.alignment,
            };
            // SAFETY: The output buffer is that structure, and only the driver uses it.
            unsafe { request.pOutputData.cast::<DXGK_PAGE_TABLE_LEVEL_DESC>().write(text) };
            STATUS_SUCCESS
        }
        DXGKQAITYPE_DRIVERCAPS => {
            // SAFETY: The arguments come from the kernel and are valid for the call.
            let status = unsafe { query_memory(adapter, args) };
            if status == STATUS_SUCCESS {
                // SAFETY: The output buffer is that structure, and only the driver uses it.
                let caps = unsafe { &mut *request.pOutputData.cast::<DXGK_DRIVERCAPS>() };
                caps.MemoryManagementCaps.Flags.Value |=
                    Memory::VirtualAddressingSupported | Memory::GpuMmuSupported;
            }
            status
        }
        // SAFETY: The arguments come from the kernel and are valid for the call.
        _ => unsafe { query_memory(adapter, args) },
    }
}

/// The bytes of address space that one leaf page table of the board translates.
pub(crate) fn leaf_table_span(adapter: &Adapter) -> u64 {
    let levels = adapter.board().mmu.map(|mmu_plan| mmu_plan.features().levels).unwrap_or_default();
    levels.first().map_or(0, |table_level| 4096 << table_level.index_bits)
}

/// Calls `DxgkCbReserveGpuVirtualAddressRange` and returns the address.
pub(crate) fn keep(
    adapter: &Adapter,
    mut args: DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE,
) -> Result<u64, NTSTATUS> {
    let call = adapter.interface.DxgkCbReserveGpuVirtualAddressRange;
    let call = call.ok_or(STATUS_NOT_SUPPORTED)?;
    // SAFETY: The function and the handle are the kernel's; `args` outlives the call.
    match unsafe { call(adapter.interface.DeviceHandle, &raw mut args) } {
        STATUS_SUCCESS => Ok(args.StartVirtualAddress),
        status => Err(status),
    }
}

/// Reserves a range for the driver, and a range behind it that clients may use, too.
pub(crate) unsafe extern "win64-unwind" fn create_process(
    handle: HANDLE,
    args: *mut DXGKARG_CREATEPROCESS,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(adapter) = (unsafe { find::<Adapter>(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    let span = leaf_table_span(adapter);
    let own = DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE {
        hDxgkProcess: args.hDxgkProcess,
        SizeInBytes: 2 * span,
        Alignment: u32::try_from(2 * span).unwrap_or(0),
        ..DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE::ZERO
    };
    let shown = |start| DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE {
        BaseAddress: start + 2 * span,
        SizeInBytes: span,
        Flags: RangeFlags { Value: RangeFlags::AllowUserModeMapping },
        ..own
    };
    if let Err(status) = keep(adapter, own).and_then(|start| keep(adapter, shown(start))) {
        return status;
    }
    args.hKmdProcess = take(Process { kernel: args.hDxgkProcess });
    if args.hKmdProcess.is_null() { STATUS_NO_MEMORY } else { STATUS_SUCCESS }
}

/// Returns the kernel's handle of a process.
///
/// # Safety
///
/// The handle is a process's that has not been destroyed.
pub(crate) unsafe fn kernel_handle(process: HANDLE) -> Option<HANDLE> {
    // SAFETY: The caller upholds this function's contract.
    unsafe { find::<Process>(process) }.map(|process| process.kernel)
}

pub(crate) unsafe extern "win64-unwind" fn destroy_process(
    _adapter: HANDLE,
    process: HANDLE,
) -> NTSTATUS {
    // SAFETY: The handle is the process's, which is freed here.
    if unsafe { find::<Process>(process) }.is_none() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: No later call uses the block.
    unsafe { free(process) };
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn root_page_table_size(
    adapter: HANDLE,
    args: *mut DXGKARG_GETROOTPAGETABLESIZE,
) -> usize {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let plan = unsafe { find::<Adapter>(adapter) }.and_then(|adapter| adapter.board().mmu);
    let Some(size) = plan.map(|mmu_plan| mmu_plan.root_size(args.NumberOfPte)) else { return 0 };
    args.NumberOfPte = size.entries;
    usize::try_from(size.bytes).unwrap_or(0)
}

/// The owner of the pages does not matter: page tables belong to no process.
unsafe extern "win64-unwind" fn map_cpu_host_aperture(
    adapter: HANDLE,
    args: *const DXGKARG_MAPCPUHOSTAPERTURE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    let count = u32::try_from(args.NumberOfPages).unwrap_or(0);
    // SAFETY: The kernel passes an array of this length.
    let window = unsafe { list(args.pCpuHostAperturePages, count) };
    // SAFETY: As above.
    let memory = unsafe { list(args.pMemorySegmentPages, count) };
    let pairs: Vec<(u64, u64)> =
        window.iter().map(|number| u64::from(*number)).zip(memory.iter().copied()).collect();
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    let shown = known.is_some_and(|adapter| adapter.board().gpu.map_host_aperture(&pairs));
    if shown && u32::from(args.SegmentId) == LOCAL {
        STATUS_SUCCESS
    } else {
        STATUS_INVALID_PARAMETER
    }
}

unsafe extern "win64-unwind" fn unmap_cpu_host_aperture(
    adapter: HANDLE,
    args: *const DXGKARG_UNMAPCPUHOSTAPERTURE,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    let count = u32::try_from(args.NumberOfPages).unwrap_or(0);
    // SAFETY: The kernel passes an array of this length.
    let window = unsafe { list(args.pCpuHostAperturePages, count) };
    let pages: Vec<u64> = window.iter().map(|number| u64::from(*number)).collect();
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    let hidden = known.is_some_and(|adapter| adapter.board().gpu.unmap_host_aperture(&pages));
    if hidden { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

/// Records the system context here, because it gets no packet.
pub(crate) unsafe extern "win64-unwind" fn set_root_page_table(
    _adapter: HANDLE,
    args: *const DXGKARG_SETROOTPAGETABLE,
) {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The handle is the context's, and the context outlives the call.
    let Some((ContextWithArea { number, area, .. }, _, adapter)) =
        (unsafe { context(args.hContext) })
    else {
        return;
    };
    let root = TableRoot {
        segment: args.Address.SegmentId,
        offset: args.Address.SegmentOffset,
        entries: args.NumEntries,
    };
    let state = &mut *adapter.board().state();
    state.roots.insert(*number, root);
    if area.is_null() {
        state.system = Some(root);
    }
}

pub(crate) unsafe extern "win64-unwind" fn build_with_tables(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let given = unsafe { &*args };
    if given.Operation != DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: The arguments come from the kernel and are valid for the call.
        return unsafe { build_paging_buffer(adapter, args) };
    }
    // SAFETY: The operation's pointers are valid for the call.
    let data = unsafe { OperationData::read(given) };
    // SAFETY: As above.
    let Some(Operation::UpdateTable(it)) = (unsafe { data.operation(given) }) else {
        return STATUS_NOT_SUPPORTED;
    };
    let TableAddress::Cpu(start) = it.table else {
        // SAFETY: The arguments come from the kernel and are valid for the call.
        return unsafe { build_paging_buffer(adapter, args) };
    };
    let Ok(start) = usize::try_from(start) else { return STATUS_INVALID_PARAMETER };
    let table: *mut u64 = ptr::with_exposed_provenance_mut(start);
    for index in 0..it.count {
        let at = if it.repeat { 0 } else { index as usize };
        let Some(entry) = it.entries.get(at) else { return STATUS_INVALID_PARAMETER };
        let place = table.wrapping_byte_add((it.first + index) as usize * size_of::<u64>());
        // SAFETY: The kernel has mapped the whole table.
        unsafe { place.write_volatile(encode_entry(entry)) };
    }
    STATUS_SUCCESS
}
