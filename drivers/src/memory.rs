//! The driver with a table on a board with memory: segments, paging, and a save area for each
//! context. What is not here is the driver's without memory.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::allocation::{Allocation, create_allocation};
use crate::area::{Area, free_area, make_area};
use crate::block::{Kind, bytes, find, free, list_mut, take, value};
use crate::context::{Device, INFO, device_and_adapter};
use crate::operation::{Given, Moved, moved};
use crate::table::{Adapter, GOOD, query_adapter_info};
use abi::display::{
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as AllocationFlags, DXGK_QUERYSEGMENTOUT4,
    DXGK_SEGMENTDESCRIPTOR4, DXGK_SEGMENTFLAGS as Flags, DXGK_SUBMITCOMMANDFLAGS as SubmitFlags,
    DXGKARG_BUILDPAGINGBUFFER, DXGKARG_CREATEALLOCATION, DXGKARG_CREATECONTEXT,
    DXGKARG_QUERYADAPTERINFO, DXGKARG_SUBMITCOMMAND, DXGKARG_SUBMITCOMMANDVIRTUAL,
    DXGKQAITYPE_QUERYSEGMENT4,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
};
use abi::ukm::D3DDDI_ALLOCATIONPRIORITY_NORMAL;
use abi::{HANDLE, NTSTATUS};
use flight::Fence;
use kernel::miniport::Refusal;
use kernel::operation::Building;
use kernel::segment::SegmentShape;
use softgpu::format::{self, anywhere};
use softgpu::{Area as Saves, Drawing, NODES, Paging};
use std::slice;

/// The driver.
pub(crate) const MEMORY: DRIVER_INITIALIZATION_DATA = DRIVER_INITIALIZATION_DATA {
    DxgkDdiQueryAdapterInfo: Some(query_memory),
    DxgkDdiCreateAllocation: Some(create_anywhere),
    DxgkDdiCreateContext: Some(create_saved_context),
    DxgkDdiDestroyContext: Some(destroy_saved_context),
    DxgkDdiBuildPagingBuffer: Some(build_paging_buffer),
    DxgkDdiSubmitCommand: Some(submit_paging),
    DxgkDdiSubmitCommandVirtual: Some(submit_drawing),
    ..GOOD
};

/// All segments of the board.
pub(crate) const ANYWHERE: u32 = 0b111;

/// A context (`hContext`).
#[repr(C)]
pub(crate) struct SavedContext {
    /// The device it is of.
    pub(crate) device: HANDLE,
    /// Its number on the board.
    number: u64,
    /// Its save area.
    pub(crate) area: HANDLE,
}

impl Kind for SavedContext {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"save");
}

unsafe extern "win64-unwind" fn query_memory(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let asked = unsafe { args.read() };
    if asked.Type != DXGKQAITYPE_QUERYSEGMENT4 {
        // SAFETY: The arguments are the kernel's.
        return unsafe { query_adapter_info(adapter, args) };
    }
    // SAFETY: The word is the adapter's, which outlives the call.
    let known = unsafe { find::<Adapter>(adapter) };
    let Some(features) = known.and_then(|it| it.board().features.as_ref()) else {
        return STATUS_NOT_SUPPORTED;
    };
    // SAFETY: The output is such a structure, and the driver's for the call.
    let out = unsafe { &mut *asked.pOutputData.cast::<DXGK_QUERYSEGMENTOUT4>() };
    if out.pSegmentDescriptor.is_null() {
        out.NbSegment = u32::try_from(features.segments.len()).unwrap_or(0);
        return STATUS_SUCCESS;
    }
    for (at, shape) in features.segments.iter().enumerate() {
        let far = at * out.SegmentDescriptorStride;
        let place = out.pSegmentDescriptor.cast::<u8>().wrapping_add(far);
        // SAFETY: The kernel has made room for the segments that were announced.
        unsafe { place.cast::<DXGK_SEGMENTDESCRIPTOR4>().write_unaligned(descriptor(shape)) };
    }
    out.PagingBufferSegmentId = 1;
    out.PagingBufferSize = features.paging.buffer;
    out.PagingBufferPrivateDataSize = 0;
    STATUS_SUCCESS
}

fn descriptor(shape: &SegmentShape) -> DXGK_SEGMENTDESCRIPTOR4 {
    let bit = |set: bool, flag| if set { flag } else { 0 };
    let size = usize::try_from(shape.size).unwrap_or(usize::MAX);
    let mut it = DXGK_SEGMENTDESCRIPTOR4 {
        Flags: Flags {
            Value: bit(shape.flags.aperture, Flags::Aperture)
                | bit(shape.flags.coherent, Flags::CacheCoherent)
                | bit(shape.flags.cpu_visible, Flags::CpuVisible)
                | bit(shape.flags.application_target, Flags::ApplicationTarget),
        },
        BaseAddress: shape.base.cast_signed(),
        Size: size,
        CommitLimit: size,
        ..DXGK_SEGMENTDESCRIPTOR4::ZERO
    };
    if let Some(cpu) = shape.cpu {
        it.set_cpu_translated_address(cpu.cast_signed());
    }
    it
}

