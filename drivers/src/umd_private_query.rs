//! The table driver's private data for its user-mode driver.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{find, list_mut};
use crate::table::Adapter;
use abi::display::DXGKARG_QUERYADAPTERINFO;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use softgpu::NODES;
use softgpu::format::HardwareInfo;

/// Handles `DXGKQAITYPE_UMDRIVERPRIVATE`, whatever the input is: there is one query.
///
/// # Safety
///
/// As for the entry, whose structure was read.
pub(crate) unsafe fn query_umd_private(
    adapter: HANDLE,
    args: &DXGKARG_QUERYADAPTERINFO,
    lists: bool,
) -> NTSTATUS {
    // SAFETY: The handle is the adapter's, and the adapter outlives the call.
    let Some(adapter) = (unsafe { find::<Adapter>(adapter) }) else {
        return STATUS_INVALID_PARAMETER;
    };
    let board = adapter.board();
    let info = HardwareInfo {
        lists,
        addresses: board.mmu.is_some(),
        memory: board.features.is_some(),
        resident: board.features.is_some(),
        nodes: NODES,
    };
    // SAFETY: The output buffer is valid for the call, and only the driver uses it.
    let output = unsafe { list_mut(args.pOutputData.cast(), args.OutputDataSize) };
    match info.write(output) {
        Ok(()) => STATUS_SUCCESS,
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}
