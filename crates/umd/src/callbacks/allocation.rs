//! Allocations: create, free, lock, set priority and query residency.

use super::{Callbacks, count, list};
use crate::args::{ResidencyStatus, RuntimeResource};
use crate::memory::Memory;
use crate::result::{UmdResult, to_result};
use abi::D3DKMT_HANDLE;
use abi::ukm::{
    D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO_FLAGS, D3DDDICB_DESTROYALLOCATION2FLAGS,
    D3DDDICB_LOCK2FLAGS, D3DDDICB_LOCKFLAGS,
};
use abi::umd::{
    D3DDDI_RESIDENCYSTATUS_RESIDENTINGPUMEMORY, D3DDDI_RESIDENCYSTATUS_RESIDENTINSHAREDMEMORY,
    D3DDDICB_ALLOCATE, D3DDDICB_DEALLOCATE, D3DDDICB_DEALLOCATE2, D3DDDICB_LOCK, D3DDDICB_LOCK2,
    D3DDDICB_QUERYRESIDENCY, D3DDDICB_SETPRIORITY, D3DDDICB_UNLOCK, D3DDDICB_UNLOCK2,
};
use core::ptr;

/// One allocation to create (`D3DDDI_ALLOCATIONINFO`).
#[derive(Clone, Debug, Default)]
pub struct NewAllocation {
    /// The private data for the miniport, which may write to the same bytes.
    pub private: Vec<u8>,
    /// `pSystemMem`: memory of the runtime to use for the allocation.
    pub system_memory: Option<Memory>,
    /// `VidPnSourceId`.
    pub source: u32,
    /// `Flags.Primary`.
    pub primary: bool,
}

/// The created objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocateResponse {
    /// `hKMResource`, or zero.
    pub resource: D3DKMT_HANDLE,
    /// The allocations, in order.
    pub allocations: Vec<D3DKMT_HANDLE>,
}

/// What to free: a resource with all its allocations, or a list. Setting both is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeallocateRequest {
    /// `hResource`.
    pub resource: RuntimeResource,
    /// `HandleList`.
    pub list: Vec<D3DKMT_HANDLE>,
}

impl Callbacks {
    /// `pfnAllocateCb`: creates allocations, with or without a resource. Private data that the
    /// miniport changed is copied back to `allocations`.
    pub fn allocate(
        &self,
        resource: RuntimeResource,
        private: &[u8],
        allocations: &mut [NewAllocation],
    ) -> UmdResult<AllocateResponse> {
        let info = |new_allocation: &mut NewAllocation| D3DDDI_ALLOCATIONINFO {
            pSystemMem: new_allocation
                .system_memory
                .map_or(ptr::null(), |memory| ptr::with_exposed_provenance(memory.address())),
            pPrivateDriverData: new_allocation.private.as_mut_ptr().cast(),
            PrivateDriverDataSize: count(new_allocation.private.len()),
            VidPnSourceId: new_allocation.source,
            Flags: D3DDDI_ALLOCATIONINFO_FLAGS {
                Value: if new_allocation.primary {
                    D3DDDI_ALLOCATIONINFO_FLAGS::Primary
                } else {
                    0
                },
            },
            ..D3DDDI_ALLOCATIONINFO::ZERO
        };
        let mut infos: Vec<D3DDDI_ALLOCATIONINFO> = allocations.iter_mut().map(info).collect();
        let mut args = D3DDDICB_ALLOCATE {
            pPrivateDriverData: list(private).cast(),
            PrivateDriverDataSize: count(private.len()),
            hResource: ptr::with_exposed_provenance_mut(resource.0),
            NumAllocations: count(infos.len()),
            pAllocationInfo: infos.as_mut_ptr(),
            ..D3DDDICB_ALLOCATE::ZERO
        };
        to_result(self.call_mut(self.table().pfnAllocateCb, &mut args))?;
        let allocations = infos.iter().map(|info| info.hAllocation).collect();
        Ok(AllocateResponse { resource: args.hKMResource, allocations })
    }

    /// `pfnDeallocateCb`.
    pub fn deallocate(&self, release: &DeallocateRequest) -> UmdResult<()> {
        let args = D3DDDICB_DEALLOCATE {
            hResource: ptr::with_exposed_provenance_mut(release.resource.0),
            NumAllocations: count(release.list.len()),
            HandleList: list(&release.list),
        };
        self.call_const(self.table().pfnDeallocateCb, &args)
    }

