/* Two clients of a server that share a resource, a fence and a keyed mutex, by NT handle, by name and
 * by global handle. In C and in C++.
 *
 *   first SECOND                starts SECOND, shares with it and works with it in turns
 *   first SECOND kill WHO CALL  the same, but WHO (1 or 2) is killed near its call CALL
 *
 * The one that is left must go on: it makes objects of its own, and ends with status 0. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"

#include <windtunnel/d3dkmt.h>
#include <windtunnel/softgpu.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZEROED(type, name)                                                                        \
    type name;                                                                                    \
    memset(&name, 0, sizeof name)

/* A call that must succeed. */
#define CALL(name, arguments)                                                                     \
    do {                                                                                          \
        count_call();                                                                             \
        NTSTATUS called = name(arguments);                                                        \
        if (called != STATUS_SUCCESS) {                                                           \
            fprintf(stderr, "%s: %#x\n", #name, (unsigned)called);                                \
        }                                                                                         \
        CHECK(called == STATUS_SUCCESS);                                                          \
    } while (0)

static int calls, killed_at, talk;
static D3DKMT_HANDLE adapter, device;

static void *kill_soon(void *delay)
{
    for (volatile long turn = (long)delay; turn > 0; turn--) {
    }
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Kills this process in or around its call, if that is asked for. */
static void count_call(void)
{
    if (++calls == killed_at) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, kill_soon, (void *)(long)(getpid() * 7919L % 20000)) == 0);
    }
}

/* At the end of a process that is to be killed: the thread that does it may be late. */
static void wait_for_kill(void)
{
    while (killed_at != 0 && calls >= killed_at) {
        pause();
    }
}

/* A message to the other process, with a descriptor if there is one. */
static void tell(const void *bytes, size_t size, int descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec content = {(void *)bytes, size};
    ZEROED(struct msghdr, message);
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    /* The other one may be dead. */
    (void)!sendmsg(talk, &message, MSG_NOSIGNAL);
}

/* Waits for a message. Returns zero if the other process is dead. */
static int hear(void *bytes, size_t size, int *descriptor)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec content = {bytes, size};
    ZEROED(struct msghdr, message);
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(talk, &message, MSG_CMSG_CLOEXEC) <= 0) {
        return 0;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (descriptor != NULL) {
        CHECK(header != NULL && header->cmsg_type == SCM_RIGHTS);
        memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
    }
    return 1;
}

static void begin(void)
{
    ZEROED(D3DKMT_ENUMADAPTERS2, list);
    D3DKMT_ADAPTERINFO adapters[4];
    memset(adapters, 0, sizeof adapters);
    list.NumAdapters = 4;
    list.pAdapters = adapters;
    CALL(D3DKMTEnumAdapters2, &list);
    adapter = adapters[0].hAdapter;
    ZEROED(D3DKMT_CREATEDEVICE, create);
    create.hAdapter = adapter;
    CALL(D3DKMTCreateDevice, &create);
    device = create.hDevice;
}

static void end(void)
{
    ZEROED(D3DKMT_DESTROYDEVICE, destroy);
    destroy.hDevice = device;
    CALL(D3DKMTDestroyDevice, &destroy);
    ZEROED(D3DKMT_CLOSEADAPTER, close_it);
    close_it.hAdapter = adapter;
    CALL(D3DKMTCloseAdapter, &close_it);
}

/* A resource of one allocation. Returns its global handle. */
static D3DKMT_HANDLE create_resource(int nt, D3DKMT_HANDLE *resource, D3DKMT_HANDLE *allocation)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, 8192);
    ZEROED(D3DDDI_ALLOCATIONINFO2, info);
    info.pPrivateDriverData = description;
    info.PrivateDriverDataSize = sizeof description;
    ZEROED(D3DKMT_CREATEALLOCATION, create);
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.pPrivateRuntimeData = "runtime";
    create.PrivateRuntimeDataSize = 7;
    create.Flags.CreateResource = 1;
    create.Flags.CreateShared = 1;
    create.Flags.NtSecuritySharing = nt ? 1 : 0;
    CALL(D3DKMTCreateAllocation2, &create);
    *resource = create.hResource;
    *allocation = info.hAllocation;
    return create.hGlobalShare;
}

