//! The table driver with allocation lists besides packets at virtual addresses: it renders,
//! patches, and submits the patched buffers.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{bytes, find, list, value};
use crate::memory::{MEMORY, context, create_context_with_area, query_memory, submit_paging};
use crate::save_area::Area;
use crate::umd_private_query::query_umd_private;
use crate::view::View;
use abi::display::{
    DXGK_ALLOCATIONLIST, DXGK_CONTEXTINFO, DXGK_CREATECONTEXTFLAGS as ContextFlags,
    DXGK_SUBMITCOMMANDFLAGS as SubmitFlags, DXGKARG_CREATECONTEXT, DXGKARG_PATCH,
    DXGKARG_QUERYADAPTERINFO, DXGKARG_RENDER, DXGKARG_SUBMITCOMMAND, DXGKQAITYPE_UMDRIVERPRIVATE,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, STATUS_ILLEGAL_INSTRUCTION, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_PRIVILEGED_INSTRUCTION, STATUS_SUCCESS,
};
use abi::ukm::D3DDDI_PATCHLOCATIONLIST;
use abi::{HANDLE, NTSTATUS};
use flight::Fence;
use kernel::Handle;
use kernel::miniport::DriverError;
use kernel::render_args::{AllocationListEntry, PatchLocation};
use softgpu::format::list_index;
use softgpu::{RenderOutput, SaveTarget as Saves, Stream};
use std::slice;

/// The driver.
pub(crate) const ALLOCATION_LISTS: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryAdapterInfo: Some(query_with_lists),
    DxgkDdiCreateContext: Some(create_context_with_lists),
    DxgkDdiRender: Some(render),
    DxgkDdiPatch: Some(patch),
    DxgkDdiSubmitCommand: Some(submit_command),
    ..MEMORY
};

/// The buffer and list sizes of a context with allocation lists.
const INFO: DXGK_CONTEXTINFO = DXGK_CONTEXTINFO {
    DmaBufferSize: 0x400,
    AllocationListSize: 16,
    PatchLocationListSize: 32,
    ..DXGK_CONTEXTINFO::ZERO
};

unsafe extern "win64-unwind" fn query_with_lists(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let request = unsafe { args.read() };
    if request.Type == DXGKQAITYPE_UMDRIVERPRIVATE {
        // SAFETY: The arguments come from the kernel and are valid for the call.
        return unsafe { query_umd_private(adapter, &request, true) };
    }
    // SAFETY: As above.
    unsafe { query_memory(adapter, args) }
}

unsafe extern "win64-unwind" fn create_context_with_lists(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_context_with_area(device, args) };
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    if status == STATUS_SUCCESS && !args.Flags.has(ContextFlags::VirtualAddressing) {
        args.ContextInfo = INFO;
    }
    status
}

fn allocation_list_entry(it: &DXGK_ALLOCATIONLIST) -> AllocationListEntry {
    AllocationListEntry {
        view_handle: it.hDeviceSpecificAllocation.addr(),
        write: it.write_operation(),
        segment: it.segment_id(),
        address: it.PhysicalAddress.cast_unsigned(),
    }
}