    /// `pfnDeallocate2Cb`, with its flags (`D3DDDICB_DESTROYALLOCATION2FLAGS`).
    pub fn deallocate2(&self, release: &DeallocateRequest, flags: u32) -> UmdResult<()> {
        let args = D3DDDICB_DEALLOCATE2 {
            hResource: ptr::with_exposed_provenance_mut(release.resource.0),
            NumAllocations: count(release.list.len()),
            HandleList: list(&release.list),
            Flags: D3DDDICB_DESTROYALLOCATION2FLAGS { Value: flags },
        };
        self.call_const(self.table().pfnDeallocate2Cb, &args)
    }

    /// `pfnLockCb` for a whole allocation, with `D3DDDICB_LOCKFLAGS`: `LockEntire` or pages.
    /// Returns the allocation's handle, which is a new one after a discard.
    ///
    /// The runtime does not return the size of an allocation: `length` is the size that the driver
    /// requested. If `length` is too large, accesses beyond the allocation fail.
    pub fn lock(
        &self,
        allocation: D3DKMT_HANDLE,
        flags: u32,
        pages: &[u32],
        length: usize,
    ) -> UmdResult<(D3DKMT_HANDLE, Memory)> {
        let mut args = D3DDDICB_LOCK {
            hAllocation: allocation,
            NumPages: count(pages.len()),
            pPages: list(pages),
            Flags: D3DDDICB_LOCKFLAGS { Value: flags },
            ..D3DDDICB_LOCK::ZERO
        };
        to_result(self.call_mut(self.table().pfnLockCb, &mut args))?;
        Ok((args.hAllocation, self.memory(args.pData, length)))
    }

    /// `pfnUnlockCb`.
    pub fn unlock(&self, allocations: &[D3DKMT_HANDLE]) -> UmdResult<()> {
        let args = D3DDDICB_UNLOCK {
            NumAllocations: count(allocations.len()),
            phAllocations: list(allocations),
        };
        self.call_const(self.table().pfnUnlockCb, &args)
    }

    /// `pfnLock2Cb`. For `length` see [`Self::lock`].
    pub fn lock2(&self, allocation: D3DKMT_HANDLE, flags: u32, length: usize) -> UmdResult<Memory> {
        let mut args = D3DDDICB_LOCK2 {
            hAllocation: allocation,
            Flags: D3DDDICB_LOCK2FLAGS { Value: flags },
            ..D3DDDICB_LOCK2::ZERO
        };
        to_result(self.call_mut(self.table().pfnLock2Cb, &mut args))?;
        Ok(self.memory(args.pData, length))
    }

    /// `pfnUnlock2Cb`.
    pub fn unlock2(&self, allocation: D3DKMT_HANDLE) -> UmdResult<()> {
        let args = D3DDDICB_UNLOCK2 { hAllocation: allocation };
        self.call_const(self.table().pfnUnlock2Cb, &args)
    }

    /// `pfnSetPriorityCb`: for a resource, or for each allocation of a list.
    pub fn set_priority(&self, of: &DeallocateRequest, priorities: &[u32]) -> UmdResult<()> {
        let mut args = D3DDDICB_SETPRIORITY {
            hResource: ptr::with_exposed_provenance_mut(of.resource.0),
            NumAllocations: count(of.list.len()),
            HandleList: list(&of.list),
            pPriorities: list(priorities),
        };
        to_result(self.call_mut(self.table().pfnSetPriorityCb, &mut args))
    }

    /// `pfnQueryResidencyCb`: one result for a resource, or one for each allocation of a list.
    pub fn query_residency(&self, of: &DeallocateRequest) -> UmdResult<Vec<ResidencyStatus>> {
        let mut statuses = vec![0; of.list.len().max(1)];
        let args = D3DDDICB_QUERYRESIDENCY {
            hResource: ptr::with_exposed_provenance_mut(of.resource.0),
            NumAllocations: count(of.list.len()),
            HandleList: list(&of.list),
            pResidencyStatus: statuses.as_mut_ptr(),
        };
        self.call_const(self.table().pfnQueryResidencyCb, &args)?;
        let residency = |value: &i32| match *value {
            D3DDDI_RESIDENCYSTATUS_RESIDENTINGPUMEMORY => ResidencyStatus::GpuMemory,
            D3DDDI_RESIDENCYSTATUS_RESIDENTINSHAREDMEMORY => ResidencyStatus::SharedMemory,
            _ => ResidencyStatus::NotResident,
        };
        Ok(statuses.iter().map(residency).collect())
    }
}
