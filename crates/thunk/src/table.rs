//! The D3DKMT entry points, one row each.
//!
//! A row is the Windows name, the argument, the function, and what `docs/support.md` says about
//! it. From the row come
//!
//! - the function of this crate under its Windows name, with its safety contract, and its entry
//!   in [`ENTRIES`] ([`entry_points!`](crate::entry), below);
//! - the export of the C library and its prototype in `d3dkmt.h`;
//! - the row of `windtunnel support`;
//! - the call by row that hostile callers and fuzzers make (`EntryRow`).
//!
//! A new entry point is a row here, a function in the file that the row names, and tests.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::entry::{EntryRow, entry_points};
use crate::session::Session;
use abi::NTSTATUS;
use abi::status::{
    STATUS_ABANDONED, STATUS_ACCESS_DENIED, STATUS_BUFFER_TOO_SMALL, STATUS_DEVICE_REMOVED,
    STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION,
    STATUS_GRAPHICS_PRESENT_OCCLUDED, STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INTEGER_OVERFLOW, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
    STATUS_OBJECT_NAME_COLLISION, STATUS_OBJECT_NAME_INVALID, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_TYPE_MISMATCH, STATUS_PENDING, STATUS_TIMEOUT, STATUS_UNSUCCESSFUL,
};
use flight::{Passive, RuleId};
use std::ffi::c_void;

