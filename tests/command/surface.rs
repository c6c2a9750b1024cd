//! Requests of real clients through the C library: what Windows was seen to answer, and the entry
//! points that libraries for such clients export.
//!
//! "Row" is the number of an observation of Windows; each assertion states it in plain text. All
//! tests of this program share the library's kernel, like the threads of one program.
#![expect(unsafe_code, reason = "calls the exported functions")]
#![expect(non_snake_case, reason = "Windows's names")]

use abi::kmt::*;
use abi::status::{
    STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_PRESENT_OCCLUDED as OCCLUDED,
    STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE as IN_USE, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER as INVALID, STATUS_NOT_SUPPORTED, STATUS_SUCCESS as SUCCESS,
};
use abi::ukm::{
    D3DDDI_ALLOCATIONINFO2, D3DDDI_ALLOCATIONINFO2_FLAGS as InfoFlags,
    D3DDDI_ALLOCATIONPRIORITY_HIGH, D3DDDI_UPDATEALLOCPROPERTY,
};
use abi::{D3DKMT_HANDLE, LUID, NTSTATUS};
use std::ffi::c_void;
use std::ptr::{self, without_provenance_mut};
use std::sync::atomic::AtomicU8;

/// A call with its structure: returns the status and the structure afterwards.
macro_rules! call {
    ($name:ident, $args:expr) => {{
        let mut args = $args;
        // SAFETY: The arguments are locals; their pointers are valid in the caller.
        let status = unsafe { d3dkmt::$name(&raw mut args) };
        (status, args)
    }};
}

pub(crate) fn adapter() -> D3DKMT_HANDLE {
    open_adapter().0
}

fn open_adapter() -> (D3DKMT_HANDLE, LUID) {
    let (status, all) = call!(D3DKMTEnumAdapters, D3DKMT_ENUMADAPTERS::ZERO);
    assert_eq!(status, SUCCESS);
    (all.Adapters[0].hAdapter, all.Adapters[0].AdapterLuid)
}

pub(crate) fn close_adapter(hAdapter: D3DKMT_HANDLE) {
    assert_eq!(call!(D3DKMTCloseAdapter, D3DKMT_CLOSEADAPTER { hAdapter }).0, SUCCESS);
}

fn create_device(hAdapter: D3DKMT_HANDLE) -> D3DKMT_HANDLE {
    let args = D3DKMT_CREATEDEVICE { hAdapter, ..D3DKMT_CREATEDEVICE::ZERO };
    let (status, made) = call!(D3DKMTCreateDevice, args);
    assert_eq!(status, SUCCESS);
    made.hDevice
}

fn destroy_device(hDevice: D3DKMT_HANDLE) {
    assert_eq!(call!(D3DKMTDestroyDevice, D3DKMT_DESTROYDEVICE { hDevice }).0, SUCCESS);
}

/// An allocation of 4096 bytes, as `request` asks.
fn create(
    request: D3DKMT_CREATEALLOCATION,
    mut info: D3DDDI_ALLOCATIONINFO2,
) -> (NTSTATUS, D3DKMT_CREATEALLOCATION, D3DKMT_HANDLE) {
    let mut description = softgpu::format::describe(4096);
    if info.pSystemMem.is_null() {
        info.pPrivateDriverData = description.as_mut_ptr().cast();
        info.PrivateDriverDataSize = u32::try_from(description.len()).unwrap_or(0);
    }
    let request = D3DKMT_CREATEALLOCATION {
        NumAllocations: 1,
        pAllocationInfo: (&raw mut info).cast(),
        ..request
    };
    let (status, made) = call!(D3DKMTCreateAllocation2, request);
    (status, made, info.hAllocation)
}

fn destroy(hDevice: D3DKMT_HANDLE, hResource: D3DKMT_HANDLE, allocation: D3DKMT_HANDLE) {
    let phAllocationList = if hResource == 0 { &raw const allocation } else { ptr::null() };
    let AllocationCount = u32::from(hResource == 0);
    let args = D3DKMT_DESTROYALLOCATION { hDevice, hResource, phAllocationList, AllocationCount };
    assert_eq!(call!(D3DKMTDestroyAllocation, args).0, SUCCESS);
}