static void destroy_resource(D3DKMT_HANDLE resource)
{
    ZEROED(D3DKMT_DESTROYALLOCATION2, destroy);
    destroy.hDevice = device;
    destroy.hResource = resource;
    CALL(D3DKMTDestroyAllocation2, &destroy);
}

static volatile uint32_t *lock(D3DKMT_HANDLE allocation)
{
    ZEROED(D3DKMT_LOCK2, it);
    it.hDevice = device;
    it.hAllocation = allocation;
    CALL(D3DKMTLock2, &it);
    return (volatile uint32_t *)it.pData;
}

static void unlock(D3DKMT_HANDLE allocation)
{
    ZEROED(D3DKMT_UNLOCK2, it);
    it.hDevice = device;
    it.hAllocation = allocation;
    CALL(D3DKMTUnlock2, &it);
}

static void signal_fence(D3DKMT_HANDLE fence, uint64_t value)
{
    ZEROED(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU, it);
    it.hDevice = device;
    it.ObjectCount = 1;
    it.ObjectHandleArray = &fence;
    it.FenceValueArray = &value;
    CALL(D3DKMTSignalSynchronizationObjectFromCpu, &it);
}

static void wait_for_fence(D3DKMT_HANDLE fence, uint64_t value)
{
    ZEROED(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, it);
    it.hDevice = device;
    it.ObjectCount = 1;
    it.ObjectHandleArray = &fence;
    it.FenceValueArray = &value;
    CALL(D3DKMTWaitForSynchronizationObjectFromCpu, &it);
}

static void destroy_fence(D3DKMT_HANDLE fence)
{
    ZEROED(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT, it);
    it.hSyncObject = fence;
    CALL(D3DKMTDestroySynchronizationObject, &it);
}

static void acquire(D3DKMT_HANDLE mutex, uint64_t key)
{
    ZEROED(D3DKMT_ACQUIREKEYEDMUTEX, it);
    it.hKeyedMutex = mutex;
    it.Key = key;
    CALL(D3DKMTAcquireKeyedMutex, &it);
}

static void release(D3DKMT_HANDLE mutex, uint64_t key)
{
    ZEROED(D3DKMT_RELEASEKEYEDMUTEX, it);
    it.hKeyedMutex = mutex;
    it.Key = key;
    CALL(D3DKMTReleaseKeyedMutex, &it);
}

static void destroy_mutex(D3DKMT_HANDLE mutex)
{
    ZEROED(D3DKMT_DESTROYKEYEDMUTEX, it);
    it.hKeyedMutex = mutex;
    CALL(D3DKMTDestroyKeyedMutex, &it);
}

typedef struct {
    uint16_t units[32];
    UNICODE_STRING text;
    OBJECT_ATTRIBUTES attributes;
} Name;

/* A name that no other pair of processes uses. */
static OBJECT_ATTRIBUTES *named(Name *it, int pair)
{
    char text[32];
    int length = snprintf(text, sizeof text, "pair %d", pair);
    memset(it, 0, sizeof *it);
    for (int i = 0; i < length; i++) {
        it->units[i] = (uint8_t)text[i];
    }
    it->text.Length = it->text.MaximumLength = (uint16_t)(2 * length);
    it->text.Buffer = it->units;
    it->attributes.Length = sizeof it->attributes;
    it->attributes.ObjectName = &it->text;
    return &it->attributes;
}

/* What the first process tells the second one. */
typedef struct {
    int pair;
    D3DKMT_HANDLE resource, mutex;
} Shared;

/* Work that needs no other process. */
static void work_alone(void)
{
    D3DKMT_HANDLE resource, allocation;
    create_resource(0, &resource, &allocation);
    volatile uint32_t *bytes = lock(allocation);
    bytes[0] = 7;
    CHECK(bytes[0] == 7);
    unlock(allocation);
    destroy_resource(resource);
}

