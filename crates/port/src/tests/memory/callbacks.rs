//! Context allocations, and reports of faults.

use super::driver::{Board, Call, fly, handle, table};
use abi::display::*;
use abi::miniport::{DXGKRNL_INTERFACE, KSYNCHRONIZE_ROUTINE};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::{HANDLE, PVOID};
use kernel::ProcessExit;
use std::ptr;

/// Calls all four functions with this `hAdapter`, and expects them to fail.
fn all(it: &DXGKRNL_INTERFACE, adapter: HANDLE) {
    let mut create = DXGKARGCB_CREATECONTEXTALLOCATION {
        hAdapter: adapter,
        hAllocation: handle(0xbad),
        ..DXGKARGCB_CREATECONTEXTALLOCATION::ZERO
    };
    let call = it.DxgkCbCreateContextAllocation.unwrap();
    assert_ne!(unsafe { call(&raw mut create) }, 0);
    assert_eq!(create.hAllocation, handle(0xbad), "no allocation was created");
    let call = it.DxgkCbDestroyContextAllocation.unwrap();
    assert_ne!(unsafe { call(adapter, handle(0xbad)) }, 0);
    let update = DXGKARGCB_UPDATECONTEXTALLOCATION::ZERO;
    let call = it.DxgkCbUpdateContextAllocation.unwrap();
    assert_ne!(unsafe { call(adapter, &raw const update) }, 0);
    let map = DXGKARGCB_MAPCONTEXTALLOCATION::ZERO;
    let call = it.DxgkCbMapContextAllocation.unwrap();
    assert_eq!(unsafe { call(adapter, &raw const map) }, 0);
}

/// The findings for a call in `DxgkDdiCreateDevice`.
fn in_device(call: Call) -> Vec<String> {
    fly(Board { in_device: call, ..Board::default() }, &table(), |flown, at| {
        let (kernel, adapter) = (flown.kernel, flown.adapter.clone().unwrap());
        let process = kernel.open_process();
        let name = kernel.open_adapter(process, adapter).unwrap();
        let device = kernel.create_device(at, process, name).unwrap();
        kernel.destroy_device(at, process, device).unwrap();
        kernel.close_adapter(at, process, name).unwrap();
        kernel.end_process(at, process, ProcessExit::Orderly);
    })
}