#[repr(C, align(4096))]
struct Page([AtomicU8; 4096]);

static PAGE: Page = Page([const { AtomicU8::new(0) }; 4096]);

type Flags = D3DKMT_CREATEALLOCATIONFLAGS;

/// A standard allocation of a page of the client.
fn create_standard(
    hDevice: D3DKMT_HANDLE,
    flags: u32,
    PrivateDriverDataSize: u32,
) -> (NTSTATUS, D3DKMT_CREATEALLOCATION, D3DKMT_HANDLE) {
    let mut standard = D3DKMT_CREATESTANDARDALLOCATION::ZERO;
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    standard.ExistingHeapData.Size = 4096;
    let Flags = Flags { Value: flags | Flags::StandardAllocation | Flags::ExistingSysMem };
    let pPrivateDriverData = (&raw const standard).cast();
    let request = D3DKMT_CREATEALLOCATION {
        hDevice,
        Flags,
        pPrivateDriverData,
        PrivateDriverDataSize,
        ..D3DKMT_CREATEALLOCATION::ZERO
    };
    let pSystemMem = PAGE.0.as_ptr().cast();
    create(request, D3DDDI_ALLOCATIONINFO2 { pSystemMem, ..D3DDDI_ALLOCATIONINFO2::ZERO })
}

#[test]
fn a_create_that_shares_nothing_clears_the_global_handle() {
    let adapter = adapter();
    let hDevice = create_device(adapter);
    let hGlobalShare = 0x1234;
    let request =
        D3DKMT_CREATEALLOCATION { hDevice, hGlobalShare, ..D3DKMT_CREATEALLOCATION::ZERO };
    let (status, made, allocation) = create(request, D3DDDI_ALLOCATIONINFO2::ZERO);
    assert_eq!((status, made.hGlobalShare), (SUCCESS, 0));
    destroy(hDevice, 0, allocation);
    destroy_device(hDevice);
    close_adapter(adapter);
}

#[test]
fn a_standard_allocation_has_no_private_data_of_its_resource() {
    let adapter = adapter();
    let hDevice = create_device(adapter);
    assert_eq!(create_standard(hDevice, 0, 24).0, INVALID);
    assert_eq!(create_standard(hDevice, Flags::CreateResource, 1).0, INVALID);
    let (status, made, _) =
        create_standard(hDevice, Flags::CreateResource | Flags::CreateShared, 0);
    assert_eq!(status, SUCCESS);
    let hGlobalShare = made.hGlobalShare;
    let query =
        D3DKMT_QUERYRESOURCEINFO { hDevice, hGlobalShare, ..D3DKMT_QUERYRESOURCEINFO::ZERO };
    let (status, sizes) = call!(D3DKMTQueryResourceInfo, query);
    assert_eq!((status, sizes.ResourcePrivateDriverDataSize), (SUCCESS, 0));
    assert!((1..0x1000).contains(&sizes.TotalPrivateDriverDataSize));
    let mut total = vec![0_u8; sizes.TotalPrivateDriverDataSize as usize];
    for (resource_size, expected) in [(0, SUCCESS), (1, INVALID)] {
        let mut info = D3DDDI_OPENALLOCATIONINFO2::ZERO;
        let open = D3DKMT_OPENRESOURCE {
            hDevice,
            hGlobalShare,
            NumAllocations: 1,
            pOpenAllocationInfo: (&raw mut info).cast(),
            ResourcePrivateDriverDataSize: resource_size,
            pTotalPrivateDriverDataBuffer: total.as_mut_ptr().cast(),
            TotalPrivateDriverDataBufferSize: sizes.TotalPrivateDriverDataSize,
            ..D3DKMT_OPENRESOURCE::ZERO
        };
        let (status, opened) = call!(D3DKMTOpenResource2, open);
        assert_eq!(status, expected);
        if status == SUCCESS {
            destroy(hDevice, opened.hResource, 0);
        }
    }
    destroy(hDevice, made.hResource, 0);
    destroy_device(hDevice);
    close_adapter(adapter);
}

