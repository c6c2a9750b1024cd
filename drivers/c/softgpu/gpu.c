/* The GPU's queues and its thread. */
#include "driver.h"
#include "miniport.h"

static PPACKET TakeFreePacket(PGPU gpu)
{
    if (IsListEmpty(&gpu->FreePackets))
        return NULL;
    return CONTAINING_RECORD(RemoveHeadList(&gpu->FreePackets), PACKET, Entry);
}

static void FreePacket(PGPU gpu, PPACKET packet)
{
    if (packet->Owned)
        FreeMemory(packet->Commands);
    packet->Commands = NULL;
    InsertTailList(&gpu->FreePackets, &packet->Entry);
}

NTSTATUS GpuSubmit(PGPU gpu, ULONG node, ULONG fence, PGPU_COMMAND commands, ULONG count,
                   const TABLE_ROOT *root)
{
    NTSTATUS status = STATUS_INSUFFICIENT_RESOURCES;
    PPACKET packet;
    KIRQL irql;

    KeAcquireSpinLock(&gpu->Lock, &irql);
    packet = TakeFreePacket(gpu);
    if (packet != NULL) {
        packet->Node = node;
        packet->Fence = fence;
        packet->Commands = commands;
        packet->Count = count;
        packet->Owned = root != NULL;
        packet->Root = root != NULL ? *root : gpu->SystemRoot;
        InsertTailList(&gpu->Nodes[node].Queue, &packet->Entry);
        gpu->Nodes[node].LastSubmitted = fence;
        status = STATUS_SUCCESS;
    }
    KeReleaseSpinLock(&gpu->Lock, irql);
    KeSetEvent(&gpu->Work, IO_NO_INCREMENT, FALSE);
    return status;
}

static void EmptyQueue(PGPU gpu, PNODE node)
{
    while (!IsListEmpty(&node->Queue))
        FreePacket(gpu, CONTAINING_RECORD(RemoveHeadList(&node->Queue), PACKET, Entry));
}

/* The packets that have not begun end here: the graphics kernel submits them again. */
void GpuPreempt(PGPU gpu, ULONG node, ULONG fence)
{
    KIRQL irql;

    KeAcquireSpinLock(&gpu->Lock, &irql);
    if (gpu->Nodes[node].Hung == NULL)
        EmptyQueue(gpu, &gpu->Nodes[node]);
    gpu->Nodes[node].Preempting = TRUE;
    gpu->Nodes[node].PreemptionFence = fence;
    KeReleaseSpinLock(&gpu->Lock, irql);
    KeSetEvent(&gpu->Work, IO_NO_INCREMENT, FALSE);
}

static PPACKET FirstPacket(PNODE node)
{
    if (node->Hung != NULL)
        return node->Hung;
    return IsListEmpty(&node->Queue) ? NULL : CONTAINING_RECORD(node->Queue.Flink, PACKET, Entry);
}

static void EmptyNode(PGPU gpu, PNODE node)
{
    if (node->Hung != NULL)
        FreePacket(gpu, node->Hung);
    node->Hung = NULL;
    EmptyQueue(gpu, node);
    node->Preempting = FALSE;
}

/* Returns the last aborted fence. The graphics kernel submits later packets again. */
ULONG GpuResetNode(PGPU gpu, ULONG node)
{
    PNODE reset = &gpu->Nodes[node];
    PPACKET first;
    ULONG fence;
    KIRQL irql;

    KeWaitForSingleObject(&gpu->Idle, Executive, KernelMode, FALSE, NULL);
    KeAcquireSpinLock(&gpu->Lock, &irql);
    first = FirstPacket(reset);
    if (first != NULL)
        reset->LastCompleted = first->Fence;
    fence = reset->LastCompleted;
#ifdef FLAW_KEEPS_WORK_AFTER_RESET
    if (reset->Hung != NULL)
        FreePacket(gpu, reset->Hung);
    reset->Hung = NULL;
    reset->Preempting = FALSE;
    KeSetEvent(&gpu->Work, IO_NO_INCREMENT, FALSE);
#else
    EmptyNode(gpu, reset);
#endif
    KeReleaseSpinLock(&gpu->Lock, irql);
    KeSetEvent(&gpu->Idle, IO_NO_INCREMENT, FALSE);
    return fence;
}

