//! Bad drivers: adapter queries.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::bytes;
use crate::segments::{SEGMENTS, describe};
use crate::table::{GOOD, query_adapter_info};
use abi::display::{
    DXGK_DRIVERCAPS, DXGK_QUERYSEGMENTOUT4, DXGK_SEGMENTDESCRIPTOR4,
    DXGK_VIDMMCAPS_FLAGS as Memory, DXGK_VIDSCHCAPS as Scheduling, DXGKARG_QUERYADAPTERINFO,
    DXGKDDI_QUERYADAPTERINFO, DXGKQAITYPE_DRIVERCAPS, DXGKQAITYPE_QUERYSEGMENT4,
    DXGKQAITYPE_UMDRIVERPRIVATE,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::STATUS_SUCCESS;
use abi::{HANDLE, NTSTATUS, PVOID};
use softgpu::NODES;
use softgpu::format::HARDWARE_INFO_SIZE;

pub(crate) const CLAIMS_PREEMPTION_SINGLE_ENGINE: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(claims::<{ Scheduling::PreemptionAware }, 0, 0>);
pub(crate) const CLAIMS_NODMAPATCHING_ALONE: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(claims::<{ Scheduling::NoDmaPatching }, 0, 0>);
pub(crate) const CLAIMS_CANCEL_SINGLE_ENGINE: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(claims::<{ Scheduling::CancelCommandAware }, 0, 0>);
pub(crate) const CLAIMS_MISSING_ENGINE_RESET: DRIVER_INITIALIZATION_DATA =
    DRIVER_INITIALIZATION_DATA {
        DxgkDdiResetEngine: None,
        ..with_query_adapter_info(claims::<0, 0, 1>)
    };
pub(crate) const CLAIMS_GPUMMU_AND_IOMMU: DRIVER_INITIALIZATION_DATA = with_query_adapter_info(
    claims::<
        0,
        { Memory::VirtualAddressingSupported | Memory::GpuMmuSupported | Memory::IoMmuSupported },
        0,
    >,
);
pub(crate) const OVERRUNS_DRIVER_CAPS: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(overruns_driver_caps);
pub(crate) const OVERRUNS_UMD_QUERY: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(overruns_umd_query);
pub(crate) const TRUSTS_UMD_QUERY_NODE: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(trusts_umd_query_node);
pub(crate) const FILLS_SEGMENT_COUNT_QUERY: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(fills_segment_count_query);
pub(crate) const OMITS_SEGMENT_DESCRIPTOR: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(omits_segment_descriptor);
pub(crate) const IGNORES_SEGMENT_STRIDE: DRIVER_INITIALIZATION_DATA =
    with_query_adapter_info(ignores_segment_stride);

/// The good driver with another query function.
const fn with_query_adapter_info(query: DXGKDDI_QUERYADAPTERINFO) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { DxgkDdiQueryAdapterInfo: Some(query), ..GOOD }
}

/// Claims more capabilities than the good driver has.
unsafe extern "win64-unwind" fn claims<const SCHEDULING: u32, const MEMORY: u32, const TDR: u8>(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let status = unsafe { query_adapter_info(adapter, args) };
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    if status == STATUS_SUCCESS && args.Type == DXGKQAITYPE_DRIVERCAPS {
        // SAFETY: The buffer has this length at WDDM 2.0, and only the driver uses it.
        let caps = unsafe { &mut *args.pOutputData.cast::<DXGK_DRIVERCAPS>() };
        caps.SchedulingCaps.Value = SCHEDULING;
        caps.MemoryManagementCaps.Flags.Value = MEMORY;
        caps.SupportPerEngineTDR = TDR;
    }
    status
}