#[test]
fn an_allocation_gets_the_priority_that_its_creator_overrides() {
    let adapter = adapter();
    let hDevice = create_device(adapter);
    let request = D3DKMT_CREATEALLOCATION { hDevice, ..D3DKMT_CREATEALLOCATION::ZERO };
    let priority = |flags: u32| {
        let info = D3DDDI_ALLOCATIONINFO2 {
            Flags: InfoFlags { Value: flags },
            Unused: D3DDDI_ALLOCATIONPRIORITY_HIGH as usize,
            ..D3DDDI_ALLOCATIONINFO2::ZERO
        };
        let (status, _, allocation) = create(request, info);
        assert_eq!(status, SUCCESS);
        let mut priority = 0;
        let args = D3DKMT_GETALLOCATIONPRIORITY {
            hDevice,
            phAllocationList: &raw const allocation,
            AllocationCount: 1,
            pPriorities: &raw mut priority,
            ..D3DKMT_GETALLOCATIONPRIORITY::ZERO
        };
        assert_eq!(call!(D3DKMTGetAllocationPriority, args).0, SUCCESS);
        destroy(hDevice, 0, allocation);
        priority
    };
    assert_eq!(priority(InfoFlags::OverridePriority), D3DDDI_ALLOCATIONPRIORITY_HIGH);
    assert_ne!(priority(0), D3DDDI_ALLOCATIONPRIORITY_HIGH);
    destroy_device(hDevice);
    close_adapter(adapter);
}

const QUERY: u32 = thunk::PROCESS_QUERY_INFORMATION;
const SET: u32 = thunk::PROCESS_SET_INFORMATION;

fn own_process(access: u32) -> *mut c_void {
    let process = i32::try_from(std::process::id()).unwrap_or(0);
    let handle = d3dkmt::windtunnel_process_open(process, access);
    assert!(!handle.is_null());
    handle
}

fn memory_of(hAdapter: D3DKMT_HANDLE, hProcess: *mut c_void) -> NTSTATUS {
    let args =
        D3DKMT_QUERYVIDEOMEMORYINFO { hAdapter, hProcess, ..D3DKMT_QUERYVIDEOMEMORYINFO::ZERO };
    let (status, found) = call!(D3DKMTQueryVideoMemoryInfo, args);
    assert!(status != SUCCESS || found.Budget >= found.AvailableForReservation);
    status
}

/// Rows 34, 36 and their neighbour: the handle of a process needs the right to ask.
#[test]
fn memory_of_a_process_is_told_by_handles_with_rights() {
    let adapter = adapter();
    for own in [0, usize::MAX] {
        assert_eq!(memory_of(adapter, without_provenance_mut(own)), SUCCESS);
    }
    for garbage in [0x1ead_beed, 0x7fff_fff0, 0xffff_ffff_0000] {
        assert_eq!(memory_of(adapter, without_provenance_mut(garbage)), STATUS_INVALID_HANDLE);
    }
    let event = std::fs::File::open("/dev/null").map(|file| {
        use std::os::fd::AsRawFd as _;
        let number = usize::try_from(file.as_raw_fd()).unwrap_or(0);
        memory_of(adapter, without_provenance_mut(number))
    });
    assert_eq!(event.ok(), Some(STATUS_INVALID_HANDLE), "a file is no process");
    assert_eq!(memory_of(adapter, own_process(QUERY)), SUCCESS);
    assert_eq!(memory_of(adapter, own_process(QUERY | SET)), SUCCESS);
    assert_eq!(memory_of(adapter, own_process(SET)), STATUS_ACCESS_DENIED);
    assert_eq!(memory_of(adapter, own_process(0)), STATUS_ACCESS_DENIED);
    let other = d3dkmt::windtunnel_process_open(1, QUERY);
    if !other.is_null() {
        assert_eq!(memory_of(adapter, other), SUCCESS, "it uses nothing");
    }
    let mut reserve = D3DKMT_CHANGEVIDEOMEMORYRESERVATION::ZERO;
    (reserve.hAdapter, reserve.hProcess) = (adapter, own_process(QUERY));
    let denied = call!(D3DKMTChangeVideoMemoryReservation, reserve).0;
    reserve.hProcess = own_process(SET);
    let granted = call!(D3DKMTChangeVideoMemoryReservation, reserve).0;
    assert_eq!([denied, granted], [STATUS_ACCESS_DENIED, SUCCESS]);
    assert!(d3dkmt::windtunnel_process_open(0x3fff_ffff, QUERY).is_null());
    close_adapter(adapter);
}

