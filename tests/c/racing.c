/* Two threads of one client: one makes a call, the other ends the object that the call takes. Each
 * call returns, and succeeds or fails; the client works with new objects afterwards. */
#define _GNU_SOURCE
#include "client.h"

#include <pthread.h>

enum { LOCKS = 2000 };

/* The objects of a turn. */
static D3DKMT_HANDLE adapter, device, context, allocation, queue, fence;
static pthread_barrier_t turn;
static NTSTATUS (*calls)(void);
static int is_over;

static NTSTATUS lock(void)
{
    D3DKMT_LOCK2 args = {.hDevice = device, .hAllocation = allocation};
    return D3DKMTLock2(&args);
}

static NTSTATUS unlock(void)
{
    D3DKMT_UNLOCK2 args = {.hDevice = device, .hAllocation = allocation};
    return D3DKMTUnlock2(&args);
}

static NTSTATUS make_resident(void)
{
    D3DDDI_MAKERESIDENT args = {
        .hPagingQueue = queue, .NumAllocations = 1, .AllocationList = &allocation};
    return D3DKMTMakeResident(&args);
}

static NTSTATUS evict(void)
{
    D3DKMT_EVICT args = {.hDevice = device, .NumAllocations = 1, .AllocationList = &allocation};
    return D3DKMTEvict(&args);
}

static NTSTATUS offer(void)
{
    D3DKMT_OFFERALLOCATIONS args = {.hDevice = device,
                                    .HandleList = &allocation,
                                    .NumAllocations = 1,
                                    .Priority = D3DKMT_OFFER_PRIORITY_LOW};
    return D3DKMTOfferAllocations(&args);
}

static NTSTATUS query_residency(void)
{
    D3DKMT_ALLOCATIONRESIDENCYSTATUS status;
    D3DKMT_QUERYALLOCATIONRESIDENCY args = {.hDevice = device,
                                            .phAllocationList = &allocation,
                                            .AllocationCount = 1,
                                            .pResidencyStatus = &status};
    return D3DKMTQueryAllocationResidency(&args);
}

static NTSTATUS set_priority(void)
{
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY args = {.hContext = context, .Priority = 1};
    return D3DKMTSetContextSchedulingPriority(&args);
}

static NTSTATUS signal_cpu(void)
{
    uint64_t value = 2;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args = {
        .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &fence, .FenceValueArray = &value};
    return D3DKMTSignalSynchronizationObjectFromCpu(&args);
}

static NTSTATUS signal_gpu(void)
{
    uint64_t value = 2;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU args = {.hContext = context,
                                                      .ObjectCount = 1,
                                                      .ObjectHandleArray = &fence,
                                                      .MonitoredFenceValueArray = &value};
    return D3DKMTSignalSynchronizationObjectFromGpu(&args);
}

static NTSTATUS wait_cpu(void)
{
    uint64_t value = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args = {
        .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &fence, .FenceValueArray = &value};
    return D3DKMTWaitForSynchronizationObjectFromCpu(&args);
}

static NTSTATUS create_queue(void)
{
    D3DKMT_CREATEPAGINGQUEUE args = {.hDevice = device};
    return D3DKMTCreatePagingQueue(&args);
}

static NTSTATUS create_context(void)
{
    D3DKMT_CREATECONTEXTVIRTUAL args = {.hDevice = device, .EngineAffinity = 1};
    return D3DKMTCreateContextVirtual(&args);
}

static NTSTATUS end_allocation(void)
{
    D3DKMT_DESTROYALLOCATION2 args = {
        .hDevice = device, .phAllocationList = &allocation, .AllocationCount = 1};
    return D3DKMTDestroyAllocation2(&args);
}

static NTSTATUS end_context(void)
{
    D3DKMT_DESTROYCONTEXT args = {.hContext = context};
    return D3DKMTDestroyContext(&args);
}

static NTSTATUS end_queue(void)
{
    D3DDDI_DESTROYPAGINGQUEUE args = {.hPagingQueue = queue};
    return D3DKMTDestroyPagingQueue(&args);
}

static NTSTATUS end_fence(void)
{
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT args = {.hSyncObject = fence};
    return D3DKMTDestroySynchronizationObject(&args);
}

static NTSTATUS end_device(void)
{
    D3DKMT_DESTROYDEVICE args = {.hDevice = device};
    return D3DKMTDestroyDevice(&args);
}

static NTSTATUS (*const all_calls[])(void) = {
    lock,       unlock,     make_resident, evict,        offer,          query_residency,
    set_priority, signal_cpu, signal_gpu,  wait_cpu,     create_queue,   create_context,
    end_allocation, end_context, end_queue, end_fence,   end_device,
};
static NTSTATUS (*const all_ends[])(void) = {
    end_allocation, end_context, end_queue, end_fence, end_device,
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Makes the call of each turn. */
static void *caller(void *nothing)
{
    (void)nothing;
    for (;;) {
        pthread_barrier_wait(&turn);
        if (is_over) {
            return NULL;
        }
        /* A call never stays without an end, and never fails for a reason of the kernel. */
        CHECK(calls() != STATUS_UNSUCCESSFUL);
        pthread_barrier_wait(&turn);
    }
}

static void create_objects(void)
{
    device = create_device(adapter);
    D3DKMT_CREATECONTEXTVIRTUAL make_context = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&make_context) == STATUS_SUCCESS);
    context = make_context.hContext;
    allocation = create_allocation(device);
    D3DKMT_CREATEPAGINGQUEUE make_queue = {.hDevice = device};
    CHECK(D3DKMTCreatePagingQueue(&make_queue) == STATUS_SUCCESS);
    queue = make_queue.hPagingQueue;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 make_fence = {.hDevice = device};
    make_fence.Info.Type = D3DDDI_MONITORED_FENCE;
    CHECK(D3DKMTCreateSynchronizationObject2(&make_fence) == STATUS_SUCCESS);
    fence = make_fence.hSyncObject;
    NTSTATUS resident = make_resident();
    CHECK(resident == STATUS_SUCCESS || resident == STATUS_PENDING);
}

/* The call of one thread beside the end on the other. */
static void race(NTSTATUS (*call)(void), NTSTATUS (*end)(void))
{
    calls = call;
    pthread_barrier_wait(&turn);
    CHECK(end() != STATUS_UNSUCCESSFUL);
    signal_cpu(); /* A call that waits for the fence ends, too. */
    pthread_barrier_wait(&turn);
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    adapter = open_adapter();
    CHECK(pthread_create(&thread, NULL, caller, NULL) == 0);
    for (size_t call = 0; call < COUNT(all_calls); call++) {
        for (size_t end = 0; end < COUNT(all_ends); end++) {
            for (int again = 0; again < 3; again++) {
                create_objects();
                race(all_calls[call], all_ends[end]);
                end_device(); /* The turn may have ended it. */
            }
        }
    }
    /* The mission's first function, often. */
    create_objects();
    for (int again = 0; again < LOCKS; again++) {
        race(lock, end_allocation);
        allocation = create_allocation(device);
        make_resident();
    }
    CHECK(end_device() == STATUS_SUCCESS);
    is_over = 1;
    pthread_barrier_wait(&turn);
    CHECK(pthread_join(thread, NULL) == 0);
    /* The kernel works. */
    create_objects();
    CHECK(lock() == STATUS_SUCCESS && unlock() == STATUS_SUCCESS);
    CHECK(end_device() == STATUS_SUCCESS);
    close_adapter(adapter);
    puts("racing: each call returned");
    return 0;
}
