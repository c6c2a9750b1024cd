/* A hostile client: random calls of every exported function, from several threads, some of which are
 * interrupted by signals, cancelled and forked. The program that includes this file has the rows of the
 * entry points (`HOSTILE_ROWS`, see tests/command/hostile_calls.rs).
 *
 * Most calls are a correct client's with one member changed: a structure of random numbers is refused
 * before it reaches anything. In an epoch of some calls no object is destroyed but by such calls; after it
 * all are, and the memory of the process must be what it was after the earlier epochs.
 *
 * Arguments: calls, threads, seed, and `here` if the kernel is in this process. */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 16, POOL = 16, EPOCH_CALLS = 100000, LINES = 8, DESCRIPTORS = 4096 };

/* How long no call returns before the client ends itself, in seconds. */
enum { PATIENCE = 600 };

/* How much more memory may be in use at the last line than at the second, in bytes. */
#define MOST_GROWTH (64L << 20)

typedef NTSTATUS (*Entry)(void *);

static NTSTATUS share_objects(void *structure)
{
    D3DKMT_SHAREOBJECTS *args = structure;
    return D3DKMTShareObjects(args->ObjectCount, args->ObjectHandleArray, args->pObjectAttributes,
                              args->DesiredAccess, args->pSharedNtHandle);
}

#define ROW(name, bytes) {#name, (Entry)(void (*)(void))name, bytes},
#define SHARE_ROW(name, bytes) {#name, share_objects, bytes},

static const struct {
    const char *name;
    Entry call;
    size_t bytes;
} ROWS[] = {HOSTILE_ROWS};

enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

/* Kinds of handles. */
enum { ADAPTER, DEVICE, CONTEXT, QUEUE, RESOURCE, ALLOCATION, FENCE, SYNC, MUTEX, GLOBAL, KINDS };

/* The last handles of each kind. Threads overwrite each other's. */
static _Atomic D3DKMT_HANDLE pool[KINDS][POOL];
/* The highest index of a handle so far: bits 6 to 29. Above is a number from 1 to 3, which tells a handle
 * from the one before it with the same index. */
static _Atomic uint32_t highest;
/* NT handles and events. */
static _Atomic int descriptors[DESCRIPTORS];
static _Atomic unsigned next_descriptor;
static _Atomic uint64_t gpu_address;

/* What a thread passes pointers to. */
struct Arena {
    D3DKMT_HANDLE handles[64];
    uint64_t values[64];
    D3DDDI_ALLOCATIONINFO2 infos[4];
    D3DDDI_OPENALLOCATIONINFO2 opened[4];
    D3DKMT_ADAPTERINFO adapters[8];
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION operations[4];
    D3DKMT_CREATESTANDARDALLOCATION standard;
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name;
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    uint8_t packet[64];
    uint8_t data[512];
    HANDLE shared;
};

struct Worker {
    pthread_t thread;
    uint64_t random;
    struct Arena *arena; /* behind it an inaccessible page */
    _Atomic uint64_t calls;
    _Atomic int state; /* 0: free, 1: runs, 2: waits for the next epoch */
    volatile sig_atomic_t is_inside; /* an exported function, or about to be */
    uint64_t words[512];
};

static struct Worker workers[THREADS];
static _Atomic uint64_t all_calls;
static _Atomic uint64_t good_calls;
static _Atomic int pauses, ends;
static uint64_t limit;
static int is_here;
static __thread struct Worker *self;

static uint64_t draw(struct Worker *worker, uint64_t below)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (worker->random >> 11) % below;
}

static D3DKMT_HANDLE handle(struct Worker *w, int kind)
{
    if (draw(w, 16) == 0) {
        kind = (int)draw(w, KINDS);
    }
    return pool[kind][draw(w, POOL)];
}