const UNOWNED: i32 = D3DKMT_VIDPNSOURCEOWNER_UNOWNED;
const SHARED: i32 = D3DKMT_VIDPNSOURCEOWNER_SHARED;
const EXCLUSIVE: i32 = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
const EMULATED: i32 = D3DKMT_VIDPNSOURCEOWNER_EMULATED;

fn own(hDevice: D3DKMT_HANDLE, how: i32) -> NTSTATUS {
    let source = 0;
    let args = D3DKMT_SETVIDPNSOURCEOWNER {
        hDevice,
        pType: &raw const how,
        pVidPnSourceId: &raw const source,
        VidPnSourceCount: 1,
    };
    call!(D3DKMTSetVidPnSourceOwner, args).0
}

/// One test, because the display is one for all threads of the program.
#[test]
fn rows_49_to_71_the_owner_of_a_display_source() {
    let hAdapter = adapter();
    let check = || {
        let args = D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP { hAdapter, VidPnSourceId: 0 };
        let status = call!(D3DKMTCheckVidPnExclusiveOwnership, args).0;
        let window = D3DKMT_CHECKOCCLUSION { hWindow: without_provenance_mut(0x1_0001) };
        // Row 71: one monitor.
        assert_eq!(call!(D3DKMTCheckOcclusion, window).0, status);
        assert_eq!(d3dkmt::D3DKMTCheckExclusiveOwnership(), u8::from(status == OCCLUDED));
        status
    };
    // Row 49.
    assert_eq!(call!(D3DKMTSetVidPnSourceOwner, D3DKMT_SETVIDPNSOURCEOWNER::ZERO).0, INVALID);
    // What a new device is told, step by step, and what the check says after each.
    let steps: [&[(i32, NTSTATUS, NTSTATUS)]; 8] = [
        &[(UNOWNED, SUCCESS, SUCCESS)],    // Row 51.
        &[(EXCLUSIVE, SUCCESS, OCCLUDED)], // Row 53.
        &[(EMULATED, SUCCESS, SUCCESS)],   // Row 55.
        &[(EXCLUSIVE, SUCCESS, OCCLUDED), (SHARED, INVALID, OCCLUDED)], // Row 57.
        &[(EXCLUSIVE, SUCCESS, OCCLUDED), (EXCLUSIVE, SUCCESS, OCCLUDED)], // Row 59.
        &[(EMULATED, SUCCESS, SUCCESS), (EXCLUSIVE, INVALID, SUCCESS)], // Row 61.
        &[(SHARED, IN_USE, SUCCESS), (EXCLUSIVE, SUCCESS, OCCLUDED)], // Row 301.
        &[(EXCLUSIVE, SUCCESS, OCCLUDED), (UNOWNED, SUCCESS, SUCCESS)],
    ];
    for steps in steps {
        let device = create_device(hAdapter);
        for (how, status, checked) in steps {
            assert_eq!((own(device, *how), check()), (*status, *checked), "{steps:x?}");
        }
        destroy_device(device);
        assert_eq!(check(), SUCCESS, "a device that ends owns nothing");
    }
    // Rows 63 and 65.
    for first in [EXCLUSIVE, EMULATED] {
        let (a, b) = (create_device(hAdapter), create_device(hAdapter));
        assert_eq!(own(a, first), SUCCESS);
        let checked = check();
        assert_eq!([own(b, EXCLUSIVE), own(b, EMULATED)], [IN_USE; 2]);
        assert_eq!(check(), checked);
        // Row 67.
        assert_eq!((own(b, UNOWNED), check()), (SUCCESS, checked));
        assert_eq!(own(a, UNOWNED), SUCCESS);
        assert_eq!(own(b, EXCLUSIVE), SUCCESS, "it is free");
        // Without sources, all are released.
        let none = D3DKMT_SETVIDPNSOURCEOWNER { hDevice: b, ..D3DKMT_SETVIDPNSOURCEOWNER::ZERO };
        assert_eq!(call!(D3DKMTSetVidPnSourceOwner, none).0, SUCCESS);
        assert_eq!(check(), SUCCESS);
        destroy_device(a);
        destroy_device(b);
    }
    // Row 69.
    assert_eq!(call!(D3DKMTCheckOcclusion, D3DKMT_CHECKOCCLUSION::ZERO).0, INVALID);
    // SAFETY: NULL is refused.
    assert_eq!(unsafe { d3dkmt::D3DKMTCheckOcclusion(ptr::null()) }, INVALID);
    let device = create_device(hAdapter);
    assert_eq!([own(device, 5), own(device, -1)], [INVALID; 2]);
    let args = D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP { hAdapter, VidPnSourceId: 1 };
    assert_eq!(call!(D3DKMTCheckVidPnExclusiveOwnership, args).0, INVALID);
    destroy_device(device);
    close_adapter(hAdapter);
}

