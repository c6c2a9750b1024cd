//! The table driver on a board with memory: segments, paging, and a save area for each context.
//! Everything else is the table driver without memory.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{Allocation, create_allocation};
use crate::block::{Kind, bytes, find, free, list_mut, take, value};
use crate::context::{Device, INFO, device_and_adapter};
use crate::operation::{OperationData, Relocation, moved};
use crate::save_area::{Area, create_area, free_area};
use crate::table::{Adapter, GOOD, query_adapter_info};
use abi::display::{
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as AllocationFlags, DXGK_CONTEXTINFO,
    DXGK_CREATECONTEXTFLAGS as ContextFlags, DXGK_QUERYSEGMENTOUT4, DXGK_SEGMENTDESCRIPTOR4,
    DXGK_SEGMENTFLAGS as Flags, DXGK_SUBMITCOMMANDFLAGS as SubmitFlags, DXGKARG_BUILDPAGINGBUFFER,
    DXGKARG_CREATEALLOCATION, DXGKARG_CREATECONTEXT, DXGKARG_QUERYADAPTERINFO,
    DXGKARG_SUBMITCOMMAND, DXGKARG_SUBMITCOMMANDVIRTUAL, DXGKQAITYPE_QUERYSEGMENT4,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::ukm::D3DDDI_ALLOCATIONPRIORITY_NORMAL;
use abi::{HANDLE, NTSTATUS};
use flight::Fence;
use kernel::miniport::DriverError;
use kernel::operation::BuildPagingBufferArgs;
use kernel::segment::SegmentInfo;
use softgpu::format::{self, anywhere};
use softgpu::{NODES, Paging, RenderWork, SaveTarget as Saves};
use std::{ptr, slice};

/// The driver.
pub(crate) const MEMORY: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryAdapterInfo: Some(query_memory),
    DxgkDdiCreateAllocation: Some(create_in_any_segment),
    DxgkDdiCreateContext: Some(create_context_with_area),
    DxgkDdiDestroyContext: Some(destroy_context_with_area),
    DxgkDdiBuildPagingBuffer: Some(build_paging_buffer),
    DxgkDdiSubmitCommand: Some(submit_paging),
    DxgkDdiSubmitCommandVirtual: Some(submit_commands),
    ..GOOD
};

/// The same driver, whose allocations are overlays: the kernel does not move them.
pub(crate) const OVERLAY: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateAllocation: Some(create_pinned::<{ AllocationFlags::Overlay }>),
    ..MEMORY
};

/// The same driver, whose allocations are capture buffers: the kernel does not move them.
pub(crate) const CAPTURE: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiCreateAllocation: Some(create_pinned::<{ AllocationFlags::Capture }>),
    ..MEMORY
};

/// The same driver, which adds the board's flags to each allocation.
pub(crate) const WITH_BOARD_FLAGS: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA { DxgkDdiCreateAllocation: Some(create_with_board_flags), ..MEMORY };

/// The set of all segments of the board.
pub(crate) const ALL_SEGMENTS: u32 = 0b111;

/// The set of the board's aperture, for DMA buffers.
const APERTURE: u32 = 0b1;

/// A context (`hContext`).
#[repr(C)]
pub(crate) struct ContextWithArea {
    /// The context's device.
    pub(crate) device: HANDLE,
    /// The context's number on the board.
    pub(crate) number: u64,
    /// The context's save area.
    pub(crate) area: HANDLE,
}

impl Kind for ContextWithArea {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"save");
}

pub(crate) unsafe extern "win64-unwind" fn query_memory(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let request = unsafe { args.read() };
    if request.Type != DXGKQAITYPE_QUERYSEGMENT4 {
        // SAFETY: The arguments come from the kernel and are valid for the call.
        return unsafe { query_adapter_info(adapter, args) };
    }
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    let Some(features) = known.and_then(|adapter| adapter.board().features.as_ref()) else {
        return STATUS_NOT_SUPPORTED;
    };
    // SAFETY: The output buffer is that structure, and only the driver uses it.
    let out = unsafe { &mut *request.pOutputData.cast::<DXGK_QUERYSEGMENTOUT4>() };
    if out.pSegmentDescriptor.is_null() {
        out.NbSegment = u32::try_from(features.segments.len()).unwrap_or(0);
        return STATUS_SUCCESS;
    }
    for (at, layout) in features.segments.iter().enumerate() {
        let far = at * out.SegmentDescriptorStride;
        let place = out.pSegmentDescriptor.cast::<u8>().wrapping_add(far);
        // SAFETY: The kernel's buffer has room for the announced segments.
        unsafe { place.cast::<DXGK_SEGMENTDESCRIPTOR4>().write_unaligned(descriptor(layout)) };
    }
    out.PagingBufferSegmentId = 1;
    out.PagingBufferSize = features.paging.buffer;
    out.PagingBufferPrivateDataSize = 0;
    STATUS_SUCCESS
}

