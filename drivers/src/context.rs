//! Devices, contexts and packets of the table driver.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, bytes, find, free, take};
use crate::table::Adapter;
use abi::display::{
    DXGK_CONTEXTINFO, DXGK_CONTEXTINFO_CAPS, DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE,
    DXGKARG_SUBMITCOMMANDVIRTUAL,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use flight::Fence;
use softgpu::{NODES, format};
use std::ptr;

/// The size of a DMA buffer, and of its private data.
const DMA_BUFFER: u32 = 0x1000;

/// The buffer sizes that its contexts need.
pub(crate) const INFO: DXGK_CONTEXTINFO = DXGK_CONTEXTINFO {
    DmaBufferSize: DMA_BUFFER,
    DmaBufferPrivateDataSize: DMA_BUFFER,
    Caps: DXGK_CONTEXTINFO_CAPS { Value: DXGK_CONTEXTINFO_CAPS::NoPatchingRequired },
    ..DXGK_CONTEXTINFO::ZERO
};

/// A device (`hDevice`).
#[repr(C)]
pub(crate) struct Device {
    /// The device's adapter.
    pub(crate) adapter: HANDLE,
    /// The device's address space on the board.
    pub(crate) space: u64,
    /// The kernel's handle of the device.
    pub(crate) kernel: HANDLE,
}

impl Kind for Device {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"devi");
}

/// A context (`hContext`).
#[repr(C)]
pub(crate) struct Context {
    /// The context's device.
    pub(crate) device: HANDLE,
}

impl Kind for Context {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"cont");
}

/// Returns a device and its adapter.
///
/// # Safety
///
/// The handle is a device's; the device and its adapter outlive the result.
pub(crate) unsafe fn device_and_adapter<'a>(handle: HANDLE) -> Option<(&'a Device, &'a Adapter)> {
    // SAFETY: The caller upholds this function's contract.
    let device = unsafe { find::<Device>(handle) }?;
    // SAFETY: An adapter outlives its devices.
    let adapter = unsafe { find::<Adapter>(device.adapter) }?;
    Some((device, adapter))
}

pub(crate) unsafe extern "win64-unwind" fn create_device(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(known) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let space = known.board().open_space();
    // SAFETY: The structure is valid; the member is the kernel's handle until it is written.
    let kernel = unsafe { (*args).hDevice };
    let device = take(Device { adapter, space, kernel });
    if device.is_null() {
        known.board().close_space(space);
        return STATUS_NO_MEMORY;
    }
    // SAFETY: The kernel passes a valid structure, and the member is an output.
    unsafe { (*args).hDevice = device };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn destroy_device(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the device's, which is freed here.
    let Some((device, adapter)) = (unsafe { device_and_adapter(handle) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    adapter.board().close_space(device.space);
    // SAFETY: No later call uses the block.
    unsafe { free(handle) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn create_context(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure that only the driver uses.
    let args = unsafe { &mut *args };
    // SAFETY: The handle is the device's, and the device outlives the call.
    let known = unsafe { find::<Device>(device) }.is_some();
    if !known || args.NodeOrdinal >= NODES || args.EngineAffinity & !1 != 0 {
        return STATUS_INVALID_PARAMETER;
    }
    args.hContext = take(Context { device });
    if args.hContext.is_null() {
        return STATUS_NO_MEMORY;
    }
    args.ContextInfo = INFO;
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn destroy_context(handle: HANDLE) -> NTSTATUS {
    // SAFETY: The handle is the context's, which is freed here.
    if unsafe { find::<Context>(handle) }.is_none() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: No later call uses the block.
    unsafe { free(handle) };
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64-unwind" fn submit_command_virtual(
    _adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let args = unsafe { args.read() };
    // SAFETY: The handle is the context's, and the context outlives the call.
    let Some(context) = (unsafe { find::<Context>(args.hContext) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: A device outlives its contexts.
    let Some((device, adapter)) = (unsafe { device_and_adapter(context.device) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    // SAFETY: The private data is valid for the call.
    let private = unsafe { bytes(args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) };
    let fence = Fence(args.SubmissionFenceId);
    let give = |commands| adapter.board().submit(device.space, args.NodeOrdinal, fence, commands);
    let given = format::decode(private).and_then(give);
    // The driver may write its private data; the client does not see the change.
    // SAFETY: The buffer has this length; only the driver uses it, and `private` is not used again.
    unsafe {
        ptr::write_bytes(
            args.pDmaBufferPrivateData.cast::<u8>(),
            0xdd,
            args.DmaBufferPrivateDataSize as usize,
        );
    }
    match given {
        Ok(()) => STATUS_SUCCESS,
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}