#[test]
fn a_device_keeps_its_limit_of_presents() {
    let adapter = adapter();
    let hDevice = create_device(adapter);
    let limit = |Type, QueuedPresentLimit| {
        let args = D3DKMT_SETQUEUEDLIMIT {
            hDevice,
            Type,
            QueuedPresentLimit,
            ..D3DKMT_SETQUEUEDLIMIT::ZERO
        };
        let (status, left) = call!(D3DKMTSetQueuedLimit, args);
        (status, left.QueuedPresentLimit)
    };
    assert_eq!(limit(D3DKMT_GET_QUEUEDLIMIT_PRESENT, 99), (SUCCESS, 3));
    assert_eq!(limit(D3DKMT_SET_QUEUEDLIMIT_PRESENT, 7), (SUCCESS, 7));
    assert_eq!(limit(D3DKMT_GET_QUEUEDLIMIT_PRESENT, 99), (SUCCESS, 7));
    assert_eq!(limit(0, 1).0, INVALID);
    destroy_device(hDevice);
    assert_eq!(limit(D3DKMT_GET_QUEUEDLIMIT_PRESENT, 99).0, INVALID);
    close_adapter(adapter);
}

#[test]
fn statistics_agree_with_what_the_adapter_says() {
    let (adapter, AdapterLuid) = open_adapter();
    let ask = |Type, Index| {
        let args =
            D3DKMT_QUERYSTATISTICS { Type, AdapterLuid, Index, ..D3DKMT_QUERYSTATISTICS::ZERO };
        let (status, found) = call!(D3DKMTQueryStatistics, args);
        (status, found.QueryResult)
    };
    let (status, result) = ask(D3DKMT_QUERYSTATISTICS_ADAPTER, 0);
    let counts = result.adapter();
    assert_eq!((status, counts.VidPnSourceCount), (SUCCESS, 1));
    assert!(counts.NbSegments > 0 && counts.NodeCount > 0, "{counts:?}");
    let mut local = 0;
    for segment in 0..counts.NbSegments {
        let (status, result) = ask(D3DKMT_QUERYSTATISTICS_SEGMENT, segment);
        let found = result.segment();
        assert!(status == SUCCESS && found.BytesCommitted <= found.CommitLimit, "{found:?}");
        local += if found.Aperture == 0 { found.CommitLimit } else { 0 };
    }
    let memory =
        D3DKMT_QUERYVIDEOMEMORYINFO { hAdapter: adapter, ..D3DKMT_QUERYVIDEOMEMORYINFO::ZERO };
    let budget = call!(D3DKMTQueryVideoMemoryInfo, memory).1.Budget;
    assert!(budget <= local, "{budget} of {local}");
    let (status, group) = ask(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, 0);
    assert_eq!(status, SUCCESS);
    assert!(group.segment_group().Budget <= local);
    for (of, behind) in [
        (D3DKMT_QUERYSTATISTICS_SEGMENT, counts.NbSegments),
        (D3DKMT_QUERYSTATISTICS_NODE, counts.NodeCount),
        (D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, 1),
        (D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER, 1),
        (D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, 2),
    ] {
        assert_eq!(ask(of, behind - 1).0, SUCCESS, "{of}");
        assert_eq!(ask(of, behind).0, INVALID, "{of}");
    }
    assert_eq!(ask(11, 0).0, INVALID);
    let stranger = call!(D3DKMTQueryStatistics, D3DKMT_QUERYSTATISTICS::ZERO).0;
    assert_eq!(stranger, INVALID, "no adapter has this LUID");
    close_adapter(adapter);
}