static void keep(struct Worker *w, int kind, D3DKMT_HANDLE value)
{
    if (value == 0) {
        return;
    }
    pool[kind][draw(w, POOL)] = value;
    uint32_t index = value >> 6 & 0xffffff, before = highest;
    while (index > before && !atomic_compare_exchange_weak(&highest, &before, index)) {
    }
}

/* The next handle that there may be, after another one; zero at the end. Calls that were changed, or
 * whose thread was cancelled, have returned handles that no one knows. */
static D3DKMT_HANDLE next_handle(D3DKMT_HANDLE handle)
{
    enum { SLACK = 64 };
    uint32_t index = handle >> 6 & 0xffffff, number = handle >> 30;
    if (number < 3) {
        return (number + 1) << 30 | index << 6;
    }
    return index + 1 < highest + SLACK ? 1u << 30 | (index + 1) << 6 : 0;
}

static void keep_descriptor(int number)
{
    if (number <= 2) {
        return;
    }
    int before = atomic_exchange(&descriptors[next_descriptor++ % DESCRIPTORS], number);
    if (before > 2 && before != number) {
        close(before);
    }
}

static uint64_t address(struct Worker *w)
{
    const uint64_t arena = (uint64_t)w->arena;
    const uint64_t others[] = {0, 1, 0xdead0000, (uint64_t)-4, 0xffff800000000000,
                               arena + 2 * PAGE, arena + 2 * PAGE - 8, arena + 2 * PAGE - 1};
    return draw(w, 3) == 0 ? others[draw(w, 8)] : arena + draw(w, sizeof(struct Arena) / 8) * 8;
}

static uint32_t number(struct Worker *w)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, 4, 8, 16, 64, 1024, 4096, 65536, 65537, 1 << 20,
                                       1 << 24, (1 << 24) + 1, 0x7fffffff, 0x80000000, 0xffffffff};
    switch (draw(w, 4)) {
    case 0:
        return handle(w, (int)draw(w, KINDS));
    case 1:
        return (uint32_t)draw(w, 1ull << 32);
    case 2:
        return 1u << draw(w, 32);
    default:
        return numbers[draw(w, sizeof numbers / sizeof *numbers)];
    }
}

/* Changes a member now and then. A half of an address is not changed: the other half would make an
 * address of this process's own memory. */
static void change(struct Worker *w, void *structure, size_t bytes)
{
    if (bytes < 8) {
        if (draw(w, 6) == 0) {
            *(uint32_t *)structure = number(w);
        }
        return;
    }
    if (draw(w, 6) != 0) {
        return;
    }
    for (uint64_t changes = 1 + draw(w, 2); changes > 0; changes--) {
        uint64_t word, place = draw(w, bytes / 8) * 8;
        memcpy(&word, (char *)structure + place, 8);
        int is_address = word >> 32 >= 0x1000 && word >> 47 == 0;
        if (is_address || draw(w, 4) == 0) {
            word = address(w);
            memcpy((char *)structure + place, &word, 8);
        } else {
            uint32_t half = number(w);
            memcpy((char *)structure + place + draw(w, 2) * 4, &half, 4);
        }
    }
}

/* A structure of random numbers and addresses. */
static void *random_words(struct Worker *w, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8 + 1; i++) {
        w->words[i] = draw(w, 3) == 0 ? address(w) : number(w) | (uint64_t)number(w) % 9 << 32;
        if (draw(w, 4) == 0) {
            w->words[i] = number(w) | (uint64_t)handle(w, (int)draw(w, KINDS)) << 32;
        }
    }
    return w->words;
}

static void count(struct Worker *w, NTSTATUS status)
{
    w->is_inside = 0;
    w->calls++;
    all_calls++;
    good_calls += status >= 0;
}

/* Calls with a structure that is not changed. */
#define PLAIN(name, args) (w->is_inside = 1, count(w, name args))

/* Calls with a structure that may be changed. Whether the call succeeded. */
#define CALL(name, args)                                                                            \
    (change(w, &(args), sizeof(args)), w->is_inside = 1, status = name(&(args)), count(w, status),  \
     status >= 0)

