//! The entry points that take an object which another thread may end, one row each.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::racing::objects::DriverKind::{Addresses, Lists, Packets};
use crate::racing::objects::Ending::{
    AdapterHandle, Allocation, AllocationNow, Context, Device, Fence, KeyedMutex, NtHandle,
    OldSyncObjects, PagingQueue, Resource, SharedResource,
};
use crate::racing::objects::{CallResult, DriverKind, Ending, RacingObjects};
use abi::kmt::{
    D3DKMT_DEVICE_ERROR_REASON_GENERIC, D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY,
    D3DKMT_INVALIDATECACHE, D3DKMT_MARKDEVICEASERROR, D3DKMT_OPENRESOURCE,
    D3DKMT_QUERYRESOURCEINFO, D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
    D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY, D3DKMT_SETQUEUEDLIMIT,
    D3DKMT_SETVIDPNSOURCEOWNER1, D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, GENERIC_ALL,
};
use abi::ukm::{
    D3DDDI_OPENALLOCATIONINFO2, D3DDDI_UPDATEALLOCPROPERTY,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation, D3DDDICB_LOCKFLAGS as LockFlags,
};
use flight::Passive;
use softgpu::format::{Escape, describe, escape};
use std::ptr::{self, without_provenance_mut};
use thunk::{AllocationSelection, CpuWait, CreateAllocation, EscapeCall, SyncObject};

/// An entry point that takes an object which another thread may end.
pub struct RacingCall {
    /// The Windows name of the entry point, and in brackets what is special in this row.
    pub name: &'static str,
    /// The driver.
    pub on: DriverKind,
    /// The objects that it takes. Beside every call a process ends, too, and an adapter.
    pub takes: &'static [Ending],
    /// Makes the call.
    pub call: fn(&RacingObjects, &mut Passive) -> CallResult,
}

const fn row(
    name: &'static str,
    on: DriverKind,
    takes: &'static [Ending],
    call: fn(&RacingObjects, &mut Passive) -> CallResult,
) -> RacingCall {
    RacingCall { name, on, takes, call }
}

/// Calls an entry point by name with a structure that contains no pointers, or valid ones.
fn call<T>(objects: &RacingObjects, at: &mut Passive, name: &str, mut args: T) -> CallResult {
    let found = thunk::ENTRIES.iter().find(|entry| entry.name == name);
    let entry = found.unwrap_or_else(|| panic!("there is no entry point {name}"));
    assert_eq!(entry.bytes, size_of::<T>(), "the structure of {name}");
    // SAFETY: `args` has the size of the entry point's structure and outlives the call.
    let status = unsafe { (entry.call)(objects.client.session(), at, (&raw mut args).cast()) };
    if status == 0 { Ok(()) } else { Err(status) }
}