static D3DKMT_HANDLE open_bundle(HANDLE handle, D3DKMT_HANDLE *allocation, D3DKMT_HANDLE *mutex,
                                 D3DKMT_HANDLE *fence)
{
    ZEROED(D3DDDI_OPENALLOCATIONINFO2, info);
    char runtime[7], total[WINDTUNNEL_DESCRIPTION_SIZE];
    ZEROED(D3DKMT_OPENRESOURCEFROMNTHANDLE, open);
    open.hDevice = device;
    open.hNtHandle = handle;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &info;
    open.pPrivateRuntimeData = runtime;
    open.PrivateRuntimeDataSize = 7;
    open.pTotalPrivateDriverDataBuffer = total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    CALL(D3DKMTOpenResourceFromNtHandle, &open);
    CHECK(memcmp(runtime, "runtime", 7) == 0);
    *allocation = info.hAllocation;
    *mutex = open.hKeyedMutex;
    *fence = open.hSyncObject;
    return open.hResource;
}

/* The first process. */
static void first(void)
{
    D3DKMT_HANDLE objects[3], allocation, global_resource, global_allocation;
    begin();
    create_resource(1, &objects[0], &allocation);
    ZEROED(D3DKMT_CREATEKEYEDMUTEX2, mutex);
    mutex.Flags.NtSecuritySharing = 1;
    CALL(D3DKMTCreateKeyedMutex2, &mutex);
    objects[1] = mutex.hKeyedMutex;
    ZEROED(D3DKMT_CREATESYNCHRONIZATIONOBJECT2, fence);
    fence.hDevice = device;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    fence.Info.Flags.Shared = 1;
    fence.Info.Flags.NtSecuritySharing = 1;
    CALL(D3DKMTCreateSynchronizationObject2, &fence);
    objects[2] = fence.hSyncObject;
    const volatile uint64_t *value =
        (const volatile uint64_t *)fence.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    CHECK(*value == 0);
    ZEROED(Shared, shared);
    shared.pair = getpid();
    shared.resource = create_resource(0, &global_resource, &global_allocation);
    ZEROED(D3DKMT_CREATEKEYEDMUTEX, global_mutex);
    CALL(D3DKMTCreateKeyedMutex, &global_mutex);
    shared.mutex = global_mutex.hSharedHandle;
    Name name;
    HANDLE handle = NULL;
    count_call();
    CHECK(D3DKMTShareObjects(3, objects, named(&name, shared.pair), GENERIC_ALL, &handle)
          == STATUS_SUCCESS);

    acquire(objects[1], 0);
    lock(allocation)[100] = 0x600d;
    tell(&shared, sizeof shared, (int)(intptr_t)handle);
    close((int)(intptr_t)handle);
    char answer = 0;
    int is_there = hear(&answer, 1, NULL); /* All is open there. */
    release(objects[1], 1);
    signal_fence(objects[2], 1);
    tell("s", 1, -1);
    is_there = is_there && hear(&answer, 1, NULL); /* Signalled and released there. */
    if (is_there) {
        wait_for_fence(objects[2], 2);
        CHECK(*value == 2);
        acquire(objects[1], 2);
        volatile uint32_t *bytes = lock(allocation);
        CHECK(bytes[100] == 0x600d);
        unlock(allocation);
        acquire(global_mutex.hKeyedMutex, 9);
        /* The other one waits already, or is about to. */
        tell("w", 1, -1);
        usleep(500);
        signal_fence(objects[2], 3);
        is_there = hear(&answer, 1, NULL);
    }
    work_alone();
    unlock(allocation);
    destroy_resource(objects[0]);
    destroy_mutex(objects[1]);
    destroy_fence(objects[2]);
    destroy_mutex(global_mutex.hKeyedMutex);
    destroy_resource(global_resource);
    end();
}