static void create_objects(struct Worker *w, NTSTATUS status)
{
    struct Arena *a = w->arena;
    switch (draw(w, 10)) {
    case 0: {
        D3DKMT_ENUMADAPTERS2 args = {.NumAdapters = 8, .pAdapters = a->adapters};
        if (CALL(D3DKMTEnumAdapters2, args)) {
            keep(w, ADAPTER, a->adapters[0].hAdapter);
        }
        break;
    }
    case 1: {
        D3DKMT_CREATEDEVICE args = {.hAdapter = handle(w, ADAPTER)};
        if (CALL(D3DKMTCreateDevice, args)) {
            keep(w, DEVICE, args.hDevice);
        }
        break;
    }
    case 2: {
        D3DKMT_CREATECONTEXTVIRTUAL args = {
            .hDevice = handle(w, DEVICE), .NodeOrdinal = (UINT)draw(w, 2), .EngineAffinity = 1};
        if (CALL(D3DKMTCreateContextVirtual, args)) {
            keep(w, CONTEXT, args.hContext);
        }
        break;
    }
    case 3: {
        D3DKMT_CREATEPAGINGQUEUE args = {.hDevice = handle(w, DEVICE)};
        if (CALL(D3DKMTCreatePagingQueue, args)) {
            keep(w, QUEUE, args.hPagingQueue);
            keep(w, FENCE, args.hSyncObject);
        }
        break;
    }
    case 4: {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args = {.hDevice = handle(w, DEVICE)};
        args.Info.Type = D3DDDI_MONITORED_FENCE;
        args.Info.Flags.Shared = draw(w, 4) == 0;
        args.Info.Flags.NtSecuritySharing = args.Info.Flags.Shared;
        if (CALL(D3DKMTCreateSynchronizationObject2, args)) {
            keep(w, FENCE, args.hSyncObject);
        }
        break;
    }
    case 5: {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT args = {.hDevice = handle(w, DEVICE)};
        args.Info.Type = draw(w, 2) ? D3DDDI_SYNCHRONIZATION_MUTEX : D3DDDI_SEMAPHORE;
        args.Info.Semaphore.MaxCount = 4;
        if (CALL(D3DKMTCreateSynchronizationObject, args)) {
            keep(w, SYNC, args.hSyncObject);
        }
        break;
    }
    case 6: {
        D3DKMT_CREATEKEYEDMUTEX args = {.InitialValue = 0};
        if (CALL(D3DKMTCreateKeyedMutex, args)) {
            keep(w, MUTEX, args.hKeyedMutex);
            keep(w, GLOBAL, args.hSharedHandle);
        }
        break;
    }
    case 7: {
        D3DKMT_OPENKEYEDMUTEX args = {.hSharedHandle = handle(w, GLOBAL)};
        if (CALL(D3DKMTOpenKeyedMutex, args)) {
            keep(w, MUTEX, args.hKeyedMutex);
        }
        break;
    }
    default: {
        windtunnel_describe(a->description, PAGE << draw(w, 6));
        UINT members = 1 + (UINT)draw(w, 4) * (UINT)draw(w, 2);
        for (UINT i = 0; i < 4; i++) {
            a->infos[i] = (D3DDDI_ALLOCATIONINFO2){.pPrivateDriverData = a->description,
                .PrivateDriverDataSize = sizeof a->description};
        }
        change(w, a->infos, sizeof *a->infos);
        D3DKMT_CREATEALLOCATION args = {.hDevice = handle(w, DEVICE), .NumAllocations = members,
            .pAllocationInfo2 = a->infos};
        args.Flags.CreateResource = draw(w, 3) == 0;
        args.Flags.CreateShared = args.Flags.CreateResource && draw(w, 2);
        args.Flags.NtSecuritySharing = args.Flags.CreateShared && draw(w, 2);
        if (CALL(D3DKMTCreateAllocation2, args)) {
            keep(w, ALLOCATION, a->infos[0].hAllocation);
            keep(w, RESOURCE, args.hResource);
            keep(w, GLOBAL, args.hGlobalShare);
        }
    }
    }
}