/// Allocations are where their clients want them, or in any segment.
unsafe extern "win64-unwind" fn create_anywhere(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    // SAFETY: The arguments are the kernel's.
    let status = unsafe { create_allocation(adapter, args) };
    if status == STATUS_SUCCESS {
        // SAFETY: It is a structure.
        let args = unsafe { args.read() };
        // SAFETY: The kernel gives so many elements.
        for info in unsafe { list_mut(args.pAllocationInfo, args.NumAllocations) } {
            // SAFETY: The kernel gives the private data with its size.
            let private = unsafe { bytes(info.pPrivateDriverData, info.PrivateDriverDataSize) };
            let wants = format::read_shape(private).map_or_else(|_| anywhere(), |it| it.wants);
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

pub(crate) unsafe extern "win64-unwind" fn create_saved_context(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    // SAFETY: The word is the device's, which outlives the call.
    let Some((known, adapter)) = (unsafe { device_and_adapter(device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    if args.NodeOrdinal >= NODES || args.EngineAffinity & !1 != 0 {
        return STATUS_INVALID_PARAMETER;
    }
    let area = match make_area(adapter, known.kernel, args.hContext) {
        Ok(area) => area,
        Err(status) => return status,
    };
    let number = adapter.board().state().next();
    let context = take(SavedContext { device, number, area });
    if context.is_null() {
        // SAFETY: The area is this call's own.
        unsafe { free_area(adapter, area) };
        return STATUS_NO_MEMORY;
    }
    args.hContext = context;
    args.ContextInfo = INFO;
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn destroy_saved_context(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The word is the context's, which ends here and not before.
    let Some((context, _, adapter)) = (unsafe { context(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The area ends with its context.
    unsafe { free_area(adapter, context.area) };
    // SAFETY: This is the last call about it.
    unsafe { free(handle) };
    STATUS_SUCCESS
}

/// A context, with its device and its adapter.
///
/// # Safety
///
/// The handle is a context's, and none of them ends while the answer is used.
pub(crate) unsafe fn context<'a>(
    handle: HANDLE,
) -> Option<(&'a SavedContext, &'a Device, &'a Adapter)> {
    // SAFETY: The caller promises the same.
    let context = unsafe { find::<SavedContext>(handle) }?;
    // SAFETY: A device outlives its contexts.
    let (device, adapter) = unsafe { device_and_adapter(context.device) }?;
    Some((context, device, adapter))
}

pub(crate) unsafe extern "win64-unwind" fn build_paging_buffer(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    // SAFETY: It is a structure, and the driver's for the call.
    let args = unsafe { &mut *args };
    let told = *args;
    // SAFETY: The word is the adapter's, which outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: What the operation points at is there for the call.
    let given = unsafe { Given::read(args) };
    // SAFETY: As above.
    let Some(operation) = (unsafe { given.operation(&told) }) else { return STATUS_NOT_SUPPORTED };
    if let Some(Moved { word, address, comes }) = moved(&operation, known.board()) {
        // SAFETY: The word is that of an allocation or an area, which lives until it was freed.
        if let Some(number) = unsafe { number(word) } {
            let places = &mut known.board().state().places;
            if comes {
                places.insert(number, address);
            } else if places.get(&number) == Some(&address) {
                places.remove(&number);
            }
        }
    }
    // SAFETY: There are so many bytes, and the driver's for the call.
    let buffer =
        unsafe { slice::from_raw_parts_mut(args.pDmaBuffer.cast(), args.DmaSize as usize) };
    let mut building = Building {
        operation,
        buffer,
        address: args.DmaBufferGpuVirtualAddress,
        before: 0,
        written: 0,
        multipass: &mut args.MultipassOffset,
        private: &mut [],
    };
    let answer = softgpu::build_paging(&mut building);
    let written = building.written as usize;
    args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(written);
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(Refusal::NoRoom) => STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER,
        Err(_) => STATUS_NOT_SUPPORTED,
    }
}

/// What an allocation or an area is on the board.
///
/// # Safety
///
/// The word is of a block, freed or not.
unsafe fn number(word: usize) -> Option<u64> {
    let word = std::ptr::with_exposed_provenance_mut(word);
    // SAFETY: The caller promises the same.
    if let Some(it) = unsafe { find::<Allocation>(word) } {
        return Some(it.memory);
    }
    // SAFETY: As above.
    unsafe { find::<Area>(word) }.map(|it| it.number)
}

pub(crate) unsafe extern "win64-unwind" fn submit_paging(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMAND,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    // SAFETY: The word is the adapter's, which outlives the call.
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

pub(crate) unsafe extern "win64-unwind" fn submit_drawing(
    _adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: It is a structure.
    let args = unsafe { args.read() };
    // SAFETY: The word is the context's, which outlives the call.
    let Some((context, device, adapter)) = (unsafe { context(args.hContext) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The private data is there for the call.
    let private = unsafe { bytes(args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) };
    let Ok(commands) = format::decode(private) else { return STATUS_INVALID_PARAMETER };
    let area = value::<Area>(context.area);
    // SAFETY: The block was an area's, and stays readable.
    let (area, word) = (unsafe { (*area).number }, context.area.addr());
    let board = adapter.board();
    let drawing = {
        let state = board.state();
        let find = |it: kernel::Handle| state.target(device.space, it.0).ok_or(Refusal::Invalid);
        let resolved = commands.into_iter().map(|it| it.resolve(find)).collect();
        let Ok(commands) = resolved else { return STATUS_INVALID_PARAMETER };
        Drawing {
            node: args.NodeOrdinal,
            fence: Fence(args.SubmissionFenceId),
            context: context.number,
            area: state.places.get(&area).map_or(Saves::Absent(word), |it| Saves::At(*it)),
            commands,
        }
    };
    board.gpu.push_drawing(drawing);
    STATUS_SUCCESS
}
