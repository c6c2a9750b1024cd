/* Two clients of a server. The first queues a wait for a fence that nothing signals, submits a packet
   behind the wait and evicts the packet's allocation. One of its threads waits for the packet. The
   second client (`beside`) works meanwhile. At the end of its input, the first one signals the fence. */
#include "client.h"

#include <pthread.h>
#include <string.h>

enum { PAGE = 4096, VALUE = 0xa5 };

static D3DKMT_HANDLE adapter, device, context, queue, paging_fence;

static void start(void)
{
    adapter = open_adapter();
    device = create_device(adapter);
    D3DKMT_CREATECONTEXTVIRTUAL create = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&create) == STATUS_SUCCESS);
    context = create.hContext;
    D3DKMT_CREATEPAGINGQUEUE paging = {.hDevice = device};
    CHECK(D3DKMTCreatePagingQueue(&paging) == STATUS_SUCCESS);
    queue = paging.hPagingQueue;
    paging_fence = paging.hSyncObject;
}

static void make_resident(D3DKMT_HANDLE allocation)
{
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = queue, .NumAllocations = 1, .AllocationList = &allocation};
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &paging_fence, .FenceValueArray = &resident.PagingFenceValue};
    CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
}

static void evict(D3DKMT_HANDLE allocation)
{
    D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = 1, .AllocationList = &allocation};
    CHECK(D3DKMTEvict(&evict) == STATUS_SUCCESS);
}

static void fill(D3DKMT_HANDLE target)
{
    uint8_t packet[WINDTUNNEL_FILL_SIZE];
    windtunnel_fill(packet, target, 0, PAGE, VALUE);
    D3DKMT_SUBMITCOMMAND submit = {.BroadcastContextCount = 1, .BroadcastContext = {context},
        .pPrivateDriverData = packet, .PrivateDriverDataSize = sizeof packet};
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_SUCCESS);
}

static void check_bytes(D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = allocation};
    CHECK(D3DKMTLock2(&lock) == STATUS_SUCCESS);
    const unsigned char *bytes = lock.pData;
    for (int i = 0; i < PAGE; i++)
        CHECK(bytes[i] == VALUE);
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = allocation};
    CHECK(D3DKMTUnlock2(&unlock) == STATUS_SUCCESS);
}

static void finish(void)
{
    D3DDDI_DESTROYPAGINGQUEUE end_queue = {.hPagingQueue = queue};
    CHECK(D3DKMTDestroyPagingQueue(&end_queue) == STATUS_SUCCESS);
    D3DKMT_DESTROYCONTEXT end = {.hContext = context};
    CHECK(D3DKMTDestroyContext(&end) == STATUS_SUCCESS);
    destroy_device(device);
    close_adapter(adapter);
}

/* Waits until the packets of the allocation have completed. */
static void *lock_after_work(void *allocation)
{
    D3DKMT_HANDLE target = *(D3DKMT_HANDLE *)allocation;
    D3DKMT_LOCK lock = {.hDevice = device, .hAllocation = target, .Flags = {.LockEntire = 1}};
    CHECK(D3DKMTLock(&lock) == STATUS_SUCCESS);
    D3DKMT_UNLOCK unlock = {.hDevice = device, .NumAllocations = 1, .phAllocations = &target};
    CHECK(D3DKMTUnlock(&unlock) == STATUS_SUCCESS);
    return NULL;
}

/* Work of another client. */
static void beside(void)
{
    for (int i = 0; i < 8; i++) {
        start();
        D3DKMT_HANDLE allocation = create_allocation(device);
        make_resident(allocation);
        fill(allocation);
        lock_after_work(&allocation);
        check_bytes(allocation);
        evict(allocation);
        check_bytes(allocation);
        destroy_allocation(device, allocation);
        finish();
    }
    puts("beside: done");
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "beside") == 0) {
        beside();
        return EXIT_SUCCESS;
    }
    start();
    D3DKMT_HANDLE allocation = create_allocation(device), other = create_allocation(device);
    make_resident(allocation);
    make_resident(other);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device};
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    CHECK(D3DKMTCreateSynchronizationObject2(&fence) == STATUS_SUCCESS);
    uint64_t value = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait = {.hContext = context, .ObjectCount = 1,
        .ObjectHandleArray = &fence.hSyncObject, .MonitoredFenceValueArray = &value};
    CHECK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait) == STATUS_SUCCESS);
    fill(allocation);
    evict(allocation);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, lock_after_work, &other) == 0);
    puts("waiting");
    fflush(stdout);
    CHECK(getchar() == EOF);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &fence.hSyncObject, .FenceValueArray = &value};
    CHECK(D3DKMTSignalSynchronizationObjectFromCpu(&signal) == STATUS_SUCCESS);
    pthread_join(thread, NULL);
    make_resident(allocation);
    check_bytes(allocation);
    destroy_allocation(device, allocation);
    destroy_allocation(device, other);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT end = {.hSyncObject = fence.hSyncObject};
    CHECK(D3DKMTDestroySynchronizationObject(&end) == STATUS_SUCCESS);
    finish();
    puts("signalled: done");
    return EXIT_SUCCESS;
}