/* The second process. */
static void second(void)
{
    D3DKMT_HANDLE resource, allocation, mutex, fence, again, allocation2, mutex2, fence2;
    begin();
    Shared shared;
    int descriptor = -1;
    if (!hear(&shared, sizeof shared, &descriptor)) {
        work_alone();
        end();
        return;
    }
    resource = open_bundle((HANDLE)(intptr_t)descriptor, &allocation, &mutex, &fence);
    Name name;
    ZEROED(D3DKMT_OPENNTHANDLEFROMNAME, by_name);
    by_name.dwDesiredAccess = GENERIC_ALL;
    by_name.pObjAttrib = named(&name, shared.pair);
    CALL(D3DKMTOpenNtHandleFromName, &by_name);
    again = open_bundle(by_name.hNtHandle, &allocation2, &mutex2, &fence2);
    close(descriptor);
    close((int)(intptr_t)by_name.hNtHandle);
    tell("o", 1, -1);
    char answer = 0;
    if (hear(&answer, 1, NULL)) {
        ZEROED(D3DDDI_OPENALLOCATIONINFO2, info);
        char runtime[7], total[WINDTUNNEL_DESCRIPTION_SIZE];
        ZEROED(D3DKMT_OPENRESOURCE, open);
        open.hDevice = device;
        open.hGlobalShare = shared.resource;
        open.NumAllocations = 1;
        open.pOpenAllocationInfo2 = &info;
        open.pPrivateRuntimeData = runtime;
        open.PrivateRuntimeDataSize = 7;
        open.pTotalPrivateDriverDataBuffer = total;
        open.TotalPrivateDriverDataBufferSize = sizeof total;
        count_call();
        NTSTATUS opened = D3DKMTOpenResource2(&open);
        /* A global handle keeps nothing alive: the other one may have died. */
        CHECK(opened == STATUS_SUCCESS || opened == STATUS_INVALID_PARAMETER);
        ZEROED(D3DKMT_OPENKEYEDMUTEX, global);
        global.hSharedHandle = shared.mutex;
        count_call();
        NTSTATUS found = D3DKMTOpenKeyedMutex(&global);
        CHECK(found == STATUS_SUCCESS || found == STATUS_INVALID_PARAMETER);
        wait_for_fence(fence, 1);
        wait_for_fence(fence2, 1);
        acquire(mutex, 1);
        release(mutex, 2);
        if (found == STATUS_SUCCESS) {
            acquire(global.hKeyedMutex, 0);
            release(global.hKeyedMutex, 9);
            destroy_mutex(global.hKeyedMutex);
        }
        signal_fence(fence2, 2);
        if (opened == STATUS_SUCCESS) {
            destroy_resource(open.hResource);
        }
        tell("d", 1, -1);
        if (hear(&answer, 1, NULL) && killed_at == 0 && getenv("ONE_IS_KILLED") == NULL) {
            wait_for_fence(fence, 3);
        }
        tell("e", 1, -1);
    }
    work_alone();
    CHECK(allocation != 0 && allocation2 != 0);
    destroy_resource(resource);
    destroy_resource(again);
    destroy_mutex(mutex);
    destroy_mutex(mutex2);
    destroy_fence(fence);
    destroy_fence(fence2);
    end();
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "second") == 0) {
        talk = atoi(arguments[2]);
        killed_at = atoi(arguments[3]);
        second();
        wait_for_kill();
        return 0;
    }
    CHECK(count == 2 || count == 5);
    int killed = count == 5 ? atoi(arguments[3]) : 0;
    const char *at = count == 5 ? arguments[4] : "0";
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    if (killed != 0) {
        setenv("ONE_IS_KILLED", "1", 1);
    }
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        close(ends[0]);
        char number[16];
        snprintf(number, sizeof number, "%d", ends[1]);
        execl(arguments[1], arguments[1], "second", number, killed == 2 ? at : "0", (char *)NULL);
        CHECK(!"no second process");
    }
    close(ends[1]);
    talk = ends[0];
    /* A third process makes the calls of the first one, so that this one can tell how both ended. */
    pid_t maker = fork();
    CHECK(maker >= 0);
    if (maker == 0) {
        killed_at = killed == 1 ? atoi(at) : 0;
        first();
        wait_for_kill();
        exit(0);
    }
    close(ends[0]);
    int status[2];
    CHECK(waitpid(maker, &status[0], 0) == maker && waitpid(process, &status[1], 0) == process);
    for (int i = 0; i < 2; i++) {
        int was_killed = WIFSIGNALED(status[i]) && WTERMSIG(status[i]) == SIGKILL;
        int is_well = WIFEXITED(status[i]) && WEXITSTATUS(status[i]) == 0;
        CHECK(is_well || (was_killed && killed == i + 1));
        if (was_killed) {
            puts("one was killed, the other one went on");
        }
    }
    if (killed == 0) {
        puts("two processes: all shared");
    }
    return 0;
}