static void destroy_objects(struct Worker *w, NTSTATUS status)
{
    struct Arena *a = w->arena;
    switch (draw(w, 10)) {
    case 0: {
        D3DKMT_CLOSEADAPTER args = {.hAdapter = handle(w, ADAPTER)};
        (void)CALL(D3DKMTCloseAdapter, args);
        break;
    }
    case 1: {
        D3DKMT_DESTROYDEVICE args = {.hDevice = handle(w, DEVICE)};
        (void)CALL(D3DKMTDestroyDevice, args);
        break;
    }
    case 2: {
        D3DKMT_DESTROYCONTEXT args = {.hContext = handle(w, CONTEXT)};
        (void)CALL(D3DKMTDestroyContext, args);
        break;
    }
    case 3: {
        D3DDDI_DESTROYPAGINGQUEUE args = {.hPagingQueue = handle(w, QUEUE)};
        (void)CALL(D3DKMTDestroyPagingQueue, args);
        break;
    }
    case 4: {
        D3DKMT_DESTROYSYNCHRONIZATIONOBJECT args = {.hSyncObject = handle(w, draw(w, 2) ? FENCE : SYNC)};
        (void)CALL(D3DKMTDestroySynchronizationObject, args);
        break;
    }
    case 5: {
        D3DKMT_DESTROYKEYEDMUTEX args = {.hKeyedMutex = handle(w, MUTEX)};
        (void)CALL(D3DKMTDestroyKeyedMutex, args);
        break;
    }
    default: {
        D3DKMT_DESTROYALLOCATION2 args = {.hDevice = handle(w, DEVICE)};
        if (draw(w, 3) == 0) {
            args.hResource = handle(w, RESOURCE);
        } else {
            args.AllocationCount = 1 + (UINT)draw(w, 3);
            args.phAllocationList = a->handles;
            for (int i = 0; i < 4; i++) {
                a->handles[i] = handle(w, ALLOCATION);
            }
        }
        args.Flags.AssumeNotInUse = draw(w, 4) == 0;
        args.Flags.SynchronousDestroy = draw(w, 4) == 0;
        (void)CALL(D3DKMTDestroyAllocation2, args);
    }
    }
}