/// Calls the macro `$callback` with all rows, in the order of the header and the support page.
///
/// A row is `Name(*mut module::ARGS) => file::function { … }`: `module` is one of `abi`, `file`
/// one of this crate. In braces, and in this order:
///
/// - `rules`: the rules judged on the arguments and on the kernel's errors, if any;
/// - `statuses`: the statuses it returns itself, besides success;
/// - `forwards_errors_of`: the DDIs whose failure it returns, if any;
/// - `missing`: what it does not do yet, if anything;
/// - `requires`: what its caller promises besides valid pointers, if anything;
/// - `parameters`: its parameters in C, if it takes the members of its structure one by one. Its
///   export is written out in `d3dkmt`.
#[macro_export]
macro_rules! for_each_entry_point {
    ($callback:ident) => {
        $callback! {
            D3DKMTEnumAdapters(*mut kmt::D3DKMT_ENUMADAPTERS) => adapter::enum_adapters {
                statuses: [BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
            }
            D3DKMTEnumAdapters2(*mut kmt::D3DKMT_ENUMADAPTERS2) => adapter::enum_adapters2 {
                rules: [ADAPTER_ENUM_002],
                statuses: [BAD, STATUS_BUFFER_TOO_SMALL, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
            }
            D3DKMTEnumAdapters3(*mut kmt::D3DKMT_ENUMADAPTERS3) => adapter::enum_adapters3 {
                statuses: [BAD, STATUS_BUFFER_TOO_SMALL, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
            }
            D3DKMTOpenAdapterFromLuid(*mut kmt::D3DKMT_OPENADAPTERFROMLUID)
                => adapter::open_adapter_from_luid {
                statuses: [BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
            }
            D3DKMTOpenAdapterFromGdiDisplayName(*mut kmt::D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME)
                => adapter_name::open_adapter_from_gdi_display_name {
                rules: [ADAPTER_OPEN_001],
                statuses: [STATUS_UNSUCCESSFUL, BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
                missing: "one display, on the first adapter that has displays",
            }
            D3DKMTOpenAdapterFromDeviceName(*mut kmt::D3DKMT_OPENADAPTERFROMDEVICENAME)
                => adapter_name::open_adapter_from_device_name {
                rules: [ADAPTER_OPEN_003],
                statuses: [BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
            }
            D3DKMTOpenAdapterFromHdc(*mut kmt::D3DKMT_OPENADAPTERFROMHDC)
                => adapter_name::open_adapter_from_hdc {
                rules: [ADAPTER_OPEN_002],
                statuses: [BAD],
                missing: "there are no device contexts",
            }
            D3DKMTCloseAdapter(*const kmt::D3DKMT_CLOSEADAPTER) => adapter::close_adapter {
                rules: [DEV_LIFE_001],
                statuses: [BAD],
            }
            D3DKMTFlushHeapTransitions(*const kmt::D3DKMT_FLUSHHEAPTRANSITIONS)
                => adapter::flush_heap_transitions {
                rules: [DEV_LIFE_001],
                statuses: [BAD, STATUS_DEVICE_REMOVED],
            }
            D3DKMTSetStablePowerState(*const kmt::D3DKMT_SETSTABLEPOWERSTATE)
                => adapter::set_stable_power_state {
                rules: [DEV_LIFE_001],
                statuses: [BAD, STATUS_DEVICE_REMOVED],
                missing: "the driver is not told",
            }
            D3DKMTCreateDevice(*mut kmt::D3DKMT_CREATEDEVICE) => device::create_device {
                rules: [DEV_LIFE_013, DEV_LIFE_001],
                statuses: MAKES,
                forwards_errors_of: [DxgkDdiCreateDevice],
                missing: "flags have no effect; returns no command buffer",
            }
            D3DKMTDestroyDevice(*const kmt::D3DKMT_DESTROYDEVICE) => device::destroy_device {
                rules: [DEV_LIFE_013, DEV_LIFE_003],
                statuses: [BAD],
            }
            D3DKMTCreateContextVirtual(*mut kmt::D3DKMT_CREATECONTEXTVIRTUAL)
                => device::create_context_virtual {
                rules: [DEV_LIFE_003, DEV_LIFE_006],
                statuses: MAKES,
                forwards_errors_of: [DxgkDdiCreateContext],
                missing: "flags have no effect",
            }
            D3DKMTDestroyContext(*const kmt::D3DKMT_DESTROYCONTEXT) => device::destroy_context {
                rules: [DEV_LIFE_003],
                statuses: ENDS,
            }
            D3DKMTSubmitCommand(*const kmt::D3DKMT_SUBMITCOMMAND) => submit::submit_command {
                rules: [
                    DEV_LIFE_003, SUBMIT_CMD_001, SUBMIT_CMD_002, SUBMIT_CMD_003, SUBMIT_CMD_004,
                    SUBMIT_CMD_005,
                ],
                statuses: [BAD, STATUS_NOT_SUPPORTED, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL],
                forwards_errors_of: [DxgkDdiSubmitCommandVirtual],
                missing: "flags have no effect; no history buffers",
            }
            D3DKMTCreateContext(*mut kmt::D3DKMT_CREATECONTEXT) => render::create_context {
                rules: [DEV_LIFE_003, DEV_LIFE_006],
                statuses: [
                    BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED, STATUS_NOT_IMPLEMENTED,
                    STATUS_UNSUCCESSFUL,
                ],
                forwards_errors_of: [DxgkDdiCreateContext],
                missing: "flags have no effect",
            }
            D3DKMTRender(*mut kmt::D3DKMT_RENDER) => render::render_packet {
                rules: [
                    DEV_LIFE_003, SUBMIT_RENDER_001, SUBMIT_RENDER_002, SUBMIT_RENDER_003,
                    SUBMIT_RENDER_004, SUBMIT_RENDER_006,
                ],
                statuses: [
                    BAD, STATUS_NOT_SUPPORTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED,
                    STATUS_NOT_IMPLEMENTED, STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_UNSUCCESSFUL,
                ],
                forwards_errors_of: [DxgkDdiRender, DxgkDdiSubmitCommand],
                missing: "one context, no presents",
            }
            D3DKMTSetContextSchedulingPriority(*const kmt::D3DKMT_SETCONTEXTSCHEDULINGPRIORITY)
                => context_priority::set_context_scheduling_priority {
                rules: [DEV_LIFE_003],
                statuses: [BAD],
                missing: "accepts any value",
            }
            D3DKMTGetContextSchedulingPriority(*mut kmt::D3DKMT_GETCONTEXTSCHEDULINGPRIORITY)
                => context_priority::get_context_scheduling_priority {
                rules: [DEV_LIFE_003],
                statuses: [BAD],
            }
            D3DKMTSetContextInProcessSchedulingPriority(*const kmt::D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY)
                => context_priority::set_context_in_process_scheduling_priority {
                rules: [DEV_LIFE_003],
                statuses: [BAD],
                missing: "accepts any value; has no effect on the order of packets",
            }
            D3DKMTGetContextInProcessSchedulingPriority(*mut kmt::D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY)
                => context_priority::get_context_in_process_scheduling_priority {
                rules: [DEV_LIFE_003],
                statuses: [BAD],
            }
            D3DKMTCreateAllocation(*mut kmt::D3DKMT_CREATEALLOCATION) => create::create_allocation {
                rules: CREATE_RULES,
                statuses: CREATE_ANSWERS,
                forwards_errors_of: CREATE_ASKS,
                missing: CREATE_LACKS,
            }
            D3DKMTCreateAllocation2(*mut kmt::D3DKMT_CREATEALLOCATION)
                => create::create_allocation2 {
                rules: CREATE_RULES,
                statuses: CREATE_ANSWERS,
                forwards_errors_of: CREATE_ASKS,
                missing: CREATE_LACKS,
            }
            D3DKMTDestroyAllocation(*const kmt::D3DKMT_DESTROYALLOCATION)
                => destroy::destroy_allocation {
                rules: DESTROY_RULES,
                statuses: ENDS,
            }
            D3DKMTDestroyAllocation2(*const kmt::D3DKMT_DESTROYALLOCATION2)
                => destroy::destroy_allocation2 {
                rules: DESTROY_RULES,
                statuses: ENDS,
            }
            D3DKMTGetDeviceState(*mut kmt::D3DKMT_GETDEVICESTATE) => device::get_device_state {
                rules: [DEV_LIFE_003],
                statuses: [BAD, STATUS_NOT_SUPPORTED],
                missing: "the execution state only",
            }
            D3DKMTMarkDeviceAsError(*const kmt::D3DKMT_MARKDEVICEASERROR)
                => device::mark_device_as_error {
                rules: [DEV_LIFE_003],
                statuses: [BAD],
            }
            D3DKMTShareObjectWithHost(*mut kmt::D3DKMT_SHAREOBJECTWITHHOST)
                => device::share_object_with_host {
                rules: [DEV_LIFE_003],
                statuses: [BAD, STATUS_NOT_SUPPORTED],
                missing: "there is no host",
            }
            D3DKMTSetVidPnSourceOwner(*const kmt::D3DKMT_SETVIDPNSOURCEOWNER)
                => source_owner::set_vidpn_source_owner {
                rules: [VIDPN_OWN_001, DEV_LIFE_003],
                statuses: OWNER_ANSWERS,
            }
            D3DKMTSetVidPnSourceOwner1(*const kmt::D3DKMT_SETVIDPNSOURCEOWNER1)
                => source_owner::set_vidpn_source_owner1 {
                rules: [VIDPN_OWN_001, DEV_LIFE_003],
                statuses: OWNER_ANSWERS,
                missing: "flags have no effect; no NT handles of sources",
            }
            D3DKMTCheckVidPnExclusiveOwnership(*const kmt::D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP)
                => source_owner::check_vidpn_exclusive_ownership {
                rules: [DEV_LIFE_001],
                statuses: [BAD, STATUS_GRAPHICS_PRESENT_OCCLUDED],
            }
            D3DKMTCheckOcclusion(*const kmt::D3DKMT_CHECKOCCLUSION)
                => source_owner::check_occlusion {
                statuses: [BAD, STATUS_GRAPHICS_PRESENT_OCCLUDED],
                missing: "each number is a window",
            }
            D3DKMTSetQueuedLimit(*mut kmt::D3DKMT_SETQUEUEDLIMIT)
                => source_owner::set_queued_limit {
                rules: [DEV_LIFE_003],
                statuses: [BAD, STATUS_DEVICE_REMOVED],
                missing: "there are no presents that wait",
            }
            D3DKMTEscape(*const kmt::D3DKMT_ESCAPE) => escape::escape {
                rules: [DEV_LIFE_009, DEV_LIFE_001, DEV_LIFE_003],
                statuses: [
                    BAD, STATUS_NOT_SUPPORTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED,
                    STATUS_UNSUCCESSFUL,
                ],
                forwards_errors_of: [DxgkDdiEscape],
                missing: "driver-private escapes only",
            }
            D3DKMTQueryResourceInfo(*mut kmt::D3DKMT_QUERYRESOURCEINFO)
                => share::query_resource_info {
                rules: SHARE_RULES,
                statuses: SHARE_ANSWERS,
            }
            D3DKMTOpenResource(*mut kmt::D3DKMT_OPENRESOURCE) => share::open_resource {
                rules: SHARE_RULES,
                statuses: SHARE_ANSWERS,
                forwards_errors_of: [DxgkDdiOpenAllocation],
            }
            D3DKMTOpenResource2(*mut kmt::D3DKMT_OPENRESOURCE) => share::open_resource2 {
                rules: SHARE_RULES,
                statuses: SHARE_ANSWERS,
                forwards_errors_of: [DxgkDdiOpenAllocation],
            }
            D3DKMTShareObjects(*mut kmt::D3DKMT_SHAREOBJECTS) => nt_share::share_objects {
                rules: [ALLOC_SHARE_006, ALLOC_SHARE_007, NTSHARE_LIFE_003],
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_OBJECT_NAME_INVALID,
                    STATUS_OBJECT_NAME_COLLISION, STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_MEMORY,
                ],
                missing: NT_NAMES_LACK,
                parameters: "UINT cObjects, const D3DKMT_HANDLE *hObjects, OBJECT_ATTRIBUTES *pObjectAttributes, UINT dwDesiredAccess, HANDLE *phSharedNtHandle",
            }
            D3DKMTOpenNtHandleFromName(*mut kmt::D3DKMT_OPENNTHANDLEFROMNAME)
                => nt_share::open_nt_handle_from_name {
                rules: [NTSHARE_NAME_003],
                statuses: NAME_ANSWERS,
                missing: NT_NAMES_LACK,
            }
            D3DKMTOpenSyncObjectNtHandleFromName(*mut kmt::D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME)
                => nt_share::open_sync_object_nt_handle_from_name {
                rules: [NTSHARE_NAME_003],
                statuses: NAME_ANSWERS,
                missing: NT_NAMES_LACK,
            }
            D3DKMTQueryResourceInfoFromNtHandle(*mut kmt::D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE)
                => nt_open::query_resource_info_from_nt_handle {
                rules: [DEV_LIFE_003],
                statuses: NT_ANSWERS,
            }
            D3DKMTOpenResourceFromNtHandle(*mut kmt::D3DKMT_OPENRESOURCEFROMNTHANDLE)
                => nt_open::open_resource_from_nt_handle {
                rules: [ALLOC_SHARE_003, ALLOC_SHARE_009, DEV_LIFE_003],
                statuses: NT_ANSWERS,
                forwards_errors_of: [DxgkDdiOpenAllocation],
            }
            D3DKMTOpenSyncObjectFromNtHandle(*mut kmt::D3DKMT_OPENSYNCOBJECTFROMNTHANDLE)
                => nt_open::open_sync_object_from_nt_handle {
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH, STATUS_NO_MEMORY,
                ],
            }
            D3DKMTOpenSyncObjectFromNtHandle2(*mut kmt::D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2)
                => nt_open::open_sync_object_from_nt_handle2 {
                rules: [DEV_LIFE_003],
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH, STATUS_NO_MEMORY,
                    STATUS_DEVICE_REMOVED,
                ],
                missing: "no GPU address of a fence",
            }
            D3DKMTOpenKeyedMutexFromNtHandle(*mut kmt::D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE)
                => nt_open::open_keyed_mutex_from_nt_handle {
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH, STATUS_NO_MEMORY,
                ],
                missing: "a keyed mutex is shared in a bundle only, so no NT handle is of its type",
            }
            D3DKMTGetSharedResourceAdapterLuid(*mut kmt::D3DKMT_GETSHAREDRESOURCEADAPTERLUID)
                => nt_open::get_shared_resource_adapter_luid {
                rules: [ALLOC_SHARE_010],
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH,
                    STATUS_DEVICE_REMOVED,
                ],
            }
            D3DKMTCreatePagingQueue(*mut kmt::D3DKMT_CREATEPAGINGQUEUE)
                => paging_queue::create_paging_queue {
                rules: [DEV_LIFE_003],
                statuses: [BAD, STATUS_NOT_IMPLEMENTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
                missing: "priorities have no effect",
            }
            D3DKMTDestroyPagingQueue(*mut ukm::D3DDDI_DESTROYPAGINGQUEUE)
                => paging_queue::destroy_paging_queue {
                statuses: [BAD],
            }
            D3DKMTCreateSynchronizationObject(*mut kmt::D3DKMT_CREATESYNCHRONIZATIONOBJECT)
                => sync::create_synchronization_object {
                rules: [DEV_LIFE_003, SYNC_CREATE_015],
                statuses: [BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
            }
            D3DKMTCreateSynchronizationObject2(*mut kmt::D3DKMT_CREATESYNCHRONIZATIONOBJECT2)
                => sync::create_synchronization_object2 {
                rules: SYNC_RULES,
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_NOT_SUPPORTED, STATUS_NO_MEMORY,
                    STATUS_DEVICE_REMOVED,
                ],
                missing: SYNC_LACKS,
            }
            D3DKMTOpenSynchronizationObject(*mut kmt::D3DKMT_OPENSYNCHRONIZATIONOBJECT)
                => sync::open_synchronization_object {
                statuses: [BAD, STATUS_NO_MEMORY],
            }
            D3DKMTDestroySynchronizationObject(*const kmt::D3DKMT_DESTROYSYNCHRONIZATIONOBJECT)
                => sync::destroy_synchronization_object {
                rules: [SYNC_CREATE_018],
                statuses: [BAD],
            }
            D3DKMTSignalSynchronizationObject(*const kmt::D3DKMT_SIGNALSYNCHRONIZATIONOBJECT)
                => signal::signal_synchronization_object {
                rules: SIGNAL_RULES,
                statuses: QUEUE_ANSWERS,
                missing: SIGNAL_LACKS,
            }
            D3DKMTSignalSynchronizationObject2(*const kmt::D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2)
                => signal::signal_synchronization_object2 {
                rules: SIGNAL_RULES,
                statuses: QUEUE_ANSWERS,
                missing: SIGNAL_LACKS,
            }
            D3DKMTSignalSynchronizationObjectFromCpu(*const kmt::D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU)
                => signal::signal_synchronization_object_from_cpu {
                rules: [
                    DEV_LIFE_003, SYNC_CREATE_007, SYNC_CREATE_011, SYNC_FENCE_001, SYNC_FENCE_002,
                ],
                statuses: [BAD, STATUS_ACCESS_DENIED],
            }
            D3DKMTSignalSynchronizationObjectFromGpu(*const kmt::D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU)
                => signal::signal_synchronization_object_from_gpu {
                rules: SIGNAL_RULES,
                statuses: QUEUE_ANSWERS,
            }
            D3DKMTSignalSynchronizationObjectFromGpu2(*const kmt::D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2)
                => signal::signal_synchronization_object_from_gpu2 {
                rules: SIGNAL_RULES,
                statuses: QUEUE_ANSWERS,
                missing: SIGNAL_LACKS,
            }
            D3DKMTWaitForSynchronizationObject(*const kmt::D3DKMT_WAITFORSYNCHRONIZATIONOBJECT)
                => wait::wait_for_synchronization_object {
                rules: WAIT_RULES,
                statuses: QUEUE_ANSWERS,
            }
            D3DKMTWaitForSynchronizationObject2(*const kmt::D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2)
                => wait::wait_for_synchronization_object2 {
                rules: WAIT_RULES,
                statuses: QUEUE_ANSWERS,
            }
            D3DKMTWaitForSynchronizationObjectFromCpu(*const kmt::D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU)
                => wait::wait_for_synchronization_object_from_cpu {
                rules: WAIT_RULES,
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED,
                    STATUS_UNSUCCESSFUL,
                ],
            }
            D3DKMTCreateSyncFile(*mut kmt::D3DKMT_CREATESYNCFILE)
                => sync_file::create_sync_file {
                rules: WAIT_RULES,
                statuses: [
                    BAD, STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED,
                    STATUS_INSUFFICIENT_RESOURCES,
                ],
            }
            D3DKMTWaitForSynchronizationObjectFromGpu(*const kmt::D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU)
                => wait::wait_for_synchronization_object_from_gpu {
                rules: WAIT_RULES,
                statuses: QUEUE_ANSWERS,
            }
            D3DKMTMakeResident(*mut ukm::D3DDDI_MAKERESIDENT) => residency::make_resident {
                rules: [RESID_MAKE_001, RESID_MAKE_006],
                statuses: [
                    STATUS_PENDING, BAD, STATUS_NOT_IMPLEMENTED, STATUS_NO_MEMORY,
                    STATUS_DEVICE_REMOVED,
                ],
                missing: "priorities have no effect",
            }
            D3DKMTEvict(*mut kmt::D3DKMT_EVICT) => residency::evict {
                rules: [DEV_LIFE_003, RESID_EVICT_001],
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTLock(*mut kmt::D3DKMT_LOCK) => lock::lock {
                rules: LOCK_RULES,
                statuses: LOCK_ANSWERS,
                missing: "maps the whole allocation; the page list is ignored",
            }
            D3DKMTUnlock(*const kmt::D3DKMT_UNLOCK) => lock::unlock {
                rules: UNLOCK_RULES,
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTLock2(*mut kmt::D3DKMT_LOCK2) => lock::lock2 {
                rules: [DEV_LIFE_003, ALLOC_LOCK_004, ALLOC_LOCK_018],
                statuses: LOCK_ANSWERS,
            }
            D3DKMTUnlock2(*const kmt::D3DKMT_UNLOCK2) => lock::unlock2 {
                rules: UNLOCK_RULES,
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTOfferAllocations(*const kmt::D3DKMT_OFFERALLOCATIONS)
                => offer::offer_allocations {
                rules: [DEV_LIFE_003, RESID_OFFER_001, RESID_OFFER_002],
                statuses: MEMORY_ANSWERS,
                missing: "flags have no effect",
            }
            D3DKMTReclaimAllocations(*const kmt::D3DKMT_RECLAIMALLOCATIONS)
                => offer::reclaim_allocations {
                rules: [DEV_LIFE_003, RESID_OFFER_008],
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTReclaimAllocations2(*mut kmt::D3DKMT_RECLAIMALLOCATIONS2)
                => offer::reclaim_allocations2 {
                rules: [RESID_OFFER_008],
                statuses: [STATUS_PENDING, BAD, STATUS_NOT_IMPLEMENTED, STATUS_DEVICE_REMOVED],
            }
            D3DKMTSetAllocationPriority(*const kmt::D3DKMT_SETALLOCATIONPRIORITY)
                => allocation_priority::set_allocation_priority {
                rules: PRIORITY_RULES,
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTGetAllocationPriority(*const kmt::D3DKMT_GETALLOCATIONPRIORITY)
                => allocation_priority::get_allocation_priority {
                rules: PRIORITY_RULES,
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTQueryAllocationResidency(*const kmt::D3DKMT_QUERYALLOCATIONRESIDENCY)
                => allocation_priority::query_allocation_residency {
                rules: [ALLOC_PRIO_004, DEV_LIFE_003],
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTInvalidateCache(*const kmt::D3DKMT_INVALIDATECACHE)
                => allocation_property::invalidate_cache {
                rules: [DEV_LIFE_003],
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTUpdateAllocationProperty(*mut ukm::D3DDDI_UPDATEALLOCPROPERTY)
                => allocation_property::update_allocation_property {
                statuses: MEMORY_ANSWERS,
                missing: "takes effect when the allocation is placed next; segments only become \
                    fewer; flags have no effect",
            }
            D3DKMTQueryAdapterInfo(*const kmt::D3DKMT_QUERYADAPTERINFO)
                => adapter_info::query_adapter_info {
                rules: [ADAPTER_INFO_001, DEV_LIFE_001],
                statuses: [
                    BAD, STATUS_NOT_SUPPORTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED,
                    STATUS_UNSUCCESSFUL,
                ],
                forwards_errors_of: [DxgkDdiQueryAdapterInfo],
                missing: "no display modes, no OpenGL driver",
            }
            D3DKMTQueryVideoMemoryInfo(*mut kmt::D3DKMT_QUERYVIDEOMEMORYINFO)
                => budget::query_video_memory_info {
                rules: [ADAPTER_MEM_001, DEV_LIFE_001],
                statuses: [BAD, STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED],
            }
            D3DKMTChangeVideoMemoryReservation(*const kmt::D3DKMT_CHANGEVIDEOMEMORYRESERVATION)
                => budget::change_video_memory_reservation {
                rules: [DEV_LIFE_001],
                statuses: [
                    BAD, STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED, STATUS_NO_MEMORY,
                    STATUS_NOT_SUPPORTED,
                ],
                missing: "not for processes that use no adapter",
            }
            D3DKMTQueryStatistics(*mut kmt::D3DKMT_QUERYSTATISTICS)
                => statistics::query_statistics {
                statuses: [BAD, STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED],
                missing: "counters of DMA buffers, faults, transfers, locks, running time, preemption and presents are zero",
            }
            D3DKMTQueryClockCalibration(*mut kmt::D3DKMT_QUERYCLOCKCALIBRATION)
                => statistics::query_clock_calibration {
                rules: [DEV_LIFE_001],
                statuses: [BAD, STATUS_DEVICE_REMOVED],
                missing: "the driver is not asked: each clock is the host's",
            }
            D3DKMTRegisterTrimNotification(*mut kmt::D3DKMT_REGISTERTRIMNOTIFICATION)
                => budget::register_trim_notification {
                rules: [DEV_LIFE_003],
                statuses: [BAD, STATUS_NOT_SUPPORTED],
                missing: "no periodic trims; not for a client of a server",
                requires: "`Callback` can be called on any thread until it is unregistered, and returns",
            }
            D3DKMTUnregisterTrimNotification(*mut kmt::D3DKMT_UNREGISTERTRIMNOTIFICATION)
                => budget::unregister_trim_notification {
                statuses: [BAD],
            }
            D3DKMTReserveGpuVirtualAddress(*mut ukm::D3DDDI_RESERVEGPUVIRTUALADDRESS)
                => address::reserve_gpu_virtual_address {
                rules: [GPUVA_RESERVE_001],
                statuses: ADDRESS_ANSWERS,
            }
            D3DKMTMapGpuVirtualAddress(*mut ukm::D3DDDI_MAPGPUVIRTUALADDRESS)
                => address::map_gpu_virtual_address {
                rules: [
                    GPUVA_MAP_001, GPUVA_MAP_002, GPUVA_MAP_003, GPUVA_MAP_004, GPUVA_MAP_006,
                    GPUVA_MAP_008,
                ],
                statuses: ADDRESS_ANSWERS,
            }
            D3DKMTFreeGpuVirtualAddress(*const kmt::D3DKMT_FREEGPUVIRTUALADDRESS)
                => address::free_gpu_virtual_address {
                rules: [GPUVA_FREE_001, GPUVA_FREE_004, DEV_LIFE_001],
                statuses: MEMORY_ANSWERS,
            }
            D3DKMTUpdateGpuVirtualAddress(*const kmt::D3DKMT_UPDATEGPUVIRTUALADDRESS)
                => address::update_gpu_virtual_address {
                rules: [
                    DEV_LIFE_003, GPUVA_UPDATE_001, GPUVA_UPDATE_002, GPUVA_UPDATE_003,
                    GPUVA_UPDATE_004, GPUVA_UPDATE_005, GPUVA_UPDATE_006,
                ],
                statuses: [
                    BAD, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED, STATUS_NO_MEMORY,
                    STATUS_DEVICE_REMOVED,
                ],
                missing: "hContext has no effect: an update waits for its fence only",
            }
            D3DKMTCreateKeyedMutex(*mut kmt::D3DKMT_CREATEKEYEDMUTEX) => keyed_mutex::create_keyed_mutex {
                rules: KEYED_RULES,
                statuses: [BAD, STATUS_NO_MEMORY],
            }
            D3DKMTCreateKeyedMutex2(*mut kmt::D3DKMT_CREATEKEYEDMUTEX2)
                => keyed_mutex::create_keyed_mutex2 {
                rules: KEYED_RULES,
                statuses: [BAD, STATUS_NO_MEMORY],
            }
            D3DKMTOpenKeyedMutex(*mut kmt::D3DKMT_OPENKEYEDMUTEX) => keyed_mutex::open_keyed_mutex {
                rules: KEYED_RULES,
                statuses: [BAD, STATUS_NO_MEMORY],
            }
            D3DKMTOpenKeyedMutex2(*mut kmt::D3DKMT_OPENKEYEDMUTEX2) => keyed_mutex::open_keyed_mutex2 {
                rules: KEYED_RULES,
                statuses: [BAD, STATUS_NO_MEMORY],
            }
            D3DKMTDestroyKeyedMutex(*const kmt::D3DKMT_DESTROYKEYEDMUTEX)
                => keyed_mutex::destroy_keyed_mutex {
                rules: [MUTEX_KEYED_003],
                statuses: [BAD],
            }
            D3DKMTAcquireKeyedMutex(*mut kmt::D3DKMT_ACQUIREKEYEDMUTEX)
                => keyed_mutex::acquire_keyed_mutex {
                rules: KEYED_RULES,
                statuses: KEYED_WAITS,
                missing: KEYED_LACKS,
            }
            D3DKMTAcquireKeyedMutex2(*mut kmt::D3DKMT_ACQUIREKEYEDMUTEX2)
                => keyed_mutex::acquire_keyed_mutex2 {
                rules: KEYED_RULES,
                statuses: KEYED_WAITS,
                missing: KEYED_LACKS,
            }
            D3DKMTReleaseKeyedMutex(*mut kmt::D3DKMT_RELEASEKEYEDMUTEX)
                => keyed_mutex::release_keyed_mutex {
                rules: KEYED_RULES,
                statuses: [BAD],
            }
            D3DKMTReleaseKeyedMutex2(*mut kmt::D3DKMT_RELEASEKEYEDMUTEX2)
                => keyed_mutex::release_keyed_mutex2 {
                rules: KEYED_RULES,
                statuses: [BAD, STATUS_NO_MEMORY],
            }
        }
    };
}

for_each_entry_point!(entry_points);

/// Most bad arguments.
const BAD: NTSTATUS = STATUS_INVALID_PARAMETER;

/// A call that creates an object: no handle is free, the device is removed, or a wait could never
/// end.
const MAKES: &[NTSTATUS] = &[BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL];

/// A call that destroys an object.
const ENDS: &[NTSTATUS] = &[BAD, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL];

/// A call that changes the owner of a display source.
const OWNER_ANSWERS: &[NTSTATUS] =
    &[BAD, STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE, STATUS_NOT_SUPPORTED, STATUS_DEVICE_REMOVED];

/// A call on a shared resource, which may be destroyed during the call.
const SHARE_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_INVALID_HANDLE,
    STATUS_NOT_SUPPORTED,
    STATUS_NO_MEMORY,
    STATUS_INTEGER_OVERFLOW,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

/// A call on memory, for an adapter that may have none.
const MEMORY_ANSWERS: &[NTSTATUS] = &[BAD, STATUS_NOT_IMPLEMENTED, STATUS_DEVICE_REMOVED];

const SYNC_LACKS: &str = "no periodic fences, no GPU address of a fence; on an adapter without \
    memory no CPU address, either";

const NT_NAMES_LACK: &str = "no object directories: a name is one text, and RootDirectory is NULL";

/// A call that opens an NT handle by name.
const NAME_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_INVALID_HANDLE,
    STATUS_OBJECT_NAME_INVALID,
    STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_OBJECT_TYPE_MISMATCH,
    STATUS_ACCESS_DENIED,
    STATUS_INSUFFICIENT_RESOURCES,
];

/// A call on the resource of an NT handle.
const NT_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_INVALID_HANDLE,
    STATUS_OBJECT_TYPE_MISMATCH,
    STATUS_NOT_SUPPORTED,
    STATUS_ACCESS_DENIED,
    STATUS_NO_MEMORY,
    STATUS_INTEGER_OVERFLOW,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

const SYNC_RULES: &[RuleId] = &[
    RuleId::DEV_LIFE_003,
    RuleId::SYNC_CREATE_001,
    RuleId::SYNC_CREATE_002,
    RuleId::SYNC_CREATE_003,
    RuleId::SYNC_CREATE_016,
];

const SIGNAL_LACKS: &str = "SignalAtSubmission has no effect";

const SIGNAL_RULES: &[RuleId] =
    &[RuleId::DEV_LIFE_003, RuleId::SYNC_CREATE_007, RuleId::SYNC_CREATE_011];

const WAIT_RULES: &[RuleId] = &[
    RuleId::DEV_LIFE_003,
    RuleId::PAGQ_LIFE_004,
    RuleId::SYNC_CREATE_007,
    RuleId::SYNC_CREATE_011,
];

/// A call that adds to a context's queue.
const QUEUE_ANSWERS: &[NTSTATUS] =
    &[BAD, STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL];
/// A call on GPU virtual addresses, for an adapter that may have none.
const ADDRESS_ANSWERS: &[NTSTATUS] =
    &[STATUS_PENDING, BAD, STATUS_NOT_IMPLEMENTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED];

const LOCK_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_NOT_IMPLEMENTED,
    STATUS_NO_MEMORY,
    STATUS_GRAPHICS_ALLOCATION_BUSY,
    STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

const LOCK_RULES: &[RuleId] = &[
    RuleId::ALLOC_LOCK_001,
    RuleId::ALLOC_LOCK_002,
    RuleId::ALLOC_LOCK_003,
    RuleId::ALLOC_LOCK_004,
    RuleId::ALLOC_LOCK_008,
    RuleId::ALLOC_LOCK_009,
    RuleId::ALLOC_LOCK_010,
    RuleId::ALLOC_LOCK_016,
    RuleId::DEV_LIFE_003,
];

const PRIORITY_RULES: &[RuleId] = &[RuleId::ALLOC_PRIO_001, RuleId::DEV_LIFE_003];

const UNLOCK_RULES: &[RuleId] = &[RuleId::ALLOC_LOCK_017, RuleId::DEV_LIFE_003];

const CREATE_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_INVALID_HANDLE,
    STATUS_NOT_SUPPORTED,
    STATUS_NO_MEMORY,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

const CREATE_ASKS: &[&str] =
    &["DxgkDdiGetStandardAllocationDriverData", "DxgkDdiCreateAllocation", "DxgkDdiOpenAllocation"];

const CREATE_LACKS: &str = "no open on another adapter, no protection";

const CREATE_RULES: &[RuleId] = &[
    RuleId::ALLOC_CREATE_001,
    RuleId::ALLOC_CREATE_002,
    RuleId::ALLOC_CREATE_003,
    RuleId::ALLOC_CREATE_004,
    RuleId::ALLOC_CREATE_005,
    RuleId::ALLOC_CREATE_006,
    RuleId::ALLOC_CREATE_009,
    RuleId::ALLOC_CREATE_010,
    RuleId::ALLOC_CREATE_011,
    RuleId::ALLOC_CREATE_012,
    RuleId::ALLOC_CREATE_013,
    RuleId::ALLOC_CREATE_016,
    RuleId::ALLOC_CREATE_017,
    RuleId::ALLOC_CREATE_018,
    RuleId::ALLOC_CREATE_019,
    RuleId::ALLOC_CREATE_022,
    RuleId::ALLOC_CREATE_023,
    RuleId::WT_MEMORY_001,
    RuleId::DEV_LIFE_003,
];

const KEYED_LACKS: &str = "time-outs are relative";

const KEYED_RULES: &[RuleId] = &[RuleId::MUTEX_KEYED_001];

/// A call that waits for a key.
const KEYED_WAITS: &[NTSTATUS] = &[
    STATUS_TIMEOUT,
    STATUS_ABANDONED,
    BAD,
    STATUS_NOT_SUPPORTED,
    STATUS_NO_MEMORY,
    STATUS_UNSUCCESSFUL,
];

const SHARE_RULES: &[RuleId] =
    &[RuleId::ALLOC_SHARE_003, RuleId::ALLOC_SHARE_010, RuleId::DEV_LIFE_003];

const DESTROY_RULES: &[RuleId] = &[
    RuleId::ALLOC_DESTROY_001,
    RuleId::ALLOC_DESTROY_003,
    RuleId::ALLOC_DESTROY_004,
    RuleId::ALLOC_DESTROY_005,
    RuleId::ALLOC_DESTROY_012,
    RuleId::ALLOC_DESTROY_018,
    RuleId::ALLOC_DESTROY_024,
    RuleId::DEV_LIFE_003,
];