fn descriptor(layout: &SegmentInfo) -> DXGK_SEGMENTDESCRIPTOR4 {
    let bit = |set: bool, flag| if set { flag } else { 0 };
    let size = usize::try_from(layout.size).unwrap_or(usize::MAX);
    let mut it = DXGK_SEGMENTDESCRIPTOR4 {
        Flags: Flags {
            Value: bit(layout.flags.aperture, Flags::Aperture)
                | bit(layout.flags.coherent, Flags::CacheCoherent)
                | bit(layout.flags.cpu_visible, Flags::CpuVisible)
                | bit(layout.flags.host_aperture, Flags::SupportsCpuHostAperture)
                | bit(layout.flags.application_target, Flags::ApplicationTarget),
        },
        BaseAddress: layout.base.cast_signed(),
        Size: size,
        CommitLimit: size,
        ..DXGK_SEGMENTDESCRIPTOR4::ZERO
    };
    if let Some(cpu) = layout.cpu_address {
        it.set_cpu_translated_address(cpu.cast_signed());
    }
    it.CpuHostAperture.SizeInPages = u32::try_from(layout.window).unwrap_or(0);
    it
}

/// Allocations go where their clients request, or into any segment.
unsafe extern "win64-unwind" fn create_in_any_segment(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_allocation(adapter, args) };
    if status == STATUS_SUCCESS {
        // SAFETY: The kernel passes a valid structure.
        let args = unsafe { args.read() };
        // SAFETY: The kernel passes an array of this length.
        for info in unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) } {
            // SAFETY: The kernel passes the private data with its size.
            let private = unsafe { bytes(info.pPrivateDriverData, info.PrivateDriverDataSize) };
            let wants = format::read_allocation_info(private)
                .map_or_else(|_| anywhere(), |info| info.requirements);
            let set = wants.segments.0;
            (info.SupportedReadSegmentSet, info.SupportedWriteSegmentSet) = (set, set);
            if wants.flags.cpu_visible {
                info.FlagsWddm2.Value |= AllocationFlags::CpuVisible;
            }
            info.AllocationPriority = D3DDDI_ALLOCATIONPRIORITY_NORMAL;
        }
    }
    status
}

/// Creates allocations with one more flag.
unsafe extern "win64-unwind" fn create_pinned<const FLAG: u32>(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_in_any_segment(adapter, args) };
    if status == STATUS_SUCCESS {
        // SAFETY: The kernel passes a valid structure.
        let args = unsafe { args.read() };
        // SAFETY: The kernel passes an array of this length.
        for info in unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) } {
            info.FlagsWddm2.Value |= FLAG;
        }
    }
    status
}

/// Creates allocations with the flags that the board has for them.
unsafe extern "win64-unwind" fn create_with_board_flags(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { create_in_any_segment(adapter, args) };
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    if let Some(known) = known.filter(|_| status == STATUS_SUCCESS) {
        // SAFETY: The kernel passes a valid structure.
        let args = unsafe { args.read() };
        // SAFETY: The kernel passes an array of this length.
        for info in unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) } {
            // The CPU locks only what can be in an aperture.
            let flags = known.board().allocation_flags;
            let locks = flags & AllocationFlags::CpuVisible != 0;
            if !locks || info.SupportedWriteSegmentSet & APERTURE != 0 {
                info.FlagsWddm2.Value |= flags;
            }
        }
    }
    status
}