static void use_memory(struct Worker *w, NTSTATUS status)
{
    struct Arena *a = w->arena;
    UINT many = 1 + (UINT)draw(w, 3);
    for (int i = 0; i < 4; i++) {
        a->handles[i] = handle(w, ALLOCATION);
    }
    switch (draw(w, 9)) {
    case 0: {
        D3DKMT_LOCK2 args = {.hDevice = handle(w, DEVICE), .hAllocation = a->handles[0]};
        (void)CALL(D3DKMTLock2, args);
        break;
    }
    case 1: {
        D3DKMT_UNLOCK2 args = {.hDevice = handle(w, DEVICE), .hAllocation = a->handles[0]};
        (void)CALL(D3DKMTUnlock2, args);
        break;
    }
    case 2: {
        D3DDDI_MAKERESIDENT args = {.hPagingQueue = handle(w, QUEUE), .NumAllocations = many,
            .AllocationList = a->handles};
        (void)CALL(D3DKMTMakeResident, args);
        break;
    }
    case 3: {
        D3DKMT_EVICT args = {
            .hDevice = handle(w, DEVICE), .NumAllocations = many, .AllocationList = a->handles};
        (void)CALL(D3DKMTEvict, args);
        break;
    }
    case 4: {
        D3DKMT_OFFERALLOCATIONS args = {.hDevice = handle(w, DEVICE), .HandleList = a->handles,
            .NumAllocations = many, .Priority = D3DKMT_OFFER_PRIORITY_LOW};
        (void)CALL(D3DKMTOfferAllocations, args);
        break;
    }
    case 5: {
        D3DKMT_RECLAIMALLOCATIONS2 args = {.hPagingQueue = handle(w, QUEUE), .NumAllocations = many,
            .HandleList = a->handles};
        (void)CALL(D3DKMTReclaimAllocations2, args);
        break;
    }
    case 6: {
        D3DDDI_RESERVEGPUVIRTUALADDRESS args = {.hPagingQueue = handle(w, QUEUE), .Size = 1 << 20};
        if (CALL(D3DKMTReserveGpuVirtualAddress, args)) {
            gpu_address = args.VirtualAddress;
        }
        break;
    }
    case 7: {
        D3DKMT_FREEGPUVIRTUALADDRESS args = {
            .hAdapter = handle(w, ADAPTER), .BaseAddress = gpu_address, .Size = 1 << 20};
        (void)CALL(D3DKMTFreeGpuVirtualAddress, args);
        break;
    }
    default: {
        D3DDDI_MAPGPUVIRTUALADDRESS args = {.hPagingQueue = handle(w, QUEUE),
            .hAllocation = a->handles[0], .SizeInPages = 1,
            .BaseAddress = draw(w, 2) ? gpu_address : 0, .Protection = {.Value = 1}};
        if (CALL(D3DKMTMapGpuVirtualAddress, args)) {
            gpu_address = args.VirtualAddress;
        }
    }
    }
}

static void queue_work(struct Worker *w, NTSTATUS status)
{
    struct Arena *a = w->arena;
    a->handles[0] = handle(w, FENCE);
    a->values[0] = draw(w, 4);
    switch (draw(w, 6)) {
    case 0: {
        windtunnel_fill(a->packet, handle(w, ALLOCATION), 0, 64, 7);
        D3DKMT_SUBMITCOMMAND args = {.BroadcastContextCount = 1,
            .BroadcastContext = {handle(w, CONTEXT)}, .Commands = gpu_address, .CommandLength = 64,
            .pPrivateDriverData = a->packet, .PrivateDriverDataSize = WINDTUNNEL_FILL_SIZE};
        (void)CALL(D3DKMTSubmitCommand, args);
        break;
    }
    case 1: {
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU args = {.hContext = handle(w, CONTEXT),
            .ObjectCount = 1, .ObjectHandleArray = a->handles, .MonitoredFenceValueArray = a->values};
        (void)CALL(D3DKMTWaitForSynchronizationObjectFromGpu, args);
        break;
    }
    case 2: {
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU args = {.hContext = handle(w, CONTEXT),
            .ObjectCount = 1, .ObjectHandleArray = a->handles, .MonitoredFenceValueArray = a->values};
        (void)CALL(D3DKMTSignalSynchronizationObjectFromGpu, args);
        break;
    }
    case 3: {
        int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        keep_descriptor(event);
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args = {.hDevice = handle(w, DEVICE),
            .ObjectCount = 1, .ObjectHandleArray = a->handles, .FenceValueArray = a->values,
            .hAsyncEvent = (HANDLE)(intptr_t)event};
        /* Unchanged: a call without an event waits. */
        PLAIN(D3DKMTWaitForSynchronizationObjectFromCpu, (&args));
        break;
    }
    default: {
        a->values[0] = draw(w, 8);
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args = {.hDevice = handle(w, DEVICE),
            .ObjectCount = 1, .ObjectHandleArray = a->handles, .FenceValueArray = a->values};
        args.Flags.AllowFenceRewind = draw(w, 8) == 0;
        (void)CALL(D3DKMTSignalSynchronizationObjectFromCpu, args);
    }
    }
}

static void trimmed(D3DKMT_TRIMNOTIFICATION *notification) { (void)notification; }