/* Everything that was submitted is over. */
void GpuReset(PGPU gpu)
{
    KIRQL irql;

    KeWaitForSingleObject(&gpu->Idle, Executive, KernelMode, FALSE, NULL);
    KeAcquireSpinLock(&gpu->Lock, &irql);
    for (ULONG at = 0; at < NODE_COUNT; at++) {
        EmptyNode(gpu, &gpu->Nodes[at]);
        gpu->Nodes[at].LastCompleted = gpu->Nodes[at].LastSubmitted;
    }
    KeReleaseSpinLock(&gpu->Lock, irql);
    KeSetEvent(&gpu->Idle, IO_NO_INCREMENT, FALSE);
}

BOOLEAN GpuIsResponsive(PGPU gpu, ULONG node)
{
    return gpu->Nodes[node].Hung == NULL;
}

void GpuLosePower(PGPU gpu)
{
    RtlZeroMemory(gpu->Visible, VISIBLE_SIZE);
    RtlZeroMemory(gpu->Local, LOCAL_SIZE);
    RtlZeroMemory(gpu->Aperture, APERTURE_PAGES * sizeof(gpu->Aperture[0]));
}

/* The next packet of a node that does not hang. */
static PPACKET TakePacket(PGPU gpu)
{
    PPACKET packet = NULL;
    KIRQL irql;

    KeAcquireSpinLock(&gpu->Lock, &irql);
    for (ULONG at = 0; at < NODE_COUNT && packet == NULL; at++) {
        PNODE node = &gpu->Nodes[at];

        if (node->Hung == NULL && !IsListEmpty(&node->Queue))
            packet = CONTAINING_RECORD(RemoveHeadList(&node->Queue), PACKET, Entry);
    }
#ifdef FLAW_LOCK_NOT_RELEASED
    if (packet != NULL)
        return packet;
#endif
    KeReleaseSpinLock(&gpu->Lock, irql);
    return packet;
}

static void FinishPacket(PGPU gpu, PPACKET packet, PACKET_RESULT result, ULONG64 fault_address)
{
    ULONG node = packet->Node;
    ULONG fence = packet->Fence;
    KIRQL irql;

    KeAcquireSpinLock(&gpu->Lock, &irql);
    if (result == PacketHung)
        gpu->Nodes[node].Hung = packet;
    else
        FreePacket(gpu, packet);
    KeReleaseSpinLock(&gpu->Lock, irql);
    if (result == PacketDone)
        GpuReportCompletion(gpu, node, fence);
    else if (result == PacketFaulted)
        GpuReportFault(gpu, node, fence, fault_address);
}

static BOOLEAN TakePreemption(PGPU gpu, ULONG node, PULONG fence)
{
    BOOLEAN preempting;
    KIRQL irql;

    KeAcquireSpinLock(&gpu->Lock, &irql);
    preempting = gpu->Nodes[node].Preempting && gpu->Nodes[node].Hung == NULL;
    *fence = gpu->Nodes[node].PreemptionFence;
    if (preempting)
        gpu->Nodes[node].Preempting = FALSE;
    KeReleaseSpinLock(&gpu->Lock, irql);
    return preempting;
}

static void RunPackets(PGPU gpu)
{
    ULONG64 fault_address = 0;
    PPACKET packet;

    while ((packet = TakePacket(gpu)) != NULL) {
        PACKET_RESULT result = GpuExecute(gpu, packet, &fault_address);

        FinishPacket(gpu, packet, result, fault_address);
    }
    for (ULONG node = 0; node < NODE_COUNT; node++) {
        ULONG fence;

        if (TakePreemption(gpu, node, &fence))
            GpuReportPreemption(gpu, node, fence);
    }
}