#[test]
fn the_clocks_of_a_node_and_of_the_cpu_agree() {
    let hAdapter = adapter();
    let clock = |NodeOrdinal| {
        let args = D3DKMT_QUERYCLOCKCALIBRATION {
            hAdapter,
            NodeOrdinal,
            ..D3DKMT_QUERYCLOCKCALIBRATION::ZERO
        };
        let (status, found) = call!(D3DKMTQueryClockCalibration, args);
        let (gpu, cpu) = (found.ClockData.GpuClockCounter, found.ClockData.CpuClockCounter);
        assert_eq!(gpu, cpu, "one clock counts for both");
        (status, found.ClockData.GpuFrequency, gpu)
    };
    let (status, frequency, first) = clock(0);
    assert_eq!((status, frequency), (SUCCESS, 10_000_000));
    // The time of the host, which may stand still while nothing waits.
    assert!(clock(0).2 >= first);
    assert_eq!(clock(99).0, INVALID);
    close_adapter(hAdapter);
}

#[test]
fn a_context_keeps_its_priority_among_those_of_its_process() {
    let adapter = adapter();
    let hDevice = create_device(adapter);
    let args = D3DKMT_CREATECONTEXTVIRTUAL {
        hDevice,
        EngineAffinity: 1,
        ..D3DKMT_CREATECONTEXTVIRTUAL::ZERO
    };
    let (status, made) = call!(D3DKMTCreateContextVirtual, args);
    assert_eq!(status, SUCCESS);
    let hContext = made.hContext;
    let priority = || {
        let args = D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext, Priority: 77 };
        let (status, found) = call!(D3DKMTGetContextInProcessSchedulingPriority, args);
        (status, found.Priority)
    };
    assert_eq!(priority(), (SUCCESS, 0));
    let args = D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext, Priority: -3 };
    assert_eq!(call!(D3DKMTSetContextInProcessSchedulingPriority, args).0, SUCCESS);
    assert_eq!(priority(), (SUCCESS, -3));
    destroy_device(hDevice);
    assert_eq!(priority().0, INVALID);
    close_adapter(adapter);
}

#[test]
fn a_range_inside_an_allocation_can_be_read_again() {
    let adapter = adapter();
    let hDevice = create_device(adapter);
    let request = D3DKMT_CREATEALLOCATION { hDevice, ..D3DKMT_CREATEALLOCATION::ZERO };
    let (_, _, hAllocation) = create(request, D3DDDI_ALLOCATIONINFO2::ZERO);
    let invalidate = |Offset, Length| {
        let args = D3DKMT_INVALIDATECACHE { hDevice, hAllocation, Offset, Length };
        call!(D3DKMTInvalidateCache, args).0
    };
    assert_eq!([invalidate(0, 4096), invalidate(4096, 0), invalidate(100, 8)], [SUCCESS; 3]);
    assert_eq!([invalidate(0, 4097), invalidate(usize::MAX, 2)], [INVALID; 2]);
    let hPagingQueue = {
        let args = D3DKMT_CREATEPAGINGQUEUE { hDevice, ..D3DKMT_CREATEPAGINGQUEUE::ZERO };
        let (status, made) = call!(D3DKMTCreatePagingQueue, args);
        assert_eq!(status, SUCCESS);
        made.hPagingQueue
    };
    let update = |SupportedSegmentSet, PropertyMaskValue| {
        let args = D3DDDI_UPDATEALLOCPROPERTY {
            hPagingQueue,
            hAllocation,
            SupportedSegmentSet,
            PropertyMaskValue,
            ..D3DDDI_UPDATEALLOCPROPERTY::ZERO
        };
        call!(D3DKMTUpdateAllocationProperty, args).0
    };
    let segments = D3DDDI_UPDATEALLOCPROPERTY::SetSupportedSegmentSet;
    assert_eq!(update(0, 0), SUCCESS, "nothing changes");
    assert_eq!([update(0, segments), update(1 << 20, segments), update(0, 1 << 9)], [INVALID; 3]);
    destroy(hDevice, 0, hAllocation);
    assert_eq!([invalidate(0, 1), update(0, 0)], [INVALID; 2]);
    destroy_device(hDevice);
    close_adapter(adapter);
}

