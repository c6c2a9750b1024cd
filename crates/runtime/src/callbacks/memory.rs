//! Residency, priority and GPU virtual addresses.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

use crate::device::DeviceState;
use crate::result::hresult_from_status;
use abi::hresult::E_INVALIDARG;
use abi::kmt::{
    D3DKMT_CREATEPAGINGQUEUE, D3DKMT_EVICT, D3DKMT_FREEGPUVIRTUALADDRESS, D3DKMT_OFFERALLOCATIONS,
    D3DKMT_QUERYALLOCATIONRESIDENCY, D3DKMT_RECLAIMALLOCATIONS, D3DKMT_RECLAIMALLOCATIONS2,
    D3DKMT_SETALLOCATIONPRIORITY, D3DKMT_UPDATEGPUVIRTUALADDRESS,
    D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS,
};
use abi::ukm::{
    D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_MAKERESIDENT, D3DDDI_MAPGPUVIRTUALADDRESS,
    D3DDDI_RESERVEGPUVIRTUALADDRESS,
};
use abi::umd::{
    D3DDDICB_CREATEPAGINGQUEUE, D3DDDICB_EVICT, D3DDDICB_FREEGPUVIRTUALADDRESS,
    D3DDDICB_OFFERALLOCATIONS, D3DDDICB_QUERYRESIDENCY, D3DDDICB_RECLAIMALLOCATIONS,
    D3DDDICB_RECLAIMALLOCATIONS2, D3DDDICB_SETPRIORITY, D3DDDICB_UPDATEGPUVIRTUALADDRESS,
};
use abi::{D3DKMT_HANDLE, HANDLE, HRESULT};
use thunk::claims;

callback! {
    /// Sets the residency priority of allocations.
    set_priority "pfnSetPriorityCb" Submits mut D3DDDICB_SETPRIORITY: |device, at, request| {
        let args = D3DKMT_SETALLOCATIONPRIORITY {
            hDevice: device.kernel_handle,
            hResource: device.resource(request.hResource, NAME)?,
            phAllocationList: request.HandleList,
            AllocationCount: request.NumAllocations,
            pPriorities: request.pPriorities,
        };
        through!(D3DKMTSetAllocationPriority, device, at, &raw const args)
    }
}

callback! {
    /// Queries the residency of allocations.
    query_residency "pfnQueryResidencyCb" Submits const D3DDDICB_QUERYRESIDENCY:
    |device, at, request| {
        let mut args = D3DKMT_QUERYALLOCATIONRESIDENCY {
            hDevice: device.kernel_handle,
            hResource: device.resource(request.hResource, NAME)?,
            phAllocationList: request.HandleList,
            AllocationCount: request.NumAllocations,
            pResidencyStatus: request.pResidencyStatus,
        };
        through!(D3DKMTQueryAllocationResidency, device, at, &raw mut args)
    }
}

callback! {
    /// Makes allocations resident. A pending operation returns a paging fence value to wait for.
    make_resident "pfnMakeResidentCb" Submits mut D3DDDI_MAKERESIDENT: |device, at, request| {
        through!(D3DKMTMakeResident, device, at, &raw mut *request)
    }
}

callback! {
    /// Evicts allocations.
    evict "pfnEvictCb" Submits mut D3DDDICB_EVICT: |device, at, request| {
        let mut args = D3DKMT_EVICT {
            hDevice: device.kernel_handle,
            NumAllocations: request.NumAllocations,
            AllocationList: request.AllocationList,
            Flags: request.Flags,
            NumBytesToTrim: 0,
        };
        through!(D3DKMTEvict, device, at, &raw mut args)?;
        request.NumBytesToTrim = args.NumBytesToTrim;
        Ok(())
    }
}

callback! {
    /// Creates a paging queue.
    create_queue "pfnCreatePagingQueueCb" Submits mut D3DDDICB_CREATEPAGINGQUEUE:
    |device, at, request| {
        let mut args = D3DKMT_CREATEPAGINGQUEUE {
            hDevice: device.kernel_handle,
            Priority: request.Priority,
            PhysicalAdapterIndex: request.PhysicalAdapterIndex,
            ..D3DKMT_CREATEPAGINGQUEUE::ZERO
        };
        through!(D3DKMTCreatePagingQueue, device, at, &raw mut args)?;
        request.hPagingQueue = args.hPagingQueue;
        request.hSyncObject = args.hSyncObject;
        request.FenceValueCPUVirtualAddress = args.FenceValueCPUVirtualAddress;
        device.ledger().queues.insert(args.hPagingQueue, args.hSyncObject);
        Ok(())
    }
}

callback! {
    /// Destroys a paging queue.
    destroy_queue "pfnDestroyPagingQueueCb" Submits const D3DDDI_DESTROYPAGINGQUEUE:
    |device, at, request| {
        let mut args = *request;
        through!(D3DKMTDestroyPagingQueue, device, at, &raw mut args)?;
        device.ledger().queues.remove(&request.hPagingQueue);
        Ok(())
    }
}

