//! A client in safe Rust: paging queues, residency and locks.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::{Client, check_status, list_pointer};
use crate::table;
use abi::kmt::{
    D3DKMT_CREATEPAGINGQUEUE, D3DKMT_EVICT, D3DKMT_LOCK, D3DKMT_LOCK2, D3DKMT_UNLOCK,
    D3DKMT_UNLOCK2, D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
};
use abi::status::{STATUS_NO_MEMORY, STATUS_PENDING};
use abi::ukm::{
    D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_EVICT_FLAGS, D3DDDI_MAKERESIDENT, D3DDDI_MAKERESIDENT_FLAGS,
    D3DDDICB_LOCK2FLAGS, D3DDDICB_LOCKFLAGS,
};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;

/// A paging queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagingQueue {
    /// The queue (`hPagingQueue`).
    pub queue: D3DKMT_HANDLE,
    /// Its fence (`hSyncObject`).
    pub fence: D3DKMT_HANDLE,
    /// The CPU address of the fence value.
    pub value: usize,
}

/// The result of `D3DKMTMakeResident`, other than an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingStatus {
    /// All allocations are resident.
    Resident,
    /// All allocations are resident when the fence has this value.
    Pending(u64),
    /// Not enough memory: this many bytes must be evicted (`NumBytesToTrim`).
    NoMemory(u64),
}

impl Client {
    /// `D3DKMTCreatePagingQueue`.
    pub fn create_paging_queue(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        priority: i32,
    ) -> Result<PagingQueue, NTSTATUS> {
        let mut args = D3DKMT_CREATEPAGINGQUEUE {
            hDevice: device,
            Priority: priority,
            ..D3DKMT_CREATEPAGINGQUEUE::ZERO
        };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTCreatePagingQueue(&self.session, at, &raw mut args) })?;
        let value = args.FenceValueCPUVirtualAddress.addr();
        Ok(PagingQueue { queue: args.hPagingQueue, fence: args.hSyncObject, value })
    }

    /// `D3DKMTDestroyPagingQueue`.
    pub fn destroy_paging_queue(
        &self,
        at: &mut Passive,
        queue: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DDDI_DESTROYPAGINGQUEUE { hPagingQueue: queue };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTDestroyPagingQueue(&self.session, at, &raw mut args) })
    }

    /// `D3DKMTWaitForSynchronizationObjectFromCpu`, for one fence.
    pub fn wait(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        fence: D3DKMT_HANDLE,
        value: u64,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: device,
            ObjectCount: 1,
            ObjectHandleArray: &raw const fence,
            FenceValueArray: &raw const value,
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::ZERO
        };
        let session = &self.session;
        let args = &raw const args;
        // SAFETY: `args`, the fence and the value outlive the call; both lists have one element.
        check_status(unsafe { table::D3DKMTWaitForSynchronizationObjectFromCpu(session, at, args) })
    }

    /// `D3DKMTMakeResident`, with flags.
    pub fn make_resident(
        &self,
        at: &mut Passive,
        queue: D3DKMT_HANDLE,
        list: &[D3DKMT_HANDLE],
        flags: u32,
    ) -> Result<PagingStatus, NTSTATUS> {
        let mut args = D3DDDI_MAKERESIDENT {
            hPagingQueue: queue,
            NumAllocations: count(list),
            AllocationList: list_pointer(list),
            Flags: D3DDDI_MAKERESIDENT_FLAGS { Value: flags },
            ..D3DDDI_MAKERESIDENT::ZERO
        };
        // SAFETY: `args` and the list outlive the call.
        let status = unsafe { table::D3DKMTMakeResident(&self.session, at, &raw mut args) };
        match status {
            STATUS_PENDING => Ok(PagingStatus::Pending(args.PagingFenceValue)),
            STATUS_NO_MEMORY => Ok(PagingStatus::NoMemory(args.NumBytesToTrim)),
            other => check_status(other).map(|()| PagingStatus::Resident),
        }
    }

    /// `D3DKMTEvict`, with flags. Returns `NumBytesToTrim`.
    pub fn evict(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        list: &[D3DKMT_HANDLE],
        flags: u32,
    ) -> Result<u64, NTSTATUS> {
        let mut args = D3DKMT_EVICT {
            hDevice: device,
            NumAllocations: count(list),
            AllocationList: list_pointer(list),
            Flags: D3DDDI_EVICT_FLAGS { Value: flags },
            ..D3DKMT_EVICT::ZERO
        };
        // SAFETY: `args` and the list outlive the call.
        check_status(unsafe { table::D3DKMTEvict(&self.session, at, &raw mut args) })?;
        Ok(args.NumBytesToTrim)
    }

    /// `D3DKMTLock`, with flags and a page list. Returns the address.
    pub fn lock(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        allocation: D3DKMT_HANDLE,
        flags: u32,
        pages: &[u32],
    ) -> Result<usize, NTSTATUS> {
        let mut args = D3DKMT_LOCK {
            hDevice: device,
            hAllocation: allocation,
            NumPages: count(pages),
            pPages: list_pointer(pages),
            Flags: D3DDDICB_LOCKFLAGS { Value: flags },
            ..D3DKMT_LOCK::ZERO
        };
        // SAFETY: `args` and the pages outlive the call.
        check_status(unsafe { table::D3DKMTLock(&self.session, at, &raw mut args) })?;
        Ok(args.pData.addr())
    }

    /// `D3DKMTLock` of the whole allocation, with `Discard` and these flags. Returns the new handle
    /// of the allocation and the address.
    pub fn lock_discard(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        allocation: D3DKMT_HANDLE,
        flags: u32,
    ) -> Result<(D3DKMT_HANDLE, usize), NTSTATUS> {
        let discards = D3DDDICB_LOCKFLAGS::Discard | D3DDDICB_LOCKFLAGS::LockEntire;
        let mut args = D3DKMT_LOCK {
            hDevice: device,
            hAllocation: allocation,
            Flags: D3DDDICB_LOCKFLAGS { Value: flags | discards },
            ..D3DKMT_LOCK::ZERO
        };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTLock(&self.session, at, &raw mut args) })?;
        Ok((args.hAllocation, args.pData.addr()))
    }

    /// `D3DKMTUnlock`.
    pub fn unlock(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        list: &[D3DKMT_HANDLE],
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_UNLOCK {
            hDevice: device,
            NumAllocations: count(list),
            phAllocations: list_pointer(list),
        };
        // SAFETY: `args` and the list outlive the call.
        check_status(unsafe { table::D3DKMTUnlock(&self.session, at, &raw const args) })
    }

    /// `D3DKMTLock2`, with flags. Returns the address.
    pub fn lock2(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        allocation: D3DKMT_HANDLE,
        flags: u32,
    ) -> Result<usize, NTSTATUS> {
        let mut args = D3DKMT_LOCK2 {
            hDevice: device,
            hAllocation: allocation,
            Flags: D3DDDICB_LOCK2FLAGS { Value: flags },
            ..D3DKMT_LOCK2::ZERO
        };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTLock2(&self.session, at, &raw mut args) })?;
        Ok(args.pData.addr())
    }

    /// `D3DKMTUnlock2`.
    pub fn unlock2(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        allocation: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_UNLOCK2 { hDevice: device, hAllocation: allocation };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTUnlock2(&self.session, at, &raw const args) })
    }
}

pub(crate) fn count(list: &[u32]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