#[test]
fn the_miniport_context_is_no_device_handle() {
    let messages = in_device(all);
    let means = "is the driver's own handle of the adapter (MiniportDeviceContext), not the \
                 DeviceHandle of DXGKRNL_INTERFACE";
    let expected = [
        format!("CB-CTXALLOC-003: hAdapter of DxgkCbCreateContextAllocation {means}"),
        format!("CB-CTXALLOC-010: hAdapter of DxgkCbDestroyContextAllocation {means}"),
        format!("CB-CTXALLOC-010: hAdapter of DxgkCbUpdateContextAllocation {means}"),
        format!("CB-CTXALLOC-010: hAdapter of DxgkCbMapContextAllocation {means}"),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn null_is_refused_and_nothing_is_said_at_the_door() {
    let messages = in_device(|it, _| {
        let create = it.DxgkCbCreateContextAllocation.unwrap();
        assert_eq!(unsafe { create(ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
        let update = it.DxgkCbUpdateContextAllocation.unwrap();
        assert_eq!(unsafe { update(it.DeviceHandle, ptr::null()) }, STATUS_INVALID_PARAMETER);
        let lies = DXGKARGCB_UPDATECONTEXTALLOCATION {
            PrivateDriverDataSize: 8,
            ..DXGKARGCB_UPDATECONTEXTALLOCATION::ZERO
        };
        let status = unsafe { update(it.DeviceHandle, &raw const lies) };
        assert_eq!(status, STATUS_INVALID_PARAMETER);
        let map = it.DxgkCbMapContextAllocation.unwrap();
        assert_eq!(unsafe { map(it.DeviceHandle, ptr::null()) }, 0);
    });
    assert_eq!(messages, [] as [&str; 0]);
}

/// Runs a routine at the device's level, with the interface.
fn raised(it: &DXGKRNL_INTERFACE, routine: KSYNCHRONIZE_ROUTINE) {
    let call = it.DxgkCbSynchronizeExecution.unwrap();
    let context = ptr::from_ref(it).cast_mut().cast();
    let mut value = 0;
    unsafe { call(it.DeviceHandle, Some(routine), context, 0, &raw mut value) };
    assert_eq!(value, 1);
}

fn interface<'a>(context: PVOID) -> &'a DXGKRNL_INTERFACE {
    unsafe { &*context.cast() }
}

#[test]
fn above_passive_they_are_refused() {
    unsafe extern "win64-unwind" fn routine(context: PVOID) -> u8 {
        let it = interface(context);
        all(it, it.DeviceHandle);
        1
    }
    let at = "ContextAllocation was called at device, but needs passive";
    let expected = [
        format!("CB-CTXALLOC-001: DxgkCbCreate{at}"),
        format!("CB-CTXALLOC-011: DxgkCbDestroy{at}"),
        format!("CB-IRQL-001: DxgkCbUpdate{at}"),
        format!("CB-IRQL-001: DxgkCbMap{at}"),
    ];
    assert_eq!(in_device(|it, _| raised(it, routine)), expected);
}

#[test]
fn what_nothing_serves_has_its_ceiling_all_the_same() {
    unsafe extern "win64-unwind" fn routine(context: PVOID) -> u8 {
        let it = interface(context);
        let calls = [it.DxgkCbQueryServices, it.DxgkCbSetPowerComponentLatency];
        for call in calls {
            unsafe { call.unwrap()() };
        }
        1
    }
    let messages = in_device(|it, _| {
        unsafe { it.DxgkCbQueryServices.unwrap()() };
        raised(it, routine);
    });
    let expected = [
        "absent: DxgkCbQueryServices",
        "CB-IRQL-001: DxgkCbQueryServices was called at device, but needs passive",
        "absent: DxgkCbQueryServices",
        "CB-IRQL-001: DxgkCbSetPowerComponentLatency was called at device, but needs passive or \
         dispatch",
        "absent: DxgkCbSetPowerComponentLatency",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_page_fault_is_heard() {
    unsafe extern "win64-unwind" fn routine(context: PVOID) -> u8 {
        let it = interface(context);
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO;
        let zero = data.dma_page_faulted();
        let unknown = DXGK_PAGE_FAULT_FENCE_INVALID;
        for (kind, fence, flags) in [
            (DXGK_INTERRUPT_DMA_PAGE_FAULTED, 0, unknown),
            (DXGK_INTERRUPT_DMA_PAGE_FAULTED, 0, 0),
            (DXGK_INTERRUPT_DMA_PAGE_FAULTED, 7, unknown),
            (DXGK_INTERRUPT_DMA_FAULTED, 0, 0),
        ] {
            data.InterruptType = kind;
            data.set_dma_page_faulted(DmaPageFaulted {
                FaultedFenceId: fence,
                PageFaultFlags: flags,
                ..zero
            });
            unsafe { it.DxgkCbNotifyInterrupt.unwrap()(it.DeviceHandle, &raw const data) };
        }
        1
    }
    let messages = in_device(|it, _| raised(it, routine));
    let expected = [
        "KMD-ISR-010: FaultedFenceId is 0, but DXGK_PAGE_FAULT_FENCE_INVALID does not say that \
         it is not known",
        "KMD-ISR-010: FaultedFenceId is 7, but DXGK_PAGE_FAULT_FENCE_INVALID says that it is not \
         known: then it is zero",
        "KMD-ISR-010: the driver reported DXGK_INTERRUPT_DMA_FAULTED, which is reserved: a fault \
         is reported as DXGK_INTERRUPT_DMA_PAGE_FAULTED",
        "KMD-ISR-006: the driver reported an interrupt under DxgkCbSynchronizeExecution, but did \
         not queue the DPC then or later",
    ];
    assert_eq!(messages, expected);
}