static void share(struct Worker *w, NTSTATUS status)
{
    struct Arena *a = w->arena;
    a->values[1] = 0; /* no time */
    switch (draw(w, 7)) {
    case 0: {
        a->handles[0] = handle(w, draw(w, 2) ? RESOURCE : FENCE);
        a->attributes = (OBJECT_ATTRIBUTES){.Length = sizeof a->attributes};
        D3DKMT_SHAREOBJECTS args = {.ObjectCount = 1, .ObjectHandleArray = a->handles,
            .pObjectAttributes = &a->attributes, .DesiredAccess = 0x10000000,
            .pSharedNtHandle = &a->shared};
        change(w, &args, sizeof args);
        a->shared = NULL;
        w->is_inside = 1;
        status = share_objects(&args);
        count(w, status);
        if (status >= 0 && args.pSharedNtHandle == &a->shared) {
            keep_descriptor((int)(intptr_t)a->shared);
        }
        break;
    }
    case 1: {
        D3DKMT_QUERYRESOURCEINFO args = {
            .hDevice = handle(w, DEVICE), .hGlobalShare = handle(w, GLOBAL)};
        (void)CALL(D3DKMTQueryResourceInfo, args);
        break;
    }
    case 2: {
        D3DKMT_OPENRESOURCE args = {.hDevice = handle(w, DEVICE), .hGlobalShare = handle(w, GLOBAL),
            .NumAllocations = 1, .pOpenAllocationInfo2 = a->opened,
            .pTotalPrivateDriverDataBuffer = a->data,
            .TotalPrivateDriverDataBufferSize = sizeof a->data};
        if (CALL(D3DKMTOpenResource2, args)) {
            keep(w, RESOURCE, args.hResource);
            keep(w, ALLOCATION, a->opened[0].hAllocation);
        }
        break;
    }
    case 3: {
        D3DKMT_ACQUIREKEYEDMUTEX args = {.hKeyedMutex = handle(w, MUTEX), .Key = draw(w, 2),
            .pTimeout = (LARGE_INTEGER *)&a->values[1]};
        /* Unchanged: a call without a limit waits. */
        PLAIN(D3DKMTAcquireKeyedMutex, (&args));
        break;
    }
    case 4: {
        D3DKMT_RELEASEKEYEDMUTEX args = {.hKeyedMutex = handle(w, MUTEX), .Key = draw(w, 2)};
        (void)CALL(D3DKMTReleaseKeyedMutex, args);
        break;
    }
    case 5: {
        D3DKMT_REGISTERTRIMNOTIFICATION args = {
            .hDevice = handle(w, DEVICE), .Callback = trimmed};
        PLAIN(D3DKMTRegisterTrimNotification, (&args));
        break;
    }
    default: {
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 args = {.hDevice = handle(w, DEVICE),
            .hNtHandle = (HANDLE)(intptr_t)descriptors[draw(w, DESCRIPTORS)]};
        if (CALL(D3DKMTOpenSyncObjectFromNtHandle2, args)) {
            keep(w, FENCE, args.hSyncObject);
        }
    }
    }
}

/* Calls that wait if their structure asks for that; and one that is called back. */
static int may_wait(const char *name)
{
    return strstr(name, "AcquireKeyedMutex") != NULL || strstr(name, "ObjectFromCpu") != NULL
           || strcmp(name, "D3DKMTRegisterTrimNotification") == 0;
}

