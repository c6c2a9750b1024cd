//! A client in safe Rust: GPU virtual addresses.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::{Client, check_status, list_pointer};
use crate::client_memory::PagingStatus;
use crate::table;
use abi::kmt::{
    D3DKMT_FREEGPUVIRTUALADDRESS, D3DKMT_SUBMITCOMMAND, D3DKMT_UPDATEGPUVIRTUALADDRESS,
    D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS,
};
use abi::status::STATUS_PENDING;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS, D3DDDI_RESERVEGPUVIRTUALADDRESS,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;

impl Client {
    /// `D3DKMTMapGpuVirtualAddress`. Returns the address and the fence value.
    pub fn map_address(
        &self,
        at: &mut Passive,
        create_request: &D3DDDI_MAPGPUVIRTUALADDRESS,
    ) -> Result<(u64, PagingStatus), NTSTATUS> {
        let mut args = *create_request;
        // SAFETY: `args` outlives the call.
        let status = unsafe { table::D3DKMTMapGpuVirtualAddress(&self.session, at, &raw mut args) };
        Ok((args.VirtualAddress, paging_status(status, args.PagingFenceValue)?))
    }

    /// `D3DKMTReserveGpuVirtualAddress`. Returns the address and the fence value.
    pub fn reserve_address(
        &self,
        at: &mut Passive,
        create_request: &D3DDDI_RESERVEGPUVIRTUALADDRESS,
    ) -> Result<(u64, PagingStatus), NTSTATUS> {
        let mut args = *create_request;
        // SAFETY: `args` outlives the call.
        let status =
            unsafe { table::D3DKMTReserveGpuVirtualAddress(&self.session, at, &raw mut args) };
        Ok((args.VirtualAddress, paging_status(status, args.PagingFenceValue)?))
    }

    /// `D3DKMTFreeGpuVirtualAddress`.
    pub fn free_address(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
        base: u64,
        size: u64,
    ) -> Result<(), NTSTATUS> {
        let args =
            D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter: adapter, BaseAddress: base, Size: size };
        // SAFETY: `args` outlives the call.
        check_status(unsafe {
            table::D3DKMTFreeGpuVirtualAddress(&self.session, at, &raw const args)
        })
    }

    /// `D3DKMTSubmitCommand`, with commands at a virtual address.
    pub fn submit_at(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        commands: u64,
        length: u32,
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_SUBMITCOMMAND::ZERO;
        (args.Commands, args.CommandLength) = (commands, length);
        args.BroadcastContextCount = 1;
        args.BroadcastContext[0] = context;
        // SAFETY: `args` outlives the call and contains no pointers.
        check_status(unsafe { table::D3DKMTSubmitCommand(&self.session, at, &raw const args) })
    }

    /// `D3DKMTUpdateGpuVirtualAddress`, immediately or after a fence value.
    pub fn update_address(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        operations: &[D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION],
        fence: Option<(D3DKMT_HANDLE, u64)>,
    ) -> Result<(), NTSTATUS> {
        let (object, value) = fence.unwrap_or_default();
        let now = D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS::DoNotWait;
        let args = D3DKMT_UPDATEGPUVIRTUALADDRESS {
            hDevice: device,
            hFenceObject: object,
            NumOperations: u32::try_from(operations.len()).unwrap_or(u32::MAX),
            Operations: list_pointer(operations),
            FenceValue: value,
            Flags: D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS {
                Value: if fence.is_some() { 0 } else { now },
            },
            ..D3DKMT_UPDATEGPUVIRTUALADDRESS::ZERO
        };
        // SAFETY: `args` and the list outlive the call.
        check_status(unsafe {
            table::D3DKMTUpdateGpuVirtualAddress(&self.session, at, &raw const args)
        })
    }
}

/// Accepts `STATUS_SUCCESS` and `STATUS_PENDING`.
fn paging_status(status: NTSTATUS, value: u64) -> Result<PagingStatus, NTSTATUS> {
    if status == STATUS_PENDING {
        return Ok(PagingStatus::Pending(value));
    }
    check_status(status)?;
    Ok(PagingStatus::Resident)
}
