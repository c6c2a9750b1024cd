/* A client and its own driver (WINDTUNNEL_DRIVER names a file) in one process: an allocation is
 * filled by the GPU of the driver and read. With an argument the client then faults itself. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include <time.h>

enum { SIZE = 4096 };

static D3DKMT_HANDLE own_adapter(void)
{
    D3DKMT_ADAPTERINFO adapters[4] = {0};
    D3DKMT_ENUMADAPTERS3 list = {.NumAdapters = 4, .pAdapters = adapters};
    list.Filter.IncludeComputeOnly = 1;
    CHECK(D3DKMTEnumAdapters3(&list) == STATUS_SUCCESS);
    printf("adapters: %u\n", list.NumAdapters);
    fflush(stdout);
    return list.NumAdapters == 1 ? adapters[0].hAdapter : 0;
}

static void make_resident(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation)
{
    D3DKMT_CREATEPAGINGQUEUE queue = {.hDevice = device};
    CHECK(D3DKMTCreatePagingQueue(&queue) == STATUS_SUCCESS);
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = queue.hPagingQueue, .NumAllocations = 1, .AllocationList = &allocation};
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &queue.hSyncObject,
        .FenceValueArray = &resident.PagingFenceValue};
    CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
    D3DDDI_DESTROYPAGINGQUEUE end = {.hPagingQueue = queue.hPagingQueue};
    CHECK(D3DKMTDestroyPagingQueue(&end) == STATUS_SUCCESS);
}

static void fill(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation)
{
    D3DKMT_CREATECONTEXTVIRTUAL context = {
        .hDevice = device, .EngineAffinity = 1, .ClientHint = D3DKMT_CLIENTHINT_VULKAN};
    CHECK(D3DKMTCreateContextVirtual(&context) == STATUS_SUCCESS);
    uint8_t packet[WINDTUNNEL_FILL_SIZE];
    windtunnel_fill(packet, allocation, 0, SIZE, 0xa5);
    D3DKMT_SUBMITCOMMAND submit = {
        .BroadcastContextCount = 1, .BroadcastContext = {context.hContext},
        .pPrivateDriverData = packet, .PrivateDriverDataSize = sizeof packet};
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_SUCCESS);
    D3DKMT_DESTROYCONTEXT end = {.hContext = context.hContext};
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = allocation};
    CHECK(D3DKMTLock2(&lock) == STATUS_SUCCESS);
    const volatile uint8_t *bytes = lock.pData;
    const struct timespec moment = {.tv_nsec = 1000000};
    while (bytes[SIZE - 1] != 0xa5) {
        nanosleep(&moment, NULL); /* the GPU of the driver fills from the start */
    }
    CHECK(bytes[0] == 0xa5);
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = allocation};
    CHECK(D3DKMTUnlock2(&unlock) == STATUS_SUCCESS);
    CHECK(D3DKMTDestroyContext(&end) == STATUS_SUCCESS);
}

static __attribute__((noinline)) void write_null(void)
{
    volatile int *volatile target = NULL;
    *target = 1; /* the write */
}

int main(int count, char **arguments)
{
    (void)arguments;
    D3DKMT_HANDLE adapter = own_adapter();
    if (adapter == 0) {
        return EXIT_SUCCESS;
    }
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_HANDLE allocation = create_allocation(device);
    make_resident(device, allocation);
    fill(device, allocation);
    if (count > 1) {
        write_null();
    }
    destroy_allocation(device, allocation);
    destroy_device(device);
    close_adapter(adapter);
    puts("filled and read");
    return EXIT_SUCCESS;
}