static void call_any(struct Worker *w)
{
    uint64_t row = draw(w, ROW_COUNT + 4);
    switch (row < ROW_COUNT ? 0 : row - ROW_COUNT + 1) {
    case 0:
        if (!may_wait(ROWS[row].name)) {
            /* The members of one structure are passed one by one. */
            int elsewhere = draw(w, 16) == 0 && ROWS[row].call != share_objects;
            void *args = random_words(w, ROWS[row].bytes);
            args = elsewhere ? (void *)address(w) : args;
            PLAIN(ROWS[row].call, (args));
        }
        break;
    case 1:
        PLAIN(D3DKMTCheckExclusiveOwnership, ());
        break;
    case 2:
        PLAIN(windtunnel_event_reset, ((HANDLE)address(w)));
        break;
    case 3:
        PLAIN(windtunnel_nt_handle_type, ((HANDLE)(intptr_t)descriptors[draw(w, DESCRIPTORS)],
                                          (char *)address(w), draw(w, 64)));
        break;
    default:
        PLAIN(windtunnel_nt_handle_name, ((HANDLE)(intptr_t)descriptors[draw(w, DESCRIPTORS)],
                                          (char *)address(w), draw(w, 64)));
    }
}

static void call_one(struct Worker *w)
{
    switch (draw(w, 16)) {
    case 0: case 1: case 2: case 3:
        create_objects(w, 0);
        break;
    case 4: case 5: case 6:
        destroy_objects(w, 0);
        break;
    case 7: case 8: case 9:
        use_memory(w, 0);
        break;
    case 10: case 11: case 12:
        queue_work(w, 0);
        break;
    case 13:
        share(w, 0);
        break;
    default:
        call_any(w);
    }
}

/* A child calls, too: of a kernel in this process its calls are refused, with a server it is a client. */
static void fork_one(struct Worker *w)
{
    int before;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(300);
        D3DKMT_ENUMADAPTERS2 none = {0};
        CHECK(!is_here || D3DKMTEnumAdapters2(&none) == STATUS_DEVICE_REMOVED);
        for (int i = 0; i < 20; i++) {
            call_any(w);
        }
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        CHECK(errno == EINTR);
    }
    CHECK(status == 0);
    CHECK(pthread_setcancelstate(before, NULL) == 0);
}

static void on_signal(int signal)
{
    (void)signal;
    /* The library is not called while its thread may be inside the C library. */
    if (self == NULL || !self->is_inside) {
        return;
    }
    int before = errno;
    D3DKMT_CREATEDEVICE args = {.hAdapter = pool[ADAPTER][0]};
    (void)D3DKMTCreateDevice(&args);
    errno = before;
}

static void *work(void *at)
{
    struct Worker *w = self = at;
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    while (!ends) {
        if (pauses) {
            w->state = 2;
            usleep(500);
            continue;
        }
        w->state = 1;
        call_one(w);
        if (draw(w, 20000) == 0) {
            fork_one(w);
        }
    }
    w->state = 0;
    return NULL;
}

static void start(struct Worker *w)
{
    w->state = 1;
    CHECK(pthread_create(&w->thread, NULL, work, w) == 0);
}

/* Lets calls that wait return: all devices are in error. */
static void release_waits(void)
{
    for (D3DKMT_HANDLE device = 1u << 30; device != 0; device = next_handle(device)) {
        D3DKMT_MARKDEVICEASERROR mark = {
            .hDevice = device, .Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC};
        (void)D3DKMTMarkDeviceAsError(&mark);
    }
}

/* Waits until all threads have paused, and releases those that wait in a call. */
static void pause_all(int threads)
{
    pauses = 1;
    for (int turn = 0; turn < 6000; turn++) {
        int busy = 0;
        for (int i = 0; i < threads; i++) {
            busy += workers[i].state == 1;
        }
        if (busy == 0) {
            return;
        }
        if (turn % 20 == 19) {
            release_waits();
        }
        usleep(50 * 1000);
    }
    fprintf(stderr, "hostile calls: a call does not return\n");
    abort();
}