callback! {
    /// Offers allocations for reuse of their memory.
    offer "pfnOfferAllocationsCb" Submits const D3DDDICB_OFFERALLOCATIONS: |device, at, request| {
        let mut resources = kernel_resources(device, NAME, request.pResources, request.NumAllocations)?;
        let args = D3DKMT_OFFERALLOCATIONS {
            hDevice: device.kernel_handle,
            pResources: handle_list(&mut resources),
            HandleList: request.HandleList,
            NumAllocations: request.NumAllocations,
            Priority: request.Priority,
            ..D3DKMT_OFFERALLOCATIONS::ZERO
        };
        through!(D3DKMTOfferAllocations, device, at, &raw const args)
    }
}

callback! {
    /// Reclaims offered allocations.
    reclaim "pfnReclaimAllocationsCb" Submits const D3DDDICB_RECLAIMALLOCATIONS:
    |device, at, request| {
        let mut resources = kernel_resources(device, NAME, request.pResources, request.NumAllocations)?;
        let args = D3DKMT_RECLAIMALLOCATIONS {
            hDevice: device.kernel_handle,
            pResources: handle_list(&mut resources),
            HandleList: request.HandleList,
            pDiscarded: request.pDiscarded,
            NumAllocations: request.NumAllocations,
        };
        through!(D3DKMTReclaimAllocations, device, at, &raw const args)
    }
}

callback! {
    /// Reclaims offered allocations through a paging queue.
    reclaim2 "pfnReclaimAllocations2Cb" Submits mut D3DDDICB_RECLAIMALLOCATIONS2:
    |device, at, request| {
        let mut resources = kernel_resources(device, NAME, request.pResources, request.NumAllocations)?;
        let mut args = D3DKMT_RECLAIMALLOCATIONS2 {
            hPagingQueue: request.PagingQueue,
            NumAllocations: request.NumAllocations,
            pResources: handle_list(&mut resources),
            HandleList: request.HandleList,
            pDiscarded: request.pDiscarded,
            PagingFenceValue: 0,
        };
        let answer =
            through!(D3DKMTReclaimAllocations2, device, at, &raw mut args);
        request.PagingFenceValue = args.PagingFenceValue;
        answer
    }
}

/// The kernel handles of resources that a driver identifies by the runtime's handles.
fn kernel_resources(
    device: &DeviceState,
    name: &'static str,
    given: *const HANDLE,
    count: u32,
) -> Result<Vec<D3DKMT_HANDLE>, HRESULT> {
    if given.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: The driver's creator vouches for the list.
    let given = unsafe { claims::read_list(given, count as usize) };
    let found =
        given.map_err(hresult_from_status)?.into_iter().map(|c_void| device.resource(c_void, name));
    let found: Vec<u32> = found.collect::<Result<_, _>>()?;
    if found.contains(&0) { Err(E_INVALIDARG) } else { Ok(found) }
}

/// A pointer to a list, NULL if the list is empty.
fn handle_list(it: &mut [D3DKMT_HANDLE]) -> *mut D3DKMT_HANDLE {
    if it.is_empty() { std::ptr::null_mut() } else { it.as_mut_ptr() }
}

callback! {
    /// Reserves a GPU virtual address range.
    reserve_address "pfnReserveGpuVirtualAddressCb" Submits mut D3DDDI_RESERVEGPUVIRTUALADDRESS:
    |device, at, request| {
        through!(D3DKMTReserveGpuVirtualAddress, device, at, &raw mut *request)
    }
}

callback! {
    /// Maps an allocation at a GPU virtual address.
    map_address "pfnMapGpuVirtualAddressCb" Submits mut D3DDDI_MAPGPUVIRTUALADDRESS:
    |device, at, request| {
        through!(D3DKMTMapGpuVirtualAddress, device, at, &raw mut *request)
    }
}

callback! {
    /// Frees a GPU virtual address range.
    free_address "pfnFreeGpuVirtualAddressCb" Submits const D3DDDICB_FREEGPUVIRTUALADDRESS:
    |device, at, request| {
        let args = D3DKMT_FREEGPUVIRTUALADDRESS {
            hAdapter: device.adapter.kernel_handle,
            BaseAddress: request.BaseAddress,
            Size: request.Size,
        };
        through!(D3DKMTFreeGpuVirtualAddress, device, at, &raw const args)
    }
}

callback! {
    /// Updates GPU virtual address mappings when a fence is signaled.
    update_address "pfnUpdateGpuVirtualAddressCb" Submits mut D3DDDICB_UPDATEGPUVIRTUALADDRESS:
    |device, at, request| {
        let args = D3DKMT_UPDATEGPUVIRTUALADDRESS {
            hDevice: device.kernel_handle,
            hContext: device.context(request.hContext, NAME)?,
            hFenceObject: request.hFenceObject,
            NumOperations: request.NumOperations,
            Operations: request.Operations,
            FenceValue: request.FenceValue,
            Flags: D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS { Value: request.Flags },
            ..D3DKMT_UPDATEGPUVIRTUALADDRESS::ZERO
        };
        through!(D3DKMTUpdateGpuVirtualAddress, device, at, &raw const args)
    }
}