pub(crate) unsafe extern "win64-unwind" fn create_context_with_area(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The handle is the device's, and the device outlives the call.
    let Some((known, adapter)) = (unsafe { device_and_adapter(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    if args.NodeOrdinal >= NODES || args.EngineAffinity & !1 != 0 {
        return STATUS_INVALID_PARAMETER;
    }
    // The system context executes no packet that has to be saved.
    let system = args.Flags.has(ContextFlags::SystemContext);
    let area = if system {
        ptr::null_mut()
    } else {
        match create_area(adapter, known.kernel, args.hContext) {
            Ok(area) => area,
            Err(status) => return status,
        }
    };
    let number = adapter.board().state().next();
    let context = take(ContextWithArea { device, number, area });
    if context.is_null() {
        // SAFETY: The area was created in this call.
        unsafe { free_area(adapter, area) };
        return STATUS_NO_MEMORY;
    }
    args.hContext = context;
    args.ContextInfo = DXGK_CONTEXTINFO { DmaBufferSegmentSet: APERTURE, ..INFO };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn destroy_context_with_area(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's, which is freed here.
    let Some((context, _, adapter)) = (unsafe { context(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The area is freed with its context.
    unsafe { free_area(adapter, context.area) };
    // SAFETY: No later call uses the block.
    unsafe { free(handle) };
    STATUS_SUCCESS
}

/// Returns a context with its device and its adapter.
///
/// # Safety
///
/// The handle is a context's. The context, its device and its adapter outlive the result.
pub(crate) unsafe fn context<'a>(
    handle: HANDLE,
) -> Option<(&'a ContextWithArea, &'a Device, &'a Adapter)> {
    // SAFETY: The caller upholds this function's contract.
    let context = unsafe { find::<ContextWithArea>(handle) }?;
    // SAFETY: A device outlives its contexts.
    let (device, adapter) = unsafe { device_and_adapter(context.device) }?;
    Some((context, device, adapter))
}

pub(crate) unsafe extern "win64-unwind" fn build_paging_buffer(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    let raw = *args;
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The operation's pointers are valid for the call.
    let given = unsafe { OperationData::read(args) };
    // SAFETY: As above.
    let Some(operation) = (unsafe { given.operation(&raw) }) else { return STATUS_NOT_SUPPORTED };
    if let Some(Relocation { driver_handle, address, arrives }) = moved(&operation, known.board()) {
        // SAFETY: The handle is that of an allocation or area that has not been freed.
        if let Some(number) = unsafe { number(driver_handle) } {
            let addresses = &mut known.board().state().addresses;
            if arrives {
                addresses.insert(number, address);
            } else if addresses.get(&number) == Some(&address) {
                addresses.remove(&number);
            }
        }
    }
    // SAFETY: The buffer has this length, and only the driver uses it.
    let buffer =
        unsafe { slice::from_raw_parts_mut(args.pDmaBuffer.cast(), args.DmaSize as usize) };
    let mut paging_args = BuildPagingBufferArgs {
        operation,
        buffer,
        address: args.DmaBufferGpuVirtualAddress,
        used: 0,
        written: 0,
        multipass: &mut args.MultipassOffset,
        private: &mut [],
    };
    let system = known.board().state().system;
    let answer = softgpu::build_paging_in(&mut paging_args, system);
    let written = paging_args.written as usize;
    args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(written);
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(DriverError::NoRoom) => STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER,
        Err(_) => STATUS_NOT_SUPPORTED,
    }
}

/// Returns the board's object for an allocation or an area.
///
/// # Safety
///
/// The handle is a block's address; the block may have been freed.
unsafe fn number(handle: usize) -> Option<u64> {
    let handle = ptr::with_exposed_provenance_mut(handle);
    // SAFETY: The caller upholds this function's contract.
    if let Some(it) = unsafe { find::<Allocation>(handle) } {
        return Some(it.memory);
    }
    // SAFETY: As above.
    unsafe { find::<Area>(handle) }.map(|area| area.number)
}

pub(crate) unsafe extern "win64-unwind" fn submit_paging(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMAND,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let start = args.DmaBufferSubmissionStartOffset;
    known.board().gpu.push_paging(Paging {
        node: args.NodeOrdinal,
        fence: Fence(args.SubmissionFenceId),
        commands: args.DmaBufferPhysicalAddress.cast_unsigned() + u64::from(start),
        length: args.DmaBufferSubmissionEndOffset - start,
        switch: args.Flags.has(SubmitFlags::ContextSwitch),
    });
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn submit_commands(
    _adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The handle is the context's, and the context outlives the call.
    let Some((context, device, adapter)) = (unsafe { context(args.hContext) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The private data is valid for the call.
    let private = unsafe { bytes(args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) };
    let Ok(commands) = format::decode(private) else { return STATUS_INVALID_PARAMETER };
    let area = value::<Area>(context.area);
    // SAFETY: The block was an area's, and freed blocks stay readable.
    let (area, handle) = (unsafe { (*area).number }, context.area.addr());
    let board = adapter.board();
    let drawing = {
        let state = board.state();
        let find = |handle: kernel::Handle| {
            state.target(device.space, handle.0).ok_or(DriverError::Invalid)
        };
        let resolved = commands.into_iter().map(|command| command.resolve(find)).collect();
        let Ok(commands) = resolved else { return STATUS_INVALID_PARAMETER };
        RenderWork {
            node: args.NodeOrdinal,
            fence: Fence(args.SubmissionFenceId),
            context: context.number,
            area: state
                .addresses
                .get(&area)
                .map_or(Saves::NotResident(handle), |value| Saves::At(*value)),
            commands,
            root: state.roots.get(&context.number).copied(),
            fetch: (args.DmaBufferSize > 0 && board.mmu.is_some())
                .then_some((args.DmaBufferVirtualAddress, args.DmaBufferSize)),
            started: false,
        }
    };
    board.gpu.push_render(drawing);
    STATUS_SUCCESS
}
