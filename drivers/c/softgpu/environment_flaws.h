/*
 * What bad drivers do wrong with locks, with the IRQL, with what they get from the system, and with
 * assertions.
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

/* 1: a handle; 2: a lookaside list; 3: a mapping; 4: locked pages. 0 gives all of them back. */
__attribute__((noinline)) static PAGED void LeakOne(PADAPTER adapter)
{
    UNICODE_STRING name = RTL_CONSTANT_STRING(L"\\Registry\\Machine\\Software");
    PHYSICAL_ADDRESS highest = {.QuadPart = ~0ull >> 1};
    OBJECT_ATTRIBUTES attributes;
    HANDLE key = NULL;
    PVOID memory;
    PVOID mapped;
    PMDL mdl;

    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    ZwOpenKey(&key, KEY_READ, &attributes);
#if FLAW_LEAK != 1
    ZwClose(key);
#endif
    ExInitializeLookasideListEx(&LookasideList, NULL, NULL, 0x200, 0, 64, DRIVER_TAG, 0);
#if FLAW_LEAK != 2
    ExDeleteLookasideListEx(&LookasideList);
#endif
    memory = MmAllocateContiguousMemory(0x1000, highest);
    mapped = MmMapIoSpace(MmGetPhysicalAddress(memory), 0x1000, MmNonCached);
#if FLAW_LEAK != 3
    MmUnmapIoSpace(mapped, 0x1000);
#else
    UNREFERENCED_PARAMETER(mapped);
#endif
    MmFreeContiguousMemory(memory);
    mdl = IoAllocateMdl(adapter, sizeof(*adapter), FALSE, FALSE, NULL);
    MmProbeAndLockPages(mdl, KernelMode, IoModifyAccess);
#if FLAW_LEAK != 4
    MmUnlockPages(mdl);
#endif
    IoFreeMdl(mdl);
}
#endif

#ifdef FLAW_IRQL
static FAST_MUTEX IrqlMutex;
static KSPIN_LOCK IrqlLock;
static KEVENT IrqlEvent;

/*
 * Calls of imports outside the IRQLs of their pages. 1: a lock for DPCs at PASSIVE_LEVEL; 2: a function
 * for PASSIVE_LEVEL at APC_LEVEL. 0 calls each at its limit.
 */
__attribute__((noinline)) static NONPAGED void CallAtStart(void)
{
    LARGE_INTEGER poll = {.QuadPart = 0};
    UNICODE_STRING name = RTL_CONSTANT_STRING(L"gpu");
    KIRQL irql;

    KeInitializeEvent(&IrqlEvent, NotificationEvent, FALSE);
    KeInitializeSpinLock(&IrqlLock);
    ExInitializeFastMutex(&IrqlMutex);
#if FLAW_IRQL == 1
    KeAcquireSpinLockAtDpcLevel(&IrqlLock);
    KeReleaseSpinLockFromDpcLevel(&IrqlLock);
#endif
    RtlEqualUnicodeString(&name, &name, TRUE);
    ExAcquireFastMutex(&IrqlMutex);
#if FLAW_IRQL == 2
    RtlEqualUnicodeString(&name, &name, TRUE);
#endif
    ExReleaseFastMutex(&IrqlMutex);
    KeAcquireSpinLock(&IrqlLock, &irql);
    KeSetEvent(&IrqlEvent, IO_NO_INCREMENT, FALSE);
    KeWaitForSingleObject(&IrqlEvent, Executive, KernelMode, FALSE, &poll);
    KeReleaseSpinLock(&IrqlLock, irql);
    KeRaiseIrql(DISPATCH_LEVEL, &irql);
    KeAcquireSpinLockAtDpcLevel(&IrqlLock);
    KeReleaseSpinLockFromDpcLevel(&IrqlLock);
    KeLowerIrql(irql);
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