/// Writes one byte past the output.
unsafe extern "win64-unwind" fn overruns_driver_caps(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    if given.Type == DXGKQAITYPE_DRIVERCAPS {
        let end = given.pOutputData.wrapping_byte_add(given.OutputDataSize as usize).cast::<u8>();
        // SAFETY: The byte is out of bounds: the planted bug. The kernel keeps a guard there.
        unsafe { end.write(0) };
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { query_adapter_info(adapter, args) }
}

/// Writes all its data for user mode, even if the output is smaller.
unsafe extern "win64-unwind" fn overruns_umd_query(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    if given.Type != DXGKQAITYPE_UMDRIVERPRIVATE || given.pOutputData.is_null() {
        // SAFETY: The arguments come from the kernel and are valid for the call.
        return unsafe { query_adapter_info(adapter, args) };
    }
    let size = u32::try_from(HARDWARE_INFO_SIZE).unwrap_or(0).max(given.OutputDataSize);
    let whole = DXGKARG_QUERYADAPTERINFO { OutputDataSize: size, ..given };
    // SAFETY: Out of bounds if the output is smaller. The kernel keeps a guard there.
    unsafe { query_adapter_info(adapter, &raw const whole) }
}

/// Uses the first byte of a query as a node number. It unwinds where a driver in C would fault.
unsafe extern "win64-unwind" fn trusts_umd_query_node(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let given = unsafe { args.read() };
    if given.Type == DXGKQAITYPE_UMDRIVERPRIVATE {
        // SAFETY: The input buffer is valid for the call.
        let question = unsafe { bytes(given.pInputData, given.InputDataSize) };
        if question.first().is_none_or(|byte| u32::from(*byte) >= NODES) {
            std::panic::resume_unwind(Box::new("a node that is none"));
        }
    }
    // SAFETY: The arguments come from the kernel and are valid for the call.
    unsafe { query_adapter_info(adapter, args) }
}

/// Sets the paging members when only the number of segments is requested, and returns no segment.
unsafe extern "win64-unwind" fn fills_segment_count_query(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let Some(out) = (unsafe { segments(args) }) else {
        // SAFETY: As above.
        return unsafe { query_adapter_info(adapter, args) };
    };
    (out.NbSegment, out.PagingBufferSize) = (0, 0x1000);
    STATUS_SUCCESS
}

/// Describes one segment less than announced.
unsafe extern "win64-unwind" fn omits_segment_descriptor(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let Some(out) = (unsafe { segments(args) }) else {
        // SAFETY: As above.
        return unsafe { query_adapter_info(adapter, args) };
    };
    let first = out.pSegmentDescriptor;
    // SAFETY: The kernel's buffer has room for the announced segments.
    describe(out, |far, segment| unsafe { put(first, far, segment) });
    if !first.is_null() {
        out.NbSegment = SEGMENTS - 1;
    }
    STATUS_SUCCESS
}

/// Writes the descriptors contiguously, ignoring the stride.
unsafe extern "win64-unwind" fn ignores_segment_stride(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: The arguments come from the kernel and are valid for the call.
    let Some(out) = (unsafe { segments(args) }) else {
        // SAFETY: As above.
        return unsafe { query_adapter_info(adapter, args) };
    };
    let (first, stride) = (out.pSegmentDescriptor, out.SegmentDescriptorStride);
    describe(out, |far, segment| {
        let far = far / stride * size_of::<DXGK_SEGMENTDESCRIPTOR4>();
        // SAFETY: The kernel's buffer is larger than that.
        unsafe { put(first, far, segment) };
    });
    STATUS_SUCCESS
}

/// Returns the output structure if segments are queried.
///
/// # Safety
///
/// `args` points to the kernel's structure, and the result is used only during the call.
unsafe fn segments<'a>(
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> Option<&'a mut DXGK_QUERYSEGMENTOUT4> {
    // SAFETY: The caller upholds this function's contract.
    let args = unsafe { args.read() };
    // SAFETY: The output buffer is that structure then, and only the driver uses it.
    (args.Type == DXGKQAITYPE_QUERYSEGMENT4).then(|| unsafe { &mut *args.pOutputData.cast() })
}

/// Writes a descriptor at an offset from the first descriptor.
///
/// # Safety
///
/// The buffer has room for the descriptor.
unsafe fn put(first: *mut u8, far: usize, segment: DXGK_SEGMENTDESCRIPTOR4) {
    let place: PVOID = first.wrapping_add(far).cast();
    // SAFETY: The caller provides the room.
    unsafe { place.cast::<DXGK_SEGMENTDESCRIPTOR4>().write_unaligned(segment) };
}
