/*
 * Loops of bad drivers that call the system again and again, and waits without an end. Nothing of this
 * is in a correct driver.
 */
#ifndef ENDLESS_FLAWS_H
#define ENDLESS_FLAWS_H

#include "miniport.h"

#ifdef FLAW_ENDLESS
static volatile LONG Never;

#if FLAW_ENDLESS == 1
static KDPC LoopDpc;

static void NTAPI LoopRoutine(PKDPC dpc, PVOID context, PVOID argument1, PVOID argument2)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(argument1);
    UNREFERENCED_PARAMETER(argument2);
    KeInsertQueueDpc(dpc, NULL, NULL);
}

__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    KeInitializeDpc(&LoopDpc, LoopRoutine, adapter);
    KeInsertQueueDpc(&LoopDpc, NULL, NULL);
}
#elif FLAW_ENDLESS == 2
__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    LARGE_INTEGER interval = {.QuadPart = -1};

    UNREFERENCED_PARAMETER(adapter);
    while (Never == 0)
        KeDelayExecutionThread(KernelMode, FALSE, &interval);
}
#elif FLAW_ENDLESS == 3
/* Nothing sets it. */
static KEVENT Done;
static KEVENT Ping;
static KEVENT Pong;

static void NTAPI WakePong(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
    while (Never == 0) {
        KeWaitForSingleObject(&Ping, Executive, KernelMode, FALSE, NULL);
        KeSetEvent(&Pong, IO_NO_INCREMENT, FALSE);
    }
}

static void NTAPI WakePing(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
    while (Never == 0) {
        KeSetEvent(&Ping, IO_NO_INCREMENT, FALSE);
        KeWaitForSingleObject(&Pong, Executive, KernelMode, FALSE, NULL);
    }
}

__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    HANDLE thread;

    KeInitializeEvent(&Done, NotificationEvent, FALSE);
    KeInitializeEvent(&Ping, SynchronizationEvent, FALSE);
    KeInitializeEvent(&Pong, SynchronizationEvent, FALSE);
    if (NT_SUCCESS(PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, NULL, NULL, NULL, WakePong,
                                        adapter)))
        ZwClose(thread);
    if (NT_SUCCESS(PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, NULL, NULL, NULL, WakePing,
                                        adapter)))
        ZwClose(thread);
    KeWaitForSingleObject(&Done, Executive, KernelMode, FALSE, NULL);
}
#elif FLAW_ENDLESS == 4
static PIO_WORKITEM LoopItem;

static void NTAPI LoopWork(PDEVICE_OBJECT device, PVOID context)
{
    UNREFERENCED_PARAMETER(device);
    IoQueueWorkItem(LoopItem, LoopWork, DelayedWorkQueue, context);
}

__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    LoopItem = IoAllocateWorkItem(adapter->PhysicalDeviceObject);
    IoQueueWorkItem(LoopItem, LoopWork, DelayedWorkQueue, adapter);
}
#elif FLAW_ENDLESS == 5
__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    UNREFERENCED_PARAMETER(adapter);
    while (KeQueryPerformanceCounter(NULL).QuadPart != 0)
        YieldProcessor();
}
#elif FLAW_ENDLESS == 6
/* One second for each turn. */
__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    LARGE_INTEGER interval = {.QuadPart = -10000000};

    UNREFERENCED_PARAMETER(adapter);
    while (Never == 0)
        KeDelayExecutionThread(KernelMode, FALSE, &interval);
}
#elif FLAW_ENDLESS == 7
__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    PVOID block;

    UNREFERENCED_PARAMETER(adapter);
    do {
        block = ExAllocatePool2(POOL_FLAG_NON_PAGED, 1 << 20, 'pooL');
        if (block != NULL)
            RtlZeroMemory(block, 1 << 20);
    } while (block != NULL);
}
#elif FLAW_ENDLESS == 8
static KEVENT NeverSet;

static void NTAPI WaitForNothing(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
    KeWaitForSingleObject(&NeverSet, Executive, KernelMode, FALSE, NULL);
}

__attribute__((noinline)) static void BeginLoop(PADAPTER adapter)
{
    HANDLE thread;

    KeInitializeEvent(&NeverSet, NotificationEvent, FALSE);
    for (ULONG count = 0; count < 200000; count++) {
        if (NT_SUCCESS(PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, NULL, NULL, NULL,
                                            WaitForNothing, adapter)))
            ZwClose(thread);
    }
}
#endif
#endif

/* 1 in DxgkDdiCreateDevice, 2 in the second DxgkDdiStartDevice; 3: GpuStop does not stop the thread. */
#if defined(FLAW_WAITS) && FLAW_WAITS != 3
__attribute__((noinline, unused)) static void WaitForEver(void)
{
    KEVENT never;

    KeInitializeEvent(&never, NotificationEvent, FALSE);
    KeWaitForSingleObject(&never, Executive, KernelMode, FALSE, NULL);
}
#endif

#endif
