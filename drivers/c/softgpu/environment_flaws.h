/*
 * What bad drivers do wrong with locks, with what they get from the system, and with assertions.
 * Nothing of this is in a correct driver.
 */
#ifndef ENVIRONMENT_FLAWS_H
#define ENVIRONMENT_FLAWS_H

#include "miniport.h"

#ifdef FLAW_LOCKS
static KSPIN_LOCK OuterLock;
static KSPIN_LOCK InnerLock;
static FAST_MUTEX FastMutex;

static NONPAGED void LockBoth(PKSPIN_LOCK outer, PKSPIN_LOCK inner)
{
    KIRQL irql;

    KeAcquireSpinLock(outer, &irql);
    KeAcquireSpinLockAtDpcLevel(inner);
    KeReleaseSpinLockFromDpcLevel(inner);
    KeReleaseSpinLock(outer, irql);
}

/* 1: two locks in both orders; 2: a wait with a spin lock; 3: a mutex twice; 4: a long stall. */
static NONPAGED void UseLocks(void)
{
    LARGE_INTEGER delay = {.QuadPart = -10000};
    KIRQL irql;

    KeInitializeSpinLock(&OuterLock);
    KeInitializeSpinLock(&InnerLock);
    ExInitializeFastMutex(&FastMutex);
    LockBoth(&OuterLock, &InnerLock);
    KeAcquireSpinLock(&InnerLock, &irql);
#if FLAW_LOCKS == 1
    KeAcquireSpinLockAtDpcLevel(&OuterLock);
    KeReleaseSpinLockFromDpcLevel(&OuterLock);
#elif FLAW_LOCKS == 2
    KeDelayExecutionThread(KernelMode, FALSE, &delay);
#endif
    KeReleaseSpinLock(&InnerLock, irql);
    ExAcquireFastMutex(&FastMutex);
#if FLAW_LOCKS == 3
    ExAcquireFastMutex(&FastMutex);
#elif FLAW_LOCKS == 4
    KeStallExecutionProcessor(60);
#endif
    ExReleaseFastMutex(&FastMutex);
    KeDelayExecutionThread(KernelMode, FALSE, &delay);
}
#endif

#ifdef FLAW_LEAK
static LOOKASIDE_LIST_EX LookasideList;
static HANDLE Key;
static PVOID Contiguous;
static PVOID Mapped;
static PMDL LockedMdl;
static PVOID PoolBlock;
static KTIMER Timer;
static KDPC Dpc;
static PIO_WORKITEM WorkItem;
static KEVENT WorkDone;

static NONPAGED void NTAPI CountDpc(PKDPC dpc, PVOID context, PVOID argument1, PVOID argument2)
{
    UNREFERENCED_PARAMETER(dpc);
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(argument1);
    UNREFERENCED_PARAMETER(argument2);
}

static NONPAGED void NTAPI DoWork(PDEVICE_OBJECT device, PVOID context)
{
    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(context);
    KeSetEvent(&WorkDone, IO_NO_INCREMENT, FALSE);
}

/* In DxgkDdiStartDevice, or in DxgkDdiAddDevice with FLAW_LEAK_IN_ADD_DEVICE. */
__attribute__((noinline)) static PAGED void GetThings(PADAPTER adapter)
{
    UNICODE_STRING name = RTL_CONSTANT_STRING(L"\\Registry\\Machine\\Software");
    PHYSICAL_ADDRESS highest = {.QuadPart = ~0ull >> 1};
    LARGE_INTEGER hour = {.QuadPart = -36000000000};
    OBJECT_ATTRIBUTES attributes;

    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    ZwOpenKey(&Key, KEY_READ, &attributes);
    ExInitializeLookasideListEx(&LookasideList, NULL, NULL, 0x200, 0, 64, DRIVER_TAG, 0);
    Contiguous = MmAllocateContiguousMemory(0x1000, highest);
    Mapped = MmMapIoSpace(MmGetPhysicalAddress(Contiguous), 0x1000, MmNonCached);
    LockedMdl = IoAllocateMdl(adapter, sizeof(*adapter), FALSE, FALSE, NULL);
    MmProbeAndLockPages(LockedMdl, KernelMode, IoModifyAccess);
    PoolBlock = ExAllocatePool2(POOL_FLAG_NON_PAGED, 64, DRIVER_TAG);
    KeInitializeTimer(&Timer);
    KeSetTimer(&Timer, hour, NULL);
    KeInitializeEvent(&WorkDone, NotificationEvent, FALSE);
    WorkItem = IoAllocateWorkItem(adapter->PhysicalDeviceObject);
}

/*
 * In the counterpart. It leaves one thing behind. 1: a handle; 2: a lookaside list; 3: a mapping; 4:
 * locked pages; 5: a timer; 6: a queued DPC; 7: a queued work item; 8: a work item; 9: a pool block;
 * 10: contiguous memory. 0 gives all of them back.
 */
__attribute__((noinline)) static PAGED void GiveThingsBack(void)
{
#if FLAW_LEAK != 1
    ZwClose(Key);
#endif
#if FLAW_LEAK != 2
    ExDeleteLookasideListEx(&LookasideList);
#endif
#if FLAW_LEAK != 3
    MmUnmapIoSpace(Mapped, 0x1000);
#endif
#if FLAW_LEAK != 4
    MmUnlockPages(LockedMdl);
#endif
    IoFreeMdl(LockedMdl);
#if FLAW_LEAK != 5
    KeCancelTimer(&Timer);
#endif
    KeInitializeDpc(&Dpc, CountDpc, NULL);
    KeSetImportanceDpc(&Dpc, LowImportance);
#if FLAW_LEAK != 6
    KeInsertQueueDpc(&Dpc, NULL, NULL);
    KeFlushQueuedDpcs();
#endif
    IoQueueWorkItem(WorkItem, DoWork, DelayedWorkQueue, NULL);
#if FLAW_LEAK != 7
    KeWaitForSingleObject(&WorkDone, Executive, KernelMode, FALSE, NULL);
#endif
#if FLAW_LEAK != 7 && FLAW_LEAK != 8
    IoFreeWorkItem(WorkItem);
#endif
#if FLAW_LEAK != 9
    ExFreePoolWithTag(PoolBlock, DRIVER_TAG);
#endif
#if FLAW_LEAK != 10
    MmFreeContiguousMemory(Contiguous);
#endif
#if FLAW_LEAK == 6
    KeInsertQueueDpc(&Dpc, NULL, NULL);
#endif
}
#endif

#ifdef FLAW_ASSERTION
/* 1: ASSERT; 2: NT_ASSERT. */
__attribute__((noinline)) static PAGED void FailAssertion(void)
{
#if FLAW_ASSERTION == 1
    RtlAssert("Adapter->Removed == FALSE", __FILE_NAME__, __LINE__, NULL);
#else
    __asm__ volatile("int $0x2c");
#endif
}
#endif

#endif
