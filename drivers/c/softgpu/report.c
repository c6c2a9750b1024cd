/*
 * Reports of the GPU. The GPU has no interrupt line: its thread runs the part of an interrupt
 * routine with DxgkCbSynchronizeExecution.
 */
#include "driver.h"
#include "miniport.h"

typedef struct _REPORT {
    PADAPTER Adapter;
    DXGKARGCB_NOTIFY_INTERRUPT_DATA Data;
    PNODE Node;
    ULONG LastCompleted;
} REPORT, *PREPORT;

/* At the level of the interrupt. */
static BOOLEAN NTAPI NotifyInterrupt(PVOID context)
{
    PREPORT report = context;
    PDXGKRNL_INTERFACE dxgk = &report->Adapter->DxgkInterface;

    FLAW_POINT(ISR);
    report->Node->LastCompleted = report->LastCompleted;
#ifdef FLAW_FORGETS_FENCE
    if (report->Data.InterruptType == DXGK_INTERRUPT_DMA_COMPLETED && report->LastCompleted == 2)
        return TRUE;
#endif
    if (report->Data.InterruptType == DXGK_INTERRUPT_DMA_PREEMPTED)
#ifdef FLAW_REPORTS_LAST_SUBMITTED
        report->Data.DmaPreempted.LastCompletedFenceId = report->Node->LastSubmitted;
#else
        report->Data.DmaPreempted.LastCompletedFenceId = report->LastCompleted;
#endif
#ifndef FLAW_NEVER_NOTIFIES
    dxgk->DxgkCbNotifyInterrupt(dxgk->DeviceHandle, &report->Data);
#endif
#ifndef FLAW_DPC_NOT_QUEUED
    dxgk->DxgkCbQueueDpc(dxgk->DeviceHandle);
#endif
    return TRUE;
}

static void Send(PGPU gpu, PREPORT report)
{
    PDXGKRNL_INTERFACE dxgk = &gpu->Adapter->DxgkInterface;
    BOOLEAN result;

    report->Adapter = gpu->Adapter;
#ifdef FLAW_NOTIFY_AT_PASSIVE
    NotifyInterrupt(report);
    UNREFERENCED_PARAMETER(dxgk);
    UNREFERENCED_PARAMETER(result);
#else
    dxgk->DxgkCbSynchronizeExecution(dxgk->DeviceHandle, NotifyInterrupt, report, 0, &result);
#endif
}

void GpuReportCompletion(PGPU gpu, ULONG node, ULONG fence)
{
    REPORT report = {.Node = &gpu->Nodes[node], .LastCompleted = fence};

#ifdef FLAW_FAULT_ELSEWHERE
    if (node != PAGING_NODE) {
        GpuReportFault(gpu, node, fence, 0x123456000ull);
        return;
    }
#endif
    report.Data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    report.Data.DmaCompleted.SubmissionFenceId = fence;
    report.Data.DmaCompleted.NodeOrdinal = node;
#ifdef FLAW_FENCE_REPORTED_LATE
    report.Data.DmaCompleted.SubmissionFenceId = fence + 1;
#endif
    Send(gpu, &report);
}

void GpuReportFault(PGPU gpu, ULONG node, ULONG fence, ULONG64 address)
{
    REPORT report = {.Node = &gpu->Nodes[node], .LastCompleted = fence};

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    report.Data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
    report.Data.DmaPageFaulted.FaultedFenceId = fence;
    report.Data.DmaPageFaulted.FaultedVirtualAddress = address;
    report.Data.DmaPageFaulted.NodeOrdinal = node;
#else
    UNREFERENCED_PARAMETER(address);
    report.Data.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
    report.Data.DmaFaulted.FaultedFenceId = fence;
    report.Data.DmaFaulted.Status = STATUS_ACCESS_VIOLATION;
    report.Data.DmaFaulted.NodeOrdinal = node;
#endif
    Send(gpu, &report);
}

void GpuReportPreemption(PGPU gpu, ULONG node, ULONG fence)
{
    REPORT report = {.Node = &gpu->Nodes[node], .LastCompleted = gpu->Nodes[node].LastCompleted};

    report.Data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
    report.Data.DmaPreempted.PreemptionFenceId = fence;
    report.Data.DmaPreempted.NodeOrdinal = node;
    Send(gpu, &report);
}

/* The interrupt line is shared, and this device never interrupts. */
BOOLEAN NTAPI SgInterruptRoutine(PVOID context, ULONG message)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(message);
    FLAW_POINT(ISR);
#ifdef FLAW_SETS_EVENT_IN_ISR
    KeSetEvent(&((PADAPTER)context)->Gpu.Idle, IO_NO_INCREMENT, FALSE);
#endif
#ifdef FLAW_CLAIMS_INTERRUPTS
    /* The first of them could be for this device. */
    static LONG Claimed;

    if (InterlockedIncrement(&Claimed) <= FLAW_CLAIMS_INTERRUPTS)
        return TRUE;
#endif
    return FALSE;
}

#ifdef FLAW_PAGED_CODE_IN_DPC
static volatile int PagedCalls;

__attribute__((noinline)) static PAGED void UsePaged(PADAPTER adapter)
{
    UNREFERENCED_PARAMETER(adapter);
    PagedCalls++;
}
#endif

void NTAPI SgDpcRoutine(PVOID context)
{
    PADAPTER adapter = context;

    FLAW_POINT(DPC);
#ifdef FLAW_WAIT_IN_DPC
    KeWaitForSingleObject(&adapter->Gpu.Idle, Executive, KernelMode, FALSE, NULL);
    KeSetEvent(&adapter->Gpu.Idle, IO_NO_INCREMENT, FALSE);
#endif
#ifdef FLAW_COMPARES_IN_DPC
    static const UNICODE_STRING Name = RTL_CONSTANT_STRING(L"gpu");

    RtlEqualUnicodeString(&Name, &Name, TRUE);
#endif
#ifdef FLAW_FAST_MUTEX_IN_DPC
    static FAST_MUTEX Mutex;

    ExInitializeFastMutex(&Mutex);
    ExAcquireFastMutex(&Mutex);
    ExReleaseFastMutex(&Mutex);
#endif
#ifdef FLAW_STALLS_IN_DPC
    for (int count = 0; count < 3; count++)
        KeStallExecutionProcessor(40);
#endif
#ifdef FLAW_POLLS_IN_DPC
    while (adapter->Gpu.Adapter != NULL)
        KeStallExecutionProcessor(10);
#endif
#ifdef FLAW_POLLS_CLOCK_IN_DPC
    while (KeQueryPerformanceCounter(NULL).QuadPart != 0)
        YieldProcessor();
#endif
#ifdef FLAW_PAGED_CODE_IN_DPC
    UsePaged(adapter);
#endif
#if defined(FLAW_PAGED_BLOCK) && FLAW_PAGED_BLOCK == 1
    *adapter->PagedBlock = 1;
#endif
#ifdef FLAW_PAGED_POOL_IN_DPC
    FreeMemory(ExAllocatePool2(POOL_FLAG_PAGED, 64, DRIVER_TAG));
#endif
    adapter->DxgkInterface.DxgkCbNotifyDpc(adapter->DxgkInterface.DeviceHandle);
}