static void destroy_all(void)
{
    release_waits();
    for (D3DKMT_HANDLE object = 1u << 30; object != 0; object = next_handle(object)) {
        D3DKMT_DESTROYDEVICE device = {.hDevice = object};
        D3DKMT_DESTROYKEYEDMUTEX mutex = {.hKeyedMutex = object};
        D3DKMT_CLOSEADAPTER adapter = {.hAdapter = object};
        D3DKMT_DESTROYSYNCHRONIZATIONOBJECT sync = {.hSyncObject = object};
        if (D3DKMTDestroyDevice(&device) < 0 && D3DKMTDestroyKeyedMutex(&mutex) < 0
            && D3DKMTDestroySynchronizationObject(&sync) < 0) {
            (void)D3DKMTCloseAdapter(&adapter);
        }
    }
    for (int i = 0; i < DESCRIPTORS; i++) {
        int number = atomic_exchange(&descriptors[i], 0);
        if (number > 2) {
            close(number);
        }
    }
}

static long resident(void)
{
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    return pages * PAGE;
}

static void furnish(struct Worker *w)
{
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && sizeof(struct Arena) <= 2 * PAGE);
    CHECK(mprotect(pages + 2 * PAGE, PAGE, PROT_NONE) == 0);
    w->arena = (struct Arena *)(void *)pages;
}

/* Waits until a cancelled thread has ended. While its call waits, the others pause: what it waits for may
 * come from a call of theirs, and they would fill the memory until then. */
static void join(struct Worker *w)
{
    void *result;
    for (int turn = 0; pthread_tryjoin_np(w->thread, &result) != 0; turn++) {
        CHECK(turn < 30000);
        usleep(10 * 1000);
        if (turn % 100 == 20) {
            pauses = 1;
            release_waits();
        }
    }
    pauses = 0;
    CHECK(result == PTHREAD_CANCELED);
}

/* Sends signals, and cancels threads, until the calls of the epoch are made. */
static void disturb(int threads, uint64_t until)
{
    uint64_t before = 0;
    for (int turn = 0, still = 0; all_calls < until; turn++) {
        usleep(10 * 1000);
        struct Worker *w = &workers[turn % threads];
        CHECK(pthread_kill(w->thread, SIGUSR1) == 0);
        if (turn % 50 == 49) {
            CHECK(pthread_cancel(w->thread) == 0);
            join(w);
            start(w);
        }
        still = all_calls == before ? still + 1 : 0;
        if (still == 0) {
            alarm(PATIENCE);
        }
        before = all_calls;
        if (still % 100 == 99) {
            release_waits(); /* every thread may wait */
        }
        CHECK(still < 30000);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc > 3);
    limit = strtoull(argv[1], NULL, 10);
    int threads = atoi(argv[2]);
    CHECK(threads > 0 && threads <= THREADS);
    is_here = argc > 4;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < threads; i++) {
        workers[i].random = strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15 + (uint64_t)i + 1;
        furnish(&workers[i]);
    }
    uint64_t epochs = limit / EPOCH_CALLS + 1, lines = epochs < LINES ? epochs : LINES;
    long memory[LINES] = {0};
    for (uint64_t epoch = 0, line = 0; epoch < epochs; epoch++) {
        D3DKMT_HANDLE adapter = open_adapter();
        for (int i = 0; i < POOL; i++) {
            pool[ADAPTER][i] = adapter;
        }
        for (int i = 0; epoch == 0 && i < threads; i++) {
            start(&workers[i]);
        }
        pauses = 0;
        disturb(threads, limit / epochs * (epoch + 1));
        long most = resident();
        alarm(PATIENCE);
        pause_all(threads);
        destroy_all();
        if ((epoch + 1) * lines / epochs > line) {
            memory[line++] = resident();
            printf("%llu calls, %llu succeeded, %ld kB before and %ld kB after all is destroyed\n",
                   (unsigned long long)all_calls, (unsigned long long)good_calls, most / 1024,
                   memory[line - 1] / 1024);
            fflush(stdout);
        }
    }
    ends = 1;
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    }
    CHECK(good_calls > all_calls / 50);
    CHECK(!is_here || lines < 2 || memory[lines - 1] - memory[1] < MOST_GROWTH);
    puts("hostile calls: all answered");
    return EXIT_SUCCESS;
}