pub(crate) unsafe extern "win64-unwind" fn render(
    handle: HANDLE,
    args: *mut DXGKARG_RENDER,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The handle is the context's, and the context outlives the call.
    let Some((_, device, adapter)) = (unsafe { context(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The commands are valid for the call and are copied once.
    let commands = unsafe { bytes(args.pCommand.cast_mut(), args.CommandLength) }.to_vec();
    // SAFETY: The kernel passes an array of this length.
    let allocations = unsafe { list(args.pAllocationList.cast_const(), args.AllocationListSize) };
    let listings: Vec<AllocationListEntry> =
        allocations.iter().map(allocation_list_entry).collect();
    // SAFETY: The buffer has this length, and only the driver uses it.
    let buffer =
        unsafe { slice::from_raw_parts_mut(args.pDmaBuffer.cast(), args.DmaSize as usize) };
    let (mut written, mut patches) = (0, Vec::new());
    let mut writing = RenderOutput {
        buffer,
        written: &mut written,
        patches: &mut patches,
        max_patches: args.PatchLocationListOutSize,
        multipass: &mut args.MultipassOffset,
    };
    let find_view = |name: Handle| {
        let place = list_index(name).and_then(|index| allocations.get(index));
        // SAFETY: The handles are those of views that outlive the call.
        let view = place.and_then(|raw| unsafe { find::<View>(raw.hDeviceSpecificAllocation) });
        let name = view.map_or(name, |view| Handle(view.name));
        let target = adapter.board().state().target(device.space, name.0);
        let size = target.ok_or(DriverError::NoHandle)?.size;
        let named = allocations.iter().map(|raw| raw.hDeviceSpecificAllocation).find(|c_void| {
            // SAFETY: The handles are those of views that outlive the call.
            unsafe { find::<View>(*c_void) }.is_some_and(|view| view.name == name.0)
        });
        Ok((named.ok_or(DriverError::Invalid)?.addr(), size))
    };
    let answer = softgpu::translate(&commands, &listings, &mut writing, find_view);
    args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(written as usize);
    for it in patches {
        let entry = D3DDDI_PATCHLOCATIONLIST {
            AllocationIndex: it.allocation_index,
            Value: it.slot_id,
            DriverId: it.driver_id,
            AllocationOffset: it.allocation_offset,
            PatchOffset: it.patch_offset,
            SplitOffset: it.split_offset,
        };
        // SAFETY: The index is below the array's length.
        unsafe { args.pPatchLocationListOut.write_unaligned(entry) };
        args.pPatchLocationListOut = args.pPatchLocationListOut.wrapping_add(1);
    }
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(DriverError::NoRoom) => STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER,
        Err(DriverError::NoHandle) => STATUS_INVALID_HANDLE,
        Err(DriverError::Privileged) => STATUS_PRIVILEGED_INSTRUCTION,
        Err(DriverError::Illegal) => STATUS_ILLEGAL_INSTRUCTION,
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}

pub(crate) unsafe extern "win64-unwind" fn patch(
    _adapter: HANDLE,
    args: *const DXGKARG_PATCH,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if args.hContext.is_null() {
        return STATUS_SUCCESS; // Paging commands have their addresses.
    }
    // SAFETY: The kernel passes an array of this length.
    let allocations = unsafe { list(args.pAllocationList, args.AllocationListSize) };
    let listings: Vec<AllocationListEntry> =
        allocations.iter().map(allocation_list_entry).collect();
    // SAFETY: As above.
    let patches = unsafe { list(args.pPatchLocationList, args.PatchLocationListSize) };
    let patches: Vec<PatchLocation> = patches
        .iter()
        .map(|raw| PatchLocation {
            allocation_index: raw.AllocationIndex,
            allocation_offset: raw.AllocationOffset,
            patch_offset: raw.PatchOffset,
            split_offset: raw.SplitOffset,
            ..PatchLocation::default()
        })
        .collect();
    // SAFETY: The buffer has this length, and only the driver uses it.
    let buffer =
        unsafe { slice::from_raw_parts_mut(args.pDmaBuffer.cast(), args.DmaBufferSize as usize) };
    let part = args.DmaBufferSubmissionStartOffset..args.DmaBufferSubmissionEndOffset;
    softgpu::patch(buffer, &listings, &patches, &part);
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn submit_command(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMAND,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let raw = unsafe { args.read() };
    if raw.hContext.is_null() {
        // SAFETY: The arguments come from the kernel and are valid for the call.
        return unsafe { submit_paging(adapter, args) };
    }
    // SAFETY: The handle is the context's, and the context outlives the call.
    let Some((context, _, adapter)) = (unsafe { context(raw.hContext) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let area = value::<Area>(context.area);
    // SAFETY: The block was an area's, and freed blocks stay readable.
    let (number, driver_handle) = (unsafe { (*area).number }, context.area.addr());
    let board = adapter.board();
    let start = raw.DmaBufferSubmissionStartOffset;
    let null = raw.Flags.has(SubmitFlags::NullRendering);
    let place = board.state().addresses.get(&number).copied();
    board.gpu.push_stream(Stream {
        node: raw.NodeOrdinal,
        fence: Fence(raw.SubmissionFenceId),
        context: context.number,
        area: place.map_or(Saves::NotResident(driver_handle), Saves::At),
        commands: raw.DmaBufferPhysicalAddress.cast_unsigned() + u64::from(start),
        length: if null { 0 } else { raw.DmaBufferSubmissionEndOffset - start },
        hung: false,
    });
    STATUS_SUCCESS
}
