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

#if FLAW_LOCKS == 5
/* Fast mutexes. */
typedef FAST_MUTEX SLEEP_LOCK;

static void InitializeLock(SLEEP_LOCK *lock, int number)
{
    UNREFERENCED_PARAMETER(number);
    ExInitializeFastMutex(lock);
}

#define AcquireLock(lock) ExAcquireFastMutex(lock)
#define ReleaseLock(lock) ExReleaseFastMutex(lock)
#define DeleteLock(lock) UNREFERENCED_PARAMETER(lock)
#elif FLAW_LOCKS == 6
/* A mutex and a resource. */
typedef struct {
    int Number;
    KMUTEX Mutex;
    ERESOURCE Resource;
} SLEEP_LOCK;

static void InitializeLock(SLEEP_LOCK *lock, int number)
{
    lock->Number = number;
    if (number == 0)
        KeInitializeMutex(&lock->Mutex, 0);
    else
        ExInitializeResourceLite(&lock->Resource);
}

/* Macros: the place of an acquisition is that of its caller. */
#define AcquireLock(lock) \
    do { \
        if ((lock)->Number == 0) \
            KeWaitForSingleObject(&(lock)->Mutex, Executive, KernelMode, FALSE, NULL); \
        else \
            ExAcquireResourceExclusiveLite(&(lock)->Resource, TRUE); \
    } while (0)
#define ReleaseLock(lock) \
    do { \
        if ((lock)->Number == 0) \
            KeReleaseMutex(&(lock)->Mutex, FALSE); \
        else \
            ExReleaseResourceLite(&(lock)->Resource); \
    } while (0)

static void DeleteLock(SLEEP_LOCK *lock)
{
    if (lock->Number != 0)
        ExDeleteResourceLite(&lock->Resource);
}
#endif

#if FLAW_LOCKS == 5 || FLAW_LOCKS == 6
static SLEEP_LOCK SleepLocks[2];

__attribute__((noinline)) static void AcquireInOrder(void)
{
    AcquireLock(&SleepLocks[0]);
    AcquireLock(&SleepLocks[1]);
    ReleaseLock(&SleepLocks[1]);
    ReleaseLock(&SleepLocks[0]);
}

static void NTAPI LockThread(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
    AcquireInOrder();
    PsTerminateSystemThread(STATUS_SUCCESS);
}

/* A thread acquires two locks and ends; then this thread acquires them in the opposite order. */
__attribute__((noinline)) static void InvertOrder(void)
{
    HANDLE handle;
    PVOID thread;

    InitializeLock(&SleepLocks[0], 0);
    InitializeLock(&SleepLocks[1], 1);
    if (!NT_SUCCESS(PsCreateSystemThread(&handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, LockThread,
                                         NULL)))
        return;
    ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, *PsThreadType, KernelMode, &thread, NULL);
    ZwClose(handle);
    KeWaitForSingleObject(thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(thread);
    AcquireLock(&SleepLocks[1]);
    AcquireLock(&SleepLocks[0]);
    ReleaseLock(&SleepLocks[0]);
    ReleaseLock(&SleepLocks[1]);
    DeleteLock(&SleepLocks[1]);
}
#endif

#if FLAW_LOCKS == 7
static KSPIN_LOCK ManyLocks[100];

/* Each lock is acquired while all before it are held: more pairs than are remembered. */
static NONPAGED void HoldMany(void)
{
    KIRQL irql;

    KeAcquireSpinLock(&ManyLocks[0], &irql);
    for (unsigned at = 1; at < 100; at += 1)
        KeAcquireSpinLockAtDpcLevel(&ManyLocks[at]);
    for (unsigned at = 99; at > 0; at -= 1)
        KeReleaseSpinLockFromDpcLevel(&ManyLocks[at]);
    KeReleaseSpinLock(&ManyLocks[0], irql);
}
#endif

#if FLAW_LOCKS == 0
static FAST_MUTEX OtherMutex;
static KMUTEX Mutex;
static ERESOURCE Resources[2];