/// The allocation and the member of the resource, by handles.
fn selection<T>(
    objects: &RacingObjects,
    body: impl FnOnce(AllocationSelection<'_>) -> Result<T, abi::NTSTATUS>,
) -> CallResult {
    body(AllocationSelection::of(objects.device, &[objects.allocation])).map(drop)
}

/// The members of the resource, by the resource's handle.
fn of_resource<T>(
    objects: &RacingObjects,
    body: impl FnOnce(AllocationSelection<'_>) -> Result<T, abi::NTSTATUS>,
) -> CallResult {
    let resources = &[objects.resource];
    body(AllocationSelection { device: objects.device, resources, list: &[] }).map(drop)
}

/// The rows. An entry point that takes such an object needs a row: a test compares.
pub const RACING_CALLS: &[RacingCall] = &[
    row("D3DKMTCreateDevice", Packets, &[AdapterHandle], |o, at| {
        o.client.create_device(at, o.adapter).map(drop)
    }),
    row("D3DKMTCreateDevice [addresses]", Addresses, &[AdapterHandle, Device], |o, at| {
        o.client.create_device(at, o.adapter).map(drop)
    }),
    row("D3DKMTDestroyDevice", Packets, &[Device], |o, at| o.client.destroy_device(at, o.device)),
    row("D3DKMTCreateContextVirtual", Packets, &[Device], |o, at| {
        o.client.create_context(at, o.device, 0).map(drop)
    }),
    row("D3DKMTCreateContextVirtual [addresses]", Addresses, &[Device], |o, at| {
        o.client.create_context(at, o.device, 0).map(drop)
    }),
    row("D3DKMTCreateContext", Lists, &[Device], |o, at| {
        o.client.create_context_with_lists(at, o.device, 0).map(drop)
    }),
    row("D3DKMTDestroyContext", Packets, &[Context, Device], |o, at| {
        o.client.destroy_context(at, o.context)
    }),
    row("D3DKMTDestroyContext [lists]", Lists, &[Context, Device], |o, at| {
        o.client.destroy_context(at, o.context)
    }),
    row(
        "D3DKMTSubmitCommand",
        Packets,
        &[Context, Device, Allocation, AllocationNow],
        RacingObjects::submit,
    ),
    row(
        "D3DKMTSubmitCommand [addresses]",
        Addresses,
        &[Context, Device, Allocation, AllocationNow, PagingQueue],
        RacingObjects::submit,
    ),
    row("D3DKMTRender", Lists, &[Context, Device, Allocation, AllocationNow], |o, at| {
        let Some(mut buffers) = o.buffers else { return Ok(()) };
        o.client.render_written(at, &mut buffers, &o.packet()).map(drop)
    }),
    row("D3DKMTSetContextSchedulingPriority", Packets, &[Context, Device], |o, at| {
        o.client.set_context_priority(at, o.context, 1)
    }),
    row("D3DKMTGetContextSchedulingPriority", Packets, &[Context, Device], |o, at| {
        o.client.context_priority(at, o.context).map(drop)
    }),
    row("D3DKMTSetContextInProcessSchedulingPriority", Packets, &[Context, Device], |o, at| {
        let args =
            D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext: o.context, Priority: 1 };
        call(o, at, "D3DKMTSetContextInProcessSchedulingPriority", args)
    }),
    row("D3DKMTGetContextInProcessSchedulingPriority", Packets, &[Context, Device], |o, at| {
        let args =
            D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext: o.context, Priority: 0 };
        call(o, at, "D3DKMTGetContextInProcessSchedulingPriority", args)
    }),
    row("D3DKMTCreateAllocation", Packets, &[Device], |o, at| {
        o.client.create_one(at, o.device, &mut describe(4096)).map(drop)
    }),
    row("D3DKMTCreateAllocation2", Packets, &[Device, Resource], |o, at| {
        let create = CreateAllocation::new(o.device, vec![describe(4096)]);
        o.client.create(at, &create.into_resource(o.resource)).map(drop)
    }),
    row("D3DKMTDestroyAllocation", Packets, &[Allocation, AllocationNow, Device], |o, at| {
        o.client.destroy_v1(at, &o.destroy_request())
    }),
    row("D3DKMTDestroyAllocation2", Packets, &[Allocation, AllocationNow, Device], |o, at| {
        o.client.destroy_one(at, o.device, o.allocation)
    }),
    row("D3DKMTDestroyAllocation2 [resource]", Packets, &[Resource, Device], |o, at| {
        o.client.destroy_resource(at, o.device, o.resource)
    }),
    row("D3DKMTGetDeviceState", Packets, &[Device], |o, at| {
        o.client.device_state(at, o.device).map(drop)
    }),
    row("D3DKMTMarkDeviceAsError", Packets, &[Device], |o, at| {
        let args = D3DKMT_MARKDEVICEASERROR {
            hDevice: o.device,
            Reason: D3DKMT_DEVICE_ERROR_REASON_GENERIC,
        };
        call(o, at, "D3DKMTMarkDeviceAsError", args)
    }),
    row("D3DKMTSetVidPnSourceOwner", Packets, &[Device], |o, at| {
        o.client.own_source(at, o.device, D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE)
    }),
    row("D3DKMTSetVidPnSourceOwner1", Packets, &[Device], |o, at| {
        let (kind, source) = (D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, 0);
        let mut args = D3DKMT_SETVIDPNSOURCEOWNER1::ZERO;
        args.Version0.hDevice = o.device;
        args.Version0.VidPnSourceCount = 1;
        args.Version0.pType = &raw const kind;
        args.Version0.pVidPnSourceId = &raw const source;
        call(o, at, "D3DKMTSetVidPnSourceOwner1", args)
    }),
    row("D3DKMTSetQueuedLimit", Packets, &[Device], |o, at| {
        let mut args = D3DKMT_SETQUEUEDLIMIT::ZERO;
        (args.hDevice, args.Type, args.QueuedPresentLimit) = (o.device, 1, 3);
        call(o, at, "D3DKMTSetQueuedLimit", args)
    }),
    row("D3DKMTEscape", Packets, &[Context, Device, AdapterHandle], |o, at| {
        let call = EscapeCall {
            adapter: o.adapter,
            device: o.device,
            context: o.context,
            private: escape(Escape::Mirror(1)),
            ..EscapeCall::default()
        };
        o.client.escape(at, &call).map(drop)
    }),
    row("D3DKMTEscape [hardware]", Packets, &[Context, Device, AdapterHandle], |o, at| {
        let call = EscapeCall {
            adapter: o.adapter,
            device: o.device,
            context: o.context,
            flags: 1,
            private: escape(Escape::Packets),
            ..EscapeCall::default()
        };
        o.client.escape(at, &call).map(drop)
    }),
    row("D3DKMTQueryResourceInfo", Packets, &[Device, SharedResource], |o, at| {
        let mut args = D3DKMT_QUERYRESOURCEINFO::ZERO;
        (args.hDevice, args.hGlobalShare) = (o.device, o.global);
        call(o, at, "D3DKMTQueryResourceInfo", args)
    }),
    row("D3DKMTOpenResource", Packets, &[Device, SharedResource], |o, at| {
        o.client.open_shared_one(at, o.device, o.global, &mut describe(4096)).map(drop)
    }),
    row("D3DKMTOpenResource2", Packets, &[Device, SharedResource], |o, at| {
        let (mut info, mut private) = (D3DDDI_OPENALLOCATIONINFO2::ZERO, describe(4096));
        let mut args = D3DKMT_OPENRESOURCE::ZERO;
        (args.hDevice, args.hGlobalShare, args.NumAllocations) = (o.device, o.global, 1);
        args.pOpenAllocationInfo = (&raw mut info).cast();
        args.pTotalPrivateDriverDataBuffer = private.as_mut_ptr().cast();
        args.TotalPrivateDriverDataBufferSize = u32::try_from(private.len()).unwrap_or(0);
        call(o, at, "D3DKMTOpenResource2", args)
    }),
    row("D3DKMTShareObjects", Packets, &[SharedResource], |o, at| {
        o.client.share_objects(at, &[o.nt_resource], "Again", GENERIC_ALL).map(drop)
    }),
    row("D3DKMTShareObjects [fence]", Packets, &[Fence, Device], |o, at| {
        o.client.share_objects(at, &[o.fence], "Again", GENERIC_ALL).map(drop)
    }),
    row("D3DKMTOpenNtHandleFromName", Packets, &[SharedResource, NtHandle], |o, at| {
        o.client.open_nt_handle_from_name(at, "Bundle", GENERIC_ALL).map(drop)
    }),
    row("D3DKMTOpenSyncObjectNtHandleFromName", Packets, &[Fence, Device], |o, at| {
        o.client.open_sync_nt_handle_from_name(at, "Fence", GENERIC_ALL).map(drop)
    }),
    row(
        "D3DKMTQueryResourceInfoFromNtHandle",
        Packets,
        &[Device, SharedResource, NtHandle],
        |o, at| {
            let mut args = D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE::ZERO;
            (args.hDevice, args.hNtHandle) = (o.device, without_provenance_mut(o.nt_handle));
            call(o, at, "D3DKMTQueryResourceInfoFromNtHandle", args)
        },
    ),
    row("D3DKMTOpenResourceFromNtHandle", Packets, &[Device, SharedResource, NtHandle], |o, at| {
        o.client.open_nt_resource(at, o.device, without_provenance_mut(o.nt_handle)).map(drop)
    }),
    row("D3DKMTOpenSyncObjectFromNtHandle", Packets, &[Device, Fence], |o, at| {
        o.client.open_nt_sync(at, without_provenance_mut(o.fence_nt_handle)).map(drop)
    }),
    row("D3DKMTOpenSyncObjectFromNtHandle2", Packets, &[Device, Fence], |o, at| {
        let handle = without_provenance_mut(o.fence_nt_handle);
        o.client.open_nt_sync2(at, o.device, handle, 0).map(drop)
    }),
    row("D3DKMTOpenKeyedMutexFromNtHandle", Packets, &[SharedResource], |o, at| {
        o.client.open_nt_keyed_mutex(at, without_provenance_mut(o.nt_handle)).map(drop)
    }),
    row("D3DKMTGetSharedResourceAdapterLuid", Packets, &[SharedResource], |o, at| {
        o.client.shared_resource_luid(at, o.global, ptr::null_mut()).map(drop)
    }),
    row("D3DKMTCreatePagingQueue", Packets, &[Device], |o, at| {
        o.client.create_paging_queue(at, o.device, 0).map(drop)
    }),
    row("D3DKMTDestroyPagingQueue", Packets, &[PagingQueue, Device], |o, at| {
        o.client.destroy_paging_queue(at, o.queue())
    }),
    row("D3DKMTCreateSynchronizationObject", Packets, &[Device], |o, at| {
        o.client.create_sync_v1(at, o.device, SyncObject::Semaphore(0, 1)).map(drop)
    }),
    row("D3DKMTCreateSynchronizationObject2", Packets, &[Device], |o, at| {
        o.client.create_sync(at, o.device, SyncObject::Monitored(0), 0).map(drop)
    }),
    row("D3DKMTOpenSynchronizationObject", Packets, &[OldSyncObjects, Device], |o, at| {
        o.client.open_sync(at, o.global_sync).map(drop)
    }),
    row("D3DKMTDestroySynchronizationObject", Packets, &[Fence, Device], |o, at| {
        o.client.destroy_sync(at, o.fence)
    }),
    row(
        "D3DKMTSignalSynchronizationObject",
        Packets,
        &[Context, Device, OldSyncObjects],
        |o, at| o.client.signal_v1(at, o.context, &o.old_sync[..1]),
    ),
    row(
        "D3DKMTSignalSynchronizationObject2",
        Packets,
        &[Context, Device, OldSyncObjects],
        |o, at| o.client.signal_v2(at, (o.context, &[]), &o.old_sync[1..], 2),
    ),
    row("D3DKMTSignalSynchronizationObjectFromCpu", Packets, &[Device, Fence], |o, at| {
        o.client.signal_cpu(at, o.device, &[(o.fence, 2)], 0)
    }),
    row("D3DKMTSignalSynchronizationObjectFromGpu", Packets, &[Context, Device, Fence], |o, at| {
        o.client.signal_gpu(at, o.context, &[(o.fence, 2)])
    }),
    row(
        "D3DKMTSignalSynchronizationObjectFromGpu2",
        Packets,
        &[Context, Device, Fence],
        |o, at| {
            let event = o.client.create_event();
            o.client.signal_event_gpu(at, o.context, event)?;
            o.client.broadcast_gpu(at, &[o.context], &[(o.fence, 2)])
        },
    ),
    row(
        "D3DKMTWaitForSynchronizationObject",
        Packets,
        &[Context, Device, OldSyncObjects],
        |o, at| o.client.wait_v1(at, o.context, &o.old_sync[..1]),
    ),
    row("D3DKMTWaitForSynchronizationObject2", Packets, &[Device, OldSyncObjects], |o, at| {
        o.client.wait_v2(at, o.context, &o.old_sync[1..], 2)
    }),
    row("D3DKMTWaitForSynchronizationObjectFromCpu", Packets, &[Device, Fence], |o, at| {
        o.client.wait(at, o.device, o.fence, 2)
    }),
    row("D3DKMTWaitForSynchronizationObjectFromCpu [event]", Packets, &[Device, Fence], |o, at| {
        let event = o.client.create_event();
        let wait = CpuWait { any: true, event };
        o.client.wait_cpu(at, o.device, &[(o.fence, 2)], wait)
    }),
    row(
        "D3DKMTWaitForSynchronizationObjectFromCpu [paging queue]",
        Packets,
        &[Device, PagingQueue],
        |o, at| {
            let fence = o.queue.map_or(0, |queue| queue.fence);
            o.client.wait(at, o.device, fence, 1 << 40)
        },
    ),
    row("D3DKMTCreateSyncFile", Packets, &[Device, Fence], |o, at| {
        o.client.create_sync_file(at, o.device, o.fence, 1).map(drop)
    }),
    row("D3DKMTWaitForSynchronizationObjectFromGpu", Packets, &[Device, Fence], |o, at| {
        o.client.wait_gpu(at, o.context, &[(o.fence, 2)])
    }),
    row("D3DKMTWaitForSynchronizationObjectFromGpu [satisfied]", Packets, &[Context], |o, at| {
        o.client.wait_gpu(at, o.context, &[(o.fence, 1)])
    }),
    row(
        "D3DKMTMakeResident",
        Packets,
        &[PagingQueue, Device, Allocation, AllocationNow],
        |o, at| o.client.make_resident(at, o.queue(), &[o.allocation], 0).map(drop),
    ),
    row("D3DKMTEvict", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        o.client.evict(at, o.device, &[o.allocation], 0).map(drop)
    }),
    row("D3DKMTLock", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        o.client.lock(at, o.device, o.allocation, LockFlags::LockEntire, &[]).map(drop)
    }),
    row("D3DKMTLock [lists]", Lists, &[Device, Allocation, AllocationNow], |o, at| {
        o.client.lock(at, o.device, o.allocation, LockFlags::LockEntire, &[]).map(drop)
    }),
    row("D3DKMTLock [discard]", Lists, &[Device, Allocation, AllocationNow], |o, at| {
        let flags = LockFlags::NoExistingReference;
        o.client.lock_discard(at, o.device, o.allocation, flags).map(drop)
    }),
    row("D3DKMTUnlock", Lists, &[Device], |o, at| o.client.unlock(at, o.device, &[o.locked])),
    row("D3DKMTLock2", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        o.client.lock2(at, o.device, o.allocation, 0).map(drop)
    }),
    row("D3DKMTLock2 [addresses]", Addresses, &[Device, Allocation, AllocationNow], |o, at| {
        o.client.lock2(at, o.device, o.allocation, 0).map(drop)
    }),
    row("D3DKMTUnlock2", Packets, &[Device], |o, at| o.client.unlock2(at, o.device, o.locked)),
    row("D3DKMTOfferAllocations", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        selection(o, |names| o.client.offer(at, names, 1))
    }),
    row("D3DKMTOfferAllocations [resource]", Packets, &[Device, Resource], |o, at| {
        of_resource(o, |names| o.client.offer(at, names, 1))
    }),
    row("D3DKMTReclaimAllocations", Lists, &[Device], |o, at| {
        let list = [o.offered];
        o.client.reclaim(at, AllocationSelection::of(o.device, &list)).map(drop)
    }),
    row("D3DKMTReclaimAllocations2", Packets, &[Device, PagingQueue], |o, at| {
        o.client.reclaim2(at, o.queue(), &[o.offered]).map(drop)
    }),
    row("D3DKMTSetAllocationPriority", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        selection(o, |names| o.client.set_priorities(at, names, &[1]))
    }),
    row("D3DKMTSetAllocationPriority [resource]", Packets, &[Device, Resource], |o, at| {
        of_resource(o, |names| o.client.set_priorities(at, names, &[1]))
    }),
    row("D3DKMTGetAllocationPriority", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        selection(o, |names| o.client.priorities(at, names))
    }),
    row(
        "D3DKMTQueryAllocationResidency",
        Packets,
        &[Device, Allocation, AllocationNow],
        |o, at| selection(o, |names| o.client.residency(at, names)),
    ),
    row("D3DKMTQueryAllocationResidency [resource]", Packets, &[Device, Resource], |o, at| {
        of_resource(o, |names| o.client.residency(at, names))
    }),
    row("D3DKMTInvalidateCache", Packets, &[Device, Allocation, AllocationNow], |o, at| {
        let args = D3DKMT_INVALIDATECACHE {
            hDevice: o.device,
            hAllocation: o.allocation,
            Offset: 0,
            Length: 4096,
        };
        call(o, at, "D3DKMTInvalidateCache", args)
    }),
    row(
        "D3DKMTUpdateAllocationProperty",
        Packets,
        &[Device, PagingQueue, Allocation, AllocationNow],
        |o, at| {
            let mut args = D3DDDI_UPDATEALLOCPROPERTY::ZERO;
            (args.hPagingQueue, args.hAllocation) = (o.queue(), o.allocation);
            call(o, at, "D3DKMTUpdateAllocationProperty", args)
        },
    ),
    row("D3DKMTCloseAdapter", Packets, &[AdapterHandle], |o, at| {
        o.client.close_adapter(at, o.adapter)
    }),
    row("D3DKMTCheckVidPnExclusiveOwnership", Packets, &[AdapterHandle, Device], |o, at| {
        o.client.check_source(at, o.adapter)
    }),
    row("D3DKMTQueryVideoMemoryInfo", Packets, &[AdapterHandle, Device], |o, at| {
        o.client.memory_info(at, o.adapter, 0, 0).map(drop)
    }),
    row("D3DKMTChangeVideoMemoryReservation", Packets, &[AdapterHandle, Device], |o, at| {
        o.client.reserve_memory(at, o.adapter, 0, 4096)
    }),
    row("D3DKMTUnregisterTrimNotification", Packets, &[Device], |o, at| {
        let registration = o.client.register_trim(at, o.device, |_| ())?;
        o.client.unregister_trim(at, registration)
    }),
    row("D3DKMTRegisterTrimNotification", Packets, &[Device], |o, at| {
        o.client.register_trim(at, o.device, |_| ()).map(drop)
    }),
    row("D3DKMTReserveGpuVirtualAddress", Addresses, &[Device, PagingQueue], |o, at| {
        o.client.reserve_address(at, &o.reserve_request()).map(drop)
    }),
    row(
        "D3DKMTMapGpuVirtualAddress",
        Addresses,
        &[Device, PagingQueue, Allocation, AllocationNow],
        |o, at| o.client.map_address(at, &o.map_request()).map(drop),
    ),
    row("D3DKMTFreeGpuVirtualAddress", Addresses, &[Device, Allocation, AllocationNow], |o, at| {
        o.client.free_address(at, o.adapter, o.addresses[1], 4096)
    }),
    row(
        "D3DKMTUpdateGpuVirtualAddress",
        Addresses,
        &[Device, Allocation, AllocationNow, Fence],
        |o, at| {
            let data = [o.addresses[0], 4096, o.allocation.into(), 0, 4096, 0, 0];
            let map = Operation { OperationType: MAP, Data: data };
            o.client.update_address(at, o.device, &[map], Some((o.fence, 2)))
        },
    ),
    row("D3DKMTOpenKeyedMutex", Packets, &[KeyedMutex], |o, at| {
        o.client.open_keyed_mutex(at, o.global_mutex).map(drop)
    }),
    row("D3DKMTOpenKeyedMutex2", Packets, &[KeyedMutex], |o, at| {
        o.client.open_keyed_mutex2(at, o.global_mutex, &mut []).map(drop)
    }),
    row("D3DKMTDestroyKeyedMutex", Packets, &[KeyedMutex], |o, at| {
        o.client.destroy_keyed_mutex(at, o.keyed_mutex)
    }),
    row("D3DKMTAcquireKeyedMutex", Packets, &[KeyedMutex], |o, at| {
        o.client.acquire_keyed_mutex(at, o.keyed_mutex, 1, None).map(drop)
    }),
    row("D3DKMTAcquireKeyedMutex2", Packets, &[KeyedMutex], |o, at| {
        o.client.acquire_keyed_mutex2(at, o.keyed_mutex, 0, Some(0), &mut []).map(drop)
    }),
    row("D3DKMTReleaseKeyedMutex", Packets, &[KeyedMutex], |o, at| {
        o.client.acquire_keyed_mutex(at, o.keyed_mutex, 0, Some(0))?;
        o.client.release_keyed_mutex(at, o.keyed_mutex, 1, 0)
    }),
    row("D3DKMTReleaseKeyedMutex2", Packets, &[KeyedMutex], |o, at| {
        o.client.acquire_keyed_mutex(at, o.keyed_mutex, 0, Some(0))?;
        o.client.release_keyed_mutex2(at, o.keyed_mutex, 1, 0, &[])
    }),
];

/// The entry points without a row: they take no object that another thread may end, or only make
/// one.
pub const WITHOUT_OBJECTS: &[&str] = &[
    "D3DKMTEnumAdapters",
    "D3DKMTEnumAdapters2",
    "D3DKMTEnumAdapters3",
    "D3DKMTOpenAdapterFromLuid",
    "D3DKMTOpenAdapterFromGdiDisplayName",
    "D3DKMTOpenAdapterFromDeviceName",
    "D3DKMTOpenAdapterFromHdc",
    "D3DKMTFlushHeapTransitions",
    "D3DKMTSetStablePowerState",
    "D3DKMTShareObjectWithHost", // It returns STATUS_NOT_SUPPORTED.
    "D3DKMTCheckOcclusion",
    "D3DKMTQueryAdapterInfo",
    "D3DKMTQueryStatistics",
    "D3DKMTQueryClockCalibration",
    "D3DKMTCreateKeyedMutex",
    "D3DKMTCreateKeyedMutex2",
];
