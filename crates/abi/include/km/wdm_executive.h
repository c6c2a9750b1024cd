/*
 * Part of wdm.h: more functions and objects of the executive and the kernel (Ex, Ke, Mm, Ob, Ps,
 * Po, Dbg), each typed as its documentation page says.
 */
#ifndef WINDTUNNEL_WDM_EXECUTIVE_H
#define WINDTUNNEL_WDM_EXECUTIVE_H

/* Checked by Windows's checked builds and by code analysis: here in every build. */
NTKERNELAPI BOOLEAN NTAPI KdRefreshDebuggerNotPresent(void);
NTSYSAPI void NTAPI DbgBreakPoint(void);
NTSYSAPI void NTAPI DbgBreakPointWithStatus(ULONG status);
NTSYSAPI ULONG NTAPI vDbgPrintEx(ULONG component, ULONG level, PCSTR format, WINDTUNNEL_VA_LIST arguments);
NTSYSAPI ULONG NTAPI vDbgPrintExWithPrefix(PCSTR prefix, ULONG component, ULONG level, PCSTR format,
                                           WINDTUNNEL_VA_LIST arguments);
#ifndef KdPrint
#if defined(DBG) && DBG
#define KdPrint(arguments) DbgPrint arguments
#define KdPrintEx(arguments) DbgPrintEx arguments
#else
#define KdPrint(arguments)
#define KdPrintEx(arguments)
#endif
#endif
#define KdBreakPoint()
#define DbgRaiseAssertionFailure() __builtin_trap()
#ifndef ASSERT
#if defined(DBG) && DBG
#define ASSERT(that) \
    ((void)((that) ? 0 : (RtlAssert((PVOID)#that, (PVOID)__FILE__, __LINE__, NULL), 0)))
#define ASSERTMSG(message, that) \
    ((void)((that) ? 0 : (RtlAssert((PVOID)#that, (PVOID)__FILE__, __LINE__, (message)), 0)))
#define NT_VERIFY(that) ASSERT(that)
#else
#define ASSERT(that) ((void)0)
#define ASSERTMSG(message, that) ((void)0)
#define NT_VERIFY(that) ((void)(that))
#endif
#define RTL_SOFT_ASSERT(that) ASSERT(that)
#define NT_ASSERTMSG(message, that) ASSERTMSG(message, that)
#define RTL_VERIFY(that) NT_VERIFY(that)
#define RTL_ASSERT(that) ASSERT(that)
#endif
#define NOTHING
#define DPFLTR_SYSTEM_ID 0
#define DPFLTR_VIDEO_ID 57
#define DPFLTR_IHVDRIVER_ID 77
#define DPFLTR_IHVAUDIO_ID 76
#define DPFLTR_IHVSTREAMING_ID 79
#define DPFLTR_DEFAULT_ID 101
#define DPFLTR_WARNING_LEVEL 1
#define DPFLTR_TRACE_LEVEL 2

/* Pool. */
#define POOL_NX_ALLOCATION 512
#define POOL_COLD_ALLOCATION 256
#define POOL_RAISE_IF_ALLOCATION_FAILURE 16
#define POOL_FLAG_USE_QUOTA 0x0000000000000001ull
#define POOL_FLAG_SESSION 0x0000000000000004ull
#define POOL_FLAG_CACHE_ALIGNED 0x0000000000000008ull
#define POOL_FLAG_RAISE_ON_FAILURE 0x0000000000000020ull
typedef enum _EX_POOL_PRIORITY {
    LowPoolPriority = 0,
    NormalPoolPriority = 16,
    HighPoolPriority = 32,
} EX_POOL_PRIORITY;
NTKERNELAPI PVOID NTAPI ExAllocatePool(POOL_TYPE type, SIZE_T size);
NTKERNELAPI PVOID NTAPI ExAllocatePoolWithQuotaTag(POOL_TYPE type, SIZE_T size, ULONG tag);
NTKERNELAPI PVOID NTAPI ExAllocatePoolWithTagPriority(POOL_TYPE type, SIZE_T size, ULONG tag,
                                                      EX_POOL_PRIORITY priority);
NTKERNELAPI PVOID NTAPI ExAllocatePoolZero(POOL_TYPE type, SIZE_T size, ULONG tag);
FORCEINLINE PVOID ExAllocatePoolUninitialized(POOL_TYPE type, SIZE_T size, ULONG tag)
{
    return ExAllocatePoolWithTag(type, size, tag);
}
/* A driver that asks for pool that cannot be executed does so here by its own argument. */
#define ExInitializeDriverRuntime(flags) ((void)(flags))
#define DrvRtPoolNxOptIn 1

/* Sequenced lists and lookaside lists. */
typedef union __attribute__((aligned(16))) _SLIST_HEADER {
    struct {
        ULONGLONG Alignment;
        ULONGLONG Region;
    } HeaderWords;
    ULONGLONG Whole[2];
} SLIST_HEADER, *PSLIST_HEADER;
WINDTUNNEL_ASSERT(sizeof(SLIST_HEADER) == 16);
typedef struct __attribute__((aligned(16))) _SLIST_ENTRY {
    struct _SLIST_ENTRY *Next;
} SLIST_ENTRY, *PSLIST_ENTRY;
NTKERNELAPI void NTAPI InitializeSListHeader(PSLIST_HEADER list);
#define ExInitializeSListHead InitializeSListHeader
NTKERNELAPI PSLIST_ENTRY NTAPI ExpInterlockedPopEntrySList(PSLIST_HEADER list);
NTKERNELAPI PSLIST_ENTRY NTAPI ExpInterlockedPushEntrySList(PSLIST_HEADER list, PSLIST_ENTRY entry);
NTKERNELAPI PSLIST_ENTRY NTAPI ExpInterlockedFlushSList(PSLIST_HEADER list);
NTKERNELAPI USHORT NTAPI ExQueryDepthSList(PSLIST_HEADER list);
#define InterlockedPopEntrySList ExpInterlockedPopEntrySList
#define InterlockedPushEntrySList ExpInterlockedPushEntrySList
#define InterlockedFlushSList ExpInterlockedFlushSList
#define ExInterlockedPopEntrySList(list, lock) ExpInterlockedPopEntrySList(list)
#define ExInterlockedPushEntrySList(list, entry, lock) ExpInterlockedPushEntrySList(list, entry)

typedef PVOID NTAPI ALLOCATE_FUNCTION(POOL_TYPE type, SIZE_T size, ULONG tag);
typedef ALLOCATE_FUNCTION *PALLOCATE_FUNCTION;
typedef void NTAPI FREE_FUNCTION(PVOID entry);
typedef FREE_FUNCTION *PFREE_FUNCTION;
typedef struct __attribute__((aligned(64))) _GENERAL_LOOKASIDE {
    SLIST_HEADER ListHead;
    USHORT Depth;
    USHORT MaximumDepth;
    ULONG TotalAllocates;
    ULONG AllocateMisses;
    ULONG TotalFrees;
    ULONG FreeMisses;
    POOL_TYPE Type;
    ULONG Tag;
    ULONG Size;
    PALLOCATE_FUNCTION Allocate;
    PFREE_FUNCTION Free;
    LIST_ENTRY ListEntry;
    ULONG LastTotalAllocates;
    ULONG LastAllocateMisses;
    ULONG Future[2];
} GENERAL_LOOKASIDE, *PGENERAL_LOOKASIDE;
WINDTUNNEL_ASSERT(sizeof(GENERAL_LOOKASIDE) == 128);
WINDTUNNEL_ASSERT(offsetof(GENERAL_LOOKASIDE, Type) == 0x24);
WINDTUNNEL_ASSERT(offsetof(GENERAL_LOOKASIDE, Allocate) == 0x30);
typedef struct _NPAGED_LOOKASIDE_LIST {
    GENERAL_LOOKASIDE L;
} NPAGED_LOOKASIDE_LIST, *PNPAGED_LOOKASIDE_LIST;
typedef struct _PAGED_LOOKASIDE_LIST {
    GENERAL_LOOKASIDE L;
} PAGED_LOOKASIDE_LIST, *PPAGED_LOOKASIDE_LIST;
NTKERNELAPI void NTAPI ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list,
                                                       PALLOCATE_FUNCTION allocate,
                                                       PFREE_FUNCTION release, ULONG flags,
                                                       SIZE_T size, ULONG tag, USHORT depth);
NTKERNELAPI void NTAPI ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list);
NTKERNELAPI void NTAPI ExInitializePagedLookasideList(PPAGED_LOOKASIDE_LIST list,
                                                      PALLOCATE_FUNCTION allocate,
                                                      PFREE_FUNCTION release, ULONG flags,
                                                      SIZE_T size, ULONG tag, USHORT depth);
NTKERNELAPI void NTAPI ExDeletePagedLookasideList(PPAGED_LOOKASIDE_LIST list);
NTKERNELAPI void NTAPI ExFlushLookasideListEx(PLOOKASIDE_LIST_EX list);

/* The functions that a driver has as inline code. */
FORCEINLINE PVOID WindtunnelFromLookaside(PGENERAL_LOOKASIDE list)
{
    PVOID entry;
    list->TotalAllocates++;
    entry = ExpInterlockedPopEntrySList(&list->ListHead);
    if (entry == NULL) {
        list->AllocateMisses++;
        entry = list->Allocate(list->Type, list->Size, list->Tag);
    }
    return entry;
}
FORCEINLINE void WindtunnelToLookaside(PGENERAL_LOOKASIDE list, PVOID entry)
{
    list->TotalFrees++;
    if (ExQueryDepthSList(&list->ListHead) >= list->Depth) {
        list->FreeMisses++;
        list->Free(entry);
    } else {
        ExpInterlockedPushEntrySList(&list->ListHead, (PSLIST_ENTRY)entry);
    }
}
FORCEINLINE PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list)
{
    return WindtunnelFromLookaside(&list->L);
}
FORCEINLINE void ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list, PVOID entry)
{
    WindtunnelToLookaside(&list->L, entry);
}
FORCEINLINE PVOID ExAllocateFromPagedLookasideList(PPAGED_LOOKASIDE_LIST list)
{
    return WindtunnelFromLookaside(&list->L);
}
FORCEINLINE void ExFreeToPagedLookasideList(PPAGED_LOOKASIDE_LIST list, PVOID entry)
{
    WindtunnelToLookaside(&list->L, entry);
}

/* Interlocked lists. */
NTKERNELAPI PLIST_ENTRY NTAPI ExInterlockedInsertHeadList(PLIST_ENTRY head, PLIST_ENTRY entry,
                                                          PKSPIN_LOCK lock);
NTKERNELAPI PLIST_ENTRY NTAPI ExInterlockedInsertTailList(PLIST_ENTRY head, PLIST_ENTRY entry,
                                                          PKSPIN_LOCK lock);
NTKERNELAPI PLIST_ENTRY NTAPI ExInterlockedRemoveHeadList(PLIST_ENTRY head, PKSPIN_LOCK lock);
NTKERNELAPI ULONG NTAPI ExInterlockedAddUlong(PULONG value, ULONG by, PKSPIN_LOCK lock);
FORCEINLINE void PushEntryList(PSINGLE_LIST_ENTRY head, PSINGLE_LIST_ENTRY entry)
{
    entry->Next = head->Next;
    head->Next = entry;
}
FORCEINLINE PSINGLE_LIST_ENTRY PopEntryList(PSINGLE_LIST_ENTRY head)
{
    PSINGLE_LIST_ENTRY first = head->Next;
    if (first != NULL)
        head->Next = first->Next;
    return first;
}
FORCEINLINE void AppendTailList(PLIST_ENTRY head, PLIST_ENTRY more)
{
    PLIST_ENTRY last = head->Blink;
    head->Blink->Flink = more;
    head->Blink = more->Blink;
    more->Blink->Flink = head;
    more->Blink = last;
}

/* Time. */
NTKERNELAPI void NTAPI KeQuerySystemTime(PLARGE_INTEGER time);
NTKERNELAPI void NTAPI KeQuerySystemTimePrecise(PLARGE_INTEGER time);
NTKERNELAPI void NTAPI KeQueryTickCount(PLARGE_INTEGER count);
NTKERNELAPI ULONGLONG NTAPI KeQueryInterruptTime(void);
NTKERNELAPI ULONGLONG NTAPI KeQueryInterruptTimePrecise(PULONG64 counter);
NTKERNELAPI ULONGLONG NTAPI KeQueryUnbiasedInterruptTime(void);
NTKERNELAPI void NTAPI ExSystemTimeToLocalTime(PLARGE_INTEGER system, PLARGE_INTEGER local);
NTKERNELAPI void NTAPI ExLocalTimeToSystemTime(PLARGE_INTEGER local, PLARGE_INTEGER system);
NTKERNELAPI BOOLEAN NTAPI KeReadStateTimer(PKTIMER timer);
NTKERNELAPI BOOLEAN NTAPI KeSetCoalescableTimer(PKTIMER timer, LARGE_INTEGER due, ULONG period,
                                                ULONG tolerance, PKDPC dpc);

/* Synchronization. */
typedef BOOLEAN NTAPI KSYNCHRONIZE_ROUTINE(PVOID context);
typedef KSYNCHRONIZE_ROUTINE *PKSYNCHRONIZE_ROUTINE;
typedef struct _KINTERRUPT *PKINTERRUPT;
NTKERNELAPI BOOLEAN NTAPI KeSynchronizeExecution(PKINTERRUPT interrupt,
                                                 PKSYNCHRONIZE_ROUTINE routine, PVOID context);
NTKERNELAPI LONG NTAPI KeReadStateMutex(PKMUTEX mutex);
NTKERNELAPI LONG NTAPI KeReadStateSemaphore(PKSEMAPHORE semaphore);
NTKERNELAPI void NTAPI KeEnterCriticalRegion(void);
NTKERNELAPI void NTAPI KeLeaveCriticalRegion(void);
NTKERNELAPI void NTAPI KeEnterGuardedRegion(void);
NTKERNELAPI void NTAPI KeLeaveGuardedRegion(void);
NTKERNELAPI BOOLEAN NTAPI KeAreApcsDisabled(void);
NTKERNELAPI BOOLEAN NTAPI KeAreAllApcsDisabled(void);
NTKERNELAPI KIRQL NTAPI KeRaiseIrqlToDpcLevel(void);
NTKERNELAPI BOOLEAN NTAPI KeTryToAcquireSpinLockAtDpcLevel(PKSPIN_LOCK lock);
NTKERNELAPI BOOLEAN NTAPI KeTestSpinLock(PKSPIN_LOCK lock);
NTKERNELAPI void NTAPI KeAcquireInStackQueuedSpinLockAtDpcLevel(PKSPIN_LOCK lock,
                                                                PKLOCK_QUEUE_HANDLE handle);
NTKERNELAPI void NTAPI KeReleaseInStackQueuedSpinLockFromDpcLevel(PKLOCK_QUEUE_HANDLE handle);
typedef FAST_MUTEX KGUARDED_MUTEX, *PKGUARDED_MUTEX;
NTKERNELAPI void NTAPI KeInitializeGuardedMutex(PKGUARDED_MUTEX mutex);
NTKERNELAPI void NTAPI KeAcquireGuardedMutex(PKGUARDED_MUTEX mutex);
NTKERNELAPI void NTAPI KeReleaseGuardedMutex(PKGUARDED_MUTEX mutex);
NTKERNELAPI BOOLEAN NTAPI KeTryToAcquireGuardedMutex(PKGUARDED_MUTEX mutex);
typedef LONG EX_SPIN_LOCK, *PEX_SPIN_LOCK;
NTKERNELAPI KIRQL NTAPI ExAcquireSpinLockExclusive(PEX_SPIN_LOCK lock);
NTKERNELAPI KIRQL NTAPI ExAcquireSpinLockShared(PEX_SPIN_LOCK lock);
NTKERNELAPI void NTAPI ExReleaseSpinLockExclusive(PEX_SPIN_LOCK lock, KIRQL level);
NTKERNELAPI void NTAPI ExReleaseSpinLockShared(PEX_SPIN_LOCK lock, KIRQL level);
typedef struct _EX_RUNDOWN_REF {
    ULONG_PTR Count;
} EX_RUNDOWN_REF, *PEX_RUNDOWN_REF;
NTKERNELAPI void NTAPI ExInitializeRundownProtection(PEX_RUNDOWN_REF reference);
NTKERNELAPI void NTAPI ExReInitializeRundownProtection(PEX_RUNDOWN_REF reference);
NTKERNELAPI BOOLEAN NTAPI ExAcquireRundownProtection(PEX_RUNDOWN_REF reference);
NTKERNELAPI void NTAPI ExReleaseRundownProtection(PEX_RUNDOWN_REF reference);
NTKERNELAPI void NTAPI ExWaitForRundownProtectionRelease(PEX_RUNDOWN_REF reference);
NTKERNELAPI void NTAPI ExRundownCompleted(PEX_RUNDOWN_REF reference);
typedef void NTAPI CALLBACK_FUNCTION(PVOID context, PVOID argument1, PVOID argument2);
typedef CALLBACK_FUNCTION *PCALLBACK_FUNCTION;

/* Processors and threads. */
typedef struct _PROCESSOR_NUMBER {
    USHORT Group;
    UCHAR Number;
    UCHAR Reserved;
} PROCESSOR_NUMBER, *PPROCESSOR_NUMBER;
typedef struct _GROUP_AFFINITY {
    KAFFINITY Mask;
    USHORT Group;
    USHORT Reserved[3];
} GROUP_AFFINITY, *PGROUP_AFFINITY;
WINDTUNNEL_ASSERT(sizeof(GROUP_AFFINITY) == 16);
typedef struct _KFLOATING_SAVE {
    ULONG Dummy;
} KFLOATING_SAVE, *PKFLOATING_SAVE;
#define ALL_PROCESSOR_GROUPS 0xffff
NTKERNELAPI ULONG NTAPI KeGetCurrentProcessorNumberEx(PPROCESSOR_NUMBER number);
#define KeGetCurrentProcessorNumber() KeGetCurrentProcessorNumberEx(NULL)
NTKERNELAPI ULONG NTAPI KeQueryActiveProcessorCount(PKAFFINITY active);
NTKERNELAPI ULONG NTAPI KeQueryActiveProcessorCountEx(USHORT group);
NTKERNELAPI ULONG NTAPI KeQueryMaximumProcessorCount(void);
NTKERNELAPI ULONG NTAPI KeQueryMaximumProcessorCountEx(USHORT group);
NTKERNELAPI KAFFINITY NTAPI KeQueryActiveProcessors(void);
NTKERNELAPI KAFFINITY NTAPI KeSetSystemAffinityThreadEx(KAFFINITY affinity);
NTKERNELAPI void NTAPI KeRevertToUserAffinityThreadEx(KAFFINITY affinity);
NTKERNELAPI NTSTATUS NTAPI KeSaveFloatingPointState(PKFLOATING_SAVE state);
NTKERNELAPI NTSTATUS NTAPI KeRestoreFloatingPointState(PKFLOATING_SAVE state);
NTKERNELAPI void NTAPI KeSetTargetProcessorDpc(PKDPC dpc, CCHAR number);
NTKERNELAPI void NTAPI KeInitializeThreadedDpc(PKDPC dpc, PKDEFERRED_ROUTINE routine,
                                               PVOID context);
NTKERNELAPI KPRIORITY NTAPI KeSetPriorityThread(PKTHREAD thread, KPRIORITY priority);
#define LOW_PRIORITY 0
#define LOW_REALTIME_PRIORITY 16
#define HIGH_PRIORITY 31
NTKERNELAPI PKTHREAD NTAPI KeGetCurrentThread(void);
NTKERNELAPI PETHREAD NTAPI PsGetCurrentThread(void);
NTKERNELAPI HANDLE NTAPI PsGetCurrentThreadId(void);
NTKERNELAPI PEPROCESS NTAPI PsGetCurrentProcess(void);
NTKERNELAPI HANDLE NTAPI PsGetCurrentProcessId(void);
NTKERNELAPI PEPROCESS NTAPI IoGetCurrentProcess(void);
NTKERNELAPI BOOLEAN NTAPI PsIsSystemThread(PETHREAD thread);
NTKERNELAPI KPROCESSOR_MODE NTAPI ExGetPreviousMode(void);
NTKERNELAPI BOOLEAN NTAPI ExIsProcessorFeaturePresent(ULONG feature);
NTKERNELAPI DECLSPEC_NORETURN void NTAPI ExRaiseAccessViolation(void);
NTKERNELAPI DECLSPEC_NORETURN void NTAPI ExRaiseDatatypeMisalignment(void);
NTKERNELAPI NTSTATUS NTAPI ExUuidCreate(GUID *uuid);
NTKERNELAPI DECLSPEC_NORETURN void NTAPI KeBugCheck(ULONG code);
NTKERNELAPI DECLSPEC_NORETURN void NTAPI KeBugCheckEx(ULONG code, ULONG_PTR parameter1,
                                                      ULONG_PTR parameter2, ULONG_PTR parameter3,
                                                      ULONG_PTR parameter4);

/* Memory. */
#define PAGE_NOACCESS 0x01
#define PAGE_READONLY 0x02
#define PAGE_READWRITE 0x04
#define PAGE_WRITECOPY 0x08
#define PAGE_EXECUTE 0x10
#define PAGE_EXECUTE_READ 0x20
#define PAGE_EXECUTE_READWRITE 0x40
#define PAGE_GUARD 0x100
#define PAGE_NOCACHE 0x200
#define PAGE_WRITECOMBINE 0x400
#define MM_ALLOCATE_FULLY_REQUIRED 0x00000004
#define MM_DONT_ZERO_ALLOCATION 0x00000001
#define MM_USER_PROBE_ADDRESS ((ULONG_PTR)0x00007FFFFFFF0000ull)
#define MM_SYSTEM_RANGE_START ((PVOID)0xFFFF800000000000ull)
#define MmSystemRangeStart MM_SYSTEM_RANGE_START
#define ADDRESS_AND_SIZE_TO_SPAN_PAGES(address, size) \
    ((BYTE_OFFSET(address) + ((SIZE_T)(size)) + (PAGE_SIZE - 1)) >> PAGE_SHIFT)
#define COMPUTE_PAGES_SPANNED(address, size) ADDRESS_AND_SIZE_TO_SPAN_PAGES(address, size)
#define PAGE_ALIGN(address) ((PVOID)((ULONG_PTR)(address) & ~((ULONG_PTR)PAGE_SIZE - 1)))
#define MDL_PAGES_LOCKED 0x0002
#define MDL_ALLOCATED_FIXED_SIZE 0x0008
#define MDL_PARTIAL 0x0010
#define MDL_IO_SPACE 0x0800
#define MmInitializeMdl(mdl, address, length) \
    ((mdl)->Next = NULL, \
     (mdl)->Size = (CSHORT)(sizeof(MDL) + \
                            sizeof(PFN_NUMBER) * ADDRESS_AND_SIZE_TO_SPAN_PAGES(address, length)), \
     (mdl)->MdlFlags = 0, (mdl)->StartVa = PAGE_ALIGN(address), \
     (mdl)->ByteOffset = BYTE_OFFSET(address), (mdl)->ByteCount = (ULONG)(length))
NTKERNELAPI PVOID NTAPI MmMapIoSpaceEx(PHYSICAL_ADDRESS address, SIZE_T size, ULONG protect);
NTKERNELAPI PVOID NTAPI MmMapLockedPages(PMDL mdl, KPROCESSOR_MODE mode);
NTKERNELAPI PVOID NTAPI MmAllocateContiguousMemorySpecifyCache(SIZE_T size, PHYSICAL_ADDRESS lowest,
                                                               PHYSICAL_ADDRESS highest,
                                                               PHYSICAL_ADDRESS boundary,
                                                               MEMORY_CACHING_TYPE cache);
NTKERNELAPI void NTAPI MmFreeContiguousMemorySpecifyCache(PVOID address, SIZE_T size,
                                                          MEMORY_CACHING_TYPE cache);
NTKERNELAPI PMDL NTAPI MmAllocatePagesForMdl(PHYSICAL_ADDRESS low, PHYSICAL_ADDRESS high,
                                             PHYSICAL_ADDRESS skip, SIZE_T size);
NTKERNELAPI PMDL NTAPI MmAllocatePagesForMdlEx(PHYSICAL_ADDRESS low, PHYSICAL_ADDRESS high,
                                               PHYSICAL_ADDRESS skip, SIZE_T size,
                                               MEMORY_CACHING_TYPE cache, ULONG flags);
NTKERNELAPI void NTAPI MmFreePagesFromMdl(PMDL mdl);
NTKERNELAPI BOOLEAN NTAPI MmIsAddressValid(PVOID address);
NTKERNELAPI PVOID NTAPI MmGetSystemRoutineAddress(PUNICODE_STRING name);
NTKERNELAPI PVOID NTAPI MmLockPagableDataSection(PVOID address);
#define MmLockPagableCodeSection MmLockPagableDataSection
NTKERNELAPI void NTAPI MmUnlockPagableImageSection(PVOID section);
NTKERNELAPI PVOID NTAPI MmPageEntireDriver(PVOID address);
NTKERNELAPI void NTAPI MmResetDriverPaging(PVOID address);
NTKERNELAPI SIZE_T NTAPI MmSizeOfMdl(PVOID address, SIZE_T size);
NTKERNELAPI NTSTATUS NTAPI MmProtectMdlSystemAddress(PMDL mdl, ULONG protect);
NTKERNELAPI PVOID NTAPI MmAllocateNonCachedMemory(SIZE_T size);
NTKERNELAPI void NTAPI MmFreeNonCachedMemory(PVOID address, SIZE_T size);

/* Objects. */
NTKERNELAPI NTSTATUS NTAPI ObReferenceObjectByPointer(PVOID object, ACCESS_MASK access,
                                                      POBJECT_TYPE type, KPROCESSOR_MODE mode);
NTKERNELAPI NTSTATUS NTAPI ObOpenObjectByPointer(PVOID object, ULONG attributes, PVOID state,
                                                 ACCESS_MASK access, POBJECT_TYPE type,
                                                 KPROCESSOR_MODE mode, PHANDLE handle);
NTKERNELAPI NTSTATUS NTAPI ObCloseHandle(HANDLE handle, KPROCESSOR_MODE mode);

/* Registers of devices and ports. */
#define READ_REGISTER_UCHAR(address) (*(volatile UCHAR *)(address))
#define READ_REGISTER_USHORT(address) (*(volatile USHORT *)(address))
#define READ_REGISTER_ULONG(address) (*(volatile ULONG *)(address))
#define READ_REGISTER_ULONG64(address) (*(volatile ULONG64 *)(address))
#define READ_REGISTER_BUFFER_UCHAR(from, to, count) \
    WindtunnelReadRegisters((from), (to), (count), sizeof(UCHAR))
#define READ_REGISTER_BUFFER_ULONG(from, to, count) \
    WindtunnelReadRegisters((from), (to), (count), sizeof(ULONG))
FORCEINLINE void WindtunnelReadRegisters(volatile void *from, void *to, ULONG count, ULONG size)
{
    ULONG at;
    for (at = 0; at < count; at++) {
        if (size == sizeof(ULONG))
            ((ULONG *)to)[at] = ((volatile ULONG *)from)[at];
        else
            ((UCHAR *)to)[at] = ((volatile UCHAR *)from)[at];
    }
}
FORCEINLINE void WRITE_REGISTER_UCHAR(volatile UCHAR *address, UCHAR value)
{
    *address = value;
    KeMemoryBarrier();
}
FORCEINLINE void WRITE_REGISTER_USHORT(volatile USHORT *address, USHORT value)
{
    *address = value;
    KeMemoryBarrier();
}
FORCEINLINE void WRITE_REGISTER_ULONG(volatile ULONG *address, ULONG value)
{
    *address = value;
    KeMemoryBarrier();
}
FORCEINLINE void WRITE_REGISTER_ULONG64(volatile ULONG64 *address, ULONG64 value)
{
    *address = value;
    KeMemoryBarrier();
}
FORCEINLINE UCHAR READ_PORT_UCHAR(PUCHAR port)
{
    UCHAR value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"((USHORT)(ULONG_PTR)port));
    return value;
}
FORCEINLINE USHORT READ_PORT_USHORT(PUSHORT port)
{
    USHORT value;
    __asm__ volatile("inw %1, %0" : "=a"(value) : "Nd"((USHORT)(ULONG_PTR)port));
    return value;
}
FORCEINLINE ULONG READ_PORT_ULONG(PULONG port)
{
    ULONG value;
    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"((USHORT)(ULONG_PTR)port));
    return value;
}
FORCEINLINE void WRITE_PORT_UCHAR(PUCHAR port, UCHAR value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"((USHORT)(ULONG_PTR)port));
}
FORCEINLINE void WRITE_PORT_USHORT(PUSHORT port, USHORT value)
{
    __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"((USHORT)(ULONG_PTR)port));
}
FORCEINLINE void WRITE_PORT_ULONG(PULONG port, ULONG value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"((USHORT)(ULONG_PTR)port));
}

#endif