/* Opposite orders that cannot deadlock: threads that share, and acquisitions that do not wait. */
static void UseSleepLocks(void)
{
    LARGE_INTEGER none = {.QuadPart = 0};

    ExInitializeFastMutex(&OtherMutex);
    KeInitializeMutex(&Mutex, 0);
    ExInitializeResourceLite(&Resources[0]);
    ExInitializeResourceLite(&Resources[1]);
    for (unsigned first = 0; first < 2; first += 1) {
        ExAcquireResourceSharedLite(&Resources[first], TRUE);
        ExAcquireResourceSharedLite(&Resources[1 - first], TRUE);
        ExReleaseResourceLite(&Resources[1 - first]);
        ExReleaseResourceLite(&Resources[first]);
    }
    ExAcquireFastMutex(&FastMutex);
    ExAcquireFastMutex(&OtherMutex);
    ExReleaseFastMutex(&OtherMutex);
    ExReleaseFastMutex(&FastMutex);
    ExAcquireFastMutex(&OtherMutex);
    if (ExTryToAcquireFastMutex(&FastMutex))
        ExReleaseFastMutex(&FastMutex);
    ExReleaseFastMutex(&OtherMutex);
    ExAcquireResourceExclusiveLite(&Resources[0], TRUE);
    KeWaitForSingleObject(&Mutex, Executive, KernelMode, FALSE, NULL);
    ExAcquireResourceExclusiveLite(&Resources[0], TRUE);
    ExReleaseResourceLite(&Resources[0]);
    ExReleaseResourceLite(&Resources[0]);
    if (ExAcquireResourceExclusiveLite(&Resources[0], FALSE))
        ExReleaseResourceLite(&Resources[0]);
    KeReleaseMutex(&Mutex, FALSE);
    ExAcquireResourceExclusiveLite(&Resources[1], TRUE);
    KeWaitForSingleObject(&Mutex, Executive, KernelMode, FALSE, &none);
    KeReleaseMutex(&Mutex, FALSE);
    ExReleaseResourceLite(&Resources[1]);
    ExDeleteResourceLite(&Resources[0]);
    ExDeleteResourceLite(&Resources[1]);
}
#endif

/*
 * 1: two spin locks in both orders; 2: a wait with a spin lock; 3: a mutex twice; 4: a long stall;
 * 5, 6: fast mutexes, or a mutex and a resource, in both orders by two threads; 7: many locks.
 */
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
#if FLAW_LOCKS == 0
    UseSleepLocks();
#elif FLAW_LOCKS == 5 || FLAW_LOCKS == 6
    InvertOrder();
#elif FLAW_LOCKS == 7
    HoldMany();
#endif
}
#endif

#ifdef FLAW_LEAK
static LOOKASIDE_LIST_EX LookasideList;
static HANDLE Key;
static PVOID Contiguous;
static PVOID Mapped;
static PMDL LockedMdl;
static PVOID UserMapped;
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
    UserMapped = MmMapLockedPagesSpecifyCache(LockedMdl, UserMode, MmCached, NULL, FALSE,
                                              NormalPagePriority);
    PoolBlock = ExAllocatePool2(POOL_FLAG_NON_PAGED, 64, DRIVER_TAG);
    KeInitializeTimer(&Timer);
    KeSetTimer(&Timer, hour, NULL);
    KeInitializeEvent(&WorkDone, NotificationEvent, FALSE);
    WorkItem = IoAllocateWorkItem(adapter->PhysicalDeviceObject);
}

/*
 * In the counterpart. It leaves one thing behind. 1: a handle; 2: a lookaside list; 3: a mapping; 4:
 * locked pages; 5: a timer; 6: a queued DPC; 7: a queued work item; 8: a work item; 9: a pool block;
 * 10: contiguous memory; 11: a mapping for user mode. 0 gives all of them back.
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
#if FLAW_LEAK != 11
    MmUnmapLockedPages(UserMapped, LockedMdl);
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

#ifdef FLAW_CALLS_IMPORT_IN_FRAME
__attribute__((noinline)) static PAGED ULONG CallInLargeFrame(ULONG value)
{
    volatile char frame[3000];

    frame[value % sizeof(frame)] = (char)value;
    return KeQueryTimeIncrement() + (ULONG)frame[value % sizeof(frame)];
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