#[test]
fn a_device_that_is_marked_as_broken_is_removed() {
    let adapter = adapter();
    for (Reason, state) in [
        (D3DKMT_DEVICE_ERROR_REASON_GENERIC, D3DKMT_DEVICEEXECUTION_STOPPED),
        (D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR, D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT),
    ] {
        let hDevice = create_device(adapter);
        let mark =
            |Reason| call!(D3DKMTMarkDeviceAsError, D3DKMT_MARKDEVICEASERROR { hDevice, Reason }).0;
        assert_eq!([mark(0), mark(1), mark(Reason)], [INVALID, INVALID, SUCCESS]);
        let args = D3DKMT_GETDEVICESTATE {
            hDevice,
            StateType: D3DKMT_DEVICESTATE_EXECUTION,
            ..D3DKMT_GETDEVICESTATE::ZERO
        };
        let (status, found) = call!(D3DKMTGetDeviceState, args);
        assert_eq!((status, found.execution_state()), (SUCCESS, state));
        let request = D3DKMT_CREATEALLOCATION { hDevice, ..D3DKMT_CREATEALLOCATION::ZERO };
        let refused = create(request, D3DDDI_ALLOCATIONINFO2::ZERO).0;
        assert_eq!(refused, STATUS_DEVICE_REMOVED);
        destroy_device(hDevice);
    }
    close_adapter(adapter);
}

#[test]
fn small_requests_check_their_handles() {
    let hAdapter = adapter();
    let flush =
        |hAdapter| call!(D3DKMTFlushHeapTransitions, D3DKMT_FLUSHHEAPTRANSITIONS { hAdapter }).0;
    assert_eq!([flush(hAdapter), flush(0)], [SUCCESS, INVALID]);
    let stable = |hAdapter| {
        let args = D3DKMT_SETSTABLEPOWERSTATE { hAdapter, Enabled: 1 };
        call!(D3DKMTSetStablePowerState, args).0
    };
    assert_eq!([stable(hAdapter), stable(0)], [SUCCESS, INVALID]);
    let hDevice = create_device(hAdapter);
    let share = |hDevice| {
        let args = D3DKMT_SHAREOBJECTWITHHOST { hDevice, ..D3DKMT_SHAREOBJECTWITHHOST::ZERO };
        call!(D3DKMTShareObjectWithHost, args).0
    };
    assert_eq!([share(hDevice), share(0)], [STATUS_NOT_SUPPORTED, INVALID]);
    destroy_device(hDevice);
    close_adapter(hAdapter);
}

#[test]
fn what_is_absent_says_so_whatever_it_is_given() {
    let mut zeroed = [0_u64; 64];
    let absent: [unsafe extern "C-unwind" fn(*const c_void) -> NTSTATUS; 4] = [
        d3dkmt::D3DKMTPresent,
        d3dkmt::D3DKMTCreateHwQueue,
        d3dkmt::D3DKMTCreateOverlay,
        d3dkmt::D3DKMTWaitSyncFile,
    ];
    for args in [ptr::null(), zeroed.as_mut_ptr().cast::<c_void>().cast_const()] {
        // SAFETY: An absent entry point does not read its argument.
        let statuses = absent.map(|call| unsafe { call(args) });
        assert_eq!(statuses, [STATUS_NOT_SUPPORTED; 4]);
    }
}