static void NTAPI GpuThread(PVOID context)
{
    PGPU gpu = context;

    FLAW_POINT(THREAD);
    while (!gpu->Stop) {
        KeWaitForSingleObject(&gpu->Work, Executive, KernelMode, FALSE, NULL);
        KeWaitForSingleObject(&gpu->Idle, Executive, KernelMode, FALSE, NULL);
        RunPackets(gpu);
        KeSetEvent(&gpu->Idle, IO_NO_INCREMENT, FALSE);
    }
    PsTerminateSystemThread(STATUS_SUCCESS);
}

static NTSTATUS StartThread(PGPU gpu)
{
    HANDLE handle;
    NTSTATUS status;

    status = PsCreateSystemThread(&handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, GpuThread, gpu);
    if (!NT_SUCCESS(status))
        return status;
    status = ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, *PsThreadType, KernelMode,
                                       &gpu->Thread, NULL);
    ZwClose(handle);
    return status;
}

static BOOLEAN AllocateGpuMemory(PGPU gpu)
{
    PHYSICAL_ADDRESS highest = {.QuadPart = -1};

    gpu->Visible = MmAllocateContiguousMemory(VISIBLE_SIZE, highest);
    gpu->Local = AllocateMemory(LOCAL_SIZE);
    gpu->Aperture = AllocateMemory(APERTURE_PAGES * sizeof(gpu->Aperture[0]));
    if (gpu->Visible == NULL || gpu->Local == NULL || gpu->Aperture == NULL)
        return FALSE;
    gpu->VisibleAddress = MmGetPhysicalAddress(gpu->Visible);
    return TRUE;
}

static void FreeGpuMemory(PGPU gpu)
{
#ifndef FLAW_LEAK_CONTIGUOUS_MEMORY
    if (gpu->Visible != NULL)
        MmFreeContiguousMemory(gpu->Visible);
#endif
    gpu->Visible = NULL;
    if (gpu->Local != NULL)
        FreeMemory(gpu->Local);
    if (gpu->Aperture != NULL)
        FreeMemory(gpu->Aperture);
    gpu->Local = NULL;
    gpu->Aperture = NULL;
}

NTSTATUS GpuStart(PGPU gpu, struct _ADAPTER *adapter)
{
    NTSTATUS status;

    RtlZeroMemory(gpu, sizeof(*gpu));
    gpu->Adapter = adapter;
    if (!AllocateGpuMemory(gpu)) {
        FreeGpuMemory(gpu);
        return STATUS_NO_MEMORY;
    }
    KeInitializeSpinLock(&gpu->Lock);
    KeInitializeEvent(&gpu->Work, SynchronizationEvent, FALSE);
    KeInitializeEvent(&gpu->Idle, SynchronizationEvent, TRUE);
    InitializeListHead(&gpu->FreePackets);
    for (ULONG at = 0; at < PACKET_COUNT; at++)
        InsertTailList(&gpu->FreePackets, &gpu->Packets[at].Entry);
    for (ULONG at = 0; at < NODE_COUNT; at++)
        InitializeListHead(&gpu->Nodes[at].Queue);
    status = StartThread(gpu);
    if (!NT_SUCCESS(status))
        FreeGpuMemory(gpu);
    return status;
}

void GpuStop(PGPU gpu)
{
    if (gpu->Thread == NULL)
        return;
#ifndef FLAW_THREAD_LEFT_RUNNING
#if !defined(FLAW_WAITS) || FLAW_WAITS != 3
    gpu->Stop = TRUE;
#endif
    KeSetEvent(&gpu->Work, IO_NO_INCREMENT, FALSE);
    KeWaitForSingleObject(gpu->Thread, Executive, KernelMode, FALSE, NULL);
#endif
#ifndef FLAW_THREAD_REFERENCE
    ObDereferenceObject(gpu->Thread);
#endif
    gpu->Thread = NULL;
#ifndef FLAW_THREAD_LEFT_RUNNING
    GpuReset(gpu);
    FreeGpuMemory(gpu);
#endif
}
