//! Residency and GPU virtual addresses, from WDDM 2.0 on.

use super::{Callbacks, count, list};
use crate::memory::Memory;
use crate::result::{UmdResult, to_result};
use abi::hresult::E_PENDING;
use abi::ukm::{
    D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_EVICT_FLAGS, D3DDDI_MAKERESIDENT, D3DDDI_MAKERESIDENT_FLAGS,
    D3DDDI_MAPGPUVIRTUALADDRESS, D3DDDI_RESERVEGPUVIRTUALADDRESS,
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
};
use abi::umd::{D3DDDICB_CREATEPAGINGQUEUE, D3DDDICB_EVICT, D3DDDICB_FREEGPUVIRTUALADDRESS};
use abi::{D3DKMT_HANDLE, HRESULT};

/// A paging queue (`hPagingQueue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagingQueue {
    /// The queue.
    pub queue: D3DKMT_HANDLE,
    /// The fence of the queue's progress.
    pub fence: D3DKMT_HANDLE,
    /// The value of that fence.
    pub value: Memory,
}

/// When a paging operation completes: at this value of its queue's fence, if it is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagingResponse {
    /// Whether the operation is pending (`E_PENDING`).
    pub pending: bool,
    /// `PagingFenceValue`.
    pub value: u64,
}

/// A mapping to create (`D3DDDI_MAPGPUVIRTUALADDRESS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapRequest {
    /// `hPagingQueue`.
    pub queue: D3DKMT_HANDLE,
    /// `hAllocation`.
    pub allocation: D3DKMT_HANDLE,
    /// `BaseAddress`; zero for any address.
    pub base: u64,
    /// `OffsetInPages`.
    pub offset: u64,
    /// `SizeInPages`.
    pub pages: u64,
    /// `Protection`.
    pub protection: u64,
}

impl Callbacks {
    /// `pfnCreatePagingQueueCb`.
    pub fn create_paging_queue(&self, priority: i32) -> UmdResult<PagingQueue> {
        let mut args =
            D3DDDICB_CREATEPAGINGQUEUE { Priority: priority, ..D3DDDICB_CREATEPAGINGQUEUE::ZERO };
        to_result(self.call_mut(self.table().pfnCreatePagingQueueCb, &mut args))?;
        let value = self.memory(args.FenceValueCPUVirtualAddress, 8);
        Ok(PagingQueue { queue: args.hPagingQueue, fence: args.hSyncObject, value })
    }

    /// `pfnDestroyPagingQueueCb`.
    pub fn destroy_paging_queue(&self, queue: D3DKMT_HANDLE) -> UmdResult<()> {
        let args = D3DDDI_DESTROYPAGINGQUEUE { hPagingQueue: queue };
        self.call_const(self.table().pfnDestroyPagingQueueCb, &args)
    }

    /// `pfnMakeResidentCb`, with its flags (`D3DDDI_MAKERESIDENT_FLAGS`).
    pub fn make_resident(
        &self,
        queue: D3DKMT_HANDLE,
        allocations: &[D3DKMT_HANDLE],
        flags: u32,
    ) -> UmdResult<PagingResponse> {
        let mut args = D3DDDI_MAKERESIDENT {
            hPagingQueue: queue,
            NumAllocations: count(allocations.len()),
            AllocationList: list(allocations),
            Flags: D3DDDI_MAKERESIDENT_FLAGS { Value: flags },
            ..D3DDDI_MAKERESIDENT::ZERO
        };
        let result = self.call_mut(self.table().pfnMakeResidentCb, &mut args);
        paging_response(result, args.PagingFenceValue)
    }

    /// `pfnEvictCb`, with its flags (`D3DDDI_EVICT_FLAGS`). Returns `NumBytesToTrim`.
    pub fn evict(&self, allocations: &[D3DKMT_HANDLE], flags: u32) -> UmdResult<u64> {
        let mut args = D3DDDICB_EVICT {
            NumAllocations: count(allocations.len()),
            AllocationList: list(allocations),
            Flags: D3DDDI_EVICT_FLAGS { Value: flags },
            ..D3DDDICB_EVICT::ZERO
        };
        to_result(self.call_mut(self.table().pfnEvictCb, &mut args))?;
        Ok(args.NumBytesToTrim)
    }

    /// `pfnMapGpuVirtualAddressCb`. Returns the address.
    pub fn map(&self, mapping: &MapRequest) -> UmdResult<(u64, PagingResponse)> {
        let mut args = D3DDDI_MAPGPUVIRTUALADDRESS {
            hPagingQueue: mapping.queue,
            BaseAddress: mapping.base,
            hAllocation: mapping.allocation,
            OffsetInPages: mapping.offset,
            SizeInPages: mapping.pages,
            Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE { Value: mapping.protection },
            ..D3DDDI_MAPGPUVIRTUALADDRESS::ZERO
        };
        let result = self.call_mut(self.table().pfnMapGpuVirtualAddressCb, &mut args);
        Ok((args.VirtualAddress, paging_response(result, args.PagingFenceValue)?))
    }

    /// `pfnReserveGpuVirtualAddressCb`: reserves `bytes` bytes at any address.
    pub fn reserve(&self, queue: D3DKMT_HANDLE, bytes: u64) -> UmdResult<(u64, PagingResponse)> {
        let mut args = D3DDDI_RESERVEGPUVIRTUALADDRESS {
            hPagingQueue: queue,
            Size: bytes,
            ..D3DDDI_RESERVEGPUVIRTUALADDRESS::ZERO
        };
        let result = self.call_mut(self.table().pfnReserveGpuVirtualAddressCb, &mut args);
        Ok((args.VirtualAddress, paging_response(result, args.PagingFenceValue)?))
    }

    /// `pfnFreeGpuVirtualAddressCb`.
    pub fn free(&self, address: u64, bytes: u64) -> UmdResult<()> {
        let args = D3DDDICB_FREEGPUVIRTUALADDRESS { BaseAddress: address, Size: bytes };
        self.call_const(self.table().pfnFreeGpuVirtualAddressCb, &args)
    }
}

fn paging_response(result: HRESULT, value: u64) -> UmdResult<PagingResponse> {
    let pending = result == E_PENDING;
    if pending { Ok(()) } else { to_result(result) }.map(|()| PagingResponse { pending, value })
}
